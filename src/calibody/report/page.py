"""The page: template, style and scripts into one file, moved into its place as a whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from calibody.errors import CalibodyError
from calibody.experiment import atomic
from calibody.experiment.folder import EXPERIMENT, REPORT
from calibody.experiment.saved import Saved, open as open_folder
from calibody.report.figures import figures
from calibody.report.numbers import counted, percent, plain
from calibody.report.parameters import combinations, rows, tight
from calibody.report.posterior import drawn as posterior_figures, section
from calibody.report.verdict import verdict

HERE = Path(__file__).parent / "templates"


def write(folder: str | Path) -> Path:
    """Write `report.html` into a run folder; gives its path."""
    found = open_folder(folder)
    return atomic.write_text(found.folder / REPORT, page(found))


def page(found: Saved) -> str:
    """The whole page as text."""
    drawn = figures(found) if found.finished else None
    posterior = section(found) if drawn else None
    if drawn is not None:
        drawn["posterior"] = posterior_figures(found, drawn["starts"])
    parameters = rows(found)
    return (
        environment()
        .get_template("report.html")
        .render(
            title=(found.document["model"] or {}).get("name") or found.folder.name,
            found=found,
            version=found.document["versions"]["calibody"],
            document=found.document,
            verdict=verdict(found),
            rows=parameters,
            has_truth=any(r.truth for r in parameters),
            has_naive=any(r.naive for r in parameters),
            combinations=combinations(found),
            posterior=posterior,
            tight=tight(found),
            meshes=bool(drawn) and any(shape["kind"] == "mesh" for shape in drawn["scene"]["shapes"]),
            facts=facts(found),
            data=json_text(drawn) if drawn else "null",
            drawn=drawn,
            plain=plain,
            percent=percent,
            experiment=_experiment(found),
            style=text_of("style.css"),
            scripts=[text_of(name) for name in _scripts(drawn)],
            plotly=plotly() if drawn else "",
        )
    )


def _scripts(drawn: dict[str, Any] | None) -> list[str]:
    """Those that the page needs."""
    return ["theme.js", *(["report.js", "replay.js"] if drawn else []), *(["posterior.js"] if drawn and drawn["posterior"] else [])]


def environment() -> Any:
    """Of the templates."""
    from jinja2 import Environment, FileSystemLoader

    return Environment(loader=FileSystemLoader(HERE), autoescape=True, trim_blocks=True, lstrip_blocks=True)


def text_of(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def json_text(value: Any) -> str:
    """JSON inside a script element: nothing in it may end the element."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def plotly() -> str:
    """Plotly's bundle, out of its wheel."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise CalibodyError("The report needs plotly; install it with: pip install plotly") from None
    return get_plotlyjs()


def _experiment(found: Saved) -> str:
    path = found.folder / EXPERIMENT
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def facts(found: Saved) -> list[tuple[str, str]]:
    """A few figures for the head of the page."""
    good, total = sum(e.sd is not None for e in found.parameters.values()), len(found.parameters)
    out = [("parameters determined", f"{good} of {total}")] if total else []
    fit = found.document["fit"]
    if fit:
        samples = sum(f["samples"] for f in fit.values())
        runs = len(found.document["data_sha256"])
        worst = max((f["rms_over_sd"] for f in fit.values() if f["rms_over_sd"] is not None), default=None)
        out += [("residuals / noise", plain(worst, 3)), (f"samples in {counted(runs, 'run')}", f"{samples:,}".replace(",", " "))]
    out.append(("iterations", str(found.iterations)))
    total_seconds = found.seconds.get("total")
    return out + ([("time taken", f"{total_seconds:.1f} s")] if total_seconds else [])
