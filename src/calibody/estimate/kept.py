"""What a long calculation has done, kept in a folder piece by piece, so that one that was stopped goes on: each piece is there as a whole or not at all."""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Kept:
    """Pieces by name. It can be sent to other processes, which keep what they have done themselves."""

    folder: Path

    def load(self, name: str) -> Any | None:
        """None where there is none, or none that can be read."""
        try:
            with (self.folder / f"{name}.pickle").open("rb") as file:
                return pickle.load(file)
        except (OSError, EOFError, pickle.UnpicklingError, AttributeError, ImportError):
            return None

    def store(self, name: str, piece: Any) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        beside = self.folder / f".{name}.{os.getpid()}"
        with beside.open("wb") as file:
            pickle.dump(piece, file)
        os.replace(beside, self.folder / f"{name}.pickle")

    def remove(self) -> None:
        for file in self.folder.glob("*") if self.folder.is_dir() else ():
            file.unlink(missing_ok=True)
        if self.folder.is_dir():
            self.folder.rmdir()
