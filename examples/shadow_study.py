"""The study of [marklund2025] again, and further: what estimation in a regularised engine finds, how that moves with its settings, and next to transcription.

    python examples/shadow_study.py                 all parts (an hour on two cores), tables on the screen, figures into docs/figures
    python examples/shadow_study.py release steps   some of them

Parts: release, steps, compliance, kappa, convergence, thirteen, coverage (synthetic); pendulum, qube (recordings in ../shared/data, or in the folder that
CALIBODY_SHARED names). Sweeps take all cores; `cb.sweep(..., executor=...)` takes them elsewhere.
"""

from __future__ import annotations

import math
import os
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import calibody as cb
from calibody.estimate.predict import follow

HERE = Path(__file__).resolve().parent
SHARED = Path(os.environ.get("CALIBODY_SHARED", HERE.parent.parent / "shared"))
sys.path.insert(0, str(HERE.parent / "docs"))
NOISE = 1e-3
FOUR = {"body.arm.inertia.zz": 0.01, "body.rod.inertia.zz": 0.01, "joint.hinge1.damping": 1e-4, "joint.hinge2.damping": 1e-4}
TRUTH = {"body.arm.inertia.zz": 3e-3, "body.rod.inertia.zz": 4e-3, "joint.hinge1.damping": 1e-3, "joint.hinge2.damping": 1e-4}


def engine(compliance: float) -> cb.Spook:
    return cb.Spook(compliance=compliance, angular_compliance=compliance)


# -- the synthetic Furuta pendulum of appendix G.3 ----------------------------------------------------------------------------------------


def furuta(**law: float) -> cb.Model:
    """Appendix G.3 (l_b = 0.092 m is meant where 0.92 m is printed). `law` goes to both hinges."""
    down = (math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0)
    arm = cb.Body("arm", mass=0.238, com=(0.128, 0.0, 0.0), inertia=(1e-4, 3e-3, 3e-3))
    rod = cb.Body("rod", "arm", mass=0.428, com=(0.092, 0.0, 0.0), inertia=(1e-4, 4e-3, 4e-3), position=(0.248, 0.0, 0.0), orientation=down)
    joints = [cb.Joint("hinge1", "arm", damping=1e-3, armature=1e-4, **law), cb.Joint("hinge2", "rod", damping=1e-4, **law)]
    return cb.Model("furuta", [arm, rod], joints, actuators=[cb.Actuator("motor", "hinge1", gain=0.1)], world=cb.World(gravity=(0.0, 0.0, -9.82)))


def stated() -> cb.Model:
    """For the 13 unknowns: friction by load 4e-4 at both hinges (radius 1 m, as in the paper), gain 0.1 N m/V, the stand tilted by 10 and -20 mrad."""
    return furuta(load_friction=4e-4, friction_radius=1.0).replace({"world.gravity.tilt": (0.01, -0.02, 0.0)})


def drive(scenario: str, times: np.ndarray) -> np.ndarray:
    """Volts: none; a sine of 0.9 Hz and 1.2 V with a slow sweep, which swings the pendulum up; 2 V for one second."""
    if scenario == "swing-up":
        return 1.2 * np.sin(2.0 * np.pi * (0.9 - 0.008 * times) * times)
    return np.where((times >= 1.0) & (times < 2.0), 2.0, 0.0) if scenario == "pulse" else 0.0 * times


@cache
def simulated(scenario: str, duration: float, full: bool, rigid: bool = False) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """At 1 kHz, from steps of 1e-4 s with the compliance 1e-5; `rigid`: with the variational stepper."""
    at = np.arange(0.0, duration + 1e-3, 1e-3)
    model, signal = (stated() if full else furuta()), cb.Signal(at, drive(scenario, at))
    start = {"joint.hinge2.angle": math.pi - 0.03 if scenario == "release" else 0.0}
    motion = cb.simulate(
        model, duration, 1e-4, start, {"actuator.motor": signal} if scenario != "release" else {}, stepper="variational" if rigid else engine(1e-5)
    )
    return motion.time[::10], {c: motion[c][::10] for c in ("joint.hinge1.angle", "joint.hinge2.angle")}


def recording(scenario: str = "release", duration: float = 20.0, seed: int = 0, full: bool = False, rigid: bool = False) -> cb.Recording:
    times, values = simulated(scenario, duration, full, rigid)
    random = np.random.default_rng(seed)
    observed = [cb.Observation(c, times, v + NOISE * random.normal(size=len(v)), sd=NOISE) for c, v in values.items()]
    drives = [cb.Drive("actuator.motor", cb.Signal(times, drive(scenario, times)))] if scenario != "release" else []
    return cb.Recording(scenario, observed, drives)


def errors(result: cb.Result) -> tuple[float, float]:
    """Mean squares of the observations' residuals [rad^2] and of the unexplained impulses [(N s)^2], as in the paper's figures 4, 6 and 7."""
    observed = np.concatenate([c.residual for c in result.fit])
    problem: Any = result.problem
    F, _ = problem.values(result.states, result.theta)
    impulses = F[-2 * problem.transition.nv * problem.runs[0].K :] / problem.weight
    return float(np.mean(observed**2)), float(np.mean(impulses**2))


def point(**settings: Any) -> dict[str, Any]:
    """One fit of the synthetic release, as numbers."""
    compliance, seconds = settings.pop("compliance", 1e-5), settings.pop("seconds", 20.0)
    run = recording("release", seconds, settings.pop("seed", 0))
    settings.setdefault("formulation", "eliminated")
    began = time.perf_counter()
    result = cb.fit(furuta(), run, FOUR, method="shadow", stepper=engine(compliance), **settings)
    observation, impulse = errors(result)
    values = {name: (e.value, e.sd) for name, e in result.parameters.items()}
    return {
        "settings": {"compliance": compliance, **settings}, "status": result.status, "iterations": result.iterations, "values": values,
        "observation": observation, "impulse": impulse, "seconds": time.perf_counter() - began,
    }  # fmt: skip


def table(rows: list[list[str]], head: list[str]) -> None:
    print(f"\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def show(points: list[dict[str, Any]], key: str) -> None:
    rows = []
    for p in points:
        shown = [f"{p['settings'][key]:g}", p["settings"].get("formulation", "eliminated"), str(p["iterations"]), "yes" if p["status"] == "converged" else "no"]
        shown += [f"{value:.4g}" + ("" if sd is None else f" ± {sd:.1g}") for value, sd in p["values"].values()]
        rows.append([*shown, f"{p['observation']:.2e}", f"{p['impulse']:.2e}"])
    table(rows, [key, "form", "iterations", "converged", "J_A", "J_B", "b_1", "b_2", "observation error", "impulse error"])


def curves(name: str, points: list[dict[str, Any]], key: str, label: str) -> None:
    """The two inertias over a setting, for each form."""
    from diagram import Curve, draw

    out = []
    for form in ("eliminated", "lifted"):
        own = [p for p in points if p["settings"].get("formulation", "eliminated") == form and all(0.0 < v[0] < 0.02 for v in list(p["values"].values())[:2])]
        for index, inertia in ((0, "J_A"), (1, "J_B")):
            x, y = np.array([p["settings"][key] for p in own]), np.array([1e3 * list(p["values"].values())[index][0] for p in own])
            if len(x):
                out.append(Curve(f"{inertia}, {form}", x, y))
    draw(name, out, label, "inertia [g m²]", log="x")


def release() -> None:
    print("\nSynthetic release, 20 s, h = 10 ms, kappa = 100: the paper's four unknowns from its initial values (truth 3e-3, 4e-3, 1e-3, 1e-4)")
    tasks = [{"compliance": c, "formulation": f} for c in (1e-4, 1e-5) for f in ("eliminated", "lifted")]
    show(cb.sweep(point, tasks), "compliance")


STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.04)


def transcribed(h: float, rigid: bool = False) -> list[str]:
    """The same recording by transcription with that step; `rigid`: a recording made with the variational stepper instead."""
    began = time.perf_counter()
    result = cb.fit(furuta(), recording("release", 10.0, rigid=rigid), FOUR, h=h)
    shown = [f"{e.value:.4g}" + ("" if e.sd is None else f" ± {e.sd:.1g}") for e in result.parameters.values()]
    return [f"{h:g}" + (", rigid" if rigid else ""), str(result.iterations), "yes" if result.converged else "no", *shown, f"{time.perf_counter() - began:.1f}"]


def steps() -> None:
    print("\nFigure 6, left: the step")
    points = cb.sweep(point, [{"h": h, "compliance": 1e-5, "formulation": "lifted", "seconds": 10.0} for h in STEPS])
    show(points, "h")
    curves("shadow-step", points, "h", "step h [s]")
    print("\nThe same by transcription")
    table(
        cb.sweep(transcribed, [*({"h": h} for h in STEPS), {"h": STEPS[0], "rigid": True}]),
        ["h", "iterations", "converged", "J_A", "J_B", "b_1", "b_2", "seconds"],
    )


def compliance() -> None:
    print("\nFigure 6, right: the compliance")
    values = (1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6, 1e-8, 1e-10, 1e-12)
    points = cb.sweep(point, [{"compliance": c, "formulation": f, "seconds": 10.0} for f in ("eliminated", "lifted") for c in values])
    show(points, "compliance")
    curves(
        "shadow-compliance", [p for p in points if p["status"] == "converged" or p["settings"]["formulation"] == "eliminated"], "compliance", "compliance [m/N]"
    )


def kappa() -> None:
    print("\nFigure 7: the weight of the dynamics")
    points = cb.sweep(point, [{"kappa": float(k), "formulation": "lifted", "seconds": 10.0} for k in (0.1, 1, 10, 100, 1e3, 1e4, 1e5, 1e6)])
    show(points, "kappa")
    curves("shadow-kappa", points, "kappa", "weight kappa")


def convergence() -> None:
    """Figure 5: the cost over the iterations, with the damping as printed and with ours, and lifted."""
    from diagram import Curve, draw

    from calibody.estimate.regularised.shadow_fit import shadow

    print("\nFigure 5: cost over iterations")
    out, rows, run = [], [], recording("release", 10.0)
    for label, plain, form in (("as printed", True, "eliminated"), ("eliminated", False, "eliminated"), ("lifted", False, "lifted")):
        found = shadow(furuta(), [run], FOUR, kappa=100.0, h=0.01, stepper=engine(1e-4), formulation=form, plain=plain)
        costs = np.array([i.cost for i in found.history])
        out.append(Curve(label, np.arange(1, len(costs) + 1), costs))
        value = found.parameters["body.rod.inertia.zz"].value
        rows.append([label, str(found.iterations), "yes" if found.converged else "no", f"{found.cost / 2.0:.5g}", f"{value:.5g}"])
    table(rows, ["damping", "iterations", "converged", "cost", "J_B"])
    draw("shadow-convergence", out, "iteration", "cost", log="y")


THIRTEEN: dict[str, cb.Unknown | float | None] = {
    **{f"body.{b}.inertia.{c}": 0.01 for b, c in (("arm", "xx"), ("arm", "yy"), ("arm", "zz"), ("rod", "yy"), ("rod", "zz"))},
    **{f"joint.hinge{i}.{law}": 1e-4 for law in ("damping", "load_friction") for i in (1, 2)},
    "actuator.motor.gain": 0.05,
    **{f"world.gravity.tilt.{c}": 0.0 for c in "xyz"},
}


def thirteen_of(scenario: str) -> dict[str, Any]:
    """A fit of one scenario, and its cost when the others are followed with these numbers (the paper's cross-validation)."""
    result = cb.fit(stated(), recording(scenario, 20.0, 1, True), THIRTEEN, method="shadow", stepper=engine(1e-4), formulation="eliminated")
    per_node = NOISE**2 / result.problem.runs[0].K
    judged = []
    for other in ("release", "swing-up", "pulse"):
        if other != scenario:
            judged.append(follow(result, recording(other, 20.0, 1, True)).cost * per_node)
    values = {name: (e.value, e.sd, e.at_bound) for name, e in result.parameters.items()}
    return {"scenario": scenario, "iterations": result.iterations, "status": result.status, "values": values, "unresolved": result.unresolved,
            "cost": result.cost * per_node, "cv": float(np.mean(judged))}  # fmt: skip


def thirteen() -> None:
    print("\nTable 4 on synthetic recordings: 13 unknowns, 20 s, h = 10 ms, kappa = 100, compliance 1e-4")
    found = cb.sweep(thirteen_of, [{"scenario": s} for s in ("release", "swing-up", "pulse")])
    model = stated()
    rows = [["iterations", "", *(str(f["iterations"]) for f in found)], ["cost", "", *(f"{f['cost']:.2e}" for f in found)]]
    rows.append(["cross-validation", "", *(f"{f['cv']:.2e}" for f in found)])
    for name in THIRTEEN:
        cells = []
        for f in found:
            value, sd, bound = f["values"][name]
            cells.append("not determined" if sd is None and not bound else f"{value:.3g} " + ("(at bound)" if bound else f"± {sd:.1g}"))
        rows.append([name, f"{float(model[name]):.3g}", *cells])
    table(rows, ["", "truth", *(f["scenario"] for f in found)])


def covered(seed: int) -> dict[str, Any]:
    """Both methods on the same noisy recording of a driven arm; the truth of "shadow" is what it finds without noise."""
    return {method: numbers(method, seed) for method in ("shadow", "transcription")}


def numbers(method: str, seed: int) -> dict[str, Any]:
    random = np.random.default_rng(1000 + seed)
    fine, values = simulated("swing-up", 10.0, False)
    times, noise = fine[::10], 0.0 if seed < 0 else NOISE
    observed = [cb.Observation(c, times, v[::10] + noise * random.normal(size=len(times)), sd=NOISE) for c, v in values.items()]
    run = cb.Recording("swing-up", observed, [cb.Drive("actuator.motor", cb.Signal(fine, drive("swing-up", fine)))])
    began = time.perf_counter()
    if method == "shadow":
        result = cb.fit(furuta(), run, FOUR, method="shadow", stepper=engine(1e-5), h=0.01, kappa=1e6, formulation="lifted")
    else:
        result = cb.fit(furuta(), run, FOUR)
    return {"values": {n: (e.value, e.sd) for n, e in result.parameters.items()}, "iterations": result.iterations, "seconds": time.perf_counter() - began}


def coverage(seeds: int = 50) -> None:
    print(f"\nBoth methods on a driven arm, 10 s at 100 Hz, {seeds} seeds: how often the 95 % interval covers")
    found = cb.sweep(covered, [{"seed": s} for s in range(-1, seeds)])
    exact, found = found[0], found[1:]
    rows = []
    for method in ("shadow", "transcription"):
        for name in FOUR:
            reference = exact[method]["values"][name][0] if method == "shadow" else TRUTH[name]
            pairs = [f[method]["values"][name] for f in found]
            known = [(v, s) for v, s in pairs if s is not None]
            inside = sum(abs(v - reference) < 1.96 * s for v, s in known)
            spread = float(np.std([v for v, _ in pairs]))
            rows.append([method, name, f"{TRUTH[name]:g}", f"{np.mean([v for v, _ in pairs]):.4g}", f"{spread:.2g}",
                         f"{np.mean([s for _, s in known]) if known else math.nan:.2g}", f"{inside} of {len(known)}"])  # fmt: skip
        rows.append([method, "iterations, seconds", "", f"{np.mean([f[method]['iterations'] for f in found]):.1f}", "",
                     f"{np.median([f[method]['seconds'] for f in found]):.1f}", ""])  # fmt: skip
    table(rows, ["method", "unknown", "truth", "mean", "scatter", "mean error bar", "covers"])


# -- real recordings ---------------------------------------------------------------------------------------------------------------------


def pendulum_model() -> cb.Model:
    """A single arm of the multi-arm pendulum; only mass-normalised numbers show, so the mass is set to 0.2 kg at 0.1 m. Angle 0 is upright."""
    arm = cb.Body("arm", mass=0.2, com=(0.0, 0.0, 0.1), inertia=(1e-3, 1e-3, 1e-3))
    joint = cb.Joint("pin", "arm", axis=(0.0, 1.0, 0.0), damping=1e-4, friction_radius=1.0, stribeck_rate=1.0)
    return cb.Model("single", [arm], [joint], world=cb.World(gravity=(0.0, 0.0, -9.808)))


MODELS: dict[str, dict[str, cb.Unknown | float | None]] = {
    "viscous": {"body.arm.inertia.yy": 2e-3, "joint.pin.damping": 1e-4},
    "dry": {"body.arm.inertia.yy": 2e-3, "joint.pin.damping": 1e-4, "joint.pin.load_friction": 1e-4},
    "stribeck": {
        "body.arm.inertia.yy": 2e-3,
        "joint.pin.damping": 1e-4,
        "joint.pin.load_friction": 1e-4,
        "joint.pin.load_stribeck": 1e-4,
        "joint.pin.stribeck_rate": cb.Unknown(1.0, lower=0.05, upper=20.0),
    },
}


def swing(name: str) -> cb.Recording:
    t, angle = np.loadtxt(SHARED / f"data/multiarm_pendulum/{name}.csv", delimiter=",", skiprows=1).T
    return cb.Recording(name, [cb.Observation("joint.pin.angle", t, angle, sd=NOISE)], [])


def pendulum_fit(law: str, h: float) -> dict[str, Any]:
    names = [f"single_id0{i}" for i in range(4)]
    out: dict[str, Any] = {"law": law, "h": h, "cost": [], "cv": [], "ratio": [], "values": []}
    for name in names:
        result = cb.fit(pendulum_model(), swing(name), MODELS[law], method="shadow", h=h, kappa=100.0, stepper=engine(1e-5), formulation="eliminated")
        per_node = NOISE**2 / result.problem.runs[0].K
        out["cost"].append(result.cost * per_node)
        out["cv"] += [follow(result, swing(other)).cost * NOISE**2 / (swing(other).duration / h) for other in names if other != name]
        values = [e.value for e in result.parameters.values()]
        out["ratio"].append((values[0] + 0.2 * 0.1**2) / (0.2 * 0.1))
        out["values"].append(values)
    return out


def pendulum() -> None:
    print("\nTables 2 and 3 on the real single pendulum: J/(m a) should be 0.1531 m")
    found = cb.sweep(pendulum_fit, [{"law": law, "h": h} for h in (0.01, 0.002) for law in MODELS])
    rows = []
    for f in found:
        mean = np.mean(f["values"], axis=0)
        rows.append(
            [
                f"{f['h']:g}",
                f["law"],
                f"{np.mean(f['cost']):.3e}",
                f"{np.mean(f['cv']):.3e}",
                ", ".join(f"{r:.4f}" for r in f["ratio"]),
                ", ".join(f"{v:.3g}" for v in mean),
            ]
        )
    table(rows, ["h [s]", "friction", "cost", "cross-validation", "J/(m a) of the four recordings [m]", "means of J, b, mu, mu_stribeck, its rate"])


def qube_model() -> cb.Model:
    """Quanser QUBE from its datasheet; the motor as gain and back-EMF damping. The arm's inertia is about its axis."""
    arm = cb.Body("arm", mass=0.095, inertia=(1e-6, 1e-4, 1e-4))
    rod = cb.Body("pendulum", "arm", mass=0.024, com=(0.0, 0.0, -0.0645), inertia=(3.3e-5, 3.3e-5, 1e-7), position=(0.085, 0.0, 0.0))
    joints = [cb.Joint("arm", "arm", damping=1e-5), cb.Joint("pendulum", "pendulum", axis=(1.0, 0.0, 0.0), damping=1e-6)]
    motor = cb.Actuator("motor", "arm", gain=0.042 / 8.4, damping=0.042**2 / 8.4, delay=0.004)
    return cb.Model("qube", [arm, rod], joints, actuators=[motor], world=cb.World(gravity=(0.0, 0.0, -9.81)))


QUBE: dict[str, cb.Unknown | float | None] = {
    "body.arm.inertia.zz": 1e-4, "body.pendulum.inertia.xx": 3.3e-5, "joint.arm.damping": 1e-5, "joint.arm.friction": 1e-4,
    "joint.pendulum.damping": 1e-6, "joint.pendulum.friction": 1e-5, "joint.arm.stiffness": cb.Unknown(5e-4, lower=0.0),
    "joint.arm.springref": cb.Unknown(0.0, scale=0.1), "actuator.motor.gain": 5e-3,
}  # fmt: skip


def qube_fit(name: str, kappa: float = 1e5, compliance: float = 1e-4) -> dict[str, Any]:
    t, arm, rod, volts = np.genfromtxt(SHARED / f"data/furuta_qube/{name}.csv", delimiter=",", skip_header=1).T
    known = np.isfinite(volts)
    observed = [cb.Observation("joint.arm.angle", t, arm, sd=NOISE), cb.Observation("joint.pendulum.angle", t, rod, sd=NOISE)]
    run = cb.Recording(name, observed, [cb.Drive("actuator.motor", cb.Signal(t[known], volts[known]))])
    # impulses are about thirty times smaller than those of the paper's pendulum, so the weight is a thousand times larger; friction slides below 0.04 rad/s
    soft = cb.Spook(compliance=compliance, angular_compliance=compliance, slip=1e4)
    result = cb.fit(qube_model(), run, QUBE, method="shadow", h=0.004, kappa=kappa, stepper=soft, formulation="lifted")
    return {"name": name, "kappa": kappa, "compliance": compliance, "errors": errors(result), "iterations": result.iterations, "status": result.status, "values": {n: (e.value, e.sd) for n, e in result.parameters.items()},
            "rms": [c.rms for c in result.fit]}  # fmt: skip


def qube() -> None:
    print("\nReal swing-ups of a QUBE, h = 4 ms")
    found = cb.sweep(qube_fit, [{"name": f"r{k:02d}"} for k in (0, 3, 5, 8)])
    rows = [["iterations", *(f"{f['iterations']}{'' if f['status'] == 'converged' else ' (not converged)'}" for f in found)]]
    rows += [
        [name, *(f"{f['values'][name][0]:.3g}" + ("" if f["values"][name][1] is None else f" ± {f['values'][name][1]:.1g}") for f in found)] for name in QUBE
    ]
    rows.append(["rms of the arm, of the pendulum [mrad]", *(", ".join(f"{1e3 * r:.2f}" for r in f["rms"]) for f in found)])
    table(rows, ["", *(f["name"] for f in found)])


def qube_sweeps() -> None:
    """Figure 4: numbers of a real swing-up over the weight of the dynamics and over the compliance, and the mean squared errors of both kinds."""
    shown = ("body.arm.inertia.zz", "body.pendulum.inertia.xx", "actuator.motor.gain", "joint.arm.stiffness")
    for key, values in (("kappa", (1e2, 1e3, 1e4, 1e5, 1e6, 1e7)), ("compliance", (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8))):
        print(f"\nFigure 4 on the real swing-up r05: {key}")
        rows = []
        for f in cb.sweep(qube_fit, [{"name": "r05", key: value} for value in values]):
            cells = [f"{f['values'][n][0]:.3g}" + ("" if f["values"][n][1] is None else f" ± {f['values'][n][1]:.1g}") for n in shown]
            rows.append([f"{f[key]:g}", str(f["iterations"]), "yes" if f["status"] == "converged" else "no", *cells, *(f"{e:.2e}" for e in f["errors"])])
        table(rows, [key, "iterations", "converged", "J arm", "J pendulum", "gain", "cable stiffness", "observation error", "impulse error"])


PARTS = (release, steps, compliance, kappa, convergence, thirteen, coverage, pendulum, qube, qube_sweeps)

if __name__ == "__main__":
    wanted = sys.argv[1:] or [part.__name__ for part in PARTS]
    for part in PARTS:
        if part.__name__ in wanted:
            part()
