"""Random mechanisms, good and bad: either a finite answer that an independent simulator confirms, or one sentence. Never anything else."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

import calibody as cb
from calibody import formats

finite = st.floats(-2.0, 2.0, allow_nan=False).map(lambda x: round(x, 3))
vector = st.tuples(finite, finite, finite)
wild = st.one_of(finite, st.sampled_from([math.nan, math.inf, -math.inf, 0.0, 1e308, -1e-300, "x", None]))
wild_vector = st.one_of(vector, st.tuples(wild, wild, wild), st.sampled_from([(), (1.0,), "abc", None, 3.0]))
KINDS = ["hinge", "slide", "ball", "free", "screw"]


def body_inertia(masses: list[float], points: list[tuple[float, float, float]]) -> tuple[float, tuple, tuple]:
    """Mass, centre of mass and inertia of point masses: always possible."""
    m, r = np.abs(masses) + 0.1, np.array(points)
    com = m @ r / m.sum()
    d = r - com
    I = (m[:, None, None] * ((d**2).sum(1)[:, None, None] * np.eye(3) - d[:, :, None] * d[:, None, :])).sum(0) + 1e-3 * np.eye(3)
    return float(m.sum()), tuple(com), (I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2])


@st.composite
def trees(draw: st.DrawFn) -> cb.Model:
    """A tree of 1 to 6 bodies with any joints, possible inertias, springs, dampers, armatures and actuators."""
    count = draw(st.integers(1, 6))
    bodies, joints, actuators = [], [], []
    for i in range(count):
        parent = draw(st.sampled_from(["world"] + [f"b{k}" for k in range(i)]))
        mass, com, inertia = body_inertia(draw(st.lists(finite, min_size=3, max_size=3)), draw(st.lists(vector, min_size=3, max_size=3)))
        orientation = draw(st.tuples(finite, finite, finite).map(lambda v: (1.0, *v)))
        kinds = draw(st.sampled_from([["hinge"], ["slide"], ["ball"], ["hinge", "hinge"], ["slide", "hinge"], [], ["free"]]))
        if kinds == ["free"] and parent != "world":
            kinds = ["hinge"]
        placed = {} if kinds == ["free"] else {"position": draw(vector), "orientation": orientation}  # a free body's pose is its coordinate
        bodies.append(cb.Body(f"b{i}", parent, mass, com, inertia, **placed))
        for k, kind in enumerate(kinds):
            axis = draw(vector.filter(lambda v: math.hypot(*v) > 0.1))
            positive = st.floats(0.0, 2.0).map(lambda x: round(x, 3))
            joints.append(
                cb.Joint(
                    f"j{i}{k}", f"b{i}", kind, axis=axis, anchor=(0.0, 0.0, 0.0) if kind == "free" else draw(vector), reference=0.0,
                    stiffness=draw(positive) if kind in ("hinge", "slide") else 0.0, damping=draw(positive), armature=draw(positive), springref=draw(finite) if kind in ("hinge", "slide") else 0.0,
                )
            )  # fmt: skip
            if kind in ("hinge", "slide") and draw(st.booleans()):
                actuators.append(cb.Actuator(f"m{i}{k}", f"j{i}{k}", gain=draw(finite), gear=draw(finite), damping=draw(positive)))
    return cb.Model("random", bodies, joints, actuators=actuators)


def state(model: cb.Model, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random coordinates, rates and controls in the layout of the joints."""
    rng = np.random.default_rng(seed)
    q, v = [], []
    for body in model.ordered_bodies:
        for joint in model.joints_of(body.name):
            if joint.kind == "free":
                q += list(rng.normal(size=3))
            if joint.kind in ("ball", "free"):
                e = rng.normal(size=4)
                q += list(e / np.linalg.norm(e))
            else:
                q.append(rng.normal())
            v += list(rng.normal(size={"hinge": 1, "slide": 1, "ball": 3, "free": 6}[joint.kind]))
    return np.array(q), np.array(v), rng.normal(size=len(model.actuators))


@pytest.mark.peer
@settings(max_examples=60)
@given(trees(), st.integers(0, 2**31))
def test_accelerations_agree_with_mujoco(tmp_path_factory: pytest.TempPathFactory, model: cb.Model, seed: int) -> None:
    mujoco = pytest.importorskip("mujoco", reason="compares with MuJoCo")
    q, v, control = state(model, seed)
    path = tmp_path_factory.getbasetemp() / "random.xml"
    formats.convert(model, path)
    peer = mujoco.MjModel.from_xml_path(str(path))
    peer.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    data = mujoco.MjData(peer)
    data.qpos[:], data.qvel[:] = q, v
    if len(control):
        data.ctrl[:] = control
    mujoco.mj_forward(peer, data)
    found = cb.forward_dynamics(model, q, v, control)
    np.testing.assert_allclose(found, data.qacc, atol=1e-8 * max(1.0, np.abs(data.qacc).max(initial=0.0)))
    back = cb.inverse_dynamics(model, q, v, found, control)
    np.testing.assert_allclose(back, 0.0, atol=1e-8 * max(1.0, np.abs(data.qfrc_bias).max(initial=0.0)))


@settings(max_examples=300)
@given(st.data())
def test_bad_elements_are_refused_in_a_sentence(data: st.DataObject) -> None:
    """Anything may be wrong; what is accepted must give finite accelerations or be refused then."""
    draw = data.draw
    name = st.sampled_from(["a", "b", "world", "", "a.b", None])
    parent = st.sampled_from(["world", "a", "b", "nobody", None])
    try:
        bodies = [
            cb.Body(draw(name), draw(parent), draw(wild), draw(wild_vector), draw(st.one_of(wild_vector, st.just((1.0, 1.0, 1.0)))), draw(wild_vector))  # type: ignore[arg-type]
            for _ in range(draw(st.integers(0, 3)))
        ]
        joints = [
            cb.Joint(draw(name), draw(st.sampled_from(["a", "b", "nobody"])), draw(st.sampled_from(KINDS)), axis=draw(wild_vector), damping=draw(wild))  # type: ignore[arg-type]
            for _ in range(draw(st.integers(0, 3)))
        ]
        model = cb.Model("bad", bodies, joints)
        found = cb.forward_dynamics(model)
    except cb.CalibodyError as error:
        text = str(error)
        assert text and "\n" not in text and text[-1] in ".?)", text
    else:
        assert np.isfinite(found).all()


@settings(max_examples=100)
@given(
    wild,
    wild,
    st.dictionaries(st.sampled_from(["joint.h.angle", "joint.h.rate", "joint.h.force", "joint.x.angle", "body.a.position", "h", ""]), wild, max_size=2),
)
@example(1.0, 1e-9, {})
@example(1.0, 2.0, {})
def test_bad_calls_are_refused_in_a_sentence(duration: object, h: object, initial: dict) -> None:
    """Only the refusals: a call that would run is not run (its structure would have to be compiled)."""
    model = cb.Model(bodies=[cb.Body("a", mass=1.0, com=(0, 0, -1))], joints=[cb.Joint("h", "a", axis=(0, 1, 0))])
    good = isinstance(duration, float) and isinstance(h, float) and 0 < h <= duration < math.inf and abs(round(duration / h) * h - duration) < 1e-6 * duration
    if good and duration / h < 5e7:  # type: ignore[operator]
        return
    with pytest.raises(cb.CalibodyError):
        cb.simulate(model, duration, h, initial)  # type: ignore[arg-type]


@settings(max_examples=3)
@given(trees(), st.integers(0, 2**31))
def test_random_trees_simulate(model: cb.Model, seed: int) -> None:
    simulates(model, seed)


@pytest.mark.slow
@settings(max_examples=20)
@given(trees(), st.integers(0, 2**31))
def test_many_random_trees_simulate(model: cb.Model, seed: int) -> None:
    simulates(model, seed)


def simulates(model: cb.Model, seed: int) -> None:
    """A short motion is finite and keeps its energy balance sign, or is refused in a sentence."""
    rng = np.random.default_rng(seed)
    rates = {f"joint.{j.name}.rate": float(rng.normal()) for j in model.joints if j.kind in ("hinge", "slide")}
    try:
        motion = cb.simulate(model, 0.02, 1e-3, rates)
    except cb.SimulationError as error:
        assert "\n" not in str(error)
        return
    assert np.isfinite(motion.energy).all() and all(np.isfinite(motion[c]).all() for c in motion.channels)
