"""Index arrays of a structure that the discrete equations need, made once per structure and shared by every evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from calibody.mechanics.structure import FREE, TREE, Numbers, Row, Structure


@dataclass(frozen=True)
class Plan:
    """Index arrays of a structure, made once."""

    structure: Structure

    def prepare(self) -> None:
        """Make the index arrays now, before several threads ask for them."""
        _ = self.pairs, self.gradient_index, self.couplings, self.cross_index, self.moving, self.rows_by_kind
        if self.structure.coordinates != TREE:
            _ = self.blocks

    @cached_property
    def massive(self) -> np.ndarray:
        """Links that carry a body and can move."""
        s = self.structure
        return np.array([i for i, u in enumerate(s.units) if u.last and len(s.dofs_above[i])], dtype=np.int64)

    @cached_property
    def two_body(self) -> dict[str, np.ndarray]:
        link = self.structure.body_link
        model = self.structure.model
        return {
            "spring": np.array([(link[e.body1], link[e.body2]) for e in model.springs], dtype=np.int64).reshape(-1, 2),
            "bushing": np.array([(link[e.body1], link[e.body2]) for e in model.bushings], dtype=np.int64).reshape(-1, 2),
        }

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
        return np.array([self.structure.coordinate_index[a.joint] for a in self.structure.model.actuators], dtype=np.int64)

    @cached_property
    def couplings(self) -> np.ndarray:
        """(couplings, 2) scalar coordinates; the second is -1 where there is none."""
        s, loops = self.structure, {f"loop.{lp.name}": lp for lp in self.structure.model.loops}
        pairs = [(s.coordinate_index[loops[r.owner].joint1], s.coordinate_index[loops[r.owner].joint2] if loops[r.owner].joint2 else -1) for r in s.couplings]
        return np.array(pairs, dtype=np.int64).reshape(-1, 2)

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
        pairs = [tuple(p) for e in self.two_body.values() for p in e] + [(r.link_a, r.link_b) for r in s.perpendiculars + s.inlines]
        if s.coordinates != TREE:
            pairs += [tuple(p) for p in self.coordinate_links] + [tuple(p) for p in self.ball_links]
        return {(int(a), int(b)) for a, b in pairs if len(s.dofs_above[a]) and len(s.dofs_above[b])}

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
        return index

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        rows, columns = np.nonzero(self.index >= 0)
        order = np.argsort(self.index[rows, columns])
        return rows[order], columns[order]

    @cached_property
    def rows_by_kind(self) -> dict[str, tuple[np.ndarray, np.ndarray, int]]:
        """For points, perpendiculars, inlines: links a, links b, first constraint row."""
        s = self.structure
        out, row = {}, 0
        for kind, rows, width in (("point", s.points, 3), ("perpendicular", s.perpendiculars, 1), ("inline", s.inlines, 1)):
            out[kind] = (_links(rows, "link_a"), _links(rows, "link_b"), row)
            row += width * len(rows)
        return out

    @cached_property
    def gradient_index(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(row, dof) of every entry of G, and (nc, nv) -> entry."""
        s = self.structure
        related = np.zeros((s.nc, s.nv), dtype=bool)
        row = 0
        for rows, width in ((s.points, 3), (s.perpendiculars, 1), (s.inlines, 1)):
            for r in rows:
                related[row : row + width, s.dofs_above[r.link_a]] = True
                related[row : row + width, s.dofs_above[r.link_b]] = True
                row += width
        for c1, c2 in self.couplings:
            for c in (c1, c2):
                if c >= 0:
                    dofs = [self.coordinate_dof[c]] if s.coordinates == TREE else np.concatenate([s.dofs_above[x] for x in self.coordinate_links[c]])
                    related[row, dofs] = True
            row += 1
        rows, columns = np.nonzero(related)
        index = np.full((s.nc, s.nv), -1, dtype=np.int64)
        index[rows, columns] = np.arange(len(rows))
        return rows, columns, index


@lru_cache(maxsize=64)
def plan_of(structure: Structure) -> Plan:
    return Plan(structure)


def _links(rows: tuple[Row, ...], name: str) -> np.ndarray:
    return np.array([getattr(r, name) for r in rows], dtype=np.int64)
