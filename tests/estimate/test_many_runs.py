"""Many recordings: each run is eliminated by itself, and what comes out is what the whole matrix gives."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import calibody as cb
from calibody.estimate.missing.scores import Scores
from calibody.solve.arrow import Arrow, bounded
from calibody.solve.condensed import Linearisation, Runs, step


def double_pendulum() -> cb.Model:
    upper = cb.Body("upper", mass=1.0, com=(0.3, 0, 0), inertia=(0.01, 0.03, 0.03))
    lower = cb.Body("lower", "upper", mass=0.5, com=(0.2, 0, 0), inertia=(0.01, 0.02, 0.02), position=(0.6, 0, 0))
    joints = [cb.Joint("first", "upper", damping=0.05), cb.Joint("second", "lower", damping=0.02)]
    return cb.Model("double pendulum", [upper, lower], joints, world=cb.World(gravity=(0, -9.81, 0)))


def recordings(count: int, nodes: int = 40) -> list[cb.Recording]:
    random, out = np.random.default_rng(0), []
    for k in range(count):
        motion = cb.simulate(double_pendulum(), 0.02 * nodes, 0.01, {"joint.first.angle": 0.8 - 0.3 * k, "joint.second.angle": 0.4})
        offset = {"joint.first.angle": 0.03 * random.normal(), "joint.second.angle": 0.0}
        seen = [(c, motion[c][::2] + b + 1e-3 * random.normal(size=len(motion.time[::2]))) for c, b in offset.items()]
        out.append(cb.Recording(f"run{k}", tuple(cb.Observation(c, motion.time[::2], y, 1e-3) for c, y in seen)))
    return out


@pytest.fixture(scope="module")
def joint_fit() -> cb.Result:
    """Shared masses and damping; per run a bias with a prior and a tilt that sits at its bound."""
    unknown = {
        "body.upper.mass": 1.2,
        "joint.first.angle.bias": cb.Unknown(0.0, per_run=True, scale=0.1, prior=(0.0, 0.05)),
        "joint.first.damping": 0.08,
        "world.gravity.tilt.z": cb.Unknown(0.01, per_run=True, lower=0.009, upper=0.1, scale=0.1),
    }
    return cb.fit(double_pendulum(), recordings(3), unknown, h=0.02)


def whole(lin: Runs) -> Linearisation:
    """All runs as one."""
    return Linearisation(lin.F, sp.csr_matrix(lin.Fx.toarray()), lin.Ft.toarray(), lin.C, sp.csr_matrix(lin.Cx.toarray()), lin.Ct.toarray())


def test_runs_are_eliminated_by_themselves(joint_fit: cb.Result) -> None:
    problem, x = joint_fit.problem, list(joint_fit.states)
    theta = np.clip(joint_fit.theta * 1.05 + 0.01, problem.lower, problem.upper)
    lin = problem.linearise(x, theta)
    assert [len(c) for c in lin.columns] == [4, 4, 4] and len(theta) == 8
    for held in (0.0, 1.0):
        arguments = theta, problem.lower, problem.upper, held / problem.scale**2, problem.scale
        apart, together = step(lin, *arguments), step(whole(lin), *arguments)
        dense = np.asarray(together.information)
        np.testing.assert_allclose(np.asarray(apart.information), dense, rtol=1e-9, atol=1e-9 * np.abs(dense).max())
        np.testing.assert_allclose(apart.gradient, together.gradient, rtol=1e-9, atol=1e-9 * np.abs(together.gradient).max())
        for name in ("parameters", "states", "multipliers"):
            one, other = getattr(apart, name), getattr(together, name)
            np.testing.assert_allclose(one, other, atol=1e-9 * np.abs(other).max(), err_msg=name)
        np.testing.assert_array_equal(apart.at_bound, together.at_bound)
        side = np.random.default_rng(0).normal(size=len(apart.states) + len(apart.multipliers))
        np.testing.assert_allclose(apart.factor.solve(side), together.factor.solve(side), rtol=1e-7, atol=1e-9 * np.abs(side).max())


def test_error_bars_of_the_joint_fit(joint_fit: cb.Result) -> None:
    """Naive error bars are those of the whole information; parameters at their bound have none."""
    assert joint_fit.converged
    problem = joint_fit.problem
    taken = step(
        whole(problem.linearise(list(joint_fit.states), joint_fit.theta)), joint_fit.theta, problem.lower, problem.upper, 0.0 * problem.scale, problem.scale
    )
    free = [k for k, e in enumerate(joint_fit.parameters.values()) if not e.at_bound]
    assert 0 < len(free) < len(joint_fit.theta)
    inverse = np.linalg.inv(np.asarray(taken.information)[np.ix_(free, free)])
    naive = [list(joint_fit.parameters.values())[k].sd_naive for k in free]
    np.testing.assert_allclose(naive, np.sqrt(joint_fit.uncertainty.factor * np.diag(inverse)), rtol=1e-6)
    assert np.all(joint_fit.sd("joint.first.angle", np.array([0.2, 0.4]), "run2") > 0.0)


def test_suspects_beside_parameters_of_single_runs(joint_fit: cb.Result) -> None:
    """What own parameters of a run can take up of a suspect does not count: the same as with one matrix."""
    problem, x, theta = joint_fit.problem, list(joint_fit.states), joint_fit.theta
    lin = problem.linearise(x, theta, hold_scale=False)
    taken = step(lin, theta, problem.lower, problem.upper, 0.0 * theta, problem.scale)
    order = [k for k, e in enumerate(problem.entries) if e.name != "joint.first.damping"]
    moved = [*order, problem.entries.index(next(e for e in problem.entries if e.name == "joint.first.damping"))]  # damping as the suspect, last
    one = problem.with_entries([problem.entries[k] for k in moved], 0.02)
    lin, at = one.linearise(x, theta[moved], hold_scale=False), theta[moved]
    taken = step(lin, at, one.lower, one.upper, 0.0 * at, one.scale)
    last = np.arange(len(at)) == len(at) - 1
    (pull,) = Scores(one, lin, taken, ~last, np.flatnonzero(last)).pulls()
    assert pull is not None
    information = np.asarray(taken.information)
    b = np.linalg.solve(information[:-1, :-1], information[:-1, -1])
    i = information[-1, -1] - information[-1, :-1] @ b
    s = taken.gradient[-1] - b @ taken.gradient[:-1]
    assert pull.change == pytest.approx(-s / i, rel=1e-4, abs=1e-9)
    np.testing.assert_allclose(pull.shift[:-1], b * (s / i), rtol=1e-4, atol=1e-9)


def test_arrows_solve_as_dense_matrices_do() -> None:
    """Runs with none, one and two parameters of their own; some at bounds."""
    random, size = np.random.default_rng(1), 8
    columns = [np.array([0, 1, 2]), np.array([0, 1, 3, 4]), np.array([0, 1]), np.array([0, 1, 5, 6, 7])]
    for _ in range(50):
        parts = []
        for own in columns:
            J = random.normal(size=(12, len(own)))
            parts.append((own, J.T @ J))
        prior = sp.csr_matrix(([0.5, 2.0], ([0, 1], [1, 4])), shape=(2, size))
        arrow, dense = Arrow.of(size, parts, prior), (prior.T @ prior).toarray()
        for own, M in parts:
            dense[np.ix_(own, own)] += M
        np.testing.assert_allclose(np.asarray(arrow), dense, atol=1e-12)
        v, diagonal = random.normal(size=size), random.uniform(0.0, 1.0, size)
        np.testing.assert_allclose(arrow @ v, dense @ v, atol=1e-10)
        assert v @ arrow @ v == pytest.approx(v @ dense @ v)
        np.testing.assert_allclose(arrow.plus(diagonal).diagonal(), np.diag(dense) + diagonal)
        lower, upper, scale = -random.uniform(0.0, 0.3, size), random.uniform(0.0, 0.3, size), random.uniform(0.1, 10.0, size)
        one, other = (bounded(H, 10.0 * v, lower, upper, scale) for H in (arrow, Arrow.dense(dense)))
        np.testing.assert_allclose(one[0], other[0], atol=1e-9)
        np.testing.assert_array_equal(one[1], other[1])
