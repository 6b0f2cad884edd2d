"""MuJoCo's compiler behind a quiet door: its complaints become one sentence, its log file is never written."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mujoco

from calibody.errors import FormatError

mj: Any = mujoco
"""The package, whose enumerations carry no types."""

_LINE = re.compile(r",? line \d+")
_PREFIX = re.compile(r"^(XML Error|XML Warning|Error|Warning):\s*")


@contextmanager
def quiet() -> Iterator[None]:
    """MuJoCo prints warnings and appends them to MUJOCO_LOG.TXT in the current folder unless a handler takes them."""
    before = mj.get_mju_user_warning()
    mj.set_mju_user_warning(lambda _: None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated attributes and the like: the file still means what it says
            yield
    finally:
        mj.set_mju_user_warning(before)


def compile_text(text: str, label: str, folder: Path, adjust: Callable[[Any], None], lines_are_the_file_s: bool = True) -> tuple[Any, Any]:
    """MuJoCo's spec and compiled model of an XML text whose assets are relative to `folder`; `adjust` may change the spec between.

    Where includes were put in place the compiler counts other lines than the author; its line numbers are then left out.
    """
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


def sentence(error: Exception) -> str:
    """The compiler's message on one line, without its prefix."""
    words = [_PREFIX.sub("", line.strip()) for line in str(error).splitlines() if line.strip()]
    return "; ".join(words).rstrip(".") or type(error).__name__
