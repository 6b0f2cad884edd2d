"""What every stepper offers to `simulate`: a start from joint coordinates, and steps from there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from calibody.mechanics.structure import Numbers, Structure
from calibody.steppers.events import ContactLog


@dataclass(frozen=True)
class Trajectory:
    """What a stepper computed: nodes 0 .. n, and the sentence that says why it stopped early (None if it did not)."""

    q: np.ndarray
    """(nq, n + 1)"""
    multipliers: np.ndarray
    """(nc, n + 1) constraint forces at the nodes; those of the last node are not determined and repeat the one before."""
    iterations: int
    active: np.ndarray
    """(nc,) which constraint rows were kept, at the end."""
    failure: str | None
    notes: tuple[str, ...] = ()
    contacts: ContactLog | None = None
    """Of a motion with contacts."""
    choices: tuple[tuple[int, np.ndarray], ...] = ()
    """Where the rows that are kept changed: the first step with each choice, and the choice; none where they did not."""
    read: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Channels that an engine has measured itself (`Motion.read`)."""


@dataclass(frozen=True)
class Start:
    """A known start: coordinates and rates of the structure, and the unwrapped scalar joint coordinates."""

    q: np.ndarray
    v: np.ndarray
    s: np.ndarray
    activations: Mapping[str, float] = field(default_factory=dict)
    """Of an engine's muscles and filters, by channel; those left out begin at zero."""


class AbstractStepper(ABC):
    """Turns a start and drives into a trajectory. Concrete steppers are frozen dataclasses whose fields are their settings."""

    def coordinates(self, asked: str) -> str:
        """The coordinates to solve in, given what the user asked for ("auto", "tree" or "free")."""
        return asked

    @property
    def engine(self) -> bool:
        """Whether the forces are those of an engine of its own, which takes controls as they are and may have elements that calibody's mechanics has not."""
        return False

    def touches(self) -> bool:
        """Whether contacts and limits act."""
        return True

    @abstractmethod
    def viscous_below(self) -> float:
        """Rate below which the dry friction of a motion counts as viscous [rad/s, m/s], where forces are computed from it."""

    @abstractmethod
    def run(self, structure: Structure, numbers: Numbers, start: Start, control: np.ndarray, applied: np.ndarray, h: float) -> Trajectory:
        """Steps from `start`; control (actuators, n), applied (tree velocities, n)."""
