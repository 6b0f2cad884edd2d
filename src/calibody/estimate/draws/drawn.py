"""What `posterior` returns: draws of the parameters, the explanations they belong to, and how far they can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from calibody import html
from calibody.errors import CalibodyError
from calibody.estimate.missing.misled import TOLD
from calibody.solve import importance

if TYPE_CHECKING:
    from calibody.estimate.draws.bands import Band, Predicted
    from calibody.estimate.draws.checks import Check
    from calibody.estimate.draws.target import Target
    from calibody.estimate.result import Estimate, Result
    from calibody.recording.recording import Recording

SHIFTED, WIDER, SKEWED = 0.3, 0.2, 0.5
"""Shift in standard deviations, relative difference of standard deviations, and skewness from which a posterior is not what the error bars say."""


@dataclass(frozen=True, eq=False)
class Marginal:
    """One parameter: its distribution, whatever the others are."""

    path: str
    unit: str
    values: np.ndarray = field(repr=False)
    weights: np.ndarray = field(repr=False)
    estimate: Estimate
    """What the fit says about it."""

    @property
    def mean(self) -> float:
        return float(self.weights @ self.values)

    @property
    def sd(self) -> float:
        return float(np.sqrt(self.weights @ (self.values - self.mean) ** 2))

    def quantile(self, q: float | Sequence[float] | np.ndarray) -> Any:
        """A number, or as many as were asked for."""
        asked = np.asarray(q, dtype=float)
        if np.any((asked < 0.0) | (asked > 1.0)):
            raise CalibodyError(f"A quantile at {q!r} was asked for; give numbers between 0 and 1.")
        found = importance.quantile(self.values, self.weights, asked)
        return float(found) if asked.ndim == 0 else found

    @property
    def median(self) -> float:
        return self.quantile(0.5)

    @property
    def interval(self) -> tuple[float, float]:
        """That holds it with 90 % probability."""
        low, high = self.quantile([0.05, 0.95])
        return float(low), float(high)

    @property
    def skewness(self) -> float:
        sd = self.sd
        return float(self.weights @ (self.values - self.mean) ** 3 / sd**3) if sd > 0.0 else 0.0

    @property
    def shift(self) -> float | None:
        """Of the mean from the estimate, in standard deviations of the fit, those of its scatter; None where that has none."""
        return None if not self.estimate.scatter else (self.mean - self.estimate.value) / self.estimate.scatter

    @property
    def ratio(self) -> float | None:
        """Its standard deviation over that of the fit's scatter: what error bars allow beside it for what the model lacks is in no draw; None where there is none."""
        return None if not self.estimate.scatter else self.sd / self.estimate.scatter

    @property
    def remarkable(self) -> bool:
        """Whether the fit's error bar says something else."""
        if self.shift is None or self.ratio is None:
            return True
        return abs(self.shift) > SHIFTED or abs(self.ratio - 1.0) > WIDER or abs(self.skewness) > SKEWED

    @property
    def allowed(self) -> float | None:
        """How many times as wide as its scatter the error bar is, because it allows for what the model lacks: by so much an interval of the draws is too narrow. None where there is nothing to say."""
        sd, scatter = self.estimate.sd, self.estimate.scatter
        return sd / scatter if sd and scatter and sd > TOLD * scatter else None

    @property
    def limit(self) -> float | None:
        """Of one whose fit ended at a bound: with 95 % probability it lies between the bound and this."""
        if not self.estimate.at_bound:
            return None
        return self.quantile(0.95 if self.estimate.value <= self.estimate.lower else 0.05)


@dataclass(frozen=True, eq=False)
class Explanation:
    """One maximum of the posterior."""

    values: dict[str, float]
    mass: float
    """Its share of all probability."""
    laplace_mass: float
    """The same as Laplace's method has it."""
    log_evidence: float
    """By Laplace's method."""
    found_by: str
    """ "fit", "start 3", or the symmetry that makes it of another."""
    covariance: np.ndarray = field(repr=False)
    """Of what is solved for, by Laplace's method."""


@dataclass(frozen=True, eq=False)
class Raw:
    """The draws as they were made."""

    draw: np.ndarray
    """Their numbers."""
    mode: np.ndarray
    """The explanation whose Gaussian has made each, or whose chain."""
    eta: np.ndarray
    """What was drawn: the parameters as they are solved for, then logarithms of standard deviations."""
    values: np.ndarray
    """The parameters as they are reported."""
    log_p: np.ndarray
    """-inf where the density could not be had."""
    log_q: np.ndarray
    weight: np.ndarray
    """Adding up to one."""
    names: tuple[str, ...]
    """Of the columns of `eta`."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws from the posterior of a fit; `status` is "converged" or a sentence that says why they are not to be trusted."""

    status: str
    parameters: dict[str, Marginal]
    modes: tuple[Explanation, ...]
    dropped: tuple[tuple[str, np.ndarray, float], ...] = field(repr=False)
    """(found by, values, share) of explanations that count for nothing."""
    khat: float
    """Of the weights: below 0.5 they are as good as any, above 0.7 they cannot be trusted; infinite where there are none (chains)."""
    ess: float
    """How many independent draws they are worth."""
    rhat: float | None
    """Of chains; None where there are none."""
    log_evidence: float
    """Of the model, the start of every run having the density one; where an unknown has neither bounds nor a prior, only differences of models with the same one mean anything."""
    sampler: str
    """ "importance", "adapted", "student", "hmc", "smc", "svgd" or "csvgd"."""
    noise: str
    """ "naive": as stated or found; "scaled": residuals were larger; "sandwich": not white, or runs disagree."""
    stretched: float
    """The largest factor by which draws were stretched for that."""
    samples: int
    seed: int
    starts: int
    converged_starts: int
    evaluations: int
    failed: int
    h: float
    """Step of the mesh that they were drawn on [s]."""
    lost: float | None
    """Scatter of log p between that mesh and the fit's over some draws; None where they are one."""
    seconds: float
    notes: tuple[str, ...]
    raw: Raw = field(repr=False)
    result: Result = field(repr=False)
    targets: tuple[Target, ...] = field(repr=False)
    """The density near every explanation."""
    fine: tuple[int, Target] | None = field(default=None, repr=False)
    """Where another mesh was drawn on: the explanation of the fit, and the density near it on the fit's own mesh."""

    @property
    def converged(self) -> bool:
        return self.status == "converged"

    @cached_property
    def picked(self) -> np.ndarray:
        """Numbers of rows of `raw` that weigh the same."""
        return importance.resampled(self.raw.weight, self.samples, self.seed)

    @property
    def draws(self) -> np.ndarray:
        """(n, parameters), as reported, all of the same weight."""
        return self.raw.values[self.picked]

    def predict(self, recording: Recording, window: float | None = None, draws: int = 100, level: float = 0.9) -> Predicted:
        """A recording simulated with draws of the parameters, each from a start drawn as its first `window` seconds leave it: a band for every observed channel, and how many samples it holds."""
        from calibody.estimate.draws.bands import predict

        return predict(self, recording, window, draws, level)

    def band(self, channel: str, run: str | int = 0, draws: int = 100, level: float = 0.9) -> Band:
        """Any channel of the estimated motion of a run that was fitted, forces included, with the quantiles that the draws leave it."""
        from calibody.estimate.draws.bands import band

        return band(self, channel, run, draws, level)

    def check(self, draws: int = 100) -> Check:
        """What the draws say about data like those that were fitted, beside those: too large, with a memory, a sample too far off?"""
        from calibody.estimate.draws.checks import check

        return check(self, draws)

    def to_arviz(self) -> Any:
        """As arviz' data: one chain of equally weighted draws; needs arviz."""
        try:
            from arviz import from_dict  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise CalibodyError("post.to_arviz() needs the package arviz, which is not installed; pip install arviz.") from None
        draws = {name: self.draws[None, :, k] for k, name in enumerate(self.parameters)}
        return (
            from_dict(posterior=draws) if "posterior" in signature(from_dict).parameters else from_dict({"posterior": draws})
        )  # before 1.0, and from there on

    @property
    def verdict(self) -> str:
        """One sentence on whether this is the posterior."""
        return verdict_of(self.status, self.samples, self.ess, self.khat, self.rhat)

    def __str__(self) -> str:
        return described(self)

    def _repr_html_(self) -> str:
        return described_html(self)


def verdict_of(status: str, samples: int, ess: float, khat: float | None, rhat: float | None) -> str:
    """The same from a file, which has no infinite k-hat."""
    if status != "converged":
        return status
    if rhat is not None:
        return f"The posterior is as sampled: chains agree (R-hat {rhat:.3f}) and are worth {ess:.0f} independent draws."
    if khat is None or not np.isfinite(khat):
        return f"{samples} particles of Stein's method have come to rest; nothing says how well they stand for the posterior."
    caution = "" if khat < importance.GOOD else ", with caution: few draws carry much of the weight"
    return f"The posterior is as sampled{caution} ({samples} draws worth {ess:.0f}, k-hat {khat:.2f})."


def explanations(modes: Sequence[Explanation]) -> str:
    """How many there are, in a sentence."""
    if len(modes) == 1:
        return "One explanation was found."
    masses = " and ".join(f"{100.0 * m.mass:.3g} %" for m in modes)
    return f"{len(modes)} explanations were found, of {masses} probability."


def described(post: Posterior) -> str:
    lines = [f"status: {post.status}", post.verdict] if post.converged else [f"status: {post.status}"]
    lines.append(explanations(post.modes))
    width = max(map(len, post.parameters), default=9)
    lines.append(f"{'parameter':{width}}  {'median':>12} {'5 %':>12} {'95 %':>12}  {'fit':>12} {'sd':>9}  unit")
    for name, m in post.parameters.items():
        low, high = m.interval
        sd = f"{m.estimate.sd:.2g}" if m.estimate.sd is not None else "at bound" if m.estimate.at_bound else "none"
        mark = (" *" if m.remarkable and m.estimate.sd is not None else "") + ("" if m.allowed is None else f" ~{m.allowed:.2g}")
        lines.append(f"{name:{width}}  {m.median:12.6g} {low:12.6g} {high:12.6g}  {m.estimate.value:12.6g} {sd:>9}  {m.unit}{mark}")
    if any(m.remarkable and m.estimate.sd is not None for m in post.parameters.values()):
        lines.append("* not what the fit's error bar says: shifted by more than 0.3 of it, wider or narrower by a fifth, or skewed")
    if any(m.allowed is not None for m in post.parameters.values()):
        lines.append("~ the error bar is so many times as wide: it allows for what the model lacks, and the draws do not")
    for k, m in enumerate(post.modes if len(post.modes) > 1 else ()):
        lines.append(f"explanation {k + 1} ({m.found_by}): {100.0 * m.mass:.3g} %, " + ", ".join(f"{n} = {v:.5g}" for n, v in m.values.items()))
    return "\n".join([*lines, *(f"note: {n}" for n in post.notes)])


def described_html(post: Posterior) -> str:
    rows = []
    for name, m in post.parameters.items():
        low, high = m.interval
        sd = "" if m.estimate.sd is None else f"{m.estimate.sd:.2g}"
        rows.append((name, f"{m.median:.6g}", f"{low:.6g}", f"{high:.6g}", f"{m.estimate.value:.6g}", sd, m.unit))
    masses = [(str(k + 1), m.found_by, f"{100.0 * m.mass:.3g} %") for k, m in enumerate(post.modes)]
    return html.block(
        f"status: {post.status}",
        html.sentences([post.verdict, explanations(post.modes)] if post.converged else [explanations(post.modes)]),
        html.table(("parameter", "median", "5 %", "95 %", "fit", "sd", "unit"), rows, numbers=(1, 2, 3, 4, 5)),
        html.table(("explanation", "found by", "probability"), masses, numbers=(2,)) if len(masses) > 1 else "",
        html.sentences([f"note: {n}" for n in post.notes]),
    )
