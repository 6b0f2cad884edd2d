"""Error bars allow for what is named as missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from estimate.test_suspects import CASES, DAMPING, INERTIA, LENGTH, MASS, fitted, pendulum, recorded

import calibody as cb
from calibody.estimate.designs.design import lacking
from calibody.estimate.designs.forecast import Planned
from calibody.estimate.missing.misled import allowed
from calibody.experiment.folder import write
from calibody.report.verdict import BAD, GOOD, verdict

TRUTH = {"body.arm.mass": MASS, "body.arm.inertia.yy": INERTIA - MASS * LENGTH**2, "joint.hinge.damping": DAMPING}


def deviations(result: cb.Result) -> tuple[np.ndarray, np.ndarray]:
    """From the truth, in error bars and in their scatter alone."""
    off = np.array([result.parameters[path].value - value for path, value in TRUTH.items()])
    bars = [result.parameters[path] for path in TRUTH]
    sd, missing = np.array([e.sd for e in bars], dtype=float), np.array([e.missing for e in bars], dtype=float)
    return off / sd, off / np.sqrt(sd**2 - missing**2)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", [1])
def test_error_bars_hold_where_a_number_is_missing(case: str, seed: int) -> None:
    result = fitted(recorded(seed, **CASES[case][0]), h=0.01)
    held, alone = deviations(result)
    assert np.abs(held).max() < 2.5, (held, alone)
    if case in ("dry", "spring"):
        assert np.abs(alone).max() > 10.0, "its scatter alone is no error bar"
        assert any(note.startswith("The error bars allow for what the model seems to lack") for note in result.notes)


def test_nothing_changes_where_nothing_is_missing() -> None:
    result = fitted(recorded(3), h=0.01)
    assert result.converged and not result.lacks
    assert all(e.missing == 0.0 for e in result.parameters.values()) and np.array_equal(result.uncertainty.scatter, result.covariance)


def test_the_largest_move_of_each_and_a_covariance() -> None:
    moved = np.random.default_rng(0).standard_normal((3, 5))
    moved[:, 4] = 0.0
    found = allowed(moved)
    assert np.diag(found) == pytest.approx(np.abs(moved).max(axis=0) ** 2)
    assert np.linalg.eigvalsh(found).min() > -1e-12


def test_a_ratio_is_as_certain_as_what_it_is_made_of() -> None:
    """Of a free swing mass and inertia are known as a ratio only: with the mass held, the inertia has the same relative error bar, what is missing included."""
    times = np.arange(0.0, 4.0, 0.01)
    about = INERTIA - MASS * LENGTH**2
    arm = cb.Body("arm", mass=MASS, com=(0.0, 0.0, -LENGTH), inertia=(about,) * 3)
    model = cb.Model("pendulum", bodies=[arm], joints=[cb.Joint("hinge", "arm", axis=(0.0, -1.0, 0.0))])
    truth = cb.Model("pendulum", bodies=[arm], joints=[cb.Joint("hinge", "arm", axis=(0.0, -1.0, 0.0), stiffness=0.05)])
    angle = cb.simulate(truth, 3.99, 0.01, {"joint.hinge.angle": 2.2})["joint.hinge.angle"]
    noisy = angle[: len(times)] + 0.003 * np.random.default_rng(0).standard_normal(len(times))
    run = cb.Recording("run", (cb.Observation("joint.hinge.angle", times, noisy, 0.003),))
    both = cb.fit(model, run, {"body.arm.mass": cb.Unknown(MASS), "body.arm.inertia.yy": cb.Unknown(about)}, h=0.01)
    one = cb.fit(model, run, {"body.arm.inertia.yy": cb.Unknown(about)}, h=0.01)
    assert both.lacks and one.lacks and both.determined
    e, d = one.parameters["body.arm.inertia.yy"], both.determined[0]
    assert e.sd is not None and e.missing is not None and e.missing > 2.0 * e.sd / 3.0
    assert d.sd / abs(d.value) == pytest.approx(e.sd / e.value, rel=0.05)


def test_draws_leave_out_what_is_missing_and_say_so() -> None:
    """They are those of the scatter; a design begins with the whole error bars."""
    result = fitted(recorded(1, spring=0.05), h=0.01)
    post = cb.posterior(result, samples=200, starts=0)
    assert post.converged and any(note.startswith("The error bars allow for what the model seems to lack, and the draws") for note in post.notes)
    unknowns = dict.fromkeys(result.parameters, None)
    planned = Planned.begun(result.model, unknowns, ["joint.hinge.angle"], 0.003, ["actuator.motor"], False, 100.0, "auto").since(result)
    assert planned.spread is not None
    before = np.sqrt(np.diag(np.linalg.inv(planned.known)))
    for (name, m), sd, wide in zip(post.parameters.items(), before, np.sqrt(np.diag(planned.spread @ planned.spread.T)), strict=True):
        e = m.estimate
        assert e.sd is not None and e.scatter is not None and m.ratio is not None and m.shift is not None
        assert m.sd == pytest.approx(e.scatter, rel=0.15) and abs(m.shift) < 0.3 and not m.remarkable, name
        assert sd == pytest.approx(e.sd, rel=1e-6) and wide == pytest.approx(e.sd, rel=1e-6)
        assert m.allowed is None or m.allowed == pytest.approx(e.sd / e.scatter)
    assert max(m.allowed or 0.0 for m in post.parameters.values()) > 5.0 and "~ the error bar is so many times as wide" in str(post)
    assert "no recording makes that part smaller" in lacking(result)[0]


def test_draws_where_nothing_is_missing_say_nothing_of_it() -> None:
    post = cb.posterior(fitted(recorded(3), h=0.01), samples=100, starts=0)
    assert not any("lack" in note for note in post.notes) and "~" not in str(post) and all(m.allowed is None for m in post.parameters.values())
    assert lacking(post.result) == []


def test_a_damping_that_drives_is_not_believed(tmp_path: Path) -> None:
    """Beyond three of its error bars below zero, unless somebody said that it may be."""
    bare = pendulum().replace({"joint.hinge.damping": -0.02})
    times = np.arange(0.0, 2.001, 0.01)
    motion = cb.simulate(bare, 2.0, 0.01, {"joint.hinge.angle": 0.3})
    noisy = np.interp(times, motion.time, motion["joint.hinge.angle"]) + 1e-3 * np.random.default_rng(0).standard_normal(len(times))
    run = cb.Recording("run", (cb.Observation("joint.hinge.angle", times, noisy, 1e-3),))
    for lower, level in ((-np.inf, BAD), (-1.0, GOOD)):
        result = cb.fit(pendulum(), run, {"joint.hinge.damping": cb.Unknown(0.01, lower=lower)}, h=0.01)
        found = verdict(cb.open(write(result, tmp_path / str(lower))))
        item = [i for i in found.items if i.question == "Are the numbers possible?"]
        assert result.parameters["joint.hinge.damping"].value < 0.0 and [i.level for i in item] == [BAD] * (level == BAD)
        assert any("below zero beyond doubt: joint.hinge.damping = -0.0" in note for note in result.notes) == (level == BAD)


@pytest.mark.parametrize(("held", "possible"), [(0.0599, True), (0.04, False)])
def test_a_flat_body_may_miss_its_largest_moment_by_what_the_others_are_off(held: float, possible: bool, tmp_path: Path) -> None:
    """Of a disc the moment about its axle is the sum of the two others: estimated alone it exceeds that by chance in every other fit."""
    times, about = np.arange(0.0, 2.001, 0.01), 2.0 * 0.0600
    disc = cb.Body("disc", mass=1.0, com=(0.0, 0.0, -0.1), inertia=(0.0600, about, 0.0600))
    made = cb.Model("disc", [disc], [cb.Joint("hinge", "disc", axis=(0.0, 1.0, 0.0))])
    motion = cb.simulate(made, 2.0, 0.01, {"joint.hinge.angle": 1.0})
    noisy = np.interp(times, motion.time, motion["joint.hinge.angle"]) + 1e-3 * np.random.default_rng(1).standard_normal(len(times))
    run = cb.Recording("run", (cb.Observation("joint.hinge.angle", times, noisy, 1e-3),))
    guess = cb.Body("disc", mass=1.0, com=(0.0, 0.0, -0.1), inertia=(held, 1.5 * held, held))
    result = cb.fit(cb.Model("disc", [guess], made.joints), run, {"body.disc.inertia.yy": cb.Unknown()}, h=0.01)
    said = any(note.startswith("The estimates are not physically possible together") for note in result.notes)
    assert said == (not possible)
    assert verdict(cb.open(write(result, tmp_path / "fit"))).trusted == possible
