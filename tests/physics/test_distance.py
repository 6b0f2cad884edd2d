"""A massless rod between two points: a double pendulum whose first link has no mass, against its own equations of motion."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from physics.convergence import order
from scipy.integrate import solve_ivp

import calibody as cb
from calibody.estimate.unknowns import entries

ROD, ARM, MASS, MOMENT, GRAVITY = 2.0, 2.0, 1.0, 0.1, 9.81
FIRST, SECOND = 0.6, 0.4
"""Angles at the start against the vertical, of the rod and of the line from the corner to the centre of mass."""


def hung(**changes: float) -> cb.Model:
    """A body whose corner, 2 m from its centre of mass, hangs on a rod from the ground."""
    body = cb.Body("body", mass=MASS, inertia=(0.04, MOMENT, MOMENT))
    rod = cb.Loop("rod", "distance", "world", "body", anchor2=(0.0, 0.0, ARM), **{"length": ROD, **changes})
    return cb.Model("hung", [body], [cb.Joint("float", "body", "free")], [rod])


def start() -> dict[str, object]:
    x, z = ROD * np.sin(FIRST) + ARM * np.sin(SECOND), -ROD * np.cos(FIRST) - ARM * np.cos(SECOND)
    return {"joint.float.position": (x, 0.0, z), "joint.float.angle": (0.0, -SECOND, 0.0)}


def double_pendulum(times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The centre of mass (x, z) and the force of the rod, from the equations of a double pendulum with a massless first link."""

    def rates(_: float, y: np.ndarray) -> np.ndarray:
        a, b, u, v = y
        c, s = np.cos(a - b), np.sin(a - b)
        M = np.array([[MASS * ROD**2, MASS * ROD * ARM * c], [MASS * ROD * ARM * c, MASS * ARM**2 + MOMENT]])
        f = MASS * np.array([-ROD * ARM * s * v**2 - GRAVITY * ROD * np.sin(a), ROD * ARM * s * u**2 - GRAVITY * ARM * np.sin(b)])
        return np.concatenate([[u, v], np.linalg.solve(M, f)])

    y = solve_ivp(rates, (0.0, times[-1]), [FIRST, SECOND, 0.0, 0.0], "DOP853", t_eval=times, rtol=1e-12, atol=1e-12).y
    a, b, u, v = y
    force = []
    for k in range(len(times)):
        du, dv = rates(0.0, y[:, k])[2:]
        up = [du * np.cos(a[k]) - u[k] ** 2 * np.sin(a[k]), du * np.sin(a[k]) + u[k] ** 2 * np.cos(a[k])]
        own = [dv * np.cos(b[k]) - v[k] ** 2 * np.sin(b[k]), dv * np.sin(b[k]) + v[k] ** 2 * np.cos(b[k])]
        total = MASS * (ROD * np.array(up) + ARM * np.array(own) + [0.0, GRAVITY])  # what the rod does to the body
        force.append(-total @ [-np.sin(a[k]), np.cos(a[k])])  # along the rod, positive where it pushes
    return np.stack([ROD * np.sin(a) + ARM * np.sin(b), -ROD * np.cos(a) - ARM * np.cos(b)], axis=1), np.array(force)


@pytest.mark.parametrize("coordinates", ["tree", "free"])
def test_a_double_pendulum_at_second_order(coordinates: str) -> None:
    steps, errors, forces = [0.01, 0.005, 0.0025, 0.00125], [], []
    for h in steps:
        motion = cb.simulate(hung(), 1.0, h, start(), coordinates=coordinates)
        exact, force = double_pendulum(motion.time)
        errors.append(np.abs(motion["body.body.com"][:, [0, 2]] - exact).max())
        forces.append(np.abs(motion["loop.rod.force"] - force)[1:].max())
        assert np.abs(motion["body.body.com"][:, 1]).max() < 1e-12
        corner = motion["body.body.com"] + ARM * np.stack([np.array([-np.sin(t), 0.0, np.cos(t)]) for t in -motion["body.body.angle"][:, 1]])
        np.testing.assert_allclose(np.linalg.norm(corner, axis=1), ROD, atol=1e-10)
    assert errors[-1] < 2e-4 and order(steps, errors) == pytest.approx(2.0, abs=0.1), errors
    assert order(steps, forces) == pytest.approx(2.0, abs=0.2), forces


def test_the_regularised_stepper_knows_it() -> None:
    motion = cb.simulate(hung(), 1.0, 0.0005, start(), stepper="spook")
    exact, force = double_pendulum(motion.time)
    assert np.abs(motion["body.body.com"][:, [0, 2]] - exact).max() < 0.01
    assert np.abs(motion["loop.rod.force"] - force)[10:-10].max() < 0.05 * np.abs(force).max()


def test_acceleration_at_rest() -> None:
    model = hung()
    q = np.array([*start()["joint.float.position"], np.cos(SECOND / 2), 0.0, -np.sin(SECOND / 2), 0.0])  # type: ignore[misc]
    a = cb.forward_dynamics(model, q)
    x = double_pendulum(1e-3 * np.arange(3.0))[0]
    once, twice = 2e6 * (x[1] - x[0]), 0.5e6 * (x[2] - x[0])
    np.testing.assert_allclose(a[[0, 2]], (4.0 * once - twice) / 3.0, rtol=1e-5)


def test_length_and_force_are_recovered() -> None:
    """Markers tell the length; with a load cell in the rod they weigh the body too."""
    rng = np.random.default_rng(3)
    motion = cb.simulate(hung(), 2.0, 0.002, start())
    t = motion.time[::5]
    observed = [cb.Observation(f"body.body.{w}.{c}", t, motion[f"body.body.{w}"][::5, i] + 1e-3 * rng.normal(size=len(t)), 1e-3) for w in ("com", "angle") for i, c in enumerate("xyz")]  # fmt: skip
    force = motion["loop.rod.force"][::5]
    observed.append(cb.Observation("loop.rod.force", t, force + 0.05 * rng.normal(size=len(t)), 0.05))
    unknown = {"loop.rod.length": 1.9, "mass": cb.Unknown(0.7, places={"body.body.mass": "mass"})}
    result = cb.fit(hung(length=1.9), cb.Recording("run", tuple(observed)), unknown, h=0.01)
    assert result.converged, result.status
    for name, true in {"loop.rod.length": ROD, "mass": MASS}.items():
        p = result.parameters[name]
        assert p.sd is not None and abs(p.value - true) < 4.0 * p.sd + 2e-3, (name, p)
    assert result.parameters["loop.rod.length"].sd < 1e-3  # type: ignore[operator]


def test_its_length_is_known_to_be_one() -> None:
    """Traits of numbers: a length is bounded below, and only rods have one."""
    run = cb.Recording("run", (cb.Observation("body.body.com.x", np.arange(5.0), np.arange(5.0), 1e-3),))
    (entry,) = entries(hung(), {"loop.rod.length": 1.9}, ("run",))
    assert entry.lower == 0.0
    pinned = cb.Model("pinned", hung().bodies, hung().joints, [cb.Loop("pin", body2="body")])
    with pytest.raises(cb.CalibodyError, match=r'"loop\.pin\.length" cannot be estimated: a point loop has no length'):
        cb.fit(pinned, run, {"loop.pin.length": 1.0})


def test_sentences(tmp_path: Path) -> None:
    with pytest.raises(cb.ModelError, match=r"loop\.rod\.length is 0; a rod has a length above zero"):
        hung(length=0.0)
    with pytest.raises(cb.CalibodyError, match=r"loop\.rod\.kind has no place in MJCF"):
        hung().save(tmp_path / "hung.xml")
    with pytest.raises(cb.CalibodyError, match=r"loop\.rod cannot close"):
        cb.simulate(cb.Model("far", hung().bodies, [cb.Joint("turn", "body")], hung(length=9.0).loops), 0.1, 0.01)
