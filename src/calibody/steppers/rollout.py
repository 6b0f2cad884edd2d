"""`simulate`: from a model, a start and drives to a motion."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from calibody.errors import SimulationError, nearest
from calibody.mechanics import assembly, host
from calibody.mechanics.kinematics import difference, retract
from calibody.mechanics.plan import plan_of
from calibody.mechanics.structure import TREE, Numbers, Structure
from calibody.model import Model
from calibody.steppers.base import AbstractStepper
from calibody.steppers.drive import drives_of, scalars_of
from calibody.steppers.motion import Motion
from calibody.steppers.mujoco import MuJoCo
from calibody.steppers.spook import Spook
from calibody.steppers.start import start_of
from calibody.steppers.step import size_of_dofs
from calibody.steppers.time_stepping import TimeStepping
from calibody.steppers.variational import Variational

STEPPERS = {"variational": Variational, "spook": Spook, "time_stepping": TimeStepping, "mujoco": MuJoCo}
UNTOUCHED = 'Contacts and limits do not act in this stepper; use stepper="variational".'
# Nodes beyond this would need more memory than a laptop has; nobody means it.
MAXIMAL_STEPS = 50_000_000


def simulate(
    model: Model,
    duration: float,
    h: float = 1e-3,
    initial: Mapping[str, Any] | None = None,
    drive: Mapping[str, Any] | None = None,
    stepper: str | AbstractStepper = "variational",
    coordinates: str = "auto",
    projection: str = "mass",
    contacts: bool = True,
) -> Motion:
    """The motion of a model from a known start.

    `initial` sets channels (`{"joint.hinge.angle": 1.0, "joint.hinge.rate": 0.5}`); what it leaves out is zero or follows from closed loops
    (`projection`: the nearest in the "mass" or the "euclidean" metric). `drive` maps actuators, forces on joints, bodies and springs, and prescribed motion of
    joints and sites to a number, an array with one value per step, (times, values), a `Signal` or a function of time (docs: concepts). `coordinates`: "tree", "free" or "auto" (docs: concepts).
    `stepper`: "variational", "spook" (docs: spook), "time_stepping" (of first order, docs: contact), "mujoco" (its own engine, with the options of the
    file; docs: moving from mujoco.sysid), or one of them with other settings (`cb.Spook(compliance=1e-6)`).
    `contacts=False` leaves out the contacts and limits of the model, but for compliant ones, which are forces.
    A motion that cannot be computed to the end raises `SimulationError`; its `motion` holds what was computed.
    """
    n, h = _steps(duration, h)
    method = _stepper(stepper)
    if (model.contacts or model.limits) and not (contacts and method.touches()):
        model = _untouched(model, method.touches(), () if not contacts else (UNTOUCHED,))
    scalars = scalars_of(model, drive or {})
    structure = Structure.build(model, method.coordinates(coordinates), driven=scalars, engine=method.engine)
    numbers = Numbers.of(structure)
    if not structure.nv:
        raise SimulationError(f"Model {model.name!r} has no joint, so nothing can move; give at least one body a joint.")
    _check_masses(structure, numbers)
    size = float(size_of_dofs(structure, numbers).max(initial=1.0))
    control, applied, given, held = drives_of(structure, scalars, h * np.arange(n + 2), plain=method.engine)
    start, joint_rate = start_of(structure, numbers, initial or {}, projection, size, given)
    trajectory = method.run(structure, numbers, start, control, applied, h)
    computed = trajectory.q.shape[1]
    turns = None if structure.coordinates == TREE else _turns(structure, numbers, trajectory.q, start.s)
    motion = Motion(
        model=model,
        structure=structure,
        numbers=numbers,
        h=h,
        q=trajectory.q,
        multipliers=trajectory.multipliers,
        control=control[:, : computed - 1],
        applied=applied[:, : computed - 1],
        turns=turns,
        delta=method.viscous_below(),
        start_rate=start.v,
        joint_rate=joint_rate,
        active=trajectory.active.astype(float),
        iterations=trajectory.iterations,
        choices=trajectory.choices,
        notes=(*model.notes, *_dropped(structure, trajectory.active), *trajectory.notes),
        touched=trajectory.contacts,
        given=np.column_stack([given[0], applied[_prescribed(structure), : computed - 1]]),
        held=held,
        read=trajectory.read,
    )
    if trajectory.failure is not None and computed < n + 1:
        raise _failed(trajectory.failure, motion)
    if computed == n + 1:  # only the node beyond the end is missing: repeat the last step
        motion = _extended(motion)
    return motion


def _untouched(model: Model, forces: bool, notes: tuple[str, ...]) -> Model:
    """The model without limits and contacts; `forces`: with compliant ones."""
    contacts, limits = (tuple(x for x in table if x.compliant and forces) for table in (model.contacts, model.limits))
    return replace(model, contacts=contacts, limits=limits, notes=(*model.notes, *notes))


def _prescribed(structure: Structure) -> list[int]:
    """The rows of what is prescribed among the applied."""
    return [structure.applied_row(c) for c in structure.prescribed]


def _steps(duration: float, h: float) -> tuple[int, float]:
    for name, value in (("duration", duration), ("h", h)):
        if not isinstance(value, (int, float, np.integer, np.floating)) or not math.isfinite(value) or value <= 0.0:
            raise SimulationError(f"{name} = {value!r}; give a number of seconds above zero.")
    n = round(duration / h)
    if n < 1 or abs(n * h - duration) > 1e-6 * duration:
        raise SimulationError(
            f"duration = {duration:g} s is not a whole number of steps h = {h:g} s; give for instance h = {duration / max(1, math.ceil(duration / h)):g}."
        )
    if n > MAXIMAL_STEPS:
        raise SimulationError(f"{duration:g} s in steps of {h:g} s are {n} steps; at most {MAXIMAL_STEPS} fit, give a larger h or a shorter duration.")
    return n, duration / n


def _stepper(stepper: str | AbstractStepper) -> AbstractStepper:
    if isinstance(stepper, AbstractStepper):
        return stepper
    if stepper not in STEPPERS:
        raise SimulationError(f'stepper = "{stepper}" is not known{nearest(str(stepper), STEPPERS) or "; it is one of " + ", ".join(STEPPERS)}.')
    return STEPPERS[stepper]()


def _check_masses(structure: Structure, numbers: Numbers) -> None:
    """Every joint must move some inertia, or its acceleration is undetermined."""
    for c in structure.scalar_coordinates:
        joint = structure.model.joint(c.joint)
        carried = [i for i in range(len(structure.tree_units)) if _hangs_on(structure, i, c.unit)]
        if not any(numbers.inertia[9, i] > 0.0 or np.any(numbers.inertia[:, i]) for i in carried) and joint.armature == 0.0:
            raise SimulationError(
                f"joint.{joint.name} moves no mass and has no armature, so its motion is not determined; give body.{joint.body} a mass, or the joint an armature."
            )


def _hangs_on(structure: Structure, link: int, unit: int) -> bool:
    while link < structure.n and link != unit:
        link = int(structure.tree_parent[link])
    return link == unit


def _dropped(structure: Structure, keep: np.ndarray) -> list[str]:
    """A sentence for every loop of which rows were dropped."""
    owners = list(dict.fromkeys(o for o, k in zip(structure.row_owners, keep, strict=True) if not k))
    return [
        f"{o}: {sum(1 for x, k in zip(structure.row_owners, keep, strict=True) if x == o and not k)} of its equations follow from the others and were dropped; "
        "the reaction forces they would carry cannot be resolved."
        for o in owners
    ]


def _turns(structure: Structure, numbers: Numbers, q: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Whole turns along the motion, starting at the given coordinates."""
    turns = assembly.turns_along(structure, numbers, q)
    plan_angle = assembly.measured(plan_of(structure), numbers, host.configuration(structure, numbers, q[:, 0]).frames.H, np.zeros((len(s), 3)))[0][:, 0]
    whole = 2.0 * np.pi * np.round((s - plan_angle) / (2.0 * np.pi))
    return turns + np.where(plan_of(structure).rotational, whole, 0.0)[:, None]


def _failed(sentence: str, motion: Motion) -> SimulationError:
    error = SimulationError(sentence)
    error.motion = _extended(motion) if motion.q.shape[1] > 2 else None  # type: ignore[attr-defined]
    return error


def _extended(motion: Motion) -> Motion:
    """Repeat the last displacement, so that the last node has two neighbours."""
    last = difference(motion.structure, motion.q[:, -1:], motion.q[:, -2:-1])
    q = np.concatenate([motion.q, retract(motion.structure, motion.q[:, -1:], last)], axis=1)
    turns = None if motion.turns is None else assembly.turns_along(motion.structure, motion.numbers, q) + motion.turns[:, :1]

    def longer(a: np.ndarray) -> np.ndarray:
        return np.concatenate([a, a[:, -1:]], axis=1)

    return replace(
        motion,
        q=q,
        multipliers=longer(motion.multipliers),
        control=longer(motion.control),
        applied=longer(motion.applied),
        turns=turns,
        given=longer(motion.given),
    )
