"""Impacts that are known beforehand: when something strikes, roughly, and what.

Where a camera, a microphone or the eye says what touched, a fit need not find it. The times are where it begins, not what it ends with: they are unknown beside all else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from calibody.errors import CalibodyError, shown
from calibody.recording.finite import is_finite

KINDS = ("contact", "limit")


@dataclass(frozen=True)
class Impact:
    """Something that strikes at a time."""

    time: float
    """About when [s], to some sampling periods."""
    contact: str
    """`contact.NAME` or `limit.NAME`."""
    point: tuple[float, float, float] | None = None
    """About where, in the axes of the body that the contact names first: of the places that a shape has (the corners of a box, the ends of a capsule) the nearest; None: the one that is nearest to touching then."""

    def __post_init__(self) -> None:
        if not is_finite(self.time):
            raise CalibodyError(f"An impact has time = {shown(self.time)}; give about when it is, in seconds.")
        words = self.contact.split(".") if isinstance(self.contact, str) else []
        if len(words) != 2 or words[0] not in KINDS or not words[1]:
            raise CalibodyError(f'An impact names {shown(self.contact)}; give "contact.NAME" or "limit.NAME".')
        if self.point is not None:
            if isinstance(self.point, str) or not isinstance(self.point, Iterable) or len(p := tuple(self.point)) != 3 or not all(map(is_finite, p)):
                raise CalibodyError(
                    f"The impact on {self.contact} has point = {shown(self.point)}; give three lengths in the axes of the body, or leave it out."
                )
            object.__setattr__(self, "point", tuple(float(x) for x in p))
        object.__setattr__(self, "time", float(self.time))


def check_impacts(name: str, given: Iterable[Any], start: float, end: float) -> tuple[Impact, ...]:
    """Of a recording, in the order of time, those inside it; from mappings too."""
    out = []
    for one in given:
        try:
            impact = Impact(**one) if isinstance(one, Mapping) else one
        except TypeError:
            raise CalibodyError(f'The recording "{name}" has the impact {shown(dict(one))}; it takes time, contact and point.') from None
        if not isinstance(impact, Impact):
            raise CalibodyError(f'The recording "{name}" was given {shown(one)} where Impact was expected; give cb.Impact(time, "contact.NAME").')
        out.append(impact)
    return tuple(sorted((i for i in out if start < i.time < end), key=lambda i: i.time))
