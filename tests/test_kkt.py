"""The conditions that kkt() writes hold at solutions, and a wrong sign in them would show."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import ldpopt
from ldpopt import constraints, losses, oracles, priors
from ldpopt.errors import (
    InvalidInputError,
    InvalidTypeError,
    MissingPackageError,
    UnsupportedProblemError,
)
from ldpopt.solve.certificate.polyhedra import polyhedron
from ldpopt.solve.kkt.notation import Names, V
from ldpopt.solve.kkt.of_losses import X, loss_form

D = 8
N = 400
R = np.full(D, 1 / D)
SIMPLEX = [constraints.NonNegative(), constraints.SumsTo(1.0)]
RNG = np.random.default_rng(3)
TRUTH = RNG.dirichlet(np.full(D, 0.5))
OUE = oracles.OUE(1.0, D)
GRR = oracles.GRR(1.0, D)
BY_OUE = OUE.estimate(RNG.binomial(N, OUE.q + (OUE.p - OUE.q) * TRUTH), n=N)
BY_GRR = GRR.estimate(RNG.multinomial(N, GRR.q + (GRR.p - GRR.q) * TRUTH), n=N)
WEIGHTS = RNG.uniform(0.5, 2.0, D)
ROWS = RNG.normal(size=(3, D))

LOSSES = [
    losses.LeastSquares(),
    losses.WeightedLeastSquares(WEIGHTS),
    losses.GaussianMLE(),
    losses.BinomialMLE(),
    losses.MultinomialMLE(),
    losses.KullbackLeibler(),
    losses.KLTo(R),
    losses.Entropy(),
    losses.LeastAbsolute(),
    losses.L1To(R),
    losses.Huber(0.05),
    losses.PosteriorMean(priors.PowerLaw(alpha=1.5, n=N)),
    losses.LeastAbsolute() + losses.L1To(BY_OUE.frequencies[::-1]),
    losses.LeastSquares() + 0.05 * losses.L1To(R),
    losses.LeastSquares() + 0.05 * losses.L1To(R, WEIGHTS),
    losses.LeastSquares() + 0.05 * losses.KLTo(R),
    2 * losses.LeastSquares(),
    3 * losses.KLTo(R),
    2 * losses.Huber(0.05),
    losses.TotalVariation(),
    losses.GroupNorm([[0, 1, 2], [3, 4, 5, 6, 7]]),
    losses.LeastSquares() + 0.05 * losses.TotalVariation(),
    losses.LeastSquares() + 0.05 * losses.TotalVariation([3, 1, 2, 7]),
    2 * losses.LeastSquares() + 0.1 * losses.GroupNorm([[0, 1, 2], [5, 7], [3]], [1.0, 0.5, 2.0]),
]
SETS = [
    [constraints.SumsTo(1.0)],
    [*SIMPLEX, constraints.Bounds(0.0, 0.3)],
    [constraints.Bounds([-np.inf] + [0.0] * 7, 0.4), constraints.SumsTo(1.0)],
    [*SIMPLEX, constraints.Fixed([1], [0.1])],
    [*SIMPLEX, constraints.GroupTotals([[0, 1, 2], [3, 4]], [0.3, 0.4])],
    [*SIMPLEX, constraints.Margins((4, 2), 1, [0.5, 0.5])],
    [constraints.Margins((4, 2), 0, [0.25] * 4), constraints.Margins((4, 2), 1, [0.5, 0.5])],
    [*SIMPLEX, constraints.Monotone(np.arange(D))],
    [*SIMPLEX, constraints.Monotone([(0, 1), (0, 2), (3, 4)])],
    [*SIMPLEX, constraints.Unimodal(3)],
    [*SIMPLEX, constraints.TopSet([1, 2])],
    [constraints.NonNegative(), constraints.Monotone(np.arange(D)[::-1])],
    [*SIMPLEX, constraints.Near(R, 0.1, 1)],
    [*SIMPLEX, constraints.Near(R, 0.1, 1, weights=WEIGHTS)],
    [*SIMPLEX, constraints.Near(R, 0.05, 2)],
    [*SIMPLEX, constraints.Near(R, 0.05, np.inf)],
    [*SIMPLEX, constraints.Near(R, 0.05, "kl")],
    [*SIMPLEX, constraints.Near(R, 3.0, "kl")],  # some frequencies are 0
    [*SIMPLEX, constraints.Smooth(total_variation=0.3)],
    [constraints.NonNegative(), constraints.Hierarchy([-1, 0, 0, 0, 1, 1, 2, 2], 1.0)],
]
# These take a cone program each: once is enough.
CONIC_SETS = [
    [*SIMPLEX, constraints.GroupTotals([[0, 1, 2], [2, 3, 4]], [0.4, 0.4])],
    [*SIMPLEX, constraints.Linear(ROWS, -0.1, 0.1)],
    [*SIMPLEX, constraints.Linear(ROWS, [-np.inf, -0.1, 0.0], [0.1, np.inf, 0.0])],
    [*SIMPLEX, constraints.Smooth(0.4, 0.5, order=[3, 1, 0, 2, 5])],
    [*SIMPLEX, constraints.Monotone([(0, 2), (1, 2), (0, 3), (1, 3)])],
]
# What follows from others bounds the values here, and has no multipliers.
HELD_SETS = [
    [constraints.NonNegative(), constraints.SumsTo(0.0)],
    [constraints.Bounds(0.0, 1 / D), constraints.SumsTo(1.0)],
    [constraints.NonNegative(), constraints.GroupTotals(np.arange(D).reshape(2, 4), [0.0, 1.0])],
    [constraints.NonNegative(), constraints.Margins((2, 4), 0, [0.0, 1.0])],
    [*SIMPLEX, constraints.Smooth(second_difference=0.1)],
]
PROBLEMS = (
    [(loss, SIMPLEX) for loss in LOSSES]
    + [(losses.LeastSquares(), sets) for sets in (*SETS, *CONIC_SETS, *HELD_SETS, [], SIMPLEX[:1])]
    + [(losses.LeastSquares() + 0.1 * losses.L1To(R), HELD_SETS[2])]
    + [(losses.LeastSquares() + 0.05 * losses.TotalVariation(), HELD_SETS[3])]
    + [(losses.BinomialMLE(), sets) for sets in SETS[:11]]
    + [(losses.KLTo(R), sets) for sets in SETS[6:10]]
)


TWICE = losses.LeastSquares() + losses.TotalVariation() + losses.TotalVariation([1, 0])


def start_of(loss):
    return BY_GRR if isinstance(loss, losses.MultinomialMLE) else BY_OUE


@pytest.mark.parametrize(
    ("loss", "sets"), PROBLEMS, ids=lambda part: "+".join(map(repr, np.ravel(part)))
)
def test_what_is_written_holds_at_the_solution(loss, sets):
    problem = ldpopt.Problem(loss, sets)
    solution = problem.solve(start_of(loss))
    conditions = problem.kkt()
    residuals = conditions.residuals(solution)
    # The split adds up d values, which a cone solver knows to some 1e-9 each.
    assert residuals.largest < 5e-8, residuals
    kinds = set(residuals.by_kind()) - {"case split"}
    assert kinds == {condition.kind for condition in conditions.conditions}
    assert all(str(condition) in str(conditions) for condition in conditions.conditions)


def test_a_sum_with_hubers_loss_is_as_stationary_as_its_certificate_says():
    problem = ldpopt.Problem(2 * losses.Huber(0.05) + 0.1 * losses.Entropy(), SIMPLEX)
    solution = problem.solve(BY_OUE)
    stationarity = problem.kkt().residuals(solution).by_kind()["stationarity"]
    assert stationarity == pytest.approx(solution.certificate.stationarity, rel=1e-6)


@pytest.mark.parametrize(
    "penalty", [losses.TotalVariation(), losses.GroupNorm([[0, 1, 2], [3, 4]])]
)
def test_the_solution_at_another_price_of_several_values_fails(penalty):
    problem = ldpopt.Problem(losses.LeastSquares() + 0.05 * penalty, SIMPLEX)
    other = ldpopt.Problem(losses.LeastSquares() + 0.04 * penalty, SIMPLEX).solve(BY_OUE)
    residuals = problem.kkt().residuals(replace(other, problem=problem))
    assert residuals.largest > 1e-4
    assert problem.kkt().residuals(problem.solve(BY_OUE)).largest < 1e-12


def test_the_bound_of_a_sum_is_no_multiplier_of_its_largest_term():
    # One spike: all of the sum of differences is in one term, which the sum alone bounds.
    spike = [0.031, 0.002, 0.121, 0.665, 0.139, 0.002]
    problem = ldpopt.Problem(
        losses.LeastSquares(), [*SIMPLEX, constraints.Smooth(second_difference=0.2)]
    )
    assert problem.kkt().residuals(problem.solve(spike)).largest < 1e-9


def test_a_group_without_users_is_explained_without_a_program(monkeypatch):
    def no_program(*_):
        raise AssertionError("a linear program")

    monkeypatch.setattr(polyhedron, "by_linear_program", no_program)
    problem = ldpopt.Problem(losses.LeastSquares(), HELD_SETS[2])
    assert problem.kkt().residuals(problem.solve(BY_OUE)).largest < 1e-12


@pytest.mark.parametrize("limit", [1, 1 << 15])
def test_no_program_is_solved_for_the_multipliers_of_a_long_vector(limit, monkeypatch):
    programs = []

    def counted(*_):
        programs.append(1)

    monkeypatch.setattr(polyhedron, "_LONG_FOR_A_SEARCH", limit)
    problem = ldpopt.Problem(losses.LeastSquares(), [*SIMPLEX, constraints.Monotone(range(5))])
    point = problem.solve(BY_OUE).frequencies + 1e-7 * np.sin(np.arange(len(R)))
    # Near the minimum: its gap is small enough, and its multipliers leave some of the slopes.
    evidence = polyhedron.evidence(problem, BY_OUE, point, 1e-3)
    monkeypatch.setattr(polyhedron, "by_linear_program", counted)
    assert evidence.explain().stationarity > 0
    assert len(programs) == (limit > 1)


@pytest.mark.parametrize(
    ("name", "build", "at"),
    [
        ("SumsTo", lambda t: [constraints.NonNegative(), constraints.SumsTo(t)], 1.0),
        ("Near", lambda t: [*SIMPLEX, constraints.Near(R, t, 2)], 0.05),
        ("Near", lambda t: [*SIMPLEX, constraints.Near(R, t, "kl")], 0.05),
        ("Margins", lambda t: [constraints.Margins((2, 4), 0, [t, 1 - t])], 0.3),
    ],
)
def test_multipliers_are_how_fast_the_minimum_rises(name, build, at):
    """A central difference of minima; the second margin moves against the first."""
    step = 1e-4

    def solved(bound):
        return ldpopt.Problem(losses.LeastSquares(), build(bound)).solve(BY_OUE)

    dual = np.atleast_1d(solved(at).duals[name])
    rate = dual[0] - (dual[1] if len(dual) > 1 else 0.0)
    rise = (solved(at + step).objective - solved(at - step).objective) / (2 * step)
    assert rate == pytest.approx(rise, rel=1e-3)
    stack = np.stack([BY_OUE.frequencies] * 3)
    of_trials = ldpopt.Problem(losses.LeastSquares(), build(at)).solve(stack).duals[name]
    np.testing.assert_allclose(np.reshape(of_trials, (3, -1)), [dual] * 3, rtol=1e-6)


@pytest.mark.parametrize(
    ("bounds", "lower"),
    [
        (constraints.Bounds(0.02, 0.4), "0.02"),
        (constraints.Bounds(0.1 * R, 0.4), "max(l_v, 0)"),
        (constraints.Near(R, 0.05, np.inf), "max(l_v, 0)"),
    ],
)
def test_of_two_lower_bounds_the_higher_one_is_a_case(bounds, lower):
    split = ldpopt.Problem(losses.LeastSquares(), [*SIMPLEX, bounds]).kkt().split
    at_lower = [line for line in split.lines if "the lower bound holds" in line]
    assert len(at_lower) == 1
    assert at_lower[0].startswith(f"f_v = {lower}   if f̃_v - μ ≤ {lower} ")


@pytest.mark.parametrize("term", ["f̃", "λ", "μ"])
def test_a_planted_sign_error_is_seen(term):
    problem = ldpopt.Problem(losses.LeastSquares(), SIMPLEX)
    conditions = problem.kkt()
    solution = problem.solve(BY_OUE)
    first = conditions.conditions[0]
    base = next(s for s in first.relation.atoms(sp.Symbol) if s.name == term)
    symbol = base if term == "μ" else sp.IndexedBase(base)[V]
    wrong = sp.Eq(first.relation.lhs.subs(symbol, -symbol), 0, evaluate=False)
    planted = replace(
        conditions, conditions=(replace(first, relation=wrong), *conditions.conditions[1:])
    )
    assert conditions.residuals(solution).largest < 1e-12
    assert planted.residuals(solution).by_kind()["stationarity"] > 1e-3


def test_a_wrong_direction_and_a_wrong_split_are_seen():
    problem = ldpopt.Problem(losses.LeastSquares(), SIMPLEX)
    conditions = problem.kkt()
    solution = problem.solve(BY_OUE)
    turned = [
        replace(c, relation=sp.Le(*c.relation.args, evaluate=False))
        if c.kind == "dual feasibility"
        else c
        for c in conditions.conditions
    ]
    residuals = replace(conditions, conditions=tuple(turned)).residuals(solution)
    assert residuals.by_kind()["dual feasibility"] > 1e-3
    left, right = conditions.split.formula.args
    wrong = replace(conditions.split, formula=sp.Eq(left, right + 1, evaluate=False))
    assert replace(conditions, split=wrong).residuals(solution).of_split == pytest.approx(1.0)


@pytest.mark.parametrize("loss", [losses.LeastSquares(), 2 * losses.KLTo(R), losses.Entropy()])
def test_a_wrong_multiplier_is_seen(loss):
    problem = ldpopt.Problem(loss, SIMPLEX)
    conditions = problem.kkt()
    solution = problem.solve(BY_OUE)
    assert conditions.residuals(solution).of_split < 1e-8
    left, right = conditions.split.solved.args
    wrong = replace(conditions.split, solved=sp.Eq(left, right + 1, evaluate=False))
    assert replace(conditions, split=wrong).residuals(solution).of_split == pytest.approx(1.0)
    relation, where = conditions.split.multiplier
    unmet = sp.Eq(relation.lhs + 1, relation.rhs, evaluate=False)
    wrong = replace(conditions.split, multiplier=(unmet, where))
    assert replace(conditions, split=wrong).residuals(solution).of_split == pytest.approx(1.0)


def test_the_conditions_of_another_point_fail():
    problem = ldpopt.Problem(losses.LeastSquares(), SIMPLEX)
    other = ldpopt.Problem(losses.LeastSquares(), SIMPLEX[1:]).solve(BY_OUE)
    moved = replace(other, problem=problem)
    assert problem.kkt().residuals(moved).by_kind()["primal feasibility"] > 1e-3


SPLITS = {
    "norm-sub": ("f_v = f̃_v - μ   if f̃_v - μ > 0", "μ = (Σ_j ∈ S f̃_j - 1)/|S|"),
    "norm-mul": ("f_v = exp(-1 - μ)·f̃_v", "μ = log(Σ_j f̃_j) - 1"),
    "norm": ("f_v = f̃_v - μ", "μ = (Σ_j f̃_j - 1)/d"),
    "pava, norm-sub": ("f̄_v is the mean of f̃ over the block", "f_v = f̄_v - μ   if f̄_v - μ > 0"),
}


@pytest.mark.parametrize(
    ("loss", "sets", "form"),
    [
        (losses.LeastSquares(), SIMPLEX, "norm-sub"),
        (losses.KullbackLeibler(), SIMPLEX, "norm-mul"),
        (losses.LeastSquares(), SIMPLEX[1:], "norm"),
        (losses.LeastSquares(), [*SIMPLEX, constraints.Unimodal(3)], "pava, norm-sub"),
    ],
)
def test_the_case_split_leads_to_the_closed_form(loss, sets, form):
    text = str(ldpopt.Problem(loss, sets).kkt())
    assert f"closed-form, {form} " in text
    assert all(line in text for line in SPLITS[form])


@pytest.mark.parametrize("loss", LOSSES[:8])
def test_responses_solve_the_equation_of_one_value(loss):
    form = loss_form(loss, Names())
    price = sp.Symbol("price")
    symbols = (form.term * form.response(price)).atoms(sp.Indexed)
    at = dict.fromkeys(symbols, 0.3) | {sp.Symbol("q", real=True): 0.2}
    at |= {sp.Symbol("p", real=True): 0.6, price: 0.4}
    minimiser = form.response(price).subs(at)
    slope = sp.diff(form.term, X).subs(at).subs(X, minimiser) + at[price]
    assert abs(float(slope)) < 1e-12


@pytest.mark.parametrize("shown", ["latex", "__repr__", "_repr_html_"])
def test_a_case_split_is_shown_where_there_is_one(shown):
    of_simplex = ldpopt.Problem(losses.LeastSquares(), SIMPLEX).kkt()
    of_rows = ldpopt.Problem(losses.LeastSquares(), [constraints.Linear(ROWS, 0.0, 1.0)]).kkt()
    assert of_rows.split is None
    for conditions in (of_simplex, of_rows):
        is_shown = "case split" in getattr(conditions, shown)()
        assert is_shown == (conditions.split is not None)


def test_a_divergence_has_a_case_split_only_where_a_total_has_a_price():
    """Without one its own minimiser is not f̃/e, which the form with the price 0 would be."""
    divergence = losses.KullbackLeibler()
    of_total = ldpopt.Problem(divergence, SIMPLEX).kkt()
    assert of_total.split is not None
    assert ldpopt.Problem(divergence, [constraints.NonNegative()]).kkt().split is None


def test_latex_and_html_show_every_condition():
    conditions = ldpopt.Problem(losses.BinomialMLE(), SIMPLEX).kkt()
    latex = conditions._repr_latex_()
    assert latex.startswith("$$\n\\begin{aligned}")
    assert latex.count("{") == latex.count("}")
    assert r"\lambda_{v} \geq 0 && \text{for all } v" in latex
    assert "case split" in conditions._repr_html_()
    residuals = conditions.residuals(ldpopt.Problem(*_parts(conditions)).solve(BY_OUE))
    assert residuals._repr_html_().count("<tr>") == len(conditions.conditions) + 2


def _parts(conditions):
    return conditions.problem.loss, conditions.problem.constraints


def test_two_constraints_of_a_kind_have_multipliers_of_their_own():
    sets = [constraints.Bounds(0.0, 0.5), constraints.Bounds(0.1, 1.0), constraints.SumsTo(1.0)]
    problem = ldpopt.Problem(losses.LeastSquares(), sets)
    conditions = problem.kkt()
    assert {"α", "α2", "β", "β2"} <= set(conditions.meanings)
    assert conditions.residuals(problem.solve(BY_OUE)).largest < 1e-12
    assert r"\alpha^{(2)}_{v}" in conditions.latex()


def test_a_parameter_stands_as_its_number():
    total = ldpopt.Parameter("total", 0.5)
    problem = ldpopt.Problem(losses.LeastSquares(), [constraints.SumsTo(total)])
    assert "Σ_j f_j = 0.5" in str(problem.kkt())


@pytest.mark.parametrize(
    ("loss", "sets", "reason"),
    [
        (losses.MaxAbsolute(), SIMPLEX, "no sum over values"),
        (losses.HardThreshold(), SIMPLEX, "not convex"),
        (TWICE, SIMPLEX, "one TotalVariation"),
        (losses.LeastSquares() + losses.GroupNorm([[0, 1], [1, 2]]), SIMPLEX, "do not overlap"),
        (losses.LeastAbsolute() + losses.TotalVariation(), SIMPLEX, "not of both"),
        (losses.LeastSquares(), [*SIMPLEX, constraints.AtMost(2)], "not convex"),
        (losses.LeastSquares(), [constraints.Custom(lambda f: f[0] <= f[1])], "its class states"),
        (losses.LeastSquares(), [constraints.Near([0.0, 1.0], 0.1, "kl")], "zeros"),
    ],
)
def test_what_has_no_conditions_ends_in_a_sentence(loss, sets, reason):
    with pytest.raises(UnsupportedProblemError, match=reason):
        ldpopt.Problem(loss, sets).kkt()


def test_residuals_refuse_stacks_and_other_problems():
    problem = ldpopt.Problem(losses.LeastSquares(), SIMPLEX)
    conditions = problem.kkt()
    with pytest.raises(InvalidInputError, match="one vector"):
        conditions.residuals(problem.solve([[0.5, 0.6], [0.2, 0.3]]))
    other = ldpopt.Problem(losses.LeastSquares(), SIMPLEX[:1])
    with pytest.raises(InvalidInputError, match="the solution is one of"):
        conditions.residuals(other.solve([0.5, 0.6]))
    same_words = ldpopt.Problem(losses.LeastSquares(), SIMPLEX)
    with pytest.raises(InvalidInputError, match="other objects"):
        conditions.residuals(same_words.solve([0.5, 0.6]))


def test_without_sympy_there_is_a_sentence(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("ldpopt.solve.kkt")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sympy", None)
    with pytest.raises(MissingPackageError, match=r"ldpopt\[formulas\]"):
        ldpopt.Problem(losses.LeastSquares(), SIMPLEX).kkt()


def test_residuals_are_those_of_a_solution():
    simplex = [constraints.NonNegative(), constraints.SumsTo(1.0)]
    conditions = ldpopt.Problem(losses.LeastSquares(), simplex).kkt()
    with pytest.raises(InvalidTypeError, match="takes a solution, as"):
        conditions.residuals(np.array([0.5, 0.5]))
