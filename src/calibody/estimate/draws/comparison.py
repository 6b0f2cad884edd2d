"""Which of several models the data speak for: the evidence of each, and how probable each finds recordings that none was fitted to.

The evidence is the probability of the fitted data, the parameters integrated out over their priors: of two models that describe them alike, the one with less freedom has more. It depends on how wide the priors are (twice as wide bounds of an unknown that only one model has take log 2 from it),
takes the stated noise by its word, and means nothing for an unknown without bounds or a prior that not all models have. The log score asks no priors: the mean logarithm of the predictive density of samples that were not fitted, each simulated from the beginning of its run; of the models
here, the better predicts better. Where the two disagree, the score is to be trusted, if it differs by more than it scatters from run to run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calibody.errors import CalibodyError, shown
from calibody.estimate.draws.drawn import Posterior
from calibody.recording.recording import Recording

DECISIVE = 5.0
"""Difference of logarithms of evidence (a factor of 150) below which it decides nothing, whatever priors one takes."""


@dataclass(frozen=True)
class Judged:
    """One model."""

    name: str
    unknowns: int
    log_evidence: float
    """None of these numbers means anything alone, only their differences."""
    residuals: float
    """rms over all fitted samples in units of their noise."""
    log_score: float | None
    """Mean logarithm of the predictive density per held-out sample; None where there are none."""
    coverage: float | None
    """Of the 90 % bands of held-out recordings."""
    rms: float | None
    """Of held-out recordings: measured minus median of the draws."""


@dataclass(frozen=True)
class ModelComparison:
    models: tuple[Judged, ...]
    """The best first: by the log score, or by the evidence where nothing was held out, or scores do not tell models apart."""
    standard_error: float | None
    """Of the difference of log scores between the first and the second, from the scatter of the runs; None with fewer than two runs."""
    notes: tuple[str, ...]

    @property
    def best(self) -> str:
        return self.models[0].name

    def __str__(self) -> str:
        width = max(10, *(len(m.name) for m in self.models))
        top = max(m.log_evidence for m in self.models)
        lines = [f"{'model':{width}}  unknowns  log evidence  log score  in 90 % bands  residuals / noise"]
        for m in self.models:
            score = "-" if m.log_score is None else f"{m.log_score:.3f}"
            inside = "-" if m.coverage is None else f"{100.0 * m.coverage:.0f} %"
            lines.append(f"{m.name:{width}}  {m.unknowns:8d}  {m.log_evidence - top:12.1f}  {score:>9}  {inside:>13}  {m.residuals:17.3f}")
        return "\n".join([*lines, *(f"note: {n}" for n in self.notes)])


def compare_models(posteriors: Mapping[str, Posterior], held_out: Recording | Sequence[Recording] = (), window: float | None = None) -> ModelComparison:
    """Posteriors of several models of the same recordings, by name, beside each other; `held_out` recordings are predicted with each, from their first `window` seconds."""
    runs = [held_out] if isinstance(held_out, Recording) else list(held_out)
    _refuse(posteriors, runs)
    scores = {name: [_scored(post, run, window) for run in runs] for name, post in posteriors.items()}
    held = {name: [s for s, _, _ in found] for name, found in scores.items()}
    judged = ordered([_judged(name, post, scores[name]) for name, post in posteriors.items()], held)
    error = _difference(held, judged[0].name, judged[1].name)[1]
    return ModelComparison(tuple(judged), error, tuple(_notes(posteriors, judged, held)))


Held = Mapping[str, Sequence[np.ndarray]]
"""Of every model the log densities of the samples of every run that was held out."""


def ordered(judged: Sequence[Judged], held: Held) -> list[Judged]:
    """By the log score; of those that it does not tell from the best, as of those without one, by the evidence."""
    if judged[0].log_score is None:
        return sorted(judged, key=lambda m: -m.log_evidence)
    best = max(judged, key=lambda m: m.log_score or -np.inf)
    return sorted(judged, key=lambda m: (0, -m.log_evidence) if _alike(held, best.name, m.name) else (1, -(m.log_score or -np.inf)))


def _difference(held: Held, a: str, b: str) -> tuple[float, float | None]:
    """Of two models' log scores, and its standard error from the scatter of the runs: None with fewer than two."""
    d = np.array([x.mean() - y.mean() for x, y in zip(held[a], held[b], strict=True)])
    return float(d.mean()) if len(d) else 0.0, float(d.std(ddof=1) / np.sqrt(len(d))) if len(d) > 1 else None


def _alike(held: Held, a: str, b: str) -> bool:
    """Whether the runs that were held out do not tell two models apart: by all of their samples together no more than evidence that decides nothing, or no more than they scatter from run to run (95 % on one side of Student's distribution)."""
    from scipy.special import stdtrit

    difference, error = _difference(held, a, b)
    if a == b or abs(difference) * sum(map(len, held[a])) < DECISIVE:
        return True
    return error is not None and abs(difference) <= float(stdtrit(len(held[a]) - 1, 0.95)) * error


def _refuse(posteriors: Mapping[str, Posterior], runs: Sequence[Recording]) -> None:
    if not isinstance(posteriors, Mapping) or len(posteriors) < 2:
        raise CalibodyError(f'compare_models was given {shown(posteriors)}; give two posteriors or more by name, {{"viscous": post, "dry": other}}.')
    first = next(iter(posteriors.values()))
    for name, post in posteriors.items():
        if not isinstance(post, Posterior):
            raise CalibodyError(f'"{name}" is {shown(post)}; give posteriors, as cb.posterior makes them.')
        if not post.converged:
            raise CalibodyError(f'The posterior of "{name}" cannot be compared: {post.status}')
        if [_data(r) for r in post.result.recordings] != [_data(r) for r in first.result.recordings]:
            raise CalibodyError(f'"{name}" was fitted to other data than "{next(iter(posteriors))}"; evidence compares models of the same data only.')
    fitted = {_data(r) for r in first.result.recordings}
    seen = next((r.name for r in runs if _data(r) in fitted), None)
    if seen is not None:
        raise CalibodyError(f'The run "{seen}" was fitted, so it is not held out; give recordings that were not.')


def _data(recording: Recording) -> tuple[bytes, ...]:
    """What tells recordings apart, whatever their names."""
    return tuple(o.values.tobytes() for o in recording.observations)


def _scored(post: Posterior, run: Recording, window: float | None) -> tuple[np.ndarray, float, float]:
    """Log densities of all judged samples of a recording, the coverage of its bands, and the rms of its error."""
    found = post.predict(run, window)
    logs = [b.log_density[b.judged] for b in found.channels.values() if b.log_density is not None]
    return np.concatenate(logs), found.coverage, float(np.sqrt(np.mean([b.rms**2 for b in found.channels.values()])))


def _judged(name: str, post: Posterior, scores: Sequence[tuple[np.ndarray, float, float]]) -> Judged:
    result = post.result
    residuals = np.concatenate([c.deviation for c in result.fit])
    score = float(np.mean(np.concatenate([s for s, _, _ in scores]))) if scores else None
    coverage = float(np.average([c for _, c, _ in scores], weights=[len(s) for s, _, _ in scores])) if scores else None
    return Judged(
        name,
        len(post.parameters),
        post.log_evidence,
        float(np.sqrt(np.mean(residuals**2))),
        score,
        coverage,
        float(np.sqrt(np.mean([r**2 for _, _, r in scores]))) if scores else None,
    )


def _notes(posteriors: Mapping[str, Posterior], judged: Sequence[Judged], held: Held) -> list[str]:
    out = []
    if judged[0].log_score is None:
        out.append("Nothing was held out: the evidence alone depends on the priors; give recordings that were not fitted.")
    everyone = [set(p.parameters) for p in posteriors.values()]
    common = set.intersection(*everyone)
    for name, post in posteriors.items():
        entries = zip(post.parameters, post.result.problem.entries, strict=True)
        open_ = [n for n, e in entries if n not in common and e.prior is None and not (np.isfinite(e.lower) and np.isfinite(e.upper))]
        if open_:
            out.append(f'{", ".join(open_)} of "{name}" has neither bounds nor a prior, and not all models have it: its evidence means nothing beside theirs.')
    stretched = [name for name, post in posteriors.items() if post.stretched > 1.0]
    if stretched:
        out.append(f"The residuals of {', '.join(stretched)} are not the noise that was stated, which the evidence believes: its differences are too large.")
    evidence = sorted((m.log_evidence for m in judged), reverse=True)
    if evidence[0] - evidence[1] < DECISIVE:
        out.append(f"Evidence that differs by less than {DECISIVE:g} decides nothing: other priors would turn it round.")
    return [*out, *of_scores(judged, held)] if judged[0].log_score is not None else out


def of_scores(judged: Sequence[Judged], held: Held) -> list[str]:
    """How far the scores can be trusted, and what then speaks for the first."""
    first, second = judged[0].name, judged[1].name
    by_evidence = max(judged, key=lambda m: m.log_evidence).name
    tied = [m.name for m in judged[1:] if _alike(held, first, m.name)]
    out = []
    if tied:
        difference, error = _difference(held, first, tied[0])
        scatter = "" if error is None else f", with a standard error of {error:.2g} from run to run"
        out.append(
            f"The runs that were held out do not tell {first} from {' and '.join(tied)} (the log score is {abs(difference):.2g} apart{scatter}): between them the evidence decides, as far as it can."
        )
    elif _difference(held, first, second)[1] is None:
        out.append("One run was held out: how much log scores scatter from run to run is not known; give several.")
    if by_evidence != first:
        out.append(f"The evidence prefers {by_evidence}, the log score {first}: trust the score.")
    return out
