"""The table of body segments: it adds up, and agrees with a copy of it that others made."""

from __future__ import annotations

from pathlib import Path

import pytest

import calibody as cb
from calibody.errors import CalibodyError
from calibody.estimate.people.anthropometry import HEIGHT, PARTS_OF_TRUNK, TABLE

ONCE = ("head", "trunk")


@pytest.mark.parametrize("sex", ["male", "female"])
def test_the_segments_are_the_whole(sex: str) -> None:
    person = cb.anthropometry(1.8, 75.0, sex)
    sides = [name for name in person if name not in (*ONCE, *PARTS_OF_TRUNK)]
    assert sum(person[n].mass for n in ONCE) + 2 * sum(person[n].mass for n in sides) == pytest.approx(75.0, rel=1e-3)
    assert sum(person[n].mass for n in PARTS_OF_TRUNK) == pytest.approx(person["trunk"].mass, rel=1e-3)
    assert sum(person[n].length for n in PARTS_OF_TRUNK) == pytest.approx(person["trunk"].length, rel=1e-9)
    for segment in person.values():
        cb.Body("b", mass=segment.mass, com=(0, 0, -segment.com), inertia=segment.inertia)  # possible: refused otherwise


def test_another_copy_of_the_table(shared: Path) -> None:
    rows = [line.split("\t") for line in (shared / "data" / "human_running" / "BSP_ZdeLeva.txt").read_text().splitlines()[2:]]
    theirs = {row[0].strip(): [float(x) for x in row[3:]] for row in rows}
    names = {"head": "Head", "trunk": "Trunk", "upper trunk": "UpperTrunk", "middle trunk": "MiddleTrunk", "lower trunk": "LowerTrunk", "upper arm": "UpperArm"}
    for name, (_, _, *columns) in TABLE.items():
        other = theirs[names.get(name, name.capitalize())]
        for k, (share, _, com, *radii) in enumerate(columns):
            assert [share, com, *radii] == pytest.approx([other[k], other[2 + k], *other[4 + k :: 2]])


def test_scaling_and_priors() -> None:
    mean = cb.anthropometry(HEIGHT["male"], 73.0, "male")
    assert mean["thigh"].length == pytest.approx(0.4222)
    tall = cb.anthropometry(1.2 * HEIGHT["male"], 146.0, "male")
    assert tall["thigh"].inertia[0] == pytest.approx(2 * 1.2**2 * mean["thigh"].inertia[0])
    priors = mean.priors({"femur_r": "thigh", "femur_l": "thigh"}, sd=0.05)
    assert priors["body.femur_l.mass"].prior == pytest.approx((0.1416 * 73.0, 0.05 * 0.1416 * 73.0))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: cb.anthropometry(180, 75, "male"), "The height is 180; give that of a person in m, between 0.8 and 2.5"),
        (lambda: cb.anthropometry(1.8, 75000, "male"), "The mass is 75000; give that of a person in kg"),
        (lambda: cb.anthropometry(1.8, 75, "m"), 'The sex is .m.; give "female" or "male"'),
        (lambda: cb.anthropometry(1.8, 75, "male")["tigh"], 'There is no segment "tigh"; did you mean "thigh"'),
        (lambda: cb.anthropometry(1.8, 75, "male").priors({"femur_r": "thigh"}, sd=0), "give a share of the mass above zero"),
    ],
)
def test_mistakes(call, said: str) -> None:
    with pytest.raises(CalibodyError, match=said):
        call()
