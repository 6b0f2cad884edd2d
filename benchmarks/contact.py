"""Steps with contact per second, beside MuJoCo's and beside our own without contact.

    python benchmarks/contact.py

One box at rest on the ground (4 corners touch) and four of them (16), at h = 2 ms. MuJoCo steps the same boxes; its contacts are soft and its program is compiled C, ours are rigid,
and run in compiled pieces as long as the same places touch (single steps, as at impacts, make about a thousand per second). CPU times, best of three.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import mujoco

import calibody as cb

H, DURATION = 0.002, 10.0


def boxes(count: int) -> tuple[cb.Model, dict[str, tuple[float, float, float]], str]:
    """The model, its start, and the same as MJCF."""
    names = [f"box{i}" for i in range(count)]
    model = cb.Model(
        bodies=[cb.Body(n, mass=1.0, inertia=(0.002, 0.003, 0.004)) for n in names],
        joints=[cb.Joint(n, n, "free") for n in names],
        geometries=[cb.Geometry(n, n, "box", (0.1, 0.08, 0.06)) for n in names],
        contacts=[cb.Contact(n, n, friction=0.5) for n in names],
    )
    start = {f"joint.{n}.position": (0.5 * i, 0.0, 0.06) for i, n in enumerate(names)}
    bodies = "".join(
        f"<body pos='{0.5 * i} 0 .06'><freejoint/><inertial pos='0 0 0' mass='1' diaginertia='.002 .003 .004'/><geom type='box' size='.1 .08 .06'/></body>"
        for i in range(count)
    )
    return model, start, f"<mujoco><option timestep='{H}'/><worldbody><geom type='plane' size='9 9 1'/>{bodies}</worldbody></mujoco>"


def rate(run: Callable[[], object], steps: int) -> float:
    """Steps per second, after one run that is not counted."""
    run()
    times = []
    for _ in range(3):
        begin = time.process_time()
        run()
        times.append(time.process_time() - begin)
    return steps / min(times)


def main() -> None:
    steps = round(DURATION / H)
    print(f"{'contacts':>8}  {'with contact':>14}  {'in flight':>14}  {'MuJoCo':>14}   steps/s")
    for count in (1, 4):
        model, start, text = boxes(count)
        m = mujoco.MjModel.from_xml_string(text)

        def theirs(m: mujoco.MjModel = m) -> None:
            data = mujoco.MjData(m)
            for _ in range(steps):
                mujoco.mj_step(m, data)

        ours = [rate(lambda c=c: cb.simulate(model, DURATION, H, initial=start, contacts=c), steps) for c in (True, False)]  # noqa: B023
        print(f"{4 * count:>8}  {ours[0]:>14.0f}  {ours[1]:>14.0f}  {rate(theirs, steps):>14.0f}")


if __name__ == "__main__":
    main()
