"""Windows that are condensed one after the other: the numbers of shooting as a whole, derivatives, and a memory that hardly grows with the recording."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from problems import four_bar, four_bar_start, rates

import calibody as cb
from calibody.estimate.recipe import prepared
from calibody.estimate.reported import theta_of
from calibody.estimate.result import Result
from calibody.estimate.windows import long_fit
from calibody.estimate.windows.long_fit import begin
from calibody.estimate.windows.long_shots import LongCut, LongShots
from calibody.estimate.windows.shots import Shots

H, NOISE = 0.01, 2e-3
UNKNOWN = {"body.lower.mass": cb.Unknown(0.7), "joint.hinge0.damping": cb.Unknown(0.06), "joint.hinge1.friction": cb.Unknown(0.03)}


def driven(samples: int = 401, **known: Any) -> tuple[cb.Model, cb.Recording]:
    """A double pendulum with a motor, both angles and one rate observed."""
    links = [
        cb.Body("upper", mass=1.0, com=(0.0, 0.0, -0.2), inertia=(0.02, 0.02, 0.001)),
        cb.Body("lower", "upper", mass=0.6, com=(0.0, 0.0, -0.15), inertia=(0.01, 0.01, 0.001), position=(0.0, 0.0, -0.4)),
    ]
    joints = [cb.Joint(f"hinge{i}", link.name, axis=(0.0, 1.0, 0.0), damping=0.08, friction=0.02) for i, link in enumerate(links)]
    model = cb.Model("double", links, joints, actuators=[cb.Actuator("motor", "hinge0")])
    times, random = H * np.arange(samples), np.random.default_rng(0)
    signal = cb.Signal(times, random.normal(0.0, 0.8, samples // 50 + 1).repeat(50)[:samples])
    motion = cb.simulate(model, times[-1], H, {"joint.hinge0.angle": 0.3}, {"actuator.motor": signal})
    channels = ["joint.hinge0.angle", "joint.hinge1.angle", "joint.hinge1.rate"]
    seen = [cb.Observation(c, times, motion[c] + sd * random.standard_normal(samples), sd) for c, sd in zip(channels, (NOISE, NOISE, 0.02), strict=True)]
    return model, cb.Recording("driven", seen, [cb.Drive("actuator.motor", signal)], **known)


def test_sensitivities_are_those_of_differences() -> None:
    model, run = driven(61, initial={"joint.hinge0.angle": 0.3, "joint.hinge0.rate": 0.0, "joint.hinge1.rate": {"value": 0.0, "sd": 0.1}})
    asked = cb.Shooting(windows=3, h=H)
    unknowns = {**UNKNOWN, "actuator.motor.delay": cb.Unknown(0.004), "joint.hinge0.angle.bias": None, "joint.hinge1.position.z": None}
    worker, _ = prepared(model, [run], unknowns, "none", "auto", H, kind=Shots)
    cut = LongCut.of(worker.structure, worker.recordings[0], H, worker.noises[0], asked.count(60)).kept_all()
    theta = theta_of(worker.unknowns, {})
    problem, x = begin(LongShots((cut,), tuple(worker.unknowns)), theta, friction_rate=0.5)
    lin = problem.linearise(x, theta)
    F, C = problem.values(x, theta)
    assert np.allclose(F, lin.F, atol=1e-9) and np.allclose(C, lin.C, atol=1e-9)
    Fx, Cx, Ft, Ct = (np.asarray(a.toarray()) for a in (lin.Fx, lin.Cx, lin.Ft, lin.Ct))
    for j in range(Fx.shape[1]):
        d = 1e-6 * (np.arange(Fx.shape[1]) == j)
        high, low = (problem.values(problem.move(x, sign * d), theta) for sign in (1.0, -1.0))
        for found, a, b in zip((Fx, Cx), high, low, strict=True):
            slope = (a - b) / 2e-6
            assert np.abs(found[:, j] - slope).max() < 1e-5 * max(1.0, np.abs(slope).max())
    for j, e in enumerate(problem.entries):
        size = 1e-5 * e.scale
        high, low = (problem.values(x, theta + sign * size * (np.arange(len(theta)) == j)) for sign in (1.0, -1.0))
        for found, a, b in zip((Ft, Ct), high, low, strict=True):
            slope = (a - b) / (2.0 * size)
            assert np.abs(found[:, j] - slope).max() < 1e-5 * max(1.0, np.abs(slope).max()), e.name


def both(monkeypatch: pytest.MonkeyPatch, model: cb.Model, runs: Any, unknowns: dict[str, Any], **options: Any) -> tuple[Result, Result]:
    whole = cb.fit(model, runs, unknowns, method=cb.Shooting(h=H, **options))
    monkeypatch.setattr(long_fit, "LONG", 0)
    monkeypatch.setattr(long_fit, "NODES", 0)
    return whole, cb.fit(model, runs, unknowns, method=cb.Shooting(h=H, **options))


def test_the_numbers_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs, one that knows its start, noise that is not stated, and a number of each run."""
    model, known = driven(initial={"joint.hinge0.angle": 0.3, "joint.hinge1.rate": 0.0})
    _, free = driven(301)
    runs = [known, cb.Recording("again", [cb.Observation(o.channel, o.times, o.values) for o in free.observations], free.drives)]
    whole, long = both(monkeypatch, model, runs, {**UNKNOWN, "joint.hinge0.angle.bias": cb.Unknown(0.0, per_run=True, scale=0.01)}, windows=8)
    assert whole.converged and long.converged and isinstance(long.problem, LongShots) and not isinstance(whole.problem, LongShots)
    assert any("condensed one after the other" in note for note in long.notes)
    for name, e in whole.parameters.items():
        assert e.sd is not None and abs(long.parameters[name].value - e.value) < 0.05 * e.sd and long.parameters[name].sd == pytest.approx(e.sd, rel=0.03), name
    assert long.dof == whole.dof and long.chi2 == pytest.approx(whole.chi2, rel=0.02)
    assert abs(long.motion(0)["joint.hinge1.angle"] - whole.motion(0)["joint.hinge1.angle"]).max() < 1e-4
    assert long.predict(free)["joint.hinge1.angle"].rms < 0.2


def test_closed_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    model = four_bar(damping=0.4)
    motion = cb.simulate(model, 1.5, H, rates(four_bar_start()))
    random = np.random.default_rng(0)
    angles = [c for c in motion.channels if c.startswith("joint.") and c.endswith(".angle")]
    run = cb.Recording("swing", [cb.Observation(c, motion.time, motion[c] + NOISE * random.standard_normal(len(motion.time)), NOISE) for c in angles])
    whole, long = both(
        monkeypatch, model, run, {"body.coupler0.mass": cb.Unknown(1.5), "joint.ground0.damping": cb.Unknown(0.6)}, windows=5, coordinates="tree"
    )
    assert whole.converged and long.converged and isinstance(long.problem, LongShots)
    for name, e in whole.parameters.items():
        assert e.sd is not None and abs(long.parameters[name].value - e.value) < 0.02 * e.sd and long.parameters[name].sd == pytest.approx(e.sd, rel=0.01)
    assert abs(long.motion()["loop.close0.force"] - whole.motion()["loop.close0.force"]).max() < 1e-2


def test_its_memory_hardly_grows_with_the_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples of three channels: their values, times, residuals and how these follow four numbers of a start and three parameters, and what they are interpolated with."""
    monkeypatch.setattr(long_fit, "LONG", 0)
    monkeypatch.setattr(long_fit, "NODES", 0)
    peaks, counts = [], (2001, 6001)
    for samples in counts:
        model, run = driven(samples)
        method = cb.Shooting(windows=samples // 200, h=H)
        tracemalloc.start()
        result = cb.fit(model, run, UNKNOWN, method=method)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert result.converged and all(abs(e.value - model[name]) < 4.0 * (e.sd or 0.0) for name, e in result.parameters.items())
    assert (peaks[1] - peaks[0]) / (counts[1] - counts[0]) < 4000.0  # bytes per instant; as a whole 22 000


def test_what_asks_for_the_whole_motion_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_fit, "LONG", 0)
    monkeypatch.setattr(long_fit, "NODES", 0)
    model, run = driven(101)
    noisy = cb.Recording("noisy", run.observations, [cb.Drive(d.channel, d.signal, sd=0.05) for d in run.drives])
    for recording, options in ((noisy, {}), (run, {"coordinates": "free"}), (run, {"gradient": "adjoint", "windows": 1})):
        result = cb.fit(model, recording, {"body.lower.mass": cb.Unknown(0.6)}, method=cb.Shooting(h=H, **{"windows": 2, **options}))
        assert not isinstance(result.problem, LongShots)
