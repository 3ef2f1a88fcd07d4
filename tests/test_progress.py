"""Progress bars: shown where somebody watches, and nowhere else."""

import io
import sys

import numpy as np
import pytest

import ldpopt
from ldpopt import Problem, constraints, losses, oracles, progress
from ldpopt.studies import audit

OUE = oracles.OUE(epsilon=1.0, d=3)
RAW = OUE.estimate([4_300, 3_300, 2_650], 10_000)
BALL = constraints.Near([0.4, 0.3, 0.3], 0.9)
CURVED = Problem(losses.LeastSquares(), [constraints.SumsTo(1.0), BALL])


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def watched(monkeypatch):
    """Return a function that puts a terminal in the place of standard error and returns it.

    Not the terminal itself: pytest captures the output of a fixture and that of its test apart.
    """

    def begin(delay=0.0):
        monkeypatch.setattr(progress, "_DELAY", delay)
        monkeypatch.setattr(sys, "stderr", Terminal())
        return sys.stderr

    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    return begin


def test_a_bar_needs_somebody_who_watches(monkeypatch, watched):
    assert not progress.is_watched()  # pytest's own standard error is no terminal
    watched()
    assert progress.is_watched()
    monkeypatch.setattr("multiprocessing.parent_process", lambda: "the one that started this one")
    assert not progress.is_watched()


def test_a_kernel_is_a_notebook(monkeypatch):
    assert not progress.in_notebook()
    shell = type("Shell", (), {"kernel": None})()
    module = type("IPython", (), {"get_ipython": staticmethod(lambda: shell)})
    monkeypatch.setitem(sys.modules, "IPython", module)
    assert progress.in_notebook()
    assert progress.is_watched()


def test_a_bar_goes_to_standard_error_and_disappears(watched):
    terminal = watched()
    assert list(progress.track("abc", "letters", 3)) == ["a", "b", "c"]
    lines = terminal.getvalue().split("\r")
    assert lines[1].startswith("letters   0 %|")
    # The last line is blank, and the cursor at its beginning.
    assert [line.strip() for line in lines[-2:]] == ["", ""]


def test_a_bar_within_another_one_is_not_shown(watched):
    terminal = watched()
    with progress.bar("outer", 2) as advance:
        assert list(progress.track("abc", "inner", 3)) == ["a", "b", "c"]
        advance(2)
    assert "inner" not in terminal.getvalue()
    assert "outer" in terminal.getvalue()


def test_what_is_quick_or_not_wanted_has_no_bar(watched):
    terminal = watched(delay=2.0)
    list(progress.track("abc", "letters", 3))
    assert "letters" not in terminal.getvalue()
    terminal = watched()
    list(progress.track("abc", "letters", 3, wanted=False))
    assert "letters" not in terminal.getvalue()


def test_an_error_ends_the_bar(watched):
    watched()

    def broken():
        yield 1
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        list(progress.track(broken(), "letters", 3))
    assert progress._shown == []


def folder_of_reports(tmp_path):
    from ldpopt.collection import write_reports

    write_reports(tmp_path / "a.parquet", OUE, OUE.perturb([0, 1, 2], rng=0))
    return tmp_path


LONG = {
    "1 cell": lambda _: ldpopt.study("base", [5, 3, 1], draws=2),
    "2 values": lambda _: Problem(
        losses.LeastSquares() + ldpopt.Parameter("lam", 0.1) * losses.Entropy(),
        [constraints.SumsTo(1.0)],
    ).path([0.5, 0.3], lam=[0.1, 0.2]),
    "CLARABEL, 2 trials": lambda _: CURVED.solve([[0.5, 0.3, 0.1]] * 2, path="conic"),
    "3 intervals": lambda _: CURVED.interval(RAW),
    "9 trials": lambda _: ldpopt.select_method(RAW, [[0]], ["base", "norm"], trials=9, rng=0),
    "2 solves": lambda _: ldpopt.compare(
        Problem(losses.LeastSquares(), [constraints.SumsTo(1.0)]), RAW, solvers=["OSQP"]
    ),
    "reports": lambda _: audit.audit(lambda value: value, 1.0, [0, 1], reports=200),
    "1 part of files": lambda tmp_path: ldpopt.collection.aggregate(folder_of_reports(tmp_path)),
    "2 proofs": lambda _: ldpopt.certify(
        Problem(losses.LeastSquares()), [[0.5, 0.3]] * 2, np.full((2, 2), 0.5), exact=True
    ),
    "2 certificates": lambda _: ldpopt.certify(
        CURVED, [[0.5, 0.3, 0.2]] * 2, np.full((2, 3), 1 / 3)
    ),
}


@pytest.mark.parametrize("what", LONG)
def test_everything_that_may_be_long_has_a_bar(what, watched, tmp_path):
    terminal = watched()
    LONG[what](tmp_path)
    assert f"{what}   0 %" in terminal.getvalue()
