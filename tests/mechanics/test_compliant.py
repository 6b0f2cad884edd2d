"""Compliant contact: its derivatives against differences for every pair of shapes, and that what it does is equal and opposite."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import calibody as cb
from calibody.mechanics import assembly
from calibody.mechanics.elements import compliant
from calibody.mechanics.equations import evaluate
from calibody.mechanics.kinematics import retract
from calibody.mechanics.parameters import columns
from calibody.mechanics.plan import plan_of
from calibody.mechanics.point import Point
from calibody.mechanics.structure import Numbers, Structure
from calibody.steppers.base import Start
from calibody.steppers.start import free_start

NODES, STEP = 5, 1e-6
INERTIA = (1.0, 1.2, 0.9)


def touching() -> cb.Model:
    """Two bodies that overlap each other and the ground in every way that compliant contact knows; where a site or a corner is deep in something, or at its edge, included."""
    law: dict[str, Any] = {"law": "compliant", "friction": 0.3, "friction_rate": 0.5, "stiffness": 0.2, "damping": 0.05}
    return cb.Model(
        bodies=[
            cb.Body("a", mass=1, inertia=INERTIA, position=(0.1, 0.2, 0.3)),
            cb.Body("b", "a", mass=1, inertia=INERTIA),
            cb.Body("c", mass=1, inertia=INERTIA),
        ],
        joints=[cb.Joint("h", "a", axis=(0.3, 1, 0.2)), cb.Joint("s", "b", "slide", axis=(1, 0.4, 0.3)), cb.Joint("f", "c", "free")],
        sites=[cb.Site("tip", "c", (0.1, 0.2, 0.3)), cb.Site("deep", "c", (0.2, 0.1, 0.1))],
        geometries=[
            cb.Geometry("egg", "c", "ellipsoid", (1.3, 0.8, 1.7), (0.1, 0.2, -0.1), (0.9, 0.2, 0.3, -0.1)),
            cb.Geometry("head", "c", "sphere", (1.1,), (0.2, 0.1, 0.3)),
            cb.Geometry("pill", "b", "capsule", (0.7, 1.5), (0.3, -0.2, 0.1), (0.5, 0.4, -0.3, 0.6)),
            cb.Geometry("short", "b", "capsule", (0.7, 0.1), (1.3, -0.2, 0.1), (0.5, 0.4, -0.3, 0.6)),
            cb.Geometry("crate", "b", "box", (0.6, 0.8, 0.5), (1.1, 0.3, 0.2), (0.7, -0.2, 0.5, 0.1)),
            cb.Geometry("case", "b", "box", (9.0, 2.8, 8.0), (0.1, 0.3, 0.2), (0.7, -0.2, 0.5, 0.1)),
            cb.Geometry("fist", "b", "sphere", (0.9,), (0.4, 0.1, 0.6)),
            cb.Geometry("lid", "a", "plane", (1.0, 1.0), (0.2, 0.3, 1.0), (0.1, 0.9, 0.3, 0.2)),
        ],
        contacts=[
            cb.Contact("lands", "egg", viscous=0.05, **law),
            cb.Contact("stands", "crate", exponent=2.0, depth=1.5, radius=0.1, **law),
            cb.Contact("lies", "pill", exponent=2.0, depth=0.2, **law),
            cb.Contact("under", "lid", "head", exponent=2.0, depth=0.4, **law),
            cb.Contact("pokes", "pill", "tip", radius=3.0, **law),
            cb.Contact("meets", "head", "fist", **law),
            cb.Contact("ends", "tip", "short", radius=3.0, **law),
            cb.Contact("bumps", "head", "crate", exponent=1.8, viscous=0.1, **law),
            cb.Contact("within", "deep", "case", **law),
        ],
        world=cb.World(ground_height=2.0, ground_tilt=(0.2, -0.1)),
    )


class Case:
    def __init__(self, coordinates: str) -> None:
        rng = np.random.default_rng(5)
        self.model = touching()
        self.structure = s = Structure.build(self.model, coordinates)
        self.numbers = Numbers.of(s)
        tree = Structure.build(self.model, "tree")
        q = retract(tree, rng.normal(size=(tree.nq, 1)), np.zeros((tree.nv, 1)))
        q = np.concatenate([retract(tree, q, 0.1 * k + 0.05 * rng.normal(size=(tree.nv, 1))) for k in range(NODES)], axis=1)
        if coordinates == "free":
            starts = [Start(column, np.zeros(tree.nv), column[tree.scalar_positions]) for column in q.T]
            q = np.column_stack([free_start(tree, s, self.numbers, start).q for start in starts])
        self.point = Point(q, np.zeros((s.nc, NODES)), np.zeros((0, NODES - 1)), np.zeros((s.applied_rows, NODES - 1)), 0.1, 0.3)
        self.point = replace(self.point, turns=None if coordinates == "tree" else assembly.turns_along(s, self.numbers, q))

    def residual(self, numbers: Numbers | None = None, **change: Any) -> np.ndarray:
        return evaluate(self.structure, self.numbers if numbers is None else numbers, replace(self.point, **change), derivatives=False).residual


@pytest.fixture(scope="module", params=["tree", "free"])
def case(request: pytest.FixtureRequest) -> Case:
    return Case(request.param)


def test_all_of_them_press_and_slip(case: Case) -> None:
    """Otherwise the other tests say nothing."""
    plan, f = plan_of(case.structure), assembly.frames(case.structure, case.numbers, case.point)
    pressed = {c.name: 0.0 for c in case.model.contacts}
    for group, spots in zip(plan.encounters, compliant.groups_of(case.model).values(), strict=True):
        ends = (assembly.link_pairs(f, group.touches, nodes) for nodes in (assembly.LEFT, assembly.RIGHT))
        found = group.type.exchange(*ends, case.numbers.elements[group.name][:, :, None], case.point.h)
        for e, spot in enumerate(spots):
            name = case.model.contacts[spot.owner].name
            pressed[name] = max(pressed[name], float(np.abs(found.normal[e] * found.slip[:, e]).max()))
    assert {t.kernel for t in compliant.groups_of(case.model)} == {"point_plane", "ellipsoid_plane", "point_point", "point_segment", "point_box"}
    assert min(pressed.values()) > 1e-3, pressed


def test_by_coordinates(case: Case) -> None:
    s, found = case.structure, evaluate(case.structure, case.numbers, case.point)
    for offset in (-1, 0, 1):
        exact = found.dense(1)[offset + 1]
        for dof in range(s.nv):
            d = np.zeros((s.nv, NODES))
            d[dof, 2 + offset] = STEP
            high, low = (case.residual(q=retract(s, case.point.q, sign * d))[:, 1] for sign in (1, -1))
            np.testing.assert_allclose(exact[:, dof], (high - low) / (2 * STEP), atol=1e-6 * np.abs(exact).max())


def test_by_numbers(case: Case) -> None:
    """Of the laws, the shapes, the sites and the ground."""
    model = case.model
    kinds = ("contact.", "geometry.", "site.", "world.ground")
    none = [p for p in model.parameters if p.endswith((".restitution", ".sliding_friction")) or (p.endswith((".depth", ".radius")) and not model[p])]
    names = [p for p in model.parameters if p.startswith(kinds) and p not in none and not (p.endswith(".viscous") and not model[p])]
    exact = columns(case.structure, case.numbers, case.point, names).residual
    for k, path in enumerate(names):
        high, low = (case.residual(Numbers.of(case.structure, model.replace({path: model[path] + sign * 1e-5}))) for sign in (1, -1))
        expected = (high - low) / 2e-5
        assert np.abs(exact[k] - expected).max() <= 1e-6 * max(np.abs(expected).max(), 1e-2), path
    moves = {p.split(".")[1] for p, column in zip(names, exact, strict=True) if np.abs(column).max() > 1e-4}
    assert {"tip", "egg", "crate", "lands", "ground"} <= moves
