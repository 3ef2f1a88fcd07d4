"""A new oracle needs a client, p and q, and the form of its reports; everything else follows."""

import csv
import itertools
import json
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from typer.testing import CliRunner

from ldpopt import collection
from ldpopt.claims.reference.channels import channel
from ldpopt.cli.app import app
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.oracles import ORACLES, FrequencyOracle, randomness
from ldpopt.oracles.base import budget
from ldpopt.oracles.forms import BitsForm, IndexForm
from ldpopt.oracles.rational import exp_below, word_below
from ldpopt.studies import poisoning
from ldpopt.studies.audit import audit_oracle
from tests.tolerances import SIGMAS, SUM

# The projective plane over three elements: 13 points, 13 lines, 4 points on a line, one line
# through two points.
POINTS = [
    point
    for point in itertools.product(range(3), repeat=3)
    if point > (0, 0, 0) and next(filter(None, point)) == 1
]
ON_LINE = np.array([[np.dot(line, point) % 3 == 0 for point in POINTS] for line in POINTS])
LINES = [np.flatnonzero(ON_LINE[:, value]) for value in range(13)]
OTHERS = [np.flatnonzero(~ON_LINE[:, value]) for value in range(13)]


class LinesForm(IndexForm):
    """A line, which supports the points on it."""

    def sums(self, f):
        return f @ ON_LINE.T.astype(float)

    def counts(self, weights):
        return weights @ ON_LINE.astype(float)


class ProjectivePlane(FrequencyOracle):
    """Values are points. With probability p a client sends a line through its point."""

    name = "plane"

    def __init__(self, epsilon, d):
        if d != 13:
            raise InvalidInputError("the plane over three elements has 13 points")
        ratio = exp_below(budget(epsilon))
        p = word_below(4 * ratio / (4 * ratio + 9))
        super().__init__(epsilon, d, p=p, q=p / 4 + (1 - p) / 3, both=p / 4)

    @property
    def report_form(self):
        return LinesForm(self.d, size=13)

    @property
    def pair_support(self):
        # Of the 66 pairs of other points 12 lie on a line with the own one.
        return self.p / 4, float(12 * self.p / 4 + 54 * (1 - self.p) / 9) / 66

    def _perturb(self, values, rng):
        through = randomness.bernoulli(rng, self.exact_p, len(values))
        lines = np.array(LINES)[values, randomness.below(rng, 4, len(values))]
        others = np.array(OTHERS)[values, randomness.below(rng, 9, len(values))]
        return np.where(through, lines, others).astype(np.uint8)


@pytest.fixture
def plane(monkeypatch):
    """The oracle under its name, as a line in ``ldpopt.oracles`` would make it known."""
    monkeypatch.setitem(ORACLES, "plane", ProjectivePlane)
    return ProjectivePlane(2.0, 13)


TRUTH = np.arange(13)[::-1] / 78
USERS = np.arange(13)[::-1] * 100


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_reports_of_a_new_oracle_pass_through_a_file_to_an_estimate(plane, suffix, tmp_path):
    values = np.repeat(np.arange(13), USERS)
    reports = plane.perturb(values, rng=1)
    collection.write_reports(tmp_path / f"r.{suffix}", plane, reports)
    result = collection.aggregate(tmp_path)
    assert type(result.header.oracle) is ProjectivePlane
    assert_array_equal(result.counts, ON_LINE[reports].sum(axis=0))
    lower, upper = result.estimate.interval(1 - 1e-6)
    assert ((lower <= TRUTH) & (upper >= TRUTH)).all()
    assert (upper < 0.5).all()


def test_counts_are_simulated_and_products_are_those_of_the_lines(plane):
    counts = plane.simulate_counts(USERS, rng=1, trials=200)
    estimates = plane.estimate(counts, USERS.sum()).frequencies
    sd = np.sqrt(plane.variance(int(USERS.sum()), TRUTH) / 200)
    assert (np.abs(estimates.mean(axis=0) - TRUTH) < SIGMAS * sd).all()
    operator = plane.support_operator([0, 5, 12])
    assert_allclose(operator @ np.eye(13), ON_LINE[[0, 5, 12]], atol=SUM)
    assert_allclose(operator.T @ np.eye(3), ON_LINE[[0, 5, 12]].T, atol=SUM)


def test_its_channel_is_pure_and_uses_the_whole_budget(plane):
    law = channel(plane)
    assert_allclose(law.expectation, plane.q + (plane.p - plane.q) * np.eye(13), rtol=1e-12)
    assert law.privacy_loss == pytest.approx(2.0, rel=1e-9)
    assert plane.report_bits == pytest.approx(np.log2(13))


@pytest.mark.parametrize("centred", [False, True])
def test_sets_have_the_variance_of_the_enumeration_though_points_are_not_alike(plane, centred):
    members = np.zeros((3, 13))
    members[0, np.flatnonzero(ON_LINE[0])] = 1  # four points on a line
    members[1, [0, 1, 2]] = 1
    members[2, 1:] = 1
    covariance = channel(plane).covariance(TRUTH) / (plane.p - plane.q) ** 2
    for rows, sets in ((members, csr_array(members)), (np.eye(13), None)):
        constant, slope = plane.answer_variance(TRUTH, sets, centred=centred)
        weights = rows - rows.mean(axis=1, keepdims=True) * centred
        expected = np.einsum("iu,uw,iw->i", weights, covariance, weights)
        assert_allclose(constant + slope * (rows @ TRUTH), expected, rtol=1e-9)


def test_its_client_passes_the_audit(plane):
    rng = np.random.default_rng(2)
    result = audit_oracle(
        plane, client=lambda values: plane.perturb(values, rng=rng), reports=20_000
    )
    assert result.passed, result.findings
    assert result.loss == plane.exact_epsilon


def test_attacks_follow_from_the_form(plane):
    uniform = plane.support_counts(poisoning.random_perturbed_value(plane, 2_000, [0], 1)) / 2_000
    assert np.abs(uniform - 4 / 13).max() < SIGMAS * np.sqrt(4 / 13 * 9 / 13 / 2_000)
    targets = np.flatnonzero(ON_LINE[7])
    assert set(poisoning.maximal_gain(plane, 20, targets, 1)) == {7}


def test_the_command_line_knows_it_by_name(plane, tmp_path):
    values = tmp_path / "values.csv"
    values.write_text("\n".join(map(str, [0] * 300 + [5] * 200)))
    about = ["--oracle", "plane", "--epsilon", 4, "--domain", 13]
    run("perturb", values, *about, "--out", tmp_path / "reports.parquet", "--seed", 1)
    run("aggregate", tmp_path / "reports.parquet", "--out", tmp_path / "counts.json")
    assert json.loads((tmp_path / "counts.json").read_text())["oracle"] == "plane"
    run("estimate", tmp_path / "counts.json", "--out", tmp_path / "est.csv")
    rows = list(csv.DictReader((tmp_path / "est.csv").read_text().splitlines()))
    assert float(rows[0]["frequency"]) == pytest.approx(0.6, abs=0.1)
    # Four points are on each line, so that n follows from the counts alone.
    counts = tmp_path / "counts.csv"
    counts.write_text("value,count\n" + "".join(f"{value},8\n" for value in range(13)))
    assert json.loads(run("estimate", counts, *about, "--json"))["n"] == 26
    printed = run(
        "audit",
        "--oracle",
        "plane",
        "--epsilon",
        2,
        "--d",
        13,
        "--n",
        1000,
        "--json",
        "--confidence",
        0.999999,
    )
    assert json.loads(printed)["passed"]


# --- what an oracle must say of itself ------------------------------------------------------------


class WithoutForm(FrequencyOracle):
    name = "formless"
    pair_support = (0.25, 0.0625)

    def __init__(self, epsilon, d):
        super().__init__(epsilon, d, p=Fraction(1, 2), q=Fraction(1, 4), both=Fraction(1, 8))

    def _perturb(self, values, rng):
        return values


@pytest.mark.parametrize(
    "use",
    [
        lambda oracle, path: oracle.support_counts([0]),
        lambda oracle, path: collection.write_reports(path, oracle, [0]),
        lambda oracle, path: poisoning.random_perturbed_value(oracle, 1, [0], 1),
        lambda oracle, path: poisoning.maximal_gain(oracle, 1, [0], 1),
        lambda oracle, path: channel(oracle),
    ],
    ids=["count", "write", "attack", "targets", "channel"],
)
def test_an_oracle_without_a_form_is_told_what_to_define(use, tmp_path, monkeypatch):
    monkeypatch.setitem(ORACLES, "formless", WithoutForm)
    with pytest.raises(
        InvalidTypeError,
        match=r"WithoutForm .*define its property report_form, and return an IndexForm",
    ):
        use(WithoutForm(1.0, 4), tmp_path / "r.parquet")


def test_a_form_of_an_unknown_kind_is_told_the_known_ones(tmp_path, monkeypatch):
    class Letters(IndexForm):
        kind = "letters"

    class Lettered(WithoutForm):
        report_form = Letters(4, size=4)

    monkeypatch.setitem(ORACLES, "formless", Lettered)
    with pytest.raises(
        InvalidInputError,
        match=r"unknown kind of reports 'letters': known: index, bits, hash, subset",
    ):
        collection.write_reports(tmp_path / "r.parquet", Lettered(1.0, 4), [0])
    with pytest.raises(InvalidInputError, match="unknown kind of reports 'letters'"):
        poisoning.maximal_gain(Lettered(1.0, 4), 1, [0], 1)


def test_sums_of_estimates_need_values_that_are_alike_or_indices():
    class Bits(WithoutForm):
        report_form = BitsForm(4)

    everyone = csr_array(np.ones((1, 4)))
    assert Bits(1.0, 4).answer_variance(np.full(4, 0.25))[0] > 0
    with pytest.raises(InvalidInputError, match=r"of Bits is not known: state exchangeable = True"):
        Bits(1.0, 4).answer_variance(np.full(4, 0.25), everyone)
