"""`fit`: parameters, motion and forces from recordings, by transcription (`meshes.py`) or as the shadow of an engine (`shadow.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from calibody.errors import CalibodyError
from calibody.estimate import noise
from calibody.estimate.meshes import transcribe
from calibody.estimate.result import Result
from calibody.estimate.unknowns import Unknown
from calibody.model import Model
from calibody.recording.recording import Recording
from calibody.solve.gauss_newton import Iteration

if TYPE_CHECKING:
    from calibody.steppers.spook import Spook


def fit(
    model: Model,
    runs: Recording | Sequence[Recording],
    estimate: Mapping[str, Unknown | float | None],
    process_noise: noise.ProcessNoise = "none",
    coordinates: str = "auto",
    h: float | None = None,
    robust: bool = False,
    report: Callable[[Iteration], None] | None = None,
    start: Mapping[str, float] | None = None,
    method: str = "transcription",
    kappa: float | None = None,
    formulation: str | None = None,
    stepper: Spook | None = None,
) -> Result:
    """Estimate the unknowns of a model from recordings.

    `estimate` maps paths to `Unknown`s (or initial values, or None for the model's value). `process_noise` is "none" (the model is exact, only
    measurements are noisy), "auto" (forces that the model lacks are estimated with their size), or the standard deviation of such forces, for
    all joints or per joint, if they are drawn anew every sampling period [N, N m]. `h` fixes the mesh; otherwise it starts as coarse as the
    motion allows and is refined. `robust` weighs outliers down. `report` is called with every iteration; `start` has values, as a result reports them, to begin from instead
    of the initial ones (those of a fit that was stopped). Never raises for a fit that does not converge: `result.status` says why.

    `method = "shadow"` estimates in the discretisation of a regularised fixed-step engine instead (seed 000): `stepper` says which (its compliance and
    damping times), `h` its step, `kappa` how much the engine's equations weigh, `formulation` whether the joints' impulses are "eliminated" or "lifted".
    """
    recordings = _recordings(runs)
    if method == "shadow":
        given = {"process_noise": process_noise != "none", "coordinates": coordinates not in ("auto", "free"), "robust": robust}
        if (wrong := next((name for name, is_given in given.items() if is_given), None)) is not None:
            raise CalibodyError(f'method = "shadow" has no {wrong}; leave it out, or use method = "transcription".')
        from calibody.estimate.shadow import shadow

        asked = {"kappa": kappa, "h": h, "formulation": formulation, "stepper": stepper}
        return shadow(model, recordings, estimate, report=report, start=start, **{k: v for k, v in asked.items() if v is not None})
    if method != "transcription":
        raise CalibodyError(f'method = "{method}"; give "transcription" or "shadow".')
    if (wrong := next((n for n, v in (("kappa", kappa), ("formulation", formulation), ("stepper", stepper)) if v is not None), None)) is not None:
        raise CalibodyError(f'{wrong} belongs to method = "shadow"; leave it out, or ask for that method.')
    return transcribe(model, recordings, estimate, process_noise, coordinates, h, robust, report, start)


def _recordings(runs: Recording | Sequence[Recording]) -> list[Recording]:
    recordings = [runs] if isinstance(runs, Recording) else list(runs)
    if not recordings:
        raise CalibodyError("No recording was given; give at least one.")
    for r in recordings:
        if not isinstance(r, Recording):
            raise CalibodyError(f"A run is given as {type(r).__name__}; give recordings, for instance from cb.read(FILE, ...).")
    names = [r.name for r in recordings]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        raise CalibodyError(f'Two recordings are called "{twice}"; give each its own name.')
    return recordings
