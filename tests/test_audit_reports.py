"""Audits of two files of reports: honest clients pass as often as promised, leaks are found."""

import json
import math

import numpy as np
import pytest

from ldpopt.collection import write_reports
from ldpopt.errors import InvalidInputError
from ldpopt.oracles import ORACLES, OUE
from ldpopt.studies.audit import Audit
from ldpopt.studies.audit_reports import audit_reports, smallest_detected
from tests.commands import run

SURE = 0.999999  # of a seeded test, so that another stream of numbers passes too


def coin(epsilon, value, n, rng):
    """Return n bits of a client that keeps its bit with the odds e^ε: it has no slack."""
    kept = rng.random(n) < math.exp(epsilon) / (1 + math.exp(epsilon))
    return np.where(kept, value, 1 - value).astype(np.uint8)


def failures(epsilon, claim, n, runs, confidence):
    rng = np.random.default_rng(1)
    outcomes = [
        audit_reports(
            *(coin(epsilon, value, n, rng) for value in (0, 1)),
            claim,
            confidence=confidence,
            rng=rng,
        )
        for _ in range(runs)
    ]
    return sum(not outcome.passed for outcome in outcomes), outcomes[0]


def test_a_client_without_slack_is_accused_as_seldom_as_promised():
    # The bound is conservative: far fewer than one in ten are expected, and 16 of 80 would be too
    # many with a probability below .001 even at one in ten.
    assert failures(1.0, 1.0, 500, 80, 0.9)[0] < 16


def test_an_excess_is_found_as_often_as_stated():
    _, outcome = failures(1.0, 1.0, 2_000, 1, 0.95)
    detected = smallest_detected(outcome)
    alarms, _ = failures(detected, 1.0, 2_000, 40, 0.95)
    # At .95 fewer than 33 of 40 have a probability below .0003.
    assert alarms >= 33
    # It is no more than is needed: half of the excess is found far less often.
    fewer, _ = failures((1 + detected) / 2, 1.0, 2_000, 40, 0.95)
    assert fewer < 33


def test_the_excess_that_is_found_shrinks_with_the_number_of_reports():
    few, many = (
        smallest_detected(Audit(1.0, 0.9, 0.999, (0, 1), (268 * n, 100 * n), 1000 * n))
        for n in (1, 100)
    )
    # Ten times smaller, as the square root of the number.
    assert (few - 1) / (many - 1) == pytest.approx(10)
    assert smallest_detected(Audit(1.0, 0.0, 0.999, (0, 1), (0, 0), 1000)) < math.inf


@pytest.mark.parametrize("name", ["oue", "hr", "ss"])
def test_honest_oracles_pass_and_smaller_claims_fail(name):
    oracle = ORACLES[name](1.0, 16)
    reports = [oracle.perturb([value] * 12_000, rng=value) for value in (3, 9)]
    options = {"oracle": oracle, "values": (3, 9), "rng": 0, "confidence": SURE}
    assert audit_reports(*reports, 1.0, **options).passed
    assert not audit_reports(*reports, 0.5, **options).passed


def test_a_seed_that_leaks_in_its_lowest_bit_is_found_in_sorted_files():
    oracle = ORACLES["olh"](1.0, 8)
    first, second = (oracle.perturb([value] * 4_000, rng=value) for value in (0, 1))
    assert audit_reports(first, second, 1.0, rng=0, confidence=SURE).passed
    # The lowest of 64 bits, which a float does not hold.
    first["seed"] &= np.uint64(2**64 - 2)
    second["seed"] |= np.uint64(1)
    first.sort(order="seed")
    outcome = audit_reports(first, second, 1.0, rng=0, confidence=SURE)
    assert not outcome.passed
    assert outcome.lower > 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"first": np.zeros(100)}, "first array must hold at least 125"),
        ({"second": np.zeros((200, 2), np.uint8)}, "reports of one kind"),
        ({"second": np.zeros(200, np.int64)}, "types uint8 and int64"),
        ({"oracle": OUE(1.0, 8)}, "belong together"),
        ({"oracle": OUE(1.0, 8), "values": (0, 8)}, "two distinct values below 8"),
        ({"oracle": OUE(1.0, 8), "values": (1, 1)}, "two distinct values below 8"),
        ({"oracle": OUE(1.0, 8), "values": (0, -1)}, "a value must be at least 0, got -1"),
        ({"epsilon": 0}, "epsilon"),
    ],
)
def test_what_cannot_be_audited_is_named(change, words):
    arguments = {"first": np.zeros(200, np.uint8), "second": np.ones(200, np.uint8), "epsilon": 1.0}
    with pytest.raises(InvalidInputError, match=words):
        audit_reports(**{**arguments, **change})


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit")
    oracle = OUE(1.0, 16)
    for name, value in (("A", 3), ("B", 5)):
        write_reports(
            folder / f"{name}.parquet", oracle, oracle.perturb([value] * 8_000, rng=value)
        )
    write_reports(folder / "C.parquet", OUE(2.0, 16), OUE(2.0, 16).perturb([0] * 200, rng=0))
    return folder


def test_two_files_are_audited_with_a_status(folder, monkeypatch):
    monkeypatch.chdir(folder)
    files = ["--reports", "A.parquet", "B.parquet", "--confidence", SURE]
    passed = run("audit", *files, "--values", "3,5", "--json")
    assert passed.status == 0, passed.err
    record = json.loads(passed.out)
    assert (record["passed"], record["epsilon"], record["power"]) == (True, 1.0, 0.95)
    assert record["lower"] < 1 < record["detected"] < 2
    assert set(record["pair"]) == {"A.parquet", "B.parquet"}
    failed = run("audit", *files, "--values", "3,5", "--epsilon", 0.25)
    assert (failed.status, "Failed: the reports prove" in failed.err) == (1, True)
    assert "found with probability 0.95" in failed.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--reports A.parquet A.parquet", "are one file"),
        ("--reports A.parquet C.parquet", "epsilon = 1.0, but C.parquet has epsilon = 2.0"),
        ("--reports A.parquet B.parquet --n 5", "leave it out with --reports"),
        ("--reports A.parquet B.parquet --values 3", "two numbers from 0"),
        ("--reports A.parquet B.parquet --values 3,16", "two distinct values below 16"),
        ("--reports A.parquet B.parquet --confidence 1", "--confidence"),
        ("--reports A.parquet no.parquet", "no.parquet does not exist"),
        ("--reports A.parquet B.parquet --column x", "give --d"),
        ("--oracle oue --epsilon 1 --d 4 --values 0,1", "give --reports A B"),
        ("--oracle oue --d 4", "needs --oracle, --epsilon and --d"),
        ("--reports A.parquet", "requires 2 arguments"),
    ],
)
def test_what_the_command_cannot_do_is_a_sentence(arguments, words, folder, monkeypatch):
    monkeypatch.chdir(folder)
    result = run("audit", *arguments.split())
    assert (result.status, words in result.err) == (2, True), result.err
