"""Kernels: the same numbers by tiles and at once, and closed forms that agree with what they are derived from."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from calibody.mechanics import kernels

GRAVITY, H = np.array([0.3, -0.2, -9.8]), 0.02
BODY = (12, 12, 10)
KERNELS = {
    "body_terms": (BODY, (GRAVITY, H)),
    "body_values": (BODY, (GRAVITY, H)),
    "body_regressor": ((12, 12), (GRAVITY, H)),
    "body_gravity": (BODY, (H,)),
    "project_blocks": ((36, 12, 12), ()),
}


@pytest.mark.parametrize("name", KERNELS)
def test_tiles_make_no_difference(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, shared = KERNELS[name]
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(n, 230)) for n in rows]
    kernel = getattr(kernels, name)
    whole = kernels.run(kernel, arrays, shared)
    monkeypatch.setattr(kernels, "TILE", 100)
    np.testing.assert_allclose(kernels.run(kernel, arrays, shared), whole, rtol=1e-12, atol=1e-13 * np.abs(whole).max())


def test_a_body_is_linear_in_its_ten_numbers_and_gravity() -> None:
    rng = np.random.default_rng(1)
    left, right, ten = rng.normal(size=(12, 5)), rng.normal(size=(12, 5)), rng.normal(size=(10, 5))
    wrenches = kernels.run(kernels.body_values, [left, right, ten], (GRAVITY, H)).reshape(2, 6, 5)
    by_ten = kernels.run(kernels.body_regressor, [left, right], (GRAVITY, H)).reshape(2, 10, 6, 5)
    some = kernels.run(kernels.body_regressor, [left, right], (GRAVITY, H, [3, 7])).reshape(2, 2, 6, 5)
    np.testing.assert_array_equal(some, by_ten[:, [3, 7]])
    by_gravity = kernels.run(kernels.body_gravity, [left, right, ten], (H,)).reshape(2, 3, 6, 5)
    np.testing.assert_allclose(np.einsum("skwn,kn->swn", by_ten, ten), wrenches, rtol=1e-11, atol=1e-11)
    weightless = kernels.run(kernels.body_values, [left, right, ten], (0.0 * GRAVITY, H)).reshape(2, 6, 5)
    np.testing.assert_allclose(weightless + np.einsum("skwn,k->swn", by_gravity, GRAVITY), wrenches, rtol=1e-11, atol=1e-11)


FIT = """
import sys
import numpy as np
import calibody as cb
import calibody.formats.content

model = cb.Model("swing", [cb.Body("bob", mass=1.0, com=(0.0, 0.0, -1.0))], [cb.Joint("pivot", "bob", axis=(0.0, 1.0, 0.0))])
times = np.arange(0.0, 4.0, 0.02)
noise = 1e-3 * np.random.default_rng(0).normal(size=len(times))
run = cb.Recording("run", (cb.Observation("joint.pivot.angle", times, 0.1 * np.cos(np.sqrt(9.81) * times) + noise, 1e-3),))
result = cb.fit(model, run, {"joint.pivot.damping": 0.1}, h=0.02)
print(result.status, sorted({"jax", "polars", "rich", "scipy.optimize", "scipy.special", "urllib.request"} & set(sys.modules)))
"""


def test_a_fit_imports_nothing_that_takes_longer_than_itself() -> None:
    """Nor does reading a model file, whose modules are there too."""
    assert subprocess.run([sys.executable, "-c", FIT], capture_output=True, text=True, check=True).stdout == "converged []\n"
