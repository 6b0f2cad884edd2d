"""Error bars: from the information of the data, corrected for what the residuals say about the noise.

With `T = Ft + Fx dx/dtheta` (how every residual follows the parameters, the states being free) the estimate responds to noise e of the
residuals as `-I^-1 T'e`, `I = T'T`. White noise of unit variance gives the naive covariance `I^-1`. Three corrections, each said in words:

- **larger residuals** than stated: times chi2/dof;
- **correlated residuals**: `I^-1 (T' Sigma T) I^-1` (sandwich), Sigma the stationary covariance of each channel with the autocorrelation of its residuals,
  estimated with a flat-top lag window [politis1995] whose width is found from the data; its spectrum is kept positive; larger by what was fitted, and by Student's quantile for how well its residuals tell it (`_sandwich`);
- **runs that disagree** (with unmodelled forces: `between.py`): the scores `g_r = T_r'F_r` of the runs scatter more than their covariance (as the two corrections above have it, but without Student's quantile: what makes an interval of few samples wide enough is no variance, and would hide any
  disagreement); the larger of the factor chi2/dof between runs and of the
  scatter of single runs, `R^2/(R - 1) I^-1 (sum g_r g_r') I^-1`. What runs disagree by is an error of the model, and more runs of the same
  kind do not average that out: the error bar does not shrink with their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibody.estimate import identifiability
from calibody.estimate.by_noise import followed, made_by_noise
from calibody.estimate.chi_square import exceeded, fisher
from calibody.estimate.layout import States
from calibody.estimate.problem import Problem
from calibody.estimate.reported import Reported, groups, reported
from calibody.estimate.result import Agreed
from calibody.estimate.run import Run
from calibody.estimate.unknowns import Entry
from calibody.solve.condensed import Runs, Step, step
from calibody.solve.threads import one_thread

NOT_WHITE = 0.01
"""Probability (Ljung-Box) below which residuals are taken as correlated."""
DISAGREE = 0.01
"""Probability below which runs are taken as disagreeing."""
LAGS = 20
"""Lags of the Ljung-Box test."""


@dataclass(frozen=True, kw_only=True)
class Uncertainty:
    """Covariance and what it means at a solution."""

    reported: Reported
    analysis: identifiability.Identifiability
    at_bound: np.ndarray
    sd: np.ndarray
    """inf where the data do not determine the parameter."""
    sd_naive: np.ndarray
    covariance: np.ndarray
    chi2: float
    dof: int
    white: dict[tuple[int, str], float]
    """Probability that the residuals of (run, channel) are white."""
    agreement: Agreed | None
    robust: bool
    """Whether the sandwich was used."""
    covariance_theta: np.ndarray
    """Of what is solved for, where that differs from what is reported."""
    factor: float
    """By which the naive covariance was multiplied."""
    step: Step | None
    """None where it is large, and in what came from another process: it is made again where it is asked for."""
    missing: np.ndarray | None = None
    """The part of the covariance of what is reported that stands for what the model lacks (`misled.py`)."""
    missing_theta: np.ndarray | None = None
    """The same of what is solved for; `covariance_theta` is without it."""

    @property
    def scatter(self) -> np.ndarray:
        """The covariance of what is reported without that: by how much estimates would scatter from recording to recording."""
        return self.covariance if self.missing is None else self.covariance - self.missing

    @property
    def known_theta(self) -> np.ndarray:
        """The covariance of what is solved for with all that its error bars allow for."""
        return self.covariance_theta if self.missing_theta is None else self.covariance_theta + self.missing_theta

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "step": None}

    def stepped(self, problem: Problem, x: Sequence[States], theta: np.ndarray) -> Step:
        """The step at the solution that this is about."""
        if self.step is None:
            object.__setattr__(self, "step", stepped(problem, x, theta)[1])
        assert self.step is not None
        return self.step

    @property
    def without_bars(self) -> Uncertainty:
        """As of a fit that did not converge: where it stopped says nothing about how far the parameters may be off."""
        open_, unknown = np.full(len(self.sd), np.inf), np.full_like(self.covariance, np.nan)
        return replace(self, sd=open_, sd_naive=open_, covariance=unknown, covariance_theta=unknown, missing_theta=None, agreement=None)


@dataclass(frozen=True)
class Apart:
    """Whether runs agree, and by how much each of them moves the joint estimates (runs, parameters)."""

    agreed: Agreed
    moves: np.ndarray


Between = Callable[[np.ndarray], Apart | None]
"""Of the parameters that the data determine and that are not at a bound: how far runs are apart, where more is known of it than Gauss-Newton's information (`between.py`)."""


@one_thread
def stepped(problem: Problem, x: Sequence[States], theta: np.ndarray) -> tuple[Runs, Step]:
    """The linearisation at a solution, and the step that is taken from there: none, but with the information of the data."""
    lin = problem.linearise(x, theta, hold_scale=False)
    return lin, step(lin, theta, problem.lower, problem.upper, 0.0 * theta, problem.scale)


@one_thread
def assess(
    problem: Problem,
    x: Sequence[States],
    theta: np.ndarray,
    freedom: int,
    given: bool,
    likely: np.ndarray | None = None,
    between: Between | None = None,
    doubted: bool = False,
) -> Uncertainty:
    """`freedom`: degrees of freedom of the mechanism; `given`: the noise of all channels was stated; `likely`: covariance from the likelihood itself (`bars.py`), with what that says `between` runs;
    `doubted`: whether information may be made by noise (`by_noise.py`)."""
    lin, taken = stepped(problem, x, theta)
    at_bound = (theta <= problem.lower) | (theta >= problem.upper)
    samples = sum(run.samples for run in problem.runs)
    dof = samples - len(theta) - sum(run.free_states(freedom) for run in problem.runs)
    chi2 = float(lin.F @ lin.F)
    factor = chi2 / dof if dof > 0 else 1.0
    factor = max(1.0, factor) if given else factor
    information = np.asarray(taken.information)
    if doubted:
        information = information - made_by_noise(problem, x, theta, lin, taken)
    analysis = identifiability.analyse(information, [e.name for e in problem.entries], theta, problem.scale, at_bound, factor)
    naive = analysis.covariance
    T = followed(lin, taken)
    white = _whiteness(problem, lin)
    exact = not any(len(run.disturbed) for run in problem.runs)  # smoothed residuals are correlated by themselves
    robust = exact and any(p < NOT_WHITE for p in white.values())
    middles = _middles(problem, lin, T, white, given) if robust else [Middle((max(1.0, factor) * (t.T @ t),), (np.inf,)) for t in T]
    covariance = _sandwich(lin, middles, naive / factor) if robust else naive if likely is None else likely
    apart = between(analysis.resolved & ~at_bound) if between is not None and len(problem.runs) > 1 else None
    if apart is None and len(problem.runs) > 1:
        apart = _between(problem, lin, T, middles, naive / factor, analysis, at_bound)
    agreement = None if apart is None else apart.agreed
    if apart is not None and not apart.agreed.agree:
        covariance = _scattered(apart, covariance)
    larger = np.sqrt(np.maximum(np.diag(covariance), np.diag(naive)))  # a correction never shrinks an error bar
    if robust or likely is not None or (agreement is not None and not agreement.agree):
        size = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
        covariance = covariance * (larger / size)[:, None] * (larger / size)[None, :]
    found = Uncertainty(
        reported=reported(problem.entries, theta),
        analysis=analysis,
        at_bound=at_bound,
        sd=larger,
        sd_naive=larger,
        covariance=covariance,
        chi2=chi2,
        dof=dof,
        white=white,
        agreement=agreement,
        robust=robust,
        covariance_theta=covariance,
        factor=factor,
        step=taken,
    )
    found = in_reported(problem.entries, theta, problem.scale, found, naive)
    return found if problem.small else replace(found, step=None)


def in_reported(entries: Sequence[Entry], theta: np.ndarray, scale: np.ndarray, solved: Uncertainty, naive: np.ndarray) -> Uncertainty:
    """From what is solved for to the numbers that are reported (a body's ten instead of its chart), with sentences and error bars; `naive` covariance likewise."""
    shown, covariance = solved.reported, solved.covariance_theta
    if any(e.group is not None for e in entries):
        J = shown.by_theta
        covariance, naive = J @ covariance @ J.T, J @ naive @ J.T
        assert solved.step is not None
        analysis = in_numbers(np.asarray(solved.step.information), entries, theta, solved.at_bound, solved.factor, covariance)
    else:
        analysis = identifiability.renamed(solved.analysis, shown.names, theta, scale, covariance)
    sd, sd_naive = (np.where(analysis.resolved, np.sqrt(np.maximum(np.diag(c), 0.0)), np.inf) for c in (covariance, naive))
    return replace(solved, analysis=analysis, sd=sd, sd_naive=sd_naive, covariance=covariance)


def in_numbers(
    information: np.ndarray, entries: Sequence[Entry], theta: np.ndarray, at_bound: np.ndarray, factor: float, covariance: np.ndarray | None = None
) -> identifiability.Identifiability:
    """Identifiability of the numbers reported, from the information of what is solved for; where bodies are solved for in a chart of their own, the
    determined combinations are in the numbers that the equations are linear in (base parameters). `covariance`, of the numbers reported, where it is
    not the inverse of the information."""
    shown, base = reported(entries, theta), reported(entries, theta, linear=True)
    found, linear = (_transformed(information, r, at_bound, factor) for r in (shown, base))
    if covariance is not None:
        turn = base.by_theta @ np.linalg.inv(shown.by_theta)
        linear = identifiability.renamed(linear, base.names, base.values, base.scale, turn @ covariance @ turn.T)
        found = replace(found, covariance=covariance)
    return replace(found, sentences=linear.sentences, determined=(*_on_their_own(entries, shown, base, found, linear), *linear.determined))


def _on_their_own(
    entries: Sequence[Entry], shown: Reported, base: Reported, found: identifiability.Identifiability, linear: identifiability.Identifiability
) -> Iterator[identifiability.Determined]:
    """First moments and inertias about the origin that the data determine, of bodies whose reported numbers they do not."""
    for _, at in groups(entries):
        for k in range(at.start, at.stop) if not found.resolved[at].all() else ():
            if linear.resolved[k] and base.names[k] not in shown.names:
                yield identifiability.Determined(base.names[k], float(base.values[k]), float(np.sqrt(linear.covariance[k, k])), ((base.names[k], 1.0),))


def _transformed(information: np.ndarray, r: Reported, at_bound: np.ndarray, factor: float) -> identifiability.Identifiability:
    back = np.linalg.inv(r.by_theta)
    return identifiability.analyse(back.T @ information @ back, r.names, r.values, r.scale, at_bound, factor)


def _rows(run: Run) -> list[tuple[str | None, slice]]:
    """(channel or None for noise, rows of the run's F)"""
    first, out = 0, []
    for d in run.data:
        out.append((d.channel.path, slice(first, first + len(d.y))))
        first += len(d.y)
    return [*out, (None, slice(first, first + run.layout.priors))]


def autocorrelation(x: np.ndarray) -> np.ndarray:
    """r_0, r_1, ... of a residual (not centred: residuals of a fit have mean zero)."""
    n = len(x)
    spectrum = np.abs(np.fft.rfft(x, 2 * n)) ** 2
    return np.fft.irfft(spectrum)[:n] / n


def whiteness(x: np.ndarray) -> float:
    """Probability of the Ljung-Box statistic of a residual if it were white."""
    n = len(x)
    lags = min(LAGS, n // 5)
    r = autocorrelation(x)
    if lags < 1 or r[0] <= 0.0:
        return 1.0
    rho = r[1 : lags + 1] / r[0]
    statistic = n * (n + 2) * float((rho**2 / (n - np.arange(1, lags + 1))).sum())
    return exceeded(lags, statistic)


def _whiteness(problem: Problem, lin: Runs) -> dict[tuple[int, str], float]:
    return {
        (r, channel): whiteness(part.F[rows]) if run.clocked else 1.0  # poses have no order in which residuals could go together
        for r, (run, part) in enumerate(zip(problem.runs, lin.parts, strict=True))
        for channel, rows in _rows(run)
        if channel is not None
    }


def flat_top(r: np.ndarray) -> np.ndarray:
    """The autocovariance under a window that is flat up to the lag where correlations end and falls to zero at twice that lag.

    They end where five lags in a row are below `2 sqrt(log10(n)/n)` [politis2003].
    """
    n = len(r)
    small = np.abs(r / r[0]) < 2.0 * np.sqrt(np.log10(max(n, 10)) / n)
    end = next((m for m in range(1, n // 3) if small[m : m + 5].all()), n // 3)
    lags = np.arange(n)
    return r * np.clip(2.0 - lags / end, 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Middle:
    """`T' Sigma T` of one run, the covariance of its scores, channel by channel, and with how many degrees of freedom each is known (infinitely many, where residuals are white)."""

    pieces: tuple[np.ndarray, ...]
    freedoms: tuple[float, ...]

    @property
    def matrix(self) -> np.ndarray:
        return np.sum(self.pieces, axis=0)

    def freedom(self, weight: np.ndarray) -> float:
        """Of all channels together, each by what it adds in the metric `weight` (Welch and Satterthwaite)."""
        return _pooled(np.array([np.sum(piece * weight) for piece in self.pieces]), np.array(self.freedoms))


def _pooled(parts: np.ndarray, freedoms: np.ndarray) -> float:
    """Degrees of freedom of a sum of variances (last axis) that are known with so many each."""
    total = parts.sum()
    uncertain = float(np.sum(parts**2 / freedoms))
    return float(total**2 / uncertain) if uncertain > 0.0 else np.inf


def _middles(problem: Problem, lin: Runs, T: Sequence[np.ndarray], white: dict[tuple[int, str], float], given: bool) -> list[Middle]:
    """Of every run; channels whose residuals are white keep their own variance."""
    out = []
    for r, (run, part) in enumerate(zip(problem.runs, lin.parts, strict=True)):
        pieces = []
        for channel, rows in _rows(run):
            likely = 1.0 if channel is None else white[r, channel]
            fitted = (T[r].shape[1] + 2 * run.structure.nv) * (rows.stop - rows.start) / max(run.samples, 1)
            pieces.append(_scatter(T[r][rows], part.F[rows], likely < NOT_WHITE, given and channel is not None, fitted))
        out.append(Middle(*zip(*pieces, strict=True)))
    return out


def _sandwich(lin: Runs, middles: Sequence[Middle], inverse: np.ndarray) -> np.ndarray:
    """`I^-1 (T' Sigma T) I^-1`; so that 1.96 bars are a 95 % interval all the same, every channel of every run is larger by Student's quantile for the degrees of freedom with which its scatter is known.

    With one quantile for all of them together (Welch and Satterthwaite) bars are smaller, by two to three on six runs of a real pendulum whose residuals have five independent samples each, and the bands of other runs held 45 % instead
    of 83 %: a channel that hardly tells its own scatter cannot be told by others what it is.
    """
    middle = (lin.loose_theta.T @ lin.loose_theta).toarray()
    for own, columns in zip(middles, lin.columns, strict=True):
        middle[np.ix_(columns, columns)] += sum(few(f) ** 2 * piece if np.isfinite(f) else piece for piece, f in zip(own.pieces, own.freedoms, strict=True))
    return inverse @ middle @ inverse


def _scatter(t: np.ndarray, e: np.ndarray, correlated: bool, given: bool, fitted: float) -> tuple[np.ndarray, float]:
    """`t' Sigma t` of one channel with the residuals e, for which `fitted` numbers were found, and with how many degrees of freedom it is known.

    Correlated noise has few independent samples m: residuals are smaller than the noise by m/(m - fitted) (in squares) as white ones are by n/(n - fitted), and what they scatter by is known
    with `n/sum w^2` degrees of freedom, w the weights of all lags under the window (both signs).
    """
    if not correlated:
        return (max(1.0, float(np.mean(e**2))) if given else 1.0) * (t.T @ t), np.inf
    n = len(e)
    r = autocorrelation(e)
    covariance = flat_top(r)
    window = np.divide(covariance, r, out=np.zeros(n), where=r != 0.0)
    independent = n * r[0] / max(r[0] + 2.0 * float(covariance[1:].sum()), r[0])
    larger = independent / max(independent - fitted, 0.5 * independent)
    spectrum = np.maximum(np.fft.rfft(np.concatenate([covariance, [0.0], covariance[:0:-1]])).real, 0.0)
    waves = np.fft.rfft(t, 2 * n, axis=0)
    weight = np.full(n + 1, 2.0)
    weight[[0, -1]] = 1.0
    return larger * ((waves.conj() * (weight * spectrum)[:, None]).T @ waves).real / (2 * n), n / float(2.0 * (window**2).sum() - 1.0)


def few(freedom: float) -> float:
    """Student's 95 % quantile over the normal one: by how much an error bar has to be larger whose size is known with so many degrees of freedom."""
    from scipy.special import ndtri, stdtrit  # takes as long to import as a small fit, and few need it

    return float(stdtrit(max(freedom, 1.0), 0.975) / ndtri(0.975))


def _scores(problem: Problem, lin: Runs, T: Sequence[np.ndarray]) -> list[np.ndarray]:
    """g_r of every run, over the parameters that it depends on; the slope of the likelihood's volume is shared out evenly."""
    slope = np.broadcast_to(np.asarray(problem.slope, dtype=float), (lin.parameters,))
    used = np.bincount(np.concatenate(lin.columns), minlength=lin.parameters)
    return [t.T @ part.F + (slope / np.maximum(used, 1))[columns] for t, part, columns in zip(T, lin.parts, lin.columns, strict=True)]


def _between(
    problem: Problem,
    lin: Runs,
    T: Sequence[np.ndarray],
    middles: Sequence[Middle],
    inverse: np.ndarray,
    analysis: identifiability.Identifiability,
    at_bound: np.ndarray,
) -> Apart | None:
    """chi2 of the runs' own estimates about the joint one: `sum g_r' M_r^+ g_r`, over the parameters that all runs share and the data resolve; `M_r`, of `middles`,
    is the covariance of the scores as the residuals show it, larger than stated or correlated: neither is a disagreement. Where that is known with few degrees of freedom f_r, chi2 of a run is larger by f_r/(f_r - 2) on
    average, which is taken off, and compared as Fisher's variable with those of all runs."""
    common = np.array([e.run is None for e in problem.entries], dtype=bool)
    shared, own = common & analysis.resolved & ~at_bound, ~common & analysis.resolved
    if not shared.any():
        return None
    chi2, rank, expected, freedom, S = 0.0, 0, 0.0, 0.0, problem.scale[shared]
    scores = _scores(problem, lin, T)
    for t, g, middle, columns in zip(T, scores, middles, lin.columns, strict=True):
        keep, mine = np.flatnonzero(shared[columns]), np.flatnonzero(own[columns])
        A = np.eye(len(columns))[:, keep]
        if len(mine):  # the run's own parameters are free
            information = t.T @ t
            A[mine] -= np.linalg.solve(information[np.ix_(mine, mine)], information[np.ix_(mine, keep)])
        s, M = A.T @ g, A.T @ middle.matrix @ A
        mu, V = np.linalg.eigh(M * S[:, None] * S[None, :])
        good = mu > 1e-8 * mu.max()
        chi2 += float((((V.T @ (S * s))[good]) ** 2 / mu[good]).sum())
        rank += int(good.sum())
        known = middle.freedom(A @ np.linalg.pinv(M) @ A.T)
        expected += int(good.sum()) * (1.0 if np.isinf(known) else known / max(known - 2.0, 1.0))
        freedom += known
    dof = rank - int(shared.sum())
    if dof <= 0:
        return None
    chi2 *= rank / expected
    probability = exceeded(dof, chi2) if np.isinf(freedom) else fisher(chi2 / dof, dof, freedom)
    moves = np.array([inverse[:, columns] @ g for g, columns in zip(scores, lin.columns, strict=True)])
    return Apart(Agreed(probability >= DISAGREE, chi2, dof, probability), moves)


def _scattered(apart: Apart, covariance: np.ndarray) -> np.ndarray:
    """Inflated by the scatter of the runs. From R runs that has R - 1 degrees of freedom: so that twice the error bar is a 95 % interval all the same, it is larger by
    Student's quantile over the normal one (6.5 for two runs, 2.2 for three, 1.05 for 26)."""
    R = len(apart.moves)
    clustered = R * R / (R - 1) * (apart.moves**2).sum(axis=0)
    factor = max(1.0, apart.agreed.chi2 / apart.agreed.dof)
    wanted = np.maximum(few(R - 1) ** 2 * clustered, factor * np.diag(covariance))
    size = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    ratio = np.sqrt(wanted) / size
    return covariance * ratio[:, None] * ratio[None, :]
