"""Markers or channels that took each other's name, in some samples or throughout, put right when a recording is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from calibody.errors import CalibodyError, nearest, shown
from calibody.recording.finite import is_finite

EXAMPLE = '{ a = "site.RTOE", b = "site.RMT5", times = [0.02, 0.04] }'


@dataclass(frozen=True)
class Exchange:
    """What `Recording.exchanged` is given."""

    a: str
    b: str
    times: tuple[float, ...] = ()
    """Instants of the samples [s], numbers of poses at rest; none: throughout."""


def exchange(given: Any) -> Exchange:
    """The checked exchange that a user's mapping means."""
    if not isinstance(given, Mapping):
        raise CalibodyError(f"An exchange is {shown(given)}; give a table such as {EXAMPLE}.")
    known = [f.name for f in fields(Exchange)]
    for key in given:
        if key not in known:
            raise CalibodyError(f'An exchange has an unknown option "{key}"{nearest(key, known) or "; it takes " + ", ".join(known) + "."}')
    a, b, times = given.get("a"), given.get("b"), given.get("times", [])
    if not (isinstance(a, str) and isinstance(b, str)) or a == b:
        raise CalibodyError(f"An exchange has a = {shown(a)} and b = {shown(b)}; give two markers or channels, such as {EXAMPLE}.")
    if not isinstance(times, (list, tuple)) or not all(is_finite(t) for t in times):
        raise CalibodyError(f"The exchange of {a} and {b} has times = {shown(times)}; give a list of the samples' times in seconds, or leave it out for all.")
    return Exchange(a, b, tuple(float(t) for t in times))
