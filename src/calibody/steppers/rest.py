"""Poses at rest: where everything is in each of them, and nothing about how it moves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from calibody.errors import CalibodyError
from calibody.mechanics import channels
from calibody.mechanics.structure import Numbers, Structure
from calibody.model import Model
from calibody.steppers.motion import Motion

PLACED = ("angle", "position", "orientation", "pose", "com")
"""Quantities that a pose has."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Rest(Motion):
    """`rest["site.tool.position"]` has a row per pose; `rest.time` are their numbers. Rates, forces and energies are not known."""

    numbers_of_poses: np.ndarray

    @classmethod
    def of(cls, model: Model, structure: Structure, numbers: Numbers, q: np.ndarray, poses: np.ndarray) -> Rest:
        """Coordinates (nq, poses) of a tree, and the poses' numbers."""
        K = q.shape[1]
        return cls(
            model=model,
            structure=structure,
            numbers=numbers,
            h=1.0,
            q=np.concatenate([q, q[:, -1:]], axis=1),  # a motion has one node beyond the last
            multipliers=np.zeros((structure.nc, K + 1)),
            control=np.zeros((len(model.actuators), K)),
            applied=np.zeros((structure.tree_nv, K)),
            turns=None,
            delta=1.0,
            start_rate=np.zeros(structure.nv),
            joint_rate=np.zeros(structure.tree_nv),
            active=np.ones(structure.nc),
            iterations=0,
            notes=model.notes,
            start=float(poses[0]),
            numbers_of_poses=poses,
        )

    @cached_property
    def time(self) -> np.ndarray:
        return self.numbers_of_poses

    @cached_property
    def channels(self) -> tuple[str, ...]:
        return tuple(path for path, (_, _, quantity, _, _) in channels.catalogue(self.model).items() if quantity in PLACED)

    def __getitem__(self, path: str) -> np.ndarray:
        if channels.resolve(self.model, path).quantity not in PLACED:
            raise CalibodyError(f'"{path}" is not known of poses at rest; ask for angles, positions and orientations.')
        return super().__getitem__(path)

    def __str__(self) -> str:
        return f"{len(self.time)} poses of {self.model.name!r} at rest"
