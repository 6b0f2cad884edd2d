"""The race: driven pendulums that tumble, all parameters at once, from poor guesses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from race_problems import problem

import calibody as cb

GUESSES = (1.5, 3.0, 5.0, 0.3)


def check(shared: Path, name: str, guesses: tuple[float, ...], tolerance: float, loose: dict[str, float]) -> None:
    """Errors up to `tolerance`, or up to what `loose` says for a law of friction."""
    model, recording, truth = problem(shared, name)
    found = []
    for guess in guesses:
        result = cb.fit(model, recording, {path: cb.Unknown(guess * value) for path, value in truth.items()})
        assert result.converged, result.status
        for path, value in truth.items():
            e = result.parameters[path]
            assert e.sd is not None and e.resolved
            assert abs(e.value - value) <= 3.5 * e.sd, path
            assert abs(e.value / value - 1) <= loose.get(path.rsplit(".", 1)[1], tolerance), path
        found.append([(e.value, e.sd) for e in result.parameters.values()])
    values, sds = np.array(found)[..., 0], np.array(found)[..., 1]
    assert np.all(np.ptp(values, axis=0) <= 0.1 * sds.max(axis=0))


def test_tumbling_single(shared: Path) -> None:
    check(shared, "tumbling_single", GUESSES, 0.01, {"friction": 0.03})


def test_tumbling_double(shared: Path) -> None:
    check(shared, "tumbling_double", (3.0, 0.3), 0.02, {"friction": 0.03})


@pytest.mark.slow
def test_tumbling_double_from_every_guess(shared: Path) -> None:
    check(shared, "tumbling_double", GUESSES, 0.02, {"friction": 0.03})


GENTLE = {"friction": 0.06, "damping": 0.06}


@pytest.mark.parametrize("name", ["gentle_single", "gentle_double"])
def test_gentle(shared: Path, name: str) -> None:
    check(shared, name, GUESSES if name == "gentle_single" else (1.5, 5.0), 0.02 if "double" in name else 0.01, GENTLE)


@pytest.mark.slow
def test_gentle_double_from_every_guess(shared: Path) -> None:
    check(shared, "gentle_double", GUESSES, 0.02, GENTLE)


def test_a_given_mesh_has_friction_as_sharp_as_one_that_was_reached(shared: Path) -> None:
    """Friction that stays viscous below 2 % of the rms rate moves damping and friction by 1.6 standard deviations here, whatever the step."""
    model, recording, truth = problem(shared, "gentle_single")
    reached = cb.fit(model, recording, {path: cb.Unknown(1.2 * value) for path, value in truth.items()})
    for h in (reached.mesh.h, 4.0 * reached.mesh.h):
        given = cb.fit(model, recording, {path: cb.Unknown(1.2 * value) for path, value in truth.items()}, h=h)
        for path in truth:
            e, other = given.parameters[path], reached.parameters[path]
            assert e.sd and e.discretisation_error is not None and other.discretisation_error is not None
            assert abs(e.value - other.value) <= 0.2 * e.sd + 1.5 * (e.discretisation_error + other.discretisation_error), (h, path)
