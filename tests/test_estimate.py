"""Estimates: the unbiased formula, what is kept, and what is refused with its position."""

import math
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ldpopt import (
    METHODS,
    FrequencyEstimate,
    Problem,
    constraints,
    datasets,
    losses,
    oracles,
    postprocess,
)
from ldpopt.errors import (
    ImplausibleCountsWarning,
    InvalidInputError,
    InvalidTypeError,
    LdpoptWarning,
)
from ldpopt.estimate import Noise
from ldpopt.oracles import GRR, ORACLES, OUE, HadamardResponse
from ldpopt.protocol import PureProtocol
from tests.every_two import every_two
from tests.tolerances import CERTIFIED, ROUNDING, SIGMAS

QUARTERS = PureProtocol(1.0, 3, p=0.5, q=0.25)


def test_the_estimate_of_counts_by_hand():
    estimate = FrequencyEstimate.from_counts([50, 25, 0], 100, QUARTERS)
    assert_array_equal(estimate.frequencies, [1.0, 0.0, -1.0])
    assert (estimate.n, estimate.d, estimate.oracle, estimate.method) == (100, 3, QUARTERS, "base")
    assert estimate.sigma == math.sqrt(0.25 * 0.75 / 0.25**2 / 100)


@pytest.mark.parametrize("name", ORACLES)
def test_expected_counts_give_back_the_true_frequencies(name):
    oracle = ORACLES[name](1.0, 4)
    n = 10**15  # so many users that rounding counts is invisible
    truth = np.array([0.5, 0.3, 0.2, 0.0])
    counts = np.round(n * (truth * oracle.p + (1 - truth) * oracle.q))
    estimate = oracle.estimate(counts, n)
    assert_allclose(estimate.frequencies, truth, atol=10 * ROUNDING)
    assert estimate.oracle is oracle


def test_a_stack_of_trials_is_estimated_row_by_row():
    counts = np.array([[50, 25, 0], [100, 0, 3]])
    stack = FrequencyEstimate.from_counts(counts, 100, QUARTERS)
    assert stack.frequencies.shape == (2, 3)
    for row, single in zip(stack.frequencies, counts, strict=True):
        assert_array_equal(row, FrequencyEstimate.from_counts(single, 100, QUARTERS).frequencies)
    assert "values: 2 trials of 3" in repr(stack)


def test_from_counts_leaves_the_counts_alone():
    counts = np.array([50, 25, 0])
    counts.flags.writeable = False
    FrequencyEstimate.from_counts(counts, 100, QUARTERS)
    assert_array_equal(counts, [50, 25, 0])


def test_frequencies_are_read_only_float64_and_the_callers_array_stays_writeable():
    array = np.array([0.5, 0.5])
    estimate = FrequencyEstimate(array)
    assert estimate.frequencies.dtype == np.float64
    with pytest.raises(ValueError, match="read-only"):
        estimate.frequencies[0] = 1
    assert array.flags.writeable
    assert FrequencyEstimate([1, 0]).frequencies.dtype == np.float64


def test_huge_finite_frequencies_are_kept():
    values = [1e308, 1e308, -1e-308]  # their sum overflows: each of them is finite all the same
    assert_array_equal(FrequencyEstimate(values).frequencies, values)


@pytest.mark.parametrize(
    ("counts", "n", "error", "message"),
    [
        (
            [50, 101, 0],
            100,
            InvalidInputError,
            r"counts of 100 reports must lie in 0 \.\. 100, found 101 at index 1",
        ),
        (
            [50, 25, -1],
            100,
            InvalidInputError,
            r"counts of 100 reports must lie in 0 \.\. 100, found -1 at index 2",
        ),
        ([[50, 25, 0], [0, 0, 200]], 100, InvalidInputError, "found 200 at trial 1, index 2"),
        (
            [50.5, 25, 0],
            100,
            InvalidInputError,
            "counts of 100 reports must be whole numbers, found 50.5 at index 0",
        ),
        (
            [50, 25, math.nan],
            100,
            InvalidInputError,
            "counts of 100 reports must be whole numbers, found nan at index 2",
        ),
        ([50, math.inf, 0], 100, InvalidInputError, "found inf at index 1"),
        (
            [50, 25],
            100,
            InvalidInputError,
            r"counts must have 3 values on the last axis, got shape \(2,\)",
        ),
        (50, 100, InvalidInputError, r"counts must have 3 values on the last axis, got shape \(\)"),
        ([], 100, InvalidInputError, "counts must have 3 values on the last axis"),
        (
            [0.5, 0.2, 1.0],
            100,
            InvalidInputError,
            r"found 0\.5 at index 0; shares of the reports are multiplied by n first",
        ),
        (["50", "25"], 100, InvalidTypeError, "an array of numbers, got an array of text"),
        (
            np.array([50, 25, 25], dtype=object),
            100,
            InvalidTypeError,
            r"got an array of object: convert it, as np.asarray\(..., dtype=float\) does",
        ),
        (
            [True, False, True],
            100,
            InvalidTypeError,
            "counts of 100 reports must be an array of numbers, got an array of bool",
        ),
        ([0, 0, 0], 0, InvalidInputError, r"n \(the number of reports\) must be at least 1, got 0"),
        (
            [0, 0, 0],
            -7,
            InvalidInputError,
            r"n \(the number of reports\) must be at least 1, got -7",
        ),
        (
            [0, 0, 0],
            1.5,
            InvalidTypeError,
            r"n \(the number of reports\) must be a whole number, got 1.5",
        ),
        (
            [0, 0, 0],
            math.nan,
            InvalidTypeError,
            r"n \(the number of reports\) must be a whole number, got nan",
        ),
        (
            [0, 0, 0],
            "9",
            InvalidTypeError,
            r"n \(the number of reports\) must be a whole number, got '9'",
        ),
        (
            [0, 0, 0],
            True,
            InvalidTypeError,
            r"n \(the number of reports\) must be a whole number, got True",
        ),
    ],
)
def test_counts_that_cannot_be_are_refused(counts, n, error, message):
    with pytest.raises(error, match=message):
        FrequencyEstimate.from_counts(counts, n, QUARTERS)
    with pytest.raises(error, match=message):
        GRR(1.0, 3).estimate(counts, n)


@pytest.mark.parametrize("name", ["grr", "ss"])
def test_counts_that_do_not_sum_to_what_all_reports_support_are_refused(name):
    oracle = ORACLES[name](1.0, 8)
    counts = oracle.simulate_counts([40, 10, 10, 10, 10, 10, 10, 0], 0, trials=2)
    oracle.estimate(counts, 100)
    total = int(counts[0].sum())
    counts[1, 3] += 1
    message = f"counts must sum to {total} in trial 1, got {total + 1}: each of the n = 100 reports"
    with pytest.raises(InvalidInputError, match=message):
        oracle.estimate(counts, 100)
    with pytest.raises(InvalidInputError, match=rf"counts must sum to {total}, got {total + 1}"):
        FrequencyEstimate.from_counts(counts[1], 100, oracle)
    # What p and q alone describe may support any number of values.
    FrequencyEstimate.from_counts(counts[1], 100, PureProtocol(1.0, 8, p=oracle.p, q=oracle.q))


def test_sums_of_counts_beyond_64_bits_are_exact():
    n = 2**62
    counts = np.array([n - 3, 1, 1, 1])
    GRR(1.0, 4).estimate(counts, n)
    # In 64 bits this sum would be 0.
    with pytest.raises(InvalidInputError, match=f"counts must sum to {n}, got {4 * n}"):
        GRR(1.0, 4).estimate(np.full(4, n), n)


@pytest.mark.parametrize("count", [101, -1, 0.5, math.nan])
def test_a_scalar_count_out_of_range_is_refused_by_a_message_of_ours(count):
    with pytest.raises(InvalidInputError, match="counts"):
        FrequencyEstimate.from_counts(count, 100, QUARTERS)


@pytest.mark.parametrize("oracle", ["oue", None, OUE])
def test_counts_of_something_that_is_no_oracle_are_refused(oracle):
    with pytest.raises(InvalidTypeError, match="oracle must be an oracle or a PureProtocol"):
        FrequencyEstimate.from_counts([1, 2, 3], 10, oracle)


@pytest.mark.parametrize(
    ("frequencies", "error", "message"),
    [
        (
            [0.5, math.nan, math.inf],
            InvalidInputError,
            "frequencies must be finite, found nan at index 1",
        ),
        (
            [math.inf, 0.5, -math.inf],
            InvalidInputError,
            "frequencies must be finite, found inf at index 0",
        ),
        (
            [1e308, 1e308, -math.inf],
            InvalidInputError,
            "frequencies must be finite, found -inf at index 2",
        ),
        ([[0.5, 0.5], [0.5, math.nan]], InvalidInputError, "found nan at trial 1, index 1"),
        (np.full((2, 3, 4), math.nan), InvalidInputError, "found nan at trial 0, 0, index 0"),
        (
            0.5,
            InvalidInputError,
            r"frequencies must have shape \(d,\) or \(trials, d\) with d >= 1, got shape \(\)",
        ),
        ([], InvalidInputError, r"with d >= 1, got shape \(0,\)"),
        (
            [[0.5], [0.2, 0.3]],
            InvalidInputError,
            "frequencies must be a rectangular array of numbers",
        ),
        (["a"], InvalidTypeError, "frequencies must be an array of numbers"),
        ([None, 0.5], InvalidTypeError, "frequencies must be an array of numbers"),
        (
            [0.5 + 1j],
            InvalidTypeError,
            "frequencies must be an array of numbers, got an array of complex",
        ),
    ],
)
def test_frequencies_that_cannot_be_are_refused_with_their_position(frequencies, error, message):
    with pytest.raises(error, match=message):
        FrequencyEstimate(frequencies)


def test_an_estimate_of_another_domain_is_refused():
    with pytest.raises(
        InvalidInputError,
        match=r"frequencies must have 3 values on the last axis, got shape \(2, 4\)",
    ):
        FrequencyEstimate(np.zeros((2, 4)), n=10, oracle=QUARTERS)


@pytest.mark.parametrize("oracle", ["oue", OUE, 3])
def test_an_oracle_of_another_type_is_refused(oracle):
    with pytest.raises(InvalidTypeError, match="oracle must be an oracle or a PureProtocol, such"):
        FrequencyEstimate([0.5, 0.5], n=10, oracle=oracle)


@pytest.mark.parametrize(
    ("n", "error"), [(0, InvalidInputError), (-1, InvalidInputError), (2.5, InvalidTypeError)]
)
def test_a_wrong_number_of_reports_is_refused(n, error):
    with pytest.raises(error, match=r"n \(the number of reports\) must be"):
        FrequencyEstimate([0.5, 0.5], n=n)


@pytest.mark.parametrize("facts", [{}, {"n": 10}, {"oracle": QUARTERS}])
def test_a_noise_level_that_is_unknown_is_not_invented(facts):
    with pytest.raises(
        InvalidInputError, match="needs the noise level of the estimate: build it as"
    ):
        _ = FrequencyEstimate([0.5, 0.3, 0.2], **facts).sigma


def test_counts_taken_for_frequencies_are_warned_of():
    with pytest.warns(LdpoptWarning, match="oracle.estimate"):
        FrequencyEstimate([120, 80, 0])


def test_frequencies_do_not_follow_the_callers_array():
    given = np.array([0.5, 0.5])
    view = given.view()
    view.flags.writeable = False
    estimates = [FrequencyEstimate(given), FrequencyEstimate(view)]
    given[0] = np.nan
    assert all(estimate.frequencies[0] == 0.5 for estimate in estimates)


@pytest.mark.parametrize(("shape", "axis"), [((0, 3), 0), ((2, 0, 3), 1)])
def test_empty_stacks_are_refused(shape, axis):
    message = rf"at least one trial, got shape .*: axis {axis} is empty"
    with pytest.raises(InvalidInputError, match=message):
        FrequencyEstimate(np.zeros(shape))
    with pytest.raises(InvalidInputError, match=message):
        OUE(epsilon=1.0, d=3).estimate(np.zeros(shape, dtype=int), 10)


# --- raw or not -----------------------------------------------------------------------------------

POPULATION = np.array([500, 300, 150, 50, 0, 0])
SIMPLEX = [constraints.NonNegative(), constraints.SumsTo(1.0)]


def simulated(make, trials=None, seed=0):
    oracle = make(1.0, len(POPULATION))
    return oracle.estimate(oracle.simulate_counts(POPULATION, seed, trials), 1000)


@pytest.mark.parametrize("trials", [None, 5])
@pytest.mark.parametrize("name", ORACLES)
def test_raw_frequencies_wrapped_by_hand_are_recognised_by_their_counts(name, trials):
    raw = simulated(ORACLES[name], trials)
    assert raw.is_raw is True
    wrapped = FrequencyEstimate(raw.frequencies, raw.n, raw.oracle)
    assert wrapped.is_raw is True
    assert_array_equal(wrapped.interval(), raw.interval())


@every_two(
    method=[name for name in METHODS if name not in ("base", "post-pos")],
    name=[*ORACLES],
    seed=range(2),
)
@pytest.mark.filterwarnings("ignore::ldpopt.errors.LdpoptWarning")
def test_processed_frequencies_wrapped_by_hand_do_not_pass_for_raw(name, method, seed):
    raw = simulated(ORACLES[name], seed=seed)
    processed = postprocess(raw, method)
    wrapped = FrequencyEstimate(processed.frequencies, raw.n, raw.oracle)
    assert processed.is_raw is False
    if np.abs(processed.frequencies - raw.frequencies).max() < CERTIFIED:
        return  # nothing was changed: GRR's and subset selection's estimates sum to 1 as they are
    assert wrapped.is_raw is None
    with pytest.raises(InvalidInputError, match=r"nothing shows that this one is.*is_raw=True"):
        wrapped.interval()
    with pytest.raises(InvalidInputError, match="intervals need a raw estimate"):
        Problem(losses.LeastSquares(), SIMPLEX).interval(wrapped)


def test_a_count_next_to_a_whole_number_is_not_one():
    # p - q = 1/4: 1e-10 of a count at n = 101 is far above rounding, 1e-14 is below it.
    raw = 4 * (np.array([51.0, 27.0, 2.0]) / 101 - 0.25)
    assert FrequencyEstimate(raw, 101, QUARTERS).is_raw is True
    assert FrequencyEstimate(raw + np.array([4e-12, 0, 0]), 101, QUARTERS).is_raw is None
    assert FrequencyEstimate(raw + np.array([2e-16, 0, 0]), 101, QUARTERS).is_raw is True
    outside = 4 * (np.array([102.0, 27.0, 2.0]) / 101 - 0.25)
    assert FrequencyEstimate(outside, 101, QUARTERS).is_raw is None


@pytest.mark.parametrize("seed", range(8))
def test_two_values_of_symmetric_encoding_after_norm_do_not_pass_for_raw(seed):
    # p + q = 1: the counts after Norm are (n ± (c_1 - c_2))/2, whole for every other vector.
    oracle = oracles.SUE(epsilon=1.0, d=2)
    raw = oracle.estimate(oracle.simulate_counts([700, 300], seed), 1000)
    for method in ("norm", "norm-sub"):
        shifted = postprocess(raw, method).frequencies
        assert FrequencyEstimate(shifted, 1000, oracle).is_raw is None
    assert FrequencyEstimate(raw.frequencies, 1000, oracle).is_raw is (
        None if raw.frequencies.sum() == pytest.approx(1, abs=1e-12) else True
    )


def test_where_changed_frequencies_can_be_counts_by_chance_it_is_not_known():
    # With q = 1/4 and p = 1/2 every multiple of 0.04 is a count of 100 reports.
    assert FrequencyEstimate([0.4, 0.44, 0.2], 100, QUARTERS).is_raw is None
    # n q = 50: a value that was cut to 0 is a count, wherever it stands.
    halves = PureProtocol(1.0, 3, p=1 / math.sqrt(2), q=0.5)
    raw = (np.array([70.0, 50.0, 40.0]) / 100 - 0.5) / (halves.p - 0.5)
    assert FrequencyEstimate(raw, 100, halves).is_raw is None
    raw = (np.array([70.0, 51.0, 40.0]) / 100 - 0.5) / (halves.p - 0.5)
    assert FrequencyEstimate(raw, 100, halves).is_raw is True


def test_many_reports_of_few_values_are_not_told_apart_by_rounding():
    # A count has a rounding of 16 eps n: at n = 2**40 one number in 128 counts as whole.
    n = 2**40
    for d, expected in ((3, None), (4, True)):
        protocol = PureProtocol(1.0, d, p=1 / math.sqrt(2), q=1 / math.sqrt(5))
        counts = np.arange(1, d + 1) * 2.0**36 + 1
        raw = (counts / n - protocol.q) / (protocol.p - protocol.q)
        assert FrequencyEstimate(raw, n, protocol).is_raw is expected


def test_reports_of_one_size_have_raw_frequencies_of_sum_one():
    oracle = oracles.GRR(epsilon=1.0, d=3)
    assert FrequencyEstimate(oracle.estimate([50, 30, 20], 100).frequencies, 100, oracle).is_raw
    frequencies = (np.array([50, 30, 21]) / 100 - oracle.q) / (oracle.p - oracle.q)
    assert FrequencyEstimate(frequencies, 100, oracle).is_raw is None


def test_what_cannot_be_counted_is_not_known_to_be_raw():
    frequencies = [0.5, 0.25, -0.1]
    assert FrequencyEstimate(frequencies).is_raw is None
    assert FrequencyEstimate(frequencies, n=100).is_raw is None
    assert FrequencyEstimate(frequencies, noise=[0.1, 0.1, 0.1]).is_raw is None
    assert FrequencyEstimate(frequencies, 2**53, QUARTERS).is_raw is None


@pytest.mark.parametrize("stated", [True, False])
def test_what_is_stated_about_rawness_holds(stated):
    estimate = FrequencyEstimate([0.5, 0.3, 0.1], 77, QUARTERS, is_raw=stated)
    assert estimate.is_raw is stated
    assert estimate.has_raw_noise is stated
    assert (estimate.raw is estimate) is stated


def test_the_noise_of_raw_estimates_survives_a_shift_and_nothing_else():
    raw = simulated(OUE, trials=2)
    shifted = raw.processed(raw.frequencies + np.array([[0.25], [-0.5]]))
    assert (shifted.is_raw, shifted.has_raw_noise) == (False, True)
    scaled = raw.processed(raw.frequencies * 1.001)
    assert scaled.has_raw_noise is False
    one_of_two = raw.frequencies.copy()
    one_of_two[1, 0] += 1e-6
    assert raw.processed(one_of_two).has_raw_noise is False


def test_a_processed_estimate_of_a_processed_one_keeps_the_first():
    raw = simulated(OUE)
    twice = raw.processed(raw.frequencies / 2).processed(raw.frequencies / 4)
    assert twice.raw is raw
    assert FrequencyEstimate([0.5, 0.5, 0.0], is_raw=False).processed(np.zeros(3)).raw is None


def test_raw_by_hand_gives_its_noise_and_its_intervals():
    raw = simulated(OUE)
    processed = FrequencyEstimate(raw.frequencies.clip(0), raw=raw)
    assert (processed.is_raw, processed.n, processed.oracle) == (False, raw.n, raw.oracle)
    assert_array_equal(processed.interval(), postprocess(raw, "base-pos").interval())
    with pytest.raises(InvalidInputError, match="contradicts"):
        FrequencyEstimate(raw.frequencies, raw=raw, is_raw=True)
    with pytest.raises(InvalidInputError, match=r"shape of the frequencies, \(2,\), got \(6,\)"):
        FrequencyEstimate([0.5, 0.5], raw=raw)
    with pytest.raises(InvalidTypeError, match="raw must be a FrequencyEstimate"):
        FrequencyEstimate([0.5, 0.5], raw=[0.5, 0.5])


def test_intervals_around_processed_numbers_would_cover_too_rarely():
    """What is refused, and why: the top emoji, 2,000 draws.

    Bounds are five standard deviations of a binomial share: a false alarm in 1.7 million runs.
    """
    data = datasets.load("emoji")
    draws = 2000
    level = 0.95
    oracle = OUE(epsilon=1.0, d=data.d)
    truth = data.counts / data.n
    top = int(np.argmax(truth))
    raw = oracle.estimate(oracle.simulate_counts(data.counts, 1, draws), data.n)
    processed = postprocess(raw, "norm-sub")
    allowed = SIGMAS * np.sqrt(level * (1 - level) / draws)

    def coverage(estimate):
        lower, upper = estimate.interval(level)
        return np.mean((lower[:, top] <= truth[top]) & (truth[top] <= upper[:, top]))

    assert abs(coverage(raw) - level) < allowed
    assert abs(coverage(processed) - level) < allowed
    with pytest.warns(ImplausibleCountsWarning, match="is_raw=True, and none is negative"):
        wrong = FrequencyEstimate(processed.frequencies, noise=raw.noise, is_raw=True)
    assert coverage(wrong) < level - 2 * allowed
    with pytest.raises(InvalidInputError, match="nothing shows"):
        coverage(FrequencyEstimate(processed.frequencies, data.n, oracle))


# --- trials, labels, noise ------------------------------------------------------------------------

LABELS = ["a", "b", "c", "d", "e", "f"]


def test_a_trial_keeps_everything():
    oracle = OUE(1.0, 6)
    counts = oracle.simulate_counts(POPULATION, 0, 3)
    stack = FrequencyEstimate.from_counts(counts, 1000, oracle, labels=LABELS)
    processed = postprocess(stack, "post-pos")
    for i, trial in enumerate(processed):
        assert_array_equal(trial.frequencies, stack.frequencies[i])
        assert_array_equal(trial.raw.frequencies, stack.frequencies[i])
        assert (trial.labels, trial.method, trial.clip_answers) == (tuple(LABELS), "post-pos", True)
        assert (trial.n, trial.oracle, trial.is_raw) == (1000, oracle, False)
        assert_array_equal(trial.interval(), np.array(processed.interval())[:, i])
    assert stack[1:].frequencies.shape == (2, 6)
    assert stack[1:].is_raw is True
    assert_array_equal(stack[np.array([True, False, True])].frequencies, stack.frequencies[::2])
    assert_array_equal(stack[-1][()].frequencies, stack.frequencies[2])


@pytest.mark.parametrize("index", [3, (0, 1), "a", 0.5, [[0, 1], [2]]])
def test_an_index_that_is_no_trial_is_refused(index):
    stack = FrequencyEstimate(np.full((3, 2), 0.5))
    with pytest.raises(InvalidInputError, match=r"is not a trial.* \(3,\)"):
        stack[index]


def test_one_vector_has_no_trials():
    with pytest.raises(InvalidInputError, match=r"is not a trial.*its numbers are in frequencies"):
        FrequencyEstimate([0.5, 0.5])[0]
    with pytest.raises(InvalidTypeError, match="one vector"):
        iter(FrequencyEstimate([0.5, 0.5]))


def test_labels_are_names_of_all_values():
    estimate = FrequencyEstimate([0.5, 0.5], labels=np.array(["x", "y"]))
    assert estimate.labels == ("x", "y")
    for labels, given in ((["x"], "got 1"), ("xy", "got the text 'xy'"), ([], "got 0")):
        with pytest.raises(InvalidInputError, match=f"sequence of 2 names, {given}"):
            FrequencyEstimate([0.5, 0.5], labels=labels)


def test_noise_by_hand_is_enough_for_the_weighted_mle_for_thresholds_and_for_intervals():
    variances = np.array([1.0, 4.0, 9.0]) * 1e-2
    estimate = FrequencyEstimate([0.6, 0.3, -0.02], noise=variances, is_raw=True)
    assert estimate.n is None
    problem = Problem(losses.GaussianMLE(), SIMPLEX)
    solution = problem.solve(estimate)
    # Σ (f-f̃)²/a: where all values are positive, f = f̃ + 0.12 a/Σa = .6 + .12/14, ..., -.02 +
    # .12 9/14.
    assert_allclose(
        solution.frequencies,
        np.array([0.6, 0.3, -0.02]) + 0.12 * variances / variances.sum(),
        rtol=0,
        atol=CERTIFIED,
    )
    assert solution.certificate.is_optimal(CERTIFIED)
    assert_allclose(
        problem.solve(estimate, path="conic").frequencies, solution.frequencies, rtol=0, atol=1e-5
    )
    lower, upper = estimate.interval(0.95)
    assert_allclose(upper - lower, 2 * 1.959964 * np.sqrt(variances), rtol=1e-6)
    lower, upper = estimate.interval(0.95, [[0, 1]])
    assert_allclose([lower[0], upper[0]], 0.9 + 1.959964 * np.sqrt(5e-2) * np.array([-1, 1]))
    lower, upper = solution.estimate.interval(0.95)
    assert lower.min() == 0.0
    assert_array_equal(postprocess(estimate, "base-cut").frequencies > 0, [True, True, False])


def test_the_variance_of_a_set_is_bounded_by_its_steepest_slope():
    estimate = FrequencyEstimate(
        [0.5, 0.5], noise=Noise([1e-4, 1e-4], slope=[1e-3, 3e-3]), is_raw=True
    )
    constant, slope = estimate.noise.answer_variance(
        estimate.frequencies, constraints.Linear([[1.0, 1.0]], lower=0).rows(2).matrix
    )
    assert_allclose([constant[0], slope[0]], [2e-4, 3e-3])


def test_one_hand_for_the_noise():
    noise = Noise([0.1, 0.2, 0.3], n=50)
    assert FrequencyEstimate([0.5, 0.5, 0.0], noise=noise).n == 50
    assert FrequencyEstimate([0.5, 0.5, 0.0], n=60, noise=[0.1, 0.2, 0.3]).noise.n == 60
    for arguments, message in [
        ({"n": 60, "noise": noise}, "differ"),
        ({"oracle": QUARTERS, "noise": noise}, "both give the noise"),
        ({"oracle": QUARTERS, "noise": [0.1] * 3}, "both give the noise"),
        ({"noise": [0.1, 0.2]}, "that of 2 values, the estimate has 3"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            FrequencyEstimate([0.5, 0.5, 0.0], **arguments)
    with pytest.raises(InvalidInputError, match=r"differs between values: use estimate.noise.sd"):
        _ = FrequencyEstimate([0.5, 0.5, 0.0], noise=noise).sigma


def test_an_estimate_cannot_be_changed_and_survives_a_pickle():
    estimate = simulated(HadamardResponse)
    with pytest.raises(AttributeError):
        estimate.frequencies = np.zeros(6)
    copy = pickle.loads(pickle.dumps(estimate))
    assert_array_equal(copy.frequencies, estimate.frequencies)
    assert copy.is_raw is True
    assert not copy.frequencies.flags.writeable


def test_heavy_hitters_of_a_solution_are_those_of_its_own_frequencies():
    simplex = [constraints.NonNegative(), constraints.SumsTo(1.0)]
    solution = Problem(losses.LeastSquares(), simplex).solve([[0.7, 0.4, 0.0], [0.2, 0.3, 0.5]])
    # Norm-Sub takes 0.05 from each positive value of the first trial: 0.4 falls to 0.35.
    assert solution.estimate.heavy_hitters(0.37).tolist() == [
        [True, False, False],
        [False, False, True],
    ]
    with pytest.raises(InvalidInputError, match="threshold must be a finite number"):
        solution.estimate.heavy_hitters(math.nan)


def test_processed_frequencies_of_another_shape_are_refused():
    with pytest.raises(InvalidInputError, match=r"shape of the estimate, \(2,\), got \(3,\)"):
        FrequencyEstimate([0.5, 0.25]).processed(np.zeros(3))


def test_a_slice_without_trials_is_refused():
    with pytest.raises(InvalidInputError, match=r"has no trial: the leading axes .* \(2,\)"):
        _ = FrequencyEstimate([[0.5, 0.25], [0.5, 0.25]])[2:]


def test_whether_an_estimate_is_raw_is_stated_by_a_boolean():
    with pytest.raises(InvalidTypeError, match="is_raw must be True, False or None, got 'no'"):
        FrequencyEstimate([0.5, 0.5], is_raw="no")
    assert FrequencyEstimate([0.5, 0.5], is_raw=np.False_).is_raw is False


def test_labels_that_are_no_sequence_are_refused():
    with pytest.raises(InvalidTypeError, match="labels must be a sequence of 2 names, got 5"):
        FrequencyEstimate([0.5, 0.5], labels=5)
