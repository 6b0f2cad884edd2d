"""Several tosses together: a real cube, and one toss among several that no sequence of impacts explains."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import calibody as cb
from calibody.estimate.contacts.settle import MOST, _order
from calibody.estimate.contacts.strikes import Strike
from calibody.estimate.unknowns import entries, rubbing
from calibody.steppers.events import SLIP

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import cube_tosses
from impact_problems import cube_model, toss

ASKED = {"contact.floor.friction": cb.Unknown(0.36), "contact.floor.restitution": cb.Unknown(0.15)}


def test_two_corners_that_strike_at_once_do_not_change_places_forever() -> None:
    first, second = (Strike(3, spot, SLIP) for spot in (0, 1))
    assert _order(np.array([0.2, 0.1, 0.3]), [first, second, first]) == [1, 0, 2]
    often = replace(second, changes=MOST)
    assert _order(np.array([0.2, 0.1, 0.3]), [replace(first, changes=MOST), often, first]) == [0, 1, 2]


def test_friction_of_a_contact_is_none_of_a_joint() -> None:
    assert rubbing(cube_model(), entries(cube_model(), ASKED, ["run"])) == set()


def caught(recording: cb.Recording, at: float) -> cb.Recording:
    """With a body that is held from some time on, and carried away upwards."""
    out = []
    for o in recording.observations:
        values, k = np.array(o.values), int(np.searchsorted(o.times, at))
        values[k:] = values[k] + (0.6 * (o.times[k:] - o.times[k]) if o.channel.endswith("position.z") else 0.0)
        out.append(replace(o, values=values))
    return replace(recording, name="caught", observations=tuple(out))


@pytest.mark.slow
def test_a_toss_that_nothing_explains_is_named() -> None:
    """It is used up to its first contact; the others give the numbers."""
    runs = [toss(seed, 0.19)[0] for seed in (0, 1, 2)]
    bad, events = toss(3, 0.19)
    result = cb.fit(cube_model(), [*runs, caught(bad, events[0].time - 0.004)], ASKED)
    named = [n for n in result.notes if n.startswith("caught is used up to ")]
    assert result.converged and len(named) == 1 and {e.run for e in result.events} == {run.name for run in runs}
    assert result.recordings[3].end < events[0].time
    for path, value in (("contact.floor.friction", 0.18), ("contact.floor.restitution", 0.3)):
        estimate = result.parameters[path]
        assert estimate.sd is not None and abs(estimate.value - value) < 3.5 * estimate.sd


@pytest.mark.slow
def test_twenty_tosses_of_a_real_cube(shared: Path) -> None:
    """From friction and restitution 0.4. What the numbers are good for: tosses that the fit has not seen, from their flights alone, are foretold better over the first 100 ms after contact than with the stated numbers."""
    with np.load(shared / "data" / "cube_tosses" / "cube_tosses.npz") as loaded:
        data = {name: loaded[name] for name in loaded.files}
    names = [name for name, one in data.items() if cube_tosses.window(name, one, 8) is not None][:20]
    began = time.process_time()
    result = cube_tosses.fitted({name: data[name] for name in names})
    assert result.converged and time.process_time() - began < 120.0
    assert not any("cannot be trusted" in n or "is used up to" in n for n in result.notes)
    assert abs(result.parameters["contact.floor.friction"].value - 0.17) < 0.02
    assert abs(result.parameters["contact.floor.radius"].value - 0.0054) < 0.001
    assert result.uncertainty.agreement is not None and not result.uncertainty.agreement.agree
    others = cube_tosses.unseen(data, list(data).index(names[-1]) + 1, 20)
    stated, found = (cube_tosses.foretold(model, others).mean(axis=0) for model in (cube_tosses.STATED, result.model))
    assert found[0] < 0.6 * stated[0] and found[1] < stated[1] and found[3] < stated[3]


@pytest.mark.slow
def test_a_real_cube_slides_to_rest_with_a_friction_of_its_own(shared: Path) -> None:
    """On a face at the end of every toss; its deceleration says 0.22, its impacts 0.16, with which the fit begins."""
    with np.load(shared / "data" / "cube_tosses" / "cube_tosses.npz") as loaded:
        data = {name: loaded[name] for name in list(loaded.files)[:4]}
    result = cube_tosses.sliding(cube_tosses.model(friction=0.163, restitution=0.255, radius=0.0053), data)
    estimate = result.parameters["contact.floor.sliding_friction"]
    assert result.converged and len(result.recordings) == 4 and not result.events
    assert estimate.sd is not None and abs(estimate.value - 0.22) < 0.02 and estimate.sd < 0.02
    assert not any("cannot be trusted" in n for n in result.notes)
