"""One colour, marker and line for every method and solver, in every picture.

All pictures of this library are drawn with it: those of estimates, studies, comparisons, the
papers' figures and the notebooks. ``use()`` turns it on for pictures of one's own, and ``of(name)``
is the look of a method:

>>> from ldpopt import style
>>> style.of("norm-sub")
Look(colour='#0072B2', marker='D', line='-', filled=True)

Every colour has a contrast of at least 3 : 1 on white and on the dark backgrounds of usual
notebooks (WCAG 2.2, success criterion 1.4.11). That leaves little room for lightness: the colours
are those that lie farthest apart within it for readers with any colour vision, and markers and
lines differ as well, so that a grey print can be read too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec

from ldpopt.errors import extra_needed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Line = Literal["-", "--", ":", "-.", ""]
Given = ParamSpec("Given")

SHEET = Path(__file__).with_name("ldpopt.mplstyle")
"""The style sheet, which matplotlib also knows as ``ldpopt.ldpopt``."""

BLUE = "#0072B2"  # of single series too
GREY = "#737373"  # what is raw, and what only accompanies others, such as error bars

# What the sheet leaves open, for pages with a dark background.
_DARK = {
    "figure.facecolor": "#121212",
    "axes.facecolor": "#121212",
    "savefig.facecolor": "#121212",
    "text.color": "#E6E6E6",
    "axes.edgecolor": "#E6E6E6",
    "axes.labelcolor": "#E6E6E6",
    "xtick.color": "#E6E6E6",
    "ytick.color": "#E6E6E6",
}


COLUMNS = 3  # panels beside each other; more would shrink their labels on a page


@dataclass(frozen=True)
class Look:
    """How a method or a solver is drawn.

    Attributes
    ----------
    colour, marker, line
        In matplotlib's words.
    filled
        Whether markers are filled; otherwise they show the background.
    """

    colour: str
    marker: str
    line: Line = "-"
    filled: bool = True

    def options(self) -> dict[str, Any]:
        """Return the look as matplotlib's ``plot`` takes it.

        Examples
        --------
        >>> of("norm-sub").options()["color"]
        '#0072B2'
        """
        import matplotlib as mpl

        return {
            "color": self.colour,
            "marker": self.marker,
            "linestyle": self.line,
            "markerfacecolor": self.colour if self.filled else mpl.rcParams["axes.facecolor"],
        }


METHODS: Mapping[str, Look] = MappingProxyType(
    {
        "base": Look(GREY, "o"),
        "base-pos": Look("#A85400", "^"),
        "post-pos": Look("#4890FC", "v"),
        "base-cut": Look("#00A86C", "<"),
        "norm": Look("#3C783C", "s", "--", filled=False),
        "norm-mul": Look("#D87854", "X"),
        "norm-cut": Look("#CC3054", ">"),
        "norm-sub": Look(BLUE, "D"),
        "norm-hyb": Look("#A8489C", "h", "-.", filled=False),
        "mle-apx": Look("#909000", "P", "--", filled=False),
        "power": Look("#F0609C", "*", "-."),
        "power-ns": Look("#7854D8", "p"),
        "base-zero": Look("#A884CC", "<", ":"),
        "npmle": Look("#A85400", "s", ":", filled=False),
        "npmle-ns": Look("#A85400", "D"),
        "mixture": Look("#00A86C", "o", ":", filled=False),
        "mixture-ns": Look("#00A86C", "p"),
        "auto-ns": Look("#CC3054", "h"),
        # In the words of K, which compares treatments of OUE's estimates alone.
        "oue": Look(GREY, "o"),
        "oue-zero": Look("#A884CC", "<", ":"),
        "oue-calibrate": Look("#CC3054", "*"),
        "oue-calibrate-zero": Look("#7854D8", "s", "--", filled=False),
        # Recovery from poisoning; without known targets it is Norm-Sub, which it is drawn over.
        "ldp-recover": Look("#A85400", "o", "--", filled=False),
        "ldp-recover-targets": Look("#00A86C", "s"),
        "ldp-recover-attack": Look("#A8489C", "^", ":"),
    }
)
"""The looks of methods by name."""

SOLVERS: Mapping[str, Look] = MappingProxyType(
    {
        "CLARABEL": Look("#D87854", "D"),
        "HIGHS": Look("#4890FC", "v"),
        "OSQP": Look(BLUE, "o"),
        "PIQP": Look("#909000", "s"),
        "QOCO": Look("#00A86C", "P"),
        "SCS": Look("#A8489C", "^"),
    }
)
"""The looks of solvers by name; each marker has an inside, which is filled where they failed."""

# Of names without a record: no method or solver above has one of these colours. 7 colours have no
# factor in common with 3 or 11 markers, so that 21 methods, or 77 solvers, have distinct pairs.
_COLOURS = ("#0C9CA8", "#F03CFC", "#A818FC", "#8C6C50", "#5C7CA4", "#D83C00", "#5C7800")
_METHOD_MARKERS = ("d", "H", "8")
_SOLVER_MARKERS = ("o", "s", "^", "v", "D", "P", "X", "<", ">", "p", "h")
_LINES: tuple[Line, ...] = ("-", "--", ":")


def of(name: str) -> Look:
    """Return the look of a method; of a name without a record, a look that no method has.

    Several such names in one picture need ``looks_of``, which tells them apart.

    Examples
    --------
    >>> of("power-ns").colour, of("my method").colour in {look.colour for look in METHODS.values()}
    ('#7854D8', False)
    """
    return looks_of([name])[name]


def looks_of(names: Iterable[str]) -> dict[str, Look]:
    """Return the looks of methods that meet in one picture, in the order given.

    Names without a record have a colour and a marker of their own.

    Examples
    --------
    >>> looks = looks_of(["norm-sub", "mine", "mine too"])
    >>> [(look.colour, look.marker) for look in looks.values()]
    [('#0072B2', 'D'), ('#0C9CA8', 'd'), ('#F03CFC', 'H')]
    """
    return _with_free_looks(names, METHODS, _METHOD_MARKERS)


def solver_looks_of(names: Iterable[str]) -> dict[str, Look]:
    """Return the looks of solvers that meet in one picture, in the order given.

    Examples
    --------
    >>> [(look.colour, look.marker) for look in solver_looks_of(["OSQP", "MOSEK"]).values()]
    [('#0072B2', 'o'), ('#0C9CA8', 'o')]
    """
    return _with_free_looks(names, SOLVERS, _SOLVER_MARKERS)


def _with_free_looks(
    names: Iterable[str], known_looks: Mapping[str, Look], markers: tuple[str, ...]
) -> dict[str, Look]:
    looks = {}
    free = 0
    for name in dict.fromkeys(names):
        if name in known_looks:
            looks[name] = known_looks[name]
            continue
        looks[name] = Look(
            _COLOURS[free % len(_COLOURS)],
            markers[free % len(markers)],
            # Lines change when the colours are used up: a histogram has no markers.
            _LINES[free // len(_COLOURS) % len(_LINES)],
        )
        free += 1
    return looks


def use(*, dark: bool = False) -> None:
    """Draw every further picture of this process in this style.

    Parameters
    ----------
    dark
        Whether the background is dark. Without it the background stays as it is.

    Examples
    --------
    >>> from ldpopt import style
    >>> style.use()  # doctest: +SKIP
    """
    with extra_needed():
        import matplotlib.style

    matplotlib.style.use(_sheets(dark))


@contextmanager
def context(*, dark: bool = False) -> Iterator[None]:
    """Draw pictures in this style within a ``with`` block; the style before comes back after it.

    A figure belongs wholly into the block, its file too: matplotlib makes the ticks at the end.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> with context(dark=True):
    ...     figure = Figure()
    >>> figure.get_facecolor() == Figure().get_facecolor()
    False
    """
    with extra_needed():
        import matplotlib.style

    with matplotlib.style.context(_sheets(dark)):
        yield


def styled(draw: Callable[Given, Figure]) -> Callable[Given, Figure]:
    """Return a drawing function whose figures have this style, on the background of the caller."""

    @wraps(draw)
    def drawn(*args: Given.args, **kwargs: Given.kwargs) -> Figure:
        with context():
            figure = draw(*args, **kwargs)
            for axes in figure.axes:
                _fix_ticks(axes)
        # A notebook shows figures by themselves only once pyplot is imported, and no drawing here
        # needs it: IPython asks any object for this method.
        figure._repr_png_ = partial(_png, figure)  # type: ignore[attr-defined]
        return figure

    return drawn


def _png(figure: Figure) -> bytes:
    """Return a figure as a notebook shows it."""
    picture = BytesIO()
    figure.savefig(picture, format="png", bbox_inches="tight")
    return picture.getvalue()


def _fix_ticks(axes: Axes) -> None:
    """Write the style of ticks and grid into axes, which make them later, outside the context."""
    import matplotlib as mpl

    rc: Mapping[Any, Any] = mpl.rcParams
    grid = {f"grid_{name}": rc[f"grid.{name}"] for name in ("color", "alpha", "linewidth")}
    for axis, name in ((axes.xaxis, "xtick"), (axes.yaxis, "ytick")):
        colours = {"color": rc[f"{name}.color"], "labelcolor": rc["text.color"]}
        axis.set_tick_params(which="both", **grid, **colours)
        # What a drawing has chosen itself stays.
        if "labelsize" not in axis.get_tick_params():
            axis.set_tick_params(which="both", labelsize=rc[f"{name}.labelsize"])


def _sheets(dark: bool) -> list[Any]:
    return [SHEET, _DARK] if dark else [SHEET]


def panels(
    count: int,
    size: Callable[[int, int], tuple[float, float]],
    *,
    sharex: bool = False,
    sharey: bool = False,
) -> tuple[Figure, list[Axes]]:
    """Return a figure with so many panels, line by line, at most three beside each other.

    Parameters
    ----------
    count
        How many, at least one.
    size
        Width and height of the figure in inches, from the numbers of lines and of columns.
    sharex, sharey
        Whether the panels have one axis: then the last panel of each column, and the first one of
        each line, has its ticks.
    """
    from matplotlib.figure import Figure

    columns = min(count, COLUMNS)
    lines = math.ceil(count / columns)
    figure = Figure(figsize=size(lines, columns), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False, sharex=sharex, sharey=sharey)
    places = grid.ravel()
    # Places of the last line that no panel fills; the panels above them are the last ones then.
    for place in range(count, lines * columns):
        places[place].set_visible(False)
        places[place - columns].xaxis.set_tick_params(labelbottom=True)
    return figure, list(places[:count])


def foreground() -> str:
    """Return the colour of text, in which the truth is drawn: black, or white on a dark page."""
    import matplotlib as mpl

    colour: str = mpl.rcParams["text.color"]
    return colour
