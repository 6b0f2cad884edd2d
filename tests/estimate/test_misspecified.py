"""A reduced form of `benchmarks/misspecified.py` (slow): one seed of the pendulum, with and without each thing that the model lacks."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_what_is_missing_is_named_and_no_wrong_number_is_called_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    table = importlib.import_module("misspecified")
    done = {name: table.fitted(name, "pendulum", 1, 0, "auto") for name in table.CASES}
    assert done["nothing"].level == "good" and not done["nothing"].first
    assert not [name for name, o in done.items() if o.level == "good" and (o.z or 0.0) > table.OFF]
    missing = {name: o for name, o in done.items() if table.CASES[name].named}
    named = [name for name, o in missing.items() if o.names(table.CASES[name])]
    assert len(missing) == 13 and len(named) >= 11, sorted(set(missing) - set(named))
