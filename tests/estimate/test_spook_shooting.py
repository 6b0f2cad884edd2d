"""`method = "shooting"` on the regularised stepper: its sensitivities, and the truth on recordings that it has made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibody as cb
from calibody.estimate.estimator import OptionError
from calibody.estimate.regularised.spook_fit import begin, prepared
from calibody.estimate.reported import initial_theta
from calibody.estimate.windows.condensed_windows import CondensedWindows, Starts

H, NOISE = 0.005, 2e-3
ENGINE = cb.Spook(compliance=1e-6, angular_compliance=1e-6)


def pendulum(**law: Any) -> cb.Model:
    bodies = [
        cb.Body(f"link{i}", parent="world" if i == 0 else f"link{i - 1}", mass=1.0 + 0.3 * i, com=(0.0, 0.0, -0.2), inertia=(0.03, 0.03, 0.01), position=(0.0, 0.0, -0.4 * (i > 0)))
        for i in range(2)
    ]  # fmt: skip
    return cb.Model("pendulum", bodies, [cb.Joint(f"hinge{i}", f"link{i}", axis=(0.0, 1.0, 0.0), **({"damping": 0.05} | law)) for i in range(2)])


START = {f"joint.hinge{i}.{what}": value for i in range(2) for what, value in (("angle", 0.8), ("rate", 0.3))}


def swing(model: cb.Model, seconds: float = 3.0, seed: int = 0, start: dict[str, float] | None = None, **known: Any) -> cb.Recording:
    motion = cb.simulate(model, seconds, H, start or START, stepper=ENGINE)
    random = np.random.default_rng(seed)
    angles = [f"joint.hinge{i}.angle" for i in range(2)]
    seen = [cb.Observation(c, motion.time, motion[c] + NOISE * random.standard_normal(len(motion.time)), sd=NOISE) for c in angles]
    return cb.Recording("swing", seen, **known)


def begun(model: cb.Model, run: cb.Recording, unknowns: dict[str, Any], windows: int) -> tuple[CondensedWindows, list[Starts], np.ndarray]:
    problem, _ = prepared(model, [run], unknowns, cb.Shooting(stepper=ENGINE, windows=windows, h=H))
    theta = initial_theta(problem.entries)
    problem, x = begin(problem, theta)
    return problem, x, theta


def test_sensitivities_of_windows_are_those_of_differences() -> None:
    """By every number of the starts and every parameter: friction that slides, geometry, masses, a spring beyond a whole turn, and what is known of the start."""
    model = pendulum(friction=0.02, stiffness=0.4, armature=0.01)
    start = {"joint.hinge0.angle": 6.6, "joint.hinge0.rate": 3.0, "joint.hinge1.angle": 0.5, "joint.hinge1.rate": -4.0}
    unknowns = {
        "body.link1.mass": None,
        "joint.hinge0.damping": None,
        "joint.hinge1.friction": cb.Unknown(0.03),
        "joint.hinge1.position.z": None,
        "joint.hinge0.stiffness": None,
    }
    problem, x, theta = begun(model, swing(model, 0.2, start=start, initial=start), unknowns, windows=2)
    lin = problem.linearise(x, theta)
    Fx, Cx, Ft, Ct = (np.asarray(a.toarray()) for a in (lin.Fx, lin.Cx, lin.Ft, lin.Ct))
    F, C = problem.values(x, theta)
    assert np.allclose(F, lin.F, atol=1e-9) and np.allclose(C, lin.C, atol=1e-12)
    # how far windows miss each other turns the rows of their orientations: they are compared where they meet
    ahead = problem.arc(0, 0, x[0].s[0], theta, False)
    assert ahead is not None
    x = [Starts((x[0].s[0], ahead.end))]
    lin = problem.linearise(x, theta)
    Fx, Cx, Ft, Ct = (np.asarray(a.toarray()) for a in (lin.Fx, lin.Cx, lin.Ft, lin.Ct))
    for j in range(Fx.shape[1]):
        d = 1e-6 * (np.arange(Fx.shape[1]) == j)
        high, low = (problem.values(problem.move(x, sign * d), theta) for sign in (1.0, -1.0))
        for found, a, b in zip((Fx, Cx), high, low, strict=True):
            slope = (a - b) / 2e-6
            assert np.abs(found[:, j] - slope).max() < 1e-5 * max(1.0, np.abs(slope).max())
    for j, e in enumerate(problem.entries):
        d = 1e-5 * e.scale * (np.arange(len(theta)) == j)
        high, low = (problem.values(x, theta + sign * d) for sign in (1.0, -1.0))
        for found, a, b in zip((Ft, Ct), high, low, strict=True):
            slope = (a - b) / (2e-5 * e.scale)
            assert np.abs(found[:, j] - slope).max() < 1e-6 * max(1.0, np.abs(slope).max()), e.name


UNKNOWN = {"body.link1.mass": cb.Unknown(2.6), "joint.hinge0.damping": cb.Unknown(0.1), "body.link1.com.z": cb.Unknown(-0.4)}


def test_one_window_and_several_find_the_truth_from_twice_it() -> None:
    model = pendulum()
    run, found = swing(model), []
    for windows in (1, 5):
        result = cb.fit(model, run, UNKNOWN, method="shooting", stepper=ENGINE, windows=windows, h=H)
        assert result.converged and result.iterations <= 10 and 0.85 < result.chi2 / result.dof < 1.15
        for name, e in result.parameters.items():
            assert e.sd is not None and abs(e.value - model[name]) < 3.5 * e.sd, name
        found.append(result)
    for name, e in found[0].parameters.items():
        assert abs(found[1].parameters[name].value - e.value) < 1e-2 * (e.sd or 0.0) and found[1].parameters[name].sd == pytest.approx(e.sd, rel=1e-3)
    motion = found[1].motion()
    assert abs(motion["joint.hinge1.angle"] - run["joint.hinge1.angle"].values[: len(motion.time)]).max() < 6.0 * NOISE
    assert np.isfinite(motion["joint.hinge0.reaction.force"]).all()
    assert isinstance(found[1].problem.stepper(), cb.Spook)
    assert found[1].predict(swing(model, 2.0, seed=1))["joint.hinge1.angle"].rms < 15.0 * NOISE  # the start is found from the first samples alone


def test_dry_friction_unknown_noise_and_a_known_start() -> None:
    model = pendulum(friction=0.02)
    run = swing(model, initial=START)
    run = cb.Recording("swing", [cb.Observation(o.channel, o.times, o.values) for o in run.observations], initial=START)
    unknowns = {"body.link1.mass": cb.Unknown(2.0), "joint.hinge0.friction": cb.Unknown(0.04), "joint.hinge1.damping": cb.Unknown(0.1)}
    result = cb.fit(model, run, unknowns, method="shooting", stepper=ENGINE, windows=3, h=H)
    assert result.converged and not result.noise_given and result.fit[0].sd == pytest.approx(NOISE, rel=0.1)
    for name, e in result.parameters.items():
        assert e.sd is not None and abs(e.value - model[name]) < 3.5 * e.sd, name
    assert result.motion()["joint.hinge0.angle"][0] == pytest.approx(0.8, abs=1e-9)


def test_numbers_of_the_engine_are_not_those_of_the_mechanism() -> None:
    """A coarse step of first order: what fits in one stepper does not in the other."""
    model = pendulum()
    run = swing(model)
    other = cb.fit(model, run, UNKNOWN, method="shooting", windows=3, h=H)
    off = [abs(e.value - model[name]) / (e.sd_naive or np.inf) for name, e in other.parameters.items()]  # bars allow for what is missing
    assert not other.converged or max(off) > 5.0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"gradient": "adjoint"}, 'of stepper = "spook" only states are known'),
        ({"coordinates": "tree"}, 'stepper = "spook" has its own'),
        ({"friction_rate": 0.1}, "has its own friction"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        cb.Shooting(stepper="spook", **options)


def test_what_the_engine_does_not_know_is_refused() -> None:
    with pytest.raises(OptionError, match="it has no"):
        cb.Shooting(stepper={"softness": 1e-6})
    model = pendulum()
    run = swing(model, 0.5)
    acceleration = cb.Observation("joint.hinge0.reaction.force.x", run["joint.hinge0.angle"].times, run["joint.hinge0.angle"].values, sd=1.0)
    observed = cb.Recording("forces", [*run.observations, acceleration])
    method = cb.Shooting(stepper="spook", h=H)
    with pytest.raises(cb.CalibodyError, match='stepper = "spook" does not observe'):
        method.refuse(model, [observed], UNKNOWN)
    noisy = cb.Recording("noisy", run.observations, [cb.Drive("joint.hinge0.force", cb.Signal([0.0, 0.5], [0.0, 0.1]), sd=0.1)])
    with pytest.raises(cb.CalibodyError, match="no place for"):
        cb.fit(model, noisy, UNKNOWN, method=method)
    shaken = cb.Recording("shaken", [run.observations[1]], [cb.Drive("joint.hinge0.angle", cb.Signal([0.0, 0.2, 0.4, 0.5], [0.0, 0.1, 0.0, 0.1]))])
    with pytest.raises(cb.CalibodyError, match='stepper = "spook" knows drives of actuators'):
        method.refuse(model, [shaken], UNKNOWN)
    method.refuse(model, [run], UNKNOWN)
    assert method.foresee(model, [run], UNKNOWN).resolved.all()


def test_in_an_experiment_file(tmp_path: Path) -> None:
    import re

    from experiment.swing import write

    from calibody import experiment
    from calibody.experiment import folder as run_folder

    file = write(tmp_path)
    file.write_text(
        re.sub(r"\[method\]\n(?:[^\[].*\n?)*", "", file.read_text()) + '\n[method]\nname = "shooting"\nwindows = 4\nstepper = { compliance = 1e-6 }\n'
    )
    what = experiment.load(file)
    assert what.method == cb.Shooting(windows=4, stepper=cb.Spook(compliance=1e-6))
    result = cb.fit(what.model(), what.runs(), what.estimate(), method=what.method)
    saved = cb.open(run_folder.write(result, tmp_path / "fit", what, "calibody fit swing.toml", {}))
    assert saved.parameters == result.parameters and all(e.sd for e in result.parameters.values())
