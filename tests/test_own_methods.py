"""Methods of the user's own, beside those that have a name."""

import pickle

import numpy as np
import pytest

import ldpopt
from ldpopt import FrequencyEstimate, constraints, losses, oracles
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.methods import METHODS, Method, method_of, named_methods

SIMPLEX = [constraints.NonNegative(), constraints.SumsTo(1.0)]
PROBLEM = ldpopt.Problem(losses.LeastSquares(), SIMPLEX)
STACK = np.array([[0.5, 0.2, -0.01], [0.9, 0.4, 0.1]])


def halved(estimate, *, factor=0.5):
    return factor * estimate.frequencies


def test_a_function_gets_one_vector_at_a_time():
    shapes = []

    def shifted(estimate):
        shapes.append(estimate.frequencies.shape)
        return estimate.frequencies + (1 - estimate.frequencies.sum()) / estimate.d

    result = ldpopt.postprocess(STACK, shifted)
    assert shapes == [(3,), (3,)]
    np.testing.assert_allclose(result.frequencies.sum(axis=1), 1)
    assert result.method == "shifted"
    assert np.array_equal(ldpopt.postprocess(STACK[0], shifted).frequencies, result.frequencies[0])


def test_options_are_keyword_arguments():
    assert method_of(halved).options == {"factor": 0.5}
    assert ldpopt.postprocess([0.5, 0.5], halved, factor=2).frequencies.tolist() == [1.0, 1.0]
    with pytest.raises(InvalidInputError, match="did you mean 'factor'"):
        ldpopt.postprocess([0.5, 0.5], halved, factr=2)


def test_problems_estimates_and_solutions_are_taken():
    expected = ldpopt.postprocess(STACK, "norm-sub").frequencies
    for method in (
        PROBLEM,
        METHODS["norm-sub"],
        lambda estimate: PROBLEM.solve(estimate),
        lambda estimate: ldpopt.postprocess(estimate, "norm-sub"),
    ):
        assert np.array_equal(ldpopt.postprocess(STACK, method).frequencies, expected)
    assert ldpopt.postprocess(STACK, PROBLEM).method == PROBLEM.statement


def test_the_raw_estimate_and_its_noise_stay_known():
    oracle = oracles.OUE(1.0, 3)
    raw = oracle.estimate([3_750, 3_850, 2_750], 10_000)
    after = ldpopt.postprocess(raw, halved)
    assert after.raw is raw
    assert after.noise is raw.noise


def in_place(estimate):
    f = estimate.frequencies
    f[f < 0] = 0
    return f


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda e: e.frequencies[:2], r"shape \(3,\); it returned shape \(2,\): .* one vector"),
        (lambda e: e.frequencies.sum(), r"it returned shape \(\)"),
        (lambda e: np.log(e.frequencies * [1, 1, 0]), "returned -inf at index 2: let it return"),
        (lambda e: e.frequencies * [1, np.nan, 1], "returned nan at index 1"),
        (lambda e: e.frequencies * 1j, "complex128: return one real number per value"),
        (lambda e: None, "NoneType'>: return one real number"),
        (in_place, r"'in_place' changes the estimate .* f = estimate.frequencies.copy\(\)"),
        (lambda e: e.frequencies.sort(), r"changes the estimate"),
        (lambda e: e.frequencies.setflags(write=True), r"changes the estimate"),
        (lambda e: object.__setattr__(e, "frequencies", np.ones(3)), r"changes the estimate"),
        (lambda e: np.maximum(e.frequencies, 0, out=e.frequencies), r"changes the estimate"),
    ],
)
def test_what_a_function_does_wrong_is_said_with_the_remedy(function, message):
    with (
        np.errstate(divide="ignore"),
        pytest.raises((InvalidInputError, InvalidTypeError), match=message),
    ):
        ldpopt.postprocess([0.5, 0.2, 0.1], function)


def test_errors_of_a_function_itself_pass():
    def broken(estimate):
        raise ValueError("my own")

    with pytest.raises(ValueError, match=r"^my own$"):
        ldpopt.postprocess([0.5, 0.5], broken)


def test_what_is_no_method_is_refused():
    for what in (3, None, dict, constraints.NonNegative()):
        with pytest.raises(InvalidTypeError, match="a method is a name"):
            ldpopt.postprocess([0.5, 0.5], what)
    with pytest.raises(InvalidInputError, match="did you mean 'norm-sub'"):
        ldpopt.postprocess([0.5, 0.5], "norm_sub")


def test_methods_by_name():
    assert list(named_methods("base")) == ["base"]
    assert list(named_methods(halved)) == ["halved"]
    assert list(named_methods([halved, "norm", PROBLEM])) == ["halved", "norm", PROBLEM.statement]
    ours = named_methods({"ours": halved, "theirs": "norm"})
    assert ours["ours"].name == "ours"
    assert ours["theirs"] is METHODS["norm"]
    with pytest.raises(InvalidInputError, match="'halved' again at position 1: pass a dictionary"):
        named_methods([halved, halved])
    with pytest.raises(InvalidInputError, match="at least one"):
        named_methods([])


def test_methods_are_pickled_by_name_or_with_their_function():
    assert pickle.loads(pickle.dumps(METHODS["norm-hyb"])) is METHODS["norm-hyb"]
    for method in (method_of(halved), method_of(PROBLEM, "mine")):
        again = pickle.loads(pickle.dumps(method))
        assert isinstance(again, Method)
        assert again.name == method.name
        assert np.array_equal(
            again.solve(FrequencyEstimate(STACK)).frequencies,
            method.solve(FrequencyEstimate(STACK)).frequencies,
        )


def test_select_method_takes_own_methods():
    oracle = oracles.OUE(1.0, 8)
    raw = oracle.estimate(oracle.simulate_counts([50] * 8, rng=0), 400)
    uniform = {"uniform": lambda estimate: np.full(estimate.d, 1 / estimate.d), "base": "base"}
    chosen = ldpopt.select_method(raw, [[0], [1]], uniform, trials=20, rng=0)
    assert chosen.method == "uniform"
    assert {score.method for score in chosen.scores} == {"uniform", "base"}
    by_problem = ldpopt.select_method(raw, [[0]], ["base", "norm"], fit=PROBLEM, trials=2, rng=0)
    assert by_problem.fit == PROBLEM.statement
