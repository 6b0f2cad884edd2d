"""The recordings of the race with their models and truths."""

from __future__ import annotations

import json
from pathlib import Path

import calibody as cb

PATHS = {"mass": "body.link{}.mass", "inertia": "body.link{}.inertia.yy", "damping": "joint.hinge{}.damping", "friction": "joint.hinge{}.friction"}


def problem(shared: Path, name: str) -> tuple[cb.Model, cb.Recording, dict[str, float]]:
    """Model, recording and truth. The inertias that do not matter in the plane are made large, so that any guess of the one that does is possible."""
    kind = name.split("_")[1]
    count = {"single": 1, "double": 2}[kind]
    race = shared / "race"
    truth = json.loads((race / f"tumbling_{kind}_truth.json").read_text())
    columns = (race / f"{name}.csv").read_text().splitlines()[0].split(",")
    drives = (race / f"{name}_drive.csv").read_text().splitlines()[0].split(",")
    recording = cb.read(
        race / f"{name}.csv", time=columns[0],
        observe={f"joint.hinge{i + 1}.angle": {"column": columns[i + 1], "sd": 0.01} for i in range(count)},
        drive={f"actuator.motor{i + 1}": {"column": drives[i + 1], "file": f"{name}_drive.csv", "time": drives[0], "hold": "zero"} for i in range(count)},
    )  # fmt: skip
    model = cb.load(race / f"tumbling_{kind}.xml")
    model = model.replace({f"body.link{i + 1}.inertia.{axis}": 1.0 for i in range(count) for axis in ("xx", "zz")})
    return model, recording, {path.format(i + 1): truth[f"{key}{i + 1}"] for i in range(count) for key, path in PATHS.items()}
