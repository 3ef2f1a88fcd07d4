"""Looks of methods and solvers: distinct, and visible on white and on dark pages."""

import pickle
import re

import matplotlib as mpl
import matplotlib.style
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ldpopt import METHODS, FrequencyEstimate, rounds, style
from ldpopt.solve.programs.solvers import SOLVERS
from ldpopt.studies.study_figure import study_figure
from ldpopt.studies.study_rows import StudyRow

# White, and the backgrounds of dark mode in this style, VS Code and the documentation.
PAGES = ("#FFFFFF", "#121212", "#1E1E1E", "#14181E")


def luminance(colour):
    """Return the relative luminance of WCAG 2.2."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(colour, page):
    darker, lighter = sorted((luminance(colour), luminance(page)))
    return (lighter + 0.05) / (darker + 0.05)


def every_colour():
    looks = [*style.METHODS.values(), *style.SOLVERS.values()]
    return sorted({style.BLUE, style.GREY, *style._COLOURS, *(look.colour for look in looks)})


@pytest.mark.parametrize("page", PAGES)
def test_every_line_has_contrast(page):
    assert contrast("#FFFFFF", "#000000") == 21
    assert {c: contrast(c, page) for c in every_colour() if contrast(c, page) < 3} == {}


def test_text_has_contrast_on_the_dark_page():
    text = {value for name, value in style._DARK.items() if "facecolor" not in name}
    assert {contrast(colour, style._DARK["axes.facecolor"]) > 7 for colour in text} == {True}


def test_every_method_has_a_look_of_its_own():
    looks = style.looks_of(METHODS).values()
    assert len({(look.colour, look.marker) for look in looks}) == len(METHODS)


def test_a_method_of_a_user_has_a_colour_and_a_marker_that_no_method_has():
    # A method of the table without a record takes a look that a user's could have.
    names = [f"mine {i}" for i in range(21 - len(set(METHODS) - set(style.METHODS)))]
    looks = style.looks_of([*names, *METHODS])
    assert list(looks) == [*names, *METHODS]
    assert len({(look.colour, look.marker) for look in looks.values()}) == len(looks)
    first = [looks[name] for name in names[:3]]
    for part in ("colour", "marker"):
        assert len({getattr(look, part) for look in first}) == 3
        taken = {getattr(look, part) for look in style.METHODS.values()}
        assert not taken & {getattr(looks[name], part) for name in names}


def test_every_solver_has_a_look_of_its_own():
    assert set(style.SOLVERS) <= set(SOLVERS)
    # A solver of this library without a record takes one of the free looks: 77, and 21 by lines.
    without = len(set(SOLVERS) - set(style.SOLVERS))
    names = [*(f"SOLVER{i}" for i in range(77 - without)), *SOLVERS]
    looks = style.solver_looks_of(names)
    assert list(looks) == names
    assert len({(look.colour, look.marker) for look in looks.values()}) == len(names)
    few = style.solver_looks_of([*SOLVERS, *names[: 21 - without]]).values()
    # Those of a histogram, which has no markers.
    assert len({(look.colour, look.line) for look in few}) == len(few)


def test_every_marker_of_a_solver_can_be_filled():
    for look in style.solver_looks_of([*SOLVERS, *(f"SOLVER{i}" for i in range(11))]).values():
        assert look.marker in Line2D.filled_markers


def test_a_known_solver_looks_the_same_in_every_picture():
    others = ["MOSEK", "SCS", "OSQP"]
    assert style.solver_looks_of(["NEW", "OSQP"])["OSQP"] == style.solver_looks_of(others)["OSQP"]
    assert style.solver_looks_of(["OSQP", "OSQP", "SCS"]).keys() == {"OSQP", "SCS"}


def test_the_sheet_is_matplotlibs_own_and_has_the_colours_of_the_methods():
    with mpl.style.context("ldpopt.ldpopt"):
        cycle = [
            to_hex(colour).upper() for colour in mpl.rcParams["axes.prop_cycle"].by_key()["color"]
        ]
    assert set(cycle) == {look.colour for look in style.METHODS.values()}
    assert cycle[0] == style.of("norm-sub").colour
    # What the sheet does not set, the page keeps.
    assert not re.search(r"facecolor|text\.color", style.SHEET.read_text(encoding="utf-8"))


def test_use_changes_the_pictures_of_a_process(monkeypatch):
    with mpl.rc_context():
        style.use(dark=True)
        assert mpl.rcParams["axes.facecolor"] == "#121212"
        assert style.foreground() == "#E6E6E6"
        assert style.of("norm").options()["markerfacecolor"] == "#121212"
    assert style.foreground() == "black"
    assert style.of("norm").options()["markerfacecolor"] == "white"


def rounds_of_two_days():
    days = [FrequencyEstimate([share, 1 - share], noise=[0.01, 0.01]) for share in (0.5, 0.6)]
    return rounds(days, drift=0.0)


def test_a_styled_figure_keeps_its_style_when_it_is_drawn_later():
    @style.styled
    def draw():
        figure = Figure()
        figure.subplots().plot([1, 2], [1, 2])
        return figure

    figure = draw()
    figure.draw_without_rendering()
    axes = figure.axes[0]
    tick = axes.xaxis.get_major_ticks()[0]
    assert tick.label1.get_fontsize() == 8
    assert tick.gridline.get_alpha() == 0.25
    assert not axes.spines["top"].get_visible()


def test_a_notebook_shows_a_figure_although_nobody_has_imported_pyplot():
    formatters = pytest.importorskip("IPython.core.formatters")
    figure = rounds_of_two_days().plot([0])
    shown, _ = formatters.DisplayFormatter().format(figure)
    assert shown["image/png"].startswith(b"\x89PNG")
    # A figure that has been through a pickle, as results of workers have, shows itself too.
    assert pickle.loads(pickle.dumps(figure))._repr_png_().startswith(b"\x89PNG")


def test_pictures_of_a_study_are_dark_on_a_dark_page():
    row = StudyRow("a", 9, 2, "oue", 1.0, "values", "mse", "", "base", 2, *[1.0] * 7)
    with style.context(dark=True):
        figure = study_figure([row], ["base"], "base", None, level=0.95)
    assert to_hex(figure.get_facecolor()) == "#121212"
    assert figure.axes[0].xaxis.get_tick_params()["labelcolor"] == "#E6E6E6"
