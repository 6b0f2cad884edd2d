"""Long studies of posteriors: simulation-based calibration at a bound, and predictions of a real double pendulum beside other samplers.

    python benchmarks/posterior.py sbc [replicates] [first]      a friction in [0, 0.04] whose standard deviation is 0.007: ranks of the truth, coverage of 90 % intervals
    python benchmarks/posterior.py ibm                           joint fit of six real runs: what the 90 % bands of five others hold; one run alone; MMD and rms (needs the folder `shared`, or CALIBODY_SHARED)
    python benchmarks/posterior.py workers [samples]             draws per second of one process and of two

Fixed seeds; what it prints stands in docs/posterior.md.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import ibm_problem as problem
import numpy as np
import posterior_problems as problems
from scipy.stats import kstest

import calibody as cb
from calibody.experiment.posterior import Here

DRAWS = 200
SHARED = Path(os.environ.get("CALIBODY_SHARED") or Path(__file__).resolve().parents[2] / "shared")


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

HELD = range(7, 12)


def ibm() -> None:
    """One run alone: what its draws predict of ten others, from the same starts; six runs together: what the bands of five others hold."""
    began = time.process_time()
    one = cb.fit(problem.pendulum(), problem.recording(SHARED, 1), problem.unknowns(), h=1.0 / problem.CLOCK)
    fitted = time.process_time()
    post = cb.posterior(one, samples=150, starts=0, executor=Here())  # type: ignore[arg-type]
    print(
        f"one run: {one.status}; fit {fitted - began:.1f} CPU s, 150 draws {time.process_time() - fitted:.1f} CPU s; {post.verdict} stretched {post.stretched:.2g}",
        flush=True,
    )
    mmd, rms = problem.rolled(SHARED, post)
    print(f"ten others from the same starts: MMD^2 {mmd:.3f}, rms {rms:.2f} rad", flush=True)
    covered(post, "one run")
    began = time.process_time()
    six = cb.fit(problem.pendulum(), [problem.recording(SHARED, i) for i in range(1, 7)], problem.unknowns(), h=1.0 / problem.CLOCK)
    print(f"six runs: {six.status}; runs agree: {six.runs_agree}; {time.process_time() - began:.1f} CPU s", flush=True)
    joint = cb.posterior(six, samples=150, starts=0, executor=Here())  # type: ignore[arg-type]
    print(joint.verdict, f"stretched {joint.stretched:.2g}", flush=True)
    covered(joint, "six runs")


def covered(post: cb.Posterior, words: str) -> None:
    shares = []
    for i in HELD:
        try:
            shares.append(post.predict(problem.recording(SHARED, i), window=0.1).coverage)
        except cb.CalibodyError as error:
            print(f"run {i}: {error}")
    print(f"{words}: 90 % bands hold {np.round(shares, 2)} of runs 7 to 11, {np.mean(shares):.2f} on average", flush=True)


# -- workers -------------------------------------------------------------------------------------------------------------------------------


def workers(samples: int = 2000) -> None:
    """Draws per second of one process and of two, on the race's gentle pendulum: by the clock, which means something on an idle computer only, and by the CPU seconds of the process that is at work longest, as if each had a core of its own."""
    import race_problems

    model, run, truth = race_problems.problem(SHARED, "gentle_single")
    result = cb.fit(model, run, {path: cb.Unknown(value, lower=0.0) for path, value in truth.items()}, h=0.01)
    rates = {}
    for name, executor in (("one", Here()), ("two, from nothing", None), ("two", None)):
        with Processes() as seen:
            began = time.perf_counter()
            cb.posterior(result, samples=samples, starts=0, executor=executor)  # type: ignore[arg-type]
            wall = time.perf_counter() - began
        used = sorted((c for c in seen.cpu.values() if c > 0.1), reverse=True)
        rates[name] = samples / sum(used) * (2 if name.startswith("two") else 1), samples / max(used), samples / wall
        print(f"{name:18} CPU s by process {np.round(used, 2)}, {wall:.1f} s by the clock", flush=True)
    for name in ("two, from nothing", "two"):
        shared, longest, wall = (a / b for a, b in zip(rates[name], rates["one"], strict=True))
        print(f"{name}: {shared:.2f} times the draws of one if both were at work equally long, {longest:.2f} by the longer of the two, {wall:.2f} by the clock")


class Processes:
    """CPU seconds of this process and all that it begins, while it is open (Linux)."""

    def __enter__(self) -> Processes:
        self.before, self.seen, self.open = self._now(), {}, True
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.seen |= self._now()
        self.open = False
        self.thread.join()
        self.cpu = {pid: seconds - self.before.get(pid, 0.0) for pid, seconds in self.seen.items()}

    def _watch(self) -> None:
        while self.open:
            self.seen |= self._now()
            time.sleep(0.05)

    @staticmethod
    def _now() -> dict[int, float]:
        found, tick = {}, os.sysconf("SC_CLK_TCK")
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            found[int(folder.name)] = int(words[1]), (int(words[11]) + int(words[12])) / tick
        mine = {os.getpid()}
        while more := {pid for pid, (parent, _) in found.items() if parent in mine} - mine:
            mine |= more
        return {pid: found[pid][1] for pid in mine}


if __name__ == "__main__":
    what, *rest = sys.argv[1:] or ["sbc"]
    globals()[what](*map(int, rest))
