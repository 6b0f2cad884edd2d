"""Masses of segments from markers and plates, whatever the joints exert (`estimate/people/weighing.py`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hanging_leg import leg, stated, trial

import calibody as cb
from calibody.demos import gait
from calibody.errors import CalibodyError
from calibody.estimate.people.weighing import Weighed

SEEN = {"trunk": 0.1, "thigh": 0.3, "shank": 0.5, "foot": 0.9}
"""Of the prior's rms error what may be left, by segment, rms over walkers: 0.04, 0.15, 0.27 and 0.69 were seen."""


def fitted(seed: int) -> cb.Result:
    run, _ = trial(seed)
    return cb.fit(leg(), replace(run, unknown=tuple(stated())), {}, h=0.01)


def table(model: cb.Model, off: float = 1.0) -> dict[str, cb.Unknown]:
    masses = {path: off * model[path] for path in (f"body.{b.name}.mass" for b in model.bodies)}
    return {path: cb.Unknown(prior=(mass, 0.1 * mass)) for path, mass in masses.items()}


def test_a_table_that_is_too_heavy_is_mended() -> None:
    """The moments' sizes do not enter: ten times those stated, and masses are what they were to a tenth of their error bars."""
    run, _ = trial(1)
    found = []
    for times in (1.0, 10.0):
        unknown = tuple(replace(u, sd=times * u.sd) for u in stated())  # type: ignore[operator]
        result = cb.fit(leg(), replace(run, unknown=unknown), {}, h=0.01)
        assert result.converged
        found.append(result.weigh(table(leg(), 1.08)))
    first, second = found
    assert abs(first.total[0] - 52.0) < 3.0 * first.total[1] < 0.1 * first.total_prior[1]
    for path, w in first.weights.items():
        assert abs(w.value - leg()[path]) < 3.0 * w.sd and w.sd <= w.prior[1]
        assert abs(w.value - second.weights[path].value) < 0.1 * w.sd
        assert first.model[path] == w.value
    assert first.weights["body.trunk.mass"].gained > 3.0
    assert "total mass" in str(first) and 0.2 < first.chi2 < 1.5


def test_where_nothing_hangs_free_plates_weigh_nothing() -> None:
    arm = cb.Model("arm", [cb.Body("link", mass=1.0, com=(0.1, 0, 0), inertia=(0.1, 0.1, 0.1))], [cb.Joint("base", "link")])
    motion = cb.simulate(arm, 0.5, 0.01, {"joint.base.angle": 0.5})
    result = cb.fit(arm, cb.Recording("arm", (cb.Observation("joint.base.angle", motion.time, motion["joint.base.angle"], sd=1e-3),)), {}, h=0.01)
    with pytest.raises(CalibodyError, match="does not hang on nothing"):
        result.weigh({"body.link.mass": cb.Unknown(prior=(1.0, 0.1))})


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (lambda: {"body.shank.mass": cb.Unknown(4.0)}, "has no prior; give what a table says"),
        (lambda: {"joint.knee.damping": cb.Unknown(prior=(0.1, 0.1))}, "is no mass, centre of mass or inertia"),
        (lambda: {}, "Nothing is to be weighed"),
    ],
)
def test_sentences(asked: Callable[[], dict[str, cb.Unknown]], sentence: str, result: cb.Result) -> None:
    with pytest.raises(CalibodyError, match=sentence):
        result.weigh(asked())


@pytest.fixture(scope="module")
def result() -> cb.Result:
    return fitted(0)


# -- walkers -------------------------------------------------------------------------------------------------------------------------


def walked(model: cb.Model, seed: int) -> tuple[cb.Model, Weighed]:
    """A person whose segments are 10 % off the table, and what plates and table say of them."""
    random = np.random.default_rng(1000 + seed)
    person = model.replace({f"body.{b.name}.mass": b.mass * (1.0 + 0.1 * random.standard_normal()) for b in model.bodies})
    columns = dict(gait._recorded(person, random))
    observe = {f"site.{n}.position.{a}": {"column": f"{n}_{a}", "sd": sd} for n, (_, _, _, sd) in gait.MARKERS.items() for a in "xz"}
    drive: dict[str, dict[str, object]] = {}
    for side in gait.SIDES:
        for channel, column, sd in (("force.x", "fx", gait.FORCE_SD), ("force.z", "fz", gait.FORCE_SD), ("torque.y", "my", gait.TORQUE_SD)):
            drive[f"body.{side}_foot.{channel}"] = {"column": f"{side}_{column}", "hold": "zero", "sd": sd}
        drive |= {f"joint.{side}_{joint}.force": {"unknown": True, **gait.MOMENT} for joint in ("hip", "knee", "ankle")}
    result = cb.fit(model, cb.read(columns, observe=observe, drive=drive), {}, h=1.0 / gait.RATE)
    assert result.converged
    return person, result.weigh(table(model))


@pytest.mark.slow
def test_plates_tell_more_than_the_table(tmp_path: Path) -> None:
    """Ten walkers with segments of their own: error bars cover, and what is left of the table's errors is a part of them."""
    (tmp_path / "gait.xml").write_text(gait.EXAMPLE.model)
    model = cb.load(tmp_path / "gait.xml")
    z, left, before = [], [], []
    for seed in range(10):
        person, weighed = walked(model, seed)
        truth = {path: person[path] for path in weighed.weights}
        z.append([(w.value - truth[path]) / w.sd for path, w in weighed.weights.items()])
        left.append([w.value / truth[path] - 1.0 for path, w in weighed.weights.items()])
        before.append([w.prior[0] / truth[path] - 1.0 for path, w in weighed.weights.items()])
        assert abs(weighed.total[0] - sum(truth.values())) < 3.5 * weighed.total[1] < 0.2
    assert 0.9 <= np.mean(np.abs(z) < 1.96) <= 1.0 and np.abs(z).max() < 3.5
    names = [b.name for b in model.bodies]
    for segment, most in SEEN.items():
        mine = [k for k, name in enumerate(names) if name.endswith(segment)]
        assert np.sqrt(np.mean(np.array(left)[:, mine] ** 2)) < most * np.sqrt(np.mean(np.array(before)[:, mine] ** 2)), segment
