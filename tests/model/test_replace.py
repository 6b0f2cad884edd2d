"""A model with other numbers is a new model."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, strategies as st

import calibody as cb

TURNED = (np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5))  # a quarter turn about z


@pytest.fixture
def model() -> cb.Model:
    return cb.Model(
        "pair",
        bodies=(
            cb.Body("a", mass=1.0, com=(0.1, 0.0, 0.0), inertia=(0.1, 0.1, 0.1)),
            cb.Body("b", parent="a", mass=2.0, position=(1.0, 2.0, 3.0), orientation=TURNED),
        ),
        joints=(cb.Joint("ja", body="a"), cb.Joint("jb", body="b", anchor=(0.5, 0.0, 0.0)), cb.Joint("jb2", body="b", axis=(1, 0, 0))),
        sites=(cb.Site("s", body="b"),),
    )


def test_the_old_model_is_unchanged(model):
    before = dict(model.parameters)
    new = model.replace({"body.a.mass": 0.3})
    assert new["body.a.mass"] == 0.3 and model["body.a.mass"] == 1.0
    assert model.parameters == before
    assert {p for p in before if new[p] != before[p].value} == {"body.a.mass"}


def test_nothing_can_be_assigned(model):
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.name = "other"
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.body("a").mass = 3.0


def test_replacing_nothing_gives_an_equal_model(model):
    assert model.replace({}) == model
    assert model.replace({p: model[p] for p in ("body.a.mass", "joint.ja.damping", "world.gravity")}) == model


def test_single_components_and_whole_fields(model):
    new = model.replace({"body.a.com.y": 0.2, "body.a.com.z": -0.1, "body.b.com": (1, 2, 3), "site.s.position.x": 7})
    assert new["body.a.com"] == (0.1, 0.2, -0.1)
    assert new["body.b.com"] == (1.0, 2.0, 3.0)
    assert new["site.s.position"] == (7.0, 0.0, 0.0)


def test_numpy_values_become_floats(model):
    new = model.replace({"body.a.mass": np.float64(0.3), "body.a.com": np.array([1.0, 2.0, 3.0])})
    assert type(new["body.a.mass"]) is float and new["body.a.com"] == (1.0, 2.0, 3.0)


def test_gravity_and_its_tilt(model):
    new = model.replace({"world.gravity.tilt.x": 0.1, "world.gravity": (0, 0, -10)})
    np.testing.assert_allclose(new.gravity, [0.0, 10 * np.sin(0.1), -10 * np.cos(0.1)], atol=1e-14)
    np.testing.assert_allclose(model.gravity, [0.0, 0.0, -9.81])


def test_moving_a_joint_moves_its_body(model):
    assert model["joint.jb.position"] == pytest.approx((1.0, 2.5, 3.0))  # the anchor, turned by a quarter
    new = model.replace({"joint.jb.position.x": 1.2})
    assert new["joint.jb.position"] == pytest.approx((1.2, 2.5, 3.0))
    assert new["body.b.position"] == pytest.approx((1.2, 2.0, 3.0))
    assert new["joint.jb.anchor"] == model["joint.jb.anchor"]


def test_moving_a_joint_in_two_directions_at_once(model):
    new = model.replace({"joint.jb.position.x": 1.2, "joint.jb.position.y": -1.0})
    assert new["joint.jb.position"] == pytest.approx((1.2, -1.0, 3.0))


@given(st.permutations(["body.a.com", "body.a.com.x"]))
def test_a_field_and_its_component_together_are_refused(order):
    model = cb.Model(bodies=(cb.Body("a", mass=1.0),))
    values = {"body.a.com": (1, 2, 3), "body.a.com.x": 5.0}
    with pytest.raises(cb.ModelError, match=r"body\.a\.com"):
        model.replace({path: values[path] for path in order})


def test_two_joints_of_one_body_cannot_both_move_it(model):
    with pytest.raises(cb.ModelError, match=r"body\.b\.position.*only one"):
        model.replace({"joint.jb.position": (0, 0, 0), "joint.jb2.position": (1, 0, 0)})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"body.a.mass": -1.0}, r"body\.a\.mass is -1; it must not be negative"),
        ({"body.a.mass": float("nan")}, r"body\.a\.mass is nan; it must be finite"),
        ({"body.a.mass": "heavy"}, r"body\.a\.mass is 'heavy'; give a number"),
        ({"body.a.mass": (1, 2)}, r"body\.a\.mass is \(1, 2\); give a number"),
        ({"body.a.com": 1.0}, r"body\.a\.com is 1\.0; give 3 numbers"),
        ({"body.a.com": (1, 2)}, r"body\.a\.com has 2 numbers; give 3"),
        ({"body.a.com.x": float("inf")}, r"body\.a\.com.*finite"),
        ({"body.a.inertia.xx": 5.0}, r"body\.a\.inertia.*principal moment"),
        ({"joint.ja.axis": (0, 0, 0)}, r"joint\.ja\.axis.*zero"),
        ({"joint.jb.position": 1.0}, r"joint\.jb\.position.*3 numbers"),
        ({"joint.jb.position": (1.0, 2.0)}, r"joint\.jb\.position.*3"),
        ({"joint.jb.position.x": "far"}, r"joint\.jb\.position.*number"),
        ({"joint.jb.position.x": float("nan")}, r"position.*finite"),
        ({"world.gravity.z": float("nan")}, r"gravity.*finite"),
    ],
)
def test_a_wrong_value_is_one_sentence(model, values, words):
    with pytest.raises(cb.ModelError, match=words):
        model.replace(values)
