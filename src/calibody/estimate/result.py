"""What a fit returns: parameters with error bars, the motion, how well it fits, and what the data cannot tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibody.estimate.identifiability import Determined
from calibody.model import Model


@dataclass(frozen=True)
class Estimate:
    """One parameter. `sd` is None where the data do not determine it, or where it sits at a bound."""

    value: float
    sd: float | None
    unit: str
    initial: float
    lower: float
    upper: float
    at_bound: bool
    resolved: bool
    discretisation_error: float | None


@dataclass(frozen=True)
class ChannelFit:
    """How one channel of one run is explained."""

    run: str
    channel: str
    times: np.ndarray
    measured: np.ndarray
    fitted: np.ndarray
    sd: float

    @property
    def residual(self) -> np.ndarray:
        return self.measured - self.fitted

    @property
    def rms(self) -> float:
        return float(np.sqrt(np.mean(self.residual**2)))


@dataclass(frozen=True)
class Result:
    """The outcome of `fit`; `status` is "converged" or a sentence that says why not."""

    status: str
    parameters: dict[str, Estimate]
    determined: tuple[Determined, ...]
    unresolved: tuple[str, ...]
    covariance: np.ndarray
    correlation: np.ndarray
    fit: tuple[ChannelFit, ...]
    chi2: float
    dof: int
    noise_given: bool
    model: Model = field(repr=False)
    """The calibrated model (shared parameters)."""
    h: float
    refinements: int
    iterations: int
    history: list[Any] = field(repr=False)
    seconds: dict[str, float]
    notes: tuple[str, ...]
    motions: list[Any] = field(repr=False)

    @property
    def converged(self) -> bool:
        return self.status == "converged"

    def __str__(self) -> str:
        lines = [f"status: {self.status}", *self.unresolved]
        lines += [f"{d.expression} = {d.value:.6g} +- {d.sd:.2g}" for d in self.determined]
        width = max(map(len, self.parameters), default=9)
        lines.append(f"{'parameter':{width}}  {'value':>13} {'sd':>10}  {'initial':>10}  unit")
        for name, e in self.parameters.items():
            bar = f"{e.sd:.2g}" if e.sd is not None else ("at bound" if e.at_bound else "unresolved")
            lines.append(f"{name:{width}}  {e.value:13.7g} {bar:>10}  {e.initial:10.4g}  {e.unit}")
        for c in self.fit:
            lines.append(f"{c.run}: {c.channel}: rms {c.rms:.3g} ({c.rms / c.sd:.3f} of its noise)")
        return "\n".join([*lines, *(f"note: {n}" for n in self.notes)])
