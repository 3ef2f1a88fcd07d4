"""Losses and constraints of classes outside the package: what they state must fit together."""

import cvxpy as cp
import numpy as np
import pytest

from ldpopt import Problem
from ldpopt.constraints import Constraint, NonNegative, SumsTo
from ldpopt.constraints.base import LinearInequalities, Polyhedron
from ldpopt.errors import FunctionError, InvalidInputError
from ldpopt.losses import LeastSquares
from ldpopt.losses.base import SeparableLoss

START = [0.6, 0.3, 0.2, -0.1]
SIMPLEX = [NonNegative(), SumsTo(1.0)]


class Quartic(SeparableLoss):
    """Σ (f - f̃)⁴, of which subclasses state a part wrong."""

    def value(self, f, estimate):
        return np.sum((f - estimate.frequencies) ** 4, axis=-1)

    def gradient(self, f, estimate):
        return 4 * (f - estimate.frequencies) ** 3

    def data(self, estimate):
        return (estimate.frequencies,)

    def cone_form(self, f, data, constants):
        return cp.sum(cp.power(f.size * (f - data[0]), 4)), []

    def cone_factor(self, d, constants):
        return float(d) ** 4

    def response(self, mu, data, constants):
        return data[0] - np.cbrt(mu / 4)


class Caps(Polyhedron):
    """f <= .5."""

    def rows(self, d):
        return LinearInequalities(np.eye(d), np.full(d, -np.inf), np.full(d, 0.5))


class Within(Constraint):
    """‖f‖ <= .6."""

    def violation(self, f):
        return np.maximum(np.linalg.norm(f, axis=-1) - 0.6, 0)

    def cone_form(self, f):
        return [cp.norm(f) <= 0.6]


def with_part(base, name, part):
    """Return an instance of a class with another method, which may use the right one."""
    return type("Mine", (base,), {name: part, "__module__": __name__})()


def test_what_fits_together_is_solved_and_looked_at_once():
    seen = []

    def gradient(self, f, estimate):
        seen.append(f)
        return Quartic.gradient(self, f, estimate)

    problem = Problem(with_part(Quartic, "gradient", gradient), [*SIMPLEX, Caps(), Within()])
    assert problem.solve(START).certificate.is_optimal(1e-6)
    problem.solve(START)
    # The look begins at equal frequencies, which nothing else does.
    assert sum(np.array_equal(f, np.full(4, 0.25)) for f in seen) == 1


@pytest.mark.parametrize(
    ("name", "part", "message"),
    [
        ("gradient", lambda self, f, e: 2 * (f - e.frequencies), "is not that of its value"),
        ("gradient", lambda self, f, e: -4 * (f - e.frequencies) ** 3, "is not that of its value"),
        ("gradient", lambda self, f, e: 4 * (f - e.frequencies) ** 3 + 1, "is not that of its"),
        ("gradient", lambda self, f, e: np.ones(3), r"must be numbers of shape \(\.\.\., d\)"),
        ("gradient", lambda self, f, e: f * np.nan, "none of them NaN; at one vector"),
        (
            "value",
            lambda self, f, e: (f - e.frequencies) ** 4,
            r"numbers of shape \(\.\.\.\)",
        ),
        ("value", lambda self, f, e: None, "at one vector it is No"),
        ("value", lambda self, f, e: -np.sum((f - e.frequencies) ** 4, axis=-1), "not convex"),
    ],
)
def test_a_loss_whose_parts_do_not_fit_is_refused_before_any_solve(name, part, message):
    loss = with_part(Quartic, name, part)
    for problem in (Problem(loss, SIMPLEX), Problem(LeastSquares() + loss, [*SIMPLEX, Caps()])):
        with pytest.raises(InvalidInputError, match=message):
            problem.plan(START)


@pytest.mark.parametrize(
    ("base", "name", "part", "message"),
    [
        (Within, "violation", lambda self, f: 0 * f, "the violation of Mine.. at f of shape"),
        (
            Caps,
            "rows",
            lambda self, d: LinearInequalities(np.eye(d), np.zeros(d), np.full(d, np.nan)),
            "none of them NaN",
        ),
        (
            Within,
            "rows",
            lambda self, d: LinearInequalities(np.eye(d), np.zeros(2), np.ones(d)),
            r"matrix of shape \(4, 4\) and bounds of the shapes \(2,\) and \(4,\)",
        ),
        (
            Within,
            "rows",
            lambda self, d: LinearInequalities(np.eye(d), np.zeros(d), np.full(d, np.nan)),
            "a bound that is NaN: where there is no bound it is -inf or inf",
        ),
    ],
)
def test_a_constraint_of_wrong_shapes_is_refused_before_any_solve(base, name, part, message):
    problem = Problem(LeastSquares(), [*SIMPLEX, with_part(base, name, part)])
    with pytest.raises(InvalidInputError, match=message):
        problem.plan(START)


def test_an_error_in_a_class_is_one_sentence_with_its_place():
    loss = with_part(Quartic, "gradient", lambda self, f, e: {}["x"])
    with pytest.raises(FunctionError, match=r"gradient of Mine.. failed: KeyError: 'x' \(test"):
        Problem(loss, SIMPLEX).plan(START)
