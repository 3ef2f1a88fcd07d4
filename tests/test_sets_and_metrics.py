"""Set queries against naive sums, error measures by hand, and sets that are refused."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from ldpopt import FrequencyEstimate, closed_form, oracles, postprocess
from ldpopt.errors import InvalidInputError, InvalidTypeError, LdpoptError
from ldpopt.estimate import metrics, sets
from ldpopt.protocol import PureProtocol
from tests.tolerances import SIGMAS, SUM

D = 9
SETS = [[0], [8, 2, 5], [], [3, 4], list(range(D))]
SHAPES = [(D,), (1, D), (4, D), (2, 3, D)]


def boolean(sets):
    return np.array([[v in members for v in range(D)] for members in sets], dtype=bool).reshape(
        len(sets), D
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_both_kinds_of_sets_agree_with_a_naive_sum(shape):
    frequencies = np.random.default_rng(3).normal(size=shape)
    naive = np.zeros((*shape[:-1], len(SETS)))
    for trial in np.ndindex(shape[:-1]):
        for i, members in enumerate(SETS):
            naive[(*trial, i)] = math.fsum(frequencies[(*trial, v)] for v in members)
    estimate = FrequencyEstimate(frequencies)
    by_index = estimate.query(SETS)
    by_mask = estimate.query(boolean(SETS))
    assert by_index.shape == by_mask.shape == (*shape[:-1], len(SETS))
    assert_allclose(by_index, naive, rtol=SUM, atol=SUM)
    assert_allclose(by_mask, naive, rtol=SUM, atol=SUM)


@given(st.lists(st.sets(st.integers(0, D - 1)), max_size=6))
def test_random_sets_agree_as_indices_and_as_masks(sets):
    frequencies = np.arange(D) ** 2.0
    estimate = FrequencyEstimate(frequencies)
    expected = [sum(v**2 for v in members) for members in sets]
    assert_array_equal(estimate.query([list(members) for members in sets]), expected)
    assert_array_equal(estimate.query(boolean(sets)), expected)


def test_sets_may_be_one_integer_array_or_mixed_sequences():
    estimate = FrequencyEstimate(np.arange(D, dtype=float))
    assert_array_equal(estimate.query(np.array([[0, 1], [7, 8]])), [1, 15])
    assert_array_equal(estimate.query(([0, 1], (7, 8), np.array([2.0]), range(3))), [1, 15, 2, 3])


@pytest.mark.parametrize("shape", SHAPES)
def test_no_sets_and_empty_sets(shape):
    estimate = FrequencyEstimate(np.ones(shape))
    for none in ([], np.zeros((0, D), dtype=bool)):
        assert estimate.query(none).shape == (*shape[:-1], 0)
    for empty in ([[]], [np.empty(0, dtype=int)], np.zeros((1, D), dtype=bool)):
        assert_array_equal(estimate.query(empty), np.zeros((*shape[:-1], 1)))


def test_clipping_acts_on_answers_and_not_on_frequencies():
    frequencies = np.array([0.5, -0.25, -0.5])
    sets = [[0, 1], [1, 2], [1]]
    clipped = FrequencyEstimate(frequencies, clip_answers=True)
    assert_array_equal(clipped.query(sets), [0.25, 0, 0])
    assert_array_equal(clipped.frequencies, frequencies)
    assert_array_equal(FrequencyEstimate(frequencies).query(sets), [0.25, -0.75, -0.25])


def test_queries_change_neither_sets_nor_frequencies():
    frequencies = np.arange(3.0)
    members = np.array([2, 0])
    mask = np.array([[True, False, True]])
    for array in (frequencies, members, mask):
        array.flags.writeable = False
    estimate = FrequencyEstimate(frequencies)
    assert_array_equal(estimate.query([members]), [2])
    assert_array_equal(estimate.query(mask), [2])
    assert_array_equal(members, [2, 0])


@pytest.mark.parametrize(
    ("sets", "error", "message"),
    [
        (
            [[0], [1, 9]],
            InvalidInputError,
            r"indices of set 1 must lie in 0 \.\. 8, found 9 at index 1",
        ),
        ([[-1]], InvalidInputError, r"indices of set 0 must lie in 0 \.\. 8, found -1 at index 0"),
        (
            [[0], [1.5]],
            InvalidInputError,
            "indices of set 1 must be whole numbers, found 1.5 at index 0",
        ),
        ([[math.nan]], InvalidInputError, "indices of set 0 must be whole numbers, found nan"),
        (
            [[0], [2, 3, 2]],
            InvalidInputError,
            "set 1 has an index more than once, 2 again at position 2",
        ),
        (np.array(3.0), InvalidTypeError, "sets must be a sequence of index arrays"),
        (
            np.zeros((2, 8), dtype=bool),
            InvalidInputError,
            r"boolean sets must have shape \(m, 9\), got \(2, 8\)",
        ),
        (
            np.zeros(9, dtype=bool),
            InvalidInputError,
            r"boolean sets must have shape \(m, 9\), got \(9,\)",
        ),
        (
            [0, 1, 2],
            InvalidTypeError,
            r"sets must be a sequence of index arrays; for a single set pass \[indices\]",
        ),
        (np.array([0, 1, 2]), InvalidTypeError, r"for a single set pass \[indices\]"),
        (
            [[0], np.ones(9, dtype=bool)],
            InvalidTypeError,
            r"set 1 is boolean: pass all boolean sets as one array",
        ),
        ([["a", "b"]], InvalidTypeError, "set 0 must hold indices, got text, and"),
        (
            [[True, False]],
            InvalidTypeError,
            "indices of set 0 must be an array of numbers, got an array of bool",
        ),
    ],
)
def test_sets_that_are_none_are_refused(sets, error, message):
    with pytest.raises(error, match=message):
        FrequencyEstimate(np.zeros(D)).query(sets)


@pytest.mark.parametrize("sets", [[[0], 1], [[0], [[1, 2], [3, 4]]], [[0], [[1], [2, 3]]]])
def test_sets_of_a_wrong_depth_are_refused_by_their_number(sets):
    with pytest.raises(LdpoptError, match="set 1"):
        FrequencyEstimate(np.zeros(D)).query(sets)


def test_errors_by_hand():
    truth = [0.5, 0.5, 0.0]
    stack = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.0, 0.5, 1.5]])
    assert_allclose(metrics.mean_squared_error(stack, truth), [0, 0.5 / 3, 2.5 / 3], rtol=SUM)
    assert_allclose(metrics.mean_absolute_error(stack, truth), [0, 1 / 3, 2 / 3], rtol=SUM)
    assert metrics.mean_squared_error(stack[1], truth).shape == ()
    assert metrics.mean_absolute_error(stack.reshape(3, 1, 3), truth).shape == (3, 1)


# --- heavy hitters --------------------------------------------------------------------------------


def test_heavy_hitters_lie_strictly_above_the_threshold():
    assert metrics.heavy_hitters([[0.2, 0.3], [0.30000001, -1.0]], 0.3).tolist() == [
        [False, False],
        [True, False],
    ]


@given(
    st.lists(st.lists(st.integers(-3, 6), min_size=5, max_size=5), min_size=1, max_size=4),
    st.lists(st.integers(0, 6), min_size=5, max_size=5),
    st.integers(-1, 5),
)
def test_precision_recall_and_f_count_sets(estimates, truth, threshold):
    scores = metrics.identification(np.array(estimates) / 10, np.array(truth) / 10, threshold / 10)
    real = {v for v, count in enumerate(truth) if count > threshold}
    for row, estimate in enumerate(estimates):
        named = {v for v, count in enumerate(estimate) if count > threshold}
        precision = len(named & real) / len(named) if named else 1.0
        recall = len(named & real) / len(real) if real else 1.0
        f_score = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        assert_allclose(
            [scores.precision[row], scores.recall[row], scores.f_score[row]],
            [precision, recall, f_score],
        )


def test_significant_estimates_of_empty_values_are_as_rare_as_the_threshold_says():
    d = 200
    beta = 0.05
    trials = 4000
    rng = np.random.default_rng(6)
    threshold = closed_form.significance_threshold(d, 0.01, beta)
    false = metrics.heavy_hitters(0.01 * rng.standard_normal((trials, d)), threshold).sum()
    assert abs(false / trials - beta) <= SIGMAS * math.sqrt(beta / trials)


def test_base_zero_changes_no_answer_about_significant_values():
    oracle = oracles.OUE(epsilon=1.0, d=300)
    truth = np.append(np.full(3, 0.3), np.full(297, 0.1 / 297))
    raw = FrequencyEstimate(
        truth + oracle.sd(10**4) * np.random.default_rng(0).standard_normal(300), 10**4, oracle
    )
    threshold = closed_form.significance_threshold(300, raw.sigma, 0.05)
    zeroed = postprocess(raw, "base-zero").frequencies
    at = (
        metrics.identification(zeroed, truth, threshold),
        metrics.identification(raw.frequencies, truth, threshold),
    )
    assert at[0].precision == at[1].precision == 1
    assert at[0].recall == at[1].recall == 1


def test_identification_refuses_what_does_not_match():
    with pytest.raises(InvalidInputError, match="same last axis"):
        metrics.identification([0.5, 0.5], [0.5, 0.3, 0.2], 0.1)
    with pytest.raises(InvalidInputError, match="threshold must be a finite number"):
        metrics.heavy_hitters([0.5], math.nan)
    with pytest.raises(InvalidInputError, match="found nan at index 0"):
        metrics.heavy_hitters([math.nan], 0.1)


def test_errors_of_stacks_that_do_not_match_name_both_shapes():
    for measure in (metrics.mean_squared_error, metrics.mean_absolute_error):
        with pytest.raises(InvalidInputError, match=r"got the shapes \(2, 3\) and \(4, 3\)"):
            measure(np.zeros((2, 3)), np.zeros((4, 3)))


def test_measures_take_estimates():
    values = [0.5, 0.3, 0.2]
    truth = [0.4, 0.4, 0.2]
    estimate = FrequencyEstimate(values)
    for measure in (metrics.mean_squared_error, metrics.mean_absolute_error):
        assert measure(estimate, truth) == measure(values, truth) > 0
    assert_array_equal(metrics.heavy_hitters(estimate, 0.25), [True, True, False])
    assert metrics.identification(estimate, truth, 0.25).recall == 1


def test_the_limit_of_accuracy_is_of_raw_estimates():
    raw = FrequencyEstimate([0.6, 0.5], n=100, oracle=oracles.OUE(epsilon=1.0, d=2))
    with pytest.raises(InvalidInputError, match="accuracy_limit needs a raw estimate"):
        metrics.accuracy_limit(raw, [0.5, 0.5])
    stated = FrequencyEstimate([0.6, 0.5], noise=raw.noise, is_raw=True)
    with pytest.raises(InvalidInputError, match="takes raw estimates, got processed ones"):
        metrics.accuracy_limit(postprocess(stated, "norm-sub"), [0.5, 0.5])
    assert_array_equal(
        metrics.accuracy_limit(postprocess(stated, "post-pos"), [0.5, 0.4]),
        metrics.accuracy_limit(stated, [0.5, 0.4]),
    )
    with pytest.raises(InvalidInputError, match=r"0 \.\. 1, found 1.5 at index 1"):
        metrics.accuracy_limit(stated, [0.5, 1.5])
    differing = FrequencyEstimate([0.6, 0.5], noise=[0.1, 0.2], is_raw=True)
    with pytest.raises(InvalidInputError, match="their noise differs"):
        metrics.accuracy_limit(differing, [0.5, 0.5])
    with pytest.raises(InvalidTypeError, match="needs the noise level"):
        metrics.accuracy_limit([0.1], [0.1])


def test_the_limit_of_accuracy_by_hand():
    # p = 1/2, q = 1/4 and n = 100: the variances at 0.2 and 0.8 are 0.032 and 0.038. At 0.5 their
    # normal densities are as e^-1.40625/0.178885 = 1.36993 to e^-1.184211/0.194936 = 1.56968.
    protocol = PureProtocol(1.0, 2, p=0.5, q=0.25)
    raw = FrequencyEstimate([0.5, 0.5], 100, protocol, is_raw=True)
    limit = metrics.accuracy_limit(raw, [0.2, 0.8])
    assert_allclose(limit, (0.2 * 1.36993 + 0.8 * 1.56968) / (1.36993 + 1.56968), rtol=1e-5)


def test_the_limit_of_accuracy_counts_values_of_the_same_truth():
    raw = FrequencyEstimate([0.4, 0.4, 0.4], noise=[0.01] * 3, is_raw=True)
    # 0.4 is as far from 0.2 as from 0.6, and two of three values have the truth 0.2.
    assert_allclose(metrics.accuracy_limit(raw, [0.2, 0.2, 0.6]), 1 / 3, rtol=1e-12)


def test_the_law_limit_of_a_value_alone_knows_only_its_piece():
    # Midpoints .5 and the outer ends reflected: pieces 0 .. .5 and .5 .. 1, together the uniform
    # law on 0 .. 1, under which a distant estimate with little noise is its own posterior mean.
    raw = FrequencyEstimate([0.75, 0.25], noise=[1e-4] * 2, is_raw=True)
    assert_allclose(metrics.law_limit(raw, [0.75, 0.25]), [0.75, 0.25], rtol=0, atol=1e-6)
    # With noise of 0.5 it is the mean of a normal density that is cut at 0 and 1 (t from -.5 to
    # 1.5 standard deviations: (φ(.5) - φ(1.5)) / (Φ(1.5) - Φ(-.5)) = .2225477/.6246553).
    raw = FrequencyEstimate([0.25, 0.25], noise=[0.25] * 2, is_raw=True)
    assert_allclose(metrics.law_limit(raw, [0.75, 0.25]), 0.25 + 0.5 * 0.3562728, rtol=1e-5)


def test_equal_frequencies_have_no_piece_in_the_law_limit():
    raw = FrequencyEstimate([0.1, 0.2, 0.3, 0.3], noise=[0.01] * 4, is_raw=True)
    truth = [0.25] * 4
    assert_allclose(metrics.law_limit(raw, truth), 0.25, rtol=1e-12)
    assert_allclose(metrics.law_limit(raw, truth), metrics.accuracy_limit(raw, truth), rtol=1e-12)
    # One value alone has no neighbour.
    single = FrequencyEstimate([0.9], noise=[0.01], is_raw=True)
    assert_allclose(metrics.law_limit(single, [1.0]), [1.0], rtol=1e-12)


def test_the_law_limit_is_the_limit_where_noise_hides_the_gaps():
    raw = FrequencyEstimate([0.2, 0.25, 0.26, 0.3], noise=[1.0] * 4, is_raw=True)
    truth = [0.24, 0.25, 0.25, 0.26]
    law = metrics.law_limit(raw, truth)
    assert_allclose(law, metrics.accuracy_limit(raw, truth), rtol=0, atol=1e-4)
    with pytest.raises(InvalidInputError, match="law_limit takes raw estimates"):
        metrics.law_limit(postprocess(raw, "norm-sub"), truth)


def test_names_that_stand_for_several_values_or_sets_are_refused():
    estimate = FrequencyEstimate([0.5, 0.25, 0.25], labels=["a", "a", "b"])
    assert estimate.query([["b"], [0, 1]]).tolist() == [0.25, 0.75]
    with pytest.raises(InvalidInputError, match="'a', which is the label of several values"):
        estimate.query([["a"]])
    with pytest.raises(InvalidInputError, match="2 sets have the name '1'"):
        estimate.query({1: [0], "1": [1]})
    # A set has another order in each process.
    with pytest.raises(InvalidTypeError, match="in the order of the values"):
        FrequencyEstimate([0.5, 0.5], labels={"a", "b"})


def test_a_number_that_is_the_index_of_one_value_and_the_label_of_another_is_refused():
    turned = FrequencyEstimate([0.3, 0.7], labels=["1", "0"])
    message = "the value of that index is labelled '0', and the label '1' is at index 0"
    with pytest.raises(InvalidInputError, match=message):
        turned.query([[1]])
    with pytest.raises(InvalidInputError, match=r"set 'rare' has the number 2: .* is none, and"):
        FrequencyEstimate([0.3, 0.7], labels=["2", "1"]).query({"rare": [2]})
    # Text is a label, and an array holds indices.
    assert turned.query([["1"]]).tolist() == [0.3]
    assert turned.query([np.array([1])]).tolist() == [0.7]
    # Both readings are the same value here.
    assert FrequencyEstimate([0.3, 0.7], labels=["0", "1"]).query([[1]]).tolist() == [0.7]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([3, 1, 3], "set 1 has an index more than once, 3 again at position 2"),
        ([3, 1, 5], r"indices of set 1 must lie in 0 \.\. 4, found 5"),
        ([3, -1, 2], r"indices of set 1 must lie in 0 \.\. 4, found -1"),
    ],
)
def test_arrays_that_are_looked_at_together_are_refused_one_by_one(members, message):
    """Beside sets that share their values, which is no repetition."""
    right = [np.array([3, 1]), np.array([1, 3, 4])]
    assert sets.membership(right, 5).toarray().tolist() == [[0, 1, 0, 1, 0], [0, 1, 0, 1, 1]]
    with pytest.raises(InvalidInputError, match=message):
        sets.membership([right[0], np.array(members), right[1]], 5)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0.0192, 4, 0.05), InvalidTypeError, "d .* must be a whole number, got 0.0192"),
        ((4, 0.0), InvalidInputError, "sigma must be a finite number > 0"),
        ((4, 0.0192, -1.0), InvalidInputError, "alpha must be a finite number > 0"),
    ],
)
def test_a_threshold_of_significance_refuses_arguments_in_another_order(arguments, error, message):
    with pytest.raises(error, match=message):
        closed_form.significance_threshold(*arguments)
