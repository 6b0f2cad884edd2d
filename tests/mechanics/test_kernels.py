"""Kernels: the same numbers compiled and on the host, and closed forms that agree with what they are derived from."""

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
    "body_regressor": (BODY, (GRAVITY, H)),
    "project_blocks": ((36, 12, 12), ()),
}


@pytest.mark.parametrize("name", KERNELS)
def test_compiled_and_host_agree(name: str) -> None:
    rows, shared = KERNELS[name]
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(n, kernels.TILE + 100)) for n in rows]
    kernel = getattr(kernels, name)
    compiled, host = (kernels.run(kernel, arrays, shared, how) for how in (True, False))
    np.testing.assert_allclose(host, compiled, rtol=1e-12, atol=1e-13 * np.abs(compiled).max())


def test_a_body_is_linear_in_its_ten_numbers_and_gravity() -> None:
    rng = np.random.default_rng(1)
    left, right, ten = rng.normal(size=(12, 5)), rng.normal(size=(12, 5)), rng.normal(size=(10, 5))
    wrenches = kernels.run(kernels.body_values, [left, right, ten], (GRAVITY, H), False).reshape(2, 6, 5)
    columns = kernels.run(kernels.body_regressor, [left, right, ten], (GRAVITY, H), False)
    by_ten, by_gravity = columns[:120].reshape(2, 10, 6, 5), columns[120:].reshape(2, 3, 6, 5)
    np.testing.assert_allclose(np.einsum("skwn,kn->swn", by_ten, ten), wrenches, rtol=1e-11, atol=1e-11)
    weightless = kernels.run(kernels.body_values, [left, right, ten], (0.0 * GRAVITY, H), False).reshape(2, 6, 5)
    np.testing.assert_allclose(weightless + np.einsum("skwn,k->swn", by_gravity, GRAVITY), wrenches, rtol=1e-11, atol=1e-11)


def test_the_host_needs_no_jax() -> None:
    """`calibody check` imports what a fit imports, but does not wait for jax."""
    code = "import sys, calibody.estimate.foresee; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
