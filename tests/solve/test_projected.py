"""Elimination on the null spaces of the nodes' constraints, against the factor of the whole matrix."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from calibody.solve.condensed import Factor, Linearisation, step
from calibody.solve.projected import Entries, OnNodes, Projected, bases


def everywhere(matrices: np.ndarray) -> Entries:
    """From one full matrix per node."""
    _, rows, columns = matrices.shape
    row, column = (x.ravel() for x in np.indices((rows, columns)))
    return Entries(row, column, matrices.reshape(len(matrices), -1).T)


def linearisation(K: int, width: int, kept: int, others: int, more: int, apart: bool = False, seed: int = 0) -> OnNodes:
    """Random numbers in the places where a run has them: `others` states and `more` equations beside nodes, forces, balances and constraints; `apart`: forces act through
    something else than the gradients."""
    rng = np.random.default_rng(seed)
    inner, nq = K - 2, K * width
    forces, n = nq + inner * kept, nq + inner * kept + others
    G, A, Cx = rng.normal(size=(K, kept, width)), rng.normal(size=(inner, 3, width, width)), np.zeros((inner * width + K * kept + more, n))
    acting = G + 0.1 * rng.normal(size=G.shape) if apart else G
    for k in range(K):
        for r in range(kept):
            Cx[inner * width + r * K + k, k * width : (k + 1) * width] = G[k, r]
        if 0 < k < K - 1:
            rows = slice((k - 1) * width, k * width)
            Cx[rows, (k - 1) * width : (k + 2) * width] = np.hstack(A[k - 1])
            Cx[rows, nq + (k - 1) * kept : nq + k * kept] = -acting[k].T
            Cx[rows, forces:] = rng.normal(size=(width, others))
    Cx[inner * width + K * kept :, :nq] = rng.normal(size=(more, nq))
    Fx = rng.normal(size=(2 * n, n))
    Fx[:, nq:forces] = 0.0
    when = [np.repeat(np.arange(K), width), np.repeat(np.arange(1, K - 1) + 0.1, kept), np.zeros(others)]
    when += [np.repeat(np.arange(1, K - 1) + 0.2, width), np.tile(np.arange(K) + 0.3, kept), np.zeros(more)]
    Ft, Ct = rng.normal(size=(2 * n, 3)), rng.normal(size=(len(Cx), 3))
    F, C, gradient = rng.normal(size=2 * n), rng.normal(size=len(Cx)), everywhere(G)
    blocks = (K, width, kept), tuple(everywhere(A[:, o]) for o in range(3)), gradient, everywhere(acting) if apart else gradient
    return OnNodes(F, sp.csr_matrix(Fx), Ft, C, sp.csr_matrix(Cx), Ct, np.concatenate(when), *blocks)


@pytest.mark.parametrize(("others", "more", "apart"), [(0, 0, False), (2, 0, False), (0, 1, False), (3, 2, False), (3, 2, True)])
def test_a_step_is_that_of_the_whole_matrix(others: int, more: int, apart: bool) -> None:
    lin = linearisation(7, 5, 2, others, more, apart)
    anywhere = np.full(3, np.inf)
    a, b = (
        step(x, np.zeros(3), -anywhere, anywhere, np.zeros(3), np.ones(3)) for x in (lin, Linearisation(lin.F, lin.Fx, lin.Ft, lin.C, lin.Cx, lin.Ct, lin.when))
    )
    assert isinstance(a.factor, Projected) and isinstance(b.factor, Factor)
    for name in ("states", "multipliers", "parameters", "information", "gradient", "response"):
        assert np.allclose(getattr(a, name), getattr(b, name), rtol=1e-8, atol=1e-9), name
    right = np.random.default_rng(1).normal(size=(len(a.response), 2))
    assert np.allclose(a.factor.direct(right.copy()), b.factor.solve(right), rtol=1e-8, atol=1e-9)
    assert a.factor.log_determinant == pytest.approx(b.factor.log_determinant, rel=1e-10)


def test_observed_forces_and_dependent_constraints_take_the_whole_matrix() -> None:
    lin = linearisation(6, 4, 2, 0, 0)
    Fx = lin.Fx.tolil()
    Fx[0, 6 * 4] = 1.0
    assert isinstance(replace(lin, Fx=Fx.tocsr()).factor(), Factor)
    assert lin.gradient is not None
    twice = lin.gradient.dense(2, 4)
    twice[:, 1] = twice[:, 0]
    assert bases(replace(lin, gradient=everywhere(twice))) is None


def test_a_whole_fit_uses_it() -> None:
    """In `free` coordinates the answer is that of `tree`."""
    import calibody as cb

    model = cb.Model("swing", [cb.Body("bob", mass=1.0, com=(0.0, 0.0, -1.0), inertia=(0.1, 0.1, 0.1))], [cb.Joint("pivot", "bob", axis=(0.0, 1.0, 0.0))])
    times = np.arange(0.0, 2.0, 0.02)
    angle = 0.1 * np.cos(np.sqrt(9.81 / 1.1) * times) + 1e-3 * np.random.default_rng(1).normal(size=len(times))
    run = cb.Recording("run", (cb.Observation("joint.pivot.angle", times, angle, 1e-3),))
    free, tree = (cb.fit(model, run, {"body.bob.inertia.yy": 0.2}, h=0.02, coordinates=c).parameters["body.bob.inertia.yy"] for c in ("free", "tree"))
    assert free.sd is not None and tree.sd is not None
    assert abs(free.value - tree.value) < 1e-3 * tree.sd and free.sd == pytest.approx(tree.sd, rel=1e-3)
