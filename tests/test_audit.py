"""The audit finds planted errors, passes clients that keep their claim, and has known bounds."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats
from typer.testing import CliRunner

from ldpopt.cli.app import app
from ldpopt.errors import InvalidInputError, InvalidTypeError, LdpoptError
from ldpopt.oracles import GRR, OLH, ORACLES, OUE, SubsetSelection
from ldpopt.oracles.rational import word_below
from ldpopt.studies.audit import audit, audit_oracle, report_classes

# One audit of a correct client in a thousand fails; about twenty are made here, on fixed seeds.
CONFIDENCE = 0.999
every_oracle = pytest.mark.parametrize("name", list(ORACLES))


def seeded(perturb, seed=0):
    """Return a client whose reports repeat from one run of the tests to the next."""
    rng = np.random.default_rng(seed)
    return lambda values: perturb(values, rng=rng)


def with_other_q(factor, d):
    """Return an OUE client whose flips are off by a factor."""
    oracle = OUE(1.0, d)
    object.__setattr__(
        oracle, "exact_q", word_below(oracle.exact_q * factor)
    )  # around the seal: a faulty oracle
    return oracle


def subset_client(oracle, rng, exclude):
    """Return naive subset selection, whose draw of other values leaves out ``exclude(values)``."""

    def client(values):
        kept = rng.random(len(values)) < oracle.p
        keys = rng.random((len(values), oracle.d))
        rows = np.arange(len(values))
        keys[rows, exclude(values) % oracle.d] = 2.0  # last in the order: never drawn
        keys[rows[kept], values[kept]] = -1.0  # first
        return np.sort(np.argsort(keys, axis=1)[:, : oracle.k], axis=1)

    return client


# --- correct clients pass, planted errors are found -----------------------------------------------


@every_oracle
def test_our_clients_pass(name):
    oracle = ORACLES[name](1.0, 16)
    result = audit_oracle(
        oracle, client=seeded(oracle.perturb), reports=100_000, confidence=CONFIDENCE
    )
    assert result.passed, result.findings
    assert result.findings == ()
    assert result.loss == oracle.exact_epsilon
    assert 0.8 < result.reports.lower <= 1.0  # and the audit sees most of ε


@pytest.mark.parametrize("factor", [Fraction(99, 100), Fraction(101, 100)])
def test_a_q_off_by_one_per_cent_is_found_in_reports(factor):
    client = seeded(with_other_q(factor, 16).perturb)
    result = audit_oracle(OUE(1.0, 16), client=client, reports=1_000_000, confidence=CONFIDENCE)
    assert not result.passed
    assert not result.other.passed
    assert result.own.passed
    assert "support another value with probability" in result.findings[-1]


def test_a_q_one_per_cent_too_small_is_found_in_a_black_box():
    result = audit(
        seeded(with_other_q(Fraction(99, 100), 4).perturb),
        1.0,
        [0, 1],
        reports=4_000_000,
        confidence=CONFIDENCE,
        batched=True,
    )
    assert not result.passed
    assert 1.0 < result.lower < math.log(1 / 0.99 / OUE(1.0, 4).q - 1)


@pytest.mark.parametrize("factor", [Fraction(99, 100), Fraction(1) - Fraction(1, 10**15)])
def test_a_smaller_q_is_found_in_the_probabilities_however_little_it_is(factor):
    oracle = with_other_q(factor, 16)
    result = audit_oracle(
        oracle, client=seeded(OUE(1.0, 16).perturb), reports=10_000, confidence=CONFIDENCE
    )
    assert not result.passed
    assert result.loss > 1.0
    assert result.reports.passed
    assert result.findings[0].startswith("the probabilities lose 1.0")


@pytest.mark.parametrize("black_box", [False, True])
def test_an_off_by_one_in_the_exclusion_of_subset_selection_is_found(black_box):
    oracle = SubsetSelection(1.0, 16)
    client = subset_client(oracle, np.random.default_rng(1), exclude=lambda values: values + 1)
    if black_box:
        result = audit(client, 1.0, range(4), reports=20_000, confidence=CONFIDENCE, batched=True)
        assert result.lower > 1.2
    else:
        result = audit_oracle(oracle, client=client, reports=20_000, confidence=CONFIDENCE)
        assert not result.own.passed
    assert not result.passed


@pytest.mark.parametrize("black_box", [False, True])
def test_the_same_client_without_the_error_passes(black_box):
    oracle = SubsetSelection(1.0, 16)
    client = subset_client(oracle, np.random.default_rng(2), exclude=lambda values: values)
    if black_box:
        result = audit(client, 1.0, range(4), reports=20_000, confidence=CONFIDENCE, batched=True)
    else:
        result = audit_oracle(oracle, client=client, reports=20_000, confidence=CONFIDENCE)
    assert result.passed


def test_a_client_that_forgets_its_noise_is_found_by_few_reports():
    result = audit(lambda value: value, 3.0, ["yes", "no"], reports=1_000, confidence=CONFIDENCE)
    assert not result.passed
    assert result.lower > 4
    assert result.hits == (1_000, 0)


# --- the bounds -----------------------------------------------------------------------------------


def test_the_bound_of_a_client_without_noise_is_the_one_computed_by_hand():
    # 1,000 of 1,000 hits are at least x with x^1000 = α/2, no hit of 1,000 is at most 1 - x: at
    # confidence 0.9, x = 0.05^(1/1000) = 0.9970088 and log(x/(1 - x)) = 5.8091.
    result = audit(lambda value: value, 3.0, [0, 1], reports=1_000, confidence=0.9)
    assert (result.hits, result.confidence) == ((1_000, 0), 0.9)
    x = 0.05**0.001
    assert result.lower == pytest.approx(math.log(x / (1 - x)), rel=1e-12)
    assert result.lower == pytest.approx(5.8091, abs=1e-4)


def test_three_tests_of_an_oracle_share_the_probability_of_a_false_alarm():
    # At confidence 0.7 each test has 0.9; the two shares are two-sided, with tails of 0.05 each.
    oracle = GRR(1.0, 4)
    result = audit_oracle(oracle, client=seeded(oracle.perturb), reports=1_000, confidence=0.7)
    assert result.confidence == 0.7
    assert result.reports.confidence == pytest.approx(0.9, rel=1e-12)
    n = 32 * (2_000 // 32 + 1)
    tails = scipy.stats.binom.sf(np.arange(n) - 1, n, result.own.low)
    hits = int(np.argmin(np.abs(tails - 0.05)))
    assert tails[hits] == pytest.approx(0.05, rel=1e-6)
    assert scipy.stats.binom.cdf(hits, n, result.own.high) == pytest.approx(0.05, rel=1e-6)
    assert (result.own.expected, result.other.expected) == (oracle.p, oracle.q)


def test_false_alarms_are_as_rare_as_stated():
    # 1,000 audits at confidence 0.8 of a client that uses up its claim: more than 250 alarms have a
    # probability below 1e-4.
    rng = np.random.default_rng(3)
    alarms = sum(
        not audit(
            lambda values: np.where(rng.random(len(values)) < 0.75, values, 1 - values),
            math.log(3),
            [0, 1],
            reports=400,
            confidence=0.8,
            batched=True,
        ).passed
        for _ in range(1_000)
    )
    assert alarms < 250
    assert scipy.stats.binom.sf(249, 1_000, 0.2) < 1e-4


@every_oracle
def test_classes_are_a_law_with_the_p_and_q_of_the_oracle(name):
    oracle = ORACLES[name](1.0, 16)
    classes = {kind.supports: kind for kind in report_classes(oracle)}
    for side in ("given_v", "given_u"):
        assert sum(getattr(kind, side) for kind in classes.values()) == 1
    support_v = [kind for supports, kind in classes.items() if supports in ("v", "both")]
    assert sum(kind.given_v for kind in support_v) == oracle.exact_p
    assert sum(kind.given_u for kind in support_v) == oracle.exact_q


def test_a_report_that_only_one_value_can_send_is_an_infinite_loss():
    oracle = OUE(1.0, 16)
    object.__setattr__(oracle, "exact_q", oracle.exact_both)  # around the seal
    assert audit_oracle(oracle, client=seeded(OUE(1.0, 16).perturb), reports=1_000).loss == math.inf


# --- reports of any kind --------------------------------------------------------------------------


def flipped(rng, value):
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
    client = lambda value: KINDS[kind](flipped(rng, value))  # noqa: E731
    assert audit(client, math.log(3), [0, 1], reports=3_000).passed
    assert not audit(client, 0.7, [0, 1], reports=3_000).passed


def test_reports_that_are_continuous():
    rng = np.random.default_rng(5)
    client = lambda values: values + rng.laplace(0, 1 / 1.5, len(values))  # noqa: E731
    result = audit(client, 1.5, [0, 1], reports=100_000, batched=True)
    assert result.passed
    assert result.lower > 1.4


def test_one_column_is_found_among_many_that_are_noise():
    rng = np.random.default_rng(6)

    def client(values):
        noise = rng.integers(2, size=(len(values), 400))
        bits = np.where(rng.random(len(values)) < 0.75, values, 1 - values)
        return np.column_stack([noise, bits])

    result = audit(client, 2.0, [0, 1], reports=4_000, batched=True)
    assert 0.8 < result.lower <= math.log(3)


def test_features_show_what_columns_hide():
    oracle = OLH(2.0, 8)
    client = seeded(oracle.perturb)
    blind = audit(client, 2.0, [0, 1], reports=20_000, batched=True)
    seeing = audit(
        client,
        2.0,
        [0, 1],
        reports=20_000,
        batched=True,
        features=lambda reports: oracle.support_operator(reports) @ np.eye(8),
    )
    assert blind.lower < 0.5 < 1.8 < seeing.lower <= 2.0


def test_neighbours_are_told_apart_where_others_are_not():
    leak = lambda values: np.where(values == 3, 1, 0)  # noqa: E731
    result = audit(leak, 1.0, range(5), reports=1_000, batched=True)
    assert 3 in result.pair
    assert not result.passed


# --- refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((5, 1.0, [0, 1]), {}, InvalidTypeError, "client must be callable"),
        ((int, -1.0, [0, 1]), {}, InvalidInputError, "epsilon must be"),
        ((int, 1.0, [0]), {}, InvalidInputError, "at least two inputs"),
        ((int, 1.0, [0, 1]), {"reports": 10}, InvalidInputError, "reports must be at least 100"),
        ((int, 1.0, [0, 1]), {"confidence": 1.0}, InvalidInputError, "confidence"),
        (
            (np.unique, 1.0, [0, 1]),
            {"batched": True},
            InvalidInputError,
            "had to return .* reports and returned 1",
        ),
        (
            (lambda value: {value}, 1.0, [0, 1]),
            {},
            InvalidTypeError,
            "arrays of one shape or hashable",
        ),
        ((lambda value: [], 1.0, [0, 1]), {}, InvalidInputError, "holds nothing"),
    ],
    ids=[
        "client",
        "epsilon",
        "one value",
        "few",
        "confidence",
        "another number",
        "unhashable",
        "empty",
    ],
)
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


# --- the command ----------------------------------------------------------------------------------


def run(*arguments):
    return CliRunner().invoke(app, ["audit", *map(str, arguments)])


SURE = ["--confidence", 0.999999]  # the client's own entropy: a false alarm in a million runs


def test_the_command_prints_a_table_and_succeeds():
    result = run("--oracle", "hr", "--epsilon", 1, "--d", 64, "--n", 20_000, *SURE)
    assert result.exit_code == 0, result.stderr
    assert all(
        words in result.stdout for words in ("HadamardResponse", "exactly", "by reports", "passed")
    )
    assert "…" not in result.stdout


def test_the_command_prints_json():
    result = run("--oracle", "grr", "--epsilon", 0.5, "--d", 4, "--n", 2_000, "--json", *SURE)
    record = json.loads(result.stdout)
    oracle = GRR(0.5, 4)
    assert record["passed"] is True
    assert record["exact_epsilon"] == oracle.exact_epsilon
    assert Fraction(record["classes"][0]["given_v"]) == oracle.exact_p


def test_the_command_fails_with_status_one_if_the_audit_does(monkeypatch):
    monkeypatch.setitem(ORACLES, "oue", lambda epsilon, d: with_other_q(Fraction(9, 10), d))
    result = run("--oracle", "oue", "--epsilon", 1, "--d", 8, "--n", 1_000)
    assert result.exit_code == 1
    assert "the probabilities lose" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--oracle", "ou", "--epsilon", 1, "--d", 4], "unknown oracle 'ou': did you mean 'oue'"),
        (["--oracle", "oue", "--epsilon", 0, "--d", 4], "epsilon must be a finite number > 0"),
        (["--oracle", "oue", "--epsilon", 1, "--d", 1], "must be at least 2"),
        (
            ["--oracle", "oue", "--epsilon", 1, "--d", 4, "--n", 5],
            "--n must be at least 100",
        ),
    ],
)
def test_bad_input_is_one_sentence(arguments, words):
    result = run(*arguments)
    assert isinstance(result.exception, LdpoptError)
    assert words in str(result.exception)
    assert result.stdout == ""


def test_a_missing_option_is_named():
    result = run("--oracle", "oue", "--d", 4)
    assert "--epsilon" in str(result.exception)


def test_help_teaches():
    result = run("--help")
    assert result.exit_code == 0
    assert "Example: ldpopt audit" in result.stdout
