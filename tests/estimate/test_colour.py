"""Error bars under forces with a memory, from what is found of the forces."""

from __future__ import annotations

import numpy as np
import pytest

from calibody.estimate.noise.colour import Forces, _cosines, added

N = 300


def remembering(rng: np.random.Generator, draws: float) -> np.ndarray:
    """Ornstein-Uhlenbeck, of the size that makes it look like unit white noise on average over the waves."""
    rho, out = np.exp(-1.0 / draws), rng.standard_normal(N)
    for k in range(1, N):
        out[k] = rho * out[k - 1] + np.sqrt(1.0 - rho**2) * out[k]
    return out


def waves(cycles: float) -> np.ndarray:
    return np.sin(2.0 * np.pi * cycles * np.arange(N) / N)[:, None]


def test_the_cosine_transform_is_orthonormal() -> None:
    matrix = _cosines(np.eye(N))
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(N), atol=1e-12)
    np.testing.assert_allclose(matrix[3], np.sqrt(2.0 / N) * np.cos(np.pi * 3 * (np.arange(N) + 0.5) / N), atol=1e-12)


def more(forces: list[Forces]) -> float:
    """What is added to the only parameter."""
    found = added(forces)
    assert found is not None
    return float(found[0])


@pytest.mark.parametrize(("memory", "cycles"), [(20.0, 1.0), (20.0, 4.0), (20.0, 30.0), (5.0, 4.0)])
def test_slow_forces_widen_what_is_slow(memory: float, cycles: float) -> None:
    """A parameter that a force moves by h_k scatters with `sum h_k h_l c_(k-l)`: what is added comes near that on average, or is more where few waves tell."""
    rng, moves = np.random.default_rng(3), waves(cycles)
    rho = np.exp(-1.0 / memory)
    true = float(moves[:, 0] @ (rho ** np.abs(np.subtract.outer(np.arange(N), np.arange(N))) @ moves[:, 0]))
    white = float((moves**2).sum())
    found = [more([Forces(remembering(rng, memory), rng.standard_normal((N, 48)), moves)]) + white for _ in range(30)]
    assert 0.75 < np.mean(found) / true < 1.6
    assert np.std(found) < 0.8 * true


def test_white_forces_add_little() -> None:
    rng, moves = np.random.default_rng(4), waves(3.0)
    white = float((moves**2).sum())
    ratios = [1.0 + more([Forces(rng.standard_normal(N), rng.standard_normal((N, 48)), moves)]) / white for _ in range(30)]
    assert 0.9 < np.mean(ratios) < 1.4 and max(ratios) < 2.5


def test_several_runs_tell_more_and_too_few_waves_nothing() -> None:
    rng, moves = np.random.default_rng(5), waves(2.0)
    one = [more([Forces(remembering(rng, 20.0), rng.standard_normal((N, 48)), moves)]) for _ in range(12)]
    five = [more([Forces(remembering(rng, 20.0), rng.standard_normal((N, 48)), moves) for _ in range(5)]) / 5.0 for _ in range(12)]
    assert np.std(five) < np.std(one) and np.mean(five) == pytest.approx(np.mean(one), rel=0.4)
    hidden = 1e-3 * rng.standard_normal((N, 48))  # the data know nothing of these forces
    assert added([Forces(1e-3 * remembering(rng, 20.0), hidden, moves)]) is None
