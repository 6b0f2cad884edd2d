"""Models for MuJoCo's own engine: everything that its compiler accepts, with nothing refused.

`calibody.load(file, engine="mujoco")` keeps what calibody's mechanics names alike (bodies, joints, sites, shapes, plain actuators) and puts the rest into the table `mujoco` (`model/native.py`). What acts is the file, as the
engine compiles it, with the numbers of the model written into it (`steppers/engine.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from calibody.errors import CalibodyError, FormatError
from calibody.formats import refusals
from calibody.formats.compiled import Compiled, actuator_is_off, actuator_of, body_of, is_muscle, joint_of, shape_of, site_of
from calibody.formats.edit import Element
from calibody.formats.engine import mj
from calibody.formats.source import Key, numbers
from calibody.model import Model, World
from calibody.model.native import (
    MUJOCO,
    Native,
    NativeActuator,
    NativeGeom,
    NativeJoint,
    NativeMuscle,
    NativeOption,
    NativeSensor,
    NativeTendon,
)

NOTE = 'This model runs in MuJoCo\'s engine only: simulate with stepper="mujoco", fit with method = "shooting", stepper = "mujoco".'
WORLD_NAME = "world"
"""Of the one element `option`."""


def model_of(c: Compiled, name: str) -> Model:
    """The `Model` of a compiled file, for the engine."""
    try:
        return Model(
            name=name,
            bodies=tuple(body_of(c, i) for i in range(1, c.mj.nbody)),
            joints=tuple(joint_of(c, i, 0.0) for i in range(c.mj.njnt)),
            actuators=tuple(actuator_of(c, i) for i in range(c.mj.nactuator) if _is_plain(c, i)),
            sites=tuple(site_of(c, i) for i in range(c.mj.nsite)),
            geometries=tuple(g for i in range(c.mj.ngeom) if (g := shape_of(c, i)) is not None),
            world=World(gravity=tuple(float(x) for x in c.mj.opt.gravity)),  # pyright: ignore[reportArgumentType]
            notes=(*c.notes, NOTE),
            natives=tuple(natives(c)),
        )
    except FormatError:
        raise
    except CalibodyError as error:
        raise FormatError(f"{c.label}: {error}") from None


def _is_plain(c: Compiled, i: int) -> bool:
    """Whether calibody's own actuator is the same."""
    joint = c.mj.actuator_trntype[i] in (int(mj.mjtTrn.mjTRN_JOINT), int(mj.mjtTrn.mjTRN_JOINTINPARENT))
    return bool(joint) and not is_muscle(c, i) and not actuator_is_off(c, i) and not refusals.unlike(c, i) and c.mj.actuator_delay[i] == 0.0


def natives(c: Compiled) -> Iterator[Native]:
    """What only the engine has."""
    m = c.mj
    yield _native(m, NativeOption, WORLD_NAME, 0)
    for kind, ours, count in ((NativeGeom, "geometry", m.ngeom), (NativeJoint, "joint", m.njnt), (NativeTendon, "tendon", m.ntendon)):
        yield from (_native(m, kind, c.names[ours][i], i) for i in range(count))
    for i in range(m.nactuator):
        if not _is_plain(c, i):
            native = _native(m, NativeMuscle if _is_muscle(m, i) else NativeActuator, c.names["actuator"][i], i)
            yield replace(native, filtered=bool(m.actuator_actnum[i])) if isinstance(native, NativeActuator) else native
    for i in range(m.nsensor):
        yield NativeSensor(f"{NativeSensor.OBJECT}.{c.names['sensor'][i]}", int(m.sensor_dim[i]))


def _is_muscle(m: Any, i: int) -> bool:
    both = m.actuator_gaintype[i] == int(mj.mjtGain.mjGAIN_MUSCLE) and m.actuator_biastype[i] == int(mj.mjtBias.mjBIAS_MUSCLE)
    return bool(both and m.actuator_dyntype[i] == int(mj.mjtDyn.mjDYN_MUSCLE))


def _native(m: Any, kind: type[Native], name: str, i: int) -> Native:
    values = {}
    for field, number in kind.NUMBERS.items():
        array, first = kind.ARRAYS[field][0]
        found = np.atleast_1d(array_of(m, array, i))[first : first + max(1, len(number.components))]
        values[field] = tuple(map(float, found)) if number.components else float(found[0])
    return kind(f"{kind.OBJECT}.{name}", **values)


def array_of(m: Any, array: str, i: int) -> Any:
    """Row i of an array of the engine's model: of degrees of freedom the first of joint i, of gears the first of actuator i."""
    if array.startswith("opt."):
        return getattr(m.opt, array.removeprefix("opt."))
    row = int(m.jnt_dofadr[i]) if array.startswith("dof_") else int(m.actuator_outadr[i]) if array == "actuator_gear" else i
    return getattr(m, array)[row]


def element_map(c: Compiled, model: Model) -> dict[Key, Element]:
    """Which XML element each of the engine's elements is."""
    lists = {"geom": "geometry", "joint": "joint", "tendon": "tendon", "muscle": "actuator", "actuator": "actuator"}
    out: dict[Key, Element] = {}
    for native in model.natives:
        kind = lists.get(native.OBJECT)
        element = None if kind is None else c.element(kind, c.names[kind].index(native.own_name))
        if element is not None:
            out[MUJOCO, native.name] = element
    return out


def write(p: Any, native: Native, fields: set[str]) -> None:
    """The attributes of a changed element; `p` is the plan of the file's edits (`mjcf_edit.py`)."""
    if native.OBJECT == "option":
        _write_option(p, native, fields)
        return
    element = p.element(MUJOCO, native.name, sorted(fields)[0])
    if native.OBJECT == "actuator" and element.tag != "general":
        raise FormatError(f"{MUJOCO}.{native.name} is a <{element.tag}> in {p.source.path.name}; write it as <general>, whose numbers these are.")
    if native.OBJECT == "muscle" and element.tag != "muscle":
        raise FormatError(f"{MUJOCO}.{native.name} is a <{element.tag}> in {p.source.path.name}; write it as <muscle>, whose numbers these are.")
    for field in sorted(fields):
        value = getattr(native, field)
        p.edits.set(element, **{field: numbers(value if isinstance(value, tuple) else (value,))})


def _write_option(p: Any, native: Native, fields: set[str]) -> None:
    root = p.source.document.root
    options = [e for e in root.expanded() if e.tag == "option"]
    values = {field: numbers((getattr(native, field),)) for field in sorted(fields)}
    if options:
        p.edits.set(options[-1], **values)
    else:
        p.edits.insert(root, "<option " + " ".join(f'{k}="{v}"' for k, v in values.items()) + "/>")
