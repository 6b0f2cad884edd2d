"""Joint limits that give way: static deflection, energy, order, coordinates, what other methods say; and fits through them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import calibody as cb

MASS, REACH, INERTIA, GRAVITY = 0.5, 0.2, 0.005, 9.81
SOFT: dict[str, Any] = {"law": "compliant", "stiffness": 40.0, "damping": 0.3}


def arm(**numbers: Any) -> cb.Model:
    """A pendulum with a rubber stop on one side and, further out, a linear-ish one with a depth on the other."""
    return cb.Model(
        "arm",
        [cb.Body("arm", mass=MASS, com=(0, 0, -REACH), inertia=(INERTIA, INERTIA, 0.0004))],
        [cb.Joint("hinge", "arm", axis=(0, 1, 0), damping=0.01)],
        limits=[
            cb.Limit("stop", "hinge", 0.2, "upper", **(SOFT | numbers)),
            cb.Limit("back", "hinge", -0.7, "lower", law="compliant", stiffness=30.0, exponent=2.0, depth=0.1),
        ],
    )


def accelerated(t: float, y: np.ndarray, torque: float = 0.0) -> list[float]:
    """The same pendulum by hand."""
    s, w = y
    p, q = max(s - 0.2, 0.0), max(-0.7 - s, 0.0)
    stop = 40.0 * p**1.5 * (1.0 + 0.3 * w if w > 0.0 else 1.0 / (1.0 - 0.3 * w))
    back = 30.0 * (q**2 - q**3 / 0.3 if q < 0.1 else 0.1 * (q - 0.1 / 3.0))
    return [w, (torque - MASS * GRAVITY * REACH * np.sin(s) - 0.01 * w - stop + back) / (INERTIA + MASS * REACH**2)]


def test_against_an_integrator_and_of_second_order() -> None:
    exact = solve_ivp(accelerated, (0.0, 2.0), [-1.0, 0.0], rtol=1e-11, atol=1e-12).y[0, -1]
    errors = [cb.simulate(arm(), 2.0, h, {"joint.hinge.angle": -1.0})["joint.hinge.angle"][-1] - exact for h in (4e-3, 2e-3, 1e-3)]
    assert np.log2(np.abs(errors[:-1]) / np.abs(errors[1:])) == pytest.approx([2.0, 2.0], abs=0.2)
    assert abs(errors[-1]) < 2e-4


def test_static_deflection_and_channels() -> None:
    motion = cb.simulate(arm(damping=2.0), 6.0, 1e-3, {"joint.hinge.angle": 0.21}, {"joint.hinge.force": 3.0})
    s = motion["joint.hinge.angle"][-1]
    pushed = 3.0 - MASS * GRAVITY * REACH * np.sin(s)
    assert s - 0.2 == pytest.approx((pushed / 40.0) ** (1 / 1.5), rel=1e-5)
    assert motion["limit.stop.force"][-1] == pytest.approx(-pushed, rel=1e-5)
    assert motion["limit.stop.gap"][-1] == pytest.approx(0.2 - s)
    assert not motion["limit.back.force"].any() and not motion["limit.stop.impulse"].any() and not motion.events


def test_energy_is_kept_without_damping() -> None:
    model = arm(damping=0.0).replace({"joint.hinge.damping": 0.0})
    spread = [np.ptp(cb.simulate(model, 2.0, h, {"joint.hinge.angle": -1.0}).energy) for h in (2e-3, 1e-3)]
    assert spread[0] / spread[1] == pytest.approx(4.0, rel=0.2) and spread[1] < 1e-3


def test_both_coordinates_agree_and_forces_stay() -> None:
    motions = [cb.simulate(arm(), 1.0, 1e-3, {"joint.hinge.angle": -1.0}, coordinates=c, contacts=False) for c in ("tree", "free")]
    assert np.abs(np.subtract(*(m["joint.hinge.angle"] for m in motions))).max() < 1e-9
    assert motions[0]["limit.stop.force"].min() < -1.0  # a force acts also where contacts are left out


def recording(force_noise: float = 0.0) -> cb.Recording:
    rng, t = np.random.default_rng(2), np.arange(0, 4.0005, 1e-3)
    push = 0.9 * np.sin(2 * np.pi * 1.3 * t) + 0.4 * np.sin(2 * np.pi * 0.45 * t + 1.0)
    drive = {"joint.hinge.force": cb.Signal(t, push + force_noise * rng.standard_normal(len(t)), "linear")}
    motion = cb.simulate(arm(), 4.0, 1e-3, {"joint.hinge.angle": -0.3}, drive)
    seen = motion["joint.hinge.angle"][::4] + 1e-3 * rng.standard_normal(len(motion.time[::4]))
    return cb.Recording(
        "run", (cb.Observation("joint.hinge.angle", motion.time[::4], seen, 1e-3),), (cb.Drive("joint.hinge.force", cb.Signal(t, push, "linear")),)
    )


TRUTH = {"body.arm.inertia.yy": INERTIA, "joint.hinge.damping": 0.01, "limit.stop.position": 0.2, "limit.stop.stiffness": 40.0, "limit.stop.damping": 0.3}
GUESS = {"body.arm.inertia.yy": 0.01, "joint.hinge.damping": 0.02, "limit.stop.position": 0.25, "limit.stop.stiffness": 80.0, "limit.stop.damping": 0.15}


@pytest.mark.parametrize(
    "method",
    [
        cb.Transcription(),
        pytest.param(cb.Transcription(process_noise="auto"), marks=pytest.mark.slow),
        pytest.param(cb.Shooting(h=1e-3), marks=pytest.mark.slow),
    ],
)
def test_its_numbers_are_found(method: Any) -> None:
    """With unmodelled forces and by shooting too, which rigid limits are not known to."""
    noisy = 0.02 if getattr(method, "process_noise", "none") == "auto" else 0.0
    result = cb.fit(arm(), recording(noisy), GUESS, method=method)
    assert result.converged
    for path, true in TRUTH.items():
        estimate = result.parameters[path]
        assert estimate.sd is not None and abs(estimate.value - true) < 3.5 * estimate.sd, path
        assert estimate.sd < 0.3 * true


@pytest.mark.parametrize(("unknown", "words"), [
    ("limit.stop.restitution", "compliant limits have no restitution"),
    ("limit.stop.depth", "give limit.stop.depth a size to start from"),
])  # fmt: skip
def test_numbers_that_it_does_not_have(unknown: str, words: str) -> None:
    with pytest.raises(cb.CalibodyError, match=words):
        cb.fit(arm(), recording(), {unknown: 0.1})


def test_numbers_that_a_rigid_limit_does_not_have() -> None:
    rigid = cb.Model("arm", arm().bodies, arm().joints, limits=[cb.Limit("stop", "hinge", 0.2, "upper")])
    with pytest.raises(cb.CalibodyError, match=r"limit\.stop is rigid and has no stiffness"):
        cb.fit(rigid, recording(), {"limit.stop.stiffness": 10.0})
    with pytest.raises(cb.CalibodyError, match='"shadow" does not know compliant contact'):
        cb.fit(arm(), recording(), {"joint.hinge.damping": 0.1}, method="shadow")
