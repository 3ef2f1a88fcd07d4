"""What constraints are worth on a collection, and whether the reports refute them."""

import numpy as np
import pytest

import ldpopt
from ldpopt import Problem, constraints, losses, oracles
from ldpopt.errors import InvalidInputError

D = 20
N = 20_000
OUE = oracles.OUE(1.0, D)
SIMPLEX = [constraints.NonNegative(), constraints.SumsTo(1.0)]
FALLING = np.rint(N * np.arange(D, 0, -1) / np.sum(np.arange(1, D + 1))).astype(int)
FALLING[0] += N - FALLING.sum()


def collected(counts, seed):
    return OUE.estimate(OUE.simulate_counts(counts, rng=seed), N)


def census(shift):
    """Return totals of four groups, wrong by a shift from one to the next."""
    groups = np.split(np.arange(D), 4)
    totals = np.array([FALLING[group].sum() for group in groups]) / N
    return constraints.GroupTotals(groups, totals + shift * np.array([1, -1, 1, -1]))


def p_values(problem, counts, seeds, place, **options):
    return np.array(
        [problem.audit(collected(counts, s), **options).rows[place].p_value for s in seeds]
    )


def test_a_true_census_is_refuted_in_one_collection_of_twenty():
    problem = Problem(losses.LeastSquares(), [census(0.0), constraints.SumsTo(1.0)])
    values = p_values(problem, FALLING, range(60), 0, trials=39)
    # Three standard errors of a share of .05 are .084.
    assert np.mean(values <= 0.05) <= 0.05 + 0.085
    # The law is the right one: p-values are spread evenly.
    assert np.mean(values) == pytest.approx(0.5, abs=0.12)


def test_a_false_census_that_doubles_the_risk_is_refuted():
    true = Problem(losses.LeastSquares(), [*SIMPLEX, census(0.0)])
    false = Problem(losses.LeastSquares(), [*SIMPLEX, census(0.06)])
    truth = FALLING / N
    refuted = []
    errors = []
    for seed in range(12):
        raw = collected(FALLING, seed)
        refuted.append("GroupTotals" in str(false.audit(raw, trials=39).refuted))
        errors.append([np.sum((p.minimise(raw) - truth) ** 2) for p in (true, false)])
    right, wrong = np.mean(errors, axis=0)
    assert wrong < 2.2 * right  # not an easy case
    assert np.mean(refuted) > 0.9


def test_an_order_is_judged_at_the_truth_where_all_values_are_equal():
    order = constraints.Monotone(np.arange(D))
    problem = Problem(losses.LeastSquares(), [order])
    equal = np.full(D, N // D)
    values = p_values(problem, equal, range(40), 0, trials=39)
    assert np.mean(values <= 0.05) <= 0.05 + 0.104
    assert np.mean(values) == pytest.approx(0.5, abs=0.15)
    # Against an order that is wrong from end to end.
    wrong = p_values(problem, FALLING[::-1], range(2), 0, trials=39)
    assert wrong.max() <= 0.025


def test_a_true_constraint_is_worth_what_it_saves():
    order = constraints.Monotone(np.arange(D))
    problem = Problem(losses.LeastSquares(), [*SIMPLEX, order])
    without = Problem(losses.LeastSquares(), SIMPLEX)
    truth = FALLING / N
    worth = []
    saved = []
    for seed in range(25):
        raw = collected(FALLING, seed)
        worth.append(problem.audit(raw, trials=19).rows[2].worth)
        errors = [np.mean((p.minimise(raw) - truth) ** 2) for p in (without, problem)]
        saved.append(errors[0] - errors[1])
    assert np.mean(worth) == pytest.approx(np.mean(saved), rel=0.3)
    row = problem.audit(collected(FALLING, 0)).rows[2]
    assert row.low < row.worth < row.high
    assert not row.is_refuted
    assert row.users > 0


def sources(seed):
    """Return a collection of the values, and one of the four groups."""
    rng = np.random.default_rng(seed)
    groups = np.split(np.arange(D), 4)
    oracle = oracles.GRR(1.0, 4)
    users = rng.multinomial(N // 2, [FALLING[group].sum() / N for group in groups])
    of_groups = oracle.estimate(oracle.simulate_counts(users, rng), N // 2)
    drawn = rng.multinomial(N, FALLING / N)
    values = OUE.estimate(OUE.simulate_counts(drawn, rng), N)
    return ldpopt.Sources([values, ldpopt.Source(of_groups, groups=groups)])


def stein(problem, both):
    """Return Stein's estimate of the squared error from dense matrices."""
    combined = both.combined()
    y = combined.frequencies
    covariance = combined.noise.covariance(y) @ np.eye(D)
    slopes = problem.solve(both).jacobian().dense()
    missed = np.sum((problem.minimise(both) - y) ** 2)
    return (missed - np.trace(covariance) + 2 * np.trace(slopes @ covariance)) / D


def test_an_audit_of_sources_is_of_what_they_say_together():
    total = [constraints.SumsTo(1.0)]
    true = Problem(losses.LeastSquares(), [census(0.0), *total])
    both = sources(0)
    row = true.audit(both, trials=19).rows[0]
    without = stein(Problem(losses.LeastSquares(), total), both)
    assert row.worth == pytest.approx(without - stein(true, both), rel=1e-6)
    # Both collections are seen: fewer users would be refuted less often.
    false = Problem(losses.LeastSquares(), [census(0.04), *total])
    audited = [(sources(seed), sources(seed).sources[0].estimate) for seed in range(8)]
    refuted = [[false.audit(raw, trials=19).rows[0].is_refuted for raw in pair] for pair in audited]
    together, values = np.mean(refuted, axis=0)
    assert together > 0.9
    assert values < 0.8
    held = [true.audit(both, trials=19).rows[0].is_refuted for both, _ in audited]
    # Of eight draws at the level .05 four have a probability of 4e-4.
    assert np.sum(held) < 4


def test_sources_without_an_exact_derivative_are_moved_as_one():
    both = sources(0)
    # A price on variation has no face for measured groups: it is differentiated along draws.
    priced = losses.LeastSquares() + 1e-9 * losses.TotalVariation()
    total = [constraints.SumsTo(1.0)]
    drawn = Problem(priced, total).audit(both, trials=19)
    exact = Problem(losses.LeastSquares(), total).audit(both, trials=19)
    assert drawn.risk == pytest.approx(exact.risk, rel=0.5)
    assert drawn.rows[0].worth == pytest.approx(exact.rows[0].worth, abs=exact.rows[0].high)
    with pytest.raises(InvalidInputError, match="several measurements, whose noise"):
        Problem(losses.BinomialMLE(), total).audit(both)


def test_what_others_imply_is_worth_nothing_and_not_a_rounding():
    # The groups are all values: their totals have a sum already.
    problem = Problem(losses.LeastSquares(), [*SIMPLEX, census(0.05)])
    audit = problem.audit(sources(0), trials=19)
    row = audit.rows[1]
    assert (row.low, row.worth, row.high) == (0.0, 0.0, 0.0)


def test_an_audit_shows_itself():
    raw = collected(FALLING, 0)
    problem = Problem(losses.LeastSquares(), [*SIMPLEX, census(0.07)])
    audit = problem.audit(raw, [[0, 1], [2, 3]], trials=19)
    lines = str(audit).splitlines()
    assert lines[0].startswith("Estimated MSE with all constraints")
    assert "refuted" in lines[-1]
    assert "<table" in audit._repr_html_()
    assert audit.refuted == (audit.rows[2].constraint,)
    pytest.importorskip("pandas")
    assert list(audit.to_frame()["constraint"]) == [row.constraint for row in audit.rows]


def test_what_has_no_test_or_no_worth_says_why():
    raw = collected(FALLING, 0)
    sparse = Problem(losses.LeastSquares(), [*SIMPLEX, constraints.AtMost(12)])
    rows = sparse.audit(raw, trials=19).rows
    assert "not convex" in rows[2].note
    assert np.isnan(rows[2].p_value)
    assert not rows[2].is_refuted
    likelihood = Problem(losses.KullbackLeibler(), [constraints.SumsTo(1.0)])
    assert likelihood.audit(raw, trials=19).rows[0].worth > 0
    by_hand = ldpopt.FrequencyEstimate([0.6, 0.5], noise=[0.01, 0.01], is_raw=True)
    total = Problem(losses.LeastSquares(), [constraints.SumsTo(1.0)])
    assert np.isnan(total.audit(by_hand, trials=19).rows[0].users)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"level": 0.0}, "level must be a finite number"),
        ({"trials": 18}, "trials must be at least 19"),
        ({"sets": []}, "at least one set"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    problem = Problem(losses.LeastSquares(), SIMPLEX)
    with pytest.raises(InvalidInputError, match=message):
        problem.audit(collected(FALLING, 0), **arguments)


def test_a_problem_without_constraints_and_a_processed_estimate_are_refused():
    raw = collected(FALLING, 0)
    with pytest.raises(InvalidInputError, match="has none"):
        Problem(losses.LeastSquares()).audit(raw)
    with pytest.raises(InvalidInputError, match="is processed"):
        Problem(losses.LeastSquares(), SIMPLEX).audit(ldpopt.postprocess(raw, "norm-sub"))
