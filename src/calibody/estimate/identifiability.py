"""What the data determine and what not, from the information matrix of the parameters (the states being free).

In declared scales S, an eigenvalue mu of `S I_red S` means the standard deviation `mu^-1/2` along its eigenvector. A direction is unresolved
if that exceeds 1 (the data leave it open by more than its own scale) or if mu is below 1e-10 of the largest (rounding). A parameter is
unresolved if the squares of its entries over unresolved eigenvectors sum to more than 0.01; it gets no error bar. What is still determined
is named: the ratios, where an unresolved direction scales all its parameters together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WEAK = 1e-10
SHARE = 0.01


@dataclass(frozen=True)
class Determined:
    """A combination that the data determine although its parts are not."""

    expression: str
    value: float
    sd: float


@dataclass(frozen=True)
class Identifiability:
    resolved: np.ndarray
    covariance: np.ndarray
    """Over the resolved subspace; rows of unresolved parameters are not error bars."""
    sentences: tuple[str, ...]
    determined: tuple[Determined, ...]


def analyse(information: np.ndarray, names: Sequence[str], theta: np.ndarray, scale: np.ndarray, fixed: np.ndarray, factor: float) -> Identifiability:
    """`fixed` parameters (at a bound) take no part; `factor` multiplies the covariance."""
    p = len(theta)
    free = np.flatnonzero(~fixed)
    resolved, covariance = np.ones(p, dtype=bool), np.zeros((p, p))
    resolved[fixed] = False
    if not len(free):
        return Identifiability(resolved, covariance, (), ())
    S = scale[free]
    mu, vectors = np.linalg.eigh(information[np.ix_(free, free)] * S[:, None] * S[None, :])
    weak = (mu < WEAK * max(mu.max(), 0.0)) | (mu * 1.0 < factor)  # sd = sqrt(factor/mu) > 1
    share = (vectors[:, weak] ** 2).sum(1)
    resolved[free] = share <= SHARE
    strong = ~weak
    inverse = (vectors[:, strong] / mu[strong]) @ vectors[:, strong].T
    covariance[np.ix_(free, free)] = factor * inverse * S[:, None] * S[None, :]
    sentences, determined = _named(vectors[:, weak], [names[int(i)] for i in free], theta[free], S, covariance[np.ix_(free, free)])
    return Identifiability(resolved, covariance, sentences, determined)


def _named(weak: np.ndarray, names: list[str], theta: np.ndarray, scale: np.ndarray, covariance: np.ndarray) -> tuple[tuple[str, ...], tuple[Determined, ...]]:
    if not weak.shape[1]:
        return (), ()
    if weak.shape[1] == 1:
        v = weak[:, 0]
        involved = np.flatnonzero(v**2 > SHARE)
        if len(involved) == 1:
            return (f"{names[involved[0]]} is not determined by the data.",), ()
        direction = theta[involved] / scale[involved]
        size = np.linalg.norm(direction)
        if size > 0.0 and abs(direction @ v[involved]) > 0.999 * size * np.linalg.norm(v[involved]):
            return _ratios(involved, names, theta, covariance)
    sentences = []
    alone = [n for n, row in zip(names, weak, strict=True) if (row**2).sum() > 1.0 - SHARE]
    sentences += [f"{n} is not determined by the data." for n in alone]
    rest = [n for n, row in zip(names, weak, strict=True) if SHARE < (row**2).sum() <= 1.0 - SHARE]
    if rest:
        count = weak.shape[1] - len(alone)
        sentences.append(
            f"Of {', '.join(rest)} only {len(rest) - count} independent combination{'s are' if len(rest) - count != 1 else ' is'} determined, not the single numbers."
        )
    return tuple(sentences), ()


def _ratios(involved: np.ndarray, names: list[str], theta: np.ndarray, covariance: np.ndarray) -> tuple[tuple[str, ...], tuple[Determined, ...]]:
    """The direction that scales all parameters together: their ratios are what is left."""
    reference = involved[int(np.argmax(np.abs(theta[involved])))]
    order = [reference, *(i for i in involved if i != reference)]
    determined = []
    for i in order[1:]:
        ratio = theta[i] / theta[reference]
        gradient = np.zeros(len(theta))
        gradient[i], gradient[reference] = 1.0 / theta[reference], -ratio / theta[reference]
        determined.append(Determined(f"{names[i]} / {names[reference]}", float(ratio), float(np.sqrt(max(gradient @ covariance @ gradient, 0.0)))))
    word = "ratio" if len(order) == 2 else "ratios"
    verb = "is" if len(order) == 2 else "are"
    return (f"Only the {word} {' : '.join(names[i] for i in order)} {verb} determined.",), tuple(determined)
