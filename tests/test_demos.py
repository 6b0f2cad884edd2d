"""The examples: complete files, and fits that find the truth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import calibody as cb
from calibody import cli, demos, experiment
from calibody.experiment.check import check

NOT_SEEN = {
    "furuta": {"body.arm.inertia.xx", "body.arm.inertia.yy", "body.arm.inertia.zz", "body.pendulum.inertia.yy", "body.pendulum.inertia.zz"},
}


def run(name: str, out: Path) -> tuple[cb.Saved, dict[str, float]]:
    with pytest.raises(SystemExit) as caught:
        cli.main(["demo", name, "--out", str(out), "--quiet"])
    assert not caught.value.code
    return cb.open(out / f"{name}-fit"), demos.truth_of(out)


def holds(name: str, saved: cb.Saved, truth: dict[str, float]) -> None:
    assert saved.converged and (saved.folder / "report.html").stat().st_size < 8_000_000
    assert {p for p, e in saved.parameters.items() if e.sd is None} == NOT_SEEN.get(name, set())
    for path, e in saved.parameters.items():
        assert e.sd is None or abs(e.value - truth[path]) < 3.5 * e.sd, path
    assert set(saved.parameters) == set(truth)


def test_pendulum(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    holds("pendulum", *run("pendulum", tmp_path / "demo"))
    assert {p.name for p in (tmp_path / "demo").iterdir()} == {"pendulum.xml", "pendulum.csv", "pendulum.toml", "truth.json", "pendulum-fit"}
    with pytest.raises(SystemExit) as caught:
        cli.main(["fit", str(tmp_path / "demo" / "pendulum.toml"), "--resume", "--json"])
    assert not caught.value.code and json.loads(capsys.readouterr().out)["truth"]["body.arm.mass"] == 0.4


def test_furuta_says_what_cannot_be_determined(tmp_path: Path) -> None:
    saved, truth = run("furuta", tmp_path)
    holds("furuta", saved, truth)
    assert len(truth) == 13
    sums = {d.expression: d for d in saved.determined}
    assert len(sums) == 2
    for expression, d in sums.items():
        scope = {path.replace(".", "_"): value for path, value in truth.items()}
        true = eval(expression.replace(".", "_"), {}, scope)
        assert abs(d.value - true) < 3.5 * d.sd
    findings = [f.sentence for f in check(experiment.load(tmp_path / "furuta.toml"), foresight=True).findings]
    assert "At the initial values: body.arm.inertia.xx is not determined by the data." in findings


def test_fourbar_has_the_forces_of_its_loop(tmp_path: Path) -> None:
    saved, truth = run("fourbar", tmp_path)
    holds("fourbar", saved, truth)
    assert {"loop.pin.force.x", "joint.knee.reaction.force.z"} <= set(saved.forces.columns)
    assert saved.document["predictions"]["fourbar"]["incomplete"] is None


@pytest.mark.slow
def test_arm(tmp_path: Path) -> None:
    holds("arm", *run("arm", tmp_path))


def test_stop(tmp_path: Path) -> None:
    """Impacts by way of an experiment file: found, in result.json, and not written into a format that has no place for them."""
    saved, truth = run("stop", tmp_path)
    holds("stop", saved, truth)
    document = saved.document
    assert len(document["events"]) == 14 and all(e["contact"] == "limit.hinge.upper" and e["time_sd"] < 1e-4 for e in document["events"])
    page = (tmp_path / "stop-fit" / "report.html").read_text(encoding="utf-8")
    assert 'id="impacts"' in page and "14 impacts explain the data" in page
    assert any("keeps its own limit.hinge.upper.position, limit.hinge.upper.restitution" in note for note in document["notes"])
    assert cb.load(tmp_path / "stop-fit" / "stop.xml", contacts=True)["limit.hinge.upper.position"] == 0.4


@pytest.mark.parametrize("name", demos.NAMES)
def test_every_example_is_in_order(name: str) -> None:
    example = demos.example(name)
    assert example.name == name and f'file = "{name}.xml"' in example.experiment
    assert {path for path in example.truth if path.startswith(("body.", "joint.", "actuator.", "world.", "limit."))} == set(example.truth)
