"""The sitting human of [kraus2006], chapter 14 (`examples/sitting_human.py`): the twin, its rest on the seat, and where the ten numbers stand."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pytest

import calibody as cb

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import sitting_human as example

CAR = ("car", "seat_chassis", "seat", "seatback_chassis", "seatback", "neck_protection")


def test_the_twin_rests_on_its_seat() -> None:
    """28 bodies and 82 coordinates as printed; what the pads push at rest carries the person."""
    model = example.twin()
    assert (len(model.bodies), len(model.joints)) == (28, 82)
    assert sum(b.mass for b in model.bodies if b.name not in CAR) == pytest.approx(example.MASS)
    start = example.resting(model)
    assert max(abs(x) for channel, x in start.items() if channel.endswith("rate")) < 0.01
    motion = cb.simulate(model, 0.02, 0.002, initial=start, drive={"joint.car.position": lambda t: 0.0 * t})
    carried = sum(b.mass for b in model.bodies) * 9.81
    assert motion["joint.car.force"][3:-3] == pytest.approx(carried, rel=0.01)  # what holds the car holds all that rests in it
    moved = np.abs(motion["site.breast.position"][-1] - motion["site.breast.position"][0])
    assert moved.max() < 1e-4


def test_the_ten_numbers_stand_where_they_belong() -> None:
    model = example.twin()
    assert model["bushing.pelvis_lumbus.stiffness.zry"] == pytest.approx(0.33 * -380.0)
    assert model["bushing.pelvis_lumbus.stiffness.ryz"] == pytest.approx(0.33 * -380.0)
    assert model["bushing.lumbus_thorax.k_minus.z"] == pytest.approx(1083000.0)
    assert model["bushing.thorax_soft.k3.y"] == 1e7 and model["joint.left_elbow.damping"] == 4.0
    assert set(example.unknowns()) == set(example.NUMBERS) and len(example.NUMBERS) == 10


@pytest.mark.slow
def test_two_experiments_tell_the_ten_numbers() -> None:
    """From the first values of the thesis, which are off by a third to a factor of 2.5. Seen: 7 iterations, 1.9 standard deviations at most, 79 s of processor time."""
    result = example.fitted(experiments=2, h=1.0 / 720.0)
    assert result.converged and result.iterations <= 12
    for name, (true, _) in example.NUMBERS.items():
        found = result.parameters[name]
        assert found.sd is not None and abs(found.value - true) <= 3.5 * found.sd, name


MINUTES = 5.0


@pytest.mark.slow
def test_eight_experiments_tell_the_ten_numbers_in_minutes() -> None:
    """The whole example [kraus2006], 14.2, which took 4.5 hours. Seen: 7 iterations, 2.8 standard deviations at most, 154 s of processor time, 123 s by the clock with an empty cache on two idle cores, 5.2 GB."""
    began = time.process_time()
    result = example.fitted()
    assert result.converged and result.iterations <= 12
    for name, (true, _) in example.NUMBERS.items():
        found = result.parameters[name]
        assert found.sd is not None and abs(found.value - true) <= 3.5 * found.sd, name
    assert time.process_time() - began < 60.0 * MINUTES


EXACT = 1.0 / 240.0
"""Step of the smaller twin's recordings and of its fits: it is the bars that are looked at, not the mesh."""


def experiments(model: cb.Model, start: dict[str, float], seed: int, count: int = 2) -> list[cb.Recording]:
    random = np.random.default_rng(seed)
    return [example.recorded(model, start, k, random, fine=2, still=3 * EXACT) for k in range(count)]


@pytest.mark.slow
def test_error_bars_of_a_smaller_twin_cover() -> None:
    """Twenty seeds of two experiments: the trunk with its discs and the chest's soft tissue, both arms; six of the ten numbers. Seen: 95 % of 120 intervals, 2.5 standard deviations at most, 100 s of processor time."""
    model = example.torso()
    start = example.resting(model)
    z = []
    for seed in range(20):
        result = example.shot(model, experiments(model, start, seed), example.TORSO, EXACT)
        assert result.converged and result.iterations <= 12, seed
        for name in example.TORSO:
            found = result.parameters[name]
            assert found.sd is not None, name
            z.append((found.value - example.NUMBERS[name][0]) / found.sd)
    assert 0.85 <= np.mean(np.abs(z) < 1.96) <= 1.0 and np.abs(z).max() <= 3.5


@pytest.mark.slow
def test_time_is_linear_in_experiments() -> None:
    """Processor time per experiment of four and of two, once all is compiled; 2.2 s and 2.5 s were seen."""
    model = example.torso()
    start = example.resting(model)
    each = []
    for count in (2, 2, 4):  # the first one compiles
        runs, began = experiments(model, start, 0, count), time.process_time()
        result = example.shot(model, runs, example.TORSO, EXACT)
        assert result.converged
        each.append((time.process_time() - began) / count)
    assert each[2] < 1.5 * each[1]
