"""The pseudo-inertia against its definition, the integral over point masses."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from calibody.spatial import algebra as al, inertia as ine

coordinate = st.floats(-2.0, 2.0)
mass = st.floats(0.01, 5.0)
points = st.lists(st.tuples(mass, coordinate, coordinate, coordinate), min_size=1, max_size=6).map(np.array)


def moments(cloud: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, centre of mass and inertia about it, from the definitions."""
    m, r = cloud[:, 0], cloud[:, 1:]
    com = m @ r / m.sum()
    d = r - com
    inertia = np.einsum("k,kij->ij", m, np.einsum("k,ij->kij", (d**2).sum(1), np.eye(3)) - np.einsum("ki,kj->kij", d, d))
    return float(m.sum()), com, inertia


def integral(cloud: np.ndarray) -> np.ndarray:
    r = np.column_stack([cloud[:, 1:], np.ones(len(cloud))])
    return np.einsum("k,ki,kj->ij", cloud[:, 0], r, r)


@given(points)
def test_pseudo_inertia_is_the_integral(cloud):
    total, com, inertia = moments(cloud)
    E = ine.pseudo_inertia(total, com, ine.six_of(inertia))
    np.testing.assert_allclose(E, integral(cloud), atol=1e-12 * max(1.0, np.abs(E).max()))


@given(points)
def test_any_distribution_of_mass_has_a_semidefinite_pseudo_inertia(cloud):
    total, com, inertia = moments(cloud)
    E = ine.pseudo_inertia(total, com, ine.six_of(inertia))
    assert np.linalg.eigvalsh(E)[0] >= -1e-12 * np.abs(E).max()
    smallest, largest = ine.smallest_principal_second_moment(ine.six_of(inertia))
    assert smallest >= -1e-12 * max(largest, 1e-3)


@given(points, st.tuples(coordinate, coordinate, coordinate), st.tuples(coordinate, coordinate, coordinate))
def test_kinetic_energy_is_that_of_the_points(cloud, v, omega):
    """`tr(H. E H.')/2` with `H. = [[omega]x | v]` at `H = [1 | 0]`."""
    columns = [al.cross(omega, tuple(axis)) for axis in np.eye(3)] + [v]
    rate = np.column_stack(columns)
    expected = sum(0.5 * m * np.sum((np.asarray(v) + np.cross(omega, r)) ** 2) for m, *r in cloud)
    assert 0.5 * np.trace(rate @ integral(cloud) @ rate.T) == pytest.approx(expected, rel=1e-11, abs=1e-11)


FIELDS = [("mass", 0), *(("com", i) for i in range(3)), *(("inertia", i) for i in range(6))]


@pytest.mark.parametrize(("field", "component"), FIELDS)
@given(points)
def test_tangent_against_central_differences(field, component, cloud):
    total, com, inertia = moments(cloud)
    values = {"mass": [total], "com": list(com), "inertia": list(ine.six_of(inertia))}
    step = 1e-4  # E is at most quadratic in each number, so a central difference is exact but for rounding

    def ten(shift: float) -> np.ndarray:
        moved = {name: [x + shift * (name == field and i == component) for i, x in enumerate(numbers)] for name, numbers in values.items()}
        return ine.ten_of(ine.pseudo_inertia(moved["mass"][0], tuple(moved["com"]), tuple(moved["inertia"])))

    difference = (ten(step) - ten(-step)) / (2 * step)
    tangent = ine.pseudo_inertia_tangent(total, com, field, component)
    np.testing.assert_allclose(tangent, difference, atol=1e-8 * max(1.0, np.abs(difference).max()))


@given(st.tuples(*[coordinate] * 6))
def test_six_numbers_and_their_matrix(six):
    matrix = ine.symmetric(six)
    assert np.array_equal(matrix, matrix.T)
    assert ine.six_of(matrix) == six


def test_six_numbers_are_xx_yy_zz_xy_xz_yz():
    assert ine.symmetric((1, 2, 3, 4, 5, 6)).tolist() == [[1, 4, 5], [4, 2, 6], [5, 6, 3]]


def test_ten_numbers_are_the_upper_triangle_row_by_row():
    E = np.arange(16.0).reshape(4, 4)
    assert ine.ten_of(E).tolist() == [0, 1, 2, 3, 5, 6, 7, 10, 11, 15]


def test_a_rod_lies_on_the_border_of_the_possible():
    """A thin rod along x: its second moment has two zero eigenvalues."""
    m, length = 2.0, 0.6
    I = m * length**2 / 12
    smallest, largest = ine.smallest_principal_second_moment((0.0, I, I, 0.0, 0.0, 0.0))
    assert smallest == pytest.approx(0.0, abs=1e-18) and largest == pytest.approx(I)
    assert ine.second_moment(np.diag([0.0, I, I]))[0, 0] == pytest.approx(m * length**2 / 12)


def test_parallel_axis_theorem():
    E = ine.pseudo_inertia(3.0, (0.1, 0.2, -0.4), (0.5, 0.6, 0.7, 0.01, 0.02, 0.03))
    about_origin = np.trace(E[:3, :3]) * np.eye(3) - E[:3, :3]
    c = np.array([0.1, 0.2, -0.4])
    expected = ine.symmetric((0.5, 0.6, 0.7, 0.01, 0.02, 0.03)) + 3.0 * (c @ c * np.eye(3) - np.outer(c, c))
    np.testing.assert_allclose(about_origin, expected, atol=1e-15)
    assert math.isclose(E[3, 3], 3.0)
