"""What a result offers beyond numbers: motion, forces and their error bars, prediction, cross-validation, all ten inertial numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import calibody as cb
from calibody.estimate import problem
from calibody.estimate.inertial import Inertia
from calibody.estimate.reported import theta_of, values_of
from calibody.estimate.unknowns import entries


def pendulum() -> cb.Model:
    return cb.Model(
        "pendulum",
        bodies=[cb.Body("arm", mass=0.4, com=(0, 0, -0.1), inertia=(0.004, 0.004, 0.004))],
        joints=[cb.Joint("hinge", "arm", axis=(0, 1, 0), damping=4e-4)],
        actuators=[cb.Actuator("motor", "hinge")],
        world=cb.World(gravity=(0, 0, -9.82)),
    )


TRUTH = {"body.arm.mass": 0.4, "body.arm.inertia.yy": 0.004, "joint.hinge.damping": 4e-4}


def run_of(seed: int, phase: float = 0.0, model: cb.Model | None = None, seconds: float = 4.0, sd: float = 1e-3, step: float = 0.001) -> cb.Recording:
    times = np.arange(0.0, seconds + 0.02, 0.01)
    signal = cb.Signal(times, 0.2 * np.sin(5 * times + phase) + 0.1 * np.sin(11 * times))
    motion = cb.simulate(model or pendulum(), seconds, step, {"joint.hinge.angle": 0.5}, {"actuator.motor": signal})
    every = round(0.01 / step)
    sampled, y = motion.time[::every], motion["joint.hinge.angle"][::every]
    y = y + sd * np.random.default_rng(seed).normal(size=len(sampled))
    return cb.Recording(f"run{seed}", (cb.Observation("joint.hinge.angle", sampled, y, 1e-3),), (cb.Drive("actuator.motor", signal),))


UNKNOWN = {p: cb.Unknown(2.0 * v) for p, v in TRUTH.items()}


@pytest.fixture(scope="module")
def result() -> cb.Result:
    return cb.fit(pendulum(), [run_of(1), run_of(2, 1.0)], UNKNOWN)


def test_runs_agree(result: cb.Result) -> None:
    assert result.converged and result.runs_agree is not None and result.runs_agree.agree


def test_runs_that_disagree_widen_the_error_bars() -> None:
    heavier = pendulum().replace({"body.arm.mass": 0.42})
    runs = [run_of(1), run_of(2, 1.0, heavier), run_of(3, 2.0)]
    found = cb.fit(pendulum(), runs, UNKNOWN, h=0.005)
    assert found.runs_agree is not None and not found.runs_agree.agree
    e = found.parameters["body.arm.mass"]
    assert e.sd is not None and e.sd_naive is not None and e.sd > 3 * e.sd_naive and e.sd > 0.005
    assert any("do not agree" in n for n in found.notes)


@pytest.mark.parametrize("noise", ["twice as large as stated", "with a memory of five samples"])
def test_noise_that_is_not_as_stated_is_no_disagreement(noise: str) -> None:
    """Three runs of one pendulum: chi2 between them is measured against the noise as the residuals show it. Against the stated one 5 of 10 and 8 of 10 disagreed."""
    disagree, clean = 0, [run_of(k, float(k), sd=0.0, step=0.005) for k in range(3)]  # made on the mesh of the fit
    for seed in range(6):
        runs = []
        for k, run in enumerate(clean):
            e = np.random.default_rng([seed, k]).normal(size=len(run.observations[0].values))
            if noise.startswith("with"):
                for i in range(1, len(e)):
                    e[i] = np.exp(-0.2) * e[i - 1] + np.sqrt(1.0 - np.exp(-0.4)) * e[i]
            o = run.observations[0]
            size = 0.002 if noise.startswith("twice") else 0.001
            runs.append(replace(run, observations=(replace(o, values=o.values + size * e, sd=0.001),)))
        found = cb.fit(pendulum(), runs, UNKNOWN, h=0.005)
        assert found.runs_agree is not None
        disagree += not found.runs_agree.agree
    assert disagree <= 1


def test_the_motion_and_its_forces(result: cb.Result) -> None:
    """Every channel of the model along the estimated motion; the reaction force against the simulated one."""
    motion = result.motion("run1")
    times = np.arange(0.0, 4.02, 0.01)
    truth = cb.simulate(
        pendulum(), 4.0, result.mesh.h, {"joint.hinge.angle": 0.5}, {"actuator.motor": cb.Signal(times, 0.2 * np.sin(5 * times) + 0.1 * np.sin(11 * times))}
    )
    at = np.array([0.5, 1.0, 2.0, 3.5])
    k = np.round(at / result.mesh.h).astype(int)
    for channel in ("joint.hinge.angle", "joint.hinge.rate", "joint.hinge.reaction.force.z"):
        sd = result.sd(channel, at, "run1")
        assert (sd > 0).all()
        error = motion[channel][k] - truth[channel][k]
        assert np.abs(error / sd).max() < 5.0 and sd.max() < 0.2 * np.ptp(truth[channel])


def test_large_fits_keep_no_factors_and_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(0, 0.3, seconds=2.0)
    small = cb.fit(pendulum(), run, UNKNOWN, h=0.01)
    monkeypatch.setattr(problem, "KEPT", 0)
    large = cb.fit(pendulum(), run, UNKNOWN, h=0.01)
    assert small.uncertainty.step is not None and large.uncertainty.step is None and large.parameters == small.parameters
    np.testing.assert_allclose(large.sd("joint.hinge.angle", [0.5, 1.0]), small.sd("joint.hinge.angle", [0.5, 1.0]), rtol=1e-12)


def test_what_follows_an_undetermined_number_has_no_error_bar() -> None:
    """Without a known torque all masses may be larger together: the angle is known, the force in the hinge is not."""
    times = np.arange(0.0, 3.005, 0.01)
    swinging = cb.simulate(pendulum(), 3.0, 0.001, {"joint.hinge.angle": 1.5})
    y = swinging["joint.hinge.angle"][::10] + 1e-3 * np.random.default_rng(0).normal(size=len(times))
    run = cb.Recording("r", (cb.Observation("joint.hinge.angle", times, y, 1e-3),))
    found = cb.fit(pendulum(), run, {p: cb.Unknown(1.3 * v) for p, v in TRUTH.items()}, h=0.01)
    assert found.converged and found.unresolved
    at = np.array([0.5, 1.5])
    assert np.isfinite(found.sd("joint.hinge.angle", at)).all() and np.isfinite(found.sd("joint.hinge.rate", at)).all()
    assert np.isinf(found.sd("joint.hinge.reaction.force.z", at)).all()


def test_state_errors_against_the_dense_inverse() -> None:
    """On a short run: variance of an angle from the dense KKT matrix with the parameters."""
    run = run_of(7, seconds=1.0)
    found = cb.fit(pendulum(), run, {"body.arm.inertia.yy": cb.Unknown(0.005)}, h=0.01)
    lin = found.problem.linearise(found.states, found.theta).whole
    n, m, p = lin.Fx.shape[1], lin.Cx.shape[0], 1
    F, C = np.hstack([lin.Fx.toarray(), lin.Ft]), np.hstack([lin.Cx.toarray(), lin.Ct])
    K = np.block([[F.T @ F, C.T], [C, np.zeros((m, m))]])
    inverse = np.linalg.inv(K) * found.uncertainty.factor
    assert found.sd("joint.hinge.angle", np.array([0.5]))[0] == pytest.approx(np.sqrt(inverse[50, 50]), rel=1e-5)
    assert found.parameters["body.arm.inertia.yy"].sd_naive == pytest.approx(np.sqrt(inverse[n, n]), rel=1e-6)
    assert p == len(found.theta)


def test_prediction(result: cb.Result) -> None:
    unseen = run_of(5, 2.0)
    prediction = result.predict(unseen, 1.0)
    assert prediction.incomplete is None
    assert prediction["joint.hinge.angle"].rms < 0.02  # the start is known to a few mrad only
    wrong = cb.fit(pendulum(), run_of(1), {"joint.hinge.damping": cb.Unknown(4e-4, lower=3.9e-4, upper=4.1e-4), "body.arm.mass": cb.Unknown(0.5, lower=0.49)})
    assert wrong.predict(unseen, 1.0)["joint.hinge.angle"].rms > 3 * prediction["joint.hinge.angle"].rms
    with pytest.raises(cb.CalibodyError, match="window"):
        result.predict(unseen, 100.0)


def test_cross_validation() -> None:
    runs = [run_of(k, 0.7 * k, seconds=2.0) for k in range(3)]
    found = cb.cross_validate(pendulum(), runs, UNKNOWN, h=0.005)
    assert len(found.folds) == 3 and {f.judged for f in found.folds} == {("run0",), ("run1",), ("run2",)}
    assert 0.85 < found.score < 1.15
    assert "free prediction" in str(found)
    without = cb.cross_validate(pendulum().replace({"joint.hinge.damping": 0.02}), runs, {"body.arm.mass": cb.Unknown(0.5)}, h=0.005)
    assert without.score > 3 * found.score
    with pytest.raises(cb.CalibodyError, match="at least two runs"):
        cb.cross_validate(pendulum(), runs[:1], UNKNOWN)


def test_per_run_bias_in_prediction() -> None:
    runs = []
    for k, bias in enumerate((0.02, -0.03)):
        r = run_of(k, float(k))
        o = r.observations[0]
        runs.append(cb.Recording(r.name, (cb.Observation(o.channel, o.times, o.values + bias, 1e-3),), r.drives))
    found = cb.fit(pendulum(), runs, {**UNKNOWN, "joint.hinge.angle.bias": cb.Unknown(0.0, per_run=True, scale=0.1)}, h=0.005)
    values = [found.parameters[f"joint.hinge.angle.bias[run{k}]"] for k in range(2)]
    for e, truth in zip(values, (0.02, -0.03), strict=True):
        assert e.sd is not None and abs(e.value - truth) < 3.5 * e.sd
    assert found.predict(runs[1], 1.0)["joint.hinge.angle"].rms < 0.03


# -- all ten inertial numbers ------------------------------------------------------------------------------------------------------------


def arm() -> cb.Model:
    def link(name: str, parent: str, z: float) -> cb.Body:
        return cb.Body(name, parent=parent, position=(0, 0, z), mass=1.0, com=(0.02, 0.01, 0.15), inertia=(0.01, 0.011, 0.003, 0.0005, 0.0002, 0.0003))

    return cb.Model(
        "arm",
        bodies=[link("a", "world", 0.0), link("b", "a", 0.3)],
        joints=[cb.Joint("one", "a", axis=(0, 0, 1), damping=0.1), cb.Joint("two", "b", axis=(0, 1, 0), damping=0.1)],
    )


def test_the_chart_of_an_inertia() -> None:
    chart = Inertia.of(arm(), "b")
    np.testing.assert_allclose(chart.reported(np.zeros(10)), [1.0, 0.02, 0.01, 0.15, 0.01, 0.011, 0.003, 0.0005, 0.0002, 0.0003], rtol=1e-12, atol=1e-15)
    rng = np.random.default_rng(0)
    for _ in range(50):
        assert np.linalg.eigvalsh(chart.matrix(rng.normal(size=10)))[0] > 0.0
    with pytest.raises(cb.CalibodyError, match="rod"):
        Inertia.of(cb.Model("rod", bodies=[cb.Body("rod", mass=1.0, inertia=(0.1, 0.1, 0.0))], joints=[cb.Joint("j", "rod")]), "rod")


def test_the_chart_of_an_inertia_both_ways() -> None:
    chart = Inertia.of(arm(), "b")
    rng = np.random.default_rng(1)
    for _ in range(50):
        phi = rng.normal(size=10)
        np.testing.assert_allclose(chart.phi(chart.reported(phi)), phi, atol=1e-10)
    collapsed = np.array([0.0, 0.0, -30.0, 0.0, *np.zeros(6)])  # a plate, to rounding: no longer known how thin
    np.testing.assert_allclose(chart.reported(chart.phi(chart.reported(collapsed))), chart.reported(collapsed), rtol=1e-6, atol=1e-8)
    for wrong in ([-1.0, 0, 0, 0, 1, 1, 1, 0, 0, 0], [1.0, 0, 0, 0, 1, 1, 3, 0, 0, 0], [np.nan, 0, 0, 0, 1, 1, 1, 0, 0, 0]):
        with pytest.raises(cb.CalibodyError, match=r"body\.b cannot start from mass"):
            chart.phi(np.array(wrong, dtype=float))


def test_a_start_is_given_in_reported_numbers() -> None:
    unknowns = entries(arm(), {"joint.one.damping": cb.Unknown(0.2, upper=0.5), "body.b.inertia": None}, ["r"])
    np.testing.assert_array_equal(theta_of(unknowns, {}), [0.2, *np.zeros(10)])
    heavier = theta_of(unknowns, {"body.b.mass": 2.0, "joint.one.damping": 9.0})  # the rest as in the model, bounds kept
    np.testing.assert_allclose(values_of(unknowns, heavier), [0.5, 2.0, 0.02, 0.01, 0.15, 0.01, 0.011, 0.003, 0.0005, 0.0002, 0.0003], rtol=1e-12)
    with pytest.raises(cb.CalibodyError, match=r'"body\.b\.mas", which is not estimated; did you mean "body\.b\.mass"'):
        theta_of(unknowns, {"body.b.mas": 1.0})


def test_all_ten_numbers_of_two_links() -> None:
    """Base parameters: of twenty numbers a vertical-axis arm shows few; named sums, the truth within their error bars, always possible."""
    times = np.arange(0.0, 6.02, 0.01)
    drive = {
        "joint.one.force": cb.Signal(times, 0.5 * np.sin(4 * times) + 0.4 * np.sin(9 * times)),
        "joint.two.force": cb.Signal(times, 1.5 * np.cos(3 * times) + 0.8 * np.sin(7 * times)),
    }
    motion = cb.simulate(arm(), 6.0, 0.001, {"joint.two.angle": 2.6}, drive)
    rng = np.random.default_rng(0)
    observed = tuple(cb.Observation(c, motion.time[::5], motion[c][::5] + 1e-4 * rng.normal(size=len(motion.time[::5])), 1e-4) for c in ("joint.one.angle", "joint.two.angle"))  # fmt: skip
    run = cb.Recording("r", observed, tuple(cb.Drive(c, s) for c, s in drive.items()))
    guess = arm().replace({f"body.{b}.mass": 1.3 for b in "ab"})
    found = cb.fit(guess, run, {"body.a.inertia": None, "body.b.inertia": None, "joint.one.damping": 0.2, "joint.two.damping": 0.05}, h=0.00125)
    assert found.converged and len(found.parameters) == 22
    found.model.replace({})  # a possible mechanism
    truth = {}
    for body in "ab":
        chart = Inertia.of(arm(), body)
        truth |= dict(zip(chart.linear_names, chart.linear(np.zeros(10)), strict=True))
    assert found.determined
    for d in found.determined:
        value = eval(d.expression.replace("body.", "body_").replace("body_a.", "a_").replace("body_b.", "b_").replace(".x", "_x").replace(".y", "_y").replace(".z", "_z"), {}, {k.replace("body.", "").replace(".", "_"): v for k, v in truth.items()})  # fmt: skip
        assert abs(d.value - value) < 4.0 * d.sd + 1e-3 * abs(value), d.expression
    assert found.parameters["body.a.mass"].sd is None  # a turns about a fixed vertical axis


def test_what_is_refused_about_all_ten() -> None:
    run = run_of(1)
    with pytest.raises(cb.CalibodyError, match="ten numbers"):
        cb.fit(pendulum(), run, {"body.arm.inertia": cb.Unknown(0.1)})
    with pytest.raises(cb.CalibodyError, match="two unknowns"):
        cb.fit(pendulum(), run, {"body.arm.mass": cb.Unknown(), "body.arm.inertia": cb.Unknown()})
