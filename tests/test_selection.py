"""Choosing a method on synthetic data."""

import numpy as np
import pytest

import ldpopt
from ldpopt import FrequencyEstimate, Selection, datasets, oracles
from ldpopt.datasets.dataset import apportion
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.protocol import PureProtocol
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
    selection = ldpopt.select_method(raw, sets, NAMES, trials=5, rng=3)

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
        "method    mean squared error  95 % interval",
        "norm-sub  1                   0.5 .. 1.5     chosen",
        "norm      2                   1.5 .. 2.5     undecided",
        "base      3                   2.5 .. 3.5     worse",
    ]


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
    few = ldpopt.select_method(raw, sets, NAMES, trials=8, rng=2)
    many = ldpopt.select_method(raw, sets, NAMES, trials=200, rng=2)
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
    selection = ldpopt.select_method(raw, [[0]], names, trials=30, rng=1)
    assert {score.method for score in selection.scores} == {"base", "norm-sub"}
    assert list(selection.dropped) == ["norm-mul"]
    *_, last = str(selection).splitlines()
    assert last.startswith("norm-mul  dropped: ")
    assert "needs a positive estimate" in last
    # The others are judged on the same trials as without it.
    assert ldpopt.select_method(raw, [[0]], names[1:], trials=30, rng=1).scores == selection.scores
    with pytest.raises(InvalidInputError, match="no candidate has an answer in every trial: the K"):
        ldpopt.select_method(raw, [[0]], ["norm-mul"], trials=30, rng=1)


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
