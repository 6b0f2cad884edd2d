"""From the user's drives to one mean value per interval."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from calibody.errors import SimulationError
from calibody.mechanics import channels
from calibody.mechanics.plan import plan_of
from calibody.mechanics.structure import Structure
from calibody.model import Actuator
from calibody.model.native import MUJOCO
from calibody.recording.signal import Signal

# Gauss-Legendre points and weights on [0, 1]: the mean of a smooth function over an interval, exact to degree five.
GAUSS = ((0.1127016653792583, 5 / 18), (0.5, 8 / 18), (0.8872983346207417, 5 / 18))


def drives_of(structure: Structure, drive: Mapping[str, Any], edges: np.ndarray, plain: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """control (actuators, intervals) and applied (tree velocities, intervals) from channels to numbers, arrays, signals or functions; `plain`: without what actuators make of their control,
    and with rows for those of an engine after the model's own."""
    model, plan = structure.model, plan_of(structure)
    n = len(edges) - 1
    natives = [native.name for native in model.natives if native.control] if plain else []
    control = np.zeros((len(model.actuators) + len(natives), n))
    applied = np.zeros((structure.tree_nv, n))
    names = [a.name for a in model.actuators]
    for path, value in drive.items():
        channel = channels.resolve(model, path)
        if channel.kind == "actuator" and channel.quantity == "":
            k = names.index(channel.name)
            actuator = model.actuators[k] if not plain else Actuator("plain", model.actuators[k].joint)
            control[k] = _means(path, value, edges, actuator.delay, actuator.control_range, actuator.time_constant)
        elif channel.kind == MUJOCO and channel.name in natives:
            control[len(names) + natives.index(channel.name)] = _means(path, value, edges, 0.0, None)
        elif channel.kind == "joint" and channel.quantity == "force":
            first = _first_dof(plan, channel.name)
            width = len(channel.components) or 1
            if width > 1 and channel.component is None:
                raise SimulationError(f'Drive "{path}" has {width} components; drive them one by one, for instance "{path}.{channel.components[0]}".')
            applied[first + (channel.component or 0)] = _means(path, value, edges, 0.0, None)
        else:
            raise SimulationError(f'"{path}" cannot be driven; drive actuator.NAME or joint.NAME.force.')
    return control, applied


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
    # the last edge is one step beyond the end of the motion: there the last value is held
    first, last = edges[0], edges[-2]
    slack = 1e-9 * max(1.0, abs(last))
    if signal.times[0] - slack > first or signal.end + slack < last - delay:
        raise SimulationError(
            f'Drive "{path}" is known from {signal.times[0]:g} s to {signal.end:g} s, but the simulation runs from {first:g} s to {last:g} s; '
            "give a longer recording or a shorter duration."
        )
    if bounds is not None:
        signal = Signal(signal.times, np.clip(signal.values, *bounds), signal.hold, signal.name)
    return signal.means(edges, delay, lag)


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
