"""Figures for Python and notebooks: `result.plot.series()`, `motion.plot("joint.hinge.angle")`. They are plotly's, to be shown, changed and saved like any other.

What the report draws in the browser is drawn here from the same numbers: spectra, correlations and thinning are those of `figures.py`. Works on a `Result` and on what `cb.open` gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from calibody.errors import CalibodyError, nearest
from calibody.estimate.reported import initial_theta, values_of
from calibody.experiment.folder import is_force
from calibody.experiment.saved import Saved
from calibody.mechanics import channels as channel_names
from calibody.report.figures import COVER, MOST_SAMPLES, correlation, memory, spectrum, thinned

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from calibody.estimate.result import ChannelFit, Result
    from calibody.steppers.motion import Motion

MEASURED, FITTED, SOFT = "#7d8896", "#1f6fd1", "#9aa4b0"
TONES = (FITTED, "#c8552b", "#2e8b57", "#8a5a9e", "#b8860b", "#20808d")
ROW = 230
"""Height of a panel [px]."""
CHANNELS = 8
"""Panels of one figure, unless more are asked for by name."""


class Plots:
    """The figures of one fit."""

    def __init__(self, found: Result | Saved) -> None:
        self._found = found
        if not found.fit:
            raise CalibodyError("The fit is unfinished and has nothing to draw yet; go on with calibody fit --resume.")

    def series(self, channel: str | None = None, run: str | None = None) -> Figure:
        """Measured and fitted over time, with the band of the noise around the fit: one channel, or all of a run (the first ones, if there are many)."""
        chosen = self._chosen(channel, run)
        figure = _panels([c.channel for c in chosen])
        for row, c in enumerate(chosen, 1):
            kept = thinned(c.residual, MOST_SAMPLES)
            t, y, sd = c.times[kept], c.fitted[kept], COVER * np.broadcast_to(c.sd * c.relative_sd, c.times.shape)[kept]
            band = {"x": np.concatenate([t, t[::-1]]), "y": np.concatenate([y + sd, (y - sd)[::-1]]), "fill": "toself", "line": {"width": 0}}
            figure.add_scatter(**band, fillcolor=FITTED, opacity=0.15, name="95 % of the noise", showlegend=row == 1, hoverinfo="skip", row=row, col=1)
            figure.add_scatter(
                x=t, y=c.measured[kept], mode="markers", marker={"size": 3.5, "color": MEASURED}, name="measured", showlegend=row == 1, row=row, col=1
            )
            figure.add_scatter(x=t, y=y, mode="lines", line={"width": 1.8, "color": FITTED}, name="fitted", showlegend=row == 1, row=row, col=1)
        return figure.update_xaxes(title_text="time [s]", row=len(chosen), col=1)

    def residuals(self, channel: str | None = None, run: str | None = None) -> Figure:
        """Of one channel: the residual over time, its spectrum beside the level of white noise, and its autocorrelation with the bound that white noise keeps in 95 % of the lags."""
        c = self._chosen(channel, run)[0]
        kept = thinned(c.residual, MOST_SAMPLES)
        power, memorised = spectrum({"time": c.times, "residual": c.residual, "measured": c.measured}), memory(c.residual)
        figure = _panels([f"residual of {c.channel}", "power density over frequency [Hz]", "autocorrelation over lags"], shared=False)
        figure.add_scatter(x=c.times[kept], y=c.residual[kept], mode="markers", marker={"size": 3, "color": FITTED}, showlegend=False, row=1, col=1)
        figure.add_hrect(-2.0 * c.sd, 2.0 * c.sd, fillcolor=FITTED, opacity=0.12, line_width=0, row=1, col=1)
        for name, tone in (("measured", MEASURED), ("residual", FITTED)):
            figure.add_scatter(x=_array(power["frequency"]), y=_array(power[f"{name}Power"]), mode="lines", line={"color": tone}, name=name, row=2, col=1)
        ends = _array(power["frequency"])[[0, -1]]
        figure.add_scatter(x=ends, y=[power["level"]] * 2, mode="lines", line={"color": SOFT, "dash": "dot"}, name="white noise", row=2, col=1)
        lags = _array(memorised["memory"])
        figure.add_bar(x=np.arange(1, len(lags) + 1), y=lags, marker={"color": FITTED}, showlegend=False, row=3, col=1)
        figure.add_hrect(-memorised["band"], memorised["band"], fillcolor="#2e8b57", opacity=0.16, line_width=0, row=3, col=1)
        return figure.update_xaxes(type="log", row=2, col=1).update_yaxes(type="log", row=2, col=1)

    def parameters(self) -> Figure:
        """Every estimate that has an error bar with its 95 % interval, over its initial value: each on its own scale, in parts of the estimate."""
        from plotly.subplots import make_subplots

        shown = [(name, e) for name, e in self._found.parameters.items() if e.sd is not None and e.value != 0.0]
        if not shown:
            raise CalibodyError("No parameter of the fit has an error bar; print the result to see why.")
        names = [name for name, _ in shown]
        bars = [100.0 * COVER * e.sd / abs(e.value) for _, e in shown if e.sd is not None]
        started = [100.0 * (e.initial - e.value) / abs(e.value) for _, e in shown]
        titles = ("95 % interval, % of the estimate", "initial value, from the estimate, %")
        figure = make_subplots(rows=1, cols=2, shared_yaxes=True, subplot_titles=titles, horizontal_spacing=0.04)
        figure.add_scatter(
            x=[0.0] * len(names), y=names, error_x={"array": bars, "color": FITTED}, mode="markers", marker={"color": FITTED, "size": 8}, row=1, col=1
        )
        figure.add_bar(x=started, y=names, orientation="h", marker={"color": SOFT}, row=1, col=2)
        return _styled(figure, 130 + 28 * len(shown)).update_yaxes(autorange="reversed", automargin=True).update_layout(showlegend=False)

    def correlation(self) -> Figure:
        """Between the estimates that have an error bar."""
        from plotly import graph_objects as go

        given = correlation(self._found)
        scale = [[0.0, "#c8552b"], [0.5, "#f7f8fa"], [1.0, FITTED]]
        figure = go.Figure(go.Heatmap(z=given["matrix"], x=given["names"], y=given["names"], zmin=-1.0, zmax=1.0, colorscale=scale))
        return figure.update_layout(template="plotly_white", yaxis={"autorange": "reversed"}, height=160 + 30 * len(given["names"]))

    def convergence(self) -> Figure:
        """The cost, and how far every parameter was from its final value, over the iterations."""
        names, costs, values = self._history()
        final = np.array([e.value for e in self._found.parameters.values()])
        scale = np.array([max(abs(e.value), abs(e.initial), 1e-12) for e in self._found.parameters.values()])
        figure = _panels(["cost", "distance from the final value, in parts of the larger of it and the initial value"])
        figure.add_scatter(x=np.arange(1, len(costs) + 1), y=costs, mode="lines+markers", line={"color": FITTED}, showlegend=False, row=1, col=1)
        for k, name in enumerate(names):
            figure.add_scatter(
                x=np.arange(len(values)), y=(values[:, k] - final[k]) / scale[k], mode="lines", line={"color": TONES[k % len(TONES)]}, name=name, row=2, col=1
            )
        return figure.update_xaxes(title_text="iteration", row=2, col=1)

    def forces(self, name: str | None = None, run: str | None = None) -> Figure:
        """Of one joint, loop or drive (`joint.hinge.reaction.force`, `loop.pin.force`), or of all: the components of forces over time."""
        time, table = self._forces(run)
        owners = sorted({column.rpartition(".")[0] if column.endswith((".x", ".y", ".z")) else column for column in table})
        if name is not None and name not in owners:
            raise CalibodyError(f'"{name}" is no force of the fit{nearest(name, owners) or "; there are " + ", ".join(owners) + "."}')
        chosen = [name] if name is not None else [o for o in owners if any(np.any(table[c]) for c in _parts(table, o))][:CHANNELS]
        figure, named = _panels(chosen), set[str]()
        for row, owner in enumerate(chosen, 1):
            for k, column in enumerate(_parts(table, owner)):
                part = column.removeprefix(owner).removeprefix(".") or "value"
                style = {"mode": "lines", "line": {"color": TONES[k]}, "name": part, "legendgroup": part, "showlegend": part not in named}
                figure.add_scatter(x=time, y=table[column], **style, row=row, col=1)
                named.add(part)
        return figure.update_xaxes(title_text="time [s]", row=len(chosen), col=1)

    # -- what is drawn -----------------------------------------------------------------------------------------------------------

    def _chosen(self, channel: str | None, run: str | None) -> list[ChannelFit]:
        run = self._run(run)
        here = [c for c in self._found.fit if c.run == run]
        names = [c.channel for c in here]
        if channel is not None and channel not in names:
            raise CalibodyError(f'"{channel}" was not observed in the run "{run}"{nearest(channel, names) or "; there are " + ", ".join(names) + "."}')
        return here[:CHANNELS] if channel is None else [here[names.index(channel)]]

    def _run(self, run: str | None) -> str:
        names = list(dict.fromkeys(c.run for c in self._found.fit))
        if run is not None and run not in names:
            raise CalibodyError(f'There is no run "{run}"{nearest(run, names) or "; there are " + ", ".join(names) + "."}')
        return names[0] if run is None else run

    def _history(self) -> tuple[list[str], np.ndarray, np.ndarray]:
        """Names, costs, and the values of the parameters from the initial ones on."""
        found = self._found
        if isinstance(found, Saved):
            rows = found.document["history"]
            initial = [e.initial for e in found.parameters.values()]
            return list(found.parameters), np.array([h["cost"] for h in rows], dtype=float), np.array([initial, *(h["theta"] for h in rows)])
        entries = found.problem.entries
        values = [values_of(entries, initial_theta(entries)), *(values_of(entries, i.theta) for i in found.history)]
        return list(found.parameters), np.array([i.cost for i in found.history]), np.array(values)

    def _forces(self, run: str | None) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        run = self._run(run)
        if isinstance(self._found, Saved):
            rows = self._found.forces
            table = rows.filter(rows["run"] == run).drop("run")
        else:
            motion = self._found.motion(run)
            table = motion.to_frame([path for path in motion.channels if is_force(path)])
        columns = {column: table[column].to_numpy() for column in table.columns}
        return columns.pop("time"), columns


def channels_over_time(motion: Motion, names: Sequence[str]) -> Figure:
    """A panel for every channel of a motion; without names, of the coordinates of all joints."""
    coordinates = [p for p in motion.channels if p.startswith("joint.") and p.rpartition(".")[2] in ("angle", "position")]
    chosen = list(names) or coordinates[:CHANNELS]
    figure = _panels(chosen)
    for row, path in enumerate(chosen, 1):
        values = motion[path] if motion[path].ndim > 1 else motion[path][:, None]
        for k, (name, column) in enumerate(zip(channel_names.scalar_names(motion.model, path), values.T, strict=True)):
            kept = thinned(np.gradient(column), MOST_SAMPLES)
            figure.add_scatter(x=motion.time[kept], y=column[kept], mode="lines", line={"color": TONES[k % len(TONES)]}, name=name, row=row, col=1)
    return figure.update_xaxes(title_text="time [s]", row=len(chosen), col=1)


def _panels(titles: Sequence[str], shared: bool = True) -> Any:
    """A figure of panels below one another with a title each (plotly's own types know no numbers of rows)."""
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=len(titles), cols=1, shared_xaxes=shared, subplot_titles=list(titles), vertical_spacing=min(0.12, 0.4 / max(1, len(titles))))
    return _styled(figure, 90 + ROW * len(titles))


def _styled(figure: Figure, height: int) -> Figure:
    return figure.update_layout(template="plotly_white", height=height, margin={"l": 70, "r": 20, "t": 50, "b": 50})


def _parts(table: dict[str, Any], owner: str) -> list[str]:
    return [c for c in table if c == owner or c in (f"{owner}.x", f"{owner}.y", f"{owner}.z")]


def _array(packed: str) -> np.ndarray:
    import base64

    return np.frombuffer(base64.b64decode(packed), dtype="<f4")
