"""A real cluster on this machine: it gives the same, even if a worker is killed on the way.

Reports and experiments share one cluster: starting it costs more than all work on it.
"""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

import ldpopt
from ldpopt import collection as files
from ldpopt.collection import partition
from ldpopt.collection.aggregation import aggregate
from ldpopt.executors import Dask, InProcess
from ldpopt.oracles import OLH
from ldpopt.studies.engine.run import compute_cells
from ldpopt.studies.engine.store import Store
from tests.experiment_worlds import bits, few_tasks
from tests.reports_world import reports_of

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
ROOT = Path(__file__).parent.parent
ORACLE = OLH(1.0, 64)


@pytest.fixture(scope="module")
def whole_cluster():
    # A cluster gives up a worker that is not back within 15 s, which a loaded machine may need.
    patient = {"distributed.deploy.lost-worker-timeout": "10 minutes"}
    with (
        dask.config.set(patient),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=2,
            processes=True,
            host="127.0.0.1",
            dashboard_address=":0",
            silence_logs=50,
            env={"PYTHONPATH": str(ROOT)},
        ) as cluster,
    ):
        yield cluster


@pytest.fixture
def cluster(whole_cluster):
    """The cluster with all its workers: one that was killed is started again meanwhile."""
    # The limit is a safety net: without one, a worker that never comes would hang the tests.
    whole_cluster.wait_for_workers(2, timeout=300)
    return whole_cluster


def test_a_cluster_counts_the_same_when_a_worker_is_killed(cluster, tmp_path, monkeypatch):
    for limit in ("_WORK", "_FEWEST", "_MOST"):
        monkeypatch.setattr(partition, limit, 1)
    reports = []
    for part in range(3):
        with files.ReportWriter(tmp_path / f"{part}.parquet", ORACLE) as writer:
            for group in range(12):
                reports.append(reports_of(ORACLE, 200, seed=100 * part + group))
                writer.write(reports[-1])
    victims = [worker.pid for worker in cluster.workers.values()][:1]

    def kill(done, total):
        if done == 3:
            os.kill(victims.pop(), signal.SIGKILL)

    result = aggregate(tmp_path, dask=cluster.scheduler_address, on_partition=kill)
    assert victims == []
    assert np.array_equal(result.counts, ORACLE.support_counts(np.concatenate(reports)))
    assert result.n == 3 * 12 * 200


def test_a_cluster_weighs_reports_again_to_the_last_bit(cluster, tmp_path, monkeypatch):
    """Both passes, with a worker that is killed in the second one."""
    for limit in ("_WORK", "_FEWEST", "_MOST"):
        monkeypatch.setattr(partition, limit, 1)
    skewed = 1 / np.arange(1, ORACLE.d + 1)
    values = np.random.default_rng(0).choice(ORACLE.d, (4, 300), p=skewed / skewed.sum())
    for part, users in enumerate(values):
        reports = ORACLE.perturb(users, rng=part)
        files.write_reports(tmp_path / "reports" / f"{part}.parquet", ORACLE, reports)
    alone = aggregate(tmp_path / "reports", refine="norm-sub")
    victims = [worker.pid for worker in cluster.workers.values()][:1]
    done_before = []

    def kill(done, total):
        # Five parts are done when the first pass has ended and the second one has begun.
        done_before.append(done)
        if len(done_before) == 5:
            os.kill(victims.pop(), signal.SIGKILL)

    far = aggregate(
        tmp_path / "reports", refine="norm-sub", dask=cluster.scheduler_address, on_partition=kill
    )
    assert victims == []
    assert np.array_equal(far.refinement.sums, alone.refinement.sums)
    assert np.array_equal(far.estimate.frequencies, alone.estimate.frequencies)


def test_experiments_have_the_same_bits_though_a_worker_dies(cluster, tmp_path):
    tasks = few_tasks()
    with Store(tmp_path / "alone") as store:
        compute_cells(tasks, store, InProcess())
    victims = [worker.pid for worker in cluster.workers.values()][:1]
    killed = []

    def finished(task):
        if victims:
            killed.append(victims.pop())
            os.kill(killed[0], signal.SIGKILL)

    with Store(tmp_path / "dask") as store:
        summary = compute_cells(tasks, store, Dask(cluster.scheduler_address), finished=finished)
    assert killed
    assert not summary.failed
    assert len(summary.computed) == len(tasks)
    assert bits(tmp_path / "dask", tasks) == bits(tmp_path / "alone", tasks)


def test_a_study_gives_the_same_numbers_on_a_cluster(cluster):
    """A function of a notebook too: Dask sends it by value."""
    candidates = {"norm": "norm", "own": lambda estimate: estimate.frequencies / 2}
    options = {"draws": 25, "epsilons": [1.0, 2.0]}
    local = ldpopt.study(candidates, [40, 30, 20, 10], **options)
    far = ldpopt.study(candidates, [40, 30, 20, 10], dask=cluster.scheduler_address, **options)
    for place, by_name in local.values.items():
        for name, values in by_name.items():
            assert np.array_equal(far.values[place][name], values)
