"""An arm with seven joints under position control: masses of six links and the damping of all joints, 13 unknowns at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from calibody.demos.base import Example, Simulated, sines

LINKS = (
    # length [m], axis, guessed mass [kg], gain of the servo [N m/rad]
    (0.30, "0 0 1", 3.0, 400.0),
    (0.25, "0 1 0", 3.0, 400.0),
    (0.25, "0 0 1", 2.5, 300.0),
    (0.22, "0 1 0", 2.5, 300.0),
    (0.20, "0 0 1", 2.0, 200.0),
    (0.12, "0 1 0", 1.5, 150.0),
    (0.08, "0 0 1", 0.8, 80.0),
)
TRUE_MASS = (3.0, 3.7, 2.1, 2.9, 1.5, 1.9, 1.1)
TRUE_DAMPING = (1.6, 2.2, 1.1, 1.7, 0.8, 0.6, 0.3)
GUESSED_DAMPING = 1.0


def _link(k: int) -> str:
    """The body of joint k (from 1), with all that it carries."""
    length, axis, mass, _ = LINKS[k - 1]
    below = LINKS[k - 2][0] if k > 1 else 0.0
    pad = "  " * (k + 1)
    across, along = mass * (length**2 / 12 + 0.002), mass * 0.0025
    inner = _link(k + 1) if k < len(LINKS) else f'{pad}  <site name="tool" pos="0.05 0 {length}"/>\n'
    return (
        f'{pad}<body name="link{k}" pos="0 0 {below}">\n'
        f'{pad}  <joint name="j{k}" type="hinge" axis="{axis}" damping="{GUESSED_DAMPING}"/>\n'
        f'{pad}  <inertial pos="0.02 0.01 {length / 2:g}" mass="{mass}" diaginertia="{across:.6g} {across:.6g} {along:.6g}"/>\n'
        f'{pad}  <geom type="capsule" fromto="0 0 0 0 0 {length}" size="{0.05 - 0.004 * k:.3f}" contype="0" conaffinity="0"/>\n'
        f"{inner}{pad}</body>\n"
    )


def _model() -> str:
    servos = "".join(f'    <position name="m{k}" joint="j{k}" kp="{kp:g}" kv="{0.1 * kp:g}"/>\n' for k, (_, _, _, kp) in enumerate(LINKS, 1))
    return f'<mujoco model="arm">\n  <compiler inertiafromgeom="false"/>\n  <worldbody>\n{_link(1)}  </worldbody>\n  <actuator>\n{servos}  </actuator>\n</mujoco>\n'


def _experiment() -> str:
    joints = range(1, len(LINKS) + 1)
    lines = [
        "# An arm with seven joints under position control: what do its links weigh, and how much do its joints brake?",
        "# calibody fit arm.toml            fits, and writes a folder with the calibrated model and report.html\n",
        '[model]\nfile = "arm.xml"                             # carries guesses\n',
        '[[run]]\ndata = "arm.csv"\ntime = "t"\n[run.observe]',
        *(f'"joint.j{k}.angle" = {{ column = "q{k}", sd = 0.0005 }}' for k in joints),
        "[run.drive]                                  # the commanded angles",
        *(f'"actuator.m{k}" = {{ column = "command{k}", hold = "zero" }}' for k in joints),
        "",
        "# The mass of link1 does not show: it turns about the vertical close to its own axis.",
        *(f'[[estimate]]\nparameter = "body.link{k}.mass"' for k in joints if k > 1),
        "",
        *(f'[[estimate]]\nparameter = "joint.j{k}.damping"' for k in joints),
    ]
    return "\n".join(lines) + "\n"


def _drive(times: np.ndarray) -> Mapping[str, np.ndarray]:
    grown = np.clip(times / 0.5, 0.0, 1.0)
    size = (0.9, 0.6, 0.8, 0.7, 0.9, 0.7, 1.0)
    bend = (0.0, 0.5, 0.0, 0.9, 0.0, 0.6, 0.0)
    return {
        f"actuator.m{k + 1}": grown * (bend[k] + sines(times, (size[k], 0.31 + 0.09 * k, 0.7 * k), (0.4 * size[k], 0.83 + 0.13 * k, 1.3 * k))) for k in range(7)
    }


EXAMPLE = Example(
    name="arm",
    model=_model(),
    experiment=_experiment(),
    truth={f"body.link{k}.mass": TRUE_MASS[k - 1] for k in range(2, 8)} | {f"joint.j{k}.damping": TRUE_DAMPING[k - 1] for k in range(1, 8)},
    recorded=Simulated(
        duration=4.0,
        rate=100.0,
        steps=5,
        initial={},
        observed={f"joint.j{k}.angle": (f"q{k}", 0.0005) for k in range(1, 8)},
        driven={f"actuator.m{k}": f"command{k}" for k in range(1, 8)},
        drive=_drive,
    ),
)
