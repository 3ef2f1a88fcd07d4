"""Mixture weights: against cones, GRR's closed form and EM, by the gap, on difficult matrices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from ldpopt.closed_form import water_filling
from ldpopt.errors import InvalidInputError, InvalidTypeError, LdpoptError, LdpoptWarning
from ldpopt.priors.likelihood_model import LikelihoodModel
from ldpopt.priors.mixture_weights import _Quadratic, mixture_weights
from tests.tolerances import OBJECTIVE, SUM

TOL = 1e-9  # the default gap


def two_valued(m, d, ratio, seed):
    """A as likelihoods of reports have it: 1, or the ratio where a report supports the value."""
    return np.where(np.random.default_rng(seed).random((m, d)) < 0.4, ratio, 1.0)


def gaussian(m, d, seed):
    """Normal densities on a grid finer than their width: columns are nearly collinear."""
    rng = np.random.default_rng(seed)
    observed = rng.choice([0.0, 0.0, 2.0, 5.0], m) + rng.normal(size=m)
    return np.exp(-0.5 * (observed[:, None] - np.linspace(observed.min(), observed.max(), d)) ** 2)


def log_likelihood(likelihoods, weights, x):
    share = np.asarray(weights) / np.sum(weights)
    return float(share @ np.log(likelihoods @ x))


def gap(likelihoods, weights, x):
    share = np.asarray(weights) / np.sum(weights)
    return float((likelihoods.T @ (share / (likelihoods @ x))).max() - 1)


def by_cones(likelihoods, weights, solver):
    import cvxpy as cp

    share = np.asarray(weights) / np.sum(weights)
    x = cp.Variable(likelihoods.shape[1])
    problem = cp.Problem(cp.Maximize(share @ cp.log(likelihoods @ x)), [x >= 0, cp.sum(x) == 1])
    problem.solve(solver=solver, **({"eps_abs": 1e-9, "eps_rel": 1e-9} if solver == "SCS" else {}))
    return problem.value


MATRICES = {
    "reports": two_valued(60, 8, np.e, seed=1),
    "reports at a large budget": two_valued(40, 12, 50.0, seed=2),
    "fewer rows than columns": two_valued(5, 20, 3.0, seed=3),
    "densities": gaussian(50, 30, seed=4),
    "one column": two_valued(7, 1, 2.0, seed=5),
    "one row": np.array([[0.2, 0.7, 0.3]]),
    "equal columns": np.repeat(two_valued(30, 4, np.e, seed=6), 3, axis=1),
    "zeros": two_valued(50, 6, 2.0, seed=7) - 1 + (np.arange(50)[:, None] % 6 == np.arange(6)),
    "the identity": np.eye(5),
    "optimum at a vertex": np.column_stack([np.full(9, 3.0), two_valued(9, 4, 2.0, seed=8)]),
}  # fmt: skip


def counts_for(likelihoods):
    return (
        np.random.default_rng(len(likelihoods)).integers(1, 9, len(likelihoods)).astype(np.float64)
    )


# --- against other ways to the optimum ------------------------------------------------------------


@pytest.mark.parametrize("solver", ["CLARABEL", "SCS"])
@pytest.mark.parametrize(
    "name",
    ["reports", "reports at a large budget", "fewer rows than columns", "zeros", "densities"],
)
def test_maximum_is_that_of_the_cone_solvers(name, solver):
    likelihoods = MATRICES[name]
    weights = counts_for(MATRICES[name])
    fit = mixture_weights(likelihoods, weights)
    assert_allclose(
        fit.log_likelihood, by_cones(likelihoods, weights, solver), rtol=0, atol=10 * OBJECTIVE
    )


@pytest.mark.parametrize("as_operator", [False, True], ids=["array", "operator"])
@pytest.mark.parametrize("name", MATRICES)
def test_gap_is_reached_and_true(name, as_operator):
    likelihoods = MATRICES[name]
    weights = counts_for(MATRICES[name])
    fit = mixture_weights(aslinearoperator(likelihoods) if as_operator else likelihoods, weights)
    assert fit.converged
    assert fit.gap <= TOL
    assert_allclose(fit.gap, gap(likelihoods, weights, fit.weights), rtol=0, atol=SUM)
    assert_allclose(
        fit.log_likelihood, log_likelihood(likelihoods, weights, fit.weights), rtol=SUM, atol=SUM
    )
    assert (fit.weights >= 0).all()
    assert abs(fit.weights.sum() - 1) <= SUM


@pytest.mark.parametrize(("d", "epsilon"), [(2, 1.0), (16, 0.5), (128, 2.0), (1024, 1.0)])
def test_grr_by_its_channel_is_water_filling(d, epsilon):
    rng = np.random.default_rng(d)
    truth = np.arange(1, d + 1) ** -1.5
    ratio = np.exp(epsilon)
    channel = np.ones((d, d)) + (ratio - 1) * np.eye(
        d
    )  # of P(report | value) up to the common factor q
    counts = rng.multinomial(100_000, channel @ (truth / truth.sum()) / (ratio + d - 1))
    fit = mixture_weights(channel, counts, tol=1e-12)
    expected = water_filling(counts / counts.sum(), 1 / (ratio - 1))
    # An error is of first order in the gap, times at most d/(e^ε - 1).
    assert_allclose(fit.weights, expected, rtol=0, atol=1e-9)


def test_fine_grids_of_densities_are_solved_where_em_is_far_away():
    likelihoods = gaussian(400, 300, seed=0)
    fit = mixture_weights(likelihoods, tol=1e-11)
    with pytest.warns(LdpoptWarning, match="method='accelerated'"):
        em = mixture_weights(likelihoods, method="em", max_steps=500)
    assert fit.gap <= 1e-11
    assert em.gap > 1e-4
    assert 0 < fit.log_likelihood - em.log_likelihood <= em.gap
    assert np.count_nonzero(fit.weights) < 20


def test_an_operator_of_collinear_columns_has_them_formed():
    likelihoods = gaussian(100, 80, seed=1)
    fit = mixture_weights(aslinearoperator(likelihoods))
    assert fit.converged
    assert fit.products >= 80
    assert_allclose(
        fit.log_likelihood, mixture_weights(likelihoods).log_likelihood, rtol=0, atol=2 * TOL
    )


def test_an_operator_too_large_to_form_is_never_silently_wrong(monkeypatch):
    monkeypatch.setattr("ldpopt.priors.likelihood_model.FORMED", 0)
    likelihoods = gaussian(100, 80, seed=1)
    with pytest.warns(LdpoptWarning, match="gap of"):
        fit = mixture_weights(aslinearoperator(likelihoods), max_steps=30)
    assert not fit.converged
    assert_allclose(fit.gap, gap(likelihoods, np.ones(100), fit.weights), rtol=1e-9, atol=0)


def test_likelihoods_of_reports_take_few_products_of_an_operator():
    fit = mixture_weights(aslinearoperator(two_valued(3_000, 100, np.e, seed=9)))
    assert fit.converged
    assert fit.products < 150


# --- what does not matter, and what is not unique -------------------------------------------------


def test_rows_may_be_scaled_freely():
    likelihoods = MATRICES["densities"]
    weights = counts_for(MATRICES["densities"])
    scale = 10.0 ** np.random.default_rng(0).uniform(-200, 200, len(likelihoods))
    plain = mixture_weights(likelihoods, weights)
    scaled = mixture_weights(likelihoods * scale[:, None], weights)
    shift = weights @ np.log(scale) / weights.sum()
    assert_allclose(scaled.log_likelihood - shift, plain.log_likelihood, rtol=0, atol=2 * TOL)
    assert scaled.converged


@pytest.mark.parametrize("factor", [1e-300, 1e-6, 3.0, 1e307])
def test_weights_may_have_any_total(factor):
    likelihoods = MATRICES["reports"]
    weights = counts_for(MATRICES["reports"])
    expected = mixture_weights(likelihoods, weights).weights
    assert_allclose(
        mixture_weights(likelihoods, weights * factor).weights, expected, rtol=0, atol=1e-7
    )


@pytest.mark.parametrize("as_operator", [False, True], ids=["array", "operator"])
def test_rows_of_weight_zero_are_not_there(as_operator):
    likelihoods = np.vstack([MATRICES["reports"], np.zeros(8)])
    weights = np.append(counts_for(MATRICES["reports"]), 0.0)
    weights[3] = 0.0
    fit = mixture_weights(aslinearoperator(likelihoods) if as_operator else likelihoods, weights)
    left = weights > 0
    without = mixture_weights(likelihoods[left], weights[left])
    assert_allclose(fit.weights, without.weights, rtol=0, atol=1e-6)
    assert_allclose(fit.log_likelihood, without.log_likelihood, rtol=0, atol=2 * TOL)


def test_equal_rows_are_one_row_with_their_count():
    likelihoods = two_valued(6, 3, 3.0, seed=11)
    times = np.array([3, 1, 4, 1, 5, 2])
    together = mixture_weights(likelihoods, times)
    apart = mixture_weights(np.repeat(likelihoods, times, axis=0))
    assert_allclose(apart.log_likelihood, together.log_likelihood, rtol=0, atol=2 * TOL)


def test_equal_columns_share_what_one_would_have():
    once = mixture_weights(two_valued(30, 4, np.e, seed=6))
    thrice = mixture_weights(MATRICES["equal columns"])
    assert_allclose(thrice.weights.reshape(4, 3).sum(axis=1), once.weights, rtol=0, atol=1e-6)


def test_one_observation_goes_to_its_likeliest_component():
    assert_allclose(mixture_weights([[0.2, 0.7, 0.3]]).weights, [0, 1, 0], rtol=0, atol=2 * TOL)


def test_the_identity_gives_the_shares():
    assert_allclose(
        mixture_weights(np.eye(3), [1, 2, 5]).weights, [0.125, 0.25, 0.625], rtol=0, atol=2 * TOL
    )


@given(
    st.integers(1, 12),
    st.integers(1, 10),
    st.sampled_from([1.0, 1.001, 2.0, 30.0]),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_no_other_weights_are_better_by_more_than_the_gap(m, d, ratio, as_operator, seed):
    rng = np.random.default_rng(seed)
    likelihoods = np.where(rng.random((m, d)) < 0.5, ratio, 1.0) * rng.choice(
        [1.0, 1.0, rng.random()], (m, d)
    )
    weights = rng.integers(0, 4, m)
    weights[rng.integers(m)] = 1
    fit = mixture_weights(aslinearoperator(likelihoods) if as_operator else likelihoods, weights)
    assert fit.converged
    others = np.vstack(
        [rng.dirichlet(np.full(d, 0.3), 20) + 1e-12, np.eye(d) + 1e-12, np.full((1, d), 1 / d)]
    )
    for other in others:
        assert (
            log_likelihood(likelihoods, weights, other / other.sum())
            <= fit.log_likelihood + fit.gap + SUM
        )


# --- EM ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["reports", "densities", "zeros", "equal columns"])
def test_em_never_becomes_less_likely(name):
    likelihoods = MATRICES[name]
    weights = counts_for(MATRICES[name])
    x = np.full(likelihoods.shape[1], 1 / likelihoods.shape[1])
    reached = [log_likelihood(likelihoods, weights, x)]
    for _ in range(30):
        with pytest.warns(LdpoptWarning):
            x = mixture_weights(
                likelihoods, weights, method="em", start=x, max_steps=1, tol=1e-15
            ).weights
        reached.append(log_likelihood(likelihoods, weights, x))
    assert (np.diff(reached) >= -SUM).all()


def test_em_reaches_the_same_maximum():
    likelihoods = two_valued(500, 5, 5.0, seed=12)
    em = mixture_weights(likelihoods, method="em", tol=1e-8)
    fast = mixture_weights(likelihoods)
    assert em.converged
    assert abs(em.log_likelihood - fast.log_likelihood) <= 1e-8 + TOL
    assert em.products == 2 * em.steps + 2


def test_em_is_the_multiplication_by_the_scores():
    likelihoods = two_valued(20, 3, 2.0, seed=13)
    x = np.array([0.5, 0.3, 0.2])
    with pytest.warns(LdpoptWarning):
        one = mixture_weights(likelihoods, method="em", start=x, max_steps=1, tol=1e-15)
    assert_allclose(one.weights, x * (likelihoods.T @ (1 / (likelihoods @ x))) / 20, rtol=SUM)


# --- the course of an iteration -------------------------------------------------------------------


@pytest.mark.parametrize("method", ["accelerated", "em"])
def test_progress_hears_every_step(method):
    heard = []
    fit = mixture_weights(
        MATRICES["reports"],
        method=method,
        tol=1e-3,
        progress=lambda step, gap: heard.append((step, gap)),
    )
    assert [step for step, _ in heard] == list(range(fit.steps))
    assert all(gap > 1e-3 for _, gap in heard)


def test_a_start_at_the_solution_is_at_its_end():
    first = mixture_weights(MATRICES["reports"])
    again = mixture_weights(MATRICES["reports"], start=3 * first.weights)
    assert again.steps == 0
    assert_allclose(again.weights, first.weights, rtol=SUM)


@pytest.mark.parametrize("likelihood", [1e-10, 1e-100, 1e-150, 1e-200, 1e-300])
def test_a_start_that_makes_an_observation_next_to_impossible_overflows_nothing(likelihood):
    fit = mixture_weights([[1.0, 1.0], [likelihood, 1.0]], start=[1.0, 0.0])
    assert fit.converged
    assert_allclose(fit.weights, [0, 1], rtol=0, atol=1e-8)


def test_the_inverse_of_a_subnormal_probability_is_not_taken():
    with pytest.raises(InvalidInputError, match="observation 1 has probability zero, or next to"):
        mixture_weights([[1.0, 1.0], [1e-310, 1.0]], start=[1.0, 0.0])


def test_a_minimum_out_of_reach_ends_the_conjugate_steps():
    """Two equal columns and one that is nearly so: the curvature along a step is rounding alone."""
    model = LikelihoodModel(np.ones((2, 3)), None)
    quadratic = _Quadratic(model, model.begin(np.array([0.5, 0.25, 0.25])))
    quadratic.residual = np.array([1.0, -1.0 + 1e-15, 0.0])
    before = quadratic.y.copy()
    assert not quadratic.solve_on(np.ones(3, dtype=bool))
    assert (quadratic.y == before).all()


def test_a_start_with_zeros_is_no_trap():
    fit = mixture_weights(MATRICES["reports"], start=np.eye(8)[3])
    assert_allclose(
        fit.log_likelihood,
        mixture_weights(MATRICES["reports"]).log_likelihood,
        rtol=0,
        atol=2 * TOL,
    )


def test_what_cannot_be_reached_is_said():
    with pytest.warns(LdpoptWarning, match="after .* steps with a gap of"):
        fit = mixture_weights(MATRICES["densities"], tol=1e-300)
    assert not fit.converged
    assert fit.gap < 1e-12
    assert fit.steps < 1000


# --- errors --------------------------------------------------------------------------------------

WRONG = {
    "a vector": ({"likelihoods": [1.0, 2.0]}, r"shape \(m, d\)"),
    "no rows": ({"likelihoods": np.ones((0, 3))}, r"shape \(m, d\)"),
    "negative": ({"likelihoods": [[1.0, -2.0]]}, "row 0, column 1"),
    "not finite": ({"likelihoods": [[1.0, 2.0], [np.nan, 1.0]]}, "row 1, column 0"),
    "text": ({"likelihoods": [["a"]]}, "array of numbers"),
    "a row of zeros": (
        {"likelihoods": [[1.0, 2.0], [0.0, 0.0]]},
        "observation 1 has probability zero",
    ),
    "a row of zeros behind another": (
        {"likelihoods": [[1.0, 2.0], [1.0, 0.0], [0.0, 0.0]], "weights": [0, 1, 1]},
        "observation 2 has probability zero",
    ),
    "an operator's row of zeros": (
        {"likelihoods": aslinearoperator(np.array([[1.0, 2.0], [0.0, 0.0]]))},
        "observation 1 has probability zero",
    ),
    "a negative operator": (
        {"likelihoods": aslinearoperator(np.array([[-1.0, -2.0]]))},
        "finite and >= 0",
    ),
    "an impossible start behind an unobserved row": (
        {"likelihoods": np.eye(3), "weights": [0, 1, 1], "start": [0.0, 1.0, 0.0]},
        "observation 2 has probability zero",
    ),
    "an impossible start": (
        {"likelihoods": np.eye(2), "start": [1.0, 0.0]},
        "observation 1 has probability zero",
    ),
    "too few weights": (
        {"likelihoods": np.eye(2), "weights": [1.0]},
        r"weights must have shape \(2,\)",
    ),
    "a negative weight": (
        {"likelihoods": np.eye(2), "weights": [1.0, -1.0]},
        "found -1.0 at index 1",
    ),
    "no weight": (
        {"likelihoods": np.eye(2), "weights": [0.0, 0.0]},
        "weights must not be all zero",
    ),
    "an infinite start": (
        {"likelihoods": np.eye(2), "start": [0.5, np.inf]},
        "start must be finite",
    ),
    "em from a zero": (
        {"likelihoods": np.eye(2), "start": [0.5, 0.0], "method": "em"},
        "start is 0 at index 1",
    ),
    "a misspelt method": (
        {"likelihoods": np.eye(2), "method": "acelerated"},
        "did you mean 'accelerated'",
    ),
    "no tolerance": ({"likelihoods": np.eye(2), "tol": 0.0}, "tol must be"),
    "no steps": ({"likelihoods": np.eye(2), "max_steps": 0}, "max_steps must be at least 1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_say_what_and_where(name):
    arguments, message = WRONG[name]
    with pytest.raises(LdpoptError, match=message):
        mixture_weights(**arguments)


def test_an_operator_must_return_vectors():
    class Columns:
        shape = (3, 2)

        def matvec(self, x):
            return np.ones((3, 1))

        rmatvec = matvec

    with pytest.raises(InvalidTypeError, match="matvec must return"):
        mixture_weights(Columns())


def test_an_operator_is_only_multiplied():
    likelihoods = MATRICES["reports"]
    seen = []

    def matvec(x):
        seen.append("A x")
        return likelihoods @ x

    def rmatvec(r):
        seen.append("Aᵀ r")
        return likelihoods.T @ r

    operator = LinearOperator(likelihoods.shape, matvec=matvec, rmatvec=rmatvec, dtype=np.float64)
    assert mixture_weights(operator).products == len(seen)


def test_a_step_that_overflows_in_one_value_is_not_taken():
    # H is 1e-200 times the identity, so that the step to the minimum multiplies the residual by
    # 1e200: 1e320 is beyond doubles, and the other value, 1e200, is not.
    quadratic = object.__new__(_Quadratic)
    quadratic.times = lambda v: 1e-200 * v
    quadratic.y = np.zeros(2)
    quadratic.residual = np.array([1e120, 1.0])
    quadratic.tolerance = TOL
    quadratic.iterations = 0
    assert not quadratic.solve_on(np.array([True, True]))
    assert quadratic.y.tolist() == [0.0, 0.0]


def test_input_is_not_changed():
    likelihoods = MATRICES["reports"].copy()
    weights = counts_for(MATRICES["reports"])
    start = np.ones(8)
    mixture_weights(likelihoods, weights, start=start)
    assert np.array_equal(likelihoods, MATRICES["reports"])
    assert np.array_equal(weights, counts_for(likelihoods))
    assert (start == 1).all()


def test_errors_are_value_errors():
    assert issubclass(InvalidInputError, ValueError)
