"""Derivatives of the discrete equations with respect to the numbers of a model, by path.

Closed form, because they enter linearly or nearly so: mass, centre of mass and inertia (the regressor), gravity and its tilt, stiffness,
damping, friction, armature and the other numbers of joint laws, those of springs and bushings, and everything about actuators. Numbers that place bodies and joints of a tree are
degrees of freedom that nobody moves (`geometry.py`): one pass over the blocks of the equations serves all of them. What is left (points of springs,
bushings and loops; placements in `free` coordinates, where they are numbers of constraints) are differences of the whole equations, with a five-point stencil
whose error (a relative step of 1e-3 to the fourth power) lies near rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from calibody.errors import ModelError
from calibody.mechanics import assembly, kernels, shapes
from calibody.mechanics.assembly import Frames
from calibody.mechanics.elements import compliant
from calibody.mechanics.equations import chunks, contributions, evaluate
from calibody.mechanics.geometry import Shift, shift_of
from calibody.mechanics.plan import Group, Plan, plan_of
from calibody.mechanics.point import Point
from calibody.mechanics.structure import LOADED, TREE, Numbers, Structure
from calibody.mechanics.sums import along, composite
from calibody.model import Model
from calibody.model.elements import FORCE, INERTIAL, LOAD, SIGNAL, SOFTNESS
from calibody.model.paths import Place, number_of, resolve
from calibody.solve.threads import each
from calibody.spatial.inertia import pseudo_inertia_tangent

# Relative step of the five-point stencil: its error is this to the fourth power, that of rounding 1e-16 divided by it.
STEP = 1e-3
STENCIL = {-2: 1.0, -1: -8.0, 1: 8.0, 2: -1.0}
"""Weights over 12 steps."""
BALL_LAW = ("stiffness", "damping", "friction", "armature")


@dataclass(frozen=True)
class Columns:
    """Derivatives per path: of the residuals (paths, nv, K - 2) and of the constraints (paths, nc, K)."""

    residual: np.ndarray
    constraint: np.ndarray


def single(structure: Structure, paths: Sequence[str]) -> list[Place]:
    """The places of paths that name one number each."""
    places = [resolve(structure.model, p) for p in paths]
    for place in places:
        if place.component is None and number_of(structure.model, place).components:
            raise ModelError(f'The path "{place.path}" names several numbers; name one of them, for instance "{place.path}.x".')
    return places


def columns(structure: Structure, numbers: Numbers, point: Point, paths: Sequence[str], model: Model | None = None, frames: Frames | None = None) -> Columns:
    """Derivatives of residuals and constraints with respect to the numbers at `paths`; `model` has the values `numbers` were made of; `frames` of the point, if known."""
    places = single(structure, paths)
    if structure.coordinates != TREE and point.turns is None:
        point = replace(point, turns=assembly.turns_along(structure, numbers, point.q))
    worker = _Columns(structure, numbers, point, structure.model if model is None else model, frames, places)
    K = point.q.shape[1]
    residual, constraint = np.zeros((len(places), structure.nv, K - 2)), np.zeros((len(places), structure.nc, K))
    shifts = {k: shift for k, place in enumerate(places) if (shift := worker.shift(place)) is not None}
    for k, place in enumerate(places):
        if k not in shifts:
            residual[k], constraint[k] = worker.column(place)
    if shifts:
        residual[list(shifts)], constraint[list(shifts)] = worker.shifted(list(shifts.values()))
    return Columns(residual, constraint)


class _Columns:
    """Frames and regressors, computed once for all paths."""

    def __init__(self, structure: Structure, numbers: Numbers, point: Point, model: Model, frames: Frames | None, places: Sequence[Place]) -> None:
        self.structure, self.numbers, self.point, self.model = structure, numbers, point, model
        self.plan: Plan = plan_of(structure)
        self.frames: Frames = assembly.frames(structure, numbers, point) if frames is None else frames
        self.nodes, self.places = point.q.shape[1], places
        self.nothing = np.zeros((structure.nc, self.nodes))

    def column(self, place: Place) -> tuple[np.ndarray, np.ndarray]:
        kind, field, role = place.kind, place.field, number_of(self.model, place).role
        unloaded = role == LOAD and place.name not in self.plan.loaded_joint
        if kind == "site" and any((c.kind, c.name) == (kind, place.name) for c in self.structure.driven):
            return self._difference(place)
        if self._touches(place):
            return self._difference(place) if self._on_path(place) else (self._touching(place), self.nothing)
        if (
            kind in ("sensor", "contact") or (kind in ("site", "geometry") and not self._on_path(place)) or role in (SOFTNESS, SIGNAL) or unloaded
        ):  # not in the balance of the nodes
            return np.zeros((self.structure.nv, self.nodes - 2)), self.nothing
        if role == INERTIAL:
            return self._inertial(place), self.nothing
        if kind == "world":
            return self._gravity(place), self.nothing
        if kind in self._forces and role == FORCE:
            return self._between(place), self.nothing
        if kind in ("transmission", "path", "actuator", "limit") or (kind == "joint" and role == FORCE) or field in LOADED:
            return self._law(place), self.nothing
        return self._difference(place)

    def _on_path(self, place: Place) -> bool:
        """Whether a path runs through a site or around a shape."""
        return (place.kind == "geometry" or place.field == "position") and any((place.kind, place.name) in p.placed_by for p in self.model.paths)

    def _touches(self, place: Place) -> bool:
        """Whether a number is one of compliant contact: of its law, or of what touches."""
        if place.kind == "world" and not place.field.startswith("ground"):
            return False
        return (place.kind, "" if place.kind == "world" else place.name) in compliant.shapes_of(self.model)

    # -- closed forms ------------------------------------------------------------------------------------------------------------

    def _tangent(self, place: Place) -> np.ndarray:
        """(10,) how a number of a body changes those that the equations are linear in; most change few of them."""
        body = self.model.body(place.name)
        return pseudo_inertia_tangent(body.mass, body.com, place.field, place.component or 0)

    @cached_property
    def _regressors(self) -> dict[int, np.ndarray]:
        """By the numbers in question: wrenches (2, 6, massive links, K - 1) at both ends of the intervals."""
        inputs, links = assembly.body_inputs(self.plan, self.numbers, self.frames)[:2], len(self.plan.massive)
        which = np.flatnonzero(sum((np.abs(self._tangent(p)) for p in self.places if number_of(self.model, p).role == INERTIAL), np.zeros(10)))
        flat = kernels.run(kernels.body_regressor, inputs, (self.numbers.gravity, self.point.h, which.tolist()))
        return dict(zip(which.tolist(), flat.reshape(2, len(which), 6, links, -1).swapaxes(0, 1), strict=True))

    def _project(self, wrench: np.ndarray) -> np.ndarray:
        composite(self.structure.parent, wrench)
        return np.einsum("ajm,ajm->jm", self.frames.T[:, :, 1:-1], wrench[:, self.structure.dof_unit])

    def _inertial(self, place: Place) -> np.ndarray:
        link = self.structure.body_link[place.name]
        where = np.flatnonzero(self.plan.massive == link)
        out = np.zeros((self.structure.nv, self.nodes - 2))
        tangent = self._tangent(place)
        if len(where) and tangent.any():  # the place of a mass that is zero moves nothing
            left, right = sum(tangent[k] * self._regressors[k][:, :, where[0]] for k in np.flatnonzero(tangent).tolist())  # type: ignore[misc]
            dofs = self.structure.dofs_above[link]
            out[dofs] = np.einsum("ajm,am->jm", self.frames.T[:, dofs, 1:-1], left[:, 1:] + right[:, :-1])
        return out

    def _gravity(self, place: Place) -> np.ndarray:
        direction = gravity_by(self.model, place)
        left, right = np.einsum("c,ncwlk->nwlk", direction, self._by_gravity)
        wrench = np.zeros((6, self.structure.n + 1, self.nodes - 2))
        wrench[:, self.plan.massive] = left[..., 1:] + right[..., :-1]
        return self._project(wrench)

    @cached_property
    def _by_gravity(self) -> np.ndarray:
        """(2, 3, 6, massive links, K - 1)"""
        flat = kernels.run(kernels.body_gravity, assembly.body_inputs(self.plan, self.numbers, self.frames), (self.point.h,))
        return flat.reshape(2, 3, 6, len(self.plan.massive), -1)

    @cached_property
    def _forces(self) -> dict[str, Group]:
        """Elements with a law between links, by their table."""
        return {group.type.name: group for group in self.plan.forces}

    def _between(self, place: Place) -> np.ndarray:
        """Of the law of one element between links, which is linear in its numbers: a central difference has no error but rounding, with a step as large as the number."""
        group, (z, act) = self._forces[place.kind], self._measured(place.kind, place.name)
        value = float(self.model[place.path])
        step, t = max(abs(value), 1.0), 0.0
        for sign in (1.0, -1.0):
            changed = self.model.replace({place.path: value + sign * step}, check=False).tables[place.kind][place.name]
            data = np.array(group.type.numbers(changed), dtype=float)[:, None, None]
            t = t + sign / (2.0 * step) * np.stack(
                [x + 0.0 * z[0, :, 1:] for x in group.type.impulse(tuple(z[..., :-1]), tuple(z[..., 1:]), data, self.point.h)[0]]
            )
        wrench = np.zeros((6, self.structure.n + 1, self.nodes - 2))
        pushed = np.einsum("catem,cem->atem", act.A[..., 1:-1], t[..., 1:] + t[..., :-1])
        for arm, push in zip(act.measure.arms, pushed, strict=True):
            for k, sign in arm:
                wrench[: len(push), act.links[0, k]] += sign * push[:, 0]
        return self._project(wrench)

    def _measured(self, kind: str, name: str) -> tuple[np.ndarray, assembly.Act]:
        """What one element sees of its links, (quantities, 1, K), and how a force on that acts."""
        if (kind, name) not in self._seen:
            group, e = self._forces[kind], list(self.structure.model.tables[kind]).index(name)
            links, data = group.touches[e : e + 1], self.numbers.elements[group.name][:, e : e + 1, None]
            poses = self.frames.poses(links)
            self._seen[kind, name] = np.stack(group.type.measure.value(poses, data)), assembly.Act.of(group.type.measure, links, data, poses)
        return self._seen[kind, name]

    @cached_property
    def _seen(self) -> dict[tuple[str, str], tuple[np.ndarray, assembly.Act]]:
        """Elements of which several numbers may be asked for."""
        return {}

    def _on_coordinate(self, c: int, force: np.ndarray) -> np.ndarray:
        """A force (K - 2) on a scalar coordinate, a transmission or a path, in the rows of the equations."""
        out = np.zeros((self.structure.nv, self.nodes - 2))
        dofs, acts = assembly.rows_of(self.plan, self.numbers, self.frames, c)
        np.add.at(out, dofs, acts[:, 1:-1] * force)
        return out

    def _on_ball(self, k: int, force: np.ndarray) -> np.ndarray:
        """A force (3, K - 2) on a ball coordinate in the child's axes, in the rows of the equations."""
        if self.structure.coordinates == TREE:
            out = np.zeros((self.structure.nv, self.nodes - 2))
            dof = self.plan.ball_dof[k]
            out[dof : dof + 3] = force
            return out
        parent, child = self.plan.ball_links[k]
        wrench = np.zeros((6, self.structure.n + 1, self.nodes - 2))
        wrench[:3, child] = np.einsum("ijk,jk->ik", self.frames.H[:, :3, child, 1:-1], force)
        wrench[:3, parent] = -wrench[:3, child]
        return self._project(wrench)

    def _law(self, place: Place) -> np.ndarray:
        """Of forces on coordinates (`CoordinateForce`), of balls, and of friction by load."""
        h, plan, owner = self.point.h, self.plan, (place.kind, place.name)
        out = np.zeros((self.structure.nv, self.nodes - 2))
        sm, rho = assembly.interval_rates(self.frames, h)
        for group in plan.coordinate_forces:
            for e in (e for e, other in enumerate(group.type.owners(self.structure)) if other == owner and place.field in (*group.type.fields, *LOADED)):
                c = int(group.touches[e])
                if place.field == group.type.inertia:
                    out += self._on_coordinate(c, rho[c, 1:] - rho[c, :-1])
                    continue
                at = assembly.setting(group, self.point, len(sm), e)
                for field, data, weight in self._laws(group, e, place):
                    dt = group.type.by_numbers(sm[c], rho[c], data, at)[group.type.fields.index(field)] + np.zeros(self.nodes - 1)
                    out += self._on_coordinate(c, -0.5 * h * weight * (dt[1:] + dt[:-1]))
        for k, coordinate in enumerate(self.structure.ball_coordinates):
            if owner != ("joint", coordinate.joint) or place.field not in (*BALL_LAW, LOADED[0]):
                continue
            *_, rate, (psi_L, psi_R), slope = assembly.ball_interval(plan, self.numbers, self.point, self.frames, k)
            rate = np.stack(rate)
            if place.field == "armature":
                out += self._on_ball(k, rate[:, 1:] - rate[:, :-1])
                continue
            weight = self._loads[plan.loaded_joint[place.name]] if place.field == LOADED[0] else 1.0
            dt = {"stiffness": -0.5 * (np.stack(psi_L) + np.stack(psi_R)), "damping": -rate}.get(place.field, -slope * rate)
            out += self._on_ball(k, -0.5 * h * weight * (dt[:, 1:] + dt[:, :-1]))
        return out

    def _laws(self, group: Group, e: int, place: Place) -> Sequence[tuple[str, np.ndarray, np.ndarray | float]]:
        """Where a number stands in an element: as which field, the element's numbers, and what the force is multiplied by at the inner nodes. Friction by load is
        the joint's law once more, times the load."""
        free = getattr(self.structure.model.tables[place.kind][place.name], "kind", "") == "free" and place.field in ("friction", "springref")
        own = [(place.field, self.numbers.elements[group.name][:, e], 1.0)] if place.field in group.type.fields and not free else []
        by_load = {"load_friction": "friction", "load_stribeck": "stribeck", "friction_rate": "friction_rate", "stribeck_rate": "stribeck_rate"}.get(
            place.field
        )
        if by_load is None or place.kind != "joint" or place.name not in self.plan.loaded_joint:
            return own
        j = self.plan.loaded_joint[place.name]
        return [*own, (by_load, assembly.load_law(self.numbers, e, j), self._loads[j])]

    def _touching(self, place: Place) -> np.ndarray:
        """Of compliant contact: the law's numbers directly; those of shapes through the gap, the normal and the place, which are smooth in them."""
        out, f = np.zeros((6, self.structure.n + 1, self.nodes - 2)), self.frames
        for group, spots in zip(self.plan.encounters, compliant.groups_of(self.model).values(), strict=True):
            kind, data = group.type, self.numbers.elements[group.name][:, :, None]
            found = kind.exchange(
                assembly.link_pairs(f, group.touches, assembly.LEFT), assembly.link_pairs(f, group.touches, assembly.RIGHT), data, self.point.h
            )
            if place.kind == "contact" and place.field in compliant.LAW:
                mine = np.array([1.0 * (self.model.contacts[spot.owner].name == place.name) for spot in spots])[:, None]
                left, right = (x * mine for x in kind.by_law(found, data, place.field))
            else:
                left, right = self._by_shape(group, found, data, place)
            wrench = (left[:, 0, :, 1:] + right[:, 0, :, :-1])[None]
            for sign, column in ((1.0, 0), (-1.0, 1)):
                np.add.at(out.swapaxes(0, 1), group.touches[:, column], sign * wrench[0].swapaxes(0, 1))
        return self._project(out)

    def _by_shape(self, group: Group, found: compliant.Exchange, data: np.ndarray, place: Place) -> tuple[np.ndarray, np.ndarray]:
        """(6, 1, places, K - 1) of both impulses of an interval."""
        kind, changed = group.type, 0.0
        value = float(self.model[place.path])
        step = STEP * max(abs(value), 0.1)
        poses = assembly.link_pairs(self.frames, group.touches, slice(None))
        for offset, weight in STENCIL.items():
            model = self.model.replace({place.path: value + offset * step}, check=False)
            spots = compliant.groups_of(model)[kind]
            touch = shapes.KERNELS[kind.kernel](*poses, np.array([spot.data for spot in spots]).T[:, :, None])
            changed = changed + weight / (12.0 * step) * np.concatenate([touch.gap[None], touch.normal, touch.at_a])
        left, right = 0.0, 0.0
        for end, nodes in enumerate((assembly.LEFT, assembly.RIGHT)):
            by = changed[..., nodes][:, None]  # type: ignore[index]
            a, b = kind.by_end(found, end, by[0], by[1:4], by[4:], 0.0 * by[4:])
            left, right = left + a, right + b
        return left, right  # type: ignore[return-value]

    @cached_property
    def _loads(self) -> np.ndarray:
        return assembly.loads(self.plan, self.numbers, self.point)[0]

    # -- places ---------------------------------------------------------------------------------------------------------------------

    def shift(self, place: Place) -> Shift | None:
        """How a number moves links, where that is all it does; links that nothing else moves have no blocks, so nothing may act on those."""
        s = self.structure
        if (
            s.rolling.any()
            or s.coordinates != TREE
            or ((place.kind, place.field) == ("joint", "reference") and any(place.name in (x.joint1, x.joint2) for x in s.model.loops))
        ):
            return None
        found = shift_of(s, self.numbers, self.model, place)
        still = found is not None and any(found.moves(s, link) and not self.plan.moving[link] for link in self._held)
        return None if still else found

    @cached_property
    def _held(self) -> set[int]:
        """Links that elements act on."""
        return {int(link) for group in (*self.plan.between_links, *self.plan.encounters) for link in group.touches.ravel()}

    def shifted(self, shifts: Sequence[Shift]) -> tuple[np.ndarray, np.ndarray]:
        """Columns (shifts, nv, K - 2) and (shifts, nc, K), piece by piece of the nodes."""
        s, K = self.structure, self.nodes
        residual, constraint = np.empty((len(shifts), s.nv, K - 2)), np.zeros((len(shifts), s.nc, K))
        self.plan.prepare()

        def fill(piece: tuple[int, int]) -> None:
            first, end = piece
            point = self.point.at(slice(first, end), slice(first, end - 1))
            f = self.frames.between(first, end)
            sums, _ = contributions(self.plan, self.numbers, point, f, True)
            moved = [(x.unit, *x.twists(s, f.H)) for x in shifts]
            residual[:, :, first : end - 2] = along(self.plan, f.T, sums, moved)
            for group, act in assembly.constraint_acts(self.plan, self.numbers, f):
                for k, (x, (_, _, link)) in enumerate(zip(shifts, moved, strict=True)):
                    for row, on, wrench, _ in act.rows(group.row):
                        if x.moves(s, on):
                            constraint[k, row : row + len(wrench), first:end] += np.einsum("rtk,tk->rk", wrench, link[: wrench.shape[1]])

        each(fill, chunks(s, K))
        return residual, constraint

    # -- differences ---------------------------------------------------------------------------------------------------------------

    def _difference(self, place: Place) -> tuple[np.ndarray, np.ndarray]:
        model = self.model
        value = float(model[place.path])
        step = STEP * max(abs(value), 0.1)
        residual, constraint = 0.0, 0.0
        for offset, weight in STENCIL.items():
            numbers = Numbers.of(self.structure, model.replace({place.path: value + offset * step}, check=False))
            result = evaluate(self.structure, numbers, self.point, derivatives=False)
            residual, constraint = residual + weight * result.residual, constraint + weight * result.constraint
        return residual / (12.0 * step), constraint / (12.0 * step)  # type: ignore[return-value]


def gravity_by(model: Model, place: Place) -> np.ndarray:
    """(3,): the change of gravity with one of its components, or with its tilt."""
    if place.field == "gravity":
        unit = np.eye(3)[place.component or 0]
        return replace(model, world=replace(model.world, gravity=tuple(unit))).gravity  # linear: the tilted unit vector
    step = 1e-4
    low, high = (replace(model, world=replace(model.world, tilt=_moved(model.world.tilt, place.component or 0, s * step))).gravity for s in (-1, 1))
    low2, high2 = (replace(model, world=replace(model.world, tilt=_moved(model.world.tilt, place.component or 0, s * step))).gravity for s in (-2, 2))
    return (8.0 * (high - low) - (high2 - low2)) / (12.0 * step)


def _moved(values: tuple[float, ...], component: int, by: float) -> tuple[float, ...]:
    return tuple(x + by if i == component else x for i, x in enumerate(values))
