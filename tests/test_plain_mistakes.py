"""Plain mistakes of a first hour: each error says what is wrong in the caller's own words."""

import numpy as np
import pytest

from ldpopt import (
    METHODS,
    FrequencyEstimate,
    Source,
    Sources,
    constraints,
    oracles,
    postprocess,
    select_method,
)
from ldpopt.errors import (
    InvalidInputError,
    InvalidTypeError,
    LdpoptWarning,
    MethodError,
    UnknownNameError,
)

PETS = FrequencyEstimate([0.5, 0.25, 0.125], labels=["cat", "dog", "cow"])
TOTALS = oracles.GRR(epsilon=1.0, d=2).estimate([400, 600], 1000, labels=["mine", "all"])
RAW = oracles.OUE(epsilon=1.0, d=3).estimate([4300, 3300, 2650], 10_000, labels=PETS.labels)


@pytest.mark.parametrize("missing", [None, float("nan"), np.float64("nan")])
def test_a_missing_label_is_no_label(missing):
    with pytest.raises(InvalidInputError, match=r"labels must name every value, got .* at index 1"):
        FrequencyEstimate([0.5, 0.5], labels=["cat", missing])


def test_the_text_of_a_missing_label_is_a_label():
    assert FrequencyEstimate([0.5, 0.5], labels=["None", "nan"]).labels == ("None", "nan")


@pytest.mark.parametrize("place", ["index", "column"])
@pytest.mark.parametrize("missing", [None, float("nan"), "NaT", "NA"])
def test_a_missing_label_of_pandas_is_refused(place, missing):
    pandas = pytest.importorskip("pandas")
    label = getattr(pandas, missing) if isinstance(missing, str) else missing
    names = pandas.Series(["cat", label], dtype=object)
    numbers = pandas.Series([0.5, 0.5], index=pandas.Index(names))
    frame = pandas.DataFrame({"label": names, "frequency": [0.5, 0.5]})
    with pytest.raises(InvalidInputError, match=r"every value, got .*keep_default_na=False"):
        FrequencyEstimate(numbers if place == "index" else frame)


@pytest.mark.parametrize("way", ["query", "interval", "to_frame"])
@pytest.mark.parametrize(
    ("sets", "sentence"),
    [
        ({"mine": ["cat", "cow", "cat"]}, "set 'mine' has 'cat' more than once, again at posi"),
        ({"mine": ["cat", "dog", "dog"]}, "set 'mine' has 'dog' more than once, again at posi"),
        ({"all": [0], "mine": [1, 1]}, "set 'mine' has an index more than once, 1 again"),
        ({"all": [0], "mine": [5]}, "indices of set 'mine' must lie in"),
        ([["cat"], ["dog", "dog"]], "set 1 has 'dog' more than once"),
    ],
)
def test_a_set_is_called_by_its_name(way, sets, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        getattr(RAW, way)(sets=sets)


def test_a_set_that_is_shown_is_called_by_its_name():
    with pytest.raises(InvalidInputError, match="set 'mine' has an index more than once"):
        RAW.shown(2, {"all": [0], "mine": [1, 1]})


@pytest.mark.parametrize(
    "answer",
    [
        METHODS["norm-sub"].problem.interval,
        lambda raw, sets: select_method(raw, sets),
        lambda raw, sets: Sources([raw, Source(TOTALS, sets)]).combined(),
    ],
)
def test_a_set_of_constrained_answers_is_called_by_its_name(answer):
    with pytest.raises(InvalidInputError, match="set 'mine' has an index more than once, 1 again"):
        answer(RAW, sets={"all": [0], "mine": [1, 1]})


@pytest.mark.parametrize(
    "function",
    [
        lambda f: f / f.sum(),
        lambda f: f * 2,
        lambda f: f.clip(0),
        lambda f: 1 - f,
    ],
)
@pytest.mark.parametrize("start", [PETS, [[0.5, 0.5], [0.25, 0.75]]])
def test_a_function_of_an_array_is_noticed(function, start):
    with pytest.raises(MethodError, match=r"let it begin with f = estimate\.frequencies$"):
        postprocess(start, function)


def test_other_errors_of_a_function_stay_as_they_are():
    with pytest.raises(AttributeError, match="no attribute 'sums'"):
        postprocess(PETS, lambda estimate: estimate.frequencies.sums)
    with pytest.raises(AttributeError, match="no attribute 'frequncies'"):
        postprocess(PETS, lambda estimate: estimate.frequncies)
    with pytest.raises(AttributeError, match="no attribute 'sum'"):
        postprocess(PETS, lambda estimate: object().sum())
    with pytest.raises(TypeError, match="unsupported operand"):
        postprocess(PETS, lambda estimate: estimate.frequencies.tolist() - 1)


def test_a_method_of_another_name_is_an_error_with_the_nearest_ones():
    with pytest.raises(
        UnknownNameError, match=r"^unknown method 'normsub': did you mean 'norm-sub'"
    ):
        METHODS["normsub"]
    with pytest.raises(KeyError):
        METHODS["normsub"]
    assert METHODS.get("normsub") is None
    assert "normsub" not in METHODS
    assert METHODS["norm-sub"].name == "norm-sub"
    assert repr(METHODS).startswith("METHODS(base, base-pos")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: FrequencyEstimate([0.5], lables=["cat"]),
            r"^FrequencyEstimate\(\): .* 'lables': for lables=\.\.\., did you mean labels=",
        ),
        (lambda: constraints.Bounds(0, uper=1), r"^Bounds\(\): .* did you mean upper="),
        (lambda: oracles.OUE(eps=1.0, d=3), r"^OUE\(\): .* did you mean epsilon="),
        (lambda: FrequencyEstimate(), r"^FrequencyEstimate\(\): missing a required argument"),
    ],
)
def test_a_wrong_argument_is_one_of_the_public_class(call, sentence):
    with pytest.raises(InvalidTypeError, match=sentence):
        call()


@pytest.mark.parametrize(
    "way",
    [
        METHODS["norm-sub"].problem.solve,
        METHODS["norm-sub"].problem.minimise,
        FrequencyEstimate,
        lambda column: postprocess(column, "norm"),
    ],
)
def test_a_column_is_noticed(way):
    column = np.array([[0.5], [0.3], [0.25], [-0.05]])
    with pytest.warns(
        LdpoptWarning, match=r"\(4, 1\), 4 trials of one value: .* values\.ravel\(\)"
    ):
        way(column)


@pytest.mark.parametrize(
    "frequencies", [[0.5], [[0.5]], [[0.5, 0.5]], [[0.5, 0.5]] * 2, [[1.0], [1.0], [0.9]]]
)
def test_vectors_and_rows_are_no_columns(frequencies, recwarn):
    FrequencyEstimate(frequencies)
    assert not recwarn.list


def test_one_vector_that_is_iterated_names_its_numbers():
    with pytest.raises(InvalidTypeError, match=r"its numbers are estimate\.frequencies$"):
        list(PETS)
