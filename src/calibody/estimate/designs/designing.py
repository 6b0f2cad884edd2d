"""How an excitation is designed, as a value: the arguments of `design`, and the keys of `[design]` in experiment files. Light, because files are read with it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from calibody.estimate.estimator import refuse_unless, refuse_unless_one_of

CRITERIA = ("worst", "determinant")
BASES = ("fourier", "splines")


@dataclass(frozen=True)
class Designing:
    duration: float = 10.0
    """Of the experiment [s]."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """By channel: a number (both sides alike) or [lower, upper]. Of every channel that is excited, and of whatever else must stay within: angles, rates, forces, places of sites."""
    channels: Mapping[str, float] = field(default_factory=dict)
    """What will be recorded, by channel, with its sd; left out: what the runs of the file observe."""
    rms: Mapping[str, float] = field(default_factory=dict)
    """By channel: the most that its root mean square may be; what motors bear for long."""
    excite: Sequence[str] | None = None
    """Drives that are played ("actuator.X", "joint.X.force"; left out: all actuators), or ways of all joints that a controller makes ("joint.X.angle", "joint.X.position")."""
    rate: float = 100.0
    """Samples per second of the recording [Hz]."""
    criterion: str = "worst"
    """What is made small: `worst`, the largest standard deviation of any determined combination, or `determinant`, the volume of all of them."""
    basis: str = "fourier"
    """Of the functions of time: "fourier" (which can be played again and again), or "splines"."""
    functions: int | None = None
    """Frequencies of a Fourier series, or half the pieces of splines; left out: 8 for drives, 12 for joints that follow a way, fewer where there are many channels (6 of seven joints). More of them take longer, and the search may not come as far."""
    highest: float | None = None
    """The fastest frequency [Hz]; left out: 2 for drives, 1 for joints that follow a way."""
    clearance: float | None = None
    """The least distance [m] between bodies: of the contacts of the model, or of all shapes of bodies that are not neighbours; left out: nothing is asked."""
    initial: Mapping[str, Any] = field(default_factory=dict)
    """Where a motion that is played begins, as in `simulate`."""
    sensors: Mapping[str, float] = field(default_factory=dict)
    """Channels that are not measured yet, with the sd that they would have: each is tried beside those that are."""
    starts: int = 30
    """Random excitations, beside a few sweeps, of which the best are improved."""
    improved: int = 4
    """How many of them. What is best is found among several: there are many excitations that no small change makes better."""
    rounds: int = 25
    """Most steps of the search for joints that follow a way; of drives as many evaluations as those take."""
    seed: int = 0
    """Of the random numbers: the same seed gives the same excitation."""

    def __post_init__(self) -> None:
        for name in ("duration", "rate"):
            refuse_unless(_positive(getattr(self, name)), name, getattr(self, name), "a number above zero")
        for name in ("highest", "clearance"):
            refuse_unless(getattr(self, name) is None or _positive(getattr(self, name)), name, getattr(self, name), "a number above zero, or leave it out")
        for name, least in (("functions", 2), ("starts", 1), ("improved", 1), ("rounds", 0), ("seed", 0)):
            given = getattr(self, name)
            whole = isinstance(given, int) and not isinstance(given, bool) and given >= least
            refuse_unless(whole or (name == "functions" and given is None), name, given, f"a whole number, {least} or more")
        refuse_unless_one_of(CRITERIA, "criterion", self.criterion)
        refuse_unless_one_of(BASES, "basis", self.basis)
        for name in ("limits", "channels", "rms", "initial", "sensors"):
            refuse_unless(isinstance(getattr(self, name), Mapping), name, getattr(self, name), 'a table by channel, such as { "joint.NAME.angle" = 1.0 }')


def _positive(given: Any) -> bool:
    return isinstance(given, (int, float)) and not isinstance(given, bool) and math.isfinite(given) and given > 0.0
