"""The numbers behind the figures, small enough for one file.

Curves are thinned for display: each bucket keeps its first sample and the one with the largest residual, so that a spike is never lost. Spectra,
correlations and every number in the text come from all samples. Arrays travel as float32 in base64, times counted from the start of their run.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from calibody.estimate.validation import COVER, Unseen

if TYPE_CHECKING:
    from calibody.estimate.result import Result
    from calibody.experiment.saved import Saved

SAMPLES = 60_000
"""Displayed samples of all channels together (of those left out a fourth) ..."""
MOST_SAMPLES, FEWEST_SAMPLES = 5400, 400
"""... and of one."""
FORCE_POINTS, MOST_FORCE_POINTS, FEWEST_FORCE_POINTS = 120_000, 1500, 200
RUNS = 50
"""Runs that are drawn, the first ones; tables and every number have all of them."""
SCENE_NUMBERS = 450_000
"""Coordinates of all frames of the replay."""
LAGS = 60
LISTED = 60
"""Impacts of a table."""
BINS, QUANTILES, WIDEST = 61, 200, 12.0
"""Of a histogram; of a comparison of quantiles; and the standard deviations beyond which residuals are drawn at the edge."""
FREQUENCIES = 400


def packed(x: Any) -> str:
    return base64.b64encode(np.ascontiguousarray(x, dtype="<f4").tobytes()).decode("ascii")


def figures(found: Saved) -> dict[str, Any]:
    """All figures of a finished result."""
    starts = dict(found.channels.group_by("run").agg(_minimum("time")).iter_rows())
    runs = list(dict.fromkeys(found.channels["run"].to_list()))
    starts = {run: starts[run] for run in runs[:RUNS]}
    return {
        "runs": runs[:RUNS],
        "undrawn": len(runs[RUNS:]),
        "starts": {run: float(t) for run, t in starts.items()},
        "channels": _channels(found, starts),
        "correlation": correlation(found),
        "convergence": _convergence(found),
        "validation": _validation(found, starts),
        "torques": _torques(found, starts),
        **_impacts(found, starts),
        "until": {run: p["until"] - starts[run] for run, p in found.document["predictions"].items() if p.get("until") is not None and run in starts},
        "forces": _forces(found, starts),
        "posterior": None,
        "scene": _scene({**found.scene, "runs": found.scene["runs"][:RUNS]}),
    }


def _minimum(column: str) -> Any:
    import polars as pl

    return pl.col(column).min()


# -- channels ----------------------------------------------------------------------------------------------------------------------------


def _channels(found: Saved, starts: Mapping[str, float]) -> list[dict[str, Any]]:
    parts = {key: rows for key, rows in found.channels.partition_by("run", "channel", as_dict=True, maintain_order=True).items() if key[0] in starts}
    most = int(np.clip(SAMPLES // max(1, len(parts)), FEWEST_SAMPLES, MOST_SAMPLES))
    out = []
    for (run, channel), rows in parts.items():
        columns = {name: rows[name].to_numpy().astype(float) for name in ("time", "measured", "fitted", "predicted", "residual")}
        stated = found.document["fit"][channel]["runs"][run]
        kept = thinned(columns["residual"], most)
        columns["time"] = columns["time"] - starts[str(run)]
        entry: dict[str, Any] = {name: packed(values[kept]) for name, values in columns.items()}
        entry |= {"run": run, "channel": channel, "unit": found.document["fit"][channel].get("unit", ""), "sd": stated["sd"], "samples": len(rows)}
        entry |= {"rms": stated["rms"], "ratio": stated["rms_over_sd"], "whiteness": stated["whiteness"], "shown": len(kept)}
        entry |= {"hasPrediction": bool(np.isfinite(columns["predicted"]).any())}
        relative = rows["relative_sd"].to_numpy() if "relative_sd" in rows.columns else 1.0
        out.append({**entry, **spectrum(columns), **memory(columns["residual"]), **_distribution(columns["residual"] / (stated["sd"] * relative))})
    return out


def _distribution(deviation: np.ndarray) -> dict[str, Any]:
    """Of the residuals in units of their noise: a histogram, and their quantiles beside those of normal noise."""
    from scipy.special import ndtri

    n = len(deviation)
    reach = float(np.clip(np.abs(deviation).max(initial=0.0), 3.0, WIDEST))
    count, edges = np.histogram(np.clip(deviation, -reach, reach), int(np.clip(np.sqrt(n), 15, BINS)), (-reach, reach))
    share = (np.unique(np.linspace(0, n - 1, min(n, QUANTILES)).round()) + 0.5) / n
    return {
        "bins": packed(0.5 * (edges[1:] + edges[:-1])),
        "density": packed(count / (n * (edges[1] - edges[0]))),
        "normal": packed(ndtri(share)),
        "ordered": packed(np.sort(deviation)[(share * n).astype(int)]),
    }


def thinned(residual: np.ndarray, most: int) -> np.ndarray:
    """Indices of at most `most` samples: of every bucket the first and the one with the largest residual."""
    n = len(residual)
    if n <= most:
        return np.arange(n)
    edges = np.linspace(0, n, most // 2 + 1).astype(int)
    largest = [a + int(np.argmax(np.abs(residual[a:b]))) for a, b in pairwise(edges) if b > a]
    return np.unique(np.concatenate([edges[:-1], largest]))


def spectrum(columns: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Power density of the residual and of the measurement over frequency (Welch); the level that white noise of the same size has."""
    from scipy import signal

    t = columns["time"]
    period = float(np.median(np.diff(t)))
    grid = np.arange(t[0], t[-1] + 0.5 * period, period)
    length = min(len(grid), max(64, len(grid) // 4))
    out = {}
    for name in ("residual", "measured"):
        f, power = signal.welch(np.interp(grid, t, columns[name]), 1.0 / period, nperseg=length, detrend="constant")
        f, power = f[1:], power[1:]
        kept = np.unique(np.geomspace(1, len(f), min(FREQUENCIES, len(f))).round().astype(int) - 1)
        out["frequency"], out[f"{name}Power"] = packed(f[kept]), packed(power[kept])
    out["level"] = float(2.0 * period * np.mean(columns["residual"] ** 2))
    return out


def memory(residual: np.ndarray) -> dict[str, Any]:
    """Autocorrelation of the residual and the bound that white noise keeps in 95 % of the lags."""
    n = len(residual)
    power = np.abs(np.fft.rfft(residual, 2 * n)) ** 2
    r = np.fft.irfft(power)[: min(LAGS + 1, n)]
    return {"memory": packed(r[1:] / r[0] if r[0] > 0 else 0.0 * r[1:]), "band": 1.96 / np.sqrt(n)}


def _validation(found: Saved, starts: Mapping[str, float]) -> list[dict[str, Any]]:
    """By run and channel: what was left out, predicted, and the band; gaps where there is none."""
    parts = [] if found.validation is None else [c for c in found.validation.channels if c.run in starts]
    most = int(np.clip(SAMPLES // (4 * max(1, len(parts))), FEWEST_SAMPLES, MOST_SAMPLES))
    out = []
    for c in parts:
        kept = thinned(c.error, most)
        columns = {
            "time": c.times - starts[c.run],
            "measured": c.measured,
            "predicted": c.predicted,
            "band": np.where(np.isfinite(c.band), COVER * c.band, np.nan),
        }
        entry: dict[str, Any] = {name: packed(values[kept]) for name, values in columns.items()}
        out.append(entry | {"run": c.run, "channel": c.channel, "unit": found.document["fit"][c.channel].get("unit", ""), "end": _end(c, starts)})
    return out


def _torques(found: Saved, starts: Mapping[str, float]) -> list[dict[str, Any]]:
    """By run and joint: what drove it, and what the model needs."""
    if not found.document.get("torques"):
        return []
    out = []
    for (run, joint), rows in found.torques.partition_by("run", "joint", as_dict=True, maintain_order=True).items():
        if run in starts:
            said = found.document["torques"][run][joint]
            columns = {name: packed(rows[name].to_numpy()) for name in ("measured", "model")}
            time = packed(rows["time"].to_numpy() - starts[str(run)])
            out.append({"run": run, "joint": joint, "time": time, **columns, "relative": said["relative_error"], "unit": said["unit"]})
    return out


def _impacts(found: Saved, starts: Mapping[str, float]) -> dict[str, Any]:
    """Impacts with the times that figures have; restitution and friction of every contact; whether friction shows in one; and how many a table lists."""
    events = [e | {"time": e["time"] - starts[e["run"]]} for e in found.document.get("events") or [] if e["run"] in starts]
    laws = {}
    for name in dict.fromkeys(e["contact"] for e in events):
        lawful = any(e["contact"] == name and e["mode"] != "free" for e in events)
        own = {word: found.parameters.get(f"{name}.{word}") for word in ("restitution", "friction")}
        laws[name] = {word: e.value for word, e in own.items() if e is not None and lawful}
    kept = ("run", "contact", "time", "mode", "normal_impulse", "tangential_impulse", "approach_speed", "separation_speed")
    drawn = [{key: e[key] for key in kept} for e in events]
    return {"events": drawn, "laws": laws, "rubbed": any(e["contact"].startswith("contact.") for e in events), "listed": LISTED}


def _end(c: Unseen, starts: Mapping[str, float]) -> float | None:
    """Where judging ends before the run does."""
    return None if c.foreseen.all() else float(c.times[~c.foreseen][0] - starts[c.run])


# -- parameters --------------------------------------------------------------------------------------------------------------------------


def correlation(found: Result | Saved) -> dict[str, Any]:
    """Of the parameters that have an error bar."""
    names = list(found.parameters)
    kept = [i for i, e in enumerate(found.parameters.values()) if e.sd is not None and np.isfinite(found.correlation[i, i])]
    matrix = found.correlation[np.ix_(kept, kept)]
    return {"names": [names[i] for i in kept], "matrix": np.round(np.nan_to_num(matrix), 3).tolist()}


def _convergence(found: Saved) -> dict[str, Any]:
    history = found.document["history"]
    final = np.array([e.value for e in found.parameters.values()])
    scale = np.array([max(abs(e.value), abs(e.initial), 1e-12) for e in found.parameters.values()])
    theta = np.array([[e.initial for e in found.parameters.values()], *(h["theta"] for h in history)])
    off = (theta - final) / scale
    return {
        "iteration": [h["iteration"] for h in history],
        "cost": [h["cost"] for h in history],
        "change": [h["change"] for h in history],
        "names": list(found.parameters),
        "distance": np.round(off.T, 6).tolist(),
    }


# -- forces ------------------------------------------------------------------------------------------------------------------------------


def _forces(found: Saved, starts: Mapping[str, float]) -> list[dict[str, Any]]:
    """By run and owner (what was unknown of a drive, a joint's reaction, a loop, another drive): its components over time."""
    both = found.forces.hstack(found.states.select(_places(found))) if found.slow_forces else found.forces
    columns = [c for c in both.columns if c not in ("run", "time")]
    groups: dict[str, dict[str, str]] = {}
    for column in columns:
        whole, _, last = column.rpartition(".")
        vector = last in ("x", "y", "z", "rx", "ry", "rz")
        groups.setdefault(whole if vector else column, {})[last if vector else ""] = column
    runs = {key: rows for key, rows in both.partition_by("run", as_dict=True, maintain_order=True).items() if key[0] in starts}
    bars = found.bars.partition_by("run", "channel", as_dict=True)
    most = int(np.clip(FORCE_POINTS // max(1, len(columns) * len(runs)), FEWEST_FORCE_POINTS, MOST_FORCE_POINTS))
    out = []
    for (run,), rows in runs.items():
        kept = np.unique(np.linspace(0, len(rows) - 1, min(most, len(rows))).round().astype(int))
        time = packed(rows["time"].to_numpy()[kept] - starts[str(run)])
        for group, parts in sorted(groups.items(), key=lambda item: _rank(item[0], found)):
            values = {part: rows[column].to_numpy()[kept] for part, column in parts.items()}
            if all(not np.any(v) for v in values.values()):
                continue
            entry = {
                "run": run,
                "name": group,
                "unit": _unit(group, columns),
                "time": time,
                "parts": {part or "value": packed(v) for part, v in values.items()},
            }
            out.append(entry | _bars(bars, str(run), parts, starts))
    return out


def _places(found: Saved) -> list[str]:
    """Angles and positions of the joints whose forces were found."""
    return [c for j in found.slow_forces for c in (f"joint.{j}.angle", f"joint.{j}.position") if c in found.states.columns]


def _rank(group: str, found: Saved) -> int:
    """What comes first: drives with a memory that were found, their powers, their joints' angles, reactions, and the others."""
    joint, _, what = group.removeprefix("joint.").rpartition(".")
    if group.startswith("joint.") and joint in found.slow_forces:
        return {"force": 0, "power": 1}.get(what, 2)
    return 3 if "reaction" in group or group.startswith("loop.") else 4


def _unit(group: str, columns: Sequence[str]) -> str:
    """Of a force, or of a joint's place; a joint that turns has an angle among the columns, and a moment."""
    if group.endswith(".force") and group.removesuffix("force") + "angle" in columns:
        return "N m"
    if group.endswith((".power", ".angle", ".position")):
        return {"power": "W", "angle": "rad", "position": "m"}[group.rpartition(".")[2]]
    return "N m" if group.endswith("torque") else "N" if "reaction" in group or group.startswith("loop.") else ""


def _bars(bars: Mapping[Any, Any], run: str, parts: Mapping[str, str], starts: Mapping[str, float]) -> dict[str, Any]:
    """Error bars of the components that have them, and the names of those that the data do not determine."""
    out: dict[str, Any] = {}
    open_ = []
    for part, column in parts.items():
        rows = bars.get((run, column))
        if rows is None or not len(rows):
            continue
        if rows["sd"].null_count():
            open_.append(part or "value")
        rows = rows.drop_nulls()
        if rows["sd"].sum():
            out[part or "value"] = {"time": packed(rows["time"].to_numpy() - starts[run]), "value": packed(rows["value"]), "sd": packed(rows["sd"])}
    return {"bars": out, "open": open_}


# -- replay ------------------------------------------------------------------------------------------------------------------------------


def _scene(scene: Mapping[str, Any]) -> dict[str, Any]:
    kinds = ("fitted", "measured", "predicted")
    total = sum(7 * len(run["time"]) * len(run["fitted"]) * sum(run[k] is not None for k in kinds) for run in scene["runs"])
    stride = max(1, -(-total // SCENE_NUMBERS))
    runs = []
    for run in scene["runs"]:
        time = np.array(run["time"])[::stride]
        entry: dict[str, Any] = {"name": run["name"], "time": packed(time - time[0])}
        entry |= {k: None if run[k] is None else {body: packed(np.array(rows)[::stride]) for body, rows in run[k].items()} for k in kinds}
        entry["markers"] = {path: packed(np.array(rows)[::stride]) for path, rows in run["markers"].items()}
        entry["touch"] = _touch(run.get("touch") or {}, stride, float(run["time"][0]))
        runs.append(entry)
    touched = any(run["touch"][kind] for run in runs for kind in run["touch"])
    shared = {
        "ground": scene.get("ground"),
        "planes": scene.get("planes", []),
        "weight": scene.get("weight", 0.0),
        "touched": touched,
        "axes": scene.get("axes"),
    }
    return {"shapes": [_shape(shape) for shape in scene["shapes"]], "runs": runs, **shared}


def _touch(touch: Mapping[str, Any], stride: int, start: float) -> dict[str, str]:
    """Rows of frames that are kept, counted anew, and impacts on the clock of the replay; what there is none of is empty."""
    out = {}
    for kind in ("places", "forces"):
        rows = np.array([[row[0] // stride, *row[1:]] for row in touch.get(kind, []) if row[0] % stride == 0])
        out[kind] = packed(rows) if len(rows) else ""
    impacts = [[row[0] - start, *row[1:]] for row in touch.get("impacts", [])]
    return {**out, "impacts": packed(np.array(impacts)) if impacts else ""}


def _shape(shape: Mapping[str, Any]) -> dict[str, Any]:
    """Meshes packed."""
    return dict(shape) if shape["kind"] != "mesh" else {**shape, "points": packed(shape["points"]), "faces": packed(shape["faces"])}
