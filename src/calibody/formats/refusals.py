"""What a compiled file contains beyond a `Model`: refused if it bears force, noted in a sentence if it merely does not act here.

Refusing is the safe side: a force left out silently would be fitted by the wrong parameters.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from calibody.formats.compiled import LAGS, Compiled, actuator_is_off, dropped_sensors, is_muscle, is_path, is_spring, is_transmission
from calibody.formats.engine import mj

_GAINS = {mj.mjtGain.mjGAIN_AFFINE: "an affine gain", mj.mjtGain.mjGAIN_MUSCLE: "a muscle", mj.mjtGain.mjGAIN_USER: "a user-defined gain"}
_SHOWN = 4


def check(c: Compiled) -> None:
    """Refuse what bears force and cannot be represented."""
    _check_world(c)
    _check_bodies_and_joints(c)
    _check_tendons(c)
    for i in range(c.mj.nactuator):
        _check_actuator(c, i)
    for i in range(c.mj.neq):
        _check_equality(c, i)


def _check_world(c: Compiled) -> None:
    m = c.mj
    if m.opt.density > 0.0 or m.opt.viscosity > 0.0:
        raise c.refuse("", None, "the medium has density or viscosity (option), and fluid forces cannot be represented; set both to zero.")
    if m.nflex:
        raise c.refuse("", None, "the model has flexible bodies (flex), which cannot be represented; use rigid bodies.")
    if (m.body_plugin >= 0).any() or (m.actuator_plugin >= 0).any():
        raise c.refuse("", None, "the model has force-bearing plugins, which cannot be represented; remove them.")


def _check_bodies_and_joints(c: Compiled) -> None:
    m = c.mj
    for i in np.flatnonzero(m.body_gravcomp):
        raise c.refuse("body", int(i), "has gravity compensation (gravcomp), which cannot be represented; remove it.")
    if not c.off(mj.mjtDisableBit.mjDSBL_SPRING):
        for i in np.flatnonzero(_rows(m.jnt_stiffnesspoly)):
            raise c.refuse("joint", int(i), "has a polynomial stiffness, which cannot be represented; give one number.")
        for i in np.flatnonzero(_rows(m.jnt_springyield)):
            raise c.refuse("joint", int(i), "has a spring that yields, which cannot be represented; remove the yield.")
    if not c.off(mj.mjtDisableBit.mjDSBL_DAMPER):
        for i in np.flatnonzero(_rows(m.dof_dampingpoly)):
            raise c.refuse("joint", int(m.dof_jntid[i]), "has a polynomial damping, which cannot be represented; give one number.")


def _rows(array: Any) -> np.ndarray:
    array = np.asarray(array)
    return array.reshape(len(array), -1).any(axis=1) if array.size else np.zeros(0, dtype=bool)


def _check_tendons(c: Compiled) -> None:
    m = c.mj
    for what, array in (("stiffness", m.tendon_stiffness), ("damping", m.tendon_damping), ("friction", m.tendon_frictionloss), ("armature", m.tendon_armature),
                        ("polynomial stiffness", m.tendon_stiffnesspoly), ("polynomial damping", m.tendon_dampingpoly)):  # fmt: skip
        for i in np.flatnonzero(_rows(array)):
            if not is_spring(c, int(i)) and not is_transmission(c, int(i)) and not is_path(c, int(i)):
                raise c.refuse(
                    "tendon",
                    int(i),
                    f"has {what}, which cannot be represented here; give it one stiffness and one damping, over sites and shapes or over hinges and slides.",
                )


def _check_actuator(c: Compiled, i: int) -> None:
    m = c.mj
    reason = unlike(c, i)
    if reason and not (actuator_is_off(c, i) and m.actuator_armature[i] == 0.0):
        raise c.refuse("actuator", i, f"{reason}; use a motor, position, velocity or general actuator on a hinge or slide.")


def unlike(c: Compiled, i: int) -> str:
    """Why an actuator is none of calibody's own; empty if it is."""
    return _transmission(c, i) or _activation(c, i)


def _transmission(c: Compiled, i: int) -> str:
    m = c.mj
    kind = mj.mjtTrn(int(m.actuator_trntype[i]))
    tendon = int(m.actuator_trnid[i, 0])
    if kind == int(mj.mjtTrn.mjTRN_TENDON) and (is_transmission(c, tendon) or is_path(c, tendon)):
        return ""
    if kind not in (int(mj.mjtTrn.mjTRN_JOINT), int(mj.mjtTrn.mjTRN_JOINTINPARENT)):
        return f"acts on a {kind.name.removeprefix('mjTRN_').lower()}, which cannot be represented"
    joint = int(m.actuator_trnid[i, 0])
    if m.jnt_type[joint] not in (int(mj.mjtJoint.mjJNT_HINGE), int(mj.mjtJoint.mjJNT_SLIDE)):
        return f'acts on the ball or free joint "{c.names["joint"][joint]}", which cannot be represented'
    return ""


def _activation(c: Compiled, i: int) -> str:
    m = c.mj
    if is_muscle(c, i):
        return _muscle(c, i)
    if m.actuator_gaintype[i] != int(mj.mjtGain.mjGAIN_FIXED):
        gain = mj.mjtGain(int(m.actuator_gaintype[i]))
        return f"has {_GAINS.get(gain, 'a gain of type ' + gain.name.removeprefix('mjGAIN_').lower())}, which cannot be represented"
    dynamics = mj.mjtDyn(int(m.actuator_dyntype[i]))
    if dynamics in LAGS and bool(m.actuator_actlimited[i]):
        return "limits its activation, which cannot be represented"
    if dynamics not in (mj.mjtDyn.mjDYN_NONE, *LAGS):
        return f"has activation dynamics ({mj.mjtDyn(int(m.actuator_dyntype[i])).name.removeprefix('mjDYN_').lower()}), which cannot be represented"
    if m.actuator_biastype[i] not in (int(mj.mjtBias.mjBIAS_NONE), int(mj.mjtBias.mjBIAS_AFFINE)):
        return f"has a bias of type {mj.mjtBias(int(m.actuator_biastype[i])).name.removeprefix('mjBIAS_').lower()}, which cannot be represented"
    if m.actuator_ctrlnum[i] != 1 or m.actuator_outnum[i] != 1:
        return "has several controls or forces, which cannot be represented"
    if np.any(m.actuator_dampingpoly[i]):
        return "has a polynomial damping, which cannot be represented"
    return ""


def _muscle(c: Compiled, i: int) -> str:
    """Why a muscle cannot be represented."""
    m = c.mj
    if m.actuator_forcelimited[i] or m.actuator_damping[i] or np.any(m.actuator_dampingpoly[i]):
        return "is a muscle with a force limit or a damping of its own, which cannot be represented"
    if mj.mjtDyn(int(m.actuator_dyntype[i])) not in (mj.mjtDyn.mjDYN_NONE, mj.mjtDyn.mjDYN_MUSCLE):
        return (
            f"is a muscle with activation dynamics ({mj.mjtDyn(int(m.actuator_dyntype[i])).name.removeprefix('mjDYN_').lower()}), which cannot be represented"
        )
    if not m.actuator_lengthrange[i, 0] < m.actuator_lengthrange[i, 1]:
        return "is a muscle without a lengthrange, which cannot be represented"
    return ""


def _check_equality(c: Compiled, i: int) -> None:
    kind = mj.mjtEq(int(c.mj.eq_type[i]))
    if c.mj.eq_active0[i] and kind not in (int(mj.mjtEq.mjEQ_CONNECT), int(mj.mjtEq.mjEQ_WELD), int(mj.mjtEq.mjEQ_JOINT)):
        what = kind.name.removeprefix("mjEQ_").lower()
        raise c.refuse("loop", i, f"is an equality constraint of type {what}, which cannot be represented; use connect, weld or joint.")
    if kind == int(mj.mjtEq.mjEQ_JOINT) and c.mj.eq_active0[i]:
        for joint in (int(c.mj.eq_obj1id[i]), int(c.mj.eq_obj2id[i])):
            if joint >= 0 and c.mj.jnt_type[joint] not in (int(mj.mjtJoint.mjJNT_HINGE), int(mj.mjtJoint.mjJNT_SLIDE)):
                raise c.refuse("loop", i, "couples a ball or free joint, which cannot be represented; couple hinges and slides.")


# -- notes -------------------------------------------------------------------------------------------------------------------------


def notes(c: Compiled, soft_loops: bool) -> list[str]:
    """One plain sentence per kind of thing that is in the file and does not act here; in MJCF closed loops are soft."""
    m = c.mj
    used = [i for i in range(m.ntendon) if is_spring(c, i) or is_transmission(c, i) or is_path(c, i)]
    activated = [i for i in range(m.nactuator) if is_muscle(c, i) and m.actuator_dyntype[i] == int(mj.mjtDyn.mjDYN_MUSCLE) and not actuator_is_off(c, i)]
    flagged = [
        (_contacts(c), ""),
        ("Joint limits do not act: {}.", names_of(c, "joint", np.flatnonzero(limited(c)))),
        ("Limits of the actuator force on joints do not act: {}.", names_of(c, "joint", np.flatnonzero(m.jnt_actfrclimited))),
        ("Limits of the actuator force on tendons do not act: {}.", names_of(c, "tendon", np.flatnonzero(m.tendon_actfrclimited))),
        (
            "The force limits of these actuators act on their damping too, which the file leaves unlimited: {}.",
            names_of(c, "actuator", np.flatnonzero(m.actuator_forcelimited.astype(bool) & (m.actuator_damping != 0.0))),
        ),
        ("Actuators that the file switches off are left out: {}.", names_of(c, "actuator", [i for i in range(m.nactuator) if actuator_is_off(c, i)])),
        ("Tendons bear no force here, their limits do not act: {}.", names_of(c, "tendon", [i for i in range(m.ntendon) if i not in used])),
        ("The control of these muscles is their activation here; the file's activation dynamics does not act: {}.", names_of(c, "actuator", activated)),
        ("The length limits of springs, transmissions and paths do not act: {}.", names_of(c, "tendon", [i for i in used if m.tendon_limited[i]])),
        ("The dead band of a transmission or path has rounded corners here: {}.", names_of(c, "tendon", [i for i in used if _has_play(c, i)])),
        ("Equality constraints that the file switches off are left out: {}.", names_of(c, "loop", _inactive(c))),
        (
            "Closed loops are rigid here; the file's solref and solimp soften them: {}.",
            names_of(c, "loop", set(range(m.neq) if soft_loops else ()) - set(_inactive(c))),
        ),
        ("Sensors without an equivalent channel are left out: {}.", names_of(c, "sensor", dropped_sensors(c))),
        ("Bodies moved by motion capture stand still where the file puts them: {}.", names_of(c, "body", np.flatnonzero(m.body_mocapid >= 0))),
        ("Friction of a ball or free joint acts along its rate, not on each component: {}.", names_of(c, "joint", _round_friction(c))),
        *((sentence, "") for sentence in _switched_off(c)),
    ]
    return [sentence.format(names) for sentence, names in flagged if sentence and (names or "{}" not in sentence)]


def names_of(c: Compiled, kind: str, indices: Iterable[int]) -> str:
    names = [c.names[kind][int(i)] for i in sorted(indices)]
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _has_play(c: Compiled, i: int) -> bool:
    return bool(c.mj.tendon_stiffness[i] and c.mj.tendon_lengthspring[i, 1] > c.mj.tendon_lengthspring[i, 0])


def limited(c: Compiled) -> np.ndarray:
    return np.zeros(0) if c.off(mj.mjtDisableBit.mjDSBL_LIMIT | mj.mjtDisableBit.mjDSBL_CONSTRAINT) else c.mj.jnt_limited


def _contacts(c: Compiled) -> str:
    """Could any two geometries of bodies that move against each other touch?"""
    m = c.mj
    if c.off(mj.mjtDisableBit.mjDSBL_CONTACT | mj.mjtDisableBit.mjDSBL_CONSTRAINT):
        return ""
    welded = m.body_weldid[m.geom_bodyid]
    kinds = {(int(w), int(t), int(a)) for w, t, a in zip(welded, m.geom_contype, m.geom_conaffinity, strict=True) if t or a}
    possible = any(w1 != w2 and ((t1 & a2) or (t2 & a1)) for w1, t1, a1 in kinds for w2, t2, a2 in kinds)
    return "Contacts do not act: bodies pass through each other and through the ground." if possible or m.npair else ""


def _inactive(c: Compiled) -> list[int]:
    if c.off(mj.mjtDisableBit.mjDSBL_EQUALITY | mj.mjtDisableBit.mjDSBL_CONSTRAINT):
        return list(range(c.mj.neq))
    return [i for i in range(c.mj.neq) if not c.mj.eq_active0[i]]


def _round_friction(c: Compiled) -> list[int]:
    m = c.mj
    several = (int(mj.mjtJoint.mjJNT_BALL), int(mj.mjtJoint.mjJNT_FREE))
    return [i for i in range(m.njnt) if m.jnt_type[i] in several and m.dof_frictionloss[m.jnt_dofadr[i]] > 0.0]


def _switched_off(c: Compiled) -> list[str]:
    m, bit = c.mj, mj.mjtDisableBit
    cases = (
        (bit.mjDSBL_SPRING, "springs", m.jnt_stiffness.any()),
        (bit.mjDSBL_DAMPER, "dampers", m.dof_damping.any()),
        (bit.mjDSBL_FRICTIONLOSS | bit.mjDSBL_CONSTRAINT, "friction", m.dof_frictionloss.any()),
        (bit.mjDSBL_GRAVITY, "gravity", True),
    )
    return [f"The file switches {what} off (option flag), so it counts as zero here." for flag, what, present in cases if present and c.off(flag)]
