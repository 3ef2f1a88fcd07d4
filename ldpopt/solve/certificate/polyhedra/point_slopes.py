"""The slope that multipliers leave at the point itself, whichever program they are from.

A proof may count elsewhere: at a tangent beside the point, or in the auxiliary variables of a
program that cvxpy compiles. There the multipliers of an inexact point explain nearly all, while at
the point the gradient of the loss differs by the second derivatives times the point's error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.solve.certificate.bounds.evidence import Explanation
from ldpopt.solve.certificate.polyhedra.rows import Rows, RowsOfTrials

Array = NDArray[np.float64]


def at_point(
    explain: Callable[[], Explanation], gradient: Array, f: Array, rows: Rows, source: RowsOfTrials
) -> Explanation:
    """Return an explanation whose ``stationarity`` is that of the Lagrangian's gradient at f.

    Parameters
    ----------
    explain
        Returns the multipliers of one trial.
    gradient, f
        The gradient of the loss, and the point, shape (d,).
    rows, source
        The linear constraints, and where they come from, with the curved ones.

    Returns
    -------
    The explanation as it is where a curved constraint has auxiliary variables, or no gradient at
    f: then ``stationarity`` counts where the proof does.
    """
    explanation = explain()
    curved = _slopes_of_curved(source, explanation.of_curved, f) if source.curved else 0.0
    if curved is None:
        return explanation
    multipliers = rows.joined(explanation.sum_multiplier, explanation.row_multipliers)
    price = rows.system.matrix.T @ multipliers
    residual = gradient + curved - price[: len(f)] - explanation.bound_multipliers
    # Auxiliary variables of linear constraints have no slope of their own.
    left = np.max(np.abs(np.append(residual, price[len(f) :])))
    return explanation._replace(stationarity=np.asarray(left))


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
            with np.errstate(all="ignore"):
                slopes = form.expr.grad[stated.variable]
            if slopes is None:
                return None
            dense = slopes.toarray() if hasattr(slopes, "toarray") else np.asarray(slopes)
            result += dense.reshape(len(f), -1) @ np.ravel(dual, order="F")
    return result
