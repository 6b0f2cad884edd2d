"""What is done to a mechanism in an experiment that has not been made yet, and the motion that it will make.

Two kinds, told apart by the channels that are excited:

- **drives are played** (`actuator.X`, `joint.X.force`): the motion follows from the start and the equations, by simulation. Any mechanism; what the present estimate does not know moves the motion too.
- **joints follow a way** (`joint.X.angle`, `joint.X.position`): a controller makes them, and what is computed is the force that it needs, the residual of the discrete equations without any. Every joint has a way: a
  tree of hinges and slides. The force is the drive of the recording, exact or measured with an sd.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibody.errors import CalibodyError
from calibody.mechanics import channels
from calibody.mechanics.equations import evaluate
from calibody.mechanics.point import Point
from calibody.mechanics.structure import TREE, Numbers, Structure
from calibody.model import Model
from calibody.recording.recording import Drive
from calibody.recording.signal import Signal
from calibody.steppers.motion import Motion
from calibody.steppers.rollout import simulate
from calibody.steppers.variational import Variational

Way = Callable[[np.ndarray], np.ndarray]
"""A function of time: (instants,) -> (instants,)."""
PLACES = ("angle", "position")


class Excitation(ABC):
    """What is played or followed, as functions of time."""

    @abstractmethod
    def motion(self, model: Model, duration: float, h: float) -> Motion:
        """The motion on nodes h apart."""

    @abstractmethod
    def drives(self, motion: Motion, period: float, sd: Mapping[str, float]) -> tuple[Drive, ...]:
        """The drives as a recording of the motion has them; `sd` of those that are measured."""


@dataclass(frozen=True)
class Played(Excitation):
    """Drives, held from one sample to the next, from a start."""

    ways: Mapping[str, Way]
    initial: Mapping[str, Any]
    period: float
    """s: of the samples that are played."""
    coordinates: str = "auto"

    def signals(self, duration: float) -> dict[str, Signal]:
        times = self.period * np.arange(int(np.ceil(duration / self.period - 1e-9)) + 1)
        return {channel: Signal(times, way(times), name=channel) for channel, way in self.ways.items()}

    def motion(self, model: Model, duration: float, h: float) -> Motion:
        return simulate(model, duration, h, self.initial, self.signals(duration), coordinates=self.coordinates, contacts=False)

    def drives(self, motion: Motion, period: float, sd: Mapping[str, float]) -> tuple[Drive, ...]:
        signals = self.signals(float(motion.time[-1]))
        return tuple(Drive(channel, signal, sd.get(channel)) for channel, signal in signals.items())


@dataclass(frozen=True)
class Followed(Excitation):
    """Ways of all joints, in the order of the model's coordinates."""

    ways: Mapping[str, Way]

    def motion(self, model: Model, duration: float, h: float) -> Motion:
        structure, n = Structure.build(model, TREE), round(duration / h)
        numbers = Numbers.of(structure)
        order = _ordered(structure, list(self.ways))
        t = np.clip(h * np.arange(-1, n + 3), 0.0, duration)  # at rest before and after
        q = np.stack([self.ways[channel](t) for channel in order])
        forces = _needed(structure, numbers, q, h)
        between = np.zeros((structure.tree_nv, n + 1))
        between[:] = 0.5 * (forces[:, :-1] + forces[:, 1:])
        rate = (q[:, 2] - q[:, 0]) / (2.0 * h)
        return Motion(
            model=model, structure=structure, numbers=numbers, h=h, q=q[:, 1:-1], multipliers=np.zeros((0, n + 2)), control=np.zeros((len(model.actuators), n + 1)), applied=between,
            turns=None, delta=Variational().viscous_below(), start_rate=rate, joint_rate=rate, active=np.zeros(0), iterations=0,
        )  # fmt: skip

    def drives(self, motion: Motion, period: float, sd: Mapping[str, float]) -> tuple[Drive, ...]:
        names = [c.joint for c in motion.structure.scalar_coordinates]
        times = motion.h * np.arange(motion.applied.shape[1])
        return tuple(Drive(f"joint.{name}.force", Signal(times, row), sd.get(f"joint.{name}.force")) for name, row in zip(names, motion.applied, strict=True))


def _ordered(structure: Structure, given: Sequence[str]) -> list[str]:
    """The channels in the order of the coordinates."""
    named = {channels.resolve(structure.model, channel).name: channel for channel in given}
    return [named[c.joint] for c in structure.scalar_coordinates]


def _needed(structure: Structure, numbers: Numbers, q: np.ndarray, h: float) -> np.ndarray:
    """(velocities, inner nodes): the joint forces that a motion needs, the residual of the equations without any drive."""
    K = q.shape[1]
    actuators = len(structure.model.actuators)
    point = Point(q, np.zeros((0, K)), np.zeros((actuators, K - 1)), np.zeros((structure.tree_nv, K - 1)), h, Variational().viscous_below(), None)
    return evaluate(structure, numbers, point, derivatives=False).residual / h


def excitable(model: Model, given: Sequence[str] | None) -> tuple[tuple[str, ...], bool]:
    """The channels that are excited, and whether they are ways of joints; without any the model's actuators, or the forces of all its hinges and slides."""
    if given is None:
        given = [f"actuator.{a.name}" for a in model.actuators] or [f"joint.{j.name}.force" for j in model.joints if j.kind in ("hinge", "slide")]
    if isinstance(given, str):
        given = [given]
    found = {path: channels.resolve(model, path) for path in given}
    ways = [path for path, channel in found.items() if channel.kind == "joint" and channel.quantity in PLACES]
    for path in found:
        if path not in ways:
            channels.drivable(model, path)
    if not found:
        raise CalibodyError(
            f'The model "{model.name}" has no drive; name the channels to excite, such as "joint.NAME.force", or "joint.NAME.angle" of joints that a controller moves.'
        )
    if ways and len(ways) < len(found):
        other = next(path for path in found if path not in ways)
        raise CalibodyError(f'"{ways[0]}" is the way of a joint and "{other}" is a drive; excite either drives or the joints\' ways.')
    if ways:
        _refuse_unfollowed(model, [found[path].name for path in ways])
    return tuple(found), bool(ways)


def _refuse_unfollowed(model: Model, joints: Sequence[str]) -> None:
    """A sentence where the joints' ways do not make the whole motion."""
    if model.loops:
        raise CalibodyError("The joints of a mechanism with closed loops cannot all follow ways of their own; excite its drives instead.")
    for joint in model.joints:
        if joint.kind not in ("hinge", "slide"):
            raise CalibodyError(f"joint.{joint.name} is a {joint.kind} joint, which cannot follow a way; excite drives instead.")
        if joint.name not in joints:
            quantity = "angle" if joint.kind == "hinge" else "position"
            raise CalibodyError(
                f'"joint.{joint.name}.{quantity}" has no way; a controller has to move every joint, so excite it too, or hold it with [model] held.'
            )


def bare(model: Model, unknowns: Sequence[str]) -> Model:
    """A model whose joints follow their ways has no actuators: what they exert is the force of the joint."""
    used = next((path for path in unknowns if path.startswith("actuator.")), None)
    if used is not None:
        raise CalibodyError(
            f'"{used}" is unknown, and where joints follow a way their forces are what is known; excite the actuators instead, or leave it out.'
        )
    return replace(model, actuators=(), sensors=tuple(s for s in model.sensors if not s.channel.startswith("actuator.")))
