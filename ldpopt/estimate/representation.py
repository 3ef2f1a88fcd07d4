"""How an estimate shows itself: in one line, as lines of text, and as a table in notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate.noise import Noise
from ldpopt.estimate.shown import largest, names_of, standard_errors
from ldpopt.printable import counted, shortened
from ldpopt.tables import html_of, lines_of

Array = NDArray[np.float64]

_SHOWN = 3  # values that a representation of one line names
_LISTED = 10  # values that a table lists
_LONG_FORM = ("sum", "smallest")  # facts that a representation of one line leaves out


@dataclass(frozen=True, eq=False)
class Representation:
    """What an estimate shows of itself.

    Attributes
    ----------
    frequencies, labels, noise, method, is_raw
        Those of the estimate.
    origin
        The oracle, the budget and n, as far as they are known.
    """

    frequencies: Array
    labels: Sequence[str] | None
    noise: Noise | None
    method: str
    is_raw: bool | None
    origin: Sequence[str]

    @property
    def line(self) -> str:
        """What is known of all values, and the largest of one vector."""
        facts = {name: value for name, value in self._facts.items() if name not in _LONG_FORM}
        if self.frequencies.ndim == 1:
            facts["largest"] = self._largest_in_line
        texts = [f"{name}: {value}" for name, value in facts.items()]
        return f"FrequencyEstimate({'; '.join(texts)})"

    @property
    def text(self) -> str:
        """The largest values as lines of text, below what is known of all."""
        facts = [f"{name}: {value}" for name, value in self._facts.items()]
        if self.frequencies.ndim > 1:
            return "\n".join(facts)
        rows = [[shortened(name), *numbers] for name, *numbers in self._largest(_LISTED)]
        table = lines_of(self._headings, rows)
        return "\n".join([*facts, *table, *self._rest])

    @property
    def html(self) -> str:
        """The largest values as a table, below what is known of all."""
        facts = html_of((), list(self._facts.items()), title="Frequency estimate")
        if self.frequencies.ndim > 1:
            return facts
        return facts + html_of(self._headings, self._largest(_LISTED), self._rest)

    @property
    def _facts(self) -> dict[str, str]:
        """What is shown besides the largest values."""
        *trials, d = self.frequencies.shape
        stack = "".join(f"{counted(size, 'trial')} of " for size in trials)
        sums = self.frequencies.sum(axis=-1)
        facts = {"values": f"{stack}{d:,}"}
        if self.origin:
            facts["reports"] = ", ".join(self.origin)
        if self.method:
            facts["method"] = self.method
        facts["raw"] = {True: "yes", False: "no", None: "not known"}[self.is_raw]
        facts["sum"] = _range(sums.min(), sums.max())
        facts["smallest"] = f"{self.frequencies.min():.4g}"
        if self.noise is not None:
            sd = np.sqrt(self.noise.constant)
            # Of values that nobody has: the smallest number of all, and nearly that of most.
            facts["standard error at 0"] = _range(np.min(sd), np.max(sd))
        return facts

    @property
    def _headings(self) -> list[str]:
        headings = ["value", "frequency"]
        if self.noise is None:
            return headings
        # Processing changes the noise of frequencies, and nobody knows how.
        return [*headings, "standard error" if self.is_raw else "standard error, raw"]

    def _largest(self, number: int) -> list[list[str]]:
        """Return label, frequency and, if it is known, standard error of the largest values."""
        indices = largest(self.frequencies, number)
        columns = [names_of(self.labels, indices)]
        columns.append([f"{value:.4g}" for value in self.frequencies[indices]])
        if self.noise is not None:
            errors = standard_errors(self.frequencies, self.noise, indices)
            columns.append([f"{error:.2g}" for error in errors])
        return [list(row) for row in zip(*columns, strict=True)]

    @property
    def _largest_in_line(self) -> str:
        # Labels may be of any origin and are shown in terminals: their escape sequences must not
        # act there.
        # A number that is no label would read as a frequency.
        before, after = ("value ", ":") if self.labels is None else ("", "")
        values = [
            f"{before}{shortened(label)}{after} {' ± '.join(numbers)}"
            for label, *numbers in self._largest(_SHOWN)
        ]
        if len(self.frequencies) > _SHOWN:
            values.append("…")
        return ", ".join(values)

    @property
    def _rest(self) -> list[str]:
        """A line that counts the values which a table does not list, if there are any."""
        rest = self.frequencies.shape[-1] - _LISTED
        return [f"… {rest:,} more"] if rest > 0 else []


def _range(low: float, high: float) -> str:
    """Return one number for two that look the same."""
    ends = dict.fromkeys((f"{low:.4g}", f"{high:.4g}"))
    return " .. ".join(ends)
