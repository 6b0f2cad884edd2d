"""Long studies of posteriors: simulation-based calibration at a bound, and predictions of a real double pendulum beside other samplers.

    python benchmarks/posterior.py sbc [replicates] [first]      a friction in [0, 0.04] whose standard deviation is 0.007: ranks of the truth, coverage of 90 % intervals
    python benchmarks/posterior.py ibm                           joint fit of six real runs: what the 90 % bands of five others hold; one run alone; MMD and rms (needs CALIBODY_SHARED)

One process, fixed seeds; what it prints stands in docs/posterior.md.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np
import posterior_problems as problems
from scipy.stats import kstest

import calibody as cb
from calibody.experiment.posterior import Here

DRAWS = 200


def sbc(replicates: int = 200, first: int = 0) -> None:
    """The truth drawn from the prior of the friction (and from a band for the others), data from the truth: its rank among the draws is uniform."""
    ranks, cover, ess, khat, at_bound, lost = [], [], [], [], 0, 0
    began = time.process_time()
    for r in range(first, first + replicates):
        random = np.random.default_rng(5000 + r)
        truth = np.array([random.uniform(0.015, 0.045), random.uniform(0.02, 0.08), random.uniform(0.0, 0.04)])
        run = problems.rubbed(problems.rubbing(truth[2], truth[0], truth[1]), 7000 + r)
        result = cb.fit(problems.rubbing(0.02), run, problems.unknown_rubbing(), h=0.01)
        if not result.converged:
            lost += 1
            continue
        post = cb.posterior(result, samples=DRAWS, starts=0, seed=r, executor=Here())  # type: ignore[arg-type]
        if not post.converged:
            lost += 1
            print(r, post.status, flush=True)
            continue
        marginals = list(post.parameters.values())
        ranks.append([m.weights[m.values < x].sum() for m, x in zip(marginals, truth, strict=True)])
        cover.append([m.interval[0] <= x <= m.interval[1] for m, x in zip(marginals, truth, strict=True)])
        ess.append(post.ess)
        khat.append(post.khat)
        at_bound += result.parameters["joint.pivot.friction"].at_bound
        if len(ranks) % 20 == 0:
            _report(ranks, cover, ess, khat, at_bound, lost, time.process_time() - began)
    _report(ranks, cover, ess, khat, at_bound, lost, time.process_time() - began)


def _report(ranks: list, cover: list, ess: list, khat: list, at_bound: int, lost: int, seconds: float) -> None:
    found = np.array(ranks)
    p = [kstest(found[:, k], "uniform").pvalue for k in range(found.shape[1])]
    print(
        f"{len(found)} replicates ({lost} left out, {at_bound} at a bound): 90 % intervals hold {np.round(100 * np.mean(cover, axis=0), 1)} %, "
        f"mean ranks {np.round(found.mean(axis=0), 3)}, KS p {np.round(p, 3)}, median ESS {np.median(ess):.0f} of {DRAWS}, largest k-hat {np.max(khat):.2f}, "
        f"{seconds / len(found):.2f} CPU s each",
        flush=True,
    )


# -- the real double pendulum ----------------------------------------------------------------------------------------------------------------

HELD, SECONDS, CLOCK = range(7, 12), 1.0, 400.0
START = {"joint.j2.position.x": 0.14, "body.one.com.x": 0.06, "body.one.com.y": 0.0, "body.one.inertia.zz": 1.5e-3}
START |= {"body.two.com.y": 0.0, "body.two.inertia.zz": 3e-4, "joint.j1.damping": 1e-4, "joint.j2.damping": 1e-4}


def pendulum() -> cb.Model:
    """Free swinging determines ratios, so that the masses and one distance are held; local x hangs down."""
    one = cb.Body("one", mass=0.5, com=(0.06, 0, 0), inertia=(1e-4, 1.5e-3, 1.5e-3))
    two = cb.Body("two", "one", mass=0.1, com=(0.05, 0, 0), inertia=(1e-4, 3e-4, 3e-4), position=(0.14, 0, 0))
    joints = [cb.Joint("j1", "one", axis=(0, 0, 1), damping=1e-4), cb.Joint("j2", "two", axis=(0, 0, 1), damping=1e-4)]
    return cb.Model("ibm", [one, two], joints, world=cb.World(gravity=(9.81, 0, 0)))


def unknowns() -> dict[str, cb.Unknown]:
    out = {}
    for path, value in START.items():
        bounds = (0.08, 0.3) if "position" in path else (-0.2, 0.2) if "com" in path else (0.0, np.inf)
        out[path] = cb.Unknown(value, lower=bounds[0], upper=bounds[1], scale=0.05 if path.endswith("com.y") else None)
    return out


def angles(i: int) -> tuple[np.ndarray, np.ndarray]:
    """(frames, 2) angles of a run, and their rates by a smoothing filter."""
    from scipy.signal import savgol_filter

    folder = Path(os.environ["CALIBODY_SHARED"]) / "data" / "ibm_double_pendulum"
    A = np.loadtxt(folder / f"run{i:02d}.csv", delimiter=",", skiprows=1) / 5.0
    t1, t2 = (np.unwrap(np.arctan2(d[:, 1], d[:, 0])) for d in (A[:, 2:4] - A[:, :2], A[:, 4:6] - A[:, 2:4]))
    q = np.stack([t1, t2 - t1], axis=1)
    count = round(SECONDS * CLOCK) + 1
    return q[:count], savgol_filter(q[: count + 5], 9, 3, deriv=1, delta=1.0 / CLOCK, axis=0)[:count]


def recording(i: int) -> cb.Recording:
    q, _ = angles(i)
    return cb.Recording(f"run{i}", tuple(cb.Observation(f"joint.j{k + 1}.angle", np.arange(len(q)) / CLOCK, q[:, k]) for k in range(2)))


def ibm() -> None:
    """One run alone: what its draws predict of ten others, from the same starts; six runs together: what the bands of five others hold."""
    began = time.process_time()
    one = cb.fit(pendulum(), recording(1), unknowns(), h=1.0 / CLOCK)
    fitted = time.process_time()
    post = cb.posterior(one, samples=150, starts=0, executor=Here())  # type: ignore[arg-type]
    print(
        f"one run: {one.status}; fit {fitted - began:.1f} CPU s, 150 draws {time.process_time() - fitted:.1f} CPU s; {post.verdict} stretched {post.stretched:.2g}",
        flush=True,
    )
    mmd, rms = rolled(post)
    print(f"ten others from the same starts: MMD^2 {mmd:.3f}, rms {rms:.2f} rad", flush=True)
    covered(post, "one run")
    began = time.process_time()
    six = cb.fit(pendulum(), [recording(i) for i in range(1, 7)], unknowns(), h=1.0 / CLOCK)
    print(f"six runs: {six.status}; runs agree: {six.runs_agree}; {time.process_time() - began:.1f} CPU s", flush=True)
    joint = cb.posterior(six, samples=150, starts=0, executor=Here())  # type: ignore[arg-type]
    print(joint.verdict, f"stretched {joint.stretched:.2g}", flush=True)
    covered(joint, "six runs")


def covered(post: cb.Posterior, words: str) -> None:
    shares = []
    for i in HELD:
        try:
            shares.append(post.predict(recording(i), window=0.1).coverage)
        except cb.CalibodyError as error:
            print(f"run {i}: {error}")
    print(f"{words}: 90 % bands hold {np.round(shares, 2)} of runs 7 to 11, {np.mean(shares):.2f} on average", flush=True)


def rolled(post: cb.Posterior, draws: int = 100) -> tuple[float, float]:
    """Squared MMD (angles of both arms over time in units of their spread, radial kernel of median width) and median rms between draws and ten runs, all from the same starts."""
    real, made = [], []
    for i in range(2, 12):
        q, v = angles(i)
        real.append(q[1:])
        start = {f"joint.j{k + 1}.{name}": x[0, k] for k in range(2) for name, x in (("angle", q), ("rate", v))}
        for row in post.draws[np.linspace(0, len(post.draws) - 1, draws).astype(int)]:
            model = pendulum().replace(dict(zip(post.parameters, row, strict=True)), check=False)
            motion = cb.simulate(model, SECONDS, 1.0 / CLOCK, start)
            made.append(np.stack([motion["joint.j1.angle"], motion["joint.j2.angle"]], axis=1)[1:])
    errors = [m - real[k // draws] for k, m in enumerate(made)]
    sd = np.concatenate(real).std(axis=0)
    P, Q = (np.stack([(x / sd).ravel() for x in xs]) for xs in (made, real))
    X = np.vstack([P, Q])
    s = (X**2).sum(axis=1)
    D = np.maximum(s[:, None] + s[None] - 2.0 * X @ X.T, 0.0)
    K = np.exp(-D / (2.0 * np.median(D[D > 0.0])))
    n = len(P)
    each = [float(np.sqrt(np.mean(e**2))) for e in errors]
    return float(K[:n, :n].mean() + K[n:, n:].mean() - 2.0 * K[:n, n:].mean()), float(np.median(each))


if __name__ == "__main__":
    what, *rest = sys.argv[1:] or ["sbc"]
    globals()[what](*map(int, rest))
