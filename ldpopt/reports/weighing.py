"""What a second pass over reports adds up: weighted support counts at a start, in whole numbers.

Report i has the weight 1/s_i, s_i = 1 + (r-1) Σ f over its support: the more likely a report is at
the start f, the less it says. Weights and frequencies are in fixed point, so that sums do not
depend on the order of reports, on how they are shared out, or on the machine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.immutable import Immutable
from ldpopt.oracles.base import FrequencyOracle
from ldpopt.oracles.bit_information import BitInformation
from ldpopt.oracles.forms import IndexForm, ReportForm, Reports
from ldpopt.reports.exact_sums import ROWS, UNIT, as_floats, fixed, no_sums, with_more

Array = NDArray[np.float64]
Whole = NDArray[np.int64]

_TILE = 1024  # rows at a time: a tile and its weights stay in fast memory
_BITS = 1 << 26  # bits of support held at a time: 8 MB, and work enough for threads that hash


def in_fixed_point(f: Array) -> Whole:
    """Return frequencies on the simplex in fixed point, with the sum ``UNIT``."""
    shares = fixed(f)
    # The largest frequency takes what rounding left over: some 1e-12 of all users.
    shares[np.argmax(shares)] += UNIT - shares.sum()
    return shares


class Weighing(Immutable):
    """The weights of reports at a start, and their sums.

    Parameters
    ----------
    oracle
        The protocol of the reports.
    shares
        The start in fixed point, shape (d,), whole numbers >= 0 with the sum ``UNIT``.
    """

    def __init__(self, oracle: FrequencyOracle, shares: Whole) -> None:
        self.oracle = oracle
        self.shares = shares

    @property
    def start(self) -> Array:
        """The start as frequencies."""
        return self.shares / UNIT

    @property
    def size(self) -> int:
        """The length of a vector of sums."""
        form = self.oracle.report_form
        return form.size if isinstance(form, IndexForm) else self.oracle.d

    def sums(self, reports: Reports, form: ReportForm | None = None) -> Whole:
        """Return the sums of checked reports, shape (2, size), as of ``exact_sums``.

        Reports are held as the oracle makes them, unless another form is given.

        They are Σ 1/s over the reports that support each value, in fixed point; of indices the
        number of reports of each one, since these say all that there is to know.

        Cost: for bits about that of ``support_counts``; for hashes and sets that of their bits
        besides; for indices one pass. Memory: about 0.5 kB per value, and 30 MB, whatever the
        number of reports is.
        """
        held = self.oracle.report_form if form is None else form
        total = no_sums(self.size)
        for first in range(0, len(reports), ROWS):
            total = with_more(total, self._part(reports[first : first + ROWS], held))
        return total

    def mean_weights(self, sums: Whole, n: int) -> tuple[float, float]:
        """Return the mean of 1/s over n reports with these sums, and what it is at the start."""
        information = self.oracle.information(self.start)
        if isinstance(information, BitInformation):
            # Σ f B/s is (1 - 1/s)/(r-1): the sums of all values hold the weights themselves.
            supported = float(self.start @ as_floats(sums)) / (n * UNIT)
            return 1 - information.more * supported, information.powers[0]
        likelihood = information.likelihood
        mean = float(as_floats(sums) @ (1 / likelihood)) / n
        return mean, float(1 / likelihood.mean())

    def _part(self, reports: Reports, form: ReportForm) -> Whole:
        """Return the sums of so few reports that 64 bits hold them."""
        if isinstance(form, IndexForm):
            return form.histogram(reports)
        # Imported here because it loads numba, which only a second pass needs.
        from ldpopt.oracles.bit_kernel import (
            add_values,
            add_weights,
            of_values,
            tables_of,
            words_of,
        )

        d = self.oracle.d
        tables = tables_of(self.shares)
        of_bytes = np.zeros_like(tables)
        block = max(_TILE, _BITS // d)
        for first in range(0, len(reports), block):
            words = words_of(form.support_bits(reports[first : first + block]))
            for start in range(0, len(words), _TILE):
                tile = words[start : start + _TILE]
                supported = np.zeros(len(tile), dtype=np.int64)
                add_values(tile, tables, supported)
                add_weights(tile, self._weights(supported), of_bytes)
        return of_values(of_bytes, d)

    def _weights(self, supported: Whole) -> Whole:
        """Return 1/s of each report, from the start's total over its support."""
        # Elementwise operations of this kind are rounded in one way on every machine.
        likelihood = 1 + (self.oracle.likelihood_ratio - 1) * (supported / UNIT)
        return fixed(1 / likelihood)
