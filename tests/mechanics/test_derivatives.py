"""Every derivative of the discrete equations against central differences, in `tree` and in `free`, on a mechanism with every element type."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import calibody as cb
from calibody.mechanics import assembly, equations
from calibody.mechanics.equations import evaluate
from calibody.mechanics.kinematics import Geometry, bracket, difference, poses, retract, twists
from calibody.mechanics.parameters import columns
from calibody.mechanics.plan import plan_of
from calibody.mechanics.point import Point
from calibody.mechanics.structure import Numbers, Structure

NODES = 5
RELATIVE = 1e-6


def everything() -> cb.Model:
    """A tree with all joint kinds, several joints on one body, a fixed body, all loops, forces and actuators."""
    rng = np.random.default_rng(7)
    inertia = (1.0, 1.2, 0.9, 0.05, 0.02, 0.03)

    def stiff() -> tuple[float, ...]:
        return tuple(float(x) for x in rng.normal(size=36))

    return cb.Model(
        bodies=[
            cb.Body("a", mass=1, com=(0, 0.1, -0.5), inertia=inertia, position=(0.1, 0.2, 0.3)),
            cb.Body("b", "a", mass=1.3, com=(0.1, 0.2, 0.3), inertia=inertia, position=(0, 0.1, -1), orientation=(0.9, 0.1, 0.2, 0.3)),
            cb.Body("c", "a", mass=0.7, com=(0.1, 0, 0.2), inertia=inertia, position=(0.5, 0, 0)),
            cb.Body("d", "b", mass=0.7, com=(0.1, 0, 0.2), inertia=inertia, position=(0.5, 0, 0)),
            cb.Body("f", mass=1, inertia=inertia, com=(0.1, 0.1, 0)),
            cb.Body("w", "a", mass=0.5, inertia=inertia, position=(0.2, 0.3, 0)),
        ],
        joints=[
            cb.Joint(
                "h1",
                "a",
                axis=(0, 1, 0),
                anchor=(0.1, 0, 0),
                damping=0.3,
                friction=0.2,
                friction_rate=2.0,
                stribeck=0.1,
                damping_skew=-0.2,
                friction_skew=0.1,
                stiffness=2,
                springref=0.1,
                armature=0.1,
            ),
            cb.Joint("s", "a", "slide", axis=(1, 1, 0), damping=0.1, friction=0.2, armature=0.3, stiffness=1),
            cb.Joint("bl", "b", "ball", anchor=(0, 0.2, 0.3), damping=0.2, friction=0.1, stiffness=0.5, armature=0.2),
            cb.Joint("h2", "c", axis=(1, 0.2, 0.3), damping=0.1),
            cb.Joint("h3", "d", axis=(1, 0.2, -0.3), damping=0.1, reference=0.2),
            cb.Joint("ff", "f", "free", damping=0.1, armature=0.1, stiffness=0.3),
        ],
        loops=[
            cb.Loop("point", "point", "c", "d", anchor1=(0.1, 0.2, 0.3)),
            cb.Loop("weld", "weld", "f", "b", anchor2=(0.1, 0.2, 0.3)),
            cb.Loop("gear", "coupling", joint1="h2", joint2="h3", polynomial=(0.1, 0.5, 0.3, 0.2, 0.1)),
            cb.Loop("held", "coupling", joint1="s", polynomial=(0.1, 0, 0, 0, 0)),
            cb.Loop("rod", "distance", "c", "f", anchor1=(0.1, 0.2, 0.3), anchor2=(0.3, 0.1, 0.2), length=0.7),
            cb.Loop(
                "pin", "hinge", "c", "f", anchor1=(0.2, 0.1, 0), anchor2=(0.1, 0, 0.3), orientation1=(0.8, 0.3, 0.1, 0.2), orientation2=(0.7, 0.1, 0.4, -0.2)
            ),
            cb.Loop("cross", "universal", "b", "w", anchor1=(0.2, 0.1, 0), orientation1=(0.8, 0.3, 0.1, 0.2), orientation2=(0.7, 0.1, 0.4, -0.2)),
            cb.Loop("sleeve", "cylindrical", "world", "d", anchor1=(0.2, 0.1, 0), anchor2=(0.1, 0, 0.3), orientation1=(0.8, 0.3, 0.1, 0.2)),
            cb.Loop("guide", "slide", "d", "c", anchor2=(0.1, 0, 0.3), orientation1=(0.8, 0.3, 0.1, 0.2), orientation2=(0.7, 0.1, 0.4, -0.2)),
            cb.Loop("plane", "point", "a", "f", anchor2=(0.1, 0, 0.3), orientation1=(0.8, 0.3, 0.1, 0.2), mask="y"),
            cb.Loop("line", "point", "d", "f", anchor1=(0.1, 0, 0.3), orientation1=(0.8, 0.3, 0.1, 0.2), mask="xz"),
            cb.Loop(
                "wheel",
                "rolling",
                "f",
                anchor1=(0.2, 0.1, 0),
                anchor2=(0.1, 0, 0.3),
                orientation1=(0.8, 0.3, 0.1, 0.2),
                orientation2=(0.9, 0.2, 0.1, -0.1),
                length=0.4,
            ),
            cb.Loop("skate", "knife", "d", anchor1=(0.2, 0.1, 0.1), orientation1=(0.8, 0.3, 0.1, 0.2)),
            cb.Loop("strut", "distance", "world", "d", anchor1=(0.1, 0.2, 0.3), length=0.7),
            cb.Loop("knee", "curve", joint1="h1", joint2="h3", curve=((-1.5, 0.2, 0.1), (-0.2, 0.5, -0.3), (0.4, 0.1, 0.6), (1.7, 0.9, 0.2))),
            cb.Loop("short", "curve", joint1="s", joint2="h2", curve=((-0.5, 0.2, 0.1), (0.7, 0.9, 0.2))),
        ],
        springs=[
            cb.Spring("between", "c", "f", point1=(0.1, 0.1, 0.1), stiffness=3, damping=0.5, rest_length=0.2),
            cb.Spring("ground", "c", "world", stiffness=3, damping=0.5, rest_length=0.2),
        ],
        bushings=[
            cb.Bushing(
                "bush", "d", "f", stiffness=stiff(), damping=stiff(), k_plus=(1.0, 2, 3, 1, 2, 3), k_minus=(2.0, 0.5, 1, 2, 0, 1), k3=(0.5, 1, -1, 0.3, 0.2, 1)
            )
        ],
        transmissions=[
            cb.Transmission(
                "belt",
                ("h1", "h3", "s"),
                (0.7, -1.3, 0.4),
                stiffness=2.0,
                springref=0.3,
                damping=0.4,
                friction=0.2,
                stribeck=0.1,
                damping_skew=0.3,
                friction_skew=-0.1,
                armature=0.2,
                backlash=0.5,
            ),
            cb.Transmission("wrist", ("h2", "h3"), (1.0, 0.5), friction=0.1, armature=0.1),
        ],
        actuators=[
            cb.Actuator("m3", transmission="wrist", gain=1.5, gear=0.8, bias=0.2, stiffness=0.3, damping=0.1),
            cb.Actuator("m", "h2", gain=2, gear=1.5, bias=0.1, stiffness=0.2, damping=0.1),
            cb.Actuator("m2", "h1", gain=2, gear=1.2, stiffness=0.3, damping=0.2, force_range=(-1.0, 0.5)),
            cb.Actuator("winch", path="round", gain=0.05, gear=0.8, bias=0.02, stiffness=0.001, damping=0.003),
            cb.Muscle("biceps", path="line", peak_force=3.0, optimal_length=2.0, slack_length=0.3, vmax=8.0),
            cb.Muscle("extensor", "h3", peak_force=2.0, optimal_length=1.5, slack_length=-1.0, vmax=9.0, gear=0.7),
        ],
        sites=[
            cb.Site("p1", "a", (0.9, 0.3, 0.2)),
            cb.Site("p2", "b", (0.2, -0.8, 0.4)),
            cb.Site("p3", "world", (-5.0, 0.5, 0.3)),
            cb.Site("p4", "c", (6.0, 0.5, 0.4)),
            cb.Site("side", "d", (0.3, 0.2, 0.1)),
            cb.Site("in", "f", (0.05, 0.0, 0.0)),
            cb.Site("tip", "c", (0.1, 0.2, 0.3), (0.9, 0.1, 0.2, 0.3)),
            cb.Site("plate", "f", (0.3, 0.1, -0.2)),
        ],
        geometries=[
            cb.Geometry("ball", "f", "sphere", (4.2,), (0.1, 0.2, 0.1)),
            cb.Geometry("drum", "f", "cylinder", (2.3, 1.0), (0.1, -0.2, 0.1), (0.9, 0.2, 0.3, -0.1)),
            cb.Geometry("ring", "f", "sphere", (0.2,), (0.1, 0.0, 0.1)),
            cb.Geometry("egg", "c", "ellipsoid", (1.3, 0.8, 1.7), (0.1, 0.2, -0.1), (0.9, 0.2, 0.3, -0.1)),
        ],
        contacts=[
            cb.Contact("lands", "egg", friction=0.4, friction_rate=0.8, stiffness=0.3, exponent=2.0, depth=1.5, damping=0.1, viscous=0.05, law="compliant"),
        ],
        limits=[
            cb.Limit("buffer", "h2", -1.5, "upper", law="compliant", stiffness=0.4, exponent=1.7, depth=1.0, damping=0.2),
            cb.Limit("rubber", "s", 2.0, "lower", law="compliant", stiffness=0.6, exponent=2.0, damping=0.1),
        ],
        paths=[
            cb.Path(
                "line", ("p1", "p2", cb.Pulley(2.0), "p2", "p4", "p1"), stiffness=2.0, springref=1.0, damping=0.3, friction=0.2, armature=0.4, backlash=0.3
            ),
            cb.Path(
                "round",
                ("p3", cb.Wrap("ball"), "p4", cb.Wrap("drum", "side"), "p3", cb.Wrap("ring", "in"), "p4"),
                stiffness=0.02,
                springref=25.0,
                damping=0.01,
                armature=0.003,
            ),
        ],
        world=cb.World(tilt=(0.1, 0.05, 0.02), ground_height=2.0, ground_tilt=(0.2, -0.1)),
    )


DRIVEN = [
    "joint.h1.angle", "joint.ff.position.y", "site.plate.position.z", "site.tip.force.x", "site.tip.torque.y", "site.tip.force.own.z", "site.tip.torque.own.x",
    "site.plate.force.y", "body.d.force.z", "body.c.torque.x", "spring.between.force", "spring.ground.force",
]  # fmt: skip
"""Drives that prescribe, push and pull."""


class Case:
    """A random point of the equations: not a solution, so that every term counts."""

    def __init__(self, coordinates: str) -> None:
        rng = np.random.default_rng(11)
        self.model = everything()
        if coordinates == "loaded":
            coordinates, self.model = "free", self.model.replace(LOADED)
        self.structure = s = Structure.build(self.model, coordinates, driven=DRIVEN)
        self.numbers = Numbers.of(s)
        q = retract(s, rng.normal(size=(s.nq, 1)), np.zeros((s.nv, 1)))
        q = np.concatenate([retract(s, q, 0.1 * k + 0.03 * rng.normal(size=(s.nv, 1))) for k in range(NODES)], axis=1)
        applied = rng.normal(size=(s.applied_rows, NODES - 1))
        point = Point(q, rng.normal(size=(s.nc, NODES)), rng.normal(size=(len(self.model.actuators), NODES - 1)), applied, 0.1, 0.3)
        self.point = replace(
            point, given=rng.normal(size=(len(s.prescribed), NODES)), turns=None if coordinates == "tree" else assembly.turns_along(s, self.numbers, q)
        )
        self.result = evaluate(s, self.numbers, self.point)

    def values(self, **change: np.ndarray):
        return evaluate(self.structure, self.numbers, replace(self.point, **change), derivatives=False)

    def moved(self, dof: int, node: int, by: float) -> np.ndarray:
        d = np.zeros((self.structure.nv, NODES))
        d[dof, node] = by
        return retract(self.structure, self.point.q, d)


LOADED = {
    "joint.h1.load_friction": 0.2,
    "joint.h1.load_stribeck": 0.1,
    "joint.h1.friction_radius": 0.3,
    "joint.s.load_friction": 0.3,
    "joint.bl.load_friction": 0.2,
}


@pytest.fixture(scope="module", params=["tree", "free", "loaded"])
def case(request: pytest.FixtureRequest) -> Case:
    return Case(request.param)


def central(case: Case, node: int, offset: int, name: str, at: int) -> np.ndarray:
    step = 1e-6
    out = []
    for dof in range(case.structure.nv):
        high, low = (getattr(case.values(q=case.moved(dof, node + offset, s * step)), name)[:, at] for s in (1, -1))
        out.append((high - low) / (2 * step))
    return np.array(out).T


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_residual_by_coordinates(case: Case, offset: int) -> None:
    node = 2
    exact = case.result.dense(node - 1)[offset + 1]
    found = central(case, node, offset, "residual", node - 1)
    np.testing.assert_allclose(exact, found, atol=RELATIVE * np.abs(exact).max())


def test_constraints_by_coordinates(case: Case) -> None:
    exact = case.result.dense_gradient(2)
    np.testing.assert_allclose(exact, central(case, 2, 0, "constraint", 2), atol=RELATIVE * np.abs(exact).max())


def test_velocity_rows_by_the_node_before(case: Case) -> None:
    exact = case.result.dense_before(2)
    assert np.abs(exact).max() > 0.1
    np.testing.assert_allclose(exact, central(case, 2, -1, "constraint", 2), atol=RELATIVE * np.abs(exact).max())


def test_residual_by_multipliers(case: Case) -> None:
    """In `free` a coupling acts through the joint's axis, which is G' only where the joints hold."""
    acting = case.result.dense_acting(2)
    step, tolerance = (1e-4, 1e-8) if case.structure.loaded else (1.0, 1e-12)  # only friction by load is not linear in them
    for row in range(case.structure.nc):
        ends = []
        for sign in (1.0, -1.0):
            multipliers = case.point.multipliers.copy()
            multipliers[row, 2] += sign * step
            ends.append(case.values(multipliers=multipliers).residual[:, 1])
        np.testing.assert_allclose((ends[0] - ends[1]) / (2.0 * step), -case.point.h * acting[row], atol=tolerance)


def test_residual_by_control(case: Case) -> None:
    assert case.result.control is not None
    from calibody.steppers.sensitivity import control_columns

    for interval in (0, 1):
        exact = control_columns(case.structure, case.numbers, assembly.frames(case.structure, case.numbers, case.point), case.result, 1, interval)
        for a in range(3):
            found = []
            for sign in (1, -1):
                control = case.point.control.copy()
                control[a, interval] += sign * 1e-3
                found.append(case.values(control=control).residual[:, 0])
            np.testing.assert_allclose(exact[: case.structure.nv, a], (found[0] - found[1]) / 2e-3, atol=1e-10)


def test_residual_by_applied_forces(case: Case) -> None:
    """Forces on joints, bodies and springs enter through what `assembly.driving` says, at both ends of an interval."""
    s, h = case.structure, case.point.h
    frames = assembly.frames(s, case.numbers, case.point)
    for row in range(s.applied_rows - len(s.prescribed)):
        dofs, left, right = assembly.driving(plan_of(s), case.numbers, frames, row)
        for side, ends in ((0, right[:, 0]), (1, left[:, 1])):
            found = []
            for sign in (1, -1):
                applied = case.point.applied.copy()
                applied[row, side] += sign * 1e-2
                found.append(case.values(applied=applied).residual[:, 0])
            expected = np.zeros(s.nv)
            np.add.at(expected, dofs, -0.5 * h * ends)
            np.testing.assert_allclose((found[0] - found[1]) / 2e-2, expected, atol=1e-10)


def paths(case: Case) -> list[str]:
    """Every number of the model but those of rigid contact and depths and radii that are none, frictions of joints that cannot have them, widths of zero (friction is sharp there, and soft beside it) skews of friction that there is none of, and softness of what is rigid; of a model with friction by load,
    what has to do with friction."""
    refused = ("joint.bl.stribeck", "joint.ff.stribeck", "joint.bl.load_stribeck", "joint.ff.load_stribeck", "joint.ff.load_friction")
    sharp = [p for p in everything().parameters if p.endswith((".friction_rate", "_skew")) and not everything()[p]]
    rigid = [f"loop.{lp.name}.compliance" for lp in everything().loops if lp.kind in ("rolling", "knife")]
    rigid += [
        p for p in everything().parameters if p.endswith((".restitution", ".sliding_friction")) or (p.endswith((".depth", ".radius")) and not everything()[p])
    ]
    return [p for p in everything().parameters if p not in (*refused, *sharp, *rigid) and (not case.structure.loaded or "friction" in p or "stribeck" in p)]


def test_every_parameter(case: Case) -> None:
    """All numbers of the model by their paths, each in `tree` or in `free`; one whose neighbours are not allowed (a friction of zero) is tested from one side."""
    names = paths(case)
    assert len(names) > (20 if case.structure.loaded else 400)
    by_differences(case, names if case.structure.loaded else names[case.structure.coordinates == "free" :: 2])


@pytest.mark.slow
def test_every_parameter_in_both_coordinates(case: Case) -> None:
    by_differences(case, paths(case))


def by_differences(case: Case, names: list[str]) -> None:
    exact = columns(case.structure, case.numbers, case.point, names)
    step = 1e-5

    def at(path: str, value: float):
        return evaluate(case.structure, Numbers.of(case.structure, case.model.replace({path: value})), case.point, derivatives=False)

    for k, path in enumerate(names):
        value = case.model[path]
        try:
            low, span = at(path, value - step), 2 * step
            tolerance = RELATIVE
        except cb.ModelError:
            low, span, tolerance = at(path, value), step, 1e-4
        high = at(path, value + step)
        for name in ("residual", "constraint"):
            found, expected = (getattr(high, name) - getattr(low, name)) / span, getattr(exact, name)[k]
            assert np.abs(found - expected).max(initial=0.0) <= tolerance * max(np.abs(found).max(initial=0.0), 1e-3), path


def test_twists_and_their_brackets(case: Case) -> None:
    s = case.structure
    geometry = Geometry.of(s, case.numbers)
    q = case.point.q[:, :1]
    H = poses(s, geometry, q)
    T = twists(s, geometry, H)
    step = 1e-6
    for i in range(s.nv):
        d = np.zeros((s.nv, 1))
        d[i] = step
        high, low = (poses(s, geometry, retract(s, q, sign * d)) for sign in (1, -1))
        dH, dT = (high - low) / (2 * step), (twists(s, geometry, high) - twists(s, geometry, low)) / (2 * step)
        for link in range(s.n):
            expected = np.zeros((3, 4, 1))
            if i in s.dofs_above[link]:
                expected = np.cross(T[:3, i, 0][:, None], H[:, :, link, 0], axis=0)[..., None]
                expected[:, 3, 0] += T[3:, i, 0]
            np.testing.assert_allclose(dH[:, :, link], expected, atol=1e-8)
        for j in range(s.nv):
            expected = bracket(T[:, i], T[:, j]) if s.follows[j, i] else np.zeros((6, 1))
            np.testing.assert_allclose(dT[:, j], expected, atol=1e-8)


def test_difference_undoes_retract(case: Case) -> None:
    d = 0.3 * np.random.default_rng(3).normal(size=(case.structure.nv, NODES))
    np.testing.assert_allclose(difference(case.structure, retract(case.structure, case.point.q, d), case.point.q), d, atol=1e-13)


def test_chunks_change_nothing(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """The nodes are worked through in chunks on several threads: the result must not depend on it."""
    s = case.structure
    point = Point(
        *(np.tile(a, (1, 60)) for a in (case.point.q, case.point.multipliers)),
        *(np.tile(a, (1, 75)) for a in (case.point.control, case.point.applied)),
        0.1,
        0.3,
    )
    point = replace(point, q=point.q[:, :300], multipliers=point.multipliers[:, :300], control=point.control[:, :299], applied=point.applied[:, :299])
    whole = evaluate(s, case.numbers, point)
    monkeypatch.setattr(equations, "CHUNK", 1)
    cut = evaluate(s, case.numbers, point)
    for name in equations._ARRAYS:
        assert (getattr(whole, name) is None) == (getattr(cut, name) is None)
        if getattr(whole, name) is not None:
            np.testing.assert_allclose(getattr(cut, name), getattr(whole, name), atol=1e-11, err_msg=name)
