"""The law of impacts: what a number of places that touch at one instant do to each other's velocities.

With velocities `u- = J v-` of the places and their mobility `W = J P J'`, impulses L change them to `u+ = u- + W L`, and

    newton     0 <= L_n  _|_  u_n+ + e u_n- >= 0,      friction on u_t+
    poisson    first as newton with e = 0 (compression, L_c); then normal impulses of at least e L_c, more only where a place would go on closing, with
               friction of its own on the whole of this second part

all places at once, cones exact (`complementarity/cone.py`). Kinetic energy changes by `L . (u- + u+)/2`. Newton's law with friction can make energy where an impulse off the centre
of mass turns the slip round ([stewart2000], section 3): then e of all places is multiplied by the largest factor for which the energy does not rise (with factor 0 it never does), and the event says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibody.complementarity import cone

# Gain of energy, relative to what the impulses' work is made of, that is rounding.
ROUNDING = 1e-11
# Halvings of the factor.
HALVINGS = 40


@dataclass(frozen=True)
class Impact:
    """Impulses and velocities after, (places, 3) each."""

    impulse: np.ndarray
    after: np.ndarray
    energy: float
    """Change of the kinetic energy [J]: never above zero."""
    factor: float
    """What the coefficients of restitution were multiplied by."""


def impact(W: np.ndarray, before: np.ndarray, friction: np.ndarray, restitution: np.ndarray, poisson: np.ndarray) -> Impact:
    """W (3 m, 3 m), the others by place; `restitution` zero where a place does not approach."""
    found = _with(W, before, friction, restitution, poisson, 1.0)
    if found.energy <= 0.0 or not restitution.any():
        return found
    low, high, best = 0.0, 1.0, _with(W, before, friction, restitution, poisson, 0.0)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        found = _with(W, before, friction, restitution, poisson, middle)
        if found.energy <= 0.0:
            low, best = middle, found
        else:
            high = middle
    return best


def _with(W: np.ndarray, before: np.ndarray, friction: np.ndarray, restitution: np.ndarray, poisson: np.ndarray, factor: float) -> Impact:
    e = factor * restitution
    r = before.copy()
    r[:, 0] += np.where(poisson, 0.0, e) * np.minimum(before[:, 0], 0.0)
    L = cone.solve(W, r, friction).L
    if (poisson & (e > 0.0)).any():
        given = np.zeros_like(L)
        given[:, 0] = np.where(poisson, e * L[:, 0], 0.0)
        between = r + (W @ (L + given).ravel()).reshape(-1, 3)
        L = L + given + cone.solve(W, between, friction, b=given[:, 0]).L
    after = before + (W @ L.ravel()).reshape(-1, 3)
    work = 0.5 * L * (before + after)
    energy = float(work.sum())
    return Impact(L, after, 0.0 if 0.0 < energy <= ROUNDING * float(np.abs(work).sum()) else energy, factor)
