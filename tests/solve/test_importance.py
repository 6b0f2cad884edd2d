"""Importance sampling without physics: weights, what k-hat warns of, draws that do not depend on their order, adaptation, bridges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from calibody.solve import importance
from calibody.solve.importance import Mixture, weigh
from calibody.solve.truncated import Truncated

WIDE = np.full(2, np.inf)


def _gaussian(mean: float, sd: float = 1.0) -> Truncated:
    return Truncated(np.full(2, mean), sd**2 * np.eye(2), -WIDE, WIDE)


def _two(at: float) -> Any:
    return stats.multivariate_normal(np.full(2, at), np.eye(2))


def test_a_draw_depends_on_its_number_alone() -> None:
    mixture = Mixture((_gaussian(0.0), _gaussian(5.0)), np.array([0.7, 0.3]))
    own, all_ = mixture.draws(3, 0, np.arange(40))
    for part in (np.arange(7, 13), np.array([39, 2, 17])):
        some, found = mixture.draws(3, 0, part)
        assert np.array_equal(found, all_[part]) and np.array_equal(some, own[part])
    assert not np.array_equal(mixture.draws(4, 0, np.arange(40))[1], all_) and not np.array_equal(mixture.draws(3, 1, np.arange(40))[1], all_)


@pytest.mark.parametrize("count", [50, 137, 400])
def test_components_have_their_shares_among_any_number_of_draws(count: int) -> None:
    shares = np.array([0.62, 0.3, 0.08])
    mixture = Mixture(tuple(_gaussian(m) for m in (0.0, 1.0, 2.0)), shares)
    counted = np.bincount(mixture.draws(0, 0, np.arange(count))[0], minlength=3)
    assert np.abs(counted - shares * count).max() < 3.0


def test_two_modes_have_their_masses() -> None:
    """The whole mixture stands below: a component that is given too much makes no error."""
    mixture = Mixture((_gaussian(0.0), _gaussian(8.0)), np.array([0.5, 0.5]))
    own, draws = mixture.draws(0, 0, np.arange(400))
    log_p = np.log(0.2 * _two(0.0).pdf(draws) + 0.8 * _two(8.0).pdf(draws)) + 3.0
    found = weigh(log_p, mixture.log_density(draws, own))
    assert abs(found.weight[draws[:, 0] < 4.0].sum() - 0.2) < 0.005 and abs(found.log_evidence - 3.0) < 0.01 and found.khat < 0.5


def test_k_hat_says_which_proposals_are_too_narrow() -> None:
    """Of a Gaussian whose sd is r times that of the proposal the weights' tail index is 1 - 1/r^2 (per dimension alike): 0.2 for 1.1, 0.75 for 2."""
    narrow, wide = Mixture((_gaussian(0.0),), np.ones(1)), stats.multivariate_normal(np.zeros(2), 4.0 * np.eye(2))
    own, draws = narrow.draws(0, 0, np.arange(1000))
    found = weigh(wide.logpdf(draws), narrow.log_density(draws, own))
    assert found.khat > 0.6 and found.ess < 400
    own, draws = (heavy := narrow.with_tails()).draws(0, 0, np.arange(1000))
    assert weigh(_two(0.0).logpdf(draws), heavy.log_density(draws, own)).khat < 0.3


def test_weights_are_not_turned_over() -> None:
    """arviz takes log likelihoods, of which the weights are the inverse: with heavy tails the other sign shows at once."""
    lw = np.random.default_rng(0).standard_normal(500)
    smoothed, khat = importance.smooth(lw)
    assert np.corrcoef(smoothed, lw)[0, 1] > 0.99 and khat < 0.7


def test_adaptation_mends_a_proposal_that_is_off() -> None:
    mixture, target = Mixture((_gaussian(0.0),), np.ones(1)), stats.multivariate_normal([1.5, -1.0], [[2.0, 0.9], [0.9, 1.0]])
    esses = []
    for round_ in range(3):
        own, draws = mixture.draws(0, round_, np.arange(400))
        found = weigh(target.logpdf(draws), mixture.log_density(draws, own))
        esses.append(found.ess)
        mixture = mixture.adapted(draws, found.weight)
    assert esses[0] < 150 and esses[-1] > 300
    np.testing.assert_allclose(mixture.components[0].mean, [1.5, -1.0], atol=0.15)


def test_points_that_failed_weigh_nothing() -> None:
    found = weigh(np.array([0.0] * 30 + [-np.inf] * 2), np.zeros(32))
    assert found.failed == 2 and np.all(found.weight[-2:] == 0.0) and abs(found.weight.sum() - 1.0) < 1e-12
    assert not weigh(np.full(20, -np.inf), np.zeros(20)).khat < 0.7


def test_quantiles_and_equally_weighted_draws_of_weighted_ones() -> None:
    random = np.random.default_rng(1)
    x = random.uniform(-5, 5, 20000)
    w = stats.norm.pdf(x)
    w /= w.sum()
    np.testing.assert_allclose(importance.quantile(x, w, [0.05, 0.5, 0.95]), [-1.645, 0.0, 1.645], atol=0.03)
    picked = x[importance.resampled(w, 5000, 0)]
    assert abs(picked.std() - 1.0) < 0.02


def test_a_bridge_finds_the_evidence_where_weights_alone_do_not() -> None:
    q, p = stats.norm(0.0, 1.0), stats.norm(1.0, 2.0)
    a, b = q.rvs(800, random_state=0), p.rvs(800, random_state=1)
    found = importance.bridge(p.logpdf(a) + 7.0 - q.logpdf(a), p.logpdf(b) + 7.0 - q.logpdf(b))
    assert abs(found - 7.0) < 0.1


@pytest.mark.parametrize("seed", range(4))
def test_draws_are_more_even_than_random_ones(seed: int) -> None:
    """Means of 400 in eight dimensions are off by less than a twentieth of a standard deviation, which is one standard error of random draws, and covariances by less than a tenth."""
    wide = np.full(8, np.inf)
    _, draws = Mixture((Truncated(np.zeros(8), np.eye(8), -wide, wide),), np.ones(1)).draws(seed, 0, np.arange(400))
    assert np.abs(draws.mean(axis=0)).max() < 0.05 and np.abs(draws.std(axis=0) - 1.0).max() < 0.05
