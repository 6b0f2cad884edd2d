"""Rows of a long table, each written as soon as it is done: a script that is stopped goes on where it was.

A row is one line of JSON, `[key, value]`; delete the file to begin anew, as after any change of the code that the numbers come from.
"""

from __future__ import annotations

import concurrent.futures
import json
import multiprocessing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def rows(file: Path, keys: Sequence[tuple], work: Callable[[tuple], Any], processes: int) -> dict[tuple, Any]:
    """What `work` gives for every key, from the file or made now, in the order of the keys."""
    file.parent.mkdir(parents=True, exist_ok=True)
    done = {}
    if file.is_file():
        done = {tuple(key): value for key, value in map(json.loads, file.read_text(encoding="utf-8").splitlines())}
    missing = [key for key in keys if key not in done]
    with file.open("a", encoding="utf-8") as out:
        if processes == 1:
            for key in missing:
                _keep(out, done, key, work(key))
        elif missing:
            with concurrent.futures.ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
                running = {pool.submit(work, key): key for key in missing}
                for future in concurrent.futures.as_completed(running):
                    _keep(out, done, running[future], future.result())
    return {key: done[key] for key in keys}


def _keep(out: Any, done: dict, key: tuple, value: Any) -> None:
    done[key] = value
    out.write(json.dumps([key, value]) + "\n")
    out.flush()
