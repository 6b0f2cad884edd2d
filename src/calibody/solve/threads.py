"""One thread for linear algebra: the matrices here are small or banded, and a pool of threads that wait for each other makes them many times slower.

Measured on two cores: factoring 2000 blocks of 64x64 takes 0.3 s with one thread, and up to 10 s with two while anything else runs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
R = TypeVar("R")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """The function with the thread pools of linear algebra limited to one thread while it runs."""

    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        with _controller().limit(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return limited
