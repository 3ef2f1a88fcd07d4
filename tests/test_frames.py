"""Data frames of pandas and polars as data: what is clear is taken, all else has a remedy."""

import cvxpy as cp
import numpy as np
import pytest

import ldpopt
from ldpopt import FrequencyEstimate, Problem, certify, constraints, datasets, losses, oracles
from ldpopt.errors import InvalidInputError, InvalidTypeError, LdpoptWarning
from ldpopt.estimate import metrics

PETS = ("ape", "bee", "cat")
COUNTS = [5, 3, 2]
SIMPLEX = Problem(losses.LeastSquares(), [constraints.NonNegative(), constraints.SumsTo(1.0)])


class RangeIndex:
    """The index that pandas makes by itself, and what is left of it after a slice."""

    def __init__(self, rows):
        self._rows = rows
        self.start = rows.start
        self.step = rows.step

    def __iter__(self):
        return iter(self._rows)


class Columns:
    """Columns by place, as ``frame.iloc[:, place]``."""

    def __init__(self, columns):
        self._columns = columns

    def __getitem__(self, place):
        return self._columns[place[1]]


def _pandas(data, index=None):
    """Return what this library uses of a DataFrame of pandas, which need not be installed."""
    frame = type("DataFrame", (), {"__module__": "pandas.core.frame"})()
    frame.columns = list(data)
    columns = [np.array(column) for column in data.values()]
    frame.iloc = Columns(columns)
    frame.shape = (len(columns[0]), len(columns))
    index = range(len(columns[0])) if index is None else index
    frame.index = RangeIndex(index) if isinstance(index, range) else list(index)
    return frame


def _polars(data, index=None):
    """Return the same of a DataFrame of polars, which has no index."""
    frame = type("DataFrame", (), {"__module__": "polars.dataframe.frame"})()
    columns = [np.array(column) for column in data.values()]
    frame.columns = list(data)
    frame.get_columns = lambda: columns
    return frame


def _real_pandas(data, index=None):
    return pytest.importorskip("pandas", reason="pandas is an optional package").DataFrame(
        data, index=index
    )


def _real_polars(data, index=None):
    return pytest.importorskip("polars", reason="polars is an optional package").DataFrame(data)


KINDS = [_pandas, _polars, _real_pandas, _real_polars]


@pytest.mark.parametrize("frame", [_pandas, _real_pandas])
def test_a_frame_whose_rows_were_reversed_or_sliced_goes_by_the_numbers_of_its_rows(frame):
    """pandas keeps a range as the index, which is no longer the one that it made by itself."""
    reversed_rows = frame({"count": [20, 30, 50]}, index=range(2, -1, -1))
    raw = oracles.GRR(epsilon=1.0, d=3).estimate(reversed_rows, n=100)
    assert raw.labels == ("2", "1", "0")
    assert FrequencyEstimate(frame({"share": [0.3, 0.2]}, index=range(1, 3))).labels == ("1", "2")


def test_a_series_that_was_reversed_goes_by_the_numbers_of_its_rows():
    pandas = pytest.importorskip("pandas", reason="pandas is an optional package")
    estimate = FrequencyEstimate([0.5, 0.3, 0.2], labels=["0", "1", "2"])
    truth = pandas.Series([0.5, 0.3, 0.2])
    for given in (truth, truth[::-1]):
        assert metrics.mean_squared_error(estimate, given) == 0
    columns = pandas.DataFrame([[1.0, -1.0, 0.0]]).iloc[:, ::-1]
    equal = constraints.Linear(columns, 0.0, 0.0)
    problem = Problem(losses.LeastSquares(), [constraints.SumsTo(1.0), equal])
    assert problem.solve(estimate).frequencies == pytest.approx([0.4, 0.4, 0.2])


@pytest.mark.parametrize("frame", KINDS)
def test_one_column_of_numbers_is_a_vector(frame):
    """numpy makes of it three trials of one value each, and the answer was [[1], [1], [1]]."""
    solution = SIMPLEX.solve(frame({"share": [0.5, 0.3, 0.4]}))
    assert solution.frequencies == pytest.approx([13 / 30, 7 / 30, 1 / 3])
    assert solution.estimate.labels is None
    with_labels = frame({"pet": PETS, "share": [0.5, 0.3, 0.2]})
    assert FrequencyEstimate(with_labels).labels == PETS
    assert SIMPLEX.solve(with_labels).frequencies == pytest.approx([0.5, 0.3, 0.2])
    assert certify(SIMPLEX, [0.5, 0.3, 0.2], with_labels).is_optimal(1e-9)


@pytest.mark.parametrize("frame", KINDS)
def test_counts_come_in_frames(frame):
    named = frame({"pet": PETS, "users": COUNTS})
    assert oracles.OUE(1.0, 3).estimate(named, 10).labels == PETS
    data = datasets.Dataset.from_pandas(named)
    assert (data.name, data.labels, data.counts.tolist()) == ("users", PETS, COUNTS)
    study = ldpopt.study("base", {"zoo": named}, draws=2)
    assert {(row.data, row.d) for row in study.rows} == {("zoo", 3)}
    unnamed = datasets.Dataset.from_pandas(frame({"users": COUNTS}))
    assert unnamed.labels == ("0", "1", "2")
    # As in CSV files: by their names, where several columns have numbers.
    several = frame({"value": [7, 8, 9], "count": COUNTS, "rank": [1, 2, 3]})
    assert datasets.Dataset.from_pandas(several).labels == ("7", "8", "9")
    assert datasets.Dataset.from_pandas(several).counts.tolist() == COUNTS


@pytest.mark.parametrize("frame", [_pandas, _real_pandas])
def test_an_index_has_labels(frame):
    assert FrequencyEstimate(frame({"share": [0.5, 0.3, 0.2]}, index=PETS)).labels == PETS
    with pytest.raises(InvalidInputError, match=r"'ape' occurs twice .* \(groupby\)"):
        FrequencyEstimate(frame({"share": [0.5, 0.3]}, index=["ape", "ape"]))


@pytest.mark.parametrize("frame", KINDS)
@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ({"x": [0.5, 0.5], "y": [0.2, 0.8]}, InvalidInputError, r"frame\['x'\].*to_numpy\(\)"),
        ({"x": [0.5], "y": [0.5]}, InvalidInputError, r"one row and .*pass the row, .*iloc\[0\]"),
        ({"x": ["u", "v"]}, InvalidTypeError, "a column of numbers.* the columns 'x': count"),
        ({"a": ["u", "v"], "b": ["u", "v"], "c": [1, 2]}, InvalidInputError, "keep 'c' and one"),
    ],
)
def test_what_is_not_clear_has_a_remedy(frame, data, error, message):
    for use in (SIMPLEX.solve, FrequencyEstimate, datasets.Dataset.from_pandas):
        with pytest.raises(error, match=message):
            use(frame(data))
    with pytest.raises(error, match=message):
        ldpopt.study("base", frame(data))


def test_a_series_of_polars_is_a_vector():
    polars = pytest.importorskip("polars", reason="polars is an optional package")
    study = ldpopt.study("base", polars.Series("users", COUNTS), draws=2)
    assert {(row.data, row.d) for row in study.rows} == {("users", 3)}


ESTIMATE = FrequencyEstimate([0.5, 0.3, 0.2], labels=PETS)


def test_labels_in_another_order_name_no_value_anew():
    estimate = FrequencyEstimate([0.5, 0.3, 0.2], labels=["ape", "bee", "cat"])
    assert estimate.labelled(["ape", "bee", "cat"]).top(1)[0].label == "ape"
    assert estimate.labelled(["Affe", "Biene", "Katze"]).top(1)[0].label == "Affe"
    with pytest.raises(InvalidInputError, match="these labels already, in another order"):
        estimate.labelled(["cat", "bee", "ape"])


def labelled(ape, bee, cat):
    """Return three numbers in another order than that of the estimate above."""
    return _pandas({"label": ["cat", "ape", "bee"], "count": [cat, ape, bee]})


# With numbers by hand: the reference .6, .2, .2 by value is .2, .6, .2 by place.
BY_LABEL = {
    "1-norm ball": (losses.LeastSquares(), [constraints.Near(labelled(0.6, 0.2, 0.2), 0.0, 1)]),
    "with a parameter": (
        losses.LeastSquares()
        + ldpopt.Parameter("lam", 100.0) * losses.L1To(labelled(0.6, 0.2, 0.2)),
        [],
    ),
    "divergence": (losses.KLTo(labelled(0.6, 0.2, 0.2)), [constraints.SumsTo(1.0)]),
    # All go up in proportion to 1/w, by a quarter in all, and the third as far as it may.
    "weights and a bound": (
        losses.WeightedLeastSquares(labelled(0.5, 1.0, 1.0)),
        [constraints.SumsTo(1.25), constraints.Bounds(upper=labelled(9.0, 9.0, 0.25))],
    ),
}


@pytest.mark.parametrize("case", BY_LABEL)
def test_numbers_with_labels_belong_to_the_values_of_these_names(case):
    expected = [0.6, 0.2, 0.2]
    if case == "weights and a bound":
        expected = [0.5 + 0.4 / 3, 0.3 + 0.2 / 3, 0.25]
    solution = Problem(*BY_LABEL[case]).solve(ESTIMATE)
    assert solution.frequencies == pytest.approx(expected, abs=1e-12)


def test_columns_of_a_matrix_belong_to_the_values_of_their_names():
    pandas = pytest.importorskip("pandas", reason="pandas is an optional package")
    rows = pandas.DataFrame([[1.0, 0.0, -1.0]], columns=["cat", "ape", "bee"])
    # cat = bee, which are .2 and .3: both become .25.
    for matrix in (rows, rows.loc[0]):
        problem = Problem(losses.LeastSquares(), [constraints.Linear(matrix, 0.0, 0.0)])
        solution = problem.solve(ESTIMATE)
        assert solution.frequencies == pytest.approx([0.5, 0.25, 0.25], abs=1e-9)


def test_an_estimate_without_labels_has_numbers_by_place():
    # Those of two arguments come into one order, here that of the first.
    ball = constraints.Near([0.6, 0.2, 0.2], 0.0, 1, weights=[1.0, 2.0, 3.0])
    reference = _pandas({"label": ["ape", "bee", "cat"], "count": [0.6, 0.2, 0.2]})
    both = constraints.Near(reference, 0.0, 1, weights=labelled(1.0, 2.0, 3.0))
    np.testing.assert_array_equal(both.reference, ball.reference)
    np.testing.assert_array_equal(both.weights, ball.weights)


def test_a_reference_is_a_copy():
    frame = labelled(0.6, 0.2, 0.2)
    ball = Problem(losses.LeastSquares(), [constraints.Near(frame, 0.0)])
    frame.iloc[:, 1][:] = 0.9
    assert ball.solve(ESTIMATE).frequencies == pytest.approx([0.6, 0.2, 0.2], abs=1e-12)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["ape", "bee"], "has no number for 'cat': pass one number per label"),
        (["ape", "bee", "cat", "dog"], "has a number for 'dog', which is no value"),
    ],
)
def test_labels_that_are_not_those_of_the_estimate_are_refused(names, message):
    upper = _pandas({"label": names, "count": [0.5] * len(names)})
    problem = Problem(losses.LeastSquares(), [constraints.Bounds(upper=upper)])
    with pytest.raises(InvalidInputError, match=f"upper goes by its labels, and {message}"):
        problem.solve(ESTIMATE)


def test_a_label_that_is_there_twice_is_refused():
    twice = FrequencyEstimate([0.5, 0.3, 0.2], labels=["ape", "ape", "cat"])
    lower = _pandas({"label": ["cat", "ape"], "count": [0.0, 0.1]})
    with pytest.raises(InvalidInputError, match="leaves open which 'ape' is meant"):
        Problem(losses.LeastSquares(), [constraints.Bounds(lower=lower)]).solve(twice)


def test_counts_beside_labels_go_by_their_own():
    """Counts of ``value_counts`` are sorted by size, and the labels are those of the domain."""
    oracle = oracles.SUE(1.0, 3)
    counts = labelled(300, 500, 400)
    estimate = oracle.estimate(counts, 1000, labels=PETS)
    expected = oracle.estimate([300, 500, 400], 1000, labels=PETS)
    np.testing.assert_array_equal(estimate.frequencies, expected.frequencies)
    assert estimate.labels == tuple(PETS)
    by_hand = FrequencyEstimate(labelled(0.5, 0.3, 0.2), labels=PETS)
    np.testing.assert_array_equal(by_hand.frequencies, [0.5, 0.3, 0.2])
    with pytest.raises(InvalidInputError, match=r"counts goes by its labels.*no number for 'cow'"):
        oracle.estimate(counts, 1000, labels=["ape", "bee", "cow"])
    by_number = _pandas({"label": ["1", "2", "0"], "count": [500, 400, 300]})
    with pytest.raises(InvalidInputError, match=r"first 1: pass counts\.sort_index\(\)"):
        oracle.estimate(by_number, 1000, labels=PETS)
    # Names that are all others are new ones.
    assert (
        oracle.estimate(counts, 1000, labels=list("abc")).frequencies[0] < estimate.frequencies[1]
    )


def test_errors_noise_and_points_go_by_labels():
    truth = labelled(0.5, 0.3, 0.2)
    assert metrics.mean_squared_error(ESTIMATE, truth) == 0.0
    assert metrics.identification(ESTIMATE, truth, 0.4).f_score == 1.0
    other = FrequencyEstimate([0.2, 0.5, 0.3], labels=["cat", "ape", "bee"])
    assert metrics.largest_error(ESTIMATE, other) == 0.0
    noisy = FrequencyEstimate([0.5, 0.3, 0.2], labels=PETS, noise=labelled(1.0, 2.0, 3.0))
    np.testing.assert_array_equal(noisy.noise.constant, [1.0, 2.0, 3.0])
    assert certify(SIMPLEX, ESTIMATE, truth).is_optimal(1e-12)


def test_a_method_may_return_numbers_with_labels():
    processed = ldpopt.postprocess(ESTIMATE, lambda estimate: labelled(0.5, 0.3, 0.2))
    np.testing.assert_array_equal(processed.frequencies, [0.5, 0.3, 0.2])


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda x: constraints.Fixed([0, 1, 2], x), "values of Fixed does not go by the labels"),
        (lambda x: ldpopt.Parameter("r", x), "the parameter r holds numbers without labels"),
        (lambda x: ldpopt.Noise(x), "has labels, which noise cannot keep"),
        (
            lambda x: FrequencyEstimate(x, raw=ESTIMATE),
            "raw names its values otherwise, or in another order",
        ),
    ],
)
def test_labels_that_nothing_can_keep_are_refused(use, message):
    series = pytest.importorskip("pandas", reason="pandas is an optional package").Series
    with pytest.raises(InvalidInputError, match=message):
        use(series({"cat": 0.2, "ape": 0.5, "bee": 0.3}))


def test_a_function_that_reads_labels_in_another_order_is_told(recwarn):
    pandas = pytest.importorskip("pandas", reason="pandas is an optional package")
    last = pandas.Series([0.2, 0.3, 0.5], index=["bee", "cat", "ape"])
    near = constraints.Custom(lambda f: cp.norm1(f - last) <= 0.1)
    far = losses.Custom(lambda f, y, last=last: cp.sum_squares(f - y) + cp.norm1(f - last))
    for problem in (
        Problem(losses.LeastSquares(), [near]),
        Problem(losses.LeastSquares() + far, []),
    ):
        with pytest.warns(LdpoptWarning, match=r"another order .* \.loc\[list\(estimate\."):
            problem.plan(ESTIMATE)
    table = pandas.DataFrame({"share": last, "place": [1, 2, 3]})
    capped = constraints.Custom(lambda f: f <= table["share"])
    with pytest.warns(LdpoptWarning, match="reads a DataFrame whose labels stand in another order"):
        Problem(losses.LeastSquares(), [capped]).plan(ESTIMATE)
    # Out of dictionaries and lists, too: cvxpy would take them by place all the same.
    for held in ({"census": table}, {"known": {"shares": last}}, [last], {"of": ("all", [table])}):
        capped = constraints.Custom(lambda f, held=held: f[0] <= (0.9 if held else 1.0))
        with pytest.warns(LdpoptWarning, match="whose labels stand in another order"):
            Problem(losses.LeastSquares(), [capped]).plan(ESTIMATE)
    ordered = last[list(ESTIMATE.labels)]
    Problem(losses.LeastSquares(), [constraints.Custom(lambda f: f <= ordered)]).plan(ESTIMATE)
    assert not recwarn.list
