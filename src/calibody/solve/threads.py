"""One thread for linear algebra: the matrices here are small or banded, and a pool of threads that wait for each other makes them many times slower.

Measured on two cores: factoring 2000 blocks of 64x64 takes 0.3 s with one thread, and up to 10 s with two while anything else runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, wraps
from threading import current_thread
from typing import ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


WORTH = 4
"""Calls from which threads are used."""
_most = os.cpu_count() or 1


def limit(most: int) -> None:
    """Use at most so many threads from now on."""
    global _most
    _most = most


@contextmanager
def alone() -> Iterator[None]:
    """One thread while other processes are at work on the other cores."""
    before = _most
    limit(1)
    try:
        yield
    finally:
        limit(before)


@cache
def _controller() -> ThreadpoolController:
    """Of the libraries that are loaded now: scipy's has to be among them, which has threads of its own beside numpy's."""
    import scipy.linalg.blas  # noqa: F401

    return ThreadpoolController()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count() or 1, "calibody")


def spread(function: Callable[[int], R], count: int) -> list[R]:
    """function(0), function(1), ... on all cores, if there are enough of them to be worth it. Inside of another `spread` one after the other."""
    if count < WORTH or _most < 2 or current_thread().name.startswith("calibody"):
        return [function(k) for k in range(count)]
    return list(_pool().map(function, range(count)))


def each(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """The function of all items, on all cores; also inside of `spread`."""
    return [function(x) for x in items] if _most < 2 else list(_inner().map(function, items))


@cache
def _inner() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, min(8, os.cpu_count() or 1)), "calibody")


def one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """The function with the thread pools of linear algebra limited to one thread while it runs."""

    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        with _controller().limit(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return limited
