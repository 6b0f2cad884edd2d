"""A calibrated model that a body can have: moments that the data do not tell are moved the least that makes it possible.

Data often tell one moment of a body and not the others: of a link that turns about y, `inertia.yy`. Estimated alone it may exceed the sum of the two others, which no distribution of mass has, and no program would
read such a model. With the second moments of mass P = tr(I)/2 - I, a body is possible if P has no negative eigenvalue: a convex cone. What was determined is kept, a linear
condition; the nearest P (in the Frobenius norm) in both sets is found by Dykstra's alternating projections. If no P is in both, all moments are moved. A mass that ended at zero, of a body that has a
centre of mass, gets the least mass that files can hold (`LEAST_MASS`).
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from calibody.model import Model
from calibody.model.elements import SYMMETRIC, Body
from calibody.spatial.inertia import second_moment, six_of, smallest_principal_second_moment, symmetric

ROUNDS = 3000
ROUNDING = 1e-9
"""Of the largest second moment: how far a body counts as possible."""
MARGIN = 1e-7
"""The same, what the smallest second moment is moved to: files have rounding, and other programs are strict."""
LEAST_MASS = 1e-6
"""Of the heaviest body, or of a kilogram where none has a mass."""
_BY_P = np.array([[0, 1, 1, 0, 0, 0], [1, 0, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0], [0, 0, 0, -1, 0, 0], [0, 0, 0, 0, -1, 0], [0, 0, 0, 0, 0, -1]], dtype=float)
_BY_P[3:] /= math.sqrt(2.0)
"""xx yy zz xy xz yz of the inertia from (Pxx, Pyy, Pzz, sqrt 2 Pxy, sqrt 2 Pxz, sqrt 2 Pyz), in which the Frobenius norm is the plain one."""


def possible(model: Model, determined: Collection[str]) -> tuple[Model, list[str]]:
    """The model with bodies that can be, and what was moved for it; paths that are `determined` stay where that is possible."""
    changes, notes = {}, []
    least = LEAST_MASS * (max((b.mass for b in model.bodies), default=0.0) or 1.0)
    for body in model.bodies:
        if body.mass <= 0.0 and (any(body.com) or any(body.inertia)):
            changes[f"body.{body.name}.mass"] = least
            notes.append(f"No body has a centre of mass and no mass; in the calibrated model the mass of body.{body.name} is {least:.2g} kg instead of 0.")
        if (moved := _moved(body, determined)) is None:
            continue
        changes[f"body.{body.name}.inertia"] = moved
        parts = [f"{c} from {a:.4g} to {b:.4g}" for c, a, b in zip(SYMMETRIC, body.inertia, moved, strict=True) if abs(a - b) > 1e-6 * max(map(abs, moved))]
        notes.append(
            f"No body has the moments of body.{body.name} as estimated; in the calibrated model those were moved that make it possible with the least change: {', '.join(parts)} kg m^2."
        )
    return model.replace(changes) if changes else model, notes


def _moved(body: Body, determined: Collection[str]) -> tuple[float, ...] | None:
    smallest, largest = smallest_principal_second_moment(body.inertia)
    if smallest >= -ROUNDING * largest:
        return None
    kept = np.array([f"body.{body.name}.inertia.{c}" in determined for c in SYMMETRIC])
    for fixed in (kept, np.zeros(6, dtype=bool)):
        found = nearest(np.array(body.inertia), fixed)
        low, high = smallest_principal_second_moment(tuple(found))
        if low >= -ROUNDING * high:
            return tuple(float(x) for x in found)
    return None


def nearest(inertia: np.ndarray, fixed: np.ndarray) -> np.ndarray:
    """The possible inertia (xx yy zz xy xz yz) nearest to one, with some of its numbers fixed."""
    p = _vector(second_moment(symmetric(inertia)))
    least = MARGIN * float(np.abs(p).max())
    A, b = _BY_P[fixed], inertia[fixed]
    back = np.linalg.pinv(A) if len(A) else np.zeros((6, 0))
    correction = np.zeros(6)
    for _ in range(ROUNDS):
        clipped = _clipped(p + correction, least)
        correction = p + correction - clipped
        after = clipped - back @ (A @ clipped - b)
        if np.abs(after - p).max() < 1e-14 * np.abs(p).max():
            break
        p = after
    return _BY_P @ p


def _clipped(p: np.ndarray, least: float) -> np.ndarray:
    values, vectors = np.linalg.eigh(_matrix(p))
    return _vector(vectors @ np.diag(np.maximum(values, least)) @ vectors.T)


def _vector(P: np.ndarray) -> np.ndarray:
    six = np.array(six_of(P))
    return np.concatenate([six[:3], math.sqrt(2.0) * six[3:]])


def _matrix(p: np.ndarray) -> np.ndarray:
    return symmetric(tuple(np.concatenate([p[:3], p[3:] / math.sqrt(2.0)])))
