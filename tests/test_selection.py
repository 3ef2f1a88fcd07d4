"""Choosing a method on synthetic data."""

import functools

import numpy as np
import pytest

import ldpopt
from experiments.bench import selection as bench
from ldpopt import FrequencyEstimate, Selection, datasets, oracles
from ldpopt.datasets.dataset import apportion
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.estimate.sets import answers
from ldpopt.methods import named_methods
from ldpopt.protocol import PureProtocol
from ldpopt.risks import Collection
from ldpopt.risks import misfit as misfits
from ldpopt.risks.misfit import Misfit, expected_misfit
from ldpopt.studies import selection as selecting
from ldpopt.studies.selection import MethodScore

NAMES = ["base", "post-pos", "base-pos", "norm-mul", "norm-sub"]


@pytest.fixture(scope="module")
def emoji():
    data = datasets.load("emoji")
    oracle = oracles.OUE(epsilon=1.0, d=data.d)
    return data, oracle.estimate(oracle.simulate_counts(data.counts, rng=0), data.n)


def error_of(frequencies, sets, true_frequencies, *, clip=False):
    """Return the mean squared error of one vector's answers, one set at a time."""
    squares = []
    for members in sets:
        answer = sum(frequencies[v] for v in members)
        if clip:
            answer = max(answer, 0.0)
        squares.append((answer - sum(true_frequencies[v] for v in members)) ** 2)
    return np.mean(squares)


def test_scores_are_what_a_loop_over_trials_gives(emoji):
    data, raw = emoji
    sets = data.sets["category"]
    selection = ldpopt.select_method(raw, sets, NAMES, trials=5, rng=3, by="simulation")

    true_counts = apportion(ldpopt.postprocess(raw, "norm-sub").frequencies, raw.n)
    counts = raw.oracle.simulate_counts(true_counts, rng=3, trials=5)
    for score in selection.scores:
        errors = []
        for trial in counts:
            processed = ldpopt.postprocess(raw.oracle.estimate(trial, raw.n), score.method)
            clip = score.method == "post-pos"
            errors.append(error_of(processed.frequencies, sets, true_counts / raw.n, clip=clip))
        assert score.mean == pytest.approx(np.mean(errors), rel=1e-9)
    means = [score.mean for score in selection.scores]
    assert means == sorted(means)
    assert selection.method == selection.scores[0].method
    assert selection.fit == "norm-sub"
    assert selection.trials == 5


def test_intervals_are_students_by_hand():
    # Candidate b: errors 1, 2, 6; mean 3, standard deviation sqrt(7). Candidate a is larger by 3, 2
    # and 4: mean 3, standard deviation 1. t(2) = 4.302653 at 97.5 %.
    errors = np.array([[4.0, 1.0], [4.0, 2.0], [10.0, 6.0]])
    best, worst = selecting._ranked(errors, ["a", "b"])
    reach = 4.302653 / np.sqrt(3)
    assert (best.method, best.mean, best.low) == ("b", 3.0, 0.0)
    assert best.high == pytest.approx(3 + reach * np.sqrt(7), rel=1e-6)
    assert (best.excess_low, best.excess_high) == (0, 0)
    assert (worst.method, worst.mean) == ("a", 6.0)
    assert worst.high == pytest.approx(6 + reach * np.sqrt(12), rel=1e-6)
    assert worst.low == 0
    assert worst.excess_low == pytest.approx(3 - reach, rel=1e-6)
    assert worst.excess_high == pytest.approx(3 + reach, rel=1e-6)


def test_of_two_equal_methods_the_first_named_is_chosen():
    errors = np.array([[1.0, 1.0], [2.0, 2.0]])
    assert selecting._ranked(errors, ["b", "a"])[0].method == "b"


def test_a_printed_selection_says_what_is_undecided():
    scores = (
        MethodScore("norm-sub", 1.0, 0.5, 1.5, 0.0, 0.0),
        MethodScore("norm", 2.0, 1.5, 2.5, 0.0, 2.0),
        MethodScore("base", 3.0, 2.5, 3.5, 0.1, 3.0),
    )
    assert str(Selection("norm-sub", scores, "power-ns", 7)).splitlines() == [
        "norm-sub, by 7 simulations of data fitted by power-ns",
        "method    simulated MSE  interval    verdict",
        "norm-sub  1              0.5 .. 1.5  chosen",
        "norm      2              1.5 .. 2.5  undecided",
        "base      3              2.5 .. 3.5  worse",
        "intervals have a level of 95 %",
    ]


def simulated(errors, truth=(0.5, 0.5)):
    """Return what a simulation leaves, from the errors of each method."""
    return selecting._Simulated(errors, {}, np.array(truth), "norm-sub")


def test_what_the_misfit_adds_decides():
    outcome = simulated({"norm-sub": np.ones(2), "norm": np.full(2, 2.0)})
    assert outcome.selection().method == "norm-sub"
    assert outcome.selection({"norm-sub": 0.9, "norm": 0.0}).method == "norm-sub"
    # Of equal sums the smaller simulated error is chosen.
    assert outcome.selection({"norm-sub": 1.0, "norm": 0.0}).method == "norm-sub"
    chosen = outcome.selection({"norm-sub": 1.1, "norm": 0.0})
    assert (chosen.method, chosen.simulated) == ("norm", "norm-sub")
    # A method without an answer near the estimate is not among them.
    assert outcome.selection({"norm": 5.0}).method == "norm"


def test_a_disagreement_is_stated():
    outcome = simulated({"norm-sub": np.array([1.0, 1.5]), "norm": np.array([2.0, 2.5])})
    selection = outcome.selection({"norm-sub": 3.0, "norm": 0.5})
    *lines, last = str(selection).splitlines()
    assert last.startswith("the simulations would choose norm-sub, but the raw answers show")
    assert "adds 2.5 to its error over that of norm" in last
    assert lines[1].split() == ["method", "simulated", "MSE", "interval", "corrected", "verdict"]
    assert "4.25" in lines[2]
    assert "the simulations would choose" in selection._repr_html_()
    assert not outcome.selection({"norm-sub": 0.0, "norm": 0.5}).disagreement


def test_a_method_that_follows_the_misfit_gets_nothing_added(emoji):
    _, raw = emoji
    collection = Collection(raw, [[0, 1, 2], [3, 4]])
    truth = ldpopt.postprocess(raw, "norm-sub").frequencies
    outcome = simulated({}, truth)
    methods = {name: ldpopt.METHODS[name] for name in ("norm", "norm-sub")}
    # What the answers of Norm exceed those of the fit by is the misfit itself.
    misfit = Misfit(collection.answers - collection.answered(truth), 0.0)
    extra = selecting._extra_errors(outcome, methods, collection, misfit, 1.0)
    assert extra["norm"] == pytest.approx(0, abs=1e-15)
    assert extra["norm-sub"] == pytest.approx(np.mean(misfit.mean**2))
    unknown = Misfit(0 * misfit.mean, 0.02)
    extra = selecting._extra_errors(outcome, methods, collection, unknown, 1.0)
    assert extra["norm"] == pytest.approx(0, abs=1e-15)
    assert extra["norm-sub"] == pytest.approx(0.01)
    # Noise of these reports that is larger than the mean of .001 is in the answers of Norm alone.
    extra = selecting._extra_errors(outcome, methods, collection, unknown, 0.001)
    length = np.sum(misfit.mean**2)
    assert extra["norm"] == pytest.approx((length - 0.001 + 0.02) / 2)
    assert extra["norm-sub"] == pytest.approx(0.01)


def test_a_method_that_moves_away_from_the_misfit_misses_more_than_all_of_it(emoji):
    _, raw = emoji
    collection = Collection(raw, [[0, 1, 2], [3, 4]])
    truth = ldpopt.postprocess(raw, "norm-sub").frequencies
    way = collection.raw.frequencies - truth

    def away(estimate):
        return truth - 0.5 * (way - way.mean())

    methods = named_methods({"away": away})
    misfit = Misfit(np.array([0.03, 0.04]), 0.02)
    extra = selecting._extra_errors(simulated({}, truth), methods, collection, misfit, 0.0)
    # The part that is expected is missed by 1.5, and the unknown one whole: per answer of the two.
    assert extra["away"] == pytest.approx((1.5**2 * 0.0025 + 0.02) / 2)


def test_the_misfit_is_what_the_raw_answers_show_beyond_their_noise():
    fitted = np.array([0.5, 0.3, 0.2])
    noise = np.full(3, 1e-4)
    # Within the noise, nearly nothing; far beyond it, nearly all.
    near = fitted + np.array([0.005, -0.005, 0.0])
    assert np.abs(expected_misfit(near, fitted, noise, 3.0).mean).max() < 0.002
    far = fitted + np.array([0.2, -0.1, -0.1])
    assert expected_misfit(far, fitted, noise, 3.0).mean == pytest.approx(far - fitted, rel=0.05)
    # Noise that is larger than the answers tells nothing of them.
    assert np.abs(expected_misfit(far, fitted, np.full(3, 9.0), 3.0).mean).max() < 0.01
    # Answers whose noise is one and the same are one witness.
    medium = fitted + 0.02
    many = expected_misfit(medium, fitted, noise, 3.0).mean
    assert expected_misfit(medium, fitted, noise, 0.5).mean.sum() < 0.9 * many.sum()
    # What is the same for all estimates has no misfit.
    sure = np.array([0.0, 1e-4, 1e-4])
    assert expected_misfit(far, fitted, sure, 3.0).mean[0] == 0
    without = expected_misfit(far, fitted, np.zeros(3), 0.0)
    assert np.all(without.mean == 0)
    assert without.spread == 0


def test_the_expected_misfit_is_the_mean_of_a_dense_posterior():
    rng = np.random.default_rng(0)
    fitted = rng.dirichlet(np.ones(4))
    noise = rng.uniform(1e-3, 1e-2, 4)
    excess = rng.normal(0, 0.1, 4)
    for share, common in [(0.0, 0.3), (0.35, 0.0), (0.6, 1.0)]:
        prior = share**2 * np.diag(fitted**2) + common**2 * np.outer(fitted, fitted)
        total = prior + np.diag(noise)
        solved = np.linalg.solve(total, excess)
        log_likelihood, mean, spread = misfits._under(share, common, excess, fitted, noise)
        expected = -(excess @ solved + np.linalg.slogdet(total)[1]) / 2
        assert log_likelihood == pytest.approx(expected, rel=1e-9)
        assert mean == pytest.approx(prior @ solved, rel=1e-9)
        left = prior - prior @ np.linalg.solve(total, prior)
        assert spread == pytest.approx(np.trace(left), rel=1e-9)


def test_what_is_not_known_of_a_misfit_is_within_the_shares_and_between_them(monkeypatch):
    monkeypatch.setattr(misfits, "_OWN_SHARES", (0.0, 1.0))
    monkeypatch.setattr(misfits, "_COMMON_SHARES", (0.0, 0.0))
    one = np.array([0.5])
    raw = np.array([0.8])
    noise = np.array([0.04])
    misfit = expected_misfit(raw, one, noise, 1.0)
    # An own share of 0 or 1 with equal weights: by hand, with variances .04 and .29.
    density = [np.exp(-(0.09 / v) / 2) / np.sqrt(v) for v in (0.04, 0.29)]
    weight = density[1] / sum(density)
    mean = 0.3 * 0.25 / 0.29
    assert misfit.mean == pytest.approx([weight * mean])
    within = weight * 0.25 * 0.04 / 0.29
    assert misfit.spread == pytest.approx(within + weight * (1 - weight) * mean**2)


def test_sets_that_belong_together_are_not_left_to_the_simulation(emoji):
    # The fit is shrunk, and so its simulation takes the harm of shrinking for truth.
    data, raw = emoji
    names = ["base", "norm", "norm-sub"]
    choice = ldpopt.select_method(raw, data.sets["category"], names, trials=20, rng=1)
    assert choice.simulated == "norm-sub"
    assert choice.method in ("base", "norm")
    assert choice.disagreement
    alone = ldpopt.select_method(
        raw, data.sets["category"], names, trials=20, rng=1, by="simulation"
    )
    assert alone.method == "norm-sub"
    assert alone.risks is None
    with pytest.raises(InvalidInputError, match="by simulation alone"):
        alone.plot()
    by_risk = ldpopt.select_method(raw, data.sets["category"], names, rng=1, by="risk")
    assert by_risk.method == by_risk.risks.best
    assert by_risk.scores == ()
    assert by_risk.simulated == ""
    assert "Stein" in str(by_risk)
    assert by_risk.plot().axes


def test_where_the_evidence_disagrees_the_answer_is_a_mean_of_two(emoji):
    data, raw = emoji
    sets = data.sets["category"]
    choice = ldpopt.select_method(raw, sets, ["norm", "norm-sub"], trials=20, rng=1)
    assert choice.disagreement
    corrected = {score.method: score.mean + choice.extra[score.method] for score in choice.scores}
    whole = sum(1 / error for error in corrected.values())
    assert choice.weights == pytest.approx({n: 1 / e / whole for n, e in corrected.items()})
    assert sum(choice.weights.values()) == pytest.approx(1.0)
    parts = [w * ldpopt.postprocess(raw, n).frequencies for n, w in choice.weights.items()]
    np.testing.assert_allclose(choice.estimate.frequencies, sum(parts), rtol=1e-12)
    assert choice.estimate.raw is raw
    assert choice.estimate.labels == raw.labels
    assert "the mean of both, " in str(choice)
    # Clipped answers have no mean, and the other kinds of choice name one method alone.
    clipped = ldpopt.select_method(raw, sets, ["post-pos", "norm-sub"], trials=20, rng=1)
    assert clipped.disagreement
    assert clipped.weights == {clipped.method: 1.0}
    for kind in ("risk", "simulation"):
        one = ldpopt.select_method(raw, sets, ["norm", "norm-sub"], trials=20, rng=1, by=kind)
        assert one.weights == {one.method: 1.0}
        expected = ldpopt.postprocess(raw, one.method).frequencies
        assert np.array_equal(one.estimate.frequencies, expected)


def test_the_mean_of_two_answers_errs_less_than_the_choice(emoji):
    """Of 60 collections with a fixed seed; the difference is 1.6 of its standard errors here."""
    data, raw = emoji
    sets = data.sets["category"]
    truth = answers(data.frequencies, sets)
    oracle = raw.noise.protocol
    rng = np.random.default_rng(4)
    gains = []
    for _ in range(60):
        new = oracle.estimate(oracle.simulate_counts(data.counts, rng), data.n)
        choice = ldpopt.select_method(new, sets, bench.METHOD_NAMES, trials=10, rng=rng)
        chosen = ldpopt.postprocess(new, choice.method).query(sets)
        mean = choice.estimate.query(sets)
        gains.append(np.mean((chosen - truth) ** 2) - np.mean((mean - truth) ** 2))
    assert np.mean(gains) > 0


def test_large_trials_are_simulated_in_batches(emoji, monkeypatch):
    data, raw = emoji
    sizes = []
    simulate = oracles.OUE.simulate_counts

    def noting(oracle, true_counts, rng, trials):
        sizes.append(trials)
        return simulate(oracle, true_counts, rng, trials=trials)

    monkeypatch.setattr(oracles.OUE, "simulate_counts", noting)
    monkeypatch.setattr(selecting, "_BATCH", 3 * data.d - 1)
    sets = data.sets["category"]
    batches = ldpopt.select_method(raw, sets, ["base", "norm-sub"], trials=7, rng=1)
    assert sizes == [2, 2, 2, 1]
    assert batches.trials == 7
    # The batches draw the same stream, so that all trials differ from each other.
    assert batches.scores[0].high > batches.scores[0].low
    monkeypatch.setattr(selecting, "_BATCH", 1)
    ldpopt.select_method(raw, sets, ["base"], trials=2, rng=1)
    assert sizes[4:] == [1, 1]


def test_intervals_shrink_with_trials_and_a_clear_loser_is_decided(emoji):
    data, raw = emoji
    sets = data.sets["category"]
    few = ldpopt.select_method(raw, sets, NAMES, trials=8, rng=2, by="simulation")
    many = ldpopt.select_method(raw, sets, NAMES, trials=200, rng=2, by="simulation")
    worst = many.scores[-1]
    assert worst.high - worst.low < (few.scores[-1].high - few.scores[-1].low) / 2
    assert worst.method == "base-pos"
    assert worst.excess_low > 0
    assert str(many).startswith("norm-sub, by 200 simulations of data fitted by norm-sub")


def test_a_candidate_without_an_answer_is_dropped_with_its_reason(monkeypatch):
    monkeypatch.setattr(selecting, "_BATCH", 1)
    oracle = oracles.OUE(epsilon=0.5, d=2)
    raw = oracle.estimate([3, 1], 4)
    names = ["norm-mul", "base", "norm-sub"]
    by_simulation = functools.partial(ldpopt.select_method, trials=30, rng=1, by="simulation")
    selection = by_simulation(raw, [[0]], names)
    assert {score.method for score in selection.scores} == {"base", "norm-sub"}
    assert list(selection.dropped) == ["norm-mul"]
    *_, last = str(selection).splitlines()
    assert last.startswith("norm-mul is dropped: ")
    assert "needs a positive estimate" in last
    # The others are judged on the same trials as without it.
    assert by_simulation(raw, [[0]], names[1:]).scores == selection.scores
    with pytest.raises(InvalidInputError, match="no candidate has an answer in every trial: the K"):
        by_simulation(raw, [[0]], ["norm-mul"])


def test_the_default_candidates_are_all_methods():
    oracle = oracles.OUE(epsilon=1.0, d=4)
    raw = oracle.estimate(oracle.simulate_counts([500, 300, 150, 50], rng=0), 1000)
    selection = ldpopt.select_method(raw, [[0, 1]], trials=2, rng=1)
    assert {score.method for score in selection.scores} == set(ldpopt.METHODS)


def test_one_candidate_may_be_named_without_a_list(emoji):
    _, raw = emoji
    assert ldpopt.select_method(raw, [[0]], "norm", trials=2, rng=1).method == "norm"


def test_boolean_sets_and_index_sets_are_the_same(emoji):
    data, raw = emoji
    mask = np.zeros((len(data.sets["category"]), data.d), dtype=bool)
    for row, members in zip(mask, data.sets["category"], strict=True):
        row[members] = True
    answers = [
        ldpopt.select_method(raw, s, ["norm-sub"], trials=3, rng=1)
        for s in (mask, data.sets["category"])
    ]
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"candidates": ["norm-sup"]}, "norm-sub"),
        ({"candidates": []}, "at least one"),
        ({"candidates": ["base", "norm", "base"]}, "distinct, got 'base' again at position 2"),
        ({"sets": []}, "at least one"),
        ({"fit": "norm"}, "no distribution"),
        ({"fit": "base-pos"}, "no distribution"),
        ({"fit": "normsub"}, "norm-sub"),
        ({"trials": 1}, "at least 2"),
        ({"sets": [[0, 0]]}, "more than once"),
        ({"by": "risks"}, "did you mean 'risk'"),
    ],
)
def test_bad_input_is_refused(emoji, changes, message):
    data, raw = emoji
    arguments = {"sets": data.sets["category"], "candidates": ["base"], "trials": 2} | changes
    with pytest.raises(InvalidInputError, match=message):
        ldpopt.select_method(raw, **arguments)


def test_only_one_raw_estimate_of_a_known_oracle_is_taken(emoji):
    data, raw = emoji
    sets = data.sets["category"]
    stack = FrequencyEstimate(np.stack([raw.frequencies] * 2), n=raw.n, oracle=raw.oracle)
    protocol = PureProtocol(epsilon=1.0, d=raw.d, p=raw.oracle.p, q=raw.oracle.q)
    for wrong in (
        stack,
        ldpopt.postprocess(raw, "norm-sub"),
        FrequencyEstimate(raw.frequencies),
        FrequencyEstimate(raw.frequencies, n=raw.n, oracle=protocol),
        raw.frequencies,
    ):
        with pytest.raises(InvalidInputError):
            ldpopt.select_method(wrong, sets, ["base"], trials=2)
    with pytest.raises(InvalidTypeError):
        ldpopt.select_method(raw, sets, ["base"], trials=2, rng="seed")


def test_the_bench_of_choices_compares_them_on_the_same_collections():
    data = datasets.load("emoji")
    kinds = bench.queries(data, np.random.default_rng(0))
    assert len(kinds) == 5
    oracle = oracles.OUE(1.0, data.d)
    rng = np.random.default_rng(1)
    ratios = bench.regret(data, oracle, kinds["together"], draws=3, rng=rng)
    assert set(ratios) == {*bench.RULES, "standard_error"}
    # On so few collections a choice may be better than any fixed method, but not by much.
    assert min(ratios[rule] for rule in bench.RULES) > 0.3
    assert 0 <= ratios["standard_error"] < 1
    assert ratios["simulation"] >= ratios["both"] - 1e-12
