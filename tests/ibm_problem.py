"""The real double pendulum of IBM's recordings [ibm]: one second of tumbling in each of several runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import calibody as cb

SECONDS, CLOCK = 1.0, 400.0
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


def bounded() -> dict[str, cb.Unknown]:
    """The same, ten times the first value at most where nothing else ends them: what particles need."""
    return {
        path: cb.Unknown(u.initial, lower=u.lower, upper=u.upper if np.isfinite(u.upper) else 10.0 * START[path], scale=u.scale)
        for path, u in unknowns().items()
    }


def angles(shared: Path, i: int) -> tuple[np.ndarray, np.ndarray]:
    """(frames, 2) angles of a run, and their rates by a smoothing filter."""
    from scipy.signal import savgol_filter

    A = np.loadtxt(shared / "data" / "ibm_double_pendulum" / f"run{i:02d}.csv", delimiter=",", skiprows=1) / 5.0
    t1, t2 = (np.unwrap(np.arctan2(d[:, 1], d[:, 0])) for d in (A[:, 2:4] - A[:, :2], A[:, 4:6] - A[:, 2:4]))
    q = np.stack([t1, t2 - t1], axis=1)
    count = round(SECONDS * CLOCK) + 1
    return q[:count], np.asarray(savgol_filter(q[: count + 5], 9, 3, deriv=1, delta=1.0 / CLOCK, axis=0))[:count]


def recording(shared: Path, i: int) -> cb.Recording:
    q, _ = angles(shared, i)
    return cb.Recording(f"run{i}", tuple(cb.Observation(f"joint.j{k + 1}.angle", np.arange(len(q)) / CLOCK, q[:, k]) for k in range(2)))


def rolled(shared: Path, post: cb.Posterior, draws: int = 100) -> tuple[float, float]:
    """Squared MMD (angles of both arms over time in units of their spread, radial kernel of median width) and median rms between draws and ten runs, all from the same starts."""
    real, made = [], []
    for i in range(2, 12):
        q, v = angles(shared, i)
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
