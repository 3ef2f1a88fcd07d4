"""Choosing a method on synthetic data."""

import numpy as np
import pytest

import ldpopt
from ldpopt import FrequencyEstimate, datasets, oracles
from ldpopt.datasets.dataset import apportion
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.protocol import PureProtocol

NAMES = ["base", "post-pos", "base-pos", "norm-mul", "norm-sub"]


@pytest.fixture(scope="module")
def emoji():
    data = datasets.load("emoji")
    oracle = oracles.OUE(epsilon=1.0, d=data.d)
    return data, oracle.estimate(oracle.simulate_counts(data.counts, rng=0), data.n)


def test_evidence_is_what_a_loop_over_trials_finds(emoji):
    data, raw = emoji
    sets = data.sets["category"]
    found = ldpopt.select_method(raw, sets, NAMES, trials=5, rng=3)

    fitted = ldpopt.postprocess(raw, "norm-sub").frequencies
    truth = apportion(fitted, raw.n)
    simulated = raw.oracle.estimate(raw.oracle.simulate_counts(truth, rng=3, trials=5), raw.n)
    for row in found.evidence:
        errors = []
        for vector in simulated.frequencies:
            one = ldpopt.postprocess(
                FrequencyEstimate(vector, n=raw.n, oracle=raw.oracle), row.method
            )
            answers = [sum(one.frequencies[v] for v in members) for members in sets]
            if row.method == "post-pos":
                answers = [max(answer, 0.0) for answer in answers]
            errors.append(
                np.mean(
                    [
                        (a - sum(truth[v] for v in m) / raw.n) ** 2
                        for a, m in zip(answers, sets, strict=True)
                    ]
                )
            )
        assert row.mean == pytest.approx(np.mean(errors), rel=1e-9)
        assert row.low == pytest.approx(max(2 * row.mean - row.high, 0.0), rel=1e-9, abs=1e-15)
    assert [row.mean for row in found.evidence] == sorted(row.mean for row in found.evidence)
    assert found.method == found.evidence[0].method
    assert found.evidence[0].excess_low == found.evidence[0].excess_high == 0
    assert found.trials == 5


def test_large_trials_are_simulated_in_parts(emoji, monkeypatch):
    data, raw = emoji
    whole = ldpopt.select_method(raw, data.sets["category"], ["base", "norm-sub"], trials=7, rng=1)
    monkeypatch.setattr(ldpopt.studies.selection, "_AT_A_TIME", 2 * data.d)
    parts = ldpopt.select_method(raw, data.sets["category"], ["base", "norm-sub"], trials=7, rng=1)
    assert whole.method == parts.method == "norm-sub"
    assert parts.trials == 7
    assert parts.evidence[0].mean == pytest.approx(whole.evidence[0].mean, rel=0.9)


def test_intervals_shrink_with_trials_and_a_clear_loser_is_decided(emoji):
    data, raw = emoji
    few, many = (
        ldpopt.select_method(raw, data.sets["category"], NAMES, trials=t, rng=2) for t in (8, 200)
    )
    width = {
        found.trials: found.evidence[-1].high - found.evidence[-1].low for found in (few, many)
    }
    assert width[200] < width[8] / 2
    loser = many.evidence[-1]
    assert loser.method == "base-pos"
    assert loser.excess_low > 0
    assert "undecided" not in str(many).splitlines()[-1]
    assert str(many).startswith("norm-sub, by 200 simulations of data fitted by norm-sub")


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


def test_no_interval_of_a_squared_error_goes_below_zero(emoji):
    data, raw = emoji
    found = ldpopt.select_method(raw, data.sets["category"], NAMES, trials=2, rng=1)
    assert (
        min(row.low for row in found.evidence) == 0
    )  # Student's t with one degree of freedom reaches far below
    assert all(row.low <= row.mean <= row.high for row in found.evidence)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"candidates": ["norm-sup"]}, "norm-sub"),
        ({"candidates": []}, "at least one"),
        ({"candidates": ["base", "norm", "base"]}, "distinct, found 'base' again at position 2"),
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
