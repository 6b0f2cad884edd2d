"""From MuJoCo's compiled model to `Model`: shared by MJCF and URDF, which MuJoCo's own compiler reads.

MuJoCo's conventions are those of `model/elements.py` (a joint's coordinate is `qpos`, its displacement `qpos - qpos0`), with one
exception that is undone here: the coordinate of a free joint is the absolute pose, so a free body's own placement is the identity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from calibody.errors import CalibodyError, FormatError
from calibody.formats.edit import Element
from calibody.formats.engine import mj
from calibody.formats.source import Key
from calibody.model import Actuator, Body, Geometry, Joint, Loop, Model, Muscle, Path, Pulley, Sensor, Site, Spring, Transmission, World, Wrap
from calibody.model.elements import BALL, COUPLING, FREE, HINGE, POINT, SLIDE, WELD, WORLD
from calibody.spatial import algebra as al
from calibody.spatial.inertia import six_of

_JOINTS = {mj.mjtJoint.mjJNT_HINGE: HINGE, mj.mjtJoint.mjJNT_SLIDE: SLIDE, mj.mjtJoint.mjJNT_BALL: BALL, mj.mjtJoint.mjJNT_FREE: FREE}
_GEOMS = {
    mj.mjtGeom.mjGEOM_PLANE: "plane", mj.mjtGeom.mjGEOM_SPHERE: "sphere", mj.mjtGeom.mjGEOM_CAPSULE: "capsule", mj.mjtGeom.mjGEOM_ELLIPSOID: "ellipsoid",
    mj.mjtGeom.mjGEOM_CYLINDER: "cylinder", mj.mjtGeom.mjGEOM_BOX: "box", mj.mjtGeom.mjGEOM_MESH: "mesh", mj.mjtGeom.mjGEOM_SDF: "mesh",
}  # fmt: skip
_OBJECTS = {
    "body": mj.mjtObj.mjOBJ_BODY, "joint": mj.mjtObj.mjOBJ_JOINT, "geometry": mj.mjtObj.mjOBJ_GEOM, "site": mj.mjtObj.mjOBJ_SITE,
    "actuator": mj.mjtObj.mjOBJ_ACTUATOR, "sensor": mj.mjtObj.mjOBJ_SENSOR, "loop": mj.mjtObj.mjOBJ_EQUALITY, "tendon": mj.mjtObj.mjOBJ_TENDON,
}  # fmt: skip


@dataclass
class Compiled:
    """A file on its way into a `Model`: MuJoCo's compiled model, the names given to its elements, and where they are in the text."""

    label: str
    spec: Any
    mj: Any
    lists: dict[str, list[Element | None]] = field(default_factory=dict)
    """kind -> XML element by MuJoCo's index (None: unknown)."""
    notes: list[str] = field(default_factory=list)
    names: dict[str, list[str]] = field(default_factory=dict)
    inertials: dict[int, tuple[float, Any, tuple[float, ...]]] = field(default_factory=dict)
    """Mass, centre of mass and inertia by body where the format knows them better than the compiler (URDF)."""

    def __post_init__(self) -> None:
        counts = {"body": self.mj.nbody, "joint": self.mj.njnt, "geometry": self.mj.ngeom, "site": self.mj.nsite}
        counts |= {"actuator": self.mj.nactuator, "sensor": self.mj.nsensor, "loop": self.mj.neq, "tendon": self.mj.ntendon}
        self.names = {kind: self._unique(kind, count) for kind, count in counts.items()}
        self.names["body"][0] = WORLD

    @cached_property
    def spec_bodies(self) -> dict[int, Any]:
        """MuJoCo's uncompiled bodies (the file's own numbers) by index."""
        return {b.id: b for b in self.spec.bodies}

    def _unique(self, kind: str, count: int) -> list[str]:
        """The file's names; what has none is called after its kind and number, with underscores until it is alone."""
        given = [mj.mj_id2name(self.mj, _OBJECTS[kind], i) or "" for i in range(count)]
        taken = {name for name in given if name.strip()} | {WORLD}
        for i, name in enumerate(given):
            if not name.strip():
                new = f"{kind}_{i if kind == 'body' else i + 1}"
                while new in taken:
                    new += "_"
                taken.add(new)
                given[i] = new
        return given

    def element(self, kind: str, index: int) -> Element | None:
        elements = self.lists.get(kind, [])
        return elements[index] if index < len(elements) else None

    def refuse(self, kind: str, index: int | None, reason: str) -> FormatError:
        """The sentence of a refusal: file and line, element, reason."""
        if index is None:
            return FormatError(f"{self.label}: {reason}")
        element = self.element(kind, index)
        return FormatError(f'{element.where if element else self.label}: {kind} "{self.names[kind][index]}" {reason}')

    def off(self, flag: Any) -> bool:
        """Whether the file switches a kind of force off (`<option><flag .../></option>`)."""
        return bool(self.mj.opt.disableflags & flag)


def model_of(c: Compiled, name: str) -> Model:
    """The `Model` of a compiled file; what it cannot hold was refused before (`refusals.py`)."""
    actuators, extra_armature = _actuators(c)
    try:
        return Model(
            name=name,
            bodies=tuple(body_of(c, i) for i in range(1, c.mj.nbody)),
            joints=tuple(joint_of(c, i, extra_armature.get(("joint", i), 0.0)) for i in range(c.mj.njnt)),
            loops=tuple(loop for i in range(c.mj.neq) if (loop := _loop(c, i)) is not None),
            springs=tuple(_spring(c, i) for i in range(c.mj.ntendon) if is_spring(c, i)),
            transmissions=tuple(_transmission(c, i, extra_armature.get(("tendon", i), 0.0)) for i in range(c.mj.ntendon) if is_transmission(c, i)),
            paths=tuple(_path(c, i, extra_armature.get(("tendon", i), 0.0)) for i in range(c.mj.ntendon) if is_path(c, i)),
            actuators=actuators,
            sites=tuple(site_of(c, i) for i in range(c.mj.nsite)),
            sensors=tuple(sensor for i in range(c.mj.nsensor) if (sensor := _sensor(c, i)) is not None),
            geometries=tuple(g for i in range(c.mj.ngeom) if (g := shape_of(c, i)) is not None),
            world=World(gravity=(0.0, 0.0, 0.0) if c.off(mj.mjtDisableBit.mjDSBL_GRAVITY) else _floats(c.mj.opt.gravity)),
            notes=tuple(c.notes),
        )
    except FormatError:
        raise
    except CalibodyError as error:
        raise FormatError(f"{c.label}: {error}") from None
    except np.linalg.LinAlgError:  # eigenvalues of numbers near the end of the floating-point range
        raise FormatError(f"{c.label}: an inertia is too large to be computed with; check the units.") from None


def element_map(c: Compiled, model: Model) -> dict[Key, Element]:
    """Which XML element each element of the model is."""
    out: dict[Key, Element] = {}
    for kind, names in c.names.items():
        for i, name in enumerate(names):
            ours = kind if kind != "tendon" else "transmission" if is_transmission(c, i) else "path" if is_path(c, i) else "spring"
            element = c.element(kind, i)
            if element is not None and name in model.tables[ours]:
                out[ours, name] = element
    return out


# -- bodies and joints -------------------------------------------------------------------------------------------------------------


def body_of(c: Compiled, i: int) -> Body:
    m = c.mj
    free = m.body_jntnum[i] == 1 and m.jnt_type[m.body_jntadr[i]] == int(mj.mjtJoint.mjJNT_FREE)
    mass, com, inertia = inertial(c, i)
    return Body(
        name=c.names["body"][i],
        parent=c.names["body"][m.body_parentid[i]],
        mass=mass,
        com=com,
        inertia=inertia,
        position=(0.0, 0.0, 0.0) if free else _floats(m.body_pos[i]),
        orientation=(1.0, 0.0, 0.0, 0.0) if free else _quaternion(m.body_quat[i]),
    )


def inertial(c: Compiled, i: int) -> tuple[float, Any, tuple[float, ...]]:
    """Mass, centre of mass and inertia in body axes. The compiler keeps principal axes only; where the file gives the whole matrix, and
    the compiler did not scale it, the file's own digits are taken."""
    if i in c.inertials:
        return c.inertials[i]
    m = c.mj
    compiled = rotated(m.body_iquat[i], np.diag(m.body_inertia[i]))
    body = c.spec_bodies.get(i)
    if body is not None and body.explicitinertial and math.isfinite(body.fullinertia[0]):
        exact = rotated(body.iquat, matrix_of(body.fullinertia))
        if np.allclose(exact, compiled, rtol=1e-6, atol=1e-9 * np.abs(compiled).max()):
            compiled = exact
    six = six_of(compiled) if m.body_inertia[i].any() else (0.0,) * 6
    mass = float(m.body_mass[i])  # without mass there is no centre of mass, whatever the compiler puts there
    return mass, _floats(m.body_ipos[i]) if mass else (0.0, 0.0, 0.0), six


def matrix_of(full: Any) -> np.ndarray:
    """MuJoCo's `fullinertia` (xx yy zz xy xz yz) as a matrix."""
    xx, yy, zz, xy, xz, yz = (float(x) for x in full)
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def rotated(quaternion: Any, inertia: np.ndarray) -> np.ndarray:
    """`R I R'`; the identity leaves every digit alone."""
    e = tuple(float(x) for x in quaternion)
    if e[1:] == (0.0, 0.0, 0.0):
        return inertia
    R = np.array(al.quaternion_matrix(al.quaternion_normalised(e)))  # type: ignore[arg-type]
    out = R @ inertia @ R.T
    return 0.5 * (out + out.T)


def joint_of(c: Compiled, i: int, extra_armature: float) -> Joint:
    m = c.mj
    kind = _JOINTS[mj.mjtJoint(int(m.jnt_type[i]))]
    q, v = int(m.jnt_qposadr[i]), int(m.jnt_dofadr[i])
    scalar = kind in (HINGE, SLIDE)
    spring = m.qpos_spring[q : q + 7]
    return Joint(
        name=c.names["joint"][i],
        body=c.names["body"][m.jnt_bodyid[i]],
        kind=kind,
        axis=_floats(m.jnt_axis[i]) if scalar else (0.0, 0.0, 1.0),
        anchor=(0.0, 0.0, 0.0) if kind == FREE else _floats(m.jnt_pos[i]),
        reference=float(m.qpos0[q]) if scalar else 0.0,
        stiffness=0.0 if c.off(mj.mjtDisableBit.mjDSBL_SPRING) else float(m.jnt_stiffness[i]),
        springref=float(m.qpos_spring[q]) if scalar else 0.0,
        damping=0.0 if c.off(mj.mjtDisableBit.mjDSBL_DAMPER) else float(m.dof_damping[v]),
        friction=0.0 if c.off(mj.mjtDisableBit.mjDSBL_FRICTIONLOSS | mj.mjtDisableBit.mjDSBL_CONSTRAINT) else float(m.dof_frictionloss[v]),
        armature=float(m.dof_armature[v]) + extra_armature,
        spring_orientation=_quaternion(spring[:4] if kind == BALL else spring[3:7]) if not scalar else (1.0, 0.0, 0.0, 0.0),
        spring_position=_floats(spring[:3]) if kind == FREE else (0.0, 0.0, 0.0),
    )


# -- what is attached to bodies and joints -----------------------------------------------------------------------------------------


def site_of(c: Compiled, i: int) -> Site:
    m = c.mj
    return Site(c.names["site"][i], c.names["body"][m.site_bodyid[i]], _floats(m.site_pos[i]), _quaternion(m.site_quat[i]))


def shape_of(c: Compiled, i: int) -> Geometry | None:
    m = c.mj
    kind = _GEOMS.get(mj.mjtGeom(int(m.geom_type[i])))
    if kind is None:
        return None
    sizes = {"sphere": 1, "capsule": 2, "cylinder": 2}.get(kind, 3)
    material = int(m.geom_matid[i])
    rgba = m.mat_rgba[material] if material >= 0 and np.allclose(m.geom_rgba[i], [0.5, 0.5, 0.5, 1.0]) else m.geom_rgba[i]
    return Geometry(
        name=c.names["geometry"][i],
        body=c.names["body"][m.geom_bodyid[i]],
        kind=kind,
        size=_floats(m.geom_size[i][:sizes]),
        position=_floats(m.geom_pos[i]),
        orientation=_quaternion(m.geom_quat[i]),
        color=_floats(rgba),
    )


LAGS = (mj.mjtDyn.mjDYN_FILTER, mj.mjtDyn.mjDYN_FILTEREXACT)
"""Activation that is a first-order lag of the control; MuJoCo takes a step of Euler for the first, which is close where the time constant is many steps."""


def _actuators(c: Compiled) -> tuple[tuple[Actuator, ...], dict[tuple[str, int], float]]:
    """The drives, and the rotor inertia they add to what they act on (`armature gear^2`; ("joint" or "tendon", index) -> sum)."""
    m = c.mj
    out, armature = [], {}
    for i in range(m.nactuator):
        target, gear = int(m.actuator_trnid[i, 0]), float(m.actuator_gear[m.actuator_outadr[i], 0])
        kind = _acts_on(c, i)
        if m.actuator_armature[i]:
            armature[kind, target] = armature.get((kind, target), 0.0) + float(m.actuator_armature[i]) * gear * gear
        if not actuator_is_off(c, i):
            out.append(actuator_of(c, i))
    return tuple(out), armature


def _acts_on(c: Compiled, i: int) -> str:
    return "tendon" if c.mj.actuator_trntype[i] == int(mj.mjtTrn.mjTRN_TENDON) else "joint"


def actuator_of(c: Compiled, i: int) -> Actuator:
    m, kind = c.mj, _acts_on(c, i)
    target, control = int(m.actuator_trnid[i, 0]), int(m.actuator_ctrladr[i])
    bias = m.actuator_biasprm[i] if m.actuator_biastype[i] == int(mj.mjtBias.mjBIAS_AFFINE) else np.zeros(3)
    limited = bool(m.actuator_ctrllimited[control]) and not c.off(mj.mjtDisableBit.mjDSBL_CLAMPCTRL)
    through = "joint" if kind == "joint" else "transmission" if is_transmission(c, target) else "path"
    on: dict[str, Any] = {through: c.names[kind][target], "gear": float(m.actuator_gear[m.actuator_outadr[i], 0])}
    if is_muscle(c, i):
        return Muscle(name=c.names["actuator"][i], **on, delay=float(m.actuator_delay[i]), **muscle_numbers(c, i))
    return Actuator(
        name=c.names["actuator"][i],
        **on,
        gain=float(m.actuator_gainprm[i, 0]),
        bias=float(bias[0]),
        stiffness=-float(bias[1]) + 0.0,
        damping=-float(bias[2]) + float(m.actuator_damping[i]),
        delay=float(m.actuator_delay[i]),
        time_constant=float(m.actuator_dynprm[i, 0]) if mj.mjtDyn(int(m.actuator_dyntype[i])) in LAGS else 0.0,
        control_range=_floats(m.actuator_ctrlrange[control]) if limited else None,
        force_range=_floats(m.actuator_forcerange[i]) if m.actuator_forcelimited[i] else None,
    )


def actuator_is_off(c: Compiled, i: int) -> bool:
    group = int(c.mj.actuator_group[i])
    return c.off(mj.mjtDisableBit.mjDSBL_ACTUATION) or (0 <= group < 31 and bool(c.mj.opt.disableactuator >> group & 1))


def _loop(c: Compiled, i: int) -> Loop | None:
    """An active equality constraint; the inactive ones were noted before."""
    m = c.mj
    if not m.eq_active0[i] or c.off(mj.mjtDisableBit.mjDSBL_EQUALITY | mj.mjtDisableBit.mjDSBL_CONSTRAINT):
        return None
    name, data = c.names["loop"][i], m.eq_data[i]
    one, two = int(m.eq_obj1id[i]), int(m.eq_obj2id[i])
    if m.eq_type[i] == int(mj.mjtEq.mjEQ_JOINT):
        second = c.names["joint"][two] if two >= 0 else ""
        return Loop(name, COUPLING, joint1=c.names["joint"][one], joint2=second, polynomial=_floats(data[:5]))
    kind = POINT if m.eq_type[i] == int(mj.mjtEq.mjEQ_CONNECT) else WELD
    if m.eq_objtype[i] == int(mj.mjtObj.mjOBJ_SITE):
        body1, body2 = (c.names["body"][m.site_bodyid[s]] for s in (one, two))
        anchors = _floats(m.site_pos[one]), _floats(m.site_pos[two])
        turns = (_quaternion(m.site_quat[one]), _quaternion(m.site_quat[two]))
    else:
        body1, body2 = c.names["body"][one], c.names["body"][two]
        anchors = (_floats(data[:3]), _floats(data[3:6])) if kind == POINT else (_floats(data[3:6]), _floats(data[:3]))
        turns = (_quaternion(data[6:10]), (1.0, 0.0, 0.0, 0.0)) if kind == WELD else ((1.0, 0.0, 0.0, 0.0),) * 2
    if kind == POINT:
        turns = ((1.0, 0.0, 0.0, 0.0),) * 2
    return Loop(name, kind, body1, body2, anchors[0], anchors[1], turns[0], turns[1])


def is_spring(c: Compiled, i: int) -> bool:
    """Whether a tendon is a spring-damper between two points: a straight line between two sites, relaxed at one length, with nothing else."""
    m = c.mj
    first, count = int(m.tendon_adr[i]), int(m.tendon_num[i])
    straight = count == 2 and all(m.wrap_type[first + k] == int(mj.mjtWrap.mjWRAP_SITE) for k in range(2))
    bears = m.tendon_stiffness[i] != 0.0 or m.tendon_damping[i] != 0.0
    if not (straight and bears and m.tendon_lengthspring[i, 0] == m.tendon_lengthspring[i, 1]):
        return False
    others = (m.tendon_frictionloss, m.tendon_armature, m.tendon_stiffnesspoly, m.tendon_dampingpoly, m.tendon_springyield)
    ends = [m.site_bodyid[m.wrap_objid[first + k]] for k in range(2)]
    return ends[0] != ends[1] and not any(np.any(array[i]) for array in others)


MUSCLE = {"peak_force": 2, "lmin": 4, "lmax": 5, "vmax": 6, "fpmax": 7, "fvmax": 8}
"""Where MuJoCo keeps the numbers of a muscle (`gainprm`)."""


def is_muscle(c: Compiled, i: int) -> bool:
    """Whether an actuator is a muscle as MuJoCo has it, in gain and bias alike."""
    m = c.mj
    both = m.actuator_gaintype[i] == int(mj.mjtGain.mjGAIN_MUSCLE) and m.actuator_biastype[i] == int(mj.mjtBias.mjBIAS_MUSCLE)
    return both and bool(np.array_equal(m.actuator_gainprm[i, :9], m.actuator_biasprm[i, :9]))


def muscle_numbers(c: Compiled, i: int) -> dict[str, Any]:
    """The optimal length L_0 and the slack length L_T are those for which the range of lengths is the range of L; a peak force that is not given comes from the compiler's acceleration."""
    m = c.mj
    prm, (low, high) = m.actuator_gainprm[i], m.actuator_lengthrange[i]
    optimal = float((high - low) / max(prm[1] - prm[0], mj.mjMINVAL))
    out = {name: float(prm[k]) for name, k in MUSCLE.items()}
    if out["peak_force"] < 0.0:
        out["peak_force"] = float(prm[3] / max(m.actuator_acc0[i], mj.mjMINVAL))
    return out | {"optimal_length": optimal, "slack_length": float(low - prm[0] * optimal)}


def is_path(c: Compiled, i: int) -> bool:
    """Whether a tendon is a path through sites and around shapes, and not merely a spring between two points."""
    m, first = c.mj, int(c.mj.tendon_adr[i])
    kinds = {int(m.wrap_type[w]) for w in range(first, first + int(m.tendon_num[i]))}
    if int(mj.mjtWrap.mjWRAP_JOINT) in kinds or not kinds or is_spring(c, i):
        return False
    others = (m.tendon_stiffnesspoly, m.tendon_dampingpoly, m.tendon_springyield)
    return not any(np.any(array[i]) for array in others)


def _path(c: Compiled, i: int, extra_armature: float) -> Path:
    m, first = c.mj, int(c.mj.tendon_adr[i])
    through: list[Any] = []
    for w in range(first, first + int(m.tendon_num[i])):
        kind, target = int(m.wrap_type[w]), int(m.wrap_objid[w])
        if kind == int(mj.mjtWrap.mjWRAP_PULLEY):
            through.append(Pulley(float(m.wrap_prm[w])))
        elif kind == int(mj.mjtWrap.mjWRAP_SITE):
            through.append(c.names["site"][target])
        else:
            side = round(float(m.wrap_prm[w]))
            through.append(Wrap(c.names["geometry"][target], c.names["site"][side] if side >= 0 else ""))
    return Path(c.names["tendon"][i], through, **_tendon_law(c, i, extra_armature))


def is_transmission(c: Compiled, i: int) -> bool:
    """Whether a tendon is a linear combination of hinges and slides (`fixed`) with nothing that a `Transmission` has no place for."""
    m, wraps = c.mj, _turning(c, i)
    if not wraps or any(m.wrap_type[w] != int(mj.mjtWrap.mjWRAP_JOINT) for w in wraps):
        return False
    joints = [int(m.wrap_objid[w]) for w in wraps]
    scalar = all(m.jnt_type[j] in (int(mj.mjtJoint.mjJNT_HINGE), int(mj.mjtJoint.mjJNT_SLIDE)) for j in joints)
    others = (m.tendon_stiffnesspoly, m.tendon_dampingpoly, m.tendon_springyield)
    return scalar and len(set(joints)) == len(joints) and not any(np.any(array[i]) for array in others)


def _turning(c: Compiled, i: int) -> list[int]:
    """The parts of a tendon, but for joints with the coefficient zero."""
    m, first = c.mj, int(c.mj.tendon_adr[i])
    fixed = int(mj.mjtWrap.mjWRAP_JOINT)
    return [w for w in range(first, first + int(m.tendon_num[i])) if m.wrap_type[w] != fixed or m.wrap_prm[w]]


def _transmission(c: Compiled, i: int, extra_armature: float) -> Transmission:
    m, wraps = c.mj, _turning(c, i)
    joints = tuple(c.names["joint"][int(m.wrap_objid[w])] for w in wraps)
    return Transmission(c.names["tendon"][i], joints, _floats(m.wrap_prm[w] for w in wraps), **_tendon_law(c, i, extra_armature))


def _tendon_law(c: Compiled, i: int, extra_armature: float) -> dict[str, float]:
    """The spring with its dead band, the damper, the friction and the inertia of a tendon."""
    m, bit = c.mj, mj.mjtDisableBit
    low, high = _floats(m.tendon_lengthspring[i])
    return {
        "stiffness": 0.0 if c.off(bit.mjDSBL_SPRING) else float(m.tendon_stiffness[i]),
        "springref": 0.5 * (low + high),
        "damping": 0.0 if c.off(bit.mjDSBL_DAMPER) else float(m.tendon_damping[i]),
        "friction": 0.0 if c.off(bit.mjDSBL_FRICTIONLOSS | bit.mjDSBL_CONSTRAINT) else float(m.tendon_frictionloss[i]),
        "armature": float(m.tendon_armature[i]) + extra_armature,
        "backlash": high - low,
    }


def _spring(c: Compiled, i: int) -> Spring:
    m = c.mj
    one, two = (int(m.wrap_objid[m.tendon_adr[i] + k]) for k in range(2))
    return Spring(
        name=c.names["tendon"][i],
        body1=c.names["body"][m.site_bodyid[one]],
        body2=c.names["body"][m.site_bodyid[two]],
        point1=_floats(m.site_pos[one]),
        point2=_floats(m.site_pos[two]),
        stiffness=0.0 if c.off(mj.mjtDisableBit.mjDSBL_SPRING) else float(m.tendon_stiffness[i]),
        damping=0.0 if c.off(mj.mjtDisableBit.mjDSBL_DAMPER) else float(m.tendon_damping[i]),
        rest_length=float(m.tendon_lengthspring[i, 0]),
    )


# -- sensors -----------------------------------------------------------------------------------------------------------------------


def _channel(c: Compiled, i: int) -> str | None:
    """The channel a sensor measures, or None if there is no equivalent."""
    m = c.mj
    kind, target = mj.mjtSensor(int(m.sensor_type[i])), int(m.sensor_objid[i])
    s = mj.mjtSensor
    if kind in (s.mjSENS_JOINTPOS, s.mjSENS_JOINTVEL, s.mjSENS_JOINTACTFRC):
        hinge = m.jnt_type[target] == int(mj.mjtJoint.mjJNT_HINGE)
        what = {s.mjSENS_JOINTPOS: "angle" if hinge else "position", s.mjSENS_JOINTVEL: "rate", s.mjSENS_JOINTACTFRC: "force"}[kind]
        return f"joint.{c.names['joint'][target]}.{what}"
    if kind in (s.mjSENS_TENDONPOS, s.mjSENS_TENDONVEL) and is_transmission(c, target):
        hinge = m.jnt_type[m.wrap_objid[_turning(c, target)[0]]] == int(mj.mjtJoint.mjJNT_HINGE)
        return f"transmission.{c.names['tendon'][target]}.{'rate' if kind == s.mjSENS_TENDONVEL else 'angle' if hinge else 'position'}"
    if kind in (s.mjSENS_TENDONPOS, s.mjSENS_TENDONVEL) and is_path(c, target):
        return f"path.{c.names['tendon'][target]}.{'rate' if kind == s.mjSENS_TENDONVEL else 'length'}"
    if kind == s.mjSENS_ACTUATORFRC:
        # MuJoCo's sensor reads the force before the gear and without the drive's own damping; ours is the force on the joint.
        same = m.actuator_gear[m.actuator_outadr[target], 0] == 1.0 and m.actuator_damping[target] == 0.0 and not actuator_is_off(c, target)
        return f"actuator.{c.names['actuator'][target]}.force" if same else None
    if kind in (s.mjSENS_GYRO, s.mjSENS_ACCELEROMETER):
        return f"site.{c.names['site'][target]}.{'angular_rate' if kind == s.mjSENS_GYRO else 'acceleration'}"
    if kind in (s.mjSENS_FORCE, s.mjSENS_TORQUE) and m.site_bodyid[target] > 0:
        return f"site.{c.names['site'][target]}.{'force' if kind == s.mjSENS_FORCE else 'torque'}"
    if kind == s.mjSENS_FRAMEPOS and m.sensor_refid[i] < 0:
        return _frame_channel(c, int(m.sensor_objtype[i]), target)
    return None


def _frame_channel(c: Compiled, kind: int, target: int) -> str | None:
    if kind == int(mj.mjtObj.mjOBJ_SITE):
        return f"site.{c.names['site'][target]}.position"
    if kind not in (int(mj.mjtObj.mjOBJ_BODY), int(mj.mjtObj.mjOBJ_XBODY)) or target == 0:
        return None
    return f"body.{c.names['body'][target]}.{'com' if kind == int(mj.mjtObj.mjOBJ_BODY) else 'position'}"


def _sensor(c: Compiled, i: int) -> Sensor | None:
    channel = _channel(c, i)
    if channel is None or c.mj.sensor_cutoff[i] > 0.0:
        return None
    return Sensor(c.names["sensor"][i], channel, delay=float(c.mj.sensor_delay[i]), sd=max(0.0, float(c.mj.sensor_noise[i])))


def dropped_sensors(c: Compiled) -> list[int]:
    return [i for i in range(c.mj.nsensor) if _sensor(c, i) is None]


def _floats(values: Any) -> Any:
    return tuple(float(x) for x in values)


_quaternion: Callable[[Any], Any] = _floats
