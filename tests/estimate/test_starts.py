"""Starts that are known: exactly, with a standard deviation, in part; in both coordinates, in files, and what they are good for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from problems import four_bar, four_bar_start, rates

import calibody as cb
from calibody import experiment, formats

START = {"joint.upper.angle": 0.9, "joint.lower.angle": -0.4, "joint.upper.rate": 0.5, "joint.lower.rate": -1.0}
TRUTH = {"body.b.mass": 0.7, "joint.upper.damping": 0.05, "joint.lower.damping": 0.02}


def double() -> cb.Model:
    bodies = [
        cb.Body("a", mass=1.0, com=(0, 0, -0.15), inertia=(0.01, 0.01, 0.001)),
        cb.Body("b", "a", mass=0.7, com=(0, 0, -0.1), inertia=(0.005, 0.005, 0.001), position=(0, 0, -0.3)),
    ]
    joints = [cb.Joint("upper", "a", axis=(0, 1, 0), damping=0.05), cb.Joint("lower", "b", axis=(0, 1, 0), damping=0.02)]
    return cb.Model("double", bodies, joints)


@pytest.fixture(scope="module")
def swing() -> cb.Motion:
    return cb.simulate(double(), 1.5, 1e-3, START)


def recorded(swing: cb.Motion, channels: tuple[str, ...], seed: int, **more) -> cb.Recording:
    noise, t = np.random.default_rng(seed), swing.time[::10]
    observed = tuple(cb.Observation(c, t, swing[c][::10] + 5e-3 * noise.normal(size=len(t)), sd=5e-3) for c in channels)
    return cb.Recording("swing", observed, **more)


UNKNOWN = {path: cb.Unknown(1.3 * value) for path, value in TRUTH.items()}
ANGLES = ("joint.upper.angle", "joint.lower.angle")


@pytest.mark.parametrize("coordinates", ["tree", "free"])
def test_an_exact_start_holds_exactly_and_helps(swing: cb.Motion, coordinates: str) -> None:
    z, ratio = [], []
    for seed in range(3 if coordinates == "tree" else 1):
        free, known = (cb.fit(double(), recorded(swing, ANGLES, seed, **more), UNKNOWN, h=5e-3, coordinates=coordinates) for more in ({}, {"initial": START}))
        assert known.status == "converged"
        found = known.motion(0)
        for channel, value in START.items():
            assert found[channel][0] == pytest.approx(value, abs=1e-8), channel
        assert known.dof == free.dof + 4
        bars = np.array([[r.sd(channel, [0.0])[0] for channel in ANGLES] for r in (known, free)])
        assert (bars[0] < 0.6 * bars[1]).all(), bars
        z += [(known.parameters[p].value - v) / known.parameters[p].sd for p, v in TRUTH.items()]  # type: ignore[operator]
        ratio += [known.parameters[p].sd / free.parameters[p].sd for p in TRUTH]  # type: ignore[operator]
    assert np.abs(z).max() < 4.0
    assert np.max(ratio) < 1.0 and np.min(ratio) < 0.9


def test_a_start_with_an_error_is_one_more_sample(swing: cb.Motion) -> None:
    """As tight as can be it is exact; as loose as can be it is none."""
    loose, tight, exact, none = (
        cb.fit(double(), recorded(swing, ANGLES, 0, initial=initial), UNKNOWN, h=5e-3)
        for initial in (
            {c: {"value": v + 0.1, "sd": 1e3} for c, v in START.items()},
            {c: {"value": v, "sd": 1e-7} for c, v in START.items()},
            START,
            {},
        )
    )
    for path in TRUTH:
        assert loose.parameters[path].value == pytest.approx(none.parameters[path].value, rel=1e-5)
        assert tight.parameters[path].value == pytest.approx(exact.parameters[path].value, rel=1e-5)
        assert tight.parameters[path].sd == pytest.approx(exact.parameters[path].sd, rel=1e-2)
    assert {c.channel for c in loose.fit} == set(ANGLES) and loose.dof == none.dof + 4


def test_part_of_a_start_and_process_noise(swing: cb.Motion) -> None:
    result = cb.fit(double(), recorded(swing, ANGLES, 1, initial={"joint.lower.rate": -1.0, "joint.upper.angle": 0.9}), UNKNOWN, h=1e-2, process_noise=0.002)
    assert result.status == "converged"
    assert result.motion(0)["joint.upper.angle"][0] == pytest.approx(0.9, abs=1e-8)
    assert result.motion(0)["joint.lower.rate"][0] == pytest.approx(-1.0, abs=1e-8)
    for path, value in TRUTH.items():
        found = result.parameters[path]
        assert found.sd is not None and abs(found.value - value) < 4.0 * found.sd


def test_starts_in_files(tmp_path: Path) -> None:
    formats.convert(double(), tmp_path / "double.xml")
    (tmp_path / "swing.csv").write_text("t,a\n" + "".join(f"{0.01 * k},{0.1 * k}\n" for k in range(20)))
    text = """[model]
file = "double.xml"
[[run]]
data = "swing.csv"
initial = { "joint.upper.angle" = 0.9, "joint.upper.rate" = { value = 0.0, sd = 0.01 } }
observe = { "joint.upper.angle" = "a" }
"""
    (tmp_path / "e.toml").write_text(text)
    loaded = experiment.load(tmp_path / "e.toml")
    run = loaded.runs()[0]
    assert run.initial["joint.upper.angle"].value == 0.9 and run.initial["joint.upper.rate"].sd == 0.01
    assert "initial   joint.upper.rate  0, sd 0.01" in str(run)
    experiment.save(loaded, tmp_path / "again.toml")
    assert experiment.load(tmp_path / "again.toml").recordings == loaded.recordings
    assert not run.cut(start=0.05).initial and run.cut(end=0.1).initial
    (tmp_path / "e.toml").write_text(text.replace("0.9", '"up"'))
    with pytest.raises(cb.CalibodyError, match=r"e\.toml:5: this .*initial value 'up'"):
        experiment.load(tmp_path / "e.toml")


@pytest.mark.parametrize(
    ("initial", "sentence"),
    [
        ({"joint.uper.angle": 1.0}, "joint.upper.angle"),
        ({"body.b.position.x": 1.0}, "hinges and slides"),
        ({"joint.upper.angle": {"value": 1.0, "sd": 0.0}}, "sd = 0"),
    ],
)
def test_mistakes(swing: cb.Motion, initial: dict, sentence: str) -> None:
    with pytest.raises(cb.CalibodyError, match=sentence):
        cb.fit(double(), recorded(swing, ANGLES, 0, initial=initial), UNKNOWN, h=1e-2)


@pytest.mark.parametrize("coordinates", ["tree", "free"])
@pytest.mark.parametrize(
    ("initial", "sentence"),
    [
        (
            {"joint.ground0.angle": 0.0, "joint.ground1.angle": 0.1},
            'The run "bars" has exact initial values that contradict one another: loop.close0 cannot close',
        ),
        ({"joint.ground0.rate": -1.0, "joint.ground1.rate": -1.2}, "rates tear loop.close0 apart; give fewer of them"),
        ({"joint.ground0.angle": 0.0, "joint.ground1.angle": 0.0, "joint.top0.angle": 0.0}, None),
        ({"joint.ground0.angle": 0.0, "joint.ground1.angle": {"value": 0.1, "sd": 0.2}}, None),
    ],
)
def test_exact_values_that_tear_a_loop_apart(initial: dict, sentence: str | None, coordinates: str) -> None:
    """Of a four-bar, which has one way to move. It ended with "no step lowers the cost any more"; values that agree, or have an sd, are fitted."""
    bars, t = four_bar(damping=0.05), np.arange(0.0, 0.605, 0.02)
    moved = cb.simulate(bars, 0.6, 0.002, rates(four_bar_start()))["joint.ground0.angle"][::10]
    run = cb.Recording(
        "bars", (cb.Observation("joint.ground0.angle", t, moved + 1e-3 * np.random.default_rng(0).normal(size=len(t)), sd=1e-3),), initial=initial
    )
    method = cb.Transcription(h=0.02, coordinates=coordinates)
    if sentence is None:
        assert cb.fit(bars, run, {"joint.ground0.damping": 0.1}, method=method).status == "converged"
        return
    with pytest.raises(cb.CalibodyError, match=sentence):
        cb.fit(bars, run, {"joint.ground0.damping": 0.1}, method=method)
    with pytest.raises(cb.CalibodyError, match=sentence):
        method.refuse(bars, [run], {"joint.ground0.damping": 0.1})


@pytest.mark.parametrize("initial", [{}, {"joint.hinge.angle": 0.0}])
@pytest.mark.parametrize("channel", ["joint.hinge.rate", "site.tip.angular_rate.y"])
def test_rates_alone_begin_at_rest_or_at_the_known_start(channel: str, initial: dict[str, float]) -> None:
    """Rates do not say where the first motion begins; it was anywhere, and the fit went astray."""
    truth = {"body.arm.mass": 0.4, "body.arm.inertia.yy": 0.012, "joint.hinge.damping": 0.02}
    arm, hinge = cb.Body("arm", mass=0.4, com=(0, 0, -0.3), inertia=(0.012, 0.012, 0.0004)), cb.Joint("hinge", "arm", axis=(0, 1, 0), damping=0.02)
    model = cb.Model("pendulum", [arm], [hinge], actuators=[cb.Actuator("motor", "hinge")], sites=[cb.Site("tip", "arm", position=(0, 0, -0.6))])
    t = np.arange(0.0, 3.005, 0.01)
    torque = cb.Signal(t, 0.8 * np.sin(4 * t) + 0.4 * np.sin(9 * t), hold="linear")
    moved = cb.simulate(model, 3.0, 1e-3, drive={"actuator.motor": torque})
    rate = moved["joint.hinge.rate"][::10] + 0.02 * np.random.default_rng(0).normal(size=len(t))
    run = cb.Recording("swing", (cb.Observation(channel, t, rate, sd=0.02),), (cb.Drive("actuator.motor", torque),), initial=initial)
    guesses = {"body.arm.mass": cb.Unknown(0.8), "body.arm.inertia.yy": cb.Unknown(0.02), "joint.hinge.damping": cb.Unknown(0.1)}
    result = cb.fit(model, run, guesses)
    assert result.status == "converged"
    assert max(abs(result.parameters[p].value - v) / result.parameters[p].sd for p, v in truth.items()) < 4.0  # type: ignore[operator]
