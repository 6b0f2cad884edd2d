"""Particles over parameters and windows: gradients against differences, both explanations of a pendulum, and what cannot be shot."""

from __future__ import annotations

import numpy as np
import posterior_problems as problems
import pytest

import calibody as cb
from calibody.estimate.windows import Linear, Windows, windows_of
from calibody.experiment.posterior import Here


@pytest.fixture(scope="module")
def swung() -> cb.Result:
    return cb.fit(problems.kater(), problems.swing(), problems.unknown_kater(), h=0.04)


def _settled(w: Windows, theta: np.ndarray, starts: np.ndarray) -> Linear:
    """Rolled out to the end, from changed parameters and starts."""
    none = np.zeros(w.count - 1)
    found, x = w.linear(w.x, w.theta, none, 0.1), w.x
    x = w.moved(x, found, starts, theta)
    for _ in range(6):
        x = w.moved(x, w.linear(x, w.theta + theta, none, 0.1), 0.0 * starts, 0.0 * theta)
    return w.linear(x, w.theta + theta, none, 0.1)


def test_gradients_are_those_of_differences(swung: cb.Result) -> None:
    (w,) = windows_of(swung.problem, swung.states, swung.theta, 4)  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    theta, starts = np.array([0.01, 0.003]), 0.05 * rng.standard_normal((4, 2))
    found = _settled(w, theta, starts)
    assert np.abs(found.correction).max() < 1e-9 and np.abs(found.defects).max() > 0.1

    def slope(d_theta: np.ndarray, d_starts: np.ndarray) -> tuple[float, float]:
        high, low = (_settled(w, theta + s * d_theta, starts + s * d_starts) for s in (1e-6, -1e-6))
        g = [float(((x.defects**2).sum(axis=1) ** 2).sum()) / 4.0 for x in (high, low)]
        return (high.log_p - low.log_p) / 2e-6, (g[0] - g[1]) / 2e-6

    none = np.zeros((4, 2))
    for k in range(2):
        by, away = slope(np.eye(2)[k], none)
        assert by == pytest.approx(found.by_theta[k], rel=1e-5)
        assert away == pytest.approx(found.away_theta[k], rel=0.2, abs=0.05 * np.abs(found.away_theta).max())  # how B changes is left out
    for k in range(8):
        by, away = slope(np.zeros(2), np.eye(8)[k].reshape(4, 2))
        assert by == pytest.approx(found.by_starts.ravel()[k], rel=1e-5)
        assert away == pytest.approx(found.away.ravel()[k], rel=0.05, abs=0.02 * np.abs(found.away).max())


def test_windows_meet_where_the_motion_is_whole(swung: cb.Result) -> None:
    (w,) = windows_of(swung.problem, swung.states, swung.theta, 5)  # type: ignore[arg-type]
    found = w.linear(w.x, w.theta, np.zeros(4), 0.1)
    assert np.abs(found.defects).max() < 1e-4 and found.log_p == pytest.approx(-0.5 * swung.cost, rel=1e-6)


@pytest.mark.parametrize(("sampler", "windows"), [("csvgd", 3), pytest.param("svgd", 10, marks=pytest.mark.slow)])
def test_particles_find_both_explanations(swung: cb.Result, sampler: str, windows: int) -> None:
    """Huygens' conjugate lengths: from all over the bounds, particles come to both, and nowhere else."""
    post = cb.posterior(swung, samples=32, starts=0, sampler=sampler, windows=windows, iterations=60, executor=Here())  # type: ignore[arg-type]
    assert post.sampler == sampler and "Stein's method" in " ".join(post.notes)
    d = -post.draws[:, 0]
    near = np.minimum(np.abs(d - problems.DISTANCE), np.abs(d - problems.RADIUS**2 / problems.DISTANCE))
    assert np.mean(near < 0.04) > 0.7
    assert (np.abs(d - problems.DISTANCE) < 0.03).any() and (np.abs(d - problems.RADIUS**2 / problems.DISTANCE) < 0.03).any()
    again = cb.posterior(swung, samples=32, starts=0, sampler=sampler, windows=windows, iterations=2, executor=Here())  # type: ignore[arg-type]
    assert not again.converged and "windows do not meet" in again.status


def test_what_cannot_be_shot_is_a_sentence(swung: cb.Result) -> None:
    open_ = cb.fit(problems.kater(), problems.swing(), {"body.rod.com.z": cb.Unknown(-0.15)}, h=0.04)
    with pytest.raises(cb.CalibodyError, match="has none on both sides"):
        cb.posterior(open_, samples=32, starts=0, sampler="svgd", iterations=1, executor=Here())  # type: ignore[arg-type]
    with pytest.raises(cb.CalibodyError, match="windows are too many"):
        cb.posterior(swung, samples=32, starts=0, sampler="csvgd", windows=60, iterations=1, executor=Here())  # type: ignore[arg-type]
    with pytest.raises(cb.CalibodyError, match="windows = 1"):
        cb.posterior(swung, sampler="csvgd", windows=1)
