"""Tails of distributions without scipy's. Of chi-square, for whole degrees of freedom: a finite sum (Abramowitz and Stegun 26.4.4, 26.4.5).

    Q = exp(-x/2) sum (x/2)^s/gamma(s + 1)      s = 0, 1, ... dof/2 - 1 (even),   s = 1/2, 3/2, ... dof/2 - 1 and erfc(sqrt(x/2)) beside it (odd)

scipy has it too, behind an import that takes longer than the error bars of a small fit.
"""

from __future__ import annotations

from math import erfc, exp, lgamma, log, sqrt


def exceeded(dof: int, x: float) -> float:
    """The probability that a chi-square variable of `dof` degrees of freedom exceeds x."""
    if not x > 0.0:
        return 1.0
    half, odd = 0.5 * x, dof % 2
    total = erfc(sqrt(half)) if odd else 0.0
    for k in range(dof // 2):
        s = k + 0.5 * odd
        total += exp(s * log(half) - half - lgamma(s + 1.0))
    return min(total, 1.0)


def joint_factor(count: int, freedom: float, level: float) -> float:
    """Standard deviations of an interval for each of so many numbers that hold all of them at once with the probability `level` ([kraus2006], 3.15 to 3.18): `sqrt(l1 F(l1, l2; level))`, l1 the
    numbers and l2 the degrees of freedom that their covariance was found with (infinite where the noise was stated: then it is that of chi2)."""
    from scipy.special import chdtri, fdtri

    quantile = chdtri(count, 1.0 - level) / count if freedom == float("inf") else fdtri(count, freedom, level)
    return sqrt(count * float(quantile))


def student(t: float, dof: float) -> float:
    """The probability that Student's variable exceeds t on either side; scipy is asked, for few t are worth it."""
    from scipy.special import stdtr

    return 2.0 * float(stdtr(dof, -abs(t)))


def fisher(f: float, dof: int, freedom: float) -> float:
    """The probability that Fisher's variable of so many degrees of freedom above and below exceeds f."""
    from scipy.special import fdtrc

    return float(fdtrc(dof, freedom, f))
