"""Unknowns with names in each other's places: `total - first`, polar coordinates; derivatives by differences, fits, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import calibody as cb
from calibody.estimate.unknowns import entries, values_at


def _turned() -> tuple[cb.Model, cb.Recording]:
    """Two weights on a table that turns about a tilted axis, driven: their places and masses show in gravity and inertia."""
    bodies = [
        cb.Body("table", mass=1.0, inertia=(0.1, 0.1, 0.05)),
        cb.Body("w1", "table", mass=0.3, position=(0.2, 0.1, 0)),
        cb.Body("w2", "table", mass=0.5, position=(-0.15, 0.05, 0)),
    ]
    model = cb.Model("table", bodies, [cb.Joint("axis", "table", axis=(0, 1, 0), damping=0.02)], actuators=[cb.Actuator("motor", "axis")])
    t = np.arange(0, 4.0, 0.01)
    u = cb.Signal(t, 0.6 * np.sin(4.0 * t) + 0.3 * np.sin(9.0 * t))
    motion = cb.simulate(model, 3.9, 0.005, drive={"actuator.motor": u})
    y = motion["joint.axis.angle"][::2] + 1e-3 * np.random.default_rng(0).standard_normal(len(motion.time[::2]))
    return model, cb.Recording("turn", (cb.Observation("joint.axis.angle", motion.time[::2], y, 1e-3),), (cb.Drive("actuator.motor", u),))


def test_one_expression_of_two_unknowns_is_a_place_of_both() -> None:
    model, _ = _turned()
    found = entries(
        model, {"first": cb.Unknown(0.3, places={"body.w1.mass": "first"}), "total": cb.Unknown(0.8, places={"body.w2.mass": "total - first"})}, ["turn"]
    )
    numbers, _ = values_at(found, np.array([0.35, 0.9]), 0)
    assert numbers == pytest.approx({"body.w1.mass": 0.35, "body.w2.mass": 0.55})
    assert [[(p.path, p.name) for p in e.places] for e in found] == [[("body.w1.mass", "first"), ("body.w2.mass", "first")], [("body.w2.mass", "total")]]
    known = {"first": 0.35, "total": 0.9}
    assert found[0].places[1].slope(0.35, known) == pytest.approx(-1.0) and found[1].places[0].slope(0.9, known) == pytest.approx(1.0)


def test_a_mass_that_is_the_rest_of_a_total() -> None:
    model, run = _turned()
    total = {"first": cb.Unknown(0.2, places={"body.w1.mass": "first"}), "total": cb.Unknown(0.7, places={"body.w2.mass": "total - first"})}
    apart = {"body.w1.mass": cb.Unknown(0.2), "body.w2.mass": cb.Unknown(0.5)}
    a, b = cb.fit(model, run, total, h=0.02), cb.fit(model, run, apart, h=0.02)
    assert a.converged and b.converged
    masses = [b.parameters[f"body.w{i}.mass"].value for i in (1, 2)]
    assert a.parameters["first"].value == pytest.approx(masses[0], rel=1e-5) and a.parameters["total"].value == pytest.approx(sum(masses), rel=1e-5)
    C = b.covariance
    assert a.parameters["total"].sd == pytest.approx(np.sqrt(C.sum()), rel=1e-3)
    assert a.model["body.w2.mass"] == pytest.approx(masses[1], rel=1e-5)


def test_polar_coordinates_of_a_weight() -> None:
    """Distance and angle, the angle without a place of its own; derivatives as differences have them."""
    model, run = _turned()
    polar = {
        "r": cb.Unknown(0.2, lower=0.01, places={"body.w1.position.x": "r * cos(phi)", "body.w1.position.z": "r * sin(phi)"}),
        "phi": cb.Unknown(0.3, places={}),
    }
    result = cb.fit(model, run, polar, h=0.02)
    assert result.converged and result.parameters["r"].unit == "m" and result.parameters["phi"].unit == ""
    r, phi = (result.parameters[n].value for n in ("r", "phi"))
    assert r * np.cos(phi) == pytest.approx(0.2, abs=0.01) and r * np.sin(phi) == pytest.approx(0.0, abs=0.01)
    problem, x, theta = result.problem, list(result.states), result.theta
    lin = problem.linearise(x, theta)
    for k in range(2):
        e = np.zeros(2)
        e[k] = 1e-6
        (_, high), (_, low) = problem.values(x, theta + e), problem.values(x, theta - e)
        np.testing.assert_allclose(lin.Ct.toarray()[:, k], (high - low) / 2e-6, atol=1e-6 * max(np.abs(lin.Ct.toarray()).max(), 1.0))


def test_expressions_that_cannot_be_are_refused() -> None:
    model, _ = _turned()
    for estimate, words in (
        ({"a": cb.Unknown(1.0, places={"body.w1.mass": "a - b"})}, 'uses "b"; it may use "a"'),
        ({"a": cb.Unknown(1.0, places={"body.w1.mass": "a"}), "b": cb.Unknown(1.0, places={})}, '"b" has no places'),
        ({"a": cb.Unknown(1.0, places={"body.w1.mass": "a"}), "b": cb.Unknown(1.0, places={"body.w1.mass": "b"})}, "set by two unknowns"),
        ({"a": cb.Unknown(1.0, places={"body.w1.mass": "a + body.w2.mass"}), "body.w2.mass": cb.Unknown(1.0)}, "cannot be evaluated"),
    ):
        with pytest.raises(cb.CalibodyError, match=words):
            entries(model, estimate, ["turn"])


def test_a_posterior_in_polar_coordinates() -> None:
    model, run = _turned()
    polar = {"r": cb.Unknown(0.2, lower=0.01, upper=1.0, places={"body.w1.position.x": "r * cos(phi)", "body.w1.position.z": "r * sin(phi)"})}
    result = cb.fit(model, run, {**polar, "phi": cb.Unknown(0.3, lower=-2.0, upper=2.0, places={})}, h=0.02)
    post = cb.posterior(result, samples=64, starts=0)
    sd = result.parameters["r"].sd
    assert post.converged and sd is not None and abs(post.parameters["r"].mean - result.parameters["r"].value) < sd
