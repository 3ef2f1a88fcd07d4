"""Data frames of pandas and polars as data: what is clear is taken, all else has a remedy."""

import numpy as np
import pytest

import ldpopt
from ldpopt import FrequencyEstimate, Problem, certify, constraints, datasets, losses, oracles
from ldpopt.errors import InvalidInputError, InvalidTypeError

PETS = ("ape", "bee", "cat")
COUNTS = [5, 3, 2]
SIMPLEX = Problem(losses.LeastSquares(), [constraints.NonNegative(), constraints.SumsTo(1.0)])


class RangeIndex:
    """The index that pandas makes by itself."""


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
    frame.index = RangeIndex() if index is None else list(index)
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
