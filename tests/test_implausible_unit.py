"""Percent and counts that are passed where frequencies are expected are noticed by their sum."""

import math
import warnings

import numpy as np
import pytest

from ldpopt import FrequencyEstimate, Parameter, Problem, certify, postprocess
from ldpopt.constraints import Bounds, GroupTotals, Linear, Near, NonNegative, Smooth, SumsTo
from ldpopt.errors import ImplausibleUnitWarning
from ldpopt.losses import LeastSquares
from ldpopt.oracles import OUE, HadamardResponse, SubsetSelection

PERCENT = [38.7, 40.2, 21.1]
COUNTS = [387.0, 402.0, 211.0]

PROBLEM = Problem(LeastSquares(), [NonNegative(), SumsTo(1)])

WAYS = [
    PROBLEM.solve,
    PROBLEM.minimise,
    lambda values: postprocess(values, "norm-sub"),
    lambda values: postprocess(FrequencyEstimate(values), "norm"),
    lambda values: postprocess(values, PROBLEM),
]


@pytest.mark.parametrize("way", WAYS)
def test_percent_is_noticed_once_in_the_callers_line(way):
    with pytest.warns(ImplausibleUnitWarning, match=r"divide them by 100$") as record:
        way(PERCENT)
    (warning,) = record
    assert str(warning.message).startswith(
        "these frequencies sum to 100, and the problem states a "
    )
    assert warning.filename == __file__


@pytest.mark.parametrize("values", [[50.0, -5.0, 55.0], [51.1, 29.0, 13.9, -0.4]])
def test_raw_percent_with_a_negative_value_is_noticed(values):
    with pytest.warns(ImplausibleUnitWarning, match="percent, divide them by 100$"):
        PROBLEM.solve(values)


def test_noise_around_shares_of_1_is_not_taken_for_percent(recwarn):
    rng = np.random.default_rng(0)
    for d in (30, 100):
        # Noise whose sum is that of percent in every third trial.
        noisy = 1 / d + rng.normal(0, 100 / math.sqrt(d), (2_000, d))
        assert (np.abs(noisy.sum(axis=-1) - 100) <= 50).mean() > 0.2
        PROBLEM.solve(noisy)
    assert not recwarn.list


@pytest.mark.parametrize(
    ("values", "sums"),
    [
        ([37407.1, 13802.7, 21000.5, -1375.3], "70835"),
        ([352.1, 331.0, 201.0, 124.0, -8.0, 21.0], "1021.1"),
        ([[0.5, 0.5], [400.5, -1.0]], "399.5"),
    ],
)
def test_numbers_of_users_are_noticed_beside_negative_ones(values, sums):
    with pytest.warns(
        ImplausibleUnitWarning, match=f"sum to {sums}, .* divide them by the number of all users$"
    ):
        PROBLEM.solve(values)


@pytest.mark.parametrize(
    "values", [[400.5, -90.0], [40.0, -0.1], [1e13, -0.5], [[0.5, 0.5], [400.5, -90.0]]]
)
def test_noise_and_far_estimates_are_not_taken_for_numbers_of_users(values, recwarn):
    PROBLEM.solve(values)
    assert not recwarn.list


@pytest.mark.parametrize("way", WAYS)
def test_counts_are_noticed(way):
    with pytest.warns(ImplausibleUnitWarning, match=r"use oracle\.estimate\(counts, n\)$"):
        way(COUNTS)


def test_counts_as_integers_are_noticed_in_the_same_words():
    with pytest.warns(ImplausibleUnitWarning) as record:
        PROBLEM.solve([387, 402, 211])
    # Python shows a text once per line.
    assert len({str(warning.message) for warning in record}) == 1


USERS = Problem(LeastSquares(), [SumsTo(1000), NonNegative()])
OF_USERS = [500, 300, 210, -4]


@pytest.mark.parametrize(
    "way",
    [
        USERS.solve,
        USERS.minimise,
        USERS.explain,
        USERS.violation,
        USERS.to_cvxpy,
        lambda values: USERS.solve([values, values]),
        lambda values: postprocess(values, USERS),
        lambda values: certify(USERS, values, [500, 300, 200, 0]),
        lambda values: Problem(LeastSquares(), [SumsTo(Parameter("users", 1000))]).solve(values),
    ],
)
def test_integers_of_the_size_of_the_stated_total_are_in_its_unit(way, recwarn):
    way(OF_USERS)
    assert not recwarn.list


@pytest.mark.parametrize("kind", ["Series", "DataFrame"])
def test_integers_keep_their_labels_and_numbers(kind, recwarn):
    pandas = pytest.importorskip("pandas", reason="pandas is an optional package")
    start = USERS.solve(getattr(pandas, kind)(OF_USERS, list("abcd"))).start
    assert start.labels == tuple("abcd")
    assert start.frequencies.tolist() == OF_USERS
    assert not recwarn.list


@pytest.mark.parametrize(
    ("total", "values"),
    [
        (1, OF_USERS),
        (1, [2, 0, -1]),
        (0.5, [3, 1, 1]),
        (None, OF_USERS),
        (30, OF_USERS),  # above ten times the total
        (1000, [9000, 8000, 7000]),
    ],
)
def test_other_integers_are_counts(total, values):
    stated = [] if total is None else [SumsTo(total)]
    with pytest.warns(
        ImplausibleUnitWarning, match=r"use oracle\.estimate\(counts, n\)$"
    ) as record:
        Problem(LeastSquares(), stated).solve(values)
    assert all(warning.filename == __file__ for warning in record)


def test_the_trial_of_a_stack_is_named():
    with pytest.warns(ImplausibleUnitWarning, match="sum to 100 in trial 1, and the problem"):
        PROBLEM.solve([[0.5, 0.25, 0.25], PERCENT])


def test_the_total_is_that_of_the_problem():
    shares = Problem(LeastSquares(), [NonNegative(), SumsTo(0.25)])
    with pytest.warns(ImplausibleUnitWarning, match=r"states a total of 0\.25: if"):
        shares.solve([12.4, 12.7])
    assert Problem(LeastSquares(), [SumsTo(100)]).solve(PERCENT).frequencies.sum() == 100
    assert Problem(LeastSquares(), [SumsTo(1000)]).solve(COUNTS).frequencies.sum() == 1000


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 0.0, 2.0],  # whole numbers of a toy
        [3.0, 3.0, 3.5],
        [5.0, -1.0, 6.0],
        [120.0, -60.0, 40.0],  # noise that may well have a sum of 100
        [40.0, -5.0, 3.0],  # less than half of what percent sum to
        [98.0, 0.5, 0.4],  # more than one percent off
        [700.5, 200.0, 30.0],
        [6e7],  # a single value is no domain
        [1e200, 1e200],  # so large that every double is whole
    ],
)
def test_other_numbers_pass(values):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PROBLEM.minimise(values)


RAW = OUE(epsilon=1.0, d=4).estimate([3870, 3360, 3010, 2680], n=10_000)


@pytest.mark.parametrize("total", [100, 10_000])
@pytest.mark.parametrize("way", ["solve", "minimise"])
def test_a_total_of_percent_or_of_all_reports_is_noticed_beside_shares_of_1(total, way):
    problem = Problem(LeastSquares(), [NonNegative(), SumsTo(total)])
    with pytest.warns(ImplausibleUnitWarning, match=r"state SumsTo\(1\)$") as record:
        getattr(problem, way)(RAW)
    (warning,) = record
    assert f"a total of {total:g}, and these frequencies sum to 0.93584" in str(warning.message)
    assert warning.filename == __file__


def test_a_total_of_100_beside_plain_shares_is_noticed():
    with pytest.warns(ImplausibleUnitWarning, match="these frequencies sum to 1.07: if"):
        Problem(LeastSquares(), [SumsTo(100)]).solve([0.7, 0.2, 0.17])


@pytest.mark.parametrize("total", [0.25, 1, 2, 50, 99, 1000])
def test_other_totals_beside_shares_of_1_pass(total):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Problem(LeastSquares(), [NonNegative(), SumsTo(total)]).minimise(RAW)


def test_toys_under_a_small_total_pass():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Problem(LeastSquares(), [SumsTo(0.01)]).minimise([1.0, 0.0, 2.0])
        Problem(LeastSquares(), [SumsTo(0.01)]).minimise([0.7, 0.3])


def test_without_a_total_any_unit_passes():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Problem(LeastSquares(), [NonNegative()]).solve(PERCENT)
        Problem(LeastSquares(), [Bounds(0, 50)]).minimise(PERCENT)


def test_an_estimate_with_noise_has_the_unit_of_its_noise():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimate = FrequencyEstimate(PERCENT, noise=[1.0, 1.0, 1.0])
        assert estimate.has_noise
        assert not FrequencyEstimate(PERCENT).has_noise
        PROBLEM.minimise(estimate)


LABELLED = OUE(epsilon=1.0, d=4).estimate([3870, 3360, 3010, 2680], n=10_000, labels=list("abcd"))


@pytest.mark.parametrize("threshold", [1, 2.5, 30])
@pytest.mark.parametrize("estimate", [RAW, FrequencyEstimate([0.7, 0.3]), RAW[None]])
def test_a_threshold_in_percent_is_noticed(threshold, estimate):
    with pytest.warns(
        ImplausibleUnitWarning, match=f"{threshold:g} % is {threshold / 100:g}$"
    ) as r:
        assert not estimate.heavy_hitters(threshold).any()
    assert r[0].filename == __file__


def test_a_threshold_of_the_largest_values_in_percent_is_noticed():
    with pytest.warns(ImplausibleUnitWarning, match=r"^above is 30, and these frequencies are sh"):
        assert RAW.top(above=30) == []


@pytest.mark.parametrize(
    ("frequencies", "n", "threshold"),
    [
        ([0.7, 0.3], None, 0.99),
        ([38.7, 61.3], None, 30),  # percent
        ([0.001, 0.002], None, 2),  # shares of another total
        ([1.7, -0.7], None, 3),  # noise beyond shares
        ([0.9, 0.2], 10, 3),  # ten reports: below ten standard errors
    ],
)
def test_other_thresholds_pass(frequencies, n, threshold):
    oracle = None if n is None else OUE(epsilon=1.0, d=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FrequencyEstimate(frequencies, n=n, oracle=oracle).heavy_hitters(threshold)


@pytest.mark.parametrize("way", ["solve", "minimise"])
def test_a_bound_of_one_value_in_percent_is_noticed(way):
    problem = Problem(LeastSquares(), [NonNegative(), SumsTo(1), Bounds(upper={"b": 10})])
    with pytest.warns(ImplausibleUnitWarning, match="bound 10 of 'b' excludes nothing") as record:
        getattr(problem, way)(LABELLED)
    assert record[0].filename == __file__
    by_place = Problem(LeastSquares(), [Bounds(0, [math.inf, 10]), SumsTo(1)])
    with pytest.warns(ImplausibleUnitWarning, match="bound 10 of value 1 excludes nothing"):
        getattr(by_place, way)([0.5, 0.5])


@pytest.mark.parametrize(
    "constraints",
    [
        [NonNegative(), SumsTo(1), Bounds(upper={"b": 0.1})],
        [NonNegative(), SumsTo(1), Bounds(upper={"a": 0.1, "b": 10})],
        [NonNegative(), SumsTo(1), Bounds(0, 10)],  # of all values: no bound
        [NonNegative(), SumsTo(1), Bounds(upper={"b": 1e6})],
        [NonNegative(), SumsTo(100.5), Bounds(upper={"b": 10})],
        [NonNegative(), Bounds(upper={"b": 10})],
        [SumsTo(1), Bounds(upper={"b": 10})],  # others may be negative
    ],
)
def test_other_bounds_pass(constraints):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Problem(LeastSquares(), constraints).minimise(LABELLED)


REFERENCE = [0.4, 0.3, 0.2, 0.1]

IDLE = [
    (Near(REFERENCE, 5), 5),
    (Near(REFERENCE, 2.5, 1), 2.5),
    (Near(REFERENCE, 20, np.inf), 20),  # a box, whose bounds are those of all values
    (Smooth(20), 20),
    (Smooth(3, 5), 3),
    (Smooth(second_difference=10, order=[3, 1, 0]), 10),
    (Linear([[1, 1, 0, 0], [0, 0, 1, 0]], upper=[30, 20]), 30),
    (Linear([[1, -1, 0, 0]], -5, 5), 5),
    (Linear([[1, 0, -1, 0]], lower=-5), -5),
]


@pytest.mark.parametrize(("constraint", "bound"), IDLE)
@pytest.mark.parametrize("way", ["solve", "minimise"])
def test_a_set_in_percent_that_excludes_nothing_is_noticed(constraint, bound, way):
    problem = Problem(LeastSquares(), [NonNegative(), SumsTo(1), constraint])
    with pytest.warns(ImplausibleUnitWarning) as record:
        getattr(problem, way)(RAW)
    (warning,) = record
    assert str(warning.message) == (
        f"{constraint!r} excludes nothing beside the total 1: if {bound:g} is percent, divide it "
        "by 100"
    )
    assert warning.filename == __file__
    # Sums, norms and their like are largest where one value has all.
    assert not constraint.violation(np.eye(4)).any()


SIMPLEX = [NonNegative(), SumsTo(1)]


@pytest.mark.parametrize(
    "constraints",
    [
        [*SIMPLEX, Near(REFERENCE, 0.5)],
        [*SIMPLEX, Near(REFERENCE, 1)],  # excludes a little
        [*SIMPLEX, Near(REFERENCE, 2, 1)],  # two distributions are no further apart
        [*SIMPLEX, Near([0.4, 0.3, 0.2, 0.0999], 2, 1)],
        [*SIMPLEX, Near(REFERENCE, 2)],
        [*SIMPLEX, Near(REFERENCE, 3 * 0.0731 * 4**0.5 * 10)],  # computed from the noise
        [*SIMPLEX, Near(REFERENCE, 1e6)],
        [*SIMPLEX, Near([40, 30, 20, 10], 55)],
        [*SIMPLEX, Near(REFERENCE, 5, "kl")],  # in units of information
        [*SIMPLEX, Near(REFERENCE, 50, 1, weights=[9.0, 9.0, 9.0, 9.0])],
        [*SIMPLEX, Near(REFERENCE, Parameter("radius", 5))],
        [SumsTo(1), Near(REFERENCE, 5)],  # values may be negative
        [NonNegative(), Near(REFERENCE, 5)],
        [*SIMPLEX, Smooth(2)],
        [*SIMPLEX, Smooth(0.5, 5)],
        [*SIMPLEX, Smooth(second_difference=4)],
        [*SIMPLEX, Smooth(Parameter("bound", 20))],
        [*SIMPLEX, Linear([[1, 1, 0, 0], [0, 0, 1, 0]], upper=[30, 0.2])],
        [*SIMPLEX, Linear([[1, 1, 0, 0]], 0.1, 30)],
        [*SIMPLEX, Linear([[0, 1, 2, 3]], upper=20)],  # a mean
        [*SIMPLEX, Linear([[1, -1, 0, 0]], 0)],
        [*SIMPLEX, Linear([[1, 1, 0, 0]])],
    ],
)
def test_sets_that_exclude_something_or_are_not_in_percent_pass(constraints, recwarn):
    Problem(LeastSquares(), constraints).minimise(RAW)
    assert not recwarn.list


@pytest.mark.parametrize("trial", range(20))
def test_a_set_is_idle_only_if_no_distribution_is_outside(trial):
    rng = np.random.default_rng(trial)
    d = int(rng.integers(3, 8))
    total = float(rng.choice([0.1, 1.0, 100.0]))
    bound, other = total * rng.uniform(0, 5, 2)
    reference = rng.normal(size=d) * total
    signs = rng.integers(-1, 2, (3, d))
    stated = [Near(reference, bound, norm) for norm in (1, 2, np.inf)]
    stated += [Smooth(bound), Smooth(bound, other), Smooth(second_difference=bound)]
    stated += [Linear(signs, upper=bound), Linear(signs, -other, bound)]
    corners = total * np.eye(d)
    for constraint in stated:
        is_idle = constraint.idle_bound(total) is not None
        assert not (is_idle and constraint.violation(corners).any())


@pytest.mark.parametrize(
    ("frequencies", "remedy"),
    [
        ([51.1, 29.0, 13.9, -0.4], "sum to 93.6, .* percent, divide them by 100$"),
        ([[51.1, 29.0, 13.9, -0.4]] * 2, "percent, divide them by 100$"),
        ([5109.5, 2902.2, 1387.5, -40.7], "numbers of users, divide them by n = 10,000$"),
        # Noise may move their sum by half of n.
        ([3109.5, 1902.2, 587.5, -40.7], "numbers of users, divide them by n = 10,000$"),
        ([8109.5, 4902.2, 1787.5, -40.7], "numbers of users, divide them by n = 10,000$"),
        ([3870.0, 3360.0, 3010.0, 2680.0], r"counts .*, use oracle\.estimate\(counts, n\)$"),
    ],
)
def test_other_units_are_noticed_beside_the_noise_of_an_oracle(frequencies, remedy):
    with pytest.warns(ImplausibleUnitWarning, match=remedy) as record:
        FrequencyEstimate(frequencies, n=10_000, oracle=OUE(1.0, 4))
    (warning,) = record
    assert warning.filename == __file__


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 4.0])
@pytest.mark.parametrize("n", [1, 2, 10, 100])
def test_no_raw_estimate_is_in_another_unit(epsilon, n):
    # The largest that reports give: of few reports far above 1.
    for oracle in (OUE(epsilon, 3), SubsetSelection(epsilon, 3), HadamardResponse(epsilon, 100)):
        limit = (1 - oracle.q) / (oracle.p - oracle.q)
        for frequencies in ([limit] * oracle.d, [limit, *[0.0] * (oracle.d - 1)]):
            with warnings.catch_warnings():
                warnings.simplefilter("error", ImplausibleUnitWarning)
                FrequencyEstimate(frequencies, n=n, oracle=oracle)


def test_numbers_beyond_those_of_all_users_are_no_numbers_of_users(recwarn):
    for frequencies in ([1001.0, 0.0], [1e300, -1.0], [1e17, 0.0]):
        FrequencyEstimate(frequencies, n=1000, oracle=OUE(1.0, 2))
    assert not recwarn.list


@pytest.mark.parametrize(
    "stated",
    [
        {"noise": [4.0] * 4},  # by hand, in percent as well
        {"n": 10_000, "oracle": OUE(0.01, 4)},  # reports with so much noise reach percent
        {},
    ],
)
def test_other_units_are_plausible_beside_other_noise(stated, recwarn):
    FrequencyEstimate([51.1, 29.0, 13.9, -0.4], **stated)
    assert not recwarn.list


@pytest.mark.parametrize(
    ("totals", "remedy"),
    [
        ([80, 20], "sum to 100, and these frequencies to 0.935842: if .* by 100$"),
        ([45.5, 4.5], "percent, divide them by 100$"),
        ([7900, 2100], "numbers of users, divide them by the number of all users$"),
    ],
)
@pytest.mark.parametrize("way", ["solve", "minimise"])
def test_totals_of_groups_in_other_units_are_noticed(way, totals, remedy):
    # Without a total of the problem nothing else would fail.
    census = [NonNegative(), GroupTotals([[0, 1], [2, 3]], totals)]
    with pytest.warns(ImplausibleUnitWarning, match=remedy) as record:
        getattr(Problem(LeastSquares(), census), way)(RAW)
    (warning,) = record
    assert warning.filename == __file__


@pytest.mark.parametrize(
    ("totals", "frequencies"),
    [
        ([0.8, 0.2], RAW),
        ([0.8, 0.3], [0.5, 0.3, 0.2, 0.1]),
        ([2, 3], [0.5, 0.3, 0.2, 0.1]),  # toys
        ([80, 20], [51.1, 29.0, 13.9, -0.4]),  # both in percent
        ([80, 20], [0.0, 0.0, 0.0, 0.0]),  # a direction, no frequencies
    ],
)
def test_totals_of_groups_in_the_unit_of_the_frequencies_pass(totals, frequencies, recwarn):
    census = [NonNegative(), GroupTotals([[0, 1], [2, 3]], totals)]
    Problem(LeastSquares(), census).solve(frequencies)
    assert not recwarn.list
