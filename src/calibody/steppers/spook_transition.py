"""What it takes to get from one state to the next: residuals of the regularised stepper between given states, with their derivatives.

With a state `x = (q, v)` and the next one, inverse dynamics gives two impulses that nothing in the model explains ([marklund2025], equations 3.7 and 3.8):

    dp_v = M (v+ - v) - G'lam - N'lam_N - h (f + f_gyro)      with the next velocity v+
    dp_q = the same with  w = (q+ [-] q)/h  in place of v+    and multipliers evaluated at w

`[-]` is the difference of the centres of mass and the exact logarithm of the rotation, so both are zero for the stepper's own motions. lam are impulses
of the joints, `c = G v+ + S lam - Y (G v - 4 g/h) = 0`; lam_N act along the joints' axes N with the rates `r+ = N v+`, `r = N v`:

    lam_N = -b h r+ - J (r+ - r) + h t + lam_t        damping, shaft, drives and springs; dry friction as in `spook_inverse`

*Lifted*, lam are unknowns and c are equations; *eliminated*, `lam = -(G v+ - Y (G v - 4 g/h))/S` is put into dp. The first state has none before it; its
distance to the constraints counts instead, as an impulse (equations 3.16 and 3.17):

    dp = (M + N'K N) d - G'lam,   c = G d + S lam = 0,      d = G^+ G v  for dp_v,   d = -G^+ g/h  for dp_q,   K = b h + J

All derivatives are closed form (those of the first state exact where the constraints hold). Arrays have the states first. Inside, bodies are
displaced by (displacement of the centre of mass, turn) in world axes; outside, by the tangents of `kinematics.retract`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from calibody.mechanics import assembly, rows as two_body
from calibody.mechanics.assembly import Frames
from calibody.mechanics.elements.drive import exerted
from calibody.mechanics.elements.law import LAW
from calibody.mechanics.plan import plan_of
from calibody.mechanics.structure import Numbers, Structure
from calibody.spatial import algebra as al
from calibody.steppers.spook_rows import Rows, Values, moving, step_velocities

AXIS_NUMBERS, DRY_NUMBERS = ("damping", "armature"), ("limit", "load_limit", "stribeck_rate", "lever", "slip", "limit_slope")
"""Values that act along the joints' axes only; those of dry friction."""
CHUNK = 4000
"""Steps at a time: enough that the calls into numpy do not count; it bounds the memory. (Two threads were no faster: the calls are too short.)"""
ALL_BUT_LAST = slice(0, -1)
ALMOST = 1e-12
"""Of the mean diagonal, added to `G G'` so that dependent rows (planar loops) can be projected too."""


@dataclass(frozen=True)
class Blocks:
    """Residuals of all K states, each from the one before, and their derivatives. Rows: dp_v, dp_q; lifted also c_v, c_q."""

    value: np.ndarray
    """(K, rows)"""
    before: np.ndarray
    """(K, rows, 2 nv): by (q, v) of the state before (zero for the first)."""
    after: np.ndarray
    """(K, rows, 2 nv): by (q, v) of the state itself."""
    by_multipliers: np.ndarray
    """(K, rows, 2 nc): by lam_v, lam_q; lifted only, else without columns."""


@dataclass(frozen=True)
class Place:
    """Everything that depends on the configurations only."""

    frames: Frames
    R: np.ndarray
    """(K, bodies, 3, 3)"""
    com: np.ndarray
    """(3, bodies) in the bodies' frames."""
    G: two_body.Rows
    N: two_body.Rows
    w: np.ndarray
    """(K - 1, nv): (q+ [-] q)/h"""
    turn: np.ndarray
    """(K - 1, bodies, 3): h times its angular part."""
    before: np.ndarray
    """(K, axis rows, nv): N at the state that the stepper would have come from (differs from N for slides and balls only)."""

    def at(self, first: int, end: int) -> Place:
        """The states first .. end - 1."""
        nodes, steps = slice(first, end), slice(first, end - 1)
        f = self.frames
        frames = Frames(f.H[..., nodes], f.T[..., nodes], f.s[:, nodes], f.gradient[..., nodes], f.acts[..., nodes])
        return Place(frames, self.R[nodes], self.com, self.G.at(nodes), self.N.at(nodes), self.w[steps], self.turn[steps], self.before[nodes])


@dataclass(frozen=True)
class Signals:
    """What acts from outside in the steps k .. k + 1."""

    control: np.ndarray
    """(actuators, K - 1)"""
    applied: np.ndarray
    """(tree velocities, K - 1)"""

    def at(self, first: int, end: int) -> Signals:
        return Signals(self.control[:, first:end], self.applied[:, first:end])


@dataclass(frozen=True)
class _Way:
    """A choice of the next velocity and of the multipliers, and what all balances take of it."""

    next: np.ndarray
    lam: np.ndarray
    rate: np.ndarray
    """(K - 1, axis rows) each: `N v+`, `N v`, and that with the axes of the step before."""
    old: np.ndarray
    before: np.ndarray
    local: np.ndarray
    """(K - 1, bodies, 3, 2): change of the angular velocity and the velocity itself, in the body's axes."""


@dataclass(frozen=True)
class _Side:
    """Balance for one choice of the next velocity: value, derivatives by (velocity, displacement, next velocity) side by side and by multipliers."""

    value: np.ndarray
    by: np.ndarray
    by_lam: np.ndarray


@dataclass(frozen=True, eq=False)
class Transition:
    """The residuals of one mechanism with the step h."""

    rows: Rows
    h: float

    @property
    def structure(self) -> Structure:
        return self.rows.structure

    @property
    def nv(self) -> int:
        return self.structure.nv

    @property
    def nc(self) -> int:
        return self.structure.nc

    @cached_property
    def units(self) -> np.ndarray:
        return moving(self.structure)

    # -- configurations ----------------------------------------------------------------------------------------------------------------

    def place(self, numbers: Numbers, values: Values, q: np.ndarray, v: np.ndarray, near: np.ndarray | None = None) -> Place:
        """q (nq, K), v (K, nv); `near` as of `assembly.turns_along`."""
        s, K = self.structure, q.shape[1]
        f, centres = self._frames(numbers, values, q, assembly.turns_along(s, numbers, q, near))
        N = two_body.axis_rows(s, numbers, f, centres)
        w = step_velocities(s, values, q, self.h).T
        turn = self.h * w.reshape(K - 1, len(self.units), 6)[:, :, 3:]
        before = N.first
        if not self.rows.hinge[self.rows.shaft].all():
            earlier = self._earlier(values, q, v)
            before = two_body.axis_rows(s, numbers, *self._frames(numbers, values, earlier, np.zeros_like(f.s))).first
        G = two_body.constraint_rows(s, numbers, f, centres)
        return Place(f, f.H[:, :3, self.units].transpose(3, 2, 0, 1), values.com, G, N, w, turn, before)

    def _frames(self, numbers: Numbers, values: Values, q: np.ndarray, turns: np.ndarray) -> tuple[Frames, np.ndarray]:
        """And the centres of mass of all links, (3, links, K)."""
        s = self.structure
        f = assembly.frames_at(s, numbers, q, turns)
        local = np.zeros((3, s.n + 1))
        local[:, self.units] = values.com
        return f, np.einsum("ijlk,jl->ilk", f.H[:, :3], local) + f.H[:, 3]

    def _earlier(self, values: Values, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """One step back along v: a shaft's rate is that of the axes of the step before (`spook_step.free_rows`)."""
        earlier = q.copy()
        for k, at in enumerate(self.structure.q_start[self.units]):
            e, com = tuple(q[at + 3 + j] for j in range(4)), tuple(values.com[:, k, None])
            back = al.quaternion_exp(tuple(-self.h * v[:, 6 * k + 3 + j] for j in range(3)))  # type: ignore[arg-type]
            turned = al.quaternion_normalised(al.quaternion_product(back, e))  # type: ignore[arg-type]
            moved = np.stack(al.sub(al.matvec(al.quaternion_matrix(e), com), al.matvec(al.quaternion_matrix(turned), com)))  # type: ignore[arg-type]
            earlier[at : at + 3] += moved - self.h * v[:, 6 * k : 6 * k + 3].T
            earlier[at + 3 : at + 7] = np.stack(turned)
        return earlier

    # -- the balance of one step -----------------------------------------------------------------------------------------------------

    @staticmethod
    def _inertia(values: Values, R: np.ndarray) -> np.ndarray:
        """(..., bodies, 3, 3): R J R'"""
        return R @ values.inertia.transpose(2, 0, 1) @ R.swapaxes(-1, -2)

    def stiffness(self, values: Values) -> np.ndarray:
        """(nc,): 1/S, what a velocity across a joint is answered with [kg, kg m^2]."""
        return 1.0 / values.regularisation(self.h)[1]

    def _drives(self, values: Values, p: Place, outside: Signals) -> tuple[np.ndarray, np.ndarray]:
        """(K - 1, axis rows) what drives and springs of the coordinates exert, and its slope with the coordinate."""
        plan = plan_of(self.structure)
        s = p.frames.s[:, :-1]
        t, slope = outside.applied[plan.coordinate_dof].copy(), np.zeros_like(s)
        for a, c in enumerate(plan.actuator_coordinate):
            force, by_s, *_ = exerted(s[c], 0.0 * s[c], outside.control[a], tuple(values.base.elements["drive"][:, a]))
            t[c] += force
            slope[c] += by_s
        stiffness, rest = (values.base.elements["law"][LAW.index(name)][:, None] for name in ("stiffness", "springref"))
        t, slope = t - stiffness * (s - rest), slope - stiffness
        balls = (plan.ball_dof[:, None] + np.arange(3)).reshape(-1)
        t = np.concatenate([t, outside.applied[balls]])
        return t.T, np.concatenate([slope, np.zeros((len(balls), slope.shape[1]))]).T

    def _multipliers(self, values: Values, p: Place, v: np.ndarray, v_next: np.ndarray) -> np.ndarray:
        """(K - 1, nc): lam of the eliminated form."""
        Y, S = values.regularisation(self.h)
        G = p.G.first[:-1]
        return -(_dot(G, v_next) - Y * (_dot(G, v[:-1]) - 4.0 / self.h * p.G.value[:-1])) / S

    def _ways(self, values: Values, p: Place, v: np.ndarray, lam: np.ndarray | None) -> list[_Way]:
        """For dp_v and for dp_q."""
        nexts, N = (v[1:], p.w), p.N.first[:-1]
        lams = [self._multipliers(values, p, v, n) for n in nexts] if lam is None else [lam[1:, : self.nc], lam[1:, self.nc :]]
        old, before = _dot(N, v[:-1]), _dot(p.before[:-1], v[:-1])
        back, omega = p.R[:-1].swapaxes(-1, -2), v[:-1].reshape(len(v) - 1, -1, 6)[:, :, 3:]
        out = []
        for n, own in zip(nexts, lams, strict=True):
            change = n.reshape(len(n), -1, 6)[:, :, 3:] - omega
            out.append(_Way(n, own, _dot(N, n), old, before, back @ np.stack([change, omega], axis=-1)))
        return out

    def _balance(self, values: Values, p: Place, v: np.ndarray, way: _Way, along: np.ndarray) -> np.ndarray:
        """(K - 1, nv)"""
        return self._bodies(values, p, v, way) - _back(p.G.first[:-1], way.lam) - _back(p.N.first[:-1], along)

    def _bodies(self, values: Values, p: Place, v: np.ndarray, way: _Way) -> np.ndarray:
        """`M (v+ - v) - h (weight + f_gyro)`: linear in masses and inertias, and in gravity."""
        h, out = self.h, np.zeros_like(v)
        for b in range(len(self.units)):
            x, o = slice(6 * b, 6 * b + 3), slice(6 * b + 3, 6 * b + 6)
            if values.mass[b]:
                out[:, x] = values.mass[b] * (way.next[:, x] - v[:, x] - h * values.base.gravity)
            if values.inertia[:, :, b].any():
                momentum = p.R[:-1, b] @ (values.inertia[:, :, b] @ way.local[:, b])
                out[:, o] = momentum[:, :, 0] + h * np.cross(v[:, o], momentum[:, :, 1])
        return out

    def _along_axes(self, values: Values, p: Place, outside: Signals, way: _Way) -> np.ndarray:
        """(K - 1, axis rows): lam_N without dry friction."""
        return -values.damping * self.h * way.rate - values.armature * (way.rate - way.before) + self.h * self._drives(values, p, outside)[0]

    def _friction(self, values: Values, way: _Way) -> _Friction:
        return _Friction.of(self.rows, values, way.old, way.rate, way.lam, self.h)

    def _value(self, values: Values, p: Place, outside: Signals, v: np.ndarray, way: _Way) -> np.ndarray:
        along = self._along_axes(values, p, outside, way)
        if self.rows.dry:
            along[:, self.rows.axes] += self._friction(values, way).impulse
        return self._balance(values, p, v[:-1], way, along)

    def _side(self, values: Values, p: Place, outside: Signals, v: np.ndarray, way: _Way) -> _Side:
        """The balance and its derivatives, lam being independent."""
        h, nv, v, v_next = self.h, self.nv, v[:-1], way.next
        velocity, place, next_ = (slice(k * nv, (k + 1) * nv) for k in range(3))
        G, N, before = p.G.first[:-1], p.N.first[:-1], p.before[:-1]
        G_rows, N_rows = p.G.at(ALL_BUT_LAST), p.N.at(ALL_BUT_LAST)
        along, friction = self._along_axes(values, p, outside, way), None
        if self.rows.dry:
            friction = self._friction(values, way)
            along[:, self.rows.axes] += friction.impulse
        value = self._balance(values, p, v, way, along)
        by = np.zeros((len(v), nv, 3 * nv))
        by[:, :, place] -= G_rows.bent(way.lam)
        by[:, :, place] -= N_rows.bent(along)
        I = self._inertia(values, p.R[:-1])
        by_velocity, by_place, by_next = (by[:, :, part] for part in (velocity, place, next_))
        for b in range(len(self.units)):
            x, o = slice(6 * b, 6 * b + 3), slice(6 * b + 3, 6 * b + 6)
            change, own, spin = (v_next - v)[:, o], I[:, b], two_body.cross(_dot(I[:, b], v[:, o]))
            omega, cross = two_body.cross(v[:, o]), two_body.cross
            turned = own @ omega - spin  # change of I omega with a turn
            by_place[:, o, o] += own @ cross(change) - cross(_dot(own, change)) + h * omega @ turned
            by_velocity[:, o, o] += h * (omega @ own - spin) - own
            by_next[:, o, o] += own
            by_velocity[:, x, x] -= values.mass[b] * np.eye(3)
            by_next[:, x, x] += values.mass[b] * np.eye(3)
        # lam_N likewise
        weight, slope = (values.damping * h + values.armature)[:, None], h * self._drives(values, p, outside)[1][:, :, None]
        turning, turned_before = N_rows.along(v_next), N_rows.along(v)
        shaft = values.armature[:, None]
        axes = np.concatenate([shaft * before, -weight * turning + shaft * turned_before + slope * N, -weight * N], axis=2)
        by_lam = -G.swapaxes(1, 2)
        if friction is not None:
            dry = self.rows.axes
            axes[:, dry, nv:] += friction.by_rate @ np.concatenate([turning[:, dry], N[:, dry]], axis=2)
            axes[:, dry, : 2 * nv] += friction.by_old @ np.concatenate([N[:, dry], turned_before[:, dry]], axis=2)
            by_lam = by_lam - N[:, dry].swapaxes(1, 2) @ friction.by_lam
        by -= N.swapaxes(1, 2) @ axes
        return _Side(value, by, by_lam)

    # -- all states ------------------------------------------------------------------------------------------------------------------

    def values(self, values: Values, p: Place, outside: Signals, v: np.ndarray, lam: np.ndarray | None) -> np.ndarray:
        """(K, rows); `lam` (K, 2 nc) lifted, None eliminated."""
        _, S = values.regularisation(self.h)
        ways = self._ways(values, p, v, lam)
        parts = [self._value(values, p, outside, v, way) for way in ways]
        if lam is not None:
            parts += [S * (way.lam - self._multipliers(values, p, v, way.next)) for way in ways]
        return np.concatenate([self._first(values, p, v, lam).value[None], np.concatenate(parts, axis=1)])

    def blocks(self, values: Values, p: Place, outside: Signals, v: np.ndarray, lam: np.ndarray | None) -> Blocks:
        nv, nc, K = self.nv, self.nc, len(v)
        size, inner = (2 * nv, 0) if lam is None else (2 * nv + 2 * nc, 2 * nc)
        out = Blocks(np.zeros((K, size)), np.zeros((K, size, 2 * nv)), np.zeros((K, size, 2 * nv)), np.zeros((K, size, inner)))
        first = self._first(values, p, v, lam)
        out.value[0], out.after[0], out.by_multipliers[0] = first.value, first.after, first.by_multipliers
        out.after[0, :, :nv] = out.after[0, :, :nv] @ self.tangents(p.at(0, 1))[0]

        for k in range(0, K - 1, CHUNK):
            end = min(k + CHUNK, K - 1)
            here = slice(k + 1, end + 1)
            part = Blocks(*(a[here] for a in (out.value, out.before, out.after, out.by_multipliers)))
            self._chunk(values, p.at(k, end + 1), outside.at(k, end), v[k : end + 1], None if lam is None else lam[k : end + 1], part)
        return out

    def _chunk(self, values: Values, p: Place, outside: Signals, v: np.ndarray, lam: np.ndarray | None, out: Blocks) -> None:
        """The blocks of the steps between the states given, into `out`."""
        nv, nc = self.nv, self.nc
        Y, S = values.regularisation(self.h)
        G, rows = p.G.first[:-1], p.G.at(ALL_BUT_LAST)
        still = Y[:, None] * (rows.along(v[:-1]) - 4.0 / self.h * G)
        B = self.tangents(p)
        by_turn, by_turn_next = self._velocity_by_place(p)
        moved, moved_next = np.concatenate([B[:-1], by_turn @ B[:-1]], axis=1), by_turn_next @ B[1:]  # of (displacement, w) by the tangents
        c_by = np.concatenate([-Y[:, None] * G, G, G], axis=2)
        for k, way in enumerate(self._ways(values, p, v, lam)):
            side = self._side(values, p, outside, v, way)
            c_by[:, :, nv : 2 * nv] = rows.along(way.next) - still
            own_rows, c_rows = slice(k * nv, (k + 1) * nv), slice(2 * nv + k * nc, 2 * nv + (k + 1) * nc)
            pieces = [(own_rows, side.value, side.by)]
            if lam is not None:
                pieces.append((c_rows, S * (way.lam - self._multipliers(values, p, v, way.next)), c_by))
                out.by_multipliers[:, own_rows, k * nc : (k + 1) * nc] = side.by_lam
                out.by_multipliers[:, c_rows, k * nc : (k + 1) * nc] = np.diag(S)
            else:
                np.add(side.by, (side.by_lam / -S) @ c_by, out=side.by)
            for r, residual, by in pieces:
                out.value[:, r], out.before[:, r, nv:] = residual, by[:, :, :nv]
                if k == 0:
                    out.after[:, r, nv:] = by[:, :, 2 * nv :]
                    out.before[:, r, :nv] = by[:, :, nv : 2 * nv] @ B[:-1]
                else:
                    out.before[:, r, :nv] = by[:, :, nv:] @ moved
                    out.after[:, r, :nv] = by[:, :, 2 * nv :] @ moved_next

    def change(self, ends: Sequence[tuple[Values, Values]], p: Place, outside: Signals, v: np.ndarray, lam: np.ndarray | None) -> Iterator[np.ndarray]:
        """(K, rows) each: `values(high) - values(low)` at the same place, without what both share."""
        size = 2 * self.nv + (0 if lam is None else 2 * self.nc)
        d = self._away(p, v)[0]
        ways: list[_Way] = []
        for high, low in ends:
            if not np.array_equal(high.softness, low.softness):
                yield self.values(high, p, outside, v, lam) - self.values(low, p, outside, v, lam)
                continue
            ways = ways or self._ways(high, p, v, lam)
            out = np.zeros((len(v), size))
            out[0, : 2 * self.nv] = np.concatenate([(self._mass(high, p) - self._mass(low, p)) @ x for x in d])
            gravity = high.base.gravity - low.base.gravity
            massive = _differ(high, low, ("mass", "inertia"))
            axes = _differ(high, low, AXIS_NUMBERS) or any(not np.array_equal(high.base.elements[name], low.base.elements[name]) for name in ("law", "drive"))
            dry = _differ(high, low, DRY_NUMBERS)
            for k, way in enumerate(ways):
                rows = slice(k * self.nv, (k + 1) * self.nv)
                if massive:
                    out[1:, rows] += self._bodies(high._replace(mass=high.mass - low.mass, inertia=high.inertia - low.inertia), p, v[:-1], way)
                if gravity.any():
                    weight = np.zeros((len(self.units), 6))
                    weight[:, :3] = low.mass[:, None] * gravity
                    out[1:, rows] -= self.h * weight.ravel()
                if axes:
                    out[1:, rows] -= _back(p.N.first[:-1], self._along_axes(high, p, outside, way) - self._along_axes(low, p, outside, way))
                if dry:
                    out[1:, rows] -= _back(p.N.first[:-1, self.rows.axes], self._friction(high, way).impulse - self._friction(low, way).impulse)
            yield out

    def _velocity_by_place(self, p: Place) -> tuple[np.ndarray, np.ndarray]:
        """(K - 1, nv, nv) each: w by the displacements of both states; a turn of the second adds `J_l^-1`, one of the first takes `J_r^-1` away."""
        eye = np.broadcast_to(np.eye(3), (*p.turn.shape, 3))
        cross = two_body.cross(p.turn)
        angle = np.linalg.norm(p.turn, axis=2)
        small = angle < 1e-3  # series: 1/12 + angle^2/720
        safe = np.where(small, 1.0, angle)
        c = np.where(small, 1.0 / 12.0 + angle**2 / 720.0, 1.0 / safe**2 - (1.0 + np.cos(safe)) / (2.0 * safe * np.sin(safe)))
        square = c[:, :, None, None] * (cross @ cross)
        K, n = p.turn.shape[:2]
        first, second = np.zeros((K, n, 6, n, 6)), np.zeros((K, n, 6, n, 6))
        for b in range(n):
            first[:, b, :3, b, :3] = -np.eye(3)
            second[:, b, :3, b, :3] = np.eye(3)
            first[:, b, 3:, b, 3:] = -(eye + 0.5 * cross + square)[:, b]
            second[:, b, 3:, b, 3:] = (eye - 0.5 * cross + square)[:, b]
        return first.reshape(K, 6 * n, 6 * n) / self.h, second.reshape(K, 6 * n, 6 * n) / self.h

    def tangents(self, p: Place) -> np.ndarray:
        """(K, nv, nv): displacements of centres and turns in world axes, by tangents of `retract` (origin, turn in the body's axes)."""
        K, n = p.R.shape[:2]
        out = np.zeros((K, n, 6, n, 6))
        for b in range(n):
            out[:, b, :3, b, :3] = np.eye(3)
            out[:, b, :3, b, 3:] = -p.R[:, b] @ two_body.cross(p.com[:, b])
            out[:, b, 3:, b, 3:] = p.R[:, b]
        return out.reshape(K, 6 * n, 6 * n)

    def _away(self, p: Place, v: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """d of the first state for dp_v and dp_q, and its derivatives (nv, 2 nv) without what vanishes where the constraints hold."""
        nv, nc, G = self.nv, self.nc, p.G.first[0]
        gram = G @ G.T
        lift = G.T @ np.linalg.inv(gram + ALMOST * np.trace(gram) / max(nc, 1) * np.eye(nc)) if nc else np.zeros((nv, 0))
        turned = p.G.at(slice(0, 1)).along(v[:1])[0]
        by_velocity = np.concatenate([lift @ turned, lift @ G], axis=1)
        return [lift @ (G @ v[0]), -lift @ p.G.value[0] / self.h], [by_velocity, np.concatenate([-lift @ G / self.h, np.zeros((nv, nv))], axis=1)]

    def _mass(self, values: Values, p: Place) -> np.ndarray:
        """(nv, nv): `M + N'K N` of the first state."""
        out, I, N = np.zeros((self.nv, self.nv)), self._inertia(values, p.R[0]), p.N.first[0]
        for b in range(len(self.units)):
            out[6 * b : 6 * b + 3, 6 * b : 6 * b + 3] = values.mass[b] * np.eye(3)
            out[6 * b + 3 : 6 * b + 6, 6 * b + 3 : 6 * b + 6] = I[b]
        return out + N.T @ ((values.damping * self.h + values.armature)[:, None] * N)

    def _first(self, values: Values, p: Place, v: np.ndarray, lam: np.ndarray | None) -> Blocks:
        """Of the first state, in displacements of centres."""
        nv, nc, G = self.nv, self.nc, p.G.first[0]
        _, S = values.regularisation(self.h)
        M, (d, by_d) = self._mass(values, p), self._away(p, v)
        if lam is None:
            M = M + G.T @ (G / S[:, None])
            return Blocks(np.concatenate([M @ x for x in d]), np.zeros(0), np.concatenate([M @ x for x in by_d]), np.zeros((2 * nv, 0)))
        own = (lam[0, :nc], lam[0, nc:])
        value = [M @ x - G.T @ m for x, m in zip(d, own, strict=True)] + [G @ x + S * m for x, m in zip(d, own, strict=True)]
        by = np.zeros((2 * nv + 2 * nc, 2 * nc))
        for k in range(2):
            by[k * nv : (k + 1) * nv, k * nc : (k + 1) * nc] = -G.T
            by[2 * nv + k * nc : 2 * nv + (k + 1) * nc, k * nc : (k + 1) * nc] = np.diag(S)
        return Blocks(np.concatenate(value), np.zeros(0), np.concatenate([*(M @ x for x in by_d), *(G @ x for x in by_d)]), by)

    def eliminated(self, values: Values, p: Place, v: np.ndarray) -> np.ndarray:
        """(K, 2 nc): the multipliers that the eliminated form would have."""
        both = [way.lam for way in self._ways(values, p, v, None)]
        return np.concatenate([np.zeros((1, 2 * self.nc)), np.concatenate(both, axis=1)])


@dataclass(frozen=True)
class _Friction:
    """Impulses of dry friction and their derivatives by the new rates, the old rates (Stribeck) and the multipliers, over steps and dry axes."""

    impulse: np.ndarray
    by_rate: np.ndarray
    by_old: np.ndarray
    by_lam: np.ndarray

    @classmethod
    def of(cls, rows: Rows, values: Values, old: np.ndarray, rate: np.ndarray, lam: np.ndarray, h: float) -> _Friction:
        """Of one joint with k sliding axes: `sig = (sum |r_i| - S_t l)/(k + S_t L)`, `|lam_i| = (|r_i| - sig)/S_t` (`spook_inverse.threshold`)."""
        count, axes, nc = len(rate), rows.axes, lam.shape[1]
        impulse, by_rate, by_old = np.zeros((count, len(axes))), np.zeros((count, len(axes), len(axes))), np.zeros((count, len(axes), len(axes)))
        by_lam = np.zeros((count, len(axes), nc))
        for j in range(len(rows.dry)):
            own = np.flatnonzero(rows.axis_joint == j)
            loaded = rows.loaded[rows.row_joint == j]
            lever = values.lever[rows.row_joint == j]
            before = old[:, axes[own[0]]]
            bump = np.exp(-((before / values.stribeck_rate[j]) ** 2))
            mu = values.load_limit[0, j] + values.load_limit[1, j] * bump
            load = np.abs(lam[:, loaded]) @ lever
            limit = h * (values.limit[0, j] + values.limit[1, j] * bump) + mu * load
            by_bump = h * values.limit[1, j] + values.load_limit[1, j] * load
            slip, slope = values.slip[own[0]], values.limit_slope[j]
            r = rate[:, axes[own]]
            size, sign = np.abs(r), np.sign(r)
            largest = -np.sort(-size, axis=1)
            candidates = (np.cumsum(largest, axis=1) - slip * limit[:, None]) / (np.arange(1, len(own) + 1) + slip * slope)
            sig = np.maximum(candidates.max(axis=1), 0.0)
            slides = size >= sig[:, None]  # equal where there is no limit: then a limit would act at once
            active = slides & (sig > 0.0)[:, None]
            sliding = np.maximum(active.sum(axis=1), 1)
            share = 1.0 / (sliding + slip * slope)  # d sig/d |r_i|; where it sticks, `active` is empty and it does not count
            apart = (
                sliding[:, None] * size - (active * size).sum(axis=1)[:, None]
            )  # exactly zero of a single axis: |r| - sig would lose all but S_t l/|r| of its digits
            bounded = share[:, None] * (apart / slip + slope * size + limit[:, None])
            impulse[:, own] = -sign * np.where(active, bounded, np.where(slides, size, 0.0) / slip)
            by_size = (slides[:, :, None] * np.eye(len(own)) - active[:, :, None] * active[:, None, :] * share[:, None, None]) / slip
            by_rate[:, own[:, None], own] = -sign[:, :, None] * by_size * sign[:, None, :]
            by_limit = -sign * active * share[:, None]
            by_old[:, own, own[0]] += by_limit * (by_bump * bump * -2.0 * before / values.stribeck_rate[j] ** 2)[:, None]
            by_lam[:, own[:, None], loaded] = by_limit[:, :, None] * (mu[:, None] * np.sign(lam[:, loaded]) * lever)[:, None, :]
        return cls(impulse, by_rate, by_old, by_lam)


def _differ(a: Any, b: Any, fields: Sequence[str]) -> bool:
    return not all(np.array_equal(getattr(a, f), getattr(b, f)) for f in fields)


def _dot(A: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Matrices times vectors, over all leading axes."""
    return (A @ v[..., None])[..., 0]


def _back(A: np.ndarray, lam: np.ndarray) -> np.ndarray:
    """`A' lam`, over all leading axes."""
    return (lam[..., None, :] @ A)[..., 0, :]
