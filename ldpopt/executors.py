"""Where independent calls run: in this process, in others of this machine, or on a Dask cluster.

An executor decides where and when a call runs, never what it returns. Callers therefore hand over
functions of their arguments alone, with every seed among the arguments: results are then the same
for any number of workers.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Future,
    ProcessPoolExecutor,
    wait,
)
from concurrent.futures import Executor as Pool
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Protocol, TypeVar

from ldpopt.errors import WorkersError

Item = TypeVar("Item")
Result = TypeVar("Result")

# Calls that wait for each worker: enough to keep it busy, few enough to keep memory constant.
_AHEAD = 2

_PATIENCE = 30.0  # seconds for a Dask scheduler, and then for its first worker, to answer


class Executor(Protocol):
    """Calls a function on each item of some work."""

    def run(
        self,
        function: Callable[[Item], Result],
        work: Iterable[Item],
        *,
        in_order: bool = False,
    ) -> Iterator[tuple[Item, Result | Exception]]:
        """Yield each item with the result or the error of its call, as soon as it is there.

        A call that fails does not stop the others. Only a constant number of items is taken ahead
        of those that were yielded, so that neither work nor results pile up in memory.

        Parameters
        ----------
        function
            Importable by its name where other processes call it.
        work
            Its items are taken in their order; put the longest first, so that workers end together.
        in_order
            Whether to yield in the order of the work instead of that in which calls end.

        Raises
        ------
        WorkersError
            If workers cannot be reached or die.
        """
        ...


def executor_for(workers: int = 1, dask: str | None = None) -> Executor:
    """Return the executor for a number of processes, or for the Dask scheduler at an address."""
    if dask is not None:
        return Dask(dask)
    return InProcess() if workers == 1 else Processes(workers)


def results(
    executor: Executor, function: Callable[[Item], Result], work: Iterable[Item]
) -> Iterator[Result]:
    """Yield the results of calls in the order of the work; the first error is raised."""
    for _, outcome in executor.run(function, work, in_order=True):
        if isinstance(outcome, Exception):
            raise outcome
        yield outcome


class InProcess:
    """One call after the other, in this process."""

    def run(
        self,
        function: Callable[[Item], Result],
        work: Iterable[Item],
        *,
        in_order: bool = False,
    ) -> Iterator[tuple[Item, Result | Exception]]:
        """Yield each item with the result or the error of its call."""
        for item in work:
            outcome: Result | Exception
            try:
                outcome = function(item)
            except Exception as error:
                outcome = error
            yield item, outcome


@dataclass(frozen=True)
class Processes:
    """As many calls at a time as there are workers, which are new processes of this machine."""

    workers: int

    def run(
        self,
        function: Callable[[Item], Result],
        work: Iterable[Item],
        *,
        in_order: bool = False,
    ) -> Iterator[tuple[Item, Result | Exception]]:
        """Yield each item with the result or the error of its call.

        Raises WorkersError if a process dies.
        """
        # Each worker would otherwise start a thread per core of the machine.
        threads = max(1, (os.cpu_count() or 1) // self.workers)
        pool = ProcessPoolExecutor(
            self.workers,
            # Spawned, not forked: a forked child inherits the locks of the threads of Arrow and
            # BLAS.
            get_context("spawn"),
            initializer=_prepare_worker,
            initargs=(threads,),
        )
        try:
            yield from _ahead(pool, function, work, lambda: self.workers * _AHEAD, in_order)
        except BrokenProcessPool:
            raise WorkersError(
                "a worker process died (killed, or out of memory): if memory was short, run again "
                "with fewer workers"
            ) from None
        finally:
            # Also when the caller stops early: calls that have not begun are dropped.
            pool.shutdown(wait=True, cancel_futures=True)


def _prepare_worker(threads: int) -> None:
    # Ctrl-C reaches every process of the terminal; the parent stops its workers itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Numba reads it when the worker first hashes.
    os.environ["NUMBA_NUM_THREADS"] = str(threads)


@dataclass(frozen=True)
class Dask:
    """The workers of a Dask cluster that can import the function, and open the files it reads.

    The scheduler gives calls of a worker that died to others.
    """

    address: str

    def run(
        self,
        function: Callable[[Item], Result],
        work: Iterable[Item],
        *,
        in_order: bool = False,
    ) -> Iterator[tuple[Item, Result | Exception]]:
        """Yield each item with the result or the error of its call.

        Raises WorkersError if ``distributed`` is not installed, no scheduler answers, it has no
        workers, or it goes away. A call that killed its workers repeatedly has a WorkersError as
        its outcome.
        """
        try:
            from distributed import KilledWorker
        except ImportError:
            raise WorkersError(
                "a Dask cluster needs the package distributed: pip install 'ldpopt[dask]'"
            ) from None
        with closing(self._client()) as client:

            def size() -> int:
                # Anew each time: workers may join or leave during the run.
                return int(sum(client.nthreads().values())) * _AHEAD

            # Not pure: the result of an equal call may not be taken from an earlier run.
            pool = client.get_executor(pure=False)
            try:
                for item, outcome in _ahead(pool, function, work, size, in_order):
                    if isinstance(outcome, KilledWorker):
                        yield item, WorkersError(f"the Dask cluster gave up on a call: {outcome}")
                    else:
                        yield item, outcome
            except CancelledError:
                raise WorkersError(
                    f"the Dask cluster at {self.address} went away: start it, then run again"
                ) from None
            finally:
                # Without waiting: calls that are no longer needed are cancelled.
                pool.shutdown(wait=False)

    def _client(self) -> Any:
        """Return a connection to a cluster that has a worker."""
        import distributed

        try:
            client: Any = distributed.Client(  # type: ignore[no-untyped-call]
                self.address, timeout=_PATIENCE, set_as_default=False
            )
        except (OSError, ValueError) as error:
            raise WorkersError(
                f"no Dask scheduler answers at {self.address} ({error}): check the address"
            ) from None
        try:
            # Without workers Dask would wait for ever, and say nothing.
            client.wait_for_workers(1, timeout=_PATIENCE)
        except TimeoutError:
            client.close()
            raise WorkersError(
                f"the Dask cluster at {self.address} has no workers: start some, then run again"
            ) from None
        return client


def _ahead(
    pool: Pool,
    function: Callable[[Item], Result],
    work: Iterable[Item],
    size: Callable[[], int],
    in_order: bool,
) -> Iterator[tuple[Item, Result | Exception]]:
    """Yield items with their outcomes, of calls in a pool that has at most ``size()`` at a time."""
    waiting: dict[Future[Result], Item] = {}
    for item in work:
        waiting[pool.submit(function, item)] = item
        if len(waiting) >= size():
            yield _next(waiting, in_order)
    while waiting:
        yield _next(waiting, in_order)


def _next(waiting: dict[Future[Any], Item], in_order: bool) -> tuple[Item, Any]:
    """Take a finished call away from those that wait; return its item and its outcome."""
    future = next(iter(waiting))
    if not in_order:
        finished = wait(waiting, return_when=FIRST_COMPLETED).done
        future = next(future for future in waiting if future in finished)
    item = waiting.pop(future)
    error = future.exception()
    # A pool that broke has no result for any call.
    if isinstance(error, BrokenProcessPool):
        raise error
    if error is None:
        return item, future.result()
    # Errors that are not Exceptions ask this process, too, to stop.
    if not isinstance(error, Exception):
        raise error
    return item, error
