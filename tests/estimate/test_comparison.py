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
