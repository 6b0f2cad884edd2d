"""All ten inertial numbers of a body as unknowns that cannot leave the physically possible.

The pseudo-inertia (`spatial/inertia.py`) is written relative to the model's own, `E = L0 U U' L0'` with `L0` the Cholesky factor of the initial E and
U upper triangular with diagonal `exp(phi)` ([rucker2022] uses the same chart for E itself): positive definite for every phi, and a
change of 1 in any phi is a change by the body's own size. phi = 0 is the model. Three sets of ten numbers are used:

    phi                                   what is solved for
    mass, com, inertia about the com      what is reported, by the model's paths
    mass, first moment, inertia about the body's origin   enter the equations linearly: the base parameters are sums of these
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibody.errors import CalibodyError
from calibody.model import Model
from calibody.spatial.inertia import pseudo_inertia, six_of

UPPER = ((0, 0), (1, 1), (2, 2), (3, 3), (0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))
"""Where the ten phi sit in U; the first four are logarithms."""
REPORTED = ("mass", "com.x", "com.y", "com.z", "inertia.xx", "inertia.yy", "inertia.zz", "inertia.xy", "inertia.xz", "inertia.yz")
LINEAR = ("mass", "moment.x", "moment.y", "moment.z", "origin.xx", "origin.yy", "origin.zz", "origin.xy", "origin.xz", "origin.yz")
NEAREST = 0.1
"""What a straight step has to leave of the pseudo-inertia in every direction."""
UNITS = ("kg", "m", "m", "m", *("kg m^2",) * 6)

EDGE = 1e-10
"""Smallest over largest eigenvalue of `U U'` that a start may have: beyond, rounding in the ten numbers decides its sign."""


@dataclass(frozen=True, eq=False)
class Inertia:
    """The chart of one body."""

    body: str
    L0: np.ndarray

    @classmethod
    def of(cls, model: Model, body: str) -> Inertia:
        b = model.body(body)
        E = pseudo_inertia(b.mass, b.com, b.inertia)
        size = float(np.trace(E[:3, :3])) / max(b.mass, 1e-300)
        if b.mass <= 0.0 or np.linalg.eigvalsh(E / b.mass / np.outer(*(np.append(np.full(3, max(size, 1e-300) ** 0.5), 1.0),) * 2))[0] < 1e-9:
            raise CalibodyError(
                f'"body.{body}.inertia" asks for all ten inertial numbers, which needs a body with mass and extent in all directions to start from; '
                f"body.{body} is a point, a rod or a plate: give it a little inertia about every axis, or name single numbers."
            )
        return cls(body, np.linalg.cholesky(E))

    def matrix(self, phi: np.ndarray) -> np.ndarray:
        A = self.L0 @ self._upper(phi)
        return A @ A.T

    @staticmethod
    def _upper(phi: np.ndarray) -> np.ndarray:
        U = np.zeros((4, 4))
        for value, (i, j) in zip(phi, UPPER, strict=True):
            U[i, j] = np.exp(np.clip(value, -50.0, 50.0)) if i == j else value  # beyond, no body; keeps a wild trial step finite
        return U

    def moved(self, phi: np.ndarray, d: np.ndarray) -> np.ndarray:
        """phi + d to first order, on the straight line of the pseudo-inertia as long as that leaves a fraction `NEAREST` of it in every direction,
        along the chart otherwise. The equations are linear in E: straight steps make Gauss-Newton steps exact in it."""
        U = self._upper(phi)
        dU = np.zeros((4, 4))
        for value, (i, j) in zip(d, UPPER, strict=True):
            dU[i, j] = U[i, i] * value if i == j else value
        inverse = np.linalg.inv(U)
        relative = np.eye(4) + inverse @ dU + (inverse @ dU).T  # U^-1 (U U' + dU U' + U dU') U^-T
        if np.linalg.eigvalsh(relative)[0] < NEAREST:
            return phi + d
        factor = U @ np.linalg.cholesky(relative[::-1, ::-1])[::-1, ::-1]  # upper triangular
        return np.array([np.log(factor[i, j]) if i == j else factor[i, j] for i, j in UPPER])

    def reported(self, phi: np.ndarray) -> np.ndarray:
        """mass, com, inertia about the com."""
        E = self.matrix(phi)
        c = E[:3, 3] / E[3, 3]
        about_com = second_moment_inverse(E[:3, :3] - E[3, 3] * np.outer(c, c))
        return np.array([E[3, 3], *c, *six_of(about_com)])

    def linear(self, phi: np.ndarray) -> np.ndarray:
        """mass, first moment, inertia about the body's origin."""
        E = self.matrix(phi)
        return np.array([E[3, 3], *E[:3, 3], *six_of(second_moment_inverse(E[:3, :3]))])

    def phi(self, ten: np.ndarray) -> np.ndarray:
        """Where mass, com and inertia about the com lie in the chart: `L0^-1 E L0^-T = U U'`, a Cholesky factorisation from the last row up.

        A body on the edge of the possible (`EDGE`) is moved inside; raises `CalibodyError` for what is no body.
        """
        E = pseudo_inertia(float(ten[0]), ten[1:4], ten[4:])
        M = np.linalg.solve(self.L0, np.linalg.solve(self.L0, E).T)
        sizes, axes = np.linalg.eigh(0.5 * (M + M.T)) if np.isfinite(M).all() else (np.array([-1.0]), np.eye(1))
        if sizes[0] < -EDGE * abs(sizes[-1]) or sizes[-1] <= 0.0:
            raise CalibodyError(
                f"body.{self.body} cannot start from mass {ten[0]:g}, centre of mass {_three(ten[1:4])} and moments of inertia {_three(ten[4:7])}: no body has these; "
                "give a positive mass, and moments none of which exceeds the sum of the two others."
            )
        M = (axes * np.maximum(sizes, EDGE * sizes[-1])) @ axes.T
        U = np.linalg.cholesky(M[::-1, ::-1])[::-1, ::-1]
        return np.array([np.log(U[i, j]) if i == j else U[i, j] for i, j in UPPER])

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(f"body.{self.body}.{name}" for name in REPORTED)

    @property
    def linear_names(self) -> tuple[str, ...]:
        return tuple(f"body.{self.body}.{name}" for name in LINEAR)

    def scales(self, linear: bool) -> np.ndarray:
        """Sizes of the ten numbers for this body: its mass, the radius of its mass about the origin or the com, and their products."""
        phi = np.zeros(10)
        ten = self.linear(phi) if linear else self.reported(phi)
        mass, radius = ten[0], float(np.sqrt(max(0.5 * ten[4:7].sum() / ten[0], 1e-300)))
        first = mass * radius if linear else max(radius, float(np.linalg.norm(ten[1:4])))
        return np.array([mass, *(first,) * 3, *(mass * radius**2,) * 6])

    def jacobian(self, phi: np.ndarray, linear: bool = False) -> np.ndarray:
        """d(ten numbers)/d phi: `E = A A'`, `A = L0 U`, and the derivatives of the formulas above, for all ten directions at once."""
        U = self._upper(phi)
        dU = np.zeros((10, 4, 4))
        for k, (i, j) in enumerate(UPPER):
            dU[k, i, j] = U[i, i] if i == j else 1.0
        A, dA = self.L0 @ U, self.L0 @ dU
        E, dE = A @ A.T, dA @ A.T
        dE = dE + dE.swapaxes(1, 2)
        mass, second, middle = dE[:, 3, 3], dE[:, :3, :3], dE[:, :3, 3]
        if not linear:
            c, m = E[:3, 3] / E[3, 3], E[3, 3]
            middle = (middle - np.outer(mass, c)) / m
            both = m * middle[:, :, None] * c
            second = second - mass[:, None, None] * np.outer(c, c) - both - both.swapaxes(1, 2)
        return np.column_stack([np.array([mass[k], *middle[k], *six_of(second_moment_inverse(second[k]))]) for k in range(10)])


def second_moment_inverse(S: np.ndarray) -> np.ndarray:
    """The rotational inertia of a second moment: `tr(S) 1 - S`."""
    return np.trace(S) * np.eye(3) - S


def _three(x: np.ndarray) -> str:
    return f"({', '.join(f'{v:g}' for v in x)})"
