"""The same calculation for many settings, on all cores or wherever an executor takes it."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import Any, TypeVar

R = TypeVar("R")


def sweep(function: Callable[..., R], settings: Iterable[Mapping[str, Any]], executor: Executor | None = None) -> list[R]:
    """`[function(**s) for s in settings]`, in parallel: on a process per core, or on the `executor` given (of `concurrent.futures`, Dask or MPI).

    The function must be importable (defined in a file, not in a lambda) and give back something that can be pickled.
    """
    tasks = [(function, dict(s)) for s in settings]
    if executor is not None:
        return list(executor.map(_call, tasks))
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:  # spawn: a fork would copy the threads of compiled code
        return list(pool.map(_call, tasks))


def _call(task: tuple[Callable[..., Any], dict[str, Any]]) -> Any:
    function, settings = task
    return function(**settings)
