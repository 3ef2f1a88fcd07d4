"""The attack on random problems finds nothing wrong, and every error that is planted."""

import re
from dataclasses import replace

import numpy as np
import pytest

from ldpopt import Problem
from ldpopt.errors import InfeasibleError
from tools import attack
from tools.attack import attacked, drawn, main

SERIES = 3


def verdicts(numbers):
    for number in numbers:
        yield attacked(drawn(SERIES, number), np.random.default_rng(number))


def wrongs(numbers=range(12)):
    """Yield what is wrong, so that a test that waits for one thing ends with it."""
    for verdict in verdicts(numbers):
        yield from verdict.wrong


def test_every_point_is_inside_its_set():
    for number in range(300):
        case = drawn(SERIES, number)
        size = np.abs(case.inside).max()
        assert case.problem.violation(case.inside) <= 1e-10 * size, str(case)


def test_problems_are_of_all_kinds_and_none_is_wrong():
    outcomes = list(verdicts(range(15)))
    assert not [wrong for verdict in outcomes for wrong in verdict.wrong]
    kinds = {verdict.outcome for verdict in outcomes}
    assert {"optimal, closed-form", "optimal, conic"} <= kinds


@pytest.mark.parametrize("number", [5968, 9090, 11600, 11701, 11994])
def test_problems_that_once_had_no_certificate_have_one(number):
    """A run with this seed left nineteen problems without a certificate."""
    case = drawn(189269, number)
    assert case.problem.solve(case.estimate).status == "optimal"


def replaced(monkeypatch, change):
    """Let every solution go through a function."""
    solve = Problem.solve

    def changed(self, *args, **kwargs):
        return change(solve(self, *args, **kwargs))

    monkeypatch.setattr(Problem, "solve", changed)


def test_a_moved_answer_that_is_called_optimal_is_found(monkeypatch):
    def moved(solution):
        step = 1e-4 * np.abs(solution.frequencies).max()
        return replace(solution, frequencies=solution.frequencies + step)

    replaced(monkeypatch, moved)
    assert any("an optimal answer has a gap" in wrong for wrong in wrongs())


def test_a_gap_that_is_too_small_is_found(monkeypatch):
    """That of the answer itself is right, and all others are promised to be nothing."""

    class Nothing:
        gap = 0.0

    monkeypatch.setattr(attack, "certify", lambda *_: Nothing)
    assert any(wrong.startswith("the gap of the point is 0, it loses") for wrong in wrongs())


def test_a_set_that_is_called_empty_is_found(monkeypatch):
    def refuse(_):
        raise InfeasibleError("no vector meets the constraints")

    replaced(monkeypatch, refuse)
    assert len(list(wrongs(range(5)))) == 5


def test_an_error_that_is_none_of_the_library_is_found(monkeypatch):
    def fail(_):
        raise ZeroDivisionError("division by zero")

    replaced(monkeypatch, fail)
    findings = list(wrongs(range(5)))
    assert len(findings) == 5
    assert all("ZeroDivisionError" in wrong for wrong in findings)


def test_a_finding_names_the_command_that_shows_it_again(monkeypatch, capsys):
    def refuse(_):
        raise InfeasibleError("no vector meets the constraints")

    replaced(monkeypatch, refuse)
    assert main(["--seed", "5", "--first", "40", "--count", "3"]) == 1
    printed = capsys.readouterr().out
    (place,) = re.findall(r"--seed 5 --first 41 --count 1", printed)
    assert main(place.split()) == 1
    assert str(drawn(5, 41)) in capsys.readouterr().out


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_report_does_not_depend_on_the_number_of_workers(workers, capsys):
    assert main(["--seed", "6", "--count", "3", "--workers", workers]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("seed 6\n3 problems:\n")
    assert printed.endswith("0 findings\n")


def test_time_ends_an_attack(capsys, monkeypatch):
    monkeypatch.setattr(attack, "_CONTINUED", 2)
    assert main(["--seed", "6", "--minutes", "0"]) == 0
    assert "2 problems" in capsys.readouterr().out
