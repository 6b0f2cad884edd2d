"""The posterior density of the parameters, the motion integrated out at every value of them: one factorisation each.

With eta = (theta, l), l the logarithms of the standard deviations that the fit has found,

    log p(eta) = -min_x { 1/2 |F(x, eta)|^2 : C(x, eta) = 0 } - volume(x*, eta) - sum n l + log prior(theta)

volume is that of `marginal.py` (exact where the problem is linear and Gaussian, Laplace's method otherwise); without unmodelled forces it integrates the start of each run out. The prior of a standard deviation is Jeffreys',
flat in l: that is how noise which nobody stated is integrated out.

**One factorisation.** The motion is predicted along its linear response at the mode, x = x^ + X'(eta - eta^), linearised there once, and corrected with the same factor K (chords):

    dx = -K^-1 [Fx'F; C],   x <- x + dx,   (F, C) <- values(x, eta)         until |Fx dx| < SETTLED standard deviations of the residuals

and the cost is that of the last step's linear model, `1/2 |F + Fx dx|^2`: off the equations by C, the cost itself is off by the first order of C. Where chords do not settle, Newton's method on the states has a factorisation per step; where
that does not either (L has kinks where dry friction changes its piece) a motion within `NEARLY` counts, an error of 5e-4 in log p, and beyond it the point has failed.

It always begins at the mode, never at the last point of a chain: log p is a function of eta alone, so that chains are reversible and draws are the same in any order and in any process.

**Gradient.** By the envelope theorem `-(Ft'F + Ct'n)` at x*, the multipliers n from `Fx'F + Cx'n = 0` with the factor that is there, refined with the equations at x*; minus the slope of the volume, which is held at its value at the
mode: whatever uses a gradient is corrected by log p itself. With unmodelled forces it is that of `likelihood.py`.

**Seen through.** A point may be seen through `centre` and `turn`: `log p(eta^ + turn (eta - centre)) + log |det turn|`. So draws made on a coarse mesh are about the estimates of the fine one, and what is too narrow, because residuals are not
white or runs disagree, is stretched ([chandler2007]; `stretch.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from calibody.errors import CalibodyError, NumericalError
from calibody.estimate.by_noise import followed
from calibody.estimate.layout import States
from calibody.estimate.noise import marginal
from calibody.estimate.noise.bars import LEAST
from calibody.estimate.noise.coupling import belief
from calibody.estimate.noise.hyper import Hyper, resized, scaled_by
from calibody.estimate.noise.likelihood import Likelihood, Spot
from calibody.estimate.noise.maximise import positive
from calibody.estimate.problem import Problem
from calibody.estimate.uncertainty import stepped
from calibody.solve.condensed import Linearisation, Refined
from calibody.solve.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTLED = 1e-3
"""Standard deviations of the residuals, all together, that a further step would move them by: log p is then off by the square of it."""
NEARLY = 0.03
"""The same where a kink keeps the motion from settling."""
CHORDS, NEWTONS = 8, 10
"""Steps with one factor, and then with one each."""
SLOWLY = 0.7
"""What a chord step leaves of the one before from which on a new factor is sooner done."""
REFINEMENTS = 3
"""Of the multipliers that a gradient needs: with the factor of the predicted motion each leaves a hundredth or less."""
FARTHEST = 3.0
"""A standard deviation that was found is looked for within exp(3) of where it was: what is far smaller than what it is added to could be any size."""
LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True)
class Density:
    """log p at a point; -inf where no motion was found."""

    value: float
    gradient: np.ndarray | None
    factorisations: int
    """0: it failed."""


FAILED = Density(-np.inf, None, 0)


@dataclass(frozen=True, eq=False)
class Target:
    """log p near one of its maxima: a value, that can be sent to another process."""

    problem: Problem
    x: tuple[States, ...]
    theta: np.ndarray
    hypers: tuple[Hyper, ...]
    response: tuple[np.ndarray, ...]
    """Of every run: how its states follow the parameters that it depends on, and then l."""
    slope: np.ndarray
    """d volume/d eta at the mode."""
    information: np.ndarray
    """Minus the second derivative of log p at the mode, as far as it is known there: Gauss-Newton's; with unmodelled forces from differences of the gradient."""
    gradient: np.ndarray
    """Of log p at the mode: not zero at a bound, nor where the fit has minimised the cost alone."""
    centre: np.ndarray = field(default_factory=lambda: np.zeros(0))
    turn: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    settled: float = SETTLED

    @classmethod
    @one_thread
    def of(cls, problem: Problem, x: Sequence[States], theta: np.ndarray, hypers: Sequence[Hyper] = ()) -> Target:
        """At a solution; standard deviations of which the data want none, or which nothing tells, are left as they are."""
        made = _forced if any(run.disturbed for run in problem.runs) else _exact
        kept, response, slope, information, gradient = made(problem, tuple(x), theta, tuple(hypers))
        eta = np.concatenate([theta, [h.log_sd(problem) for h in kept]])
        return cls(problem, tuple(x), theta, kept, response, slope, information, gradient, eta, np.eye(len(eta)))

    @property
    def p(self) -> int:
        """Number of parameters; what follows are logarithms of standard deviations."""
        return len(self.theta)

    @cached_property
    def eta(self) -> np.ndarray:
        """The mode, where the motion is known."""
        return np.concatenate([self.theta, [h.log_sd(self.problem) for h in self.hypers]])

    @property
    def lower(self) -> np.ndarray:
        """Of the support, seen through."""
        return np.concatenate([self.problem.lower, [max(h.lower, at - FARTHEST) for h, at in zip(self.hypers, self.eta[self.p :], strict=True)]])

    @property
    def upper(self) -> np.ndarray:
        return np.concatenate([self.problem.upper, [min(h.upper, at + FARTHEST) for h, at in zip(self.hypers, self.eta[self.p :], strict=True)]])

    def seen(self, centre: np.ndarray, turn: np.ndarray) -> Target:
        """The same through another centre and turn."""
        return replace(self, centre=centre, turn=turn)

    @property
    def seen_information(self) -> np.ndarray:
        return self.turn.T @ self.information @ self.turn

    @property
    def seen_gradient(self) -> np.ndarray:
        return self.turn.T @ self.gradient

    def __call__(self, eta: np.ndarray, derivatives: bool = False) -> Density:
        """Seen through; the support is not looked at."""
        found = self.at(self.eta + self.turn @ (eta - self.centre), derivatives)
        if not np.isfinite(found.value):
            return found
        gradient = None if found.gradient is None else self.turn.T @ found.gradient
        return replace(found, value=found.value + float(np.linalg.slogdet(self.turn)[1]), gradient=gradient)

    @one_thread
    def at(self, eta: np.ndarray, derivatives: bool = False) -> Density:
        """log p as it is."""
        theta, problem = eta[: self.p], resized(self.problem, self.hypers, eta[self.p :])
        try:
            with np.errstate(all="ignore"):
                motions = [settle(*given, self.settled) for given in self.predicted(problem, eta)]
        except (CalibodyError, NumericalError, np.linalg.LinAlgError):  # no mechanism has such numbers
            return FAILED
        if not all(motions):
            return FAILED
        found = [motion for motion in motions if motion is not None]
        prior = problem.prior(theta)
        value = constant(problem) - belief(problem.runs[0].noise) - 0.5 * float(prior @ prior) - sum(m.cost + m.volume for m in found)
        if not np.isfinite(value):
            return FAILED
        gradient = self._gradient(problem, eta, found) if derivatives else None
        return Density(value, gradient, sum(m.factorisations for m in found))

    def predicted(self, problem: Problem, eta: np.ndarray) -> Iterator[tuple[Problem, States, np.ndarray]]:
        d = eta - self.eta
        for single, run, x, columns, response in zip(problem.singles, problem.runs, self.x, problem.columns, self.response, strict=True):
            moved = np.concatenate([d[columns], d[self.p :]])
            yield single, run.move(x, response @ moved), eta[columns]

    def _gradient(self, problem: Problem, eta: np.ndarray, found: Sequence[Motion]) -> np.ndarray:
        theta = eta[: self.p]
        if any(run.disturbed for run in problem.runs):
            function = Likelihood(self.problem, self.hypers)
            return -function.derivatives(Spot(problem, [m.x for m in found], theta, eta[self.p :], 0.0, 0.0, None)).gradient
        gradient = -self.slope.copy()
        gradient[: self.p] -= problem.prior_slope().T @ problem.prior(theta)
        for single, columns, motion in zip(problem.singles, problem.columns, found, strict=True):
            gradient[columns] -= _by_parameters(single, motion, theta[columns])
        F = np.concatenate([problem.prior(theta), *(m.F for m in found)])
        for k, hyper in enumerate(self.hypers, start=self.p):
            rows = scaled_by(problem, hyper, len(F))[0]
            gradient[k] += float(F[rows] @ F[rows]) - len(rows)
        return gradient


def constant(problem: Problem) -> float:
    """What makes log p a density of the data: the noise's own, and that of priors; the start of a run has the density one."""
    out = 0.0
    for run in problem.runs:
        for d in run.data:
            sd = run.noise.measured[d.channel.path] * np.broadcast_to(d.relative, d.y.shape)
            out -= float(np.log(sd).sum()) + 0.5 * LOG_2PI * len(d.y)
        out += LOG_2PI * (run.structure.nv - run.kept)  # half of it for each of the first two nodes' freedoms, which are integrated out
    return out - sum(float(np.log(e.prior[1])) + 0.5 * LOG_2PI for e in problem.entries if e.prior is not None)


# -- the motion of one run -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Motion:
    """That of one run at given parameters, settled."""

    x: States
    F: np.ndarray
    cost: float
    volume: float
    factor: Refined
    factorisations: int


def settle(problem: Problem, x: States, theta: np.ndarray, enough: float) -> Motion | None:
    """The motion of a problem of one run, from a predicted one on; None where it does not settle."""
    run, before = problem.runs[0], np.inf
    lin, factor, volume = _factored(problem, x, theta)
    dx = -factor.solve(_right(lin, lin.F, lin.C))[: factor.n]
    for _ in range(CHORDS):
        x = run.move(x, dx)
        F, C = _values(problem, x, theta, lin)
        if not (np.isfinite(F).all() and np.isfinite(C).all()):
            break
        dx = -factor.solve(_right(lin, F, C))[: factor.n]
        after = F + lin.Fx @ dx
        size = float(np.linalg.norm(after - F))
        if size < enough:
            return Motion(run.move(x, dx), after, 0.5 * float(after @ after), volume, factor, 1)
        if size > SLOWLY * before:
            break
        before = size
    return _newton(problem, x, theta, enough)


def _newton(problem: Problem, x: States, theta: np.ndarray, enough: float) -> Motion | None:
    """With a factorisation per step; where steps grow they are halved."""
    run, before, best = problem.runs[0], np.inf, None
    for k in range(NEWTONS):
        lin, factor, volume = _factored(problem, x, theta)
        if not (np.isfinite(lin.F).all() and np.isfinite(lin.C).all()):
            break
        dx = -factor.solve(_right(lin, lin.F, lin.C))[: factor.n]
        after = lin.F + lin.Fx @ dx
        size = float(np.linalg.norm(after - lin.F))
        if size < NEARLY:
            best = Motion(run.move(x, dx), after, 0.5 * float(after @ after), volume, factor, k + 2)
        if size < enough or not np.isfinite(size):
            break
        x, before = run.move(x, (0.5 if size > before else 1.0) * dx), size
    return best


def _factored(problem: Problem, x: States, theta: np.ndarray) -> tuple[Linearisation, Refined, float]:
    lin = problem.linearised(0, x, theta, parameters=False).part
    factor = lin.factor()
    return lin, factor, 0.5 * factor.log_determinant - marginal.dependent(problem, lin)


def _right(lin: Linearisation, F: np.ndarray, C: np.ndarray) -> np.ndarray:
    return np.concatenate([lin.Fx.T @ F, C])


def _values(problem: Problem, x: States, theta: np.ndarray, lin: Linearisation) -> tuple[np.ndarray, np.ndarray]:
    """F of the run alone, without the priors of parameters, and C."""
    F, C = problem.values([x], theta)
    return F[-len(lin.F) :], C


def _by_parameters(problem: Problem, motion: Motion, theta: np.ndarray) -> np.ndarray:
    """The derivative of the least cost by the parameters."""
    lin, n = problem.linearised(0, motion.x, theta).part, motion.factor.n
    pulled, multipliers = lin.Fx.T @ lin.F, np.zeros(len(lin.C))
    for _ in range(1 + REFINEMENTS):
        left = np.concatenate([pulled + lin.Cx.T @ multipliers, np.zeros(len(lin.C))])
        multipliers = multipliers - motion.factor.solve(left)[n:]
    return lin.Ft.T @ lin.F + lin.Ct.T @ multipliers


# -- at the mode ---------------------------------------------------------------------------------------------------------------------------

_Made = tuple[tuple[Hyper, ...], tuple[np.ndarray, ...], np.ndarray, np.ndarray, np.ndarray]


def _exact(problem: Problem, x: tuple[States, ...], theta: np.ndarray, hypers: tuple[Hyper, ...]) -> _Made:
    """Without unmodelled forces: what one step knows. The states' response to the noise of channels is left to the chords."""
    lin, taken = stepped(problem, x, theta)
    p, n = len(theta), len(hypers)
    response = tuple(np.hstack([e.response[: e.factor.n], np.zeros((e.factor.n, n))]) for e in taken.runs)
    information, gradient, slope = np.zeros((p + n, p + n)), np.zeros(p + n), np.zeros(p + n)
    slope[:p] = marginal.slope(problem, x, theta, taken)
    information[:p, :p], gradient[:p] = np.asarray(taken.information), -(taken.gradient + slope[:p])
    T = lin.together(followed(lin, taken))
    for k, hyper in enumerate(hypers, start=p):
        rows = scaled_by(problem, hyper, len(lin.F))[0]
        squares = float(lin.F[rows] @ lin.F[rows])
        slope[k] = squares - len(rows)  # the fit has made its derivative vanish
        if squares <= float(np.exp(2.0 * (hyper.lower - hyper.log_sd(problem)))) * len(rows) or hyper.log_sd(problem) <= hyper.lower:
            slope[k] = _volume_by_size(problem, x, theta, hyper)
        gradient[k] = squares - len(rows) - slope[k]
        information[k, k] = 2.0 * squares
        information[k, :p] = information[:p, k] = -2.0 * lin.F[rows] @ T[rows]
    return hypers, response, slope, information, gradient


def _volume_by_size(problem: Problem, x: Sequence[States], theta: np.ndarray, hyper: Hyper) -> float:
    """d volume/d l of a channel, the motion being the same."""
    ends = [marginal.volume(moved, problem.carried(x, moved), theta) for moved in (hyper.moved(problem, s) for s in (0.1, -0.1))]
    return (ends[0] - ends[1]) / 0.2


def _forced(problem: Problem, x: tuple[States, ...], theta: np.ndarray, hypers: tuple[Hyper, ...]) -> _Made:
    """With unmodelled forces: the likelihood's own derivatives, and its curvature from differences of them."""
    kept = _told(problem, x, theta, hypers)
    function = Likelihood(problem, kept)
    spot = Spot(problem, x, theta, function.sizes(problem), 0.0, 0.0, None)
    here, p = function.derivatives(spot), len(theta)
    W, H = function.curvature(spot, here, np.ones(p + len(kept), dtype=bool))
    back = np.linalg.pinv(W)
    information = back.T @ H @ back if _definite(H) else positive(here.hessian, np.asarray(here.taken.information))
    response, first = [], 0
    for run, columns in zip(problem.runs, problem.columns, strict=True):
        response.append(here.response[first : first + run.layout.size][:, [*columns, *range(p, p + len(kept))]])
        first += run.layout.size
    return kept, tuple(response), here.slope, information, -here.gradient


def _told(problem: Problem, x: tuple[States, ...], theta: np.ndarray, hypers: tuple[Hyper, ...]) -> tuple[Hyper, ...]:
    """Those noise sizes of which there are observations."""
    function = Likelihood(problem, hypers)
    here = function.derivatives(Spot(problem, x, theta, function.sizes(problem), 0.0, 0.0, None))
    return tuple(h for h, vanished in zip(hypers, function.vanished(here), strict=True) if not vanished)


def _definite(H: np.ndarray) -> bool:
    if not np.isfinite(H).all() or not np.all(np.diag(H) > 0.0):
        return False
    size = np.sqrt(np.diag(H))
    mu = np.linalg.eigvalsh(H / size[:, None] / size[None, :])
    return bool(mu.min() > LEAST * mu.max())
