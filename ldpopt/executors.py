"""Where independent calls run: in this process, in others of this machine, or on a Dask cluster.

An executor decides where and when a call runs, never what it returns. Callers therefore hand over
functions of their arguments alone, with every seed among the arguments: results are then the same
for any number of workers.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import signal
import threading
import time
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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, Protocol, TypeVar

from ldpopt import validate
from ldpopt.errors import WorkersError, extra_needed

Item = TypeVar("Item")
Result = TypeVar("Result")

# Status of a process that was started by one that is itself just starting: see Processes.
_UNGUARDED = 93

# Calls that wait for each worker: enough to keep it busy, few enough to keep memory constant.
_AHEAD = 2

PATIENCE = 30.0
"""Seconds that a Dask scheduler has for an answer, and a cluster without workers for a new one."""

_NO_GUARD = (
    "each worker imports the script that started it, and this one asks for workers while it is "
    "imported: put its last part under if __name__ == '__main__': or use workers=1"
)

_TICK = 1.0  # seconds between two looks at a pool whose calls take longer


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


def executor_for(
    workers: int = 1, dask: str | None = None, dask_patience: float = PATIENCE
) -> Executor:
    """Return the executor for a number of processes, or for the Dask scheduler at an address."""
    if dask is not None:
        return Dask(dask, dask_patience)
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
    """As many calls at a time as there are workers, which are new processes of this machine.

    A new process imports the script that started it. If that script asks for workers again, as one
    without ``if __name__ == "__main__":`` does, it ends there at once and in silence, and the
    process that started it says what is wrong.
    """

    workers: int

    def __post_init__(self) -> None:
        # As multiprocessing itself finds out, which then prints a traceback in every worker.
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            os._exit(_UNGUARDED)

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
        context = _Spawning()
        pool = ShieldedPool(
            self.workers,
            context,
            initializer=_prepare_worker,
            initargs=(threads,),
        )
        try:
            yield from _ahead(pool, function, work, lambda: self.workers * _AHEAD, in_order)
        except BrokenProcessPool:
            # Only a process that was waited for has its status.
            pool.shutdown(wait=True, cancel_futures=True)
            if context.met_no_guard():
                raise WorkersError(_NO_GUARD) from None
            raise WorkersError(
                "a worker process died (killed, or out of memory): if memory was short, run again "
                "with fewer workers"
            ) from None
        finally:
            # Also when the caller stops early: calls that have not begun are dropped.
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def interruptions_wait() -> Iterator[None]:
    """Start processes and threads within: Ctrl-C stops none of them half way.

    They inherit that the signal is blocked, so that it prints no traceback of a process that is
    still importing. This process is interrupted at the end: in between, a worker would lose what it
    is about to read, or the pool the worker.
    """
    with _noted():
        if not hasattr(signal, "pthread_sigmask"):
            yield  # on Windows
            return
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _noted() -> Iterator[None]:
    """Note interruptions, and raise them again at the end.

    To block the signal is not enough: it then reaches another thread, and the main thread handles
    what reaches any of them.
    """
    handler = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    # None is a handler that Python did not set, and cannot set again.
    if not is_main or handler is None:
        yield
        return
    arrived = []
    # It raises nothing, so that nothing stops before the other handler is back.
    signal.signal(signal.SIGINT, lambda number, _: arrived.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if arrived:
            signal.raise_signal(signal.SIGINT)


class ShieldedPool(ProcessPoolExecutor):
    """A pool whose processes an interruption does not reach while they start, nor ever."""

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        """Return the future of a call, for which a process may have to start."""
        with interruptions_wait():
            return super().submit(fn, *args, **kwargs)


class _Spawning(SpawnContext):
    """Spawned processes, not forked: a fork inherits the locks of the threads of Arrow and BLAS."""

    def __init__(self) -> None:
        super().__init__()
        self._started: list[SpawnProcess] = []

    def Process(self, *args: Any, **kwargs: Any) -> SpawnProcess:  # type: ignore[override]
        """Return a new process, which is remembered for its status."""
        process = SpawnProcess(*args, **kwargs)
        self._started.append(process)
        return process

    def met_no_guard(self) -> bool:
        """Return whether a process ended because the script that it imports needs workers."""
        return any(process.exitcode == _UNGUARDED for process in self._started)


def _prepare_worker(threads: int) -> None:
    # Ctrl-C reaches every process of the terminal; the parent stops its workers itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Numba reads it when the worker first hashes.
    os.environ["NUMBA_NUM_THREADS"] = str(threads)


@dataclass(frozen=True)
class Dask:
    """The workers of a Dask cluster that can import the function, and open the files it reads.

    The scheduler gives calls of a worker that died to others.

    Parameters
    ----------
    address
        Of the scheduler.
    patience
        Seconds, > 0, that the scheduler has for an answer, and that the cluster may be without any
        worker, at the start and later.
    """

    address: str
    patience: float = PATIENCE

    def __post_init__(self) -> None:
        patience = validate.real("the patience with a Dask cluster", self.patience, above=0)
        object.__setattr__(self, "patience", patience)

    def run(
        self,
        function: Callable[[Item], Result],
        work: Iterable[Item],
        *,
        in_order: bool = False,
    ) -> Iterator[tuple[Item, Result | Exception]]:
        """Yield each item with the result or the error of its call.

        Raises MissingPackageError if ``distributed`` is not installed, and WorkersError if no
        scheduler answers, it has no workers for longer than the patience, or it goes away. A call
        that killed its workers repeatedly has a WorkersError as its outcome.
        """
        with extra_needed():
            from distributed import KilledWorker
        with _closed_in_silence(self._client()) as client:
            cluster = _Cluster(client, self)
            # Not pure: the result of an equal call may not be taken from an earlier run. The pool
            # needs no end of its own: calls that are no longer needed are cancelled when the
            # connection is closed.
            pool = client.get_executor(pure=False)
            try:
                outcomes = _ahead(
                    pool, function, work, cluster.calls, in_order, cluster.require_workers
                )
                for item, outcome in outcomes:
                    if isinstance(outcome, CancelledError):
                        raise outcome
                    if isinstance(outcome, KilledWorker):
                        yield item, WorkersError(f"the Dask cluster gave up on a call: {outcome}")
                    else:
                        yield item, outcome
            except CancelledError:
                raise self.gone() from None
            except Exception:
                # What Dask raises over a connection that is lost differs by its version.
                if client.status == "closed":
                    raise self.gone() from None
                raise

    def _client(self) -> Any:
        """Return a connection to a cluster that has a worker."""
        import distributed

        reason: str | None = None
        try:
            client: Any = distributed.Client(  # type: ignore[no-untyped-call]
                self.address, timeout=self.patience, set_as_default=False
            )
        except (OSError, ValueError) as error:
            reason = str(error)
        if reason is not None:
            # What is left of the connection closes itself as it is collected. Had that to happen
            # while Dask starts the next one, Dask would wait for a lock of its own for ever.
            gc.collect()
            raise WorkersError(
                f"no Dask scheduler answers at {self.address} ({reason}): check the address"
            )
        try:
            # Without workers Dask would wait for ever, and say nothing.
            client.wait_for_workers(1, timeout=self.patience)
        except BaseException as error:
            _close(client)
            if isinstance(error, TimeoutError):
                raise self.without_workers() from None
            raise
        return client

    def gone(self) -> WorkersError:
        """Return the error for a scheduler that no longer answers."""
        return WorkersError(
            f"the Dask cluster at {self.address} went away: start it, then run again"
        )

    def without_workers(self) -> WorkersError:
        """Return the error for a cluster that has been without workers for too long."""
        return WorkersError(
            f"the Dask cluster at {self.address} had no workers for {self.patience:g} s: start "
            "some, then run again"
        )


def _close(client: Any) -> None:
    """Close a connection; the results of a run, or its error, count for more than how that ends."""
    try:
        client.close()
    except TimeoutError:
        # Dask waits 10 s for its own thread, and a loaded machine may need longer. The thread does
        # not keep the process from ending.
        pass
    except Exception:
        # Dask stops half way if it must give up, for the second time, an attempt to connect that
        # has not ended since the first. A moment later that attempt has ended.
        with suppress(Exception):
            client.close()


@contextmanager
def _closed_in_silence(client: Any) -> Iterator[Any]:
    """Close a connection without the traceback that Dask logs if it was trying to renew it."""
    logger = logging.getLogger("distributed.client")
    try:
        yield client
    finally:
        level = logger.level
        logger.setLevel(logging.CRITICAL + 1)
        try:
            _close(client)
        finally:
            logger.setLevel(level)


class _Cluster:
    """How much a Dask cluster can do at present, and since when it can do nothing."""

    def __init__(self, client: Any, dask: Dask) -> None:
        self._client = client
        self._dask = dask
        self._idle_since: float | None = None

    def calls(self) -> int:
        """Return how many calls keep the cluster busy, at least one."""
        try:
            # Anew each time: workers may join or leave during the run. A scheduler that is stopped
            # keeps its connections open, so that without a limit this would wait for ever.
            threads = self._client.nthreads(callback_timeout=self._dask.patience)
        except OSError:
            raise self._dask.gone() from None
        if threads:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = time.monotonic()
        # Without workers one call waits for the first of them.
        return max(1, int(sum(threads.values())) * _AHEAD)

    def require_workers(self) -> None:
        """Raise an error if the cluster cannot be reached, or had no workers for the patience."""
        # Calls that were sent as the connection closed may never end, not even in an error.
        if self._client.status == "closed":
            raise self._dask.gone()
        self.calls()
        idle = self._idle_since
        if idle is not None and time.monotonic() - idle > self._dask.patience:
            raise self._dask.without_workers()


def _ahead(
    pool: Pool,
    function: Callable[[Item], Result],
    work: Iterable[Item],
    size: Callable[[], int],
    in_order: bool,
    watch: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Item, Result | Exception]]:
    """Yield items with their outcomes, of calls in a pool that has at most ``size()`` at a time.

    While no call ends, ``watch`` is called once per tick: it may raise an error.
    """
    waiting: dict[Future[Result], Item] = {}
    for item in work:
        waiting[pool.submit(function, item)] = item
        if len(waiting) >= size():
            yield _next(waiting, in_order, watch)
    while waiting:
        yield _next(waiting, in_order, watch)


def _next(
    waiting: dict[Future[Any], Item], in_order: bool, watch: Callable[[], None]
) -> tuple[Item, Any]:
    """Take a finished call away from those that wait; return its item and its outcome."""
    future = _finished(waiting, in_order, watch)
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


def _finished(
    waiting: dict[Future[Any], Item], in_order: bool, watch: Callable[[], None]
) -> Future[Any]:
    """Return the first call, in their order, once it has ended, or the first that has ended."""
    awaited = list(waiting)[:1] if in_order else list(waiting)
    while True:
        ended = wait(awaited, timeout=_TICK, return_when=FIRST_COMPLETED).done
        if ended:
            return next(future for future in awaited if future in ended)
        watch()
