"""Counts that reports of the protocol hardly give: another epsilon or n is noticed by their sum."""

import itertools
import math
import warnings

import numpy as np
import pytest

from ldpopt import FrequencyEstimate, Noise, postprocess
from ldpopt.errors import ImplausibleCountsWarning, InvalidInputError, LdpoptWarning
from ldpopt.estimate.rawness import are_surely_processed
from ldpopt.oracles import BLH, GRR, OLH, OUE, SUE, HadamardResponse, SubsetSelection
from ldpopt.protocol import PureProtocol

# The sums of GRR and subset selection are known exactly.
ORACLES = [SUE, OUE, OLH, BLH, HadamardResponse]

USERS = np.array([40_000, 30_000, 10_000, 5_000, 5_000, 4_000, 3_000, 2_000, 1_000, 0])
N = int(USERS.sum())

pytestmark = pytest.mark.filterwarnings("error:implausible")


@pytest.mark.parametrize("oracle", ORACLES)
def test_counts_of_another_epsilon_are_implausible(oracle):
    counts = oracle(1.0, 10).simulate_counts(USERS, 0)
    assert oracle(1.0, 10).estimate(counts, N).n == N
    with pytest.warns(ImplausibleCountsWarning, match="another epsilon"):
        oracle(2.0, 10).estimate(counts, N)


def test_counts_of_another_epsilon_are_refused_where_the_sum_is_known():
    counts = SubsetSelection(1.0, 10).simulate_counts(USERS, 0)
    with pytest.raises(InvalidInputError, match="counts must sum to"):
        SubsetSelection(2.0, 10).estimate(counts, N)


@pytest.mark.parametrize("oracle", ORACLES)
def test_counts_of_another_number_of_reports_are_implausible(oracle):
    counts = oracle(1.0, 10).simulate_counts(USERS, 0)
    with pytest.warns(ImplausibleCountsWarning, match="another n"):
        oracle(1.0, 10).estimate(counts, 2 * N)


def test_the_message_states_what_came_what_is_expected_and_the_trial():
    oracle = OUE(epsilon=1.0, d=3)
    stack = oracle.simulate_counts([500, 300, 200], 0, trials=4)
    stack[2] = [900, 900, 900]
    expected = 1000 * (oracle.p + 2 * oracle.q)
    with pytest.warns(LdpoptWarning) as record:
        oracle.estimate(stack, 1000)
    assert [one.category for one in record] == [ImplausibleCountsWarning]
    message = str(record[0].message)
    assert message.startswith("implausible counts: they sum to 2,700 in trial 2, and 1,000 reports")
    assert f"have a sum of {expected:,.0f} ± " in message
    assert record[0].filename == __file__


def test_a_count_of_a_part_of_the_values_is_noticed():
    counts = OUE(epsilon=1.0, d=10).simulate_counts(USERS, 0)
    counts[5:] = 0
    with pytest.warns(ImplausibleCountsWarning, match="a part of the values"):
        OUE(epsilon=1.0, d=10).estimate(counts, N)


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("d", [2, 3, 16, 65])
@pytest.mark.parametrize("n", [1, 20, 1000])
def test_collections_of_the_protocol_never_warn(oracle, d, n):
    """The proven rate of false alarms is 2.5e-14, for few reports and for all frequencies."""
    rng = np.random.default_rng(d * n)
    alone = np.zeros(d, dtype=np.int64)
    alone[-1] = n
    spread = rng.multinomial(n, np.full(d, 1 / d))
    for users in (alone, spread):
        for epsilon in (0.1, 1.0, 4.0):
            protocol = oracle(epsilon, d)
            counts = protocol.simulate_counts(users, rng, trials=50)
            assert protocol.estimate(counts, n).frequencies.shape == (50, d)


def test_one_report_of_any_kind_passes():
    """A column of the Hadamard matrix that supports all values is rare, and comes all the same."""
    for oracle in (HadamardResponse(1.0, 1000), OUE(1.0, 1000)):
        assert oracle.estimate(np.ones(1000, dtype=int), 1).n == 1


@pytest.mark.parametrize("d", [2, 3, 6, 7, 8, 13])
def test_the_variance_of_the_size_bounds_that_of_every_user_of_hadamard_response(d):
    oracle = HadamardResponse(epsilon=1.5, d=d)
    columns = np.arange(oracle.columns)
    rows = np.arange(1, d + 1)
    signs = 1 - 2 * (np.bitwise_count(columns & rows[:, None]).astype(int) & 1)
    sizes = (signs > 0).sum(axis=0)
    law = (1 + (2 * oracle.p - 1) * signs) / oracle.columns
    mean = law @ sizes
    variance = law @ sizes**2 - mean**2
    assert np.allclose(mean, oracle.mean_size)
    assert np.all(variance <= oracle.largest_size_variance + 1e-12)
    # With all rows but the constant one each is the product of (d-1)/2 pairs of others.
    if d + 1 == oracle.columns:
        assert np.allclose(variance, oracle.largest_size_variance)


@pytest.mark.parametrize("oracle", [SUE(1.0, 5), OUE(2.0, 4), OLH(1.0, 6), BLH(0.5, 3)])
def test_the_variance_of_the_size_is_that_of_independent_values(oracle):
    """Over all reports, one by one: the ideal hash supports values as independent bits do."""
    mean = square = 0.0
    chances = [oracle.p, *[oracle.q] * (oracle.d - 1)]
    for bits in itertools.product([0, 1], repeat=oracle.d):
        pairs = zip(chances, bits, strict=True)
        probability = math.prod(p if bit else 1 - p for p, bit in pairs)
        mean += probability * sum(bits)
        square += probability * sum(bits) ** 2
    assert np.isclose(oracle.mean_size, mean)
    assert np.isclose(oracle.largest_size_variance, square - mean**2)


@pytest.mark.parametrize("oracle", [GRR(1.0, 5), SubsetSelection(1.0, 12)])
def test_reports_of_one_size_have_no_variance_of_it(oracle):
    assert oracle.largest_size_variance < 1e-12
    assert oracle.has_fixed_size


def test_a_protocol_of_p_and_q_alone_has_the_variance_of_any_size():
    oracle = OUE(epsilon=1.0, d=10)
    bare = PureProtocol(1.0, 10, p=oracle.p, q=oracle.q)
    assert bare.largest_size_variance == bare.mean_size * (10 - bare.mean_size)
    counts = oracle.simulate_counts(USERS, 0)
    FrequencyEstimate.from_counts(counts, N, bare)
    with pytest.warns(ImplausibleCountsWarning):
        FrequencyEstimate.from_counts(counts, 2 * N, bare)


def test_sums_beyond_64_bits_are_judged():
    oracle = SUE(epsilon=1.0, d=16)
    n = 2**61
    others = round(n * oracle.q)
    counts = np.full(16, others)
    counts[0] = round(n * oracle.p)
    assert oracle.estimate(counts, n).n == n
    with pytest.warns(ImplausibleCountsWarning):
        oracle.estimate(np.full(16, n), n)


def test_frequencies_with_a_noise_are_no_counts():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FrequencyEstimate([0.5, 0.2], noise=Noise.of_reports(1000, OUE(epsilon=1.0, d=2)))


def test_a_sum_of_one_value_per_report_is_named():
    with pytest.warns(ImplausibleCountsWarning, match=r"a sum of n is that of the users' own val"):
        OUE(epsilon=1.0, d=10).estimate(USERS, N)


@pytest.mark.parametrize("oracle", [*ORACLES, SubsetSelection])
@pytest.mark.parametrize("is_raw", [None, True])
def test_shares_of_reports_are_no_estimates(oracle, is_raw):
    protocol = oracle(0.5, 10)
    counts = protocol.simulate_counts(USERS, 0)
    with pytest.warns(
        ImplausibleCountsWarning, match=r"use oracle\.estimate\(counts, n\)"
    ) as record:
        FrequencyEstimate(counts / N, n=N, oracle=protocol, is_raw=is_raw)
    message = str(record[0].message)
    assert message.startswith(f"implausible frequencies: they sum to {counts.sum() / N:.6g}, as")
    assert record[0].filename == __file__


def test_the_trial_of_shares_is_named():
    protocol = OUE(epsilon=1.0, d=10)
    counts = protocol.simulate_counts(USERS, 0)
    estimates = np.stack([protocol.estimate(counts, N).frequencies, counts / N])
    with pytest.warns(ImplausibleCountsWarning, match="in trial 1, as the shares"):
        FrequencyEstimate(estimates, n=N, oracle=protocol)


@pytest.mark.parametrize("oracle", [GRR, *ORACLES, SubsetSelection])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, math.log(3), 4.0])
@pytest.mark.parametrize("n", [10, 1000, 10_000])
def test_estimates_are_no_shares(oracle, epsilon, n):
    """Raw ones, processed ones, true frequencies, and ones that are rounded to multiples of 1/n."""
    protocol = oracle(epsilon, 10)
    users = np.random.default_rng(n).multinomial(n, USERS / N)
    estimate = protocol.estimate(protocol.simulate_counts(users, n, trials=10), n)
    raw = estimate.frequencies
    processed = postprocess(estimate, "norm-sub").frequencies
    for frequencies in (raw, np.maximum(raw, 0), processed, users / n, np.rint(raw * n) / n):
        FrequencyEstimate(frequencies, n=n, oracle=protocol)


@pytest.mark.parametrize("oracle", [GRR, *ORACLES, SubsetSelection])
@pytest.mark.parametrize("method", ["norm-sub", "norm-mul", "mle-apx"])
def test_processed_frequencies_that_are_stated_to_be_raw_are_noticed(oracle, method):
    protocol = oracle(0.5, 10)
    held_by_few = [90_000, 10_000, *[0] * 8]
    raw = protocol.estimate(protocol.simulate_counts(held_by_few, 0), N)
    cut = postprocess(raw, method).frequencies
    assert (cut == 0).any()
    with pytest.warns(ImplausibleCountsWarning, match="pass is_raw=False, or raw=") as record:
        FrequencyEstimate(cut, n=N, oracle=protocol, is_raw=True)
    (warning,) = record
    assert warning.filename == __file__
    with pytest.warns(
        ImplausibleCountsWarning, match="is_raw=True, and none is neg.* in trial 1, "
    ):
        FrequencyEstimate([raw.frequencies, cut], n=N, oracle=protocol, is_raw=True)
    # Nothing wrong is stated here.
    FrequencyEstimate(cut, n=N, oracle=protocol)
    FrequencyEstimate(cut, n=N, oracle=protocol, is_raw=False)
    FrequencyEstimate(cut, n=N, oracle=protocol, raw=raw)
    FrequencyEstimate(cut, noise=raw.noise.variance(cut), is_raw=True)


@pytest.mark.parametrize("ratio", [2, 3, 5, 9])  # e to the epsilon, with which n q may be whole
@pytest.mark.parametrize("n", [1, 7, 12, 40])
def test_no_raw_estimate_passes_for_a_processed_one(ratio, n):
    """Of all counts that GRR of three values may give; rounded to digits and to 32 bits, too."""
    protocol = GRR(math.log(ratio), 3)
    counts = [(i, j, n - i - j) for i in range(n + 1) for j in range(n + 1 - i)]
    raw = (np.array(counts) / n - protocol.q) / (protocol.p - protocol.q)
    forms = [raw, raw.astype(np.float32).astype(np.float64)]
    for digits in range(1, 13):
        forms.append(np.round(raw, digits))
        forms.append(np.char.mod(f"%.{digits}g", raw).astype(np.float64))
    for frequencies in forms:
        assert not are_surely_processed(frequencies, n, protocol).any()


@pytest.mark.parametrize(
    ("frequencies", "n"),
    [
        ([0.5, 0.3125, 0.1875, 0.0], 10_000),  # a toy
        ([1 / 3, 1 / 3, 1 / 6, 0.0], 10_000),  # another sum
        ([1 / 3, 2 / 3 + 1 / 7000, 0.0, -1 / 7000], 10_000),
        ([1 / 3, 1 / 2, 1 / 6 - 1e-9, 1e-9], 10_000),  # no zero
        ([1 / 3, 1 / 2, 1 / 6, 0.0], 10**8),  # any number may be a count, but for rounding
        ([1 / 3, 1 / 2, 1 / 6, 0.0], 2**41),
    ],
)
def test_other_frequencies_may_be_raw(frequencies, n):
    protocol = OUE(epsilon=1.0, d=4)
    with pytest.warns(ImplausibleCountsWarning):
        FrequencyEstimate([1 / 3, 1 / 2, 1 / 6, 0.0], n=10_000, oracle=protocol, is_raw=True)
    FrequencyEstimate(frequencies, n=n, oracle=protocol, is_raw=True)


def test_raw_estimates_that_are_whole_numbers_of_reports_are_no_shares():
    """At this budget p is 1/2 and q is 1/4: estimates from whole counts are multiples of 1/n."""
    protocol = OUE(epsilon=math.log(3), d=4)
    estimate = protocol.estimate([4000, 3500, 3000, 2650], n=10_000)
    assert np.allclose(10_000 * estimate.frequencies, [6000, 4000, 2000, 600])
    FrequencyEstimate(estimate.frequencies, n=10_000, oracle=protocol)


def test_numbers_that_are_no_multiples_of_a_report_are_no_shares():
    protocol = OUE(epsilon=1.0, d=10)
    shares = protocol.simulate_counts(USERS, 0) / N
    FrequencyEstimate(shares + np.tile([0.3, -0.3], 5) / N, n=N, oracle=protocol)


def test_what_is_known_to_be_processed_may_have_any_sum():
    protocol = OUE(epsilon=1.0, d=10)
    shares = protocol.simulate_counts(USERS, 0) / N
    assert FrequencyEstimate(shares, n=N, oracle=protocol, is_raw=False).n == N


def test_numbers_beyond_the_doubles_are_no_shares():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FrequencyEstimate([1e308, 1e308, -1e308], n=10**6, oracle=OUE(epsilon=1.0, d=3))


def test_one_report_is_a_report():
    with pytest.raises(InvalidInputError, match=r"^counts of 1 report must lie in 0 \.\. 1,"):
        OUE(epsilon=1.0, d=2).estimate([2, 0], 1)
