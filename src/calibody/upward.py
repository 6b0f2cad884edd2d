"""Methods of a lower layer that an upper one carries out.

Users expect `model.save(path)` and `result.report(folder)` on the objects themselves, but models do not know file formats, and results know neither run folders
nor pages: imports go in one direction (CONTRIBUTING). The package's front door (`calibody/__init__.py`), which knows all layers and is always imported first, says here who
carries them out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_carriers: dict[str, Callable[..., Any]] = {}


def register(method: str, carrier: Callable[..., Any]) -> None:
    """`carrier` takes the object and the method's arguments."""
    _carriers[method] = carrier


def carry_out(method: str, *arguments: Any) -> Any:
    return _carriers[method](*arguments)
