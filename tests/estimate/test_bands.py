"""Bands, predictive checks and profiles of a posterior: against error bars, fresh data and each other."""

from __future__ import annotations

from pathlib import Path

import ibm_problem as ibm
import numpy as np
import posterior_problems as problems
import pytest

import calibody as cb
from calibody.estimate.draws.bands import mixed
from calibody.estimate.draws.drawn import Posterior
from calibody.estimate.predict import played
from calibody.estimate.result import Result
from calibody.experiment.posterior import Here


@pytest.fixture(scope="module")
def swung() -> Result:
    return cb.fit(problems.kater(), problems.swing(), problems.unknown_kater(), h=0.02)


@pytest.fixture(scope="module")
def post(swung: Result) -> Posterior:
    return cb.posterior(swung, samples=200, starts=0)


def test_the_band_of_a_channel_is_as_wide_as_its_error_bars(swung: Result, post: Posterior) -> None:
    for channel in ("joint.pivot.rate", "joint.pivot.angle"):
        band = post.band(channel)
        width = (band.quantiles[2] - band.quantiles[0])[1:-1]
        assert abs(width.mean() / (3.29 * swung.sd(channel, band.times[1:-1]).mean()) - 1.0) < 0.15
    with pytest.raises(cb.CalibodyError, match="not measured"):
        _ = post.band("joint.pivot.rate").coverage


def test_a_fresh_recording_is_in_its_band(post: Posterior) -> None:
    found = post.predict(problems.swing(5, angle=0.5))
    assert found["joint.pivot.angle"].quantiles.shape[0] == 3 and 0.8 < found.coverage <= 1.0 and "90 % bands of 100 draws" in str(found)
    with pytest.raises(cb.CalibodyError, match="was not observed"):
        _ = found["joint.pivot.rate"]
    with pytest.raises(cb.CalibodyError, match="at least four"):
        post.predict(problems.swing(5), window=0.01)
    with pytest.raises(cb.CalibodyError, match="level"):
        post.predict(problems.swing(5), level=90)
    undriven = cb.Recording("pushed", problems.swing(5).observations, unknown=(cb.UnknownDrive("joint.pivot.force"),))
    with pytest.raises(cb.CalibodyError, match="needs all drives"):
        post.predict(undriven)


def test_bands_know_the_noise_that_was_found_and_what_differs_between_runs() -> None:
    """Nobody has stated the noise, and every run has its own damping: a run that was fitted is predicted with its own, another with what its first seconds and the other runs leave of it."""
    dampings = (0.01, 0.03, 0.02, 0.04)
    runs = [_damped(b, seed) for seed, b in enumerate((*dampings, 0.025))]
    unknowns = {"body.rod.inertia.yy": cb.Unknown(0.06, lower=0.01, upper=0.3), "joint.pivot.damping": cb.Unknown(0.02, lower=0.0, upper=0.2, per_run=True)}
    found = cb.posterior(cb.fit(problems.kater(), runs[:4], unknowns, h=0.02), samples=64, starts=0, executor=Here())  # type: ignore[arg-type]
    fitted, other = (found.predict(run, window=0.4, draws=40)["joint.pivot.angle"] for run in (runs[1], runs[4]))
    assert 0.8 < fitted.coverage <= 1.0 and 0.8 < other.coverage <= 1.0 and fitted.rms < 0.013
    widths = [np.mean((b.quantiles[2] - b.quantiles[0])[-20:]) for b in (fitted, other)]
    assert 3.0 * 0.01 < widths[0] < 5.0 * 0.01 and widths[1] > 1.5 * widths[0]
    assert found.result.predict(runs[1], window=0.4).rms["joint.pivot.angle"] < 0.05  # of the scatter of the runs, not of 0.4 s


def _damped(damping: float, seed: int) -> cb.Recording:
    motion = cb.simulate(problems.kater().replace({"joint.pivot.damping": damping}), 4.0, 0.005, {"joint.pivot.angle": 0.8})
    y = motion["joint.pivot.angle"][::8] + 0.01 * np.random.default_rng(seed).standard_normal(len(motion.time[::8]))
    return cb.Recording(f"run{seed}", (cb.Observation("joint.pivot.angle", motion.time[::8], y),))


def test_what_turns_faster_than_before_is_simulated_in_smaller_steps() -> None:
    """A wheel that turns by 1.5 rad in a step of the fit's mesh, which no step can follow; and what no smaller step mends is said as the fit's mesh has it."""
    wheel = cb.Model("wheel", [cb.Body("wheel", mass=1.0, inertia=(0.01,) * 3)], [cb.Joint("axle", "wheel", axis=(0, 1, 0))])
    with pytest.raises(cb.SimulationError, match="more than 1 rad"):
        cb.simulate(wheel, 0.1, 0.005, {"joint.axle.rate": 300.0})
    found = played(wheel, 0.1, 0.005, {"joint.axle.rate": 300.0})
    assert found.h == 0.00125 and found["joint.axle.angle"][-1] == pytest.approx(30.0, rel=0.04)
    with pytest.raises(cb.SimulationError, match=r"one step of 0\.005 s"):
        played(wheel, 0.1, 0.005, {"joint.axle.rate": 30000.0})


def test_checks_pass_on_data_of_the_model_and_name_what_is_wrong(post: Posterior) -> None:
    assert post.check().passed
    run = problems.swing(1)
    o = run.observations[0]
    y = o.values.copy()
    y[30] += 0.09
    wrong = cb.Recording("swing", (cb.Observation(o.channel, o.times, y, 0.01),))
    found, robust = (
        cb.posterior(cb.fit(problems.kater(), wrong, problems.unknown_kater(), h=0.02, robust=r), samples=100, starts=0).check() for r in (False, True)
    )
    assert robust.passed  # it has let go of that sample, and says so in result.outliers
    assert not found.passed and "a sample is too far off" in found.channels[0].doubts and "too far off" in str(found)


def test_a_profile_is_a_parabola_where_the_error_bar_holds(swung: Result, post: Posterior) -> None:
    e, profile = swung.parameters["joint.pivot.damping"], swung.profile("joint.pivot.damping")
    assert e.sd is not None
    np.testing.assert_allclose(profile.rise, ((profile.values - e.value) / e.sd) ** 2, atol=0.05)
    np.testing.assert_allclose(profile.interval(), post.parameters["joint.pivot.damping"].quantile([0.025, 0.975]), atol=0.5 * e.sd)
    assert "by its profile likelihood from" in str(profile)
    with pytest.raises(cb.CalibodyError, match="was not estimated"):
        swung.profile("joint.pivot.dampin")


def test_quantiles_of_mixed_gaussians() -> None:
    found = mixed(np.zeros((5, 1)), np.ones(1), 0.9)[:, 0]
    np.testing.assert_allclose(found, [-1.6449, 0.0, 1.6449], atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("forces", [False, True])
def test_bands_of_held_out_recordings_hold_what_they_say(forces: bool) -> None:
    """Of 50 pairs of recordings one is fitted and the other predicted: the 90 % bands hold 86 to 94 % of its samples."""
    inside = []
    for seed in range(50):
        random = np.random.default_rng(100 + seed)
        runs = [_pushed(random, angle, forces) for angle in (0.8, -0.6)]
        unknowns = {"body.rod.inertia.yy": cb.Unknown(0.06, lower=0.01, upper=0.3), "joint.pivot.damping": cb.Unknown(0.01, lower=-0.2, upper=0.2)}
        result = cb.fit(problems.kater(), runs[0], unknowns, h=0.04 if forces else 0.02, process_noise={"pivot": 0.02} if forces else "none")
        if result.converged:
            inside.append(cb.posterior(result, samples=100, starts=0, executor=Here()).predict(runs[1], window=1.0).coverage)  # type: ignore[arg-type]
    assert len(inside) > 45 and 0.86 < np.mean(inside) < 0.94


def _pushed(random: np.random.Generator, angle: float, forces: bool) -> cb.Recording:
    drive = {"joint.pivot.force": cb.Signal(np.arange(0, 4.1, 0.04), 0.02 * random.standard_normal(103), hold="zero")} if forces else {}
    motion = cb.simulate(problems.kater(), 4.0, 0.005, {"joint.pivot.angle": angle}, drive)
    y = motion["joint.pivot.angle"][::8] + 0.01 * random.standard_normal(len(motion.time[::8]))
    return cb.Recording("swing", (cb.Observation("joint.pivot.angle", motion.time[::8], y, 0.01),))


@pytest.mark.slow
def test_bands_of_six_real_runs_hold_five_others(shared: Path) -> None:
    """A double pendulum that tumbles: what one run cannot know, six do. And from the same starts as other samplers, the draws of one run."""
    six = cb.fit(ibm.pendulum(), [ibm.recording(shared, i) for i in range(1, 7)], ibm.unknowns(), h=1.0 / ibm.CLOCK)
    post = cb.posterior(six, samples=150, starts=0, executor=Here())  # type: ignore[arg-type]
    assert six.converged and post.converged
    inside = [post.predict(ibm.recording(shared, i), window=0.1).coverage for i in range(7, 12)]
    assert 0.75 <= np.mean(inside) <= 0.97


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["auto", "csvgd"])
def test_draws_of_one_real_run_predict_ten_others(shared: Path, sampler: str) -> None:
    """From the same starts, within 0.05 (MMD squared) and 1 rad (rms); particles begin all over the bounds."""
    result = cb.fit(ibm.pendulum(), ibm.recording(shared, 1), ibm.bounded(), h=1.0 / ibm.CLOCK)
    post = cb.posterior(result, samples=150 if sampler == "auto" else 32, starts=0, sampler=sampler, executor=Here())  # type: ignore[arg-type]
    assert post.converged
    mmd, rms = ibm.rolled(shared, post)
    assert mmd < 0.05 and rms < 1.0
