"""Contacts and limits as parts of a model: their paths, and the sentence for each that cannot be."""

# Wrong values are the point here.
# pyright: reportArgumentType=false

from __future__ import annotations

from functools import partial

import pytest

import calibody as cb

Contact, Limit, Geometry = cb.Contact, cb.Limit, cb.Geometry


def model(contact: cb.Contact | None = None, limits: tuple[cb.Limit, ...] = (), mass: float = 1.0, **fields) -> cb.Model:
    moments = (0.1, 0.1, 0.1) if mass else (0.0, 0.0, 0.0)
    return cb.Model(
        bodies=[cb.Body("block", mass=mass, inertia=moments), cb.Body("ball", mass=mass, inertia=moments), cb.Body("table", position=(0, 0, 1))],
        joints=[cb.Joint("floating", "block", "free"), cb.Joint("hinge", "ball")],
        geometries=[
            Geometry("box", "block", "box", (0.1, 0.2, 0.3)),
            Geometry("lid", "block", "sphere", (0.1,)),
            Geometry("round", "ball", "sphere", (0.1,)),
            Geometry("egg", "ball", "ellipsoid", (0.1, 0.2, 0.3)),
            Geometry("case", "ball", "box", (0.1, 0.2, 0.3)),
            Geometry("hull", "ball", "mesh"),
            Geometry("flat", "ball", "capsule", (0.1, 0.0)),
            Geometry("floor", "world", "plane"),
            Geometry("top", "table", "plane"),
        ],
        sites=[cb.Site("tip", "ball"), cb.Site("egg", "block")],
        contacts=() if contact is None else (contact,),
        limits=limits,
        **fields,
    )


def test_paths() -> None:
    m = model(Contact("foot", "box", friction=0.3, restitution=0.5, radius=0.01), (Limit("stop", "hinge", 1.2, "lower", restitution=0.4),))
    assert m["contact.foot.friction"] == 0.3 and m["limit.stop.position"] == 1.2 and m.parameters["limit.stop.position"].unit == "rad"
    changed = m.replace({"contact.foot.radius": 0.02, "limit.stop.restitution": 0.1, "world.ground.height": 0.5, "world.ground.tilt.y": 0.1})
    assert changed.contacts[0].radius == 0.02 and changed.limits[0].restitution == 0.1
    assert changed.world.ground_height == 0.5 and changed.world.ground_tilt == (0.0, 0.1) and changed["world.ground.tilt"] == (0.0, 0.1)
    assert "world.ground.height" in m.parameters and "world.ground.height" not in model().parameters  # numbers of a ground that nobody touches are none
    assert changed.contacts[0].sliding == 0.3 and Contact("c", "box", friction=0.3, sliding_friction=0.2).sliding == 0.2
    with pytest.raises(cb.ModelError, match="did you mean"):
        m["contact.foot.bounce"]
    with pytest.raises(cb.ModelError, match=r"world\.ground\.height"):
        m["world.ground.depth"]


ALONE = [
    (partial(Contact, "c", "box", friction=-0.1), ["contact.c.friction is -0.1", "must not be negative"]),
    (partial(Contact, "c", "box", sliding_friction=-0.1), ["contact.c.sliding_friction is -0.1", "must not be negative"]),
    (partial(Contact, "c", "box", radius=-0.1), ["contact.c.radius is -0.1", "must not be negative"]),
    (partial(Contact, "c", "box", restitution=1.2), ["contact.c.restitution is 1.2", "from 0", "to 1"]),
    (partial(Contact, "c", "box", restitution=-0.2), ["contact.c.restitution is -0.2"]),
    (partial(Contact, "c", "box", friction="much"), ["contact.c.friction is 'much'", "give a number"]),
    (partial(Contact, "c", "box", law="hertz"), ["contact.c.law is 'hertz'", "newton, poisson"]),
    (partial(Contact, "c", "box", "box"), ["touch itself"]),
    (partial(Limit, "l", "hinge", restitution=2.0), ["limit.l.restitution is 2"]),
    (partial(Limit, "l", "hinge", side="left"), ["limit.l.side is 'left'", "upper", "lower"]),
    (partial(Limit, "l", "hinge", float("nan")), ["limit.l.position", "finite"]),
    (partial(Limit, "l", "hinge", stiffness=10.0), ["limit.l.stiffness is 10", "rigid", 'law = "compliant"']),
    (partial(Limit, "l", "hinge", law="compliant", restitution=0.5), ["limit.l.restitution is 0.5", "damping"]),
    (partial(Limit, "l", "hinge", law="compliant", exponent=1.0), ["limit.l.exponent is 1", "above 1"]),
    (partial(Limit, "l", "hinge", law="soft"), ["limit.l.law is 'soft'", "newton, poisson, compliant"]),
]
TOGETHER = [
    (Contact("c", "boxx"), ['contact.c.a is "boxx"', "neither a geometry nor a site", "box"]),
    (Contact("c", "box", "wall"), ['contact.c.b is "wall"']),
    (Contact("c", "ground", "box"), ['contact.c.a is "ground"']),
    (Contact("c", "box", "case"), ["between a box and a box", "cannot collide yet"]),
    (Contact("c", "hull"), ["between a mesh and a plane", "cannot collide yet"]),
    (Contact("c", "box", "lid"), ['two shapes of body "block"', "different bodies"]),
    (Contact("c", "round", "lid", radius=0.1), ["contact.c.radius is 0.1", "leave it out"]),
    (Contact("c", "box", radius=0.15), ["contact.c.radius is 0.15", "half the width of geometry.box"]),
    (Contact("c", "flat"), ["geometry.flat.size", "needs 2 lengths above zero"]),
    (Contact("c", "top"), ["between a plane and a plane"]),
]


@pytest.mark.parametrize(("make", "words"), ALONE)
def test_alone(make, words: list[str]) -> None:
    _refused(make, words)


@pytest.mark.parametrize(("contact", "words"), TOGETHER)
def test_in_a_model(contact: cb.Contact, words: list[str]) -> None:
    _refused(lambda: model(contact), words)


def test_nothing_that_moves() -> None:
    _refused(lambda: model(Contact("c", "round"), mass=0.0), ["contact.c: body.ball has no mass", "give it a mass"])
    fixed = cb.Model(bodies=[cb.Body("stone", mass=1.0)], geometries=[Geometry("rock", "stone", "sphere", (0.1,))])
    _refused(lambda: cb.Model(bodies=fixed.bodies, geometries=fixed.geometries, contacts=[Contact("c", "rock")]), ["contact.c", "push at nothing"])


def test_limits_need_a_hinge_or_slide() -> None:
    _refused(lambda: model(limits=(Limit("l", "floating"),)), ['limit.l stops joint "floating", a free joint', "hinge or a slide"])
    _refused(lambda: model(limits=(Limit("l", "hing"),)), ['limit.l.joint is "hing"', "hinge"])


def _refused(make, words: list[str]) -> None:
    with pytest.raises(cb.ModelError) as caught:
        make()
    sentence = str(caught.value)
    assert all(word in sentence for word in words), sentence
    assert "\n" not in sentence and sentence.endswith((".", "?")), sentence
