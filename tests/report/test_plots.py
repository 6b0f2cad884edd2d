"""Figures and tables for Python and notebooks: they show the numbers of the fit, from a result and from its folder alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import calibody as cb
from calibody.estimate.telling import Watch
from calibody.report.view import _triangles
from calibody.solve.gauss_newton import Iteration

KINDS = ("series", "residuals", "parameters", "correlation", "convergence", "forces")


@pytest.fixture(scope="module")
def result() -> cb.Result:
    arm = cb.Body("arm", mass=1.2, com=(0, 0, -0.25), inertia=(0.03, 0.03, 0.03))
    model = cb.Model("pendulum <b>", bodies=[arm], joints=[cb.Joint("hinge", "arm", axis=(0, 1, 0), damping=0.05)], actuators=[cb.Actuator("motor", "hinge")])
    times = np.arange(0.0, 2.005, 0.01)
    torque = 2.0 * np.sin(4.0 * times) + np.sin(9.0 * times)
    angle = cb.simulate(model, 2.0, 0.002, drive={"actuator.motor": (times, torque)})["joint.hinge.angle"][::5]
    log = {"t": times, "angle": angle + 0.005 * np.random.default_rng(0).normal(size=201), "torque": torque}
    run = cb.read(log, observe={"joint.hinge.angle": {"column": "angle", "sd": 0.005}}, drive={"actuator.motor": "torque"}, name="swing")
    return cb.fit(model, run, {"body.arm.mass": cb.Unknown(2.0), "joint.hinge.damping": cb.Unknown(0.1)})


def test_a_result_and_its_folder_draw_the_same(result: cb.Result, tmp_path: Path) -> None:
    result.report(tmp_path / "fit")
    saved = cb.open(tmp_path / "fit")
    for kind in KINDS:
        ours, theirs = getattr(result.plot, kind)(), getattr(saved.plot, kind)()
        assert [t.name for t in ours.data] == [t.name for t in theirs.data], kind
        for a, b in zip(ours.data, theirs.data, strict=True):
            ours_drawn, theirs_drawn = (np.asarray(trace.z if kind == "correlation" else trace.y) for trace in (a, b))
            if ours_drawn.dtype.kind == "f":  # not the names of parameters
                assert ours_drawn == pytest.approx(theirs_drawn, rel=1e-6, abs=1e-9), kind


def test_figures_show_the_numbers_of_the_fit(result: cb.Result) -> None:
    (c,) = result.fit
    band, measured, fitted = result.plot.series("joint.hinge.angle", run="swing").data
    assert np.array_equal(measured.y, c.measured) and np.array_equal(fitted.y, c.fitted)
    assert np.ptp(band.y) > np.ptp(fitted.y)
    intervals = result.plot.parameters().data[0]
    assert list(intervals.y) == list(result.parameters)
    e = result.parameters["body.arm.mass"]
    assert e.sd is not None and intervals.error_x.array[0] == pytest.approx(100 * 1.96 * e.sd / e.value, rel=1e-3)
    assert {t.name for t in result.plot.forces("joint.hinge.reaction.force").data} == {"x", "y", "z"}


@pytest.mark.parametrize(
    "ask, said",
    [
        (lambda plot: plot.series("joint.hinge.angel"), 'did you mean "joint.hinge.angle"'),
        (lambda plot: plot.series(run="spin"), 'There is no run "spin"'),
        (lambda plot: plot.forces("joint.hinge.reaction"), "is no force of the fit"),
    ],
)
def test_what_is_not_there_is_said(result: cb.Result, ask, said: str) -> None:
    with pytest.raises(cb.CalibodyError, match=said):
        ask(result.plot)


def test_tables_for_notebooks_escape_names(result: cb.Result) -> None:
    for shown in (result.model, result.recordings[0], result.motion(), result):
        page = shown._repr_html_()
        assert page.count("<table>") >= 1 and page.count("<td") > 3 and "<b>" not in page
    assert "status: converged" in result._repr_html_() and f"{result.parameters['body.arm.mass'].value:.6g}" in result._repr_html_()


def test_a_motion_plots_its_channels(result: cb.Result) -> None:
    motion = result.motion()
    assert [t.name for t in motion.plot().data] == ["joint.hinge.angle"]
    assert [t.name for t in motion.plot("joint.hinge.rate", "site.tip.position" if motion.model.sites else "body.arm.com").data][1:] == [
        f"body.arm.com.{x}" for x in "xyz"
    ]


@pytest.mark.parametrize(
    "kind, size, volume",
    [
        ("box", [0.1, 0.2, 0.3], 8 * 0.006),
        ("sphere", [0.5], 4 / 3 * np.pi * 0.125),
        ("ellipsoid", [0.1, 0.2, 0.3], 4 / 3 * np.pi * 0.006),
        ("cylinder", [0.1, 0.5], np.pi * 0.01),
        ("capsule", [0.1, 0.5], np.pi * 0.01 + 4 / 3 * np.pi * 0.001),
    ],
)
def test_shapes_are_closed_and_of_the_right_size(kind: str, size: list[float], volume: float) -> None:
    points, faces = _triangles({"kind": kind, "size": size})
    a, b, c = (points[faces[:, k]] for k in range(3))
    assert np.einsum("ij,ij->", a, np.cross(b, c)) / 6.0 == pytest.approx(volume, rel=0.04)


def test_a_view_puts_bodies_where_they_are(result: cb.Result) -> None:
    hanging, raised = result.model.view(), result.model.view({"joint.hinge.angle": np.pi / 2})
    assert min(t.z.min() for t in hanging.data) < -0.4 and min(t.x.min() for t in raised.data) < -0.4
    assert {t.name for t in hanging.data} == {"arm"}


def test_what_is_told_of_a_fit() -> None:
    told: list[Iteration] = []
    arm = cb.Body("arm", mass=1.0, com=(0, 0, -0.25), inertia=(0.03, 0.03, 0.03))
    model = cb.Model("pendulum", bodies=[arm], joints=[cb.Joint("hinge", "arm", axis=(0, 1, 0))])
    t = np.arange(0.0, 1.0, 0.01)
    angle = cb.simulate(model, 1.0, 0.01, {"joint.hinge.angle": 1.0})["joint.hinge.angle"][:100] + 0.002 * np.random.default_rng(0).normal(size=100)
    run = cb.read({"t": t, "a": angle}, observe={"joint.hinge.angle": {"column": "a", "sd": 0.002}})
    cb.fit(model, run, {"body.arm.inertia.yy": 0.05}, report=told.append)
    assert {i.moving for i in told} == {"body.arm.inertia.yy"} and {i.stage for i in told} == {"parameters and motion"}
    steps = [i.h for i in told]
    assert steps == sorted(steps, reverse=True) and steps[0] > steps[-1] > 0.0
    watch = Watch()
    for iteration in told:
        watch(iteration)
    assert watch.place == f"parameters and motion: mesh {len(set(steps))}, {1000 * steps[-1]:.3g} ms" and watch.count == len(told)
    assert watch.seconds_left >= 0.0
