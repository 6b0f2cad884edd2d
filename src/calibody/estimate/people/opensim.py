"""What a fit found, as files that OpenSim's tools and their users read.

    motion.mot          the joints' angles [deg] and positions [m], called as the joints: the coordinates of a model that was read from an .osim file
    moments.sto         what drives exert on them, measured or unknown: NAME_moment [N m] of hinges, NAME_force [N] of slides, as OpenSim's inverse dynamics calls them
    powers.sto          these times the joints' rates, NAME_power [W]
    motion_sd.mot, moments_sd.sto, powers_sd.sto      the standard deviations of these, at fewer instants

Joints that follow others by a coupling are left out, as they are in OpenSim's results.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from calibody.errors import CalibodyError
from calibody.model.elements import COUPLING, CURVE, HINGE, SLIDE
from calibody.recording.tables.storage import write

if TYPE_CHECKING:
    from calibody.estimate.result import Result
    from calibody.model import Joint

INSTANTS = 40
"""Of standard deviations: each costs as much as some iterations of a fit."""


def export(result: Result, folder: str | Path, run: str | int = 0) -> tuple[Path, ...]:
    """The files of one run in a folder, which is made if need be; standard deviations only of a fit that has them."""
    motion, where = result.motion(run), Path(folder)
    followers = {loop.joint1 for loop in result.model.loops if loop.kind in (COUPLING, CURVE)}
    joints = [j for j in result.model.joints if j.kind in (HINGE, SLIDE) and j.name not in followers]
    if not joints:
        raise CalibodyError(
            f'The model "{result.model.name}" has no hinge or slide, whose angles and positions are the columns of OpenSim\'s files; read its channels instead.'
        )
    where.mkdir(parents=True, exist_ok=True)
    places = {j.name: np.rad2deg(motion[_place(j)]) if j.kind == HINGE else motion[_place(j)] for j in joints}
    write(where / "motion.mot", "Coordinates", {"time": motion.time, **places}, degrees=True)
    write(where / "moments.sto", "Generalized Forces", {"time": motion.time, **{_named(j): motion[f"joint.{j.name}.force"] for j in joints}})
    powers = {f"{j.name}_power": motion[f"joint.{j.name}.force"] * motion[f"joint.{j.name}.rate"] for j in joints}
    write(where / "powers.sto", "Joint powers", {"time": motion.time, **powers})
    written = where / "motion.mot", where / "moments.sto", where / "powers.sto"
    if not (result.converged and result.problem.bars):
        return written
    from calibody.estimate.channels import driven_sds

    times = motion.time[np.unique(np.linspace(1, len(motion.time) - 3, INSTANTS).round().astype(int))]
    forces, at, of_powers = driven_sds(result, result._run(run), [j.name for j in joints], times)
    sds = {j: np.rad2deg(sd) if j.kind == HINGE else sd for j, sd in zip(joints, at, strict=True)}
    write(where / "motion_sd.mot", "Standard deviations of coordinates", {"time": times, **{j.name: sd for j, sd in sds.items()}}, degrees=True)
    write(where / "moments_sd.sto", "Standard deviations of generalized forces", {"time": times, **dict(zip(map(_named, joints), forces, strict=True))})
    write(where / "powers_sd.sto", "Standard deviations of joint powers", {"time": times, **dict(zip(powers, of_powers, strict=True))})
    return (*written, where / "motion_sd.mot", where / "moments_sd.sto", where / "powers_sd.sto")


def _place(joint: Joint) -> str:
    return f"joint.{joint.name}.{'angle' if joint.kind == HINGE else 'position'}"


def _named(joint: Joint) -> str:
    return f"{joint.name}_{'moment' if joint.kind == HINGE else 'force'}"
