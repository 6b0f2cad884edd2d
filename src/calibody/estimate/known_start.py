"""Starts that are known exactly, of mechanisms with closed loops: no motion has values that tear a loop apart.

A fit holds exact values as equations beside those of the loops. If they over-determine a loop and contradict it by more than rounding, no step lowers the cost, which says nothing about the cause; so it is
said before the first one. Values that agree with one another are no mistake, and neither are too many of them with an sd.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibody.errors import CalibodyError, SimulationError
from calibody.estimate.unknowns import Entry
from calibody.mechanics import host
from calibody.mechanics.geometry import PLACES
from calibody.mechanics.structure import TREE, Numbers, Structure
from calibody.model import Model
from calibody.model.paths import resolve
from calibody.recording.recording import Recording
from calibody.steppers.start import stiffened, tree_start

TOLD = 1e-7
"""Singular values of the loops' rows, in their units, below which a direction is none that they hold: a pose stretched out is closed to rounding errors, whose root this is."""


def refuse_torn(model: Model, recording: Recording, unknowns: Sequence[Entry]) -> None:
    """A sentence if the exact start of a recording cannot be, whatever the unknowns."""
    exact = _exact(recording)
    if not model.loops or not exact or _geometry(model, unknowns):
        return
    tree = Structure.build(stiffened(model), TREE)
    numbers = Numbers.of(tree)
    try:
        tree_start(tree, numbers, exact, "euclidean", 1.0)
    except SimulationError as torn:
        if not _overdetermined(tree, numbers, exact):  # it closes somewhere else than was looked for
            return
        raise CalibodyError(
            f'The run "{recording.name}" has exact initial values that contradict one another: {str(torn)[:-1]}, or give them an sd, {{ value = ..., sd = ... }}.'
        ) from None


def implied(model: Model, recording: Recording, unknowns: Sequence[Entry]) -> frozenset[str]:
    """The exact values that follow from those before them and the loops, which would be equations that depend on others; none where lengths or axes are unknown, which they tell."""
    exact = _exact(recording)
    if not model.loops or not exact or _geometry(model, unknowns):
        return frozenset()
    tree = Structure.build(stiffened(model), TREE)
    numbers = Numbers.of(tree)
    try:
        q = tree_start(tree, numbers, exact, "euclidean", 1.0).q
    except SimulationError:
        return frozenset()
    G = host.configuration(tree, numbers, q).G
    place = {c.joint: c.dof for c in tree.scalar_coordinates}
    held: dict[bool, np.ndarray] = {True: G, False: G}
    out = []
    for path in exact:
        joint, _, quantity = path.removeprefix("joint.").rpartition(".")
        row, rate = np.eye(tree.nv)[[place[joint]]], quantity == "rate"
        more = np.concatenate([held[rate], row])
        if np.linalg.matrix_rank(more, TOLD) > np.linalg.matrix_rank(held[rate], TOLD):
            held[rate] = more
        else:
            out.append(path)
    return frozenset(out)


def _exact(recording: Recording) -> dict[str, float]:
    return {path: known.value for path, known in recording.initial.items() if known.sd is None}


def _geometry(model: Model, unknowns: Sequence[Entry]) -> bool:
    """Whether lengths or axes are unknown: then such values may be what tells them."""
    places = [resolve(model, place.path) for entry in unknowns for place in entry.places if place.sensor is None]
    return any(place.kind == "loop" or place.field in PLACES.get(place.kind, ()) for place in places)


def _overdetermined(tree: Structure, numbers: Numbers, exact: dict[str, float]) -> bool:
    """Whether the loops have fewer ways left than they have equations, positions or rates held."""
    q, held = host.zero_coordinates(tree, numbers), {True: np.zeros(tree.nv, dtype=bool), False: np.zeros(tree.nv, dtype=bool)}
    for path, value in exact.items():
        joint, _, quantity = path.removeprefix("joint.").rpartition(".")
        i = next(i for i, u in enumerate(tree.units) if u.joint is not None and u.joint.name == joint)
        held[quantity == "rate"][tree.v_start[i]] = True
        if quantity != "rate":
            q[tree.q_start[i]] = value
    G = host.configuration(tree, numbers, q).G
    return any(np.linalg.matrix_rank(G[:, ~fixed]) < np.linalg.matrix_rank(G) for fixed in held.values())
