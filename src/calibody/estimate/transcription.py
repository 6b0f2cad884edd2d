"""`method = "transcription"`: the motion at the nodes of a mesh is unknown beside the parameters; the equations of motion tie them together (`recipe.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from calibody.estimate.estimator import AbstractEstimator, refuse_globalisation, refuse_unless, refuse_unless_one_of
from calibody.estimate.noise.unmodelled import EXPECTED, ProcessNoise, for_all, refused
from calibody.recording.recording import is_finite
from calibody.solve.globalisation import Globalisation

if TYPE_CHECKING:
    from calibody.estimate.estimator import Checkpoint, Report, Unknowns
    from calibody.estimate.identifiability import Identifiability
    from calibody.estimate.result import Result
    from calibody.model import Model
    from calibody.recording.recording import Recording

COORDINATES = ("auto", "tree", "free")
PROCESS_NOISE = ("none", "auto")
CONTACTS = ("law", "free", "none")


@dataclass(frozen=True)
class Transcription(AbstractEstimator):
    """The method to begin with: a second-order mesh that is refined by itself, exact or noisy dynamics, error bars that allow for what was not modelled."""

    name: ClassVar[str] = "transcription"

    coordinates: str = "auto"
    """ "tree": joint coordinates, small and fast; "free": the pose of every body, for compliant joints and reactions as unknowns; "auto": tree unless a
    joint is compliant. Both give the same estimates; change it only to compare them or their speed."""
    process_noise: ProcessNoise = "none"
    """Forces that the model lacks [N, N m], as the standard deviation of one drawn anew every sampling period: "none" (the model is exact, only
    measurements are noisy), "auto" (found with the unknowns), one number for all joints, or one per joint, {"joint.NAME": sd}; or {"sd": ..., "correlation_time": ...}, for all joints or one
    per joint, of a force with a memory, each number or "auto". Usual: 1e-3 to 1e-1 of the joint's largest force. Take "auto" where the residuals of "none" are much larger than the noise or have a memory."""
    h: float | None = None
    """Time between nodes [s], usually 0.1 to 4 sampling periods. Left out, the mesh starts as coarse as the motion allows and is halved while the parameters still
    move; give it where that takes too long, or to compare fits on the same mesh."""
    robust: bool = False
    """Whether samples far from the fit weigh less. Change it where `result.outliers` lists more than a few."""

    contacts: str = "law"
    """What contacts and joint limits of the model do: "law" (impacts with restitution and friction, found in the data), "free" (impacts whose impulses follow no law: only
    inertia and geometry are estimated, and no law can bias them), "none" (they are left out)."""

    globalisation: str = "penalty"
    """How long the steps of Gauss-Newton are (not of the search for unmodelled forces): "penalty" (equations and data in one merit function), or "natural" and "restrictive", which judge a step by the one
    that would follow it. Try them where a fit creeps or stops far from the solution."""
    back_projection: bool = False
    """Whether every step is bent onto the path that it follows: fewer iterations from far away, each a fifth dearer."""

    def __post_init__(self) -> None:
        refuse_globalisation(self.globalisation, self.back_projection)
        refuse_unless_one_of(CONTACTS, "contacts", self.contacts)
        refuse_unless_one_of(COORDINATES, "coordinates", self.coordinates)
        refuse_unless(_is_process_noise(self.process_noise), "process_noise", self.process_noise, EXPECTED)
        refuse_unless(self.h is None or (is_finite(self.h) and self.h > 0), "h", self.h, "a positive time step in seconds, or leave it out")
        refuse_unless(isinstance(self.robust, bool), "robust", self.robust, "true or false")

    # What follows imports when it is called: reading an experiment needs only the options above.

    def estimate(
        self,
        model: Model,
        recordings: Sequence[Recording],
        unknowns: Unknowns,
        report: Report | None = None,
        start: Mapping[str, float] | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Result:
        from calibody.estimate.recipe import transcribe

        return transcribe(
            model,
            recordings,
            unknowns,
            process_noise=self.process_noise,
            coordinates=self.coordinates,
            h=self.h,
            robust=self.robust,
            report=report,
            start=start,
            checkpoint=checkpoint,
            contacts=self.contacts,
            globalisation=Globalisation(self.globalisation, self.back_projection),
        )

    def foresee(self, model: Model, recordings: Sequence[Recording], unknowns: Unknowns) -> Identifiability:
        from calibody.estimate.foresee import foresee

        return foresee(model, recordings, unknowns, process_noise=self.process_noise, coordinates=self.coordinates, contacts=self.contacts)

    def refuse(self, model: Model, recordings: Sequence[Recording], unknowns: Unknowns) -> None:
        from calibody.estimate.foresee import refuse

        refuse(model, recordings, unknowns, process_noise=self.process_noise, coordinates=self.coordinates, h=self.h, contacts=self.contacts)


def _is_process_noise(given: object) -> bool:
    if isinstance(given, str):
        return given in PROCESS_NOISE
    return all(refused(one) is None for one in ([given] if for_all(given) else given.values()))  # type: ignore[union-attr,arg-type]
