"""Plant errors one at a time, each in a process of its own, and find the claims that notice."""

from __future__ import annotations

import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.context import BaseContext
from pathlib import Path
from shutil import copytree, ignore_patterns
from tempfile import TemporaryDirectory
from typing import Any

from ldpopt.claims import LEDGER, InstanceSet, read_figure_run, run_claim
from ldpopt.claims.planted.catalogue import ERRORS
from ldpopt.claims.planted.error import Sighting
from ldpopt.claims.planted.tables import TABLE_ERRORS
from ldpopt.errors import DataUnavailableError, LdpoptWarning, WorkersError
from ldpopt.executors import ShieldedPool

NOTHING = ""
"""In the place of an error's id: the claims run on the package as it is, and must find nothing."""


def look_for(identifier: str) -> Sighting:
    """Plant an error in this process, and run claims until one of them notices.

    The claims that the error names come first, then all others; with ``NOTHING`` all claims that
    some error names. What was planted stays: call it in a process that ends afterwards.

    Parameters
    ----------
    identifier
        Of an error in ``ERRORS``, or ``NOTHING``.
    """
    began = time.perf_counter()
    if identifier == NOTHING:
        # The ones that decide elsewhere: without an error none of them may speak up.
        named = [name for error in ERRORS.values() for name in error.claims]
        names = list(dict.fromkeys(named))
    else:
        error = ERRORS[identifier]
        error.plant()
        names = list(dict.fromkeys([*error.claims, *LEDGER]))
    # Made after the error is planted: it may be one of the instances.
    instances = InstanceSet(quick=True)
    for number, name in enumerate(names, start=1):
        how = _surprise(name, instances)
        if how:
            seconds = time.perf_counter() - began
            return Sighting(identifier, name, how, number, seconds)
    return Sighting(identifier, "", "", len(names), time.perf_counter() - began)


def _surprise(name: str, instances: InstanceSet) -> str:
    """Return how a claim differs from what the ledger expects; empty if it does not."""
    claim = LEDGER[name]
    with warnings.catch_warnings():
        # An error may make every estimate an unusual one.
        warnings.simplefilter("ignore", LdpoptWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        result = run_claim(claim, instances)
    # Whatever an error in the package makes a check raise, it is noticed.
    if result.raised:
        return f"raised {result.raised.partition(':')[0]}"
    return "" if result.as_expected else str(result.finding.verdict)


def look_at_tables(identifier: str, folder: Path) -> Sighting:
    """Plant an error in a run of the figures, and judge the papers' statements on it.

    Parameters
    ----------
    identifier
        Of an error in ``TABLE_ERRORS``, or ``NOTHING``. What it changes beside the tables stays.
    folder
        The tables of a run, of which a copy is changed.
    """
    began = time.perf_counter()
    with TemporaryDirectory() as temporary:
        copy = Path(temporary) / "tables"
        copytree(folder, copy, ignore=ignore_patterns("*.svg", "*.png", "*.html"))
        if identifier != NOTHING:
            TABLE_ERRORS[identifier].plant(copy)
        claim, how, number = _first_surprise(copy)
    return Sighting(identifier, claim, how, number, time.perf_counter() - began)


def _first_surprise(folder: Path) -> tuple[str, str, int]:
    """Return the first statement that is not as expected, how it ended, and how many there are.

    Where all are, a defect of the tables takes its place.
    """
    try:
        run = read_figure_run(folder)
    except DataUnavailableError as error:
        return "figures", f"raised {type(error).__name__}", 0
    number = len(run.results)
    # Verdicts before defects: what readers would see first.
    for result in run.results:
        if not result.as_expected:
            return result.claim.id, str(result.finding.verdict), number
    if run.defects:
        return "figures", run.defects[0], number
    return "", "", number


def self_test(
    workers: int,
    figures: Path | None = None,
    identifiers: Iterable[str] = (NOTHING, *ERRORS),
) -> Iterator[Sighting]:
    """Yield how the search for each error ended, as soon as it has.

    Parameters
    ----------
    workers
        How many errors are planted at a time. Each has a process to itself.
    figures
        The tables of a run of the figures; errors are planted in copies of them too.
    identifiers
        Of the errors in the package; by default ``NOTHING`` and then all.

    Raises
    ------
    WorkersError
        If a process dies.

    Notes
    -----
    Cost: one to a few seconds of processor time per error.
    """
    # One task per process: what was planted must not meet the next error.
    pool = ShieldedPool(workers, _context(), block_interruptions, max_tasks_per_child=1)
    try:
        futures = [pool.submit(interruptible, look_for, identifier) for identifier in identifiers]
        if figures is not None:
            in_tables = (NOTHING, *TABLE_ERRORS)
            futures += [
                pool.submit(interruptible, look_at_tables, name, figures) for name in in_tables
            ]
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool:
        raise WorkersError(
            "a process of the self-test died (killed, or out of memory): run it with fewer workers"
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def block_interruptions() -> None:
    """Block Ctrl-C in this process until ``interruptible`` lets it through.

    Processes inherit that from the one which forks them, unless that was started before for others.
    """
    if hasattr(signal, "pthread_sigmask"):  # not on Windows
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def interruptible(function: Callable[..., Sighting], *arguments: Any) -> Sighting:
    """Return the result of a call that Ctrl-C ends, in a process that is deaf to it otherwise."""
    if not hasattr(signal, "pthread_sigmask"):
        return function(*arguments)  # on Windows
    # Within the call KeyboardInterrupt is its outcome; before and after it would be a traceback.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        return function(*arguments)
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def _context() -> BaseContext:
    """Return the way to start processes: forks of one that has imported everything, or new ones."""
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    # That process has no threads, and importing lasts longer than most of the searches.
    context.set_forkserver_preload(["ldpopt.claims.planted.preloaded"])
    return context
