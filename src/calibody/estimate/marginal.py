"""The marginal likelihood of a fit with unmodelled forces: what joint minimisation over motion and parameters leaves out.

With process noise the motion has as many unknowns as there are equations. Minimising over motion and parameters together is not maximum
likelihood: it favours parameters for which forces are small (light, frictionless ones). The motion has to be integrated out, which by
Laplace's method gives

    L = cost + volume + sum log sd_i,      volume = 1/2 log |det H|,     H the Hessian over (q_0, q_1, z), in whose coordinates the prior is flat

H is never formed. With K the KKT matrix of the states (`solve/condensed.py`) and C_b the square block of the equations that maps the dependent
unknowns (q_2, q_3, ..., multipliers), `|det K| = det(C_b)^2 det H`; C_b is block triangular, so its determinant is the product over the nodes of

    det [[dr_k/dq_(k+1), -G_k'], [G_(k+1), 0]]

With rigid constraints at the first two nodes, `det(G G')` of both takes care of directions in which they cannot move.

Three uses. `slope`: the derivative of the volume with respect to theta, the motion following along its linear response; a term `slope'theta`
added to the cost makes the Gauss-Newton solution stationary for L (iterated, as the slope depends on theta). `numbers`: how many effective
observations of each noise there are; for the process noise of a joint with K_zz^-1 the posterior covariance of z,

    dL/d log sd = -sum z^2 + n,    n = d volume/d log sd        and for a channel       dL/d log sd = -sum res^2/sd^2 + N - n

and `update` moves each log sd to where its derivative vanishes: `log sd += 1/2 log(sum z^2/n)`, accelerated by a secant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from calibody.estimate.problem import Problem
from calibody.estimate.run import Run, States, rescaled
from calibody.mechanics.point import Evaluation
from calibody.solve.condensed import Factor, Step

STEP = 0.1
"""Step of the differences of the volume with respect to log sd: its third derivative is of the order of its first."""
FEW = 0.05
"""Effective observations of a process noise below which the data want none."""
FARTHEST = 1.5
"""Largest change of a log sd in one update (a factor of 4.5)."""


def volume(problem: Problem, x: Sequence[States], theta: np.ndarray) -> float:
    lin = problem.linearise(x, theta, parameters=False)
    factor = Factor(lin)
    evaluations = problem.evaluations
    out, first_row, first_column = 0.5 * factor.log_determinant, 0, 0
    for r, run in enumerate(problem.runs):
        if len(run.ringing):
            own = lin.Cx[first_row : first_row + run.rows, first_column : first_column + run.quiet]
            out -= _general(run, own, evaluations[r])
        else:
            out -= _nodes(run, evaluations[r])
        first_row, first_column = first_row + run.rows, first_column + run.size
    return out


def _nodes(run: Run, result: Evaluation) -> float:
    """log |det C_b|, node by node; rigid constraints or none."""
    nv, kept = run.structure.nv, int(run.active.sum())
    assert result.plus is not None
    blocks = np.zeros((run.inner, nv + kept, nv + kept))
    blocks[:, result.rows, result.columns] = result.plus.T / run.h
    if not kept:
        return float(np.linalg.slogdet(blocks)[1].sum())
    G = _gradients(run, result)
    blocks[:, :nv, nv:] = -G[1:-1].swapaxes(1, 2)
    blocks[:, nv:, :nv] = G[2:]
    starts = G[:2] @ G[:2].swapaxes(1, 2)
    return float(np.linalg.slogdet(blocks)[1].sum() + 0.5 * np.linalg.slogdet(starts)[1].sum())


def _gradients(run: Run, result: Evaluation) -> np.ndarray:
    """(K, kept, nv)"""
    assert result.gradient is not None and result.gradient_rows is not None and result.gradient_columns is not None
    G = np.zeros((run.K, run.structure.nc, run.structure.nv))
    G[:, result.gradient_rows, result.gradient_columns] = result.gradient.T
    return G[:, run.active]


def _general(run: Run, equations: sp.csr_matrix, result: Evaluation) -> float:
    """log |det C_b| with compliant constraints, whose ends are not triangular: the equations and a basis of the first two nodes' freedom."""
    from scipy.sparse.linalg import splu

    nv, rows = run.structure.nv, []
    for k, G in enumerate(_gradients(run, result)[:2]):
        basis = np.linalg.svd(G)[2][len(G) :]
        rows.append(sp.hstack([sp.csr_matrix((len(basis), k * nv)), basis, sp.csr_matrix((len(basis), run.quiet - (k + 1) * nv))]))
    lu = splu(sp.vstack([equations, *rows], format="csc"))
    return float(np.log(np.abs(lu.U.diagonal())).sum())


def slope(problem: Problem, x: Sequence[States], theta: np.ndarray, taken: Step, which: Sequence[int] | None = None) -> np.ndarray:
    """d volume/d theta, the states following the parameters; `taken` is a step at this point. Zero for those not among `which`."""
    sd = np.sqrt(1.0 / np.maximum(np.diag(taken.information), 1e-300))
    steps = np.minimum(0.3 * sd, 1e-2 * problem.scale)
    states = taken.response[: taken.factor.n]
    out = np.zeros(len(theta))
    for k in range(len(theta)) if which is None else which:
        by, ends = steps[k], []
        for sign in (by, -by):
            moved = theta.copy()
            moved[k] += sign
            ends.append(volume(problem, problem.move(x, sign * states[:, k]), moved))
        out[k] = (ends[0] - ends[1]) / (2.0 * by)
    return out


@dataclass
class Hyper:
    """One standard deviation that is found: of the process noise of a joint, or of a channel."""

    process: bool
    name: str
    history: list[tuple[float, float]] = field(default_factory=list)
    """(log sd, wanted change) of the updates so far."""
    settled: bool = False

    def scale(self, runs: Sequence[Run], factor: float) -> None:
        """Multiply the sd."""
        if self.process:
            runs[0].noise.density[self.name] *= factor**2  # shared by the runs
        else:
            for run in runs:
                if self.name in run.noise.missing:
                    run.noise.measured[self.name] *= factor

    def value(self, runs: Sequence[Run]) -> float:
        if self.process:
            return runs[0].noise.density[self.name]
        return next(run.noise.measured[self.name] for run in runs if self.name in run.noise.missing)


def rescale(problem: Problem, x: Sequence[States], change: Callable[[], None]) -> list[States]:
    """The same forces after `change` of the noise."""
    before = [run.process_sd() for run in problem.runs]
    change()
    return [rescaled(run, motion, old) for run, motion, old in zip(problem.runs, x, before, strict=True)]


def update(problem: Problem, x: Sequence[States], theta: np.ndarray, hypers: Sequence[Hyper]) -> tuple[list[States], float]:
    """Move every sd to where the likelihood's derivative vanishes; the rescaled motion, and the largest relative change of what matters."""
    runs, x = problem.runs, list(x)
    changes = []
    for hyper in hypers:
        ends = []
        for sign in (STEP, -STEP):
            moved = rescale(problem, x, lambda s=sign, h=hyper: h.scale(runs, float(np.exp(s))))
            ends.append(Factor(problem.linearise(moved, theta, parameters=False)).log_determinant)
            x = rescale(problem, moved, lambda s=sign, h=hyper: h.scale(runs, float(np.exp(-s))))
        number = 0.5 * (ends[0] - ends[1]) / (2.0 * STEP)
        squares, count = _squares(problem, x, theta, hyper)
        if hyper.process:
            hyper.settled = number < FEW
            wanted = 0.5 * np.log(max(squares, 1e-300) / max(number, 1e-9))
        else:
            wanted = 0.5 * np.log(max(squares, 1e-300) / max(count + number, 1.0))  # here d volume/d log sd = -n
        changes.append(0.0 if hyper.settled else _accelerated(hyper, float(wanted), runs))
    for hyper, change in zip(hypers, changes, strict=True):
        x = rescale(problem, x, lambda c=change, h=hyper: h.scale(runs, float(np.exp(c))))
    return x, max((abs(c) for c in changes), default=0.0)


def _accelerated(hyper: Hyper, wanted: float, runs: Sequence[Run]) -> float:
    """A secant on `wanted(log sd) = 0`, where two updates allow one."""
    here = np.log(hyper.value(runs)) * (0.5 if hyper.process else 1.0)
    change = wanted
    if hyper.history:
        there, before = hyper.history[-1]
        if abs(here - there) > 1e-6:
            rise = (wanted - before) / (here - there)
            if rise < -0.05:
                change = -wanted / rise
    hyper.history.append((float(here), wanted))
    return float(np.clip(change, -FARTHEST, FARTHEST))


def _squares(problem: Problem, x: Sequence[States], theta: np.ndarray, hyper: Hyper) -> tuple[float, int]:
    """Sum of squares in units of the sd, and how many."""
    squares, count = 0.0, 0
    for r, (run, motion) in enumerate(zip(problem.runs, x, strict=True)):
        if hyper.process:
            z = run.parts(motion.noise)[0][[joint == hyper.name for joint, _ in run.disturbed]]
            squares, count = squares + float((z**2).sum()), count + z.size
            continue
        for d, prediction in problem.fitted(r, motion, theta):
            if d.channel.path == hyper.name and hyper.name in run.noise.missing:
                deviation = (prediction - d.y) * run.weight(d)
                squares, count = squares + float(deviation @ deviation), count + len(d.y)
    return squares, count
