"""A real cluster on this machine: it counts the same, even if a worker is killed on the way."""

import os
import signal

import numpy as np
import pytest

from ldpopt import collection as files
from ldpopt.collection import partition
from ldpopt.collection.aggregation import aggregate
from ldpopt.oracles import OLH
from tests.reports_world import reports_of

distributed = pytest.importorskip("distributed")
ORACLE = OLH(1.0, 64)


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=2,
        processes=True,
        host="127.0.0.1",
        dashboard_address=":0",
        silence_logs=50,
    ) as cluster:
        yield cluster


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
