"""Many tosses at once (`steppers/flying.py`): the law of one place against the one for many, motions against the simulator."""

from __future__ import annotations

import numpy as np
import pytest
from impact_problems import cube_model, square_model, stop_model
from scipy.spatial.transform import Rotation

import calibody as cb
from calibody.complementarity import cone, single
from calibody.mechanics import host
from calibody.mechanics.structure import Numbers, Structure
from calibody.steppers.flying import Flyer, Log, Swarm, stepped


def test_one_place_alone_is_the_law_of_many() -> None:
    random = np.random.default_rng(0)
    A, r = [], random.standard_normal((80, 3))
    r[:, 0] = -np.abs(r[:, 0])
    for _ in r:
        arm = np.cross(0.05 * random.standard_normal(3), np.eye(3))
        A.append(np.eye(3) / 0.37 + arm @ arm.T / 8e-4)
    mu = random.uniform(0.0, 1.0, len(r))
    found = single.alone(np.array(A), r, mu)
    assert (np.hypot(found[:, 1], found[:, 2]) < (1 - 1e-9) * mu * found[:, 0]).sum() > 10  # sticking ones are among them
    for a, own, friction, L in zip(A, r, mu, found, strict=True):
        assert np.abs(L - cone.solve(a, own[None], np.array([friction])).L[0]).max() < 1e-6 * np.abs(L).max()


def flyer_of(model: cb.Model) -> Flyer | None:
    structure = Structure.build(model)
    numbers = Numbers.of(structure, model)
    return Flyer.of(structure, model, numbers, host.zero_coordinates(structure, numbers))


CUBE = cube_model().replace({"body.cube.inertia.xx": 7e-4})
TOSSES = {
    "square": (
        square_model(),
        {"joint.x.position": 0.1, "joint.z.position": 1.6, "joint.turn.angle": 0.7},
        {"joint.x.rate": 1.0, "joint.z.rate": 0.5, "joint.turn.rate": 2.0},
        1.2,
        250,
    ),
    "cube": (CUBE, {"joint.free.position": (0, 0, 0.16)}, {"joint.free.rate": (0.5, 0.3, -0.5, 5, 3, -6)}, 0.215, 148),
}


@pytest.mark.parametrize("case", list(TOSSES))
def test_a_particle_moves_as_the_simulator_says(case: str) -> None:
    model, place, rates, duration, rate = TOSSES[case]
    motion = cb.simulate(model, duration, h=1.0 / 8000, initial=place | rates)
    flyer = flyer_of(model)
    assert flyer is not None and flyer.plane == (case == "square")
    bodies = flyer.bodies(flyer.vector(model)[:, None])
    if case == "square":
        x, turn, v, w = (0.1, 0.0, 1.6), (0, 0.7, 0), (1.0, 0, 0.5), (0, 2.0, 0)
    else:
        x, turn, v, w = (0, 0, 0.16), (0, 0, 0), (0.5, 0.3, -0.5), (5, 3, -6)
    R = Rotation.from_rotvec(turn).as_matrix()[..., None]
    s = Swarm(np.array(x, dtype=float)[:, None], R, np.array(v, dtype=float)[:, None], bodies.momenta(R, np.array(w, dtype=float)[:, None]))
    log = Log.empty(8, 1)
    for j in range(int(duration * rate)):
        s = stepped(bodies, s, j / rate, 1 / rate, log)
    events = [e for e in motion.events if e.time < int(duration * rate) / rate]
    assert len(events) >= 2 and log.count[0] == len(events)
    assert np.abs(log.times[: len(events), 0] - [e.time for e in events]).max() < 2e-5
    assert log.slips[: len(events), 0].tolist() == [e.mode == "slip" for e in events]


def test_what_does_not_fly() -> None:
    assert flyer_of(stop_model()) is None
    cube = cube_model()
    assert flyer_of(cube) is not None
    tied = cb.Model(
        "tied", cube.bodies, [cb.Joint("turn", "cube", axis=(0, 1, 0), damping=0.1)], geometries=cube.geometries, contacts=cube.contacts,
    )  # fmt: skip
    assert flyer_of(tied) is None
