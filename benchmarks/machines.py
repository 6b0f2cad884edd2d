"""Real machines, as they were recorded: what fits with `process_noise = "auto"` say, and how sure they are.

    python benchmarks/machines.py cart | drives | triple | double | qube   [--runs c05 c06] [--starts 1 3 0.3] [--joint] [--h 0.004] [--noise auto]

The recordings are those of `../shared/data` (or CALIBODY_SHARED), models and unknowns those of `tests/machines.py`, the mesh the default one unless `--h` is given. One line per fit: what is known from elsewhere beside what was found, with its error bar;
how far a fit without unmodelled forces is away; the verdict; CPU time.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))  # the machines

import machines  # noqa: E402

import calibody as cb  # noqa: E402
from calibody.report.verdict import verdict  # noqa: E402

SHARED = Path(os.environ.get("CALIBODY_SHARED") or HERE.parents[1] / "shared")


@dataclass(frozen=True)
class Machine:
    model: Callable[[], cb.Model]
    unknowns: machines.Unknowns
    recording: Callable[[Path, str], cb.Recording]
    runs: tuple[str, ...]
    described: Callable[[cb.Result], Iterator[str]]


def number(result: cb.Result, path: str, known: float | None = None) -> str:
    e = result.parameters[path]
    bar = f"{e.sd:.3g}" if e.sd is not None else ("at bound" if e.at_bound else "no sd")
    off = "" if known is None or not e.sd else f" ({100 * (e.value / known - 1):+.2f} %, {(e.value - known) / e.sd:+.1f} sd)"
    return f"{path} {e.value:.5g} ± {bar}{off}"


def of_cart(result: cb.Result) -> Iterator[str]:
    yield number(result, "body.cart.mass")
    yield f"J/(m l) {machines.reduced({k: e.value for k, e in result.parameters.items()}):.4f} m (0.2195)"


def of_drives(result: cb.Result) -> Iterator[str]:
    for label, values in (
        ("auto", {k: e.value for k, e in result.parameters.items()}),
        ("none", result.without_forces.values if result.without_forces else {}),
    ):
        if values:
            yield f"{label}/authors " + " ".join(f"{v / machines.AUTHORS[k]:.2f}" for k, v in machines.five(values).items())


def of_arms(result: cb.Result) -> Iterator[str]:
    for k, name in enumerate(machines.NAMES[1:]):
        if f"joint.{name}.position.z" in result.parameters:
            yield number(result, f"joint.{name}.position.z", machines.PIVOTS[k])


def of_qube(result: cb.Result) -> Iterator[str]:
    yield number(result, "radius")
    yield f"J/(m l) {machines.furuta_reduced({k: e.value for k, e in result.parameters.items()}):.4f} m (0.0810)"


MACHINES = {
    "cart": Machine(machines.cartpole, machines.CARTPOLE, machines.cart_run, ("c05", "c06", "c07", "c08", "c09"), of_cart),
    "drives": Machine(machines.double_drive, machines.DOUBLE_DRIVE, machines.drive_run, ("143339", "143524", "143601", "143704", "154220"), of_drives),
    "triple": Machine(lambda: machines.arms(3), machines.arms_unknown(3), machines.swing, tuple(f"triple_id{k:02d}" for k in range(10)), of_arms),
    "double": Machine(lambda: machines.arms(2), machines.arms_unknown(2), machines.swing, tuple(f"double_vad{k:02d}" for k in range(4)), of_arms),
    "qube": Machine(machines.furuta, machines.FURUTA, machines.qube, ("r30", "r31", "r32", "r33", "r34"), of_qube),
}


def fitted(machine: Machine, names: tuple[str, ...], start: float, h: float | None, noise: str) -> str:
    began = time.process_time()
    runs = [machine.recording(SHARED, name) for name in names]
    result = cb.fit(machine.model(), runs, machines.scaled(machine.unknowns, start), process_noise=noise, h=h)
    cpu = time.process_time() - began
    with tempfile.TemporaryDirectory() as folder:
        result.report(folder)
        level = verdict(cb.open(folder)).level
    apart = result.without_forces
    compared = "" if apart is None else f"without forces {apart.largest[0]} {apart.largest[1]:+.1f} sd" if apart.apart else "without forces: did not converge"
    lacks = f"lacks {', '.join(s.path for s in result.lacks[:3])}" if result.lacks else ""
    slow = " ".join(note.split("joint ")[1].split(" ")[0] for note in result.notes if note.startswith("The unmodelled force is not white"))
    runs_agree = "" if result.runs_agree is None else f"runs agree: {result.runs_agree.agree}"
    what = [result.status if not result.converged else "converged", *machine.described(result), compared, lacks, slow and f"slow: {slow}", runs_agree, level]
    return (
        f"{' '.join(names)} from {start:g}: "
        + "; ".join(w for w in what if w)
        + f"; h {1e3 * result.mesh.h:.3g} ms, {result.iterations} iterations, {cpu:.0f} CPU s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("machine", choices=MACHINES)
    parser.add_argument("--runs", nargs="+")
    parser.add_argument("--starts", nargs="+", type=float, default=[1.0])
    parser.add_argument("--joint", action="store_true")
    parser.add_argument("--h", type=float)
    parser.add_argument("--noise", default="auto")
    given = parser.parse_args()
    machine = MACHINES[given.machine]
    runs = tuple(given.runs or machine.runs)
    np.set_printoptions(precision=4)
    for start in given.starts:
        for names in [runs] if given.joint else [(name,) for name in runs]:
            print(fitted(machine, names, start, given.h, given.noise), flush=True)


if __name__ == "__main__":
    main()
