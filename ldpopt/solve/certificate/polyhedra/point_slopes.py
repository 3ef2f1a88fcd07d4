"""The slope that multipliers leave at the point itself, whichever program they are from.

A proof may count elsewhere: at a tangent beside the point, or in the auxiliary variables of a
program that cvxpy compiles. There the multipliers of an inexact point explain nearly all, while at
the point the gradient of the loss differs by the second derivatives times the point's error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.solve.certificate.bounds.evidence import Explanation
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.polyhedra.rows import Rows, RowsOfTrials

Array = NDArray[np.float64]


_SMOOTH = frozenset(
    {
        "Power",
        "exp",
        "logistic",
        "log_sum_exp",
        "entr",
        "kl_div",
        "rel_entr",
        "huber",
        "quad_over_lin",
        "QuadForm",
    }
)
"""Functions of cvxpy that have a gradient wherever it knows one."""


class Place(NamedTuple):
    """A point, and what is around it.

    Attributes
    ----------
    gradient, f
        The gradient of the loss, and the point, shape (d,).
    bounds
        The bounds that have multipliers.
    rows, source
        The linear constraints, and where they come from, with the curved ones.
    """

    gradient: Array
    f: Array
    bounds: Box
    rows: Rows
    source: RowsOfTrials


def at_point(place: Place, explain: Callable[[], Explanation], gap: Array) -> Explanation:
    """Return an explanation whose ``stationarity`` is that of the Lagrangian's gradient at f.

    Parameters
    ----------
    place
        The point.
    explain, gap
        Returns the multipliers of one trial, and what they prove.

    Returns
    -------
    The explanation as it is where a curved constraint has auxiliary variables, or a kink at f: then
    ``stationarity`` counts where the proof does.
    """
    f = place.f
    rows = place.rows
    explanation = explain()
    curved: Array | float | None = 0.0
    if place.source.curved:
        curved = _slopes_of_curved(place.source, explanation.of_curved, f)
    if curved is None:
        return explanation
    multipliers = rows.joined(explanation.sum_multiplier, explanation.row_multipliers)
    price = rows.system.matrix.T @ multipliers
    wanted = place.gradient + curved - price[: len(f)]
    share, products = _of_bounds(wanted, f, place.bounds)
    # What is nearly at its bound, as in a divergence's ball, may have any slope towards it. Farther
    # away a multiplier would cost more than the proof leaves, and its slope is left.
    is_free = ~(products <= np.fmax(gap, explanation.complementarity))
    share = np.where(is_free, explanation.bound_multipliers, share)
    # Auxiliary variables of linear constraints have no slope of their own.
    left = np.max(np.abs(np.append(wanted - share, price[len(f) :])))
    largest = np.max(products, where=~is_free, initial=0.0)
    return explanation._replace(
        stationarity=np.asarray(left),
        complementarity=np.maximum(explanation.complementarity, largest),
        bound_multipliers=share,
    )


def _of_bounds(wanted: Array, f: Array, bounds: Box) -> tuple[Array, Array]:
    """Return the part of slopes that bounds in their way explain, and products with distances."""
    falls = wanted > 0
    end = np.where(falls, bounds.lower, bounds.upper)
    share = np.where(np.isfinite(end), wanted, 0.0)
    distance = np.where(np.isfinite(end), np.abs(f - end), 0.0)
    return share, np.abs(share) * distance


def _slopes_of_curved(source: RowsOfTrials, duals: tuple[Any, ...], f: Array) -> Array | None:
    """Return Σ y ∇h of the curved constraints h(f) <= 0, or None where no gradient is known."""
    import cvxpy as cp

    stated = source.stated_in(1.0)
    result = np.zeros(len(f))
    # cvxpy evaluates at the value of a variable.
    stated.variable.save_value(f)
    for forms, of_forms in zip(stated.of_curved, duals, strict=True):
        for form, dual in zip(forms, of_forms, strict=True):
            # A multiplier of 0 counts nothing, whatever the slope.
            if not np.any(dual):
                continue
            if not isinstance(form, cp.constraints.Inequality | cp.constraints.Equality):
                return None
            if any(one.id != stated.variable.id for one in form.variables()):
                return None
            if not _is_smooth(form.expr):
                return None
            with np.errstate(all="ignore"):
                slopes = form.expr.grad[stated.variable]
            if slopes is None:
                return None
            dense = slopes.toarray() if hasattr(slopes, "toarray") else np.asarray(slopes)
            result += dense.reshape(len(f), -1) @ np.ravel(dual, order="F")
    return result


def _is_smooth(expression: Any) -> bool:
    """Return whether cvxpy's gradient is the only one, where its variables are.

    At a kink it is one subgradient of many, and says little about what multipliers leave.
    """
    from cvxpy.atoms.affine.affine_atom import AffAtom

    if expression.is_affine():
        return True
    # By names, of classes that have moved between versions of cvxpy.
    kinds = {kind.__name__ for kind in type(expression).__mro__}
    if "Pnorm" in kinds:
        is_known = expression.p == 2 and bool(np.all(expression.value > 0))
    else:
        # Sums and products with numbers are affine in what they are applied to.
        is_known = isinstance(expression, AffAtom) or not kinds.isdisjoint(_SMOOTH)
    return is_known and all(_is_smooth(part) for part in expression.args)
