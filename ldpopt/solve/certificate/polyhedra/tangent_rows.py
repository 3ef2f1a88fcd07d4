"""Rows that follow from curved constraints: half-spaces with these sets inside.

A convex h has a gradient k at f, and every s with h(s) <= 0 has

    k·s <= k·f - h(f).

That is a row like any other, and what is proved of all vectors that satisfy the rows holds for the
smaller set too. At a minimum the rows of the constraints that hold there prove all that there is to
prove, with the multipliers of the constraints: no cone program is needed. At a point beside it they
leave what is of second order in the point's error.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import LinearInequalities
from ldpopt.losses.enclosure import Enclosure, enclosures
from ldpopt.solve.certificate.bounds.dual import EPS
from ldpopt.solve.certificate.polyhedra.rows import Held, Rows, StatedRows, Tangents
from ldpopt.solve.programs.program import stacked

Array = NDArray[np.float64]

# With more entries that hold, a program for the cones takes less time: for squares of 64 to 1,024
# single values both take as long where 16 to 24 hold.
_MOST = 16


def with_tangents(stated: StatedRows, held: Held, rows: Rows, f: Array) -> Rows | None:
    """Return the rows, and the tangents of curved inequalities at f as the last ones.

    None where there are no such inequalities, or one of them has no gradient that is known. Cost: a
    few operations of numpy per function in the constraints.

    Parameters
    ----------
    stated
        The constraints on frequencies in their usual unit.
    held
        Those that hold at f, as ``StatedRows.held`` returns them.
    rows
        The linear ones, and bounds of all competitors.
    f
        The point, shape (d,).
    """
    from scipy import sparse

    if not 0 < sum(len(entries) for _, entries in held) <= _MOST:
        return None
    d = len(f)
    reach = np.maximum(rows.limits.upper[:d] - f, f - rows.limits.lower[:d])
    together = _reach_together(rows, f)
    tangents: list[Enclosure] = []
    for form, entries in held:
        of_form = enclosures(form.expr, stated.variable, f, entries.tolist())
        if of_form is None:
            return None
        tangents += of_form
    upper = np.array([_upper_end(tangent, f, reach, together) for tangent in tangents])
    if not np.isfinite(upper).all():
        return None
    slopes = np.zeros((len(tangents), rows.system.matrix.shape[1]))
    slopes[:, :d] = [tangent.gradient for tangent in tangents]
    further = LinearInequalities(sparse.csr_array(slopes), np.full(len(upper), -np.inf), upper)
    system = stacked([rows.system, further], slopes.shape[1])
    places = tuple((form.id, int(entry)) for form, entries in held for entry in entries)
    return rows._replace(system=system, forest=None, tangents=Tangents(stated, places))


def _reach_together(rows: Rows, f: Array) -> float:
    """Return an upper bound of Σ |s_v - f_v| for every s of the set, infinite without a total.

    What all values have above their lower bounds is the total less these.
    """
    lower = rows.limits.lower[: len(f)]
    if not rows.has_total or not np.isfinite(lower).all():
        return np.inf
    above = float(np.abs(f - lower).sum() + rows.system.upper[0] - lower.sum())
    sizes = float(np.abs(f).sum() + 2 * np.abs(lower).sum() + abs(rows.system.upper[0]))
    return above + len(f) * EPS * sizes


def _upper_end(tangent: Enclosure, f: Array, reach: Array, together: float = np.inf) -> float:
    """Return an upper bound of k·s for every s of the set within ``reach`` of f.

    The true gradient differs from k by its errors, which count over the whole reach of each value,
    or the largest of them over what all values move ``together`` at most, if that is less.
    """
    slopes = tangent.gradient
    products = slopes * f
    # Values that nothing bounds may have a slope without an error.
    errors = np.where(tangent.gradient_error > 0, tangent.gradient_error * reach, 0.0)
    # What overflows is no bound.
    with np.errstate(over="ignore", invalid="ignore"):
        of_all = np.max(tangent.gradient_error) * together
        of_slopes = np.fmin(errors.sum(), of_all) + EPS * np.abs(products).sum()
    rounding = tangent.value_error + float(of_slopes) * (1 + 2 * len(f) * EPS)
    try:
        end = math.fsum([*products.tolist(), -tangent.value, rounding])
    except OverflowError:
        return math.inf
    return end + 4 * EPS * (abs(end) + rounding)
