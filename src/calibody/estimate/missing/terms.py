"""Terms that no number of the model stands for, as columns of the linearisation: what a transmission between motor and joint, another law of friction or another start would do.

**A transmission that gives.** Let the motor transmit the force t to its joint, and turn ahead of it by `e(t)`: `t/k` through a spring, `b/2 sign(t)` through backlash b. Seen from an encoder on
the motor's shaft the joint's angle is off by e, and the rotor (armature J_r), which follows the motor, adds the force `-J_r e''` to the joint. Seen from the joint only the second is there; for a
spring with any rotor it is `-(J_r/k) u''` to first order, u the force of the motor. `t = u - J_r q''`. The two have opposite signs in what is measured, and neither k nor b can be negative.

**Stribeck's drop** depends on a rate that no fit without it knows: it is tried at several.

**A force that is given** (a drive of a joint's force, which no actuator stands for) may be wrong by a factor, late or off by a constant: columns -u, u' and -1 among the forces on the joint. A motor that **saturates** gives
nothing beyond some level: a column `sign(u) max(|u| - level, 0)`, tried at several, since only the logs of what was asked for, not of what was given, are wrong like this.

**Friction that is not in proportion to the rate** (air, oil) is a column of `|rho| rho`.

**A start that is known** exactly is an equation, `value - y = 0`; if it is off by d, the column is -1. One with a standard deviation is a sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from calibody.estimate import observe
from calibody.estimate.layout import START, States
from calibody.estimate.observe import Data, Driven
from calibody.estimate.observed import predicted
from calibody.estimate.problem import Problem
from calibody.estimate.run import Run
from calibody.mechanics import assembly, channels
from calibody.mechanics.assembly import Frames
from calibody.mechanics.plan import plan_of
from calibody.mechanics.structure import HINGE, SLIDE
from calibody.model import Model
from calibody.model.elements import Joint
from calibody.solve.condensed import Runs

TURNED = 0.3
"""Transmitted force, over its rms, over which backlash is crossed. The rotor takes a time for that in which the force changes by `(6 J_r b u'^2)^(1/3)`, from its free motion `J_r x'' = u't`: for gaps of
milliradians and drives of a few hertz some tenths of the rms."""
STRIBECK = (0.05, 0.2, 0.5)
"""Rates at which Stribeck's drop is tried, in units of the joint's rms rate: from about the slowest that the law of dry friction resolves in a fit (suspects.SHARP) to where it is hardly told from
viscous friction, a factor of three or so apart, over which the extra friction near reversals changes little but in size."""

SATURATED = (0.5, 0.7, 0.85, 0.95)
"""Shares of a force's samples that are smaller than the level at which a motor is tried to end: of what was asked for in a closed loop that saturates, the largest is many times that."""
BEYOND = 1.5
"""Share of what is beyond the level that is missing, at most: 1 of a motor that ends there, some more where the level is not quite that."""
STARTS = 24
"""Known starts up to which each is a suspect of its own: with very many runs their columns would cost more than the fit."""


@dataclass(frozen=True, eq=False)
class Term:
    """A number, zero in the model, and how the residuals F and the equations C of every run change with it."""

    path: str
    words: str
    unit: str
    remedy: str
    """What to do: it cannot simply be estimated."""
    by_run: tuple[tuple[np.ndarray, np.ndarray], ...]
    held: float = 0.0
    lower: float = 0.0
    upper: float = np.inf
    scale: float = 1e-3
    plural: str = ""
    """What several of its kind are called; empty where they are not asked about together."""


def terms(problem: Problem, x: Sequence[States], theta: np.ndarray) -> list[Term]:
    """All that apply to a problem."""
    out = [*_starts(problem)]
    views = [_View.of(problem, r, states, theta) for r, states in enumerate(x)]
    for joint in problem.model.joints:
        if joint.kind in (HINGE, SLIDE):
            out += [*_transmission(views, joint), *_stribeck(problem, views, joint), *_drag(views, joint), *_given(views, joint)]
    return [t for t in out if any(F.any() or C.any() for F, C in t.by_run)]


def widened(lin: Runs, found: Sequence[Term]) -> Runs:
    """With a column for each term."""
    parts = []
    for r, part in enumerate(lin.parts):
        F, C = (np.stack([t.by_run[r][k] for t in found], axis=1) if found else np.zeros((n, 0)) for k, n in ((0, len(part.F)), (1, len(part.C))))
        parts.append(replace(part, Ft=np.hstack([part.Ft, F]), Ct=np.hstack([part.Ct, C])))  # type: ignore[type-var]
    more = lin.parameters + np.arange(len(found))
    loose = sp.hstack([lin.loose_theta, sp.csr_matrix((len(lin.loose), len(found)))], format="csr")
    return Runs(lin.loose, loose, tuple(parts), tuple(np.append(own, more) for own in lin.columns), lin.parameters + len(found))


# -- starts ------------------------------------------------------------------------------------------------------------------------------


def _starts(problem: Problem) -> Iterator[Term]:
    if sum(len(run.recording.initial) for run in problem.runs) > STARTS:
        return
    for r, run in enumerate(problem.runs):
        name = run.recording.name
        exact = [(d, k, None) for k, d in enumerate(run.starts)]
        first, noisy = 0, []
        for d in run.data:
            if observe.is_initial(d.channel):
                noisy.append((d, None, first))
            first += len(d.y)
        for d, equation, sample in (*exact, *noisy):
            by = [_nothing(other) for other in problem.runs]
            if equation is not None:
                by[r][1][run.layout.row_place[START].start + equation] = -1.0
            else:
                by[r][0][sample] = -float(run.weight(d)[0])
            path, given = d.channel.path, float(d.y[0])
            remedy = f'Correct the initial value of {path.removeprefix(observe.INITIAL)} of the run "{name}", give it an sd, or leave it out.'
            yield Term(f"{path}[{name}]", f"another start of {path.removeprefix(observe.INITIAL)}", d.channel.unit, remedy, tuple(by), given, -np.inf)


def _nothing(run: Run) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(run.samples + run.layout.priors), np.zeros(run.layout.rows)


# -- a run as it moves -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _View:
    run: Run
    model: Model
    frames: Frames
    problem: Problem
    r: int
    states: States
    theta: np.ndarray

    @classmethod
    def of(cls, problem: Problem, r: int, states: States, theta: np.ndarray) -> _View:
        model, numbers, _ = problem.model_of(r, theta)
        return cls(problem.runs[r], model, problem.frames(r, states, model, numbers), problem, r, states, theta)

    def place(self, joint: Joint) -> int:
        """Which scalar coordinate the joint is."""
        return self.run.structure.coordinate_index[joint.name]

    def driving(self, joint: Joint) -> np.ndarray:
        """(K,) the force of all drives on a joint, at the nodes."""
        channel, times = channels.resolve(self.model, f"joint.{joint.name}.force"), self.run.times
        d = Data(channel, np.zeros(len(times)), times, *self.run.sampled(channel, times))
        _, numbers, _ = self.problem.model_of(self.r, self.theta)
        means = Driven(lambda: self.run.drives(self.model, self.states))  # what moves it, not what a sensor would read at the instant of a jump
        return predicted(self.run, self.model, numbers, self.frames, self.states.multipliers, {}, d, means).value

    def bent(self, values: np.ndarray) -> np.ndarray:
        """(K,) second derivative by time of values at the nodes; at both ends as beside them."""
        inner = (values[2:] - 2.0 * values[1:-1] + values[:-2]) / self.run.h**2
        return np.concatenate([inner[:1], inner, inner[-1:]])

    def pushed(self, joint: Joint, force: np.ndarray) -> np.ndarray:
        """The equations' change with a force (K,) on a joint."""
        s, run = self.run.structure, self.run
        plan = plan_of(s)
        dofs, acts = assembly.acting(plan, self.frames, int(plan.coordinate_dof[self.place(joint)]))
        out, m = np.zeros(run.layout.rows), np.arange(run.inner)
        for a, dof in enumerate(dofs):
            out[m * s.nv + dof] -= acts[a, 1:-1] * force[1:-1]
        return out

    def read(self, joint: Joint, shift: np.ndarray) -> np.ndarray:
        """The residuals' change where sensors of a joint read a coordinate that is off by `shift` (K,)."""
        out, first = np.zeros(self.run.samples + self.run.layout.priors), 0
        for d in self.run.data:
            if d.channel.kind == "joint" and d.channel.name == joint.name and d.channel.quantity in ("angle", "position", "rate"):
                if not observe.is_initial(d.channel):
                    out[first : first + len(d.y)] = self.run.weight(d) * (d.W @ shift)
            first += len(d.y)
        return out


# -- transmission ------------------------------------------------------------------------------------------------------------------------


def _transmission(views: Sequence[_View], joint: Joint) -> Iterator[Term]:
    drives = [view.driving(joint) for view in views]
    size = float(np.sqrt(np.mean(np.concatenate(drives) ** 2)))
    if not size > 0.0:
        return
    at, unit, rotors = f"joint.{joint.name}", joint.units, [view.model.joint(joint.name).armature for view in views]
    carried = [u - J * view.bent(view.frames.s[view.place(joint)]) for view, u, J in zip(views, drives, rotors, strict=True)]
    sides = [np.tanh(t / (TURNED * size)) for t in carried]

    def ahead(shifts: Sequence[np.ndarray], seen: bool) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """The motor ahead of the joint by `shifts`, and whether its shaft is what sensors read."""
        out = []
        for view, shift, J in zip(views, shifts, rotors, strict=True):
            read = view.read(joint, shift) if seen else 0.0 * view.read(joint, shift)
            out.append((read, view.pushed(joint, -J * view.bent(shift))))
        return tuple(out)

    between = f"between motor and {at}"
    yield Term(f"{at}.windup", f"a spring {between}, whose sensor is on the motor's side", f"{unit['s']}/({unit['f']})",
        f"Model the spring {between} as a body of its own, or measure behind it.", ahead(carried, True))  # fmt: skip
    yield Term(f"{at}.flexibility", f"a spring {between} (inertia of the rotor over its stiffness)", "s^2",
        f"Model the spring {between} as a body of its own.", tuple((0.0 * v.read(joint, u), v.pushed(joint, -v.bent(u))) for v, u in zip(views, drives, strict=True)), scale=1e-4)  # fmt: skip
    half = [0.5 * side for side in sides]
    remedy = f"Measure behind the transmission of {at}, preload it, or leave out samples where the force turns round."
    yield Term(f"{at}.backlash", f"backlash {between}, whose sensor is on the motor's side", unit["s"], remedy, ahead(half, True))
    if any(rotors):
        yield Term(f"{at}.play", f"backlash {between}", unit["s"], remedy, ahead(half, False))


# -- drives ------------------------------------------------------------------------------------------------------------------------------


def _given(views: Sequence[_View], joint: Joint) -> Iterator[Term]:
    """A force that drives exert: what it would be if a motor ended at some level; and, of a force that is given as such, factor, delay and constant."""
    drives = [view.driving(joint) for view in views]
    if not any(u.any() for u in drives):
        return
    path, unit = f"joint.{joint.name}.force", joint.units["f"]
    pushed = lambda forces: tuple((0.0 * v.read(joint, f), v.pushed(joint, f)) for v, f in zip(views, forces, strict=True))  # noqa: E731
    limit = f"Give the force that was exerted, not the one that was asked for, or let the drive end where the motor does (in an MJCF file ctrlrange or forcerange of its actuator; limits of {path} in the log)."
    for level in np.unique(np.quantile(np.abs(np.concatenate(drives)), SATURATED)):
        beyond = [np.sign(u) * np.maximum(np.abs(u) - level, 0.0) for u in drives]
        words = f"a motor that gives no more than about {level:.2g} {unit} at joint.{joint.name}"
        yield Term(f"{path}.saturation", words, "", limit, pushed([-b for b in beyond]), upper=BEYOND)
    if not any(d.channel == path for view in views for d in view.run.recording.drives):
        return
    correct = f"Correct the column of {path} in the experiment (%s), or give it as the control of an actuator of the model, whose %s can be estimated."
    yield Term(f"{path}.gain", f"a scale of {path}", "", correct % ("scale", "gain"), pushed(drives), 1.0, 0.5, 2.0, 1.0, "scales of drives")
    late = [-np.gradient(u, view.run.h) for view, u in zip(views, drives, strict=True)]
    yield Term(f"{path}.delay", f"a delay of {path}", "s", correct % ("shift its clock", "delay"), pushed(late), lower=-np.inf, plural="delays of drives")
    constant = [np.ones_like(u) for u in drives]
    yield Term(
        f"{path}.bias", f"a constant force of {path}", unit, correct % ("offset", "bias"), pushed(constant), lower=-np.inf, plural="constant forces of drives"
    )


# -- friction ----------------------------------------------------------------------------------------------------------------------------


def _drag(views: Sequence[_View], joint: Joint) -> Iterator[Term]:
    """Friction that grows with the rate otherwise than in proportion."""
    unit = f"{joint.units['f']} s^2/{joint.units['s']}^2"
    by = []
    for view in views:
        rho = assembly.interval_rates(view.frames, view.run.h)[1][view.place(joint)]
        by.append((np.zeros(view.run.samples + view.run.layout.priors), view.pushed(joint, -observe.mean_matrix(view.run.K) @ (np.abs(rho) * rho))))
    at = f"joint.{joint.name}"
    remedy = (
        f"No law of the model grows with the square of the rate: move {at} at rates as in its use, or let unmodelled forces take it up (method.process_noise)."
    )
    yield Term(f"{at}.drag", f"friction of {at} that does not grow in proportion to the rate (air, oil)", unit, remedy, tuple(by), lower=-np.inf)


def _stribeck(problem: Problem, views: Sequence[_View], joint: Joint) -> Iterator[Term]:
    """Friction of a joint that rubs anyway, which falls over rates other than the model's."""
    if joint.name not in problem.friction_rate:
        return
    rates = [assembly.interval_rates(view.frames, view.run.h)[1][view.place(joint)] for view in views]
    size, least = float(np.sqrt(np.mean(np.concatenate(rates) ** 2))), problem.friction_rate[joint.name]
    for share in STRIBECK:
        by = []
        for view, rho in zip(views, rates, strict=True):
            drop = -np.exp(-((rho / (share * size)) ** 2)) * rho / np.hypot(rho, least)
            by.append((np.zeros(view.run.samples + view.run.layout.priors), view.pushed(joint, observe.mean_matrix(view.run.K) @ drop)))
        at, rate = f"joint.{joint.name}", f"{share * size:.2g} {joint.units['s']}/s"
        remedy = f"Set joint.{joint.name}.stribeck_rate to about {rate} in the model and add {at}.stribeck to the unknowns."
        yield Term(f"{at}.stribeck", f"friction of {at} that falls with the rate (Stribeck, about {rate})", joint.units["f"], remedy, tuple(by), 0.0, 0.0)
