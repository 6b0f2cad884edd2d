"""Index arrays of a structure that the discrete equations need, made once per structure and shared by every evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any

import numpy as np

from calibody.mechanics.elements import CONSTRAINTS, COORDINATE_FORCES, FORCES, PUSHES, compliant, coordinate, drive, path, push
from calibody.mechanics.elements.base import CoordinateConstraint, Measure
from calibody.mechanics.structure import FREE, TREE, Numbers, Structure


@dataclass(frozen=True)
class Group:
    """All elements of one type, at least one."""

    type: Any
    """`Constraint`, `CoordinateConstraint`, `Force`, `Push`, `CoordinateForce` or compliant contact."""
    touches: np.ndarray
    """(elements, links, or coordinates); of a `CoordinateForce` (elements,)"""
    row: int = -1
    """First constraint row; of pushes, first of the applied."""
    controls: np.ndarray | None = None
    """Of a `CoordinateForce`: the actuator whose control every element has; None: they have none."""

    @property
    def name(self) -> str:
        return self.type.name

    @property
    def rows(self) -> slice:
        """Its constraint rows."""
        return slice(self.row, self.row + self.type.rows * len(self.touches))

    @property
    def applied(self) -> slice:
        """The rows of pushes among the applied."""
        return slice(self.row, self.row + len(self.touches))


@dataclass(frozen=True)
class Plan:
    """Index arrays of a structure, made once."""

    structure: Structure

    def prepare(self) -> None:
        """Make the index arrays now, before several threads ask for them."""
        _ = (
            self.pairs,
            self.gradient_index,
            self.cross_index,
            self.moving,
            self.forces,
            self.encounters,
            self.pushes,
            self.pulled,
            self.constraints,
            self.coordinate_kinds,
            self.coordinate_forces,
            self.paths,
            self.path_order,
        )
        if self.structure.coordinates != TREE:
            _ = self.blocks

    @cached_property
    def massive(self) -> np.ndarray:
        """Links that carry a body and can move."""
        s = self.structure
        return np.array([i for i, u in enumerate(s.units) if u.last and len(s.dofs_above[i])], dtype=np.int64)

    @cached_property
    def forces(self) -> tuple[Group, ...]:
        """Force elements by type."""
        s = self.structure
        groups = ((t, [[s.body_link[b] for b in t.bodies(e)] for e in s.model.tables[t.name].values()]) for t in FORCES)
        return tuple(Group(t, np.array(links, dtype=np.int64)) for t, links in groups if links)

    @cached_property
    def encounters(self) -> tuple[Group, ...]:
        """Places of compliant contact by type."""
        link = self.structure.body_link
        found = compliant.groups_of(self.structure.model)
        return tuple(Group(t, np.array([[link[b] for b in spot.bodies] for spot in spots], dtype=np.int64)) for t, spots in found.items())

    @cached_property
    def pushes(self) -> tuple[Group, ...]:
        """Given forces on links by type."""
        s, out = self.structure, []
        for t in PUSHES:
            if own := [c for c in s.pushed if push.TYPES[c.kind, c.quantity] is t]:
                out.append(Group(t, np.array([[s.body_link[t.link(s.model, c)]] for c in own], dtype=np.int64), s.applied_row(own[0])))
        return tuple(out)

    @cached_property
    def pulled(self) -> tuple[np.ndarray, np.ndarray]:
        """Springs with a given tension, and the row of each among the applied."""
        s, springs = self.structure, [*self.structure.model.tables["spring"]]
        return np.array([springs.index(c.name) for c in s.pulled], dtype=np.int64), np.array([s.applied_row(c) for c in s.pulled], dtype=np.int64)

    @cached_property
    def coordinate_forces(self) -> tuple[Group, ...]:
        """Forces on joint coordinates and transmissions by type."""
        groups = ((t, np.array(t.touches(self.structure), dtype=np.int64)) for t in COORDINATE_FORCES)
        drives = {t.name: None if t.controls is None else np.array(t.controls(self.structure), dtype=np.int64) for t in COORDINATE_FORCES}
        return tuple(Group(t, touches, controls=drives[t.name]) for t, touches in groups if len(touches))

    def coordinate_inertia(self, numbers: Numbers) -> np.ndarray:
        """(coordinates and transmissions,) the inertias on them."""
        out = np.zeros(len(self.structure.law_owners))
        for group in self.coordinate_forces:
            if group.type.inertia:
                np.add.at(out, group.touches, numbers.elements[group.name][group.type.fields.index(group.type.inertia)])
        return out

    @cached_property
    def constraints(self) -> tuple[Group, ...]:
        """Constraint elements by type."""
        out, row = [], 0
        for t in CONSTRAINTS:
            if rows := self.structure.rows[t.name]:
                out.append(Group(t, np.array([r.touches for r in rows], dtype=np.int64), row))
                row = out[-1].rows.stop
        return tuple(out)

    @property
    def between_links(self) -> tuple[Group, ...]:
        return tuple(g for g in (*self.forces, *self.paths, *self.pushes, *self.constraints) if not isinstance(g.type, CoordinateConstraint))

    @cached_property
    def paths(self) -> tuple[Group, ...]:
        """Paths by type; what they touch are links."""
        s = self.structure
        links = {p.name: [s.body_link[b] for b in path.bodies_of(s.model, p)] for p in s.model.paths}
        found = path.groups_of(s.model)
        return tuple(Group(t, np.array([links[s.model.paths[i].name] for i in which], dtype=np.int64)) for t, which in found.items())

    @cached_property
    def path_order(self) -> tuple[np.ndarray, ...]:
        """Of every group of paths: which paths of the model they are."""
        return tuple(np.array(which, dtype=np.int64) for which in path.groups_of(self.structure.model).values())

    @property
    def first_path(self) -> int:
        """The place of the first path among scalar coordinates, transmissions and paths."""
        return len(self.structure.law_owners) - len(self.structure.model.paths)

    @cached_property
    def multipliers_apart(self) -> bool:
        """Whether some multipliers act through something else than the gradient of their row."""
        measured = self.structure.coordinates != TREE and len(self.coordinate_dof) > 0
        return (
            len(self.loaded_joint) > 0
            or bool(self.structure.rolling.any())
            or any(measured if isinstance(g.type, CoordinateConstraint) else g.type.measure.acts is not None for g in self.constraints)
        )

    @cached_property
    def coordinate_kinds(self) -> tuple[tuple[Measure, np.ndarray], ...]:
        """How scalar coordinates are measured between links: (measure, the coordinates it is for)."""
        kinds = ((coordinate.HINGE, np.flatnonzero(self.rotational)), (coordinate.SLIDE, np.flatnonzero(~self.rotational)))
        return tuple((kind, which) for kind, which in kinds if len(which))

    @cached_property
    def coordinate_links(self) -> np.ndarray:
        """(scalar coordinates, 2): parent and child link."""
        s = self.structure
        return np.array([(s.tree_parent[c.unit], c.unit) for c in s.scalar_coordinates], dtype=np.int64).reshape(-1, 2)

    @cached_property
    def ball_links(self) -> np.ndarray:
        s = self.structure
        return np.array([(s.tree_parent[c.unit], c.unit) for c in s.ball_coordinates], dtype=np.int64).reshape(-1, 2)

    @cached_property
    def rotational(self) -> np.ndarray:
        return np.array([c.rotational for c in self.structure.scalar_coordinates], dtype=bool)

    @cached_property
    def coordinate_dof(self) -> np.ndarray:
        return np.array([c.dof for c in self.structure.scalar_coordinates], dtype=np.int64)

    def coordinate_reference(self, numbers: Numbers) -> np.ndarray:
        """The coordinate's value where its two sides coincide: the joint's reference; none for the positions of a free joint."""
        s = self.structure
        return np.array([0.0 if s.tree_units[c.unit].kind == FREE else numbers.reference[c.unit] for c in s.scalar_coordinates])

    @cached_property
    def ball_dof(self) -> np.ndarray:
        return np.array([c.dof for c in self.structure.ball_coordinates], dtype=np.int64)

    @cached_property
    def actuator_coordinate(self) -> np.ndarray:
        """Which scalar coordinate every actuator acts on, or, counted on after these, which transmission or path."""
        return np.array(drive.TYPE.touches(self.structure), dtype=np.int64)

    def shares(self, c: int) -> list[tuple[int, float]]:
        """The scalar coordinates that a force on a coordinate or transmission acts on, and how much of it; a path pulls at links instead."""
        count = len(self.coordinate_dof)
        if c < count:
            return [(int(c), 1.0)]
        if c >= self.first_path:
            return []
        row = self.structure.combinations[c - count]
        return [(int(j), float(row[j])) for j in np.flatnonzero(row)]

    @cached_property
    def combined(self) -> tuple[tuple[int, int], ...]:
        """Pairs (i, j) of different scalar coordinates that a transmission ties together, both ways."""
        rows = (np.flatnonzero(row) for row in self.structure.combinations)
        return tuple(sorted({(int(i), int(j)) for row in rows for i in row for j in row if i != j}))

    # -- friction by load --------------------------------------------------------------------------------------------------------

    @cached_property
    def loaded_joint(self) -> dict[str, int]:
        """Joints with friction in proportion to their load, and their places; none in `tree`, which has no reactions."""
        return {name: j for j, name in enumerate(self.structure.loaded if self.structure.coordinates != TREE else ())}

    @cached_property
    def loaded_coordinates(self) -> tuple[np.ndarray, np.ndarray]:
        """Scalar coordinates with such friction, and the place of their joint."""
        return self._loaded([c.joint for c in self.structure.scalar_coordinates])

    @cached_property
    def loaded_balls(self) -> tuple[np.ndarray, np.ndarray]:
        """Ball coordinates with such friction, and the place of their joint."""
        return self._loaded([b.joint for b in self.structure.ball_coordinates])

    def _loaded(self, joints: list[str]) -> tuple[np.ndarray, np.ndarray]:
        found = [(i, self.loaded_joint[joint]) for i, joint in enumerate(joints) if joint in self.loaded_joint]
        first, second = np.array(found, dtype=np.int64).reshape(-1, 2).T
        return first, second

    @cached_property
    def load_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """(loaded joints, nc): 1 for the rows of a joint that hold places, and for those that hold directions."""
        s = self.structure
        own = np.array([[owner == f"joint.{name}" for owner in s.row_owners] for name in self.loaded_joint], dtype=float).reshape(-1, s.nc)
        angular = np.array(s.row_angular, dtype=bool)
        return np.where(angular, 0.0, own), np.where(angular, own, 0.0)

    # -- pairs -------------------------------------------------------------------------------------------------------------------

    @cached_property
    def upper(self) -> np.ndarray:
        """Pairs (j, i), i = j .. dof_end[j]: first pair of dof j."""
        s = self.structure
        return np.concatenate([[0], np.cumsum(s.dof_end - np.arange(s.nv))]).astype(np.int64)

    @cached_property
    def lower(self) -> np.ndarray:
        """Pairs (j, i), j = i + 1 .. dof_end[i]: first pair of dof i, after all upper pairs."""
        s = self.structure
        return self.upper[-1] + np.concatenate([[0], np.cumsum(s.dof_end - np.arange(s.nv) - 1)]).astype(np.int64)

    @cached_property
    def cross_links(self) -> set[tuple[int, int]]:
        """Pairs of different moving links between which some element has blocks."""
        s = self.structure
        touched = [links for g in self.between_links if not g.type.measure.apart for links in g.touches]
        touched += [links for g in self.encounters for links in g.touches]
        if s.coordinates != TREE:
            touched += [*self.coordinate_links, *self.ball_links]
            touched += [self.coordinate_links[np.flatnonzero(row)].ravel() for row in s.combinations]
        pairs = (pair for links in touched for pair in combinations(links.tolist(), 2))
        return {(min(a, b), max(a, b)) for a, b in pairs if a != b and len(s.dofs_above[a]) and len(s.dofs_above[b])}

    @cached_property
    def cross(self) -> tuple[tuple[int, int], ...]:
        """Ordered pairs (row link, column link) of `cross_links`, both ways."""
        return tuple(pair for a, b in sorted(self.cross_links) for pair in ((a, b), (b, a)))

    @cached_property
    def cross_index(self) -> dict[tuple[int, int], int]:
        return {pair: c for c, pair in enumerate(self.cross)}

    @cached_property
    def moving(self) -> np.ndarray:
        """(n + 1,) whether any degree of freedom moves the link."""
        return np.array([len(d) > 0 for d in self.structure.dofs_above])

    @cached_property
    def blocks(self) -> tuple[np.ndarray, np.ndarray]:
        """`free` only: row link and column link of every 6x6 block, blocks within links first."""
        own = [(i, i) for i in range(self.structure.n) if self.moving[i]]
        rows, columns = np.array([*own, *self.cross], dtype=np.int64).T
        return rows, columns

    @cached_property
    def index(self) -> np.ndarray:
        """(nv, nv): where the pair (j, i) stands, -1 where there is none.

        In `free` entry (r, c) of block b is pair (6 r + c) * blocks + b: the order in which the kernel returns them.
        """
        s = self.structure
        index = np.full((s.nv, s.nv), -1, dtype=np.int64)
        if s.coordinates != TREE:
            rows, columns = (s.v_start[:-1][x] for x in self.blocks)
            six = np.arange(6)
            index[rows + six[:, None, None], columns + six[None, :, None]] = np.arange(36 * len(rows)).reshape(6, 6, -1)
            return index
        for j in range(s.nv):
            width = int(s.dof_end[j]) - j
            index[j, j : j + width] = self.upper[j] + np.arange(width)
            index[j + 1 : j + width, j] = self.lower[j] + np.arange(width - 1)
        count = int(self.lower[-1])
        for a, b in sorted(self.cross_links):
            for x, y in ((a, b), (b, a)):
                block = np.ix_(s.dofs_above[x], s.dofs_above[y])
                new = index[block] < 0
                index[block] = np.where(new, count + np.cumsum(new).reshape(new.shape) - 1, index[block])
                count += int(new.sum())
        for i, j in self.combined:
            pair = self.coordinate_dof[i], self.coordinate_dof[j]
            if index[pair] < 0:
                index[pair], count = count, count + 1
        return index

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        rows, columns = np.nonzero(self.index >= 0)
        order = np.argsort(self.index[rows, columns])
        return rows[order], columns[order]

    @cached_property
    def gradient_index(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(row, dof) of every entry of G, and (nc, nv) -> entry."""
        s = self.structure
        related = np.zeros((s.nc, s.nv), dtype=bool)
        for group in self.constraints:
            for e, touched in enumerate(group.touches):
                row = group.row + group.type.rows * e
                related[row : row + group.type.rows, self.dofs_touched(group, touched)] = True
        rows, columns = np.nonzero(related)
        index = np.full((s.nc, s.nv), -1, dtype=np.int64)
        index[rows, columns] = np.arange(len(rows))
        return rows, columns, index

    def dofs_touched(self, group: Group, touched: np.ndarray) -> np.ndarray:
        """The degrees of freedom that an element's links (or coordinates) move with."""
        s = self.structure
        if isinstance(group.type, CoordinateConstraint):
            if s.coordinates == TREE:
                return self.coordinate_dof[touched]
            touched = self.coordinate_links[touched].ravel()
        return np.concatenate([s.dofs_above[link] for link in touched])


@lru_cache(maxsize=64)
def plan_of(structure: Structure) -> Plan:
    return Plan(structure)
