"""Where markers are and how long segments are, from a recording at rest and a few poses of a motion."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

import calibody as cb
from calibody.recording.tables import open_table

from .test_exchanged import posed
from .test_unknown_drives import leg

TABLE = 0.01
"""How well places are known beforehand [m]."""


def test_places_and_a_length() -> None:
    """Markers of the person are up to 20 mm from where the model has them, the thigh is 30 mm longer than the table says; poses tell."""
    model, random = leg(), np.random.default_rng(4)
    off = {s.name: np.array([random.uniform(-0.02, 0.02), 0.0, 0.01 * random.normal()]) for s in model.sites if s.body != "trunk"}
    sites = [replace(s, position=tuple(np.array(s.position) + off[s.name])) if s.name in off else s for s in model.sites]
    bodies = [replace(b, position=(0.0, 0.0, -0.39)) if b.name == "shank" else b for b in model.bodies]
    guess = replace(model, sites=sites, bodies=bodies)
    places = {f"site.{s.name}.position.{c}": float(s.position["xyz".index(c)]) for s in sites if s.body != "trunk" for c in "xz"}
    unknown = {path: cb.Unknown(x, prior=(x, 2.0 * TABLE)) for path, x in places.items()} | {"body.shank.position.z": cb.Unknown(-0.39, prior=(-0.39, 0.05))}
    result = cb.fit(guess, posed(), unknown)
    assert result.converged and not result.mistakes
    for path in unknown:
        found, true = result.parameters[path], model[path]
        assert found.sd is not None and abs(found.value - true) < 3.5 * found.sd, path
    length = result.parameters["body.shank.position.z"]
    assert length.sd is not None and length.sd < 0.003 and abs(length.value + 0.42) < 0.01


def test_the_static_trial_of_a_running_human(shared: Path) -> None:
    """The markers of the scaled model were put where this recording has them: it is fitted to less than a millimetre."""
    folder = shared / "data" / "human_running"
    model, seen = cb.load(folder / "Rajagopal2015_scaled.osim"), open_table(folder / "static_run.trc").columns
    frames, names = np.arange(0, 1500, 300), [s.name for s in model.sites if f"{s.name}.x" in seen]
    poses = 1.0 + np.arange(len(frames))
    observed = [cb.Observation(f"site.{n}.position.{c}", poses, seen[f"{n}.{c}"][frames], sd=TABLE) for n in names for c in "xyz"]
    result = cb.fit(model, cb.Recording("static", tuple(o for o in observed if np.isfinite(o.values).all()), poses=True), {})
    assert result.converged and not result.mistakes
    assert max(c.rms for c in result.fit) < 2e-3
