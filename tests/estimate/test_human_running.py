"""A running human of the shared data, against OpenSim's own results (`examples/human_running.py`)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "human_running.py"
DEGREES = {"hip_flexion_r": 2.5, "hip_flexion_l": 2.5, "knee_angle_r": 2.5, "knee_angle_l": 2.5, "ankle_angle_r": 3.6, "ankle_angle_l": 3.6}
"""OpenSim's angles are not where the squares of its own setup and this model are least (examples/human_running.py says the differences), so that they are reached roughly only."""


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("human_running", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(shared: Path) -> Path:
    return shared / "data" / "human_running"


@pytest.mark.slow
def test_the_moments_behind_opensims_filter(example: ModuleType, folder: Path) -> None:
    """The same angles, filter, model and plates give the same moments."""
    trial = example.trial(folder)
    for name, (correlation, off) in example.against(trial, trial.moments["time"], example.filtered(trial)).items():
        assert correlation >= 0.97 and off <= 0.1, name


@pytest.mark.slow
def test_a_whole_running_human(example: ModuleType, folder: Path) -> None:
    trial = example.trial(folder)
    alone, whole = example.kinematics(trial), example.moments(trial, root=False)
    assert alone.converged and whole.converged
    assert example.distance(whole) <= 1.3 * example.distance(alone)
    motion, off = whole.motion(), {name: float(np.abs(z).max()) for name, z in whole.deviations().items()}
    assert sum(most <= 3.0 for most in off.values()) >= 11 and max(off.values()) < 4.0  # 3.55 was seen once, of the left foot's vertical force
    for axis in example.ROOT:
        assert not np.any(motion[f"joint.pelvis_{axis}.force"])
    for name, off in example.angles_against(trial, motion, motion.time).items():
        assert off < DEGREES[name], name
