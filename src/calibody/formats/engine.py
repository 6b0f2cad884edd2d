"""MuJoCo's compiler behind a quiet door: its complaints become one sentence, its log file is never written."""

from __future__ import annotations

import gc
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import mujoco

from calibody.errors import FormatError

mj: Any = mujoco
"""The package, whose enumerations carry no types."""

_LINE = re.compile(r",? line \d+")
_PREFIX = re.compile(r"^(XML Error|XML Warning|Error|Warning):\s*")


@contextmanager
def quiet() -> Iterator[None]:
    """MuJoCo prints warnings and appends them to MUJOCO_LOG.TXT in the current folder unless a handler takes them."""
    # The bindings put a handler of their own in front of this one for the length of a call. A finaliser that runs in between (garbage collection
    # inside the callback) can make theirs its own successor, and the next warning never ends: so nothing is collected in here.
    before, collecting = mj.get_mju_user_warning(), gc.isenabled()
    gc.disable()
    mj.set_mju_user_warning(None)
    mj.set_mju_user_warning(_ignore)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated attributes and the like: the file still means what it says
            yield
    finally:
        mj.set_mju_user_warning(before)
        if collecting:
            gc.enable()


def _ignore(_: str) -> None:
    """A warning of the compiler that is not worth a word: what matters is refused or noted by the reader."""


def compile_text(text: str, label: str, folder: Path, adjust: Callable[[Any], None], lines_are_the_file_s: bool = True) -> tuple[Any, Any]:
    """MuJoCo's spec and compiled model of an XML text whose assets are relative to `folder`; `adjust` may change the spec between.

    Where includes were put in place the compiler counts other lines than the author; its line numbers are then left out.
    """
    refuse_not_finite(text, label)
    try:
        with quiet():
            spec = mj.MjSpec.from_string(text)
            spec.modelfiledir = str(folder)
            adjust(spec)
            return spec, spec.compile()
    except FormatError:
        raise
    except Exception as error:  # the bindings raise ValueError, RuntimeError, mujoco.FatalError, ...: all mean that the file is wrong
        reason = sentence(error) if lines_are_the_file_s else _LINE.sub("", sentence(error))
        raise FormatError(f"{label}: MuJoCo's compiler refuses the file: {reason}.") from None


# Attributes that are lengths, directions, masses or inertias. With a number there that is not finite (or that overflows when squared), or a NaN anywhere, the
# compiler may sort bounding boxes by NaN and never come back; every other attribute it checks itself.
_MEASURES = frozenset(
    "pos size quat axisangle euler xyaxes zaxis fromto mass density diaginertia fullinertia gravity axis xyz rpy scale value ixx iyy izz ixy ixz iyz "
    "radius length center refpos refquat anchor offset margin gap meshscale vertex".split()
)
_LARGEST = 1e100
# Attributes that hold names, where "nan" is an odd but honest word.
_NAMES = frozenset(
    "name class childclass joint joint1 joint2 body body1 body2 site site1 site2 geom geom1 geom2 mesh material texture target objname refname model file filename link".split()
)


def refuse_not_finite(text: str, label: str) -> None:
    """Refuse a measure that is not finite before the compiler meets it; XML that cannot be parsed is left to the compiler's own words."""
    try:
        elements = ElementTree.fromstring(text.encode("utf-8")).iter()
    except (ElementTree.ParseError, ValueError, UnicodeError):
        return
    for element in elements:
        for key in element.attrib:
            for word in element.attrib[key].split():
                if (key in _MEASURES and _absurd(word)) or (key not in _NAMES and word.lower().lstrip("+-") == "nan"):
                    raise FormatError(
                        f'{label}: <{element.tag} {key}="{element.attrib[key]}">: "{word}" is not a number a mechanism can have; give a finite one in SI units.'
                    )


def _absurd(word: str) -> bool:
    try:
        return not abs(float(word)) < _LARGEST
    except ValueError:
        return False


def sentence(error: Exception) -> str:
    """The compiler's message on one line, without its prefix."""
    words = [_PREFIX.sub("", line.strip()) for line in str(error).splitlines() if line.strip()]
    return "; ".join(words).rstrip(".") or type(error).__name__
