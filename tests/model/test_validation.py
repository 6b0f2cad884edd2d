"""A wrong description is refused with one sentence that names the element and the remedy; hypothesis looks for what slips through."""

# Wrong values are the point here.
# pyright: reportArgumentType=false

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, strategies as st

import calibody as cb

Body, Joint, Model = cb.Body, cb.Joint, cb.Model
arm = Body("arm", mass=1.0, inertia=(0.1, 0.1, 0.1))
hinge = Joint("hinge", body="arm")
NAN, INF = float("nan"), float("inf")


def refused(make, *words: str) -> None:
    with pytest.raises(cb.ModelError) as caught:
        make()
    sentence = str(caught.value)
    assert all(word in sentence for word in words), sentence
    assert "\n" not in sentence
    assert sentence.endswith((".", "?")) and not sentence.endswith("?."), sentence


# -- single elements ---------------------------------------------------------------------------------------------------------------

ELEMENTS = [
    (partial(Body, "arm", mass=-0.1), ["body.arm.mass is -0.1", "must not be negative"]),
    (partial(Body, "arm", mass=NAN), ["body.arm.mass is nan", "finite"]),
    (partial(Body, "arm", mass=INF), ["body.arm.mass is inf", "finite"]),
    (partial(Body, "arm", mass=None), ["body.arm.mass is None", "give a number"]),
    (partial(Body, "arm", mass=1.0, com=(0, 0)), ["body.arm.com has 2 numbers", "give 3"]),
    (partial(Body, "arm", mass=1.0, com=0.5), ["body.arm.com is 0.5", "give 3 numbers"]),
    (partial(Body, "arm", mass=1.0, com="123"), ["body.arm.com is '123'", "give 3 numbers"]),
    (partial(Body, "arm", mass=1.0, com=(0, NAN, 0)), ["body.arm.com", "finite"]),
    (partial(Body, "arm", mass=1.0, inertia=(1, 2)), ["body.arm.inertia has 2 numbers", "give 6"]),
    (partial(Body, "arm", mass=1.0, inertia=(-1, 1, 1)), ["body.arm.inertia", "check the signs"]),
    (partial(Body, "arm", mass=1.0, inertia=(-1, -1, -1)), ["body.arm.inertia", "no principal moment may be negative"]),
    (partial(Body, "arm", mass=1.0, inertia=(1, 1, 3)), ["body.arm.inertia", "exceed the sum of the two others"]),
    (partial(Body, "arm", mass=1.0, inertia=(1, 1, 1, 2, 0, 0)), ["body.arm.inertia"]),
    (partial(Body, "arm", mass=1.0, inertia=(1e308, 1e308, 1e308)), ["body.arm.inertia"]),
    (partial(Body, "arm", mass=0.0, com=(1, 0, 0), inertia=(1, 1, 1)), ["body.arm has no mass but a centre of mass"]),
    (partial(Body, "arm", orientation=(0, 0, 0, 0)), ["body.arm.orientation", "zero"]),
    (partial(Body, "", mass=1.0), ["body has the name ''", "not empty"]),
    (partial(Body, "  "), ["name"]),
    (partial(Body, 3), ["body has the name 3"]),
    (partial(Joint, "j", body="arm", kind="universal"), ["joint.j.kind is 'universal'", "hinge, slide, ball, free", "fixed to its parent"]),
    (partial(Joint, "j", body="arm", axis=(0, 0, 0)), ["joint.j.axis", "zero", "give a direction"]),
    (partial(Joint, "j", body="arm", axis=(1e-200, 0, 0)), ["joint.j.axis", "zero"]),
    (partial(Joint, "j", body="arm", axis=(0, 1)), ["joint.j.axis has 2 numbers"]),
    (partial(Joint, "j", body="arm", friction=-1), ["joint.j.friction is -1", "must not be negative"]),
    (partial(Joint, "j", body="arm", armature=-1), ["joint.j.armature", "must not be negative"]),
    (partial(Joint, "j", body="arm", compliance=-1), ["joint.j.compliance", "must not be negative"]),
    (partial(Joint, "j", body="arm", relaxation=-1), ["joint.j.relaxation", "must not be negative"]),
    (partial(Joint, "j", body="arm", stribeck=-1), ["joint.j.stribeck", "must not be negative"]),
    (partial(Joint, "j", body="arm", stribeck_rate=0), ["joint.j.stribeck_rate is 0", "above zero"]),
    (partial(Joint, "j", body="arm", kind="ball", stribeck=1), ["joint.j is a ball joint with Stribeck friction", "use friction"]),
    (partial(Joint, "j", body="arm", damping=NAN), ["joint.j.damping is nan", "finite"]),
    (partial(Joint, "j", body="arm", spring_orientation=(0, 0, 0, 0)), ["joint.j.spring_orientation", "zero"]),
    (partial(Joint, "j", body="arm", kind="free", spring_position=(NAN, 0, 0)), ["joint.j.spring_position", "finite"]),
    (partial(cb.Site, "s", body="arm", orientation=(0, 0, 0, 0)), ["site.s.orientation"]),
    (partial(cb.Loop, "l", kind="rope"), ["loop.l.kind is 'rope'", "point, weld, coupling"]),
    (partial(cb.Loop, "l", body1="arm", body2="arm"), ["loop.l ties body 'arm' to itself", "two different bodies"]),
    (partial(cb.Loop, "l", kind="coupling"), ["loop.l couples joints but names no joint1"]),
    (partial(cb.Loop, "l", body2="arm", compliance=-1), ["loop.l.compliance", "must not be negative"]),
    (partial(cb.Loop, "l", kind="coupling", joint1="hinge", polynomial=(0, 1)), ["loop.l.polynomial has 2 numbers", "give 5"]),
    (partial(cb.Spring, "s", body1="arm", rest_length=-1), ["spring.s.rest_length", "must not be negative"]),
    (partial(cb.Spring, "s", body1="arm", stiffness=NAN), ["spring.s.stiffness", "finite"]),
    (partial(cb.Bushing, "b", body1="arm", stiffness=3.0), ["bushing.b.stiffness is 3.0", "give 36 numbers"]),
    (partial(cb.Bushing, "b", body1="arm", stiffness=(1, 2, 3)), ["bushing.b.stiffness has 3 numbers", "give 36"]),
    (partial(cb.Actuator, "m", joint="hinge", delay=-0.1), ["actuator.m.delay", "must not be negative"]),
    (partial(cb.Actuator, "m", joint="hinge", gain=NAN), ["actuator.m.gain", "finite"]),
    (partial(cb.Sensor, "s", channel="joint.hinge.angle", sd=-1), ["sensor.s.sd", "must not be negative"]),
    (partial(cb.World, gravity=(0, 0, NAN)), ["gravity", "finite"]),
    (partial(cb.World, tilt=(0, 0)), ["tilt has 2 numbers", "give 3"]),
]


@pytest.mark.parametrize(("make", "words"), ELEMENTS, ids=[words[0] for _, words in ELEMENTS])
def test_a_wrong_element(make, words):
    refused(make, *words)


def test_three_moments_mean_the_diagonal():
    assert Body("arm", mass=1.0, inertia=(1, 1, 1)).inertia == (1.0, 1.0, 1.0, 0.0, 0.0, 0.0)
    assert Body("arm", mass=1.0, inertia=np.array([1.0, 1.0, 1.0])).inertia == (1.0, 1.0, 1.0, 0.0, 0.0, 0.0)


def test_a_bushing_takes_a_diagonal_a_matrix_or_all_36():
    diagonal = cb.Bushing("b", body1="arm", stiffness=(1, 2, 3, 4, 5, 6)).stiffness
    assert diagonal == cb.Bushing("b", body1="arm", stiffness=np.diag([1, 2, 3, 4, 5, 6])).stiffness
    assert diagonal == cb.Bushing("b", body1="arm", stiffness=diagonal).stiffness
    assert len(diagonal) == 36 and diagonal[7] == 2.0


def test_point_masses_rods_and_massless_links_are_bodies():
    for inertia in ((0, 0, 0), (0, 0.1, 0.1), (0.1, 0.1, 0.2)):  # a point, a rod, a disc
        Body("b", mass=1.0, inertia=inertia)
    Body("link")


def test_an_inertia_rounded_to_seven_digits_is_not_refused():
    Body("disc", mass=1.0, inertia=(0.1234567, 0.1234567, 0.2469135))


# -- whole models ------------------------------------------------------------------------------------------------------------------

MODELS = [
    (partial(Model, bodies=(arm, arm)), ["two elements named body.arm", "name of its own"]),
    (partial(Model, bodies=(arm,), joints=(hinge, hinge)), ["two elements named joint.hinge"]),
    (partial(Model, bodies=(arm,), joints=(arm,)), ["joints of model 'model'", "Body", "joint elements"]),
    (partial(Model, bodies=(3,)), ["bodies of model 'model'", "int"]),
    (partial(Model, bodies=(Body("world"),)), ['"world"', "choose another"]),
    (partial(Model, bodies=(Body("a", parent="b"), Body("b", parent="a"))), ["a, b are their own ancestors", "Loop"]),
    (partial(Model, bodies=(Body("a", parent="a"),)), ["a are their own ancestors"]),
    (partial(Model, bodies=(Body("a", parent="aa"), Body("aaa"))), ['body.a has the parent "aa"', 'did you mean "aaa"?']),
    (partial(Model, bodies=(Body("a", parent="something_else"),)), ['body.a has the parent "something_else"', "not a body of the model"]),
    (partial(Model, bodies=(Body("a", parent=None),)), ["body.a", "parent"]),
    (partial(Model, bodies=(arm,), joints=(Joint("j", body="amr"),)), ['joint.j.body is "amr"', 'did you mean "arm"?']),
    (partial(Model, bodies=(arm,), joints=(Joint("j", body="world"),)), ['joint.j.body is "world"', "does not have"]),
    (partial(Model, bodies=(arm,), joints=(Joint("j", body=None),)), ["joint.j.body", "does not have"]),
    (partial(Model, bodies=(arm,), joints=(hinge, Joint("f", body="arm", kind="free"))), ["body.arm has a free joint and others", "only joint"]),
    (partial(Model, bodies=(arm,), sites=(cb.Site("s", body="leg"),)), ['site.s.body is "leg"', "does not have"]),
    (partial(Model, bodies=(arm,), geometries=(cb.Geometry("g", body="leg", kind="box"),)), ['geometry.g.body is "leg"']),
    (partial(Model, bodies=(arm,), springs=(cb.Spring("s", body1="arm", body2="arm"),)), ['spring.s joins body "arm" to itself']),
    (partial(Model, bodies=(arm,), springs=(cb.Spring("s", body1="leg"),)), ['spring.s.body1 is "leg"']),
    (partial(Model, bodies=(arm,), bushings=(cb.Bushing("b", body2="leg"),)), ['bushing.b.body2 is "leg"']),
    (partial(Model, bodies=(arm,), loops=(cb.Loop("l", body1="arm", body2="leg"),)), ['loop.l.body2 is "leg"']),
    (
        partial(Model, bodies=(arm,), joints=(hinge,), loops=(cb.Loop("l", kind="coupling", joint1="hing"),)),
        ['loop.l.joint1 is "hing"', 'did you mean "hinge"?'],
    ),
    (
        partial(Model, bodies=(arm,), joints=(hinge,), loops=(cb.Loop("l", kind="coupling", joint1="hinge", joint2="hinge"),)),
        ['loop.l couples joint "hinge" to itself'],
    ),
    (
        partial(Model, bodies=(arm,), joints=(Joint("b", body="arm", kind="ball"),), loops=(cb.Loop("l", kind="coupling", joint1="b"),)),
        ['loop.l acts on joint "b"', "a ball joint", "needs a hinge or a slide"],
    ),
    (partial(Model, bodies=(arm,), joints=(hinge,), actuators=(cb.Actuator("m", joint="hing"),)), ['actuator.m.joint is "hing"', 'did you mean "hinge"?']),
    (
        partial(Model, bodies=(arm,), joints=(Joint("f", body="arm", kind="free"),), actuators=(cb.Actuator("m", joint="f"),)),
        ['actuator.m acts on joint "f"', "a free joint"],
    ),
]


@pytest.mark.parametrize(("make", "words"), MODELS, ids=[words[0] for _, words in MODELS])
def test_a_wrong_model(make, words):
    refused(make, *words)


def test_bodies_may_come_in_any_order():
    model = Model(bodies=(Body("c", parent="b"), Body("b", parent="a"), Body("a"), Body("d")))
    assert [b.name for b in model.ordered_bodies] == ["a", "b", "c", "d"]


def test_lists_become_tuples():
    model = Model(bodies=[arm], joints=[hinge])
    assert model.bodies == (arm,) and hash(model.joints) == hash((hinge,))


# -- anything at all ---------------------------------------------------------------------------------------------------------------

number = st.floats(allow_nan=True, allow_infinity=True)
anything = st.one_of(st.none(), st.text(max_size=5), st.booleans(), number, st.integers(), st.lists(number, max_size=7))


@given(mass=anything, com=anything, inertia=anything, orientation=anything)
def test_a_body_is_either_possible_or_refused(mass, com, inertia, orientation):
    try:
        body = Body("b", mass=mass, com=com, inertia=inertia, orientation=orientation)
    except cb.ModelError:
        return
    assert all(math.isfinite(x) for x in (body.mass, *body.com, *body.inertia, *body.orientation)) and body.mass >= 0.0


moment = st.floats(0.0, 1e6)


@given(moment, moment, moment)
def test_a_body_takes_exactly_the_moments_of_the_triangle(a, b, c):
    largest, rest = max(a, b, c), sum(sorted((a, b, c))[:2])
    try:
        Body("b", mass=1.0, inertia=(a, b, c))
        taken = True
    except cb.ModelError:
        taken = False
    assert taken == (largest <= rest) or abs(largest - rest) <= 1e-5 * largest


@given(axis=st.tuples(number, number, number), values=st.fixed_dictionaries({k: anything for k in ("damping", "friction", "armature", "stribeck_rate")}))
def test_a_joint_is_either_possible_or_refused(axis, values):
    try:
        joint = Joint("j", body="b", axis=axis, **values)
    except cb.ModelError:
        return
    assert all(math.isfinite(getattr(joint, k)) for k in values) and 0.0 < math.hypot(*joint.axis) < INF
    assert joint.friction >= 0.0 and joint.armature >= 0.0 and joint.stribeck_rate > 0.0


@given(st.lists(st.integers(-1, 8), max_size=8), st.lists(st.sampled_from("abcdefgh"), min_size=8, max_size=8))
def test_random_parents_are_a_tree_or_refused(parents, names):
    bodies = [Body(names[i], parent="world" if p < 0 else names[p] if p < len(names) else "nowhere") for i, p in enumerate(parents)]
    try:
        model = Model(bodies=tuple(bodies))
    except cb.ModelError:
        return
    seen = {"world"}
    for body in model.ordered_bodies:  # parents before children
        assert body.parent in seen
        seen.add(body.name)
    assert len(seen) == len(bodies) + 1
