"""calibody: recordings of a moving mechanism in, a calibrated model of it out, with error bars one can trust.

Importing the package is light: what needs numpy, jax or mujoco is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from calibody import upward
from calibody.errors import CalibodyError as CalibodyError, FormatError as FormatError, ModelError as ModelError, SimulationError as SimulationError

if TYPE_CHECKING:
    from calibody.console import Progress as Progress
    from calibody.estimate.crossvalidate import CrossValidation as CrossValidation, cross_validate as cross_validate
    from calibody.estimate.designs.design import Design as Design, design as design
    from calibody.estimate.designs.forecast import Forecast as Forecast, forecast as forecast
    from calibody.estimate.draws.comparison import ModelComparison as ModelComparison, compare_models as compare_models
    from calibody.estimate.draws.drawn import Posterior as Posterior
    from calibody.estimate.draws.population import Population as Population, population as population
    from calibody.estimate.draws.posterior import posterior as posterior
    from calibody.estimate.fit import fit as fit
    from calibody.estimate.people.anthropometry import Anthropometry as Anthropometry, anthropometry as anthropometry
    from calibody.estimate.poses import Poses as Poses
    from calibody.estimate.predict import Prediction as Prediction
    from calibody.estimate.result import Result as Result
    from calibody.estimate.shadow import Shadow as Shadow
    from calibody.estimate.shooting import Shooting as Shooting
    from calibody.estimate.sweep import sweep as sweep
    from calibody.estimate.transcription import Transcription as Transcription
    from calibody.estimate.unknowns import Unknown as Unknown
    from calibody.estimate.validation import Validation as Validation
    from calibody.experiment.saved import Saved as Saved, open as open
    from calibody.formats import load as load
    from calibody.mechanics.dynamics import forward_dynamics as forward_dynamics, inverse_dynamics as inverse_dynamics
    from calibody.model import (
        Actuator as Actuator,
        Body as Body,
        Bushing as Bushing,
        Contact as Contact,
        Geometry as Geometry,
        Joint as Joint,
        Limit as Limit,
        Loop as Loop,
        Model as Model,
        Muscle as Muscle,
        Parameter as Parameter,
        Path as Path,
        Pulley as Pulley,
        Sensor as Sensor,
        Site as Site,
        Spring as Spring,
        Transmission as Transmission,
        World as World,
        Wrap as Wrap,
        along as along,
    )
    from calibody.recording.impact import Impact as Impact
    from calibody.recording.plate import Plate as Plate
    from calibody.recording.readers import read as read
    from calibody.recording.recording import Drive as Drive, Observation as Observation, Recording as Recording
    from calibody.recording.signal import Signal as Signal
    from calibody.recording.unknown import UnknownDrive as UnknownDrive
    from calibody.steppers.events import Event as Event
    from calibody.steppers.motion import Motion as Motion
    from calibody.steppers.rollout import simulate as simulate
    from calibody.steppers.sensitivity import StepDerivatives as StepDerivatives, step_derivatives as step_derivatives
    from calibody.steppers.spook import Spook as Spook
    from calibody.steppers.time_stepping import TimeStepping as TimeStepping
    from calibody.steppers.variational import Variational as Variational

__version__ = "0.2.0"

_ELEMENTS = (
    "Actuator",
    "Body",
    "Bushing",
    "Contact",
    "Geometry",
    "Joint",
    "Limit",
    "Loop",
    "Model",
    "Muscle",
    "Parameter",
    "Path",
    "Pulley",
    "Sensor",
    "Site",
    "Spring",
    "Transmission",
    "World",
    "Wrap",
    "along",
)
_LATER = {
    **dict.fromkeys(_ELEMENTS, "calibody.model"),
    "load": "calibody.formats",
    "simulate": "calibody.steppers.rollout",
    "Motion": "calibody.steppers.motion",
    "Variational": "calibody.steppers.variational",
    "Spook": "calibody.steppers.spook",
    "TimeStepping": "calibody.steppers.time_stepping",
    "Event": "calibody.steppers.events",
    "step_derivatives": "calibody.steppers.sensitivity",
    "StepDerivatives": "calibody.steppers.sensitivity",
    "Signal": "calibody.recording.signal",
    "Recording": "calibody.recording.recording",
    "Observation": "calibody.recording.recording",
    "Drive": "calibody.recording.recording",
    "UnknownDrive": "calibody.recording.unknown",
    "Impact": "calibody.recording.impact",
    "Plate": "calibody.recording.plate",
    "read": "calibody.recording.readers",
    "fit": "calibody.estimate.fit",
    "anthropometry": "calibody.estimate.people.anthropometry",
    "Anthropometry": "calibody.estimate.people.anthropometry",
    "compare_models": "calibody.estimate.draws.comparison",
    "ModelComparison": "calibody.estimate.draws.comparison",
    "design": "calibody.estimate.designs.design",
    "Design": "calibody.estimate.designs.design",
    "forecast": "calibody.estimate.designs.forecast",
    "Forecast": "calibody.estimate.designs.forecast",
    "population": "calibody.estimate.draws.population",
    "Population": "calibody.estimate.draws.population",
    "posterior": "calibody.estimate.draws.posterior",
    "Posterior": "calibody.estimate.draws.drawn",
    "Transcription": "calibody.estimate.transcription",
    "Poses": "calibody.estimate.poses",
    "Shadow": "calibody.estimate.shadow",
    "Shooting": "calibody.estimate.shooting",
    "cross_validate": "calibody.estimate.crossvalidate",
    "CrossValidation": "calibody.estimate.crossvalidate",
    "Prediction": "calibody.estimate.predict",
    "Validation": "calibody.estimate.validation",
    "sweep": "calibody.estimate.sweep",
    "Unknown": "calibody.estimate.unknowns",
    "Result": "calibody.estimate.result",
    "Progress": "calibody.console",
    "open": "calibody.experiment.saved",
    "Saved": "calibody.experiment.saved",
    "forward_dynamics": "calibody.mechanics.dynamics",
    "inverse_dynamics": "calibody.mechanics.dynamics",
}

upward.register("Model.save", lambda model, path: _later("calibody.formats", "save")(model, path))
upward.register("Result.validate", lambda result: _later("calibody.estimate.validate", "validate")(result))
upward.register("Result.allowing", lambda result, accuracy: _later("calibody.estimate.missing.rests", "allowing")(result, accuracy))
upward.register("Result.profile", lambda result, *how: _later("calibody.estimate.draws.profile", "profile")(result, *how))
upward.register("Result.weigh", lambda result, unknowns: _later("calibody.estimate.people.weighing", "weigh")(result, unknowns))
upward.register("Result.report", lambda result, folder: _later("calibody.report", "report")(result, folder))
upward.register("Result.plot", lambda found: _later("calibody.report.plots", "Plots")(found))
upward.register("Motion.plot", lambda motion, names: _later("calibody.report.plots", "channels_over_time")(motion, names))
upward.register("Model.view", lambda model, initial: _later("calibody.report.view", "view")(model, initial))
upward.register("Saved.report", lambda saved: _later("calibody.report", "write")(saved.folder))

__all__ = ["CalibodyError", "FormatError", "ModelError", "SimulationError", *_LATER]  # pyright: ignore[reportUnsupportedDunderAll]


def _later(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return _later(_LATER[name], name)
    raise AttributeError(f"module 'calibody' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LATER])
