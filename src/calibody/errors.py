"""The one exception users meet: a sentence that says what was given, what was expected and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager


class CalibodyError(ValueError):
    """Base of every error that is about the user's input; its text is one sentence, fit to be printed as it is."""


class ModelError(CalibodyError):
    """The description of the mechanism is wrong: an unknown path, a negative mass, a loop that cannot close."""


class FormatError(CalibodyError):
    """A model file cannot be read, or contains something that bears force and cannot be represented."""


class SimulationError(CalibodyError):
    """A motion cannot be computed: a step that has no solution, a start that violates a closed loop, a step too large."""


class NumericalError(ArithmeticError):
    """A computation failed, and nobody has made a mistake yet: a singular matrix. Who asked for it tries another way, or says what it means (`CalibodyError`)."""


@contextmanager
def told() -> Iterator[None]:
    """At the door of an estimator (also as a decorator): a numerical failure that nobody could mend becomes a sentence for the user."""
    try:
        yield
    except NumericalError as failure:
        raise CalibodyError(str(failure)) from failure


def nearest(name: object, known: Iterable[str]) -> str:
    """`; did you mean "x"?` for the closest known name, or the empty string if nothing is close."""
    close = difflib.get_close_matches(str(name), list(known), n=1, cutoff=0.6)
    return f'; did you mean "{close[0]}"?' if close else ""


def meant(given: str, known: Iterable[str], also: Mapping[str, Sequence[str]]) -> str | None:
    """The known word that a word stands for: one that is called so elsewhere (`also`: known word -> other words for it), else the closest in spelling; None if nothing is."""
    known = list(known)
    called = next((word for word in known if given.lower() in also.get(word, ())), None)
    return called or next(iter(difflib.get_close_matches(given, known, n=1, cutoff=0.6)), None)


def either(names: Sequence[str]) -> str:
    """ "a", "b" or "c" """
    *rest, last = (f'"{name}"' for name in names)
    return f"{', '.join(rest)} or {last}" if rest else last


def shown(value: object) -> str:
    """A value as an experiment file writes it, cut where it is long."""
    text = str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
