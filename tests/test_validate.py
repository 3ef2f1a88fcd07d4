"""The checks at the border: what passes, in which form, and what the messages say."""

import decimal
import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import ldpopt
from ldpopt import FrequencyEstimate, Problem, errors, validate
from ldpopt.collection import ReportWriter
from ldpopt.constraints import Bounds, Fixed, GroupTotals, Hierarchy, Monotone, NonNegative
from ldpopt.datasets import Dataset
from ldpopt.errors import (
    DataUnavailableError,
    InfeasibleError,
    InvalidInputError,
    InvalidTypeError,
    LdpoptError,
    LdpoptWarning,
    SolverError,
    nearest,
)
from ldpopt.estimate import heavy_hitters, mean_squared_error
from ldpopt.losses import LeastSquares, WeightedLeastSquares
from ldpopt.oracles import GRR, OLH
from ldpopt.priors import Discrete, PowerLaw
from ldpopt.studies.audit import audit
from ldpopt.studies.poisoning import maximal_gain


@pytest.mark.parametrize(
    "error", [InvalidInputError, InfeasibleError, SolverError, DataUnavailableError]
)
def test_errors_of_value_are_value_errors(error):
    assert issubclass(error, ValueError)
    assert issubclass(error, LdpoptError)


def test_every_error_is_a_value_or_type_error_but_that_of_a_missing_package():
    raised = [
        one
        for one in vars(errors).values()
        if isinstance(one, type) and issubclass(one, LdpoptError) and one is not LdpoptError
    ]
    others = [one for one in raised if not issubclass(one, ValueError | TypeError)]
    assert len(raised) > 10
    assert others == [errors.MissingPackageError]
    assert issubclass(errors.MissingPackageError, ImportError)


def test_errors_of_kind_are_type_errors_and_warnings_are_warnings():
    assert issubclass(InvalidTypeError, TypeError)
    assert issubclass(InvalidTypeError, LdpoptError)
    assert issubclass(LdpoptWarning, UserWarning)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("norm-subb", r"did you mean 'norm-sub'"),
        ("NORM-SUB", r"did you mean 'norm-sub'"),
        ("mle", r"did you mean 'mle-apx'"),
        ("zzz", r"known: norm-sub, mle-apx, power$"),
        (3, r"known: norm-sub, mle-apx, power$"),
        (None, r"known: norm-sub, mle-apx, power$"),
    ],
)
def test_an_unknown_name_suggests_the_nearest_or_lists_all(name, hint):
    table = {"norm-sub": 1, "mle-apx": 2, "power": 3}
    with pytest.raises(InvalidInputError, match=rf"^unknown method {name!r}: {hint}"):
        validate.lookup("method", name, table)


def test_among_very_many_names_only_one_that_differs_in_case_is_near():
    few = [f"value {i}" for i in range(100)]
    assert nearest(" VALUE 7", few) == ["value 7"]
    assert nearest("vlaue 7", few)[0] == "value 7"
    many = [f"value {i}" for i in range(20_000)]
    assert nearest(" VALUE 7", many) == ["value 7"]
    assert nearest("vlaue 7", many) == []


def test_several_near_names_are_listed_as_in_a_sentence():
    table = dict.fromkeys(["norm-sub", "norm-mul", "norm", "power"])
    with pytest.raises(
        InvalidInputError, match=r"did you mean 'norm-sub', 'norm-mul' or 'norm'\?$"
    ):
        validate.lookup("method", "norm-mub", table)


def test_a_known_name_is_found():
    assert validate.lookup("method", "b", {"a": 1, "b": 2}) == 2


def test_an_unhashable_name_is_refused():
    with pytest.raises(InvalidInputError, match="unknown method"):
        validate.lookup("method", ["a"], {"a": 1})


@pytest.mark.parametrize("value", [1, 1.0, np.float32(1), np.int8(1), Fraction(1), np.float64(1)])
def test_real_takes_every_kind_of_real_number(value):
    result = validate.real("x", value)
    assert type(result) is float
    assert result == 1.0


@pytest.mark.parametrize(
    ("value", "bounds", "message"),
    [
        (0, {"above": 0}, "x must be a finite number > 0, got 0"),
        (1, {"below": 1}, "x must be a finite number < 1, got 1"),
        (2, {"above": 0, "below": 1}, "x must be a finite number > 0 and < 1, got 2"),
        (math.nan, {}, "x must be a finite number, got nan"),
        (math.inf, {}, "x must be a finite number, got inf"),
        (-math.inf, {"below": 1}, "x must be a finite number < 1, got -inf"),
    ],
)
def test_real_names_its_bounds(value, bounds, message):
    with pytest.raises(InvalidInputError, match=f"^{message}$"):
        validate.real("x", value, **bounds)


@pytest.mark.parametrize(
    "value", ["1", None, True, np.False_, 1j, [1], np.array([1.0]), decimal.Decimal(1)]
)
def test_real_refuses_other_kinds(value):
    with pytest.raises(InvalidTypeError, match=r"^x must be a number, got"):
        validate.real("x", value)


def test_real_refuses_an_integer_beyond_the_floats():
    with pytest.raises(InvalidInputError, match=r"^x must be a finite number"):
        validate.real("x", 10**400)


@pytest.mark.parametrize("value", [3, 3.0, np.int64(3), np.uint8(3), np.float32(3), Fraction(3)])
def test_integer_takes_whole_numbers_of_every_kind(value):
    result = validate.integer("x", value, minimum=3)
    assert type(result) is int
    assert result == 3


@pytest.mark.parametrize(
    "value", [3.5, math.nan, math.inf, "3", None, True, np.True_, 3j, [3], Fraction(7, 2)]
)
def test_integer_refuses_what_is_not_whole(value):
    with pytest.raises(InvalidTypeError, match=r"^x must be a whole number, got"):
        validate.integer("x", value, minimum=0)


def test_integer_names_its_minimum():
    with pytest.raises(InvalidInputError, match=r"^x must be at least 4, got 3\.0$"):
        validate.integer("x", 3.0, minimum=4)


def test_positions_read_well():
    assert validate.where((3,)) == "index 3"
    assert validate.where((np.int64(2), np.int64(3))) == "trial 2, index 3"
    assert validate.where((1, 2, 3)) == "trial 1, 2, index 3"
    assert validate.first(np.array([[False, False], [False, True]])) == (1, 1)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.uint64, np.float32, np.float64])
def test_whole_numbers_of_every_dtype_become_int64(dtype):
    result = validate.whole_numbers("x", np.array([0, 1, 9], dtype=dtype), low=0, high=9)
    assert result.dtype == np.int64
    assert_array_equal(result, [0, 1, 9])


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float64])
def test_whole_numbers_include_both_ends_and_nothing_beyond(dtype):
    assert_array_equal(
        validate.whole_numbers("x", np.array([-2, 5], dtype=dtype), low=-2, high=5), [-2, 5]
    )
    for beyond in (-3, 6):
        with pytest.raises(
            InvalidInputError, match=rf"^x must lie in -2 \.\. 5, found {beyond}(\.0)? at index 1$"
        ):
            validate.whole_numbers("x", np.array([0, beyond], dtype=dtype), low=-2, high=5)


def test_whole_numbers_do_not_wrap():
    for huge in (np.array([2**64 - 1], dtype=np.uint64), np.array([1e300])):
        with pytest.raises(InvalidInputError, match="x must lie in 0"):
            validate.whole_numbers("x", huge, low=0, high=2**62)


def test_no_whole_numbers_are_whole_numbers():
    result = validate.whole_numbers("x", [], low=0, high=3)
    assert (result.shape, result.dtype) == ((0,), np.int64)


@pytest.mark.parametrize("value", [7, 0.5, math.nan])
def test_a_scalar_that_is_wrong_gets_a_message_of_ours(value):
    with pytest.raises(InvalidInputError, match=r"^x must"):
        validate.whole_numbers("x", value, low=0, high=3)


@pytest.mark.parametrize("rng", [5, np.int64(5), np.random.SeedSequence(5)])
def test_seeds_make_the_same_generator(rng):
    assert validate.generator(rng).integers(10**9) == np.random.default_rng(5).integers(10**9)


def test_a_generator_is_passed_on_and_none_is_fresh():
    rng = np.random.default_rng(5)
    assert validate.generator(rng) is rng
    assert validate.generator(None).integers(2**62) != validate.generator(None).integers(2**62)


@pytest.mark.parametrize("rng", ["5", 5.0, True, [5], np.random.RandomState(5), np.random])
def test_other_sources_of_randomness_are_refused(rng):
    with pytest.raises(
        InvalidTypeError, match=r"^rng must be a numpy\.random\.Generator, a seed or None, got"
    ):
        validate.generator(rng)


def test_numbers_that_a_mask_hides_are_not_used():
    hidden = np.ma.masked_array([0.5, 0.2, 99.0], mask=[False, False, True])
    for check in (validate.frequencies, lambda values: validate.array("weights", values)):
        with pytest.raises(InvalidInputError, match="must not have masked entries"):
            check(hidden)
    rows = [np.array([0.5, 0.2, 0.3]), hidden]
    for nested in (rows, tuple(rows), [rows, rows]):
        with pytest.raises(InvalidInputError, match="must not have masked entries"):
            validate.array("weights", nested)
    open_mask = np.ma.masked_array([0.5, 0.2], mask=False)
    assert validate.frequencies(open_mask).tolist() == [0.5, 0.2]


HIDDEN = np.ma.masked_array([0, 1, 2], mask=[False, False, True])
FLAGS = np.ma.masked_array([[True, False, True]], mask=[[False, False, True]])
RECORDS = np.ma.masked_array(
    OLH(1.0, 3).perturb([0, 1, 2], rng=0), mask=[(False, False), (False, False), (False, True)]
)
ESTIMATE = FrequencyEstimate([0.5, 0.3, 0.2])

TAKERS = {
    "frequencies": lambda: FrequencyEstimate(HIDDEN),
    "a stack": lambda: FrequencyEstimate([HIDDEN, HIDDEN]),
    "noise": lambda: FrequencyEstimate([0.5, 0.3, 0.2], noise=HIDDEN + 1.0),
    "values": lambda: GRR(1.0, 3).perturb(HIDDEN),
    "reports": lambda: GRR(1.0, 3).support_counts(HIDDEN),
    "records": lambda: OLH(1.0, 3).support_counts(RECORDS),
    "an operator": lambda: OLH(1.0, 3).support_operator(RECORDS),
    "counts": lambda: GRR(1.0, 3).estimate(HIDDEN, 3),
    "true counts": lambda: GRR(1.0, 3).simulate_counts(HIDDEN, rng=0),
    "sets": lambda: ESTIMATE.query([[0], HIDDEN]),
    "flags": lambda: ESTIMATE.query(FLAGS),
    "a method": lambda: ldpopt.postprocess(HIDDEN, "norm-sub"),
    "a problem": lambda: Problem(LeastSquares(), [NonNegative()]).solve(HIDDEN),
    "weights": lambda: WeightedLeastSquares(HIDDEN),
    "bounds": lambda: Bounds(HIDDEN, 9),
    "indices": lambda: Fixed(HIDDEN, [0.1, 0.2, 0.3]),
    "groups": lambda: GroupTotals([HIDDEN], [1.0]),
    "an order": lambda: Monotone(HIDDEN),
    "parents": lambda: Hierarchy(HIDDEN - 1),
    "an error": lambda: mean_squared_error([0.1, 0.2, 0.3], HIDDEN),
    "heavy hitters": lambda: heavy_hitters(HIDDEN, 0.5),
    "a prior's counts": lambda: PowerLaw(1.0, 10).posterior_mean(HIDDEN, noise=1.0),
    "a prior's support": lambda: Discrete(HIDDEN, [1.0, 1.0, 1.0], 10),
    "a data set": lambda: Dataset("x", HIDDEN, ("a", "b", "c"), "here"),
    "a data set's sets": lambda: Dataset("x", [1, 2], ("a", "b"), "here", {"s": [HIDDEN]}),
    "targets": lambda: maximal_gain(GRR(1.0, 3), 2, HIDDEN),
    "an audit": lambda: audit(lambda v: HIDDEN, 1.0, [0, 1], reports=100, batched=True),
    "a file": lambda: ReportWriter("reports.parquet", GRR(1.0, 3)).write(HIDDEN),
}


@pytest.mark.parametrize("taker", TAKERS)
def test_nothing_public_uses_masked_entries(taker):
    with pytest.raises(InvalidInputError, match="must not have masked entries"):
        TAKERS[taker]()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0.5, None], "got an array of object, found None at index 1$"),
        ([[0.5], ["a" * 99]], "got an array of text$"),
        ([[0.5, {}]], r"got an array of object, found \{\} at trial 0, index 1$"),
        ({"tea": 0.5}, r"got <class 'dict'>: pass list\(...\) of its values, or a Series"),
        (Problem(LeastSquares()).solve([0.5]), "Solution'>: pass its frequencies$"),
    ],
)
def test_what_is_no_number_is_shown_with_its_place(values, message):
    with pytest.raises(InvalidTypeError, match=message):
        validate.array("frequencies", values)
