"""What the scheme keeps exactly: the discrete momenta of a floating system, and (nearly) the energy of a conservative one.

Momenta. Over the interval k the equations of a body are those of the discrete Lagrangian h (tr(V E V')/2 - U(Hm)), which does not change
when all poses are shifted or turned together. The wrench of V_k E at the pose H,

    linear   y = V_k E e4,                     angular   j(H) = sum over the four columns c of H_c x (V_k E)_c

has the same angular part at both ends of the interval, for H_(k+1) = H_k + h V_k and sum_c V_c x (V E)_c = 0 (E is symmetric). Joint
forces and constraint forces act at a node as equal and opposite wrenches on two bodies, so they cancel in the sum over the bodies. Hence
sum y and sum j are the same in all intervals. A spring between two points a, b pulls along the line of its *mean* points with the force f
on a: at the two ends of its interval the pair has the torque d x f, d = p_a - p_b at that end, equal and opposite (d_k x f + d_(k+1) x f =
2 d_m x f = 0). So its half impulse belongs to the momentum: the sum of j(H_k) - (h/2) d_k x f_k is conserved.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from problems import BALL_LAW, HEAVY_TOP_START, INERTIA, LAW, WEIGHTLESS, heavy_top
from scipy.spatial.transform import Rotation

import calibody as cb

H = 5e-3
STEPS = 1000


def floating() -> cb.Model:
    """A base in free fall, a ball joint and a hinge with springs, dampers and armatures, and a spring with a damper from the last body to the base."""
    bodies = [
        cb.Body("base", mass=1.5, com=(0.05, 0.0, 0.1), inertia=INERTIA),
        cb.Body("middle", "base", mass=0.7, com=(0.1, 0.02, 0.0), inertia=INERTIA, position=(0.3, 0.0, 0.0)),
        cb.Body("end", "middle", mass=0.4, com=(0.1, 0.0, 0.03), inertia=INERTIA, position=(0.3, 0.1, 0.0)),
    ]
    none: dict[str, Any] = {"friction": 0.0}
    joints = [
        cb.Joint("float", "base", "free"),
        cb.Joint("ball", "middle", "ball", **BALL_LAW | none),
        cb.Joint("hinge", "end", axis=(0.0, 0.3, 1.0), **LAW | none),
    ]
    springs = [cb.Spring("spring", "base", "end", point1=(0.0, 0.2, 0.0), point2=(0.2, 0.0, 0.0), stiffness=8.0, damping=0.3, rest_length=0.4)]
    return cb.Model("floating", bodies, joints, springs=springs, world=WEIGHTLESS)


# Slow enough to stay within a metre of the origin: about a far one, the angular momentum is a small difference of large numbers.
START = {"joint.float.rate": (0.1, -0.05, 0.08, 2.0, -1.0, 1.5), "joint.ball.rate": (1.0, 0.5, -1.5), "joint.hinge.rate": 2.0}


def poses(motion: cb.Motion, body: str) -> np.ndarray:
    """(nodes, 3, 4)"""
    pose = motion[f"body.{body}.pose"]
    return np.concatenate([Rotation.from_quat(pose[:, 3:], scalar_first=True).as_matrix(), pose[:, :3, None]], axis=2)


def pseudo_inertia(body: cb.Body) -> np.ndarray:
    """E = [[Sigma, m c], [m c', m]], Sigma = tr(I_o)/2 1 - I_o, I_o about the body's origin."""
    xx, yy, zz, xy, xz, yz = body.inertia
    c = np.array(body.com)
    about_origin = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) + body.mass * ((c @ c) * np.eye(3) - np.outer(c, c))
    sigma = 0.5 * np.trace(about_origin) * np.eye(3) - about_origin
    return np.block([[sigma, body.mass * c[:, None]], [body.mass * c[None], np.array([[body.mass]])]])


def momenta(motion: cb.Motion) -> tuple[np.ndarray, np.ndarray]:
    """(intervals, 3) linear and angular momentum of all bodies, the half impulses of springs included."""
    linear, angular = np.zeros((len(motion.time) - 1, 3)), np.zeros((len(motion.time) - 1, 3))
    for body in motion.model.bodies:
        pose = poses(motion, body.name)
        VE = np.diff(pose, axis=0) / motion.h @ pseudo_inertia(body)
        linear += VE[:, :, 3]
        angular += np.cross(pose[:-1], VE, axis=1).sum(2)
    for spring in motion.model.springs:
        a, b = (poses(motion, name) @ (*point, 1.0) for name, point in ((spring.body1, spring.point1), (spring.body2, spring.point2)))
        d = a - b
        middle, rate = 0.5 * (d[1:] + d[:-1]), np.diff(d, axis=0) / motion.h
        length = np.linalg.norm(middle, axis=1)
        tension = spring.stiffness * (length - spring.rest_length) + spring.damping * (middle * rate).sum(1) / length
        angular -= 0.5 * motion.h * np.cross(d[:-1], -(tension / length)[:, None] * middle)
    return linear, angular


@pytest.mark.parametrize("coordinates", ["tree", "free"])
def test_momentum_of_a_floating_system(coordinates: str) -> None:
    motion = cb.simulate(floating(), STEPS * H, H, START, coordinates=coordinates)
    assert np.ptp(motion["joint.hinge.angle"]) > 0.3
    for total in momenta(motion):
        size = np.linalg.norm(total[0])
        assert size > 0.1
        assert np.abs(np.diff(total, axis=0)).max() < 1e-12 * size
        assert np.abs(total - total[0]).max() < 1e-11 * size  # rounding errors add up like a random walk, they do not drift
    # what is conserved is the physical momentum: m v of the centre of mass
    bodies = motion.model.bodies
    centre = np.sum([b.mass * motion[f"body.{b.name}.com"] for b in bodies], axis=0)
    np.testing.assert_allclose((centre[-1] - centre[0]) / motion.time[-1], momenta(motion)[0][0], rtol=1e-10)


def test_gravity_changes_momentum() -> None:
    """The test above could fail: gravity is a force from outside."""
    model = floating()
    heavy = cb.Model("heavy", model.bodies, model.joints, springs=model.springs)
    linear, _ = momenta(cb.simulate(heavy, 20 * H, H, START))
    mass = sum(b.mass for b in model.bodies)
    np.testing.assert_allclose(np.diff(linear, axis=0) / H, mass * np.array([[0.0, 0.0, -9.81]]) * np.ones((19, 1)), atol=1e-9)


def test_energy_of_the_heavy_top_is_bounded() -> None:
    """100 000 steps of 1 ms, 2400 turns of the top: the energy of the intervals oscillates by a fixed small amount and does not drift."""
    motion = cb.simulate(heavy_top(), 100.0, 1e-3, initial=HEAVY_TOP_START)
    pose = poses(motion, "top")
    E = pseudo_inertia(motion.model.body("top"))
    V, middle = np.diff(pose, axis=0) / motion.h, 0.5 * (pose[1:] + pose[:-1])
    energy = 0.5 * np.einsum("kia,ab,kib->k", V, E, V) + 9.81 * (middle @ E[3])[:, 2]
    first, last = energy[:10_000], energy[-10_000:]
    assert np.ptp(energy) < 1.05 * np.ptp(first)
    assert np.ptp(energy) < 1e-3 * 15.0 * 9.81
    assert abs(first.mean() - last.mean()) < 5e-2 * np.ptp(first)
    shown = motion.energy[1:]
    assert np.ptp(shown) < 1e-2 * 15.0 * 9.81
    # nutation and precession go on: the height of the centre of mass keeps its range
    height = motion["body.top.com"][:, 2]
    assert np.ptp(height[-10_000:]) == pytest.approx(np.ptp(height[:10_000]), rel=1e-2)
