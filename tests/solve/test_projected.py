"""Elimination on the null spaces of the nodes' constraints, against the factor of the whole matrix."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from calibody.solve.condensed import Factor, Linearisation, step
from calibody.solve.projected import OnNodes, Projected, basis


def linearisation(K: int, width: int, kept: int, others: int, more: int, seed: int = 0) -> OnNodes:
    """Random numbers in the places where a run has them: `others` states and `more` equations beside nodes, forces, balances and constraints."""
    rng = np.random.default_rng(seed)
    inner, nq = K - 2, K * width
    forces, n = nq + inner * kept, nq + inner * kept + others
    G, Cx = rng.normal(size=(K, kept, width)), np.zeros((inner * width + K * kept + more, n))
    for k in range(K):
        for r in range(kept):
            Cx[inner * width + r * K + k, k * width : (k + 1) * width] = G[k, r]
        if 0 < k < K - 1:
            rows = slice((k - 1) * width, k * width)
            Cx[rows, (k - 1) * width : (k + 2) * width] = rng.normal(size=(width, 3 * width))
            Cx[rows, nq + (k - 1) * kept : nq + k * kept] = -G[k].T
            Cx[rows, forces:] = rng.normal(size=(width, others))
    Cx[inner * width + K * kept :, :nq] = rng.normal(size=(more, nq))
    Fx = rng.normal(size=(2 * n, n))
    Fx[:, nq:forces] = 0.0
    when = [np.repeat(np.arange(K), width), np.repeat(np.arange(1, K - 1) + 0.1, kept), np.zeros(others)]
    when += [np.repeat(np.arange(1, K - 1) + 0.2, width), np.tile(np.arange(K) + 0.3, kept), np.zeros(more)]
    Ft, Ct = rng.normal(size=(2 * n, 3)), rng.normal(size=(len(Cx), 3))
    return OnNodes(rng.normal(size=2 * n), sp.csr_matrix(Fx), Ft, rng.normal(size=len(Cx)), sp.csr_matrix(Cx), Ct, np.concatenate(when), (K, width, kept))


@pytest.mark.parametrize(("others", "more"), [(0, 0), (2, 0), (0, 1), (3, 2)])
def test_a_step_is_that_of_the_whole_matrix(others: int, more: int) -> None:
    lin = linearisation(7, 5, 2, others, more)
    anywhere = np.full(3, np.inf)
    a, b = (
        step(x, np.zeros(3), -anywhere, anywhere, np.zeros(3), np.ones(3)) for x in (lin, Linearisation(lin.F, lin.Fx, lin.Ft, lin.C, lin.Cx, lin.Ct, lin.when))
    )
    assert isinstance(a.factor, Projected) and isinstance(b.factor, Factor)
    for name in ("states", "multipliers", "parameters", "information", "response"):
        assert np.allclose(getattr(a, name), getattr(b, name), rtol=1e-8, atol=1e-9), name
    assert a.factor.log_determinant == pytest.approx(b.factor.log_determinant, rel=1e-10)


def test_observed_forces_and_dependent_constraints_take_the_whole_matrix() -> None:
    lin = linearisation(6, 4, 2, 0, 0)
    Fx = lin.Fx.tolil()
    Fx[0, 6 * 4] = 1.0
    assert isinstance(replace(lin, Fx=Fx.tocsr()).factor(), Factor)
    Cx = lin.Cx.tolil()
    rows = 4 * 4 + np.arange(6)
    Cx[rows + 6] = Cx[rows]
    assert basis(replace(lin, Cx=Cx.tocsr())) is None


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
