"""The loop of a comparison: what it takes, common draws, one table, and a store that resumes."""

import csv
import html
import io
import itertools
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import ldpopt
from ldpopt import Problem, constraints, datasets, losses, oracles, progress
from ldpopt.datasets import Dataset
from ldpopt.errors import (
    DataUnavailableError,
    FunctionError,
    InvalidInputError,
    InvalidTypeError,
    LdpoptWarning,
    MissingPackageError,
    StoreError,
    WorkersError,
)
from ldpopt.studies.engine import candidate
from ldpopt.studies.engine import cell as engine_cell
from ldpopt.studies.engine.measures import FixedSets, Top
from ldpopt.studies.study_inputs import collections_of, data_sets_of, measures_of
from ldpopt.studies.study_rows import ratio_of

COUNTS = [400, 250, 120, 80, 60, 40, 30, 20]
SIMPLEX = Problem(losses.LeastSquares(), [constraints.NonNegative(), constraints.SumsTo(1.0)])
NAMES = ["norm-sub", "base", "norm"]


def shrunk(estimate):
    return 0.5 * estimate.frequencies + 0.5 / estimate.d


def broken(estimate):
    """Has no answer where the sum of the estimates is above one."""
    if estimate.frequencies.sum() > 1.05:
        raise InvalidInputError("no answer here")
    return estimate.frequencies


def worst(answer, truth):
    return np.abs(answer - truth).max()


@pytest.fixture(scope="module")
def result():
    """Two budgets, four candidates, two metrics, 25 draws in two chunks."""
    candidates = {**{name: name for name in NAMES}, "shrunk": shrunk}
    return ldpopt.study(
        candidates, COUNTS, epsilons=[1.0, 2.0], draws=25, metrics=["mse", worst], seed=3
    )


def numbers(study):
    """Return all values of a study, by place and candidate."""
    return {
        (place, name): values.tolist()
        for place, by_name in study.values.items()
        for name, values in by_name.items()
    }


# --- what is measured -----------------------------------------------------------------------------


def test_every_candidate_is_measured_on_the_same_draws(result):
    truth = np.array(COUNTS) / sum(COUNTS)
    oracle = oracles.OUE(1.0, len(COUNTS))
    generator = engine_cell.Cell("counts", sum(COUNTS), 8, "", "oue", 1.0, (), (), 0).generator
    raws = [
        oracle.estimate(
            oracle.simulate_counts(COUNTS, generator(3, "reports", number), trials=trials),
            sum(COUNTS),
        )
        for number, trials in ((0, 20), (1, 5))
    ]
    for name in NAMES:
        f = np.concatenate([ldpopt.postprocess(raw, name).frequencies for raw in raws])
        at = {"epsilon": 1.0, "metric": "mse"}
        np.testing.assert_allclose(result.draws_of(name, **at), ((f - truth) ** 2).mean(axis=1))
        at["metric"] = "worst"
        np.testing.assert_allclose(result.draws_of(name, **at), np.abs(f - truth).max(axis=1))


def test_the_table_has_a_row_per_place_and_candidate(result):
    assert len(result.rows) == 2 * 2 * 4
    assert {row.candidate for row in result.rows} == {*NAMES, "shrunk"}
    first = result.rows[0]
    assert (first.data, first.n, first.d, first.oracle) == ("counts", 1000, 8, "oue")
    assert first.draws == 25
    assert first.low < first.mean < first.high
    assert (first.ratio, first.ratio_low, first.ratio_high) == (1, 1, 1)
    assert all(row.seconds > 0 for row in result.rows)
    # Student's interval by hand: t(24) at 97.5 %.
    values = result.draws_of("norm-sub", epsilon=1.0, metric="mse")
    half = 2.063899 * values.std(ddof=1) / 5
    assert first.high - first.mean == pytest.approx(half, rel=1e-6)


def test_ratios_are_paired(result):
    at = {"epsilon": 2.0, "metric": "mse"}
    base = result.draws_of("base", **at)
    sub = result.draws_of("norm-sub", **at)
    ratio = result.ratio("base", **at)
    assert ratio.value == pytest.approx(base.mean() / sub.mean())
    spread = np.std(base / base.mean() - sub / sub.mean(), ddof=1) / 5
    assert ratio.high / ratio.value == pytest.approx(math.exp(2.063899 * spread), rel=1e-6)
    assert ratio.value / ratio.low == pytest.approx(ratio.high / ratio.value)
    other = result.ratio("norm", "base", **at)
    assert other.value == pytest.approx(result.draws_of("norm", **at).mean() / base.mean())
    row = next(r for r in result.rows if r.candidate == "base" and r.epsilon == 2 and r.query)
    assert (row.ratio, row.ratio_low, row.ratio_high) == pytest.approx(tuple(ratio))


def test_intervals_cover(monkeypatch):
    """Of 2,000 ratios of lognormal means over 30 common draws 95 % hold the true one, to 2 %."""
    rng = np.random.default_rng(0)
    common = rng.normal(0, 0.5, (2000, 30))
    errors = np.exp(common + rng.normal(0, 0.2, common.shape))
    others = np.exp(common + rng.normal(0, 0.2, common.shape))
    ratios = [ratio_of(x, y, 0.95) for x, y in zip(errors, others, strict=True)]
    assert np.mean([low <= 1 <= high for _, low, high in ratios]) == pytest.approx(0.95, abs=0.02)


def test_ratios_of_numbers_that_are_not_positive_are_unknown():
    assert all(map(math.isnan, ratio_of(np.array([0.0, 0.0]), np.array([1.0, 1.0]), 0.95)))
    value, low, high = ratio_of(np.array([1.0]), np.array([2.0]), 0.95)
    assert value == 0.5
    assert math.isnan(low)
    assert math.isnan(high)


def test_sets_and_top_values_are_measures():
    data = Dataset("pets", COUNTS, tuple("abcdefgh"), "made up", {"kind": [np.array([0, 1])]})
    for sizes in ((2, 9), (0,)):
        with pytest.raises(InvalidInputError, match=r"values of 'counts' must lie in 1 \.\. 8"):
            ldpopt.study("base", COUNTS, metrics=Top(sizes))
    measures = [Top((1, 3)), FixedSets(("kind",))]
    study = ldpopt.study(["norm-sub", "base"], data, draws=4, metrics=measures)
    assert {(p.query, p.parameter) for p in study.values} == {
        ("top k", 1),
        ("top k", 3),
        ("kind sets", ""),
    }


def test_answers_of_post_pos_are_clipped():
    study = ldpopt.study(["base-pos", "post-pos"], COUNTS, draws=4)
    assert study.ratio("post-pos").value == 1


def test_a_baseline_that_is_no_candidate_is_added():
    study = ldpopt.study(shrunk, COUNTS, draws=2, baseline="norm-sub")
    assert study.candidates == ("norm-sub", "shrunk")
    assert study.baseline == "norm-sub"
    with pytest.raises(InvalidInputError, match=r"unknown baseline 'norm-sup'.*'norm-sub'"):
        ldpopt.study(shrunk, COUNTS, draws=2, baseline="norm-sup")


# --- the same for everybody -----------------------------------------------------------------------


def test_the_seed_draws_and_nothing_else_does(result):
    def again(names, **options):
        return ldpopt.study(names, COUNTS, epsilons=[1.0, 2.0], draws=25, **options)

    fewer = again(["norm", "base"], metrics="mse", seed=3)
    assert numbers(fewer).items() <= numbers(result).items()
    other = again(["norm", "base"], metrics="mse", seed=4)
    at = {"epsilon": 1.0}
    assert other.draws_of("base", **at).tolist() != fewer.draws_of("base", **at).tolist()


def test_processes_give_the_same_numbers(result):
    candidates = {**{name: name for name in NAMES}, "shrunk": shrunk}
    options = {"epsilons": [1.0, 2.0], "draws": 25, "metrics": ["mse", worst], "seed": 3}
    assert numbers(ldpopt.study(candidates, COUNTS, workers=2, **options)) == numbers(result)


def test_what_cannot_be_sent_is_said_before_anything_is_computed():
    with pytest.raises(InvalidInputError, match=r"the method '<lambda>' cannot be sent.*workers=1"):
        ldpopt.study(lambda e: e.frequencies, COUNTS, draws=2, workers=2)
    with pytest.raises(InvalidInputError, match=r"the metric .* cannot be sent"):
        ldpopt.study("base", COUNTS, draws=2, metrics=lambda f, truth: 1, workers=2)
    with pytest.raises(InvalidInputError, match="leave out workers"):
        ldpopt.study("base", COUNTS, draws=2, workers=2, dask="tcp://localhost:1")


# --- a store --------------------------------------------------------------------------------------


def test_a_store_resumes_and_adds_one_candidate_alone(tmp_path, monkeypatch):
    path = tmp_path / "kept" / "study.sqlite"
    computed = []
    compute = engine_cell.compute

    def counting(task):
        computed.append(task.cell.candidates[0].name)
        if len(computed) == stop:
            raise KeyboardInterrupt
        return compute(task)

    monkeypatch.setattr("ldpopt.studies.engine.run.compute", counting)
    options = {"draws": 25, "store": path, "seed": 3}
    stop = 3
    with pytest.raises(KeyboardInterrupt):
        ldpopt.study(NAMES, COUNTS, **options)
    stop = 0
    whole = ldpopt.study(NAMES, COUNTS, **options)
    assert len(computed) == 3 + 4
    assert numbers(whole) == numbers(ldpopt.study(NAMES, COUNTS, draws=25, seed=3))
    computed.clear()
    more = ldpopt.study([*NAMES, shrunk], COUNTS, **options)
    assert computed == ["shrunk", "shrunk"]
    assert numbers(whole).items() <= numbers(more).items()
    computed.clear()
    ldpopt.study(NAMES, COUNTS, fresh=True, **options)
    assert len(computed) == 6


def test_a_changed_function_is_computed_anew_and_named(tmp_path):
    def halved(factor):
        return {"mine": lambda estimate: factor * estimate.frequencies, "base": "base"}

    options = {"draws": 2, "store": tmp_path / "s"}
    first = ldpopt.study(halved(0.5), COUNTS, **options)
    with pytest.warns(LdpoptWarning, match=r"other code.*: the method mine \(1 cell\)"):
        second = ldpopt.study(halved(0.25), COUNTS, **options)
    assert numbers(second) == numbers(ldpopt.study(halved(0.25), COUNTS, draws=2))
    assert numbers(second) != numbers(first)
    assert numbers(ldpopt.study(halved(0.25), COUNTS, **options)) == numbers(second)


def test_a_changed_metric_or_data_is_computed_anew(tmp_path):
    options = {"draws": 2, "store": tmp_path / "s"}
    one = ldpopt.study("base", COUNTS, metrics={"m": lambda f, truth: f[0]}, **options)
    with pytest.warns(LdpoptWarning, match="the metric m"):
        two = ldpopt.study("base", COUNTS, metrics={"m": lambda f, truth: f[1]}, **options)
    assert numbers(one) != numbers(two)
    other = ldpopt.study("base", COUNTS[::-1], metrics={"m": lambda f, truth: f[1]}, **options)
    assert numbers(other) != numbers(two)


def first_coin(estimate):
    """Puts all users on the value with the label "coin": a method may read labels."""
    return np.array([label == "coin" for label in estimate.labels], dtype=float)


def test_other_labels_are_other_data(tmp_path):
    options = {"draws": 2, "store": tmp_path / "s"}
    for labels in (("coin", "note"), ("note", "coin")):
        data = Dataset("money", [700, 300], labels, "")
        kept = ldpopt.study(first_coin, data, **options)
        assert numbers(kept) == numbers(ldpopt.study(first_coin, data, draws=2))


# --- failures -------------------------------------------------------------------------------------


def test_a_candidate_without_an_answer_is_left_out_with_its_reason():
    with pytest.warns(LdpoptWarning, match="'broken' has no answer in some draw.*no answer here"):
        study = ldpopt.study(["base", broken], [5, 5, 5, 5], draws=40, seed=1)
    assert "no answer here" in study.failed["broken"]
    assert {row.candidate for row in study.rows} == {"base"}
    assert "failed: broken" in repr(study)
    with pytest.raises(InvalidInputError, match="'broken' has no values here"):
        study.ratio("broken")


def test_of_several_failures_the_first_is_named():
    def never(estimate):
        raise InvalidInputError("no answer at all")

    with pytest.warns(LdpoptWarning, match="ε = 2: no answer at all"):
        study = ldpopt.study(["base", never], COUNTS, epsilons=[2.0, 1.0], draws=2)
    assert study.failed == {"never": "counts, oue, ε = 2: no answer at all"}


def test_seconds_are_those_of_one_draw_however_many_there_are(monkeypatch):
    ticks = itertools.count()
    monkeypatch.setattr(candidate.time, "perf_counter", lambda: float(next(ticks)))
    shown = [ldpopt.study(["base"], COUNTS, draws=draws).rows[0].seconds for draws in (20, 60)]
    # One tick per chunk of 20 draws.
    assert shown == [1 / 20, 1 / 20]


def test_a_study_without_any_answer_is_an_error():
    with (
        pytest.warns(LdpoptWarning),
        pytest.raises(InvalidInputError, match="no candidate has an answer"),
    ):
        ldpopt.study([broken], [5, 5, 5, 5], draws=40, seed=1)


# --- bad input, before any draw is kept -----------------------------------------------------------


@pytest.fixture
def uncomputed(monkeypatch):
    """No cell is computed: an error must come before."""

    def compute(task):
        raise AssertionError("a cell was computed")

    monkeypatch.setattr("ldpopt.studies.engine.run.compute", compute)


@pytest.mark.parametrize(
    ("candidate", "message"),
    [
        (lambda e: e.frequencies[:-1], r"one frequency per value, shape \(8,\)"),
        (lambda e: np.full(e.d, np.nan), "returned nan at index 0"),
        (lambda e: e.frequencies.sort(), "changes the estimate that it is given"),
        (Problem(losses.LeastSquares(), [constraints.Monotone(range(9))]), "'mine': order"),
        (
            Problem(losses.LeastSquares(), [constraints.SumsTo(2), constraints.Bounds(0, 0.1)]),
            "sum",
        ),
    ],
)
def test_candidates_are_tried_before_anything_is_computed(candidate, message, uncomputed):
    with pytest.raises(InvalidInputError, match=message):
        ldpopt.study({"base": "base", "mine": candidate}, COUNTS, draws=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"candidates": [shrunk, shrunk]}, "'shrunk' again at position 1"),
        ({"candidates": []}, "at least one"),
        ({"data": {"a": COUNTS, "b": "zipff"}}, "did you mean 'zipf'"),
        ({"data": [COUNTS, COUNTS]}, "two data sets are called 'counts'"),
        ({"data": []}, "at least one data set"),
        ({"data": [0.5, 0.5]}, "whole numbers"),
        ({"oracles": "ouee"}, "did you mean 'oue'"),
        ({"oracles": ["oue", oracles.OUE]}, "two oracles are called 'oue' at ε = 1"),
        ({"oracles": oracles.OUE(1.0, 9)}, "is for 9 values, and 'counts' has 8"),
        ({"oracles": []}, "at least one oracle"),
        ({"baseline": ["base"]}, r"unknown baseline \['base'\]"),
        ({"baseline": "raw"}, "unknown baseline 'raw': known: base, base-pos"),
        ({"epsilons": [-1.0]}, "epsilon"),
        ({"metrics": "mess"}, "unknown metric 'mess'"),
        ({"metrics": [worst, worst]}, "two metrics are called 'worst'"),
        ({"metrics": []}, "at least one metric"),
        ({"metrics": lambda f, truth: f}, "must return one finite number"),
        ({"metrics": lambda f, truth: math.nan}, "must return one finite number"),
        ({"metrics": FixedSets(("kind",))}, "no sets called 'kind'"),
        ({"draws": 0}, "draws must be at least 1"),
        ({"level": 1.0}, "level"),
        ({"seed": -1}, "seed"),
        ({"workers": 0}, "workers"),
    ],
)
def test_wrong_arguments_are_named(options, message, uncomputed):
    with pytest.raises(InvalidInputError, match=message):
        ldpopt.study(**{"candidates": "base", "data": COUNTS, "draws": 2} | options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilons": 2.0}, r"epsilons must be a list of numbers, got 2\.0: pass \[2\.0\]"),
        ({"epsilons": "12"}, "epsilons must be a list of numbers, got '12'$"),
        ({"data": ldpopt.FrequencyEstimate([0.5, 0.5])}, "the counts of users, .* compare_risk"),
    ],
)
def test_arguments_of_other_types_have_a_remedy(options, message, uncomputed):
    with pytest.raises(InvalidTypeError, match=message):
        ldpopt.study(**{"candidates": "base", "data": COUNTS, "draws": 2} | options)


def test_budgets_of_a_generator_are_those_of_every_oracle():
    budgets = (epsilon for epsilon in (0.5, 1.0))
    study = ldpopt.study("base", COUNTS, ["grr", "oue"], epsilons=budgets, draws=2)
    assert [(row.oracle, row.epsilon) for row in study.rows] == [
        ("grr", 0.5),
        ("grr", 1.0),
        ("oue", 0.5),
        ("oue", 1.0),
    ]


@pytest.mark.parametrize(
    ("function", "what", "message"),
    [
        (data_sets_of, 3.5, "data are the name of a data set"),
        (measures_of, [3], "a metric is a name"),
        (measures_of, None, "a metric is a name.* None"),
        (
            partial(collections_of, epsilons=[1], data=data_sets_of(COUNTS)["counts"]),
            None,
            "an oracle is a name.* None",
        ),
        (partial(collections_of, epsilons=[1], data=data_sets_of(COUNTS)["counts"]), [3], "oracle"),
        (
            partial(collections_of, epsilons=[1], data=data_sets_of(COUNTS)["counts"]),
            [lambda epsilon, d: None],
            "must return an oracle",
        ),
    ],
)
def test_things_of_another_kind_are_refused(function, what, message):
    with pytest.raises(InvalidTypeError, match=message):
        function(what)


def test_oracles_are_names_classes_functions_or_oracles():
    data = data_sets_of(COUNTS)["counts"]
    floor = partial(oracles.OLH, rounding="floor")
    given = ["grr", oracles.SUE, floor, oracles.OUE(3.0, 8)]
    collections = collections_of(given, [1.0, 2.0], data)
    assert [(c.name, c.epsilon) for c in collections] == [
        ("grr", 1.0),
        ("grr", 2.0),
        ("sue", 1.0),
        ("sue", 2.0),
        ("olh", 1.0),
        ("olh", 2.0),
        ("oue", 3.0),
    ]
    both = collections_of({"olh": oracles.OLH, "floor": floor}, [1.0], data)
    assert [c.name for c in both] == ["olh", "floor"]


# --- files of counts ------------------------------------------------------------------------------


def test_counts_come_from_files(tmp_path):
    path = tmp_path / "pets.csv"
    path.write_text("label,count\ncat,30\ndog,50\n\ufeffeel,0\n", encoding="utf-8")
    (name,) = data_sets_of(path)
    assert name == "pets"
    study = ldpopt.study("base", {"ours": str(path)}, draws=2)
    assert {(p.data, p.n, p.d) for p in study.values} == {("ours", 80, 3)}


def test_a_file_with_other_labels_is_refused(tmp_path):
    path = tmp_path / "pets.csv"
    path.write_text("value,count,note\ndog,50,x\ncat,30,y\n")
    data = datasets.read_counts(path, labels=["cat", "dog"])
    assert data.counts.tolist() == [30, 50]
    with pytest.raises(InvalidInputError, match=r"has no row for 'eel' \(1 such label\)"):
        ldpopt.study("base", path, draws=2, labels=["cat", "dog", "eel"])
    with pytest.raises(InvalidInputError, match="has a row for 'dog'"):
        datasets.read_counts(path, labels=["cat"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("label,number\na,1\n", "no column 'count'; the header has label, number"),
        ("name,count\na,1\n", "no column 'label'"),
        ("label,count\na,1\na,2\n", "line 3: 'a' occurs twice"),
        ("label,count\na,1.5\n", "line 2: a count must be a whole number >= 0"),
        ("label,count\na,-1\n", "line 2: a count"),
        (f"label,count\na,{'9' * 30}\n", "at most 18 digits"),
        ("label,count\na,\n", "line 2: no value of 'count'"),
        ("label,count\n", "no rows after the header"),
        ("", "the file is empty"),
    ],
)
def test_files_of_counts_are_checked(tmp_path, text, message):
    path = tmp_path / "counts.csv"
    path.write_text(text)
    with pytest.raises((InvalidInputError, DataUnavailableError), match=message):
        datasets.read_counts(path)
    with pytest.raises(DataUnavailableError, match="no such file"):
        datasets.read_counts(tmp_path / "other.csv")


def test_counts_of_files_may_be_written_with_a_point(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text("label,count\na,3870.0\nb,12\n")
    assert datasets.read_counts(path).counts.tolist() == [3870, 12]


def test_frequencies_come_from_files(tmp_path):
    path = tmp_path / "estimate.csv"
    path.write_text("value,frequency,lower\na,0.5,0\nb,-1e-3,0\n")
    labels, f = datasets.read_frequencies(path)
    assert labels == ("a", "b")
    assert f.tolist() == [0.5, -1e-3]
    path.write_text("value,frequency\na,nan\n")
    with pytest.raises(InvalidInputError, match="line 2: a frequency must be a finite number"):
        datasets.read_frequencies(path)


# --- the table and the picture --------------------------------------------------------------------


def test_csv_has_every_row(result, tmp_path):
    text = result.to_csv(tmp_path / "study.csv")
    assert (tmp_path / "study.csv").read_text(encoding="utf-8") == text
    records = list(csv.DictReader(io.StringIO(text)))
    assert len(records) == len(result.rows)
    assert float(records[3]["ratio"]) == result.rows[3].ratio
    assert records[0]["query"] == "full domain"
    one = ldpopt.study("base", COUNTS, draws=1).to_csv()
    assert next(csv.DictReader(io.StringIO(one)))["ratio_high"] == ""


def test_names_that_spreadsheets_run_are_text():
    study = ldpopt.study({"=1+1": "base"}, {"red\x1b[31m": COUNTS}, draws=1)
    assert "'=1+1" in study.to_csv()
    assert "\x1b" not in study.to_csv() + repr(study)


def test_the_printed_table_shows_what_varies(result):
    lines = repr(result).splitlines()
    assert lines[0] == "Study of 4 candidates, 25 common draws, ratios to 'norm-sub'"
    assert lines[1].split()[:4] == ["epsilon", "metric", "candidate", "mean"]
    assert len(lines) == 3 + len(result.rows)
    assert "epsilon" not in lines[-1]
    small = repr(ldpopt.study("base", COUNTS, draws=2)).splitlines()
    assert small[1].split()[0] == "candidate"
    assert small[-1].startswith("in all rows: data ")
    assert small[-1].endswith("oracle oue, epsilon 1.0, query full domain, metric mse")


def test_a_note_of_a_candidate_that_failed_prints_no_escapes():
    study = ldpopt.study("base", COUNTS, draws=1)
    shown = str(replace(study, failed={"red\x1b[31m": "no vector satisfies the constraints"}))
    assert "no vector satisfies the constraints" in shown
    assert "\x1b" not in shown


def test_one_draw_has_no_interval_and_minutes_are_whole_seconds():
    study = ldpopt.study(["base", "norm"], COUNTS, draws=1)
    assert "nan" not in repr(study)
    slow = replace(study, seconds=dict.fromkeys(study.seconds, 1234.5))
    assert repr(slow).splitlines()[2].endswith(" 1,234")


class Dead:
    """Workers that are gone before the first cell."""

    def run(self, function, work, **more):
        raise WorkersError("the workers died")


def test_only_a_file_is_said_to_keep_cells(tmp_path, monkeypatch):
    monkeypatch.setattr("ldpopt.studies.study.executor_for", lambda workers, dask: Dead())
    with pytest.raises(WorkersError, match=r"^the workers died$"):
        ldpopt.study("base", COUNTS, draws=2)
    with pytest.raises(StoreError, match=r"died\. The finished cells are kept"):
        ldpopt.study("base", COUNTS, draws=2, store=tmp_path / "study.sqlite")


def test_a_function_that_makes_no_oracle_is_named():
    with pytest.raises(FunctionError, match=r"the oracle .*, called with \(epsilon, d\), failed"):
        ldpopt.study("base", COUNTS, lambda epsilon: None, draws=2)


def test_the_table_of_a_notebook_is_escaped(result):
    shown = result._repr_html_()
    assert shown.count("<tr>") == 1 + len(result.rows)
    odd = ldpopt.study({"<b>": "base"}, COUNTS, draws=1)._repr_html_()
    assert html.escape("<b>") in odd
    assert "<b>" not in odd


def test_pandas_is_named_where_it_is_missing(result, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(MissingPackageError, match="pip install pandas, or use to_csv"):
        result.to_frame()


def test_a_place_is_named_where_there_are_several(result):
    with pytest.raises(InvalidInputError, match=r"4 places .* name one by epsilon, metric"):
        result.ratio("base")
    with pytest.raises(InvalidInputError, match="0 places"):
        result.ratio("base", epsilon=7)
    with pytest.raises(InvalidInputError, match="unknown part of a place 'eps'"):
        result.ratio("base", eps=1)
    with pytest.raises(InvalidInputError, match=r"unknown candidate 'bass'.*'base'"):
        result.ratio("bass", epsilon=1.0, metric="mse")


def test_the_picture_runs_along_epsilon_or_shows_ratios(result):
    curves = result.plot("worst")
    (axes,) = curves.axes
    assert len(axes.containers) == 4
    assert axes.get_xlabel() == "ε"
    assert [text.get_text() for text in curves.legends[0].get_texts()] == [*NAMES, "shrunk"]
    compared = ldpopt.study(["norm-sub", shrunk], COUNTS, draws=4, level=0.9)
    assert "90 % interval" in str(compared)
    ratios = compared.plot()
    assert ratios.get_supxlabel() == "bars: 90 % intervals"
    (axes,) = ratios.axes
    assert axes.get_xlabel() == "mse over that of norm-sub"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["norm-sub", "shrunk"]
    by_k = ldpopt.study(["norm-sub", "base"], COUNTS, draws=4, metrics=Top((1, 2, 4))).plot()
    assert by_k.axes[0].get_xlabel() == "parameter"
    with pytest.raises(InvalidInputError, match="unknown metric 'mea'"):
        result.plot("mea")


def test_a_study_of_one_candidate_says_so():
    title = str(ldpopt.study("base", COUNTS, draws=2)).splitlines()[0]
    assert title.startswith("Study of 1 candidate, 2 common draws, ")


def test_a_bar_is_shown_where_it_is_wanted(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_DELAY", 0.0)
    study = ldpopt.study("base", COUNTS, draws=2, progress=True)
    assert len(study.rows) == 1
    captured = capsys.readouterr()
    assert "1 cell   0 %" in captured.err
    assert captured.out == ""
    ldpopt.study("base", COUNTS, draws=2)
    captured = capsys.readouterr()
    assert captured.err == captured.out == ""
