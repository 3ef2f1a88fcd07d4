"""A status of optimal and the certificate say the same, whatever the loss, the set and the units.

``judge`` decides a status on the way, by whatever proves most in least time, and ``certify`` proves
it again from the problem and the point alone. Here random problems go through both.
"""

import warnings

import cvxpy as cp
import numpy as np
import pytest

from ldpopt import FrequencyEstimate, Problem, certify, losses, oracles
from ldpopt.constraints import (
    Bounds,
    Custom,
    GroupTotals,
    Linear,
    Monotone,
    Near,
    NonNegative,
    SumsTo,
)
from ldpopt.errors import LdpoptError, LdpoptWarning
from ldpopt.solve.certificate.certificate import scale_of
from ldpopt.solve.certificate.polyhedra import polyhedron
from ldpopt.solve.status import ACCURACIES

PROMISED = ACCURACIES["high"].gap

UNITS = 100.0
"""Losses count in powers of ten between these exponents."""

FREQUENCIES = 60.0
"""And frequencies, where a loss has any unit of them."""


def _of_library(rng, reference, largest):
    """Return a loss of the library, with or without logarithms."""
    price = float(10 ** rng.uniform(-3, 3))
    choices = [
        losses.Entropy(),
        losses.KullbackLeibler(),
        losses.KLTo(reference),
        losses.Entropy() + price / largest * losses.LeastSquares(),
        losses.KLTo(reference) + price * losses.Entropy(),
        losses.Huber(largest * float(10 ** rng.uniform(-2, 0))),
    ]
    return choices[rng.integers(len(choices))]


def _stated(rng, reference, largest):
    """Return the function of a loss that cvxpy states."""
    weights = rng.uniform(0.1, 3.0, len(reference))
    choices = [
        lambda f, y: -cp.sum(cp.multiply(weights, cp.entr(f))),
        lambda f, y: cp.sum(cp.rel_entr(f, reference)),
        lambda f, y: cp.sum(cp.kl_div(f, reference)),
        lambda f, y: cp.sum(cp.multiply(weights, cp.exp((f - y) / largest))),
        lambda f, y: cp.sum(cp.logistic((f - y) / largest)),
        lambda f, y: cp.log_sum_exp((f - y) / largest),
    ]
    return choices[rng.integers(len(choices))]


def _set_around(rng, point):
    """Return constraints that a point meets, beside f >= 0 and its total."""
    d = len(point)
    row = rng.normal(size=d)
    centre = rng.dirichlet(np.ones(d)) * point.sum()
    norm = [1, 2, np.inf, "kl"][rng.integers(4)]
    radius = float(Near(centre, 0.0, norm).violation(point)) * float(rng.choice([1.0, 1.1, 2.0]))
    group = rng.choice(d, max(1, d // 2), replace=False)
    falling = np.argsort(-point)
    largest = float(point.max())
    choices = [
        [],
        [Linear([row], upper=[row @ point])],
        [Linear([row, row[::-1]], lower=[row @ point - largest, row[::-1] @ point])],
        [Bounds(0.0, point + largest * rng.uniform(0, 1, d))],
        [Near(centre, radius * (1 + 1e-9), norm)],
        [Near(centre, radius * (1 + 1e-9), norm), Linear([row], upper=[row @ point])],
        [Monotone(falling)],
        [GroupTotals([group], [point[group].sum()]), Monotone(falling[: max(2, d // 2)])],
        [Custom(lambda f: cp.norm(f - centre, 2) <= np.linalg.norm(centre - point))],
    ]
    return choices[rng.integers(len(choices))]


def drawn(seed):
    """Return a random problem and its estimate."""
    rng = np.random.default_rng([7, seed])
    d = int(rng.choice([2, 3, 5, 8, 20]))
    point = rng.dirichlet(np.full(d, rng.choice([0.3, 1.0, 5.0])))
    kind = rng.choice(["library", "stated", "likelihood"], p=[0.5, 0.35, 0.15])
    unit = float(10 ** rng.uniform(-UNITS, UNITS)) if rng.random() < 0.6 else 1.0
    if kind == "likelihood":
        of_one = rng.random() < 0.5
        oracle = (oracles.GRR if of_one else oracles.OUE)(float(rng.uniform(0.5, 4)), d)
        reports = int(10 ** rng.uniform(2, 6))
        counts = oracle.simulate_counts(rng.multinomial(reports, point), rng)
        loss = unit * (losses.MultinomialMLE() if of_one else losses.BinomialMLE())
        return Problem(loss, [NonNegative(), SumsTo(1.0), *_set_around(rng, point)]), (
            oracle.estimate(counts, reports)
        )
    if kind == "library" and rng.random() < 0.5:
        point = point * 10 ** rng.uniform(-FREQUENCIES, FREQUENCIES)
    total = float(point.sum())
    reference = rng.dirichlet(np.ones(d)) * total
    largest = float(point.max())
    if kind == "library":
        loss = unit * _of_library(rng, reference, largest)
    else:
        build = _stated(rng, reference, largest)
        loss = losses.Custom(lambda f, y: unit * build(f, y))
    estimate = point + largest * rng.normal(0, float(10 ** rng.uniform(-3, 0)), d)
    problem = Problem(loss, [NonNegative(), SumsTo(total), *_set_around(rng, point)])
    return problem, FrequencyEstimate(np.abs(estimate))


def contradiction(seed):
    """Return how status and certificate of a random problem contradict each other; else nothing."""
    problem, estimate = drawn(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdpoptWarning)
        try:
            solution = problem.solve(estimate)
        except LdpoptError:
            return ""
    certificate = solution.certificate
    is_certified = certificate.is_optimal(PROMISED, relative=True)
    if (solution.status == "optimal") == is_certified:
        return ""
    gap = float(certificate.gap / certificate.scale)
    return f"{seed}: {problem}, {solution.status}, a gap of {gap:.3g}: {certificate.reason}"


def test_an_optimal_status_is_a_certificate():
    assert not [text for text in map(contradiction, range(100)) if text]


def test_a_point_outside_by_rounding_may_be_better_than_any_inside():
    """Bounds that follow from totals and orders have a price too, which no row of them has."""
    sets = [
        NonNegative(),
        SumsTo(1.0),
        GroupTotals(
            [[1], [2], [0, 4], [2, 4]],
            [0.4754248371980471, 0.05082406428607335, 0.4737510985158795, 0.5245751628019528],
        ),
        Monotone([1, 4, 2, 0, 3]),
    ]
    unit = 3.425957245137383e136
    problem = Problem(losses.Custom(lambda f: -unit * cp.sum(cp.entr(f))), sets)
    point = [
        1.9532929764271908e-12,
        0.4754248370812954,
        0.05082406425058357,
        7.356793812426227e-12,
        0.47375109840844687,
    ]
    start = FrequencyEstimate(np.full(5, 0.2))
    stated = problem.at(start)
    size = scale_of(stated, start, np.array(point), np.zeros(()))
    for sufficient in (PROMISED, polyhedron.SUFFICIENT):
        gap = polyhedron.evidence(stated, start, np.array(point), sufficient).gap
        assert gap <= PROMISED * size
    # Only what the violation explains counts as nothing: other points have their rise.
    worse = np.array(point) + np.array([1e-4, 0.0, 0.0, 0.0, -1e-4])
    assert not certify(problem, start, worse).is_optimal(PROMISED, relative=True)


def test_a_search_that_asks_for_less_may_prove_more(monkeypatch):
    """Cone solvers end where they end: what proves the status is tried by the certificate too."""
    rng = np.random.default_rng(3)
    centre = rng.dirichlet(np.ones(6))
    near = Custom(lambda f: cp.norm(f - centre, 2) <= 0.1)
    problem = Problem(losses.LeastSquares(), [NonNegative(), SumsTo(1.0), near])
    solution = problem.solve(rng.normal(1 / 6, 0.3, 6))
    proved = polyhedron.evidence

    def failing(stated, start, point, sufficient=polyhedron.SUFFICIENT):
        evidence = proved(stated, start, point, sufficient)
        return evidence if sufficient >= PROMISED else evidence._replace(gap=np.asarray(np.inf))

    monkeypatch.setattr(polyhedron, "evidence", failing)
    assert solution.status == "optimal"
    assert solution.certificate.is_optimal(PROMISED, relative=True)


def test_a_scale_beyond_the_doubles_is_no_less_than_the_largest():
    """Each of its terms is a number, as the gap is: only their sum is none."""
    sets = [NonNegative(), SumsTo(2e112)]
    problem = Problem(2e84 * losses.Huber(1e112), sets)
    solution = problem.solve(1e112 * np.array([0.3, 0.3, 1.4, 0.7, -0.6, 0.8]))
    assert solution.status == "optimal"
    assert solution.certificate.is_optimal(PROMISED, relative=True)


def test_slopes_that_are_lost_prove_no_status():
    """The loss may be a usual number where products of its slopes vanish."""
    reference = 1e-99 * np.array([1.0, 1.0, 0.2])
    sets = [NonNegative(), SumsTo(1.66e-99), Near(reference, 1.75e-99, 2)]
    problem = Problem(2.2e-61 * losses.Huber(1.66e-99), sets)
    with pytest.warns(LdpoptWarning, match="vanish below the smallest doubles"):
        solution = problem.solve(np.array([-4.4e-102, 1.658e-99, -3.2e-102]), path="conic")
    assert solution.status == "inaccurate"
    assert not solution.certificate.is_optimal(PROMISED, relative=True)
