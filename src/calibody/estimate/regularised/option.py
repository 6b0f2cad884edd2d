"""The regularised stepper as an option of estimators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from calibody.errors import nearest
from calibody.estimate.estimator import OptionError, refuse_unless
from calibody.recording.recording import is_finite

if TYPE_CHECKING:
    from calibody.steppers.spook import Spook


def settings_of(given: Any) -> Spook:
    """A stepper, also from a mapping of its settings, as an experiment file has it."""
    from dataclasses import fields

    from calibody.steppers.spook import Spook  # with jax; most experiments do not name an engine

    if isinstance(given, Spook):
        return given
    refuse_unless(isinstance(given, Mapping), "stepper", given, "a cb.Spook(...), or its settings such as { compliance = 1e-5 }")
    known = [f.name for f in fields(Spook)]
    for key, value in given.items():
        if key not in known:
            raise OptionError("stepper", given, f'it has no "{key}"{nearest(key, known) or "; it has " + ", ".join(known) + "."}')
        if not is_finite(value) or value < 0 or (value == 0 and key in ("compliance", "angular_compliance")):
            raise OptionError(f"stepper.{key}", value, "give a finite number that is not negative (compliances: above zero).")
    return Spook(**given)
