"""From the URDF of a robot and a log of it to its payload, without an edit: `calibody new --payload`, `check`, `fit`."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from estimate import test_robot as robots

import calibody as cb
from calibody import cli


def recorded(folder: Path, monkeypatch: pytest.MonkeyPatch, torque_sd: float) -> dict[str, float]:
    """A UR5 with a payload in MuJoCo, in closed loop: `ur5.urdf`, `log.csv` with angles to 1 mrad and the torques, and what is true. Friction is viscous: MuJoCo's dry friction is soft (docs/machines.md)."""
    monkeypatch.setattr(robots, "DRY", (0.0,) * 6)
    file, engine = robots.ur5()
    shutil.copy(file, folder / "ur5.urdf")
    log = robots.closed_loop(engine, robots.POSE, 10.0, 1.0)
    chance = np.random.default_rng(5)
    angle = log.angle + 1e-3 * chance.normal(size=log.angle.shape)
    torque = log.torque + torque_sd * chance.normal(size=log.torque.shape)
    short = [j.removesuffix("_joint") for j in log.joints]
    columns = {f"{what}_{j}": x[:, k] for what, x in (("q", angle), ("tau", torque)) for k, j in enumerate(short)}
    pl.DataFrame({"time": log.time, **columns}).write_csv(folder / "log.csv")
    payload = {path.replace("tool0", "payload"): value for path, value in robots.PAYLOAD.items()}
    moments = {f"body.payload.inertia.{c}": robots.ROUNDNESS for c in ("xx", "yy", "zz")}
    return payload | moments | {f"joint.{j}.damping": x for j, x in zip(log.joints, robots.VISCOUS, strict=True)}


@pytest.mark.slow
@pytest.mark.parametrize("torque_sd", [0.0, 0.3])
def test_a_payload_without_an_edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torque_sd: float) -> None:
    """Payload and frictions within three standard deviations, with the controller's torques, and with torques measured to 0.3 N m."""
    truth = recorded(tmp_path, monkeypatch, torque_sd)
    commands = (["new", "ur5.urdf", "log.csv", "--payload", "tool0"], ["check", "log.toml"], ["fit", "log.toml", "--no-validate"])
    monkeypatch.chdir(tmp_path)
    for command in commands:
        with pytest.raises(SystemExit) as caught:
            cli.main(command)
        assert not caught.value.code, command
    found = cb.open("log-fit")
    assert set(found.parameters) <= set(truth) and {p for p in truth if "inertia" not in p} <= set(found.parameters)
    for path, e in found.parameters.items():
        assert e.sd is not None, path
        z = (e.value - truth[path]) / np.hypot(e.sd, e.discretisation_error or 0.0)
        assert abs(z) < 3.0, (path, e.value, e.sd, z)
    assert found.model["body.payload.mass"] == pytest.approx(1.5, rel=0.01)
