"""Derivatives of users' expressions, of which the straight parts are kept."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from ldpopt.expressions import Slopes, slopes_of
from tests.tolerances import SUM

D = 6
Z = np.array([0.3, 0.25, 0.2, 0.1, 0.1, 0.05])
A = np.random.default_rng(3).normal(size=(4, D))
POINTS = np.random.default_rng(1).uniform(0.1, 1.0, (3, D))

EXPRESSIONS = {
    "the variable": lambda f: f,
    "straight": lambda f: A @ f - 1,
    "squares": lambda f: cp.sum_squares(f - Z) - 0.1,
    "norm of a part": lambda f: cp.norm(f[:3] - Z[:3]),
    "norm twice": lambda f: cp.norm(f) + cp.norm(A @ f),
    "entropy": lambda f: 0.5 - cp.sum(cp.entr(f)),
    "relative entropy": lambda f: cp.sum(cp.kl_div(f[:3], 2 * f[3:] + 1)),
    "quotient": lambda f: cp.quad_over_lin(f[:3], f[3]),
    "form": lambda f: cp.quad_form(f, A.T @ A),
    "exponentials": lambda f: cp.log_sum_exp(A @ f) + cp.sum(f),
    "powers": lambda f: cp.sum(cp.power(f, 3)) + cp.norm1(f - 2 * Z),
    "several": lambda f: cp.hstack([cp.square(f[0]), cp.exp(f[1]), f[2]]),
    "entries": lambda f: cp.multiply(Z, cp.square(f)),
    "matrix": lambda f: cp.sigma_max(cp.reshape(f, (2, 3), order="F")),
    "variation": lambda f: cp.tv(f),
    "largest": lambda f: cp.maximum(f, Z) + cp.max(A @ f),
}


@pytest.mark.parametrize("build", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_slopes_are_those_of_cvxpy_at_one_point_after_the_other(build):
    f = cp.Variable(D)
    expression = build(f)
    slopes = Slopes(expression, f)
    for point in POINTS:
        f.save_value(point)
        expected = expression.grad[f]
        expected = expected.toarray() if sparse.issparse(expected) else np.atleast_2d(expected)
        result = slopes.here()
        assert result.shape == (D, expression.size)
        assert_allclose(result.toarray(), expected.reshape(result.shape), rtol=SUM, atol=SUM)


def test_outside_a_domain_slopes_are_unknown_and_known_again_inside():
    f = cp.Variable(D)
    slopes = Slopes(-cp.sum(cp.log(f)) + cp.sum(f), f)
    for point, is_known in ((Z, True), (-Z, False), (Z, True)):
        f.save_value(point)
        here = slopes.here()
        assert (here is not None) is is_known
    assert_allclose(here.toarray().ravel(), 1 - 1 / Z, rtol=SUM)


def test_what_cvxpy_knows_no_slopes_of_has_none():
    f = cp.Variable(D)
    f.save_value(Z)
    assert Slopes(cp.sum(cp.cumsum(cp.reshape(f, (D,), order="F"))), f).here() is not None
    long = cp.Variable(2000)
    long.save_value(np.ones(2000))
    assert slopes_of(cp.sum(cp.cumsum(long)), long) is None


def test_other_variables_keep_their_values():
    f = cp.Variable(D)
    y = cp.Variable(D)
    slopes = Slopes(cp.sum_squares(f - y), f)
    f.save_value(Z)
    for target in POINTS:
        y.save_value(target)
        assert_allclose(slopes.here().toarray().ravel(), 2 * (Z - target), rtol=SUM)
    assert slopes_of(cp.sum(y), f) is None


def test_a_straight_part_is_derived_once(monkeypatch):
    f = cp.Variable(D)
    slopes = Slopes(cp.sum_squares(A @ f - 1) + cp.sum(f), f)
    looks = []
    affine = cp.atoms.affine.affine_atom.AffAtom
    grad = affine._grad
    monkeypatch.setattr(affine, "_grad", lambda *given: looks.append(1) or grad(*given))
    f.save_value(Z)
    slopes.here()
    assert looks
    looks.clear()
    f.save_value(POINTS[0])
    assert_allclose(slopes.here().toarray().ravel(), 2 * A.T @ (A @ POINTS[0] - 1) + 1, rtol=1e-12)
    assert not looks
