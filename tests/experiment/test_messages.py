"""What is said about mistakes that show only with the model and the recordings: file and line, the name that was meant, and each once."""

from __future__ import annotations

from pathlib import Path

import pytest
from experiment.swing import EXPERIMENT, Command, write

LATER = [
    (
        'file = "swing.xml"',
        'file = "swng.xml"',
        "swing.toml:2: ",
        'The model "swng.xml" does not exist',
        "paths are relative to the file swing.toml",
        'did you mean "swing.xml"?',
    ),
    (
        'data = "swing.csv"',
        'data = "logs/swing.csv"',
        "swing.toml:4: ",
        'The recording "logs/swing.csv" does not exist',
        "paths are relative to the file swing.toml",
    ),
    ("joint.hinge.angle", "joint.hinge.position", "swing.toml:5: ", 'did you mean "joint.hinge.angle"?'),
    ("joint.hinge.angle", "joint.hinge.velocity", "swing.toml:5: ", 'did you mean "joint.hinge.rate"?'),
    ("joint.hinge.angle", "site.tip.gyro.y", "swing.toml:5: ", 'did you mean "site.tip.angular_rate.y"?'),
    ("joint.hinge.angle", "joint.hinge.colour", "swing.toml:5: ", "joint.hinge has angle, rate, force"),
    ("joint.hinge.angle", "joint.hnge.angle", "swing.toml:5: ", 'did you mean "joint.hinge.angle"?'),
    ('column = "theta"', 'column = "thta"', "swing.toml:5: ", '"swing.csv" has no column "thta"', 'did you mean "theta"?'),
    ("sd = 0.004", 'unit = "mm"', "swing.toml:5: ", 'cannot be measured in "mm"'),
    ('"actuator.motor"', '"actuator.moter"', "swing.toml:6: ", 'did you mean "actuator.motor"?'),
    ('"actuator.motor"', '"joint.hinge.angle"', "swing.toml:", "a drive prescribes it"),
    ('"body.arm.mass"', '"body.arm.weight"', "swing.toml:8: ", 'did you mean "mass"?'),
    ('"body.arm.mass"', '"body.amr.mass"', "swing.toml:8: ", 'did you mean "arm"?'),
    ('"joint.hinge.damping"', '"joint.hinge.viscous"', "swing.toml:10: ", 'did you mean "damping"?'),
    ('"joint.hinge.damping"', '"joint.hinge.coulomb"', "swing.toml:10: ", 'did you mean "friction"?'),
    ('"joint.hinge.damping"', '"joint.hinge.angle.offset"', "swing.toml:10: ", 'did you mean "joint.hinge.angle.bias"?'),
    ('"joint.hinge.damping"', '"joint.hinge.angle"', "swing.toml:10: ", "is a channel, which is measured", '"joint.hinge.angle.bias"'),
    ("upper = 1.0", "upper = 0.01", "swing.toml:10: ", "lies outside its bounds"),
    ("[[estimate]]", '[[payload]]\nframe = "tipp"\nmass = 1.0\n[[estimate]]', "swing.toml:7: ", 'did you mean "tip"?'),
    ('file = "swing.xml"', 'file = "swing.xml', "swing.toml:2: ", "not valid TOML"),
    ("h = 0.01", "h = [", "swing.toml:", "not valid TOML"),
]


@pytest.mark.parametrize("case", LATER, ids=range(len(LATER)))
def test_every_mistake_has_its_line(run: Command, tmp_path: Path, case: tuple[str, ...]) -> None:
    """`check` and `fit` say the same sentence, once, and nothing about files or functions of calibody."""
    old, new, *words = case
    assert old in EXPERIMENT
    file = write(tmp_path, EXPERIMENT.replace(old, new, 1))
    for command in ("check", "fit"):
        code, _, err = run(command, file)
        assert code == 2, err
        first = err.splitlines()[0]
        for word in words:
            assert word in first, (command, err)
        assert len(err.splitlines()) == len(set(err.splitlines())) and ".py" not in err and "Traceback" not in err
        if command == "fit":
            assert err.count("\n") == 1


def test_notes_are_said_once(run: Command, tmp_path: Path) -> None:
    from calibody import open as open_folder

    file = write(tmp_path, EXPERIMENT)
    assert run("fit", file, "--quiet")[0] in (0, 1)
    notes = open_folder(tmp_path / "swing-fit").notes
    assert len(notes) == len(set(notes))
