"""Contacts and limits in a fit: whether they act, and the impacts that a fit begins with.

They act where the method says so (`contacts = "law"`, the default, or "free") and the equations can: in joint coordinates, without closed loops, unmodelled forces and noisy drives. Impacts are
looked for along the first motion, which knows nothing of them (`kinks.py`); then that is made again, one smooth flight after the other, and the law of impacts decides what each does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibody.errors import CalibodyError, nearest
from calibody.estimate import observe
from calibody.estimate.contacts import held, kinks, landing, proposals, staying, strikes as law
from calibody.estimate.contacts.flights import Struck
from calibody.estimate.contacts.hits import Hit, gaps
from calibody.estimate.contacts.proposals import Proposal, Proposed
from calibody.estimate.contacts.settle import decided, met, missed, pushing, shown
from calibody.estimate.contacts.strikes import LAWLESS, Strike
from calibody.estimate.layout import IMPACTS, NODES, States
from calibody.estimate.noise.unmodelled import ProcessNoise
from calibody.estimate.observed import Sensors
from calibody.estimate.problem import Problem
from calibody.estimate.run import Run
from calibody.estimate.start import first_motion
from calibody.estimate.unknowns import Entry
from calibody.mechanics.contact import Spots
from calibody.mechanics.kinematics import Geometry, poses
from calibody.mechanics.structure import TREE, Numbers, Structure
from calibody.model import Model, paths
from calibody.model.contact import POISSON
from calibody.recording.recording import Recording
from calibody.solve.gauss_newton import Solution
from calibody.steppers.events import SLIP

LAW, NONE = "law", "none"
MODES = (LAW, LAWLESS, NONE)
ROUNDS = 8
"""Impacts that are put in one after the other where a motion goes through something."""
BEGINS, INSIDE = 5, 0.1
"""Nodes at the beginning of which the depth is taken, and the share of the range of all gaps that a model may be wrong by."""
ABOUT = 0.05
"""How far the time of an impact that a recording says may be off [s]: what the data show within that is it."""
LAWS = ("friction", "sliding_friction", "restitution")
"""Numbers of the law of impacts."""


@dataclass(frozen=True)
class Touching:
    """What a fit knows of contacts."""

    mode: str = NONE
    reason: str = ""
    """Why contacts that the model has do not act; empty: they do, or there are none."""
    loose: frozenset[str] = frozenset()
    """Contacts and limits (`contact.X`, `limit.X`) whose place is unknown."""
    asked: tuple[tuple[str, str], ...] = ()
    """(unknown, contact or limit) of numbers that only an impact tells."""

    @classmethod
    def of(
        cls, structure: Structure, recordings: Sequence[Recording], unknowns: Sequence[Entry], mode: str, process_noise: ProcessNoise, robust: bool
    ) -> Touching:
        model = structure.model
        if not model.collides:
            return cls(reason="the model has no rigid contacts and no limits")
        reason = _reason(structure, recordings, mode, process_noise, robust)
        felt = next((o.channel for r in recordings for o in r.observations if observe.is_contact_force(observe.check(model, o.channel, r.channels))), None)
        if felt is not None and (reason or mode == LAWLESS):
            why = reason or f'with contacts = "{LAWLESS}" what lasts does not act'
            raise CalibodyError(f'"{felt}" is observed, but {why}; leave it out.')
        if reason:
            return cls(reason=reason)
        for recording in recordings:
            refuse_unknown_impacts(model, recording)
        places = [paths.resolve(model, p.path) for e in unknowns for p in e.places if p.sensor is None]
        asked = [(f"{p.kind}.{p.name}.{p.field}", f"{p.kind}.{p.name}") for p in places if p.kind in ("contact", "limit") and not _is_compliant(model, p)]
        if mode == LAWLESS and (given := next((a for a, _ in asked if a.rpartition(".")[2] in LAWS), None)):
            raise CalibodyError(f'"{given}" cannot be estimated with contacts = "free", where impulses follow no law; leave it out, or take contacts = "law".')
        return cls(mode, "", frozenset(_loose(model, places)), tuple(asked))

    @property
    def act(self) -> bool:
        return self.mode != NONE

    @property
    def inert(self) -> str | None:
        """Why numbers of contacts cannot be estimated; None where they can."""
        return None if self.act else f"{self.reason or 'contacts do not act'}; leave it out."

    @property
    def unknown_friction(self) -> bool:
        return any(path.endswith(".friction") for path, _ in self.asked)

    @property
    def rounds(self) -> int:
        """How often a fit may be completed."""
        return ROUNDS if self.act else 0

    # -- how a fit begins --------------------------------------------------------------------------------------------------------

    def begun(self, problem: Problem, x: Sequence[States], theta: np.ndarray, proposed: Mapping[int, Proposed]) -> tuple[Problem, list[States]]:
        """The problem with the impacts that are proposed for its runs, or that their first motion shows, and a motion that has them; a sentence where one is asked about that there is not."""
        both = []
        for r, (run, states) in enumerate(zip(problem.runs, x, strict=True)):
            if r in proposed and proposed[r].first:
                both.append(self.as_proposed(problem, proposed[r], proposed[r].best, theta))
                continue
            model, numbers, sensors = problem.model_of(r, theta)
            if run.recording.impacts:
                both.append(self.struck(run, known_hits(run, model, numbers, states), model, numbers, sensors))
                continue
            stays, closed = staying.found(run, model, numbers, states, self.loose) if self.mode == LAW else ([], {})
            hits = [*stays, *kinks.found(run, model, numbers, states, self.loose, closed)]
            both.append(self.struck(run, hits, model, numbers, sensors) if hits else (run, states))
        self.check([run for run, _ in both])
        return replace(problem, runs=tuple(run for run, _ in both)), [states for _, states in both]

    def proposed(self, problem: Problem, x: Sequence[States], theta: np.ndarray) -> dict[int, Proposed]:
        """Of runs in which a body flies freely, the sequences of impacts that a search by simulation finds. In noise several impacts look like contact that lasts: where that could be, a fit
        begins with single impacts only if they explain the data; where something certainly stays closed, the search goes up to there. Of a recording that
        says what strikes only sequences that are like that are kept."""
        if self.mode != LAW:
            return {}
        flies, doubtful, then = [], [], {}
        for r, (run, states) in enumerate(zip(problem.runs, x, strict=True)):
            model, numbers, _ = problem.model_of(r, theta)
            if run.recording.impacts:
                flies.append(r)
                continue
            stays, closed = staying.found(run, model, numbers, states, self.loose)
            flies.append(r)
            if staying.certain(stays, run, model, numbers, states):
                first = min(hit.time for hit in stays)
                strike = [hit for hit in kinks.found(run, model, numbers, states, self.loose, closed) if hit.time > first]
                then[r] = tuple(sorted([*stays, *strike], key=lambda hit: hit.time))
            elif stays:
                doubtful.append(r)
        found = proposals.proposed(problem, x, theta, flies, doubtful, then)
        for r in [r for r in found if problem.runs[r].recording.impacts]:
            like = _as_known(found.pop(r), problem, r, theta)
            found |= {} if like is None else {r: like}
        return found

    def as_proposed(self, problem: Problem, found: Proposed, proposal: Proposal, theta: np.ndarray) -> tuple[Run, States]:
        """A run with the impacts of a proposal, and the motion of its particle."""
        theta = theta.copy()
        theta[problem.columns[found.search.r]] = proposal.theta
        model, numbers, sensors = problem.made_of(found.search.r, theta)
        if found.then:
            hits = landing.joined(proposal.hits, found.then, found.mesh.h)

            def flown(run: Struck, landings: Sequence[Hit]) -> np.ndarray:
                same = sum(a == b for a, b in zip(landings, proposal.hits, strict=False))
                ends = landings[same].time if same < len(landings) else np.inf
                same += bool(np.isfinite(ends)) and not any(hit.soft and hit.time < ends for hit in hits)  # the last, if it ends with a landing
                return found.search.motion(proposal, run, numbers, found.q, same) if same else found.q[:, :0]

            return self.struck(found.mesh, hits, model, numbers, sensors, flown)
        struck = self._with_strikes(found.mesh, proposal.hits, model)
        q = found.search.motion(proposal, struck, numbers, found.q, len(struck.spans))
        return self.decided(struck, model, numbers, struck.still(q[:, 0]).changed(**{NODES: q}), lawful=True)

    def struck(
        self,
        run: Run,
        hits: Sequence[Hit],
        model: Model,
        numbers: Numbers,
        sensors: Sensors,
        flown: Callable[[Struck, Sequence[Hit]], np.ndarray] | None = None,
    ) -> tuple[Run, States]:
        """A run without impacts as one with these and what stays closed, and its first motion, of which the first flights may be known: `flown`, (nq, nodes)."""
        landings = landing.landings(hits, float(run.times[0]))
        struck, states = first_motion(self._with_strikes(run, landings, model), model, numbers, sensors)
        assert isinstance(struck, Struck)
        if flown is not None:
            q = flown(struck, landings)
            states = states.changed(**{NODES: np.concatenate([q, states.q[:, q.shape[1] :]], axis=1)})
        if landings:
            struck, states = self.decided(struck, model, numbers, states, lawful=flown is not None)
        struck, states = landing.begun(struck, hits, model, numbers, states)
        idle = [landings[i] for i in landing.closed_already(struck, model, numbers, states)]
        if not idle:
            return struck, states
        rest = [replace(hit, soft=True) if hit in idle else hit for hit in hits if hit not in idle or hit.until is not None]
        return self.struck(run, rest, model, numbers, sensors, flown)

    def _with_strikes(self, run: Run, hits: Sequence[Hit], model: Model) -> Struck:
        """A run without impacts as one with these; what they do is decided later."""
        count = run.K
        nodes = [int(np.clip(np.floor((hit.time - run.times[0]) / run.h), 0, count - 2)) for hit in hits]
        spots = Spots.of(run.structure, model)
        between = len(spots.links[0])
        mode = LAWLESS if self.mode == LAWLESS else SLIP
        strikes = [Strike(k, hit.spot, mode, 0 if hit.spot >= between else 1) for k, hit in zip(nodes, hits, strict=True)]
        return Struck.between(run, strikes, [hit.time for hit in hits])

    def decided(self, run: Struck, model: Model, numbers: Numbers, states: States, lawful: bool = False) -> tuple[Struck, States]:
        """With what the law of impacts makes of the velocities before; where its friction is unknown and the motion not `lawful`, with what those after show."""
        found, spots = met(run, model, numbers, states), run.spots(model)
        W, approach, parting, strikes, impacts = law.mobility(found), found.approach, found.parting, [], states.parts[IMPACTS].copy()
        unknown = {owner for path, owner in self.asked if path.endswith(".friction") and not lawful}
        for i, (strike, owner) in enumerate(zip(run.strikes, run.owners, strict=True)):
            if owner in unknown or strike.mode == LAWLESS:
                new, impulse = shown(strike, W[i], approach[i], parting[i])
            else:
                new, impulse = decided(strike, W[i], approach[i], spots.friction[strike.spot], spots.restitution[strike.spot])
            strikes.append(new if strike.mode != LAWLESS else replace(new, mode=LAWLESS, towards=0.0))
            impacts[i, 1:] = impulse
        return replace(run, strikes=tuple(strikes)), states.changed(**{IMPACTS: impacts})

    def completed(self, solution: Solution, known: Collection[int] = ()) -> tuple[Any, list[States]] | None:
        """The problem without impacts that pull, and with one more where the motion of a run goes through something, but of those that are `known`, whose sequence was searched; None where there are none such."""
        problem, x = solution.problem, list(solution.x)
        runs, more = list(problem.runs), False
        for r, run in enumerate(runs):
            model, numbers, sensors = problem.model_of(r, solution.theta)
            other = self._other(run, x[r], model, numbers, sensors, r in known)
            if other is not None:
                (runs[r], x[r]), more = other, True
        return (replace(problem, runs=tuple(runs)), x) if more else None

    def _other(self, run: Run, states: States, model: Model, numbers: Numbers, sensors: Sensors, searched: bool) -> tuple[Run, States] | None:
        """A run without what pulls, or with what the motion goes through; None where neither is."""
        if isinstance(run, Struck):
            pushed = pushing(run, states, model, numbers) if run.strikes else None
            if pushed is not None:
                return pushed
            holds = held.released(run, states)
            if holds is not None:
                return landing.held_anew(run, states, holds, model, numbers)
            speeds = -met(run, model, numbers, states).approach[:, 0] if run.strikes else np.zeros(0)
            bouncing = self._bouncing(run, speeds, states, model, numbers)
            if bouncing is not None:
                return self.struck(run.changed((), ()), bouncing, model, numbers, sensors, lambda new, _: states.q[:, : landing.alike(run, new)])
            holds = landing.bounced(run, speeds, model, numbers, states)
            if holds is not None:
                return landing.held_anew(run, states, holds, model, numbers)
        hit = None if searched else missed(run, model, numbers, states)
        if hit is None:
            return None
        if isinstance(run, Struck):
            gap = gaps(run.structure, model, numbers, states.q[:, run.actual])[hit.spot]
            node = int(np.searchsorted(run.clock, hit.time))
            longer = held.prolonged(run, gap, hit.spot, node)
            if longer is not None:
                return landing.held_anew(run, states, longer, model, numbers)
        known = landing.hits_of(run) if isinstance(run, Struck) else []
        mesh = run.changed((), ()) if isinstance(run, Struck) else run
        return self.struck(mesh, [*known, Hit(hit.time, hit.spot)], model, numbers, sensors)

    @staticmethod
    def _bouncing(run: Struck, speeds: np.ndarray, states: States, model: Model, numbers: Numbers) -> list[Hit] | None:
        """The impacts of a run whose landings come back; None where none does."""
        hits = landing.hits_of(run)
        landings = [next((h for h in hits if h.time == t and h.spot == s.spot), Hit(t, s.spot)) for t, s in zip(run.taus, run.strikes, strict=True)]
        return landing.unfolded(run, hits, landings, speeds, model, numbers, states) if run.strikes else None

    def refuse_inside(self, problem: Problem, x: Sequence[States], theta: np.ndarray) -> None:
        """A sentence where a recording begins with something inside another whose place is known."""
        for r, (run, states) in enumerate(zip(problem.runs, x, strict=True)):
            self._refuse_inside(run, *problem.model_of(r, theta)[:2], states)

    def _refuse_inside(self, run: Run, model: Model, numbers: Numbers, states: States) -> None:
        gap, spots = gaps(run.structure, model, numbers, states.q), Spots.of(run.structure, model)
        gap[~np.isfinite(gap)] = 0.0
        depth = -np.median(gap[:, :BEGINS], axis=1)
        deep = np.array([k for k in np.flatnonzero(depth > 0.0) if spots.owner_name(int(k)) not in self.loose], dtype=np.int64)
        if not len(deep):
            return
        sd, worst = staying.gap_sd(run, model, numbers, states, deep), int(deep[np.argmax(depth[deep])])
        if depth[worst] > staying.SURE * float(np.median(sd[worst])) + INSIDE * float(np.ptp(gap)):
            name = spots.owner_name(worst)
            raise CalibodyError(
                f'The recording "{run.recording.name}" begins {depth[worst]:.2g} {"rad or m" if name.startswith("limit") else "m"} inside {name}; correct its place or the shapes in the model, '
                'estimate them, or leave contacts out (contacts = "none").'
            )

    def check(self, runs: Sequence[Run]) -> None:
        """A sentence for an unknown of a contact that nothing touches."""
        touched = {name for run in runs if isinstance(run, Struck) for name in (*run.owners, *run.lasting_on)}
        for name, owner in self.asked:
            if owner not in touched:
                raise CalibodyError(
                    f'"{name}" is estimated, but nothing touches {owner} in the recordings; leave it out, or give a recording in which something does.'
                )


def refuse_unknown_impacts(model: Model, recording: Recording) -> None:
    """A sentence for an impact on what the model does not have."""
    names = [f"{e.KIND}.{e.name}" for e in (*model.contacts, *model.limits) if not e.compliant]
    for impact in recording.impacts:
        if impact.contact not in names:
            raise CalibodyError(
                f'The recording "{recording.name}" has an impact on "{impact.contact}"{nearest(impact.contact, names) or "; the model has " + ", ".join(names) + "."}'
            )


def known_hits(run: Run, model: Model, numbers: Numbers, states: States) -> list[Hit]:
    """The impacts that a recording says there are, each on the place that its point is nearest to, or whose gap is least then."""
    spots, s, out = Spots.of(run.structure, model), run.structure, list[Hit]()
    owners = np.array([spots.owner_name(k) for k in range(spots.count)])
    H = poses(s, Geometry.of(s, numbers), states.q)
    touch, gap = spots.touch(H), gaps(s, model, numbers, states.q)
    seen = [(hit.time, spots.owner_name(hit.spot)) for hit in kinks.found(run, model, numbers, states, {i.contact for i in run.recording.impacts})]
    for impact in run.recording.impacts:
        k, mine = int(np.clip(round((impact.time - run.times[0]) / run.h), 0, run.K - 1)), np.flatnonzero(owners == impact.contact)
        away = gap[mine, k]
        if impact.point is not None and len(mine) > 1:
            on_b = spots.side[mine] < 0.0
            link, at = np.where(on_b, spots.links[1][mine], spots.links[0][mine]), np.where(on_b, touch.at_b[:, mine, k], touch.at_a[:, mine, k])
            own = np.einsum("ijm,im->jm", H[:, :3, link, k], at - H[:, 3, link, k])
            away = np.linalg.norm(own - np.array(impact.point)[:, None], axis=0)
        near = [t for t, name in seen if name == impact.contact and abs(t - impact.time) < ABOUT]
        out.append(Hit(min(near, key=lambda t: abs(t - impact.time), default=impact.time), int(mine[np.argmin(away)])))
    return out


def _as_known(found: Proposed, problem: Problem, r: int, theta: np.ndarray) -> Proposed | None:
    """Of what was found for a run the sequences that are like the one that its recording says; None: none is."""
    run, said, (model, numbers, _) = problem.runs[r], problem.runs[r].recording.impacts, problem.model_of(r, theta)
    spots, gap = Spots.of(run.structure), gaps(run.structure, model, numbers, found.q)
    known = known_hits(run, model, numbers, run.still(found.q[:, 0]).changed(**{NODES: found.q}))

    def alike(proposal: Proposal) -> bool:
        return len(proposal.hits) == len(said) and all(
            spots.owner_name(h.spot) == i.contact and abs(h.time - i.time) < ABOUT and (i.point is None or np.allclose(gap[h.spot], gap[k.spot]))
            for h, i, k in zip(proposal.hits, said, known, strict=True)
        )

    like = tuple(filter(alike, found.proposals))
    return replace(found, proposals=like, first=True) if like else None


def _reason(structure: Structure, recordings: Sequence[Recording], mode: str, process_noise: ProcessNoise, robust: bool) -> str:
    """Why contacts do not act."""
    model = structure.model
    if mode == NONE:
        return 'contacts = "none" leaves them out'
    if structure.coordinates != TREE:
        return 'contacts act in fits with coordinates = "tree" only'
    if structure.nc:
        return "contacts of mechanisms with closed loops do not act in fits yet"
    if process_noise != "none":
        return 'contacts act in fits with process_noise = "none" only'
    if robust:
        return "contacts act in fits without robust = true only"
    if any(r.deviations for r in recordings):
        return "contacts act in fits whose drives have no sd only"
    soft = next((f"{e.KIND}.{e.name}" for e in (*model.contacts, *model.limits) if e.law == POISSON), None)
    return f'{soft} has law = "{POISSON}", which fits do not know' if soft else ""


def _is_compliant(model: Model, place: paths.Place) -> bool:
    return place.kind in ("contact", "limit") and model.tables[place.kind][place.name].compliant


def _loose(model: Model, places: Sequence[paths.Place]) -> set[str]:
    """Contacts and limits whose place depends on unknowns."""
    out, shapes = set(), {p.name for p in places if p.kind in ("geometry", "site")}
    ground = any(p.kind == "world" and p.field.startswith("ground") for p in places)
    for p in places:
        if p.kind in ("contact", "limit") and p.field in ("position", "radius") and not _is_compliant(model, p):
            out.add(f"{p.kind}.{p.name}")
    for c in (c for c in model.contacts if not c.compliant):
        if ground or shapes & {c.a, c.b}:
            out.add(f"contact.{c.name}")
    return out


def refined(run: Run, old: Run) -> Run:
    """A run on another mesh with the impacts that it has on the old one."""
    run = replace(run, weights=old.weights) if not isinstance(old, Struck) else run
    if not isinstance(old, Struck):
        return run
    strikes = [replace(s, node=int(np.clip(np.floor((t - run.times[0]) / run.h), 0, run.K - 2)), changes=0) for s, t in zip(old.strikes, old.taus, strict=True)]
    return Struck.between(run, strikes, old.taus, [landing.finer(hold, old.clock, run.times) for hold in old.holds])
