"""Where partitions are counted: in this process, in several, or on a Dask cluster.

Tallies come back in the order of the partitions.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

from ldpopt.collection.partition import Partition, Tally, count_partition
from ldpopt.errors import InvalidInputError

Runner = Callable[[Iterable[Partition]], Iterator[Tally]]

# Partitions that wait for each worker: enough to keep it busy, few enough to keep memory constant.
_AHEAD = 2

_PATIENCE = 30  # seconds for a cluster to answer


def in_process(work: Iterable[Partition]) -> Iterator[Tally]:
    """Count one partition after the other."""
    return map(count_partition, work)


def in_processes(workers: int) -> Runner:
    """Return a runner that counts in so many other processes.

    It raises InvalidInputError if one of them dies.
    """

    def _run(work: Iterable[Partition]) -> Iterator[Tally]:
        share = max(1, (os.cpu_count() or 1) // workers)
        # Spawned, not forked: a forked child inherits the locks of the threads of Arrow and BLAS.
        pool = ProcessPoolExecutor(
            workers, get_context("spawn"), initializer=_limit_threads, initargs=(share,)
        )

        def submit(partition: Partition) -> Any:
            return pool.submit(count_partition, partition)

        try:
            yield from _window(work, submit, workers * _AHEAD)
        except BrokenProcessPool:
            raise InvalidInputError(
                "a worker process died; finished partitions are kept: the same call resumes the "
                "run, with fewer workers if memory is short"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)

    return _run


def on_dask(address: str) -> Runner:
    """Return a runner that counts on a Dask cluster whose workers see the files by the same names.

    The scheduler gives the partitions of a worker that died to others. Raises InvalidInputError if
    ``distributed`` is not installed, nobody answers, or the cluster gives up on a partition.
    """
    try:
        import distributed
    except ImportError:
        raise InvalidInputError(
            "a Dask cluster needs the package distributed: pip install 'ldpopt[dask]'"
        ) from None

    def _run(work: Iterable[Partition]) -> Iterator[Tally]:
        try:
            client: Any = distributed.Client(  # type: ignore[no-untyped-call]
                address, timeout=_PATIENCE, set_as_default=False
            )
        except (OSError, ValueError) as error:
            raise InvalidInputError(f"no Dask scheduler answers at {address}: {error}") from None

        def submit(partition: Partition) -> Any:
            # Not pure: the tally of an equal partition may not be taken from an earlier run.
            return client.submit(count_partition, partition, pure=False)

        with client:
            try:
                client.wait_for_workers(1, timeout=_PATIENCE)
            except TimeoutError:
                raise InvalidInputError(f"the Dask cluster at {address} has no worker") from None
            threads = sum(client.nthreads().values())
            try:
                yield from _window(work, submit, threads * _AHEAD)
            except distributed.KilledWorker as error:
                raise InvalidInputError(
                    f"the Dask cluster gave up on a partition: {error}"
                ) from None

    return _run


def _window(
    work: Iterable[Partition], submit: Callable[[Partition], Any], size: int
) -> Iterator[Tally]:
    """Yield the results of futures in the order of the work, with at most ``size`` in progress."""
    waiting: deque[Any] = deque()
    for partition in work:
        waiting.append(submit(partition))
        if len(waiting) >= size:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _limit_threads(threads: int) -> None:
    os.environ["NUMBA_NUM_THREADS"] = str(threads)  # read when a worker first hashes
