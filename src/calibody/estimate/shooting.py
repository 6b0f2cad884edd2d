"""`method = "shooting"`: a stepper simulates the motion from the starts of windows, which are unknown beside the parameters (`shots.py`, `engine_fit.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from calibody.estimate.estimator import AbstractEstimator, refuse_globalisation, refuse_unless, refuse_unless_one_of
from calibody.estimate.regularised.option import settings_of
from calibody.estimate.transcription import COORDINATES
from calibody.recording.recording import is_finite
from calibody.solve.globalisation import Globalisation

if TYPE_CHECKING:
    from calibody.estimate.estimator import Report, Unknowns
    from calibody.estimate.identifiability import Identifiability
    from calibody.estimate.result import Result
    from calibody.model import Model
    from calibody.recording.recording import Recording
    from calibody.steppers.spook import Spook

VARIATIONAL, SPOOK, MUJOCO = STEPPERS = ("variational", "spook", "mujoco")
SOLVERS = {VARIATIONAL: "calibody.estimate.windows.shots", SPOOK: "calibody.estimate.regularised.spook_fit", MUJOCO: "calibody.estimate.engine.fit"}
"""What shoots on each: imported when it does, because reading an experiment needs only the options."""
GRADIENTS = ("forward", "adjoint")
AUTO = "auto"


@dataclass(frozen=True)
class Shooting(AbstractEstimator):
    """Single and multiple shooting on a stepper: numbers that are right for that stepper with that step; engines that are black boxes, MuJoCo's among them; many parameters."""

    name: ClassVar[str] = "shooting"

    stepper: str | Spook | Mapping[str, float] = VARIATIONAL
    """ "variational": the scheme of `cb.simulate`; "spook": the regularised stepper, or a `cb.Spook(...)`, or its settings as a mapping, with the compliance and damping times of your engine; "mujoco": MuJoCo's
    own engine with the options, contacts, tendons and muscles of the file. Take the one that will simulate with the numbers."""
    windows: int | str = AUTO
    """In how many windows every recording is cut, each with a start of its own that is unknown; the windows match at the solution. 1 is single shooting, which fails where small
    differences of the start grow much over the recording. "auto": one every 10 steps, 1000 at most. More of them converge from worse initial values."""
    gradient: str = "forward"
    """ "forward": sensitivities along the motion and Gauss-Newton, to begin with; "adjoint": the gradient alone, backwards along the motion at a cost that does not depend on the number of
    parameters, and a quasi-Newton method: for some hundred parameters ("variational" only)."""
    h: float | None = None
    """Step of the stepper [s]: the one that it will simulate with. Left out: the sampling period, of "mujoco" the time step of the file."""
    coordinates: str = "auto"
    """Of "variational": "tree", "free" or "auto", as of transcription."""
    friction_rate: float | None = None
    """Of "variational": the rate [rad/s, m/s] below which dry friction is viscous, as of `cb.Variational`. Left out: a fiftieth of the slowest joint's rms rate, which fits converge with."""

    globalisation: str = "natural"
    """How long the steps of Gauss-Newton are: "natural" and "restrictive" judge a step by the one that would follow it, "penalty" by a merit function of data and matching rows. Change it where a fit creeps
    or stops far from the solution."""
    back_projection: bool = True
    """Whether every step is bent onto the path that it follows: fewer iterations from far away, for one more simulation each."""

    def __post_init__(self) -> None:
        refuse_globalisation(self.globalisation, self.back_projection)
        if isinstance(self.stepper, str) or self.stepper is None:
            refuse_unless_one_of(STEPPERS, "stepper", self.stepper)
        else:
            object.__setattr__(self, "stepper", settings_of(self.stepper))
        count = isinstance(self.windows, int) and not isinstance(self.windows, bool) and self.windows >= 1
        refuse_unless(count or self.windows == AUTO, "windows", self.windows, 'a whole number from 1 on, or "auto"')
        refuse_unless_one_of(GRADIENTS, "gradient", self.gradient)
        refuse_unless_one_of(COORDINATES, "coordinates", self.coordinates)
        for option in ("h", "friction_rate"):
            given = getattr(self, option)
            refuse_unless(given is None or (is_finite(given) and given > 0), option, given, "a positive number, or leave it out")
        kind, own = self.kind, self.kind == VARIATIONAL
        refuse_unless(
            own or self.gradient == "forward",
            "gradient",
            self.gradient,
            f'"forward", or use stepper = "variational" (of stepper = "{kind}" only states are known)',
        )
        refuse_unless(own or self.coordinates == AUTO, "coordinates", self.coordinates, f'"auto": stepper = "{kind}" has its own')
        refuse_unless(own or self.friction_rate is None, "friction_rate", self.friction_rate, f'none: stepper = "{kind}" has its own friction')

    # What follows imports when it is called: reading an experiment needs only the options above.

    def estimate(
        self, model: Model, recordings: Sequence[Recording], unknowns: Unknowns, report: Report | None = None, start: Mapping[str, float] | None = None
    ) -> Result:
        return self._solver().shoot(model, recordings, unknowns, self, report, start)

    def foresee(self, model: Model, recordings: Sequence[Recording], unknowns: Unknowns) -> Identifiability:
        return self._solver().foresee(model, recordings, unknowns, self)

    def refuse(self, model: Model, recordings: Sequence[Recording], unknowns: Unknowns) -> None:
        self._solver().refuse(model, recordings, unknowns, self)

    def _solver(self) -> Any:
        from importlib import import_module

        return import_module(SOLVERS[self.kind])

    @property
    def kind(self) -> str:
        """Which stepper."""
        return self.stepper if isinstance(self.stepper, str) else SPOOK

    @property
    def spook(self) -> Spook:
        """The regularised stepper with its settings."""
        return settings_of({} if isinstance(self.stepper, str) else self.stepper)

    @property
    def steps(self) -> Globalisation:
        return Globalisation(self.globalisation, self.back_projection)

    def count(self, steps: int) -> int:
        """How many windows a recording of so many steps is cut into."""
        return int(self.windows) if self.windows != AUTO else max(1, min(steps // 10, 1000))
