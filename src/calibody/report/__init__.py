"""From a run folder to one HTML file that needs nothing else: `report.html`. Never calls a solver.

`verdict.py` says in words what was found, `parameters.py` draws the table and its forest plot, `figures.py` prepares the numbers of the
figures (decimated for display, never for the numbers), `page.py` puts them into the template together with plotly's bundle and our own scripts.
"""

from __future__ import annotations

from calibody.report.page import write as write

__all__ = ["write"]
