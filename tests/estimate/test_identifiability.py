"""Sums of parameters that the data determine although their parts are not: their error bars hold."""

from __future__ import annotations

import numpy as np

import calibody as cb
from calibody.estimate.identifiability import analyse
from calibody.estimate.inertial import Inertia

SD = 1e-4


def information(null: np.ndarray, size: float) -> np.ndarray:
    """Of `size` in every direction but those of the columns."""
    Q = np.linalg.qr(null)[0]
    return size * (np.eye(len(null)) - Q @ Q.T)


def test_a_sum_is_free_of_every_weak_direction() -> None:
    """`a` is all but undetermined alone; the little that `b` and `c` can be traded for it is far more than the error bar of their sum."""
    null = np.array([[1.0, 0.0], [0.06, 1.0], [0.06, -1.0], [0.0, 0.0]])
    found = analyse(information(null, 1e10), "abcd", np.array([1.0, 2.0, 3.0, 4.0]), np.ones(4), np.zeros(4, dtype=bool), 1.0)
    assert list(found.resolved) == [False, False, False, True]
    (only,) = found.determined
    g = np.zeros(4)
    for name, coefficient in only.terms:
        g["abcd".index(name)] = coefficient
    assert np.abs(g @ null).max() <= only.sd < 3e-5
    assert only.value == g @ [1.0, 2.0, 3.0, 4.0]
    assert found.sentences == ("Of a, b, c only 1 independent combination is determined, not the single numbers.",)


def test_a_small_share_in_a_weak_direction_counts_by_what_it_does() -> None:
    """One that can be traded for an undetermined one has no error bar of its own, small as the exchange is, where that is large for its error bar."""
    for trade, resolved in ((0.05, False), (1e-7, True)):
        found = analyse(information(np.array([[1.0], [trade]]), 1e6), "ab", np.ones(2), np.ones(2), np.zeros(2, dtype=bool), 1.0)
        assert list(found.resolved) == [False, resolved]
        strong = information(np.array([[1.0], [trade], [0.0]]), 1e6)
        strong[2, 2] = 1e14  # a third that is known far better must not hide it
        found = analyse(strong, "abc", np.ones(3), np.ones(3), np.zeros(3, dtype=bool), 1.0)
        assert list(found.resolved) == [False, resolved, True]


def test_what_is_undetermined_alone_does_not_spoil_the_sums() -> None:
    """Directions of single parameters are rounding in the rows of the others."""
    null = np.zeros((6, 3))
    null[0, 0] = null[1, 1] = 1.0
    null[2:5, 2] = (1.0, 2.0, -1.0)
    noise = 1e-3 * np.random.default_rng(0).normal(size=(6, 6))
    found = analyse(information(null, 1e12) + noise + noise.T, "abcdef", np.ones(6), np.ones(6), np.zeros(6, dtype=bool), 1.0)
    assert found.sentences[:2] == ("a is not determined by the data.", "b is not determined by the data.")
    assert len(found.determined) == 2
    for d in found.determined:
        assert {name for name, _ in d.terms} <= set("cde")
        assert sum(c * null["abcdef".index(name), 2] for name, c in d.terms) == 0.0


def arm() -> cb.Model:
    """Shoulder about the vertical, two hinges across; every centre of mass off every axis."""
    bodies = [
        cb.Body("a", mass=2.0, com=(0.02, 0.01, 0.1), inertia=(0.02, 0.02, 0.01, 1e-3, 0.0, 2e-3)),
        cb.Body("b", "a", mass=1.5, com=(0.2, 0.02, -0.01), inertia=(0.005, 0.02, 0.02, 0.0, 1e-3, 0.0), position=(0.0, 0.0, 0.2)),
        cb.Body("c", "b", mass=0.8, com=(0.1, -0.01, 0.02), inertia=(0.002, 0.006, 0.006, 3e-4, 0.0, 0.0), position=(0.4, 0.0, 0.0)),
    ]
    joints = [cb.Joint(n, b, axis=a, damping=0.3) for n, b, a in (("one", "a", (0, 0, 1)), ("two", "b", (0, 1, 0)), ("three", "c", (0, 1, 0)))]
    return cb.Model("arm", bodies=bodies, joints=joints)


def test_the_sums_of_an_arm_hold() -> None:
    """All thirty inertial numbers unknown and 30 % off: what the data do not determine stays there, and must not show in what they do."""
    t = np.arange(0.0, 6.0, 0.002)
    joints = ("one", "two", "three")
    drive = {
        "joint.one.force": cb.Signal(t, 0.9 * np.sin(4 * t) + 0.6 * np.sin(9 * t)),
        "joint.two.force": cb.Signal(t, -6.0 + 3.0 * np.cos(3 * t) + 2.0 * np.sin(7 * t)),
        "joint.three.force": cb.Signal(t, -0.6 + 0.8 * np.sin(5 * t) + 0.5 * np.cos(8 * t)),
    }
    motion = cb.simulate(arm(), 6.0, 0.002, {}, drive)
    rng = np.random.default_rng(0)
    observed = tuple(cb.Observation(f"joint.{j}.angle", motion.time, motion[f"joint.{j}.angle"] + SD * rng.normal(size=len(motion.time)), SD) for j in joints)
    run = cb.Recording("r", observed, tuple(cb.Drive(c, s) for c, s in drive.items()))
    wrong = {}
    for body, factor in zip(arm().bodies, (1.3, 0.7, 1.3), strict=True):
        wrong[f"body.{body.name}.mass"] = factor * body.mass
        wrong |= {f"body.{body.name}.inertia.{k}": factor * x for k, x in zip(("xx", "yy", "zz", "xy", "xz", "yz"), body.inertia, strict=True)}
    found = cb.fit(arm().replace(wrong), run, {f"body.{b}.inertia": None for b in "abc"} | {f"joint.{j}.damping": 0.1 for j in joints}, h=0.002)
    assert found.converged, found.status
    truth = {}
    for body in "abc":
        chart = Inertia.of(arm(), body)
        truth |= dict(zip(chart.linear_names, chart.linear(np.zeros(10)), strict=True))
    z = np.array([(d.value - sum(c * truth[name] for name, c in d.terms)) / d.sd for d in found.determined])
    assert len(z) >= 10
    assert np.abs(z).max() < 4.0 and np.sqrt(np.mean(z**2)) < 1.6, dict(zip((d.expression for d in found.determined), z, strict=True))
    for path, e in found.parameters.items():
        if e.sd is not None:
            assert abs(e.value - float(arm()[path])) < 4.0 * e.sd, path
