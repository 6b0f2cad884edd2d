"""Stein variational inference on a real double pendulum, beside other samplers: what constrained multiple shooting [heiden2022] does well, and where its measure of success misleads.

    python examples/stein_study.py ibm [methods]      eleven parameters from one second of tumbling; ten other runs predicted (needs the folder `shared`, or CALIBODY_SHARED)
    python examples/stein_study.py box                two weights in a box: two explanations that are one mechanism
    python examples/stein_study.py lengths [reps]     ten pendulums whose two lengths are drawn from a population: its mean and covariance, how often their intervals hold the truth

**ibm.** The setting is that of the paper as far as it is stated: 400 frames of a video at 400 Hz, eleven numbers within bounds (two masses, two inertias, two centres of mass, a length, two dampings), semi-implicit Euler steps of a frame, states in
units of their spread, noise of 0.1 of it, 100 particles from a Sobol sequence, ten windows, Adam with 0.01. Left open there and chosen here: the kernel is on the parameters only, the starts of windows follow their own gradient, gradients are clipped. Every
method ends with 100 draws, which are rolled out from the same starts (the first frame, rates by a smoothing filter) over the first second of ten other runs.

The last rows are `cb.posterior`: importance sampling, and its own particles (`sampler = "svgd"`, `"csvgd"`), which are shot alike but climb by Newton's method and close windows by it; the printed step rules of both are here as peers.

Columns: CPU seconds; how well the training run is described (root mean square in units of the spread); squared MMD and median root mean square of the angles to the ten runs; share of their samples between the 5 % and 95 % quantiles of the draws;
and the two nearest-neighbour estimates of the Kullback-Leibler divergence that the paper reports. Peers that are not installed are left out, and that is said.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("CALIBODY_SHARED") or ROOT.parent / "shared")
sys.path.insert(0, str(ROOT / "tests"))

import jax  # noqa: E402, the settings above are read once
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import calibody as cb  # noqa: E402

jax.config.update("jax_enable_x64", True)

FRAMES, CLOCK, GRAVITY = 400, 400.0, 9.81
NAMES = ("mass 1", "inertia 1", "com x 1", "com y 1", "damping 1", "length", "mass 2", "inertia 2", "com x 2", "com y 2", "damping 2")
LOWER = np.array([0.05, 0.002, -0.2, -0.2, 0.0, 0.08, 0.05, 0.002, -0.2, -0.2, 0.0])
UPPER = np.array([0.5, 1.0, 0.2, 0.2, 0.5, 0.3, 0.5, 1.0, 0.2, 0.2, 0.5])
PARTICLES, WINDOWS, ITERATIONS = 100, 10, int(os.environ.get("ITERATIONS", "1000"))
NOISE, DEFECT, RATE = 0.1, 0.1, 0.01
"""Of states and of defects, in units of the states' spread; and of Adam."""
LARGEST = 1e4
"""Norm of a gradient beyond which it is clipped: those of a second of tumbling reach 1e8."""


# -- the pendulum of the paper ---------------------------------------------------------------------------------------------------------------


def accelerations(p: Any, s: Any) -> Any:
    """Of both angles, the second relative to the first; x hangs down."""
    m1, i1, x1, y1, b1, length, m2, i2, x2, y2, b2 = p
    a, b = s[0], s[0] + s[1]
    wa, wb = s[2], s[2] + s[3]
    first, second = i1 + m1 * (x1**2 + y1**2) + m2 * length**2, i2 + m2 * (x2**2 + y2**2)
    c, d = jnp.cos(b - a), jnp.sin(b - a)
    both, turned = m2 * length * (x2 * c - y2 * d), m2 * length * (-x2 * d - y2 * c)
    ra = -turned * wb**2 - GRAVITY * (m1 * (x1 * jnp.sin(a) + y1 * jnp.cos(a)) + m2 * length * jnp.sin(a)) - b1 * s[2] + b2 * s[3]
    rb = turned * wa**2 - GRAVITY * m2 * (x2 * jnp.sin(b) + y2 * jnp.cos(b)) - b2 * s[3]
    free = first * second - both**2
    return jnp.array([(second * ra - both * rb) / free, (first * rb - both * ra) / free - (second * ra - both * rb) / free])


def euler(p: Any, s: Any) -> Any:
    rate = s[2:] + accelerations(p, s) / CLOCK
    return jnp.concatenate([s[:2] + rate / CLOCK, rate])


def runge_kutta(p: Any, s: Any, parts: int = 2) -> Any:
    """For parameters of a fit, which are not those of Euler's steps."""

    def slope(x: Any) -> Any:
        return jnp.concatenate([x[2:], accelerations(p, x)])

    h = 1.0 / (CLOCK * parts)
    for _ in range(parts):
        k1 = slope(s)
        k2 = slope(s + 0.5 * h * k1)
        k3 = slope(s + 0.5 * h * k2)
        s = s + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + slope(s + h * k3))
    return s


def rolled(p: Any, start: Any, count: int, step: Callable = euler) -> Any:
    """(count, 4) states after the start."""

    def one(s: Any, _: None) -> tuple[Any, Any]:
        s = step(p, s)
        return s, s

    return jax.lax.scan(one, start, None, length=count)[1]


class Setting:
    """Data of the training run, the likelihood of single shooting and the two parts of that of multiple shooting; u in [0, 1] of the bounds."""

    def __init__(self) -> None:
        import ibm_problem as problem  # pyright: ignore[reportMissingImports]

        q, v = problem.angles(SHARED, 1)
        noisy = np.gradient(q, 1.0 / CLOCK, axis=0)  # by differences, as the paper has them
        states = np.hstack([q, noisy])
        self.spread = states.std(axis=0)
        self.start, self.smooth = jnp.array(np.concatenate([q[0], v[0]])), np.hstack([q, v])
        self.measured = jnp.array(states[1:] / self.spread)
        self.held = [problem.angles(SHARED, i) for i in range(2, 12)]

    def numbers(self, u: Any) -> Any:
        return LOWER + (UPPER - LOWER) * u

    @partial(jax.jit, static_argnums=0)
    def log_p(self, u: Any) -> Any:
        found = -0.5 * jnp.sum((rolled(self.numbers(u), self.start, FRAMES) / self.spread - self.measured) ** 2) / NOISE**2
        return jnp.where(jnp.isfinite(found), found, -1e12)

    def shot(self, u: Any, starts: Any) -> tuple[Any, Any]:
        """log p of all windows, and the squared defects between them in units of theirs."""
        every = jnp.concatenate([self.start[None], starts * self.spread])
        x = jax.vmap(lambda s: rolled(self.numbers(u), s, FRAMES // WINDOWS))(every) / self.spread
        return -0.5 * jnp.sum((x.reshape(FRAMES, 4) - self.measured) ** 2) / NOISE**2, jnp.sum((starts - x[:-1, -1]) ** 2, axis=1) / DEFECT**2


def sobol(count: int) -> np.ndarray:
    from scipy.stats import qmc

    return qmc.Sobol(len(NAMES), rng=np.random.default_rng(0)).random(128)[:count]


# -- methods: each gives 100 draws in [0, 1] ---------------------------------------------------------------------------------------------------


def prior(_: Setting) -> np.ndarray:
    return sobol(PARTICLES)


def stein(setting: Setting, windows: bool) -> np.ndarray:
    """SVGD, or with windows its constrained form: parameters by the kernelised gradient, starts of windows by their own, defects and bounds by multipliers and penalties."""
    u = jnp.array(sobol(PARTICLES))
    starts = jnp.array(np.repeat(setting.smooth[FRAMES // WINDOWS : FRAMES : FRAMES // WINDOWS][None] / setting.spread, PARTICLES, axis=0))

    def clipped(g: Any) -> Any:
        size = jnp.linalg.norm(g.reshape(len(g), -1), axis=1).reshape(-1, *(1,) * (g.ndim - 1))
        return jnp.nan_to_num(g / jnp.maximum(1.0, size / LARGEST))

    def adam(g: Any, m: Any, v: Any, i: Any) -> tuple[Any, Any, Any]:
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        return RATE * (m / (1.0 - 0.9 ** (i + 1))) / (jnp.sqrt(v / (1.0 - 0.999 ** (i + 1))) + 1e-8), m, v

    def penalty(u: Any, s: Any, multipliers: Any) -> tuple[Any, Any]:
        g = setting.shot(u, s)[1]
        return jnp.sum(multipliers * g + 0.5 * g**2), g

    def one(carry: tuple, i: Any) -> tuple[tuple, None]:
        u, s, at_windows, at_bounds, mu, vu, ms, vs = carry
        outside = jnp.clip(u, 0.0, 1.0) - u
        beyond = jnp.where(outside != 0.0, -1.0, 0.0)
        if windows:
            gu, gs = jax.vmap(jax.grad(lambda a, b: setting.shot(a, b)[0], (0, 1)))(u, s)
            (pu, ps), g = jax.vmap(jax.grad(penalty, (0, 1), has_aux=True))(u, s, at_windows)
            moved, ms, vs = adam(clipped(gs) - clipped(ps), ms, vs, i)
            s, at_windows, pu = s + moved, at_windows + RATE * jnp.minimum(g, 1e3), clipped(pu)
        else:
            gu, pu = jax.vmap(jax.grad(setting.log_p))(u), jnp.zeros_like(u)
        d2 = ((u[:, None] - u[None]) ** 2).sum(-1)
        width = jnp.median(d2) / jnp.log(PARTICLES + 1.0) + 1e-12
        K = jnp.exp(-d2 / width)
        apart = 2.0 / width * (K.sum(1)[:, None] * u - K @ u)
        moved, mu, vu = adam((K @ clipped(gu) + apart) / PARTICLES - at_bounds * beyond - 1e4 * outside * beyond - pu, mu, vu, i)
        return (u + moved, s, at_windows, at_bounds + outside, mu, vu, ms, vs), None

    first = (u, starts, jnp.zeros((PARTICLES, WINDOWS - 1)), 0.0 * u, 0.0 * u, 0.0 * u, 0.0 * starts, 0.0 * starts)
    last = jax.jit(lambda c: jax.lax.scan(one, c, jnp.arange(ITERATIONS))[0])(first)
    return np.clip(np.array(last[0]), 0.0, 1.0)


def cross_entropy(setting: Setting) -> np.ndarray:
    rng, density = np.random.default_rng(0), jax.jit(jax.vmap(setting.log_p))
    mean, covariance, u = np.full(len(NAMES), 0.5), np.eye(len(NAMES)) / 12.0, sobol(PARTICLES)
    for i in range(ITERATIONS):
        u = np.clip(rng.multivariate_normal(mean, covariance, PARTICLES), 0.0, 1.0)
        best = u[np.argsort(-np.array(density(jnp.array(u))))[:20]]
        mean, covariance = best.mean(axis=0), np.cov(best.T) + 1e-10 * np.eye(len(NAMES))
        if i > 100 and np.trace(covariance) < 1e-8:
            break
    return u


def ensemble(setting: Setting) -> np.ndarray:
    import emcee

    density = jax.jit(jax.vmap(setting.log_p))

    def log_p(u: np.ndarray) -> np.ndarray:
        return np.where(((u >= 0.0) & (u <= 1.0)).all(axis=1), np.array(density(jnp.array(np.clip(u, 0.0, 1.0)))), -np.inf)

    np.random.seed(0)
    sampler = emcee.EnsembleSampler(PARTICLES, len(NAMES), log_p, vectorize=True)
    sampler.run_mcmc(sobol(PARTICLES), ITERATIONS)
    return sampler.get_last_sample().coords


def langevin(setting: Setting) -> np.ndarray:
    """Stochastic gradient Langevin dynamics; nothing is stochastic about the gradient, there is one run."""
    rng, slope = np.random.default_rng(0), jax.jit(jax.grad(setting.log_p))
    u, chain = np.full(len(NAMES), 0.5), []
    for i in range(ITERATIONS):
        step = 1e-8 * (1.0 + i) ** -0.33
        g = np.nan_to_num(np.array(slope(jnp.array(u))))
        g *= min(1.0, 1e6 / (np.linalg.norm(g) + 1e-30))
        u = np.clip(u + 0.5 * step * g + np.sqrt(step) * rng.standard_normal(len(u)), 0.0, 1.0)
        chain.append(u)
    return np.array(chain[-PARTICLES:])


def no_u_turn(setting: Setting) -> np.ndarray:
    import blackjax

    def log_p(y: Any) -> Any:
        u = jax.nn.sigmoid(y)
        return setting.log_p(u) + jnp.sum(jnp.log(u) + jnp.log1p(-u))

    key = jax.random.key(0)
    adapted = blackjax.window_adaptation(blackjax.nuts, log_p, max_num_doublings=5)
    (state, parameters), _ = adapted.run(key, jnp.zeros(len(NAMES)), num_steps=200)  # pyright: ignore[reportCallIssue]
    step, chain = jax.jit(blackjax.nuts(log_p, **parameters).step), []
    for _ in range(200):
        key, own = jax.random.split(key)
        state, _ = step(own, state)
        chain.append(np.array(jax.nn.sigmoid(state.position)))
    return np.array(chain[-PARTICLES:])


def density_network(setting: Setting, simulations: int = 10_000, epochs: int = 200) -> np.ndarray:
    """As BayesSim has it: a mixture of Gaussians whose numbers a network gives from a summary of the motion (every 20th state), learnt from simulations of the prior."""
    from scipy.stats import qmc

    u = qmc.Sobol(len(NAMES), rng=np.random.default_rng(1)).random(simulations)
    motion = jax.jit(jax.vmap(lambda x: rolled(setting.numbers(x), setting.start, FRAMES)[::20].ravel()))
    x = np.nan_to_num(np.concatenate([np.array(motion(jnp.array(part))) for part in np.array_split(u, 10)]), posinf=1e3, neginf=-1e3)
    x, seen = np.clip(x, -1e3, 1e3), np.array(setting.measured * setting.spread)[::20].ravel()
    centre, size = x.mean(axis=0), x.std(axis=0) + 1e-6
    x, seen = jnp.array((x - centre) / size), jnp.array((seen - centre) / size)
    widths, parts, d = (x.shape[1], 64, 64), 5, len(NAMES)
    keys = jax.random.split(jax.random.key(0), 3)
    sizes = [*pairwise(widths), (widths[-1], parts * (1 + 2 * d))]
    net = [(jax.random.normal(k, s) / np.sqrt(s[0]), jnp.zeros(s[1])) for k, s in zip(keys, sizes, strict=True)]

    def mixture(net: Any, x: Any) -> tuple[Any, Any, Any]:
        for W, b in net[:-1]:
            x = jnp.tanh(x @ W + b)
        out = x @ net[-1][0] + net[-1][1]
        return (
            jax.nn.log_softmax(out[..., :parts]),
            out[..., parts : parts * (1 + d)].reshape(*out.shape[:-1], parts, d),
            out[..., parts * (1 + d) :].reshape(*out.shape[:-1], parts, d),
        )

    def loss(net: Any, x: Any, u: Any) -> Any:
        share, mean, log_sd = mixture(net, x)
        log_sd = jnp.clip(log_sd, -6.0, 2.0)
        inside = -0.5 * (((u[:, None] - mean) / jnp.exp(log_sd)) ** 2).sum(-1) - log_sd.sum(-1)
        return -jax.scipy.special.logsumexp(share + inside, axis=1).mean()

    @jax.jit
    def epoch(net: Any, m: Any, v: Any, i: Any, order: Any) -> tuple[Any, Any, Any]:
        def batch(carry: Any, rows: Any) -> tuple[Any, None]:
            net, m, v, i = carry
            g = jax.grad(loss)(net, x[rows], all_u[rows])
            m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
            v = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b**2, v, g)
            net = jax.tree.map(lambda w, a, b: w - 1e-3 * (a / (1 - 0.9**i)) / (jnp.sqrt(b / (1 - 0.999**i)) + 1e-8), net, m, v)
            return (net, m, v, i + 1), None

        (net, m, v, _), _ = jax.lax.scan(batch, (net, m, v, i), order)
        return net, m, v

    all_u, rng = jnp.array(u), np.random.default_rng(0)
    m = v = jax.tree.map(jnp.zeros_like, net)
    batches = simulations // 100
    for k in range(epochs):
        net, m, v = epoch(net, m, v, 1.0 + k * batches, jnp.array(rng.permutation(batches * 100).reshape(batches, 100)))
    share, mean, log_sd = (np.array(a) for a in mixture(net, seen))
    own = rng.choice(parts, PARTICLES, p=np.exp(share) / np.exp(share).sum())
    return np.clip(mean[own] + np.exp(np.clip(log_sd[own], -6.0, 2.0)) * rng.standard_normal((PARTICLES, d)), 0.0, 1.0)


METHODS: dict[str, tuple[str, Callable[[Setting], np.ndarray]]] = {
    "prior": ("prior (Sobol)", prior),
    "cem": ("CEM", cross_entropy),
    "emcee": ("emcee, 100 walkers", ensemble),
    "sgld": ("SGLD", langevin),
    "nuts": ("NUTS (blackjax)", no_u_turn),
    "mdn": ("mixture density network", density_network),
    "svgd": ("SVGD as printed, single shooting", partial(stein, windows=False)),
    "csvgd": ("CSVGD as printed, 10 windows", partial(stein, windows=True)),
}


def calibrated(sampler: str, count: int) -> np.ndarray:
    """Of a fit and so many draws of its posterior, 100 in the order of the paper's numbers: masses and one distance are held, because free swinging tells ratios."""
    import ibm_problem as problem  # pyright: ignore[reportMissingImports]

    from calibody.experiment.posterior import Here

    result = cb.fit(problem.pendulum(), problem.recording(SHARED, 1), problem.bounded(), h=1.0 / CLOCK)
    post = cb.posterior(result, samples=count, starts=0, sampler=sampler, executor=Here())  # type: ignore[arg-type]
    print(f"{sampler}: {post.status}", flush=True)
    length, x1, y1, i1, y2, i2, b1, b2 = post.draws[np.linspace(0, len(post.draws) - 1, PARTICLES).astype(int)].T
    same = np.ones(PARTICLES)
    return np.stack([0.5 * same, i1, x1, y1, b1, length, 0.1 * same, i2, 0.05 * same, y2, b2], axis=1)


OURS = {"calibody": ("auto", 150), "calibody, svgd": ("svgd", PARTICLES), "calibody, csvgd": ("csvgd", PARTICLES)}
"""Of `cb.posterior`: sampler and draws, on the variational step and with the start of the run estimated."""


# -- measures ----------------------------------------------------------------------------------------------------------------------------------


def nearest_kl(P: np.ndarray, Q: np.ndarray, k: int = 3) -> float:
    """The nearest-neighbour estimate of the divergence of P from Q [wang2009]."""
    from scipy.spatial import KDTree
    from scipy.special import digamma

    n, m, d = len(P), len(Q), P.shape[1]
    kq, kp = min(k, m), min(k, n - 1)
    to, among = (np.asarray(KDTree(X).query(P, k=[k])[0])[:, 0] for X, k in ((Q, kq), (P, kp + 1)))  # pyright: ignore[reportArgumentType]
    good = (to > 0.0) & (among > 0.0)
    return float(d * np.mean(np.log(to[good] / among[good])) + digamma(kp) - digamma(kq) + np.log(m / (n - 1)))


def mmd(P: np.ndarray, Q: np.ndarray) -> float:
    """Squared, with a radial kernel of the median distance of all."""
    X = np.vstack([P, Q])
    squares = (X**2).sum(axis=1)
    D = np.maximum(squares[:, None] + squares[None] - 2.0 * X @ X.T, 0.0)
    K, n = np.exp(-D / (2.0 * np.median(D[D > 0.0]))), len(P)
    return float(K[:n, :n].mean() + K[n:, n:].mean() - 2.0 * K[:n, n:].mean())


def measures(setting: Setting, numbers: np.ndarray, step: Callable) -> dict[str, float]:
    starts = jnp.array([np.concatenate([q[0], v[0]]) for q, v in setting.held])
    states = np.array(jax.jit(jax.vmap(lambda p: jax.vmap(lambda s: rolled(p, s, FRAMES, step))(starts)))(jnp.array(numbers)))
    states = np.clip(np.where(np.isfinite(states), states, 1e6), -1e6, 1e6)
    real = np.array([np.hstack([q, np.gradient(q, 1.0 / CLOCK, axis=0)])[1:] for q, _ in setting.held])
    made, held = (states / setting.spread).reshape(-1, FRAMES * 4), (real / setting.spread).reshape(len(real), -1)
    fitted = np.array(jax.jit(jax.vmap(lambda p: rolled(p, setting.start, FRAMES, step)))(jnp.array(numbers)))
    away = np.sqrt((((states - real[None])[..., :2]) ** 2).mean(axis=(2, 3)))
    low, high = np.quantile(states[..., :2], [0.05, 0.95], axis=0)
    return {
        "train": float(np.median(np.sqrt(np.nan_to_num(((fitted / setting.spread - np.array(setting.measured)) ** 2).mean(axis=(1, 2)), nan=1e6)))),
        "mmd2": mmd(made, held),
        "rms": float(np.median(away)),
        "covered": float(np.mean((low <= real[..., :2]) & (real[..., :2] <= high))),
        "kl real sim": nearest_kl(held, made),
        "kl sim real": nearest_kl(made, held),
    }


def ibm(chosen: list[str]) -> None:
    setting = Setting()
    print(f"{'':34}{'CPU s':>8}{'train':>8}{'MMD^2':>8}{'rms/rad':>9}{'in 90 %':>9}{'KL(real,sim)':>14}{'KL(sim,real)':>14}")
    for name in chosen or [*METHODS, *OURS]:
        began = time.process_time()
        try:
            if name in OURS:
                label, numbers, step = name, calibrated(*OURS[name]), runge_kutta
            else:
                label, numbers, step = METHODS[name][0], setting.numbers(METHODS[name][1](setting)), euler
        except ImportError as missing:
            print(f"{name} is left out: {missing.name} is not installed")
            continue
        seconds = time.process_time() - began
        m = measures(setting, numbers, step)
        print(
            f"{label:34}{seconds:8.1f}{m['train']:8.2f}{m['mmd2']:8.3f}{m['rms']:9.2f}{100 * m['covered']:8.0f}%{m['kl real sim']:14.0f}{m['kl sim real']:14.0f}",
            flush=True,
        )


# -- two weights, and a population -----------------------------------------------------------------------------------------------------------------


def box() -> None:
    """Two equal weights at unknown places of a box that swings: which of them is where does not show, so there are two explanations of equal probability."""
    import posterior_problems as problems

    began = time.process_time()
    result = cb.fit(problems.weights_in_a_box(), problems.shaken(), problems.unknown_weights(), h=0.02)
    post = cb.posterior(result, samples=200, starts=4)
    print(post)
    print(f"masses {[round(m.mass, 3) for m in post.modes]}, found by {[m.found_by for m in post.modes]}; {time.process_time() - began:.1f} CPU s")


MEAN, COVARIANCE = np.array([1.5, 2.0]), np.array([[0.02, 0.012], [0.012, 0.03]])


def double(first: float, second: float) -> cb.Model:
    """Two rods, a weight at the end of each."""
    bodies = [
        cb.Body("one", mass=1.0, com=(0, 0, -first), inertia=(0.02,) * 3),
        cb.Body("two", "one", position=(0, 0, -first), mass=1.0, com=(0, 0, -second), inertia=(0.02,) * 3),
    ]
    joints = [cb.Joint("upper", "one", axis=(0, 1, 0), damping=0.1), cb.Joint("lower", "two", axis=(0, 1, 0), damping=0.1)]
    return cb.Model("double", bodies, joints)


UNKNOWN = {
    "first": cb.Unknown(1.3, lower=0.5, upper=4.0, per_run=True, places={"body.one.com.z": "-first", "body.two.position.z": "-first"}),
    "second": cb.Unknown(1.8, lower=0.5, upper=4.0, per_run=True, places={"body.two.com.z": "-second"}),
}


def lengths(repetitions: int = 20) -> np.ndarray:
    """Ten runs, each of another pendulum; how often the 95 % intervals of mean and covariance hold what the lengths were drawn with."""
    held, began = [], time.process_time()
    for seed in range(repetitions):
        rng, runs = np.random.default_rng(seed), []
        for k, (a, b) in enumerate(rng.multivariate_normal(MEAN, COVARIANCE, 10)):
            motion = cb.simulate(double(a, b), 3.0, 0.005, {"joint.upper.angle": rng.uniform(0.5, 1.2), "joint.lower.angle": rng.uniform(-0.8, 0.8)})
            observed = [
                cb.Observation(f"joint.{j}.angle", motion.time[::4], motion[f"joint.{j}.angle"][::4] + 0.01 * rng.standard_normal(151), 0.01)
                for j in ("upper", "lower")
            ]
            runs.append(cb.Recording(f"run{k}", tuple(observed)))
        result = cb.fit(double(1.5, 2.0), runs, UNKNOWN, h=0.02)
        found = cb.population(result)
        (low, high), (least, most) = found.mean_interval(), found.covariance_interval()
        held.append([*((low <= MEAN) & (MEAN <= high)), *((least <= COVARIANCE) & (COVARIANCE <= most))[[0, 0, 1], [0, 1, 1]]])
        print(f"{seed}: {result.status}; mean {np.round(found.mean, 3)}, held {np.array(held[-1]).astype(int)}", flush=True)
    words = ("mean of the first", "mean of the second", "variance of the first", "covariance", "variance of the second")
    print({word: f"{int(n)} of {repetitions}" for word, n in zip(words, np.sum(held, axis=0), strict=True)}, f"{time.process_time() - began:.0f} CPU s")
    return np.sum(held, axis=0)


if __name__ == "__main__":
    which, *rest = sys.argv[1:] or ["ibm"]
    if which == "lengths":
        lengths(*map(int, rest))
    elif which == "box":
        box()
    else:
        ibm(rest)
