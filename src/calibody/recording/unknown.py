"""Drives that nobody has measured: moments that muscles exert, motors without a current sensor.

`drive = "unknown"` says that a force acts on a joint and is to be found with the motion. What is said about it is its size and how long it lasts: a force with a memory, of standard deviation `sd` [N, N m]
and correlation time [s] (`estimate/nodes.py: Noise`); what is "auto" is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from calibody.errors import CalibodyError, nearest, shown
from calibody.recording.finite import is_finite

AUTO = "auto"
UNKNOWN = "unknown"
"""What stands in the place of a column, or of all drives."""
EVERY = "joint.*.force"
"""The channel that stands for all joints, but for those that carry a mechanism which hangs on nothing."""
OPTIONS = ("sd", "correlation_time")


@dataclass(frozen=True)
class UnknownDrive:
    """The force on a joint, `joint.NAME.force`, or on all of them, `joint.*.force`, as unknown."""

    channel: str
    sd: float | str = AUTO
    """Its standard deviation over time [N, N m]: usually a half of the largest that is expected; "auto": found."""
    correlation_time: float | str = AUTO
    """For how long it stays alike [s]: usually a tenth of a period of the motion or more; "auto": found, with the sd."""

    def __post_init__(self) -> None:
        words = self.channel.split(".") if isinstance(self.channel, str) else []
        if len(words) < 3 or words[0] != "joint" or words[-1] != "force" or not all(words):
            raise CalibodyError(f'The unknown drive {shown(self.channel)} is no force on a joint; give "joint.NAME.force", or "{EVERY}" for all.')
        what = f'The unknown drive "{self.channel}"'
        for name in OPTIONS:
            value = getattr(self, name)
            if value != AUTO and not (is_finite(value) and value > 0):
                raise CalibodyError(f'{what} has {name} = {shown(value)}; give a number above zero, or "auto".')
        if self.sd != AUTO and self.correlation_time == AUTO:
            raise CalibodyError(f'{what} has an sd and no correlation_time, which is found only with its sd; state it in seconds, or give sd = "auto".')

    @property
    def joint(self) -> str:
        return self.channel.removeprefix("joint.").removesuffix(".force")

    @property
    def noise(self) -> dict[str, float | str]:
        """As process noise is asked for."""
        return {name: getattr(self, name) for name in OPTIONS}


def is_unknown(given: Any) -> bool:
    """Whether a drive is given as unknown, not by a column."""
    return given == UNKNOWN or isinstance(given, UnknownDrive) or (isinstance(given, Mapping) and UNKNOWN in given)


def unknown_drive(channel: str, given: Any) -> UnknownDrive:
    """From `"unknown"` or `{unknown = true, sd = ..., correlation_time = ...}`."""
    if isinstance(given, UnknownDrive):
        return given
    options = dict(given) if isinstance(given, Mapping) else {UNKNOWN: True}
    if options.pop(UNKNOWN) is not True:
        raise CalibodyError(f'The drive "{channel}" has unknown = {shown(given[UNKNOWN])}; give unknown = true, or a column.')
    for key in options:
        if key not in OPTIONS:
            raise CalibodyError(f'The drive "{channel}" is unknown and has {key}{nearest(key, OPTIONS) or "; it takes " + " and ".join(OPTIONS) + "."}')
    return UnknownDrive(channel, **options)


def check_unknown(name: str, given: Iterable[Any], driven: Iterable[str]) -> tuple[UnknownDrive, ...]:
    """Of a recording: each once, and none that is measured too."""
    members, seen = tuple(given), set(driven)
    for member in members:
        if not isinstance(member, UnknownDrive):
            raise CalibodyError(f'The recording "{name}" was given {type(member).__name__} where UnknownDrive was expected.')
        if member.channel in seen:
            raise CalibodyError(f'The recording "{name}" has the drive "{member.channel}" twice; it is known or unknown, leave one out.')
        seen.add(member.channel)
    return members
