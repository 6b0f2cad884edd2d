"""From the user's drives to one mean value per interval."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from calibody.errors import SimulationError
from calibody.mechanics import channels
from calibody.mechanics.plan import plan_of
from calibody.mechanics.structure import Structure
from calibody.model import Actuator, Model
from calibody.model.native import MUJOCO
from calibody.recording.signal import Signal

# Gauss-Legendre points and weights on [0, 1]: the mean of a smooth function over an interval, exact to degree five.
GAUSS = ((0.1127016653792583, 5 / 18), (0.5, 8 / 18), (0.8872983346207417, 5 / 18))


class Drives(NamedTuple):
    """What drives do over every interval."""

    control: np.ndarray
    """(actuators, intervals)"""
    applied: np.ndarray
    """(`Structure.applied_rows`, intervals): mean forces, and what is prescribed at the end of the interval."""
    start: tuple[np.ndarray, np.ndarray]
    """Values and rates of what is prescribed, at the start."""
    held: tuple[frozenset[int], frozenset[int]]
    """Rows of the control and of the applied forces that jump from one value to the next."""


def scalars_of(model: Model, drive: Mapping[str, Any]) -> dict[str, Any]:
    """Drives as single numbers: a vector is taken apart, `{"site.hand.force": (0, 0, -5)}` or a function of time that returns three numbers."""
    out: dict[str, Any] = {}
    for path, value in drive.items():
        channel = channels.drivable(model, path)
        if not channel.components or channel.component is not None:
            out[path] = value
            continue
        for i, name in enumerate(channel.components):
            out[f"{path}.{name}"] = _component(path, value, i, len(channel.components))
    return out


def _component(path: str, value: Any, i: int, count: int) -> Any:
    if callable(value):
        function: Callable[[float], Any] = value
        return lambda t: function(t)[i]
    if isinstance(value, tuple) and len(value) == 2 and np.ndim(value[1]) == 2 and np.shape(value[1])[1] == count:
        return value[0], np.asarray(value[1])[:, i]
    if np.shape(value) == (count,):
        return float(value[i])
    raise SimulationError(
        f'Drive "{path}" has {count} components; give {count} numbers, (times, values) with {count} columns, a function of time, or drive them one by one.'
    )


def drives_of(structure: Structure, drive: Mapping[str, Any], edges: np.ndarray, plain: bool = False) -> Drives:
    """From channels to numbers, arrays, signals or functions; each channel is a single number. `plain`: without what actuators make of their control, and with rows for those of an
    engine after the model's own."""
    model, plan, n = structure.model, plan_of(structure), len(edges) - 1
    natives = [native.name for native in model.natives if native.control] if plain else []
    control, applied = np.zeros((len(model.actuators) + len(natives), n)), np.zeros((structure.applied_rows, n))
    names, start = [a.name for a in model.actuators], np.zeros((2, len(structure.prescribed)))
    jumping: tuple[set[int], set[int]] = set(), set()
    for path, value in drive.items():
        channel = channels.driven(model, path)
        if channels.is_control(channel):
            actuator = model.tables["actuator"][channel.name]
            actuator = Actuator("plain", actuator.joint) if plain else actuator
            control[row := names.index(channel.name)] = _means(path, value, edges, actuator.delay, actuator.control_range, actuator.time_constant)
            if _jumps(value) and not actuator.time_constant:
                jumping[0].add(row)
        elif channel.kind == MUJOCO and channel.name in natives:
            control[len(names) + natives.index(channel.name)] = _means(path, value, edges, 0.0, None)
        elif channels.is_joint_force(channel):
            applied[row := _first_dof(plan, channel.name) + (channel.component or 0)] = _means(path, value, edges, 0.0, None)
            if _jumps(value):
                jumping[1].add(row)
        elif channels.prescribes(channel):
            values, rate = _curve(path, value, edges)
            applied[structure.applied_row(channel)] = values[1:]
            start[:, structure.prescribed.index(channel)] = values[0], rate
        else:
            applied[structure.applied_row(channel)] = _means(path, value, edges, 0.0, None)
    return Drives(control, applied, (start[0], start[1]), (frozenset(jumping[0]), frozenset(jumping[1])))


def _jumps(value: Any) -> bool:
    """Whether a drive is held from one of its values to the next: all but functions of time and signals that say otherwise."""
    return not callable(value) and not (isinstance(value, Signal) and value.hold != "zero")


def _curve(path: str, value: Any, edges: np.ndarray) -> tuple[np.ndarray, float]:
    """Where a drive has a joint or site at the edges, and how fast it begins."""
    if callable(value):
        # one-sided difference of fourth order over half a step: its error is of higher order than that of the motion
        near = edges[0] + 0.125 * (edges[1] - edges[0]) * np.arange(5)
        values = _sampled(path, value, np.concatenate([edges, near]))
        return values[: len(edges)], float(values[len(edges) :] @ (-25.0, 48.0, -36.0, 16.0, -3.0) / (12.0 * (near[1] - near[0])))
    if np.ndim(value) == 0 and not isinstance(value, Signal):
        return _sampled(path, lambda t: value, edges), 0.0
    signal = value if isinstance(value, Signal) else _motion_samples(path, value, edges)
    _check_known(path, signal, edges, 0.0)
    values, rates = signal.curve(edges)
    return values, float(rates[0])


def _motion_samples(path: str, value: Any, edges: np.ndarray) -> Signal:
    """Of (times, values), or of one value per node."""
    times, values = value if isinstance(value, tuple) and len(value) == 2 else (edges[:-1], value)
    if np.shape(times) != np.shape(values):
        raise SimulationError(
            f'Drive "{path}" has {np.size(values)} values; give one per node of the motion ({len(edges) - 1}), (times, values), or a function of time.'
        )
    return Signal(np.asarray(times), np.asarray(values), "linear", name=f'Drive "{path}"')


def _sampled(path: str, function: Callable[[float], Any], times: np.ndarray) -> np.ndarray:
    try:
        values = np.array([float(function(float(t))) for t in times])
    except (TypeError, ValueError):
        raise SimulationError(
            f'Drive "{path}" does not give a number; give a number, (times, values), a Signal, or a function of the time in seconds.'
        ) from None
    if not np.isfinite(values).all():
        raise SimulationError(f'Drive "{path}" is not finite at t = {times[~np.isfinite(values)][0]:g} s.')
    return values


def _first_dof(plan: Any, joint: str) -> int:
    s = plan.structure
    return int(s.tree_v_start[next(i for i, u in enumerate(s.tree_units) if u.joint is not None and u.joint.name == joint)])


def _means(path: str, value: Any, edges: np.ndarray, delay: float, bounds: tuple[float, float] | None, lag: float = 0.0) -> np.ndarray:
    n = len(edges) - 1
    if callable(value):
        means = _function_means(path, value, edges, delay, bounds)
        return means if not lag else Signal(edges[:-1], means, name=path).means(edges, 0.0, lag)
    if isinstance(value, tuple) and len(value) == 2 and np.ndim(value[0]) == 1:
        value = Signal(value[0], value[1], name=f'Drive "{path}"')
    if isinstance(value, Signal):
        return _signal_means(path, value, edges, delay, bounds, lag)
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise SimulationError(f'Drive "{path}" is {value!r}; give a number, an array, (times, values), a Signal or a function of time.') from None
    if not np.isfinite(array).all():
        raise SimulationError(f'Drive "{path}" contains a number that is not finite; remove or fill the gaps first.')
    if bounds is not None:
        array = np.clip(array, *bounds)
    if array.ndim == 0:
        return np.full(n, float(array))
    if array.ndim == 1 and array.size in (n, n - 1) and array.size:
        array = np.append(array, array[-1]) if array.size == n - 1 else array
        return array if not delay and not lag else Signal(edges[:-1], array, name=path).means(edges, delay, lag)
    raise SimulationError(f'Drive "{path}" has {array.size} values for {n - 1} intervals of the simulation; give one per interval, or (times, values).')


def _signal_means(path: str, signal: Signal, edges: np.ndarray, delay: float, bounds: tuple[float, float] | None, lag: float) -> np.ndarray:
    _check_known(path, signal, edges, delay)
    if bounds is not None:
        signal = Signal(signal.times, np.clip(signal.values, *bounds), signal.hold, signal.name)
    return signal.means(edges, delay, lag)


def _check_known(path: str, signal: Signal, edges: np.ndarray, delay: float) -> None:
    # the last edge is one step beyond the end of the motion: there the last value is held
    first, last = edges[0], edges[-2]
    slack = 1e-9 * max(1.0, abs(last))
    if signal.times[0] - slack > first or signal.end + slack < last - delay:
        raise SimulationError(
            f'Drive "{path}" is known from {signal.times[0]:g} s to {signal.end:g} s, but the simulation runs from {first:g} s to {last:g} s; '
            "give a longer recording or a shorter duration."
        )


def _function_means(path: str, function: Callable[[float], Any], edges: np.ndarray, delay: float, bounds: tuple[float, float] | None) -> np.ndarray:
    widths = np.diff(edges)
    total = np.zeros(len(widths))
    for place, weight in GAUSS:
        times = edges[:-1] + place * widths - delay
        try:
            values = np.array([float(function(float(t))) for t in times])
        except (TypeError, ValueError):
            raise SimulationError(f'Drive "{path}" is a function that does not return a number; it is called with the time in seconds.') from None
        total += weight * (np.clip(values, *bounds) if bounds is not None else values)
    if not np.isfinite(total).all():
        raise SimulationError(f'Drive "{path}" is not finite at t = {edges[:-1][~np.isfinite(total)][0]:g} s.')
    return total
