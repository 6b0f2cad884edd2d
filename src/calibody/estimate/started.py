"""Rates that are known at the start, exactly or with an sd, as a motion has them: those that the balance of its first node lets it begin with (`mechanics/launch.py`).

In `free` coordinates, beside contacts, and where something rolls or gives way, that balance has unknowns which are none of the problem (`Run.launched`), and the rate is one of second order, like any other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from calibody.estimate import observe
from calibody.estimate.observe import Data, Sampled
from calibody.estimate.observed import Predicted
from calibody.estimate.run import Run
from calibody.mechanics.launch import Launch
from calibody.mechanics.point import Point
from calibody.mechanics.structure import Numbers
from calibody.model import Model


@dataclass(frozen=True, eq=False)
class Started:
    """The start of a run at a point."""

    run: Run
    model: Model
    launch: Launch

    @classmethod
    def of(cls, run: Run, model: Model, numbers: Numbers, point: Point) -> Started | None:
        """None where no rate is known, or its balance says nothing of it."""
        known = any(path.endswith(".rate") for path in run.recording.initial)
        return cls(run, model, run.launch(numbers, point)) if known and run.launched else None

    def dof(self, d: Data) -> int | None:
        """Which velocity is known; None of everything else."""
        if not (observe.is_initial(d.channel) and observe.is_rate(d.channel)):
            return None
        s = self.run.structure
        return s.scalar_coordinates[s.coordinate_index[d.channel.name]].dof

    def predicted(self, dof: int) -> Predicted:
        """A rate as if it were read; no sensor is between."""
        launch, K, nv = self.launch, self.run.K, self.run.structure.nv
        value = launch.rates[[dof]]

        def matrix(width: int) -> sp.csr_matrix:
            first, second = (by[dof] for by in launch.by_nodes)
            columns = np.concatenate([np.arange(nv), width + np.arange(nv)])
            return sp.csr_matrix((np.concatenate([first, second]), columns, [0, 2 * nv]), shape=(1, K * width))

        def first_of(by: np.ndarray) -> sp.csr_matrix:
            return sp.csr_matrix((by[[dof]], [0], [0, 1]), shape=(1, K - 1))

        noisy = {self.run.driven(self.model, channel)[:2] for deviation in self.run.uncertain for channel in deviation.gains}
        control = {a: first_of(launch.by_control(a)) for a in range(len(self.model.actuators))}
        applied = {row: first_of(launch.by_applied(row)) for target, row in noisy if target == "applied"}
        return Predicted(Sampled(value, np.zeros(1), matrix, lambda change: np.zeros(1), by_control=control, by_applied=applied), 1.0, 0.0)
