"""Markers that have each other's name, in some frames or in all: they are named, and nothing else is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import calibody as cb
from calibody.errors import CalibodyError

from .test_unknown_drives import leg, stated, trial

FRAMES = 30


def posed(seed: int = 0) -> cb.Recording:
    """The leg in poses."""
    random, model = np.random.default_rng(seed), leg()
    t = np.arange(0.0, 0.02 * FRAMES, 0.02)
    drive = {f"joint.{j}.{what}": cb.Signal(t, size * np.sin(9.0 * t + k)) for k, (j, what, size) in enumerate(
        (("px", "position", 0.3), ("pz", "position", 0.05), ("tilt", "angle", 0.2), ("hip", "angle", 0.5), ("knee", "angle", 0.6)))}  # fmt: skip
    motion = cb.simulate(model, t[-1], 0.02, {}, drive)
    poses = 1.0 + np.arange(len(motion.time))
    names = [f"site.{s.name}.position.{c}" for s in model.sites for c in "xz"]
    return cb.Recording("posed", tuple(cb.Observation(n, poses, motion[n] + 2e-3 * random.normal(size=len(poses)), sd=2e-3) for n in names), poses=True)


def test_in_some_frames() -> None:
    run, where = posed(), (3.0, 4.0, 5.0, 11.0, 20.0)
    assert not cb.fit(leg(), run, {}).mistakes
    wrong = run.exchanged("site.shank0", "site.shank1", where)
    [mistake] = cb.fit(leg(), wrong, {}).mistakes
    assert mistake.subjects == ("site.shank0", "site.shank1") and mistake.times == where
    assert f'The markers shank0 and shank1 of the run "posed" look swapped in 5 of {len(run.numbered)} frames' in mistake.sentence
    mended = wrong.exchanged(*mistake.subjects, mistake.times)
    assert all(np.array_equal(mended[c].values, run[c].values) for c in run.channels)
    assert mistake.before is not None and mistake.before > 3.0 and mistake.after < 1.5


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), [("trunk0", "trunk2"), ("thigh1", "shank0"), ("thigh0", "trunk1")])
def test_throughout(a: str, b: str) -> None:
    [mistake] = cb.fit(leg(), posed().exchanged(f"site.{a}", f"site.{b}"), {}).mistakes
    assert set(mistake.subjects) == {f"site.{a}", f"site.{b}"} and not mistake.times
    assert "look swapped: exchange their columns." in mistake.sentence and mistake.after < 1.5


def test_beside_unknown_drives() -> None:
    run, _ = trial(0, duration=0.3)
    run = replace(run, unknown=tuple(stated()))
    assert not cb.fit(leg(), run, {}, h=0.01).mistakes
    result = cb.fit(leg(), run.exchanged("site.thigh0", "site.thigh1"), {}, h=0.01)
    assert [set(m.subjects) for m in result.mistakes] == [{"site.thigh0", "site.thigh1"}]


def test_a_model_that_is_wrong_is_not_swapped_markers() -> None:
    """A shank that is 20 % longer, and a marker that is elsewhere."""
    model = leg()
    bodies = [replace(b, position=(0.0, 0.0, -0.5)) if b.name == "shank" else b for b in model.bodies]
    sites = [replace(s, position=(0.1, 0.0, 0.1)) if s.name == "trunk2" else s for s in model.sites]
    assert not cb.fit(replace(model, bodies=bodies, sites=sites), posed(), {}).mistakes


def test_what_cannot_be_exchanged() -> None:
    run = posed()
    with pytest.raises(CalibodyError, match=r'"site\.trunk0" and "site\.trunk9" of the recording "posed" cannot be exchanged'):
        run.exchanged("site.trunk0", "site.trunk9")
    with pytest.raises(CalibodyError, match=r"to be exchanged at 7\.4, where they have no sample; the nearest is at 7"):
        run.exchanged("site.trunk0", "site.trunk1", [3.0, 7.4])
