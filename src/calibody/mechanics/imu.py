"""What a gyroscope and an accelerometer on a site read, at the nodes of a motion.

With R the orientation of the site's body, S that of the site in it, `U = R S` the axes of the sensor and p the place of the site:

    angular rate       log(U_k' U_(k+1))/h over an interval, in the axes of the sensor; at a node the mean of the two intervals that meet there
    specific force     f_k = U_k' b_k,   b_k = (p_(k+1) - 2 p_k + p_(k-1))/h^2 - g        at the inner nodes

An accelerometer feels what holds it up: at rest it reads -g, in free fall nothing. The lever arm is in p. Both are of second order in h, as the motion is.
"""

from __future__ import annotations

import numpy as np

from calibody.model import Site
from calibody.spatial import algebra as al


def axes(site: Site) -> np.ndarray:
    """(3, 3): S."""
    return np.array(al.quaternion_matrix(al.quaternion_normalised(site.orientation)), dtype=float)


def sensor_axes(H: np.ndarray, site: Site) -> np.ndarray:
    """(3, 3, K): U from the poses H (3, 4, K) of the site's link."""
    return np.einsum("ijk,jc->ick", H[:, :3], axes(site))


def held_up(H: np.ndarray, site: Site, gravity: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray]:
    """p (3, K) and b (3, K - 2)."""
    p = np.stack(al.point(al.unpack_pose(H), site.position))
    return p, (p[:, 2:] - 2.0 * p[:, 1:-1] + p[:, :-2]) / h**2 - gravity[:, None]


def specific_force(H: np.ndarray, site: Site, gravity: np.ndarray, h: float) -> np.ndarray:
    """(3, K - 2): f at the inner nodes."""
    return np.einsum("ick,ik->ck", sensor_axes(H, site)[..., 1:-1], held_up(H, site, gravity, h)[1])


def angular_rates(H: np.ndarray, site: Site, h: float) -> np.ndarray:
    """(3, K - 1): over the intervals."""
    U = sensor_axes(H, site)
    A = np.einsum("jak,jbk->abk", U[..., :-1], U[..., 1:])
    return np.stack(al.matrix_log(tuple(map(tuple, A)))) / h  # type: ignore[arg-type]
