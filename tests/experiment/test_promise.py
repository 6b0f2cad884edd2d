"""What `docs/result_file.md` promises to programs that read result.json: within one number of the layout nothing is taken away.

`promise/result.json` is as version 0.2.0 wrote it (its history shortened), `promise/entries.json` is what the schema of 0.2.0 had: every entry by its path, with its types. Neither changes any more once 0.2.0 is out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import calibody as cb

HERE = Path(__file__).parent / "promise"
SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "result.schema.json").read_text(encoding="utf-8"))


def entries(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, list[str]]]:
    """Every entry of a schema by its path (`*` for any name, `[]` for the parts of a list) with the types it may have."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    kinds = schema.get("type", [])
    yield path, sorted([kinds] if isinstance(kinds, str) else kinds)
    for name, inner in schema.get("properties", {}).items():
        yield from entries(inner, f"{path}.{name}".lstrip("."))
    for key, mark in (("additionalProperties", ".*"), ("items", "[]")):
        if isinstance(schema.get(key), dict):
            yield from entries(schema[key], path + mark)
    for inner in schema.get("anyOf", schema.get("oneOf", [])):
        yield from entries(inner, path)


def test_no_entry_is_taken_away_and_none_changes_its_type() -> None:
    now: dict[str, set[str]] = {}
    for path, kinds in entries(SCHEMA):
        now.setdefault(path, set()).update(kinds)
    promised = json.loads((HERE / "entries.json").read_text(encoding="utf-8"))
    assert len(promised) > 100 and SCHEMA["properties"]["schema"]["const"] == "calibody-result-1"
    for path, kinds in promised.items():
        assert path in now, f"{path} is gone: the layout needs another number"
        assert set(kinds) == now[path], f"{path} may be {sorted(now[path])}, and was {kinds}: the layout needs another number"


def test_a_folder_of_version_0_2_0_is_opened() -> None:
    found = cb.open(HERE)
    mass = found.parameters["body.arm.mass"]
    assert found.converged and found.document["versions"]["calibody"] == "0.2.0"
    assert mass.sd is not None and abs(mass.value - 0.4) < 3 * mass.sd and mass.unit == "kg"
    assert found.correlation.shape == (4, 4) and found.process_noise == {} and found.lacks == () and found.outliers == ()
