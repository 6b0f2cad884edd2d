"""The problem as a value: nothing changes it, it can be sent to another process, and what is computed from it there is the same."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import numpy as np
import pytest

import calibody as cb
from calibody.estimate.layout import BALANCE, NODES, PROCESS, RINGING, Term, drive_block
from calibody.estimate.noise import marginal
from calibody.estimate.noise.hyper import ForceSize


def swinging(compliance: float = 0.0, seed: int = 0) -> cb.Result:
    """A pendulum with everything that a run can have as unknowns: multipliers, unmodelled forces, ringing, a noisy drive; friction."""
    model = cb.Model(
        "pendulum",
        bodies=[cb.Body("arm", mass=0.4, com=(0, 0, -0.1), inertia=(0.004, 0.004, 0.004))],
        joints=[cb.Joint("hinge", "arm", axis=(0, 1, 0), damping=4e-4, friction=2e-3, compliance=compliance)],
        actuators=[cb.Actuator("motor", "hinge")],
    )
    random, times = np.random.default_rng(seed), np.arange(0.0, 1.0, 0.01)
    drive = cb.Signal(times, 0.3 * np.sin(5.0 * times))
    motion = cb.simulate(model.replace({"joint.hinge.compliance": 0.0}), 0.9, 0.005, {"joint.hinge.angle": 1.0}, {"actuator.motor": drive})
    seen = cb.Observation("joint.hinge.angle", motion.time[::2], motion["joint.hinge.angle"][::2] + 1e-3 * random.normal(size=len(motion.time[::2])), 1e-3)
    run = cb.Recording("run", (seen,), (cb.Drive("actuator.motor", drive, sd=0.01),))
    return cb.fit(model, run, {"body.arm.inertia.yy": 0.006}, process_noise=0.01, coordinates="free", h=0.01)


@pytest.fixture(scope="module")
def compliant() -> cb.Result:
    return swinging(1e-5)


def test_a_problem_is_a_value(compliant: cb.Result) -> None:
    problem = compliant.problem
    run = problem.runs[0]
    for thing, name in ((problem, "runs"), (problem, "slope"), (run, "active"), (run, "deltas"), (run, "weights"), (run.noise, "density")):
        with pytest.raises(FrozenInstanceError):
            setattr(thing, name, None)
    sharper = problem.sharpened(0.5 * run.deltas)
    np.testing.assert_array_equal(sharper.runs[0].deltas, 0.5 * problem.runs[0].deltas)
    assert sharper.runs[0].data is run.data


def test_the_likelihood_is_the_same_in_another_process(compliant: cb.Result, tmp_path: Path) -> None:
    hyper = ForceSize("hinge")
    log_sd = {hyper: hyper.log_sd(compliant.problem) + 0.3}
    arguments = compliant.problem, list(compliant.states), compliant.theta, log_sd
    here = marginal.log_likelihood(*arguments)
    (tmp_path / "problem").write_bytes(pickle.dumps(arguments))
    program = (
        "import pickle, sys; from pathlib import Path; from calibody.estimate.noise.marginal import log_likelihood;"
        "print(repr(float(log_likelihood(*pickle.loads(Path(sys.argv[1]).read_bytes())))))"
    )
    there = subprocess.run([sys.executable, "-c", program, str(tmp_path / "problem")], capture_output=True, text=True, check=True)
    assert float(there.stdout) == pytest.approx(here, rel=1e-12)
    again = pickle.loads(pickle.dumps(arguments))
    assert marginal.log_likelihood(*again) == here
    assert hyper.log_sd(compliant.problem) == log_sd[hyper] - 0.3  # nothing was changed on the way


def test_the_likelihood_has_the_slope_that_its_noise_is_found_by(compliant: cb.Result) -> None:
    """`dL/d log sd = -sum z^2 + n`, at fixed forces."""
    problem, x, theta, hyper = compliant.problem, list(compliant.states), compliant.theta, ForceSize("hinge")
    at = hyper.log_sd(problem)
    ends = [-marginal.log_likelihood(problem, x, theta, {hyper: at + s}) for s in (0.05, -0.05)]
    squares, _ = marginal._squares(problem, x, theta, hyper)
    assert (ends[0] - ends[1]) / 0.1 == pytest.approx(marginal._number(problem, x, theta, hyper) - squares, rel=0.02, abs=0.05)


def test_the_layout_says_where_everything_stands(compliant: cb.Result) -> None:
    run, states = compliant.problem.runs[0], compliant.states[0]
    layout = run.layout
    assert [b.name for b in layout.blocks] == [NODES, "multipliers", PROCESS, RINGING, drive_block("actuator.motor")]
    assert layout.size == sum(b.size for b in layout.blocks) and len(layout.when) == layout.size + layout.rows
    lin = compliant.problem.linearise([states], compliant.theta)
    assert lin.Cx.shape == (layout.rows, layout.size) and lin.Fx.shape[1] == layout.size
    random = np.random.default_rng(0)
    for block in layout.blocks:  # the derivative along each block by itself
        d = np.zeros(layout.size)
        d[layout.place[block.name]] = random.normal(size=block.size)
        step = 1e-6
        ends = [compliant.problem.values([run.move(states, sign * step * d)], compliant.theta) for sign in (1.0, -1.0)]
        for (high, low), matrix in zip(zip(*ends, strict=True), (lin.Fx, lin.Cx), strict=True):
            found, wanted = (high - low) / (2 * step), matrix @ d
            np.testing.assert_allclose(found, wanted[len(wanted) - len(found) :], atol=1e-5 * max(1.0, np.abs(wanted).max()), err_msg=block.name)


def test_terms_add_up_wherever_they_stand(compliant: cb.Result) -> None:
    """Terms entry by entry and repeated ones, some in the same places, and other values in the places of before."""
    layout, random = compliant.problem.runs[0].layout, np.random.default_rng(3)
    row, unknown = random.integers(0, 30, 400), random.integers(0, 40, 400)
    for _ in range(2):
        values, repeated = random.normal(size=400), random.normal(size=(3, 5))
        terms = [Term(BALANCE, NODES, row, unknown, values), Term(BALANCE, PROCESS, np.array([0, 2, 2]), np.array([1, 0, 0]), repeated, (4, 2))]
        expected = np.zeros((layout.rows, layout.size))
        np.add.at(expected, (row + layout.row_place[BALANCE].start, unknown + layout.place[NODES].start), values)
        for i, (r, u) in enumerate(((0, 1), (2, 0), (2, 0))):
            for m in range(5):
                expected[layout.row_place[BALANCE].start + r + 4 * m, layout.place[PROCESS].start + u + 2 * m] += repeated[i, m]
        np.testing.assert_allclose(layout.jacobian(terms).toarray(), expected, atol=1e-14)


def test_a_motion_is_carried_to_other_noise_and_meshes(compliant: cb.Result) -> None:
    problem, states = compliant.problem, compliant.states[0]
    louder = ForceSize("hinge").moved(problem, np.log(2.0))
    moved = problem.carried([states], louder)[0]
    np.testing.assert_allclose(2.0 * moved.parts[PROCESS], states.parts[PROCESS])
    run = problem.runs[0]
    finer = replace(type(run).of(run.structure, run.recording, run.h / 2, run.noise), active=run.active, typical=run.typical, deltas=run.deltas)
    there = problem.carried([states], replace(problem, runs=(finer,)))[0]
    np.testing.assert_allclose(there.q[:, ::2], states.q, atol=1e-12)
    force = there.parts[PROCESS] * finer.process_sd()
    np.testing.assert_allclose(force[1::2], states.parts[PROCESS] * run.process_sd(), atol=1e-12)


def test_the_place_of_a_mass_that_is_zero_moves_nothing() -> None:
    """A fit passes through it where a payload is not there at all."""
    arm = cb.Body("arm", mass=1.0, com=(0, 0, -0.2), inertia=(0.02, 0.02, 0.02))
    load = cb.Body("load", parent="arm", mass=0.0, inertia=(1e-3, 1e-3, 1e-3))
    model = cb.Model("arm", bodies=[arm, load], joints=[cb.Joint("hinge", "arm", axis=(0, 1, 0))])
    motion = cb.simulate(model, 1.0, 0.01, {"joint.hinge.angle": 1.0})
    run = cb.Recording("swing", (cb.Observation("joint.hinge.angle", motion.time, motion["joint.hinge.angle"], 1e-3),))
    result = cb.fit(model, run, {"body.load.com.z": cb.Unknown(0.0, scale=0.1), "joint.hinge.damping": cb.Unknown(0.01)})
    assert result.converged and result.parameters["body.load.com.z"].sd is None
    assert abs(result.parameters["joint.hinge.damping"].value) < 1e-3
