"""Choosing a method on synthetic data."""

import functools

import numpy as np
import pytest

import ldpopt
from experiments.bench import selection as bench
from ldpopt import FrequencyEstimate, Selection, datasets, oracles
from ldpopt.datasets.dataset import apportion
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.protocol import PureProtocol
from ldpopt.risks import Risk, RiskRow, RiskTable
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
    selection = selecting._ranked(errors, ["a", "b"], "norm-sub")
    best, worst = selection.scores
    reach = 4.302653 / np.sqrt(3)
    assert (best.method, best.mean, best.low) == ("b", 3.0, 0.0)
    assert best.high == pytest.approx(3 + reach * np.sqrt(7), rel=1e-6)
    assert (best.excess_low, best.excess_high) == (0, 0)
    assert (worst.method, worst.mean) == ("a", 6.0)
    assert worst.high == pytest.approx(6 + reach * np.sqrt(12), rel=1e-6)
    assert worst.low == 0
    assert worst.excess_low == pytest.approx(3 - reach, rel=1e-6)
    assert worst.excess_high == pytest.approx(3 + reach, rel=1e-6)
    assert selection.trials == 3


def test_of_two_equal_methods_the_first_named_is_chosen():
    errors = np.array([[1.0, 1.0], [2.0, 2.0]])
    assert selecting._ranked(errors, ["b", "a"], "norm-sub").method == "b"


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
    ]


def risks_of(excess, low, high):
    """Return risks of norm-sub, which is above norm by an excess with its interval."""
    risk = Risk("norm", 1.0, 0.5, 1.5, "sure", "3 sets")
    other = Risk("norm-sub", 1.0 + excess, 0.5, 2.5, "sure", "3 sets")
    return RiskTable((RiskRow(risk, 0.0, 0.0, 0.0), RiskRow(other, excess, low, high)))


def test_both_kinds_of_evidence_are_weighted_by_how_far_they_may_be_wrong():
    scores = (
        MethodScore("norm-sub", 1.0, 0.5, 1.5, 0.0, 0.0),
        MethodScore("norm", 2.0, 1.5, 2.5, 0.5, 2.0),
    )
    # The simulated difference is 1, in doubt by 2. An unbiased one of -2 weighs as much at an error
    # of 2, and less at a larger one: the mean changes its sign at an error of √8.
    for error, chosen in ((0.0, "norm"), (2.8, "norm"), (2.9, "norm-sub")):
        excesses = {"norm-sub": (0.0, 0.0), "norm": (-2.0, error)}
        assert selecting._combined(scores, excesses) == chosen
    same = (scores[0], MethodScore("base", 1.0, 0.5, 1.5, 0.0, 0.0))
    assert selecting._combined(same, {"base": (0.0, 0.0)}) == "norm-sub"
    nothing = tuple(MethodScore(name, 0.0, 0.0, 0.0, 0.0, 0.0) for name in "ab")
    assert selecting._combined(nothing, {"b": (0.0, 0.0)}) == "a"


def test_a_disagreement_is_stated():
    scores = (
        MethodScore("norm-sub", 1.0, 0.5, 1.5, 0.0, 0.0),
        MethodScore("norm", 2.0, 1.5, 2.5, 0.5, 2.0),
    )
    selection = Selection("norm", scores, "norm-sub", 7, risks=risks_of(0.6, 0.1, 1.1))
    assert selection.simulated == "norm-sub"
    *_, last = str(selection).splitlines()
    assert last.startswith("the simulations would choose norm-sub, but on these reports its error")
    assert "chosen" in str(selection)
    assert "the simulations would choose" in selection._repr_html_()
    agreed = Selection("norm-sub", scores, "norm-sub", 7, risks=risks_of(0.6, 0.1, 1.1))
    assert not agreed.disagreement


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
    assert set(ratios) == set(bench.RULES)
    # On so few collections a choice may be better than any fixed method, but not by much.
    assert min(ratios.values()) > 0.3
    assert ratios["simulation"] >= ratios["both"] - 1e-12
