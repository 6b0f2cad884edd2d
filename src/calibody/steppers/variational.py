"""The variational stepper: second order, momentum preserving (the default). The scheme is in `step.py`.

**Loops with more equations than they need.** Where some rows of G follow from others, a largest independent set is kept and the rest is dropped
(`host.independent_rows`). Which rows these are depends on the pose: a parallelogram that lies flat has one equation less than anywhere else, and a linkage with
redundant rows may need another choice after half a turn. So the choice is looked at from time to time, and changed where another is three times clearer (`host.clearer_rows`): nothing else
changes then, a step knows no multipliers of before. And what was dropped is watched at every node. When it opens by more than `GAP`, the node is put back to
where all loops are closed (the nearest in the mass metric), the rates to where they stay closed, the rows are chosen there, and the motion goes on from it; a
note says so. A mechanism that stays open with every choice is given up with a sentence.

Where a step does not converge, a pose in which rows depend on each other may be so near that rounding errors drown them (a mechanism that comes to rest where it is stretched out).
Then the motion goes on from the node before without the rows that are `NEARLY` dependent there, as from a start in such a pose.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibody.errors import SimulationError
from calibody.mechanics import host
from calibody.mechanics.structure import Numbers, Structure, refuse_load_friction
from calibody.steppers import contact_run, step
from calibody.steppers.base import AbstractStepper, Start, Trajectory

# Rows of which less than this is left, relative to the largest, are dropped where a step does not converge with them.
NEARLY = 1e-3
# Steps after which the rows that are kept are compared with the clearest choice, if some were dropped.
LOOK = 64
# A dropped row may open by this, relative to the mechanism's size: rounding errors, a thousand times magnified near dead points, stay below it.
GAP = 1e-10
# With the same choice of rows once more it may open ten times as far, up to this.
LARGEST_GAP = 1e-7


@dataclass(frozen=True)
class Variational(AbstractStepper):
    """Settings of the variational stepper."""

    friction_rate: float = 1e-3
    """Rate below which dry friction is viscous [rad/s, m/s]; below |acceleration| h/2 it has no further effect but the order at reversals."""

    def viscous_below(self) -> float:
        return self.friction_rate

    def run(self, structure: Structure, numbers: Numbers, start: Start, control: np.ndarray, applied: np.ndarray, h: float) -> Trajectory:
        refuse_load_friction(structure)
        if structure.model.collides:
            if structure.prescribed:
                raise SimulationError(
                    f'Drive "{structure.prescribed[0].path}": motion cannot be prescribed beside contacts or limits yet; leave them out, contacts=False.'
                )
            return contact_run.run(
                structure, numbers, start, control, applied, h, self.friction_rate, lambda status, t, state: self._why(structure, status, t, h, state)
            )
        at = host.configuration(structure, numbers, start.q)
        host.refuse_overdetermined(structure, at.G)
        gap, active = GAP * float(step.size_of_dofs(structure, numbers).max(initial=1.0)), host.independent_rows(structure, at.G, numbers.softness)
        values = step.Values.of(structure, numbers, active, gap)
        state = step.first_state(structure, numbers, at, start, h)
        advance = step.compiled(structure, values, state, len(control))
        nodes, multipliers, notes, choices = [start.q[None]], [np.zeros((0, structure.nc))], [], [(0, active)]
        n, k, iterations = applied.shape[1], 0, 0
        failure, left, passed = None, start.q, "in the starting pose"
        settings = np.float64(h), np.float64(self.friction_rate)
        while k < n and failure is None:
            count, before = np.int32(min(step.PIECE if active.all() else LOOK, n - k)), state
            pieces = step.piece(control, k), step.piece(applied, k)
            done, state, q, forces, status, used = advance(values, state, *pieces, count, *settings)
            done, status = int(done), int(status)
            nodes.append(np.asarray(q)[:done])
            multipliers.append(np.asarray(forces)[:done])
            k, iterations = k + done, iterations + int(used)
            if status == step.CONVERGED and not active.all():
                rows = host.clearer_rows(structure, np.asarray(state.node.G), numbers.softness, active)
                if rows is not None:
                    notes.append(_others_dropped(structure, active, rows, k * h))
                    active, values = rows, step.Values.of(structure, numbers, rows, gap)
            elif status == step.OPENED:
                at, closed, failure = _closed(structure, numbers, state, (k + 1) * h, *_given(structure, applied, k, h))
                rows = host.independent_rows(structure, at.G, numbers.softness)
                if np.array_equal(rows, active):
                    gap *= 10.0
                    failure = failure or (_stays_open(structure, state, active, (k + 1) * h) if gap > LARGEST_GAP * np.max(values.scale) else None)
                else:
                    notes.append(_chosen_again(structure, active, rows, left, closed, (k + 1) * h, passed))
                active = rows
                values = step.Values.of(structure, numbers, active, gap)
                nodes.append(closed.q[None])
                multipliers.append(np.asarray(forces)[done : done + 1])
                state, k = step.first_state(structure, numbers, at, closed, h), k + 1
            elif status != step.CONVERGED:
                _, good, *_ = advance(values, before, *pieces, np.int32(done), *settings)
                fewer = active & host.independent_rows(structure, np.asarray(good.node.G), numbers.softness, NEARLY)
                if status == step.STALLED and fewer.sum() < active.sum():
                    state, active, left, passed = good, fewer, np.asarray(good.node.q), f"in the pose at t = {k * h:.6g} s"
                    values = step.Values.of(structure, numbers, active, gap)
                else:
                    failure = self._why(structure, status, k * h, h, state)
            if active is not choices[-1][1]:
                choices.append((k, active))
        lam = np.concatenate(multipliers).T
        last = lam[:, -1:] if lam.shape[1] else np.zeros((structure.nc, 1))
        return Trajectory(
            np.concatenate(nodes).T,
            np.concatenate([lam, last], axis=1),
            iterations,
            active,
            failure,
            tuple(notes),
            choices=tuple(choices) if len(choices) > 1 else (),
        )

    def _why(self, structure: Structure, status: int, time: float, h: float, state: step.State) -> str:
        where, turn = _fastest(structure, state), _turn(structure, state, state.d if status == step.TURNED else state.d_before)
        if status == step.TURNED or (status == step.STALLED and turn >= 1.0):  # beyond 1 rad the equations need not have a solution
            return f"At t = {time:.6g} s {where} turns by more than 1 rad in one step of {h:g} s; a step of {h * 0.5 / max(turn, 1.0):.1g} s would do."
        if status == step.NOT_FINITE:
            return (
                f"At t = {time:.6g} s the equations of motion of {where} have no solution (singular mass or constraint matrix); "
                "check for bodies without mass and for loops that fix more than they can."
            )
        return f"At t = {time:.6g} s the step of {h:g} s did not converge, worst at {where}; try a step of {h / 4:g} s, or look for stiff springs or a dead point of a loop."


def _turn(structure: Structure, state: step.State, displacement: np.ndarray) -> float:
    """The largest turn of a link with a displacement [rad]: that of a step which failed is where it was to go."""
    T, d = np.asarray(state.node.T)[:3], np.nan_to_num(np.asarray(displacement), nan=0.0, posinf=0.0, neginf=0.0)
    return max((float(np.linalg.norm(T[:, above] @ d[above])) for above in structure.dofs_above), default=0.0)


def _fastest(structure: Structure, state: step.State) -> str:
    d = np.nan_to_num(np.abs(np.asarray(state.d)), nan=np.inf)
    return structure.dof_name(int(np.argmax(d))) if d.size else "the mechanism"


# -- loops that open -----------------------------------------------------------------------------------------------------------------


def _given(structure: Structure, applied: np.ndarray, k: int, h: float) -> tuple[np.ndarray, np.ndarray]:
    """What is prescribed at the end of interval k: values, and rates (of second order, but for the first and the last interval)."""
    values = applied[[structure.applied_row(c) for c in structure.prescribed]]
    before, after = max(k - 1, 0), min(k + 1, values.shape[1] - 1)
    return values[:, k], (values[:, after] - values[:, before]) / (h * max(after - before, 1))


def _closed(
    structure: Structure, numbers: Numbers, state: step.State, time: float, values: np.ndarray, rates: np.ndarray
) -> tuple[host.Configuration, Start, str | None]:
    """The closed configuration nearest to a node that has opened, with rates that keep it closed; or the sentence why there is none."""
    q, p, held = np.asarray(state.node.q), np.asarray(state.p), np.zeros(structure.nv, dtype=bool)
    at, failure = host.configuration(structure, numbers, q), None
    v = np.linalg.lstsq(at.M, p, rcond=None)[0]
    try:
        q = host.closed(structure, numbers, q, held, "mass", 1.0, values)
        v = host.compatible(structure, numbers, q, v, held, "mass", rates)
        at = host.configuration(structure, numbers, q)
    except SimulationError as error:
        failure = f"At t = {time:.6g} s a loop opens: {error}"
    return at, Start(q, v, np.asarray(state.node.s)), failure


def _stays_open(structure: Structure, state: step.State, active: np.ndarray, time: float) -> str:
    gap = np.where(active, 0.0, np.abs(np.asarray(state.node.g)))
    return (
        f"At t = {time:.6g} s {structure.row_owners[int(np.argmax(gap))]} opens by {gap.max():.2g} (m or rad) although the equations that are kept hold: "
        "the loop is near a dead point, where they do not determine it; start it elsewhere, or take a shorter step."
    )


def _others_dropped(structure: Structure, before: np.ndarray, now: np.ndarray, time: float) -> str:
    return f"{structure.row_owners[int(np.flatnonzero(before != now)[0])]}: from t = {time:.6g} s on other equations of it were dropped than before."


def _chosen_again(structure: Structure, before: np.ndarray, now: np.ndarray, left: np.ndarray, at: Start, time: float, passed: str) -> str:
    """`left`: the coordinates where rows were dropped; `passed` says which pose that was."""
    owner = structure.row_owners[int(np.flatnonzero(before != now)[0])]
    if now.sum() <= before.sum():
        return _others_dropped(structure, before, now, time)
    moved = host.difference(structure, at.q[:, None], left[:, None])[:, 0]
    largest = np.argsort(-np.abs(moved), kind="stable")[:3]
    side = ", ".join(f"{structure.dof_name(int(j))} {moved[j]:+.2g}" for j in largest if moved[j])
    return (
        f"{owner}: {passed} its equations depend on each other as nowhere else (the mechanism is stretched out or folded, and can leave that pose to more "
        f"than one side); it left to the side with {side} at t = {time:.6g} s. To have the other side, start a little to that side."
    )
