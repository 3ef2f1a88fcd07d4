"""The risk of methods, estimated without the truth."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import ldpopt
from ldpopt import METHODS, FrequencyEstimate, Problem, constraints, datasets, losses, oracles
from ldpopt.covariance import Covariance
from ldpopt.datasets.dataset import apportion
from ldpopt.errors import InvalidInputError, InvalidTypeError, MethodError
from ldpopt.oracles import index_law
from ldpopt.protocol import PureProtocol
from ldpopt.risks import Collection, RiskTable
from ldpopt.risks import evidence as evidences
from ldpopt.studies.risk import evidence_of, kind_for

D = 24
N = 4_000
ZIPF = 1 / np.arange(1, D + 1) ** 1.2
COUNTS = np.rint(N * ZIPF / ZIPF.sum()).astype(int)
COUNTS[0] += N - COUNTS.sum()
TRUTH = COUNTS / N
BLOCKS = np.array_split(np.arange(D), 3)
SIMPLEX = [constraints.NonNegative(), constraints.SumsTo(1.0)]


def collected(oracle, rng):
    return oracle.estimate(oracle.simulate_counts(COUNTS, rng), N)


@pytest.fixture(scope="module")
def raw():
    return collected(oracles.OUE(1.0, D), np.random.default_rng(1))


def errors_of_estimates(oracle, sets, names, kind="sure", draws=80):
    """Return what each method's estimated squared error exceeds the true one by, and the latter."""
    rng = np.random.default_rng(5)
    methods = {name: METHODS[name] for name in names}
    excess = {name: [] for name in names}
    true = {name: [] for name in names}
    for _ in range(draws):
        raw = collected(oracle, rng)
        collection = Collection(raw, sets)
        evidence, _ = evidence_of(collection, methods, kind, alpha=0.1, probes=6, rng=rng)
        for name, method in methods.items():
            processed = method.solve(raw)
            answers = collection.answered(processed.frequencies, clip=processed.clip_answers)
            error = np.sum((answers - collection.answered(TRUTH)) ** 2)
            excess[name].append(evidence[name].total - error)
            true[name].append(error)
    return excess, true


@pytest.mark.parametrize(
    "oracle", [oracles.OUE, oracles.GRR, oracles.SubsetSelection, oracles.HadamardResponse]
)
@pytest.mark.parametrize("sets", [None, BLOCKS])
def test_the_risk_is_unbiased(oracle, sets):
    excess, true = errors_of_estimates(oracle(1.0, D), sets, ["base", "norm-sub"])
    for name, errors in excess.items():
        spread = np.std(errors) / np.sqrt(len(errors))
        # Three standard errors, and what a plug-in for the variance costs.
        assert abs(np.mean(errors)) < 3 * spread + 0.03 * np.mean(true[name])


def expected_noise(oracle, sets):
    """Return the expected ‖noise‖² of Norm's answers, by the matrices themselves."""
    answers = ldpopt.estimate.sets.membership(sets, D).toarray()
    centred = answers - answers.mean(axis=1, keepdims=True)
    return float(np.trace(centred @ oracle.covariance(TRUTH).dense() @ centred.T)) / N


def test_a_diagonal_covariance_for_grr_is_wrong_by_more_than_the_bias_allowed(monkeypatch):
    oracle = oracles.GRR(4.0, D)
    sets = [[0, 1], [2, 3, 4]]
    raw = oracle.estimate(oracle.simulate_counts(COUNTS, rng=0, trials=600), N)
    right = np.mean([Collection(one, sets).noise_total for one in raw])
    expected = expected_noise(oracle, sets)
    assert right == pytest.approx(expected, rel=0.01)
    diagonal = Covariance.__matmul__

    def without_pairs(self, vectors):
        return diagonal(Covariance(self.diagonal, np.zeros((self.d, 0)), np.zeros((0, 0))), vectors)

    def trace(self, members=None):
        return float(np.sum(members @ self.diagonal))

    monkeypatch.setattr(Covariance, "__matmul__", without_pairs)
    monkeypatch.setattr(Covariance, "trace", trace)
    assert abs(Collection(raw[0], sets).noise_total / expected - 1) > 0.05


@pytest.mark.parametrize("oracle", [oracles.OUE, oracles.GRR, oracles.HadamardResponse])
@pytest.mark.parametrize("sets", [None, BLOCKS])
def test_answers_are_held_against_those_with_the_total_that_is_known(oracle, sets):
    oracle = oracle(1.0, D)
    raw = collected(oracle, np.random.default_rng(3))
    collection = Collection(raw, sets)
    members = np.eye(D) if sets is None else ldpopt.estimate.sets.membership(sets, D).toarray()
    centred = members - members.mean(axis=1, keepdims=True)
    noise = centred @ collection.covariance.dense() @ centred.T
    norm = METHODS["norm"].solve(raw).frequencies
    assert collection.answers == pytest.approx(members @ norm)
    weights = np.random.default_rng(4).normal(size=(2, collection.count))
    assert collection.answer_noise(weights) == pytest.approx(weights @ noise)
    # tr(A J C) of Norm, whose derivative is the projection: it lets through just this noise.
    derivative = Problem(losses.LeastSquares(), [constraints.SumsTo(1.0)]).solve(raw).jacobian()
    assert collection.trace_with(derivative) == pytest.approx(np.trace(noise))
    assert collection.answer_variances == pytest.approx(np.diag(noise))
    correlations = noise / np.sqrt(np.outer(np.diag(noise), np.diag(noise)))
    independent = collection.independent_answers(np.random.default_rng(0))
    assert independent == pytest.approx(collection.count**2 / np.sum(correlations**2))
    for number in (2, D):
        moves = collection.moves("sure", number, 0.1, np.random.default_rng(5))
        centred_moves = moves.vectors - moves.vectors.mean(axis=1, keepdims=True)
        assert moves.answers == pytest.approx(centred_moves @ members.T)
    # Noise given by hand says nothing of a total.
    by_hand = FrequencyEstimate(raw.frequencies, noise=np.full(D, 1e-4), is_raw=True)
    assert Collection(by_hand, sets).answers == pytest.approx(members @ raw.frequencies)


def test_the_bootstrap_is_unbiased_at_more_noise():
    # Base-Cut on values: the risk at noise 1.1 is that of the rule on a collection of n/1.1 users.
    names = ["base", "base-cut"]
    excess, true = errors_of_estimates(oracles.OUE(1.0, D), None, names, "bootstrap")
    base = np.array(excess["base"]) + np.array(true["base"])
    # The raw estimate returns what it is given, whose variance is 1.1 times as large.
    assert base.mean() == pytest.approx(1.1 * np.mean(true["base"]), rel=0.05)
    cut = np.array(excess["base-cut"]) + np.array(true["base-cut"])
    assert cut.mean() == pytest.approx(1.1 * np.mean(true["base-cut"]), rel=0.2)


def test_intervals_of_differences_cover():
    rng = np.random.default_rng(2)
    oracle = oracles.OUE(1.0, D)
    names = ["base", "norm-sub"]
    methods = {name: METHODS[name] for name in names}
    inside = []
    for _ in range(80):
        raw = collected(oracle, rng)
        collection = Collection(raw, BLOCKS)
        evidence, _ = evidence_of(collection, methods, "sure", alpha=0.1, probes=6, rng=rng)
        truth = collection.answered(TRUTH)
        errors = []
        for method in methods.values():
            answers = collection.answered(method.solve(raw).frequencies)
            errors.append(np.sum((answers - truth) ** 2))
        miss = evidence["base"].excess(evidence["norm-sub"]) - (errors[0] - errors[1])
        reach = evidence["base"].excess_reach(evidence["norm-sub"], collection, 1.96)
        inside.append(abs(miss) <= reach)
    assert 0.88 <= np.mean(inside) <= 1


def test_the_upper_end_of_an_interval_is_as_many_standard_errors_away_as_stated():
    """With tr C² = 8, tr CT = 3 and tr T² = 2: V₀ = 2·8 - 4·3 + 4·2 = 12; t = 4 and λ = 8/4."""
    noise = SimpleNamespace(noise_square=8.0, noise=4.0, trace=lambda _: 4.0)
    evidence = SimpleNamespace(
        noise=noise,
        variance=lambda _: 0.0,
        total=6.0,
        bias=0.0,
        residual=np.zeros(2),
        contributions=np.zeros(0),
        passed=None,
        _squares=(2.0, None),
        _with_noise=3.0,
    )
    collection = SimpleNamespace(answer_noise=np.zeros_like)
    _, high = evidences.Evidence.interval(evidence, collection, 1.5)
    # The error r is at the end where (r - 6)² = 1.5² (12 + 4·2 (r - 4)).
    assert (high - 6) ** 2 == pytest.approx(1.5**2 * (12 + 8 * (high - 4)))


@pytest.mark.parametrize("oracle", [oracles.OUE(1.0, 300), oracles.GRR(3.0, 300)])
def test_intervals_of_a_risk_cover_where_shrinkage_moves_a_few_answers(oracle):
    # One half of 300 values: the normal interval covers in four of ten draws.
    d = 300
    counts = apportion(1 / np.arange(1.0, d + 1) ** 1.2, 200_000)
    rng = np.random.default_rng(3)
    half = [rng.choice(d, d // 2, replace=False)]
    inside = []
    for raw in oracle.estimate(oracle.simulate_counts(counts, rng, trials=40), counts.sum()):
        estimated = ldpopt.risk(raw, "norm-sub", half)
        answer = METHODS["norm-sub"].solve(raw).frequencies[half[0]].sum()
        error = (answer - counts[half[0]].sum() / counts.sum()) ** 2
        inside.append(estimated.low <= error <= estimated.high)
    assert np.mean(inside) >= 0.88


@pytest.mark.parametrize("oracle", [oracles.OUE(1.0, 300), oracles.GRR(3.0, 300)])
def test_intervals_by_the_bootstrap_cover(oracle):
    # With more noise more values pass the threshold, and the answers to halves are nearer.
    d = 300
    counts = apportion(1 / np.arange(1.0, d + 1) ** 1.1, 100_000)
    truth = counts / counts.sum()
    rng = np.random.default_rng(0)
    halves = [rng.choice(d, d // 2, replace=False) for _ in range(20)]
    names = ["norm-sub", "base-cut", "norm-cut", "norm-hyb"]
    of_risks = []
    of_differences = []
    for raw in oracle.estimate(oracle.simulate_counts(counts, rng, trials=80), counts.sum()):
        table = ldpopt.compare_risk(raw, names, halves)
        members = [METHODS[name].solve(raw).frequencies - truth for name in names]
        errors = [np.mean([move[half].sum() ** 2 for half in halves]) for move in members]
        error = dict(zip(names, errors, strict=True))
        of_cut = table.row("base-cut").risk
        of_risks.append(of_cut.low <= error["base-cut"] <= of_cut.high)
        for row in table.rows[1:]:
            excess = error[row.method] - error[table.best]
            of_differences.append(row.excess_low <= excess <= row.excess_high)
    # At 1.1 times the noise, without the margins, it was .73 and .77 to .82.
    assert np.mean(of_risks) >= 0.94
    assert np.mean(of_differences) >= 0.96


def test_the_ends_are_the_outermost_values_within_reach():
    # (x - 3)² = 1 + 4·x/2: x² - 8 x + 8 = 0.
    assert evidences._score_ends(3.0, 1.0, 0.5, 1.0) == pytest.approx((4 - 8**0.5, 4 + 8**0.5))
    # (x - 3)² = 2² (5 + 4·2 x): x² - 38 x - 11 = 0, whose lower root is below 0.
    expected = (3 - 20**0.5, 19 + 372**0.5)
    assert evidences._score_ends(3.0, 5.0, 2.0, 2.0) == pytest.approx(expected)
    # Where nothing grows they are the normal ones, and where no root is what 0 explains.
    assert evidences._score_ends(3.0, 4.0, 0.0, 2.0) == pytest.approx((-1.0, 7.0))
    assert evidences._score_ends(-30.0, 4.0, 2.0, 2.0) == pytest.approx((-34.0, 4.0))


def test_an_exact_derivative_and_moves_agree(raw):
    exact = ldpopt.risk(raw, "norm-sub")
    # A function of the user has no exact derivative.
    function = METHODS["norm-sub"].solve
    moved = ldpopt.risk(raw, lambda e: function(e), by="sure", probes=400)
    assert moved.mean == pytest.approx(exact.mean, rel=0.1)
    # Few sets take one move each, which is exact for what is linear between kinks.
    exact = ldpopt.risk(raw, "norm-sub", BLOCKS)
    moved = ldpopt.risk(raw, lambda e: function(e), BLOCKS, by="sure")
    assert moved.mean == pytest.approx(exact.mean, rel=1e-6)
    assert moved.high == pytest.approx(exact.high, rel=1e-6)


def test_noise_given_by_hand_is_enough():
    f = np.array([0.5, 0.3, 0.15, 0.05])
    raw = FrequencyEstimate(f, noise=np.full(4, 1e-4), is_raw=True)
    assert ldpopt.risk(raw, "base").mean == pytest.approx(1e-4)
    assert ldpopt.risk(raw, "base", [[0, 1, 2, 3]]).mean == pytest.approx(4e-4)


def test_rounding_makes_no_method_worse():
    """Reports of GRR sum to 1: where none is negative, three methods give the same answers."""
    raw = oracles.GRR(1.0, 4).estimate([6_543, 5_278, 4_410, 3_769], 20_000)
    table = ldpopt.compare_risk(raw, ["base", "norm-sub", "norm"])
    assert max(row.excess for row in table.rows) < 1e-18
    verdicts = [table.verdict(row) for row in table.rows]
    assert verdicts == ["best", "undecided", "undecided"]


def test_a_table_ranks_and_says_what_is_undecided(raw):
    table = ldpopt.compare_risk(raw, ["base", "norm-sub", "mle-apx"])
    assert {row.method for row in table.rows} == {"base", "norm-sub", "mle-apx"}
    best, *others = table.rows
    assert best.method == table.best
    assert (best.excess, best.excess_low, best.excess_high) == (0, 0, 0)
    for row in others:
        assert row.excess == pytest.approx(row.risk.mean - best.risk.mean)
    worse = replace(others[0], excess_low=1e-9)
    unclear = replace(others[1], excess_low=-1e-9)
    table_of_three = RiskTable((best, worse, unclear), {"norm": "no answer"})
    assert [table_of_three.verdict(row) for row in table_of_three.rows] == [
        "best",
        "worse",
        "undecided",
    ]
    lines = str(table_of_three).splitlines()
    assert lines[0] == "Risk of 24 values, by Stein's unbiased estimate"
    assert [line.split()[-1] for line in lines[2:5]] == ["best", "worse", "undecided"]
    assert lines[-1] == "norm is dropped: no answer"
    assert "mean squared error" in best.risk._repr_html_()
    assert "<table" in table_of_three._repr_html_()
    assert len(table_of_three.plot().axes[0].get_yticks()) == 3


def test_tables_of_risks_are_data_frames(raw):
    pytest.importorskip("pandas")
    frame = ldpopt.compare_risk(raw, ["base", "norm-sub"]).to_frame()
    assert sorted(frame["method"]) == ["base", "norm-sub"]
    assert {"mean", "low", "high", "by", "excess", "excess_low"} <= set(frame.columns)


def test_one_candidate_that_jumps_makes_all_be_bootstrapped(raw):
    table = ldpopt.compare_risk(raw, ["base", "base-cut"])
    assert {row.risk.by for row in table.rows} == {"bootstrap"}
    assert "at 1.02 x the noise" in table.title
    assert ldpopt.risk(raw, "base").by == "sure"
    assert ldpopt.risk(raw, lambda e: e.frequencies).by == "bootstrap"
    assert ldpopt.risk(raw, lambda e: e.frequencies, by="sure").by == "sure"


@pytest.mark.parametrize("name", ["base-cut", "base-zero", "norm-cut", "norm-hyb"])
def test_steins_formula_is_refused_for_methods_that_jump(raw, name):
    with pytest.raises(InvalidInputError, match=f'{name} jumps.*use by="bootstrap"'):
        ldpopt.risk(raw, name, by="sure")


def test_every_method_is_known_to_jump_or_not():
    jumping = {name for name, method in METHODS.items() if method.is_continuous is False}
    assert jumping == {"base-cut", "base-zero", "norm-cut", "norm-hyb"}
    assert all(method.is_continuous is not None for method in METHODS.values())
    assert kind_for({"a": METHODS["norm-sub"]}, "auto") == "sure"


def test_tuning_chooses_the_bound_with_the_least_risk(raw):
    def capped(cap):
        bounds = [constraints.Bounds(0.0, cap), constraints.SumsTo(1.0)]
        return Problem(losses.LeastSquares(), bounds)

    tuning = ldpopt.tune(capped, raw, [0.05, TRUTH.max(), 1.0])
    assert tuning.value != 0.05
    assert tuning.candidate.solve(raw).frequencies.max() <= tuning.value + 1e-9
    assert str(tuning).startswith(f"chosen: {tuning.value!r} of 3")
    assert "<table" in tuning._repr_html_()
    assert tuning.plot().axes
    assert tuning.grid == (0.05, TRUTH.max(), 1.0)


def test_a_candidate_without_an_answer_is_dropped():
    oracle = oracles.OUE(1.0, 3)
    raw = FrequencyEstimate([-0.1, -0.2, -0.3], n=100, oracle=oracle, is_raw=True)
    table = ldpopt.compare_risk(raw, ["norm-mul", "norm-sub"])
    assert list(table.dropped) == ["norm-mul"]
    assert "norm-mul is dropped: " in str(table)
    with pytest.raises(InvalidInputError, match="no candidate has an answer"):
        ldpopt.risk(raw, "norm-mul")


def noisy():
    """Return a function that draws anew at every call."""
    rng = np.random.default_rng(0)
    return lambda estimate: estimate.frequencies + rng.normal(0, 1e-3, estimate.d)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"candidate": "norm-sup"}, "norm-sub"),
        ({"candidate": noisy()}, "different answers for the same estimate"),
        ({"by": "stein"}, "unknown by 'stein'"),
        ({"alpha": 0.0, "by": "bootstrap"}, "alpha must be a finite number >= 1e-08"),
        ({"alpha": -0.5}, "alpha must be a finite number >= 1e-08"),
        # The moves would be rounded to nothing, and the rule be taken for a constant.
        ({"alpha": 1e-40, "by": "bootstrap"}, "alpha must be a finite number >= 1e-08"),
        ({"probes": 1}, "probes must be at least 2"),
        ({"level": 1.0}, "level must be a finite number"),
        ({"sets": []}, "at least one set, or sets=None"),
        ({"sets": [[0, 0]]}, "more than once"),
        ({"candidate": lambda e: np.full(e.d, np.nan)}, "return finite numbers"),
    ],
)
def test_bad_arguments_are_refused(raw, arguments, message):
    given = {"candidate": "norm-sub"} | arguments
    with pytest.raises(InvalidInputError, match=message):
        ldpopt.risk(raw, **given)


def known_by_p_and_q(oracle):
    return PureProtocol(epsilon=1.0, d=oracle.d, p=oracle.p, q=oracle.q)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda e: e.frequencies, "needs a raw FrequencyEstimate.*; got ndarray$"),
        (lambda e: ldpopt.Sources([e]), r"got Sources: pass sources.combined\(\)"),
        (lambda e: ldpopt.postprocess(e, "norm-sub"), "is processed"),
        (lambda e: FrequencyEstimate(e.frequencies[None], e.n, e.oracle, is_raw=True), "a stack"),
        (
            lambda e: FrequencyEstimate(e.frequencies, e.n, known_by_p_and_q(e.oracle)),
            "p and q alone do not say it",
        ),
        (lambda e: FrequencyEstimate(e.frequencies, is_raw=True), "noise level"),
    ],
)
def test_only_one_raw_estimate_with_its_noise_is_taken(raw, change, message):
    with pytest.raises(InvalidInputError, match=message):
        ldpopt.compare_risk(change(raw), ["base"], BLOCKS)


def test_bad_grids_are_refused(raw):
    with pytest.raises(InvalidInputError, match=r"at least two numbers.*for one use risk"):
        ldpopt.tune(lambda t: "base", raw, [1.0])
    with pytest.raises(InvalidInputError, match="must not repeat a number"):
        ldpopt.tune(lambda t: "base", raw, [1.0, 1.0])
    with pytest.raises(InvalidInputError, match="must not repeat a number"):
        ldpopt.tune(lambda t: "base", raw, [1, 1.0])
    with pytest.raises(InvalidTypeError, match="a list of numbers, got 5"):
        ldpopt.tune(lambda t: "base", raw, 5)
    with pytest.raises(InvalidTypeError, match="a function from a number to a problem"):
        ldpopt.tune("base", raw, [1.0, 2.0])
    with pytest.raises(InvalidInputError, match=r"array of shape \(3,\) in it: pass grid"):
        ldpopt.tune(lambda t: "base", raw, np.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize("make", [oracles.OUE, oracles.OLH, oracles.HadamardResponse])
def test_the_answer_for_all_values_has_no_error_once_the_total_is_met(make):
    collection = collected(make(1.0, D), np.random.default_rng(2))
    risk = ldpopt.risk(collection, "norm-sub", [np.arange(D)])
    assert (risk.mean, risk.low, risk.high) == (0.0, 0.0, 0.0)


def test_draws_have_the_covariance_of_the_protocol():
    rng = np.random.default_rng(0)
    classes = (oracles.GRR, oracles.SubsetSelection, oracles.OUE, oracles.HadamardResponse)
    for oracle in [make(1.0, 5) for make in classes]:
        covariance = oracle.covariance(np.array([0.4, 0.3, 0.2, 0.1, 0.0]))
        draws = covariance.draws(40_000, rng)
        scale = covariance.diagonal.max()
        assert np.cov(draws.T) == pytest.approx(covariance.dense(), abs=0.04 * scale)


def test_a_singular_matrix_has_a_root_too():
    ones = np.ones((3, 3))  # as of the noise of a sum, shared by all
    root = index_law._root(ones)
    assert root @ root.T == pytest.approx(ones)


def test_draws_of_many_values_need_no_matrix(monkeypatch):
    covariance = oracles.HadamardResponse(1.0, 5).covariance(np.full(5, 0.2))
    monkeypatch.setattr(index_law, "_FACTORED", 0)
    draws = covariance.draws(40_000, np.random.default_rng(0))
    # The users' own variance is on top, at most 1/4 beside 3.4 of the reports.
    users = np.diag(np.full(5, 0.2)) - 0.04
    scale = covariance.diagonal.max()
    assert np.cov(draws.T) == pytest.approx(covariance.dense() + users, abs=0.04 * scale)


@pytest.mark.parametrize("make", [oracles.GRR, oracles.HadamardResponse])
def test_traces_of_a_covariance_are_those_of_the_matrix(make):
    covariance = make(1.0, 6).covariance(np.array([0.5, 0.2, 0.1, 0.1, 0.1, 0.0]))
    members = ldpopt.estimate.sets.membership([[0, 1], [2, 3, 4]], 6)
    by_hand = np.trace(members @ covariance.dense() @ members.T)
    assert covariance.trace(members) == pytest.approx(by_hand)
    assert covariance.trace() == pytest.approx(np.trace(covariance.dense()))
    chain = [constraints.Monotone([1, 0, 2, 3, 4, 5]), constraints.SumsTo(1.0)]
    for feasible, is_tied in ((SIMPLEX, False), (chain, True)):
        solution = Problem(losses.LeastSquares(), feasible).solve([0.5, 0.3, 0.2, 0.1, -0.1, 0.0])
        derivative = solution.jacobian()
        # Values that are tied are no diagonal with a few columns.
        assert (derivative.low_rank is None) == is_tied
        trace = np.trace(derivative.dense() @ covariance.dense())
        assert covariance.trace_with(derivative) == pytest.approx(trace)


@pytest.mark.parametrize("make", [oracles.OUE, oracles.GRR, oracles.SubsetSelection, None])
def test_traces_of_the_whole_noise_are_those_of_the_matrices(make):
    """Products of dense matrices beside those of a diagonal plus low rank; None: by hand."""
    raw = collected((make or oracles.OUE)(1.0, D), np.random.default_rng(3))
    if make is None:
        by_hand = np.linspace(1e-5, 1e-4, D)
        raw = FrequencyEstimate(raw.frequencies, noise=by_hand, is_raw=True)
    collection = Collection(raw, None)
    # Noise that is given by hand says nothing of a total.
    centre = np.eye(D) - (make is not None) / D
    shared = collection.covariance.dense() @ centre
    projected = centre @ shared
    whole = collection.whole_noise
    assert whole.noise == pytest.approx(np.trace(projected))
    assert whole.noise_square == pytest.approx(np.sum(projected * projected.T))
    of_losses = []
    for loss in (losses.LeastSquares(), losses.WeightedLeastSquares(np.linspace(1, 2, D))):
        derivative = Problem(loss, SIMPLEX).solve(raw).jacobian()
        dense = derivative.dense() @ shared
        passed = whole.passed(derivative.low_rank)
        assert whole.trace(passed) == pytest.approx(np.trace(dense))
        assert whole.with_noise(passed) == pytest.approx(np.trace(projected @ dense))
        less = dense - projected
        squares = (np.trace(dense @ dense), np.trace(less @ less))
        assert whole.squares(passed) == pytest.approx(squares)
        of_losses.append((passed, dense))
    (first, one), (second, other) = of_losses
    apart = one - other
    assert whole.square_of_difference(first, second) == pytest.approx(np.trace(apart @ apart))


def test_the_whole_noise_is_left_where_moves_cost_less(raw, monkeypatch):
    assert Collection(raw, BLOCKS).whole_noise is None
    hadamard = collected(oracles.HadamardResponse(1.0, D), np.random.default_rng(3))
    assert Collection(hadamard, None).whole_noise is None
    of_grr = Collection(collected(oracles.GRR(1.0, D), np.random.default_rng(3)), None)
    monkeypatch.setattr("ldpopt.risks.collection._FEW_COLUMNS", 1)
    assert of_grr.whole_noise is None


def test_nothing_is_drawn_where_all_derivatives_are_known(raw):
    tables = [
        ldpopt.compare_risk(raw, ["base", "norm-sub"], rng=seed, probes=probes)
        for seed, probes in ((0, 2), (1, 10))
    ]
    assert tables[0] == tables[1]
    # Few values take one move each, with which moves are exact too.
    collection = Collection(raw, None)
    moves = collection.moves("sure", D, 0.1, np.random.default_rng(0))
    solution = Problem(losses.LeastSquares(), SIMPLEX).solve(raw)
    whole, along = (
        evidences.Evidence.exact(collection, solution.frequencies, solution.jacobian(), noise)
        for noise in (collection.whole_noise, moves)
    )
    assert whole.total == pytest.approx(along.total)
    assert whole.interval(collection, 1.96) == pytest.approx(along.interval(collection, 1.96))


def test_the_risk_of_emoji_categories_finds_what_simulation_missed():
    data = datasets.load("emoji")
    oracle = oracles.OUE(1.0, data.d)
    raw = oracle.estimate(oracle.simulate_counts(data.counts, rng=0), data.n)
    table = ldpopt.compare_risk(raw, ["base", "norm", "norm-sub"], data.sets["category"])
    assert table.best == "norm"


def test_method_error_is_an_input_error():
    assert issubclass(MethodError, InvalidInputError)
