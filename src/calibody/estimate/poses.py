"""`method = "poses"`: geometry from poses at rest, without dynamics (`poses_fit.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from calibody.estimate.estimator import AbstractEstimator, refuse_unless

if TYPE_CHECKING:
    from calibody.estimate.estimator import Report, Unknowns
    from calibody.estimate.identifiability import Identifiability
    from calibody.estimate.result import Result
    from calibody.model import Model
    from calibody.recording.recording import Recording


@dataclass(frozen=True)
class Poses(AbstractEstimator):
    """Kinematic calibration: link lengths, joint axes and zero offsets, base and tool frames, places of markers, from poses in which the mechanism stood still. Recordings without a clock are fitted so by themselves."""

    name: ClassVar[str] = "poses"

    robust: bool = False
    """Whether samples far from the fit weigh less. Change it where `result.outliers` lists more than a few."""

    def __post_init__(self) -> None:
        refuse_unless(isinstance(self.robust, bool), "robust", self.robust, "true or false")

    # What follows imports when it is called: reading an experiment needs only the options above.

    def estimate(
        self, model: Model, recordings: Sequence[Recording], unknowns: Unknowns, report: Report | None = None, start: Mapping[str, float] | None = None
    ) -> Result:
        from calibody.estimate.poses_fit import calibrate

        return calibrate(model, recordings, unknowns, robust=self.robust, report=report, start=start)

    def foresee(self, model: Model, recordings: Sequence[Recording], unknowns: Unknowns) -> Identifiability:
        from calibody.estimate.poses_fit import foresee

        return foresee(model, recordings, unknowns)

    def refuse(self, model: Model, recordings: Sequence[Recording], unknowns: Unknowns) -> None:
        from calibody.estimate.poses_fit import begun

        begun(model, recordings, unknowns)
