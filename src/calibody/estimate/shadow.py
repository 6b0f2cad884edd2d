"""`method = "shadow"`: parameters and states in the discretisation of a regularised fixed-step engine (`shadow_fit.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from calibody.estimate.estimator import AbstractEstimator, refuse_unless, refuse_unless_one_of
from calibody.estimate.regularised.option import settings_of
from calibody.recording.recording import is_finite

if TYPE_CHECKING:
    from calibody.estimate.estimator import Report, Unknowns
    from calibody.estimate.identifiability import Identifiability
    from calibody.estimate.result import Result
    from calibody.model import Model
    from calibody.recording.recording import Recording
    from calibody.steppers.spook import Spook

KAPPA = 100.0
"""Its published weight of the dynamics against observations of unit weight (sections 4.6 and 4.7)."""
STEP = 0.01
"""The published step [s]."""
FORMULATIONS = ("auto", "eliminated", "lifted")


@dataclass(frozen=True)
class Shadow(AbstractEstimator):
    """Numbers that are right for a fixed-step engine, with its step, compliance and damping times, not for the mechanism as such."""

    name: ClassVar[str] = "shadow"

    kappa: float = KAPPA
    """Weight of the engine's equations against observations of unit weight (no unit), usually 1 to 1e4. Too small, the states follow the noise; too large, the
    engine's own error goes into the observations. Sweep it, and judge by `cross_validate`."""
    h: float = STEP
    """Step of the engine [s], usually 1e-3 to 2e-2: the one it will simulate with."""
    formulation: str = "auto"
    """ "eliminated": the joints' impulses are computed from the states, which divides by the compliance; "lifted": they are unknowns, which takes longer per
    iteration and stiff joints do not disturb; "auto": lifted where the joints are too stiff for the other. The minimum is the same."""
    stepper: Spook | None = None
    """The engine: a `cb.Spook(...)`, or its settings as a mapping; left out, those of `cb.Spook()`. Give the compliance and damping times of yours."""

    def __post_init__(self) -> None:
        refuse_unless(is_finite(self.kappa) and self.kappa > 0, "kappa", self.kappa, f"a weight above zero, such as {KAPPA:g}, or leave it out")
        refuse_unless(is_finite(self.h) and self.h > 0, "h", self.h, "a positive time step in seconds, or leave it out")
        refuse_unless_one_of(FORMULATIONS, "formulation", self.formulation)
        if self.stepper is not None:
            object.__setattr__(self, "stepper", settings_of(self.stepper))

    # What follows imports when it is called: reading an experiment needs only the options above.

    def estimate(
        self, model: Model, recordings: Sequence[Recording], unknowns: Unknowns, report: Report | None = None, start: Mapping[str, float] | None = None
    ) -> Result:
        from calibody.estimate.regularised.shadow_fit import shadow

        return shadow(model, recordings, unknowns, kappa=self.kappa, h=self.h, formulation=self.formulation, stepper=self.stepper, report=report, start=start)

    def foresee(self, model: Model, recordings: Sequence[Recording], unknowns: Unknowns) -> Identifiability:
        from calibody.estimate.foresee import foresee

        return foresee(model, recordings, unknowns)

    def refuse(self, model: Model, recordings: Sequence[Recording], unknowns: Unknowns) -> None:
        from calibody.estimate.regularised.shadow_fit import refuse

        refuse(model, recordings, unknowns, kappa=self.kappa, h=self.h, formulation=self.formulation, stepper=self.stepper)
