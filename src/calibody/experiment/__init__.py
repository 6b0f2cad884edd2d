"""Experiment files: which model, which recordings, what is unknown, and how it is estimated. TOML, and the same as Python values."""

from __future__ import annotations

from calibody.experiment.reading import load as load
from calibody.experiment.spec import Experiment as Experiment, RunSpec as RunSpec
from calibody.experiment.writing import save as save

__all__ = ["Experiment", "RunSpec", "load", "save"]
