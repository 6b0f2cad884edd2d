"""`method = "shadow"`: what [marklund2025] shows on synthetic data, its breakdown and the cure, error bars, and bad input."""

from __future__ import annotations

import numpy as np
import pytest
from problems import FURUTA_START, FURUTA_UNKNOWN, furuta

import calibody as cb

UNKNOWN = {"body.arm.inertia.zz": 0.01, "body.rod.inertia.zz": 0.01, "joint.hinge1.damping": 1e-4, "joint.hinge2.damping": 1e-4}
NOISE = 1e-3


def engine(compliance: float) -> cb.Spook:
    return cb.Spook(compliance=compliance, angular_compliance=compliance)


def recorded(motion: cb.Motion, period: int, seed: int = 0, drives: list[cb.Drive] | None = None, name: str = "release") -> cb.Recording:
    random = np.random.default_rng(seed)
    times = motion.time[::period]
    channels = [f"joint.hinge{i}.angle" for i in (1, 2)]
    return cb.Recording(
        name, [cb.Observation(c, times, motion[c][::period] + NOISE * random.normal(size=len(times)), sd=NOISE) for c in channels], drives or []
    )


@pytest.fixture(scope="module")
def release() -> cb.Recording:
    """[marklund2025], G.3: h = 1e-4 s, compliance 1e-5, from almost upright, at rest."""
    return recorded(cb.simulate(furuta(), 10.0, 1e-4, FURUTA_START, stepper=engine(1e-5)), 100)


@pytest.mark.parametrize("compliance", [1e-4, 1e-5])
def test_four_unknowns_in_eight_iterations(release: cb.Recording, compliance: float) -> None:
    found = cb.fit(furuta(), release, UNKNOWN, method="shadow", h=0.01, kappa=100.0, stepper=engine(compliance))
    assert found.converged and found.iterations <= 8
    for path, truth in (("body.arm.inertia.zz", 0.003), ("body.rod.inertia.zz", 0.004)):
        assert found.parameters[path].value == pytest.approx(truth, rel=0.35)  # shadow parameters: of this step and compliance, not of the mechanism
    assert all(c.rms_over_sd < 1.3 for c in found.fit)
    for channel in ("joint.hinge1.angle", "joint.hinge2.reaction.force"):
        assert np.isfinite(found.motion()[channel]).all()


def test_lifted_is_the_same_minimum(release: cb.Recording) -> None:
    short = release.cut(end=3.0)
    a, b = (cb.fit(furuta(), short, UNKNOWN, method="shadow", stepper=engine(1e-4), formulation=f) for f in ("eliminated", "lifted"))
    assert a.converged and b.converged and b.iterations <= 6
    for name, e in a.parameters.items():
        assert b.parameters[name].value == pytest.approx(e.value, rel=1e-3, abs=1e-6)
        if e.sd is not None:
            assert b.parameters[name].sd == pytest.approx(e.sd, rel=0.05)


def test_the_eliminated_form_breaks_down_at_stiff_joints_and_the_lifted_does_not(release: cb.Recording) -> None:
    short = release.cut(end=3.0)
    values = []
    for compliance in (1e-6, 1e-9, 1e-12):
        found = cb.fit(furuta(), short, UNKNOWN, method="shadow", stepper=engine(compliance), formulation="lifted")
        assert found.converged and found.iterations <= 8
        values.append([found.parameters[p].value for p in ("body.arm.inertia.zz", "body.rod.inertia.zz")])
    assert np.allclose(values, values[-1], rtol=5e-3)
    broken = cb.fit(furuta(), short, UNKNOWN, method="shadow", stepper=engine(1e-9), formulation="eliminated")
    assert not broken.converged and max(c.rms_over_sd for c in broken.fit) > 5.0
    assert all(np.isfinite(e.value) for e in broken.parameters.values())


def test_a_finer_step_comes_nearer_to_the_truth(release: cb.Recording) -> None:
    """The engine's own error goes into the numbers: first order."""
    dense = recorded(cb.simulate(furuta(), 4.0, 1e-4, FURUTA_START, stepper=engine(1e-5)), 20)
    errors = []
    for h in (0.016, 0.004):
        found = cb.fit(furuta(), dense, UNKNOWN, method="shadow", h=h, stepper=engine(1e-5), formulation="lifted")
        assert found.converged
        errors.append(abs(found.parameters["body.rod.inertia.zz"].value - 0.004))
    assert errors[1] < 0.5 * errors[0]


@pytest.mark.parametrize(("formulation", "seconds"), [("eliminated", 20.0), ("lifted", 8.0)])
def test_thirteen_unknowns_name_what_the_data_do_not_tell(formulation: str, seconds: float) -> None:
    model = furuta(load_friction=2e-4, friction_radius=1.0)
    times = np.arange(0.0, seconds + 0.005, 0.01)
    drive = cb.Signal(times, 0.6 * np.sign(np.sin(2.2 * times)))
    motion = cb.simulate(model, seconds, 1e-3, {"joint.hinge2.angle": 0.2}, {"actuator.motor": drive}, stepper=engine(1e-5))
    run = recorded(motion, 10, drives=[cb.Drive("actuator.motor", drive)], name="driven")
    found = cb.fit(model, run, FURUTA_UNKNOWN, method="shadow", stepper=engine(1e-4), formulation=formulation)
    assert found.converged and found.iterations <= 10
    for path in ("body.arm.inertia.xx", "body.arm.inertia.yy", "world.gravity.tilt.z"):
        assert found.parameters[path].sd is None
    assert any("world.gravity.tilt.z is not determined" in s for s in found.unresolved)
    assert found.parameters["actuator.motor.gain"].value == pytest.approx(0.1, rel=0.05)
    assert found.parameters["world.gravity.tilt.x"].value == pytest.approx(0.0, abs=0.02)


def test_all_ten_numbers_of_a_body() -> None:
    """What of them shows is reported in numbers that a body has, not in those that are solved for."""
    times = np.arange(0.0, 8.005, 0.01)
    drive = cb.Signal(times, 1.2 * np.sin(5.5 * times))
    run = recorded(cb.simulate(furuta(), 8.0, 1e-3, None, {"actuator.motor": drive}, stepper=engine(1e-5)), 10, drives=[cb.Drive("actuator.motor", drive)])
    found = cb.fit(furuta(), run, {"body.rod.inertia": cb.Unknown()}, method="shadow", stepper=engine(1e-4), formulation="lifted")
    truth = {"body.rod.moment.x": 0.428 * 0.092, "body.rod.origin.zz": 4e-3 + 0.428 * 0.092**2}
    seen = {d.expression: d.value for d in found.determined}
    assert found.converged and truth.keys() <= seen.keys()
    for name, value in truth.items():
        assert seen[name] == pytest.approx(value, rel=0.1)


def test_error_bars_have_degrees_of_freedom(release: cb.Recording) -> None:
    """Ours are larger than those that divide by the number of residuals."""
    found = cb.fit(furuta(), release.cut(end=4.0), UNKNOWN, method="shadow", stepper=engine(1e-4))
    for e in found.parameters.values():
        if e.sd is not None:
            assert e.sd_naive is not None and e.sd > 1.05 * e.sd_naive


def test_rates_markers_priors_and_several_runs(release: cb.Recording) -> None:
    """What the paper did not have: other channels, shared unknowns, a prior, an offset per run."""
    motion = cb.simulate(furuta(), 3.0, 1e-3, FURUTA_START, stepper=engine(1e-5))
    random = np.random.default_rng(5)
    times = motion.time[::10]

    def noisy(channel: str, sd: float) -> cb.Observation:
        return cb.Observation(channel, times, motion[channel][::10] + sd * random.normal(size=len(times)), sd=sd)

    runs = []
    for name in ("one", "two"):
        observations = [noisy("joint.hinge1.angle", 1e-3), noisy("joint.hinge2.angle", 1e-3), noisy("joint.hinge2.rate", 1e-2)]
        observations.append(noisy("body.rod.position.x", 1e-3))
        runs.append(cb.Recording(name, observations, []))
    unknown = {
        "body.rod.inertia.zz": cb.Unknown(0.01, prior=(0.004, 0.001)),
        "body.arm.inertia.zz": 0.01,
        "joint.hinge2.angle.bias": cb.Unknown(per_run=True),
    }
    found = cb.fit(furuta(), runs, unknown, method="shadow", stepper=engine(1e-4), h=0.01)
    assert found.converged and found.parameters["body.rod.inertia.zz"].value == pytest.approx(0.004, rel=0.1)
    assert all(abs(found.parameters[f"joint.hinge2.angle.bias[{n}]"].value) < 5e-3 for n in ("one", "two"))
    assert all(c.rms_over_sd < 1.6 for c in found.fit), [(c.channel, c.rms_over_sd) for c in found.fit]


def test_prediction_and_cross_validation_use_the_engine(release: cb.Recording) -> None:
    motion = cb.simulate(furuta(), 4.0, 1e-3, {"joint.hinge2.angle": 1.0}, stepper=engine(1e-5))
    runs = [recorded(motion, 10, seed, name=f"run {seed}") for seed in (1, 2)]
    found = cb.fit(furuta(), runs[0], UNKNOWN, method="shadow", stepper=engine(1e-4), formulation="lifted")
    assert found.predict(runs[1])["joint.hinge2.angle"].rms < 0.1
    judged = cb.cross_validate(furuta(), runs, UNKNOWN, method="shadow", stepper=engine(1e-4))
    assert 0.7 < judged.score < 1.5


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"method": "shadows"}, ['"shadows"', 'give "transcription"', '"shadow" or']),
        ({"method": "shadow", "kappa": 0.0}, ["kappa", "above zero"]),
        ({"method": "shadow", "formulation": "lift"}, ['"eliminated" or "lifted"']),
        ({"method": "shadow", "h": 9.0}, ["quarter of the shortest recording"]),
        ({"method": "shadow", "process_noise": "auto"}, ["no process_noise"]),
        ({"method": "shadow", "coordinates": "tree"}, ["no coordinates"]),
        ({"kappa": 10.0}, ['belongs to method = "shadow"']),
    ],
)
def test_bad_settings(release: cb.Recording, settings: dict, words: list[str]) -> None:
    with pytest.raises(cb.CalibodyError) as caught:
        cb.fit(furuta(), release, UNKNOWN, **settings)
    assert all(w in str(caught.value) for w in words) and "\n" not in str(caught.value)
