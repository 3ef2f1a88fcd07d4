"""What a comparison returns: its rows as a table in text, CSV, and a picture."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ldpopt.errors import extra_needed
from ldpopt.storage import write_whole
from ldpopt.studies.comparison_rows import ComparisonRow, notes_of, to_csv
from ldpopt.tables import data_frame, html_of, lines_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Comparison:
    """Paths and solvers on problems of one estimate: the result of ``ldpopt.compare``.

    Attributes
    ----------
    rows
        Problem by problem: the library's own path, then each solver at each accuracy.
    """

    rows: tuple[ComparisonRow, ...]

    def to_csv(self, path: str | Path | None = None) -> str:
        """Return the rows as CSV, and write them to a file if one is given."""
        text = to_csv(self.rows)
        if path is not None:
            write_whole(Path(path), text.encode())
        return text

    def to_frame(self) -> Any:
        """Return the rows as a DataFrame; the error of a missing pandas names the remedy."""
        return data_frame([asdict(row) for row in self.rows], "to_csv")

    def plot(self) -> Figure:
        """Return a picture of inexactness against time, a panel per problem."""
        # Matplotlib is an extra: without it the error names what to install.
        with extra_needed():
            from ldpopt.studies.comparison_figure import draw_comparison

        return draw_comparison(self.rows)

    def __repr__(self) -> str:
        lines = lines_of(_HEADINGS, [_texts(row) for row in self.rows])
        return "\n".join([*lines, *self._notes()])

    def _repr_html_(self) -> str:
        """Return the rows as notebooks show them."""
        rows = [_texts(row) for row in self.rows]
        return html_of(_HEADINGS, rows, self._notes(), title="Paths and solvers")

    def _notes(self) -> list[str]:
        return [f"{names} on {row.problem}: {row.note}" for row, names in notes_of(self.rows)]


_HEADINGS = (
    *("problem", "solver", "setting", "status", "difference", "gap", "violation"),
    *("compile s", "solve s", "iterations"),
)


def _texts(row: ComparisonRow) -> list[str]:
    # All others are compared with this point, whose own difference is 0 and says nothing.
    difference = "reference" if row.is_reference else _short(row.difference)
    return [
        row.problem,
        row.solver,
        row.accuracy,
        row.status,
        difference,
        _short(row.gap),
        _short(row.violation),
        _short(row.compile_seconds),
        _short(row.seconds),
        "–" if row.iterations is None else str(row.iterations),
    ]


# Two digits: accuracies and times are compared by their size.
def _short(number: float | None) -> str:
    return "–" if number is None else f"{number:.2g}"
