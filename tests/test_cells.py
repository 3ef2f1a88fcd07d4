"""Cells of the experiments: what is measured, its moments over trials, and their randomness."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ldpopt
from experiments.cells import measures as shown
from experiments.cells.measures import SELECTED
from experiments.cells.populations import POPULATIONS, load, one_item_per_line
from experiments.cells.protocols import ORACLES
from experiments.cells.treatments import TREATMENTS
from ldpopt import FrequencyEstimate
from ldpopt.datasets import Transactions
from ldpopt.studies.engine import measures
from ldpopt.studies.engine.candidate import apply
from ldpopt.studies.engine.cell import Cell, Task, compute, digest_of, provenance_of
from ldpopt.studies.engine.measures import Setting
from ldpopt.studies.engine.moments import (
    Moments,
    Values,
    dumps,
    loads,
    moments_of,
    side_by_side,
)
from tests.experiment_worlds import D, small
from tests.tolerances import SIGMAS

DATA = small("zipf")


def cell(*what, methods=("base", "norm-sub"), trials=6, epsilon=1.0, oracle="oue", data=DATA):
    candidates = tuple(TREATMENTS[name] for name in methods)
    return Cell(
        data.name, data.n, data.d, digest_of(data), oracle, epsilon, candidates, what, trials
    )


def task_of(cell, seed, data=DATA):
    oracle = ORACLES[cell.oracle](cell.epsilon, cell.d) if cell.oracle else None
    made_by = provenance_of(cell.candidates, cell.measures, oracle)
    return Task(cell, data, oracle, seed, made_by)


def raw_estimates(task):
    """Return the estimates of a task's one chunk, as ``compute`` draws them."""
    oracle = ORACLES[task.cell.oracle](task.cell.epsilon, task.cell.d)
    rng = task.cell.generator(task.seed, "reports", 0)
    return oracle.estimate(
        oracle.simulate_counts(task.data.counts, rng, trials=task.cell.trials), task.data.n
    )


def by_name(outcome):
    return {(m.query, m.metric): moments_of(m) for m in outcome.measured}


# --- moments --------------------------------------------------------------------------------------


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**31))
def test_merged_moments_are_those_of_all_trials(first, second, seed):
    values = np.random.default_rng(seed).normal(3.0, 1.0, (first + second, 2, 3))
    parts = [
        Values.of("q", "m", "ab", "xyz", part).moments()
        for part in (values[:first], values[first:])
    ]
    whole = Values.of("q", "m", "ab", "xyz", values).moments()
    merged = parts[0].merged(parts[1])
    assert merged.count == whole.count == first + second
    np.testing.assert_allclose(merged.mean, whole.mean, rtol=1e-12)
    np.testing.assert_allclose(merged.scatter, whole.scatter, atol=1e-11)
    np.testing.assert_allclose(whole.std, values.std(axis=0, ddof=1), rtol=1e-9)
    difference = values[:, :, 2] - values[:, :, 0]
    np.testing.assert_allclose(
        merged.difference_std("z", "x"), difference.std(axis=0, ddof=1), atol=1e-9
    )


def test_moments_survive_their_bytes():
    values = np.random.default_rng(0).normal(size=(4, 2, 3))
    originals = [
        Values.of("q", "m", [1, 2.5], "xyz", values).moments(),
        Values.of("r", "m", ["a", ""], "xyz", values + 1).moments(),
    ]
    assert dumps(originals) == dumps(originals)
    for before, after in zip(originals, loads(dumps(originals)), strict=True):
        assert (after.query, after.parameters, after.methods, after.count) == (
            before.query, before.parameters, before.methods, before.count,
        )  # fmt: skip
        assert np.array_equal(after.mean, before.mean)
        assert np.array_equal(after.scatter, before.scatter)


def test_values_survive_their_bytes_and_have_the_moments_of_their_trials():
    values = np.random.default_rng(0).normal(size=(4, 2, 3))
    whole = Values.of("q", "m", [1, ""], "xyz", values)
    (after,) = loads(dumps([whole]))
    assert isinstance(after, Values)
    assert after.parameters == (1, "")
    assert np.array_equal(after.values, values)
    parts = [replace(whole, values=part) for part in (values[:1], values[1:])]
    assert np.array_equal(parts[0].merged(parts[1]).values, values)
    assert np.array_equal(whole.moments().mean, values.mean(axis=0))


@pytest.mark.parametrize("kept", ["values", "one of two", "moments"])
def test_methods_of_two_cells_stand_side_by_side(kept):
    values = np.random.default_rng(0).normal(size=(5, 2, 3))
    whole = Values.of("q", "m", [1, 2], "xyz", values).moments()
    first = Values.of("q", "m", [1, 2], "xy", values[:, :, :2])
    # A method of both cells, such as the truth, stands there once.
    second = Values.of("q", "m", [1, 2], "yz", values[:, :, 1:])
    if kept != "values":
        first = first.moments()
    if kept == "moments":
        second = second.moments()
    both = moments_of(side_by_side(first, second))
    assert both.methods == whole.methods
    np.testing.assert_allclose(both.mean, whole.mean, rtol=1e-12)
    np.testing.assert_allclose(both.std, whole.std, rtol=1e-12)
    # Moments alone do not tell how methods of two cells vary together.
    spread = whole.difference_std("z", "x") if kept == "values" else [np.nan, np.nan]
    np.testing.assert_allclose(both.difference_std("z", "x"), spread, rtol=1e-12)
    np.testing.assert_allclose(both.difference_std("y", "x"), whole.difference_std("y", "x"))


def test_trials_of_wide_quantities_are_not_kept(monkeypatch):
    task = task_of(cell(shown.ByRank(), methods=("base",)), 1)
    assert {type(measured) for measured in compute(task).measured} == {Values}
    monkeypatch.setattr("ldpopt.studies.engine.cell._FEW_PARAMETERS", D - 1)
    kinds = {(m.query, m.metric): type(m) for m in compute(task).measured}
    assert kinds["value", "count"] is Moments
    assert kinds["full domain", "bias sum (counts)"] is Values


def test_one_trial_has_no_spread():
    assert np.isnan(Values.of("q", "m", "a", "x", np.ones((1, 1, 1))).moments().std).all()


# --- randomness -----------------------------------------------------------------------------------


def test_reports_depend_on_the_cell_and_not_on_what_is_done_with_them():
    a, b = (
        cell(measures.FullDomain(), methods=("base",)),
        cell(measures.Top((2,)), methods=("norm", "base")),
    )
    same = by_name(compute(task_of(replace(b, measures=a.measures), 1)))["full domain", "mse"]
    alone = by_name(compute(task_of(a, 1)))["full domain", "mse"]
    assert alone.mean[0, 0] == same.mean[0, 1]
    streams = [
        c.generator(1, "reports", 0).random() for c in (a, replace(a, epsilon=2.0), replace(a, n=7))
    ]
    assert (
        len(
            {*streams, a.generator(2, "reports", 0).random(), a.generator(1, "reports", 1).random()}
        )
        == 5
    )


def test_key_changes_with_everything_that_changes_the_numbers(monkeypatch):
    base = cell(measures.RandomSets((10,)))
    others = [
        replace(base, epsilon=2.0),
        replace(base, n=1),
        replace(base, candidates=base.candidates[:1]),
        replace(base, trials=7),
        replace(base, chunk=7),
        replace(base, first_chunk=1),
        replace(base, keeps_trials=True),
        replace(base, digest="x"),
        replace(base, oracle="olh"),
        replace(base, measures=(measures.RandomSets((10,), 5),)),
        replace(base, measures=(measures.Top((10,)),)),
    ]
    keys = {task_of(base, 1).key, task_of(base, 2).key, *(task_of(o, 1).key for o in others)}
    assert len(keys) == len(others) + 2
    assert task_of(replace(base), 1).key == task_of(base, 1).key
    # Another treatment of the same name, and another version of the library.
    renamed = replace(TREATMENTS["norm"], name="base")
    assert task_of(replace(base, candidates=(renamed, base.candidates[1])), 1).key not in keys
    monkeypatch.setattr(ldpopt, "__version__", "other")
    assert task_of(base, 1).key not in keys


def test_chunks_are_streamed(monkeypatch):
    monkeypatch.setattr("ldpopt.studies.engine.cell._MOST_TRIALS", 4)
    outcome = compute(task_of(cell(measures.FullDomain(), trials=10), 1))
    assert by_name(outcome)["full domain", "mse"].count == 10


def test_digest_sees_counts_labels_and_sets():
    others = (
        small("zipf", 29_999),
        replace(DATA, sets={"state": [np.array([0])]}),
        replace(DATA, labels=DATA.labels[::-1]),
    )
    assert len({digest_of(DATA), *map(digest_of, others)}) == 4


# --- treatments -----------------------------------------------------------------------------------


def test_shared_steps_give_what_the_methods_give():
    raw = raw_estimates(task_of(cell(), 5))
    seconds = {}
    names = ["power-ns", "power", "oue-calibrate-zero", "oue-zero", "oue"]
    treated = apply([TREATMENTS[name] for name in names], raw, seconds)
    assert np.array_equal(
        treated["power-ns"].frequencies, ldpopt.postprocess(raw, "power-ns").frequencies
    )
    assert np.array_equal(
        treated["power"].frequencies, ldpopt.postprocess(raw, "power").frequencies
    )
    zero = ldpopt.postprocess(raw, "base-cut", alpha=0.05).frequencies
    assert np.array_equal(treated["oue-zero"].frequencies, zero)
    assert np.array_equal(treated["oue"].frequencies, raw.frequencies)
    calibrated = treated["power"].frequencies
    kept = treated["oue-calibrate-zero"].frequencies > 0
    assert np.array_equal(treated["oue-calibrate-zero"].frequencies, np.where(kept, calibrated, 0))
    assert seconds["power-ns"] >= seconds["power"] > 0


# --- measures against slow references -------------------------------------------------------------


def test_full_domain_top_and_fixed_sets():
    methods = ("base", "post-pos", "norm")
    task = task_of(
        cell(
            measures.FullDomain(),
            measures.Top((1, 3)),
            measures.FixedSets(("state",)),
            methods=methods,
        ),
        2,
    )
    moments = by_name(compute(task))
    raw = raw_estimates(task)
    truth = DATA.frequencies
    for column, name in enumerate(methods):
        f = ldpopt.postprocess(raw, name).frequencies
        single = np.maximum(f, 0) if name == "post-pos" else f
        off = single - truth
        assert moments["full domain", "mse"].mean[0, column] == pytest.approx((off**2).mean())
        assert moments["full domain", "mae"].mean[0, column] == pytest.approx(np.abs(off).mean())
        assert moments["top k", "mse"].mean[1, column] == pytest.approx((off[:, :3] ** 2).mean())
        sums = np.stack([f[:, s].sum(axis=1) for s in DATA.sets["state"]], axis=1)
        sums = np.maximum(sums, 0) if name == "post-pos" else sums
        real = np.array([truth[s].sum() for s in DATA.sets["state"]])
        assert moments["state sets", "mse"].mean[0, column] == pytest.approx(
            ((sums - real) ** 2).mean()
        )


def test_random_sets_have_their_size_and_their_error():
    oracle = ORACLES["oue"](1.0, D)
    measure = measures.RandomSets((0, 10, 100), sets=50)
    evaluate = measure.start(Setting(DATA, oracle))
    raw = FrequencyEstimate(np.full((2, D), 1.0), n=DATA.n, oracle=oracle)
    (values,) = evaluate(raw, {"base": raw}, np.random.default_rng(1))
    moments = values.moments()
    assert moments.parameters == (0, 10, 100)
    assert moments.mean[0, 0] == 0
    assert moments.mean[2, 0] == pytest.approx((D - 1) ** 2)
    size = D * 10 // 100
    assert (size - 1) ** 2 < moments.mean[1, 0] < size**2


def test_random_sets_are_drawn_for_every_trial():
    """Two trials with the same answers differ by their sets: intervals over trials must show it."""
    measure = measures.RandomSets((10,), sets=5)
    evaluate = measure.start(Setting(DATA, None))
    same = FrequencyEstimate(np.tile(np.eye(D)[0], (40, 1)))
    (values,) = evaluate(same, {"base": same}, np.random.default_rng(1))
    moments = values.moments()
    # Drawn once, 40 equal trials would have no spread, and the interval no width.
    assert moments.std[0, 0] > 0.1 * moments.mean[0, 0] > 0


def test_random_sets_error_of_base_is_its_variance():
    """Σ over a set of m independent values has variance Σ (a + b f)/n; 1,500 trials, 5 sigma."""
    outcome = by_name(
        compute(
            task_of(cell(measures.RandomSets((50,), sets=40), methods=("base",), trials=1500), 3)
        )
    )
    moments = outcome["random sets", "mse"]
    oracle = ORACLES["oue"](1.0, D)
    expected = (D // 2 * oracle.a + oracle.b / 2) / DATA.n
    # Sets overlap, so a trial's mean over sets varies as one squared sum; the draw of sets moves
    # b/2 by less than 2 %.
    assert (
        abs(moments.mean[0, 0] - expected)
        < SIGMAS * moments.std[0, 0] / math.sqrt(1500) + 0.02 * oracle.b / DATA.n
    )


def test_heavy_hitters():
    task = task_of(cell(measures.HeavyHitters((0.25, 1.0, 1e6)), methods=("oue", "oue-zero")), 4)
    moments = by_name(compute(task))
    raw = raw_estimates(task)
    thresholds = moments["heavy hitters", "recall"].parameters
    for k, threshold in enumerate(thresholds):
        scores = []
        for vector in raw.frequencies:
            claimed = {v for v in range(D) if vector[v] * DATA.n >= threshold}
            real = {v for v in range(D) if DATA.counts[v] >= threshold}
            hits = len(claimed & real)
            scores.append(
                (
                    hits / len(claimed) if claimed else 1, hits / len(real) if real else 1,
                    2 * hits / (len(claimed) + len(real)) if claimed or real else 1,
                )
            )  # fmt: skip
        for metric, mean in zip(
            ("precision", "recall", "f-score"), np.mean(scores, axis=0), strict=True
        ):
            assert moments["heavy hitters", metric].mean[k, 0] == pytest.approx(mean)
    assert moments["heavy hitters", "precision"].mean[2].tolist() == [1.0, 1.0]


def test_by_rank_sums_its_biases():
    moments = by_name(
        compute(task_of(cell(shown.ByRank(), methods=("base", "norm-sub", "base-pos")), 4))
    )
    bias = moments["value", "bias (counts)"]
    total = moments["full domain", "bias sum (counts)"]
    np.testing.assert_allclose(bias.mean.sum(axis=0), total.mean[0], atol=1e-6)
    assert abs(total.mean[0, 1]) < 1e-6
    assert total.mean[0, 2] > 0
    counts = moments["value", "count"]
    assert counts.mean[:, counts.methods.index("truth")].tolist() == sorted(
        DATA.counts, reverse=True
    )


def test_noise_has_the_predicted_mean_and_variance():
    """500 trials of 48 values: the fitted mean and variance within 5 standard errors."""
    moments = by_name(compute(task_of(cell(shown.Noise(), methods=("oue",), trials=500), 4)))
    for metric in ("mean (counts)", "variance (counts)"):
        m = moments["noise", metric]
        # The prediction leaves out a part of the variance, b f, and that of the mean over d.
        slack = 0.02 * m.mean[0, 1]
        assert abs(m.mean[0, 0] - m.mean[0, 1]) < SIGMAS * m.std[0, 0] / math.sqrt(500) + slack
    density = moments["noise", "density"]
    width = density.parameters[1] - density.parameters[0]
    assert density.mean.sum(axis=0) * width == pytest.approx([1.0, 1.0], abs=0.01)


def test_selection_reports_the_real_error_of_each_choice():
    names = ("base", "norm-sub", "norm-mul")
    task = task_of(
        cell(shown.Selection("state", ("norm-sub",), trials=3), methods=names, trials=4), 9
    )
    moments = by_name(compute(task))
    choices = moments["state sets", "share of choices"]
    errors = moments["state sets", "mse of the choice"]
    assert choices.mean.sum() == pytest.approx(1)
    assert errors.methods == (*names, SELECTED)
    assert errors.mean[0, :3].min() <= errors.mean[0, 3] <= errors.mean[0, :3].max()
    assert (moments["state sets", "simulated mse"].mean > 0).all()


def test_data_are_shown_without_an_oracle():
    moments = by_name(
        compute(
            task_of(
                cell(
                    shown.RankedCounts(),
                    shown.FrequencyShares(),
                    methods=(),
                    oracle="",
                    epsilon=0.0,
                    trials=0,
                ),
                1,
            )
        )
    )
    assert moments["value", "count"].mean[:, 0].tolist() == sorted(DATA.counts, reverse=True)
    shares = moments["items", "share of items"]
    assert shares.mean.sum() == pytest.approx(1)
    assert list(shares.parameters) == sorted(set(DATA.counts.tolist()))


def test_one_item_per_line():
    lines = Transactions(np.array([1, 2, 9, 5, 5]), np.array([0, 3, 4, 5]))
    data = one_item_per_line("lines", lines)
    assert (data.n, data.labels) == (3, ("1", "2", "5", "9"))
    assert data.counts[2] == 2
    wide = one_item_per_line("lines", lines, by_largest_id=True)
    assert (wide.n, wide.d) == (3, 10)
    assert wide.counts[5] == 2


def test_pos_has_one_item_a_transaction(tmp_path, monkeypatch):
    (tmp_path / "pos.dat").write_text("3 1\n3\n7 3 1\n")
    monkeypatch.setenv("LDPOPT_DATA", str(tmp_path))
    data = load("pos")
    assert (data.name, data.n, data.labels) == ("pos", 3, ("1", "3", "7"))
    assert np.array_equal(load("pos").counts, data.counts)


def test_stand_ins_have_the_papers_number_of_users():
    for name, n in (("emoji", 884_427), ("us-cities", 602_325)):
        assert load(name).n == n
        assert f"n = {n:,}" in POPULATIONS[name].note
