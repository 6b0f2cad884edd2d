"""Complete examples with a known answer, made by our own simulator: model, recording, experiment file and truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calibody.demos.base import Example

NAMES = ("pendulum", "furuta", "fourbar", "arm", "stop", "toss", "gait")


def example(name: str) -> Example:
    from importlib import import_module

    return import_module(f"calibody.demos.{name}").EXAMPLE


def write(name: str, folder: Path) -> Path:
    """Write an example's files; gives the experiment file."""
    from calibody.demos.base import write as write_files

    return write_files(example(name), folder)


def truth_of(folder: Path) -> dict[str, float]:
    """What the recording of an example was made with."""
    return json.loads((folder / "truth.json").read_text(encoding="utf-8"))
