"""Estimates: the unbiased formula, what is kept, and what is refused with its position."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ldpopt import FrequencyEstimate
from ldpopt.errors import InvalidInputError, InvalidTypeError, LdpoptWarning
from ldpopt.oracles import GRR, ORACLES, OUE
from ldpopt.protocol import PureProtocol
from tests.tolerances import ROUNDING

QUARTERS = PureProtocol(1.0, 3, p=0.5, q=0.25)


def test_the_estimate_of_counts_by_hand():
    estimate = FrequencyEstimate.from_counts([50, 25, 0], 100, QUARTERS)
    assert_array_equal(estimate.frequencies, [1.0, 0.0, -1.0])
    assert (estimate.n, estimate.d, estimate.oracle, estimate.method) == (100, 3, QUARTERS, "base")
    assert estimate.sigma == math.sqrt(0.25 * 0.75 / 0.25**2 / 100)


@pytest.mark.parametrize("name", ORACLES)
def test_expected_counts_give_back_the_true_frequencies(name):
    oracle, n = ORACLES[name](1.0, 4), 10**15  # so many users that rounding counts is invisible
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
    assert "2 trials x d=3" in repr(stack)


def test_from_counts_leaves_the_counts_alone():
    counts = np.array([50, 25, 0])
    counts.flags.writeable = False
    FrequencyEstimate.from_counts(counts, 100, QUARTERS)
    assert_array_equal(counts, [50, 25, 0])


def test_frequencies_are_read_only_float64_and_the_callers_array_stays_writeable():
    mine = np.array([0.5, 0.5])
    estimate = FrequencyEstimate(mine)
    assert estimate.frequencies.dtype == np.float64
    with pytest.raises(ValueError, match="read-only"):
        estimate.frequencies[0] = 1
    assert mine.flags.writeable
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
            r"counts must lie in 0 \.\. 100, found 101 at index 1",
        ),
        (
            [50, 25, -1],
            100,
            InvalidInputError,
            r"counts must lie in 0 \.\. 100, found -1 at index 2",
        ),
        ([[50, 25, 0], [0, 0, 200]], 100, InvalidInputError, "found 200 at trial 1, index 2"),
        (
            [50.5, 25, 0],
            100,
            InvalidInputError,
            "counts must be whole numbers, found 50.5 at index 0",
        ),
        (
            [50, 25, math.nan],
            100,
            InvalidInputError,
            "counts must be whole numbers, found nan at index 2",
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
        (["50", "25", "0"], 100, InvalidTypeError, "counts must be an array of numbers"),
        (
            [True, False, True],
            100,
            InvalidTypeError,
            "counts must be an array of numbers, got an array of bool",
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
    with pytest.raises(InvalidTypeError, match="oracle must be an oracle or a PureProtocol, got"):
        FrequencyEstimate([0.5, 0.5], n=10, oracle=oracle)


@pytest.mark.parametrize(
    ("n", "error"), [(0, InvalidInputError), (-1, InvalidInputError), (2.5, InvalidTypeError)]
)
def test_a_wrong_number_of_reports_is_refused(n, error):
    with pytest.raises(error, match=r"n \(the number of reports\) must be"):
        FrequencyEstimate([0.5, 0.5], n=n)


@pytest.mark.parametrize("known", [{}, {"n": 10}, {"oracle": QUARTERS}])
def test_a_noise_level_that_is_unknown_is_not_invented(known):
    with pytest.raises(
        InvalidInputError, match="needs the noise level of the estimate: build it as"
    ):
        _ = FrequencyEstimate([0.5, 0.3, 0.2], **known).sigma


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
