"""How long the steps of Gauss-Newton are, as an option: experiments are read with it, so nothing heavy is imported here (what it does: `natural.py`)."""

from __future__ import annotations

from dataclasses import dataclass

PENALTY, NATURAL, RESTRICTIVE = "penalty", "natural", "restrictive"
GLOBALISATIONS = (PENALTY, NATURAL, RESTRICTIVE)


@dataclass(frozen=True)
class Globalisation:
    test: str = PENALTY
    """ "penalty": by the merit function of `gauss_newton.py`; "natural" or "restrictive": by the tests of `natural.py`."""
    back_projection: bool = False
    """Whether every step is bent onto the path that it follows, at the cost of the residuals once more and of a solution with the factors at hand. With "penalty" only where that lowers the merit function."""


PENALISED = Globalisation()
