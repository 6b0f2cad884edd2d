"""What an arm grips, by the arm's own angles and torques: a loop of 13 hinges that nothing looks at."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from formats.catalogue import entries

import calibody as cb

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import gripped_loop as example


@pytest.fixture(scope="module")
def baxter() -> Path:
    found = [e.path for e in entries() if e.path.name == "baxter.urdf"]
    if not found:
        pytest.skip("the robot's file comes with example-robot-data, which is not installed")
    return found[0]


def test_the_branch_of_a_loop_is_that_of_the_first_sample(baxter: Path) -> None:
    """With the arm's joints at their reference the loop cannot be closed as it was; the first motion begins where the arm is seen to be."""
    from calibody.estimate.start import resting
    from calibody.mechanics.structure import Structure

    model = example.gripped(example.arm_of(cb.load(baxter)), **example.TRUTH)
    tree = Structure.build(model, "tree")
    places = [int(tree.scalar_positions[tree.coordinate_index[f"theta{i}"]]) for i in range(1, 8)]
    seen = resting(tree, model, None, dict(zip(example.ARM, example.REST, strict=True)))
    assert np.abs(seen[places]).max() < 1e-6
    assert np.abs(resting(tree, model)[places]).max() > 0.1


@pytest.mark.slow
def test_both_stiffnesses_from_the_arm_alone(baxter: Path) -> None:
    result = example.fitted(baxter, bend=10.0, twist=25.0)
    assert result.converged, result.status
    for name, truth in example.TRUTH.items():
        e = result.parameters[name]
        assert e.sd is not None
        assert abs(e.value - truth) <= 3.5 * e.sd
        assert e.sd < 0.01 * truth
