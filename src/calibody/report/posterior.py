"""The section on the posterior: is there more than one explanation, what the draws say beside the error bars, bands and checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibody.estimate.draws.drawn import verdict_of
from calibody.report.figures import MOST_SAMPLES, packed, thinned
from calibody.report.numbers import plain
from calibody.solve.importance import GOOD

if TYPE_CHECKING:
    from calibody.experiment.saved import Saved

SHOWN = 8
"""Parameters of the corner plot: those that differ most from their error bars first."""
DRAWN = 600
"""Points of each of its panels."""


@dataclass(frozen=True)
class Section:
    """What the template shows."""

    level: str
    verdict: str
    explanations: str
    document: dict[str, Any]
    rows: tuple[dict[str, str], ...]
    differing: tuple[str, ...]
    """Of several explanations: the parameters that they differ in."""
    checks: tuple[dict[str, Any], ...]
    coverage: tuple[tuple[str, str, str], ...]


def section(found: Saved) -> Section | None:
    """None where no posterior was drawn."""
    d = found.posterior
    if d is None:
        return None
    if d["refused"]:
        return Section("mind", d["status"], "", d, (), (), (), ())
    khat = np.inf if d["khat"] is None else d["khat"]
    said = verdict_of(d["status"], d["samples"], d["ess"] or 0.0, khat, d["rhat"])
    doubtful = khat >= GOOD or d["noise"] != "naive" or any(c["doubts"] for c in d["checks"])
    level = "bad" if d["status"] != "converged" else "mind" if doubtful else "good"
    rows = tuple(_row(name, m, found) for name, m in d["parameters"].items())
    coverage = [(run, channel, "–" if c is None else f"{100 * c:.0f} %") for run, r in d["coverage"].items() for channel, c in r.get("channels", {}).items()]
    return Section(level, said, _explanations(d), d, rows, _differing(d), tuple(d["checks"]), tuple(coverage))


def _explanations(d: Mapping[str, Any]) -> str:
    modes, starts = d["modes"], d["starts"]
    looked = (
        f"{starts['converged']} of {starts['tried']} fits from elsewhere ended in a solution"
        if starts["tried"]
        else "no fits from elsewhere were made, only symmetries tried"
    )
    if len(modes) == 1:
        return f"No: one explanation was found ({looked})."
    masses = " and ".join(f"{100 * m['mass']:.3g} %" for m in modes)
    return f"Yes: {len(modes)} explanations describe the data, of {masses} probability ({looked})."


def _differing(d: Mapping[str, Any]) -> tuple[str, ...]:
    if len(d["modes"]) < 2:
        return ()
    first = d["modes"][0]["values"]
    sd = {name: d["parameters"][name]["sd"] for name in first}
    return tuple(name for name in first if max(abs(m["values"][name] - first[name]) for m in d["modes"][1:]) > 0.1 * sd[name])


def _row(name: str, m: Mapping[str, Any], found: Saved) -> dict[str, str]:
    e = found.parameters[name]
    return {
        "name": name,
        "unit": m["unit"],
        "median": plain(m["median"], 5),
        "interval": f"{plain(m['q05'], 5)} … {plain(m['q95'], 5)}",
        "fit": plain(e.value, 5) + ("" if e.sd is None else f" ± {plain(e.sd, 2)}"),
        "shift": "" if m["shift"] is None else signed(m["shift"]),
        "ratio": "" if m["ratio"] is None else f"{m['ratio']:.2f}",
        "skewness": signed(m["skewness"]),
        "marked": "; ".join(["yes"] * m["remarkable"] + ([] if m.get("allowed") is None else [f"the error bar is {m['allowed']:.2g} times as wide"])),
    }


def signed(x: float) -> str:
    """With two digits behind the point; zero has no sign."""
    return "0.00" if abs(x) < 0.005 else f"{x:+.2f}"


def drawn(found: Saved, starts: Mapping[str, float]) -> dict[str, Any] | None:
    """The numbers of the figures."""
    d = found.posterior
    if d is None or d["refused"]:
        return None
    table = found.draws
    names = sorted(d["parameters"], key=lambda name: -_remarkable(d["parameters"][name]))[:SHOWN]
    names = [name for name in d["parameters"] if name in names]
    picked = _picked(table["weight"].to_numpy())
    corner = {
        "names": names,
        "units": [d["parameters"][name]["unit"] for name in names],
        "draws": [packed(_from(table[name].to_numpy()[picked], found.parameters[name].value)) for name in names],
        "mode": table["mode"].to_numpy()[picked].tolist(),
        "modes": len(d["modes"]),
        "estimates": [found.parameters[name].value for name in names],
        "sds": [found.parameters[name].sd for name in names],
        "correlation": _correlation(found, names),
    }
    return {"corner": corner, "bands": _bands(found, starts), "left_out": len(d["parameters"]) - len(names)}


def _from(values: np.ndarray, estimate: float) -> np.ndarray:
    """Relative to the estimate: float32 has not digits enough for a mass known to a millionth."""
    return values - estimate


def _remarkable(m: Mapping[str, Any]) -> float:
    return 1e6 if m["shift"] is None else abs(m["shift"]) + abs(np.log(max(m["ratio"], 1e-9))) + abs(m["skewness"])


def _picked(weight: np.ndarray) -> np.ndarray:
    """Rows that weigh the same."""
    return np.minimum(np.searchsorted(np.cumsum(weight / weight.sum()), (0.5 + np.arange(DRAWN)) / DRAWN), len(weight) - 1)


def _correlation(found: Saved, names: list[str]) -> list[list[float]]:
    at = [list(found.parameters).index(name) for name in names]
    known = np.nan_to_num(found.correlation[np.ix_(at, at)])
    np.fill_diagonal(known, 1.0)
    return known.tolist()


def _bands(found: Saved, starts: Mapping[str, float]) -> list[dict[str, Any]]:
    if "predicted_05" not in found.channels.columns:
        return []
    out = []
    for (run, channel), rows in found.channels.partition_by("run", "channel", as_dict=True, maintain_order=True).items():
        rows = rows.drop_nulls("predicted_05")
        if run not in starts or not len(rows):
            continue
        columns = {name: rows[name].to_numpy().astype(float) for name in ("time", "measured", "predicted_05", "predicted_50", "predicted_95")}
        kept = thinned(columns["measured"] - columns["predicted_50"], MOST_SAMPLES)
        columns["time"] = columns["time"] - starts[str(run)]
        keys = ("time", "measured", "low", "middle", "high")
        out.append(
            {"run": run, "channel": channel, "unit": found.document["fit"][channel].get("unit", "")}
            | {k: packed(v[kept]) for k, v in zip(keys, columns.values(), strict=True)}
        )
    return out
