"""Several measurements as one: against dense least squares, simulation, and hostile input."""

import json
import pickle
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array

import ldpopt
from ldpopt import (
    FrequencyEstimate,
    Noise,
    Problem,
    Product,
    Source,
    Sources,
    closed_form,
    consistent_margins,
    oracles,
    rounds,
)
from ldpopt import constraints as cs
from ldpopt import losses as ls
from ldpopt.closed_form import two_way
from ldpopt.closed_form.smoothing import random_walk_spread, random_walk_weights
from ldpopt.collection.aggregation import Aggregate
from ldpopt.collection.counts import write_counts
from ldpopt.collection.header import Header
from ldpopt.errors import (
    InvalidInputError,
    InvalidTypeError,
    LdpoptWarning,
    MissingPackageError,
    UnsupportedProblemError,
)
from ldpopt.protocol import PureProtocol
from ldpopt.solve.joint import about_one
from ldpopt.sources import from_mbi, overlap, to_mbi, two_way_tables
from tests.commands import run
from tests.tolerances import CERTIFIED, ROUNDING, SIGMAS

D = 9
CATEGORIES = [[0, 1, 2], [3, 4, 5, 6]]
PARTS = {"left": [0, 1], "middle": [3, 4], "all": [3, 4, 5, 6]}
CROSSING = [[0, 3, 6], [1, 4, 7], [2, 5, 6]]
TRUTH = np.array([0.3, 0.2, 0.1, 0.1, 0.1, 0.08, 0.06, 0.04, 0.02])
SIMPLEX = [cs.NonNegative(), cs.SumsTo(1.0)]


def measured(rng, oracle, groups=None, n=2_000, **options):
    """Draw a source of the truth's values, or of totals of groups."""
    shares = TRUTH if groups is None else np.array([TRUTH[members].sum() for members in groups])
    noise = oracle.a / n
    frequencies = shares + rng.normal(0, np.sqrt(noise), len(shares))
    return Source(FrequencyEstimate(frequencies, n=n, oracle=oracle), groups, **options)


def collection(kind, rng):
    """Return sources whose groups are absent, apart, inside each other or overlapping."""
    sources = [measured(rng, oracles.OUE(1.0, D)), measured(rng, oracles.GRR(2.0, D))]
    if kind != "plain":
        sources.append(measured(rng, oracles.GRR(1.0, 2), CATEGORIES))
    if kind in ("nested", "overlapping"):
        sources.append(measured(rng, oracles.OUE(1.0, 3), list(PARTS.values()), drift=0.01))
    if kind == "overlapping":
        sources.append(measured(rng, oracles.SUE(1.0, 3), CROSSING))
    return Sources(sources)


KINDS = ["plain", "apart", "nested", "overlapping"]
each_kind = pytest.mark.parametrize("kind", KINDS)


def dense_maps(sources):
    return [np.eye(D) if a is None else a.toarray() for a in sources.members]


def test_groups_that_overlap_are_joined_exactly_where_they_are_far_more_precise():
    # One pass by Woodbury's identity is off by 1e-3 of a standard deviation here.
    rng = np.random.default_rng(0)
    groups = [[0, 1, 2, 4], [0, 1, 2], [2, 3, 4], [0, 3, 4]]
    members = np.array([np.isin(np.arange(5), group) for group in groups], dtype=float)
    truth = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
    noise = np.array([0.09, 0.05, 0.03, 0.08, 0.04])
    of_groups = np.array([1.1e-10, 0.7e-10, 1.3e-10, 1e-6])
    values = FrequencyEstimate(truth + rng.normal(0, noise**0.5), noise=noise, is_raw=True)
    measured = members @ truth + rng.normal(0, of_groups**0.5)
    totals = FrequencyEstimate(measured, noise=of_groups, is_raw=True)
    sources = Sources([values, Source(totals, groups=groups)])
    assert "overlap" in sources.explain()
    rows = np.vstack([np.eye(5), members])
    root = np.sqrt(1 / np.concatenate([noise, of_groups]))
    numbers = np.concatenate([values.frequencies, measured])
    expected = np.linalg.lstsq(root[:, None] * rows, root * numbers)[0]
    combined = sources.combined()
    miss = (combined.frequencies - expected) / np.sqrt(combined.noise.variance(truth))
    assert np.abs(miss).max() < 1e-5


@each_kind
def test_combined_is_dense_generalised_least_squares(kind):
    sources = collection(kind, np.random.default_rng(1))
    matrix = np.zeros((D, D))
    right = np.zeros(D)
    for a, w, source in zip(dense_maps(sources), sources.precisions, sources, strict=True):
        matrix += a.T @ np.diag(w) @ a
        right += a.T @ (w * source.estimate.frequencies)
    np.testing.assert_allclose(
        sources.combined().frequencies, np.linalg.solve(matrix, right), atol=CERTIFIED
    )


@each_kind
def test_the_noise_is_that_of_the_linear_combination(kind):
    sources = collection(kind, np.random.default_rng(2))
    matrix = sum(
        a.T @ np.diag(w) @ a for a, w in zip(dense_maps(sources), sources.precisions, strict=True)
    )
    covariance = np.zeros((D, D))
    for a, w, source in zip(dense_maps(sources), sources.precisions, sources, strict=True):
        taken = np.linalg.solve(matrix, a.T @ np.diag(w))
        noise = source.estimate.noise.covariance(a @ TRUTH).dense()
        besides = np.diag(source.drift**2 + a @ TRUTH / source.estimate.n)
        covariance += taken @ (noise + besides) @ taken.T
    noise = sources.combined().noise
    stated = noise.covariance(TRUTH)
    np.testing.assert_allclose(stated.dense(), covariance, atol=1e-14)
    np.testing.assert_allclose(stated.diagonal, covariance.diagonal(), rtol=1e-9)
    sets = np.zeros((2, D))
    sets[0, [0, 4]] = sets[1, [1, 2, 8]] = 1
    np.testing.assert_allclose(
        stated.quadratic(sets), np.einsum("sv,vw,sw->s", sets, covariance, sets), rtol=1e-9
    )
    # The values' own variances take the estimates where they need totals of groups.
    np.testing.assert_allclose(noise.variance(TRUTH), covariance.diagonal(), rtol=0.05)


@pytest.mark.parametrize("kind", ["apart", "nested", "overlapping"])
def test_variances_of_independent_measurements_need_no_products(kind, monkeypatch):
    """The passes over the forest and the dense system agree with the covariance they stand for."""
    rng = np.random.default_rng(3)
    maps = {"apart": [CATEGORIES], "nested": [CATEGORIES, list(PARTS.values())]}
    groups = maps.get(kind, [CATEGORIES, CROSSING])
    parts = [FrequencyEstimate(TRUTH, noise=rng.uniform(1, 2, D) * 1e-4)]
    for rows in groups:
        totals = [TRUTH[members].sum() for members in rows]
        parts.append(
            Source(FrequencyEstimate(totals, noise=rng.uniform(1, 2, len(rows)) * 1e-4), rows)
        )
    sources = Sources(parts)
    exact = sources.combined().noise.covariance(TRUTH).diagonal
    monkeypatch.setattr("ldpopt.sources.sources._SMALL", 0)
    np.testing.assert_allclose(sources.combined().noise.constant, exact, rtol=1e-9)


@each_kind
def test_the_estimate_varies_as_its_noise_states(kind):
    sources = collection(kind, np.random.default_rng(4))
    rng = np.random.default_rng(5)
    draws = 4_000
    stack = []
    for a, source in zip(dense_maps(sources), sources, strict=True):
        covariance = source.estimate.noise.covariance(a @ TRUTH).dense()
        covariance += np.diag(source.drift**2 + a @ TRUTH / source.estimate.n)
        stack.append(rng.multivariate_normal(a @ TRUTH, covariance, draws, method="eigh"))
    drawn = sources._combination(stack)
    variance = sources.combined().noise.covariance(TRUTH).diagonal
    np.testing.assert_array_less(
        np.abs(drawn.mean(axis=0) - TRUTH), SIGMAS * np.sqrt(variance / draws)
    )
    np.testing.assert_allclose(drawn.var(axis=0) / variance, 1, atol=SIGMAS * np.sqrt(2 / draws))


@each_kind
def test_the_order_of_sources_changes_nothing(kind):
    sources = collection(kind, np.random.default_rng(6))
    turned = Sources(list(sources)[::-1])
    ours = sources.combined()
    theirs = turned.combined()
    np.testing.assert_allclose(ours.frequencies, theirs.frequencies, atol=ROUNDING)
    np.testing.assert_allclose(ours.noise.variance(TRUTH), theirs.noise.variance(TRUTH), rtol=1e-9)


def test_without_drift_rounds_are_pooled_and_with_an_infinite_one_each_stands_alone():
    rng = np.random.default_rng(7)
    series = [measured(rng, oracles.OUE(1.0, D)).estimate for _ in range(4)]
    pooled = rounds(series, drift=0.0)
    alone = rounds(series, drift=np.full(D, np.inf))
    mean = Sources(series).combined()
    for t, estimate in enumerate(series):
        np.testing.assert_allclose(pooled[t].frequencies, mean.frequencies, atol=ROUNDING)
        np.testing.assert_allclose(alone[t].frequencies, estimate.frequencies, atol=ROUNDING)
        assert alone[t].sigma == pytest.approx(estimate.sigma)
    assert pooled[0].sigma == pytest.approx(mean.sigma)


def test_a_round_is_a_source_like_any_other():
    rng = np.random.default_rng(19)
    series = [measured(rng, oracles.OUE(1.0, D)).estimate for _ in range(3)]
    year = rounds(series, drift=0.02)
    totals = measured(rng, oracles.GRR(1.0, 2), CATEGORIES)
    both = Sources([Source(year[2], drift=0.01), totals]).combined()
    # By hand: the round's own covariance, the drift, and the groups.
    of_values = year[2].noise.covariance(TRUTH).dense() + 1e-4 * np.eye(D)
    of_values += np.diag(TRUTH / year[2].n)
    members = Sources([year[2], totals]).members[1].toarray()
    weights = Sources([Source(year[2], drift=0.01), totals]).precisions
    matrix = np.diag(weights[0]) + members.T @ np.diag(weights[1]) @ members
    taken = np.linalg.inv(matrix)
    parts = [np.diag(weights[0]), members.T @ np.diag(weights[1])]
    of_groups = totals.estimate.noise.covariance(members @ TRUTH).dense()
    of_groups += np.diag(members @ TRUTH / totals.estimate.n)
    covariance = sum(
        taken @ part @ each @ part.T @ taken.T
        for part, each in zip(parts, [of_values, of_groups], strict=True)
    )
    np.testing.assert_allclose(both.noise.covariance(TRUTH).dense(), covariance, atol=1e-14)


def test_rounds_are_the_posterior_of_a_random_walk():
    """An independent derivation: the Gaussian conditional mean with an almost flat start."""
    precisions = np.array([4.0, 1.0, 9.0, 2.0])
    drift = 0.7
    times = np.arange(4)
    walk = drift**2 * np.minimum.outer(times, times) + 1e7
    taken = walk @ np.linalg.inv(walk + np.diag(1 / precisions))
    weights = random_walk_weights(precisions, np.array([drift]))
    np.testing.assert_allclose(weights[0], taken, atol=1e-6)
    steps = np.diff(np.eye(4), axis=0)
    posterior = np.linalg.inv(np.diag(precisions) + steps.T @ steps / drift**2).diagonal()
    of_noise = (weights[0] ** 2 / precisions).sum(axis=1)
    spread = random_walk_spread(weights, np.array([drift]))
    np.testing.assert_allclose(of_noise + spread[0], posterior, rtol=1e-9)


def test_the_drift_is_chosen_and_intervals_cover_the_moving_frequencies():
    rng = np.random.default_rng(8)
    d = 400
    times = 8
    users = 60_000
    start = rng.dirichlet(np.full(d, 0.3))
    walk = np.cumsum(rng.normal(0, 0.1, (times, d)), axis=0)
    truth = start * np.exp(walk)
    truth /= truth.sum(axis=1, keepdims=True)
    oracle = oracles.OUE(1.0, d)
    counts = np.array([rng.multinomial(users, row) for row in truth])
    truth = counts / users
    series = [oracle.estimate(oracle.simulate_counts(row, rng), users) for row in counts]
    year = rounds(series)
    error = np.mean((np.stack([one.frequencies for one in year]) - truth) ** 2)
    raw = np.mean((np.stack([one.frequencies for one in series]) - truth) ** 2)
    assert error < raw / 4
    # Stein's estimate has a standard deviation of about 2/√(T d) of the noise of a raw round.
    assert abs(year.risk[0] - error) < SIGMAS * 2 / np.sqrt(times * d) * raw
    covered = [
        (low <= row) & (row <= high)
        for (low, high), row in zip([one.interval() for one in year], truth, strict=True)
    ]
    assert np.mean(covered) > 0.92
    # A planted error: without the part of the drift the frequent values are not covered.
    frequent = truth.mean(axis=0) > np.quantile(truth.mean(axis=0), 0.97)
    assert np.mean(np.array(covered)[:, frequent]) > 0.85


@each_kind
@pytest.mark.parametrize("constraints", [[], [cs.SumsTo(1.0)], [cs.NonNegative()], SIMPLEX])
def test_joint_squares_are_solved_by_forms_and_solvers_alike(kind, constraints):
    sources = collection(kind, np.random.default_rng(9))
    problem = Problem(ls.LeastSquares(), constraints)
    solution = problem.solve(sources)
    assert solution.certificate.is_optimal(1e-9)
    by_solver = problem.solve(sources, path="conic")
    np.testing.assert_allclose(solution.frequencies, by_solver.frequencies, atol=1e-7)
    if kind != "overlapping" or not constraints:
        assert solution.path == "closed-form"
        np.testing.assert_allclose(problem.minimise(sources), solution.frequencies, atol=ROUNDING)


def test_a_joint_loss_is_the_sum_over_its_sources():
    sources = collection("overlapping", np.random.default_rng(10))
    problem = Problem(ls.LeastSquares(), [cs.Monotone(np.arange(D)), *SIMPLEX])
    solution = problem.solve(sources)
    assert solution.certificate.is_optimal(1e-8)
    value = sum(
        0.5 * np.sum(w * (a @ solution.frequencies - source.estimate.frequencies) ** 2)
        for a, w, source in zip(dense_maps(sources), sources.precisions, sources, strict=True)
    )
    assert solution.objective == pytest.approx(value)
    loss = solution.problem.loss
    step = 1e-6 * np.random.default_rng(0).normal(size=D)
    ahead, behind = (
        loss.value(solution.frequencies + sign * step, solution.start) for sign in (1, -1)
    )
    slope = loss.gradient(solution.frequencies, solution.start) @ step
    assert (ahead - behind) / 2 == pytest.approx(slope, rel=1e-6)


def test_likelihoods_and_penalties_add_up_over_sources():
    rng = np.random.default_rng(11)
    sources = Sources([measured(rng, oracles.OUE(e, D)).estimate for e in (0.5, 2.0)])
    for loss in (ls.GaussianMLE(), ls.LeastSquares() + 10 * ls.TotalVariation()):
        solution = Problem(loss, SIMPLEX).solve(sources)
        assert solution.certificate.is_optimal(1e-7)
    # Where nobody's interval ends, the likelihood's maximum is close to weighted squares.
    squares = Problem(ls.LeastSquares(), SIMPLEX).solve(sources)
    likely = Problem(ls.GaussianMLE(), SIMPLEX).solve(sources)
    assert np.abs(squares.frequencies - likely.frequencies).max() < 0.3 * sources.combined().sigma


def test_every_method_and_interval_applies_to_a_combination():
    rng = np.random.default_rng(12)
    d = 300
    groups = np.array_split(np.arange(d), 5)
    truth = rng.dirichlet(np.full(d, 0.2))
    totals = [truth[members].sum() for members in groups]
    values = [
        FrequencyEstimate(truth + rng.normal(0, 0.01, d), noise=np.full(d, 1e-4)) for _ in "ab"
    ]
    of_groups = FrequencyEstimate(totals + rng.normal(0, 1e-3, 5), noise=np.full(5, 1e-6))
    sources = Sources([*values, Source(of_groups, groups)])
    combined = sources.combined()
    raw_error = np.mean((combined.frequencies - truth) ** 2)
    with pytest.raises(InvalidInputError, match="number of reports"):
        ldpopt.postprocess(combined, "mixture-ns")
    with_reports = Sources(
        [
            FrequencyEstimate(each.frequencies, noise=Noise(each.noise.constant, n=50_000))
            for each in values
        ]
        + [Source(FrequencyEstimate(of_groups.frequencies, noise=Noise(1e-6, n=9_000)), groups)]
    ).combined()
    for method in ("norm-sub", "mixture-ns", "npmle"):
        result = ldpopt.postprocess(with_reports, method)
        assert np.mean((result.frequencies - truth) ** 2) < raw_error
        lower, upper = result.interval()
        assert np.mean((lower <= truth) & (truth <= upper)) > 0.9
    lower, upper = combined.interval(sets=groups)
    assert (np.array(upper - lower) < 4.2e-3).all()  # as narrow as the measured totals
    assert combined.noise.answer_variance(combined.frequencies, None)[0].shape == (d,)


def test_values_of_different_noise_have_priors_of_their_own():
    rng = np.random.default_rng(13)
    d = 400
    sd = np.repeat([2e-3, 2e-2], d // 2)
    truth = rng.dirichlet(np.full(d, 0.3))
    estimate = FrequencyEstimate(
        truth + rng.normal(0, sd), noise=Noise(sd**2, n=10**6), is_raw=True
    )
    means = ldpopt.postprocess(estimate, "npmle").frequencies
    for half in (slice(0, d // 2), slice(d // 2, d)):
        alone = FrequencyEstimate(
            estimate.frequencies[half], noise=Noise(sd[half][0] ** 2, n=10**6), is_raw=True
        )
        np.testing.assert_array_equal(means[half], ldpopt.postprocess(alone, "npmle").frequencies)


def test_groups_of_a_method_keep_their_raw_totals():
    rng = np.random.default_rng(14)
    d = 60
    oracle = oracles.OUE(1.0, d)
    counts = rng.multinomial(5_000, rng.dirichlet(np.full(d, 0.3)))
    labels = [f"v{i}" for i in range(d)]
    raw = oracle.estimate(oracle.simulate_counts(counts, rng), 5_000, labels=labels)
    groups = {"a": labels[:20], "b": labels[20:50]}
    within = ldpopt.postprocess(raw, "npmle-ns", groups=groups)
    shifted = closed_form.norm(raw.frequencies)
    totals = [shifted[:20].sum(), shifted[20:50].sum(), shifted[50:].sum()]
    expected = closed_form.norm_sub(np.array(totals))
    answers = [within.frequencies[:20].sum(), within.frequencies[20:50].sum()]
    np.testing.assert_allclose(answers, expected[:2], atol=CERTIFIED)
    assert within.frequencies.min() >= 0
    stated = ldpopt.METHODS["npmle-ns"].stated(groups=groups).solve(raw)
    assert stated.certificate.is_optimal(1e-9)
    np.testing.assert_allclose(stated.frequencies, within.frequencies, atol=CERTIFIED)
    with pytest.raises(InvalidInputError, match="groups 'a' and 'b' both hold value 3"):
        ldpopt.postprocess(raw, "mixture-ns", groups={"a": [1, 3], "b": [3, 4]})


def test_measured_groups_keep_their_precision_in_a_method():
    """Their totals have far less noise than those of their values, which had counted."""
    rng = np.random.default_rng(36)
    d, n = 200, 20_000
    groups = np.array_split(np.arange(d), 8)
    truth = rng.dirichlet(np.full(d, 0.3))
    totals = np.array([truth[g].sum() for g in groups])
    values = FrequencyEstimate(truth + rng.normal(0, 0.01, d), noise=Noise(1e-4, n=n), is_raw=True)
    measured_totals = FrequencyEstimate(
        totals + rng.normal(0, 1e-4, 8), noise=Noise(1e-8, n=10**7), is_raw=True
    )
    combined = Sources([values, Source(measured_totals, groups)]).combined()
    within = ldpopt.postprocess(combined, "npmle-ns", groups=groups)
    assert np.sqrt(np.mean((within.query(groups) - totals) ** 2)) < 1e-3


def test_totals_of_a_protocol_known_by_p_and_q_alone_have_a_weight():
    oracle = PureProtocol(1.1, 60, p=0.5, q=0.25)
    rng = np.random.default_rng(37)
    users = rng.multinomial(20_000, np.full(60, 1 / 60))
    counts = rng.binomial(users, 0.5) + rng.binomial(20_000 - users, 0.25)
    raw = FrequencyEstimate((counts / 20_000 - 0.25) / 0.25, 20_000, oracle)
    groups = np.array_split(np.arange(60), 6)
    within = ldpopt.postprocess(raw, "npmle-ns", groups=groups)
    assert within.query(groups).sum() == pytest.approx(1)


def _weighted(raw, of_prior, noise):
    """Return the means of totals, one size of the prior's error after the other."""
    off = raw - of_prior
    share = of_prior**2 / np.sum(of_prior**2)
    error = 0.9 * share * noise.sum() + 0.1 * noise
    means = []
    weights = []
    for size in [0.0, *(2.0**k for k in range(-6, 13))]:
        part = noise / (noise + size * error)
        risk = sum(noise - 2 * noise * part + (part * off) ** 2)
        means.append(raw - part * off)
        prior = 0.2 if size == 0 else 0.8 / 19
        weights.append(prior * np.exp(-risk / (2 * max(noise))))
    return np.average(means, axis=0, weights=weights)


def test_totals_of_groups_lie_between_raw_and_prior_by_their_precision():
    """The weights, by hand; raw totals alone had 19 times the error by states."""
    rng = np.random.default_rng(35)
    d, n = 300, 30_000
    oracle = oracles.OUE(1.0, d)
    groups = np.array_split(np.arange(d), 12)
    sparse = np.zeros(d)
    sparse[::25] = 1 / 12
    spread = np.repeat(rng.dirichlet(np.full(12, 0.5)), [len(each) for each in groups]) / 25
    errors = {}
    for name, truth in (("sparse", sparse), ("spread", spread / spread.sum())):
        counts = rng.multinomial(n, truth)
        raw = oracle.estimate(oracle.simulate_counts(counts, rng), n)
        within = ldpopt.postprocess(raw, "npmle-ns", groups=groups)
        plain = ldpopt.postprocess(raw, "npmle-ns").query(groups)
        t = closed_form.norm_sub(
            np.array([closed_form.norm(raw.frequencies)[g].sum() for g in groups])
        )
        # Of the shifted estimates, at the frequencies of Norm-Sub.
        weights = np.stack([np.isin(np.arange(d), g) - len(g) / d for g in groups])
        covariance = raw.noise.covariance(closed_form.norm_sub(raw.frequencies))
        expected = closed_form.norm_sub(_weighted(t, plain, covariance.quadratic(weights)))
        np.testing.assert_allclose(within.query(groups), expected, atol=1e-4)
        truths = np.array([counts[g].sum() for g in groups]) / n
        errors[name] = [np.sum((each - truths) ** 2) for each in (within.query(groups), t, plain)]
    # Where the prior is right its totals stand; where it is not, they hardly count.
    assert errors["sparse"][0] < errors["sparse"][1] / 2
    assert errors["spread"][0] < errors["spread"][2] / 2


def test_the_command_line_takes_groups_from_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    oracle = oracles.OUE(1.0, 60)
    rng = np.random.default_rng(20)
    counts = oracle.simulate_counts(rng.multinomial(5_000, np.full(60, 1 / 60)), rng)
    write_counts(Path("counts.json"), Aggregate(Header(oracle), counts, 5_000))
    sets = {"first": list(range(30)), "rest": list(range(30, 60))}
    Path("sets.json").write_text(json.dumps(sets))
    words = ("estimate", "counts.json", "--groups", "sets.json", "--query", "sets.json", "--json")
    done = run(*words, "--method", "npmle-ns")
    record = json.loads(done.out)
    raw = closed_form.norm(oracle.estimate(counts, 5_000).frequencies)
    totals = [raw[:30].sum(), raw[30:].sum()]
    assert record["options"] == {"groups": "sets.json"}
    shown = [row["frequency"] for row in record["queries"]]
    np.testing.assert_allclose(shown, closed_form.norm_sub(np.array(totals)), atol=1e-9)
    refused = run(*words, "--method", "norm-sub")
    assert (refused.status, "norm-sub has no option --groups" in refused.err) == (2, True)


# --- what an attack found -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hr", "grr", "ss", "oue"])
def test_intervals_of_sets_cover_with_every_oracle(name):
    """Where raw estimates that were cut stood in the covariance, large sets had no width."""
    d = 64
    oracle = oracles.ORACLES[name](1.0, d)
    rng = np.random.default_rng(21)
    counts = np.full(d, 30)
    sets = [[0, 1], list(range(d - 2))]
    truth = np.array([2 / d, (d - 2) / d])
    covered = []
    for _ in range(60):
        pair = [
            oracle.estimate(oracle.simulate_counts(counts, rng), int(counts.sum())) for _ in "ab"
        ]
        lower, upper = Sources(pair).combined().interval(sets=sets)
        assert (upper > lower).all()
        covered.append((lower <= truth) & (truth <= upper))
    # Of 60 at .95 fewer than 48 are covered with a probability below 1e-5.
    assert (np.sum(covered, axis=0) >= 48).all()


def test_measured_groups_may_stand_beside_hadamard_response():
    """By hand, with the dependence of its counts: they share rows of the Hadamard matrix."""
    oracle = oracles.HadamardResponse(1.0, 8)
    rng = np.random.default_rng(22)
    values = oracle.estimate(oracle.simulate_counts(np.full(8, 250), rng), 2_000)
    totals = FrequencyEstimate([0.5, 0.5], noise=[1e-4, 1e-4])
    sources = Sources([values, Source(totals, [range(4), range(4, 8)])])
    uniform = np.full(8, 1 / 8)
    members = sources.members[1].toarray()
    of_values, of_groups = (np.diag(each) for each in sources.precisions)
    matrix = np.linalg.inv(of_values + members.T @ of_groups @ members)
    noise = values.noise.covariance(uniform).dense() + np.diag(uniform) / 2_000
    expected = matrix @ of_values @ noise @ of_values @ matrix
    drawn = matrix @ members.T @ of_groups
    expected += drawn @ (np.eye(2) * 1e-4) @ drawn.T
    stated = sources.combined().noise.covariance(uniform).dense()
    np.testing.assert_allclose(stated, expected, rtol=1e-9, atol=1e-12)
    assert np.abs(noise - np.diag(noise.diagonal())).max() > 1e-4


def test_users_of_several_sources_are_samples_of_one_population():
    """With large budgets the sample is most of the noise: without it .3 to .5 were covered."""
    rng = np.random.default_rng(23)
    truth = np.array([0.5, 0.3, 0.1, 0.06, 0.04])
    covered = []
    for _ in range(150):
        sources = []
        for epsilon in (6.0, 3.0):
            oracle = oracles.GRR(epsilon, 5)
            users = rng.multinomial(5_000, truth)
            sources.append(oracle.estimate(oracle.simulate_counts(users, rng), 5_000))
        lower, upper = Sources(sources).combined().interval()
        covered.append((lower <= truth) & (truth <= upper))
    assert np.mean(covered, axis=0).min() > 0.88


def test_risks_of_combinations_are_those_of_their_own_noise():
    rng = np.random.default_rng(24)
    oracle = oracles.OUE(1.0, 30)
    users = rng.multinomial(20_000, rng.dirichlet(np.full(30, 0.5)))
    pair = [oracle.estimate(oracle.simulate_counts(users, rng), 20_000) for _ in "ab"]
    for combined in (Sources(pair).combined(), rounds(pair, drift=0.0)[0]):
        covariance = combined.noise.covariance(users / 20_000)
        drawn = covariance.draws(4_000, rng)
        spread = np.sqrt(2 / 4_000)
        np.testing.assert_allclose(drawn.var(axis=0) / covariance.diagonal, 1, atol=SIGMAS * spread)
        members = csr_array(np.eye(30)[:3])
        assert covariance.trace(members) == pytest.approx(covariance.diagonal[:3].sum())
        matrix = rng.normal(size=(30, 30))
        expected = np.trace(matrix @ covariance.dense())
        assert covariance.trace_with(matrix) == pytest.approx(expected)
        risk = ldpopt.risk(combined, "base")
        assert risk.mean == pytest.approx(covariance.trace() / 30, rel=0.2)


def test_named_groups_belong_to_the_labels_of_their_totals():
    values = FrequencyEstimate([0.5, 0.3, 0.2], noise=[0.01] * 3, labels=["cat", "dog", "oak"])
    totals = FrequencyEstimate([0.2, 0.8], noise=[1e-6] * 2, labels=["plants", "pets"])
    groups = {"pets": ["cat", "dog"], "plants": ["oak"]}
    combined = Sources([values, Source(totals, groups)]).combined()
    assert combined.query(groups)["pets"] == pytest.approx(0.8, abs=1e-3)
    with pytest.raises(InvalidInputError, match="estimates of plants, pets and groups named"):
        Sources([values, Source(totals, {"pets": ["cat"], "trees": ["oak"]})])


def test_totals_that_are_all_but_known_are_refused():
    exact = Source(FrequencyEstimate([0.8, 0.2], noise=[1e-16, 1e-16]), [[0, 1], [2]])
    with pytest.raises(InvalidInputError, match="state totals that are known as a constraint"):
        Sources([PLAIN, exact]).combined()


@pytest.mark.parametrize("drift", [1e-12, 1e-9, 1e-8, 1e160])
def test_weights_sum_to_one_for_drifts_of_any_size(drift):
    weights = random_walk_weights(np.full(5, 1e4), np.array([drift]))
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)


@pytest.mark.parametrize("path", ["counts.json", Path("counts.json")])
def test_a_path_in_place_of_an_estimate_is_told_what_reads_it(path):
    with pytest.raises(InvalidTypeError, match=r"read_counts\(path\)\.estimate is one"):
        Sources([path])


def test_what_was_combined_may_not_count_again():
    rng = np.random.default_rng(25)
    series = [measured(rng, oracles.OUE(1.0, D)).estimate for _ in range(3)]
    year = rounds(series, drift=0.01)
    for again in (list(year), [Sources(series).combined(), series[0]], [year[0], series[2]]):
        with pytest.raises(InvalidInputError, match="may not count twice"):
            Sources(again)
    with pytest.raises(InvalidInputError, match="may not count twice"):
        rounds(list(year), drift=0.0)


def test_solvers_take_groups_in_any_order():
    values = FrequencyEstimate([0.4, 0.3, 0.2, 0.1], noise=[0.01] * 4)
    crossing = Source(FrequencyEstimate([0.6, 0.6], noise=[0.01] * 2), [[0, 1], [1, 2]])
    problem = Problem(ls.LeastSquares(), SIMPLEX)
    ours, theirs = (
        problem.solve(Sources(pair)) for pair in ([values, crossing], [crossing, values])
    )
    np.testing.assert_allclose(ours.frequencies, theirs.frequencies, atol=1e-7)


def test_sharp_values_among_weak_ones_keep_what_was_measured():
    rng = np.random.default_rng(26)
    d = 300
    truth = rng.dirichlet(np.full(d, 0.3))
    sd = np.where(np.arange(d) < 10, 1e-4, 2e-2)
    noise = Noise(sd**2, n=10**6)
    estimate = FrequencyEstimate(truth + rng.normal(0, sd), noise=noise, is_raw=True)
    for method in ("npmle", "mixture"):
        sharp = ldpopt.postprocess(estimate, method).frequencies[:10]
        assert np.sqrt(np.mean((sharp - truth[:10]) ** 2)) < 3e-4
        # Ten values are too few to fit a prior to, which would move them by 3e-5.
        np.testing.assert_allclose(sharp, estimate.frequencies[:10], atol=1e-6)


# --- likelihoods of several measurements ----------------------------------------------------------


def two_sizes(oracle, rng, users=(40_000, 400)):
    """Return one estimate from many users and one from few."""
    drawn = []
    for n in users:
        counts = rng.multinomial(n, TRUTH)
        drawn.append(oracle.estimate(oracle.simulate_counts(counts, rng), n))
    return drawn


@pytest.mark.parametrize(
    ("loss", "oracle"),
    [
        (ls.BinomialMLE(), oracles.OUE(1.0, D)),
        (ls.GaussianMLE(), oracles.OUE(1.0, D)),
        (ls.MultinomialMLE(), oracles.GRR(2.0, D)),
    ],
)
def test_likelihoods_count_by_their_users(loss, oracle):
    """Of one protocol the joint likelihood is that of all users together; it had been 1 : 1."""
    pair = two_sizes(oracle, np.random.default_rng(27))
    shares = np.array([40_000, 400]) / 40_400
    pooled = FrequencyEstimate(
        shares @ np.stack([each.frequencies for each in pair]), n=40_400, oracle=oracle
    )
    problem = Problem(loss, SIMPLEX)
    joint = problem.solve(Sources(pair))
    assert (joint.solver, joint.status.name) == ("one root", "OPTIMAL")
    expected = problem.solve(pooled).frequencies
    # Counts of one protocol add up, so that the likelihood is the same; the Gaussian one is close.
    exact = not isinstance(loss, ls.GaussianMLE)
    np.testing.assert_allclose(joint.frequencies, expected, atol=1e-9 if exact else 1e-3)


@pytest.mark.parametrize("loss", [ls.BinomialMLE(), ls.GaussianMLE()])
@pytest.mark.parametrize(
    "constraints", [SIMPLEX, [cs.NonNegative()], [cs.SumsTo(1.0)], [cs.Bounds(0, 0.2), *SIMPLEX]]
)
def test_likelihoods_of_plain_sources_need_one_root(loss, constraints):
    rng = np.random.default_rng(28)
    sources = Sources(
        [
            measured(rng, oracles.OUE(0.5, D)).estimate,
            measured(rng, oracles.SUE(2.0, D), n=900).estimate,
            measured(rng, oracles.GRR(3.0, D)).estimate,
        ]
    )
    problem = Problem(loss, constraints)
    solution = problem.solve(sources)
    assert solution.path == "closed-form"
    assert solution.certificate.is_optimal(1e-12)
    by_solver = problem.solve(sources, path="conic")
    np.testing.assert_allclose(solution.frequencies, by_solver.frequencies, atol=2e-4)
    stated = solution.problem.loss
    value = stated.value(solution.frequencies, solution.start)
    # The solver's point may violate a bound by 1e-12, and be lower for that.
    assert value <= stated.value(by_solver.frequencies, solution.start) + 1e-9


def test_the_response_of_a_joint_likelihood_is_where_its_slope_is_that_of_the_price():
    """Also where a measurement alone would go to infinity, as GRR's with a large budget."""
    pair = [
        FrequencyEstimate([0.6, 0.4], noise=Noise(1e-3, 4e-3, n=50)),
        FrequencyEstimate([0.7, 0.2], noise=Noise(1e-3, 1e-5, n=70)),
    ]
    problem = Problem(ls.GaussianMLE(), SIMPLEX)
    loss = problem.solve(Sources(pair)).problem.loss
    about = Sources(pair).combined()
    for price in (-30.0, -6.0, -0.1, 0.0, 2.0, 60.0):
        (f,) = loss.response(np.array([[price]]), (), ())
        # The slopes of the first measurement alone stay below 5.
        np.testing.assert_allclose(loss.gradient(f, about), -price, atol=1e-6)
    (f,) = loss.response(np.array([[-1e9]]), (), ())
    assert np.isposinf(f).all()


def test_equal_measurements_count_by_their_precision_only_beside_a_penalty():
    """By hand: the mean .85, .15 counts 1/.5 twice, so that a price of .4 moves it by .4/4."""
    noise = [0.5, 0.5]
    first = FrequencyEstimate([0.8, 0.2], noise=noise)
    sources = Sources([first, FrequencyEstimate([0.9, 0.1], noise=noise)])
    priced = Problem(ls.LeastSquares() + 0.4 * ls.TotalVariation()).solve(sources)
    np.testing.assert_allclose(priced.frequencies, [0.75, 0.25], atol=CERTIFIED)
    # A distance from a reference of its own measures f alone too, and counts once.
    drawn = Problem(ls.LeastSquares() + 0.4 * ls.L1To([0.0, 0.0])).solve(sources)
    np.testing.assert_allclose(drawn.frequencies, [0.75, 0.05], atol=CERTIFIED)
    # Alone the factor changes nothing, and the plain squares have more closed forms.
    alone, _ = about_one(Problem(ls.LeastSquares()), sources)
    assert type(alone.loss) is ls.LeastSquares


def test_sums_inside_sums_are_one_sum_over_sources():
    rng = np.random.default_rng(29)
    sources = Sources([measured(rng, oracles.OUE(e, D)).estimate for e in (0.5, 2.0)])
    inner = ls.WeightedSum([ls.GaussianMLE(), 0.2 * ls.TotalVariation()], [1.0, 0.5])
    nested = ls.WeightedSum([inner, ls.Entropy()], [2.0, 0.01])
    flat = 2 * ls.GaussianMLE() + 0.2 * ls.TotalVariation() + 0.01 * ls.Entropy()
    ours, theirs = (Problem(loss, SIMPLEX).solve(sources) for loss in (nested, flat))
    assert ours.certificate.is_optimal(1e-7)
    assert ours.objective == pytest.approx(theirs.objective, abs=1e-9)
    doubled = ls.WeightedSum([ls.WeightedSum([ls.LeastSquares()], [2.0])], [2.0])
    plain = Problem(ls.LeastSquares(), SIMPLEX).solve(sources)
    again = Problem(doubled, SIMPLEX).solve(sources)
    np.testing.assert_allclose(again.frequencies, plain.frequencies, atol=CERTIFIED)


# --- what is read ---------------------------------------------------------------------------------


def test_python_sets_are_groups():
    values = FrequencyEstimate([0.4, 0.3, 0.2, 0.1], noise=[0.01] * 4, labels=["a", "b", "c", "d"])
    totals = FrequencyEstimate([0.8, 0.2], noise=[1e-4] * 2)
    as_lists = Sources([values, Source(totals, [[0, 1], [2, 3]])]).combined()
    for groups in ([{0, 1}, frozenset({2, 3})], [{"b", "a"}, {"d", "c"}]):
        combined = Sources([values, Source(totals, groups)]).combined()
        np.testing.assert_array_equal(combined.frequencies, as_lists.frequencies)


def test_a_text_among_groups_is_not_read_letter_by_letter():
    values = FrequencyEstimate([0.4, 0.6], noise=[0.01] * 2, labels=["a", "b"])
    totals = FrequencyEstimate([1.0], noise=[1e-4])
    for groups in (["ab"], {"all": "ab"}, np.array(["ab"])):
        with pytest.raises(InvalidTypeError, match=r"is the text .*'ab'.*: pass a list"):
            Sources([values, Source(totals, groups)])


def test_what_is_not_there_is_named():
    year = rounds([PLAIN, OTHER], drift=0.1)
    assert [each.d for each in year[:1]] == [3]
    for key in (2, "first", -3):
        with pytest.raises(InvalidInputError, match=r"is not a round: their numbers are 0 to 1"):
            year[key]
    for wrong in (3, -1, "a"):
        with pytest.raises(InvalidInputError, match=r"0 .. 2|no label"):
            year.weights(wrong)
    with pytest.raises(InvalidTypeError, match=r"plot takes a list of values, \[0\]"):
        year.plot(0)
    domain = Product(self=2, b=2)
    table = FrequencyEstimate([0.4, 0.3, 0.2, 0.1], noise=[0.01] * 4)
    tables = consistent_margins(domain, {("self", "b"): table})
    assert domain.index(self=1, b=0) == 2
    assert ("b", "self") in tables
    for key in (5, "self", ("self", "c"), None):
        assert key not in tables
        with pytest.raises(KeyError, match=r"no table of .*there are \('self', 'b'\)"):
            tables[key]


def test_a_prior_is_fitted_to_the_combination():
    loss = ls.PosteriorMean(ldpopt.priors.PowerLaw)
    with pytest.raises(InvalidInputError, match=r"problem.solve\(sources.combined\(\)\)"):
        Problem(loss, SIMPLEX).solve(Sources([PLAIN, OTHER]))


def test_variances_take_as_much_memory_as_a_few_rows(monkeypatch):
    """Rows are taken together by their size: 1.1 GB had gone to 24 rounds of 20,000 values."""
    rng = np.random.default_rng(30)
    series = [measured(rng, oracles.OUE(1.0, D)).estimate for _ in range(4)]
    sets = [[0, 1], [2, 5, 7], list(range(D))]
    whole = rounds(series, drift=0.01)[1]
    expected = whole.interval(sets=sets)
    covariance = whole.noise.covariance(TRUTH)
    trace = covariance.trace_with(np.eye(D))
    monkeypatch.setattr("ldpopt.sources.noise._AT_ONCE", 2 * D * 5)
    sizes = []
    product = type(covariance)._product

    def counted(self, columns):
        sizes.append(columns.shape[1])
        return product(self, columns)

    monkeypatch.setattr(type(covariance), "_product", counted)
    np.testing.assert_allclose(whole.interval(sets=sets), expected, rtol=1e-12)
    assert covariance.trace_with(np.eye(D)) == pytest.approx(trace)
    assert trace == pytest.approx(covariance.trace())
    assert max(sizes) == 2


def moved_by(amount):
    return FrequencyEstimate(PLAIN.frequencies + amount, noise=[0.01, 0.02, 0.03])


PLAIN = FrequencyEstimate([0.5, 0.3, 0.2], noise=[0.01, 0.02, 0.03])
OTHER = FrequencyEstimate([0.6, 0.2, 0.2], noise=[0.01, 0.02, 0.03])
TOTALS = FrequencyEstimate([0.8, 0.2], noise=[0.01, 0.01])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sources([]), "there are no sources"),
        (lambda: Sources([PLAIN, PLAIN]), "source 1 has the numbers of source 0"),
        # The same after a detour through a file that rounds.
        (lambda: Sources([PLAIN, moved_by(1e-13)]), "source 1 has the numbers of source 0"),
        (lambda: Sources([Sources([PLAIN, OTHER]).combined(), moved_by(1e-13)]), "has the numbers"),
        (
            lambda: Source(FrequencyEstimate([0.5, 0.5], noise=[1e-4, 1e-320])),
            "a source has a variance of 1e-320 at index 1, whose inverse cannot be computed with",
        ),
        (lambda: Sources([Source(TOTALS, [[0], [1, 2]])]), "no source estimates the values"),
        (lambda: Sources([PLAIN, TOTALS]), "source 1 has 2 values and source 0 has 3"),
        (lambda: Sources([PLAIN, Source(TOTALS, [[0], [1, 7]])]), "7"),
        (lambda: Sources([PLAIN, Source(TOTALS, [[0], []])]), "group 1 of source 1 is empty"),
        (
            lambda: Sources([PLAIN.labelled([*"abc"]), OTHER.labelled([*"acb"])]),
            "source 1 calls value 1 'c' and source 0 calls it 'b'",
        ),
        (lambda: Source(FrequencyEstimate([0.5, 0.5])), "a source has no noise"),
        (lambda: Source(PLAIN, name="old", drift=-1.0), "the drift of old must lie in 0 .. 1"),
        (lambda: Source(PLAIN, drift=[0.1, 0.2]), "one number or 3"),
        (lambda: Source(TOTALS, [[0]]), "has 1 groups for an estimate of 2 numbers"),
        (lambda: Source(ldpopt.postprocess(PLAIN, "norm-sub")), "processed by 'norm-sub'"),
        (
            lambda: Source(FrequencyEstimate([[0.5, 0.5]] * 2, noise=[0.1, 0.1])),
            "a stack of trials",
        ),
        (lambda: rounds([PLAIN]), "pass at least two, got 1"),
        (lambda: rounds([PLAIN, TOTALS]), "round 1 has 2 values and round 0 has 3"),
        (lambda: rounds([PLAIN, OTHER], drift=-0.1), "drift must be >= 0, found -0.1"),
        (lambda: rounds([PLAIN, OTHER], drift="rsik"), 'must be "risk" or numbers'),
        (lambda: rounds([PLAIN, PLAIN]), "round 1 has the numbers of round 0"),
        (lambda: rounds([PLAIN, Source(OTHER, drift=0.1)]), "round 1 has groups or a drift"),
        (
            lambda: Problem(ls.HardThreshold(2.0), SIMPLEX).solve(Sources([PLAIN, OTHER])),
            "does not state what several measurements weigh",
        ),
        (
            lambda: Problem(ls.WeightedLeastSquares([1, 1, 1.0])).solve(Sources([PLAIN, OTHER])),
            "does not state what several measurements weigh",
        ),
        (
            lambda: Problem(ls.GaussianMLE(), SIMPLEX).solve(
                Sources([Source(OTHER, drift=0.1), PLAIN])
            ),
            "source 0 has a drift, which GaussianMLE",
        ),
    ],
)
def test_what_cannot_be_combined_is_named(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


@pytest.mark.parametrize("wrong", [PLAIN, 3, "weeks"])
def test_sources_are_a_list(wrong):
    with pytest.raises(InvalidTypeError):
        Sources(wrong)
    with pytest.raises(InvalidTypeError):
        rounds(wrong)


def test_equal_numbers_of_different_users_may_be_combined():
    assert len(Sources([PLAIN, moved_by(1e-6)])) == 2
    both = Sources([PLAIN, PLAIN], independent=True).combined()
    np.testing.assert_allclose(both.noise.constant, np.array([0.01, 0.02, 0.03]) / 2)


def test_more_overlapping_groups_than_a_dense_system_takes_are_refused(monkeypatch):
    monkeypatch.setattr(overlap, "LARGEST", 4)
    with pytest.raises(UnsupportedProblemError, match="8 groups overlap, and up to 4 can"):
        collection("overlapping", np.random.default_rng(0)).combined()


def test_sources_show_themselves_and_pickle():
    sources = collection("overlapping", np.random.default_rng(0))
    assert "dense system, because some of the 8 groups overlap" in sources.explain()
    assert "two passes over a forest" in collection("nested", np.random.default_rng(0)).explain()
    assert repr(sources).startswith("Sources([Source(source 0: OUE, ε = 1, n = 2,000)")
    again = pickle.loads(pickle.dumps(sources))
    np.testing.assert_array_equal(again.combined().frequencies, sources.combined().frequencies)


def test_rounds_draw_values_with_bands():
    rng = np.random.default_rng(15)
    series = [
        measured(rng, oracles.OUE(1.0, D)).estimate.labelled([*"abcdefghi"]) for _ in range(3)
    ]
    year = rounds(series)
    figure = year.plot(["a", 3])
    titles = [axes.get_title() for axes in figure.axes if axes.get_visible()]
    assert titles == ["a", "d"]
    # Counted as the table counts, and as series[t] does.
    (line,) = figure.axes[0].get_lines()[:1]
    numbers = [row[0] for row in year._table.rows]
    assert [f"{t:g}" for t in line.get_xdata()] == numbers == ["0", "1", "2"]
    # Four panels on two lines: those above empty places have the numbers of the rounds, too.
    panels = [axes for axes in year.plot([0, 1, 2, 3]).axes if axes.get_visible()]
    below = [any(label.get_visible() for label in axes.get_xticklabels()) for axes in panels]
    assert (below, len(panels)) == ([False, True, True, True], 4)
    assert "3 rounds of 9 values" in repr(year)
    assert year.weights(0).sum(axis=1) == pytest.approx(1)
    for wrong, message in ((["z"], "'z', which is no label"), ([], "no values"), ([9], "0 .. 8")):
        with pytest.raises(InvalidInputError, match=message):
            year.plot(wrong)


# --- margins of a product domain ------------------------------------------------------------------

DOMAIN = Product(age=3, sex=2, state=4)


def noisy_tables(domain, rng, noise):
    """Return estimates of all pairs of independent attributes."""
    shares = {name: rng.dirichlet(np.ones(domain.size(name))) for name in domain.names}
    tables = {}
    for first, second in domain.pairs:
        truth = np.outer(shares[first], shares[second]).ravel()
        variances = np.full(len(truth), noise**2) * rng.uniform(0.5, 2)
        drawn = truth + rng.normal(0, np.sqrt(variances))
        tables[first, second] = FrequencyEstimate(drawn, noise=variances)
    return tables


@pytest.mark.parametrize("nonnegative", [False, True])
def test_margins_are_those_of_a_quadratic_program(nonnegative):
    import cvxpy as cp

    tables = noisy_tables(DOMAIN, np.random.default_rng(16), 0.1)
    ours = consistent_margins(DOMAIN, tables, nonnegative=nonnegative, tolerance=1e-10)
    margins = {name: cp.Variable(DOMAIN.size(name)) for name in DOMAIN.names}
    cells = {pair: cp.Variable([DOMAIN.size(name) for name in pair]) for pair in tables}
    rules = [cp.sum(margins["age"]) == 1]
    loss = 0.0
    for (first, second), estimate in tables.items():
        table = cells[first, second]
        rules += [cp.sum(table, axis=1) == margins[first], cp.sum(table, axis=0) == margins[second]]
        rules += [table >= 0] if nonnegative else []
        measured = estimate.frequencies.reshape(table.shape)
        loss += cp.sum_squares(table - measured) / (2 * estimate.noise.constant[0])
    cp.Problem(cp.Minimize(loss), rules).solve(solver="CLARABEL")
    for pair, table in cells.items():
        np.testing.assert_allclose(ours[pair], table.value, atol=2e-5)
        np.testing.assert_array_equal(ours[pair[::-1]], ours[pair].T)
        np.testing.assert_allclose(ours[pair].sum(axis=1), ours.margin(pair[0]), atol=CERTIFIED)
    assert (ours.steps > 0) == nonnegative
    assert ours.gap <= 1e-10


def test_a_wrong_weight_of_a_margin_would_be_seen(monkeypatch):
    """A planted error: every table counts alike in the mean of a margin."""
    tables = noisy_tables(DOMAIN, np.random.default_rng(16), 0.1)
    right = consistent_margins(DOMAIN, tables, nonnegative=False)
    layout = two_way.TwoWayLayout

    class Wrong(layout):
        def __init__(self, *parts):
            super().__init__(*parts)
            self._weight_of_line = np.ones_like(self._weight_of_line)
            self._mass = np.bincount(self._margin_of_line)

    monkeypatch.setattr("ldpopt.sources.two_way_tables.TwoWayLayout", Wrong)
    wrong = consistent_margins(DOMAIN, tables, nonnegative=False)
    assert np.abs(wrong.margin("age") - right.margin("age")).max() > 1e-3


def test_margins_of_a_domain_too_large_to_list():
    sizes = [85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2]
    domain = Product(**{f"a{i}": size for i, size in enumerate(sizes)})
    tables = noisy_tables(domain, np.random.default_rng(17), 1e-4)
    result = consistent_margins(domain, tables, tolerance=1e-3)
    assert len(result) == 91
    assert result.gap <= 1e-3
    assert min(table.min() for table in result.values()) >= 0
    for (first, _), table in result.items():
        np.testing.assert_allclose(table.sum(axis=1), result.margin(first), atol=CERTIFIED)
    with pytest.raises(InvalidInputError, match="too many to list: use consistent_margins"):
        domain.margin("a0")


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("names", [("age", "state"), ("sex", "state"), ("state",)])
def test_the_noise_of_consistent_tables_is_that_of_the_linear_map(names, exact, monkeypatch):
    """By hand: the map as a matrix, column by column, and the variances of all cells."""
    monkeypatch.setattr(two_way_tables, "_EXACT", 10**9 if exact else 0)
    rng = np.random.default_rng(31)
    tables = noisy_tables(DOMAIN, rng, 0.1)
    cells = sum(estimate.d for estimate in tables.values())

    def answers(vector):
        parts = np.split(vector, np.cumsum([each.d for each in tables.values()])[:-1])
        drawn = {
            pair: FrequencyEstimate(part, noise=tables[pair].noise, is_raw=True)
            for pair, part in zip(tables, parts, strict=True)
        }
        consistent = consistent_margins(DOMAIN, drawn, nonnegative=False)
        return consistent.margin(names[0]) if len(names) == 1 else consistent[names].ravel()

    zero = answers(np.zeros(cells))
    matrix = np.stack([answers(row) - zero for row in np.eye(cells)], axis=1)
    variances = np.concatenate([each.noise.constant for each in tables.values()])
    expected = matrix @ np.diag(variances) @ matrix.T
    result = consistent_margins(DOMAIN, tables, nonnegative=False).estimate(*names)
    noise = result.noise
    np.testing.assert_allclose(noise.constant, expected.diagonal(), rtol=1e-9)
    stated = noise.covariance(np.full(result.d, 1 / result.d)).dense()
    np.testing.assert_allclose(stated, expected, atol=1e-15)
    alone = tables[names].noise.constant[0] if len(names) == 2 else np.inf
    assert (noise.constant < alone).all()


def test_intervals_of_consistent_tables_cover_after_their_negative_cells_are_gone():
    rng = np.random.default_rng(32)
    joint = rng.dirichlet(np.full(DOMAIN.d, 0.4)).reshape(DOMAIN.shape)
    axes = {("age", "sex"): 2, ("age", "state"): 1, ("sex", "state"): 0}
    truths = {pair: joint.sum(axis=axis).ravel() for pair, axis in axes.items()}
    covered = []
    of_sets = []
    for _ in range(60):
        measured_tables = {}
        for pair, truth in truths.items():
            oracle = oracles.GRR(3.0, len(truth))
            counts = oracle.simulate_counts(rng.multinomial(4_000, truth), rng)
            measured_tables[pair] = oracle.estimate(counts, 4_000)
        result = consistent_margins(DOMAIN, measured_tables).estimate("age", "state")
        lower, upper = result.interval()
        truth = truths["age", "state"]
        covered.append((lower <= truth) & (truth <= upper))
        lower, upper = result.interval(sets=[[0, 1, 5], range(4)])
        sums = np.array([truth[[0, 1, 5]].sum(), truth[:4].sum()])
        of_sets.append((lower <= sums) & (sums <= upper))
    # Of 60 at .95 fewer than 48 are covered with a probability below 1e-5.
    assert (np.sum(covered, axis=0) >= 48).all()
    assert (np.sum(of_sets, axis=0) >= 48).all()


def test_tables_with_cells_of_unlike_noise_say_so():
    uneven = FrequencyEstimate([0.4, 0.3, 0.2, 0.1], noise=[0.01, 0.01, 0.01, 0.02])
    with pytest.warns(LdpoptWarning, match="the table of a and b have variances from 0.01 to 0.02"):
        consistent_margins(Product(a=2, b=2), {("a", "b"): uneven})


def test_one_table_may_not_count_as_two_nor_an_only_value_have_noise():
    table = FrequencyEstimate([0.4, 0.3, 0.2, 0.1], noise=[0.01] * 4)
    twice = {("a", "b"): table, ("b", "c"): table}
    domain = Product(a=2, b=2, c=2)
    with pytest.raises(
        InvalidInputError, match="the table of b and c has the numbers of the table"
    ):
        consistent_margins(domain, twice)
    assert len(consistent_margins(domain, twice, independent=True)) == 2
    tables = consistent_margins(Product(all=1, b=4), {("all", "b"): table})
    with pytest.raises(InvalidInputError, match="all has one value, which all users hold"):
        tables.estimate("all")
    again = pickle.loads(pickle.dumps(tables.estimate("b")))
    np.testing.assert_array_equal(
        again.interval(sets=[[0, 1]]), tables.estimate("b").interval(sets=[[0, 1]])
    )


def test_estimates_of_tables_are_of_what_was_measured():
    tables = consistent_margins(DOMAIN, noisy_tables(DOMAIN, np.random.default_rng(33), 0.01))
    for names, message in (
        (("state", "age"), "no table of state and age was measured: age and sex; age and state"),
        (("age", "sex", "state"), "no table of age and sex and state"),
        ((), "no table"),
        (("agee",), "agee"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            tables.estimate(*names)
    one = {("age", "sex"): FrequencyEstimate(np.full(6, 0.5), noise=np.full(6, 0.01))}
    with pytest.raises(InvalidInputError, match="these tables sum to 3"):
        consistent_margins(DOMAIN, one, total=3.0).estimate("age", "sex")


# --- measurements of private-pgm ------------------------------------------------------------------


def measurement(values, clique, stddev=2.0, **options):
    return SimpleNamespace(noisy_measurement=values, clique=clique, stddev=stddev, **options)


MBI_DOMAIN = SimpleNamespace(attributes=("age", "sex"), shape=(3, 2))


def test_measurements_of_one_margin_are_averaged_by_precision():
    counts = np.arange(6.0)
    turned = counts.reshape(3, 2).T.ravel() + 6
    rows = [measurement(counts, ("age", "sex"), 1.0), measurement(turned, ("sex", "age"), 2.0)]
    domain, margins = from_mbi(MBI_DOMAIN, rows, total=10)
    assert all(estimate.is_raw for estimate in margins.values())
    estimate = margins["age", "sex"]
    # Precisions 1 and 1/4: the mean is 6/5 above the first, the variance 1/(1.25 · 10²).
    np.testing.assert_allclose(estimate.frequencies, (counts + 1.2) / 10)
    assert estimate.noise.constant == pytest.approx(1 / 125)
    assert repr(domain) == "Product(age=3, sex=2)"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([measurement([1.0] * 6, ("age", "zip"))], "zip"),
        (
            [measurement([1.0] * 5, ("age", "sex"))],
            "measurement 0 has 5 cells, and its margin has 6",
        ),
        ([measurement([1.0] * 6, ("age", "sex"), 0.0)], "the standard deviation of measurement 0"),
        ([measurement([1.0, np.nan, 1.0], ("age",))], "the counts of measurement 0"),
        ([measurement([1.0] * 3, ("age",), query=np.sum)], "measurement 0 has a query of its own"),
        ([measurement([1.0], ())], "measurement 0 has no attributes"),
        ([measurement([1.0] * 3, "age")], "measurement 0 must be of a tuple of names"),
        ([None], "measurement 0 must be an mbi.LinearMeasurement, got None"),
    ],
)
def test_measurements_that_are_no_margins_are_named(rows, message):
    with pytest.raises((InvalidInputError, InvalidTypeError), match=message):
        from_mbi(MBI_DOMAIN, rows, total=10)


def test_a_domain_of_private_pgm_has_attributes_and_a_shape():
    with pytest.raises(InvalidTypeError, match=r"domain must be an mbi.Domain, got \{'a': 2\}"):
        from_mbi({"a": 2}, [], total=10)
    with pytest.raises(InvalidTypeError, match="measured must be a mapping"):
        to_mbi(DOMAIN, [], total=10)


def test_estimates_go_to_private_pgm_and_back(monkeypatch):
    """With the classes of mbi 2 by their documented fields: the package takes 390 MB."""
    fields = SimpleNamespace(
        Domain=lambda names, shape: SimpleNamespace(attributes=names, shape=shape),
        LinearMeasurement=lambda values, clique, stddev: measurement(
            values, clique, stddev, query=DatavectorQuery()
        ),
    )
    monkeypatch.setitem(sys.modules, "mbi", fields)
    assert_kept_by_mbi()


class DatavectorQuery:
    """What mbi 2 calls the query of a whole margin."""


def assert_kept_by_mbi():
    tables = noisy_tables(DOMAIN, np.random.default_rng(34), 0.02)
    domain, rows = to_mbi(DOMAIN, tables, total=500)
    again, margins = from_mbi(domain, rows, total=500)
    assert again.names == DOMAIN.names
    for pair, estimate in tables.items():
        np.testing.assert_allclose(margins[pair].frequencies, estimate.frequencies, atol=1e-6)
        np.testing.assert_allclose(margins[pair].noise.constant, estimate.noise.constant[0])


def test_the_package_mbi_takes_what_is_made_for_it():
    pytest.importorskip("mbi")
    assert_kept_by_mbi()


def test_what_private_pgm_cannot_take_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mbi", None)
    table = FrequencyEstimate(np.full(6, 1 / 6), noise=np.full(6, 0.01))
    with pytest.raises(
        MissingPackageError, match=r"need the package mbi: pip install 'ldpopt\[mbi"
    ):
        to_mbi(DOMAIN, {("age", "sex"): table}, total=10)
    for measured_tables, message in (
        ({"age": table}, "must be of a tuple of names"),
        ({("age", "state"): table}, "has 6 cells, and its margin has 12"),
        ({("age", "sex"): table.frequencies}, "must be a FrequencyEstimate"),
    ):
        with pytest.raises((InvalidInputError, InvalidTypeError), match=message):
            to_mbi(DOMAIN, measured_tables, total=10)


def test_a_margin_is_a_source_of_the_cells():
    rng = np.random.default_rng(18)
    truth = rng.dirichlet(np.ones(DOMAIN.d))
    margin = DOMAIN.margin("state", "age")
    assert [cells.tolist() for cells in margin[:2]] == [[0, 4], [8, 12]]
    assert DOMAIN.index(age=1, sex=0, state=0) == 8
    totals = np.array([truth[cells].sum() for cells in margin])
    of_cells = FrequencyEstimate(
        truth + rng.normal(0, 0.02, DOMAIN.d), noise=np.full(DOMAIN.d, 4e-4)
    )
    both = Sources([of_cells, Source(FrequencyEstimate(totals, noise=np.full(12, 1e-10)), margin)])
    np.testing.assert_allclose(both.combined().query(margin), totals, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Product(), "a product needs attributes"),
        (lambda: Product(age=0), "the size of age must be at least 1"),
        (lambda: DOMAIN.margin("agee"), "age"),
        (lambda: DOMAIN.margin(), "a margin needs attributes"),
        (lambda: DOMAIN.margin("age", "age"), "stands twice"),
        (lambda: DOMAIN.index(age=1), "one index for each of age, sex, state, got age"),
        (lambda: DOMAIN.index(age=3, sex=0, state=0), "age"),
        (lambda: consistent_margins(DOMAIN, {}), "not empty"),
        (lambda: consistent_margins(DOMAIN, {("age",): PLAIN}), "a pair of attributes"),
        (lambda: consistent_margins(DOMAIN, {("age", "sex"): PLAIN}), "3 cells for 6 combinations"),
        (
            lambda: consistent_margins(Product(a=3, b=1), {("a", "b"): PLAIN, ("b", "a"): OTHER}),
            "the pair b and a stands twice",
        ),
        (
            lambda: consistent_margins(
                Product(a=1, b=2), {("a", "b"): FrequencyEstimate([0.5, 0.5])}
            ),
            "the table of a and b has no noise",
        ),
    ],
)
def test_what_has_no_margins_is_named(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()
