"""Paths: every number has one, with value and unit; a wrong one is a sentence with the remedy."""

import pytest

import calibody as cb


@pytest.fixture(scope="module")
def model() -> cb.Model:
    return cb.Model(
        "robot",
        bodies=(
            cb.Body("base", mass=2.0, com=(0.1, 0.2, 0.3), inertia=(0.2, 0.3, 0.4)),
            cb.Body("arm", parent="base", mass=0.5, inertia=(0.01, 0.02, 0.03), position=(0.0, 0.0, 1.0)),
            cb.Body("cart", mass=1.0),
            cb.Body("arm.tool", parent="arm", mass=0.1),
        ),
        joints=(
            cb.Joint("shoulder", body="base", axis=(0, 0, 1), damping=0.05),
            cb.Joint("elbow", body="arm", axis=(0, 1, 0), anchor=(0.0, 0.0, 0.25)),
            cb.Joint("rail", body="cart", kind="slide", axis=(1, 0, 0)),
        ),
        actuators=(cb.Actuator("motor", joint="shoulder", gain=0.04), cb.Actuator("pusher", joint="rail")),
        sites=(cb.Site("tip", body="arm", position=(0.0, 0.0, 0.5)),),
        sensors=(cb.Sensor("encoder", channel="joint.shoulder.angle", bias=0.01),),
        springs=(cb.Spring("cord", body1="arm", body2="cart", stiffness=100.0),),
        bushings=(cb.Bushing("mount", body1="world", body2="cart", stiffness=(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)),),
        loops=(cb.Loop("gear", kind="coupling", joint1="shoulder", joint2="elbow"),),
    )


@pytest.mark.parametrize(
    ("path", "value", "unit"),
    [
        ("body.arm.mass", 0.5, "kg"),
        ("body.base.com.y", 0.2, "m"),
        ("body.base.com", (0.1, 0.2, 0.3), "m"),
        ("body.base.inertia.zz", 0.4, "kg m^2"),
        ("body.base.inertia", (0.2, 0.3, 0.4, 0.0, 0.0, 0.0), "kg m^2"),
        ("body.arm.tool.mass", 0.1, "kg"),  # the longest known name wins
        ("joint.shoulder.damping", 0.05, "N m s/rad"),
        ("joint.rail.damping", 0.0, "N s/m"),
        ("joint.rail.friction", 0.0, "N"),
        ("joint.shoulder.friction", 0.0, "N m"),
        ("joint.rail.armature", 0.0, "kg"),
        ("joint.elbow.position.z", 1.25, "m"),  # body position plus anchor
        ("actuator.motor.gain", 0.04, "N m/unit of control"),
        ("actuator.pusher.damping", 0.0, "N s/m"),
        ("site.tip.position.z", 0.5, "m"),
        ("sensor.encoder.bias", 0.01, "channel unit"),
        ("spring.cord.stiffness", 100.0, "N/m"),
        ("bushing.mount.stiffness.ryry", 5.0, "N/m, N/rad or N m/rad"),
        ("bushing.mount.stiffness.xry", 0.0, "N/m, N/rad or N m/rad"),
        ("loop.gear.polynomial.c1", 1.0, ""),
        ("world.gravity.z", -9.81, "m/s^2"),
        ("world.gravity.tilt.x", 0.0, "rad"),
        ("world.gravity", (0.0, 0.0, -9.81), "m/s^2"),
    ],
)
def test_value_and_unit(model, path, value, unit):
    from calibody.model.paths import resolve

    assert model[path] == pytest.approx(value)
    assert resolve(model, path).unit == unit


def test_every_number_is_listed_once_and_reads_back(model):
    assert len(model.parameters) > 150
    for path, parameter in model.parameters.items():
        assert parameter.path == path
        assert isinstance(parameter.value, float)
        assert model[path] == parameter.value


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("mass", ["'mass'", "kind.name.field", "body.arm.mass"]),
        (3, ["3", "kind.name.field"]),
        ("bodies.arm.mass", ['"bodies"', 'did you mean "body"?']),
        ("zzz.arm.mass", ['"zzz"', "body, joint, loop", "world"]),
        ("body.amr.mass", ["body that the model does not have", 'did you mean "arm"?']),
        ("body.nothing_like_it.mass", ["body that the model does not have", "it has base, arm, cart"]),
        ("geometry.x.position", ["geometry that the model does not have", "it has none"]),
        ("body.arm.mas", ['no number "mas"', 'did you mean "mass"?']),
        ("body.arm.qqq", ['no number "qqq"', "it has mass, com, inertia"]),
        ("body.arm", ['"body.arm"', "it has mass, com, inertia"]),
        ("body.arm.com.w", ['after "com"', "one of x, y, z"]),
        ("body.arm.mass.x", ['after "mass"', "single number"]),
        ("body.arm.com.x.y", ['after "com"', "one of x, y, z"]),
        ("joint.shoulder.anchr", ['did you mean "anchor"?']),
        ("world.wind.x", ["world.gravity.x|y|z", "world.gravity.tilt.x|y|z"]),
        ("world.gravity.w", ["world.gravity.x|y|z"]),
        ("world.gravity.tilt.w", ["world.gravity.tilt.x|y|z"]),
    ],
)
def test_a_wrong_path_is_one_sentence_with_the_remedy(model, path, words):
    with pytest.raises(cb.ModelError) as caught:
        model[path]
    sentence = str(caught.value)
    assert all(word in sentence for word in words), sentence
    assert "\n" not in sentence
    assert sentence.endswith((".", "?")) and not sentence.endswith("?."), sentence
    with pytest.raises(cb.ModelError):
        model.replace({path: 1.0})


def test_look_up_of_elements(model):
    assert model.body("arm").parent == "base"
    assert model.joint("rail").kind == "slide"
    with pytest.raises(cb.ModelError, match=r'no joint "elbwo"; did you mean "elbow"\?'):
        model.joint("elbwo")
    with pytest.raises(cb.ModelError, match='no body "qqqq"; it has base, arm, cart'):
        model.body("qqqq")


def test_the_text_of_a_model_names_its_bodies(model):
    text = str(model)
    assert "4 bodies, 3 joints" in text
    assert "base -> arm: elbow (hinge), mass 0.5 kg" in text
