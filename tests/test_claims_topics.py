"""What the checks of the ledger are made of, by numbers computed by hand."""

import itertools
import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm

from ldpopt import datasets
from ldpopt.claims import LEDGER, Verdict
from ldpopt.claims.engine import draws
from ldpopt.claims.engine.agreement import Agreement
from ldpopt.claims.engine.instances import Instance, InstanceSet
from ldpopt.claims.reference import published
from ldpopt.claims.reference.channels import marginal_law
from ldpopt.claims.reference.clients import ClientRun
from ldpopt.claims.reference.dual import Dual
from ldpopt.claims.topics import (
    accuracy,
    authors,
    bias,
    complexity,
    controls,
    derivations,
    equivalences,
    errata,
    guarantees,
    likelihoods,
    noise,
    posterior,
    prior_fits,
    protocols,
    shapes,
    variances,
    variants,
)
from ldpopt.closed_form import significance_threshold
from ldpopt.constraints import Hierarchy
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import LeastSquares
from ldpopt.oracles import GRR, OUE, HadamardResponse, SubsetSelection
from ldpopt.protocol import PureProtocol


def estimate_of(*rows, oracle=None):
    frequencies = np.array(rows)
    oracle = oracle or OUE(epsilon=1.0, d=frequencies.shape[-1])
    return FrequencyEstimate(frequencies, 100, oracle, is_raw=True)


# --- complexity -----------------------------------------------------------------------------------


def test_the_methods_whose_cost_is_counted_take_the_threshold_last():
    methods = complexity._methods(threshold=0.3, kappa=0.1)
    # The published algorithm, and the library's closed form.
    for cut in methods["base-cut"]:
        assert cut(np.array([0.5, 0.2, -0.1])).tolist() == [0.5, 0.0, 0.0]
    # 0.5 stays, and what is missing goes to the others equally: 0.2 + 0.2 and -0.1 + 0.2.
    for hybrid in methods["norm-hyb"]:
        answer = hybrid(np.array([0.5, 0.2, -0.1]))
        np.testing.assert_allclose(answer, [0.5, 0.4, 0.1], rtol=1e-12)


def test_a_vector_that_loses_one_value_per_round():
    for d in (3, 10, 30):
        answer, rounds = published.repeated_partition(complexity._one_per_round(d))
        assert rounds == d
        assert answer.tolist() == [1.0, *[0.0] * (d - 1)]


# --- controls -------------------------------------------------------------------------------------


def test_shares_of_vectors_in_need_by_hand():
    # A value of 0 is not negative; one vector in four has a negative one, and one sums to 1.
    rows = ([0.0, 1.0], [0.5, 0.6], [0.0, 0.9], [-0.1, 0.9])
    assert controls._shares_in_need([estimate_of(*rows)]) == (0.25, 0.75)


# --- derivations ----------------------------------------------------------------------------------


def test_dual_numbers_differentiate_the_four_operations():
    x = Dual(Fraction(2), Fraction(1))
    assert ((x + 3) * x - 1).slope == 2 * 2 + 3
    assert (1 * x / (x * x)).slope == Fraction(-1, 4)
    assert (3 + x).value == 5


def test_points_of_the_printed_conditions_by_hand():
    example = [Fraction(1, 2), Fraction(1, 5), Fraction(-1, 100)]
    points = derivations._stationary(example, Fraction(0))
    assert len(points) == 7
    assert [active for active, is_signed in points if is_signed] == [(0, 1, 2)]
    # A vector that is a distribution already, with nothing at 0: the vertices satisfy them too.
    points = derivations._stationary([Fraction(1, 2), Fraction(1, 2)], Fraction(0))
    assert points == [((0,), False), ((1,), False), ((0, 1), True)]


# --- tasks ----------------------------------------------------------------------------------------


def test_paired_errors_are_larger_only_beyond_their_noise():
    rng = np.random.default_rng(0)
    others = rng.random(100)
    assert draws.is_larger(others + 0.1 + 0.01 * rng.standard_normal(100), others)
    assert not draws.is_larger(others + rng.standard_normal(100), others)
    assert not draws.is_larger(others, others)


def test_errors_on_sets_by_hand():
    sets = draws.random_sets(100, 10)
    assert set(sets.sum(axis=1)) == {10.0}
    # An error of 0.1 at every value adds up to 1 on ten values.
    assert draws.set_errors(np.full((2, 100), 0.1), 10) == pytest.approx([1.0, 1.0])
    # All sets of two of four values, one by one.
    errors = np.array([0.3, -0.1, 0.2, 0.5])
    pairs = [(errors[i] + errors[j]) ** 2 for i, j in itertools.combinations(range(4), 2)]
    assert draws.set_errors(errors, 50) == pytest.approx(np.mean(pairs))


# --- authors --------------------------------------------------------------------------------------


def test_a_sum_is_compared_in_standard_errors_of_both_simulations():
    simulated = authors.Sum(mean=110.0, sd=100.0, runs=5_000)
    assert simulated.score(100.0) == pytest.approx(10 / (100 * math.sqrt(2 / 5_000)))
    assert authors.Sum(mean=0.0, sd=0.0, runs=50).score(3.0) == -3.0
    assert authors._shown(authors.Sum(-1e-9, 0.0, 50), 0.0) == "0 (z = 0.0)"


# --- equivalences ---------------------------------------------------------------------------------


def test_printed_and_corrected_formulas_of_mle_apx_by_hand():
    # p - q = .25, q(1-q) = .1875, (p-q)(1-p-q) = .0625, a mass of .4 is missing.
    estimate = estimate_of([0.4, 0.2, -0.5], oracle=PureProtocol(1.0, 3, p=0.5, q=0.25))
    active = np.array([[True, True, False]])
    fraction, line = equivalences._formulas(estimate, active, sign=1)
    x = 0.25 * 0.4 / (2 * 0.1875 + 0.0625)
    expected = [(0.1875 * x + 0.25 * f) / (0.25 - 0.0625 * x) for f in (0.4, 0.2)]
    assert sum(expected) == pytest.approx(1.0)
    assert fraction[0] == pytest.approx([*expected, 0.0])
    assert line[0] == pytest.approx([*expected, 0.0])
    # As printed, x = .1/.3125 = .32: the two forms have denominators .23 and .27.
    fraction, line = equivalences._formulas(estimate, active, sign=-1)
    assert fraction[0] == pytest.approx([0.16 / 0.23, 0.11 / 0.23, 0.0])
    assert line[0] == pytest.approx([0.16 / 0.27, 0.11 / 0.27, 0.0])


def test_the_drafts_iteration_by_hand():
    # p + q = 1: least squares. The third value falls below 0 in the first round.
    estimate = estimate_of([0.9, 0.5, -0.6], oracle=PureProtocol(1.0, 3, p=0.75, q=0.25))
    assert equivalences._draft(estimate)[0] == pytest.approx([0.7, 0.3, 0.0])


# --- variants -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vector", "threshold", "kept"),
    [
        ([0.5, 0.2], 0.4, [True, False]),
        ([0.4, 0.1], 0.4, [True, False]),  # at the threshold
        ([0.6, 0.5, 0.1], 0.4, [True, False, False]),  # .6 + .5 exceeds 1
        ([0.1, 0.6, 0.5], 0.4, [False, True, False]),
        ([0.3, 0.3], 0.2, [False, False]),  # all of them: all are adjusted
        ([1.5, 0.2], 0.4, [False, False]),
    ],
)
def test_what_norm_hyb_keeps_by_hand(vector, threshold, kept):
    assert variants._kept(np.array(vector), threshold).tolist() == kept


def test_violations_of_a_sparse_distribution_by_hand():
    assert variants._at_most_violation(np.array([[0.5, 0.5, 0.0]]), 2) == 0
    assert variants._at_most_violation(np.array([[0.5, 0.5, 0.0]]), 1) == 1
    assert variants._at_most_violation(np.array([[0.5, 0.4, 0.0]]), 2) == pytest.approx(0.1)
    assert variants._at_most_violation(np.array([[1.2, -0.2, 0.0]]), 2) == pytest.approx(0.2)


def test_parts_of_a_vector_by_hand():
    parts, dropped = variants._supported_parts(np.array([1.0, 2.0, 3.0]), 2)
    assert parts.tolist() == [[1.0, 2.0], [1.0, 3.0], [2.0, 3.0]]
    assert dropped.tolist() == [9.0, 4.0, 1.0]


def test_the_cost_of_a_cut_by_hand():
    # ½ (.2² + .4²) + ½ .3²
    cost = variants._l0_cost(np.array([0.5, 0.0]), np.array([0.7, 0.4]), 0.3)
    assert cost == pytest.approx(0.1 + 0.045)


@pytest.mark.parametrize(
    ("oracle", "size"),
    [
        (GRR(epsilon=1.0, d=8), 1),
        (SubsetSelection(epsilon=1.0, d=8), 2),
        (OUE(epsilon=1.0, d=8), None),
        (HadamardResponse(epsilon=1.0, d=8), None),
        (PureProtocol(1.0, 8, p=0.5, q=0.25), None),
    ],
)
def test_how_many_values_a_report_supports(oracle, size):
    instance = Instance("x", "random", estimate_of(np.zeros(8), oracle=oracle))
    assert variants._fixed_size(instance) == size


def test_cases_are_made_for_sizes_above_two():
    stacks = [Instance("x", "random", estimate_of(np.zeros(d))) for d in (7, 2, 3, 7)]
    assert variants._sizes(stacks) == [3, 7]
    assert [i.estimate.d for i in variants._of_size(stacks, 7)] == [7, 7]


# --- shapes ---------------------------------------------------------------------------------------


def test_nodes_of_a_tree_are_sums_of_leaves_with_noise_of_their_own():
    leaves = np.linspace(0.0, 0.2, 9)
    oracle = OUE(epsilon=1.0, d=9)
    many_users = FrequencyEstimate(leaves[None], 10**8, oracle, is_raw=True)
    instance = Instance("x", "real", many_users)
    tree = Hierarchy.balanced(9, 3)
    nodes = shapes._with_every_level(instance)
    assert (nodes.name, nodes.kind) == ("x, every level", "real")
    values = nodes.estimate.frequencies[0]
    assert values[tree.leaves].tolist() == leaves.tolist()
    groups = leaves.reshape(3, 3).sum(axis=1)
    noise = values[:4] - np.array([leaves.sum(), *groups])
    assert np.all(np.abs(noise) > 0)
    assert np.abs(noise).max() < 5 * instance.estimate.sigma
    protocol = nodes.estimate.noise.protocol
    assert (protocol.d, protocol.p) == (13, OUE(epsilon=1.0, d=9).p)


# --- likelihoods ----------------------------------------------------------------------------------


def test_the_evidence_shows_gamma_of_a_small_and_a_large_budget():
    evidence = LEDGER["gamma-near-one"].check(InstanceSet(quick=True)).evidence
    shown = [name for name in evidence if name.startswith("γ on emoji")]
    assert shown == ["γ on emoji, OLH, ε = 1", "γ on emoji, OLH, ε = 4"]


def test_a_likelihood_paired_with_itself_differs_by_nothing():
    setting = likelihoods._settings()[0]
    rng = np.random.default_rng(0)
    excess = likelihoods.excess_over_norm_sub(setting, LeastSquares(), rng, trials=3)
    assert excess == likelihoods.Excess(0.0, 0.0)


def test_the_excess_of_paired_errors_by_hand():
    # Differences 1, 2, 3: mean 2, standard deviation 1, standard error 1/sqrt(3); others' mean 4.
    excess = likelihoods.Excess.of(np.array([4.0, 6.0, 8.0]), np.array([3.0, 4.0, 5.0]))
    assert excess.relative == pytest.approx(0.5)
    assert excess.half_width == pytest.approx(3 / math.sqrt(3) / 4)
    assert excess.is_positive
    assert not excess.is_negative
    assert str(excess) == "+50.00 % ± 43.30"


@pytest.mark.parametrize(
    ("relative", "positive", "negative"),
    [(0.3, True, False), (0.1, False, False), (-0.1, False, False), (-0.3, False, True)],
)
def test_an_excess_is_significant_outside_of_its_interval(relative, positive, negative):
    excess = likelihoods.Excess(relative, half_width=0.2)
    assert (excess.is_positive, excess.is_negative) == (positive, negative)


def test_the_squared_error_of_a_solution_by_hand():
    # Norm-Sub of (.8, .4) is (.7, .3): errors .2 and .2 to (.5, .5).
    raw = estimate_of([0.8, 0.4])
    errors = likelihoods._squared_errors(LeastSquares(), raw, np.array([0.5, 0.5]))
    assert errors == pytest.approx([0.04])


def test_the_coefficient_prefers_small_variances():
    # Without the coefficient (n = ∞) the maximum is MLE-Apx's; with b > 0 the coefficient is
    # log-concave in (x, 1-x) and smallest at a vertex: x moves away from 1/2.
    oracle = OUE(epsilon=2.0, d=2)
    raw = np.array([0.72, 0.31])
    many = likelihoods._maximum_with_coefficient(oracle, raw, 10**9)
    few = likelihoods._maximum_with_coefficient(oracle, raw, 100)
    kappa = oracle.kappa
    t = (1 - raw.sum()) / (2 + kappa)
    assert many == pytest.approx((raw[0] + t) / (1 - kappa * t), abs=1e-7)
    assert few > many + 1e-4


@pytest.mark.parametrize("distance", [0.0, 0.1])
def test_dominance_must_matter_and_suffice(distance, monkeypatch):
    """Red if both answers agree in all settings, and if they differ in the dominated one too."""

    def both(raw):
        cls = raw.frequencies
        first = np.arange(raw.d) == 0
        # t is large enough for any distance.
        return cls + distance * first, cls, np.full(len(cls), 1e3)

    monkeypatch.setattr(likelihoods, "_both", both)
    finding = LEDGER["mle-cls-dominated"].check(InstanceSet(quick=True))
    assert finding.verdict is Verdict.FAILS


# --- posterior ------------------------------------------------------------------------------------


def test_posterior_weights_by_hand():
    flat = posterior._weights(np.array([1.0]), noise=1.0, alpha=0.0, n=2)
    e = math.exp(-0.5)
    assert flat == pytest.approx(np.array([[1 / (1 + e), e / (1 + e)]]))
    falling = posterior._weights(np.array([1.0]), noise=0.5, alpha=3.0, n=2)
    odds = math.exp(-2) / 8
    assert falling == pytest.approx(np.array([[1 / (1 + odds), odds / (1 + odds)]]))


def test_risks_by_hand():
    even = np.array([[0.5, 0.5]])  # counts 1 and 2
    assert posterior._risk(even, np.array([1.0])) == pytest.approx([0.5])
    assert posterior._expected_error(even, np.array([0.5])) == pytest.approx(0.125)


def test_an_integral_over_a_flat_prior_is_the_truncated_mean():
    # s = 0: the density is flat, and with f far from both ends the mean is f.
    assert posterior._integral_estimate(0.5, 0.01, 0.0, 1e-6) == pytest.approx(0.5, abs=1e-6)


# --- guarantees -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "given"),
    [
        (([0.5, -0.1], [0.2, -0.1]), True),
        (([0.5, 0.1], [-0.2, -0.1]), False),
    ],
    ids=["each row has a positive value", "one row has none"],
)
def test_norm_mul_is_given_stacks_with_a_positive_value_in_every_row(rows, given):
    instances = InstanceSet(quick=True)
    vars(instances)["random"] = [Instance("x", "random", estimate_of(*rows))]
    vars(instances)["real"] = []
    assert len(list(guarantees._instances(instances, "norm-mul"))) == given
    assert len(list(guarantees._instances(instances, "norm"))) == 1


def test_power_is_given_stacks_in_which_every_row_has_a_usual_mean():
    # With 100 users the mean counts of the rows are 47.5 and 45, both below 50.
    instances = InstanceSet(quick=True)
    vars(instances)["random"] = [Instance("x", "random", estimate_of([0.9, 0.05], [0.8, 0.1]))]
    ((raw, answer),) = guarantees._outputs(instances, "power")
    assert raw.frequencies.shape == answer.frequencies.shape == (2, 2)


@pytest.mark.parametrize(
    ("totals", "flag"),
    [
        ([1.0, 1 + 1e-10], "yes"),
        ([1.0, 0.5], "almost"),
        ([1.0, 1 + 1e-8], "no"),
        ([0.5, 1.5], "no"),
    ],
)
def test_words_for_sums(totals, flag):
    assert guarantees._sum_flag(np.array(totals)) == flag


@pytest.mark.parametrize(
    ("before", "after", "inversions", "ties"),
    [
        ([0.1, 0.2, 0.3], [0.0, 0.1, 0.2], 0, 0),
        ([0.3, 0.1, 0.2], [0.2, 0.0, 0.0], 0, 1),
        ([0.1, 0.2, 0.3], [0.2, 0.1, 0.3], 1, 0),
        ([0.1, 0.1, 0.3], [0.2, 0.1, 0.3], 0, 0),  # ties may come out in any order
        ([0.1, 0.2], [0.2, 0.2 - 1e-13], 0, 0),  # rounding
        ([0.1, 0.2], [0.2, 0.2 - 1e-11], 1, 0),
        ([0.1, 0.1], [0.2, 0.2], 0, 0),
    ],
)
def test_inversions_and_ties_by_hand(before, after, inversions, ties):
    first = np.array([before])
    second = np.array([after])
    assert guarantees._inversions(first, second) == inversions
    assert guarantees._ties(first, second) == ties


# --- accuracy -------------------------------------------------------------------------------------


def test_asymmetry_of_a_set_and_its_complement_by_hand():
    errors = np.array([[0.1, -0.2]])
    sets = np.array([[True, False], [True, True]])
    # .1² against .2², and .1² against nothing.
    assert accuracy._asymmetry(errors, sets) == pytest.approx(0.03)


def test_contradictions_of_post_pos_by_hand():
    # Values 1 | 2, 3: clipped to 0 + .3, but together .1.
    contradicts = [0.5, -0.2, 0.1, 0.2]
    agrees = [0.5, 0.2, 0.1, 0.2]
    assert accuracy._contradictions(estimate_of(contradicts, agrees, contradicts)) == 2


def test_random_sets_come_after_single_values():
    sets = accuracy._sets(np.random.default_rng(0), 5, 30)
    assert sets.shape == (35, 5)
    assert np.array_equal(sets[:5], np.eye(5, dtype=bool))
    assert {int(size) for size in sets.sum(axis=1)} >= {0, 1, 2, 3, 4, 5}


# --- bias -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "last", "verdict"),
    [(-0.1, 0.1, Verdict.HOLDS), (0.1, 0.2, Verdict.FAILS), (-0.1, -0.2, Verdict.FAILS)],
    ids=["from below 0", "from above 0", "falls"],
)
def test_the_bias_of_norm_mul_rises_from_below_zero(monkeypatch, first, last, verdict):
    monkeypatch.setattr(bias, "_bias", lambda *_: (np.linspace(first, last, 8), 1.0))
    assert LEDGER["norm-mul-bias"].check(InstanceSet(quick=True)).verdict is verdict


def test_lemma_3_needs_the_exact_means_as_well_as_the_simulated_ones(monkeypatch):
    monkeypatch.setattr(bias, "_expected", lambda *_: np.full(3, 9.0))
    assert LEDGER["lemma-3"].check(InstanceSet(quick=True)).verdict is Verdict.FAILS


def test_the_bias_of_zeroing_is_that_of_half_a_gaussian():
    evidence = LEDGER["lemma-1"].check(InstanceSet(quick=True)).evidence
    in_sd = evidence["bias of a value nobody has, OUE, in σ"]
    # E max(x, 0) = 1/√(2π) = 0.3989 for a standard normal x; counts are nearly normal.
    assert in_sd == pytest.approx(0.3989, rel=0.05)


def test_lemma_4_is_tried_on_so_many_instances():
    # Two methods on seven oracles, two more on GRR, and the signs for 0 .. 6 users.
    assert LEDGER["lemma-4"].check(InstanceSet(quick=True)).instances == 2 * 7 + 2 + 7


def test_biases_by_rank_and_of_the_rarer_half_by_hand():
    answers = np.array([[0.6, 0.2, 0.1, 0.2], [0.4, 0.4, 0.2, 0.3]])
    truth = np.array([0.4, 0.3, 0.2, 0.1])
    bias_, score = bias._bias(answers, truth)
    assert bias_ == pytest.approx([0.1, 0.0, -0.05, 0.15])
    # The rarer half errs by 0 and .1 on average: mean .05, standard error .05.
    assert score == pytest.approx(1.0)


@pytest.mark.parametrize("owners", [0, 3])
def test_the_probability_of_an_estimate_above_the_threshold(owners):
    oracle = OUE(epsilon=1.0, d=20)
    n = 50
    threshold = significance_threshold(20, oracle.sd(n), 2.0)
    estimates = (np.arange(n + 1) / n - oracle.q) / (oracle.p - oracle.q)
    exact = marginal_law(oracle, n, owners)[estimates >= threshold].sum()
    assert bias._tail(oracle, n, alpha=2.0, owners=owners) == pytest.approx(exact)
    assert bias._tail(oracle, n, alpha=0.1, owners=owners) < exact


def test_an_expectation_over_all_counts_by_hand():
    # Raw estimates are unbiased; their positive parts are not: the zero value gains.
    oracle = GRR(epsilon=1.0, d=3)
    users = np.array([2, 1, 0])
    assert bias._expected(oracle, "base", users) == pytest.approx([2 / 3, 1 / 3, 0.0])
    assert bias._expected(oracle, "base-pos", users)[2] > 0.01


def test_signs_of_a_bias(monkeypatch):
    exact = {0: 0.1, 1: 1 / 12, 2: 1 / 12, 3: 0.5}
    monkeypatch.setattr(
        bias, "_expected", lambda oracle, method, users: [exact.get(users[-1], users[-1] / 12)]
    )
    assert bias._bias_signs(OUE(epsilon=1.0, d=3)) == "+0-+000"


# --- noise ----------------------------------------------------------------------------------------


def test_the_printed_variance_by_hand():
    # q(1-q) = .1875, (p-q)(1-p-q) = .0625, (p-q)² = .0625.
    protocol = PureProtocol(1.0, 2, p=0.5, q=0.25)
    assert noise._printed_variance(protocol, np.array([0.0, 0.5])) == pytest.approx([3.0, 3.5])


def test_the_score_of_a_sample_variance_by_hand():
    simulation = noise.Simulation("x", OUE(epsilon=1.0, d=2), np.zeros(2), 10, np.zeros((3, 2)))
    estimates = np.array([[1.0, 2.0], [2.0, 2.0], [3.0, 2.0]])  # variances 1 and 0
    # |1/.5 - 1| = 1 and |0 - 1| = 1, over sqrt(2/2).
    assert simulation.variance_score(estimates, np.array([0.5, 0.5])) == pytest.approx(1.0)
    assert simulation.variance_score(estimates, np.array([0.25, 0.5])) == pytest.approx(3.0)


def test_third_moments_by_hand():
    # .25 · .75³ + .75 · .25³
    assert noise._third_moment(0.25) == pytest.approx(0.1171875)


def test_the_distance_of_one_report_to_its_gaussian_by_hand():
    # P(0) = .75, mean .25, sd sqrt(.1875): the largest difference is .75 - Φ(-.5774) at 0.
    oracle = GRR(epsilon=math.log(3), d=2)
    distance, bound = noise._distance_to_gaussian(oracle, n=1, owners=0)
    assert distance == pytest.approx(0.75 - 0.28185, abs=1e-5)
    assert bound == pytest.approx(0.56 * 0.1171875 / 0.1875**1.5)
    # With the value, the mirror image: the largest difference is just before the jump at 1.
    mirrored, _ = noise._distance_to_gaussian(oracle, n=1, owners=1)
    assert mirrored == pytest.approx(distance)


def test_the_variance_of_norm_by_hand():
    # d = 2: V (1 - 1) + ΣV/4.
    assert noise._uncorrelated_norm_variance(np.array([1.0, 3.0])) == pytest.approx([1.0, 1.0])
    # d = 4, all variances 1: 1/2 + 1/4 = 3/4.
    assert noise._uncorrelated_norm_variance(np.ones(4)) == pytest.approx(np.full(4, 0.75))


def test_true_frequencies_of_the_noise_claims_are_distinct():
    assert noise._truth(4).tolist() == pytest.approx([3 / 6, 2 / 6, 1 / 6, 0.0])


# --- prior fits -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("more", "expected"), [(3, Verdict.HOLDS), (1, Verdict.FAILS)])
def test_false_negatives_are_compared_by_their_growth(more, expected, monkeypatch):
    # Four values are kept, and four frequent ones are not. As the threshold falls, two of those
    # that are kept become frequent, and some of the others.
    oracle = OUE(epsilon=1.0, d=11)
    significance = significance_threshold(11, oracle.sd(100), alpha=0.05)
    truth = np.zeros(11)
    truth[[0, 1, 4, 5, 6, 7]] = 1.1
    truth[[2, 3, *range(8, 8 + more)]] = 0.5
    raw = estimate_of(np.where(np.arange(11) < 4, 2 * significance, 0.0), oracle=oracle)
    monkeypatch.setattr(prior_fits, "_zipf_oue", lambda *_, **__: (truth * significance, raw))
    finding = LEDGER["zero-moves"].check(InstanceSet(quick=True))
    assert finding.evidence["true positives"] == "2, 2, 2, 4, 4, 4"
    assert finding.evidence["false negatives"] == f"4, 4, 4, {4 + more}, {4 + more}, {4 + more}"
    assert finding.verdict is expected


# --- protocols and errata -------------------------------------------------------------------------


def test_variances_of_hashing_by_hand():
    # e = 3: at h = 3 it is 4e/(e-1)² = 3; at h = 1 and h = 9 it is 16/4 = 4.
    assert variances._hashing_variance(3, 3.0) == pytest.approx(3.0)
    assert variances._hashing_variance(1, 3.0) == pytest.approx(4.0)
    assert variances._hashing_variance(9, 3.0) == pytest.approx(4.0)


def test_the_evidence_on_norms_variance_by_hand():
    # Norm leaves GRR's estimates as they are: the ratio is d/(d - 1), largest at d = 3.
    evidence = LEDGER["norm-variance"].check(InstanceSet(quick=True)).evidence
    (ratio,) = (value for name, value in evidence.items() if name.endswith("nobody has, grr"))
    assert ratio == pytest.approx(1.5, rel=1e-12)


def test_the_mean_sums_of_base_cut_are_those_of_normal_estimates():
    """What lies above T of N(f, s²) is f Φ(z) + s φ(z) with z = (f - T)/s."""
    evidence = LEDGER["cut-sum-above-one"].check(InstanceSet(quick=True)).evidence
    data = datasets.load("zipf")
    oracle = OUE(epsilon=4.0, d=data.d)
    f = data.frequencies
    s = np.sqrt(oracle.variance(data.n, f))
    z = (f - significance_threshold(data.d, math.sqrt(oracle.variance(data.n, 0.0)))) / s
    expected = np.sum(f * norm.cdf(z) + s * norm.pdf(z))
    assert evidence["mean sum, zipf, ε = 4"] == pytest.approx(expected, rel=0.01)


def test_the_standard_deviation_of_a_share_of_olh_by_hand():
    # g = round(e) + 1 = 4 buckets: p = e/(e + 3) = 0.4753668864, √(p (1-p)/200,000) = 1.11668e-3.
    finding = LEDGER["olh-p"].check(InstanceSet(quick=True))
    assert finding.evidence["standard deviation of the share"] == pytest.approx(
        1.11668e-3, rel=1e-5
    )


def test_privacy_losses_by_hand():
    assert variances._subset_loss(0.5, 2, 8) == pytest.approx(math.log(3))
    assert variances._subset_loss(0.6, 2, 8) == pytest.approx(math.log(4.5))


def test_variances_of_subset_sizes_are_those_of_the_oracle():
    oracle = SubsetSelection(epsilon=1.0, d=8)
    constant, slope = variances._subset_variances(1.0, 8)
    assert (constant[oracle.k - 1], slope[oracle.k - 1]) == pytest.approx((oracle.a, oracle.b))
    assert errata._unary_loss(0.5, 0.25) == pytest.approx(math.log(3))
    assert errata._unary_loss(0.75, 0.5) == pytest.approx(math.log(3))
    assert errata._unary_loss(0.25, 0.5) == pytest.approx(math.log(3))


def test_settings_are_those_that_the_reports_state():
    shown = bias.significance_threshold.check(InstanceSet(quick=True)).evidence
    stated = "expected number of empty items above it, {}, ε = {}"
    assert set(shown) == {stated.format(name, e) for name in ("Kosarak", "Retail") for e in "12345"}
    simulated = noise._simulated(InstanceSet(quick=True))
    assert {(one.n, one.oracle.d, one.oracle.epsilon) for one in simulated} == {(500, 8, 1.0)}


def test_proved_shares_of_a_budget_by_hand():
    def run(lower, epsilon):
        audit = SimpleNamespace(
            reports=SimpleNamespace(lower=lower), oracle=SimpleNamespace(epsilon=epsilon)
        )
        return ClientRun(audit, score=0.0, reports=1)

    assert protocols._listed_shares([run(1.5, 2.0), run(0.6, 0.5)]) == "0.75, 1.20"


def test_rows_of_hadamard_matrices_by_hand():
    assert protocols._supported_rows(4) == [2, 2, 2]
    assert protocols._supported_rows(3) == [2, 2, 1]


def test_excess_of_hashing_over_unary_encoding():
    assert variances._olh_over_oue(math.log(3)) == pytest.approx(0.0, abs=1e-12)
    # ε = 1, floor: g = 3, h = 2: (e²/2 + 2e + 2)/(4e) - 1.
    e = math.e
    assert variances._olh_over_oue(1.0, "floor") == pytest.approx((e * e / 2 + 2) / (4 * e) - 0.5)


def test_budgets_run_from_one_twentieth_to_five():
    assert variances._budgets(InstanceSet(quick=True), quick=3, full=5) == pytest.approx(
        [0.05, 2.525, 5.0]
    )
    assert len(variances._budgets(InstanceSet(), quick=3, full=5)) == 5


def test_the_words_of_norm_sub_by_hand():
    # Zeroed first and never raised: .3 is shared by two; the second row loses one value on the way.
    rows = np.array([[0.5, 0.2, -0.01], [1.5, 0.2, -0.5]])
    assert errata._zero_first(rows) == pytest.approx(np.array([[0.65, 0.35, 0.0], [1.0, 0, 0]]))
    # A value of exactly 0 is not raised either.
    tied = np.array([[0.5, 0.3, 0.0]])
    assert errata._zero_first(tied) == pytest.approx(np.array([[0.6, 0.4, 0.0]]))
    assert errata._differing(rows, rows + np.array([[0.0], [1e-8]])) == 1


def test_orders_and_trees_are_compared_on_real_estimates_too(monkeypatch):
    kinds = set()

    def compare(problem, closed_form, stacks, solvers):
        kinds.update(stack.kind for stack in stacks)
        return Agreement()

    monkeypatch.setattr(shapes, "compare_with_solvers", compare)
    monkeypatch.setattr(shapes, "compare_joined", lambda *_: Agreement())
    LEDGER["tree-order-simplex"].check(InstanceSet(quick=True))
    assert kinds == {"random", "real"}
