"""One `executor` for draws, starts, sweeps and folds: a real Dask cluster of two processes on this computer, and two and four processes, give the bytes of one process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import posterior_problems as problems
import pytest

import calibody as cb
from calibody.experiment.posterior import Here, at_work

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # those of the cluster are its own


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed", reason="needs the extra dask")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster, distributed.Client(cluster) as found:
        yield found


def test_a_posterior_on_a_cluster_has_the_bytes_of_one_process(client: Any) -> None:
    result = cb.fit(problems.kater(), problems.swing(), problems.unknown_kater(), h=0.02)
    alone = cb.posterior(result, samples=64, starts=2, executor=Here())  # type: ignore[arg-type]
    spread = cb.posterior(result, samples=64, starts=2, executor=client.get_executor())
    others = [spread]
    for count in (2, 4):
        with at_work(count) as processes:
            others.append(cb.posterior(result, samples=64, starts=2, executor=processes))
    for other in others:
        assert other.raw.eta.tobytes() == alone.raw.eta.tobytes() and other.raw.log_p.tobytes() == alone.raw.log_p.tobytes()
        assert [m.mass for m in other.modes] == [m.mass for m in alone.modes]


def test_sweeps_and_folds_on_a_cluster(client: Any) -> None:
    executor = client.get_executor()
    assert cb.sweep(pow, [{"base": 2, "exp": k} for k in range(5)], executor) == [1, 2, 4, 8, 16]
    runs = [problems.swing(seed) for seed in range(2)]
    found = cb.cross_validate(problems.kater(), runs, {"joint.pivot.damping": cb.Unknown(0.01)}, executor=executor, h=0.02)
    assert found.score < 1.3


def test_bootstrap_replicates_are_a_sweep() -> None:
    """Sixteen, in this process and in two others: the same numbers, which scatter as the error bars of a fit say."""
    settings = [{"seed": seed} for seed in range(16)]
    alone = cb.sweep(problems.replicate, settings, Here())  # type: ignore[arg-type]
    with at_work(2) as processes:
        assert cb.sweep(problems.replicate, settings, processes) == alone
    result = cb.fit(problems.kater(), problems.swing(), problems.unknown_kater(), h=0.04)
    for scatter, e in zip(np.std(alone, axis=0, ddof=1), result.parameters.values(), strict=True):
        assert e.sd is not None and 0.6 < scatter / e.sd < 1.6
