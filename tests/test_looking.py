"""Results that people look at: estimates as tables, pictures, arrays and data frames."""

import re
import sys
import types
from html.parser import HTMLParser

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import ldpopt
from ldpopt import (
    METHODS,
    FrequencyEstimate,
    Problem,
    constraints,
    datasets,
    losses,
    oracles,
    priors,
    style,
    tables,
)
from ldpopt.errors import (
    InvalidInputError,
    InvalidTypeError,
    MissingPackageError,
    UnsupportedProblemError,
)
from ldpopt.estimate.shown import largest, standard_errors

PETS = ["cat", "dog", "cow", "<script>alert(1)</script>\x1b[2J"]
OUE = oracles.OUE(epsilon=1.0, d=4)
RAW = OUE.estimate([4_300, 3_300, 2_650, 2_600], 10_000, labels=PETS)
POST = ldpopt.postprocess(RAW, "norm-sub")
STACK = OUE.estimate([[4_300, 3_300, 2_650, 2_600]] * 2, 10_000, labels=PETS)
PLAIN = FrequencyEstimate([0.5, 0.25])
EVERY_PART = [
    losses.LeastSquares(),
    losses.WeightedLeastSquares([1.0, 2.0]),
    losses.GaussianMLE(),
    losses.LeastAbsolute(),
    losses.L1To([0.5, 0.5]),
    losses.Huber(0.1),
    losses.MaxAbsolute(),
    losses.KullbackLeibler(),
    losses.KLTo([0.5, 0.5]),
    losses.Entropy(),
    losses.BinomialMLE(),
    losses.MultinomialMLE(),
    losses.NormalisedGaussianMLE(),
    losses.TotalVariation(),
    losses.GroupNorm([[0, 1]]),
    losses.PerReportMLE(OUE, OUE.perturb([0, 1], rng=0)),
    losses.PosteriorMean(priors.PowerLaw),
    losses.HardThreshold(),
    losses.LeastSquares() + 1e-5 * losses.Entropy(),
    constraints.NonNegative(),
    constraints.Bounds(0, np.inf),
    constraints.Bounds([0.0, 0.1], 1),
    constraints.Fixed([0], [0.5]),
    constraints.SumsTo(1.0),
    constraints.GroupTotals([[0, 1]], [0.5]),
    constraints.Margins((2, 2), 0, [0.5, 0.5]),
    constraints.Linear(np.eye(2), 0, 1),
    constraints.Near([0.5, 0.5], 0.1, np.inf),
    constraints.Near([0.5, 0.5], 0.1, "kl"),
    constraints.Monotone([1, 0]),
    constraints.Monotone([[1, 0], [2, 0]]),
    constraints.Unimodal(1),
    constraints.TopSet([1]),
    constraints.AtMost(2),
    constraints.Smooth(0.5, 0.25),
    constraints.Hierarchy([-1, 0, 0], 1.0),
    constraints.Hierarchy([-1, 0, 0]),
]


# --- labels go with every answer ------------------------------------------------------------------


def test_labels_reach_every_answer():
    simplex = [ldpopt.constraints.NonNegative(), ldpopt.constraints.SumsTo(1.0)]
    solution = ldpopt.Problem(ldpopt.losses.LeastSquares(), simplex).solve(RAW)
    for estimate in (RAW, POST, solution.estimate, STACK[0], POST.raw):
        assert estimate.labels == tuple(PETS)
        assert estimate.top(2)[1].label == "dog"
        assert [value.label for value in estimate.top(above=0.15)] == ["cat", "dog"]
        sets = {"pets": ["cat", "dog"], "all": [0, 1, 2, 3]}
        assert_array_equal([*estimate.query(sets).values()], estimate.query([[0, 1], range(4)]))
        lower, upper = estimate.interval(sets=[["cat", "dog"]])
        assert estimate.interval(sets=sets)["pets"] == (lower[0], upper[0])
    assert solution.query({"pets": ["cat"]}) == {"pets": solution.frequencies[0]}
    assert solution.interval(sets={"pets": ["cat"]}).keys() == {"pets"}
    assert solution.top(2) == solution.estimate.top(2)
    assert solution.top(above=0.15) == solution.estimate.top(above=0.15)
    options = {"level": 0.9, "largest": 1, "simultaneous": True}
    for sets in (None, {"pets": ["cat", "dog"], "cats": ["cat"]}):
        pictures = [one.plot(sets, **options) for one in (solution, solution.estimate)]
        first, second = ((p.get_suptitle(), p.get_supxlabel()) for p in pictures)
        assert first == second
    assert solution.plot().get_suptitle() == solution.estimate.plot().get_suptitle()
    assert STACK.query({"pets": ["cat", "dog"]})["pets"].shape == (2,)


def test_labels_go_from_a_data_set_to_the_candidates_of_a_study():
    data = datasets.Dataset("pets", [700, 200, 100, 50], tuple(PETS), "")
    seen = set()

    def candidate(estimate):
        seen.add(estimate.labels)
        return estimate.frequencies

    ldpopt.study({"mine": candidate}, data, draws=2)
    assert seen == {tuple(PETS)}
    assert data.collect(OUE, rng=0).labels == tuple(PETS)
    assert data.collect(OUE, rng=0, trials=3).frequencies.shape == (3, 4)


def test_an_oracle_of_another_domain_and_a_class_are_refused_by_name():
    data = datasets.Dataset("pets", [700, 200, 100, 50], tuple(PETS), "")
    with pytest.raises(InvalidInputError, match="the oracle has d = 5 values, and this data set 4"):
        data.collect(oracles.OUE(1.0, 5))
    with pytest.raises(InvalidTypeError, match=r"oracle must be one of ldpopt\.oracles, such as"):
        data.collect(oracles.OUE)


def test_a_set_of_labels_that_the_estimate_does_not_have_is_named():
    with pytest.raises(InvalidInputError, match="set 'pets' has 'hen', which is no label"):
        RAW.query({"pets": ["cat", "hen"]})
    with pytest.raises(InvalidInputError, match="set 0 has 1, which is no label"):
        RAW.query([["cat", 1]])
    with pytest.raises(InvalidInputError, match="no label of this estimate: did you mean 'cat'"):
        RAW.query({"pets": ["dog", "catt"]})
    with pytest.raises(InvalidTypeError, match="this estimate has no labels"):
        PLAIN.query([["cat"]])


def test_other_labels_are_those_of_the_raw_estimate_too():
    named = POST.labelled("abcd"[i] for i in range(4))
    assert named.labels == named.raw.labels == ("a", "b", "c", "d")
    with pytest.raises(InvalidInputError, match="4 names, got 2"):
        POST.labelled(["a", "b"])


# --- the largest values ---------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, 1, 3, 5, 7, 9])
@pytest.mark.parametrize("numbers", [[0.5, 0, 0, 0.25, 0, 0.5, 0], [0] * 7, [3, 1, 2, 7, 5, 6, 4]])
def test_the_largest_are_those_of_a_stable_sort(numbers, k):
    numbers = np.array(numbers, dtype=float)
    assert_array_equal(largest(numbers, k), np.argsort(-numbers, kind="stable")[:k])


def test_top_takes_a_number_and_a_threshold():
    estimate = FrequencyEstimate(np.arange(20) / 20)
    assert len(estimate.top()) == 10
    assert [value.index for value in estimate.top(2)] == [19, 18]
    assert estimate.top(1)[0] == ldpopt.estimate.Value("19", 19, 0.95)
    assert len(estimate.top(above=0.3)) == np.count_nonzero(estimate.heavy_hitters(0.3)) == 13
    assert len(estimate.top(5, above=0.3)) == 5
    assert estimate.top(5, above=0.95) == []
    lines = str(estimate.top(3)).splitlines()
    assert lines == ["value  frequency", "19     0.95000", "18     0.90000", "17     0.85000"]
    # Of a domain with many values all frequencies are small, and still differ.
    small = str(FrequencyEstimate([3e-6, 2.5e-6]).top(2)).splitlines()
    assert small[1:] == ["0      0.00000300", "1      0.00000250"]
    # Names that are not the places stand beside these.
    named = estimate.labelled([f"<{i}>" for i in range(20)]).top(1)
    assert repr(named) == "value  index  frequency\n<19>   19     0.95000"
    assert "&lt;19&gt;" in named._repr_html_()
    with pytest.raises(InvalidInputError, match="k must be"):
        estimate.top(-1)
    with pytest.raises(InvalidInputError, match="top takes one vector"):
        STACK.top()


def test_what_is_shown_keeps_the_false_coverage_rate_of_what_is_shown():
    shown = POST.shown(2, level=0.9)
    lower, upper = POST.interval(0.9, selected=2)
    assert_array_equal([shown.lower, shown.upper], [lower[:2], upper[:2]])
    assert "95 %" in shown.notes[0]  # 1 - .1 * 2/4
    assert "at most 10 %" in shown.notes[0]
    joint = POST.shown(2, level=0.9, simultaneous=True)
    assert_array_equal(joint.upper, POST.interval(0.9, simultaneous=True)[1][:2])
    sets = POST.shown(1, {"rest": ["cow"], "pets": ["cat", "dog"]}, level=0.9)
    assert sets.names == ["pets"]
    assert sets.count == 2
    assert POST.shown(1, [], level=0.9).names == []


# --- representations ------------------------------------------------------------------------------


def test_a_representation_shows_what_matters():
    text = repr(RAW)
    assert "values: 4; reports: OUE, ε = 1, n = 10,000; method: base; raw: yes; " in text
    assert "standard error at 0: 0.01919; largest: cat 0.697 ± 0.021, dog 0.2643 ± 0.02" in text
    assert r"\x1b[2J" not in text  # the smallest, which is not shown
    assert "\n" not in text
    assert len(text) < 250
    assert "raw: no" in repr(POST)
    assert "method: norm-sub" in repr(POST)
    stack = repr(FrequencyEstimate([[0.5, 0.25], [0.5, 0.5]]))
    assert "2 trials of 2" in stack
    assert "sum: 0.75 .. 1" in str(FrequencyEstimate([[0.5, 0.25], [0.5, 0.5]]))
    assert "largest" not in stack
    assert "standard error" not in repr(PLAIN)


def test_the_text_of_an_estimate_lists_the_largest_values():
    lines = str(RAW).splitlines()
    assert lines[-5].split() == ["value", "frequency", "standard", "error"]
    assert lines[-4].split() == ["cat", "0.697", "0.021"]
    assert str(FrequencyEstimate(np.arange(12) / 12)).splitlines()[-1] == "… 2 more"


class Page(HTMLParser):
    """The elements, attributes and texts of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.attributes = []
        self.texts = []
        self.open = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_hostile_labels_do_not_act_in_a_notebook():
    page = Page(RAW._repr_html_())
    assert set(page.tags) <= {"div", "table", "caption", "thead", "tbody", "tr", "th", "td", "p"}
    assert {name for name, _ in page.attributes} <= {"style", "scope"}
    assert r"<script>alert(1)</script>\x1b[2J" in page.texts
    table = Page(tables.html_of(["<b>", "\x9b"], [['" onload="x', "a\nb"]], ["</p><i>"], title="&"))
    assert table.texts == ["&", "<b>", r"\x9b", '" onload="x', "a\nb", "</p><i>"]


def test_all_methods_are_one_table_in_a_notebook():
    page = Page(METHODS._repr_html_())
    assert page.tags.count("tr") == len(METHODS) + 1
    assert page.texts[:6] == [
        "Post-processing methods",
        "name",
        "what it does",
        "≥ 0",
        "Σ = 1",
        "keeps order",
    ]
    assert {"norm-sub", METHODS["norm-sub"].description} <= set(page.texts)


def test_tables_inherit_colours_and_stay_within_their_page():
    page = tables.html_of(["a"], [["1"]], ["note"], title="t")
    assert "#" not in page
    assert "background:none" in page
    assert page.startswith('<div style="max-width:100%;overflow-x:auto">')


def test_an_estimate_of_a_million_values_is_shown_without_sorting_them(monkeypatch):
    d = 1_000_000
    rng = np.random.default_rng(0)
    estimate = FrequencyEstimate(
        np.maximum(rng.normal(0, 1e-3, d), 0), n=10**6, oracle=oracles.OUE(1.0, d), is_raw=False
    )
    for name in ("argsort", "sort"):
        function = getattr(np, name)
        monkeypatch.setattr(np, name, of_short_ones(function))
    monkeypatch.setattr(type(estimate.noise), "covariance", None)
    shown = (repr(estimate), str(estimate), estimate._repr_html_(), estimate.top(5))
    assert all(shown)


def of_short_ones(function):
    """Return a function of a vector that is an error for a long one."""

    def checked(vector, **how):
        assert len(vector) < 99
        return function(vector, **how)

    return checked


# --- problems, solutions and what else shows itself -----------------------------------------------

SIMPLEX = [constraints.NonNegative(), constraints.SumsTo(1.0)]
CLS = Problem(losses.LeastSquares(), SIMPLEX)


def facts_of(thing):
    """Return the texts of the tables that a notebook shows."""
    return Page(thing._repr_html_()).texts


def test_a_problem_states_itself_in_latex():
    problem = Problem(
        losses.Huber(0.25) + 0.5 * losses.Entropy(),
        [constraints.Bounds(-np.inf, 0.5), constraints.Custom(lambda f: f[0] >= 0, name="a_b<")],
    )
    assert problem._repr_latex_() == (
        "$$\\begin{aligned}\n"
        r"\min_f \quad & \sum_v h_{0.25}(f_v - \tilde f_v) + 0.5 \Bigl(\sum_v f_v \log f_v\Bigr) \\"
        "\n"
        r"\text{s.t.} \quad & -\infty \le f \le 0.5 \\"
        "\n"
        r" & \text{a\_b}\lt\text{}"
        "\n\\end{aligned}$$"
    )


@pytest.mark.parametrize("part", EVERY_PART, ids=repr)
def test_every_part_of_a_problem_states_itself_in_balanced_latex(part):
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", part.latex):
        depth += 1 if brace == "{" else -1
        assert depth >= 0
    assert depth == 0
    assert not re.search(r"[<>]|inf(?!ty)|__", part.latex)
    # None of them falls back on its name.
    assert repr(part) not in part.latex


@pytest.mark.parametrize(
    ("problem", "path"),
    [
        (CLS, "closed-form, norm-sub (a raw estimate of 16 values by OUE)"),
        (
            Problem(losses.MultinomialMLE(), SIMPLEX),
            "closed-form, water-filling (a raw estimate of 16 values by GRR)",
        ),
        (
            Problem(losses.WeightedLeastSquares([1.0, 2.0, 3.0]), SIMPLEX),
            "closed-form, one root (a raw estimate of 3 values by OUE)",
        ),
        (
            Problem(losses.LeastSquares(), [constraints.Custom(lambda f: f[0] >= f[1])]),
            "conic, CLARABEL (a raw estimate of 16 values by OUE)",
        ),
        (
            Problem(losses.LeastSquares(), [constraints.Custom(lambda f: f[99] >= f[1])]),
            "depends on the estimate: problem.explain(estimate)",
        ),
        (
            Problem(losses.LeastAbsolute(), [constraints.AtMost(2)]),
            "no path: is not convex and has no closed form",
        ),
    ],
)
def test_a_problem_shows_its_path(problem, path):
    texts = facts_of(problem)
    shown = texts[texts.index("solved by") + 1]
    assert shown.startswith(path)


def test_the_summary_of_a_solution_has_what_readers_of_statsmodels_look_for():
    solution = CLS.solve(RAW)
    summary = solution.summary()
    text = str(summary)
    assert text.splitlines()[0].strip() == "min ½‖f-f̃‖², f ≥ 0, Σf = 1"
    words = re.sub(" +", " ", text)
    for fact in (
        "status: optimal objective: ",
        "path: closed-form gap: ",
        "solver: norm-sub violation: ",
        "values: 4 stationarity: ",
        "iterations: 0 complementarity: ",
        "seconds: ",
        "optimal to 1e-9: yes",
        "NonNegative 4 1 0 0.0",
        "SumsTo 1 1 0.0",
    ):
        assert fact in words
    assert len({len(line) for line in text.splitlines() if set(line) <= {"=", "-"}}) == 1
    assert max(map(len, text.splitlines())) <= 80
    assert facts_of(summary)[:3] == ["min ½‖f-f̃‖², f ≥ 0, Σf = 1", "status", "optimal"]


def test_summaries_of_stacks_compositions_and_cvxpys_constraints():
    stack = CLS.solve(STACK).summary()
    assert stack.rows[0][:2] == ("NonNegative", "8")
    composed = ldpopt.METHODS["norm-hyb"].problem.solve(STACK).summary()
    assert {row[0] for row in composed.rows} >= {"NonNegative", "SumsTo"}
    near = constraints.Custom(lambda f: [f[0] <= 0.5, f[1:] <= 0.4], name="cuts")
    cut = Problem(losses.LeastSquares(), [constraints.SumsTo(1.0), near])
    solution = cut.solve([0.7, 0.2, 0.2])
    assert [row[:2] for row in solution.summary().rows] == [("SumsTo", "1"), ("cuts", "3")]
    free = Problem(losses.LeastSquares()).solve([0.5, 0.2]).summary()
    assert free.rows == ()
    assert "constraint" not in str(free)
    # An infinite gap has a reason, which a reader must see.
    outside = Problem(losses.KullbackLeibler(), SIMPLEX)
    assert "reason" in facts_of(ldpopt.certify(outside, [0.5, -0.1], [0.5, 0.5]))


def test_certificates_show_their_numbers_and_multipliers():
    solution = CLS.solve(RAW)
    texts = facts_of(solution.certificate)
    assert texts[:3] == ["Certificate", "certified", "the problem"]
    assert {"gap", "violation", "NonNegative", "SumsTo"} <= set(texts)
    exact = ldpopt.certify(CLS, RAW, solution.frequencies, exact=True)
    assert {"gap", "distance", "ulps", "violation"} <= set(facts_of(exact))
    x = cp.Variable(2)
    program = cp.Problem(cp.Minimize(cp.sum_squares(x - [1.0, 0.0])), [x[0] <= x[1]])
    assert {"gap", "bound"} <= set(facts_of(ldpopt.certify(program, {x: [0.5, 0.5]})))


def test_a_solution_shows_its_largest_values():
    texts = facts_of(CLS.solve(RAW))
    assert texts[:3] == ["Solution", "problem", "min ½‖f-f̃‖², f ≥ 0, Σf = 1"]
    assert "cat" in texts


def test_data_sets_and_methods_show_themselves():
    data = datasets.load("emoji")
    texts = facts_of(data)
    assert texts[:3] == ["Data set emoji", "users", "147,357"]
    assert "sets: category" in texts
    assert texts[-1] == "… 726 more"
    assert "Norm-Sub" in facts_of(ldpopt.METHODS["norm-sub"])
    assert "options" in facts_of(ldpopt.METHODS["base-cut"])


def test_a_selection_shows_every_candidate():
    chosen = ldpopt.select_method(
        RAW, [[0], [1, 2]], ["base", "norm-sub", "norm"], trials=20, rng=0
    )
    texts = facts_of(chosen)
    assert texts[0] == f"Chosen: {chosen.method}"
    assert texts.count("chosen") == 1
    assert all(score.method in texts for score in chosen.scores)


# --- arrays ---------------------------------------------------------------------------------------


def test_sources_rounds_and_margins_show_one_row_per_measurement():
    rng = np.random.default_rng(0)
    counts = np.array([600, 300, 100])
    weeks = []
    for epsilon in (0.5, 1.0):
        oracle = oracles.OUE(epsilon, 3)
        weeks.append(oracle.estimate(oracle.simulate_counts(counts, rng), 1_000))
    by_group = ldpopt.Source(
        ldpopt.FrequencyEstimate([0.9, 0.1], noise=[1e-4, 1e-4]), groups=[[0, 1], [2]], name="two"
    )
    text = str(ldpopt.Sources([*weeks, by_group]))
    assert text.splitlines()[0].startswith("3 sources: two passes over a forest")
    shares = [float(share) for share in re.findall(r"([\d.]+) %", text)]
    assert sum(shares) == pytest.approx(100, abs=0.1)
    assert re.search(r"^two +2 groups +– +– +0.01 +0 +–$", text, re.MULTILINE)

    series = ldpopt.rounds(weeks)
    lines = str(series).splitlines()
    assert lines[0].startswith("2 rounds of 3 values, drift ")
    assert re.match(r"1 +OUE, ε = 1 +1,000 +0.06", lines[3])
    assert lines[-1].startswith("unbiased estimate of the mean squared error over all rounds: ")

    domain = ldpopt.Product(a=1, b=3)
    tables = ldpopt.consistent_margins(domain, {("a", "b"): weeks[0]})
    assert re.search(r"^a × b +1 × 3 +[\d.]+ to [\d.]+$", str(tables), re.MULTILINE)
    for shown in (ldpopt.Sources(weeks), series, tables):
        page = shown._repr_html_()
        assert page.count("<tr>") == len(shown) + 1
        assert "\n" not in repr(shown)


def test_rounds_explain_an_error_that_is_estimated_below_0():
    rng = np.random.default_rng(0)
    counts = np.array([400, *[10] * 20])
    months = []
    for epsilon in (0.5, 4.0):
        oracle = oracles.OUE(epsilon, 21)
        months.append(oracle.estimate(oracle.simulate_counts(counts, rng), 600))
    series = ldpopt.rounds(months)
    assert series.risk[0] < 0
    assert str(series).splitlines()[-1].startswith("the first is below 0 by chance")


def test_derivatives_and_the_matrix_of_problems_show_themselves():
    solution = ldpopt.Problem(losses.LeastSquares(), [constraints.SumsTo(1.0)]).solve([0.5, 0.2])
    page = solution.jacobian()._repr_html_()
    assert "2 × 2" in page
    assert "exact" in page
    matrix = ldpopt.coverage(up_to=0)
    assert repr(matrix) == matrix.summary()
    assert matrix._repr_html_().count("<td") == 1 + len(matrix.losses)


def test_a_constraint_of_ones_own_is_called_by_its_name():
    named = constraints.Custom(lambda f: [f[0] >= f[1]], name="first leads")
    problem = ldpopt.Problem(losses.LeastSquares(), [named])
    assert "under Custom(first leads) has no closed form" in problem.explain([0.5, 0.2])
    far = constraints.Custom(lambda f: f[0] >= f[5], name="sixth")
    of_two = ldpopt.Problem(losses.LeastSquares(), [far])
    with pytest.raises(InvalidInputError, match=r"function of Custom\(sixth\) failed on 2 values"):
        of_two.solve([0.5, 0.2])
    # The conditions are not written, whatever number of values the function needs.
    with pytest.raises(UnsupportedProblemError, match=r"Custom\(sixth\) has no conditions"):
        of_two.kkt()
    assert repr(constraints.Custom(lambda f: [f[0] >= f[1]])) == "Custom()"
    hostile = constraints.Custom(lambda f: [f[0] >= f[1]], name="a\x1b[31m")
    assert repr(hostile) == r"Custom(a\x1b[31m)"


def test_an_estimate_is_an_array_of_its_frequencies():
    same = np.asarray(RAW)
    assert same is RAW.frequencies
    assert not same.flags.writeable
    copy = np.array(RAW)
    copy[0] = 7
    assert RAW.frequencies[0] != 7
    assert np.asarray(RAW, dtype=np.float32).dtype == np.float32
    assert np.asarray(RAW, dtype=np.float64, copy=False) is RAW.frequencies
    with pytest.raises(ValueError, match="as float32 they are a copy"):
        np.asarray(RAW, dtype=np.float32, copy=False)
    assert np.asarray(STACK).shape == (2, 4)
    assert_array_equal(np.abs(RAW - np.asarray(POST)), np.abs(RAW.frequencies - POST.frequencies))


# --- standard errors ------------------------------------------------------------------------------


def test_standard_errors_are_those_of_the_noise():
    f = np.clip(RAW.frequencies, 0, 1)
    expected = np.sqrt(RAW.noise.variance(f))
    assert_array_equal(standard_errors(RAW.frequencies, RAW.noise), expected)
    some = np.array([2, 0])
    assert_array_equal(standard_errors(RAW.frequencies, RAW.noise, some), expected[some])


# --- pictures -------------------------------------------------------------------------------------


def test_a_picture_shows_values_with_intervals_in_the_look_of_the_method():
    figure = POST.plot(largest=2)
    axes = figure.axes[0]
    assert figure.get_suptitle() == ("the 2 largest of 4 values: norm-sub, OUE, ε = 1, n = 10,000")
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["cat", "dog"]
    (points,) = axes.lines
    assert points.get_color() == style.of("norm-sub").colour
    assert points.get_marker() == style.of("norm-sub").marker
    (intervals,) = axes.collections
    lower, upper = POST.interval(0.95, selected=2)
    ends = [segment[:, 0].tolist() for segment in intervals.get_segments()]
    assert_array_equal(ends, np.stack([lower, upper], axis=1)[:2])
    assert "false coverage rate" in figure.get_supxlabel().replace("\n", " ")


def test_a_picture_of_sets_and_one_without_intervals():
    figure = POST.plot({"pets": ["cat", "dog"], "others": [2, 3]}, simultaneous=True)
    assert figure.get_suptitle().startswith("all sets: norm-sub")
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == ["pets", "others"]
    assert "hold at once" in figure.get_supxlabel()
    plain = PLAIN.plot()
    assert not plain.axes[0].collections
    assert plain.get_supxlabel() == "Without intervals: the noise of this estimate is not known."
    assert plain.get_suptitle() == "all values"
    unknown = FrequencyEstimate([0.5, 0.25, 0.1, 0.1], n=100, oracle=OUE, is_raw=False)
    assert "raw estimate behind this one is not known" in unknown.plot().get_supxlabel()
    assert RAW.plot(level=None).get_supxlabel() == ""
    with pytest.raises(InvalidInputError, match="one vector"):
        STACK.plot()


# --- pandas ---------------------------------------------------------------------------------------


def test_values_without_labels_are_numbered_and_not_mistaken_for_frequencies():
    """A number in front of a number would read as a frequency, or as an interval."""
    unnamed = FrequencyEstimate([0.125, 0.5, 0.375])
    assert "largest: value 1: 0.5, value 2: 0.375, value 0: 0.125" in repr(unnamed)
    problem = ldpopt.Problem(losses.LeastSquares(), [constraints.SumsTo(1.0)])
    assert "frequencies  3 values: 0.125, 0.5, 0.375\n" in repr(problem.solve(unnamed))
    named = problem.solve(unnamed.labelled(["cat", "dog", "cow"]))
    assert "frequencies  3 values: cat 0.125, dog 0.5, cow 0.375\n" in repr(named)
    stack = problem.solve(np.full((2, 4), 0.25))
    assert "frequencies  2 trials of 4 values: 0.25, 0.25, 0.25, 0.25, 0.25, …\n" in repr(stack)


def test_without_pandas_a_sentence_names_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingPackageError, match=r"pip install pandas, or use np\.asarray"):
        RAW.to_frame()


class Series:
    """What this library uses of a Series of pandas, which is not installed everywhere."""

    __module__ = "pandas.core.series"
    name = None

    def __init__(self, values, index):
        self.array = values
        self.index = index

    def __array__(self, dtype=None, copy=None):
        return np.array(self.array, dtype=dtype)


class Categorical:
    """The same for a Categorical."""

    __module__ = "pandas.core.arrays.categorical"

    def __init__(self, codes, categories):
        self.codes = codes
        self.categories = categories


def test_a_frame_has_columns_of_equal_length(monkeypatch):
    """Without pandas: what its DataFrame is made of."""
    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=dict))
    frame = RAW.to_frame(level=0.9)
    assert [*frame] == ["label", "frequency", "standard_error", "lower", "upper"]
    assert {len(column) for column in frame.values()} == {4}
    sets = RAW.to_frame({"pets": ["cat", "dog"]})
    assert sets["label"] == ["pets"]
    # Two values whose counts are independent: their variances add up.
    both = np.sqrt((frame["standard_error"][:2] ** 2).sum())
    assert sets["standard_error"][0] == pytest.approx(both, rel=0.02)


def test_objects_of_pandas_bring_their_labels():
    """Without pandas: by what this library looks at."""
    counts = Series([4_300, 3_300, 2_650, 2_600], PETS)
    assert OUE.estimate(counts, 10_000).labels == tuple(PETS)
    assert OUE.estimate(counts, 10_000, labels=list("abcd")).labels == tuple("abcd")
    assert datasets.Dataset.from_pandas(counts).labels == tuple(PETS)
    data = datasets.Dataset.from_pandas(Categorical(np.array([2, 0, 2]), ["cat", "cow", "dog"]))
    assert data.counts.tolist() == [1, 0, 2]
    assert data.labels == ("cat", "cow", "dog")
    with pytest.raises(InvalidInputError, match="user 1 has no value"):
        datasets.Dataset.from_pandas(Categorical(np.array([0, -1]), ["cat", "cow"]))
    with pytest.raises(InvalidTypeError, match="a Series of counts, or a Categorical"):
        datasets.Dataset.from_pandas([1, 2])


def test_a_frame_has_labels_errors_and_intervals():
    pytest.importorskip("pandas", reason="pandas is an optional package")
    frame = RAW.to_frame(level=0.9, selected=2)
    assert [*frame.columns] == ["label", "frequency", "standard_error", "lower", "upper"]
    assert frame["label"].tolist() == PETS
    assert_array_equal(frame["lower"], RAW.interval(0.9, selected=2)[0])
    sets = RAW.to_frame({"pets": ["cat", "dog"]}, level=0.9)
    assert sets["label"].tolist() == ["pets"]
    # Two values whose counts are independent: their variances add up.
    assert sets["standard_error"][0] == pytest.approx(
        np.sqrt((frame["standard_error"][:2] ** 2).sum()), rel=0.02
    )
    assert [*PLAIN.to_frame().columns] == ["label", "frequency"]
    assert PLAIN.to_frame()["label"].tolist() == ["0", "1"]
    with pytest.raises(InvalidInputError, match="to_frame takes one vector"):
        STACK.to_frame()


def test_what_pandas_names_stays_named():
    pd = pytest.importorskip("pandas", reason="pandas is an optional package")
    counts = pd.Series([4_300, 3_300, 2_650, 2_600], index=PETS)
    assert OUE.estimate(counts, 10_000).labels == tuple(PETS)
    assert FrequencyEstimate(counts / 10_000).labels == tuple(PETS)
    assert ldpopt.postprocess(FrequencyEstimate(pd.Series([0.5, 0.6])), "norm").labels is None
    given = OUE.estimate(counts, 10_000, labels=list("abcd"))
    assert given.labels == tuple("abcd")
    data = datasets.Dataset.from_pandas(counts)
    assert data.labels == tuple(PETS)
    assert data.counts.tolist() == counts.tolist()
    values = pd.Categorical(["dog", "cat", "dog"], categories=["cat", "cow", "dog"])
    for users in (values, pd.Series(values, name="pets")):
        data = datasets.Dataset.from_pandas(users)
        assert data.counts.tolist() == [1, 0, 2]
        assert data.labels == ("cat", "cow", "dog")
    assert data.name == "pets"
    missing = pd.Categorical(["dog", None])
    with pytest.raises(InvalidInputError, match="user 1 has no value"):
        datasets.Dataset.from_pandas(missing)
    with pytest.raises(InvalidTypeError, match="a Series of counts, or a Categorical"):
        datasets.Dataset.from_pandas([1, 2])
    assert next(iter(ldpopt.study("base", counts, draws=2).values)).data == "counts"


def test_labels_that_no_font_has_are_named_in_a_picture():
    labels = ["\N{OK HAND SIGN}", "caf\u00e9 $1"]
    picture = FrequencyEstimate([0.25, 0.75], labels=labels).plot()
    # Drawn: a character without a glyph would warn here, and warnings are errors.
    picture.canvas.draw()
    ticks = [tick.get_text() for tick in picture.axes[0].get_yticklabels()]
    assert ticks == ["caf\u00e9 \\$1", "ok hand sign"]
