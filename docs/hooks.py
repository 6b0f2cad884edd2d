"""What the documentation is built with beside its pages: the gallery's reports, and formulas.

The gallery shows the reports of our own demos. They are made when the site is built, by `calibody demo`, and kept in `build/gallery` under a hash of the source, so that only a change of
calibody makes them anew. Formulas, `$...$` and `$$...$$` on pages that say `math: true`, become MathML, which browsers draw themselves: no script, no font, no other host.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "build" / "gallery"
DEMOS = {
    "pendulum": "One hinge, a motor, an encoder. Mass, inertia, damping and dry friction from guesses twice the truth.",
    "stop": "A driven pendulum that hits a stop. Inertia, friction, and angle and restitution of the stop from impacts that are found in the recording.",
    "toss": "A cube that is tossed five times. Friction, restitution and the ratio of inertia to mass from its poses; the report says why the mass cannot be told.",
    "furuta": "A rotary pendulum with thirteen unknowns. The data cannot tell five of them; the report says which, and which sums of them it can tell.",
    "fourbar": "A closed loop: two rods and a crank. The forces in its joints are estimated with the parameters.",
    "arm": "Seven joints, masses and friction at once.",
}


# -- gallery -----------------------------------------------------------------------------------------------------------------------------


def source_hash() -> str:
    """Of all that decides what a report looks like."""
    files = sorted(p for p in (ROOT / "src").rglob("*") if p.suffix in (".py", ".js", ".css", ".html"))
    return hashlib.sha256(b"".join(str(p.relative_to(ROOT)).encode() + p.read_bytes() for p in files)).hexdigest()


def run_folder(name: str) -> Path:
    """The run folder of a demo, made if it is not there or of another source."""
    made = KEPT / name / "made-from"
    if not made.is_file() or made.read_text(encoding="utf-8") != source_hash():
        command = [sys.executable, "-m", "calibody", "demo", name, "--out", str(KEPT / name), "--quiet"]
        subprocess.run(command, check=True)
        made.write_text(source_hash(), encoding="utf-8")
    return KEPT / name / f"{name}-fit"


def on_files(files: Any, config: Any) -> Any:
    for name in DEMOS:
        files.append(File.generated(config, f"gallery/{name}.html", abs_src_path=str(run_folder(name) / "report.html")))
    return files


def gallery_entry(name: str) -> str:
    """A demo: what it is, its numbers beside the truth, and its report."""
    found = json.loads((run_folder(name) / "result.json").read_text(encoding="utf-8"))
    rows = ["| parameter | initial | estimate | error bar | truth | off, in error bars |", "|---|---:|---:|---:|---:|---:|"]
    for path, e in found["parameters"].items():
        truth, sd = found["truth"][path], e["sd"]
        bar, off = ("not determined", "") if sd is None else (f"{sd:.2g}", f"{(e['value'] - truth) / sd:+.1f}")
        rows.append(f"| `{path}` | {e['initial']:.4g} | {e['value']:.5g} | {bar} | {truth:.5g} | {off} |")
    samples = sum(run["samples"] for channel in found["fit"].values() for run in channel["runs"].values())
    count = f"{len(found['parameters'])} unknowns from {samples} samples, {found['iterations']} iterations."
    frame = f'<iframe class="report" src="../gallery/{name}.html" title="Report of the {name}" loading="lazy"></iframe>'
    return (
        f"\n{DEMOS[name]} {count}\n\n"
        + "\n".join(rows)
        + f"\n\n{frame}\n\n[The report on a page of its own](gallery/{name}.html) · `calibody demo {name}` makes it.\n"
    )


# -- formulas and citations --------------------------------------------------------------------------------------------------------------

_formulas: list[str] = []
"""MathML that stands for `FORMULA<n>;` until the page is HTML: a paragraph that begins with a tag would be no paragraph."""


def with_formulas(text: str) -> str:
    """Formulas outside code become marks."""
    from latex2mathml.converter import convert

    def mark(formula: str, display: str) -> str:
        _formulas.append(convert(formula.strip(), display=display))
        return f"FORMULA{len(_formulas) - 1};"

    def outside(part: str) -> str:
        part = re.sub(r"\$\$(.+?)\$\$", lambda m: f'<div class="formula">{mark(m[1], "block")}</div>', part, flags=re.DOTALL)
        return re.sub(r"\$(?!\s)([^$\n]+?)(?<!\s)\$", lambda m: mark(m[1], "inline"), part)

    return _outside_code(text, outside)


def with_citations(text: str) -> str:
    """`[key]` leads to the list of references."""
    return _outside_code(text, lambda part: re.sub(r"\[([a-z]+(?:19|20)\d\d)\](?!\()", r"[[\1]](notation.md#references)", part))


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    parts = re.split(r"(```.*?```|`[^`\n]*`)", text, flags=re.DOTALL)
    return "".join(part if part.startswith("`") else change(part) for part in parts)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    name = page.file.src_path
    if name == "gallery.md":
        return re.sub(r"^<!-- demo (\w+) -->$", lambda m: gallery_entry(m[1]), markdown, flags=re.MULTILINE)
    text = markdown if name == "notation.md" else with_citations(markdown)
    return with_formulas(text) if page.meta.get("math") else text


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    return re.sub(r"FORMULA(\d+);", lambda m: _formulas[int(m[1])], html)
