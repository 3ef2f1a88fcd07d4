"""What computes the cells: this process, others of this machine, or Dask; results are the same."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

from experiments.cells.cell import Outcome, Task, compute
from experiments.errors import ExperimentError

Finished = tuple[Task, Outcome | Exception]

_DASK_PATIENCE = 15.0  # seconds until a scheduler is taken not to be there
_DASK_RETRIES = 3  # of a cell whose worker died


class Executor(Protocol):
    """Yields each task with its outcome or its error, in the order in which they finish."""

    def run(self, tasks: Sequence[Task]) -> Iterator[Finished]: ...


class InProcess:
    """One after another, here."""

    def run(self, tasks: Sequence[Task]) -> Iterator[Finished]:
        for task in tasks:
            try:
                yield task, compute(task)
            # A cell that fails must not take the others with it: the error is its outcome.
            except Exception as error:
                yield task, error


@dataclass(frozen=True)
class Processes:
    """As many at a time as there are workers, each a fresh process of this machine."""

    workers: int

    def run(self, tasks: Sequence[Task]) -> Iterator[Finished]:
        pool = ProcessPoolExecutor(
            min(self.workers, len(tasks)),
            # Not forked: a forked child inherits the locks of the threads of BLAS.
            multiprocessing.get_context("spawn"),
            initializer=leave_interrupts,
        )
        try:
            futures = {pool.submit(compute, task): task for task in tasks}
            for future in as_completed(futures):
                error = future.exception()
                if isinstance(error, BrokenProcessPool):
                    raise ExperimentError(
                        "a worker process died (killed, or out of memory). The finished cells are "
                        "kept: run the same command again, with fewer --workers if memory was short"
                    )
                yield futures[future], future.result() if error is None else error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def leave_interrupts() -> None:
    """Ignore Ctrl-C in workers: it reaches every process, and the parent stops the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@dataclass(frozen=True)
class Dask:
    """The workers of an existing Dask cluster; they need this checkout on their path, no data."""

    address: str

    def run(self, tasks: Sequence[Task]) -> Iterator[Finished]:
        try:
            import distributed
        except ImportError:
            raise ExperimentError(
                "--dask needs the package distributed: pip install 'ldpopt[dask]'"
            ) from None
        try:
            client = distributed.Client(self.address, timeout=_DASK_PATIENCE, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ExperimentError(
                f"no Dask scheduler answers at {self.address} ({error}): check the address, or "
                "leave out --dask"
            ) from None
        with closing(client):
            # Without workers Dask would wait, and say nothing.
            if not client.scheduler_info()["workers"]:
                raise ExperimentError(
                    f"the Dask cluster at {self.address} has no workers: start some, then run this "
                    "command again"
                )
            futures = {
                client.submit(
                    compute, task, key=f"cell-{task.key}", pure=False, retries=_DASK_RETRIES
                ): task
                for task in tasks
            }
            try:
                for future in distributed.as_completed(list(futures), loop=client.loop):
                    error = future.exception()
                    yield futures[future], future.result() if error is None else error
                    future.release()  # its result is ours: the cluster need not keep it
            finally:
                client.cancel(list(futures))
