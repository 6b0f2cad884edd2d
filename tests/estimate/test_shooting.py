"""`method = "shooting"` on the variational stepper: windows, loops, the adjoint gradient, and what is refused."""

from __future__ import annotations

import importlib.util
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from problems import four_bar, four_bar_start, rates

import calibody as cb
from calibody.estimate.estimator import OptionError
from calibody.estimate.layout import BALANCE
from calibody.estimate.recipe import prepared
from calibody.estimate.reported import theta_of
from calibody.estimate.windows.adjoint import Adjoint
from calibody.estimate.windows.shots import Shots, windowed
from calibody.solve.windows import Shot, Windows

H = 0.01
NOISE = 2e-3


def pendulum(links: int = 1, **law: Any) -> cb.Model:
    bodies = [
        cb.Body(f"link{i}", parent="world" if i == 0 else f"link{i - 1}", mass=1.0 + 0.3 * i, com=(0.0, 0.0, -0.2), inertia=(0.03, 0.03, 0.01), position=(0.0, 0.0, -0.4 * (i > 0)))
        for i in range(links)
    ]  # fmt: skip
    return cb.Model("pendulum", bodies, [cb.Joint(f"hinge{i}", f"link{i}", axis=(0.0, 1.0, 0.0), **({"damping": 0.05} | law)) for i in range(links)])


def recorded(motion: cb.Motion, name: str = "swing", seed: int = 0, known: dict[str, float] | None = None, sd: float | None = NOISE) -> cb.Recording:
    random = np.random.default_rng(seed)
    channels = [c for c in motion.channels if c.startswith("joint.") and c.endswith(".angle")]
    seen = [cb.Observation(c, motion.time, motion[c] + NOISE * random.standard_normal(len(motion.time)), sd) for c in channels]
    return cb.Recording(name, seen, initial=known or {})


def swing(model: cb.Model, seconds: float = 3.0, **more: Any) -> cb.Recording:
    start = {f"joint.{j.name}.angle": 0.8 for j in model.joints}
    return recorded(cb.simulate(model, seconds, H, start), **more)


def begun(model: cb.Model, run: cb.Recording, unknowns: dict[str, Any], windows: int = 1, factor: float = 1.0) -> tuple[Windows, Shot, np.ndarray]:
    """The problem of windows, its first motion and parameters."""
    asked = cb.Shooting(windows=windows)
    worker, _ = prepared(model, [run], unknowns, "none", "auto", H, kind=Shots)
    theta = factor * theta_of(worker.unknowns, {})
    problem, x = worker.begin(worker.problem(H, worker.noises), theta)
    problem = problem.sharpened(np.full(len(model.joints), 0.1))
    shot = windowed(problem, asked)
    first = shot.begun(x, theta)
    assert first is not None
    return shot, first, theta


UNKNOWN = {"body.link0.mass": cb.Unknown(1.4), "joint.hinge0.damping": cb.Unknown(0.08)}


def test_the_inside_of_windows_is_simulated_and_only_the_rows_between_them_are_open() -> None:
    model = pendulum()
    windows, shot, theta = begun(model, swing(model), UNKNOWN, windows=5)
    _, C = windows.values(shot, theta)
    balance = np.abs(C[windows.whole.runs[0].layout.row_place[BALANCE]])
    between = np.zeros(len(balance), dtype=bool)
    bounds = np.round(np.arange(5) * (301 / 5)).astype(int)
    for first in bounds[1:]:
        between[[first - 2, first - 1]] = True  # the balances of the last node of a window and the first of the next; row 0 is that of node 1
    assert balance[~between].max() < 1e-9 and balance[between].max() > 1e-3


@pytest.mark.parametrize("windows", [1, 6, 60])
def test_any_number_of_windows_finds_what_transcription_finds(windows: int) -> None:
    model = pendulum(2)
    run = swing(model)
    unknowns = {"body.link1.mass": cb.Unknown(1.7), "joint.hinge0.damping": cb.Unknown(0.1), "joint.hinge1.damping": cb.Unknown(0.02)}
    shot, whole = (cb.fit(model, run, unknowns, method=m) for m in (cb.Shooting(windows=windows), cb.Transcription(h=H)))
    assert shot.converged and whole.converged and shot.iterations <= 10
    for name, e in whole.parameters.items():
        assert e.sd is not None and shot.parameters[name].sd == pytest.approx(e.sd, rel=1e-3)
        assert abs(shot.parameters[name].value - e.value) < 0.01 * e.sd and abs(e.value - model[name]) < 3.5 * e.sd
    assert shot.chi2 == pytest.approx(whole.chi2, abs=0.01) and shot.dof == whole.dof


@pytest.mark.parametrize("coordinates", ["tree", "free"])
def test_windows_of_a_closed_loop(coordinates: str) -> None:
    model = four_bar(damping=0.4)
    motion = cb.simulate(model, 1.5, H, rates(four_bar_start()))
    run = recorded(motion)
    unknowns = {"body.coupler0.mass": cb.Unknown(1.5), "joint.ground0.damping": cb.Unknown(0.6)}
    shot, whole = (
        cb.fit(model, run, unknowns, method=m) for m in (cb.Shooting(windows=5, coordinates=coordinates), cb.Transcription(h=H, coordinates=coordinates))
    )
    assert shot.converged and whole.converged
    for name, e in whole.parameters.items():
        assert e.sd is not None and abs(shot.parameters[name].value - e.value) < 0.02 * e.sd
    assert abs(shot.motion()["loop.close0.force"] - whole.motion()["loop.close0.force"]).max() < 1e-2


def test_known_starts_unknown_noise_and_runs_of_their_own() -> None:
    model = pendulum()
    start = {"joint.hinge0.angle": 0.8, "joint.hinge0.rate": 0.0}
    runs = [swing(model, name=f"run{k}", seed=k, known=start, sd=None) for k in range(2)]
    unknowns = {**UNKNOWN, "joint.hinge0.angle.bias": cb.Unknown(0.0, per_run=True, scale=0.01)}
    found = cb.fit(model, runs, unknowns, method="shooting", windows=3)
    assert found.converged and not found.noise_given
    for name, e in found.parameters.items():
        truth = 0.0 if "bias" in name else model[name]
        assert e.sd is not None and abs(e.value - truth) < 3.5 * e.sd, name
    assert found.fit[0].sd == pytest.approx(NOISE, rel=0.15)
    assert found.motion()["joint.hinge0.angle"][0] == pytest.approx(0.8, abs=1e-9)


def test_the_adjoint_gradient_is_that_of_central_differences() -> None:
    model = pendulum(2, stiffness=1.5)
    known = {f"joint.hinge{i}.{what}": value for i in range(2) for what, value in (("angle", 0.8), ("rate", 0.0))}
    paths = ["body.link0.mass", "body.link1.com.z", "body.link1.inertia.yy", "joint.hinge0.damping", "joint.hinge0.stiffness", "joint.hinge1.position.z"]
    unknowns: dict[str, Any] = dict.fromkeys(paths) | {"joint.hinge1.angle.bias": cb.Unknown(0.01)}
    windows, shot, theta = begun(model, swing(model, 1.0, known=known), unknowns, factor=1.1)
    adjoint = Adjoint(windows)
    at = adjoint.at(shot, theta)
    for k in range(len(theta)):
        step, ends = 1e-3 * max(abs(theta[k]), 1e-2), []
        for times in (2.0, 1.0, -1.0, -2.0):
            moved = theta.copy()
            moved[k] += times * step
            ends.append(adjoint.at(Shot(at.shot.motion), moved).cost)
        slope = (8.0 * (ends[1] - ends[2]) - (ends[0] - ends[3])) / (12.0 * step)  # of fourth order
        assert at.gradient[k] == pytest.approx(slope, rel=1e-6), windows.whole.entries[k].name


def test_the_adjoint_finds_what_gauss_newton_finds() -> None:
    model = pendulum(2)
    run, unknowns = swing(model, 2.0), {"body.link1.mass": cb.Unknown(1.5), "joint.hinge0.damping": cb.Unknown(0.07)}
    one, other = (cb.fit(model, run, unknowns, method="shooting", windows=1, gradient=g) for g in ("adjoint", "forward"))
    assert one.converged and other.converged
    for name, e in other.parameters.items():
        assert e.sd is not None and abs(one.parameters[name].value - e.value) < 0.02 * e.sd


@pytest.mark.slow
def test_the_adjoint_costs_the_same_for_4_and_for_200_parameters() -> None:
    n, law = 17, {"damping": 0.3, "friction": 0.02, "friction_rate": 0.05, "stiffness": 5.0, "armature": 0.02, "stribeck": 0.01, "stribeck_rate": 0.2}
    model = pendulum(n, **law)
    run = recorded(cb.simulate(model, 3.0, H, {f"joint.hinge{i}.angle": 0.2 * (-1.0) ** i for i in range(n)}))
    fields = [*(f"body.link{{}}.inertia.{c}" for c in ("xx", "yy", "zz", "xy", "xz", "yz")), "body.link{}.mass"]
    fields += [f"joint.hinge{{}}.{f}" for f in ("damping", "friction", "stiffness", "armature", "stribeck")]
    paths = [f.format(i) for f in reversed(fields) for i in range(n)]
    seconds = []
    for count in (4, 200):
        windows, shot, theta = begun(model, run, {p: cb.Unknown(scale=1.0) for p in paths[:count]})
        adjoint, times = Adjoint(windows), []
        found = adjoint.at(shot, theta)
        for _ in range(5):
            began = time.process_time()
            adjoint.at(Shot(found.shot.motion), theta)
            times.append(time.process_time() - began)
        assert len(found.gradient) == count
        seconds.append(min(times))
    assert seconds[1] / seconds[0] < 1.3


def test_a_single_window_that_fails_says_so() -> None:
    model = pendulum(2)
    motion = cb.simulate(model, 10.0, H, {"joint.hinge0.angle": 3.0, "joint.hinge1.angle": 2.5})
    unknowns = {"body.link1.mass": cb.Unknown(3.9), "joint.hinge0.damping": cb.Unknown(0.001), "joint.hinge1.damping": cb.Unknown(0.2)}
    alone = cb.fit(model, recorded(motion), unknowns, method="shooting", windows=1)
    assert not alone.converged and "use more windows" in alone.status and all(e.sd is None for e in alone.parameters.values())
    many = cb.fit(model, recorded(motion), unknowns, method="shooting")
    assert many.converged and all(abs(e.value - model[name]) < 3.5 * (e.sd or 0.0) for name, e in many.parameters.items())


def script(name: str) -> Any:
    specification = importlib.util.spec_from_file_location(name, Path(__file__).parents[2] / "benchmarks" / f"{name}.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def chapter() -> Any:
    return script("pendulums")


@pytest.fixture(scope="module")
def hexapod() -> Any:
    return script("hexapod")


LEGS = [
    pytest.param(noise, start, marks=() if (noise, start) == (True, "+-5") else pytest.mark.slow)
    for noise in (False, True)
    for start in ("+1", "+20", "+50", "+100", "600", "+-5")
]


@pytest.mark.parametrize(("noise", "start"), LEGS)
def test_six_stiffnesses_of_a_platform_of_which_one_point_is_measured(hexapod: Any, noise: bool, start: str) -> None:
    """Three channels for six freedoms: the first motion is simulated from the known start, because inverse kinematics let the platform turn as it likes."""
    result = hexapod.fit(hexapod.recording(noise), hexapod.STARTS[start], hexapod.METHODS["shooting"])
    assert result.converged and result.iterations <= 15
    for e, truth in zip(result.parameters.values(), hexapod.TRUTH, strict=True):
        assert e.sd is not None and abs(e.value - truth) < 3.0 * e.sd


@pytest.mark.slow
def test_the_flexible_loop_by_its_motions_alone() -> None:
    """Cost and gradient are trep's to what its step of 10 ms is another discretisation by, and both stiffnesses are found from far away."""
    loop = script("loop")
    seen = loop.tip(loop.TRUTH)
    for at, (J, slope) in loop.TREP.items():
        r, slopes = loop.off(np.array(at), seen)
        assert 0.5 * float(r @ r) == pytest.approx(J, rel=0.04)
        assert slopes.T @ r == pytest.approx(np.array(slope), abs=0.04 * float(np.linalg.norm(slope)))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["shooting, one window", "shooting, ten windows", "transcription"])
def test_the_flexible_loop_whose_force_is_there_at_once(method: str) -> None:
    """All joints are known to be at rest, more than the loop has freedoms, and a pair of them has nothing with mass between."""
    loop = script("loop")
    seen = loop.tip(loop.TRUTH)
    result = loop.fit(loop.recording(seen), loop.METHODS[method])
    assert result.converged and result.iterations <= 10
    assert [e.value for e in result.parameters.values()] == pytest.approx(loop.TRUTH, abs=1e-4)
    noisy = loop.fit(loop.recording(seen + loop.SD * np.random.default_rng(0).normal(size=len(seen))), loop.METHODS[method])
    assert noisy.converged and all(e.sd and abs(e.value - 20.0) < 3.5 * e.sd for e in noisy.parameters.values())


PRINTED = [
    pytest.param(name, k, marks=pytest.mark.slow if (name, k) not in (("single", 6), ("double", 0)) else ()) for name in ("single", "double") for k in range(7)
]


@pytest.mark.parametrize(("name", "k"), PRINTED)
def test_the_pendulums_of_the_thesis_need_two_linearisations_more_than_its_best_at_most(chapter: Any, name: str, k: int) -> None:
    """Shooting with the windows that "auto" makes; transcription seven at most."""
    model, unknowns = chapter.cases()[name][k]
    best = int(chapter.PRINTED[name][0].split()[k])
    run = chapter.runs()[name]
    for method, most in ((cb.Shooting(h=chapter.H), best + 2), (cb.Transcription(h=chapter.H), 7)):
        count, result = chapter.iterations(model, run, unknowns, method)
        assert result.converged and int(count) <= most
        truth = {"world.gravity.z": -9.81, "spring.s.rest_length": 1.0, "spring.s.stiffness": 10.0, "spring.s.damping": 10.0}
        assert all(abs(e.value - truth[path]) < 3.5 * (e.sd or 0.0) for path, e in result.parameters.items())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"stepper": "verlet"}, 'stepper = "verlet"; give "variational", "spook" or "mujoco".'),
        ({"windows": 0}, 'windows = 0; give a whole number from 1 on, or "auto".'),
        ({"gradient": "backward"}, 'gradient = "backward"; give "forward" or "adjoint".'),
        ({"globalisation": "armijo"}, 'globalisation = "armijo"; give "penalty", "natural" or "restrictive".'),
        ({"back_projection": 1}, "back_projection = 1; give true or false."),
        ({"h": -1.0}, "h = -1.0; give a positive number, or leave it out."),
        ({"stepper": "mujoco", "gradient": "adjoint"}, "only states are known"),
        ({"stepper": "mujoco", "friction_rate": 0.1}, "has its own friction"),
        ({"stepper": "mujoco", "coordinates": "free"}, "has its own"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(OptionError) as refused:
        cb.Shooting(**options)
    assert sentence in str(refused.value)


def test_check_and_forecast() -> None:
    model, run = pendulum(), swing(pendulum())
    method = cb.Shooting(windows=4)
    method.refuse(model, [run], UNKNOWN)
    assert method.foresee(model, [run], UNKNOWN).resolved.all()
    with pytest.raises(cb.CalibodyError, match="shorter than a quarter"):
        cb.Shooting(h=5.0).refuse(model, [run], UNKNOWN)


def test_in_an_experiment_file(tmp_path: Path) -> None:
    from experiment.swing import TRUTH, write

    from calibody import experiment
    from calibody.experiment import folder as run_folder

    file = write(tmp_path)
    file.write_text(
        re.sub(r"\[method\]\n(?:[^\[].*\n?)*", "", file.read_text()) + '\n[method]\nname = "shooting"\nwindows = 8\nglobalisation = "restrictive"\n'
    )
    what = experiment.load(file)
    result = cb.fit(what.model(), what.runs(), what.estimate(), method=what.method)
    assert what.method == cb.Shooting(windows=8, globalisation="restrictive") and result.converged
    saved = cb.open(run_folder.write(result, tmp_path / "fit", what, "calibody fit swing.toml", {}))
    assert saved.parameters == result.parameters
    assert all(abs(e.value - TRUTH[name]) < 3.5 * (e.sd or 0.0) for name, e in result.parameters.items())
