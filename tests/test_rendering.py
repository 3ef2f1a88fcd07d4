"""Pictures and tables show everything they are given, whole and apart."""

import io
import math
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from rich.console import Console

import ldpopt
from ldpopt import oracles, style
from ldpopt.claims import LEDGER
from ldpopt.claims.engine.agreement import Agreement, SolverRecord
from ldpopt.claims.engine.claim import Finding, Verdict
from ldpopt.claims.engine.run import Result
from ldpopt.estimate import Shown
from ldpopt.estimate.figure import estimate_figure
from ldpopt.estimate.shown import interval_notes
from ldpopt.rendering import agreement_figure as agreements
from ldpopt.rendering import comparison_figure as comparisons
from ldpopt.rendering.audit_table import audit_table
from ldpopt.rendering.claims_page import claims_page
from ldpopt.rendering.claims_table import claims_summary, claims_table
from ldpopt.rendering.comparison_table import comparison_notes, comparison_table
from ldpopt.rendering.estimate_table import estimate_table
from ldpopt.risks.figure import risk_figure
from ldpopt.solve.programs.solvers import SOLVERS
from ldpopt.solve.status import ACCURACIES
from ldpopt.studies.comparison import CASES
from ldpopt.studies.comparison_rows import ComparisonRow
from ldpopt.studies.study_figure import study_figure
from ldpopt.style import solver_looks_of

SEVEN = ["CLARABEL", "OSQP", "QOCO", "SCS", "PIQP", "HIGHS", "SCIPY"]
TWENTY = [*SEVEN, *(f"SOLVER{i}" for i in range(13))]


def printed(*parts, width=80, **options):
    screen = Console(width=width, file=io.StringIO(), **options)
    screen.print(*parts)
    return screen.file.getvalue()


@pytest.fixture
def figure_of(monkeypatch):
    """Return the figure that a function draws instead of its bytes."""

    def of(module, *arguments):
        figures = []
        monkeypatch.setattr(module, "figure_bytes", lambda figure, *_: figures.append(figure))
        getattr(module, module.__name__.rpartition(".")[2])(*arguments)
        (figure,) = figures
        FigureCanvasAgg(figure).draw()
        return figure

    return of


def row(solver, accuracy="high", status="optimal", **numbers):
    numbers = {"seconds": 0.01, "gap": 1e-9, "violation": 0.0} | numbers
    return ComparisonRow("CLS", 8, "conic", solver, accuracy, status, **numbers)


CLOSED = ComparisonRow(
    "CLS", 8, "closed-form", "norm-sub", "", "optimal", seconds=0.0013, gap=0.0, violation=0.0
)


# --- the picture of a comparison ------------------------------------------------------------------


@pytest.mark.parametrize("solvers", [SEVEN, TWENTY], ids=["seven", "twenty"])
def test_the_picture_shows_every_solver_and_names_it(solvers, figure_of):
    rows = [CLOSED, *(row(name, seconds=0.01 * i) for i, name in enumerate(solvers, 1))]
    figure = figure_of(comparisons, rows)
    (axes,) = figure.axes
    # One line per solver joins its accuracies, and each accuracy has a marker.
    places = {
        tuple(np.ravel(line.get_data())) for line in axes.lines if line.get_marker() != "None"
    }
    assert places == {(r.seconds, max(r.gap, 1e-18)) for r in rows}
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["closed form", *solvers, "accuracy high"]
    box = legend.get_window_extent()
    assert box.y0 >= 0
    assert box.y1 <= figure.bbox.height


def test_the_legend_shows_the_looks_of_the_picture(figure_of):
    figure = figure_of(comparisons, [row(name) for name in SEVEN])
    drawn = [
        (line.get_marker(), to_rgba(line.get_color()))
        for line in figure.axes[0].lines if line.get_marker() != "None"
    ]  # fmt: skip
    named = [
        (handle.get_marker(), to_rgba(handle.get_color()))
        for handle in figure.legends[0].legend_handles[: len(SEVEN)]
    ]
    assert drawn == named


def test_a_solver_without_a_point_is_listed_in_its_panel(figure_of):
    missing = {"seconds": None, "gap": None, "violation": None}
    rows = [
        CLOSED,
        row("SCS", "low"),
        row("SCS", "high", "failed", **missing),
        row("OSQP", "low", "unsupported", **missing),
        row("OSQP", "high", "unsupported", **missing),
    ]
    axes = figure_of(comparisons, rows).axes[0]
    assert axes.get_title() == "CLS, d = 8"
    (note,) = axes.texts
    assert note.get_text() == "no point: SCS failed at high; OSQP unsupported"
    assert note.get_window_extent().y1 <= axes.title.get_window_extent().y0


def test_an_inaccurate_solution_has_a_filled_marker(figure_of):
    figure = figure_of(comparisons, [row("SCS", "low", "inaccurate"), row("SCS", "high")])
    filled = [
        line.get_markerfacecolor() != "none"
        for line in figure.axes[0].lines if line.get_marker() != "None"
    ]  # fmt: skip
    assert filled == [True, False]
    assert figure.legends[0].get_texts()[-1].get_text() == "inaccurate"


def test_an_infinite_gap_is_drawn_a_decade_above_the_others(figure_of):
    figure = figure_of(comparisons, [row("SCS", gap=-1e-3), row("OSQP", gap=math.inf)])
    axes = figure.axes[0]
    heights = [line.get_ydata()[0] for line in axes.lines if line.get_marker() != "None"]
    assert heights == pytest.approx([1e-3, 1e-2])
    assert "infinite at 1e-02" in axes.get_ylabel()
    assert all(axes.get_ylim()[0] < height < axes.get_ylim()[1] for height in heights)


def test_the_larger_of_gap_and_violation_counts_and_zero_is_drawn_at_the_edge(figure_of):
    rows = [row("SCS", gap=1e-9, violation=1e-4), row("OSQP", gap=0.0, violation=0.0, seconds=0.0)]
    axes = figure_of(comparisons, rows).axes[0]
    places = [np.ravel(line.get_data()) for line in axes.lines if line.get_marker() != "None"]
    assert np.array_equal(places, [[0.01, 1e-4], [1e-7, 1e-18]])
    assert "1e-18" in axes.get_ylabel()


def test_four_problems_take_two_lines_of_panels(figure_of):
    rows = [replace(row("SCS"), d=d) for d in (8, 16, 32, 1024)]
    axes = figure_of(comparisons, rows).axes
    assert [panel.get_title() for panel in axes if panel.get_visible()] == [
        f"CLS, d = {d}" for d in ("8", "16", "32", "1,024")
    ]
    assert [bool(panel.get_ylabel()) for panel in axes[:4]] == [True, False, False, True]


@pytest.mark.parametrize("span", [1.02, 1.5, 3.0, 8.0, 20.0, 50.0, 99.0, 1e3, 1e5])
def test_markers_grow_with_the_accuracy_and_labels_do_not_overlap(span, figure_of):
    rows = [CLOSED, *(row("OSQP", name, seconds=0.0013 * span) for name in ACCURACIES)]
    figure = figure_of(comparisons, rows)
    named = [text.get_text() for text in figure.legends[0].get_texts()]
    assert named == ["closed form", "OSQP", *(f"accuracy {name}" for name in ACCURACIES)]
    axes = figure.axes[0]
    look = solver_looks_of(["OSQP"])["OSQP"]
    sizes = [line.get_markersize() for line in axes.lines if line.get_marker() == look.marker]
    assert sizes == sorted(set(sizes))
    assert len(sizes) == len(ACCURACIES)
    low, high = axes.get_xlim()
    labels = axes.xaxis.get_ticklabels(which="both")
    places = [*axes.xaxis.get_majorticklocs(), *axes.xaxis.get_minorticklocs()]
    shown = sorted(
        label.get_window_extent().intervalx.tolist()
        for label, x in zip(labels, places, strict=True) if low <= x <= high and label.get_text()
    )  # fmt: skip
    assert len(shown) >= 2
    assert all(left[1] < right[0] for left, right in pairwise(shown))


# --- the picture of an agreement ------------------------------------------------------------------


def test_the_agreement_shows_every_solver_and_every_difference(figure_of):
    closed = np.array([0.5, 0.5, 0.0])
    differences = np.array([0.0, 1e-9, 0.3])
    record = SolverRecord(closed=closed, solved=closed + differences)
    agreement = Agreement(solvers=dict.fromkeys(TWENTY, record))
    scatter, histogram = figure_of(agreements, agreement).axes
    assert [text.get_text() for text in scatter.get_legend().get_texts()] == TWENTY
    assert len(scatter.lines) == 1 + len(TWENTY)  # the diagonal
    assert "up to 3 values per solver" in scatter.get_title()
    points = scatter.lines[1]
    assert points.get_xdata() == pytest.approx([0.5, 0.5, 1e-12])
    assert points.get_ydata() == pytest.approx([0.5, 0.5, 0.3])
    outline = histogram.patches[0].get_xy()
    counted = sum(outline[1:-1:2, 1])
    assert counted == 3  # a difference of 0 and one beyond the last bin included


# --- the picture of an estimate -------------------------------------------------------------------

ABOUT = {"method": "norm-sub", "oracle": "oue", "epsilon": 0.5, "n": 1234, "interval": 0.999}


def shown_of(d, number=40, **changes):
    frequencies = np.array([((7 * i) % d) / d for i in range(d)])
    indices = np.argsort(-frequencies)[:number]
    top = frequencies[indices]
    names = [f"${i}$" for i in indices]
    return replace(Shown(names, top, d, top - 0.01, top + 0.02), **changes)


def drawn(*arguments):
    figure = estimate_figure(*arguments)
    figure.draw_without_rendering()
    return figure


def test_the_picture_of_an_estimate_shows_the_largest_values():
    notes = ("Intervals of 99.9 % confidence.", "one word " * 14)
    shown = shown_of(101, notes=notes)
    axes = drawn(shown, "values", "norm-sub, OUE", "norm-sub").axes[0]
    (points,) = axes.lines
    assert points.get_xdata().tolist() == shown.frequencies.tolist()
    assert points.get_color() == style.of("norm-sub").colour
    assert axes.figure.get_suptitle() == "the 40 largest of 101 values: norm-sub, OUE"
    assert axes.get_yticklabels()[0].get_text() == rf"\${shown.names[0][1:-1]}\$"
    (intervals,) = axes.collections
    first = intervals.get_segments()[0][:, 0]
    assert first == pytest.approx([100 / 101 - 0.01, 100 / 101 + 0.02])
    below = axes.figure.get_supxlabel().splitlines()
    assert below == [notes[0], ("one word " * 11).strip(), ("one word " * 3).strip()]
    low, high = axes.get_ylim()
    assert low > high  # the largest is on top


def test_notes_say_what_intervals_promise_and_why_points_lie_outside():
    shown = shown_of(50, 20)
    (alone,) = interval_notes(shown, 0.95, 0.95, simultaneous=False)
    assert alone == "Each interval has a level of 95 %."
    (selected,) = interval_notes(shown, 0.95, 0.98, simultaneous=False)
    assert selected.startswith("Each interval has a level of 98 %: values are shown because")
    assert "at most 5 % of those shown are expected to miss" in selected
    (joint,) = interval_notes(shown, 0.95, 0.98, simultaneous=True)
    assert joint.endswith("hold at once at a level of 95 %.")
    shown.upper[0] = shown.frequencies[0]
    shown.lower[3] = shown.frequencies[3]
    _, outside = interval_notes(shown, 0.95, 0.98, simultaneous=False)
    assert outside.startswith("Points at an end of their interval or outside: 2 of 20. Post-")
    # The frequency of the empty set is known: its interval is that point.
    shown.lower[5] = shown.upper[5] = shown.frequencies[5]
    assert interval_notes(shown, 0.95, 0.98, simultaneous=False)[1] == outside


def test_a_value_at_the_end_of_all_frequencies_is_not_outside_its_interval():
    names = ["all", "nearly all", "some", "none"]
    frequencies = np.array([1.0, 0.9, 0.1, 0.0])
    shown = Shown(
        names, frequencies, 4, np.array([0.8, 0.7, 0.1, 0.0]), np.array([1.0, 0.9, 0.2, 0.3])
    )
    _, outside = interval_notes(shown, 0.95, 0.95, simultaneous=False)
    assert outside.startswith("Points at an end of their interval or outside: 2 of 4. Post-")


def test_long_labels_leave_room_for_the_picture():
    shown = Shown(["a" * 40, "b" * 41], np.array([0.7, 0.3]), 2)
    axes = drawn(shown, "values", "norm-sub", "norm-sub").axes[0]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["a" * 40, "b" * 39 + "…"]
    assert axes.get_window_extent().width > axes.figure.bbox.width / 3
    title = axes.figure._suptitle.get_window_extent()
    assert 0 < title.x0 < title.x1 < axes.figure.bbox.width


LONG = (
    "LeastSquares() under NonNegative(), SumsTo(1), Bounds(-inf, <2 values>), Monotone(<3 values>)"
)


def pictures_with_long_names():
    excess = np.array([[0, 0, 0], [1e-3, -1e-4, 2e-3]])
    yield risk_figure(["norm-sub", LONG], excess, "Risk of 6 values, by Stein's unbiased estimate")
    shown = Shown(["a" * 40, "b"], np.array([0.5, 0.25]), 3)
    yield estimate_figure(shown, "values", f"{LONG}, OLH, ε = 1, n = 13,510", LONG)
    labels = ["short", "a word " * 6, "b"]
    raw = oracles.OUE(1.0, 3).estimate([50, 40, 45], 100, labels=labels)
    yield ldpopt.rounds([raw, raw], independent=True).plot(labels)
    numbers = {"metric": "mse", "mean": 1.0, "low": 0.9, "high": 1.1}
    ratios = {"ratio": 1.0, "ratio_low": 0.9, "ratio_high": 1.1}
    place = {"data": "a data set with a long name", "oracle": "oue", "query": "full domain"}
    rows = [
        SimpleNamespace(candidate=LONG, epsilon=1.0, parameter="", **numbers, **ratios, **place)
    ]
    yield study_figure(rows, [LONG], LONG, None, level=0.95)


def test_long_names_stay_within_the_picture():
    for picture in pictures_with_long_names():
        picture.draw_without_rendering()
        inside = picture.get_tightbbox()
        width, height = picture.get_size_inches()
        assert 0 <= inside.x0 < inside.x1 <= width
        assert 0 <= inside.y0 < inside.y1 <= height


def test_the_picture_of_one_value_says_which_it_is():
    figure = drawn(shown_of(101, 1), "values", "norm-sub", "norm-sub").axes[0].figure
    assert figure.get_suptitle() == "the largest of 101 values: norm-sub"


def test_the_picture_of_a_small_estimate_says_that_it_shows_all():
    axes = drawn(shown_of(40), "values", "norm-sub", "").axes[0]
    assert axes.figure.get_suptitle() == "all values: norm-sub"
    assert axes.get_legend() is None


# --- tables ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("accuracies", [("high",), tuple(ACCURACIES)], ids=["one", "three"])
def test_the_table_of_a_comparison_shows_whole_numbers_in_eighty_columns(accuracies):
    def row_of(problem, solver, status, accuracy="", scale=1.0):
        return ComparisonRow(
            problem,
            10_000_000,
            "",
            solver,
            accuracy,
            status,
            first_seconds=1.0,
            compile_seconds=1.234e-5,
            seconds=1.87e-5,
            slowdown=987_654.4 * scale,
            difference=1.87e-12,
            gap=-1.87e-12,
            violation=1.87e-12,
        )

    rows = []
    for case in CASES.values():
        rows.append(row_of(case.label, "multinomial-mle", "optimal"))
        for solver in [*SOLVERS, "ECOS_BB", "GLPK_MI", "MOSEK", "SCIPY"]:
            for name in accuracies:
                rows.append(row_of(case.label, solver, "inaccurate", name, scale=50))
            rows.append(
                ComparisonRow(case.label, 10**7, "conic", solver, accuracies[0], "unsupported")
            )
    text = printed(comparison_table(rows, 80))
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    error = "1.9e-12" if len(accuracies) == 1 else "2e-12"
    lines = [line for line in text.splitlines() if "inaccurate" in line]
    solvers = len(SOLVERS) + 4
    assert len(lines) == len(CASES) * solvers * len(accuracies)
    for line in lines:
        assert line.split()[-5:] == ["1.9e-05", "4.9e+07", error, f"-{error}", error]
        assert len(accuracies) == 1 or line.split()[1] in accuracies
    wide = printed(comparison_table(rows, 100), width=100)
    assert wide.count("1.2e-05") == len(CASES) * (1 + solvers * len(accuracies))
    assert wide.count("d=10,000,000") == len(CASES)
    # Fewer columns have no times, and the solvers' names still.
    narrow = printed(comparison_table(rows, 56), width=56)
    assert "…" not in narrow
    assert "repeat s" not in narrow
    assert narrow.count("CLARABEL") == len(CASES) * (1 + len(accuracies))
    # The library's own choice may be a solver that is named in another row as well.
    assert wide.count("auto: multinomial-mle") == len(CASES)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "–"),
        (0.0, "0"),
        (0.01, "0.01"),
        (0.00999, "1.0e-02"),
        (-99.4, "-99"),
        (100.0, "100"),
        (999_999.0, "999,999"),
        (1e6, "1.0e+06"),
        (math.inf, "inf"),
    ],
)
def test_numbers_of_the_table_are_plain_where_that_is_short(number, text):
    shown = printed(comparison_table([row("SCS", gap=number)]))
    assert shown.splitlines()[-2].split()[-2] == text


def test_a_note_says_which_solver_failed_where_and_why():
    rows = [row("SCS"), row("OSQP"), row("OSQP", "low", "failed", note="no point")]
    rows += [row("QOCO", accuracy, "failed", note="no point") for accuracy in ("low", "high")]
    assert comparison_notes(rows) == ["OSQP at low; QOCO on CLS, d = 8: no point"]


FINDINGS = {
    Verdict.PROVED: Finding(True, 1234, {}, proof="Simplex.v: cls"),
    Verdict.HOLDS: Finding(True, 1234, {}),
    Verdict.CORRECTED: Finding(False, 1234, {}, corrected=True),
    Verdict.FAILS: Finding(False, 1234, {}),
    Verdict.INCONCLUSIVE: Finding(None, 1234, {}),
    Verdict.UNCHECKED: Finding(None, 1234, {}, missing="the data"),
}


def result_of(expected, actual):
    claim = replace(LEDGER["oue-flip"], expected=expected)
    return Result(claim, FINDINGS[actual], 0.13)


def test_only_a_surprise_is_red():
    def coloured(*parts):
        return printed(*parts, force_terminal=True, color_system="standard")

    def shown(expected, actual):
        results = [result_of(expected, actual)]
        return coloured(claims_table(results), claims_summary(results))

    red = "31m"
    assert all(red not in shown(verdict, verdict) for verdict in Verdict)
    assert shown(Verdict.HOLDS, Verdict.FAILS).count(red) >= 3
    green = "32m"
    unknown = (Verdict.INCONCLUSIVE, Verdict.UNCHECKED)
    assert green in coloured(claims_table([result_of(Verdict.HOLDS, Verdict.HOLDS)]))
    for verdict in unknown:
        assert green not in coloured(claims_table([result_of(verdict, verdict)]))
    surprise = claims_summary([result_of(Verdict.FAILS, Verdict.HOLDS)])
    assert surprise.endswith("not what the ledger expects:[/] oue-flip")


def test_every_verdict_is_counted():
    summary = claims_summary([result_of(verdict, verdict) for verdict in Verdict])
    assert "6 claims: " in summary
    assert all(f"1 {verdict}" in summary for verdict in Verdict)


def test_the_ledger_has_verdict_size_and_seconds_of_every_claim():
    text = printed(claims_table([result_of(Verdict.HOLDS, Verdict.HOLDS)]))
    assert "oue-flip" in text
    assert "as expected" in text
    assert "1,234" in text
    assert "0.1" in text


def test_the_table_of_an_estimate_shows_the_largest_and_says_that_there_are_more():
    names = [f"[v{i}]" for i in range(20)]
    text = printed(estimate_table(shown_of(101, 20, names=names), "value", ABOUT))
    assert "norm-sub, oue, epsilon = 0.5, n = 1,234" in text
    assert "the 20 largest of 101 values; --top shows more, --out writes all" in text
    sets = printed(estimate_table(shown_of(101, 1), "set", ABOUT))
    assert "the largest of 101 sets; --top shows more, --answers writes all" in sets
    assert "0.99010" in text.splitlines()[4]
    assert "[v" in text.splitlines()[4]
    assert sum("[v" in line for line in text.splitlines()) == 20
    assert "largest of" not in printed(estimate_table(shown_of(20), "value", ABOUT))


def test_the_table_of_an_audit_says_what_passed():
    share = {"low": 0.25, "high": 0.5, "expected": 0.3}
    audit = SimpleNamespace(
        oracle=SimpleNamespace(epsilon=1.0, d=1024),
        loss=1.0,
        reports=SimpleNamespace(reports=2000, pair=(3, 5), lower=1.25, passed=False),
        own=SimpleNamespace(**share, passed=True),
        other=SimpleNamespace(**share, passed=False),
    )
    lines = printed(audit_table(audit)).splitlines()
    text = "\n".join(lines)
    assert "ε = 1, d = 1,024" in text
    assert "2,000 reports each of 3 and 5" in text
    last_words = [word for line in lines for word in line.split()[-1:]]
    outcomes = [word for word in last_words if word in ("passed", "failed")]
    assert outcomes == ["passed", "failed", "passed", "failed"]
    assert "0.25000 .. 0.50000" in text
    audit.loss = 1.0 - 1e-12
    assert "ε - 1.0e-12" in printed(audit_table(audit))
    audit.loss = 1.0 + 1e-12
    (exact,) = (line for line in printed(audit_table(audit)).splitlines() if "exactly" in line)
    assert exact.split()[-2:] == ["1.000000000001", "failed"]


# --- the page of claims ---------------------------------------------------------------------------


def test_the_page_names_surprises_and_shows_them_in_red():
    expected = result_of(Verdict.HOLDS, Verdict.HOLDS)
    page = claims_page([expected])
    assert "All 1 verdicts are as the ledger" in page
    assert 'class="verdict holds"' in page
    assert "<strong>expected" not in page
    page = claims_page([expected, result_of(Verdict.HOLDS, Verdict.FAILS)])
    assert "Not as the ledger expects: 1 of 2" in page
    assert 'class="verdict fails surprise"' in page
    assert "<strong>expected holds</strong>" in page
    page = claims_page([result_of(Verdict.UNCHECKED, Verdict.UNCHECKED)])
    assert 'class="verdict cannot-be-checked-here">cannot be checked here<' in page


def test_the_page_shows_evidence_pictures_and_versions():
    evidence = {"a share": 1 / 3, "vectors": 12_345, "in words": "x" * 41, "a word": "<b>"}
    agreement = Agreement(solvers={"SCS": SolverRecord(closed=np.ones(1), solved=np.ones(1))})
    finding = Finding(True, 2, evidence, agreement=agreement)
    page = claims_page([Result(LEDGER["oue-flip"], finding, 0.1)])
    assert "<td>0.3333</td>" in page
    assert "<td>12,345</td>" in page
    assert f"<td>{'x' * 41}</td>" in page
    assert "<td>&lt;b&gt;</td>" in page
    assert page.count("data:image/png;base64,") == 1
    assert f"numpy {np.__version__}" in page
    assert "clarabel " in page
