"""MuJoCo's own engine as a black box: numbers of a model are written into it, it is stepped from many starts at once, channels are read from it.

The file is compiled once, as its author wrote it, with its options, contacts, tendons and muscles (a model that was built in Python is written as MJCF first). Other numbers go into copies of the compiled
model, those that differ from the file and no others (`WRITERS`), and what the compiler derives from them is derived again (`mj_setConst`): the engine then runs as if the calibrated file had been
compiled. Channels are sensors of the engine, added where the file has none, so that whatever it can measure can be observed, or numbers of its state (`engine_channels.py`).

The state is (qpos, qvel, act); its tangent has 2 nv + na numbers, qpos moving by `mj_integratePos`. MuJoCo's `rollout` steps a batch of starts, each with a model of its own, in threads where the batch is large.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from mujoco import rollout

from calibody.errors import CalibodyError, FormatError
from calibody.formats import edit, fresh, mjcf
from calibody.formats.compiled import Compiled
from calibody.formats.engine import mj, quiet
from calibody.formats.native import array_of
from calibody.formats.source import MJCF, changes
from calibody.mechanics.channels import Channel
from calibody.model import Model
from calibody.model.native import MUJOCO
from calibody.steppers.engine_channels import add_sensor, is_state, name_all, place_of

MANY = 50_000
"""Steps of a batch from which threads pay."""


@dataclass(frozen=True)
class Batch:
    """What a batch of rollouts gave: (starts, steps, ..)."""

    states: np.ndarray
    """(B, T, nq + nv + na) after each step."""
    sensors: np.ndarray
    """(B, T, channels) before each step: at the node it begins at."""

    @property
    def finite(self) -> bool:
        return bool(np.isfinite(self.states).all() and np.isfinite(self.sensors).all())


class Engine:
    """The compiled file with sensors for `observed` channels, stepping by h [s] (None: the file's own step)."""

    def __init__(self, model: Model, observed: Sequence[Channel] = (), h: float | None = None) -> None:
        self.base, document, path = _document(model)
        spec, m, _, _ = mjcf.compiled(document, path)
        names = Compiled(document.label, spec, m).names
        measured, added = [c for c in observed if not is_state(model, c)], dict[str, tuple[str, int]]()
        if measured:
            name_all(spec, names)
            sensors = {whole: add_sensor(spec, model, c, k) for k, (whole, c) in enumerate({c.whole: c for c in measured}.items())}
            added = {c.path: (sensors[c.whole], c.component or 0) for c in measured}
            with quiet():
                m = spec.compile()
        self.m, self.names = m, names
        if h is not None:
            m.opt.timestep = h
        m.opt.disableflags |= int(mj.mjtDisableBit.mjDSBL_AUTORESET)  # a motion that blows up is told, not begun anew
        self.h = float(m.opt.timestep)
        self.nq, self.nv, self.na = int(m.nq), int(m.nv), int(m.na)
        self.n = 2 * self.nv + self.na
        """Numbers of a change of the state."""
        self.columns = np.array([self._column(*added[c.path]) if c.path in added else int(m.nsensordata) + self.place(c)[0] for c in observed], dtype=int)
        """Of the channels, among the sensors with the state behind them."""

    @cached_property
    def _data(self) -> list[Any]:
        return [mj.MjData(self.m) for _ in range(max(1, os.cpu_count() or 1))]

    # -- numbers -----------------------------------------------------------------------------------------------------------------

    def index(self, kind: str, name: str) -> int:
        return self.names[kind].index(name)

    def with_numbers(self, model: Model) -> Any:
        """The engine's model with the numbers of a model."""
        m = copy.copy(self.m)
        for kind, name, field in changes(model, self.base):
            if kind == MUJOCO:
                _write_native(self, m, model.tables[MUJOCO][name], field)
                continue
            writer = WRITERS.get((kind, field))
            if writer is None:
                raise CalibodyError(f'{kind}.{name}.{field} cannot be set in MuJoCo\'s engine; leave it out, or use stepper = "variational".')
            if kind == "world":
                m.opt.gravity[:] = model.gravity
            else:
                writer(self, m, model.tables[kind][name], self.base.tables[kind][name])
        with quiet():
            mj.mj_setConst(m, self._data[0])
        return m

    # -- states ------------------------------------------------------------------------------------------------------------------

    def moved(self, state: np.ndarray, d: np.ndarray) -> np.ndarray:
        """A state displaced by a tangent."""
        q = state[: self.nq].copy()
        mj.mj_integratePos(self.m, q, np.ascontiguousarray(d[: self.nv]), 1.0)
        return np.concatenate([q, state[self.nq :] + d[self.nv :]])

    def difference(self, to: np.ndarray, from_: np.ndarray) -> np.ndarray:
        """The tangent that leads from one state to another."""
        d = np.zeros(self.nv)
        mj.mj_differentiatePos(self.m, d, 1.0, np.ascontiguousarray(from_[: self.nq]), np.ascontiguousarray(to[: self.nq]))
        return np.concatenate([d, to[self.nq :] - from_[self.nq :]])

    @property
    def resting(self) -> np.ndarray:
        """The file's reference pose, at rest."""
        return np.concatenate([self.m.qpos0, np.zeros(self.nv + self.na)])

    def place(self, channel: Channel) -> tuple[int, int, int | None]:
        """Where a coordinate, a rate or an activation stands (`engine_channels.place_of`)."""
        return place_of(self.m, self.names, channel)

    def _column(self, sensor: str, component: int) -> int:
        return int(self.m.sensor_adr[mj.mj_name2id(self.m, mj.mjtObj.mjOBJ_SENSOR, sensor)]) + component

    # -- steps -------------------------------------------------------------------------------------------------------------------

    @cached_property
    def _layout(self) -> tuple[int, int, int]:
        """Of MuJoCo's whole state: where it begins after the time, its size, and what control vectors have."""
        spec = mj.mjtState
        return 1, int(mj.mj_stateSize(self.m, spec.mjSTATE_FULLPHYSICS)), int(spec.mjSTATE_CTRL) | int(spec.mjSTATE_QFRC_APPLIED)

    def steps(self, models: Sequence[Any], starts: np.ndarray, control: np.ndarray) -> Batch:
        """From B states, each in a model of its own; control (B, T, controls and forces on all velocities)."""
        first, size, spec = self._layout
        whole = np.zeros((len(starts), size))
        whole[:, first : first + starts.shape[1]] = starts
        busy = len(starts) * control.shape[1] >= MANY
        with quiet(), rollout.Rollout(nthread=len(self._data) if busy else 0) as run:
            found: Any = run.rollout(list(models), self._data if busy else self._data[:1], whole, control, control_spec=spec)
        states, sensors = (np.asarray(x) for x in found)
        states = states[:, :, first : first + starts.shape[1]]
        if (self.columns >= sensors.shape[2]).any():
            sensors = np.concatenate([sensors, np.concatenate([starts[:, None], states[:, :-1]], axis=1)], axis=2)
        return Batch(states, sensors[:, :, self.columns])

    def controls(self, model: Model, driven: Mapping[str, np.ndarray], steps: int) -> np.ndarray:
        """(steps, controls and forces) from what drives are in every step, by channel; beyond the last they are held."""
        out = np.zeros((steps, int(self.m.nu) + self.nv))
        for path, values in driven.items():
            kind, _, rest = path.partition(".")
            values = np.concatenate([values, np.full(max(0, steps - len(values)), values[-1] if len(values) else 0.0)])[:steps]
            if kind == "joint":
                out[:, int(self.m.nu) + int(self.m.jnt_dofadr[self.index("joint", rest.removesuffix(".force"))])] += values
            else:
                name = model.tables[MUJOCO][rest].own_name if kind == MUJOCO else rest
                out[:, int(self.m.actuator_ctrladr[self.index("actuator", name)])] = values
        return out


def _document(model: Model) -> tuple[Model, Any, Path]:
    """The model that an MJCF document says, and the document: the file's own, or a fresh one."""
    source = model.source
    if source is not None and source.format == MJCF:
        return source.original, source.document, source.path
    path = Path(f"{model.name}.xml")
    document = edit.parse(fresh.mjcf(model, path).encode("utf-8"), path.name)
    mjcf.resolve_includes(document, path.parent)
    return model, document, path


# -- writing numbers ---------------------------------------------------------------------------------------------------------------

Writer = Callable[[Engine, Any, Any, Any], None]


def _write_native(engine: Engine, m: Any, native: Any, field: str) -> None:
    kind: str = {"geom": "geometry", "muscle": "actuator"}.get(native.OBJECT, str(native.OBJECT))
    value = np.atleast_1d(getattr(native, field))
    for array, first in native.ARRAYS[field]:
        if kind == "option":
            setattr(m.opt, field, float(value[0]))
            continue
        i = engine.index(kind, native.own_name)
        rows = slice(int(m.jnt_dofadr[i]), int(m.jnt_dofadr[i]) + _dofs(m, i)) if array.startswith("dof_") else None
        if rows is not None:
            getattr(m, array)[rows] = value
        elif np.ndim(array_of(m, array, i)):
            array_of(m, array, i)[first : first + len(value)] = value
        else:
            getattr(m, array)[i] = value[0]


def _dofs(m: Any, joint: int) -> int:
    return {int(mj.mjtJoint.mjJNT_FREE): 6, int(mj.mjtJoint.mjJNT_BALL): 3}.get(int(m.jnt_type[joint]), 1)


def _row(kind: str, array: str, attribute: str) -> Writer:
    def write(engine: Engine, m: Any, new: Any, old: Any) -> None:
        getattr(m, array)[engine.index(kind, new.name)] = getattr(new, attribute)

    return write


def _dof(array: str, attribute: str) -> Writer:
    """By the change of the number: the file may add to it (rotors)."""

    def write(engine: Engine, m: Any, new: Any, old: Any) -> None:
        i = engine.index("joint", new.name)
        first = int(m.jnt_dofadr[i])
        getattr(m, array)[first : first + _dofs(m, i)] += getattr(new, attribute) - getattr(old, attribute)

    return write


def _inertia(engine: Engine, m: Any, new: Any, old: Any) -> None:
    xx, yy, zz, xy, xz, yz = new.inertia
    size, axes = np.linalg.eigh(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))
    axes[:, 0] *= np.sign(np.linalg.det(axes))
    i, turn = engine.index("body", new.name), np.zeros(4)
    mj.mju_mat2Quat(turn, axes.ravel())
    m.body_inertia[i], m.body_iquat[i] = size, turn


def _springref(engine: Engine, m: Any, new: Any, old: Any) -> None:
    m.qpos_spring[int(m.jnt_qposadr[engine.index("joint", new.name)])] = new.springref


def _parameter(array: str, column: int, attribute: str, sign: float = 1.0) -> Writer:
    """Of an actuator, by the change of the number."""

    def write(engine: Engine, m: Any, new: Any, old: Any) -> None:
        i = engine.index("actuator", new.name)
        array_of(m, array, i)[column] += sign * (getattr(new, attribute) - getattr(old, attribute))
        if array == "actuator_biasprm":
            m.actuator_biastype[i] = int(mj.mjtBias.mjBIAS_AFFINE)

    return write


def _tendon(array: str, attribute: str) -> Writer:
    def write(engine: Engine, m: Any, new: Any, old: Any) -> None:
        getattr(m, array)[engine.index("tendon", new.name)] += getattr(new, attribute) - getattr(old, attribute)

    return write


WRITERS: dict[tuple[str, str], Writer] = {
    ("world", "gravity"): lambda engine, m, new, old: None,
    ("body", "mass"): _row("body", "body_mass", "mass"),
    ("body", "com"): _row("body", "body_ipos", "com"),
    ("body", "inertia"): _inertia,
    ("body", "position"): _row("body", "body_pos", "position"),
    ("body", "orientation"): _row("body", "body_quat", "orientation"),
    ("joint", "stiffness"): _row("joint", "jnt_stiffness", "stiffness"),
    ("joint", "axis"): _row("joint", "jnt_axis", "axis"),
    ("joint", "anchor"): _row("joint", "jnt_pos", "anchor"),
    ("joint", "springref"): _springref,
    ("joint", "damping"): _dof("dof_damping", "damping"),
    ("joint", "friction"): _dof("dof_frictionloss", "friction"),
    ("joint", "armature"): _dof("dof_armature", "armature"),
    ("site", "position"): _row("site", "site_pos", "position"),
    ("site", "orientation"): _row("site", "site_quat", "orientation"),
    ("geometry", "position"): _row("geometry", "geom_pos", "position"),
    ("geometry", "orientation"): _row("geometry", "geom_quat", "orientation"),
    ("actuator", "gain"): _parameter("actuator_gainprm", 0, "gain"),
    ("actuator", "gear"): _parameter("actuator_gear", 0, "gear"),
    ("actuator", "bias"): _parameter("actuator_biasprm", 0, "bias"),
    ("actuator", "stiffness"): _parameter("actuator_biasprm", 1, "stiffness", -1.0),
    ("actuator", "damping"): _parameter("actuator_biasprm", 2, "damping", -1.0),
    ("actuator", "time_constant"): _parameter("actuator_dynprm", 0, "time_constant"),
    ("spring", "stiffness"): _tendon("tendon_stiffness", "stiffness"),
    ("spring", "damping"): _tendon("tendon_damping", "damping"),
    ("spring", "rest_length"): _tendon("tendon_lengthspring", "rest_length"),
    **{("transmission", field): _tendon(f"tendon_{array}", field) for field, array in (
        ("stiffness", "stiffness"), ("damping", "damping"), ("friction", "frictionloss"), ("armature", "armature"), ("springref", "lengthspring"))},
}  # fmt: skip
"""(kind, field) -> how it is written, but for those of the table `mujoco`."""


def refuse_what_cannot_be_set(model: Model, paths: Sequence[Any]) -> None:
    """A sentence for a number that the engine has no place for; `paths` are places of the model."""
    for place in paths:
        field = "gravity" if place.kind == "world" else place.field
        known = (place.kind, "position" if (place.kind, field) == ("joint", "position") else field)
        if place.kind != MUJOCO and known not in (*WRITERS, ("joint", "position")):
            raise FormatError(f'"{place.path}" cannot be set in MuJoCo\'s engine; leave it out, or use stepper = "variational".')
