"""From a run folder to one HTML file that needs nothing else: `report.html`. Never calls a solver.

`verdict.py` says in words what was found, `parameters.py` draws the table and its forest plot, `figures.py` prepares the numbers of the
figures (decimated for display, never for the numbers), `page.py` puts them into the template together with plotly's bundle and our own scripts.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from calibody.experiment import folder as run_folder
from calibody.report.page import write as write

if TYPE_CHECKING:
    from calibody.estimate.result import Result


def report(result: Result, folder: str | Path) -> Path:
    """The run folder of a result, and its page; gives the path of the page."""
    return write(run_folder.write(result, folder))


__all__ = ["report", "write"]
