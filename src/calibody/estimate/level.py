"""The solution on one mesh, and what the next finer one has changed.

A mesh is fine enough where halving it moves no parameter by more than a fraction of its standard deviation. What is left is the discretisation error that stands beside each estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from calibody.estimate.noise.bars import Bars, bars
from calibody.estimate.noise.between import between
from calibody.estimate.noise.likelihood import Likelihood, Spot
from calibody.estimate.noise.unforced import too_large
from calibody.estimate.problem import Problem
from calibody.estimate.reported import reported
from calibody.estimate.result import COARSE
from calibody.estimate.uncertainty import Uncertainty, assess
from calibody.solve.gauss_newton import Solution

MOVES = 0.3
"""The mesh is fine enough when halving h moves no parameter by more than this many standard deviations."""
MUCH = 4.0
"""Times that, all parameters together (root of the mean square in their own white-noise metric): so far from fine enough that no error bars are needed to see it."""
LARGEST = 4_000_000
"""Entries of the derivative of the equations with respect to the parameters (velocities of all nodes times parameters) beyond which a mesh is not
halved any more: iterations take seconds there, and what the mesh may still change is reported."""


@dataclass(frozen=True)
class Level:
    """The solution on one mesh."""

    problem: Problem
    solution: Solution
    given: bool
    """Whether the noise of all channels was stated."""
    likely: tuple[Likelihood, Spot] | None = None
    """With unmodelled forces: the likelihood and where it has its maximum."""

    @cached_property
    def bars(self) -> Bars | None:
        """With unmodelled forces, once the maximum is found: what the likelihood itself says of the error bars."""
        return bars(*self.likely) if self.likely is not None and self.solution.converged else None

    @cached_property
    def final(self) -> Uncertainty:
        """Error bars with all that can be said of them."""
        if self.bars is None or self.likely is None:
            return self.found
        freedom = self.problem.runs[0].structure.nv - self.problem.runs[0].kept
        runs = partial(between, *self.likely, self.bars.covariance)
        return assess(self.problem, self.solution.x, self.solution.theta, freedom, self.given, self.bars.covariance, runs)

    @cached_property
    def found(self) -> Uncertainty:
        """Its error bars, if anyone asks: they cost as much as an iteration."""
        freedom = self.problem.runs[0].structure.nv - self.problem.runs[0].kept
        return assess(self.problem, self.solution.x, self.solution.theta, freedom, self.given)

    @cached_property
    def values(self) -> np.ndarray:
        """What is reported."""
        return reported(self.problem.entries, self.solution.theta).values

    @property
    def entries(self) -> int:
        """Of the derivative of the equations with respect to the parameters."""
        return sum(run.K * run.structure.nv * len(columns) for run, columns in zip(self.problem.runs, self.problem.columns, strict=True))

    def fits(self, share: float = 1.0) -> bool:
        """Whether those are not more than a share of the most that there may be."""
        return self.entries <= share * LARGEST

    @property
    def halvable(self) -> bool:
        """Whether a mesh of half the step is not too large."""
        return self.fits(0.5)


def settled(levels: Sequence[Level]) -> bool:
    """Whether halving the mesh moved nothing much. Where the parameters together moved very much, as the last step says, no error bars are needed to see that it did."""
    last, moved = levels[-1].solution.last, levels[-1].solution.theta - levels[-2].solution.theta
    if last is not None and moved @ last.information @ moved > (MUCH * MOVES) ** 2 * len(moved):
        return False
    return _within(levels, levels[-1].found.sd) or (levels[-1].bars is not None and _within(levels, levels[-1].final.sd))


def _within(levels: Sequence[Level], sd: np.ndarray) -> bool:
    """Whether halving the mesh moved the values by a fraction of these standard deviations. (With unmodelled forces, first of Gauss-Newton's, which are free and may be several times too small.)"""
    values = [level.values for level in levels]
    moved, error = np.abs(values[-1] - values[-2]), discretisation(values, second_order(values))
    assert error is not None
    return bool(np.all(((moved <= MOVES * sd) & (error <= COARSE * sd)) | ~np.isfinite(sd) | (sd == 0.0)))


def hopeless(levels: Sequence[Level]) -> bool:
    """Whether the residuals are too large and halving the mesh did not halve what is too much of them: it is the model, not its discretisation."""
    excess = [2.0 * level.solution.cost - sum(run.samples for run in level.problem.runs) for level in levels[-2:]]
    return len(excess) == 2 and excess[1] > 0.5 * excess[0] and bool(too_large(levels[-1].problem, levels[-1].solution.x, levels[-1].solution.theta))


def unsettled(levels: Sequence[Level]) -> str:
    h = 1e3 * levels[-1].problem.runs[0].h
    if len(levels) == 1:
        return f"The mesh (h = {h:.3g} ms) was not refined, because it is large already; give h to see what a finer one says."
    moved, sd = np.abs(levels[-1].values - levels[-2].values), levels[-1].found.sd
    most = float(np.max((moved / sd)[np.isfinite(sd) & (sd > 0.0)], initial=0.0))
    return (
        f"Halving the mesh to h = {h:.3g} ms still moved a parameter by {most:.2g} of its standard deviation, and it was not refined further: "
        "allow for the discretisation error that stands beside each."
    )


def second_order(thetas: Sequence[np.ndarray]) -> bool:
    """Whether halving the mesh made the changes about four times smaller, those of two numbers in three: that one's did means nothing."""
    if len(thetas) < 3:
        return False
    last, before = np.abs(thetas[-1] - thetas[-2]), np.abs(thetas[-2] - thetas[-3])
    return bool(np.mean((before > 3.0 * last) & (before < 5.0 * last)) > 0.66)


def discretisation(thetas: Sequence[np.ndarray], regular: bool) -> np.ndarray | None:
    """Error of the finest mesh from what halving it has changed, twice if it was halved twice: the last change can be small by chance. None for one mesh.

    `(theta_h - theta_2h)/3` where changes shrink by four (`regular`); else the change itself, as if they shrank by two.
    """
    if len(thetas) < 2:
        return None
    last = np.abs(thetas[-1] - thetas[-2])
    before = np.abs(thetas[-2] - thetas[-3]) if len(thetas) > 2 else np.zeros_like(last)
    return np.maximum(last, before / 4.0) / 3.0 if regular else np.maximum(last, before / 2.0)
