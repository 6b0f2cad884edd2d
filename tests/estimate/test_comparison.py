"""Models compared: the one that made the data wins by evidence and by held-out score; a number too many costs evidence; what cannot be compared is refused."""

from __future__ import annotations

import numpy as np
import posterior_problems as problems
import pytest

import calibody as cb
from calibody.estimate.draws.comparison import Judged, of_scores, ordered

COMMON = {"body.rod.inertia.yy": cb.Unknown(0.03, lower=0.0, upper=0.2), "joint.pivot.damping": cb.Unknown(0.05, lower=0.0, upper=1.0)}
DRY = {**COMMON, "joint.pivot.friction": cb.Unknown(0.02, lower=0.0, upper=0.2)}


def _compared(friction: float, held: int = 2) -> cb.ModelComparison:
    truth = problems.rubbing(friction)
    run, *others = (_named(problems.rubbed(truth, seed), f"r{seed}") for seed in range(10, 11 + held))
    posts = {
        name: cb.posterior(problems.rubbing(0.0), run, unknowns, samples=100, starts=0, h=0.01) for name, unknowns in {"viscous": COMMON, "dry": DRY}.items()
    }
    return cb.compare_models(posts, others, window=0.5)


def _named(run: cb.Recording, name: str) -> cb.Recording:
    return cb.Recording(name, run.observations, run.drives)


def test_data_of_dry_friction_speak_for_it() -> None:
    found = _compared(0.08)
    dry, viscous = found.models
    assert found.best == dry.name == "dry" and dry.log_evidence - viscous.log_evidence > 20.0
    assert dry.log_score is not None and viscous.log_score is not None and dry.log_score > viscous.log_score
    assert dry.coverage is not None and dry.coverage > 0.8 and "log score" in str(found)


def test_a_number_too_many_costs_evidence() -> None:
    """Of a friction of zero within [0, 0.2], known to 0.007: the prior's width is lost, log(0.2/0.007) or so, and no more."""
    found = _compared(0.0, held=0)
    by_name = {m.name: m.log_evidence for m in found.models}
    assert found.best == "viscous" and 0.5 < by_name["viscous"] - by_name["dry"] < 6.0
    assert any("Nothing was held out" in n for n in found.notes)


def _of_three(name: str) -> cb.Model:
    law = {"viscous": {}, "dry": {"friction": 0.08}, "stribeck": {"friction": 0.08, "stribeck": 0.12, "stribeck_rate": 0.4}}[name]
    return problems.rubbing(0.0).replace({f"joint.pivot.{word}": x for word, x in law.items()})


@pytest.mark.slow
@pytest.mark.parametrize("truth", ["dry", "stribeck"])
def test_viscous_dry_and_stribeck_friction_in_one_table(truth: str) -> None:
    """What made the data comes first; where it was dry friction alone, the two numbers that Stribeck's law has more are no better."""
    stribeck = {**DRY, "joint.pivot.stribeck": cb.Unknown(0.05, lower=0.0, upper=0.3), "joint.pivot.stribeck_rate": cb.Unknown(0.3, lower=0.1, upper=1.0)}
    run, *held = (_named(problems.rubbed(_of_three(truth), seed, sd=0.003), f"r{seed}") for seed in range(20, 23))
    found = cb.compare_models(
        {
            name: cb.posterior(problems.rubbing(0.0), run, unknowns, samples=100, starts=0, h=0.01)
            for name, unknowns in {"viscous": COMMON, "dry": DRY, "stribeck": stribeck}.items()
        },
        held,
        window=0.5,
    )
    at = {m.name: m for m in found.models}
    assert found.best == truth and found.models[-1].name == "viscous"
    assert at["dry"].log_evidence - at["viscous"].log_evidence > 20.0
    if truth == "stribeck":
        assert at["stribeck"].log_evidence - at["dry"].log_evidence > 20.0
    assert (at[truth].coverage or 0.0) > 0.8 and (at[truth].log_score or 0.0) > (at["viscous"].log_score or 0.0)


def _arm(stiffness: float | None) -> cb.Model:
    """A motor's hub and a link, one piece or with a spring between them."""
    bodies = [cb.Body("hub", mass=0.5, inertia=(0.02,) * 3), cb.Body("link", "hub", mass=0.8, com=(0, 0, -0.2), inertia=(0.02,) * 3)]
    joints = [cb.Joint("motor", "hub", axis=(0, 1, 0), damping=0.1)]
    if stiffness is not None:
        joints.append(cb.Joint("flex", "link", axis=(0, 1, 0), stiffness=stiffness, damping=0.03))
    return cb.Model("arm", bodies, joints, actuators=[cb.Actuator("drive", "motor")], sites=[cb.Site("tip", "link", (0, 0, -0.4))])


def _shaken(model: cb.Model, seed: int) -> cb.Recording:
    random, t = np.random.default_rng(seed), np.arange(0.0, 2.5 + 1e-9, 0.005)
    first, second = random.uniform(0.0, 2.0 * np.pi, 2)
    u = cb.Signal(t, 1.2 * np.sin(2 * np.pi * 0.9 * t + first) + 0.8 * np.sin(2 * np.pi * 3.1 * t + second))
    motion = cb.simulate(model, 2.5, 0.0025, {}, {"actuator.drive": u})
    channels = ("joint.motor.angle", "site.tip.position.x", "site.tip.position.z")
    observed = (cb.Observation(c, motion.time[::8], motion[c][::8] + 0.002 * random.standard_normal(len(motion.time[::8])), 0.002) for c in channels)
    return cb.Recording(f"r{seed}", tuple(observed), (cb.Drive("actuator.drive", u),))


@pytest.mark.slow
@pytest.mark.parametrize("stiffness", [12.0, None])
def test_a_flexible_joint_and_a_rigid_one_are_told_apart(stiffness: float | None) -> None:
    """Models of different joints: the spring's, where there was one, whose stiffness is found; of a piece that is rigid the model without, though a spring at its largest stiffness fits all but as well."""
    rigid = {"body.link.inertia.yy": cb.Unknown(0.03, lower=0.0, upper=0.1), "joint.motor.damping": cb.Unknown(0.05, lower=0.0, upper=1.0)}
    flexible = {**rigid, "joint.flex.stiffness": cb.Unknown(20.0, lower=1.0, upper=200.0)}
    run, *held = (_shaken(_arm(stiffness), seed) for seed in range(4))
    posts = {
        name: cb.posterior(model, run, unknowns, samples=48, starts=0, h=0.005)
        for name, model, unknowns in (("rigid", _arm(None), rigid), ("flexible", _arm(20.0), flexible))
    }
    found = cb.compare_models(posts, held, window=0.5)
    best, other = found.models
    assert best.name == ("rigid" if stiffness is None else "flexible") and best.log_evidence - other.log_evidence > 20.0
    assert best.log_score is not None and other.log_score is not None and best.log_score > other.log_score
    assert best.coverage is not None and 0.85 < best.coverage < 0.95
    if stiffness is not None:
        m = posts["flexible"].parameters["joint.flex.stiffness"]
        assert abs(m.mean - stiffness) < 3.5 * m.sd < 0.02 * stiffness


def test_scores_that_do_not_tell_models_apart_leave_it_to_the_evidence() -> None:
    """Of three models that predict alike the one with least freedom comes first; a fourth that predicts worse by more than it scatters stays behind, whatever its evidence."""
    scores = {"simple": [4.790, 4.801, 4.780], "more": [4.791, 4.802, 4.780], "most": [4.791, 4.802, 4.781], "wrong": [4.1, 4.2, 4.15]}
    evidence = {"simple": 0.0, "more": -6.5, "most": -12.8, "wrong": 9.0}
    judged = [Judged(name, 2, evidence[name], 1.0, float(np.mean(s)), 0.9, 0.01) for name, s in scores.items()]
    held = {name: [np.full(100, x) for x in s] for name, s in scores.items()}
    found = ordered(judged, held)
    assert [m.name for m in found] == ["simple", "more", "most", "wrong"]
    said = of_scores(found, held)
    assert "do not tell simple from more and most" in said[0] and "between them the evidence decides" in said[0]
    assert "The evidence prefers wrong, the log score simple: trust the score" in said[1]
    wrong, simple = judged[3], judged[0]
    found = ordered([wrong, simple], {name: s[:1] for name, s in held.items()})
    assert found == [simple, wrong] and "One run was held out" in of_scores(found, {name: s[:1] for name, s in held.items()})[0]


def test_what_cannot_be_compared_is_refused() -> None:
    a, b = (cb.posterior(problems.kater(), problems.swing(seed), problems.unknown_kater(), samples=32, starts=0, h=0.02) for seed in (0, 1))
    with pytest.raises(cb.CalibodyError, match="other data"):
        cb.compare_models({"a": a, "b": b})
    with pytest.raises(cb.CalibodyError, match="two posteriors or more"):
        cb.compare_models({"a": a})
    with pytest.raises(cb.CalibodyError, match="was fitted, so it is not held out"):
        cb.compare_models({"a": a, "again": a}, problems.swing(0))
    open_ = cb.posterior(
        problems.kater(),
        problems.swing(0),
        {**problems.unknown_kater(), "world.gravity.tilt.y": cb.Unknown(0.0, prior=(0.0, 0.01))},
        samples=32,
        starts=0,
        h=0.02,
    )
    notes = cb.compare_models({"a": a, "tilted": open_}).notes
    assert any("decides nothing" in n for n in notes) and not any("neither bounds" in n for n in notes) and np.isfinite(open_.log_evidence)
