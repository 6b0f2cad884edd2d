"""What may be asked for as process noise, by whoever reads options: nothing here needs more than they do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibody.recording.recording import is_finite

ProcessNoise = str | float | Mapping[str, Any]
"""As `Transcription.process_noise` says."""
FOUND, SD, TIME = "auto", "sd", "correlation_time"
EXPECTED = (
    '"none", "auto", a standard deviation in N or N m that is not negative, { sd = ..., correlation_time = ... } (numbers or "auto"), '
    'or one of them per joint, { "joint.NAME" = ... }'
)


def for_all(given: ProcessNoise) -> bool:
    """Whether one value is given for all joints."""
    return not isinstance(given, Mapping) or (bool(given) and set(given) <= {SD, TIME})


def refused(one: object) -> str | None:
    """What to give instead, if this is no noise of one joint."""
    sd = one.get(SD, FOUND) if isinstance(one, Mapping) else one
    time = one.get(TIME) if isinstance(one, Mapping) else None
    if isinstance(one, Mapping) and (not one or not set(one) <= {SD, TIME}):
        return f"give {SD} and {TIME}."
    if sd != FOUND and not (is_finite(sd) and sd >= 0):  # type: ignore[operator]
        return "give a standard deviation in N or N m that is not negative."
    if time is not None and time != FOUND and not (is_finite(time) and time > 0):
        return f'give a {TIME} in seconds that is larger than zero, or "auto".'
    return f'a {TIME} is found only with its {SD}; give {SD} = "auto" too.' if time == FOUND and sd != FOUND else None
