"""Do runs agree whose motions have unmodelled forces: by the likelihood of each, not by Gauss-Newton's information."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import calibody as cb
from calibody.estimate.result import Agreed
from calibody.estimate.uncertainty import assess

H, SECONDS = 0.01, 1.0
TIMES = np.arange(0.0, SECONDS + 2 * H, H)
UNKNOWN = {"body.cart.mass": cb.Unknown(1.5, lower=0.0), "joint.rail.damping": cb.Unknown(2.6, lower=0.0)}


def cart(mass: float) -> cb.Model:
    body, rail = cb.Body("cart", mass=mass, inertia=(0.01, 0.01, 0.01)), cb.Joint("rail", "cart", "slide", axis=(1, 0, 0), damping=2.0)
    return cb.Model("cart", [body], [rail], actuators=[cb.Actuator("motor", "rail")])


def remembering(rng: np.random.Generator, memory: float) -> np.ndarray:
    """White, or an Ornstein-Uhlenbeck process; of unit variance."""
    a, out = np.exp(-H / memory) if memory else 0.0, rng.standard_normal(len(TIMES))
    for k in range(1, len(out)):
        out[k] = a * out[k - 1] + np.sqrt(1.0 - a * a) * out[k]
    return out


def runs(seed: int, masses: Sequence[float], sd: float, memory: float = 0.0) -> list[cb.Recording]:
    """Carts of these masses, each driven otherwise, under forces of 0.5 N; positions to 3 mm every 10 ms are accelerations to 50 m/s^2, where the carts' own are a few."""
    rng, out = np.random.default_rng(seed), []
    for r, mass in enumerate(masses):
        push = cb.Signal(TIMES, 4.0 * np.sin((6 + r) * TIMES + r) + 2.0 * np.sin((13 - r) * TIMES))
        jolt = cb.Signal(TIMES, 0.5 * remembering(rng, memory))
        place = cb.simulate(cart(mass), SECONDS, H, {}, {"actuator.motor": push, "joint.rail.force": jolt})["joint.rail.position"]
        read = cb.Observation("joint.rail.position", H * np.arange(len(place)), place + sd * rng.standard_normal(len(place)), sd)
        out.append(cb.Recording(f"run{r}", (read,), (cb.Drive("actuator.motor", push),)))
    return out


def fitted(recordings: list[cb.Recording]) -> tuple[cb.Result, Agreed]:
    result = cb.fit(cart(1.5), recordings, UNKNOWN, process_noise="auto", h=H)
    assert result.converged and result.process_noise["rail"] > 0.0 and result.runs_agree is not None
    return result, result.runs_agree


def test_runs_that_differ_are_told_apart() -> None:
    """Half a kilogram, of which each run knows the twentieth: Gauss-Newton's information, which counts the noise of accelerations, calls it chance. The error bar then covers what the runs differ by."""
    result, agreed = fitted(runs(0, (1.2, 1.2, 1.7), 0.01))
    plain = assess(result.problem, result.states, result.theta, 1, True).agreement  # type: ignore[arg-type]
    assert plain is not None and plain.agree
    assert not agreed.agree and agreed.dof == 4 and agreed.probability < 1e-6
    mass = result.parameters["body.cart.mass"]
    assert mass.sd is not None and 0.1 < mass.sd < 1.0


def test_runs_that_are_alike_agree() -> None:
    _, agreed = fitted(runs(1, (1.2, 1.2, 1.2), 0.003))
    assert agreed.agree and agreed.dof == 4


@pytest.mark.slow
@pytest.mark.parametrize(("third", "memory", "least", "most"), [(1.2, 0.0, 0, 1), (1.2, 0.2, 0, 1), (1.5, 0.0, 11, 12)])
def test_in_a_dozen_of_fits(third: float, memory: float, least: int, most: int) -> None:
    """Alike under white forces and under slow ones, and 0.3 kg apart: how many are said to disagree, at a level of 1 %."""
    apart = sum(not fitted(runs(seed, (1.2, 1.2, third), 0.003, memory))[1].agree for seed in range(100, 112))
    assert least <= apart <= most, apart
