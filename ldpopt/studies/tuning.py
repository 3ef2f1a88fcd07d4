"""What tuning returns: the number that was chosen, and the risks of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ldpopt.risks import RiskTable
from ldpopt.tables import html_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Tuning:
    """The result of ``ldpopt.tune``.

    Attributes
    ----------
    value
        The number of the grid with the smallest estimated risk.
    candidate
        What ``build`` made of it: a problem to solve, say.
    table
        The risks of all numbers, the smallest first, with paired differences.
    grid
        The numbers, in the order given.
    """

    value: Any
    candidate: Any
    table: RiskTable
    grid: tuple[Any, ...]

    def to_frame(self) -> Any:
        """Return the risks as a DataFrame of pandas."""
        return self.table.to_frame()

    def plot(self) -> Figure:
        """Return a picture of the risks above the best."""
        return self.table.plot()

    def __repr__(self) -> str:
        return f"chosen: {self.value!r} of {len(self.grid)}\n{self.table}"

    def _repr_html_(self) -> str:
        """Return the table of risks as notebooks show it, below the choice."""
        chosen = html_of((), [("chosen", f"{self.value!r} of {len(self.grid)}")])
        return chosen + self.table._repr_html_()
