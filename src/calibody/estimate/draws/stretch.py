"""How much wider a posterior has to be than its likelihood says: by what made the error bars of the fit larger than its information.

A likelihood that takes noise as white counts a slow error as many small ones, and one that takes runs as repetitions of one mechanism counts their disagreement as noise. Its posterior is too narrow by what the fit's covariance says (that of the scatter; what error bars allow beside it for what the model lacks is no width of a likelihood, `misled.py`), and is
stretched about its mode, `theta -> theta^ + Omega (theta - theta^)` with

    Omega = chol(C of the fit) chol(C of the likelihood)^-1

so that the stretched posterior has the covariance of the fit and the shape of the likelihood ([chandler2007], [ribatet2012]). Where parameters are not determined or sit at bounds, the fit has no covariance of them: then those, or all, are stretched by one number, the
largest ratio of two error bars.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from calibody.estimate.chi_square import exceeded
from calibody.estimate.uncertainty import NOT_WHITE

if TYPE_CHECKING:
    from calibody.estimate.draws.target import Target
    from calibody.estimate.uncertainty import Uncertainty

SLIGHT = 1.05
"""Ratio of error bars up to which those of the fit are those of the likelihood."""
Kind = Literal["naive", "scaled", "sandwich"]
SAID = {
    "naive": "",
    "scaled": "The residuals are larger than the stated noise, and the draws were stretched to the scatter of the estimates, {0:.2g} times at most; look for a model error.",
    "sandwich": "The residuals are not white noise, or the runs disagree: the draws were stretched about their mode to the scatter of the estimates, {0:.2g} times at most.",
}
"""What is said about each kind."""


def kind_of(found: Uncertainty, given: bool, forces: bool) -> Kind:
    """What the draws have to allow for beside the noise that was stated or found."""
    if found.robust or (found.agreement is not None and not found.agreement.agree) or forces:
        return "sandwich"
    return "scaled" if given and found.dof > 0 and exceeded(found.dof, found.chi2) < NOT_WHITE else "naive"


def stretch(target: Target, found: Uncertainty, kind: Kind, forces: bool) -> tuple[np.ndarray, float]:
    """Omega over all of eta (noise sizes are not stretched), and the largest ratio of error bars; the identity and 1 where nothing has to be stretched."""
    p, n = target.p, len(target.eta)
    omega = np.eye(n)
    if kind == "naive":
        return omega, 1.0
    free, resolved = ~found.at_bound, found.analysis.resolved | found.at_bound
    wanted, have = found.covariance_theta, np.zeros((p, p))
    held = np.flatnonzero(free)
    inverse = np.linalg.pinv(target.information, hermitian=True)[:p, :p]
    have[np.ix_(held, held)] = inverse[np.ix_(held, held)] if forces else np.linalg.pinv(target.information[np.ix_(held, held)], hermitian=True)
    known = free & found.analysis.resolved
    ratio = np.sqrt(np.diag(wanted)[known] / np.maximum(np.diag(have)[known], 1e-300))
    largest = max(float(ratio.max(initial=np.sqrt(max(found.factor, 1.0)))), 1.0)
    if largest <= SLIGHT:
        return omega, 1.0
    omega[:p, :p] *= largest
    try:
        if resolved.all() and len(held):
            omega[np.ix_(held, held)] = np.linalg.cholesky(wanted[np.ix_(held, held)]) @ np.linalg.inv(np.linalg.cholesky(have[np.ix_(held, held)]))
    except np.linalg.LinAlgError:  # a covariance that is one to rounding only
        omega[:p, :p] = largest * np.eye(p)
    return omega, largest
