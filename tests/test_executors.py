"""What all executors share: order, errors as outcomes, little work ahead, lost workers."""

import _thread
import gc
import itertools
import logging
import multiprocessing
import operator
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from logging.handlers import BufferingHandler
from multiprocessing import util
from multiprocessing.context import SpawnProcess
from types import SimpleNamespace

import pytest

from ldpopt import executors
from ldpopt.collection import write_reports
from ldpopt.errors import (
    InvalidInputError,
    InvalidTypeError,
    MissingPackageError,
    WorkersError,
)
from ldpopt.executors import Dask, InProcess, Processes, executor_for, results
from ldpopt.oracles import GRR

NET_SECONDS = 50
"""A Dask cluster of the tests has this patience, which nothing but a defect exhausts: a loaded
machine may well take a second to connect."""


def half(number):
    return operator.truediv(6, number)


def die(number):
    os._exit(number)


@pytest.mark.parametrize("executor", [InProcess(), Processes(2)])
def test_a_call_that_fails_is_an_outcome_and_the_others_go_on(executor):
    outcomes = dict(executor.run(half, [1, 0, 2]))
    assert isinstance(outcomes.pop(0), ZeroDivisionError)
    assert outcomes == {1: 6.0, 2: 3.0}


@pytest.mark.parametrize("executor", [InProcess(), Processes(2)])
def test_results_are_in_the_order_of_the_work_and_raise_the_first_error(executor):
    # In one run: each start of processes takes a second.
    answers = results(executor, half, [1, 2, 3, 6, 0, 1])
    assert [next(answers) for _ in range(4)] == [6.0, 3.0, 2.0, 1.0]
    with pytest.raises(ZeroDivisionError):
        next(answers)


def test_the_executor_for_workers_and_clusters():
    assert isinstance(executor_for(), InProcess)
    assert executor_for(3) == Processes(3)
    assert executor_for(1, "tcp://here:1") == Dask("tcp://here:1", 30.0)
    assert executor_for(1, "tcp://here:1", 2) == Dask("tcp://here:1", 2.0)


def test_the_death_of_a_process_is_reported():
    with pytest.raises(WorkersError, match="worker process died"):
        list(Processes(2).run(die, [1]))


def test_workers_leave_interrupts_to_the_parent_and_share_the_cores():
    (threads,) = results(Processes(2), os.getenv, ["NUMBA_NUM_THREADS"])
    assert threads == str(max(1, os.cpu_count() // 2))


@pytest.fixture
def interruptible():
    """Let interruptions raise, also where the tests run in the background and ignore them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def starts_a_worker(_, arguments, *__):
    """Return whether a program that is started is a worker, and not what keeps count of them."""
    return "--multiprocessing-fork" in arguments


# Before a worker has the text that it reads first, and before the pool knows the worker.
@pytest.mark.parametrize(
    ("place", "name", "counts"),
    [(util, "spawnv_passfds", starts_a_worker), (SpawnProcess, "start", lambda _: True)],
    ids=["spawned", "started"],
)
@pytest.mark.usefixtures("interruptible")
def test_an_interruption_waits_until_a_worker_has_started(place, name, counts, monkeypatch, capfd):
    call = getattr(place, name)
    workers = []

    def interrupted(*arguments):
        result = call(*arguments)
        if counts(*arguments):
            workers.append(result)
            if len(workers) == 2:
                # As a signal does that reaches another thread: what this one blocks is no matter.
                _thread.interrupt_main()
        return result

    monkeypatch.setattr(place, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(Processes(2).run(half, [1, 2, 3]))
    monkeypatch.undo()
    left = multiprocessing.active_children()
    for process in left:
        process.kill()
    # What a worker reads first ends with the last reference to it.
    gc.collect()
    for number in filter(None, workers):
        with suppress(ChildProcessError):
            os.waitpid(number, 0)
    # The pool waited for all of its workers, and these ended without a word.
    assert (left, len(workers), capfd.readouterr().err) == ([], 2, "")


def interrupt_and_go_on(steps):
    with executors.interruptions_wait():
        signal.raise_signal(signal.SIGINT)
        steps.append("goes on")


def test_interruptions_end_as_they_would_have():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        # A program that ignores them goes on ignoring them.
        with executors.interruptions_wait():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        signal.signal(signal.SIGINT, signal.default_int_handler)
        steps = []
        with pytest.raises(KeyboardInterrupt):
            interrupt_and_go_on(steps)
        assert steps == ["goes on"]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, set())
    finally:
        signal.signal(signal.SIGINT, before)


def test_workers_start_from_any_thread():
    # Python interrupts the main thread alone, and no other one can set a handler.
    with ThreadPoolExecutor(1) as threads:
        answers = threads.submit(lambda: list(results(Processes(1), half, [2]))).result()
    assert answers == [3.0]


def test_little_work_is_taken_ahead():
    taken = []

    def work():
        for number in range(20):
            taken.append(number)
            yield number

    with ThreadPoolExecutor(2) as pool:
        yielded = executors._ahead(pool, str, work(), lambda: 3, in_order=True)
        for number, (item, text) in enumerate(yielded):
            assert (item, text) == (number, str(number))
            assert len(taken) <= number + 3


def test_a_finished_call_is_yielded_before_an_earlier_one_that_is_not():
    """The first call ends only when the second one has been yielded."""
    yielded = threading.Event()

    def wait_for_the_other(number):
        if number == 0:
            assert yielded.wait(600)
        return number

    order = []
    with ThreadPoolExecutor(2) as pool:
        for item, _ in executors._ahead(pool, wait_for_the_other, [0, 1], lambda: 2, False):
            order.append(item)
            yielded.set()
    assert order == [1, 0]


def test_a_caller_that_stops_early_drops_the_calls_that_have_not_begun(tmp_path):
    calls = [tmp_path / str(number) for number in range(200)]
    outcomes = Processes(1).run(touch, calls)
    next(outcomes)
    outcomes.close()
    assert len(list(tmp_path.iterdir())) <= 4


def touch(path):
    path.touch()
    time.sleep(0.01)


@pytest.fixture
def start_cluster():
    """A function that starts a cluster in this process, with so many workers."""
    distributed = pytest.importorskip("distributed")
    with ExitStack() as running:

        def start(workers):
            cluster = distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                dashboard_address=":0",
                processes=False,
                protocol="tcp://",
                silence_logs=50,
            )
            return running.enter_context(cluster)

        yield start


def test_a_cluster_without_its_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'ldpopt\[dask\]'$"):
        list(Dask("tcp://127.0.0.1:1", 0.5).run(half, []))


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "no-such-protocol://x"])
def test_nobody_answers_at_the_dask_address_and_nothing_is_left_to_close(address):
    """Collected while Dask starts another one, it would wait for a lock of Dask's for ever."""
    distributed = pytest.importorskip("distributed")
    with pytest.raises(WorkersError, match=f"no Dask scheduler answers at {address}"):
        list(Dask(address, 0.5).run(half, []))
    clients = [client for client in gc.get_objects() if type(client) is distributed.Client]
    assert {client.status for client in clients} <= {"closed"}


@pytest.mark.parametrize("patience", [0, -1, "long", float("nan")])
def test_a_patience_is_a_number_of_seconds(patience):
    with pytest.raises((InvalidInputError, InvalidTypeError), match="the patience with a Dask"):
        Dask("tcp://here:1", patience)


def test_a_cluster_without_workers_is_named(start_cluster, monkeypatch):
    distributed = pytest.importorskip("distributed")
    wait_for_workers = distributed.Client.wait_for_workers

    def soon(client, count, timeout):
        assert timeout == NET_SECONDS
        wait_for_workers(client, count, timeout=0.05)

    monkeypatch.setattr(distributed.Client, "wait_for_workers", soon)
    cluster = start_cluster(0)
    with pytest.raises(WorkersError, match=rf"had no workers for {NET_SECONDS} s: start some"):
        list(Dask(cluster.scheduler_address, NET_SECONDS).run(half, [1]))


@pytest.mark.parametrize("in_order", [False, True])
def test_a_cluster_that_loses_its_last_worker_is_named(start_cluster, monkeypatch, in_order):
    # Each look at the clock finds it a minute later than the last, so that the test need not wait.
    clock = itertools.count(step=60)
    monkeypatch.setattr(executors, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(executors, "_TICK", 0.05)
    cluster = start_cluster(1)
    dask = Dask(cluster.scheduler_address, NET_SECONDS)
    outcomes = dask.run(half, [1, 2, 3, 4, 5, 6], in_order=in_order)
    next(outcomes)
    cluster.scale(0)
    with pytest.raises(WorkersError, match=rf"had no workers for {NET_SECONDS} s: start some"):
        list(outcomes)


@pytest.mark.parametrize("in_order", [False, True])
def test_a_scheduler_that_dies_is_named(start_cluster, in_order):
    cluster = start_cluster(1)
    outcomes = Dask(cluster.scheduler_address, 2).run(half, [1, 2, 3, 4, 5, 6], in_order=in_order)
    next(outcomes)
    cluster.close()
    with pytest.raises(WorkersError, match="went away: start it, then run again"):
        list(outcomes)


@pytest.mark.parametrize("is_noticed", [False, True])
def test_a_connection_that_is_lost_is_named_whatever_dask_raises(
    start_cluster, monkeypatch, is_noticed
):
    """Dask refuses to submit and to cancel calls over it, with an error of its own."""

    def lose(self):
        self._client.close()
        if is_noticed:
            raise self._dask.gone()
        return 1

    monkeypatch.setattr(executors._Cluster, "calls", lose)
    cluster = start_cluster(1)
    with pytest.raises(WorkersError, match="went away: start it, then run again"):
        list(Dask(cluster.scheduler_address, NET_SECONDS).run(half, [1, 2, 3]))


def test_a_lost_connection_is_named_while_calls_wait_for_it():
    """A call that was sent as the connection closed has no outcome, and would wait for ever."""
    client = SimpleNamespace(status="closed", nthreads=lambda **_: {"tcp://here:2": 1})
    cluster = executors._Cluster(client, Dask("tcp://here:1"))
    with pytest.raises(WorkersError, match="went away: start it, then run again"):
        cluster.require_workers()


def test_a_connection_that_is_given_up_leaves_no_traceback_in_the_log():
    logger = logging.getLogger("distributed.client")
    records = BufferingHandler(capacity=10)
    logger.addHandler(records)

    class Client:
        def close(self):
            logger.error("Traceback")

    with executors._closed_in_silence(Client()):
        logger.error("before")
    logger.error("after")
    logger.removeHandler(records)
    assert [record.getMessage() for record in records.buffer] == ["before", "after"]


def test_a_connection_that_dask_cannot_close_in_its_time_hides_no_outcome():
    class Client:
        def close(self):
            raise TimeoutError("join timed out")

    with pytest.raises(WorkersError, match="no workers"), executors._closed_in_silence(Client()):
        raise WorkersError("the cluster had no workers")
    with executors._closed_in_silence(Client()):
        outcome = 3.0
    assert outcome == 3.0


@pytest.mark.parametrize("failures", [1, 2])
def test_a_connection_that_dask_fails_to_close_is_closed_again_and_hides_no_outcome(failures):
    class Client:
        attempts = 0

        def close(self):
            self.attempts += 1
            if self.attempts <= failures:
                raise RuntimeError("Cannot change state of expiring Timeout")

    with (
        pytest.raises(WorkersError, match="no workers"),
        executors._closed_in_silence(Client()) as client,
    ):
        raise WorkersError("the cluster had no workers")
    assert client.attempts == 2


def test_a_connection_that_dask_closes_half_way_is_closed_whole(start_cluster, monkeypatch):
    distributed = pytest.importorskip("distributed")
    close = distributed.core.ConnectionPool.close
    closing = []

    async def fail_once(pool):
        closing.append(pool)
        if len(closing) == 1:
            raise RuntimeError("Cannot change state of expiring Timeout")
        await close(pool)

    cluster = start_cluster(1)
    client = Dask(cluster.scheduler_address, NET_SECONDS)._client()
    with monkeypatch.context() as patch:
        patch.setattr(distributed.core.ConnectionPool, "close", fail_once)
        executors._close(client)
    assert client.status == "closed"
    assert closing == [client.rpc, client.rpc]


def test_an_error_on_a_cluster_is_an_outcome(start_cluster):
    with start_cluster(1) as cluster:
        outcomes = dict(Dask(cluster.scheduler_address).run(half, [0, 2]))
    assert isinstance(outcomes.pop(0), ZeroDivisionError)
    assert outcomes == {2: 3.0}


SCRIPT = """
from ldpopt.collection import aggregate
print("counting")
print(aggregate("r.csv", workers=2).n)
"""


def test_a_script_without_a_main_guard_is_told_what_is_wrong(tmp_path):
    write_reports(tmp_path / "r.csv", GRR(1.0, 4), [0, 1])
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 1
    # One traceback, of the script itself, which ends with the sentence.
    assert done.stderr.count("Traceback") == 1
    assert "if __name__ == '__main__':" in done.stderr.splitlines()[-1]
