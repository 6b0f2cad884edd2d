"""`posterior`: how sure a fit is, by draws instead of error bars; whether there is a second explanation, and how bounds and curvature bend the first.

    modes     the fit's solution, fits from elsewhere, symmetries; a truncated Gaussian each (`modes.py`)
    draws     from the mixture of these, each with log p by one factorisation (`target.py`)
    weights   Pareto-smoothed (`solve/importance.py`); where they cannot be trusted, the mixture is adapted to them, up to three times, and then has Student's tails
    chains    where that fails: Hamiltonian Monte Carlo from the best draws, one set per mode (`solve/chains.py`), the modes weighed by bridge sampling

Draw i depends on (seed, i) alone: the same bytes from any number of processes, in any order, and after an interruption.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from calibody.errors import CalibodyError, shown, told
from calibody.estimate.common import Common
from calibody.estimate.draws.drawn import Explanation, Marginal, Posterior, Raw
from calibody.estimate.draws.modes import Mode, Modes, find
from calibody.estimate.draws.proper import refuse_improper, within_bounds
from calibody.estimate.draws.sampling import BLOCK, STEIN, Sampling
from calibody.estimate.draws.solved import solved_by
from calibody.estimate.draws.stein import Clusters, shot, shot_in_engine
from calibody.estimate.draws.stretch import SAID
from calibody.estimate.draws.target import Target
from calibody.estimate.draws.tempered import tempered
from calibody.estimate.fit import fit
from calibody.estimate.missing.misled import widest
from calibody.estimate.reported import values_of
from calibody.estimate.result import Result
from calibody.estimate.sweep import sweep
from calibody.solve import chains, importance
from calibody.solve.importance import GOOD, POOR, Mixture, Weights, weigh

if TYPE_CHECKING:
    from calibody.estimate.estimator import Unknowns
    from calibody.estimate.kept import Kept
    from calibody.model import Model
    from calibody.recording.recording import Recording

EVEN = 0.1
"""Part of the draws that is shared out evenly among the modes, whatever their evidence."""
ROUNDS = 3
"""Adaptations of the mixture."""
FAILS = 0.02
"""Share of points without a motion from which weights cannot be trusted."""
CHAINS, LENGTH = 4, 250
"""Chains per mode, and draws of each ..."""
AGAIN = 3
"""... which go on for as many again, so many times, until they agree."""
FEW = 100
"""Draws below which k-hat means little."""
COMPARED = 20
"""Draws whose density is computed on the fit's own mesh too, where another was drawn on."""
MUCH = 2.0
"""Times the probability of the fit's own explanation from which another is said to be more probable."""
HALF = 0.5
"""Share of Stein's particles that explain nothing from which the others are not believed."""
GIVEN = "The sequence of impacts was held as the fit has found it (result.events), so no fits were begun elsewhere: that other impacts explain the data is not among these draws."
MESH = 0.5
"""Scatter of that difference from which it is said: weights would then differ by as much."""


@dataclass(frozen=True)
class Rest:
    """Whether particles have come to rest."""

    settled: bool
    defect: float
    """Standard deviations of the residuals by which closing the windows would change them, the median over the particles."""
    lost: int
    """Particles that explain nothing."""
    alone: tuple[str, ...] = ()
    """Explanations that no particle has come to."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """Draws of one round with their weights."""

    sampler: str
    mixture: Mixture
    own: np.ndarray
    eta: np.ndarray
    log_p: np.ndarray
    log_q: np.ndarray
    weights: Weights
    rhat: float | None = None
    ess: float | None = None
    rest: Rest | None = None
    """Of Stein's particles."""

    @property
    def poor(self) -> bool:
        return not self.weights.khat < POOR or self.weights.failed > FAILS * len(self.own)


@dataclass(frozen=True)
class Drawing:
    """How draws are made: with which seed, where, and what is kept of them."""

    modes: Modes
    samples: int
    seed: int
    executor: Executor | None
    kept: Kept | None
    report: Callable[[str], None]

    @property
    def targets(self) -> tuple[Target, ...]:
        return self.common.value

    @cached_property
    def common(self) -> Common[tuple[Target, ...]]:
        """The densities, as tasks have them."""
        return Common(tuple(m.target for m in self.modes.kept))

    def mapped(self, function: Callable[..., Any], tasks: dict[str, dict[str, Any]]) -> list[Any]:
        """Of every task, by name, what was kept of it or what is done now."""
        known = {name: None if self.kept is None else self.kept.load(name) for name in tasks}
        open_ = [name for name, found in known.items() if found is None]
        done = sweep(_kept, [{"function": function, "task": tasks[name], "kept": self.kept, "name": name} for name in open_], self.executor)
        known |= dict(zip(open_, done, strict=True))
        return [known[name] for name in tasks]


def _kept(function: Callable[..., Any], task: dict[str, Any], kept: Kept | None, name: str) -> Any:
    """In the process that does it."""
    found = function(**task)
    if kept is not None:
        kept.store(name, found)
    return found


@told()
def posterior(
    fitted: Result | Model,
    runs: Recording | Sequence[Recording] | None = None,
    estimate: Unknowns | None = None,
    *,
    samples: int = 400,
    starts: int = 8,
    sampler: str = "auto",
    windows: int | str = "auto",
    iterations: int = 200,
    seed: int = 0,
    executor: Executor | None = None,
    kept: Kept | None = None,
    report: Callable[[str], None] | None = None,
    **options: Any,
) -> Posterior:
    """The posterior of a fit: `cb.posterior(result)`, or `cb.posterior(model, runs, {...})` with a fit before it, whose `options` are those of `cb.fit`.

    `samples` draws (400 say a 90 % interval to a tenth of its width) from all explanations that the fit, `starts` further fits from elsewhere (0: none) and symmetries find. `sampler`: "auto" takes importance sampling and, where its weights cannot be
    trusted, chains; "importance" and "hmc" one of them; "smc" tempers between the two, which takes longest and may find explanations that the starts missed; "svgd" and "csvgd" move `samples` particles by Stein's method for so many `iterations`, by single shooting or in so many `windows`, each until they come to rest. `executor` as in `cb.sweep`. Bounds are where the prior ends; it is flat between them. Never raises for
    a posterior that is not good: `post.status` says why.
    """
    began = time.perf_counter()
    how = Sampling(samples, starts, sampler, windows, iterations, seed)  # refuses what does not fit
    result = _fitted(fitted, runs, estimate, options)
    refuse_improper(result, by_particles=sampler in STEIN)
    if sampler in STEIN and result.problem.struck:
        raise CalibodyError(
            f'sampler = "{sampler}" begins all over the bounds, where each particle would have impacts of its own; use "auto", which draws with those of the fit.'
        )
    tell = report or (lambda _: None)
    if not result.problem.bars:
        return _in_engine(result, how, executor, tell, began)
    if sampler in STEIN:
        return _by_particles(result, how, executor, kept, tell, began)
    modes = _modes(result, starts, seed, executor, kept, tell)
    drawing = Drawing(modes, samples, seed, executor, kept, tell)
    drawn, evaluations = _drawn(drawing, how)
    return _posterior(result, drawing, drawn, evaluations, time.perf_counter() - began)


def _fitted(fitted: Any, runs: Any, estimate: Any, options: dict[str, Any]) -> Result:
    if isinstance(fitted, Result):
        if runs is not None or estimate is not None or options:
            raise CalibodyError(
                "A posterior of a result takes its model, runs and unknowns from it; give the result alone, with samples, starts, sampler, seed and executor."
            )
        return fitted
    if runs is None or estimate is None:
        raise CalibodyError(f"cb.posterior was given {shown(fitted)}; give a result, cb.posterior(result), or cb.posterior(model, runs, {{...}}).")
    return fit(fitted, runs, estimate, **options)


def _modes(result: Result, starts: int, seed: int, executor: Executor | None, kept: Kept | None, tell: Callable[[str], None]) -> Modes:
    """Found, or as they were kept."""
    name = f"modes-{starts}-{seed}"
    if kept is not None and (known := kept.load(name)) is not None:
        return known
    tell(f"looking for other explanations from {starts} starts" if starts else "looking for other explanations by symmetry")
    found = find(result, starts, seed, executor)
    if kept is not None:
        kept.store(name, found)
    return found


# -- draws ---------------------------------------------------------------------------------------------------------------------------------


def _drawn(drawing: Drawing, how: Sampling) -> tuple[Drawn, int]:
    """The draws, and how often log p was computed."""
    sampler, mixture = how.sampler, _mixture(drawing.modes.kept)
    best = _round(drawing, "importance", mixture, 0)
    evaluations, adapted = len(best.own), best
    for round_ in range(1, ROUNDS + 2) if sampler in ("auto", "importance") else ():
        if not best.poor:
            break
        last = round_ > ROUNDS
        mixture = mixture.adapted(adapted.eta, adapted.weights.weight) if adapted.weights.ess > 1.5 else mixture.with_tails()
        adapted = _round(drawing, "student" if last else "adapted", mixture.with_tails() if last else mixture, round_)
        evaluations += len(adapted.own)
        best = min((best, adapted), key=lambda d: (d.poor, d.weights.khat))
    if sampler == "smc":
        found, more = tempered(drawing, best)
        return found, evaluations + more
    if sampler == "hmc" or (sampler == "auto" and best.poor):
        found, more = _chained(drawing, best)
        return found, evaluations + more
    return best, evaluations


def _mixture(modes: Sequence[Mode]) -> Mixture:
    logs = np.array([m.log_evidence for m in modes])
    share = np.exp(logs - logs.max())
    return Mixture(tuple(m.gaussian for m in modes), (1.0 - EVEN) * share / share.sum() + EVEN / len(modes))


def _round(drawing: Drawing, sampler: str, mixture: Mixture, round_: int) -> Drawn:
    """`samples` draws of a mixture; later rounds depend on how many there were in those before."""
    count = drawing.samples
    drawing.report(f"drawing {count} samples" if not round_ else f"drawing {count} samples again, from a mixture that fits better ({round_})")
    label = f"draws-{drawing.seed}-{len(drawing.modes.kept)}-{drawing.modes.tried}" + (f"-{round_}-of-{count}" if round_ else "")
    tasks = {
        f"{label}-{first}": {"mixture": mixture, "targets": drawing.common, "seed": drawing.seed, "round_": round_, "first": first}
        for first in range(0, count, BLOCK)
    }
    found = drawing.mapped(block, tasks)
    own, eta, log_p = (np.concatenate([f[k] for f in found])[:count] for k in range(3))
    log_q = mixture.log_density(eta, own)
    return Drawn(sampler, mixture, own, eta, log_p, log_q, weigh(log_p, log_q))


def block(mixture: Mixture, targets: Common[tuple[Target, ...]], seed: int, round_: int, first: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Who made each of some draws, the draws, and log p."""
    own, eta = mixture.draws(seed, round_, np.arange(first, first + BLOCK))
    return own, eta, np.array([targets.value[m](point).value for m, point in zip(own, eta, strict=True)])


# -- chains --------------------------------------------------------------------------------------------------------------------------------


def _chained(drawing: Drawing, before: Drawn) -> tuple[Drawn, int]:
    """Four chains in every mode, from the best draws of it, until they agree or have gone on for `AGAIN` times; the modes weighed by bridge sampling between these and those."""
    modes, length = drawing.modes.kept, max(LENGTH, -(-drawing.samples // CHAINS))
    starts = [start for m, mode in enumerate(modes) for start in _starts(before, m, mode)]
    parts: list[list[chains.Walk]] = []
    walks: list[chains.Walk] = []
    rhat, ess = np.inf, 0.0
    while len(parts) <= AGAIN and not (rhat < chains.AGREE and ess > chains.ENOUGH):
        drawing.report(f"drawing {CHAINS} chains of {length} in {len(modes)} mode{'s' if len(modes) > 1 else ''}{' further on' if parts else ''}")
        parts.append(drawing.mapped(walked, _walks(drawing, before, starts, length, len(parts))))
        starts = [walk.draws[-1] for walk in parts[-1]]
        walks = [chains.joined([part[k] for part in parts]) for k in range(len(starts))]
        agreed = [chains.agreement(np.stack([w.draws for w in walks[m * CHAINS : (m + 1) * CHAINS]])) for m in range(len(modes))]
        rhat, ess = max(r for r, _ in agreed), min(e for _, e in agreed)
    log_z = np.array([_evidence(before, m, walks[m * CHAINS : (m + 1) * CHAINS]) for m in range(len(modes))])
    mass = np.exp(log_z - log_z.max())
    total = float(log_z.max() + np.log(mass.sum()))
    count = len(parts) * length * CHAINS
    own = np.repeat(np.arange(len(mass)), count)
    eta, log_p = np.concatenate([w.draws for w in walks]), np.concatenate([w.log_p for w in walks])
    weights = Weights((mass / mass.sum())[own] / count, before.weights.khat, total, before.weights.failed)
    found = replace(before, sampler="hmc", own=own, eta=eta, log_p=log_p, log_q=before.mixture.log_density(eta, own), weights=weights, rhat=rhat, ess=ess)
    return found, sum(w.evaluations for w in walks)


def _walks(drawing: Drawing, before: Drawn, starts: Sequence[np.ndarray], length: int, part: int) -> dict[str, dict[str, Any]]:
    """A task for every chain, by the name that its end is kept by."""
    tasks, count = {}, len(starts)
    for k, start in enumerate(starts):
        target, component = drawing.targets[k // CHAINS], before.mixture.components[k // CHAINS]
        box = chains.Box(component.mean, np.linalg.cholesky(component.covariance), target.lower, target.upper)
        task = {"targets": drawing.common, "mode": k // CHAINS, "box": box, "start": start, "draws": length, "seed": drawing.seed, "chain": part * count + k}
        tasks[f"chain-{drawing.seed}-{drawing.samples}-{drawing.modes.tried}-{part}-{k}"] = task
    return tasks


def _starts(before: Drawn, m: int, mode: Mode) -> list[np.ndarray]:
    """Of the chains of a mode: some of its draws, by their weight; its centre where there are none."""
    weight = np.where(before.own == m, before.weights.weight, 0.0)
    if not weight.sum() > 0.0:
        return [np.clip(mode.target.centre, mode.target.lower, mode.target.upper)] * CHAINS
    return list(before.eta[importance.resampled(weight / weight.sum(), CHAINS, m)])


def walked(targets: Common[tuple[Target, ...]], mode: int, box: chains.Box, start: np.ndarray, draws: int, seed: int, chain: int) -> chains.Walk:
    def function(eta: np.ndarray) -> tuple[float, np.ndarray | None]:
        found = targets.value[mode](eta, derivatives=True)
        return found.value, found.gradient

    return chains.walk(function, box, start, draws, seed, chain)


def _evidence(before: Drawn, m: int, walks: Sequence[chains.Walk]) -> float:
    """log Z of one mode by bridge sampling between its component's draws and its chains."""
    mine, component = before.own == m, before.mixture.components[m]
    drawn, p = before.eta[mine], before.log_p[mine]
    eta, log_p = np.concatenate([w.draws for w in walks]), np.concatenate([w.log_p for w in walks])
    return importance.bridge(p - component.log_density(drawn), log_p - component.log_density(eta))


# -- particles -----------------------------------------------------------------------------------------------------------------------------


def _by_particles(result: Result, how: Sampling, executor: Executor | None, kept: Kept | None, tell: Callable[[str], None], began: float) -> Posterior:
    """Particles as draws, each explanation's evidence shared out among those that have come to it."""
    found, modes = shot(result, how, executor, tell)
    drawing = Drawing(modes, how.samples, how.seed, executor, kept, tell)
    target, mixture = drawing.targets[0], _mixture(modes.kept)
    theta = found.cloud.theta
    eta = np.concatenate([theta, np.tile(target.eta[target.p :], (len(theta), 1))], axis=1)
    eta = np.stack([target.centre + np.linalg.solve(target.turn, point - target.eta) for point in eta])
    own = mixture.log_densities(eta).argmax(axis=0)
    logs = np.array([m.log_evidence for m in modes.kept])
    came = np.array([((own == m) & (found.of >= 0)).sum() for m in range(len(logs))])
    share = np.where(came > 0, np.exp(logs - logs.max()), 0.0)
    weight = np.where(found.of >= 0, share[own] / np.maximum(came[own], 1), 0.0)
    weights = Weights(weight / weight.sum(), np.inf, float(logs.max() + np.log(np.exp(logs - logs.max()).sum())), found.lost)
    log_p = np.array([drawing.targets[m](point).value for m, point in zip(own, eta, strict=True)])
    rest = _rest(found, tuple(m.found_by for m, n in zip(modes.kept, came, strict=True) if not n))
    log_q = mixture.log_density(eta, own)
    drawn = Drawn(how.sampler, mixture, own, eta, log_p, log_q, weights, ess=1.0 / float((weights.weight**2).sum()), rest=rest)
    return _posterior(result, drawing, drawn, found.cloud.evaluations, time.perf_counter() - began)


def _rest(found: Clusters, alone: tuple[str, ...] = ()) -> Rest:
    return Rest(found.cloud.settled, found.cloud.defect, found.lost, alone)


def _in_engine(result: Result, how: Sampling, executor: Executor | None, tell: Callable[[str], None], began: float) -> Posterior:
    """Particles of a fit in an engine, of whose motion only windows are known."""
    found, seen = shot_in_engine(result, how, executor, tell)
    rest, raw, names = _rest(found), seen.raw, list(result.parameters)
    estimates = result.parameters
    marginals = {name: Marginal(name, estimates[name].unit, raw.values[:, k], raw.weight, estimates[name]) for k, name in enumerate(names)}
    post = Posterior(
        status=_rested(rest, how.samples),
        parameters=marginals,
        modes=seen.explanations,
        dropped=(),
        khat=np.inf,
        ess=1.0 / float((raw.weight**2).sum()),
        rhat=None,
        log_evidence=seen.log_evidence + _prior(result.problem),
        sampler=how.sampler,
        noise=seen.noise,
        stretched=seen.stretched,
        samples=how.samples,
        seed=how.seed,
        starts=0,
        converged_starts=0,
        evaluations=found.cloud.evaluations,
        failed=found.lost,
        h=result.mesh.h,
        lost=None,
        seconds=time.perf_counter() - began,
        notes=(),
        raw=raw,
        result=result,
        targets=(),
    )
    return replace(post, notes=tuple(_notes(result, post, rest)))


# -- what is told --------------------------------------------------------------------------------------------------------------------------


def _posterior(result: Result, drawing: Drawing, drawn: Drawn, evaluations: int, seconds: float) -> Posterior:
    modes, w = drawing.modes, drawn.weights
    problem, p = modes.kept[0].target.problem, modes.kept[0].target.p
    values = np.stack([values_of(problem.entries, eta[:p]) for eta in drawn.eta])
    names = list(result.parameters)
    marginals = {name: Marginal(name, result.parameters[name].unit, values[:, k], w.weight, result.parameters[name]) for k, name in enumerate(names)}
    ess = w.ess if drawn.ess is None else drawn.ess
    hypers = tuple(h.words for h in modes.kept[0].target.hypers)
    raw = Raw(np.arange(len(drawn.own)), drawn.own, drawn.eta, values, drawn.log_p, drawn.log_q, w.weight, (*names, *hypers))
    fine = _fine(result, modes)
    lost = None if fine is None else _lost(drawing, drawn, *fine)
    post = Posterior(
        status=_status(drawn, ess),
        parameters=marginals,
        modes=_explanations(names, modes, drawn),
        dropped=modes.dropped,
        khat=w.khat,
        ess=ess,
        rhat=drawn.rhat,
        log_evidence=w.log_evidence + _prior(problem),
        sampler=drawn.sampler,
        noise=modes.kind,
        stretched=modes.stretched,
        samples=drawing.samples,
        seed=drawing.seed,
        starts=modes.tried,
        converged_starts=modes.converged,
        evaluations=evaluations,
        failed=w.failed,
        h=modes.h,
        lost=lost,
        seconds=seconds,
        notes=(),
        raw=raw,
        result=result,
        targets=drawing.targets,
        fine=fine,
    )
    notes = _notes(result, post, drawn.rest)
    if drawn.rhat is None and GOOD <= drawn.weights.khat < POOR:
        notes.append(f"k-hat is {drawn.weights.khat:.2f}: quantiles are fair, small probabilities and the evidence are not.")
    return replace(post, notes=tuple(notes))


def _prior(problem: Any) -> float:
    """log density of the flat priors between bounds; of unknowns without them, one."""
    widths = np.array([e.upper - e.lower for e in problem.entries if e.prior is None])
    return -float(np.log(widths[np.isfinite(widths) & (widths > 0.0)]).sum())


def _status(drawn: Drawn, ess: float) -> str:
    w = drawn.weights
    if drawn.rest is not None:
        return _rested(drawn.rest, len(drawn.own))
    if drawn.sampler == "smc":
        return "converged" if ess > 0.1 * len(drawn.own) else "not sampled well: the tempered draws ended with few that count; ask for more samples."
    if drawn.rhat is not None:
        if drawn.rhat < chains.AGREE and ess > chains.ENOUGH:
            return "converged"
        return (
            f"not sampled well: chains are worth {ess:.0f} independent draws and their R-hat is {drawn.rhat:.3f} (wanted: {chains.ENOUGH:.0f} and {chains.AGREE}); "
            "ask for more samples, or give the unknowns that are hardly determined bounds or a prior."
        )
    if w.failed > FAILS * len(drawn.own):
        return f"not sampled well: at {w.failed} of {len(drawn.own)} draws no motion was found; the posterior is wider than where the motion can be followed."
    if not w.khat < POOR:
        return f'not sampled well: k-hat is {w.khat:.2f}, above {POOR}: few draws carry all weight; ask for more samples, or for sampler = "hmc".'
    return "converged"


def _rested(rest: Rest, count: int) -> str:
    if rest.lost > HALF * count:
        return f"not sampled well: {rest.lost} of {count} particles have not come to a motion that explains the data; give more windows, narrower bounds, or use another sampler."
    if not rest.settled:
        return f"not sampled well: the particles still move, or windows do not meet (closing them changes the residuals by {rest.defect:.2g} standard deviations); give more iterations, or use another sampler."
    return "converged"


def _explanations(names: Sequence[str], modes: Modes, drawn: Drawn) -> tuple[Explanation, ...]:
    belongs = _belongs(drawn)
    logs = np.array([m.log_evidence for m in modes.kept])
    laplace = np.exp(logs - logs.max())
    laplace /= laplace.sum()
    out = []
    for k, mode in enumerate(modes.kept):
        mass = float(drawn.weights.weight @ belongs[k])
        p = mode.target.p
        values = dict(zip(names, map(float, mode.values), strict=True))
        out.append(Explanation(values, mass, float(laplace[k]), mode.log_evidence, mode.found_by, mode.gaussian.covariance[:p, :p]))
    return tuple(out)


def _belongs(drawn: Drawn) -> np.ndarray:
    """(modes, draws): the probability that a draw is of a mode, as the components have it."""
    if drawn.sampler in ("hmc", "smc", *STEIN):
        return (drawn.own == np.arange(len(drawn.mixture.components))[:, None]).astype(float)
    log = drawn.mixture.log_densities(drawn.eta)
    share = np.exp(log - log.max(axis=0))
    return share / share.sum(axis=0)


def _fine(result: Result, modes: Modes) -> tuple[int, Target] | None:
    """The fit's own explanation, and its density on the fit's own mesh; None where that was drawn on."""
    m = next((k for k, mode in enumerate(modes.kept) if mode.found_by == "fit"), None)
    fine = solved_by(result)
    if m is None or abs(fine.h / modes.h - 1.0) < 1e-6:
        return None
    seen = modes.kept[m].target
    return m, Target.of(fine.problem, fine.x, fine.theta, seen.hypers).seen(seen.centre, seen.turn)


def _lost(drawing: Drawing, drawn: Drawn, m: int, target: Target) -> float | None:
    """How much the density on the fit's own mesh scatters about that on the mesh that was drawn on, over some draws of the fit's mode."""
    weight = np.where(drawn.own == m, drawn.weights.weight, 0.0)
    if not weight.sum() > 0.0:
        return None
    picked = np.unique(importance.resampled(weight / weight.sum(), COMPARED, drawing.seed))
    differences = np.array([target(drawn.eta[k]).value for k in picked]) - drawn.log_p[picked]
    differences = differences[np.isfinite(differences)]
    return float(np.std(differences)) if len(differences) > 2 else None


def _notes(result: Result, post: Posterior, rest: Rest | None) -> list[str]:
    out = []
    if post.noise != "naive":
        out.append(SAID[post.noise].format(post.stretched))
    out += [] if rest is None else _of_rest(rest, post)
    out += [GIVEN] if result.problem.struck else []
    out += _lacking(result)
    if len(result.recordings) == 1:
        out.append("These are draws from one run: what another run of the same mechanism would differ by, beyond noise, one run cannot tell.")
    if (open_ := within_bounds(result)) and result.unresolved:
        out.append(f"What is drawn of {', '.join(open_)} is what their bounds allow, not what the data say.")
    own = next((m.mass for m in post.modes if m.found_by == "fit"), 0.0)
    best = max(post.modes, key=lambda m: m.mass)
    if best.found_by != "fit" and best.mass > MUCH * own and post.targets:
        out.append(f"The most probable explanation is not the fit's ({100.0 * own:.2g} %): it was found by {best.found_by}; fit again from its values.")
    if post.converged_starts < post.starts:
        out.append(f"{post.starts - post.converged_starts} of {post.starts} starts from elsewhere did not converge.")
    if post.samples < FEW and rest is None:
        out.append(f"Of {post.samples} draws k-hat says little; ask for {FEW} or more.")
    if post.lost is not None and post.lost > MESH:
        out.append(
            f"The mesh that was drawn on ({1e3 * post.h:.3g} ms) changes log p by {post.lost:.2g} over the posterior; fit with that h, or a smaller one, to see what it does."
        )
    return out


def _lacking(result: Result) -> list[str]:
    """That error bars are wider than the draws, where one is by as much as the fit says too."""
    return [
        f"The error bars allow for what the model seems to lack, and the draws and bands do not: that of {name} is {times:.2g} times as wide as its draws. Take intervals of parameters from the error bars until the model is mended."
        for name, times in widest(result.parameters)
    ]


def _of_rest(rest: Rest, post: Posterior) -> list[str]:
    out = ['Particles of Stein\'s method are no independent draws, and nothing says how well they stand for the posterior; compare them with sampler = "auto".']
    if not post.targets:
        out[0] = "Particles of Stein's method are no independent draws, and nothing says how well they stand for the posterior."
    if rest.lost:
        out.append(f"{rest.lost} of {post.samples} particles have not come to a motion that explains the data, and are left out.")
    if rest.alone:
        out.append(f"No particle has come to the explanation found by {' and '.join(rest.alone)}: it is not drawn.")
    return out
