"""Other values of the unknowns that mean the same mechanism: found without a fit, because the motion is the same.

Two elements that are equal in everything but the unknowns can be swapped; a number that only enters squared can change its sign; the zero of an encoder can be off by a whole turn. Whether one of these is a symmetry is seen by trying: the same motion with the
other values leaves the same residuals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from calibody.errors import CalibodyError
from calibody.estimate.draws.solved import Solved
from calibody.estimate.unknowns import Entry

SAME = 1e-6
"""Relative change of the residuals, and of the equations in units of their terms, up to which two mechanisms are one."""


def symmetric(solved: Solved) -> list[tuple[str, Solved]]:
    """Other solutions with the same motion, each with what makes it."""
    problem, theta = solved.problem, solved.theta
    F, C = problem.values(list(solved.x), theta)
    size = max(problem.linearise(list(solved.x), theta).size(theta), 1e-12)
    out: list[tuple[str, Solved]] = []
    for words, other in _candidates(problem.entries, theta):
        if np.any(other < problem.lower) or np.any(other > problem.upper) or np.allclose(other, theta, rtol=1e-9, atol=0.0):
            continue
        try:
            G, D = problem.values(list(solved.x), other)
        except CalibodyError:
            continue
        if len(G) == len(F) and np.linalg.norm(G - F) <= SAME * max(np.linalg.norm(F), 1.0) and np.abs(D - C).max(initial=0.0) <= SAME * size:
            out.append((words, Solved(problem, solved.x, other)))
    return out


def _candidates(entries: Sequence[Entry], theta: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    yield from _swapped(entries, theta)
    for k, e in enumerate(entries):
        if e.group is None and theta[k]:
            yield f"the sign of {e.name}", _with(theta, k, -theta[k])
        if e.name.endswith("angle.bias"):
            for turn in (2.0 * np.pi, -2.0 * np.pi):
                yield f"a turn of {e.name}", _with(theta, k, theta[k] + turn)


def _with(theta: np.ndarray, k: int, value: float) -> np.ndarray:
    out = theta.copy()
    out[k] = value
    return out


def _swapped(entries: Sequence[Entry], theta: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Elements of one kind that have the same numbers unknown: `body.w1.position.x` and `body.w2.position.x`."""
    owned: dict[str, dict[str, int]] = defaultdict(dict)
    for k, e in enumerate(entries):
        parts = e.name.split(".")
        if len(parts) > 2:
            owned[".".join(parts[:2])][".".join(parts[2:])] = k
    for a, b in combinations(owned, 2):
        if a.split(".")[0] == b.split(".")[0] and owned[a].keys() == owned[b].keys():
            other = theta.copy()
            for word in owned[a]:
                i, j = owned[a][word], owned[b][word]
                other[i], other[j] = theta[j], theta[i]
            yield f"{a} and {b} swapped", other
