"""What no public function can use is refused by name, and not by an error of numpy or cvxpy."""

import inspect

import numpy as np
import pytest

import ldpopt
from ldpopt import (
    FrequencyEstimate,
    Parameter,
    Problem,
    Product,
    Source,
    certify,
    channels,
    constraints,
    datasets,
    losses,
    oracles,
    refine,
    rounds,
    study,
)
from ldpopt.errors import InvalidInputError, InvalidTypeError, LdpoptError
from ldpopt.immutable import Immutable
from ldpopt.protocol import PureProtocol

D = 4
ORACLE = oracles.OUE(1.0, D)
ESTIMATE = ORACLE.estimate([400, 300, 200, 300], 1_000, labels=list("abcd"))
VECTOR = np.array([0.1, 0.2, 0.3, 0.4])
SIMPLEX = [constraints.NonNegative(), constraints.SumsTo(1.0)]
PROBLEM = Problem(losses.LeastSquares(), SIMPLEX)
SERIES = rounds([ESTIMATE, ORACLE.estimate([4, 3, 2, 3], 10, labels=list("abcd"))], drift=0.1)

WRONG = {
    "nothing": None,
    "a text": "x",
    "NaN": float("nan"),
    "a negative number": -1,
    "zero": 0,
    "half a number": 1.5,
    "a truth value": True,
    "no numbers": [],
    "ragged lists": [[1, 2], [3]],
    "NaNs": np.full(D, np.nan),
    "a short vector": np.array([0.5, 0.5]),
    "an empty array": np.array([]),
    "texts": ["q", "r", "s", "t"],
    "an object": object(),
    "a dictionary": {},
    "an array without axes": np.array(1.0),
    "complex numbers": np.full(D, 1j),
    "bytes": b"x",
    "a set": {1, 2},
    "a function": lambda: 0,
    "a type": int,
    "no trials": np.zeros((0, D)),
    "no values": np.zeros((3, 0)),
}

SETS = [
    *SIMPLEX,
    constraints.Bounds(0.0, 0.5),
    constraints.Bounds(np.zeros(D), np.ones(D)),
    constraints.Fixed([1], [0.25]),
    constraints.GroupTotals([[0, 1]], [0.5]),
    constraints.Margins((2, 2), 0, [0.5, 0.5]),
    constraints.Hierarchy([-1, 0, 0, 0]),
    constraints.HierarchyTotals([[0, 0, 1, 1]], [[0.5, 0.5]]),
    constraints.Monotone([0, 1]),
    constraints.Unimodal(1),
    constraints.TopSet([0]),
    constraints.Smooth(0.5),
    constraints.Near(np.full(D, 0.25), 0.1, 2),
    constraints.AtMost(2),
    constraints.Linear([[1, 1, 0, 0]], 0, 1),
    constraints.Custom(lambda f: [f[0] >= 0]),
]
COSTS = [
    losses.LeastSquares(),
    losses.WeightedLeastSquares(np.ones(D)),
    losses.GaussianMLE(),
    losses.BinomialMLE(),
    losses.MultinomialMLE(),
    losses.KullbackLeibler(),
    losses.LeastAbsolute(),
    losses.TotalVariation(),
    losses.GroupNorm([[0, 1]]),
    losses.LeastSquares() + 0.1 * losses.TotalVariation(),
]
METHODS_OF_PROBLEMS = ("violation", "size", "region", "box", "total", "is_box", "validate_for")

# Functions of one argument, which is wrong.
USES = {
    **{f"{part!r}.violation": part.violation for part in SETS},
    **{f"{part!r}.rows": part.rows for part in SETS},
    **{f"{part!r}.box": part.box for part in SETS},
    **{f"{part!r}.validate_for": part.validate_for for part in SETS},
    **{f"{part!r}.value of f": lambda x, part=part: part.value(x, ESTIMATE) for part in COSTS},
    **{f"{part!r}.value of an estimate": lambda x, p=part: p.value(VECTOR, x) for part in COSTS},
    **{f"{part!r}.gradient of f": lambda x, p=part: p.gradient(x, ESTIMATE) for part in COSTS},
    **{f"{part!r}.validate_for": part.validate_for for part in COSTS},
    **{f"Problem.{name}": getattr(PROBLEM, name) for name in METHODS_OF_PROBLEMS},
    "solver": lambda x: PROBLEM.solve(ESTIMATE, solver=x),
    "warm_start": lambda x: PROBLEM.solve(ESTIMATE, warm_start=x),
    "simultaneous": lambda x: ESTIMATE.interval(simultaneous=x),
    "shown": ESTIMATE.shown,
    "relative": lambda x: PROBLEM.solve(ESTIMATE).certificate.is_optimal(1e-9, relative=x),
    "exact": lambda x: certify(PROBLEM, ESTIMATE, VECTOR, exact=x),
    "nonneg": lambda x: Parameter("x", 1.0, nonneg=x),
    "mix": channels.mix,
    "totals": lambda x: constraints.HierarchyTotals([[0, 0, 1, 1]], x),
    "groups": lambda x: Source(ESTIMATE, groups=x),
    "the name of a source": lambda x: Source(ESTIMATE, name=x),
    "margin": lambda x: Product(age=2, sex=2).margin(x),
    "plot": lambda x: SERIES.plot([x]),
    "weights": SERIES.weights,
    "start": lambda x: refine(ORACLE, ORACLE.perturb([0, 1, 2, 3], rng=0), start=x),
    "collect": lambda x: datasets.load("zipf").collect(x),
    "data of a study": lambda x: study("norm-sub", x, ORACLE, draws=2),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("use", USES)
def test_a_wrong_argument_raises_an_error_of_this_library(use):
    raw = {}
    for kind, value in WRONG.items():
        try:
            USES[use](value)
        except LdpoptError:
            continue
        except Exception as error:
            raw[kind] = error
    assert not raw


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (FrequencyEstimate.from_counts, "FrequencyEstimate.from_counts"),
        (FrequencyEstimate.of, "FrequencyEstimate.of"),
        (ESTIMATE.processed, "FrequencyEstimate.processed"),
        (PROBLEM.violation, "Problem.violation"),
        (PROBLEM.box, "Problem.box"),
        (ORACLE.estimate, "FrequencyOracle.estimate"),
    ],
)
def test_a_misspelt_keyword_names_the_class_that_users_know(call, name):
    with pytest.raises(TypeError, match=rf"^{name}\(\) got an unexpected keyword .*'lables'"):
        call(lables=list("abcd"))


@pytest.mark.parametrize("kind", [FrequencyEstimate, Problem, oracles.OUE])
def test_what_users_call_is_named_after_a_class_that_is_offered(kind):
    # What is common to all immutable objects takes no argument.
    offered = {*ldpopt.__all__, *oracles.__all__, PureProtocol.__name__, Immutable.__name__}
    functions = inspect.getmembers(kind, inspect.isfunction)
    methods = functions + inspect.getmembers(kind, inspect.ismethod)
    places = {name: method.__qualname__ for name, method in methods if not name.startswith("_")}
    assert places
    assert {name for name, place in places.items() if place.split(".")[0] not in offered} == set()


def test_users_may_evaluate_what_problems_evaluate():
    """Lists, Series and estimates stand for arrays, and labels count."""
    backwards = FrequencyEstimate(VECTOR[::-1], labels=list("dcba"))
    truth = FrequencyEstimate(VECTOR, labels=list("abcd"))
    assert losses.LeastSquares().value(backwards, truth) == 0
    assert losses.LeastSquares().value([0.5, 0.5], [0.5, 0.25]) == 0.03125
    assert losses.TotalVariation(["b", "a"]).value(backwards, truth) == pytest.approx(0.1)
    assert constraints.SumsTo(1.0).violation([0.5, 0.25]) == 0.25
    assert PROBLEM.violation([0.5, 0.25, 0.5]) == 0.25
    message = "f must have the estimate's 4 values"
    with pytest.raises(InvalidInputError, match=message):
        losses.LeastSquares().value(np.array([0.5]), ESTIMATE)
    with pytest.raises(InvalidTypeError, match="d must be a whole number, got None"):
        PROBLEM.region(None)
    # What editors show stays what the class states.
    assert list(inspect.signature(losses.LeastSquares.value).parameters) == [
        "self",
        "f",
        "estimate",
    ]
