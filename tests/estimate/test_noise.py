"""Process noise, compliant joints, noisy drives, outliers, correlated noise: what is assumed about noise, and what comes of it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import calibody as cb
from calibody.estimate.layout import PROCESS
from calibody.estimate.noise import marginal
from calibody.estimate.uncertainty import autocorrelation, flat_top, whiteness


def pendulum(compliance: float = 0.0) -> cb.Model:
    """The pendulum of DESIGN section 1."""
    return cb.Model(
        "pendulum",
        bodies=[cb.Body("arm", mass=0.4, com=(0, 0, -0.1), inertia=(0.004, 0.004, 0.004))],
        joints=[cb.Joint("hinge", "arm", axis=(0, 1, 0), damping=4e-4, compliance=compliance)],
        actuators=[cb.Actuator("motor", "hinge")],
        world=cb.World(gravity=(0, 0, -9.82)),
    )


UNKNOWN = {"body.arm.inertia.yy": cb.Unknown(0.01), "joint.hinge.damping": cb.Unknown(1e-4)}


@pytest.fixture(scope="module")
def swing() -> cb.Recording:
    motion = cb.simulate(pendulum(), 6.0, 1e-4, {"joint.hinge.angle": 3.0})
    times, angle = motion.time[::100], motion["joint.hinge.angle"][::100]
    return cb.Recording("swing", (cb.Observation("joint.hinge.angle", times, angle + 1e-3 * np.random.default_rng(0).normal(size=len(times)), 1e-3),))


@pytest.mark.parametrize("compliance", [1e-3, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12, 0.0])
def test_stiff_and_rigid(swing: cb.Recording, rigid: cb.Result, compliance: float) -> None:
    """At most ten iterations at every compliance; a stiff joint gives what the rigid one gives."""
    result = cb.fit(pendulum(compliance), swing, UNKNOWN, coordinates="free", h=0.01)
    assert result.converged and result.iterations <= 10
    if compliance <= 1e-8:
        for name, e in rigid.parameters.items():
            assert e.sd is not None and abs(result.parameters[name].value - e.value) < 0.1 * e.sd


@pytest.fixture(scope="module")
def rigid(swing: cb.Recording) -> cb.Result:
    """In joint coordinates, where no joint can give way."""
    return cb.fit(pendulum(), swing, UNKNOWN, coordinates="tree", h=0.01)


@pytest.fixture(scope="module")
def exact(rigid: cb.Result) -> float:
    return rigid.parameters["body.arm.inertia.yy"].value


@pytest.mark.parametrize("coordinates", ["tree", "free"])
@pytest.mark.parametrize("sd", [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6])
def test_process_noise_does_not_bias(swing: cb.Recording, exact: float, sd: float, coordinates: str) -> None:
    result = cb.fit(pendulum(), swing, UNKNOWN, process_noise=sd, coordinates=coordinates, h=0.01)
    assert result.converged
    value = result.parameters["body.arm.inertia.yy"]
    if sd <= 1e-2:
        assert value.value == pytest.approx(exact, rel=0.005)
    else:
        assert value.sd is not None and abs(value.value - exact) < 3.5 * value.sd


def test_joint_minimisation_would_be_biased() -> None:
    """Without the volume of the likelihood the optimum would lie more than a standard deviation away; with it the truth is covered."""
    rng = np.random.default_rng(4)
    times = np.arange(0.0, 20.0, 0.01)
    motion = cb.simulate(pendulum(), 19.9, 0.005, {"joint.hinge.angle": 2.0}, {"joint.hinge.force": cb.Signal(times, 0.1 * rng.normal(size=len(times)))})
    y = motion["joint.hinge.angle"][::2] + 1e-3 * rng.normal(size=len(motion.time[::2]))
    run = cb.Recording("r", (cb.Observation("joint.hinge.angle", motion.time[::2], y, 1e-3),))
    result = cb.fit(pendulum(), run, UNKNOWN, process_noise=0.1, h=0.01)
    value = result.parameters["body.arm.inertia.yy"]
    assert value.sd is not None and abs(np.asarray(result.problem.slope)[0]) * value.sd > 1.0
    assert abs(value.value - 0.004) < 3.5 * value.sd


def test_auto_is_one_estimator_in_both_coordinates(swing: cb.Recording) -> None:
    found = [cb.fit(pendulum(), swing, UNKNOWN, process_noise="auto", coordinates=c, h=0.01) for c in ("tree", "free")]
    assert all(r.converged for r in found)
    np.testing.assert_allclose(found[0].theta, found[1].theta, rtol=1e-5)
    assert found[0].process_noise["hinge"] == pytest.approx(found[1].process_noise["hinge"], rel=1e-3)


def test_the_volume_is_that_of_the_states_hessian(swing: cb.Recording) -> None:
    """`1/2 log det H` from the factored KKT matrix against the dense Hessian over (q_0, q_1, z), tree and free up to the same constant."""
    short = swing.cut(end=0.3)
    volumes = {}
    for coordinates in ("tree", "free"):
        result = cb.fit(pendulum(), short, {"body.arm.inertia.yy": cb.Unknown(0.004)}, process_noise=0.01, coordinates=coordinates, h=0.01)
        volumes[coordinates] = [marginal.volume(result.problem, result.states, result.theta * f) for f in (1.0, 1.2)]
        if coordinates == "tree":
            lin, run = result.problem.linearise(result.states, result.theta), result.problem.runs[0]
            C = lin.Cx.toarray()
            size, process = run.layout.size, run.layout.place[PROCESS]
            free = [0, 1, *range(process.start, process.stop)]
            bound = [k for k in range(size) if k not in free]
            basis = np.zeros((size, len(free)))
            basis[free] = np.eye(len(free))
            basis[bound] = -np.linalg.solve(C[:, bound], C[:, free])
            F = lin.Fx @ basis
            assert volumes["tree"][0] == pytest.approx(0.5 * np.linalg.slogdet(F.T @ F)[1], rel=1e-9)
    assert np.diff(volumes["tree"])[0] == pytest.approx(np.diff(volumes["free"])[0], rel=1e-6)


def test_auto_finds_the_noise_that_was_there() -> None:
    rng = np.random.default_rng(3)
    times = np.arange(0.0, 10.0, 0.01)
    force = 0.02 * rng.normal(size=len(times) + 1)
    motion = cb.simulate(pendulum(), 9.9, 0.005, {"joint.hinge.angle": 2.0}, {"joint.hinge.force": cb.Signal(np.append(times, 10.0), force)})
    y = motion["joint.hinge.angle"][::2] + 2e-3 * rng.normal(size=len(motion.time[::2]))
    run = cb.Recording("r", (cb.Observation("joint.hinge.angle", motion.time[::2], y),))  # the measurement noise is not given either
    result = cb.fit(pendulum(), run, UNKNOWN, process_noise="auto", h=0.01)
    assert result.converged
    assert result.process_noise["hinge"] == pytest.approx(0.02, rel=0.25)
    assert result.fit[0].sd == pytest.approx(2e-3, rel=0.1)
    for path, truth in (("body.arm.inertia.yy", 0.004), ("joint.hinge.damping", 4e-4)):
        e = result.parameters[path]
        assert e.sd is None or abs(e.value - truth) < 3.5 * e.sd


def test_a_noisy_drive() -> None:
    """A drive with noise of its own: without `sd` the fit is off and says so, with `sd` the truth is covered."""
    rng = np.random.default_rng(5)
    times = np.arange(0.0, 4.0, 0.01)
    clean = 0.3 * np.sin(5 * times) + 0.2 * np.sin(13 * times)
    motion = cb.simulate(pendulum(), 3.9, 0.001, {"joint.hinge.angle": 0.5}, {"actuator.motor": cb.Signal(times, clean)})
    y = motion["joint.hinge.angle"][::10] + 5e-4 * rng.normal(size=len(motion.time[::10]))
    observed = (cb.Observation("joint.hinge.angle", motion.time[::10], y, 5e-4),)
    recorded = cb.Signal(times, clean + 0.05 * rng.normal(size=len(times)))
    truth = {"body.arm.inertia.yy": 0.004, "joint.hinge.damping": 4e-4, "body.arm.mass": 0.4}
    unknowns = {p: cb.Unknown(2.0 * v) for p, v in truth.items()}
    naive = cb.fit(pendulum(), cb.Recording("r", observed, (cb.Drive("actuator.motor", recorded),)), unknowns, h=0.005)
    assert np.sqrt(naive.chi2 / naive.dof) > 2.0
    result = cb.fit(pendulum(), cb.Recording("r", observed, (cb.Drive("actuator.motor", recorded, sd=0.05),)), unknowns, h=0.005)
    assert result.converged and 0.8 < np.sqrt(result.chi2 / result.dof) < 1.2
    for path, value in truth.items():
        e = result.parameters[path]
        assert e.sd is not None and abs(e.value - value) < 3.5 * e.sd


def test_outliers_are_listed_and_a_robust_fit_lets_go_of_them(swing: cb.Recording) -> None:
    o = swing.observations[0]
    values = o.values.copy()
    bad = np.random.default_rng(1).choice(len(values), 20, replace=False)
    values[bad] += np.where(np.arange(20) % 3, 0.5, -0.3)
    spoilt = cb.Recording("spoilt", (cb.Observation(o.channel, o.times, values, 1e-3),))
    plain, robust = cb.fit(pendulum(), spoilt, UNKNOWN), cb.fit(pendulum(), spoilt, UNKNOWN, robust=True)
    assert robust.converged
    assert {round(x.time, 3) for x in robust.outliers} == {round(float(o.times[k]), 3) for k in bad}
    errors = [abs(r.parameters["joint.hinge.damping"].value - 4e-4) for r in (plain, robust)]
    assert errors[1] < 2e-6 and errors[0] > 5 * errors[1]


def test_lag_windows() -> None:
    rng = np.random.default_rng(0)
    white = rng.normal(size=4000)
    assert whiteness(white) > 0.01
    coloured = np.zeros(4000)
    for k in range(1, 4000):
        coloured[k] = 0.9 * coloured[k - 1] + white[k]
    assert whiteness(coloured) < 1e-6
    r = flat_top(autocorrelation(coloured))
    assert r[0] + 2 * r[1:].sum() == pytest.approx(1.0 / (1 - 0.9) ** 2, rel=0.35)  # its spectrum at zero


def test_signal_weights_are_its_means() -> None:
    rng = np.random.default_rng(2)
    times = np.sort(rng.uniform(0.0, 1.0, 40))
    for hold in ("zero", "linear"):
        signal = cb.Signal(times, rng.normal(size=40), hold)
        for edges in (np.linspace(0.1, 0.9, 7), np.linspace(0.0, 1.2, 90)):
            W = signal.weights(edges, 0.03)
            assert sp.issparse(W)
            np.testing.assert_allclose(W @ signal.values, signal.means(edges, 0.03), atol=1e-12)


def test_the_error_bar_of_a_drives_force() -> None:
    """Of a drive with an sd: errors scatter as the error bars say, which lie below the sd of a single sample (two intervals are averaged, and the motion tells more)."""
    model, missed = pendulum(), []
    for seed in range(5):
        random, times = np.random.default_rng(seed), np.arange(0.0, 2.0, 0.02)
        drive = cb.Signal(times, 0.3 * np.sin(5.0 * times) + 0.1 * np.sin(9.0 * times))
        motion = cb.simulate(model, 1.9, 0.002, {"joint.hinge.angle": 0.5}, {"actuator.motor": drive})
        seen = cb.Observation(
            "joint.hinge.angle", motion.time[::10], motion["joint.hinge.angle"][::10] + 1e-3 * random.normal(size=len(motion.time[::10])), 1e-3
        )
        recorded = cb.Drive("actuator.motor", cb.Signal(times, drive.values + 0.05 * random.normal(size=len(times))), sd=0.05)
        result = cb.fit(model, cb.Recording("run", (seen,), (recorded,)), {"body.arm.inertia.yy": 0.005}, h=0.02)
        nodes = np.arange(3, 90, 4)
        means = drive.means(result.problem.runs[0].times, 0.0)
        found, sd = result.motion(), result.sd("joint.hinge.force", result.motion().time[nodes])
        assert np.all(sd > 0.005) and np.all(sd < 0.05 / np.sqrt(2.0))
        missed.append((found["joint.hinge.force"][nodes] - 0.5 * (means[nodes - 1] + means[nodes])) / sd)
    assert 0.85 < np.sqrt(np.mean(np.square(missed))) < 1.15
