"""Run by a Python with opensim: its inverse kinematics of the running trial, not stopped before its end. Arguments: folder of the trial, file for the motion (.mot); works in the current folder, which OpenSim fills."""

import shutil
import sys
from pathlib import Path

import opensim

ACCURACY = 1e-9
"""That of the setup file, 1e-4, ends the search some degrees before the least sum of squares."""


def main(folder, out):
    opensim.Logger.setLevelString("Off")
    model = opensim.Model(str(folder / "Rajagopal2015_scaled.osim"))
    model.initSystem()
    setup = shutil.copy(folder / "opensim_ik_setup.xml", "setup.xml")  # it writes beside its setup, wherever that is
    tool = opensim.InverseKinematicsTool(str(setup), False)
    tool.setModel(model)
    tool.set_accuracy(ACCURACY)
    tool.setMarkerDataFileName(str(folder / "motion_capture_run.trc"))
    tool.setResultsDir(".")
    tool.setOutputMotionFileName(out)
    if not tool.run():
        raise SystemExit("OpenSim's inverse kinematics failed")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
