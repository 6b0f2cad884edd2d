"""The marginal likelihood of a fit with unmodelled forces: what joint minimisation over motion and parameters leaves out.

With process noise the motion has as many unknowns as there are equations. Minimising over motion and parameters together is not maximum
likelihood: it favours parameters for which forces are small (light, frictionless ones). The motion has to be integrated out, which by
Laplace's method gives

    L = cost + volume + sum log sd_i,      volume = 1/2 log |det H|,     H the Hessian over (q_0, q_1, z), in whose coordinates the prior is flat

H is never formed. With K the KKT matrix of the states (`solve/condensed.py`) and C_b the square block of the equations that maps the dependent
unknowns (q_2, q_3, ..., multipliers), `|det K| = det(C_b)^2 det H`; C_b is block triangular, so its determinant is the product over the nodes of

    det [[dr_k/dq_(k+1), -G_k'], [G_(k+1), 0]]

With rigid constraints at the first two nodes, `det(G G')` of both takes care of directions in which they cannot move.

L is what fits with process noise are about (`likelihood.py`). `slope`: the derivative of the volume with respect to theta, the motion following along its linear
response. Where only the noise of channels has to be found, without process noise, `update` does: with the number of effective observations of each noise; for the process noise of a joint with K_zz^-1 the posterior covariance of z,

    dL/d log sd = -sum z^2 + n,    n = d volume/d log sd        and for a channel       dL/d log sd = -sum res^2/sd^2 + N - n

and `update` moves each log sd to where its derivative vanishes: `log sd += 1/2 log(sum z^2/n)`, accelerated by a secant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from calibody.estimate import observe
from calibody.estimate.layout import BALANCE, CONSTRAINTS, MULTIPLIERS, NODES, PROCESS, START, Amounts, States
from calibody.estimate.noise.hyper import Hyper
from calibody.estimate.problem import Problem
from calibody.estimate.run import Run
from calibody.solve.condensed import Linearisation, Sparse, Step
from calibody.solve.threads import spread

STEP = 0.1
"""Step of the differences of the volume with respect to log sd: its third derivative is of the order of its first."""
FEW = 0.05
"""Effective observations of a process noise below which the data want none."""
FARTHEST = 1.5
"""Largest change of a log sd in one update (a factor of 4.5)."""


def log_likelihood(problem: Problem, x: Sequence[States], theta: np.ndarray, log_sd: Mapping[Hyper, float] | None = None) -> float:
    """-L at given states (but for a constant), with the standard deviations of `log_sd` in place of the problem's, the unmodelled forces being the same."""
    changed = problem
    for hyper, wanted in (log_sd or {}).items():
        changed = hyper.moved(changed, wanted - hyper.log_sd(changed))
    x = problem.carried(x, changed)
    F, _ = changed.values(x, theta)
    sds = sum(len(d.y) * np.log(run.noise.measured[d.channel.path]) for run in changed.runs for d in run.data)
    return -float(0.5 * (F @ F) + volume(changed, x, theta) + sds)


def volume(problem: Problem, x: Sequence[States], theta: np.ndarray) -> float:
    """1/2 log |det H| of all runs, which have no states in common."""
    return sum(spread(lambda r: _volume(problem, r, x[r], theta), len(problem.runs)))


def _volume(problem: Problem, r: int, motion: States, theta: np.ndarray) -> float:
    part = problem.linearised(r, motion, theta, parameters=False).part
    return 0.5 * part.factor().log_determinant - _dependent(problem.runs[r], part.Cx)


def dependent(problem: Problem, lin: Linearisation) -> float:
    """log |det C_b| of all runs at a linearisation."""
    out, row, column = 0.0, 0, 0
    for run in problem.runs:
        rows, size = run.layout.rows, run.layout.size
        out += _dependent(run, lin.Cx if len(problem.runs) == 1 else lin.Cx[row : row + rows, column : column + size])
        row, column = row + rows, column + size
    return out


def _dependent(run: Run, equations: Sparse) -> float:
    """With the determinant of what makes new noise of forces that have a memory."""
    forces = run.layout.by_name.get(PROCESS)
    whitening = forces.log_whitening if isinstance(forces, Amounts) else 0.0
    return whitening + (_general(run, equations) if run.mixed or run.starts or not run.flying.all() else _nodes(run, equations))


def _nodes(run: Run, equations: Sparse) -> float:
    """Node by node; rigid constraints or none."""
    nv, kept = run.structure.nv, run.kept
    nodes, forces = run.layout.place[NODES], run.layout.place[MULTIPLIERS]
    entries = equations.tocoo()
    row, column, value = entries.row, entries.col, entries.data
    node, balance = row // nv, row < run.layout.row_place[BALANCE].stop
    blocks = np.zeros((run.inner, nv + kept, nv + kept))
    ahead = balance & (column < nodes.stop) & (column // nv == node + 2)
    blocks[node[ahead], row[ahead] % nv, column[ahead] % nv] = value[ahead]
    if not kept:
        return float(np.linalg.slogdet(blocks)[1].sum())
    held = balance & (column >= forces.start) & (column < forces.stop)
    blocks[node[held], row[held] % nv, nv + (column[held] - forces.start) % kept] = value[held]
    G = _gradients(run, equations)
    blocks[:, nv:, :nv] = G[2:]
    starts = G[:2] @ G[:2].swapaxes(1, 2)
    return float(np.linalg.slogdet(blocks)[1].sum() + 0.5 * np.linalg.slogdet(starts)[1].sum())


def _gradients(run: Run, equations: Sparse) -> np.ndarray:
    """(K, kept, nv): the constraints' rows of every node by that node."""
    nv = run.structure.nv
    entries = equations[run.layout.row_place[CONSTRAINTS], run.layout.place[NODES]].tocoo()
    G = np.zeros((run.K, run.kept, nv))
    node = entries.row % run.K
    own = entries.col // nv == node
    G[node[own], entries.row[own] // run.K, entries.col[own] % nv] = entries.data[own]
    return G


def _general(run: Run, equations: Sparse) -> float:
    """With compliant constraints, whose ends are not triangular, or a start that is known: the equations and a basis of the first two nodes'
    freedom, in which a known coordinate does not move the first and a known rate not the second."""
    from scipy.sparse.linalg import splu

    nv, rows, size = run.structure.nv, [], len(run.layout.open)
    known = equations[run.layout.row_place[START]].toarray()
    late = np.array([observe.is_rate(d.channel) for d in run.starts], dtype=bool)
    for k, (own, G) in enumerate(zip((known[~late], known[late]), _gradients(run, equations)[:2], strict=True)):
        held = np.vstack([G, own[:, k * nv : (k + 1) * nv]])
        basis = np.linalg.svd(held)[2][len(held) :]
        rows.append(sp.hstack([sp.csr_matrix((len(basis), k * nv)), basis, sp.csr_matrix((len(basis), size - (k + 1) * nv))]))
    lu = splu(sp.vstack([equations[:, run.layout.open], *rows], format="csc"))
    return float(np.log(np.abs(lu.U.diagonal())).sum())


def _log_determinant(problem: Problem, x: Sequence[States], theta: np.ndarray) -> float:
    """log |det K| of all runs."""
    return sum(spread(lambda r: problem.linearised(r, x[r], theta, parameters=False).part.factor().log_determinant, len(problem.runs)))


def slope(problem: Problem, x: Sequence[States], theta: np.ndarray, taken: Step, which: Sequence[int] | None = None) -> np.ndarray:
    """d volume/d theta, the states following the parameters; `taken` is a step at this point. Zero for those not among `which`. Columns of the step beyond theta move the
    states alone."""
    sd = np.sqrt(1.0 / np.maximum(taken.information.diagonal(), 1e-300))
    steps = np.minimum(0.3 * sd, 1e-2 * np.append(problem.scale, np.full(len(sd) - len(theta), np.inf)))
    wanted = np.ones(len(sd), dtype=bool) if which is None else np.isin(np.arange(len(sd)), which)

    def of_run(r: int) -> np.ndarray:
        out, run, found = np.zeros(len(sd)), problem.runs[r], taken.runs[r]
        for k, response in zip(found.columns, found.response[: found.factor.n].T, strict=True):
            ends = []
            for sign in (steps[k], -steps[k]) if wanted[k] else ():
                moved = theta.copy()
                moved[k : k + 1] += sign
                ends.append(_volume(problem, r, run.move(x[r], sign * response), moved))
            out[k] = (ends[0] - ends[1]) / (2.0 * steps[k]) if wanted[k] else 0.0
        return out

    return np.sum(spread(of_run, len(problem.runs)), axis=0)


Past = Mapping[Hyper, tuple[float, float]]
"""(log sd, wanted change) at the last update."""


@dataclass(frozen=True)
class Updated:
    """The problem with other standard deviations, the same motion in their units, the largest change of a log sd, and what the next update looks back at."""

    problem: Problem
    x: list[States]
    change: float
    past: Past


def update(problem: Problem, x: Sequence[States], theta: np.ndarray, hypers: Sequence[Hyper], past: Past) -> Updated:
    """Move every sd to where the likelihood's derivative vanishes."""
    here, changes, new = {h: h.log_sd(problem) for h in hypers}, {}, {}
    for hyper in hypers:
        number, (squares, count) = _number(problem, x, theta, hyper), _squares(problem, x, theta, hyper)
        effective = max(number, 1e-9) if hyper.process else max(count + number, 1.0)  # of a channel, d volume/d log sd = -n
        wanted = 0.5 * float(np.log(max(squares, 1e-300) / effective))
        settled = hyper.process and number < FEW
        changes[hyper] = 0.0 if settled else _accelerated(here[hyper], wanted, past.get(hyper))
        new[hyper] = past.get(hyper) if settled else (here[hyper], wanted)
    after = problem
    for hyper, change in changes.items():
        after = hyper.moved(after, change)
    return Updated(after, problem.carried(x, after), max(map(abs, changes.values()), default=0.0), {h: p for h, p in new.items() if p is not None})


def _number(problem: Problem, x: Sequence[States], theta: np.ndarray, hyper: Hyper) -> float:
    """d volume/d log sd, the forces being the same: half the difference of log |det K|."""
    ends = []
    for sign in (STEP, -STEP):
        moved = hyper.moved(problem, sign)
        ends.append(_log_determinant(moved, problem.carried(x, moved), theta))
    return 0.5 * (ends[0] - ends[1]) / (2.0 * STEP)


def _accelerated(here: float, wanted: float, past: tuple[float, float] | None) -> float:
    """A secant on `wanted(log sd) = 0`, where two updates allow one."""
    change = wanted
    if past is not None and abs(here - past[0]) > 1e-6:
        rise = (wanted - past[1]) / (here - past[0])
        if rise < -0.05:
            change = -wanted / rise
    return float(np.clip(change, -FARTHEST, FARTHEST))


def _squares(problem: Problem, x: Sequence[States], theta: np.ndarray, hyper: Hyper) -> tuple[float, int]:
    """Sum of squares in units of the sd, and how many."""
    squares, count = 0.0, 0
    for r, (run, motion) in enumerate(zip(problem.runs, x, strict=True)):
        if hyper.process:
            z = motion.parts[PROCESS][:, hyper.forces(run)]
            squares, count = squares + float((z**2).sum()), count + z.size
            continue
        for d, prediction in problem.fitted(r, motion, theta):
            if hyper.covers(run, d.channel.path):
                deviation = (prediction - d.y) * run.weight(d)
                squares, count = squares + float(deviation @ deviation), count + len(d.y)
    return squares, count
