"""Gaps against MuJoCo's distances, and every row of a contact against central differences, in `tree` and in `free`."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

import calibody as cb
from calibody.mechanics import assembly
from calibody.mechanics.contact import Spots
from calibody.mechanics.kinematics import Geometry, poses, retract
from calibody.mechanics.structure import Numbers, Structure
from calibody.steppers import step
from calibody.steppers.base import Start
from calibody.steppers.start import free_start

SIZES = {"sphere": (0.12,), "capsule": (0.08, 0.2), "box": (0.1, 0.2, 0.15), "ellipsoid": (0.1, 0.2, 0.15), "cylinder": (0.15, 0.1), "plane": (1.0, 1.0, 0.1)}
PAIRS = [
    ("sphere", "plane"), ("capsule", "plane"), ("box", "plane"), ("ellipsoid", "plane"), ("cylinder", "plane"),
    ("sphere", "sphere"), ("sphere", "capsule"), ("capsule", "capsule"), ("sphere", "box"), ("capsule", "box"), ("box", "capsule"), ("plane", "box"),
]  # fmt: skip


def chain(first: str, second: str, radius: float = 0.0) -> cb.Model:
    """Two shapes, somewhere in the frames of two bodies of which one hangs on a hinge of the other's parent."""
    rng = np.random.default_rng(3)

    def turn() -> tuple[float, ...]:
        return tuple(float(x) for x in rng.normal(size=4))

    inertia = (0.1, 0.1, 0.1)
    return cb.Model(
        bodies=[cb.Body("f", mass=1, inertia=inertia), cb.Body("r", mass=1, inertia=inertia), cb.Body("s", "r", mass=1, inertia=inertia, position=(0.1, 0, 0))],
        joints=[cb.Joint("float", "f", "free"), cb.Joint("h", "r", axis=(0, 1, 0.2)), cb.Joint("l", "s", "slide", axis=(1, 0, 0.3))],
        geometries=[
            cb.Geometry("one", "f", first, SIZES[first], (0.02, 0.01, -0.03), turn()),
            cb.Geometry("two", "s", second, SIZES[second], (0.03, -0.02, 0.01), turn()),
        ],
        contacts=[cb.Contact("c", "one", "two", friction=0.5, radius=radius)],
        limits=[cb.Limit("up", "h", 0.7), cb.Limit("down", "l", -0.2, "lower")],
    )


def somewhere(structure: Structure, numbers: Numbers, seed: int) -> np.ndarray:
    """Random coordinates of the tree, also as poses of all bodies."""
    rng = np.random.default_rng(seed)
    tree = Structure.build(structure.model, "tree")
    q = np.zeros(tree.nq)
    q[3] = 1.0
    q = retract(tree, q, 0.7 * rng.normal(size=tree.nv))
    q[:3] += 0.6 * rng.normal(size=3)
    if structure.coordinates == "tree":
        return q
    return free_start(tree, structure, numbers, Start(q, np.zeros(tree.nv), q[tree.scalar_positions])).q


@pytest.mark.parametrize("coordinates", ["tree", "free"])
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_rows_are_the_gradient_of_the_gap(first: str, second: str, coordinates: str) -> None:
    structure = Structure.build(chain(first, second, 0.03 if {first, second} & {"cylinder", "box"} and "plane" in (first, second) else 0.0), coordinates)
    numbers = Numbers.of(structure)
    spots = Spots.of(structure)
    turns = np.zeros((len(structure.scalar_coordinates), 1))

    def gaps(q: np.ndarray) -> np.ndarray:
        f = assembly.frames_at(structure, numbers, q[:, None], turns)
        return spots.gaps(spots.touch(f.H[..., 0]), f.s[:, 0])

    for seed in range(4):
        q = somewhere(structure, numbers, seed)
        f = assembly.frames_at(structure, numbers, q[:, None], turns)
        Z, A, _ = step.axes_of(structure, f)
        rates, acts, directions = spots.rows(spots.touch(f.H[..., 0]), f.T[:, :, 0], Z, A, np.arange(spots.count))
        for j in range(structure.nv):
            d = np.zeros(structure.nv)
            d[j] = 1e-6
            found = (gaps(retract(structure, q, d)) - gaps(retract(structure, q, -d))) / 2e-6
            assert np.allclose(rates[:, 0, j], found, atol=2e-8), (seed, j)
        between = len(spots.links[0])
        assert np.allclose(np.einsum("mij,mkj->mik", directions[:between], directions[:between]), np.eye(3))
        assert np.array_equal(acts[:between], rates[:between])


def test_tangents_are_velocities_of_the_material_points() -> None:
    """Slip is the velocity of a's point against b's: of bodies that touch, by differences of where the two material points go."""
    structure = Structure.build(chain("sphere", "sphere"), "tree")
    numbers = Numbers.of(structure)
    spots, geometry = Spots.of(structure), Geometry.of(structure, numbers)
    q = somewhere(structure, numbers, 1)
    rng = np.random.default_rng(0)
    H = poses(structure, geometry, q)
    touch = spots.touch(H)
    q[:3] -= touch.gap[0] * touch.normal[:, 0]  # until they touch
    H = poses(structure, geometry, q)
    touch = spots.touch(H)
    f = assembly.frames_at(structure, numbers, q[:, None], None)
    rates, _, directions = spots.rows(touch, f.T[:, :, 0], *step.axes_of(structure, f)[:2], np.array([0]))
    v = rng.normal(size=structure.nv)
    a, b = (int(x[0]) for x in spots.links)

    def carried(link: int, x: np.ndarray, d: float) -> np.ndarray:
        local = H[:, :3, link].T @ (x - H[:, 3, link])
        moved = poses(structure, geometry, retract(structure, q, d * v))
        return moved[:, :3, link] @ local + moved[:, 3, link]

    x = touch.at_a[:, 0]
    assert np.allclose(touch.at_a, touch.at_b) and abs(touch.gap[0]) < 1e-14
    slip = (carried(a, x, 1e-6) - carried(a, x, -1e-6) - carried(b, x, 1e-6) + carried(b, x, -1e-6)) / 2e-6
    assert np.allclose(rates[0] @ v, directions[0] @ slip, atol=1e-8)


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_gaps_against_mujoco(first: str, second: str) -> None:
    """MuJoCo's own distance between the two shapes, at random poses at which they are apart."""
    model = chain(first, second)
    structure = Structure.build(model, "tree")
    numbers = Numbers.of(structure)
    spots = Spots.of(structure)
    text = "".join(
        f"<body name='{g.name}' mocap='true'><geom name='{g.name}' type='{g.kind}' size='{' '.join(map(str, g.size))}'/></body>" for g in model.geometries
    )
    m = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{text}</worldbody></mujoco>")
    data = mujoco.MjData(m)
    compared = 0
    for seed in range(40):
        q = somewhere(structure, numbers, seed)
        H = poses(structure, Geometry.of(structure, numbers), q)
        for i, g in enumerate(model.geometries):
            link = structure.body_link[g.body]
            R = np.zeros(9)
            mujoco.mju_quat2Mat(R, np.array(g.orientation) / np.linalg.norm(g.orientation))
            turn = np.zeros(4)
            mujoco.mju_mat2Quat(turn, (H[:, :3, link] @ R.reshape(3, 3)).ravel())
            data.mocap_pos[i], data.mocap_quat[i] = H[:, :3, link] @ np.array(g.position) + H[:, 3, link], turn
        mujoco.mj_forward(m, data)
        theirs = mujoco.mj_geomDistance(m, data, 0, 1, 50.0, None)
        if theirs > 0.01:
            assert abs(spots.touch(H).gap.min() - theirs) < 1e-5, (seed, theirs)
            compared += 1
    assert compared >= 8


def test_inside_a_box_and_flat_on_a_plane() -> None:
    """A ball whose centre is inside a box leaves by the nearest face; a cylinder that lies flat is held by its rim."""
    box = cb.Geometry("two", "world", "box", (0.5, 0.4, 0.3))
    bodies, joints = [cb.Body("f", mass=1, inertia=(1, 1, 1))], [cb.Joint("float", "f", "free")]
    ball = cb.Model(
        bodies=bodies, joints=joints, geometries=[box, cb.Geometry("one", "f", "sphere", (0.1,), (0.1, 0.05, 0.25))], contacts=[cb.Contact("c", "one", "two")]
    )
    touch = Spots.of(Structure.build(ball)).touch(np.tile(np.eye(3, 4)[:, :, None], (1, 1, 2)))
    assert np.allclose(touch.gap, -0.15) and np.allclose(touch.normal[:, 0], (0, 0, 1)) and np.allclose(touch.at_b[:, 0], (0.1, 0.05, 0.3))
    drum = cb.Model(bodies=bodies, joints=joints, geometries=[cb.Geometry("one", "f", "cylinder", (0.2, 0.1))], contacts=[cb.Contact("c", "one")])
    gaps = np.sort(Spots.of(Structure.build(drum)).touch(np.tile(np.eye(3, 4)[:, :, None], (1, 1, 2))).gap)
    assert np.allclose(gaps[:8], -0.1) and -0.1 < gaps[8] < -0.099  # eight points of the rim, then the middle, lifted a little
