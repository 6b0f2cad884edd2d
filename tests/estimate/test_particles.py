"""Particles over parameters and windows, shot as `cb.Shooting` does: against importance sampling, both explanations of a pendulum with their probabilities, in an engine, on workers, and what cannot be shot."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import posterior_problems as problems
import pytest

import calibody as cb
from calibody.estimate.draws.particles import Ground, reflected
from calibody.estimate.windows.shots import sharpened
from calibody.solve.windows import Shot

PENDULUM = """<mujoco model="kater">
  <option timestep="0.005"/>
  <worldbody><body name="rod"><joint name="pivot" axis="0 1 0" damping="0.01"/><inertial pos="0 0 -0.15" mass="1" diaginertia="0.0625 0.0625 0.001"/></body></worldbody>
</mujoco>"""


@pytest.fixture(scope="module")
def swung() -> cb.Result:
    return cb.fit(problems.kater(), problems.swing(), problems.unknown_kater(), h=0.04)


def test_what_is_known_at_a_particle_is_that_of_a_minimum_over_the_starts(swung: cb.Result) -> None:
    """At parameters beside the fit's: starts that close the windows, found by steps at fixed parameters, and differences of log p there."""
    problem = sharpened(swung.problem, swung.states, swung.theta)  # type: ignore[arg-type]
    ground = Ground(problem, 5)

    def closed(theta: np.ndarray) -> tuple[float, np.ndarray]:
        x = Shot(list(swung.states))
        known = ground.linear(x, theta)
        for _ in range(8):
            assert known is not None
            x = ground.whole.move(x, known.alone)
            known = ground.linear(x, theta)
        assert known is not None and known.defect < 1e-5
        return known.log_p, known.gradient

    theta = swung.theta + np.array([0.01, 0.003])
    _, gradient = closed(theta)
    for k in range(2):
        d = 1e-4 * np.eye(2)[k] * ground.width
        difference = (closed(theta + d)[0] - closed(theta - d)[0]) / 2e-4
        assert gradient[k] == pytest.approx(difference, rel=1e-4)


def test_what_goes_beyond_a_bound_comes_back() -> None:
    np.testing.assert_allclose(reflected(np.array([-0.1, 0.3, 1.2, 1.0, 2.5])), [0.1, 0.3, 0.8, 1.0, 0.0])


@pytest.mark.parametrize(("sampler", "windows"), [("csvgd", 3), pytest.param("svgd", "auto", marks=pytest.mark.slow)])
def test_particles_find_both_explanations_and_their_probabilities(swung: cb.Result, sampler: str, windows: int | str) -> None:
    """Huygens' conjugate lengths: from all over the bounds particles come to both, in the masses that are exact, as wide as the error bars."""
    post = cb.posterior(swung, samples=32, starts=0, sampler=sampler, windows=windows)
    assert post.converged and post.sampler == sampler and "Stein's method" in " ".join(post.notes) and post.failed < 16
    exact = problems.kater_masses([-m.values["body.rod.com.z"] for m in post.modes])
    assert len(post.modes) == 2 and np.allclose([m.mass for m in post.modes], exact, atol=0.01)
    near = next(k for k, m in enumerate(post.modes) if m.found_by == "fit")
    for name, values in zip(post.parameters, post.raw.values[(post.raw.mode == near) & (post.raw.weight > 0.0)].T, strict=True):
        e = swung.parameters[name]
        assert e.sd is not None and 0.6 < values.std() / e.sd < 1.3 and abs(values.mean() - e.value) < 0.5 * e.sd


@pytest.mark.slow
def test_particles_are_the_same_on_any_executor(swung: cb.Result) -> None:
    alone, both = (cb.posterior(swung, samples=32, starts=0, sampler="csvgd", windows=3, executor=e) for e in (None, ThreadPoolExecutor(2)))
    assert alone.raw.eta.tobytes() == both.raw.eta.tobytes() and alone.raw.weight.tobytes() == both.raw.weight.tobytes()


def test_particles_that_still_move_are_not_believed(swung: cb.Result) -> None:
    soon = cb.posterior(swung, samples=32, starts=0, sampler="csvgd", windows=3, iterations=1)
    assert not soon.converged and "still move" in soon.status


@pytest.mark.slow
def test_particles_of_a_fit_in_an_engine(tmp_path: Path) -> None:
    """Of a recording that MuJoCo made: both lengths, the damping that goes with each, and what an engine's posterior does not have."""
    file = tmp_path / "kater.xml"
    file.write_text(PENDULUM)
    model = cb.load(file, engine="mujoco")
    motion = cb.simulate(model, 3.0, 0.005, {"joint.pivot.angle": 0.8}, stepper="mujoco")
    noise = 0.01 * np.random.default_rng(0).standard_normal(len(motion.time[::8]))
    run = cb.Recording("swing", (cb.Observation("joint.pivot.angle", motion.time[::8], motion["joint.pivot.angle"][::8] + noise, 0.01),))
    result = cb.fit(model, run, problems.unknown_kater(), method="shooting", stepper="mujoco")
    assert result.converged
    post = cb.posterior(result, samples=32, sampler="csvgd", windows=5)
    assert post.converged and len(post.modes) == 2 and post.targets == ()
    exact = problems.kater_masses([-m.values["body.rod.com.z"] for m in post.modes])
    assert np.allclose([m.mass for m in post.modes], exact, atol=0.02)
    for mode in post.modes:
        d = -mode.values["body.rod.com.z"]
        assert min(abs(d - problems.DISTANCE), abs(d - problems.RADIUS**2 / problems.DISTANCE)) < 0.01
    with pytest.raises(cb.CalibodyError, match="variational step"):
        post.predict(run)
    with pytest.raises(cb.CalibodyError, match='sampler = "csvgd"'):
        cb.posterior(result)


def test_what_cannot_be_shot_is_a_sentence(swung: cb.Result) -> None:
    open_ = cb.fit(problems.kater(), problems.swing(), {"body.rod.com.z": cb.Unknown(-0.15)}, h=0.04)
    with pytest.raises(cb.CalibodyError, match="has none on both sides"):
        cb.posterior(open_, samples=32, starts=0, sampler="svgd", iterations=1)
    with pytest.raises(cb.CalibodyError, match="windows are too many"):
        cb.posterior(swung, samples=32, starts=0, sampler="csvgd", windows=60, iterations=1)
    with pytest.raises(cb.CalibodyError, match="windows = 1"):
        cb.posterior(swung, sampler="csvgd", windows=1)
    with pytest.raises(cb.CalibodyError, match="did not converge"):
        cb.posterior(replace(swung, status="stopped."), sampler="csvgd")
