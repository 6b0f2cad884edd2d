"""Laws of the rotation group and of poses, on random rotations."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, strategies as st

from calibody.spatial import algebra as al

TOLERANCE = 1e-12
component = st.floats(-3.0, 3.0, allow_nan=False)
vector = st.tuples(component, component, component)
quaternion = st.tuples(component, component, component, component).filter(lambda e: math.hypot(*e) > 1e-3).map(lambda e: tuple(x / math.hypot(*e) for x in e))
pose = st.builds(lambda e, o: al.pose(al.quaternion_matrix(e), o), quaternion, vector)
# Lengths from 1e-12 to pi - 1e-3: both branches of the series, and the border between them.
direction = vector.filter(lambda d: math.hypot(*d) > 1e-3).map(lambda d: tuple(x / math.hypot(*d) for x in d))
angle = st.one_of(st.floats(0.0, math.pi - 1e-3), st.floats(-12.0, -1.0).map(lambda e: 10.0**e))
rotation_vector = st.builds(lambda d, t: tuple(t * x for x in d), direction, angle)
IDENTITY = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


def close(a: Any, b: Any, tolerance: float = TOLERANCE) -> None:
    np.testing.assert_allclose(np.asarray(a, dtype=float), np.asarray(b, dtype=float), rtol=0.0, atol=tolerance)


# -- the group ---------------------------------------------------------------------------------------------------------------------


@given(quaternion)
def test_a_quaternion_gives_a_proper_rotation(e):
    R = al.quaternion_matrix(e)
    close(al.matmul(R, al.transpose(R)), IDENTITY)
    assert np.linalg.det(np.array(R)) == pytest.approx(1.0, abs=TOLERANCE)


@given(quaternion, quaternion)
def test_products_of_quaternions_are_products_of_matrices(a, b):
    close(al.quaternion_matrix(al.quaternion_product(a, b)), al.matmul(al.quaternion_matrix(a), al.quaternion_matrix(b)))


@given(quaternion, quaternion, quaternion)
def test_quaternion_product_is_associative(a, b, c):
    close(al.quaternion_product(al.quaternion_product(a, b), c), al.quaternion_product(a, al.quaternion_product(b, c)))


@given(quaternion)
def test_the_conjugate_is_the_inverse(e):
    close(al.quaternion_product(e, al.quaternion_conjugate(e)), (1.0, 0.0, 0.0, 0.0))
    close(al.quaternion_matrix(al.quaternion_conjugate(e)), al.transpose(al.quaternion_matrix(e)))


@given(quaternion)
def test_the_quaternion_of_a_matrix_is_the_quaternion_up_to_sign(e):
    found = al.matrix_quaternion(al.quaternion_matrix(e))
    sign = math.copysign(1.0, float(np.dot(found, e)))
    close(sign * found, e, 1e-9)  # Shepperd's choice keeps the largest component at 1/2 or more; rounding grows by a few units
    assert found[0] >= 0.0


@given(st.tuples(component, component, component, component).filter(lambda e: math.hypot(*e) > 1e-3))
def test_normalising_gives_length_one(e):
    assert math.hypot(*al.quaternion_normalised(e)) == pytest.approx(1.0, abs=1e-15)


# -- exponential and logarithm -----------------------------------------------------------------------------------------------------


@given(rotation_vector)
@example((0.0, 0.0, 0.0))
@example((math.sqrt(al.SMALL_ANGLE_SQUARED) * (1 - 1e-12), 0.0, 0.0))
@example((0.0, math.sqrt(al.SMALL_ANGLE_SQUARED) * (1 + 1e-12), 0.0))
def test_log_inverts_exp(r):
    e = al.quaternion_exp(r)
    assert math.hypot(*e) == pytest.approx(1.0, abs=1e-14)
    close(al.quaternion_log(e), r, 1e-11)
    close(al.matrix_log(al.quaternion_matrix(e)), r, 1e-10)  # divides by sin(angle) >= 1e-3


@given(quaternion)
def test_exp_inverts_log(e):
    found = al.quaternion_exp(al.quaternion_log(e))
    close(al.quaternion_matrix(found), al.quaternion_matrix(e), 1e-11)


@given(quaternion)
def test_a_quaternion_and_its_negative_have_one_logarithm(e):
    assume(abs(e[0]) > 1e-9)  # at half a turn both directions are right
    close(al.quaternion_log(al.scale(-1.0, e)), al.quaternion_log(e))


@given(direction, st.floats(-3.0, 3.0))
def test_axis_angle_is_the_exponential(axis, turn):
    close(al.axis_angle(axis, turn), al.quaternion_matrix(al.quaternion_exp(tuple(turn * x for x in axis))))


@given(direction, st.floats(-3.0, 3.0), st.floats(-3.0, 3.0))
def test_turns_about_one_axis_add(axis, a, b):
    close(al.matmul(al.axis_angle(axis, a), al.axis_angle(axis, b)), al.axis_angle(axis, a + b))


def test_axis_angle_turns_right_handed():
    close(al.matvec(al.axis_angle((0.0, 0.0, 1.0), math.pi / 2), (1.0, 0.0, 0.0)), (0.0, 1.0, 0.0))


@given(direction)
def test_series_and_closed_form_meet_at_the_border(d):
    border = math.sqrt(al.SMALL_ANGLE_SQUARED)
    for factor in (1.0 - 1e-9, 1.0 + 1e-9):
        s = tuple(border * factor * x for x in d)
        close(al.quaternion_log(al.quaternion_exp(s)), s, 1e-16 + 1e-13 * border)


# -- vectors and poses -------------------------------------------------------------------------------------------------------------


@given(vector, vector, vector)
def test_cross_product(a, b, c):
    close(al.cross(a, b), al.scale(-1.0, al.cross(b, a)))
    close(al.cross(a, al.cross(b, c)), al.sub(al.scale(al.dot(a, c), b), al.scale(al.dot(a, b), c)), 1e-10)
    close(al.cross(a, b), np.cross(a, b))


@given(pose, pose, pose)
def test_composing_poses_is_associative(A, B, C):
    close(al.compose(al.compose(A, B), C), al.compose(A, al.compose(B, C)))


@given(pose)
def test_the_identity_changes_no_pose(A):
    identity = al.pose(IDENTITY, (0.0, 0.0, 0.0))
    close(al.compose(A, identity), A)
    close(al.compose(identity, A), A)


@given(pose, pose, vector)
def test_a_point_moves_through_composed_poses(A, B, r):
    close(al.point(al.compose(A, B), r), al.point(A, al.point(B, r)))
    close(al.direction(al.compose(A, B), r), al.direction(A, al.direction(B, r)))
    close(al.sub(al.point(A, r), al.origin(A)), al.direction(A, r))


@given(st.lists(quaternion, min_size=1, max_size=5), st.lists(rotation_vector, min_size=5, max_size=5))
def test_a_batch_is_the_same_as_one_by_one(es, rs):
    """Struct-of-arrays: numpy scalars with the batch axis last."""
    batch = tuple(np.array(x) for x in zip(*es, strict=True))
    close(np.stack([np.stack(row) for row in al.quaternion_matrix(batch)]), np.stack([np.array(al.quaternion_matrix(e)) for e in es], axis=-1))  # type: ignore[arg-type]
    vectors = tuple(np.array(x) for x in zip(*rs, strict=True))
    close(np.stack(al.quaternion_exp(vectors)), np.stack([al.quaternion_exp(r) for r in rs], axis=-1))  # type: ignore[arg-type]


@given(pose)
def test_packing_and_unpacking_a_pose(H):
    array = np.array(H)
    assert al.pack_pose(al.unpack_pose(array)).tolist() == array.tolist()


def test_traced_scalars_give_the_same_numbers_as_floats():
    import jax
    import jax.numpy as jnp

    r = (0.3, -0.7, 1.1)
    traced = jax.jit(lambda *x: al.quaternion_log(al.quaternion_exp(x)))(*map(jnp.asarray, r))
    close(traced, r)
    small = jax.jacfwd(lambda x: jnp.stack(al.quaternion_log(al.quaternion_exp((x[0], x[1], x[2])))))(jnp.zeros(3))
    close(small, np.eye(3))  # no NaN from the branch not taken
