"""Accelerations at one instant: printed values, the exact one-dof form of a closed loop, and inverse dynamics as the inverse of forward."""

from __future__ import annotations

import numpy as np
import pytest
from problems import DOWN_Y, four_bar, random_tree

import calibody as cb

UNIT = (1.0, 1.0, 1.0)
X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)


def link(name: str, parent: str, axis: tuple, com: tuple, at: tuple = (0.0, 0.0, 0.0), inertia: tuple = UNIT) -> tuple[cb.Body, cb.Joint]:
    return cb.Body(name, parent, mass=1.0, com=com, inertia=inertia, position=at), cb.Joint(name, name, axis=axis)


A = link("a", "world", Z, X)
# Featherstone's code, printed in a public test suite (problems.md): gravity (0, -9.81, 0), q = v = tau = 0.
SPOTS = {
    "single": ([link("a", "world", Z, (1.5, 1.0, 1.0), inertia=(1.0, 2.0, 3.0))], [-2.3544]),
    "double": ([A, link("b", "a", Z, X, X)], [-5.886, 3.924]),
    "triple": ([A, link("b", "a", Z, X, X), link("c", "b", Z, X, X)], [-6.03692307692308, 3.77307692307692, 1.50923076923077]),
    "crossed": ([A, link("b", "a", Y, Y, X)], [-3.924, 0.0]),
    "tree": (
        [A, link("b1", "a", Y, Y, X), link("c1", "b1", X, Z, Y), link("b2", "a", Y, Y, (-0.5, 0.0, 0.0)), link("c2", "b2", X, Z, (0.0, -0.5, 0.0))],
        [-1.60319066147860, -0.534396887159533, 4.10340466926070, 0.267198443579767, 5.30579766536965],
    ),
}


@pytest.mark.parametrize("name", SPOTS)
def test_printed_accelerations(name: str) -> None:
    links, expected = SPOTS[name]
    model = cb.Model(name, [b for b, _ in links], [j for _, j in links], world=DOWN_Y)
    # 1e-12, but no better than the fourteen digits printed
    np.testing.assert_allclose(cb.forward_dynamics(model), expected, rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(cb.inverse_dynamics(model, a=expected), 0.0, atol=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_inverse_dynamics_is_the_inverse_of_forward_dynamics(seed: int) -> None:
    model = random_tree(seed, floating=seed % 2 == 0)
    assert {j.kind for s in range(8) for j in random_tree(s, floating=s % 2 == 0).joints} == {"hinge", "slide", "ball", "free"}
    random = np.random.default_rng(100 + seed)
    nq = sum({"hinge": 1, "slide": 1, "ball": 4, "free": 7}[j.kind] for j in model.joints)
    nv = sum({"hinge": 1, "slide": 1, "ball": 3, "free": 6}[j.kind] for j in model.joints)
    q, v, force = random.normal(size=nq), random.normal(size=nv), random.normal(size=nv)
    a = cb.forward_dynamics(model, q, v, force=force)
    np.testing.assert_allclose(cb.inverse_dynamics(model, q, v, a), force, rtol=1e-9, atol=1e-9)
    # and the map is not blind to its arguments
    assert np.abs(cb.inverse_dynamics(model, q, 1.1 * v, a) - force).max() > 1e-3


@pytest.mark.parametrize(("windows", "theta", "rate"), [(1, 0.3, -2.0), (1, 1.2, 0.0), (2, 2.0, 1.5), (3, -0.7, 3.0)])
@pytest.mark.parametrize("armature", [0.0, 0.25])
def test_closed_loop_against_its_exact_one_dof_form(windows: int, theta: float, rate: float, armature: float) -> None:
    """N windows: N + 1 rods turn about their ends (1/3 each), N couplers move on circles of 1 m (1 each), all by the same angle theta:

    ((N + 1)/3 + N + (2N + 1) J_a) theta'' = -g cos(theta) ((N + 1)/2 + N)
    """
    model = four_bar(windows, armature=armature)
    names = [j.name for b in model.ordered_bodies for j in model.joints_of(b.name)]
    sign = np.array([1.0 if n.startswith("ground") else -1.0 for n in names])
    inertia = (windows + 1) / 3.0 + windows + (2 * windows + 1) * armature
    exact = -9.81 * np.cos(theta) * ((windows + 1) / 2.0 + windows) / inertia
    found = cb.forward_dynamics(model, sign * (theta - np.pi / 2.0), sign * rate)
    np.testing.assert_allclose(found, sign * exact, rtol=1e-9, atol=1e-9)
