"""What the command line draws with rich: the live table of a fit, and its result."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from calibody import html
from calibody.estimate.result import forces_described
from calibody.estimate.telling import Watch

if TYPE_CHECKING:
    from calibody.estimate.result import Estimate
    from calibody.experiment.saved import Saved
    from calibody.solve.gauss_newton import Iteration

WIDE = 140
"""Columns where the output is no terminal, which would be taken for 80 wide."""
HEADINGS = ("iteration", "stage", "cost", "still moving", "time left")
SILENT = 10.0
"""s after which a log hears of a fit that is still on the same mesh."""
MOST, WORST = 40, 12
"""Channels whose residuals are all told; of more, the worst."""
ROWS = 12
"""Iterations the live table shows."""


def table(title: str, *headings: str) -> Table:
    """Text on the left, numbers on the right; plain text, for a unit in brackets or a name from a file is not markup."""
    out = Table(title=Text(title), title_justify="left")
    for i, heading in enumerate(headings):
        out.add_column(Text(heading), justify="right" if i else "left", overflow="fold")
    return out


def output() -> Console:
    """What is printed on, wide enough for tables."""
    console = Console()
    if not console.is_terminal:
        console.width = WIDE
    return console


class Progress(AbstractContextManager["Progress"]):
    """Shows how far a fit is, in a terminal and in a notebook alike: `cb.fit(..., report=cb.Progress())`.

    A table that grows while the fit runs: stage and mesh, the cost, which parameter still moves and by how many of its standard deviations, and how long it takes at least. Where there is neither
    terminal nor notebook, a plain line on stderr for every mesh.
    """

    def __init__(self, title: str = "fitting") -> None:
        self.title, self.watch = title, Watch()
        self.rows: deque[tuple[str, ...]] = deque(maxlen=ROWS)
        self.console = Console(stderr=True)
        self.live: Live | None = None
        self.said: tuple[str, float] | None = None
        self.cell: Any = None
        """What a notebook shows, replaced with every iteration."""
        if Console().is_jupyter:
            from IPython.display import DisplayHandle  # pyright: ignore[reportMissingImports]

            self.cell = DisplayHandle()
        elif self.console.is_terminal:
            self.live = Live(self._table(), console=self.console, transient=True, refresh_per_second=8)

    def __enter__(self) -> Progress:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.live is not None:
            self.live.stop()

    def __call__(self, iteration: Iteration, progress: object = None) -> None:
        watch = self.watch
        watch(iteration)
        self.rows.append((str(watch.count), watch.place, f"{iteration.cost:.6g}", watch.moving, watch.left))
        if self.cell is not None:
            show = self.cell.display if watch.count == 1 else self.cell.update
            show({"text/html": self._repr_html_(), "text/plain": self._line(iteration)}, raw=True)
        elif self.live is not None:
            self.live.update(self._table())
        elif self._news():
            self.console.print(self._line(iteration), markup=False, highlight=False, soft_wrap=True)

    def _news(self) -> bool:
        """For a log: whether this is another mesh or stage, or nothing was said for a while."""
        place, now = self.rows[-1][1], time.monotonic()
        if self.said is not None and place == self.said[0] and now < self.said[1] + SILENT:
            return False
        self.said = place, now
        return True

    def _line(self, iteration: Iteration) -> str:
        number, place, cost, _, left = self.rows[-1]
        words = f"iteration {number}: cost {cost}, change {iteration.change:.2g} sd, most in {iteration.moving}; {place}"
        return f"{words}; {left} left" if left else words

    def _table(self) -> Table:
        out = table(self.title, *HEADINGS)
        for row in self.rows:
            out.add_row(*(Text(cell) for cell in row))
        return out

    def _repr_html_(self) -> str:
        return html.block(self.title, html.table(HEADINGS, self.rows, numbers=(0, 2)))


# -- results -----------------------------------------------------------------------------------------------------------------------------


def number(e: Estimate) -> str:
    """The value to as many digits as its error bar supports (two of the error bar)."""
    if e.sd is None or not e.sd > 0.0 or not np.isfinite(e.sd):
        return f"{e.value:.6g}"
    digits = int(np.clip(1 - np.floor(np.log10(e.sd)), 0, 12))
    return f"{e.value:.{digits}f}" if abs(e.value) < 1e6 and digits <= 9 else f"{e.value:.7g}"


def parameter_table(found: Saved, truth: Mapping[str, float] | None = None) -> Table:
    extra = ("truth", "z") if truth else ()
    out = table("parameters" + (" (z: value - truth in standard deviations)" if truth else ""), "parameter", "value", "sd", "unit", "initial", *extra)
    for column in out.columns:
        column.no_wrap = True
    for name, e in found.parameters.items():
        bar = f"{e.sd:.2g}" if e.sd is not None else e.bounded if e.at_bound else "not determined" if found.converged else ""
        row = [name, number(e), bar, e.unit, f"{e.initial:.4g}"]
        if truth:
            t = truth.get(name)
            row += ["" if t is None else f"{t:.6g}", "" if t is None or e.sd is None else f"{(e.value - t) / e.sd:+.1f}"]
        out.add_row(*(Text(cell) for cell in row))
    return out


def print_result(found: Saved, truth: Mapping[str, float] | None = None) -> None:
    console = output()

    def say(sentence: str) -> None:
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    say(f"status: {found.status}")
    if found.parameters:  # motion and forces alone have none
        console.print(parameter_table(found, truth))
    for sentence in found.unresolved:
        say(sentence)
    for d in found.determined:
        say(f"  {d.expression} = {d.value:.6g} +- {d.sd:.2g}")
    fits = found.document["fit"]
    shown = sorted(fits, key=lambda c: -(fits[c]["rms_over_sd"] or 0.0))[:WORST] if len(fits) > MOST else list(fits)
    for channel in shown:
        say(f"{channel}: rms {fits[channel]['rms']:.3g}, {fits[channel]['rms_over_sd']:.3g} times its noise")
    if left := len(fits) - len(shown):
        say(f"{left} more channels are closer to their noise; report.html has them")
    for run, r in ((found.document.get("validation") or {}).get("runs") or {}).items():
        say(f"{run}: predicted without it to {r['rms_over_sd']:.3g} times the noise, {100 * r['inside']:.0f} % of the samples inside the 95 % band")
    for line in forces_described(found):
        say(line)
    for note in found.notes:
        say(f"note: {note}")


def document(found: Saved, **more: Any) -> dict[str, Any]:
    """A result for --json: its result.json, and where it is."""
    return {**found.document, "folder": str(found.folder), **more}
