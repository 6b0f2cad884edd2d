"""A cube that is tossed five times: friction, restitution and the ratio of inertia to mass from its poses alone, and that its mass cannot be told. All from twice the truth or half."""

from __future__ import annotations

import numpy as np

from calibody.demos.base import Example
from calibody.model import Model

MODEL = """\
<mujoco model="toss">
  <worldbody>
    <geom name="floor" type="plane" size="1 1 0.1" friction="0.4 0 0"/>
    <body name="cube">
      <freejoint name="free"/>
      <inertial pos="0 0 0" mass="0.37" diaginertia="0.0014 0.0014 0.0014"/>
      <geom name="hull" type="box" size="0.05 0.05 0.05" friction="0.4 0 0"/>
    </body>
  </worldbody>
</mujoco>
"""
TOSSES, EVERY, SEEN, RATE, STEPS = 5, 1.0, 0.16, 150.0, 6
"""How many, one after the other on the clock of the recording [s], each seen for [s], at [Hz]; simulated steps per sample."""
CHANNELS = {f"body.cube.{what}.{axis}": f"{what}_{axis}" for what in ("position", "angle") for axis in "xyz"}
SD = {"position": 2e-4, "angle": 2e-3}


def _experiment() -> str:
    columns = {what: ", ".join(f'"{what}_{axis}"' for axis in "xyz") for what in SD}
    observed = "\n".join(f'"body.cube.{what}" = {{ columns = [{columns[what]}], sd = {sd:g} }}' for what, sd in SD.items())
    runs = "\n".join(
        f"""
[[run]]
name = "toss{k + 1}"
data = "toss.csv"
time = "t"
start = {k * EVERY:.1f}
end = {k * EVERY + SEEN:.2f}
[run.observe]
{observed}"""
        for k in range(TOSSES)
    )
    return f"""\
# A cube that is tossed five times: how does it rub and bounce, and what is its inertia?
# calibody check toss.toml     says whether all is in order
# calibody fit toss.toml       fits, and writes a folder with the calibrated model and report.html

[model]
file = "toss.xml"                            # carries guesses, about twice the truth
contacts = true                              # contacts of the file act
{runs}

[[estimate]]
parameter = "contact.hull-floor.friction"

[[estimate]]
parameter = "contact.hull-floor.restitution" # which MJCF has no number for
initial = 0.6

[[estimate]]
parameter = "body.cube.mass"                 # nothing known pushes the cube: the report says that only its ratio to the inertia is told

[[estimate]]
name = "inertia"                             # the same about all axes
initial = 0.0014
[estimate.places]
"body.cube.inertia.xx" = "inertia"
"body.cube.inertia.yy" = "inertia"
"body.cube.inertia.zz" = "inertia"
"""


def _recorded(model: Model, noise: np.random.Generator) -> dict[str, np.ndarray]:
    """Tosses from random attitudes, spinning."""
    from calibody.steppers.rollout import simulate

    model = model.replace({f"body.cube.inertia.{axis}": TRUTH["inertia"] for axis in ("xx", "yy", "zz")})
    parts, times = [], np.arange(round(SEEN * RATE) + 1) / RATE
    for _ in range(TOSSES):
        turn, spin = noise.normal(size=4), noise.normal(size=3)
        start = {
            "joint.free.position": (0.0, 0.0, 0.16),
            "joint.free.orientation": turn / np.linalg.norm(turn),
            "joint.free.rate": (*noise.uniform(-0.8, 0.8, 2), -0.5, *(6.0 * spin / np.linalg.norm(spin))),
        }
        motion = simulate(model, SEEN, 1.0 / (RATE * STEPS), start)
        parts.append({c: motion[path][::STEPS] + SD[path.split(".")[2]] * noise.normal(size=len(times)) for path, c in CHANNELS.items()})
    t = np.concatenate([np.round(k * EVERY + times, 6) for k in range(TOSSES)])
    return {"t": t} | {c: np.concatenate([part[c] for part in parts]) for c in CHANNELS.values()}


TRUTH = {"contact.hull-floor.friction": 0.2, "contact.hull-floor.restitution": 0.3, "body.cube.mass": 0.37, "inertia": 7e-4}
EXAMPLE = Example(name="toss", model=MODEL, experiment=_experiment(), truth=TRUTH, contacts=True, recorded=_recorded)
