"""Motion-capture trials that cannot be right are said before they are fitted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import calibody as cb
from calibody.errors import CalibodyError
from calibody.estimate.captured import refuse_absurd


def falling(scale: float = 1.0, sign: float = 1.0) -> tuple[cb.Model, cb.Recording]:
    """A brick with three markers that a plate slows down."""
    sites = [cb.Site(f"m{k}", "brick", p) for k, p in enumerate([(0.2, 0, 0), (0, 0.3, 0), (0, 0, 0.1)])]
    model = cb.Model("brick", [cb.Body("brick", mass=2.0, inertia=(0.1, 0.1, 0.1))], [cb.Joint("root", "brick", "free")], sites=sites)
    motion = cb.simulate(model, 0.2, 1e-3, {"joint.root.rate.rx": 2.0})
    seen = tuple(
        cb.Observation(f"site.{s.name}.position.{c}", motion.time[::5], scale * motion[f"site.{s.name}.position.{c}"][::5], sd=1e-3)
        for s in sites
        for c in "xyz"
    )
    force = np.tile([1.0, 0.0, sign * 10.0], (41, 1))
    return model, cb.Recording("fall", seen, plates=(cb.Plate("brick", motion.time[::5], force, np.zeros_like(force)),))


def test_what_is_right_is_not_refused() -> None:
    model, run = falling(1.2)
    refuse_absurd(model, [run])


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_markers_in_another_unit(scale: float) -> None:
    model, run = falling(scale)
    with pytest.raises(CalibodyError, match=f'"fall" has markers of one body {scale:.2g}'.replace("+", "\\+")):
        cb.fit(model, run, {})
    poses = replace(
        run,
        plates=(),
        drives=(),
        poses=True,
        observations=tuple(replace(o, times=1.0 + np.arange(len(o.times))) for o in run.observations),
        start=1.0,
        end=41.0,
    )
    with pytest.raises(CalibodyError, match="check the unit"):
        cb.fit(model, poses, {})


def test_a_plate_of_the_wrong_sign() -> None:
    model, run = falling(sign=-1.0)
    with pytest.raises(CalibodyError, match='plate under "brick" of the run "fall" pulls it down'):
        cb.fit(model, run, {})
