"""A walk of a public C3D file under a model made from its own markers (`examples/human_walking.py`)."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import human_walking as example


@pytest.mark.slow
def test_a_walk_from_one_file(shared: Path) -> None:
    """Both plates go with the motion; what ankles, knees and hips take is what is known of walking, per mass, on both sides. Seen: 1.6 and 1.7 N m/kg at the ankles, plates off by 1.2 of their sd."""
    pytest.importorskip("ezc3d", reason="C3D is read with ezc3d")
    path = shared / "data" / "human_running" / "gait.c3d"
    result = example.moments(path)
    assert result.converged and not result.mistakes
    mass = sum(b.mass for b in result.model.bodies)
    assert mass == pytest.approx(example.walk(path).mass, rel=1e-3) and 55.0 < mass < 70.0
    for name, z in result.deviations().items():
        assert np.abs(z).max() < 3.0, name
    motion = result.motion()
    for side in example.SIDES:
        ankle, knee, hip = (motion[f"joint.{side}_{joint}.force"] / mass for joint in ("ankle", "knee", "hip_flexion"))
        assert 1.2 < -ankle.min() < 2.0 and ankle.max() < 0.4  # it pushes the toes down
        assert np.abs(knee).max() < 1.5 and 0.3 < np.abs(hip).max() < 1.6
        assert np.sqrt(np.mean(motion[f"joint.{side}_ankle.force"] ** 2)) > 2.0 * np.median(result.sd(f"joint.{side}_ankle.force", np.linspace(2.3, 2.9, 5)))
    assert not any(np.any(motion[f"joint.pelvis_{c}.force"]) for c in ("tx", "ty", "tz", "rx", "ry", "rz"))
