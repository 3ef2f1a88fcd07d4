"""The gradient at a point, of a long vector in one sweep."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.parts import Pick, longest_part, parts_of
from ldpopt.closed_form.rows import is_long
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Loss

if TYPE_CHECKING:
    from ldpopt.solve.certificate.box.box_kernels import Formula

Array = NDArray[np.float64]


class Extent(NamedTuple):
    """What a sweep over a long vector f has seen of its values.

    Attributes
    ----------
    size
        Σ f.
    lowest
        The smallest value where it is negative, 0 elsewhere, and NaN where a value is.
    """

    size: float
    lowest: float


class Swept(NamedTuple):
    """What one sweep over a long vector f knows: its gradient g, to be written to, and g·f."""

    slope: Array
    product: float
    extent: Extent


def slope_of(loss: Loss, start: FrequencyEstimate, point: Array) -> Array:
    """Return the gradient of a loss at f of shape (..., d), in an array that may be written to.

    ``Loss.gradient`` goes through a long vector once per operation. The formulas that ``long_box``
    knows take one compiled sweep, with the same roundings.
    """
    swept = swept_slope(loss, start, point)
    return plain_slope(loss, start, point) if swept is None else swept.slope


def plain_slope(loss: Loss, start: FrequencyEstimate, point: Array) -> Array:
    """Return the gradient as the loss computes it, in an array that may be written to."""
    slope = loss.gradient(point, start)
    # One look, where ``require`` takes as long as a gradient of a thousand values.
    is_usual = slope.flags.carray and slope.dtype == np.float64
    return slope if is_usual else np.require(slope, np.float64, ["C", "W"])


def swept_slope(loss: Loss, start: FrequencyEstimate, point: Array) -> Swept | None:
    """Return the gradient at one long vector, and sums over it, from one compiled sweep.

    None for short vectors, several, other losses, and near an end of the loss's domain.
    """
    sweep = _sweep_of(loss, start, point)
    if sweep is None:
        return None
    slope = np.empty(start.d)
    product, extent = sweep.write(point, slope)
    return Swept(slope, product, extent)


class LongSlopes:
    """The gradient at one long vector f, for sweeps that take it part by part.

    An array of all of it would be written and read back: a part is used while it is in the
    processor's caches.
    """

    def __init__(self, loss: Loss, start: FrequencyEstimate, point: Array) -> None:
        self._point = point
        self._extent: Extent | None = None
        # Losses without a sweep compute all slopes at once.
        self._source = _sweep_of(loss, start, point) or plain_slope(loss, start, point)

    @property
    def extent(self) -> Extent | None:
        """What was seen of f by those who took all parts; None for a loss without a sweep."""
        return self._extent

    def at(self, pick: Pick) -> Array:
        """Return the slopes of the values that a function picks from an array of all."""
        if not isinstance(self._source, _Sweep):
            return pick(self._source)
        values = pick(self._point)
        slope = np.empty(len(values))
        self._source.at(pick).write(values, slope)
        return slope

    def parts(self) -> Iterator[tuple[slice, Array]]:
        """Yield where a part is, and the slopes there, which the next part overwrites."""
        into = np.empty(longest_part(len(self._point)))
        size = 0.0
        lowest = 0.0
        for part, (values,) in parts_of(self._point):
            if not isinstance(self._source, _Sweep):
                yield part, self._source[part]
                continue
            slope = into[: len(values)]
            _, extent = self._source.at(itemgetter(part)).write(values, slope)
            size += extent.size
            lowest = float(np.minimum(lowest, extent.lowest))
            self._extent = Extent(size, lowest)
            yield part, slope


class _Sweep(NamedTuple):
    """A loss whose slopes are those of a formula, times a weight."""

    weight: float
    formula: Formula

    def at(self, pick: Pick) -> _Sweep:
        """Return the sweep over some of the values, which a function picks from all."""
        return self._replace(formula=self.formula.at(pick))

    def write(self, f: Array, into: Array) -> tuple[float, Extent]:
        """Write the slopes at f, and return g·f and what was seen of f."""
        from ldpopt.solve.certificate.box.box_kernels import write_slopes

        product, size, lowest = write_slopes(self.formula, f, into)
        if self.weight != 1:
            into *= self.weight
        return self.weight * product, Extent(size, lowest)


def _sweep_of(loss: Loss, start: FrequencyEstimate, point: Array) -> _Sweep | None:
    """Return how the slopes at one long vector are computed; see ``swept_slope``."""
    if point.ndim > 1 or not is_long(start.d):
        return None
    leaves = [(weight, leaf) for weight, leaf in loss.leaves() if weight > 0]
    if len(leaves) != 1:
        return None
    # Both import numba.
    from ldpopt.solve.certificate.box.box_kernels import LOGARITHMS
    from ldpopt.solve.certificate.box.formulas import Point, formula_of

    ((weight, leaf),) = leaves
    formula = formula_of(leaf, Point(start, point))
    if formula is None or formula.kind == LOGARITHMS:
        return None
    return _Sweep(weight, formula)
