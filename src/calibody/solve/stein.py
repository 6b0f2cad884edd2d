"""Stein variational gradient descent [liu2016]: particles that climb the density together and push each other apart.

    du_i = mean over j of  k(u_j, u_i) grad log p(u_j) + grad_j k(u_j, u_i),        k(a, b) = exp(-|a - b|^2/width)

width the median of the squared distances over log(particles + 1). Steps are Adam's, gradients are clipped at `LARGEST`: those of motions that tumble grow without end. No physics.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LARGEST = 1e4
"""Norm of the gradient of a particle beyond which it is shortened."""
FORGETS = 0.9, 0.999
"""Of Adam: of the mean and of the mean square of gradients."""


def direction(u: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """(particles, numbers): where each goes."""
    apart = u[:, None] - u[None]
    squares = (apart**2).sum(axis=-1)
    width = float(np.median(squares)) / np.log(len(u) + 1.0) + 1e-12
    K = np.exp(-squares / width)
    return (K @ clipped(gradients) + 2.0 / width * (K[:, :, None] * apart).sum(axis=1)) / len(u)


def clipped(gradients: np.ndarray) -> np.ndarray:
    """Particle by particle; what is not finite is nothing."""
    flat = np.nan_to_num(gradients.reshape(len(gradients), -1), nan=0.0, posinf=LARGEST, neginf=-LARGEST)
    size = np.linalg.norm(flat, axis=1, keepdims=True)
    return (flat / np.maximum(1.0, size / LARGEST)).reshape(gradients.shape)


@dataclass
class Adam:
    """Steps of gradients whose sizes say little."""

    rate: float
    mean: np.ndarray | float = 0.0
    square: np.ndarray | float = 0.0
    count: int = 0

    def step(self, gradient: np.ndarray) -> np.ndarray:
        self.count += 1
        a, b = FORGETS
        self.mean = a * self.mean + (1.0 - a) * gradient
        self.square = b * self.square + (1.0 - b) * gradient**2
        return self.rate * (self.mean / (1.0 - a**self.count)) / (np.sqrt(self.square / (1.0 - b**self.count)) + 1e-8)
