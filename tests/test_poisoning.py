"""Attacks support what they claim, gains are the paper's, recovery is exact where it should be."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import ldpopt
from ldpopt import FrequencyEstimate, constraints, losses
from ldpopt.closed_form import norm_sub
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.oracles import GRR, OLH, ORACLES, OUE, SUE, HadamardResponse, SubsetSelection
from ldpopt.protocol import PureProtocol
from ldpopt.studies import poisoning
from tests.tolerances import ROUNDING, SIGMAS

D = 24
M = 2000
TARGETS = [3, 17]


def share(oracle, attack, targets=TARGETS, rng=5):
    """Return the share of malicious reports that support each value. The server checks them."""
    return oracle.support_counts(poisoning.ATTACKS[attack](oracle, M, targets, rng)) / M


def assert_rate(rates, expected):
    assert_allclose(rates, expected, atol=SIGMAS * np.sqrt(expected * (1 - expected) / M))


@pytest.mark.parametrize("attack", poisoning.ATTACKS)
@pytest.mark.parametrize("name", ORACLES)
def test_attacks_are_repeatable_and_mix_with_honest_reports(name, attack):
    oracle = ORACLES[name](1.0, D)
    first, again = (poisoning.ATTACKS[attack](oracle, 50, TARGETS, 7) for _ in range(2))
    assert_array_equal(first, again)
    assert len(np.unique(first, axis=0)) > 1
    mixed = np.concatenate([oracle.perturb(np.arange(D), rng=1), first])
    assert oracle.support_counts(mixed).max() <= D + 50


@pytest.mark.parametrize("name", ORACLES)
def test_random_reports_support_all_values_alike(name):
    oracle = ORACLES[name](1.0, D)
    in_general = {"grr": 1 / D, "sue": 0.5, "oue": 0.5, "blh": 0.5, "hr": 0.5}
    expected = in_general.get(name) or (oracle.k / D if name == "ss" else 1 / oracle.g)
    assert_rate(share(oracle, "rpa"), expected)


@pytest.mark.parametrize("name", ORACLES)
def test_random_items_are_honest_reports_of_targets(name):
    oracle = ORACLES[name](1.0, D)
    rates = share(oracle, "ria")
    assert_rate(rates[TARGETS], (oracle.p + oracle.q) / 2)
    assert_rate(np.delete(rates, TARGETS), oracle.q)


@pytest.mark.parametrize("make", [SUE, OUE, OLH, SubsetSelection, HadamardResponse])
def test_maximal_gain_reports_support_every_target(make):
    assert_array_equal(share(make(1.0, D), "mga")[TARGETS], 1.0)


def test_maximal_gain_on_grr_reports_targets_alone():
    rates = share(GRR(1.0, D), "mga")
    assert rates[TARGETS].sum() == 1
    assert_rate(rates[TARGETS], 0.5)


@pytest.mark.parametrize("make", [SUE, OUE])
def test_maximal_gain_on_unary_encoding_sets_as_many_bits_as_honest_reports(make):
    oracle = make(1.0, D)
    bits = np.unpackbits(poisoning.maximal_gain(oracle, M, TARGETS, 2), axis=1)
    assert_array_equal(bits.sum(axis=1), int(oracle.p + (D - 1) * oracle.q))
    assert_rate(bits[:, 0].mean(), (bits[0].sum() - 2) / (D - 2))
    everything = poisoning.maximal_gain(oracle, 3, range(D), 2)
    assert_array_equal(np.unpackbits(everything, axis=1, count=D), 1)


def test_maximal_gain_on_subset_selection_with_more_targets_than_fit():
    oracle = SubsetSelection(1.0, D)
    targets = range(oracle.k + 4)
    operator = share(oracle, "mga", targets)
    assert_rate(operator[: oracle.k + 4], oracle.k / (oracle.k + 4))
    assert_array_equal(operator[oracle.k + 4 :], 0)


def test_the_hash_of_a_malicious_user_is_the_best_of_many():
    oracle = OLH(1.0, D)
    targets = np.arange(8)
    reports = poisoning.maximal_gain(oracle, 200, targets, 3)
    supported = oracle.support_operator(reports).matvec(
        np.isin(np.arange(D), targets).astype(float)
    )
    honest = 8 * oracle.q
    assert (
        supported.min() >= 6 > honest
    )  # 1 of 1,000 functions sends 6 of 8 to one of 4 buckets: 1.7 % do
    assert supported.mean() > 6.2


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_gains_are_those_of_the_papers_table(epsilon):
    # so many users that rounding counts is invisible
    n = 10**12
    e = np.exp(epsilon)
    m = n // 100
    r = len(TARGETS)
    beta = m / (n + m)
    truth = np.arange(D) / np.arange(D).sum()
    held = truth[TARGETS].sum()
    gains = {
        (GRR, "mga"): beta * (1 - held) + beta * (D - r) / (e - 1),
        (OUE, "mga"): beta * (2 * r - held) + 2 * beta * r / (e - 1),
        (GRR, "ria"): beta * (1 - held),
        (OUE, "ria"): beta * (1 - held),
        (GRR, "rpa"): beta * (r / D - held),
        (OUE, "rpa"): beta * (r - held),
    }
    for (make, attack), expected in gains.items():
        oracle = make(epsilon, D)
        genuine = n * (oracle.q + (oracle.p - oracle.q) * truth)
        counts = np.round(genuine + m * share(oracle, attack))
        gain = (oracle.estimate(counts, n + m).frequencies - truth)[TARGETS].sum()
        deviation = beta * np.sqrt(r * 0.25 / M) / (oracle.p - oracle.q) * (attack != "mga")
        assert abs(gain - expected) <= SIGMAS * deviation + 1e-9, (make, attack)


def test_hadamard_attacks_shift_all_values_by_random_reports():
    oracle = HadamardResponse(1.0, D)
    assert_array_equal(oracle.support_counts([0]), 1)  # the column that supports everything
    assert 0 in poisoning.maximal_gain(oracle, M, range(D), 0)


# --- recovery -------------------------------------------------------------------------------------


@pytest.mark.parametrize("eta", [0.05, 0.3])
def test_known_targets_of_grr_are_recovered_exactly_in_the_mean(eta):
    oracle = GRR(1.0, 5)
    truth = np.array([0.4, 0.3, 0.2, 0.1, 0.0])
    malicious = (np.array([0, 0, 0, 0.5, 0.5]) - oracle.q) / (oracle.p - oracle.q)
    mean = FrequencyEstimate((truth + eta * malicious) / (1 + eta), n=1000, oracle=oracle)
    assert_allclose(
        poisoning.without_malicious(mean, eta, targets=[3, 4]).frequencies, truth, atol=4 * ROUNDING
    )
    solution = poisoning.ldp_recover(mean, eta, targets=[3, 4])
    assert_allclose(solution.frequencies, truth, atol=4 * ROUNDING)
    assert solution.certificate.is_optimal(1e-12)


@pytest.mark.parametrize("name", ORACLES)
def test_the_mass_taken_out_is_the_papers(name):
    oracle = ORACLES[name](1.0, D)
    raw = oracle.estimate(oracle.simulate_counts(np.arange(D) * 9, rng=1, trials=4), 9 * 276)
    for options in ({}, {"supported": 0.5}, {"targets": TARGETS}):
        genuine = poisoning.without_malicious(raw, 0.2, **options)
        taken = 1.2 * raw.frequencies.sum(axis=-1) - genuine.frequencies.sum(axis=-1)
        mass = (options.get("supported", 1) - oracle.q * D) / (oracle.p - oracle.q)
        assert_allclose(taken, 0.2 * mass, rtol=1e-9, atol=1e-12)
    spared = raw.frequencies <= 0
    assert spared.any()
    result = poisoning.without_malicious(raw, 0.2).frequencies
    assert_array_equal(result[spared], 1.2 * raw.frequencies[spared])


@pytest.mark.parametrize("name", ["grr", "oue"])
def test_mass_spread_over_all_values_is_a_no_op_under_projection(name):
    oracle = ORACLES[name](1.0, D)
    raw = oracle.estimate(oracle.simulate_counts(np.arange(D) * 9, rng=2, trials=50), 9 * 276)
    f = raw.frequencies
    eta = 0.2
    mass = (1 - oracle.q * D) / (oracle.p - oracle.q)
    everywhere = norm_sub((1 + eta) * f - eta * mass / D)
    assert_allclose(everywhere, norm_sub((1 + eta) * f), atol=20 * ROUNDING)


@pytest.mark.parametrize("eta", [0.05, 1.0])
@pytest.mark.parametrize("name", ORACLES)
def test_mass_spread_over_the_positive_values_is_a_no_op_too(name, eta):
    oracle = ORACLES[name](1.0, D)
    raw = oracle.estimate(oracle.simulate_counts(np.arange(D) * 9, rng=2, trials=50), 9 * 276)
    scaled = (1 + eta) * raw.frequencies
    applies = np.maximum(scaled, 0).sum(axis=-1) >= 1
    assert applies.sum() > 25
    result = poisoning.ldp_recover(raw, eta).frequencies
    assert_allclose(result[applies], norm_sub(scaled)[applies], atol=20 * ROUNDING)


def test_mass_taken_from_few_positive_values_does_count():
    raw = FrequencyEstimate([0.3, 0.2, -0.01, -0.02], n=1000, oracle=OUE(1.0, 4))
    result = poisoning.ldp_recover(raw, 0.2).frequencies
    assert np.abs(result - norm_sub(1.2 * raw.frequencies)).max() > 0.01


def test_every_value_known_as_a_target_is_that_no_op():
    oracle = GRR(1.0, D)
    raw = oracle.estimate(oracle.simulate_counts(np.arange(D) * 9, rng=3), 9 * 276)
    result = poisoning.ldp_recover(raw, 0.2, targets=range(D)).frequencies
    assert_allclose(result, norm_sub(1.2 * raw.frequencies), atol=20 * ROUNDING)


def test_recovery_takes_other_constraints():
    oracle = GRR(1.0, 4)
    raw = FrequencyEstimate([0.6, 0.3, 0.1, 0.0], n=1000, oracle=oracle)
    problem = ldpopt.Problem(
        losses.LeastSquares(),
        [constraints.NonNegative(), constraints.SumsTo(1.0), constraints.Fixed([0], [0.25])],
    )
    assert poisoning.ldp_recover(raw, 0.1, problem=problem).frequencies[0] == 0.25


def test_recovery_reduces_the_error_of_an_attack():
    oracle = GRR(1.0, D)
    n = 50_000
    m = 1_000
    truth = np.arange(D)[::-1] / 276
    genuine = oracle.simulate_counts(np.round(truth * n).astype(int), rng=4)
    counts = genuine + oracle.support_counts(poisoning.maximal_gain(oracle, m, [22, 23], 5))
    raw = oracle.estimate(counts, int(np.round(truth * n).sum()) + m)
    errors = [
        np.abs(f - truth).sum()
        for f in (
            ldpopt.postprocess(raw, "norm-sub").frequencies,
            poisoning.ldp_recover(raw, m / n).frequencies,
            poisoning.ldp_recover(raw, m / n, targets=[22, 23]).frequencies,
        )
    ]
    assert errors[2] < 0.5 * errors[1]
    assert errors[1] == pytest.approx(
        errors[0], rel=0.1
    )  # without targets there is nothing to go by


def test_recovered_frequencies_have_no_interval():
    raw = FrequencyEstimate([0.6, 0.3, 0.1], n=1000, oracle=GRR(1.0, 3))
    with pytest.raises(InvalidInputError, match="does not know"):
        poisoning.without_malicious(raw, 0.1).interval()


@pytest.mark.parametrize("targets", [[], [0, 0], [D], [-1], [0.5], 3, [[0, 1]]], ids=str)
def test_bad_targets_are_refused(targets):
    for call in (
        lambda: poisoning.maximal_gain(GRR(1.0, D), 3, targets, 1),
        lambda: poisoning.without_malicious(
            FrequencyEstimate(np.full(D, 1 / D), n=9, oracle=GRR(1.0, D)), 0.1, targets=targets
        ),
    ):
        with pytest.raises((InvalidInputError, InvalidTypeError), match="targets"):
            call()


def test_what_cannot_be_attacked_or_recovered_is_refused():
    protocol = PureProtocol(1.0, 3, p=0.5, q=0.25)
    with pytest.raises(InvalidTypeError, match="oracle"):
        poisoning.random_item(protocol, 3, [0], 1)
    with pytest.raises(InvalidInputError, match="malicious users"):
        poisoning.maximal_gain(GRR(1.0, 3), 0, [0], 1)
    stack = FrequencyEstimate([[0.5, 0.5, 0.0], [-0.1, 0.0, -0.2]], n=10, oracle=protocol)
    with pytest.raises(InvalidInputError, match="no estimate of trial 1 is positive"):
        poisoning.ldp_recover(stack, 0.1)
    with pytest.raises(InvalidInputError, match="eta"):
        poisoning.ldp_recover(stack, -0.1)
    with pytest.raises(InvalidInputError, match="supported"):
        poisoning.ldp_recover(stack, 0.1, targets=[0], supported=2)
    with pytest.raises(InvalidInputError, match="noise level"):
        poisoning.ldp_recover(FrequencyEstimate([0.5, 0.5]), 0.1)
    with pytest.raises(InvalidTypeError, match="FrequencyEstimate"):
        poisoning.ldp_recover([0.5, 0.5], 0.1)
