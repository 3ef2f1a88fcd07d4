"""The oracles: channels by enumeration, real reports and simulations against them, refusals."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from numpy.testing import assert_allclose, assert_array_equal

from ldpopt import oracles
from ldpopt.errors import InvalidInputError, InvalidTypeError, LdpoptError
from ldpopt.oracles import (
    BLH,
    GRR,
    OLH,
    ORACLES,
    OUE,
    SUE,
    HadamardResponse,
    SubsetSelection,
    randomness,
)
from ldpopt.oracles.base import AGGREGATE, IDEAL_HASH, PER_USER
from ldpopt.oracles.hadamard import walsh_hadamard
from ldpopt.oracles.hash_family import bucket_of
from ldpopt.oracles.unary import UnaryEncoding
from tests.tolerances import SIGMAS, SUM

FALSE_ALARM = 1e-6  # of one chi-square test; about a hundred are made here, on fixed seeds
LARGEST_CHANNEL = 5_000  # outputs that are enumerated
CLASSES = list(ORACLES.values())
every_oracle = pytest.mark.parametrize("cls", CLASSES, ids=list(ORACLES))


@dataclass(frozen=True)
class Channel:
    """All outputs of a protocol by its definition in the literature, and what they support."""

    probability: np.ndarray  # (d, outputs)
    support: np.ndarray  # (outputs, d)

    def covariance(self, true_counts):
        total = 0.0
        for users, probability in zip(true_counts, self.probability, strict=True):
            mean = probability @ self.support
            total = total + users * (
                (self.support.T * probability) @ self.support - np.outer(mean, mean)
            )
        return total


def enumerate_channel(oracle):
    d = oracle.d
    p = oracle.p
    q = oracle.q
    values = range(d)
    if isinstance(oracle, GRR):
        probability = [[p if output == v else q for output in values] for v in values]
        support = np.eye(d)
    elif isinstance(oracle, UnaryEncoding):
        outputs = list(itertools.product((0, 1), repeat=d))

        def bit_probability(bit, one):
            return one if bit else 1 - one

        probability = [
            [
                math.prod(bit_probability(bit, p if w == v else q) for w, bit in enumerate(bits))
                for bits in outputs
            ]
            for v in values
        ]
        support = outputs
    elif isinstance(oracle, OLH | BLH):
        # An ideal hash: every function from values to buckets is as likely as any other.
        g = oracle.g
        outputs = list(
            itertools.product(range(g), repeat=d + 1)
        )  # the hashes of all values, then the report's bucket
        probability = [
            [g**-d * (p if output[v] == output[-1] else (1 - p) / (g - 1)) for output in outputs]
            for v in values
        ]
        support = [[output[w] == output[-1] for w in values] for output in outputs]
    elif isinstance(oracle, SubsetSelection):
        k = oracle.k
        outputs = list(itertools.combinations(values, k))
        probability = [
            [
                p / math.comb(d - 1, k - 1) if v in output else (1 - p) / math.comb(d - 1, k)
                for output in outputs
            ]
            for v in values
        ]
        support = [[w in output for w in values] for output in outputs]
    else:
        assert isinstance(oracle, HadamardResponse), f"state the exact channel of {oracle!r} here"
        matrix = scipy.linalg.hadamard(oracle.columns)
        half = oracle.columns / 2
        probability = [
            [p / half if sign == 1 else (1 - p) / half for sign in matrix[v + 1]] for v in values
        ]
        support = (matrix[1 : d + 1] == 1).T
    return Channel(np.array(probability), np.array(support, dtype=np.float64))


def output_indices(oracle, reports):
    """Return the position of each report among the outputs of ``enumerate_channel``."""
    d = oracle.d
    if isinstance(oracle, GRR | HadamardResponse):
        return reports.astype(np.int64)
    if isinstance(oracle, UnaryEncoding):
        bits = [(reports[:, v // 8].astype(np.int64) >> (7 - v % 8)) & 1 for v in range(d)]
        return np.ravel_multi_index(bits, (2,) * d)
    if isinstance(oracle, OLH | BLH):
        hashes = hash_values(reports["seed"], d, oracle.g).astype(np.int64)
        return np.ravel_multi_index(
            [*hashes.T, reports["bucket"].astype(np.int64)], (oracle.g,) * (d + 1)
        )
    subsets = np.array(list(itertools.combinations(range(d), oracle.k)))
    assert (np.diff(reports.astype(np.int64), axis=1) > 0).all()
    # Sets as bits of a number: there are 2^d numbers, and any other one would be out of range.
    position = np.full(2**d, -1)
    position[(1 << subsets).sum(axis=1)] = np.arange(len(subsets))
    return position[(1 << reports.astype(np.int64)).sum(axis=1)]


def hash_values(seeds, d, g):
    return bucket_of(seeds[:, None], np.arange(d, dtype=np.uint64)[None, :], np.uint64(g))


def naive_support(oracle, report):
    """Return the values that one report supports, by the oracle's documentation."""
    values = range(oracle.d)
    if isinstance(oracle, GRR):
        return [v for v in values if v == report]
    if isinstance(oracle, UnaryEncoding):
        bits = "".join(f"{byte:08b}" for byte in report)
        return [v for v in values if bits[v] == "1"]
    if isinstance(oracle, OLH | BLH):
        hashes = hash_values(np.array([report["seed"]], dtype=np.uint64), oracle.d, oracle.g)[0]
        return [v for v in values if hashes[v] == report["bucket"]]
    if isinstance(oracle, SubsetSelection):
        return [v for v in values if v in report]
    return [v for v in values if ((v + 1) & int(report)).bit_count() % 2 == 0]


def small_oracles():
    for name, cls in ORACLES.items():
        for d, epsilon in itertools.product((2, 3, 5), (0.2, 1.0, 2.5)):
            oracle = cls(epsilon, d)
            if getattr(oracle, "g", 0) ** (d + 1) <= LARGEST_CHANNEL:
                yield pytest.param(oracle, id=f"{name}-d{d}-eps{epsilon}")


enumerable = pytest.mark.parametrize("oracle", list(small_oracles()))


# The channel, by enumeration


@enumerable
def test_every_row_of_the_enumeration_is_a_distribution(oracle):
    assert_allclose(enumerate_channel(oracle).probability.sum(axis=1), 1, rtol=SUM)


@enumerable
def test_no_output_separates_two_values_by_more_than_epsilon_and_some_output_reaches_it(oracle):
    probability = enumerate_channel(oracle).probability
    ratio = probability.max(axis=0) / probability.min(axis=0)
    assert ratio.max() <= math.exp(oracle.epsilon) * (1 + SUM)
    assert ratio.max() == pytest.approx(math.exp(oracle.epsilon), rel=SUM)


@enumerable
def test_reports_support_the_own_value_with_p_and_any_other_with_q(oracle):
    channel = enumerate_channel(oracle)
    expected = np.full((oracle.d, oracle.d), oracle.q) + np.diag(
        np.full(oracle.d, oracle.p - oracle.q)
    )
    assert_allclose(channel.probability @ channel.support, expected, rtol=SUM)


@enumerable
def test_real_reports_follow_the_enumerated_distribution(oracle):
    channel = enumerate_channel(oracle)
    n = 100_000 // oracle.d
    for value in range(oracle.d):
        reports = oracle.perturb(np.full(n, value), rng=[7, 11, 13, 17, 19][value])
        observed = np.bincount(output_indices(oracle, reports), minlength=len(channel.support))
        assert chi_square(observed, n * channel.probability[value]) > FALSE_ALARM, f"value {value}"


def chi_square(observed, expected):
    """Return the p-value; the outputs that are expected less than five times are pooled."""
    order = np.argsort(expected)
    observed, expected = observed[order], expected[order]
    if expected[0] < 5:
        pool = max(np.searchsorted(expected, 5), np.searchsorted(np.cumsum(expected), 5) + 1)
        observed, expected = (np.append(x[pool:], x[:pool].sum()) for x in (observed, expected))
    return scipy.stats.chisquare(observed, expected * (observed.sum() / expected.sum())).pvalue


@pytest.mark.parametrize(("cls", "epsilon"), [(BLH, 1.0), (OLH, 1.0), (OLH, 3.0)])
def test_local_hashing_is_private_and_pure_over_real_hash_functions(cls, epsilon):
    oracle = cls(epsilon, d=4)
    p = oracle.p
    g = oracle.g
    hashes = hash_values(
        np.random.default_rng(5).integers(0, 2**64 - 1, 4_000, dtype=np.uint64), 4, g
    )
    hits = hashes[:, :, None] == np.arange(g)  # (seed, value, bucket)
    probability = np.where(hits, p, (1 - p) / (g - 1))
    assert (probability.max(axis=1) / probability.min(axis=1)).max() <= math.exp(epsilon) * (
        1 + SUM
    )
    spread = (p - (1 - p) / (g - 1)) * math.sqrt((1 - 1 / g) / g / len(hashes))
    for value, other in itertools.product(range(4), repeat=2):
        supported = (probability[:, value] * hits[:, other]).sum(axis=1)
        if value == other:
            assert_allclose(supported, p, rtol=SUM)
        else:
            assert abs(supported.mean() - oracle.q) < SIGMAS * spread


def test_seeds_of_local_hashing_say_nothing_about_the_value():
    reports = [OLH(1.0, d=50).perturb(np.full(100, value), rng=3) for value in (0, 49)]
    assert_array_equal(reports[0]["seed"], reports[1]["seed"])


@pytest.mark.parametrize("epsilon", [30.0, 45.0, 60.0, 600.0])
@every_oracle
def test_an_accepted_budget_leaves_every_probability_of_the_client_above_zero(cls, epsilon):
    # The client draws with whole multiples of 2^-64: an event with q > 0 on paper that never
    # happens voids privacy.
    try:
        oracle = cls(epsilon, d=4)
    except InvalidInputError:
        return
    for probability in (oracle.exact_p, oracle.exact_q):
        assert 2**-32 <= probability < 1, f"p = {oracle.p}, q = {oracle.q}"


# Counts of real reports and of simulations

TRUE_COUNTS = np.array([100, 60, 40, 0, 0])


def collect(oracle, true_counts, source, trials):
    """Return support counts (trials, d), from reports or from the simulation."""
    if source == "simulated":
        return oracle.simulate_counts(true_counts, rng=23, trials=trials)
    values = np.repeat(np.arange(oracle.d), true_counts)
    reports = oracle.perturb(np.tile(values, trials), rng=29)
    return np.array([oracle.support_counts(batch) for batch in np.split(reports, trials)])


@pytest.mark.parametrize("source", ["reports", "simulated"])
@every_oracle
def test_mean_and_covariance_of_counts_are_those_of_the_enumeration(cls, source):
    oracle = cls(1.0, d=5)
    trials = 2_000
    channel = enumerate_channel(oracle)
    counts = collect(oracle, TRUE_COUNTS, source, trials)
    covariance = channel.covariance(TRUE_COUNTS)
    variance = np.diag(covariance)
    mean = TRUE_COUNTS @ channel.probability @ channel.support
    assert (np.abs(counts.mean(axis=0) - mean) < SIGMAS * np.sqrt(variance / trials)).all()
    spread = np.sqrt(
        (np.outer(variance, variance) + covariance**2) / trials
    )  # counts of 200 users are nearly normal
    assert (np.abs(np.cov(counts.T) - covariance) < SIGMAS * spread).all()


@pytest.mark.parametrize("source", ["reports", "simulated"])
@pytest.mark.parametrize("d", [8, 20])
@every_oracle
def test_estimates_are_unbiased_with_the_variance_of_the_formula_at_every_frequency(cls, d, source):
    oracle = cls(2.0, d)
    trials = 1_000
    true_counts = np.zeros(d, dtype=np.int64)
    true_counts[[0, 3, d - 1]] = 200, 80, 20
    n = 300
    truth = true_counts / 300
    estimates = oracle.estimate(collect(oracle, true_counts, source, trials), n).frequencies
    variance = oracle.variance(n, truth)
    assert (np.abs(estimates.mean(axis=0) - truth) < SIGMAS * np.sqrt(variance / trials)).all()
    assert (
        np.abs(estimates.var(axis=0, ddof=1) / variance - 1) < SIGMAS * math.sqrt(2.2 / trials)
    ).all()


@pytest.mark.parametrize("cls", [cls for cls in CLASSES if cls.simulation == AGGREGATE])
def test_many_simulated_trials_have_the_variance_of_the_formula(cls):
    oracle = cls(2.0, d=8)
    trials = 40_000
    n = 10**6
    truth = np.array([0.6, 0.3, 0.1, 0, 0, 0, 0, 0])
    estimates = oracle.estimate(
        oracle.simulate_counts((truth * n).astype(int), 31, trials), n
    ).frequencies
    variance = oracle.variance(n, truth)
    assert (np.abs(estimates.mean(axis=0) - truth) < SIGMAS * np.sqrt(variance / trials)).all()
    assert (np.abs(estimates.var(axis=0) / variance - 1) < SIGMAS * math.sqrt(2 / trials)).all()


@pytest.mark.parametrize("source", ["reports", "simulated"])
def test_counts_of_fixed_size_reports_sum_exactly(source):
    assert (collect(GRR(1.0, 5), TRUE_COUNTS, source, 50).sum(axis=1) == 200).all()
    oracle = SubsetSelection(0.5, 11)
    assert oracle.k > 1
    true_counts = np.arange(11)
    assert (
        collect(oracle, true_counts, source, 50).sum(axis=1) == true_counts.sum() * oracle.k
    ).all()


def test_simulation_says_how_it_draws():
    assert {name: cls.simulation for name, cls in ORACLES.items()} == {
        **dict.fromkeys(["grr", "sue", "oue"], AGGREGATE),
        **dict.fromkeys(["olh", "blh"], IDEAL_HASH),
        **dict.fromkeys(["ss", "hr"], PER_USER),
    }


@every_oracle
def test_simulated_counts_have_the_promised_shapes_and_repeat_with_the_seed(cls):
    oracle = cls(1.0, 5)
    single = oracle.simulate_counts(TRUE_COUNTS, rng=1)
    assert (single.shape, single.dtype) == ((5,), np.int64)
    assert oracle.simulate_counts(TRUE_COUNTS.tolist(), 1, trials=1).shape == (1, 5)
    stack = oracle.simulate_counts(TRUE_COUNTS, np.random.default_rng(1), trials=7)
    assert (stack.shape, stack.dtype) == ((7, 5), np.int64)
    assert_array_equal(stack, oracle.simulate_counts(TRUE_COUNTS, 1, trials=7))
    assert_array_equal(single, oracle.simulate_counts(TRUE_COUNTS, 1))
    assert (stack != oracle.simulate_counts(TRUE_COUNTS, 2, trials=7)).any()
    assert (stack >= 0).all()
    assert (stack <= 200).all()


@pytest.mark.parametrize("cls", [SubsetSelection, HadamardResponse])
def test_per_user_simulation_gives_every_user_his_value_across_chunks(cls, monkeypatch):
    monkeypatch.setattr("ldpopt.oracles.base._USERS_AT_A_TIME", 7)
    oracle = cls(1.0, 5)
    seen = []
    monkeypatch.setattr(
        cls,
        "_draw_counts",
        lambda self, values, rng: seen.extend(values) or np.zeros(5, dtype=np.int64),
    )
    oracle.simulate_counts([3, 0, 9, 10, 1], rng=0, trials=2)
    assert_array_equal(seen, 2 * ([0] * 3 + [2] * 9 + [3] * 10 + [4]))


@pytest.mark.parametrize("d", [5, 40])
def test_subset_counts_drawn_without_reports_are_the_counts_of_the_reports(d):
    oracle = SubsetSelection(0.5, d)
    values = np.arange(200) % d
    drawn = oracle._draw_counts(values, np.random.default_rng(8))
    assert_array_equal(drawn, oracle.support_counts(oracle.perturb(values, rng=8)))


# Reports


@pytest.mark.parametrize(
    ("oracle", "dtype", "width"),
    [
        (GRR(1.0, 256), np.uint8, ()),
        (GRR(1.0, 257), np.uint16, ()),
        (GRR(1.0, 70_000), np.uint32, ()),
        (OUE(1.0, 2), np.uint8, (1,)),
        (SUE(1.0, 16), np.uint8, (2,)),
        (OUE(1.0, 17), np.uint8, (3,)),
        (SubsetSelection(1.0, 10), np.uint8, (3,)),
        (SubsetSelection(1.0, 1000), np.uint16, (269,)),
        (HadamardResponse(1.0, 127), np.uint8, ()),
        (HadamardResponse(1.0, 256), np.uint16, ()),
        (OLH(1.0, 10), np.dtype([("seed", np.uint64), ("bucket", np.uint8)]), ()),
        (OLH(6.0, 10), np.dtype([("seed", np.uint64), ("bucket", np.uint16)]), ()),
    ],
    ids=repr,
)
def test_reports_are_compact(oracle, dtype, width):
    reports = oracle.perturb([0, 1, 1, 0, 1], rng=0)
    assert reports.dtype == dtype
    assert reports.shape == (5, *width)


@pytest.mark.parametrize(
    ("oracle", "bits"),
    [
        (GRR(1.0, 8), 3),
        (SUE(1.0, 13), 13),
        (OUE(1.0, 13), 13),
        (OLH(1.0, 100), 64 + 2),
        (BLH(1.0, 100), 64 + 1),
        (SubsetSelection(1.0, 10), math.log2(math.comb(10, 3))),
        (HadamardResponse(1.0, 8), 4),
        (HadamardResponse(1.0, 7), 3),
    ],
    ids=repr,
)
def test_report_bits(oracle, bits):
    assert oracle.report_bits == pytest.approx(bits, rel=1e-12)


@pytest.mark.parametrize("d", [2, 7, 8, 9, 21])
@pytest.mark.parametrize("epsilon", [0.3, 1.5])
@every_oracle
def test_support_counts_equal_a_naive_loop_over_reports(cls, epsilon, d):
    oracle = cls(epsilon, d)
    reports = oracle.perturb(np.arange(300) % d, rng=37)
    naive = np.zeros(d, dtype=np.int64)
    for report in reports:
        naive[naive_support(oracle, report)] += 1
    counts = oracle.support_counts(reports)
    assert_array_equal(counts, naive)
    assert counts.dtype == np.int64


def test_unary_counts_do_not_overflow_a_byte():
    reports = np.full((1_000, 1), 0xA0, dtype=np.uint8)  # every user supports values 0 and 2
    assert_array_equal(OUE(1.0, 4).support_counts(reports), [1_000, 0, 1_000, 0])


@every_oracle
def test_reports_survive_slicing_concatenation_and_disk(cls, tmp_path):
    oracle = cls(1.0, 13)
    reports = oracle.perturb(np.arange(400) % 13, rng=41)
    counts = oracle.support_counts(reports)
    batches = [reports[:1], reports[1:150], reports[150:]]
    assert_array_equal(sum(oracle.support_counts(batch) for batch in batches), counts)
    assert_array_equal(oracle.support_counts(np.concatenate(batches[::-1])), counts)
    assert_array_equal(
        oracle.support_counts(reports[::2]) + oracle.support_counts(reports[1::2]),
        counts,
        err_msg="strided",
    )
    np.save(tmp_path / "reports.npy", reports)
    assert_array_equal(oracle.support_counts(np.load(tmp_path / "reports.npy")), counts)


@every_oracle
def test_the_server_changes_no_report_and_the_client_no_value(cls):
    oracle = cls(1.0, 13)
    values = np.arange(100) % 13
    values.flags.writeable = False
    reports = oracle.perturb(values, rng=43)
    before = reports.copy()
    reports.flags.writeable = False
    oracle.support_counts(reports)
    assert_array_equal(reports, before)
    assert_array_equal(values, np.arange(100) % 13)


@every_oracle
def test_reports_repeat_with_the_seed_and_only_then(cls):
    oracle = cls(1.0, 13)
    values = np.arange(100) % 13
    first = oracle.perturb(values, rng=5)
    assert_array_equal(first, oracle.perturb(values, rng=np.random.default_rng(5)))
    assert (first != oracle.perturb(values, rng=6)).any()
    fresh = oracle.perturb(values)
    again = oracle.perturb(values, rng=None)
    assert (fresh != again).any()
    assert fresh.dtype == first.dtype
    assert oracle.support_counts(fresh).shape == (13,)


@every_oracle
def test_without_a_seed_the_words_come_from_the_operating_system(cls, monkeypatch):
    monkeypatch.setattr(
        np.random, "default_rng", lambda *_: pytest.fail("numpy's generator was used")
    )
    sizes = []
    entropy = randomness.os.urandom
    monkeypatch.setattr(randomness.os, "urandom", lambda size: sizes.append(size) or entropy(size))
    cls(1.0, 13).perturb([0, 5, 12])
    assert sum(sizes) >= 3 * 8


@pytest.mark.parametrize("rng", [None, 0])
@every_oracle
def test_no_users_give_no_reports_and_zero_counts(cls, rng):
    oracle = cls(1.0, 13)
    reports = oracle.perturb([], rng=rng)
    assert len(reports) == 0
    assert reports.dtype == oracle.perturb([1], rng=0).dtype
    assert_array_equal(oracle.support_counts(reports), np.zeros(13))


@every_oracle
def test_values_may_be_any_whole_numbers(cls):
    oracle = cls(1.0, 13)
    expected = oracle.perturb(np.array([0, 12, 7]), rng=0)
    for values in ([0, 12, 7], np.array([0.0, 12.0, 7.0]), np.array([0, 12, 7], dtype=np.uint8)):
        assert_array_equal(oracle.perturb(values, rng=0), expected)


@pytest.mark.parametrize("d", [2, 3, 9, 64, 300])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_subset_reports_are_strictly_ascending(d, epsilon):
    oracle = SubsetSelection(epsilon, d)
    reports = oracle.perturb(np.arange(500) % d, rng=47).astype(np.int64)
    assert reports.shape == (500, oracle.k)
    assert (np.diff(reports, axis=1) > 0).all()
    assert reports.min() >= 0
    assert reports.max() < d


def test_local_hashing_on_a_large_domain():
    oracle = OLH(1.0, d=42_178)
    reports = oracle.perturb([0, 42_177, 42_177], rng=1)
    hashes = hash_values(reports["seed"], oracle.d, oracle.g)
    assert_array_equal(
        oracle.support_counts(reports), (hashes == reports["bucket"][:, None]).sum(axis=0)
    )


@pytest.mark.parametrize("size", [1, 2, 8, 256])
def test_walsh_hadamard_is_the_product_with_the_sylvester_matrix(size):
    x = np.random.default_rng(size).integers(-(10**9), 10**9, size)
    before = x.copy()
    assert_array_equal(walsh_hadamard(x), scipy.linalg.hadamard(size) @ x)
    assert_array_equal(x, before)


@pytest.mark.parametrize(
    ("d", "columns"), [(2, 4), (3, 4), (4, 8), (7, 8), (8, 16), (1023, 1024), (1024, 2048)]
)
def test_hadamard_has_the_smallest_power_of_two_columns_above_d(d, columns):
    assert HadamardResponse(1.0, d).columns == columns


# What is refused


@pytest.mark.parametrize("epsilon", [0, 0.0, -1, -0.5, math.nan, math.inf, -math.inf])
@every_oracle
def test_a_budget_that_is_not_positive_and_finite_is_refused(cls, epsilon):
    with pytest.raises(InvalidInputError, match=r"epsilon must be a finite number > 0, got"):
        cls(epsilon, 4)


@pytest.mark.parametrize("epsilon", ["1", None, True, np.True_, [1.0], 1 + 0j])
@every_oracle
def test_a_budget_that_is_no_number_is_refused(cls, epsilon):
    with pytest.raises(InvalidTypeError, match="epsilon must be a number, got"):
        cls(epsilon, 4)


@pytest.mark.parametrize("d", [2, 4, 13, 37])
@pytest.mark.parametrize("epsilon", [1e-200, 1000])
@every_oracle
def test_an_extreme_budget_is_refused(cls, epsilon, d):
    with pytest.raises(InvalidInputError, match=r"use a (less extreme|smaller) epsilon"):
        cls(epsilon, d)


@every_oracle
def test_a_budget_beyond_the_floats_is_refused(cls):
    with pytest.raises(LdpoptError, match="epsilon"):
        cls(10**400, 4)


@pytest.mark.parametrize("d", [1, 0, -3])
@every_oracle
def test_a_domain_of_fewer_than_two_values_is_refused(cls, d):
    with pytest.raises(
        InvalidInputError, match=rf"d \(the number of values\) must be at least 2, got {d}"
    ):
        cls(1.0, d)


@pytest.mark.parametrize("d", [2.5, math.nan, math.inf, "4", None, True, [4]])
@every_oracle
def test_a_domain_size_that_is_not_whole_is_refused(cls, d):
    with pytest.raises(
        InvalidTypeError, match=r"d \(the number of values\) must be a whole number, got"
    ):
        cls(1.0, d)


@every_oracle
def test_a_domain_size_may_be_a_whole_float(cls):
    assert cls(1, np.float64(4.0)).d == 4


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0, 1, 4, 9], r"values must lie in 0 \.\. 3, found 4 at index 2"),
        ([0, -1], r"values must lie in 0 \.\. 3, found -1 at index 1"),
        ([1, 2.5], "values must be whole numbers, found 2.5 at index 1"),
        ([1, math.nan, math.nan], "values must be whole numbers, found nan at index 1"),
        ([1, 2, math.inf], "found inf at index 2"),
        (
            [[0, 1], [2, 3]],
            r"values must have shape \(n,\), one value per user, got shape \(2, 2\)",
        ),
        (2, r"values must have shape \(n,\), one value per user, got shape \(\)"),
        ([[0], [1, 2]], "values must be a rectangular array of numbers"),
        (np.array([2**64 - 1], dtype=np.uint64), "found 18446744073709551615 at index 0"),
    ],
)
@every_oracle
def test_values_that_are_not_in_the_domain_are_refused_before_any_draw(
    cls, values, message, monkeypatch
):
    monkeypatch.setattr(randomness, "words", lambda *_: pytest.fail("something was randomised"))
    with pytest.raises(InvalidInputError, match=message):
        cls(1.0, 4).perturb(values, rng=0)


@pytest.mark.parametrize("value", [99, math.nan])
def test_a_scalar_value_out_of_the_domain_is_refused_by_a_message_of_ours(value):
    with pytest.raises(InvalidInputError, match="values"):
        GRR(1.0, 4).perturb(value, rng=0)


@pytest.mark.parametrize("values", [[True, False], None, [None, 1], [2**70], {1, 2}])
@every_oracle
def test_values_that_are_no_numbers_are_refused(cls, values):
    with pytest.raises(InvalidTypeError, match="values must be an array of numbers"):
        cls(1.0, 4).perturb(values, rng=0)


@pytest.mark.parametrize("values", [["ab", "c"], "ab", np.array(["ab"]), [("ab", 1)]])
@every_oracle
def test_texts_without_labels_are_refused_with_the_remedy(cls, values):
    with pytest.raises(InvalidTypeError, match=r"got the text 'ab': pass labels=, the labels"):
        cls(1.0, 4).perturb(values, rng=0)


@pytest.mark.parametrize("rng", ["seed", 1.5, True, np.random.RandomState(0)])
def test_a_source_of_randomness_of_another_kind_is_refused(rng):
    with pytest.raises(InvalidTypeError, match="rng must be a numpy"):
        GRR(1.0, 4).perturb([1], rng=rng)


def test_a_negative_seed_is_refused():
    with pytest.raises(InvalidInputError, match="rng seed must be at least 0, got -1"):
        GRR(1.0, 4).perturb([1], rng=-1)


@pytest.mark.parametrize(
    ("oracle", "reports", "message"),
    [
        (GRR(1.0, 4), [0, 3, 4], r"report 2 is out of range: found 4, expected 0 \.\. 3"),
        (GRR(1.0, 4), [-1], r"report 0 is out of range: found -1, expected 0 \.\. 3"),
        (GRR(1.0, 4), [[0, 3]], r"have shape \(n,\), got \(1, 2\)"),
        (GRR(1.0, 4), np.int64(3), r"have shape \(n,\), got \(\)"),
        (HadamardResponse(1.0, 4), [7, 8], r"report 1 is out of range: found 8, expected 0 \.\. 7"),
        (OUE(1.0, 13), [[1, 8, 0]], r"have shape \(n, 2\), got \(1, 3\)"),
        (OUE(1.0, 13), [1, 8], r"have shape \(n, 2\), got \(2,\)"),
        (
            OUE(1.0, 13),
            [[1, 8], [256, 0]],
            r"report 1 is out of range: found 256, expected 0 \.\. 255",
        ),
        (OUE(1.0, 13), [[255, 0xF8], [0, 4]], "report 1 has bits beyond its 13 values"),
        (SUE(1.0, 2), [[0x20]], "report 0 has bits beyond its 2 values"),
        (SubsetSelection(1.0, 10), [[0, 1, 2], [0, 1, 10]], "report 1 is out of range: found 10"),
        (
            SubsetSelection(1.0, 10),
            [[0, 1, 2], [0, 2, 1]],
            "report 1 is not a set in ascending order: 3 distinct",
        ),
        (SubsetSelection(1.0, 10), [[3, 3, 4]], "report 0 is not a set in ascending order"),
        (SubsetSelection(1.0, 10), [[0, 1]], r"have shape \(n, 3\), got \(1, 2\)"),
    ],
)
def test_reports_that_no_client_sends_are_refused(oracle, reports, message):
    with pytest.raises(InvalidInputError, match=message):
        oracle.support_counts(reports)


@pytest.mark.parametrize("reports", [[0.0, 1.0], ["a"], [True, False], [None]])
@pytest.mark.parametrize(
    "oracle",
    [GRR(1.0, 4), OUE(1.0, 4), SubsetSelection(1.0, 4), HadamardResponse(1.0, 4)],
    ids=repr,
)
def test_reports_of_another_type_are_refused(oracle, reports):
    with pytest.raises(
        InvalidTypeError, match="reports must be an array of whole numbers, got an array of"
    ):
        oracle.support_counts(reports)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.uint64])
@pytest.mark.parametrize(
    "oracle",
    [GRR(1.0, 6), OUE(1.0, 6), SubsetSelection(1.0, 6), HadamardResponse(1.0, 6)],
    ids=repr,
)
def test_reports_may_be_stored_as_any_integers(oracle, dtype):
    reports = oracle.perturb(np.arange(60) % 6, rng=2)
    assert_array_equal(oracle.support_counts(reports.astype(dtype)), oracle.support_counts(reports))


def hashing_reports(bucket, fields=(("seed", np.uint64), ("bucket", np.int64))):
    reports = np.zeros(3, dtype=list(fields))
    reports[fields[1][0]][1] = bucket
    return reports


@pytest.mark.parametrize("bucket", [4, -1])
def test_local_hashing_refuses_a_bucket_that_it_does_not_have(bucket):
    with pytest.raises(
        InvalidInputError, match=rf"report 1 is out of range: bucket {bucket}, expected 0 \.\. 3"
    ):
        OLH(1.0, 9).support_counts(hashing_reports(bucket))


def test_reports_of_a_client_with_more_buckets_are_refused():
    reports = OLH(3.0, 9).perturb(np.zeros(50, dtype=int), rng=0)
    with pytest.raises(InvalidInputError, match="made with another g or epsilon"):
        BLH(3.0, 9).support_counts(reports)


@pytest.mark.parametrize(
    ("reports", "error", "message"),
    [
        ([0, 1], InvalidTypeError, "records of seed and bucket"),
        (
            hashing_reports(0, [("bucket", np.uint64), ("seed", np.uint8)]),
            InvalidTypeError,
            "records of seed and bucket",
        ),
        (
            hashing_reports(0, [("seed", float), ("bucket", np.uint8)]),
            InvalidTypeError,
            "field 'seed' of the reports",
        ),
        (
            hashing_reports(0, [("seed", np.uint64), ("bucket", float)]),
            InvalidTypeError,
            "field 'bucket' of the reports",
        ),
        (hashing_reports(0).reshape(1, 3), InvalidInputError, r"have shape \(n,\), got \(1, 3\)"),
    ],
)
def test_local_hashing_refuses_other_records(reports, error, message):
    with pytest.raises(error, match=message):
        OLH(1.0, 9).support_counts(reports)


@pytest.mark.parametrize(
    ("true_counts", "error", "message"),
    [
        ([1, 2, 3], InvalidInputError, r"true_counts must have shape \(4,\), got \(3,\)"),
        ([[1, 2, 3, 4]], InvalidInputError, r"true_counts must have shape \(4,\), got \(1, 4\)"),
        ([1, -2, 3, 4], InvalidInputError, "true_counts must be >= 0, found -2 at index 1"),
        (
            [1, 2, 3.5, 4],
            InvalidInputError,
            "true_counts must be whole numbers, found 3.5 at index 2",
        ),
        (
            [1, 2, 3, math.nan],
            InvalidInputError,
            "true_counts must be whole numbers, found nan at index 3",
        ),
        ([0, 0, 0, 0], InvalidInputError, "true_counts has no user"),
        (["1", "2", "3", "4"], InvalidTypeError, "true_counts must be an array of numbers"),
    ],
)
@every_oracle
def test_wrong_true_counts_are_refused(cls, true_counts, error, message):
    with pytest.raises(error, match=message):
        cls(1.0, 4).simulate_counts(true_counts, 0)


@pytest.mark.parametrize(
    ("trials", "error", "message"),
    [
        (0, InvalidInputError, "trials must be at least 1, got 0"),
        (-1, InvalidInputError, "trials must be at least 1, got -1"),
        (1.5, InvalidTypeError, "trials must be a whole number"),
        (True, InvalidTypeError, "trials must be a whole number"),
    ],
)
def test_a_wrong_number_of_trials_is_refused(trials, error, message):
    with pytest.raises(error, match=message):
        OUE(1.0, 4).simulate_counts([1, 2, 3, 4], 0, trials=trials)


@pytest.mark.parametrize("rounding", ["cieling", "", None, 1, 0.5])
def test_an_unknown_rounding_is_refused_with_the_known_ones(rounding):
    with pytest.raises(InvalidInputError, match=r"unknown rounding .*: known: nearest, floor"):
        OLH(1.0, 4, rounding=rounding)
    with pytest.raises(InvalidInputError, match=r"unknown rounding .*: known: best, nearest"):
        SubsetSelection(1.0, 4, rounding=rounding)


@pytest.mark.parametrize(
    ("rounding", "nearest"), [("neerest", "nearest"), ("Floor", "floor"), (["floor"], "floor")]
)
def test_a_misspelt_rounding_suggests_the_nearest(rounding, nearest):
    with pytest.raises(
        InvalidInputError, match=rf"unknown rounding .*: did you mean '{nearest}'\?"
    ):
        OLH(1.0, 4, rounding=rounding)


def test_misspelt_options_do_not_vanish():
    for cls in CLASSES:
        with pytest.raises(TypeError, match="unexpected keyword"):
            cls(1.0, 4, epsilom=2)


def test_every_oracle_is_known_by_its_name_in_the_order_of_the_tables():
    assert {name: cls.__name__ for name, cls in ORACLES.items()} == {
        "grr": "GRR",
        "sue": "SUE",
        "oue": "OUE",
        "olh": "OLH",
        "blh": "BLH",
        "ss": "SubsetSelection",
        "hr": "HadamardResponse",
    }
    assert all(getattr(oracles, cls.__name__) is cls for cls in CLASSES)
    assert list(ORACLES) == ["grr", "sue", "oue", "olh", "blh", "ss", "hr"]


@every_oracle
def test_the_number_of_supported_values_is_stated_where_it_is_fixed(cls):
    oracle = cls(0.5, 9)
    fixed = {"grr": 1, "ss": 3}
    assert oracle.report_form.fixed_size == fixed.get(cls.name)
    if cls.name in fixed:
        counts = oracle.support_counts(oracle.perturb(np.arange(9), rng=1))
        assert counts.sum() == 9 * fixed[cls.name]


# --- values by their labels -----------------------------------------------------------------------

ANIMALS = ["cat", "dog", "owl"]


def test_labels_pass_through_the_client():
    oracle = GRR(1.0, 3)
    by_label = oracle.perturb(["dog", "cat", "owl"], labels=ANIMALS, rng=1)
    assert by_label.tolist() == oracle.perturb([1, 0, 2], rng=1).tolist()
    assert oracle.perturb(np.array(["owl"]), labels=tuple(ANIMALS), rng=1).shape == (1,)


@pytest.mark.parametrize(
    ("values", "labels", "words"),
    [
        (["cat", "cow"], ANIMALS, "found 'cow' at index 1"),
        (["cat", 1], ANIMALS, "found 1 at index 1"),
        (["cat", ["dog"]], ANIMALS, "among the 3 labels"),
        ("cat", ANIMALS, "a list of labels, got the text 'cat'"),
        (["cat"], ANIMALS[:2], "must name all 3 values of the domain, got 2"),
        (["cat"], ["cat", "dog", "cat"], "0 and 2 are 'cat'"),
        (["0"], None, "values"),
    ],
)
def test_labels_that_cannot_be_right_are_named(values, labels, words):
    with pytest.raises((InvalidInputError, InvalidTypeError), match=words):
        GRR(1.0, 3).perturb(values, labels=labels)


def test_reports_whose_bits_are_not_packed_have_a_remedy():
    bits = np.array([[1, 0, 0, 1], [0, 1, 0, 0]])
    oracle = oracles.OUE(epsilon=1.0, d=4)
    with pytest.raises(InvalidInputError, match=r"by np\.packbits\(reports, axis=1\)"):
        oracle.support_counts(bits)
    assert oracle.support_counts(np.packbits(bits, axis=1)).tolist() == [1, 1, 0, 1]
