"""Error bars of an experiment that has not been made: the information that its recording would hold, at the present estimate.

The motion is known (`excitation.py`), so are what will be measured and how well; the equations hold along it, and the information of the fit that would be made of the recording is one linearisation and
one factorisation (`foresee.py` does the same along a motion that comes from data). Residuals do not enter it: it is that of a model that describes the machine.

**In which units.** Error bars are compared in the numbers that the equations are linear in, in units of their scales (`reported.py`): S is then the information of what is asked for. Mechanics lets some combinations not
show whatever is done; the directions that do are those that several different motions together resolve. With the columns of N an orthonormal basis of them, `C = (N'SN)^-1` is the covariance of the determined
combinations, and

    worst = sqrt(largest eigenvalue of C)           the largest standard deviation of any of them, in units of the scales (of the values, mostly)
    volume = log det C / (2 directions)             the mean logarithm of the standard deviations along its axes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from calibody.errors import CalibodyError, nearest, told
from calibody.estimate import observe
from calibody.estimate.designs.excitation import Excitation, Followed, Played, Way, bare, excitable
from calibody.estimate.dry import FRICTION_STAGES, rms_rates, turning
from calibody.estimate.identifiability import WEAK, Determined, analyse
from calibody.estimate.layout import MULTIPLIERS, NODES, States
from calibody.estimate.meshes import Meshes
from calibody.estimate.nodes import Noise
from calibody.estimate.noise import given as noise
from calibody.estimate.problem import Problem
from calibody.estimate.reported import initial_theta, reported
from calibody.estimate.uncertainty import in_numbers, stepped
from calibody.estimate.unknowns import Entry, Unknown, entries, model_paths, refuse_what_does_not_act, values_at
from calibody.mechanics import channels
from calibody.mechanics.structure import Structure
from calibody.model import Model
from calibody.recording.recording import Observation, Recording
from calibody.recording.signal import Signal
from calibody.steppers.motion import Motion

if TYPE_CHECKING:
    from calibody.estimate.result import Result

NODES_MOST = 4000
"""Of the mesh on which error bars are foreseen: twice that of `calibody check`, because there is one run."""


@dataclass(frozen=True)
class Expected:
    """What is to be expected of one parameter."""

    value: float
    sd: float | None
    """None: the recording would not determine it."""
    unit: str
    scale: float

    @property
    def relative(self) -> float | None:
        """The standard deviation in units of the parameter's scale."""
        return None if self.sd is None else self.sd / self.scale


@dataclass(frozen=True, eq=False)
class Forecast:
    """Error bars of a recording that has not been made."""

    parameters: Mapping[str, Expected]
    determined: tuple[Determined, ...]
    """Combinations that it would determine although their parts are not."""
    sentences: tuple[str, ...]
    """What it would not determine."""
    information: np.ndarray = field(repr=False)
    """Of theta, what is known before included."""
    worst: float
    """The largest standard deviation of any determined combination, in units of the scales."""
    volume: float
    """The mean logarithm of those along the axes of their ellipsoid."""
    motion: Motion = field(repr=False)
    numbers: tuple[str, ...] = field(repr=False)
    covariance: np.ndarray = field(repr=False)
    """Of `numbers`, those that the equations are linear in, over what is determined."""

    def sd(self, terms: Mapping[str, float]) -> float:
        """The standard deviation of a sum of numbers with coefficients, as `determined` has them; what of it is not determined counts for nothing."""
        for name in terms:
            if name not in self.numbers:
                raise CalibodyError(f'"{name}" is none of the numbers{nearest(name, self.numbers) or "; they are " + ", ".join(self.numbers) + "."}')
        g = np.array([terms.get(name, 0.0) for name in self.numbers])
        return float(np.sqrt(max(g @ self.covariance @ g, 0.0)))

    @property
    def worst_parameter(self) -> tuple[str, float]:
        """Of the parameters with an error bar the one whose standard deviation is largest, in units of its scale."""
        known = {path: e.relative for path, e in self.parameters.items() if e.relative is not None}
        if not known:
            return "", float("inf")
        path = max(known, key=lambda p: known[p])
        return path, known[path]

    def __str__(self) -> str:
        width = max(map(len, self.parameters), default=0)
        lines = [f"{path:{width}}  {e.value:12.6g} +- {'not determined' if e.sd is None else f'{e.sd:.2g}'} {e.unit}" for path, e in self.parameters.items()]
        lines += [f"{d.expression} = {d.value:.6g} +- {d.sd:.2g}" for d in self.determined]
        return "\n".join([*lines, *self.sentences, f"worst combination: {100.0 * self.worst:.3g} % of its scale"])


@dataclass(frozen=True, eq=False)
class Planned:
    """What will be recorded: of which mechanism, with which sensors, and what is asked for; at the present estimate."""

    model: Model
    unknowns: tuple[Entry, ...]
    theta: np.ndarray
    sd: Mapping[str, float]
    """Of the observed channels, scalar by scalar."""
    drive_sd: Mapping[str, float]
    """Of drives that are measured."""
    period: float
    """s: between samples."""
    known: np.ndarray
    """Information of theta that is there already."""
    coordinates: str = "auto"
    spread: np.ndarray | None = None
    """(theta, directions) whose square is the covariance of a present fit; None: there is none."""

    @classmethod
    def of(
        cls,
        model: Model,
        unknowns: Mapping[str, Unknown | float | None],
        measured: Mapping[str, float],
        rate: float,
        driven: Sequence[str],
        coordinates: str = "auto",
    ) -> Planned:
        found = entries(model, unknowns, ["planned"])
        refuse_what_does_not_act(model, found, coordinates)
        drive_sd = {c: measured[c] for c in driven if c in measured}
        sd = {c: x for c, x in measured.items() if c not in drive_sd}
        if not any(observe.is_kinematic(observe.check(model, c, tuple(sd))) for c in sd):
            raise CalibodyError("No angle, position or rate is among the channels; a fit needs at least one to find the motion from.")
        theta = initial_theta(found)
        return cls(model, found, theta, sd, drive_sd, 1.0 / rate, np.zeros((len(theta),) * 2), coordinates)

    @classmethod
    def begun(
        cls,
        model: Model,
        unknowns: Mapping[str, Unknown | float | None],
        channels: Sequence[str],
        sd: Mapping[str, float] | float,
        excited: Sequence[str],
        following: bool,
        rate: float,
        coordinates: str,
    ) -> Planned:
        """From what a user gives; where joints follow a way the model has no actuators, and their forces are the drives."""
        model = bare(model, list(unknowns)) if following else model
        driven = [f"joint.{j.name}.force" for j in model.joints] if following else excited
        return cls.of(model, unknowns, measured_by(model, channels, sd), rate, driven, coordinates)

    def since(self, result: Result) -> Planned:
        """At the estimate of a fit, with what it knows."""
        names, fitted = [e.name for e in self.unknowns], [e.name for e in result.problem.entries]
        if names != fitted:
            other = next((n for n in names if n not in fitted), None) or next((n for n in fitted if n not in names), fitted[0])
            raise CalibodyError(f'The present fit is of other unknowns: "{other}" is not in both, or they are in another order; design for those of the fit.')
        if not result.converged:
            raise CalibodyError(f"The present fit did not converge, so it has no estimate to begin from: {result.status}")
        scale, found = result.problem.scale, result.uncertainty
        mu, V = np.linalg.eigh(found.covariance_theta / np.outer(scale, scale))
        V = V[:, mu > 1e-14 * max(float(mu.max()), 1e-300)]  # what the present fit determines; error bars are of nothing else
        L = np.linalg.cholesky(V.T @ (found.known_theta / np.outer(scale, scale)) @ V)
        W = np.linalg.solve(L, V.T / scale)
        return replace(self, theta=result.theta, known=W.T @ W, spread=scale[:, None] * (V @ L))

    def possible(self, count: int, seed: int) -> list[Model]:
        """Mechanisms that the present fit leaves possible: draws of its estimate, within the bounds."""
        if self.spread is None:
            return []
        z = np.random.default_rng(seed).standard_normal((count, self.spread.shape[1]))
        low, high = (np.array([getattr(e, word) for e in self.unknowns]) for word in ("lower", "upper"))
        return [self.at(np.clip(self.theta + self.spread @ one, low, high)) for one in z]

    @cached_property
    def estimated(self) -> Model:
        """The model at the present estimate."""
        return self.at(self.theta)

    def at(self, theta: np.ndarray) -> Model:
        """Of moments that no body has, too, as a fit may find them where one alone is estimated: they move as those do."""
        return self.model.replace(values_at(self.unknowns, theta, 0)[0], check=False)

    @cached_property
    def structure(self) -> Structure:
        return Structure.build(self.model, self.coordinates, model_paths(self.unknowns))

    def problem(self, motion: Motion, excitation: Excitation, thinned: float = 1.0) -> tuple[Problem, list[States]]:
        """The problem of the fit that would be made, and the motion as its states. `thinned`: with one sample per so many periods, each as good as all of them."""
        end, step = float(motion.time[-1]), self.period * thinned
        t = np.linspace(0.0, end, max(round(end / step), 4) + 1)
        larger = 1.0 / np.sqrt(thinned)
        observed = tuple(Observation(c, t, np.interp(t, motion.time, motion[c]), larger * sd) for c, sd in self.sd.items())
        drives = excitation.drives(
            motion, step, {c: sd / np.sqrt(motion.h / self.period) if isinstance(excitation, Followed) else sd for c, sd in self.drive_sd.items()}
        )
        recording = Recording("planned", observed, drives)
        sizes = [Noise(dict(noise.noises([recording], noise.Forces())[0][0].measured), frozenset(), {})]
        pushed = [c.path for c in motion.structure.driven]
        structure = Structure.build(self.model, self.coordinates, model_paths(self.unknowns), pushed) if pushed else self.structure
        worker = Meshes(structure, [recording], self.unknowns, sizes, True)
        problem = worker.problem(motion.h, sizes)
        run = problem.runs[0]
        if self.structure.nc:
            run = replace(run, active=motion.active > 0.0, typical=np.maximum(np.sqrt(np.mean(motion.multipliers**2, axis=1)), 1e-9))
            problem = replace(problem, runs=(run,))
        x = [run.still(motion.q[:, 0]).changed(**{NODES: motion.q[:, : run.K], MULTIPLIERS: motion.multipliers[:, : run.K]})]
        problem = problem.sharpened(FRICTION_STAGES[-1] * rms_rates(problem, x, self.theta))
        return turning(problem, x, self.theta), x

    def information(self, motion: Motion, excitation: Excitation, thinned: float = 1.0) -> np.ndarray:
        """Of theta: what the recording would say and what is known already (priors included)."""
        problem, x = self.problem(motion, excitation, thinned)
        return np.asarray(stepped(problem, x, self.theta)[1].information) + self.known

    @cached_property
    def _back(self) -> np.ndarray:
        """From the numbers that the equations are linear in, in units of their scales, to theta."""
        base = reported(self.unknowns, self.theta, linear=True)
        return np.linalg.inv(base.by_theta) * base.scale[None, :]

    def scaled(self, information: np.ndarray) -> np.ndarray:
        """The same in the numbers that the equations are linear in, in units of their scales."""
        return self._back.T @ information @ self._back

    def resolved(self, informations: Sequence[np.ndarray]) -> np.ndarray:
        """N: the directions that motions together resolve, whatever each leaves open."""
        mu, V = np.linalg.eigh(sum(self.scaled(i) / max(float(np.trace(self.scaled(i))), 1e-300) for i in informations))
        return V[:, mu > WEAK * mu.max()]

    def forecast(self, information: np.ndarray, motion: Motion, directions: np.ndarray | None = None) -> Forecast:
        mine = np.zeros(len(self.theta), dtype=bool)
        found = in_numbers(information, self.unknowns, self.theta, mine, 1.0)
        shown = reported(self.unknowns, self.theta)
        sd = np.where(found.resolved, np.sqrt(np.maximum(np.diag(found.covariance), 0.0)), np.nan)
        units = [e.unit for e in self.unknowns]
        table = {
            name: Expected(float(value), None if np.isnan(one) else float(one), unit, float(scale))
            for name, value, one, unit, scale in zip(shown.names, shown.values, sd, units, shown.scale, strict=True)
        }
        mu = spectrum(self.scaled(information), self.resolved([information]) if directions is None else directions)
        base = reported(self.unknowns, self.theta, linear=True)
        linear = analyse(self.scaled(information), base.names, base.values / base.scale, np.ones(len(mine)), mine, 1.0)
        return Forecast(
            table,
            found.determined,
            found.sentences,
            information,
            float(1.0 / np.sqrt(mu.min())),
            float(-0.5 * np.log(mu).mean()),
            motion,
            base.names,
            linear.covariance * np.outer(base.scale, base.scale),
        )


def spectrum(scaled: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """The eigenvalues of the information about the determined combinations; none below what rounding leaves."""
    mu = np.linalg.eigvalsh(directions.T @ scaled @ directions)
    return np.maximum(mu, 1e-16 * max(float(mu.max()), 1e-300))


def measured_by(model: Model, given: Sequence[str], sd: Mapping[str, float] | float) -> dict[str, float]:
    """The standard deviation of every scalar channel; `sd` is one for all or by channel, of whole ones (`site.tip.position`) or of components."""
    if isinstance(given, str):
        given = [given]
    out: dict[str, float] = {}
    for path in given:
        one = sd.get(path) if isinstance(sd, Mapping) else sd
        if not isinstance(one, (int, float)) or isinstance(one, bool) or not 0.0 < one < np.inf:
            raise CalibodyError(
                f'The sd of "{path}" is {one!r}; give a standard deviation above zero, sd={{"{path}": 0.001}}: error bars are in proportion to it.'
            )
        channel = channels.resolve(model, path)
        many = [f"{path}.{c}" for c in channel.components] if channel.components and channel.component is None else [path]
        out |= dict.fromkeys(many, float(one))
    if not out:
        raise CalibodyError('Nothing is measured; name the channels that will be recorded, such as channels=["joint.NAME.angle"].')
    return out


def mesh_step(planned: Planned, duration: float, most: int = NODES_MOST) -> float:
    """The sampling period, or less often where that would be too many nodes; a whole number of them."""
    n = min(max(round(duration / planned.period), 8), most)
    return duration / n


@told()
def forecast(
    model: Model,
    unknowns: Mapping[str, Unknown | float | None],
    channels: Sequence[str],
    sd: Mapping[str, float] | float,
    duration: float,
    drive: Mapping[str, Any] | None = None,
    *,
    initial: Mapping[str, Any] | None = None,
    rate: float = 100.0,
    coordinates: str = "auto",
) -> Forecast:
    """Error bars that a fit of an experiment would have, before it is made.

    `channels` will be recorded at `rate` [Hz] with noise of `sd` (one number, or by channel); `drive` is what is played (actuators and joint forces), or, for joints that a controller moves, their
    ways (`joint.X.angle`): (times, values), a `Signal` or a function of time. A `joint.X.force` among the channels of joints that follow a way is a measured torque. `initial` is the start of a motion
    that is played.
    """
    given = dict(drive or {})
    names, following = excitable(model, list(given)) if given else ((), False)
    planned = Planned.begun(model, unknowns, channels, sd, names, following, rate, coordinates)
    ways = {name: way_of(given[name], name, following) for name in names}
    excitation: Excitation = Followed(ways) if following else Played(ways, initial or {}, planned.period, coordinates)
    motion = excitation.motion(planned.estimated, duration, mesh_step(planned, duration))
    return planned.forecast(planned.information(motion, excitation), motion)


def way_of(given: Any, name: str, smooth: bool) -> Way:
    """A function of time from what a user gives; ways of joints go smoothly between samples."""
    if callable(given):
        return lambda t: np.broadcast_to(np.asarray(given(t), dtype=float), t.shape)
    if isinstance(given, (int, float)):
        return lambda t: np.full(t.shape, float(given))
    signal = given if isinstance(given, Signal) else Signal(*given, name=name)
    if smooth:
        from scipy.interpolate import CubicSpline

        spline = CubicSpline(signal.times, signal.values)
        return lambda t: spline(np.clip(t, signal.times[0], signal.times[-1]))
    return lambda t: signal.values[np.clip(np.searchsorted(signal.times, t + 1e-9, side="right") - 1, 0, len(signal.times) - 1)]
