"""Posteriors: the density and its gradient, modes with known masses, bounds, noise that has to be found or stretched for, refusals, and the same bytes from any number of processes."""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import posterior_problems as problems
import pytest
import race_problems
from scipy import stats

import calibody as cb
from calibody.estimate.draws import target as target_module
from calibody.estimate.draws.drawn import Posterior
from calibody.estimate.draws.target import Target
from calibody.estimate.kept import Kept
from calibody.estimate.result import Result


@pytest.fixture(scope="module")
def swung() -> Result:
    return cb.fit(problems.kater(), problems.swing(), problems.unknown_kater(), h=0.02)


@pytest.fixture(scope="module")
def kater(swung: Result) -> Posterior:
    return cb.posterior(swung)


def _fitted(shared: Path, name: str) -> Result:
    model, run, truth = race_problems.problem(shared, name)
    return cb.fit(model, run, {path: cb.Unknown(value, lower=0.0) for path, value in truth.items()}, h=0.01)


def _exactly(target: Target, eta: np.ndarray) -> float:
    """log p with the motion found by Newton's method to rounding, a factorisation per step."""
    (given,) = target.predicted(target.problem, eta)
    found = target_module._newton(*given, 1e-8)
    assert found is not None
    return target_module.constant(target.problem) - found.cost - found.volume


# -- the density ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gentle_single", "tumbling_double"])
def test_one_factorisation_finds_the_density(shared: Path, name: str) -> None:
    """Over the posterior of the race, against Newton's method on the motion: 2e-3 at most, and never more than one factorisation."""
    result = _fitted(shared, name)
    target = Target.of(result.problem, result.states, result.theta)  # pyright: ignore[reportArgumentType]
    L = np.linalg.cholesky(np.linalg.inv(target.information))
    for z in np.random.default_rng(0).standard_normal((6, len(L))):
        found = target.at(target.eta + L @ z)
        assert found.factorisations == 1
        assert abs(found.value - _exactly(target, target.eta + L @ z)) < 2e-3


@pytest.mark.parametrize("name", ["gentle_single", "tumbling_double"])
def test_the_gradient_is_that_of_differences(shared: Path, name: str) -> None:
    """To 1e-4 of its size, one standard deviation away from the mode; the slope of the volume, which is held elsewhere, being that of the point."""
    result = _fitted(shared, name)
    target = replace(Target.of(result.problem, result.states, result.theta), settled=1e-7)  # pyright: ignore[reportArgumentType]
    sd = np.sqrt(np.diag(np.linalg.inv(target.information)))
    at = target.eta + np.linalg.cholesky(np.linalg.inv(target.information)) @ np.random.default_rng(1).standard_normal(len(sd))
    found = target.at(at, derivatives=True).gradient
    assert found is not None
    volume = _volume_slope(target, at, sd)
    differences = np.array([_difference(target, at, k, sd[k]) for k in range(len(sd))])
    assert np.abs((found + target.slope - volume - differences) * sd).max() < 1e-4 * np.abs(differences * sd).max()


def _difference(target: Target, at: np.ndarray, k: int, sd: float) -> float:
    e = np.zeros(len(at))
    e[k] = 1e-2 * sd
    return (_exactly(target, at + e) - _exactly(target, at - e)) / (2e-2 * sd)


def _volume_slope(target: Target, at: np.ndarray, sd: np.ndarray) -> np.ndarray:
    out = []
    for k in range(len(at)):
        ends = []
        for sign in (1.0, -1.0):
            moved = at.copy()
            moved[k] += sign * 1e-2 * sd[k]
            (given,) = target.predicted(target.problem, moved)
            found = target_module._newton(*given, 1e-8)
            assert found is not None
            ends.append(found.volume)
        out.append((ends[0] - ends[1]) / (2e-2 * sd[k]))
    return np.array(out)


def test_the_gradient_with_unmodelled_forces_is_that_of_differences() -> None:
    """Parameters and sizes of noise alike, the motion integrated out with forces of finite size."""
    result = cb.fit(problems.kater(), problems.swing(), problems.unknown_kater(), h=0.04, process_noise={"pivot": 0.02})
    target = replace(Target.of(result.problem, result.states, result.theta, result.hypers), settled=1e-6)  # pyright: ignore[reportArgumentType]
    sd = np.sqrt(np.diag(np.linalg.inv(target.information)))
    at = target.eta + 0.7 * sd
    found = target.at(at, derivatives=True).gradient
    assert found is not None
    for k in range(len(at)):
        e = np.zeros(len(at))
        e[k] = 0.02 * sd[k]
        difference = (target.at(at + e).value - target.at(at - e).value) / (0.04 * sd[k])
        assert abs((found[k] - difference) * sd[k]) < 2e-3 * max(abs(difference * sd[k]), 1.0)


def test_the_density_does_not_depend_on_what_was_asked_before(swung: Result) -> None:
    first = Target.of(swung.problem, swung.states, swung.theta)  # pyright: ignore[reportArgumentType]
    sd = np.sqrt(np.diag(np.linalg.inv(first.information)))
    points = [first.eta + sd * z for z in np.random.default_rng(0).standard_normal((4, 2))]
    forwards = [first.at(p).value for p in points]
    assert forwards == [first.at(p).value for p in reversed(points)][::-1]


# -- modes ---------------------------------------------------------------------------------------------------------------------------------


def test_conjugate_lengths_are_two_explanations_of_known_mass(kater: Posterior) -> None:
    assert kater.converged and len(kater.modes) == 2 and kater.khat < 0.5 and kater.ess > 350
    exact = problems.kater_masses([-m.values["body.rod.com.z"] for m in kater.modes])
    assert sorted(np.round(exact, 4)) == [0.1135, 0.8865]
    for mode, mass in zip(kater.modes, exact, strict=True):
        assert abs(mode.mass - mass) < 0.01 and abs(mode.laplace_mass - mass) < 0.01
    assert "2 explanations were found" in str(kater) and any("is not the fit's" in note for note in kater.notes)
    assert "explanation" in kater._repr_html_()


def test_without_starts_only_the_fits_own_is_known(swung: Result) -> None:
    post = cb.posterior(swung, samples=100, starts=0)
    assert len(post.modes) == 1 and post.modes[0].found_by == "fit" and post.starts == 0
    e, m = swung.parameters["joint.pivot.damping"], post.parameters["joint.pivot.damping"]
    assert e.sd is not None and abs(m.mean - e.value) < 0.3 * e.sd and abs(m.sd / e.sd - 1.0) < 0.2
    assert abs(m.quantile(0.5) - m.median) == 0.0 and m.interval[0] < m.median < m.interval[1]
    assert post.draws.shape == (100, 2) and not m.remarkable


@pytest.mark.slow
def test_weights_that_can_be_swapped_are_two_explanations_of_half_each() -> None:
    model, run = problems.weights_in_a_box(), problems.shaken()
    result = cb.fit(model, run, problems.unknown_weights(), h=0.02)
    found = cb.posterior(result, starts=0)
    assert found.converged and [m.found_by for m in found.modes] == ["fit", "body.w1 and body.w2 swapped"]
    assert all(abs(m.mass - 0.5) < 0.02 for m in found.modes) and found.khat < 0.5
    by_fits = cb.posterior(result, samples=100, starts=3)
    assert len(by_fits.modes) == 2


def test_a_sign_that_does_not_matter_is_found_by_symmetry() -> None:
    """A mass at x or -x from a vertical axis has the same inertia about it."""
    bodies = [cb.Body("table", mass=1.0, inertia=(0.1, 0.1, 0.05)), cb.Body("load", "table", mass=0.5, position=(0.2, 0, 0))]
    model = cb.Model("table", bodies, [cb.Joint("axis", "table", axis=(0, 0, 1), damping=0.02)], actuators=[cb.Actuator("motor", "axis")])
    t = np.arange(0, 2.0, 0.01)
    u = cb.Signal(t, 0.3 * np.sin(4.0 * t))
    motion = cb.simulate(model, 1.9, 0.01, drive={"actuator.motor": u})
    y = motion["joint.axis.angle"] + 1e-3 * np.random.default_rng(0).standard_normal(len(motion.time))
    run = cb.Recording("turn", (cb.Observation("joint.axis.angle", motion.time, y, 1e-3),), (cb.Drive("actuator.motor", u),))
    result = cb.fit(model, run, {"body.load.position.x": cb.Unknown(0.15, lower=-1.0, upper=1.0)}, h=0.02)
    post = cb.posterior(result, samples=100, starts=0)
    assert [m.found_by for m in post.modes] == ["fit", "the sign of body.load.position.x"]
    assert all(abs(m.mass - 0.5) < 0.03 for m in post.modes)


def test_draws_as_arviz_has_them(kater: Posterior) -> None:
    pytest.importorskip("arviz")
    found = kater.to_arviz().posterior["joint.pivot.damping"].to_numpy()
    assert found.shape == (1, kater.samples) and np.array_equal(found[0], kater.draws[:, list(kater.parameters).index("joint.pivot.damping")])


def test_draws_without_arviz_say_what_to_install(kater: Posterior, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(cb.CalibodyError, match="pip install arviz"):
        kater.to_arviz()


# -- bounds and noise ----------------------------------------------------------------------------------------------------------------------


def test_a_friction_at_its_bound_has_a_limit() -> None:
    """The posterior ends there, and its 95 % limit is that of the Gaussian truncated at the bound."""
    result = cb.fit(problems.rubbing(0.0), problems.rubbed(problems.rubbing(0.0), 3), problems.unknown_rubbing(), h=0.01)
    assert result.parameters["joint.pivot.friction"].at_bound
    post = cb.posterior(result, samples=200, starts=0)
    m = post.parameters["joint.pivot.friction"]
    assert post.converged and m.values.min() >= 0.0 and m.limit is not None and 0.0 < m.limit < 0.03
    t = post.targets[0]
    k = list(post.parameters).index("joint.pivot.friction")
    C = np.linalg.inv(t.information)
    mean, sd = float((t.eta + C @ t.gradient)[k]), float(np.sqrt(C[k, k]))
    assert abs(m.limit - stats.truncnorm((0.0 - mean) / sd, (0.04 - mean) / sd, loc=mean, scale=sd).ppf(0.95)) < 0.25 * sd
    profile = result.profile("joint.pivot.friction")
    assert profile.interval()[0] is None and profile.interval(0.9)[1] is not None


def test_noise_that_nobody_stated_is_integrated_out() -> None:
    """The posterior of a parameter is then Student's: wider than with the noise held at its estimate, by as much as its degrees of freedom say."""
    run = problems.swing(2, sd=None, seconds=1.2)
    result = cb.fit(problems.kater(), run, problems.unknown_kater(), h=0.02)
    post = cb.posterior(result, samples=1000, starts=0)
    assert post.converged and post.raw.names[-1] == "log sd of joint.pivot.angle" and post.noise == "naive"
    sizes = np.exp(post.raw.eta[:, -1])
    n = len(run.observations[0].values) - 4  # two parameters, angle and rate at the start
    squares = 2.0 * sum(float(c.deviation @ c.deviation) for c in result.fit) / 2.0 * result.fit[0].sd ** 2
    exact = np.sqrt(stats.invgamma(0.5 * n, scale=0.5 * squares).ppf([0.1, 0.5, 0.9]))
    from calibody.solve.importance import quantile

    np.testing.assert_allclose(quantile(sizes, post.raw.weight, [0.1, 0.5, 0.9]), exact, rtol=0.08)


def test_draws_are_stretched_where_the_error_bars_were() -> None:
    """Noise with a memory: the draws have the spread of the fit's error bars, which the naive ones do not, and it is said."""
    random = np.random.default_rng(0)
    motion = cb.simulate(problems.kater(), 4.0, 0.005, {"joint.pivot.angle": 0.8})
    slow = np.zeros(len(motion.time))
    for k in range(1, len(slow)):
        slow[k] = 0.95 * slow[k - 1] + 0.003 * random.standard_normal()
    run = cb.Recording("swing", (cb.Observation("joint.pivot.angle", motion.time, motion["joint.pivot.angle"] + slow, 0.01),))
    result = cb.fit(problems.kater(), run, problems.unknown_kater(), h=0.02)
    post = cb.posterior(result, starts=0)
    assert post.converged and post.noise == "sandwich" and post.stretched > 1.5 and any("stretched" in n for n in post.notes)
    for name, m in post.parameters.items():
        e = result.parameters[name]
        assert e.sd is not None and e.sd_naive is not None and abs(m.sd / e.sd - 1.0) < 0.12 and e.sd > 1.3 * e.sd_naive


def test_unmodelled_forces_that_were_found_are_drawn_too() -> None:
    random = np.random.default_rng(1)
    force = cb.Signal(np.arange(0, 6.0, 0.04), 0.1 * random.standard_normal(150), hold="zero")
    motion = cb.simulate(problems.kater(), 5.9, 0.005, {"joint.pivot.angle": 0.8}, {"joint.pivot.force": force})
    y = motion["joint.pivot.angle"][::8] + 0.002 * random.standard_normal(len(motion.time[::8]))
    run = cb.Recording("pushed", (cb.Observation("joint.pivot.angle", motion.time[::8], y, 0.002),))
    result = cb.fit(problems.kater(), run, {"joint.pivot.damping": cb.Unknown(0.01, lower=0.0, upper=0.5)}, h=0.04, process_noise="auto")
    assert result.converged and result.process_noise["pivot"] > 0.02
    post = cb.posterior(result, samples=100, starts=0)
    assert post.converged and "log sd of pivot" in post.raw.names
    e, m = result.parameters["joint.pivot.damping"], post.parameters["joint.pivot.damping"]
    assert e.at_bound or (e.sd is not None and abs(m.sd / e.sd - 1.0) < 0.35)


def test_impacts_keep_their_sequence_and_the_draws_the_width_of_the_error_bars() -> None:
    """A pendulum that bounces off a stop: damping and restitution from draws, error bars and profiles alike."""
    rod = cb.Body("rod", mass=1.0, com=(0, 0, -0.25), inertia=(0.03, 0.03, 0.001))
    stop = cb.Limit("stop", "pivot", position=-0.3, side="lower", restitution=0.6)
    model = cb.Model("stop", [rod], [cb.Joint("pivot", "rod", axis=(0, 1, 0), damping=0.02)], limits=[stop])
    motion = cb.simulate(model, 1.6, 0.005, {"joint.pivot.angle": 0.8})
    y = motion["joint.pivot.angle"][::2] + 0.002 * np.random.default_rng(0).standard_normal(len(motion.time[::2]))
    run = cb.Recording("bounces", (cb.Observation("joint.pivot.angle", motion.time[::2], y, 0.002),))
    result = cb.fit(
        model, run, {"joint.pivot.damping": cb.Unknown(0.03, lower=0.0, upper=1.0), "limit.stop.restitution": cb.Unknown(0.5, lower=0.0, upper=1.0)}
    )
    assert result.converged and result.events
    post = cb.posterior(result, samples=64, executor=ThreadPoolExecutor(1))
    assert post.converged and post.khat < 0.5 and any("sequence of impacts" in note for note in post.notes)
    for path, truth in (("joint.pivot.damping", 0.02), ("limit.stop.restitution", 0.6)):
        e, m = result.parameters[path], post.parameters[path]
        assert e.sd is not None and abs(m.mean - e.value) < 0.3 * e.sd and abs(m.sd / e.sd - 1.0) < 0.2 and abs(m.mean - truth) < 4.0 * m.sd
    low, high = result.profile("limit.stop.restitution").interval()
    sd = result.parameters["limit.stop.restitution"].sd
    assert low is not None and high is not None and sd is not None and abs((high - low) / (3.92 * sd) - 1.0) < 0.1
    assert post.predict(run, window=0.3, draws=16).coverage > 0.8


# -- other samplers ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_chains_and_tempering_agree_with_weights(swung: Result, kater: Posterior) -> None:
    chained = cb.posterior(swung, sampler="hmc")
    assert chained.converged and chained.rhat is not None and chained.rhat < 1.01 and chained.sampler == "hmc"
    tempered = cb.posterior(swung, sampler="smc", samples=400)
    assert tempered.converged and abs(tempered.log_evidence - kater.log_evidence) < 0.3 and abs(chained.log_evidence - kater.log_evidence) < 0.1
    for other, close in ((chained, 0.01), (tempered, 0.06)):
        assert abs(other.modes[0].mass - kater.modes[0].mass) < close
        m, n = other.parameters["joint.pivot.damping"], kater.parameters["joint.pivot.damping"]
        np.testing.assert_allclose(m.quantile([0.3, 0.5, 0.9]), n.quantile([0.3, 0.5, 0.9]), rtol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gentle_single", "tumbling_double"])
def test_the_race_is_sampled_as_a_long_chain_has_it(shared: Path, name: str) -> None:
    result = _fitted(shared, name)
    post = cb.posterior(result, samples=400)
    assert post.converged and post.khat < 0.5 and post.ess > 350
    chain = cb.posterior(result, samples=2400, sampler="hmc", starts=0)
    assert chain.rhat is not None and chain.rhat < 1.01 and chain.ess > 2000
    for path, m in post.parameters.items():
        long = chain.parameters[path]
        assert abs(m.mean - long.mean) < 0.15 * long.sd and abs(m.sd / long.sd - 1.0) < 0.1


# -- parallel, interrupted -----------------------------------------------------------------------------------------------------------------


def test_draws_are_the_same_on_any_number_of_workers_and_after_an_interruption(swung: Result, tmp_path: Path) -> None:
    alone = cb.posterior(swung, samples=64, starts=2, executor=ThreadPoolExecutor(1), seed=5)
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        both = cb.posterior(swung, samples=64, starts=2, executor=pool, seed=5)
    assert alone.raw.eta.tobytes() == both.raw.eta.tobytes() and alone.raw.log_p.tobytes() == both.raw.log_p.tobytes()
    kept = Kept(tmp_path / "parts")
    cb.posterior(swung, samples=32, starts=2, executor=ThreadPoolExecutor(1), seed=5, kept=kept)
    pieces = sorted(p.name for p in kept.folder.iterdir())
    (kept.folder / pieces[0]).unlink()  # as if it had been killed before that was done
    again = cb.posterior(swung, samples=64, starts=2, executor=ThreadPoolExecutor(1), seed=5, kept=kept)
    assert again.raw.eta.tobytes() == alone.raw.eta.tobytes() and again.raw.weight.tobytes() == alone.raw.weight.tobytes()
    kept.remove()
    assert not kept.folder.exists()


# -- what is refused and said --------------------------------------------------------------------------------------------------------------


def test_directions_without_end_are_refused_with_the_fits_own_sentence() -> None:
    """A pendulum that swings freely tells the ratio of inertia, moment and damping only."""
    run = problems.swing()
    open_ = {"body.rod.mass": cb.Unknown(1.0), "body.rod.inertia.yy": cb.Unknown(0.06), "joint.pivot.damping": cb.Unknown(0.01)}
    result = cb.fit(problems.kater(), run, open_, h=0.02)
    assert result.converged and result.unresolved
    with pytest.raises(cb.CalibodyError, match=r"Only the ratios .* give a prior"):
        cb.posterior(result)
    held = cb.fit(problems.kater(), run, {**open_, "body.rod.mass": cb.Unknown(1.0, prior=(1.0, 0.01))}, h=0.02)
    assert cb.posterior(held, samples=64, starts=0).converged
    boxed = {path: replace(u, lower=0.5 * u.initial, upper=2.0 * u.initial) for path, u in open_.items()}  # type: ignore[operator]
    found = cb.posterior(cb.fit(problems.kater(), run, boxed, h=0.02), samples=200, starts=0)
    m = found.parameters["body.rod.mass"]
    assert any("what their bounds allow" in note for note in found.notes) and m.sd > 0.2 and m.values.min() >= 0.5


def test_what_does_not_fit_is_refused_in_a_sentence(swung: Result) -> None:
    for wrong in ({"samples": 3}, {"samples": 10.5}, {"starts": -1}, {"sampler": "nuts"}, {"seed": "a"}):
        with pytest.raises(cb.CalibodyError, match=next(iter(wrong))):
            cb.posterior(swung, **wrong)
    with pytest.raises(cb.CalibodyError, match="did not converge"):
        cb.posterior(replace(swung, status="stopped after 3 iterations."))
    with pytest.raises(cb.CalibodyError, match="give a result"):
        cb.posterior(problems.kater())
    shadow = cb.fit(problems.kater(), problems.swing(), problems.unknown_kater(), method="shadow", h=0.04)
    for asked in (cb.posterior, lambda result: result.profile("joint.pivot.damping")):
        with pytest.raises(cb.CalibodyError, match='method = "transcription", or "shooting" on the variational step; fit with one of them'):
            asked(shadow)
    still = cb.Recording("still", tuple(cb.Observation(f"{c}", np.arange(8.0), np.linspace(0.0, 1.0, 8), 0.01) for c in ("joint.pivot.angle",)), poses=True)
    with pytest.raises(cb.CalibodyError, match="these are poses at rest; take the error bars"):
        cb.posterior(cb.fit(problems.kater(), still, {"joint.pivot.angle.bias": cb.Unknown(0.0, prior=(0.0, 0.1))}))
    with pytest.raises(cb.CalibodyError, match="give the result alone"):
        cb.posterior(swung, problems.swing(), problems.unknown_kater())


def test_a_model_runs_and_unknowns_are_fitted_first(swung: Result) -> None:
    post = cb.posterior(problems.kater(), problems.swing(), problems.unknown_kater(), samples=32, starts=0, h=0.02)
    assert np.allclose(post.result.theta, swung.theta) and any("k-hat says little" in n for n in post.notes)


def test_quantiles_outside_of_probabilities_are_refused(kater: Posterior) -> None:
    with pytest.raises(cb.CalibodyError, match="between 0 and 1"):
        kater.parameters["body.rod.com.z"].quantile(95)
