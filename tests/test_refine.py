"""Reports hold more than counts: the step, its information, its noise, and its sums."""

import itertools
import pickle
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import ldpopt
from ldpopt.errors import InvalidInputError, InvalidTypeError, LdpoptWarning
from ldpopt.losses import BinomialMLE, PerReportMLE
from ldpopt.oracles import (
    GRR,
    OLH,
    ORACLES,
    OUE,
    SUE,
    HadamardResponse,
    SubsetSelection,
    index_information,
)
from ldpopt.priors.mixture_weights import mixture_weights
from ldpopt.reports import exact_sums
from ldpopt.reports.estimate import RefinedNoise, refined
from ldpopt.reports.refinement import refine
from ldpopt.reports.weighing import Weighing, in_fixed_point
from tests.tolerances import SUM

SKEWED = np.array([0.4, 0.25, 0.15, 0.1, 0.05, 0.03, 0.02, 0.0])
EIGHT = len(SKEWED)
every_oracle = pytest.mark.parametrize("name", [name for name in ORACLES if name != "grr"])


def reports_of(oracle, f, n, seed=0):
    rng = np.random.default_rng(seed)
    return oracle.perturb(rng.choice(oracle.d, n, p=f), rng=rng)


def enumerated_information(oracle, f):
    """Return J and E[1/s^j], j = 1 .. 3, from all reports that there are."""
    supports = oracle.report_form.supports()
    likelihood = 1 + (oracle.likelihood_ratio - 1) * supports
    if oracle.report_form.kind == "bits":
        nobody = np.prod(np.where(supports, oracle.q, 1 - oracle.q), axis=1)
    else:
        nobody = np.full(len(supports), 1 / len(supports))
    s = likelihood @ f
    law = nobody * s / (nobody @ s)
    information = (likelihood.T * (law / s**2)) @ likelihood
    return information, [law @ s**-j for j in (1, 2, 3)]


@pytest.mark.parametrize("oracle", [OUE(1.0, EIGHT), OUE(3.0, EIGHT), SUE(2.0, EIGHT)], ids=repr)
def test_the_information_of_bits_is_that_of_all_reports(oracle):
    expected, powers = enumerated_information(oracle, SKEWED)
    information = oracle.information(SKEWED)
    diagonal, basis = information.parts()
    assert_allclose(np.diag(diagonal) + basis @ basis.T, expected, rtol=1e-8)
    assert_allclose(information.powers, powers, rtol=1e-8)


def test_the_information_of_hashes_is_that_of_all_functions():
    oracle = OLH(1.0, 4)
    f = np.array([0.6, 0.3, 0.1, 0.0])
    expected, powers = enumerated_information(oracle, f)
    information = oracle.information(f)
    diagonal, basis = information.parts()
    assert_allclose(np.diag(diagonal) + basis @ basis.T, expected, rtol=1e-8)
    assert_allclose(information.powers, powers, rtol=1e-8)


def test_the_information_of_sets_is_that_of_all_sets_nearly():
    # Of 8 values 2: bits that are least independent. What is stated is an error of order 1/d.
    oracle = SubsetSelection(1.0, EIGHT)
    expected, powers = enumerated_information(oracle, SKEWED)
    information = oracle.information(SKEWED)
    diagonal, basis = information.parts()
    centring = np.eye(EIGHT) - 1 / EIGHT
    shown = centring @ (np.diag(diagonal) + basis @ basis.T) @ centring
    wanted = centring @ expected @ centring
    assert np.linalg.norm(shown - wanted) <= np.linalg.norm(wanted) / EIGHT
    assert abs(information.gain - powers[1] / powers[0] ** 2) <= (information.gain - 1) / EIGHT


@pytest.mark.parametrize(("d", "ε"), [(9, 0.7), (12, 1.2)])
def test_what_one_member_of_a_set_says_of_the_others_is_in_the_diagonal(d, ε):
    oracle = SubsetSelection(ε, d)
    assert oracle.report_form.fixed_size == 3
    centring = np.eye(d) - 1 / d
    flat = np.full(d, 1 / d)
    expected, _ = enumerated_information(oracle, flat)
    diagonal, _ = oracle.information(flat).parts()
    # Of equal frequencies it is all there is.
    assert_allclose(centring * diagonal[0], centring @ expected @ centring, rtol=0, atol=1e-9)
    skewed = np.random.default_rng(0).dirichlet(np.full(d, 0.5))
    expected, _ = enumerated_information(oracle, skewed)
    diagonal, basis = oracle.information(skewed).parts()
    stated = centring @ (np.diag(diagonal) + basis @ basis.T) @ centring
    ratio = np.diag(np.linalg.pinv(stated)) / np.diag(
        np.linalg.pinv(centring @ expected @ centring)
    )
    # Neglecting it takes a tenth and more off the variances of rare values.
    assert_allclose(ratio, 1, rtol=0, atol=0.03)


@pytest.mark.parametrize("d", [8, 11])
def test_the_information_of_indices_is_that_of_all_indices(d):
    oracle = HadamardResponse(2.0, d)
    f = np.random.default_rng(0).dirichlet(np.ones(d))
    expected, _ = enumerated_information(oracle, f)
    centring = np.eye(d) - 1 / d
    inverse = np.linalg.pinv(centring @ expected @ centring)
    information = oracle.information(f)
    assert_allclose(information.solve(centring), inverse, rtol=0, atol=1e-9)
    assert_allclose(information.total_variance(), np.trace(inverse), rtol=1e-9)


def test_the_trace_from_directions_is_that_of_all_values():
    oracle = HadamardResponse(2.0, 300)
    f = np.random.default_rng(0).dirichlet(np.full(300, 0.1))
    information = oracle.information(f)
    exact = np.trace(information.solve(np.eye(300) - 1 / 300))
    assert_allclose(information.total_variance(), exact, rtol=2e-3)


def test_information_that_is_not_reached_says_how_much_is_missing(monkeypatch):
    information = HadamardResponse(2.0, 11).information(np.full(11, 1 / 11))
    monkeypatch.setattr(index_information, "_STEPS", 1)
    rows = np.eye(11) - 1 / 11
    with pytest.warns(LdpoptWarning, match="after 1 steps .* residual of") as caught:
        solved = information.solve(rows)
    left = np.linalg.norm(information._times(solved) - rows, axis=1) / np.linalg.norm(rows, axis=1)
    stated = float(re.search("residual of ([^ ]+)", str(caught[0].message))[1])
    # It is printed with two digits.
    assert stated == pytest.approx(left.max(), rel=0.05)


@every_oracle
def test_the_maximum_of_the_likelihood_is_a_fixed_point(name):
    oracle = ORACLES[name](2.0, EIGHT)
    # Everybody's share is large, so that the maximum is inside of the simplex.
    reports = reports_of(oracle, np.full(EIGHT, 1 / EIGHT), 4_000)
    best = mixture_weights(PerReportMLE(oracle, reports).channel, tol=1e-14)
    assert best.weights.min() > 0.01
    step = steps(oracle, reports, best.weights, 1) - best.weights
    # The fixed point of 2⁻⁴¹ bounds how well the start itself is kept.
    assert_allclose(step, 0, rtol=0, atol=1e-11)


@every_oracle
def test_steps_lead_to_the_maximum_of_the_likelihood(name):
    oracle = ORACLES[name](2.0, EIGHT)
    reports = reports_of(oracle, np.full(EIGHT, 1 / EIGHT), 10_000, seed=1)
    best = mixture_weights(PerReportMLE(oracle, reports).channel, tol=1e-13).weights
    assert best.min() > 0.01
    reached = steps(oracle, reports, np.full(EIGHT, 1 / EIGHT), 12)
    assert_allclose(reached, best, rtol=0, atol=1e-7)


def steps(oracle, reports, f, count):
    """Return where so many steps lead, without asking whether they are worth it."""
    for _ in range(count):
        weighing = Weighing(oracle, in_fixed_point(f))
        f = refined(weighing, weighing.sums(reports), len(reports)).frequencies
    return f


@pytest.mark.parametrize("oracle", [OUE(3.0, EIGHT), SubsetSelection(1.0, EIGHT)], ids=repr)
def test_the_variance_is_that_of_repeated_collections(oracle):
    draws = 100
    n = 400
    users = np.repeat(np.arange(EIGHT), (SKEWED * n).round().astype(int))
    rng = np.random.default_rng(3)
    fine = [refine(oracle, oracle.perturb(users, rng=rng), start=SKEWED) for _ in range(draws)]
    errors = np.array([estimate.frequencies for estimate in fine]) - SKEWED
    noise = fine[0].noise
    measured = errors.var(axis=0)
    # Three standard errors of a variance, and an eighth where the bits are those of sets.
    allowance = 3 * np.sqrt(2 / draws) + (oracle.name == "ss") / EIGHT
    assert_allclose(measured, noise.covariance(SKEWED).diagonal, rtol=allowance)
    # The straight line in f leaves out that the frequencies sum to 1: a part of 1/d.
    assert_allclose(measured, noise.variance(SKEWED), rtol=allowance + 2 / EIGHT)
    assert np.all(np.abs(errors.mean(axis=0)) <= 4 * np.sqrt(measured / draws))


@pytest.mark.parametrize("protocol", [OUE, SUE, HadamardResponse])
@pytest.mark.parametrize("f", [[0.9, 0.1], [0.6, 0.3, 0.1], [0.5, 0.25, 0.25]])
def test_the_variances_of_few_values_know_their_sum(protocol, f):
    oracle = protocol(3.0, len(f))
    fine = refine(oracle, reports_of(oracle, f, 500), start=f)
    stated = fine.noise.variance(f) / fine.noise.covariance(f).diagonal
    # Without the sum up to four times too large.
    assert_allclose(stated, 1, rtol=0, atol=0.15)


@pytest.mark.parametrize("protocol", [OUE, SUE, SubsetSelection])
def test_the_straight_line_of_variances_is_that_of_the_information(protocol):
    d = 200
    f = 1 / np.arange(1, d + 1)
    f /= f.sum()
    oracle = protocol(3.0, d)
    weighing = Weighing(oracle, in_fixed_point(f))
    reports = reports_of(oracle, f, 50)
    noise = refined(weighing, weighing.sums(reports), 50).noise
    ratio = noise.variance(f) / noise.covariance(f).diagonal
    # Of rare values the constant, of others the slope too; their known sum takes a part of 1/d.
    assert_allclose(ratio[20:], 1, rtol=0, atol=2 / d)
    assert_allclose(ratio[1:20], 1, rtol=0, atol=3 / d)


@pytest.mark.parametrize("oracle", [OUE(2.0, EIGHT), HadamardResponse(2.0, EIGHT)], ids=repr)
def test_the_variance_of_sets_knows_that_estimates_sum_to_one(oracle):
    fine = refine(oracle, reports_of(oracle, SKEWED, 2_000), start=SKEWED)
    covariance = fine.noise.covariance(SKEWED)
    sets = np.array([np.ones(EIGHT), [1, 1, 1, 0, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1, 1, 1]])
    everything, some, others = covariance.quadratic(sets)
    assert everything == pytest.approx(0, abs=1e-9)
    assert some == pytest.approx(others, rel=1e-6)
    if oracle.name == "hr":
        exact = oracle.information(SKEWED).solve(np.eye(EIGHT) - 1 / EIGHT)
        exact -= np.diag(SKEWED) - np.outer(SKEWED, SKEWED)
        assert_allclose(some, sets[1] @ exact @ sets[1] / 2_000, rtol=0.02)


def test_draws_of_many_values_sum_to_nothing(monkeypatch):
    oracle = HadamardResponse(2.0, EIGHT)
    monkeypatch.setattr("ldpopt.oracles.index_law._FACTORED", 1)
    centred = oracle.covariance(SKEWED).centred()
    for covariance in (centred, centred.scaled(4.0)):
        draws = covariance.draws(3, np.random.default_rng(0))
        assert_allclose(draws.sum(axis=1), 0, rtol=0, atol=1e-12)


def test_gains_are_those_before_collecting():
    f = 1 / np.arange(1, 201)
    f /= f.sum()
    for oracle in (OUE(2.0, 200), SubsetSelection(2.0, 200)):
        fine = refine(oracle, reports_of(oracle, f, 2_000), start=f)
        assert fine.gain == pytest.approx(oracle.information_gain(f), rel=1e-9)


def test_the_gain_is_a_ratio_of_means_over_reports_of_nobody():
    oracle = SUE(2.0, 12)
    f = np.random.default_rng(5).dirichlet(np.full(12, 0.3))
    bits = np.array(list(itertools.product([0, 1], repeat=12)))
    law = np.prod(np.where(bits, oracle.q, 1 - oracle.q), axis=1)
    s = 1 + (oracle.likelihood_ratio - 1) * bits @ f
    assert_allclose(oracle.information_gain(f), (law @ s) * (law @ (1 / s)), rtol=1e-9)


@every_oracle
def test_a_start_that_contradicts_the_reports_is_told(name, recwarn):
    # At ε = 1 sets of eight values have more than one member.
    oracle = ORACLES[name](1.0, EIGHT)
    reports = reports_of(oracle, SKEWED, 20_000)
    refine(oracle, reports, start=SKEWED)
    assert not recwarn
    with pytest.warns(LdpoptWarning, match="the start contradicts the reports"):
        refine(oracle, reports, start=np.eye(EIGHT)[-1])


@every_oracle
def test_mean_weights_are_those_of_the_reports(name):
    oracle = ORACLES[name](2.0, 19)
    f = np.random.default_rng(0).dirichlet(np.ones(19))
    reports = reports_of(oracle, f, 2_000)
    weighing = Weighing(oracle, in_fixed_point(f))
    mean, expected = weighing.mean_weights(weighing.sums(reports), 2_000)
    support = oracle.support_operator(reports).matmat(np.eye(19))
    s = 1 + (oracle.likelihood_ratio - 1) * support @ f
    assert_allclose(mean, np.mean(1 / s), rtol=1e-8)
    assert abs(mean - expected) < 4 * np.std(1 / s) / np.sqrt(2_000) + 0.02 * expected


def test_counts_of_grr_are_all_that_its_reports_hold():
    oracle = GRR(2.0, 30)
    reports = reports_of(oracle, np.full(30, 1 / 30), 500)
    with pytest.warns(LdpoptWarning, match="no more than their counts"):
        fine = refine(oracle, reports)
    raw = oracle.estimate(oracle.support_counts(reports), 500)
    assert_array_equal(fine.frequencies, raw.frequencies)
    assert fine.noise.protocol is oracle
    assert fine.gain == oracle.information_gain(np.full(30, 1 / 30)) == 1


def test_flat_frequencies_leave_nothing_to_gain():
    oracle = OUE(0.5, 200)
    reports = reports_of(oracle, np.full(200, 1 / 200), 500)
    with pytest.warns(LdpoptWarning, match="gain 1.000"):
        assert refine(oracle, reports, start=np.full(200, 1 / 200)).gain == 1


@every_oracle
def test_sums_do_not_depend_on_the_order_of_reports_or_parts(name, monkeypatch):
    oracle = ORACLES[name](2.0, 19)
    f = np.random.default_rng(0).dirichlet(np.ones(19))
    reports = reports_of(oracle, f, 3_000)
    weighing = Weighing(oracle, in_fixed_point(f))
    together = weighing.sums(reports)
    parts = [weighing.sums(part) for part in np.array_split(reports[::-1], 7)]
    total = exact_sums.no_sums(weighing.size)
    for part in reversed(parts):
        total = exact_sums.joined(total, part)
    assert_array_equal(total, together)
    monkeypatch.setattr("ldpopt.reports.weighing.ROWS", 700)
    assert_array_equal(weighing.sums(reports), together)


@every_oracle
def test_sums_are_those_of_the_support(name):
    oracle = ORACLES[name](2.0, 19)
    f = np.random.default_rng(0).dirichlet(np.ones(19))
    reports = reports_of(oracle, f, 200)
    sums = exact_sums.as_floats(Weighing(oracle, in_fixed_point(f)).sums(reports))
    support = oracle.support_operator(reports).matmat(np.eye(19))
    if name == "hr":
        assert_array_equal(oracle.report_form.counts(sums), support.sum(axis=0))
        return
    s = 1 + (oracle.likelihood_ratio - 1) * support @ f
    assert_allclose(sums / exact_sums.UNIT, (1 / s) @ support, rtol=1e-9)
    packed = oracle.report_form.support_bits(reports)
    assert_array_equal(np.unpackbits(packed, axis=1)[:, :19], support)


def test_sums_beyond_64_bits_are_exact():
    total = exact_sums.no_sums(2)
    for _ in range(9):
        total = exact_sums.with_more(total, np.array([2**62 - 1, -5]))
    high, low = (row.tolist() for row in total)
    assert [2**31 * h + part for h, part in zip(high, low, strict=True)] == [9 * (2**62 - 1), -45]


def test_every_method_takes_a_refined_estimate():
    oracle = OUE(3.0, 64)
    f = 1 / np.arange(1, 65)
    f /= f.sum()
    labels = [f"value {v}" for v in range(64)]
    fine = refine(oracle, reports_of(oracle, f, 5_000), start="norm-sub", labels=labels)
    assert fine.is_raw
    assert fine.method == "base"
    assert fine.top(1)[0].label == "value 0"
    assert fine.frequencies.sum() == pytest.approx(1, abs=SUM)
    for method in ldpopt.METHODS:
        assert np.isfinite(ldpopt.postprocess(fine, method).frequencies).all(), method
    lower, upper = fine.interval(sets=[[0, 1, 2]], level=0.95)
    assert lower[0] < f[:3].sum() < upper[0]
    again = pickle.loads(pickle.dumps(fine))
    assert again.gain == fine.gain
    assert isinstance(again.noise, RefinedNoise)
    assert_allclose(1 / fine.information, fine.noise.variance(np.clip(fine.frequencies, 0, 1)))


GOOD = np.full(30, 1 / 30)


@pytest.mark.parametrize(
    ("reports", "start", "message"),
    [
        (lambda r, raw: r[:1], GOOD, "at least two reports, got 1"),
        (lambda r, raw: r, "base", "must lie on the simplex"),
        (lambda r, raw: r, GOOD / 2, "sum is 0.5"),
        (lambda r, raw: r, GOOD[:9], "9 values for a domain of 30"),
        (lambda r, raw: r, np.tile(GOOD, (2, 1)), r"one vector of shape \(30,\)"),
        (lambda r, raw: r, np.append(GOOD[1:], np.nan), "finite"),
        (lambda r, raw: r, "no-such-method", "unknown"),
        (lambda r, raw: r[:-1], "theirs", "comes from 400 reports"),
        (lambda r, raw: r[::-1] | r, "theirs", "not an estimate from these reports"),
        (lambda r, raw: r[:, :-1], GOOD, r"shape \(n, 4\)"),
        (lambda r, raw: raw.n * raw.frequencies, GOOD, "look like support counts"),
        (lambda r, raw: np.arange(30), GOOD, "look like support counts"),
    ],
)
def test_bad_input_is_told(reports, start, message):
    oracle = OUE(2.0, 30)
    good = reports_of(oracle, GOOD, 400)
    raw = oracle.estimate(oracle.support_counts(good), 400)
    if isinstance(start, str) and start == "theirs":
        start = ldpopt.postprocess(raw, "norm-sub")
    with pytest.raises((InvalidInputError, InvalidTypeError), match=message):
        refine(oracle, reports(good, raw), start=start)


def test_an_estimate_and_a_protocol_are_no_reports_and_no_oracle():
    oracle = OUE(2.0, 30)
    raw = oracle.estimate([10] * 30, 400)
    with pytest.raises(InvalidTypeError, match="no more than their counts"):
        refine(oracle, raw)
    with pytest.raises(InvalidTypeError, match="must be an oracle"):
        refine("oue", np.zeros((2, 4), dtype=np.uint8))
    with pytest.raises(InvalidInputError, match="simplex"):
        oracle.information_gain(np.full(30, 0.5))


def test_users_do_not_count_twice_with_a_refined_estimate():
    oracle = OUE(3.0, EIGHT)
    reports = reports_of(oracle, SKEWED, 2_000)
    raw = oracle.estimate(oracle.support_counts(reports), 2_000)
    fine = refine(oracle, reports)
    with pytest.raises(InvalidInputError, match="same users may not count twice"):
        ldpopt.Sources([ldpopt.Source(fine), ldpopt.Source(raw)])
    other = reports_of(oracle, SKEWED, 2_000, seed=1)
    both = ldpopt.Sources([ldpopt.Source(fine), ldpopt.Source(refine(oracle, other))])
    assert both.combined().n == 4_000
    assert str(both).count("OUE, ε = 3") == 2


def test_likelihoods_of_counts_refuse_a_refined_estimate():
    oracle = OUE(3.0, EIGHT)
    fine = refine(oracle, reports_of(oracle, SKEWED, 2_000))
    problem = ldpopt.Problem(BinomialMLE(), [ldpopt.constraints.NonNegative()])
    with pytest.raises(InvalidInputError, match="refined estimate comes from the reports"):
        problem.solve(fine)


@pytest.mark.parametrize("oracle", [OUE(3.0, EIGHT), SUE(2.0, EIGHT)], ids=repr)
def test_a_false_report_moves_values_by_no_more_than_is_stated(oracle):
    more = oracle.likelihood_ratio - 1
    # Every report that there is: the worst one for each value is among them.
    supports = oracle.report_form.supports().astype(float)
    s = 1 + more * supports @ SKEWED
    information = oracle.information(SKEWED)
    steps = [information.step(more * row / mass) for row, mass in zip(supports, s, strict=True)]
    by_report = np.max(np.abs(steps), axis=0)
    of_counts = (supports - supports.mean(axis=1, keepdims=True)) / (oracle.p - oracle.q)
    by_count = np.max(np.abs(of_counts), axis=0)
    expected_mass = 1 + more * oracle.q
    assert np.all(by_report <= expected_mass * by_count)
    # It is no idle bound: of rare values half of it and more is reached.
    assert np.max(by_report / by_count) > 0.65 * expected_mass


def test_an_attack_gains_little_more_from_a_second_pass():
    d = 32
    f = 1 / np.arange(1, d + 1)
    f /= f.sum()
    oracle = OUE(2.0, d)
    honest = reports_of(oracle, f, 9_500)
    # Each false report supports the five rarest values, and as many others as an honest one.
    bits = np.zeros((500, d), dtype=np.uint8)
    bits[:, -5:] = 1
    forged = np.concatenate([honest, np.packbits(bits, axis=1)])
    raised = []
    for reports in (honest, forged):
        raw = oracle.estimate(oracle.support_counts(reports), len(reports))
        fine = refine(oracle, reports, start="norm-sub")
        raised.append([each.frequencies[-5:].sum() for each in (raw, fine)])
    of_counts, of_reports = np.diff(raised, axis=0)[0]
    assert of_counts > 0.3
    expected_mass = 1 + (oracle.likelihood_ratio - 1) * oracle.q
    assert of_reports <= expected_mass * of_counts
