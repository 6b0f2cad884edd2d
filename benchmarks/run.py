"""Times of the core, against fixed gates and a committed baseline.

    python benchmarks/run.py            measure, print a table, exit 1 if a gate or the baseline is missed
    python benchmarks/run.py --update   measure and write benchmarks/baseline.json
    python benchmarks/run.py --only simulate

Machines differ and are noisy, so what is compared with the baseline is each time divided by the time of a fixed piece of reference work
(MuJoCo stepping a seven-joint arm, in the same run); the gates are absolute promises for two cores, or ratios between two models.
Every measurement is the best of several.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))  # the tables of problems
BASELINE = HERE / "baseline.json"
NODES = 4000


@dataclass(frozen=True)
class Metric:
    """A measured number: `gate` is the promise (at most, or at least if `more_is_better`); `relative` compares with the baseline."""

    name: str
    value: float
    unit: str
    gate: float | None = None
    more_is_better: bool = False
    relative: float | None = None
    """Value in units of the reference work (lower is better); None for ratios, which need none."""
    tolerance: float = 1.6
    """How much worse than the baseline is still accepted: the spread seen between runs on shared machines."""

    @property
    def within_gate(self) -> bool:
        if self.gate is None:
            return True
        return self.value >= self.gate if self.more_is_better else self.value <= self.gate


def best(function: Callable[[], object], repeats: int = 5) -> float:
    """Shortest of several runs [s], after one that is not counted."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


# -- models --------------------------------------------------------------------------------------------------------------------------


def chain(count: int):
    """A chain of hinged bodies with skew axes, damping, friction and armature."""
    import calibody as cb

    rng = np.random.default_rng(5)
    bodies = [
        cb.Body(f"b{i}", "world" if i == 0 else f"b{i - 1}", mass=1.0, com=(0, 0.02, -0.15), inertia=(0.02, 0.02, 0.01, 0.001, 0, 0), position=(0, 0, -0.3))
        for i in range(count)
    ]
    joints = [cb.Joint(f"j{i}", f"b{i}", axis=tuple(rng.normal(size=3)), damping=0.1, friction=0.01, armature=0.01) for i in range(count)]
    return cb.Model(f"chain{count}", bodies, joints)


def point(structure, numbers, nodes: int = NODES):
    """A slow motion through `nodes` nodes: values do not matter, sizes do."""
    from calibody.mechanics import host
    from calibody.mechanics.kinematics import retract
    from calibody.mechanics.point import Point
    from calibody.mechanics.structure import VELOCITIES, Numbers, Structure
    from calibody.steppers.base import Start
    from calibody.steppers.start import free_start

    tree = Structure.build(structure.model, "tree")
    tree_numbers = Numbers.of(tree)
    q = host.zero_coordinates(tree, tree_numbers)
    if structure.coordinates == "free":
        q = free_start(tree, structure, tree_numbers, Start(q, np.zeros(tree.nv), q)).q
    rate = 0.3 * np.sin(np.linspace(0.0, 10.0, nodes))
    q = retract(structure, np.repeat(q[:, None], nodes, axis=1), rate * np.ones((structure.nv, 1)))
    applied = sum(VELOCITIES[u.kind] for u in structure.tree_units)
    return Point(q, np.ones((structure.nc, nodes)), np.zeros((0, nodes - 1)), np.zeros((applied, nodes - 1)), 0.01, 0.1)


def evaluation(count: int, coordinates: str, nodes: int = NODES) -> Callable[[], object]:
    from calibody.mechanics.equations import evaluate
    from calibody.mechanics.structure import Numbers, Structure

    structure = Structure.build(chain(count), coordinates)
    numbers = Numbers.of(structure)
    at = point(structure, numbers, nodes)
    return lambda: evaluate(structure, numbers, at)


def parameter_columns(count: int) -> Callable[[], object]:
    """Derivatives with respect to all inertial numbers, damping and friction of a tree."""
    from calibody.mechanics.parameters import columns
    from calibody.mechanics.structure import Numbers, Structure

    structure = Structure.build(chain(count), "tree")
    numbers = Numbers.of(structure)
    at = point(structure, numbers)
    fields = ["mass", *(f"com.{c}" for c in "xyz"), *(f"inertia.{c}" for c in ("xx", "yy", "zz", "xy", "xz", "yz"))]
    paths = [f"body.b{i}.{f}" for i in range(count) for f in fields] + [f"joint.j{i}.{f}" for i in range(count) for f in ("damping", "friction")]
    return lambda: columns(structure, numbers, at, paths)


def linearisation(unknown: Sequence[str]) -> Callable[[], object]:
    """Of eight links with two markers each (48 channels), 1000 nodes and as many samples: residuals, equations, all derivatives."""
    import calibody as cb
    from calibody.estimate.layout import MULTIPLIERS, NODES, States
    from calibody.estimate.nodes import Noise
    from calibody.estimate.problem import Problem
    from calibody.estimate.run import Run
    from calibody.estimate.unknowns import entries
    from calibody.mechanics.structure import Numbers, Structure

    markers = [cb.Site(f"m{i}{k}", f"b{i}", (0.05, 0.03, -0.1 - 0.1 * k)) for i in range(8) for k in range(2)]
    model, times = replace(chain(8), sites=markers), 0.01 * np.arange(1000)
    channels = [f"site.{m.name}.position.{c}" for m in markers for c in "xyz"]
    recording = cb.Recording("run", tuple(cb.Observation(c, times, np.sin(times), sd=1e-3) for c in channels))
    structure = Structure.build(model, "tree")
    run = Run.of(structure, recording, 0.01, Noise({c: 1e-3 for c in channels}, frozenset(), {}))
    problem = Problem.of([run], entries(model, dict.fromkeys(unknown), ["run"]))
    states = [States({NODES: point(structure, Numbers.of(structure), run.K).q, MULTIPLIERS: np.zeros((0, run.K))})]
    theta = np.array([e.initial for e in problem.entries])
    return lambda: problem.linearise(states, theta)


def iteration(count: int, coordinates: str) -> Callable[[], object]:
    """One of a fit of a chain observed at all joints, 1000 nodes and as many samples, mass and damping of every link unknown: linearisation, step and values after it."""
    import calibody as cb
    from calibody.estimate.layout import MULTIPLIERS, NODES, States
    from calibody.estimate.nodes import Noise
    from calibody.estimate.problem import Problem
    from calibody.estimate.run import Run
    from calibody.estimate.unknowns import entries
    from calibody.mechanics.structure import Numbers, Structure
    from calibody.solve.condensed import step
    from calibody.solve.threads import one_thread

    model, times = chain(count), 0.01 * np.arange(1000)
    channels = [f"joint.j{i}.angle" for i in range(count)]
    recording = cb.Recording("run", tuple(cb.Observation(c, times, np.sin(times), sd=1e-3) for c in channels))
    structure = Structure.build(model, coordinates)
    run = Run.of(structure, recording, 0.01, Noise({c: 1e-3 for c in channels}, frozenset(), {}))
    problem = Problem.of(
        [run], entries(model, dict.fromkeys([f"body.b{i}.mass" for i in range(count)] + [f"joint.j{i}.damping" for i in range(count)]), ["run"])
    )
    motion = point(structure, Numbers.of(structure), run.K)
    states, theta = States({NODES: motion.q, MULTIPLIERS: motion.multipliers}), np.array([e.initial for e in problem.entries])

    @one_thread
    def once() -> None:
        step(problem.linearise([states], theta), theta, problem.lower, problem.upper, problem.scale**-2, problem.scale)
        problem.values([states], theta * (1.0 + 1e-9))

    return once


def coordinates_compared() -> list[Metric]:
    """An iteration of a fit in `free` over one in `tree` coordinates."""
    ratio = {n: best(iteration(n, "free")) / best(iteration(n, "tree")) for n in (2, 5)}
    return [Metric(f"an iteration of a fit of {n} bodies: free over tree", x, "x", gate=4.0) for n, x in ratio.items()]


def placements() -> list[Metric]:
    """Geometry as unknowns: a linearisation with 23 places of links and markers over one with a single mass."""
    places = [f"body.b{i}.position.{c}" for i in range(1, 8) for c in "xyz"] + ["site.m70.position.x", "site.m31.position.y"]
    none, some = (best(linearisation(names)) for names in (["body.b0.mass"], places))
    return [Metric("linearisation, 48 marker channels: 23 places over none", some / none, "x", gate=4.0)]


def stepping(count: int, coordinates: str, steps: int) -> float:
    """Steps per second of the compiled program, without compiling."""
    from calibody.mechanics import host
    from calibody.mechanics.structure import Numbers, Structure
    from calibody.steppers import step
    from calibody.steppers.start import start_of

    structure = Structure.build(chain(count), coordinates)
    numbers = Numbers.of(structure)
    start, _ = start_of(structure, numbers, {"joint.j0.angle": 0.5}, "mass", 1.0)
    values = step.Values.of(structure, numbers, np.ones(structure.nc))
    first = step.first_state(structure, numbers, host.configuration(structure, numbers, start.q), start, 1e-3)
    advance = step.compiled(structure, values, first, 0)
    control, applied = np.zeros((0, step.PIECE)), np.zeros((count, step.PIECE))

    def run() -> None:
        state, status = first, 0
        for _ in range(steps // step.PIECE):
            _, state, _, _, status, _ = advance(values, state, control, applied, np.int32(step.PIECE), np.float64(1e-3), np.float64(1e-3))
        assert int(status) == 0

    return steps // step.PIECE * step.PIECE / best(run, 3)


def bricard():
    """Bricard's six-bar linkage (five rods and the ground): closed by two points on its last hinge, two of whose six equations are redundant."""
    import calibody as cb

    corners = np.array([(0, 0, 0), (1, 0, 0), (1, -1, 0), (1, -1, 1), (0, -1, 1), (0, 0, 1)], float)
    axes = [(0, 1, 0), (0, 0, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    bodies = []
    for i, d in enumerate(np.diff(corners, axis=0)):
        inertia = np.where(np.abs(d) > 0.5, 0.02 / 12, 1.01 / 12)
        at = corners[i] - (corners[i - 1] if i else 0.0)
        bodies.append(cb.Body(f"rod{i}", f"rod{i - 1}" if i else "world", mass=1.0, com=tuple(d / 2), inertia=tuple(inertia), position=tuple(at)))
    joints = [cb.Joint(f"j{i}", f"rod{i}", axis=axis) for i, axis in enumerate(axes)]
    ends = [((x, 0.0, 0.0), (x, 0.0, 1.0)) for x in (-0.5, 0.5)]
    loops = [cb.Loop(f"close{k}", body1="rod4", body2="world", anchor1=tuple(np.subtract(b, corners[4])), anchor2=b) for k, (_, b) in enumerate(ends)]
    return cb.Model("bricard", bodies, joints, loops, world=cb.World(gravity=(0, -9.81, 0)))


def fourbar():
    import calibody as cb

    bar = {"mass": 1.0, "com": (0.5, 0, 0), "inertia": (0.01, 0.1, 0.1)}
    bodies = [cb.Body("a", **bar), cb.Body("b", "a", position=(1, 0, 0), **bar), cb.Body("c", position=(1, 0, 0), **bar)]
    loop = cb.Loop("close", body1="b", body2="c", anchor1=(1, 0, 0), anchor2=(1, 0, 0))
    return cb.Model("fourbar", bodies, [cb.Joint(f"j{x}", x) for x in "abc"], [loop], world=cb.World(gravity=(0, -9.81, 0)))


def short_run(name: str) -> Callable[[], object]:
    """Ten steps: what `simulate` takes besides its steps."""
    import calibody as cb

    model, start = {"bricard": (bricard, {}), "fourbar": (fourbar, {"joint.ja.angle": 1.0, "joint.jc.angle": 1.0})}[name]
    built = model()
    return lambda: cb.simulate(built, 0.01, 1e-3, start)


def spook_chain(steps: int) -> Callable[[], object]:
    """A chain of 30 bodies with dry friction in every joint."""
    import calibody as cb

    model = chain(30).replace({f"joint.j{i}.armature": 0.0 for i in range(30)})
    return lambda: cb.simulate(model, 1e-3 * steps, 1e-3, {"joint.j0.angle": 0.5}, stepper="spook")


def arm_over_mujoco(steps: int = 4096) -> float | None:
    """Time of a step of the seven-joint arm of `arm.py` (with its friction) over that of MuJoCo's; None without pybullet's data."""
    import mujoco
    from arm import arm

    import calibody as cb
    from calibody import formats

    built = arm()
    if built is None:
        return None
    model, joints, _ = built
    with tempfile.TemporaryDirectory() as folder:
        formats.convert(model, Path(folder) / "arm.xml")
        theirs = mujoco.MjModel.from_xml_path(str(Path(folder) / "arm.xml"))  # type: ignore[attr-defined]
    theirs.opt.timestep = 1e-3
    data = mujoco.MjData(theirs)  # type: ignore[attr-defined]

    def stepped() -> None:
        mujoco.mj_resetData(theirs, data)  # type: ignore[attr-defined]
        data.qpos[:] = 0.5
        for _ in range(steps):
            mujoco.mj_step(theirs, data)  # type: ignore[attr-defined]

    def run(n: int) -> Callable[[], object]:
        return lambda: cb.simulate(model, 1e-3 * n, 1e-3, {f"joint.{j}.angle": 0.5 for j in joints})

    ours = best(run(steps + 64), 3) - best(run(64), 3)
    return ours / best(stepped, 3)


def friction_batch(count: int) -> Callable[[], object]:
    """Complementarity problems of 12 rows: three planar contacts each."""
    from friction_problems import PLANAR, random_problem

    from calibody.complementarity import lcp

    rng = np.random.default_rng(0)
    M, q = (np.array(x) for x in zip(*(random_problem([PLANAR] * 3, rng) for _ in range(count)), strict=True))
    return lambda: lcp.solve_many(M, q)


def furuta_run(seconds: float, **law: float) -> Callable[[], object]:
    """The Furuta pendulum of [marklund2025], appendix G.3, at h = 1e-4 s."""
    from problems import FURUTA_START, furuta

    import calibody as cb

    model, stepper = furuta(**law), cb.Spook(compliance=1e-5, angular_compliance=1e-5)
    return lambda: cb.simulate(model, seconds, 1e-4, FURUTA_START, stepper=stepper)


VOLTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "release": lambda t: 0.0 * t,
    "swing-up": lambda t: 1.2 * np.sin(2.0 * np.pi * (0.9 - 0.008 * t) * t),
    "pulse": lambda t: np.where((t >= 1.0) & (t < 2.0), 2.0, 0.0),
}
"""The paper's three recordings of a Furuta pendulum, with the drives of `examples/shadow_study.py`."""


def shadow_fit(nodes: int = 2000, scenario: str = "pulse") -> Callable[[], object]:
    """The paper's 13 unknowns of the Furuta pendulum, h = 10 ms; gives the times between its iterations."""
    from problems import FURUTA_START, FURUTA_UNKNOWN, furuta

    import calibody as cb

    model, stepper = furuta(load_friction=4e-4, friction_radius=1.0), cb.Spook(compliance=1e-4, angular_compliance=1e-4)
    model = model.replace({"world.gravity.tilt": (0.01, -0.02, 0.0)})
    times = 0.01 * np.arange(nodes + 1)
    angles = {"joint.hinge1.angle": 0.3 * np.sin(2.0 * times), "joint.hinge2.angle": 0.8 * np.sin(5.0 * times)}
    drive = cb.Signal(times, VOLTS[scenario](times))
    if nodes > 100:
        motion = cb.simulate(model, times[-1], 1e-3, FURUTA_START if scenario == "release" else None, {"actuator.motor": drive}, stepper=stepper)
        angles = {c: motion[c][::10] for c in angles}
    noise = np.random.default_rng(0)
    observed = tuple(cb.Observation(c, times, y + 1e-3 * noise.normal(size=len(y)), sd=1e-3) for c, y in angles.items())
    run = cb.Recording(scenario, observed, (cb.Drive("actuator.motor", drive),))

    def fit(formulation: str = "eliminated") -> list[float]:
        moments: list[float] = []
        cb.fit(model, run, FURUTA_UNKNOWN, method="shadow", stepper=stepper, formulation=formulation, report=lambda _: moments.append(time.perf_counter()))
        return list(np.diff(moments))

    return fit


def reference_work() -> Callable[[], object]:
    """A thousand steps of MuJoCo with the seven-joint chain: the unit of time."""
    import mujoco

    import calibody as cb
    from calibody import formats

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chain7.xml"
        formats.convert(chain(7), path)
        model = mujoco.MjModel.from_xml_path(str(path))  # type: ignore[attr-defined]
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)  # type: ignore[attr-defined]
    data = mujoco.MjData(model)  # type: ignore[attr-defined]
    assert cb is not None

    def run() -> None:
        mujoco.mj_resetData(model, data)  # type: ignore[attr-defined]
        for _ in range(1000):
            mujoco.mj_step(model, data)  # type: ignore[attr-defined]

    return run


# -- processes -----------------------------------------------------------------------------------------------------------------------

CHILD = """
import sys, time
start = time.perf_counter()
sys.path.insert(0, {folder!r})
import run
work = run.{work}
ready = time.perf_counter() - start
work()
first = time.perf_counter() - start
again = run.best(work, 2)
print(first, again, ready)
"""


class Process(NamedTuple):
    """Seconds of a new interpreter: the whole process until the first answer; inside it the imports, until the first answer, and for a second one."""

    total: float
    ready: float
    first: float
    again: float


def process(work: str, cache: Path) -> Process:
    """A new interpreter that does `work` again and again."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", CHILD.format(folder=str(HERE), work=work)],
        env={**os.environ, "CALIBODY_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    total = time.perf_counter() - start
    first, again, ready = (float(x) for x in done.stdout.split())
    return Process(total - 3 * again, ready, first, again)


def simulation(count: int, coordinates: str) -> Callable[[], object]:
    import calibody as cb

    model = chain(count)
    return lambda: cb.simulate(model, 0.1, 1e-3, {"joint.j0.angle": 0.5}, coordinates=coordinates)


# -- the suite -----------------------------------------------------------------------------------------------------------------------


MINUTE = """
[model]
file = "pendulum.xml"
[[run]]
data = "swing.csv"
time = "t"
[run.observe]
"joint.j0.angle" = { column = "angle", sd = 0.001 }
"joint.j0.rate" = { column = "rate", sd = 0.01 }
[[estimate]]
parameter = "joint.j0.damping"
[[estimate]]
parameter = "joint.j0.friction"
[[estimate]]
parameter = "joint.j0.angle.bias"
"""


def commands() -> list[Metric]:
    """What a user waits for at the prompt: `--help`, and `check` of a minute at 1 kHz; the best of five processes."""
    from calibody import formats

    def seconds(*arguments: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "calibody", *arguments], capture_output=True, check=True)
        return time.perf_counter() - began

    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        formats.convert(chain(1), here / "pendulum.xml")
        t = np.arange(60_000) / 1000
        np.savetxt(here / "swing.csv", np.column_stack([t, np.sin(3 * t), 3 * np.cos(3 * t)]), delimiter=",", header="t,angle,rate", comments="", fmt="%.6f")
        (here / "minute.toml").write_text(MINUTE)
        asked, checked = (min(seconds(*arguments) for _ in range(5)) for arguments in (("--help",), ("check", str(here / "minute.toml"))))
    return [Metric("calibody --help", asked, "s", gate=0.3), Metric("calibody check, one minute at 1 kHz", checked, "s", gate=3.0)]


MILLION = """
import resource, sys, time
import calibody as cb
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = time.perf_counter()
run = cb.read(sys.argv[1], observe={"joint.j0.angle": "angle", "joint.j0.rate": "rate"}, drive={"joint.j0.force": "torque"})
assert len(run["joint.j0.angle"].times) == 1_000_000
print(time.perf_counter() - began, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


def million_rows() -> list[Metric]:
    """A CSV of a million rows and four columns (45 MB) read as a recording, in a process of its own: seconds, imports included, and what its memory grows by."""
    with tempfile.TemporaryDirectory() as folder:
        path, t = Path(folder) / "long.csv", np.arange(1_000_000) / 1000
        columns = np.column_stack([t, np.sin(3 * t), 3 * np.cos(3 * t), np.sin(t)])
        np.savetxt(path, columns, delimiter=",", header="t,angle,rate,torque", comments="", fmt="%.8f")
        done = [subprocess.run([sys.executable, "-c", MILLION, str(path)], capture_output=True, check=True, text=True).stdout.split() for _ in range(3)]
    seconds, memory = (min(float(words[k]) for words in done) for k in (0, 1))
    return [Metric("reading a CSV of a million rows", seconds, "s", gate=5.0), Metric("the same: memory", memory, "MB", gate=1500.0)]


def startup() -> list[Metric]:
    with tempfile.TemporaryDirectory() as folder:
        cold = process("evaluation(2, 'free', 200)", Path(folder)).total
        warm = min(process("evaluation(3, 'free', 200)", Path(folder)).total for _ in range(3))
    return [
        Metric("first start ever, empty cache", cold, "s", gate=12.0),
        Metric("second process, another model of the same element types", warm, "s", gate=1.5),
        *commands(),
    ]


def compile_ratios() -> list[Metric]:
    """Compile time is what the first call takes beyond the second, each in a process of its own with an empty cache. Only simulation compiles anything."""

    def compile_time(work: str) -> float:
        times = []
        for _ in range(2):
            with tempfile.TemporaryDirectory() as folder:
                p = process(work, Path(folder))
                times.append(p.first - p.again)
        return min(times)

    step = compile_time("simulation(30, 'tree')") / compile_time("simulation(3, 'tree')")
    return [Metric("simulate: compiling for 30 joints over 3 joints", step, "x", gate=1.5)]


def evaluations(unit: float) -> list[Metric]:
    times = {(n, c): best(evaluation(n, c), 5 if n < 30 else 3) for n, c in ((2, "free"), (7, "tree"), (3, "free"), (30, "free"), (30, "tree"))}
    everything = best(parameter_columns(7))
    out = [
        Metric("values and derivatives, two-body chain, free, 4000 nodes", times[2, "free"], "s", 0.15, relative=times[2, "free"] / unit),
        Metric("values and derivatives, seven-joint tree, 4000 nodes", times[7, "tree"], "s", 0.15, relative=times[7, "tree"] / unit),
        Metric(
            "seven-joint tree, with 84 parameters (70 inertial, 14 friction)",
            times[7, "tree"] + everything,
            "s",
            0.15,
            relative=(times[7, "tree"] + everything) / unit,
        ),
        Metric("values and derivatives, 30-joint tree, 4000 nodes", times[30, "tree"], "s", None, relative=times[30, "tree"] / unit),
        Metric("free: cost per node of 30 bodies over 3 bodies", times[30, "free"] / times[3, "free"], "x", gate=12.0),
    ]
    return out


def simulate(unit: float) -> list[Metric]:
    out = []
    for count, coordinates, gate in ((2, "tree", 5000.0), (2, "free", 5000.0), (7, "tree", 2000.0), (30, "tree", None)):
        rate = stepping(count, coordinates, 4096)
        out.append(Metric(f"simulate, {count}-body chain, {coordinates}", rate, "steps/s", gate, more_is_better=True, relative=1000.0 / rate / unit))
    again = best(short_run("fourbar"), 5)
    out.append(Metric("simulate again, four-bar, ten steps", 1e3 * again, "ms", 20.0, relative=again / unit))
    ratio = arm_over_mujoco()
    if ratio is not None:
        out.append(Metric("a step of the seven-joint arm over MuJoCo's", ratio, "x", 10.0))
    with tempfile.TemporaryDirectory() as folder:
        out.append(Metric("simulate, first compilation ever of Bricard's linkage", process("short_run('bricard')", Path(folder)).total, "s", 12.0))
        processes = [process("short_run('fourbar')", Path(folder)).total for _ in range(4)]
        out.append(Metric("simulate, four-bar in a new process, imports included", min(processes[1:]), "s", 1.5))
    out.append(Metric("MuJoCo, 7-body chain (reference work)", 1000.0 / unit, "steps/s", more_is_better=True))
    return out


def regularised(unit: float) -> list[Metric]:
    problems = 20_000
    batch = best(friction_batch(problems), 3)
    whole = best(furuta_run(40.0), 1)
    # what simulate does once (tracing, the start) cancels in a difference
    dry = 18_000 / (best(furuta_run(2.0, load_friction=1e-2, friction_radius=0.05), 3) - best(furuta_run(0.2, load_friction=1e-2, friction_radius=0.05), 3))
    return [
        Metric("complementarity problems of 12 rows, in a batch", problems / batch, "1/s", 20_000.0, more_is_better=True, relative=batch / unit),
        Metric("spook, Furuta pendulum, 40 s in 400 000 steps", whole, "s", 60.0, relative=whole / unit),
        Metric(
            "spook, 30-body chain with friction everywhere", 300 / (best(spook_chain(310), 1) - best(spook_chain(10), 1)), "steps/s", 300.0, more_is_better=True
        ),
        Metric("spook, the same with friction by load", dry, "steps/s", 2000.0, more_is_better=True, relative=1000.0 / dry / unit),
    ]


def shadowed(unit: float) -> list[Metric]:
    fits: list[Callable] = [shadow_fit(scenario=s) for s in VOLTS]
    eliminated, lifted = (
        np.concatenate([np.minimum.reduce([fit(form) for _ in range(repeats)]) for fit in fits]) for form, repeats in (("eliminated", 3), ("lifted", 1))
    )
    with tempfile.TemporaryDirectory() as folder:
        cold, *more = [process("shadow_fit(50)", Path(folder)) for _ in range(4)]
    return [
        Metric("shadow, 13 unknowns, 2000 steps: an iteration (median)", float(np.median(eliminated)), "s", 0.3, relative=float(np.median(eliminated)) / unit),
        Metric("shadow, mean, with steps that are taken back", float(np.mean(eliminated)), "s", relative=float(np.mean(eliminated)) / unit),
        Metric("shadow, lifted: an iteration (median)", float(np.median(lifted)), "s", relative=float(np.median(lifted)) / unit),
        Metric("shadow: iterations of release, swing-up and pulse together", float(len(eliminated) + len(fits)), "", 30.0),
        Metric("shadow: first fit ever (50 steps), imports included", cold.total, "s", 12.0),
        Metric("shadow: the same in a second process", min(p.total for p in more), "s"),
        Metric("shadow: there, the first fit beyond the second", min(p.first - p.ready - p.again for p in more), "s", 1.5),
    ]


def table(metrics: list[Metric], baseline: dict[str, float]) -> bool:
    good = True
    print(f"{'':62}{'value':>12} {'unit':8}{'gate':>10}{'vs baseline':>13}")
    for m in metrics:
        compared = m.relative / baseline[m.name] if m.relative is not None and m.name in baseline else None
        failed = not m.within_gate or (compared is not None and compared > m.tolerance)
        good &= not failed
        gate = "" if m.gate is None else f"{'>=' if m.more_is_better else '<='} {m.gate:g}"
        print(f"{m.name:62}{m.value:12.4g} {m.unit:8}{gate:>10}{'' if compared is None else f'{compared:.2f} x':>13}{'   MISSED' if failed else ''}")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the baseline")
    parser.add_argument("--only", choices=("startup", "read", "compile", "evaluate", "simulate", "spook", "shadow"))
    options = parser.parse_args()
    unit = best(reference_work())
    parts = {
        "startup": startup,
        "read": million_rows,
        "compile": compile_ratios,
        "evaluate": lambda: evaluations(unit) + placements() + coordinates_compared(),
        "simulate": lambda: simulate(unit),
        "spook": lambda: regularised(unit),
        "shadow": lambda: shadowed(unit),
    }
    metrics = [m for name, part in parts.items() if options.only in (None, name) for m in part()]
    if options.update:
        kept = json.loads(BASELINE.read_text()) if options.only and BASELINE.exists() else {}
        BASELINE.write_text(json.dumps(kept | {m.name: round(m.relative, 4) for m in metrics if m.relative is not None}, indent=2) + "\n")
    return 0 if table(metrics, json.loads(BASELINE.read_text()) if BASELINE.exists() else {}) else 1


if __name__ == "__main__":
    sys.exit(main())
