"""Simulated truth: what a fit recovers, what it says it cannot, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import calibody as cb

TRUTH = {"body.arm.mass": 0.4, "body.arm.inertia.yy": 0.004, "joint.hinge.damping": 4e-4}


def pendulum() -> cb.Model:
    return cb.Model(
        "pendulum",
        bodies=[cb.Body("arm", mass=0.4, com=(0, 0, -0.1), inertia=(0.004, 0.004, 0.004))],
        joints=[cb.Joint("hinge", "arm", axis=(0, 1, 0), damping=4e-4)],
        sites=[cb.Site("tip", "arm", (0, 0, -0.3))],
        actuators=[cb.Actuator("motor", "hinge")],
        world=cb.World(gravity=(0, 0, -9.82)),
    )


def drive(t: float) -> float:
    return 0.2 * np.sin(5.0 * t) + 0.1 * np.sin(11.0 * t)


@pytest.fixture(scope="module")
def swing() -> cb.Motion:
    return cb.simulate(pendulum(), 6.0, 1e-3, {"joint.hinge.angle": 3.0})


@pytest.fixture(scope="module")
def driven() -> cb.Motion:
    return cb.simulate(pendulum(), 4.0, 1e-3, {"joint.hinge.angle": 0.5}, {"actuator.motor": drive})


def observed(motion: cb.Motion, channel: str, sd: float, every: int = 10, seed: int = 0) -> cb.Observation:
    values = motion[channel][::every]
    return cb.Observation(channel, motion.time[::every], values + sd * np.random.default_rng(seed).normal(size=len(values)), sd)


def recording(motion: cb.Motion, observations: list[cb.Observation], driven: bool = True) -> cb.Recording:
    times = np.arange(0.0, motion.time[-1] + 0.01, 0.001)
    drives = (cb.Drive("actuator.motor", cb.Signal(times, np.array([drive(t + 5e-4) for t in times]))),) if driven else ()
    return cb.Recording("run", tuple(observations), drives)


def within(result: cb.Result, path: str, truth: float, sds: float = 3.5) -> None:
    e = result.parameters[path]
    assert e.sd is not None and abs(e.value - truth) <= sds * e.sd + (e.discretisation_error or 0.0), path


def test_a_free_swing_determines_ratios_only(swing: cb.Motion) -> None:
    run = recording(swing, [observed(swing, "joint.hinge.angle", 1e-3)], driven=False)
    result = cb.fit(pendulum(), run, {"body.arm.mass": cb.Unknown(0.5), "body.arm.inertia.yy": cb.Unknown(0.006), "joint.hinge.damping": cb.Unknown(1e-3)})
    assert result.converged
    assert all(e.sd is None and not e.resolved for e in result.parameters.values())
    assert any("Only the ratios" in s and all(p in s for p in TRUTH) for s in result.unresolved)
    found = {d.expression: d for d in result.determined}
    for path in ("body.arm.inertia.yy", "joint.hinge.damping"):
        d = found[f"{path} / body.arm.mass"]
        assert abs(d.value - TRUTH[path] / 0.4) <= 3.5 * d.sd + 0.003 * d.value  # the mesh's own error is not in the ratio's error bar


def shot(observation: cb.Observation) -> tuple[np.ndarray, np.ndarray]:
    """Inertia and damping of the free swing and their standard deviations by single shooting, with nothing of calibody.

    For one hinge the discrete equations of motion reduce to `I (sin(q+ - q) - sin(q - q-)) = -h^2 m g l sin q - (b h/2)(q+ - q-)`, I about the hinge. Unknown, in
    units that make them alike, are I, b, the first angle and the first rate.
    """
    h, weight, offset = 0.01, 0.4 * 9.82 * 0.1, 0.4 * 0.1**2
    units = np.array([1e-3, 1e-4, 1.0, 0.1])
    values, sd = observation.values, float(observation.sd)  # type: ignore[arg-type]

    def residuals(unknown: np.ndarray) -> np.ndarray:
        inertia, damping, angle, rate = units * unknown
        inertia += offset
        q = [angle, angle + h * rate]
        while len(q) < len(values):
            before, now = q[-2:]
            known = np.sin(now - before) - h * h * weight / inertia * np.sin(now) + 0.5 * damping * h / inertia * before
            after = 2.0 * now - before
            for _ in range(4):  # Newton; quadratic
                after -= (np.sin(after - now) + 0.5 * damping * h / inertia * after - known) / (np.cos(after - now) + 0.5 * damping * h / inertia)
            q.append(after)
        return (np.array(q) - values) / sd

    unknown, slope = np.array([0.004, 4e-4, 3.0, 0.0]) / units, np.eye(4)
    for _ in range(8):  # Gauss-Newton from the truth
        slope = np.stack([(residuals(unknown + 1e-5 * e) - residuals(unknown - 1e-5 * e)) / 2e-5 for e in np.eye(4)], axis=1)
        unknown = unknown - np.linalg.solve(slope.T @ slope, slope.T @ residuals(unknown))
    left = residuals(unknown)
    factor = max(1.0, float(left @ left) / (len(values) - 4))
    return (units * unknown)[:2], (units * np.sqrt(factor * np.diag(np.linalg.inv(slope.T @ slope))))[:2]


@pytest.mark.parametrize("coordinates", ["tree", "free"])
def test_both_coordinates_are_the_maximum_of_the_likelihood(swing: cb.Motion, coordinates: str) -> None:
    """`free`, with the reaction forces among the unknowns, and `tree` have the optimum and the error bars of single shooting through the same equations."""
    run = recording(swing, [observed(swing, "joint.hinge.angle", 1e-3)], driven=False)
    result = cb.fit(pendulum(), run, {"body.arm.inertia.yy": cb.Unknown(0.01), "joint.hinge.damping": cb.Unknown(1e-4)}, coordinates=coordinates, h=0.01)
    assert result.converged and result.iterations <= 10
    values, sds = shot(run.observations[0])
    for e, value, sd in zip(result.parameters.values(), values, sds, strict=True):
        assert abs(e.value - value) < 0.01 * sd and e.sd_naive == pytest.approx(sd, rel=1e-4)


@pytest.mark.parametrize("guess", [0.3, 3.0])
def test_driven_pendulum_from_angles(driven: cb.Motion, guess: float) -> None:
    run = recording(driven, [observed(driven, "joint.hinge.angle", 1e-3)])
    result = cb.fit(pendulum(), run, {p: cb.Unknown(guess * v) for p, v in TRUTH.items()})
    assert result.converged and not result.unresolved
    for path, value in TRUTH.items():
        within(result, path, value)
    assert 0.85 < np.sqrt(result.chi2 / result.dof) < 1.15


def test_markers_rates_bias_and_delay(driven: cb.Motion) -> None:
    """A marker in two directions, a biased gyroscope at another rate, and a late angle: all explained at once."""
    marker = [observed(driven, f"site.tip.position.{c}", 5e-4, 10, k) for k, c in enumerate("xz")]
    gyro = observed(driven, "joint.hinge.rate", 0.01, 7, 3)
    gyro = cb.Observation(gyro.channel, gyro.times, gyro.values + 0.3, 0.01)
    angle = observed(driven, "joint.hinge.angle", 1e-3, 10, 4)
    late = cb.Observation(angle.channel, angle.times + 0.012, angle.values, 1e-3)
    late = cb.Observation(late.channel, late.times[:-2], late.values[:-2], 1e-3)
    run = recording(driven, [*marker, gyro, late])
    unknowns: dict[str, cb.Unknown | float | None] = {p: cb.Unknown(2.0 * v) for p, v in TRUTH.items()}
    unknowns |= {"joint.hinge.rate.bias": cb.Unknown(0.0), "joint.hinge.angle.delay": cb.Unknown(0.0), "site.tip.position.z": cb.Unknown(-0.25)}
    result = cb.fit(pendulum(), run, unknowns)
    assert result.converged, result.status
    for path, value in {**TRUTH, "joint.hinge.rate.bias": 0.3, "joint.hinge.angle.delay": 0.012, "site.tip.position.z": -0.3}.items():
        within(result, path, value, 4.0)


def test_one_unknown_in_several_places(driven: cb.Motion) -> None:
    run = recording(driven, [observed(driven, "joint.hinge.angle", 1e-3)])
    unknown = cb.Unknown(0.05, places={"body.arm.com.z": "-length", "site.tip.position.z": "-3 * length"})
    result = cb.fit(pendulum(), run, {"length": unknown})
    assert result.converged
    within(result, "length", 0.1)
    assert result.model["site.tip.position.z"] == pytest.approx(-3 * result.parameters["length"].value)


def test_a_bound_that_holds(driven: cb.Motion) -> None:
    run = recording(driven, [observed(driven, "joint.hinge.angle", 1e-3)])
    result = cb.fit(pendulum(), run, {"body.arm.inertia.yy": cb.Unknown(0.006, lower=0.005), "joint.hinge.damping": cb.Unknown(1e-3)})
    e = result.parameters["body.arm.inertia.yy"]
    assert e.value == 0.005 and e.at_bound and e.sd is None
    assert e.limit is not None and 0.005 < e.limit < 0.0055 and f"<= {e.limit:.3g} (95 %)" in str(result)
    assert any("bound" in n for n in result.notes)


def test_a_parameter_that_does_not_matter(driven: cb.Motion) -> None:
    run = recording(driven, [observed(driven, "joint.hinge.angle", 1e-3)])
    result = cb.fit(pendulum(), run, {"body.arm.inertia.yy": cb.Unknown(0.006), "body.arm.inertia.xx": cb.Unknown(0.006)})
    assert result.parameters["body.arm.inertia.xx"].sd is None
    assert any("body.arm.inertia.xx is not determined" in s for s in result.unresolved)
    within(result, "body.arm.inertia.yy", 0.004)


@pytest.mark.parametrize(
    ("estimate", "word"),
    [
        ({"body.arm.mas": None}, "mass"),
        ({"body.arm.com": None}, "one by one"),
        ({"body.arm.mass": cb.Unknown(1.0, lower=2.0)}, "bounds"),
        ({"body.arm.mass": "heavy"}, "number"),
        ({"x": cb.Unknown(1.0, places={"body.arm.mass": "2 * y"})}, "y"),
        ({"body.arm.mass": cb.Unknown(1.0, prior=(1.0, 0.0))}, "prior"),
    ],
)
def test_bad_unknowns_are_refused_in_a_sentence(driven: cb.Motion, estimate: dict, word: str) -> None:
    run = recording(driven, [observed(driven, "joint.hinge.angle", 1e-3)])
    with pytest.raises(cb.CalibodyError, match=word):
        cb.fit(pendulum(), run, estimate)
