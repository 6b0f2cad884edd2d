"""What the data determine and what not, from the information matrix of the parameters (the states being free).

In declared scales S, an eigenvalue mu of `S I_red S` means the standard deviation `mu^-1/2` along its eigenvector. A direction is unresolved
if that exceeds 1 (the data leave it open by more than its own scale) or if mu is below 1e-10 of the largest (rounding). A parameter is
unresolved if the squares of its entries over unresolved eigenvectors sum to more than 0.01, or if a move of one along them would more than double its
error bar; it gets none. What is still determined is named: the ratios, where an unresolved direction scales all its parameters together; otherwise sums in
which the parameters that can be traded for others have been taken up. Such a sum has to be free of every unresolved direction to a fraction of its own error
bar, which can be a millionth of its terms: no entry of a direction is small enough to be left out unseen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

WEAK = 1e-10
SHARE = 0.01
SMALL = 1e-3
"""Terms of a sum below this share of the largest (in units of the parameters' scales) are left out where the error bar allows."""
NEGLIGIBLE = 0.3
"""Standard deviations of a sum that leaving out terms and rounding coefficients may each add (in square)."""
DIGITS = 4
HIDDEN = 3.0
"""Times its own variance: what moves of one (or of their sd, where that is smaller) along the weak directions may do to a parameter that counts as resolved."""
ROUNDING = 1e-9
"""Terms of a sum below this share of its first (in units of the parameters' scales) are rounding."""


@dataclass(frozen=True)
class Determined:
    """A combination that the data determine although its parts are not."""

    expression: str
    value: float
    sd: float
    terms: tuple[tuple[str, float], ...] = ()
    """(number, coefficient) of a sum, as printed, even of one term; empty for a ratio."""
    discretisation_error: float | None = None
    """How much the mesh may still move it, as for parameters; None where it was not refined, and for ratios."""


@dataclass(frozen=True)
class Identifiability:
    resolved: np.ndarray
    covariance: np.ndarray
    """Over the resolved subspace; rows of unresolved parameters are not error bars."""
    sentences: tuple[str, ...]
    determined: tuple[Determined, ...]
    free: np.ndarray
    """Parameters that are not at a bound."""
    weak: np.ndarray
    """(free parameters, directions): the unresolved directions, in units of the declared scales."""


def analyse(information: np.ndarray, names: Sequence[str], theta: np.ndarray, scale: np.ndarray, fixed: np.ndarray, factor: float) -> Identifiability:
    """`fixed` parameters (at a bound) take no part; `factor` multiplies the covariance."""
    p = len(theta)
    free = np.flatnonzero(~fixed)
    resolved, covariance = np.ones(p, dtype=bool), np.zeros((p, p))
    resolved[fixed] = False
    if not len(free):
        return Identifiability(resolved, covariance, (), (), free, np.zeros((0, 0)))
    S = scale[free]
    mu, vectors = np.linalg.eigh(information[np.ix_(free, free)] * S[:, None] * S[None, :])
    weak = (mu < WEAK * max(mu.max(), 0.0)) | (mu * 1.0 < factor)  # sd = sqrt(factor/mu) > 1
    share = (vectors[:, weak] ** 2).sum(1)
    strong = ~weak
    lost = (vectors[:, weak] ** 2 / np.maximum(mu[weak], factor)).sum(1)
    kept = (vectors[:, strong] ** 2 / mu[strong]).sum(1)
    resolved[free] = (share <= SHARE) & (lost <= HIDDEN * kept)
    inverse = (vectors[:, strong] / mu[strong]) @ vectors[:, strong].T
    covariance[np.ix_(free, free)] = factor * inverse * S[:, None] * S[None, :]
    out = Identifiability(resolved, covariance, (), (), free, vectors[:, weak])
    return renamed(out, names, theta, scale, covariance)


def renamed(found: Identifiability, names: Sequence[str], theta: np.ndarray, scale: np.ndarray, covariance: np.ndarray) -> Identifiability:
    """The sentences, and the determined combinations with error bars from `covariance`."""
    free = found.free
    sentences, determined = _named(found.weak, found.resolved[free], [names[int(i)] for i in free], theta[free], scale[free], covariance[np.ix_(free, free)])
    return replace(found, covariance=covariance, sentences=sentences, determined=determined)


def _named(
    weak: np.ndarray, resolved: np.ndarray, names: list[str], theta: np.ndarray, scale: np.ndarray, covariance: np.ndarray
) -> tuple[tuple[str, ...], tuple[Determined, ...]]:
    if not weak.shape[1]:
        return (), ()
    alone = (weak**2).sum(1) > 1.0 - SHARE
    involved = np.flatnonzero(((weak**2).sum(1) > SHARE) & ~alone)
    if len(involved) and weak.shape[1] - int(alone.sum()) == 1:
        v, direction = np.linalg.svd(weak[involved])[0][:, 0], theta[involved] / scale[involved]
        if np.linalg.norm(direction) > 0.0 and abs(direction @ v) > 0.999 * np.linalg.norm(direction):
            ratio, determined = _ratios(involved, names, theta, covariance)
            return (*_hidden(names[i] for i in np.flatnonzero(alone)), *ratio), determined
    determined = _combinations(weak, np.flatnonzero(~resolved), names, theta, covariance, scale)
    summed = {name for d in determined for name, _ in d.terms}
    sentences = _hidden(name for name, known in zip(names, resolved, strict=True) if not known and name not in summed)
    if determined:
        verb = "combination is" if len(determined) == 1 else "combinations are"
        among = ", ".join(name for name in names if name in summed)
        sentences.append(f"Of {among} only {len(determined)} independent {verb} determined, not the single numbers.")
    return tuple(sentences), determined


def _hidden(names: Iterable[str]) -> list[str]:
    return [f"{name} is not determined by the data." for name in names]


def _combinations(
    weak: np.ndarray, unresolved: np.ndarray, names: list[str], theta: np.ndarray, covariance: np.ndarray, scale: np.ndarray
) -> tuple[Determined, ...]:
    """What stays when the parameters move along the weak directions: with as many of the unresolved called dependent as there are directions (pivoted
    QR), the others each take up the dependent ones, `theta_i - N_i N_D^-1 theta_D` (the base parameters, where the equations are linear).

    To be readable, small terms are left out and coefficients rounded; value and sd are those of what is printed. What a change of a dependent parameter
    by its scale would then do to the sum counts as uncertainty, and must not exceed the sd.
    """
    import scipy.linalg

    count = weak.shape[1]
    if len(unresolved) <= count:
        return ()
    null = weak[unresolved] * scale[unresolved, None]
    U = np.linalg.svd(null / np.abs(null).max(axis=0), full_matrices=False)[0]
    _, _, pivot = scipy.linalg.qr(U.T, pivoting=True)  # pyright: ignore[reportAssignmentType]
    dependent, independent = np.sort(pivot[:count]), np.sort(pivot[count:])
    share = -U[independent] @ np.linalg.inv(U[dependent])
    at = unresolved[dependent]
    out = []
    for row, i in zip(share, unresolved[independent], strict=True):
        gradient = np.zeros(len(theta))
        gradient[i] = 1.0
        gradient[at] = row = np.where(np.abs(row) * scale[at] > ROUNDING * scale[i], row, 0.0)
        exact = float(np.sqrt(max(gradient @ covariance @ gradient, 0.0)))
        gradient[at] = printed = _readable(row, scale[at], float(scale[i]), exact)
        unknown = float(np.sum(((printed - row) * scale[at]) ** 2))
        sd = float(np.sqrt(max(gradient @ covariance @ gradient, 0.0) + unknown))
        kept = [(names[k], float(c)) for k, c in zip(at, printed, strict=True) if c]
        expression = names[i]
        for name, coefficient in kept:
            size = "" if abs(coefficient) == 1.0 else f"{abs(coefficient):.10g} * "
            expression += f" {'+' if coefficient > 0 else '-'} {size}{name}"
        out.append(Determined(expression, float(gradient @ theta), sd, ((names[i], 1.0), *kept)))
    return tuple(out)


def _readable(coefficients: np.ndarray, scale: np.ndarray, leading: float, sd: float) -> np.ndarray:
    """The coefficients with as few digits, and as few of them, as the error bar allows; at least `DIGITS`, and none below `SMALL`."""
    size = np.abs(coefficients * scale)
    order = np.argsort(size)
    negligible = np.zeros(len(size), dtype=bool)
    negligible[order] = np.sqrt(np.cumsum(size[order] ** 2)) <= NEGLIGIBLE * sd
    small = size < SMALL * max(leading, float(size.max()))
    if np.sqrt(np.sum(size[negligible | small] ** 2)) <= sd:
        negligible = negligible | small
    out = np.where(negligible, 0.0, coefficients)
    rounded = out
    for digits in range(DIGITS, 11):
        rounded = np.array([float(f"{c:.{digits}g}") for c in out])
        if np.sqrt(np.sum(((rounded - out) * scale) ** 2)) <= NEGLIGIBLE * sd:
            break
    return rounded


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
