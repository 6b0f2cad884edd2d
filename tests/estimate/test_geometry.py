"""Unknown geometry: what every number that places things does to every kind of channel, in both coordinates, against central differences."""

from __future__ import annotations

import numpy as np
import pytest

import calibody as cb
from calibody.estimate.layout import MULTIPLIERS, NODES, States
from calibody.estimate.nodes import Noise
from calibody.estimate.problem import Problem
from calibody.estimate.run import Run
from calibody.estimate.unknowns import entries
from calibody.mechanics.kinematics import retract
from calibody.mechanics.structure import Structure

INERTIA = (1.0, 1.2, 0.9, 0.05, 0.02, 0.03)


def mechanism() -> cb.Model:
    """All joint kinds, several joints on one body, a body that hangs on the world and carries others, sites on all of them."""
    return cb.Model(
        bodies=[
            cb.Body("post", position=(0.1, 0.2, 0.3), orientation=(0.9, 0.1, 0.2, 0.3)),
            cb.Body("a", "post", mass=1, com=(0, 0.1, -0.5), inertia=INERTIA, position=(0.1, 0.2, 0.3)),
            cb.Body("b", "a", mass=1.3, com=(0.1, 0.2, 0.3), inertia=INERTIA, position=(0, 0.1, -1), orientation=(0.9, 0.1, 0.2, 0.3)),
            cb.Body("c", "b", mass=0.7, com=(0.1, 0, 0.2), inertia=INERTIA, position=(0.5, 0, 0)),
            cb.Body("d", "c", mass=0.7, com=(0.1, 0, 0.2), inertia=INERTIA, position=(0.5, 0.1, 0.2)),
            cb.Body("f", mass=1, inertia=INERTIA, com=(0.1, 0.1, 0), position=(0.2, 0.1, 0), orientation=(0.8, 0.3, 0.1, 0.2)),
            cb.Body("z", mass=1, inertia=INERTIA, com=(0.1, 0.1, 0), position=(0.2, 0.1, 0)),
        ],
        joints=[
            cb.Joint("h", "a", axis=(0, 1, 0.1), anchor=(0.1, 0, 0)),
            cb.Joint("s", "a", "slide", axis=(1, 1, 0), reference=0.1),
            cb.Joint("bl", "b", "ball", anchor=(0, 0.2, 0.3)),
            cb.Joint("h2", "c", axis=(1, 0.2, 0.3), reference=0.2, anchor=(0, 0.1, 0.05)),
            cb.Joint("ff", "f", "free"),
            cb.Joint("hz", "z", axis=(0, 0, 1)),
        ],
        sites=[cb.Site(f"on_{b}", b, position=(0.1, 0.2, -0.3), orientation=(0.9, 0.2, 0.1, -0.1)) for b in ("post", "a", "b", "c", "d", "f")],
        loops=[cb.Loop("tie", "point", "d", "f", anchor1=(0.1, 0.2, 0.3))],
    )


CHANNELS = (
    ["joint.h.angle", "joint.h.rate", "joint.s.position", "joint.s.rate", "joint.h2.angle", "body.z.angle.z", "loop.tie.force.x"]
    + [f"joint.bl.{q}.{c}" for q in ("angle", "rate") for c in "xyz"]
    + [f"joint.ff.{q}.{c}" for q in ("position", "angle") for c in "xyz"]
    + [f"joint.ff.rate.{c}" for c in ("x", "y", "z", "rx", "ry", "rz")]
    + [f"body.{b}.{q}.{c}" for b in ("a", "d", "f") for q in ("position", "com", "angle") for c in "xyz"]
    + [f"site.on_{b}.{q}.{c}" for b in ("post", "a", "b", "d", "f") for q in ("position", "angular_rate", "acceleration") for c in "xyz"]
)
PLACES = ("position", "orientation", "anchor", "axis", "reference", "com", "anchor1", "anchor2")


def problem(coordinates: str, estimate: dict[str, cb.Unknown]) -> tuple[Problem, list[States]]:
    rng = np.random.default_rng(3)
    model = mechanism()
    times = 0.05 * np.arange(9)
    recording = cb.Recording("run", tuple(cb.Observation(c, times + 0.01, 0.3 * rng.normal(size=9), sd=1.0) for c in CHANNELS), start=0.0, end=0.45)
    s = Structure.build(model, coordinates)
    run = Run.of(s, recording, 0.05, Noise({c: 1.0 for c in CHANNELS}, frozenset(), {}))
    q = retract(s, rng.normal(size=(s.nq, 1)), np.zeros((s.nv, 1)))
    q = np.concatenate([retract(s, q, 0.1 * k + 0.03 * rng.normal(size=(s.nv, 1))) for k in range(run.K)], axis=1)
    states = States({NODES: q, MULTIPLIERS: rng.normal(size=(s.nc, run.K))})
    return Problem.of([run], entries(model, estimate, ["run"])), [states]


def unknowns() -> dict[str, cb.Unknown]:
    """Every number that places something (a joint's position is the same unknown as its body's), and one in several places."""
    names = [p for p in mechanism().parameters if p.split(".")[2] in PLACES and p.split(".")[0] != "geometry"]
    names = [n for n in names if not n.startswith("joint.") or ".position" not in n or n.startswith("joint.h2.")]
    names = [n for n in names if not n.startswith(("body.c.position", "body.a.com.x", "body.d.position.x"))]
    names += ["world.gravity.z", "world.gravity.tilt.x"]
    shared = {"rod": cb.Unknown(0.5, places={"body.d.position.x": "rod", "body.a.com.x": "0.5 * rod - 0.25"})}
    return {n: cb.Unknown() for n in names} | shared


@pytest.mark.parametrize("coordinates", ["tree", "free"])
def test_every_place_and_channel(coordinates: str) -> None:
    estimate = unknowns()
    found, states = problem(coordinates, estimate)
    theta = np.array([e.initial for e in found.entries])
    model, numbers, sensors = found.model_of(0, theta)
    frames = found.frames(0, states[0], model, numbers)
    _, _, exact = found._observed(0, theta, frames, sensors, model, numbers, states[0], True)
    step = 1e-5
    for k, entry in enumerate(found.entries):
        ends = [np.concatenate([v for _, v in found.fitted(0, states[0], theta + sign * step * np.eye(len(theta))[k])]) for sign in (1, -1)]
        expected = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(exact[:, k], expected, rtol=1e-6, atol=1e-6 + 1e-8 * np.abs(expected).max(), err_msg=entry.name)


def test_all_ten_numbers_move_the_centre_of_mass() -> None:
    found, states = problem("tree", {"body.d.inertia": cb.Unknown()})
    theta = 0.1 * np.arange(10.0)
    model, numbers, sensors = found.model_of(0, theta)
    _, _, exact = found._observed(0, theta, found.frames(0, states[0], model, numbers), sensors, model, numbers, states[0], True)
    for k in range(10):
        ends = [np.concatenate([v for _, v in found.fitted(0, states[0], theta + sign * 1e-5 * np.eye(10)[k])]) for sign in (1, -1)]
        np.testing.assert_allclose(exact[:, k], (ends[0] - ends[1]) / 2e-5, atol=1e-6)


@pytest.mark.parametrize("coordinates", ["tree", "free"])
def test_every_channel_by_coordinates(coordinates: str) -> None:
    found, states = problem(coordinates, {"body.a.mass": cb.Unknown()})
    theta = np.array([1.0])
    model, numbers, sensors = found.model_of(0, theta)
    run = found.runs[0]
    _, exact, _ = found._observed(0, theta, found.frames(0, states[0], model, numbers), sensors, model, numbers, states[0], False)
    step, nv, planar = 1e-6, run.structure.nv, CHANNELS.index("body.z.angle.z")
    used = np.repeat(
        [coordinates == "tree" or c != planar for c in range(len(CHANNELS))], 9
    )  # one angle has a meaning in the plane only, which random poses leave
    for k in range(2 * nv, 5 * nv):  # three nodes in the middle
        ends = [np.concatenate([v for _, v in found.fitted(0, run.move(states[0], sign * step * np.eye(1, exact.shape[1], k)[0]), theta)]) for sign in (1, -1)]
        expected = (ends[0] - ends[1]) / (2 * step)
        close = {"rtol": 1e-6, "atol": 1e-6 + 1e-7 * np.abs(expected).max(), "err_msg": str(k)}
        np.testing.assert_allclose(exact[:, [k]].toarray()[used, 0], expected[used], **close)
