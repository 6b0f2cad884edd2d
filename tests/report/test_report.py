"""The report: words, numbers, one file without a network, and what a browser makes of it."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiment.swing import write as write_files
from report.browser import Browser

import calibody as cb
from calibody import experiment
from calibody.estimate.missing.rests import sentences
from calibody.estimate.result import Rest
from calibody.estimate.validation import Unseen, Validation
from calibody.experiment import folder as run_folder
from calibody.experiment.saved import Saved
from calibody.report import figures, numbers, write
from calibody.report.parameters import forest
from calibody.report.verdict import BAD, GOOD, MIND, verdict


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("report")
    what = experiment.load(write_files(base))
    result = cb.fit(what.model(), what.runs(), what.estimate(), method=what.method)
    run_folder.write(result, base / "fit", what, "calibody fit swing.toml", truth={"body.arm.mass": 0.4})
    write(base / "fit")
    return base / "fit"


def changed(folder: Path, **values: Any) -> Saved:
    """The result with other entries."""
    document = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    return Saved(folder, {**document, **values})


# -- words -------------------------------------------------------------------------------------------------------------------------------


def test_the_verdict_on_a_good_fit(folder: Path) -> None:
    found = verdict(cb.open(folder))
    plain = "Calibrated: all 2 parameters determined, and nothing speaks against the model"
    assert found.level == GOOD and found.headline.startswith(f"{plain} (as right as what was held: 0.62 % of actuator.motor.gain moves body.arm.mass by ")
    assert verdict(changed(folder, rests_on=[])).headline == f"{plain}."
    assert [i.question for i in found.items] == [
        "Did it converge?", "What do the data determine?", "Do the residuals look like noise?", "How far off is a free prediction?",
        "Does it predict what it has not seen?",
    ]  # fmt: skip


def test_a_good_verdict_says_what_nothing_could_speak_against(folder: Path) -> None:
    note = "The error bars take as exact what no residual shows: the scale of the drives (1 % more of it moves body.arm.mass by +1 %, 30 of its standard deviations)."
    found = verdict(changed(folder, notes=[note]))
    assert found.level == GOOD and found.headline.endswith("against the model (the scale of the drives is taken as exact: no residual would show it).")
    rest = Rest("body.arm.com.z", "body.arm.com.z", {"body.arm.mass": 3.3}, {"body.arm.mass": 42.0}, 0.003, 0.0, "m", True)
    found = verdict(changed(folder, notes=sentences([rest]), rests_on=[dataclasses.asdict(rest)]))
    assert found.level == GOOD and found.headline.endswith("(as right as what was held: 3 mm of body.arm.com.z moves body.arm.mass by 42 of its error bars).")


def test_the_verdict_names_what_is_wrong(folder: Path) -> None:
    document = cb.open(folder).document
    stopped = verdict(changed(folder, status="stopped after 60 iterations."))
    assert stopped.headline == "The fit did not converge; do not use its numbers." and not stopped.trusted
    assert [i.question for i in stopped.items] == ["Did it converge?"]  # nothing that is said of a solution
    assert verdict(changed(folder, finished=False)).headline == "This fit is unfinished."

    open_ = {k: {**v, "sd": None, "resolved": False} for k, v in document["parameters"].items()}
    found = verdict(changed(folder, parameters=open_, unresolved=["Only the ratio a : b is determined."]))
    assert found.level == MIND and found.headline == "Calibrated with reservations: 0 of 2 parameters determined."
    item = next(i for i in found.items if i.question == "What do the data determine?")
    assert "2 parameters of 2 cannot be told from these data: body.arm.mass and joint.hinge.damping." in item.sentence
    assert item.details == ("Only the ratio a : b is determined.",)

    impossible = "The estimates are not physically possible together: body.arm.inertia = ..."
    found = verdict(changed(folder, notes=[impossible]))
    assert found.level == BAD and found.headline.startswith("Not to be trusted before the points below") and not found.trusted
    assert any(i.question == "Are the numbers possible?" and i.details == (impossible,) for i in found.items)
    loose = verdict(changed(folder, noise={**document["noise"], "process": {"hinge": 0.02}}))
    assert any(i.sentence.endswith("were estimated with the motion, at joint.hinge.") for i in loose.items)

    apart = {"status": "converged", "values": {"body.arm.mass": 0.9}, "sds": {"body.arm.mass": 0.01}, "apart": {"body.arm.mass": 4.2}}
    depends = "The estimates depend on the unmodelled forces: without those ..."
    for difference, note, level in ((4.2, [depends], MIND), (-0.4, [], GOOD)):
        found = verdict(changed(folder, notes=note, without_forces={**apart, "apart": {"body.arm.mass": difference}}))
        item = next(i for i in found.items if i.question == "Do the estimates depend on unmodelled forces?")
        assert item.level == level and f"{abs(difference):g} standard deviations" in item.sentence and item.details == tuple(note)

    def residual(**more: float) -> Any:
        fit = {c: {**f, **more} for c, f in document["fit"].items()}
        return next(i for i in verdict(changed(folder, fit=fit)).items if i.question == "Do the residuals look like noise?")

    assert residual(rms_over_sd=2.0).level == MIND and "up to 2 times the stated noise" in residual(rms_over_sd=2.0).sentence
    assert residual(rms_over_sd=20.0).level == BAD
    absurd = verdict(changed(folder, fit={c: {**f, "rms_over_sd": 547.0} for c, f in document["fit"].items()}))
    assert absurd.headline == "Not calibrated: the model does not describe these data (residuals 547 times the noise)." and not absurd.trusted
    assert residual(whiteness=1e-5).sentence.startswith("Not quite: those of joint.hinge.angle have a memory")
    assert "smaller than the stated noise" in residual(rms_over_sd=0.5).sentence

    lack = {"path": "joint.hinge.friction", "words": "dry friction of joint.hinge", "held": 0.0, "value": 0.04, "sd": 0.001, "unit": "N m", "chi2": 1139.0,
            "gain": 1139.0, "probability": 1e-200, "shifts": {"joint.hinge.damping": -39.0}, "alike": [], "remedy": ""}  # fmt: skip
    wrong = verdict(changed(folder, lacks=[lack]))
    assert wrong.level == BAD and not wrong.trusted and wrong.headline.startswith("Not calibrated yet: something is missing")
    assert wrong.headline.endswith("First suspect: dry friction of joint.hinge.")
    item = next(i for i in wrong.items if i.question == "What does the model lack?")
    assert item.sentence.startswith(
        "Dry friction of joint.hinge, joint.hinge.friction = 0.04 +- 0.001 N m where 0 was taken; with it joint.hinge.damping would move by 39"
    )
    assert "Add joint.hinge.friction to the unknowns" in item.sentence
    counts = lack | {
        "path": "joint.hinge.angle.resolution",
        "words": "the count of joint.hinge.angle",
        "sd": None,
        "unit": "",
        "chi2": 4000.0,
        "shifts": {},
        "remedy": "State it.",
    }
    both = verdict(changed(folder, lacks=[counts, lack]))  # counts are certain, and move nothing: they come after what does
    assert both.headline == wrong.headline
    item = next(i for i in both.items if i.question == "What does the model lack?")
    assert item.sentence.startswith("Dry friction") and item.details[0].startswith("the count of joint.hinge.angle")
    harmless = verdict(changed(folder, lacks=[lack | {"shifts": {"joint.hinge.damping": 0.2}}]))
    assert harmless.level == MIND
    noisy = lack | {"path": "joint.hinge.angle.noise", "words": "noise that is correlated", "sd": None, "shifts": {}, "remedy": "Do not filter."}
    coloured = {i.question: i for i in verdict(changed(folder, lacks=[noisy])).items}
    assert coloured["What does the model lack?"].sentence == "Noise that is correlated (chi2 1139). Do not filter."
    assert coloured["Do the residuals look like noise?"].sentence.startswith("Not quite: those of joint.hinge.angle have a memory")

    split = verdict(changed(folder, runs_agree={"agree": False, "chi2": 90.0, "dof": 2, "probability": 1e-9}))
    assert any(i.sentence.startswith("No (chi² between them 90 for 2 degrees of freedom)") for i in split.items)
    far = {"swing": {"incomplete": None, "channels": {"joint.hinge.angle": {"rms": 1.0, "rms_of_signal": 1.0}}}}
    assert any(i.level == MIND and "up to 100 % of the motion" in i.sentence for i in verdict(changed(folder, predictions=far)).items)
    test = {"probability": 0.4, "chi2": 20.0, "dof": 19}
    white, slow = (verdict(changed(folder, force_tests={"hinge": {**test, "probability": p}})) for p in (0.4, 1e-5))
    asked = [next(i for i in v.items if i.question == "Are the unmodelled forces noise?") for v in (white, slow)]
    assert asked[0].level == GOOD and asked[1].level == MIND and "not at joint.hinge" in asked[1].sentence
    assert asked[1].details == ("joint.hinge: chi² of slow forces 20 for 19 degrees of freedom (probability 1·10⁻⁵).",)
    assert "validation" not in json.dumps([i.question for i in verdict(changed(folder, validation=None)).items])

    def unseen(off: float, **failed: str) -> Any:
        run = {"rms_over_sd": 1.5, "rms_over_band": off, "inside": 0.4, "seconds": 1.5, "channels": {}}
        given = {"halves": False, "inside": 0.7, "runs": {"a": run, "b": {**run, "rms_over_band": 1.0}}, "failed": failed}
        return next(i for i in verdict(changed(folder, validation=given)).items if i.question == "Does it predict what it has not seen?")

    assert unseen(1.2).level == GOOD and "predicted to 1.5 times the noise at worst, 70 % of the samples inside the 95 % band" in unseen(1.2).sentence
    assert unseen(1.2, c="it is too short.").level == MIND and any("too short" in line for line in unseen(1.2, c="it is too short.").details)
    assert unseen(4.0).level == MIND and "4 times what the error bars allow (run a)" in unseen(4.0).sentence
    assert unseen(20.0).level == BAD
    outlier = [{"run": "swing", "channel": "joint.hinge.angle", "time": 1.5, "deviation": -8.0}]
    assert any("1 sample is more than six standard deviations off" in i.sentence for i in verdict(changed(folder, outliers=outlier)).items)


@pytest.mark.parametrize(
    ("value", "sd", "text"),
    [
        (1.19923, 0.00072, "1.19923 ± 0.00072"),
        (0.00002345, 1.2e-7, "(2.345 ± 0.012)·10⁻⁵"),
        (-12.3, 4.0, "−12.3 ± 4.0"),
        (1234.5, 120.0, "1234 ± 120"),
        (0.5, None, "0.5"),
        (0.5, math.inf, "0.5"),
        (0.0, 0.1, "0.00 ± 0.10"),
    ],
)
def test_numbers_have_the_digits_of_their_error_bar(value: float, sd: float | None, text: str) -> None:
    assert numbers.quantity(value, sd) == text


def test_plain_numbers() -> None:
    assert [numbers.plain(x) for x in (None, math.inf, -math.inf, 0.0, 1234.56, 1.5e-7)] == ["–", "∞", "−∞", "0", "1235", "1.5·10⁻⁷"]
    assert [numbers.percent(x) for x in (0.5, 0.0123, 1e-6, math.nan)] == ["50 %", "1.2 %", "0.0001 %", "–"]
    assert numbers.listed(["a"]) == "a" and numbers.listed(list("abc")) == "a, b and c" and numbers.listed(list("abcdefgh")) == "a, b, c, d, e, f and 2 more"


def test_the_forest_plot_stays_inside_its_frame(folder: Path) -> None:
    e = cb.open(folder).parameters["joint.hinge.damping"]
    for case in (e, dataclasses.replace(e, sd=None), dataclasses.replace(e, value=e.initial, sd=0.0), dataclasses.replace(e, upper=1e9, sd=5.0)):
        svg = forest(case, 0.02)
        places = [float(x) for x in re.findall(r'(?:cx|x1|x2)="([-\d.]+)"', svg)]
        assert all(0.0 <= x <= 200.0 for x in places) and "nan" not in svg
    assert 'class="open"' in forest(dataclasses.replace(e, sd=None), None) and 'class="interval"' in forest(e, None)


# -- numbers -----------------------------------------------------------------------------------------------------------------------------


def test_thinning_keeps_the_spikes() -> None:
    residual = np.random.default_rng(1).normal(size=100_000)
    residual[[777, 50_001]] = 60.0, -70.0
    kept = figures.thinned(residual, 2000)
    assert len(kept) <= 2000 and {777, 50_001} <= set(kept.tolist()) and np.all(np.diff(kept) > 0)
    assert len(figures.thinned(residual[:100], 2000)) == 100


def test_a_minute_at_a_kilohertz_stays_small(folder: Path) -> None:
    """Seven channels of 60 000 samples each, and as many nodes with the forces of seven joints."""
    import polars as pl

    n, chance = 60_000, np.random.default_rng(2)
    t, names = np.arange(n) / 1000.0, [f"joint.j{k}.angle" for k in range(7)]
    x = chance.normal(size=n)
    columns = {name: x for name in ("measured", "fitted", "predicted", "residual", "weight")}
    channels = pl.concat([pl.DataFrame({"run": ["swing"] * n, "channel": [c] * n, "time": t, **columns}) for c in names])
    forces = pl.DataFrame({"run": ["swing"] * n, "time": t} | {f"joint.j{k}.reaction.{q}.{c}": x for k in range(7) for q in ("force", "torque") for c in "xyz"})
    poses = {f"body{k}": chance.normal(size=(1800, 7)).tolist() for k in range(7)}
    scene = {
        "shapes": [],
        "runs": [{"name": "swing", "time": np.linspace(0, 60, 1800).tolist(), "fitted": poses, "measured": poses, "predicted": poses, "markers": {}}],
    }
    fit = next(iter(cb.open(folder).document["fit"].values()))
    run = {"rms_over_sd": 1.0, "rms_over_band": 1.0, "inside": 0.95, "seconds": 30.0, "channels": {}}
    saved = changed(folder, fit={c: fit for c in names}, validation={"halves": True, "inside": 0.95, "runs": {"swing": run}, "failed": {}})
    half = x[n // 2 :]
    unseen = tuple(Unseen("swing", c, t[n // 2 :], half, half, 1.0 + 0.0 * half, 1.0 + 0.0 * half, half < 9.0) for c in names)
    vars(saved).update(channels=channels, forces=forces, scene=scene, validation=Validation(True, unseen, {}))
    from calibody.report.page import page

    assert len(page(saved)) < 8_000_000


def test_the_page_is_one_file(folder: Path) -> None:
    text = (folder / "report.html").read_text(encoding="utf-8")
    head = text[: text.index('<script id="data"')] + text[text.rindex("</script>") :]
    assert not re.search(r'(?:src|href)="(?!#|data:)', head)
    assert "calibody fit swing.toml" in text and cb.open(folder).document["data_sha256"]["swing"] in text


def test_names_from_files_cannot_break_the_page(folder: Path) -> None:
    from calibody.report.page import page

    evil = "</script><script>alert(1)</script>"
    document = cb.open(folder).document
    parameters = {f"{k}{evil}": v for k, v in document["parameters"].items()}
    correlation = {**document["correlation"], "parameters": [f"{k}{evil}" for k in document["correlation"]["parameters"]]}
    text = page(changed(folder, notes=[evil], model={"name": evil, "file": None}, parameters=parameters, correlation=correlation))
    assert evil not in text and "&lt;/script&gt;" in text


def test_an_unfinished_fit_has_a_report_too(folder: Path, tmp_path: Path) -> None:
    document = {**cb.open(folder).document, "finished": False, "status": "unfinished: stopped after iteration 2.", "fit": {}, "correlation": None, "mesh": None}
    (tmp_path / "result.json").write_text(json.dumps(document), encoding="utf-8")
    text = write(tmp_path).read_text(encoding="utf-8")
    assert "This fit is unfinished." in text and "No: unfinished: stopped after iteration 2." in text and "plotly" not in text


# -- in a browser --------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("profile"))
    try:
        browser.open(folder / "report.html")
        yield browser
    finally:
        browser.close()


def test_it_loads_offline_without_complaints(browser: Browser, tmp_path: Path) -> None:
    sections = browser.run("[...document.querySelectorAll('section')].map(s => s.id)")
    assert sections == ["verdict", "parameters", "replay", "series", "residuals", "torques", "validation", "forces", "convergence", "origin"]
    assert browser.run("document.querySelectorAll('.plot .main-svg').length") > 6
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    pictures = {s: browser.screenshot(tmp_path / f"{s}.png", f"#{s}") for s in sections}
    assert all(len(p) > 3000 for p in pictures.values())
    assert browser.problems == []


def test_what_was_left_out_is_drawn_with_its_band(browser: Browser, folder: Path) -> None:
    upper, lower, predicted = browser.run(
        "['95 % band', '95 % band', 'predicted without it'].map((name, k) => Array.from(document.getElementById('validation-plot').data.filter(t => t.name === name)[k % 2].y))"
    )
    found = cb.open(folder).validation
    assert found is not None and len(predicted) == len(found.channels[0].times)
    np.testing.assert_allclose(np.array(upper) - predicted, 1.96 * found.channels[0].band, rtol=1e-3)
    np.testing.assert_allclose(np.array(predicted) - lower, 1.96 * found.channels[0].band, rtol=1e-3)


def test_forces_have_error_bars(browser: Browser) -> None:
    drawn = browser.run("document.getElementById('forces-plot').data.filter(t => t.name === '95 % band').map(t => Array.from(t.y))")
    assert drawn and len(drawn) % 2 == 0
    for one, other in zip(drawn[::2], drawn[1::2], strict=True):
        wide = np.abs(np.array(one) - other)
        assert len(wide) >= 20 and wide.min() >= 0.0 < wide.max()
    assert "The band holds the truth with 95 %" in browser.run("document.getElementById('forces-note').textContent")


def test_the_replay_moves(browser: Browser, tmp_path: Path) -> None:
    browser.run("replay.seek(0)")
    before = browser.screenshot(tmp_path / "a.png", "#stage")
    browser.run("document.getElementById('play').click()")
    browser.until("replay.state.time > 0.3")
    browser.run("document.getElementById('play').click()")
    assert browser.run("replay.state.playing") is False
    assert browser.screenshot(tmp_path / "b.png", "#stage") != before
    browser.run("(() => { const s = document.getElementById('scrub'); s.value = 2; s.dispatchEvent(new Event('input')); })()")
    assert browser.run("replay.state.time") == pytest.approx(2.0, abs=0.01)
    assert browser.run("document.getElementById('clock').textContent") == "2.00 s"
    browser.run("document.getElementById('stage').scrollIntoView({behavior: 'instant', block: 'center'})")
    box = browser.run("(() => { const r = document.getElementById('stage').getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()")
    azimuth = browser.run("replay.state.azimuth")
    browser.drag((box[0], box[1]), (box[0] + 80, box[1]))
    assert browser.run("replay.state.azimuth") < azimuth - 0.3
    assert browser.problems == []


def test_the_plots_zoom(browser: Browser) -> None:
    browser.run("document.getElementById('series-plot').scrollIntoView({behavior: 'instant', block: 'center'})")
    area = "document.querySelector('#series-plot .nsewdrag').getBoundingClientRect()"
    x, y, w, h = browser.run(f"(() => {{ const r = {area}; return [r.x, r.y, r.width, r.height]; }})()")
    before = browser.run("document.getElementById('series-plot').layout.xaxis.range.map(Number)")
    browser.drag((x + 0.3 * w, y + 0.3 * h), (x + 0.6 * w, y + 0.7 * h))
    browser.until(f"document.getElementById('series-plot').layout.xaxis.range[0] > {before[0] + 0.2}")
    after = browser.run("document.getElementById('series-plot').layout.xaxis.range.map(Number)")
    assert after[1] - after[0] < 0.5 * (before[1] - before[0])
    assert browser.problems == []


def test_light_and_dark(browser: Browser, tmp_path: Path) -> None:
    light = browser.run("document.documentElement.dataset.theme")
    paper = browser.run("getComputedStyle(document.body).backgroundColor")
    browser.run("document.getElementById('theme').click()")
    assert browser.run("document.documentElement.dataset.theme") != light
    assert browser.run("getComputedStyle(document.body).backgroundColor") != paper
    browser.screenshot(tmp_path / "dark.png", "#series")
    browser.run("document.getElementById('theme').click()")
    assert browser.problems == []


def test_it_prints(browser: Browser) -> None:
    import base64

    pdf = base64.b64decode(browser.call("Page.printToPDF", printBackground=True)["data"])
    assert pdf.startswith(b"%PDF") and len(pdf) > 20_000
    assert browser.problems == []


def test_of_very_many_runs_the_first_are_drawn(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    what = experiment.load(write_files(tmp_path))
    (run,) = what.runs()
    runs = [dataclasses.replace(run, name=f"r{k}") for k in range(3)]
    result = cb.fit(what.model(), runs, what.estimate(), h=0.02)
    monkeypatch.setattr(run_folder, "DETAILED", 2)
    monkeypatch.setattr(figures, "RUNS", 2)
    found = cb.open(run_folder.write(result, tmp_path / "fit", validate=True))
    assert list(found.document["predictions"]) == ["r0", "r1"] and set(found.bars["run"]) == {"r0", "r1"} and any("first 2 of 3 runs" in n for n in found.notes)
    assert set(found.channels["run"]) == set(found.document["validation"]["runs"]) == {"r0", "r1", "r2"}
    drawn = figures.figures(found)
    assert drawn["runs"] == ["r0", "r1"] and drawn["undrawn"] == 1
    for part in ("channels", "validation", "forces"):
        assert {entry["run"] for entry in drawn[part]} == {"r0", "r1"}
    assert "Figures show the first 2 of 3 runs" in write(found.folder).read_text(encoding="utf-8")
