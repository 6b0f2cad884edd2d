"""`calibody posterior`, `[posterior]` and the files: what is printed and written, interruptions, refusals, and the report in a browser."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import posterior_problems as problems
import pytest
from experiment.swing import EXPERIMENT, Command, write
from report.browser import Browser

import calibody as cb
from calibody.experiment import load
from calibody.experiment.writing import save
from calibody.report.verdict import verdict

KATER = """\
[model]
file = "kater.xml"
[[run]]
data = "swing.csv"
observe = { "joint.pivot.angle" = { column = "a", sd = 0.01 } }
[[estimate]]
parameter = "body.rod.com.z"
lower = -0.6
upper = -0.05
[[estimate]]
parameter = "joint.pivot.damping"
lower = 0.0
upper = 0.2
[method]
h = 0.02
[posterior]
samples = 64
starts = 2
processes = 1
"""
SMALL = EXPERIMENT + "[posterior]\nsamples = 48\nstarts = 1\nprocesses = 1\n"


def _hash(folder: Path) -> str:
    return hashlib.sha256((folder / "posterior.parquet").read_bytes()).hexdigest()


def test_a_posterior_from_a_file(run: Command, tmp_path: Path) -> None:
    code, out, err = run("posterior", write(tmp_path, SMALL))
    folder = tmp_path / "swing-fit"
    assert code == 0 and "The posterior is as sampled" in out and "Is there more than one explanation? No" in out and "drawing 48 samples" in err
    saved = cb.open(folder)
    assert saved.posterior is not None and saved.posterior["status"] == "converged" and saved.posterior["samples"] == 48
    assert saved.draws.columns == ["draw", "mode", "log_p", "log_q", "weight", *saved.parameters] and len(saved.draws) == 48
    assert abs(float(saved.draws["weight"].sum()) - 1.0) < 1e-9
    m, e = saved.posterior["parameters"]["body.arm.mass"], saved.parameters["body.arm.mass"]
    assert m["q05"] < e.value < m["q95"] and e.sd is not None and abs(m["sd"] / e.sd - 1.0) < 0.4
    bands = saved.channels
    held = bands.filter((pl.col("measured") >= pl.col("predicted_05")) & (pl.col("measured") <= pl.col("predicted_95")))
    assert len(held) > 0.7 * len(bands) and set(saved.posterior["coverage"]) == {"swing"}
    assert 'id="posterior"' in (folder / "report.html").read_text()
    assert run("posterior", tmp_path / "swing.toml", "--samples", 64, "--resume", "--quiet")[0] == 0
    more = cb.open(folder)
    assert len(more.draws) == 64 and more.draws["log_p"].to_list()[:48] == saved.draws["log_p"].to_list()
    assert run("fit", tmp_path / "swing.toml", "--quiet")[0] == 0
    assert cb.open(folder).posterior is None  # that of the fit before
    with pytest.raises(cb.CalibodyError, match="calibody posterior FILE"):
        _ = cb.open(folder).draws


def test_a_fit_with_its_posterior(run: Command, tmp_path: Path) -> None:
    code, out, _ = run("fit", write(tmp_path, SMALL), "--posterior")
    assert code == 0 and "status: converged" in out and "The posterior is as sampled" in out
    assert cb.open(tmp_path / "swing-fit").document["command"].endswith("--posterior")


@pytest.mark.slow
def test_killed_and_resumed_it_ends_with_the_same_file(run: Command, tmp_path: Path) -> None:
    whole, killed = write(tmp_path / "a", SMALL.replace("48", "640")), write(tmp_path / "b", SMALL.replace("48", "640"))
    assert run("posterior", whole, "--quiet")[0] == 0
    process = subprocess.Popen([sys.executable, "-m", "calibody", "posterior", str(killed), "--quiet"])
    parts = tmp_path / "b" / "swing-fit" / ".posterior"
    deadline = time.monotonic() + 120
    while len(list(parts.glob("draws*"))) < 3 and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "b" / "swing-fit" / "posterior.parquet").is_file()
    assert run("posterior", killed, "--resume", "--quiet")[0] == 0
    assert _hash(tmp_path / "a" / "swing-fit") == _hash(tmp_path / "b" / "swing-fit")


def test_a_posterior_that_is_refused_exits_with_1_and_says_why(run: Command, tmp_path: Path) -> None:
    free = """
[[estimate]]
parameter = "body.arm.com.z"
[[estimate]]
parameter = "body.arm.inertia.yy"
"""
    code, out, err = run("posterior", write(tmp_path, SMALL.replace("[method]", f"{free}[method]")))
    d = cb.open(tmp_path / "swing-fit").posterior
    assert d is not None and d["refused"] and code == 1 and "the posterior has no end along" in err and "Traceback" not in out
    assert "the posterior has no end along" in (tmp_path / "swing-fit" / "report.html").read_text()


def test_the_table_is_read_and_written(run: Command, tmp_path: Path) -> None:
    path = write(tmp_path, SMALL)
    experiment = load(path)
    assert experiment.posterior.samples == 48 and experiment.posterior.sampler == "auto"
    assert load(save(experiment, tmp_path / "again.toml")).posterior == experiment.posterior
    for wrong, words in (("samples = 3", "samples = 3"), ('sampler = "nuts"', 'give "auto", "importance"'), ("sample = 4", 'unknown key "sample"')):
        code, _, err = run("check", write(tmp_path, f"{EXPERIMENT}[posterior]\n{wrong}\n"))
        assert code == 2 and words in err and "swing.toml:" in err


def test_numbers_of_the_less_probable_of_two_explanations_are_red(run: Command, tmp_path: Path) -> None:
    problems.kater().save(tmp_path / "kater.xml")
    o = problems.swing().observations[0]
    pl.DataFrame({"t": o.times, "a": o.values}).write_csv(tmp_path / "swing.csv")
    (tmp_path / "kater.toml").write_text(KATER)
    code, out, err = run("fit", tmp_path / "kater.toml", "--posterior")
    assert code == 1 and "2 explanations describe the data" in out and "is not the fit's" in out and "Not to be trusted before" in err
    said = {i.question: i for i in verdict(cb.open(tmp_path / "kater-fit")).items}
    assert said["Is there more than one explanation?"].level == "bad" and len(said["Is there more than one explanation?"].details) == 2


def test_json(run: Command, tmp_path: Path) -> None:
    code, out, err = run("posterior", write(tmp_path, SMALL), "--json")
    assert (code, err) == (0, "") and json.loads(out)["schema"] == "calibody-posterior-1"


def test_the_section_in_a_browser(run: Command, tmp_path: Path) -> None:
    run("posterior", write(tmp_path, SMALL), "--quiet")
    browser = Browser(tmp_path / "profile", 1400)
    try:
        for width in (1400, 390):
            browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
            browser.open(tmp_path / "swing-fit" / "report.html")
            browser.until("document.querySelectorAll('#posterior .plot .main-svg').length >= 4")
            assert browser.run("document.documentElement.scrollWidth") == width
            assert browser.run("document.getElementById('corner').data.filter(t => t.type === 'histogram').length") == 2
            assert browser.run("document.getElementById('bands-plot').data.map(t => t.name)").count("measured") == 1
        assert browser.problems == []
    finally:
        browser.close()
