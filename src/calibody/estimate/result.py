"""What a fit returns: parameters with error bars, the motion, how well it fits, and what the data cannot tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibody import html, upward
from calibody.errors import CalibodyError, nearest, shown
from calibody.estimate.chi_square import joint_factor
from calibody.estimate.identifiability import Determined
from calibody.model import Model

if TYPE_CHECKING:
    from calibody.estimate.contacts.impact_bars import Happened
    from calibody.estimate.draws.profile import Profile
    from calibody.estimate.observed import Observed
    from calibody.estimate.people.weighing import Weighed
    from calibody.estimate.predict import Prediction
    from calibody.estimate.uncertainty import Uncertainty
    from calibody.estimate.unknowns import Entry, Unknown
    from calibody.estimate.validation import Validation
    from calibody.experiment.saved import Saved
    from calibody.recording.recording import Recording
    from calibody.report.plots import Plots
    from calibody.solve.gauss_newton import Iteration
    from calibody.steppers.motion import Motion


APART = 3.0
"""Standard deviations by which estimates with and without unmodelled forces may differ."""
NOT_QUITE_WHITE = "The residuals are not white noise"
"""How the note begins that says so."""
FORCES_DECIDE = "The estimates depend on the unmodelled forces"
"""How the note begins that says that they differ by more; the verdict looks for it."""
WEIGHED = "Inertias are weighed with forces that nobody measured"
"""How the note begins that says so; the verdict looks for it."""
IMPACTS_DOUBTED = "The sequence of impacts cannot be trusted"
"""How the note begins that says so; the verdict looks for it."""
PUSHING = "A damping is below zero beyond doubt"
"""How the note begins that says so; the verdict looks for it."""
TOGETHER = 4
"""Joints that are named where a line is about more."""
COARSE = 0.5
"""Discretisation error in standard deviations from which it matters."""
UNEXPLAINED = 0.3
"""Residuals over the scatter of the measurement itself from which most of it is left over, which no noise can be."""
LEFT_OVER = "it leaves over"
"""How the status of a fit without unmodelled forces begins that says little of a channel."""
SMALL = 1e-3
"""Relative error of a scale that is easily made: gravity is 9.78 to 9.83 m/s^2 from place to place, and periods of sampling are often those that were asked for."""
ROUGH = 1e-2
"""The same of forces that are given: torque constants and gears are seldom known better."""
EXACT = "The error bars take as exact what no residual shows"
"""How the note begins that says what estimates rest on."""
HELD = "The estimates are as right as numbers of the model that were held and that these data cannot tell"
"""How the note begins that says which numbers of the model's file that is."""
UNSHOWN = 3.0
"""Standard deviations up to which residuals do not tell that a number is off."""
DRIVES = "the scale of the drives"
"""What such a note calls the forces that are given."""
COMMON = 0.7
"""Correlation of the unmodelled forces of two joints from which on half of them has one cause, which is said."""
SLOW = 1e-3
"""Probability below which the unmodelled force of a joint is said to be slow: with up to ten joints, false in less than one fit of a hundred."""
ALIKE = 4.0
"""Difference of gains (twice that of the logarithmic likelihoods) within which two suspects explain the data alike: beyond, one is e^2 times as likely as the other."""
MOSTLY = 0.5
"""Share of an unmodelled force from which a suspect stands for most of it."""
FORCE_NOT_WHITE = "The unmodelled force is not white"
"""How the note begins that says so of a joint; the verdict looks for it."""

Again = Callable[["Recording", "Sequence[Entry]", np.ndarray], "Result"]


@dataclass(frozen=True)
class Estimate:
    """One parameter. `sd` is None where the data do not determine it, where it sits at a bound, and in a fit that did not converge."""

    value: float
    sd: float | None
    sd_naive: float | None
    """If the residuals were white, all runs agreed and nothing were missing."""
    unit: str
    initial: float
    lower: float
    upper: float
    at_bound: bool
    resolved: bool
    discretisation_error: float | None
    limit: float | None = None
    """Of one that sits at a bound: with 95 % confidence it lies between the bound and this."""
    missing: float | None = 0.0
    """How far what is missing would move it, which is in `sd` (`estimate/missing/misled.py`): what is named (`Result.lacks`), or the unmodelled forces where a fit without them says something else; None where that is."""

    @property
    def scatter(self) -> float | None:
        """The part of `sd` that noise makes."""
        return None if self.sd is None else math.sqrt(max(0.0, self.sd**2 - (self.missing or 0.0) ** 2))

    @property
    def bounded(self) -> str:
        """What is known of an estimate at its bound, for a table."""
        return "at bound" if self.limit is None else f"{'<=' if self.limit > self.value else '>='} {self.limit:.3g} (95 %)"


@dataclass(frozen=True)
class ChannelFit:
    """How one channel of one run is explained."""

    run: str
    channel: str
    times: np.ndarray = field(repr=False)
    measured: np.ndarray = field(repr=False)
    fitted: np.ndarray = field(repr=False)
    sd: float
    """Of its noise: stated, or found."""
    whiteness: float
    """Probability (Ljung-Box) of such residuals if they were white."""
    weight: np.ndarray = field(repr=False)
    """Of the samples: 1, less for outliers of a robust fit."""
    relative_sd: np.ndarray | float = field(default=1.0, repr=False)
    """The sd of every sample over `sd`."""

    @property
    def residual(self) -> np.ndarray:
        return self.measured - self.fitted

    @property
    def rms(self) -> float:
        return float(np.sqrt(np.mean(self.residual**2)))

    @property
    def rms_over_sd(self) -> float:
        return float(np.sqrt(np.mean(self.deviation**2)))

    @property
    def unexplained(self) -> bool:
        """Whether the model says little about the channel, whatever its noise is taken to be."""
        spread = float(np.std(self.measured))
        return spread > 0.0 and self.rms > UNEXPLAINED * spread

    @property
    def deviation(self) -> np.ndarray:
        """The residual of every sample in units of its sd."""
        return self.residual / (self.sd * self.relative_sd)


@dataclass(frozen=True)
class Agreed:
    """Whether the runs of a joint fit agree: chi2 between them and its probability if they do."""

    agree: bool
    chi2: float
    dof: int
    probability: float


@dataclass(frozen=True)
class Outlier:
    """A sample far from the fit: by how many standard deviations of its noise."""

    run: str
    channel: str
    time: float
    deviation: float


@dataclass(frozen=True)
class SlowForce:
    """An unmodelled force with a memory: its standard deviation [N, N m] and correlation time [s]."""

    sd: float
    correlation_time: float


@dataclass(frozen=True)
class ForcesTogether:
    """The unmodelled forces of two joints, and how far they go together: correlation 0 is not at all, 1 and -1 entirely."""

    joints: tuple[str, str]
    correlation: float

    @property
    def common(self) -> bool:
        """Whether half of them and more (the square of `COMMON`) has one cause."""
        return abs(self.correlation) > COMMON


@dataclass(frozen=True)
class Rest:
    """A number that a fit takes as exact and that its data cannot tell, and what hangs on it: gravity, the clock, the scale of the drives, or a number of the model's file that was held."""

    path: str
    words: str
    moves: dict[str, float]
    """Relative change of every estimate over that of the number; over the number's own, in its `unit`, where it has one."""
    sds: dict[str, float]
    """The same in standard deviations of the estimate, for a change of the number by `small`."""
    small: float = SMALL
    """A change that is easily made: relative, or in its `unit`; less where the residuals would tell that."""
    shows: float = 0.0
    """By how many standard deviations the residuals would tell such a change, if all else is as modelled."""
    unit: str = ""
    """Of places and centres of mass, which may be zero: m. Empty: changes are relative."""
    held: bool = False
    """Whether it is a number of the model's file."""

    @property
    def largest(self) -> tuple[str, float]:
        """The estimate that moves by most of its standard deviations, and by how many."""
        return max(((name, abs(move)) for name, move in self.sds.items()), key=lambda pair: pair[1], default=("", 0.0))

    @property
    def telling(self) -> bool:
        """Whether an error bar is smaller than what a change that nothing shows would do."""
        return self.largest[1] > 1.0 and self.shows <= UNSHOWN

    @property
    def amount(self) -> str:
        """The change, with its unit."""
        return f"{1e3 * self.small:.2g} mm" if self.unit else f"{100.0 * self.small:.2g} %"

    @property
    def moved(self) -> str:
        """The estimate that moves by most, and how."""
        name, sds = self.largest
        return f"{name} by {100.0 * self.small * self.moves[name]:+.2g} %, {sds:.2g} of its standard deviations"

    @property
    def owner(self) -> str:
        """The element whose number it is."""
        return ".".join(self.path.split(".")[:2])


def worst_held(rests: Sequence[Rest], most: int) -> list[Rest]:
    """Of numbers of the model's file that tell the most: one of each element, so many of them. Gains and gears of single drives are not among them where the scale of all drives is taken as exact, which is said by itself."""
    scaled = any(rest.words == DRIVES and rest.telling for rest in rests)
    by_owner: dict[str, Rest] = {}
    for rest in sorted((rest for rest in rests if rest.held and rest.telling), key=lambda rest: -rest.largest[1]):
        if not (scaled and rest.path.endswith((".gain", ".gear"))):
            by_owner.setdefault(rest.owner, rest)
    return list(by_owner.values())[:most]


@dataclass(frozen=True)
class ForceTest:
    """Whether the unmodelled force of a joint is the noise it was taken to be: chi-square of slow forces, its degrees of freedom, and the probability of it if nothing slow is missing."""

    probability: float
    chi2: float
    dof: int

    @property
    def slow(self) -> bool:
        return self.probability < SLOW


@dataclass(frozen=True)
class Comparison:
    """What a fit without unmodelled forces says beside one with them."""

    status: str
    """ "converged", or why there is nothing to compare with."""
    values: dict[str, float]
    sds: dict[str, float | None]
    apart: dict[str, float]
    """Of the parameters that both determine: by how many standard deviations of their difference, as if the two were independent, the fit without forces is above the one with them."""

    @property
    def largest(self) -> tuple[str, float]:
        """The parameter about which they differ most; no name where nothing can be compared."""
        return max(self.apart.items(), key=lambda item: abs(item[1]), default=("", 0.0))

    @property
    def agrees(self) -> bool:
        """Whether both say the same; not, where there is nothing to compare with."""
        return self.status == "converged" and abs(self.largest[1]) <= APART


@dataclass(frozen=True)
class Part:
    """One of several numbers that are suspected together."""

    path: str
    held: float
    value: float
    sd: float
    unit: str

    @property
    def found(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        return f"{self.value:.4g} +- {self.sd:.2g}{unit} where {self.held:g} was taken"

    @property
    def sentence(self) -> str:
        return f"{self.path} = {self.found}"


@dataclass(frozen=True)
class Suspect:
    """A number that the data want elsewhere than where it was held; or several of one kind, which each alone says less of (`parts`): value and sd are then those of the surest."""

    path: str
    """Of several: all their paths, with commas."""
    words: str
    """What it is, for a sentence."""
    held: float
    value: float
    """One-step estimate."""
    sd: float | None
    """None for what is no number of the model: noise that is not as it was taken to be."""
    unit: str
    chi2: float
    """Of one degree of freedom, by the scatter that the residuals show."""
    gain: float
    """Twice the logarithmic likelihood that it gains, the noise as it was taken to be: what suspects are compared by."""
    probability: float
    """Of such a chi2 among all suspects, if the model lacked nothing."""
    shifts: dict[str, float]
    """By how many of their standard deviations the estimates would move."""
    alike: tuple[str, ...] = ()
    """Paths of other suspects that explain the data nearly as well."""
    remedy: str = ""
    """What to do about it; empty where that is to estimate it."""
    parts: tuple[Part, ...] = ()
    explained: float = 0.0
    """Share of the squares of the unmodelled force that it stands for, of the joint where that is most."""

    @property
    def moves(self) -> float:
        """By how many of its standard deviations an estimate would move, the largest. Without bound where it stands for most of an unmodelled force: with that smaller, all data weigh otherwise."""
        return np.inf if self.explained > MOSTLY else abs(self.largest_shift[1])

    @property
    def each(self) -> tuple[Part, ...]:
        """The numbers of the model that it is about."""
        return self.parts or (Part(self.path, self.held, self.value, self.sd or 0.0, self.unit),)

    @property
    def rank(self) -> float:
        """The gain by which suspects are ordered: every further number has to gain as much as tells two suspects apart."""
        return self.gain - ALIKE * max(len(self.parts) - 1, 0)

    @property
    def advice(self) -> str:
        """What to do about it."""
        return self.remedy or f"Add {' and '.join(part.path for part in self.each)} to the unknowns, or fit with --extend."

    @property
    def largest_shift(self) -> tuple[str, float]:
        """The estimate that would move most, and by how many of its standard deviations."""
        return max(self.shifts.items(), key=lambda item: abs(item[1]), default=("", 0.0))

    @property
    def sentence(self) -> str:
        """What is missing, how much of it, and what that does to the estimates."""
        if self.sd is None:
            return f"{self.words} (chi2 {self.chi2:.0f})."
        name, shift = self.largest_shift
        moves = f"; with it {name} would move by {abs(shift):.2g} times its scatter" if abs(shift) >= 0.1 else "; it would move no estimate"
        if self.explained > MOSTLY:
            moves += f", and perhaps further: {100.0 * self.explained:.0f} % of the unmodelled force of a joint (of its squares) would go with it"
        others = f" (these data cannot tell it from {' and '.join(self.alike[:3])})" if self.alike else ""
        return f"{self.words}, {' and '.join(part.sentence for part in self.each)}{others}{moves} (chi2 {self.chi2:.0f})."


@dataclass(frozen=True)
class Mistake:
    """Something in the files that is probably wrong: with it undone, a piece of the data that the fit is absurd on is described."""

    kind: str
    """ "sign", "factor", "swap", "axes", "clock", "shift", "offset", "gravity", "length" or "gain"."""
    subjects: tuple[str, ...]
    """Channels, drives or paths that it is about."""
    sentence: str
    """What looks wrong, and the next edit."""
    before: float | None
    """Residuals over noise of that piece as the files are; None where no fit of it converges."""
    after: float
    """The same with the mistake undone."""
    times: tuple[float, ...] = ()
    """Instants of the samples that it is about, where not all of a recording are; `Recording.exchanged` takes them."""


@dataclass(frozen=True)
class Mesh:
    h: float
    """Step of the finest mesh [s]."""
    refinements: int


@dataclass(frozen=True, eq=False)
class Result:
    """The outcome of `fit`; `status` is "converged" or a sentence that says why not."""

    status: str
    parameters: dict[str, Estimate]
    determined: tuple[Determined, ...]
    unresolved: tuple[str, ...]
    covariance: np.ndarray = field(repr=False)
    """Of the parameters, in their order; it and the correlation are NaN for a fit that did not converge."""
    correlation: np.ndarray = field(repr=False)
    fit: tuple[ChannelFit, ...] = field(repr=False)
    chi2: float
    dof: int
    cost: float
    """Sum of all squared residuals in their weights: observations, noise or impulses, priors."""
    noise_given: bool
    process_noise: dict[str, float]
    """Standard deviation of the unmodelled force of each joint, if it is drawn anew every sampling period [N, N m]."""
    force_tests: dict[str, ForceTest]
    """By joint: whether its unmodelled force is noise, or something slow is missing; empty for fits without unmodelled forces."""
    slow_forces: dict[str, SlowForce]
    """The unmodelled force with a memory of each joint that has one, beside the former or instead of it."""
    forces_together: tuple[ForcesTogether, ...]
    """Of every two joints whose unmodelled forces were found."""
    without_forces: Comparison | None
    """Beside a fit with unmodelled forces whose size was found; None otherwise, and for a fit that did not converge."""
    runs_agree: Agreed | None
    """None for a single run, and for a fit that did not converge."""
    outliers: tuple[Outlier, ...] = field(repr=False)
    lacks: tuple[Suspect, ...]
    """What the model lacks, as far as numbers that were held can say: the strongest suspect first; empty where none is significant, and for fits that did not converge."""
    rests_on: tuple[Rest, ...]
    """Numbers that were taken as exact and that the data cannot tell: gravity, the clock, the scale of the drives, numbers of the model's file that were held; empty for fits that did not converge, and for methods that do not ask."""
    mesh: Mesh
    iterations: int
    history: tuple[Iteration, ...] = field(repr=False)
    seconds: dict[str, float]
    notes: tuple[str, ...]
    model: Model = field(repr=False)
    """The calibrated model (shared parameters)."""
    problem: Observed = field(repr=False)
    states: tuple[Any, ...] = field(repr=False)
    theta: np.ndarray = field(repr=False)
    uncertainty: Uncertainty = field(repr=False)
    recordings: tuple[Recording, ...] = field(repr=False)
    again: Again = field(repr=False)
    """Fits another recording by the same method, given its unknowns and their values."""
    mistakes: tuple[Mistake, ...] = ()
    """What is probably wrong with the files, of a fit that did not converge or whose residuals are absurd: the most convincing first; several explain the data alike, and empty means that
    nothing that was tried does."""
    hypers: tuple[Any, ...] = field(default=(), repr=False)
    """The standard deviations that were found with the parameters (`hyper.Hyper`)."""

    @property
    def converged(self) -> bool:
        return self.status == "converged"

    @property
    def friction_rate(self) -> dict[str, float]:
        """The rate of each joint with dry friction below which that was taken as viscous, or from which on it acts in full if it is soft by itself (`joint.X.friction_rate`)
        [rad/s, m/s]; empty where it was exact."""
        own = {j.name: j.friction_rate for j in self.model.joints} | {
            f"{t.KIND}.{t.name}": t.friction_rate for t in (*self.model.transmissions, *self.model.paths)
        }
        return {owner: own[owner] or rate for owner, rate in self.problem.friction_rate.items()}

    def _run(self, run: str | int) -> int:
        names = [r.name for r in self.recordings]
        if isinstance(run, int):
            if not 0 <= run < len(names):
                raise CalibodyError(f"There is no run {run}; the fit has {len(names)}.")
            return run
        if run not in names:
            raise CalibodyError(f'There is no run "{run}"{nearest(run, names) or "; there are " + ", ".join(names) + "."}')
        return names.index(run)

    def motion(self, run: str | int = 0) -> Motion:
        """The estimated motion of a run: every channel of the model, reaction forces included."""
        r = self._run(run)
        return self.problem.motion(r, self.states[r], self.theta)

    @property
    def events(self) -> tuple[Happened, ...]:
        """The impacts of all runs in the order of time, with standard deviations given their sequence; empty where nothing touches, or contacts do not act."""
        from calibody.estimate.contacts.impact_bars import events

        return events(self)

    def sd(self, channel: str, times: np.ndarray, run: str | int = 0) -> np.ndarray:
        """Standard deviations of any scalar channel of the estimated motion at the nodes nearest to `times`; inf where the data leave it open."""
        from calibody.estimate.channels import channel_sd

        if not self.converged:
            raise CalibodyError(f"The fit did not converge, so nothing in it has an error bar ({self.status.rstrip('.')}).")
        return channel_sd(self, self._run(run), channel, np.atleast_1d(np.asarray(times, dtype=float)))

    def deviations(self, run: str | int = 0) -> dict[str, np.ndarray]:
        """How far noisy drives and plates were off, by their names, sample by sample in units of their standard deviation."""
        from calibody.estimate.layout import drive_block

        r = self._run(run)
        return {d.name: self.states[r].parts[drive_block(d.name)][:, 0].copy() for d in self.recordings[r].deviations}

    def opensim(self, folder: str | Path, run: str | int = 0) -> tuple[Path, ...]:
        """Write the motion and the moments of a run as OpenSim's users read them: motion.mot, moments.sto, powers.sto and their standard deviations; gives their paths."""
        from calibody.estimate.people.opensim import export

        return export(self, folder, run)

    def weigh(self, unknowns: Mapping[str, Unknown]) -> Weighed:
        """What force plates tell of the masses of a mechanism that hangs on nothing, whatever its joints exert: `{"body.thigh.mass": cb.Unknown(prior=(8.0, 0.8))}` and other numbers of segments, each with its prior; of a fit that holds them.

        Prints as a table; `.model` is the model with what was found, to fit moments with.
        """
        return upward.carry_out("Result.weigh", self, unknowns)

    def predict(self, recording: Recording, window: float | None = None) -> Prediction:
        """Simulate a recording freely, from a start estimated on its first `window` seconds."""
        from calibody.estimate.predict import predict

        return predict(self, recording, window)

    def validate(self) -> Validation:
        """Predict what was left out: every run from a fit of the others, of a single run the second half from the first; with bands, and how many samples they hold.

        Takes a few iterations for each run; `Validation` has what was found by run and channel, and prints as a table. By transcription only.
        """
        return upward.carry_out("Result.validate", self)

    def allowing(self, accuracy: Mapping[str, float]) -> Result:
        """The same estimates with error bars that allow for the accuracy of what they rest on, by the paths of `rests_on`: `{"world.gravity": 0.001, "body.arm.mass": 0.02, "body.arm.com.z": 0.003}` are relative standard deviations,
        of places and centres of mass metres."""
        return upward.carry_out("Result.allowing", self, accuracy)

    def profile(self, path: str, points: int = 6, width: float = 3.0) -> Profile:
        """The profile likelihood of one parameter at so many values on each side, the last so many standard deviations away, everything else fitted again at each: its interval is a cross-check of the error bar."""
        return upward.carry_out("Result.profile", self, path, points, width)

    def simultaneous(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Intervals that hold all parameters with an error bar at once with the probability `level`: their box is around the joint ellipsoid, so each is wider than the parameter's own. By path: (lower, upper)."""
        if not isinstance(level, float) or not 0.0 < level < 1.0:
            raise CalibodyError(f"level = {shown(level)}; give a probability between 0 and 1, such as 0.95.")
        if not self.converged:
            raise CalibodyError(f"There are no intervals of a fit that did not converge: {self.status}")
        known = {name: e for name, e in self.parameters.items() if e.sd is not None}
        factor = joint_factor(len(known), float("inf") if self.noise_given else float(max(self.dof, 1)), level) if known else 0.0
        return {name: (e.value - factor * (e.sd or 0.0), e.value + factor * (e.sd or 0.0)) for name, e in known.items()}

    def report(self, folder: str | Path) -> Path:
        """Write a run folder with all results, tables and `report.html`; gives the path of the report."""
        return upward.carry_out("Result.report", self, folder)

    @property
    def plot(self) -> Plots:
        """Figures of the fit, `result.plot.series()`, `.residuals()`, `.parameters()`, `.correlation()`, `.convergence()`, `.forces()`: plotly's, to be shown, changed and saved."""
        return upward.carry_out("Result.plot", self)

    def __str__(self) -> str:
        return described(self)

    def _repr_html_(self) -> str:
        return described_html(self)


def forces_described(found: Result | Saved) -> list[str]:
    """The unmodelled forces, one line each; those of one size and memory together."""
    white = [f"joint.{joint}: unmodelled force {sd:.3g}" for joint, sd in found.process_noise.items()]
    white += [f"joint.{a} and joint.{b}: correlation of the unmodelled forces {t.correlation:.2f}" for t in found.forces_together for a, b in (t.joints,)]
    alike: dict[tuple[float, float], list[str]] = {}
    for joint, f in found.slow_forces.items():
        alike.setdefault((f.sd, f.correlation_time), []).append(f"joint.{joint}")
    for (sd, memory), joints in alike.items():
        names = ", ".join(joints[:TOGETHER]) + (f" and {len(joints) - TOGETHER} more" if len(joints) > TOGETHER else "")
        white.append(f"{names}: unmodelled force {sd:.3g} with a memory of {memory:.3g} s")
    return white


def described(found: Result | Saved) -> str:
    """A result as text: what is determined first, then the parameters, then how well they explain the data."""
    lines = [f"status: {found.status}", *found.unresolved]
    lines += [f"{d.expression} = {d.value:.6g} +- {d.sd:.2g}" for d in found.determined]
    width = max(map(len, found.parameters), default=9)
    lines.append(f"{'parameter':{width}}  {'value':>13} {'sd':>10}  {'initial':>10}  unit")
    for name, e in found.parameters.items():
        bar = f"{e.sd:.2g}" if e.sd is not None else (e.bounded if e.at_bound else "unresolved" if found.converged else "no sd")
        lines.append(f"{name:{width}}  {e.value:13.7g} {bar:>10}  {e.initial:10.4g}  {e.unit}")
    lines += [f"{c.run}: {c.channel}: rms {c.rms:.3g} ({c.rms_over_sd:.3f} of its noise)" for c in found.fit]
    lines += forces_described(found)
    if found.outliers:
        lines.append(
            f"{len(found.outliers)} outlier{'s' if len(found.outliers) > 1 else ''}, the largest {max(abs(o.deviation) for o in found.outliers):.0f} sd"
        )
    lines += [f"wrong? {m.sentence}" for m in found.mistakes]
    lines += [f"missing: {s.sentence}" for s in found.lacks[:1]]
    return "\n".join([*lines, *(f"note: {n}" for n in found.notes)])


def described_html(found: Result | Saved) -> str:
    """A result for notebooks: the same as its text, in tables."""
    rows = []
    for name, e in found.parameters.items():
        bar = f"{e.sd:.2g}" if e.sd is not None else (e.bounded if e.at_bound else "not determined" if found.converged else "")
        rows.append((name, f"{e.value:.6g}", bar, f"{e.initial:.4g}", e.unit))
    known = [(d.expression, f"{d.value:.6g}", f"{d.sd:.2g}") for d in found.determined]
    fits = [(c.run, c.channel, f"{c.rms:.3g}", f"{c.rms_over_sd:.3f}") for c in found.fit]
    said = [*(f"missing: {s.sentence}" for s in found.lacks[:1]), *(f"note: {n}" for n in found.notes)]
    return html.block(
        f"status: {found.status}",
        html.table(("parameter", "value", "sd", "initial", "unit"), rows, numbers=(1, 2, 3)),
        html.sentences(found.unresolved),
        html.table(("determined", "value", "sd"), known, numbers=(1, 2)),
        html.table(("run", "channel", "rms of the residual", "over its noise"), fits, numbers=(2, 3)),
        html.sentences([*forces_described(found), *said]),
    )
