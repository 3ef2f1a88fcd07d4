"""The auditor: it finds planted errors, passes clients that keep their claim, and its bounds are those of the literature."""

import json
import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats

from ldpopt import cli
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.oracles import GRR, OLH, ORACLES, OUE, SubsetSelection
from ldpopt.oracles.rational import word_below
from ldpopt.studies.audit import (
    audit,
    audit_oracle,
    proportion_above,
    proportion_below,
    report_classes,
)

CONFIDENCE = 0.999  # one audit of a correct client in a thousand fails; about twenty are made here, on fixed seeds
every_oracle = pytest.mark.parametrize("name", list(ORACLES))


def seeded(perturb, seed=0):
    """Return a client whose reports repeat from one run of the tests to the next."""
    rng = np.random.default_rng(seed)
    return lambda values: perturb(values, rng=rng)


def with_other_q(factor, d):
    """Return an OUE client whose flips are off by a factor."""
    oracle = OUE(1.0, d)
    oracle.exact_q = word_below(oracle.exact_q * factor)
    return oracle


def subset_client(oracle, rng, exclude):
    """Return subset selection written naively, with the value that the draw of the others leaves out given by ``exclude``."""

    def client(values):
        own = rng.random(len(values)) < oracle.p
        keys = rng.random((len(values), oracle.d))
        rows = np.arange(len(values))
        keys[rows, exclude(values) % oracle.d] = 2.0  # last in the order: never drawn
        keys[rows[own], values[own]] = -1.0  # first
        return np.sort(np.argsort(keys, axis=1)[:, : oracle.k], axis=1)

    return client


# --- correct clients pass, planted errors are found ------------------------------------------------


@every_oracle
def test_our_clients_pass(name):
    oracle = ORACLES[name](1.0, 16)
    found = audit_oracle(
        oracle, client=seeded(oracle.perturb), reports=100_000, confidence=CONFIDENCE
    )
    assert found.passed, found.findings
    assert found.findings == ()
    assert found.loss == oracle.exact_epsilon
    assert 0.8 < found.reports.lower <= 1.0  # and the audit sees most of ε


@pytest.mark.parametrize("factor", [Fraction(99, 100), Fraction(101, 100)])
def test_a_q_off_by_one_per_cent_is_found_in_reports(factor):
    client = seeded(with_other_q(factor, 16).perturb)
    found = audit_oracle(OUE(1.0, 16), client=client, reports=1_000_000, confidence=CONFIDENCE)
    assert not found.passed
    assert not found.other.passed
    assert found.own.passed
    assert "support another value with probability" in found.findings[-1]


def test_a_q_one_per_cent_too_small_is_found_in_a_black_box():
    found = audit(
        seeded(with_other_q(Fraction(99, 100), 4).perturb), 1.0, [0, 1], reports=4_000_000, confidence=CONFIDENCE, batched=True
    )  # fmt: skip
    assert not found.passed
    assert 1.0 < found.lower < math.log(1 / 0.99 / OUE(1.0, 4).q - 1)


@pytest.mark.parametrize("factor", [Fraction(99, 100), Fraction(1) - Fraction(1, 10**15)])
def test_a_smaller_q_is_found_in_the_probabilities_however_little_it_is(factor):
    oracle = with_other_q(factor, 16)
    found = audit_oracle(
        oracle, client=seeded(OUE(1.0, 16).perturb), reports=10_000, confidence=CONFIDENCE
    )
    assert not found.passed
    assert found.loss > 1.0
    assert found.reports.passed
    assert found.findings[0].startswith("the probabilities lose 1.0")


@pytest.mark.parametrize("black_box", [False, True])
def test_an_off_by_one_in_the_exclusion_of_subset_selection_is_found(black_box):
    oracle = SubsetSelection(1.0, 16)
    client = subset_client(oracle, np.random.default_rng(1), exclude=lambda values: values + 1)
    if black_box:
        found = audit(client, 1.0, range(4), reports=20_000, confidence=CONFIDENCE, batched=True)
        assert found.lower > 1.2
    else:
        found = audit_oracle(oracle, client=client, reports=20_000, confidence=CONFIDENCE)
        assert not found.own.passed
    assert not found.passed


@pytest.mark.parametrize("black_box", [False, True])
def test_the_same_client_without_the_error_passes(black_box):
    oracle = SubsetSelection(1.0, 16)
    client = subset_client(oracle, np.random.default_rng(2), exclude=lambda values: values)
    if black_box:
        found = audit(client, 1.0, range(4), reports=20_000, confidence=CONFIDENCE, batched=True)
    else:
        found = audit_oracle(oracle, client=client, reports=20_000, confidence=CONFIDENCE)
    assert found.passed


def test_a_client_that_forgets_its_noise_is_found_by_few_reports():
    found = audit(lambda value: value, 3.0, ["yes", "no"], reports=1_000, confidence=CONFIDENCE)
    assert not found.passed
    assert found.lower > 4
    assert found.hits == (1_000, 0)


# --- the bounds ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hits", "n"), [(0, 10), (1, 10), (5, 10), (10, 10), (3, 1000), (999, 1000)]
)
@pytest.mark.parametrize("alpha", [0.025, 1e-4])
def test_clopper_pearson_bounds_are_where_the_binomial_tail_is_alpha(hits, n, alpha):
    low, high = float(proportion_below(hits, n, alpha)), float(proportion_above(hits, n, alpha))
    assert low < hits / n < high or hits in (0, n)
    if hits:
        assert scipy.stats.binom.sf(hits - 1, n, low) == pytest.approx(alpha, rel=1e-9)
    else:
        assert low == 0
    if hits < n:
        assert scipy.stats.binom.cdf(hits, n, high) == pytest.approx(alpha, rel=1e-9)
    else:
        assert high == 1


def test_false_alarms_are_as_rare_as_stated():
    # 1,000 audits at confidence 0.8 of a client that uses up its claim: more than 250 alarms have a probability below 1e-4.
    rng = np.random.default_rng(3)
    alarms = sum(
        not audit(
            lambda values: np.where(rng.random(len(values)) < 0.75, values, 1 - values),
            math.log(3), [0, 1], reports=400, confidence=0.8, batched=True,
        ).passed
        for _ in range(1_000)
    )  # fmt: skip
    assert alarms < 250
    assert scipy.stats.binom.sf(249, 1_000, 0.2) < 1e-4


@every_oracle
def test_classes_are_a_law_with_the_p_and_q_of_the_oracle(name):
    oracle = ORACLES[name](1.0, 16)
    classes = {found.supports: found for found in report_classes(oracle)}
    for side in ("given_v", "given_u"):
        assert sum(getattr(found, side) for found in classes.values()) == 1
    support_v = [found for supports, found in classes.items() if supports in ("v", "both")]
    assert sum(found.given_v for found in support_v) == oracle.exact_p
    assert sum(found.given_u for found in support_v) == oracle.exact_q


def test_a_report_that_only_one_value_can_send_is_an_infinite_loss():
    oracle = OUE(1.0, 16)
    oracle.exact_q = oracle.exact_both
    assert audit_oracle(oracle, client=seeded(OUE(1.0, 16).perturb), reports=1_000).loss == math.inf


# --- reports of any kind ---------------------------------------------------------------------------


def kept(rng, value):
    return value if rng.random() < 0.75 else 1 - value


KINDS = {
    "numbers": lambda bit: bit,
    "text": lambda bit: "ny"[bit],
    "tuples": lambda bit: (7, bit),
    "mixed": lambda bit: ("a", bit),
    "sets": lambda bit: frozenset([bit, 9]),
    "arrays": lambda bit: np.array([[0.5, bit], [1, 2]]),
    "none": lambda bit: None if bit else b"x",
    "records": lambda bit: np.array((3, bit), dtype=[("seed", np.uint64), ("bucket", np.uint8)]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_reports_may_be_of_any_kind(kind):
    rng = np.random.default_rng(4)
    client = lambda value: KINDS[kind](kept(rng, value))  # noqa: E731
    assert audit(client, math.log(3), [0, 1], reports=3_000).passed
    assert not audit(client, 0.7, [0, 1], reports=3_000).passed


def test_reports_that_are_continuous():
    rng = np.random.default_rng(5)
    client = lambda values: values + rng.laplace(0, 1 / 1.5, len(values))  # noqa: E731
    found = audit(client, 1.5, [0, 1], reports=100_000, batched=True)
    assert found.passed
    assert found.lower > 1.4


def test_features_show_what_columns_hide():
    oracle = OLH(2.0, 8)
    client = seeded(oracle.perturb)
    blind = audit(client, 2.0, [0, 1], reports=20_000, batched=True)
    seeing = audit(
        client, 2.0, [0, 1], reports=20_000, batched=True,
        features=lambda reports: oracle.support_operator(reports) @ np.eye(8),
    )  # fmt: skip
    assert blind.lower < 0.5 < 1.8 < seeing.lower <= 2.0


def test_neighbours_are_told_apart_where_others_are_not():
    leak = lambda values: np.where(values == 3, 1, 0)  # noqa: E731
    found = audit(leak, 1.0, range(5), reports=1_000, batched=True)
    assert 3 in found.pair
    assert not found.passed


# --- refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((5, 1.0, [0, 1]), {}, InvalidTypeError, "client must be callable"),
        ((int, -1.0, [0, 1]), {}, InvalidInputError, "epsilon must be"),
        ((int, 1.0, [0]), {}, InvalidInputError, "at least two inputs"),
        ((int, 1.0, [0, 1]), {"reports": 10}, InvalidInputError, "reports must be at least 100"),
        ((int, 1.0, [0, 1]), {"confidence": 1.0}, InvalidInputError, "confidence"),
        ((np.unique, 1.0, [0, 1]), {"batched": True}, InvalidInputError, "asked for .* reports and returned 1"),
        ((lambda value: {value}, 1.0, [0, 1]), {}, InvalidTypeError, "arrays of one shape or hashable"),
        ((lambda value: [], 1.0, [0, 1]), {}, InvalidInputError, "holds nothing"),
    ],
    ids=["client", "epsilon", "one value", "few", "confidence", "another number", "unhashable", "empty"],
)  # fmt: skip
def test_bad_arguments_are_refused(arguments, options, error, message):
    with pytest.raises(error, match=message):
        audit(*arguments, **options)


def test_an_audit_of_no_oracle_is_refused():
    with pytest.raises(InvalidTypeError, match="oracle must be an oracle"):
        audit_oracle("oue")
    with pytest.raises(InvalidTypeError, match="client must be callable"):
        audit_oracle(GRR(1.0, 4), client=3)


def test_reports_of_another_oracle_are_refused():
    with pytest.raises(InvalidInputError, match="shape"):
        audit_oracle(OUE(1.0, 64), client=seeded(OUE(1.0, 8).perturb), reports=100)


# --- the command -----------------------------------------------------------------------------------


def ldpopt(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "ldpopt", *arguments], capture_output=True, text=True, timeout=300
    )


def test_the_command_prints_a_table_and_succeeds():
    result = ldpopt(
        "audit",
        "--oracle",
        "hr",
        "--epsilon",
        "1",
        "--d",
        "64",
        "--reports",
        "20000",
        "--confidence",
        "0.999999",
    )
    assert result.returncode == 0, result.stderr
    assert all(
        words in result.stdout for words in ("HadamardResponse", "exactly", "by reports", "passed")
    )
    assert "…" not in result.stdout


def test_the_command_prints_json():
    result = ldpopt(
        "audit", "--oracle", "grr", "--epsilon", "0.5", "--d", "4", "--reports", "2000", "--confidence", "0.999999", "--json"
    )  # fmt: skip
    found = json.loads(result.stdout)
    oracle = GRR(0.5, 4)
    assert found["passed"] is True
    assert found["exact_epsilon"] == oracle.exact_epsilon
    assert Fraction(found["classes"][0]["given_v"]) == oracle.exact_p


def test_the_command_fails_with_status_one_if_the_audit_does(monkeypatch, capsys):
    import typer

    monkeypatch.setitem(ORACLES, "oue", lambda epsilon, d: with_other_q(Fraction(9, 10), d))
    with pytest.raises(typer.Exit) as stop:
        cli.audit(oracle="oue", epsilon=1.0, d=8, reports=1_000)
    assert stop.value.exit_code == 1
    assert "the probabilities lose" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--oracle", "ou", "--epsilon", "1", "--d", "4"],
            ["unknown oracle 'ou'", "did you mean 'oue'"],
        ),
        (["--oracle", "oue", "--epsilon", "0", "--d", "4"], ["epsilon must be", "> 0"]),
        (["--oracle", "oue", "--epsilon", "1", "--d", "1"], ["must be at least 2"]),
        (
            ["--oracle", "oue", "--epsilon", "1", "--d", "4", "--reports", "5"],
            ["reports", "at least 100"],
        ),
        (["--oracle", "oue", "--d", "4"], ["--epsilon"]),
    ],
)
def test_bad_input_is_one_sentence_without_a_traceback(arguments, words):
    result = ldpopt("audit", *arguments)
    assert result.returncode == 2
    assert all(word in result.stderr for word in words)
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_help_teaches():
    result = ldpopt("audit", "--help")
    assert result.returncode == 0
    assert "Example: ldpopt audit" in result.stdout
