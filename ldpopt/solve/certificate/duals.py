"""The multipliers of every constraint under its own name."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import Constraint
from ldpopt.constraints.base import kept_rows
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.certificate.bounds.competitors import at_end, domain_of_all
from ldpopt.solve.certificate.bounds.evidence import Explanation
from ldpopt.solve.certificate.polyhedra.rows import dual_values
from ldpopt.solve.formulation import Formulation, Region

Array = NDArray[np.float64]


def by_name(
    formulation: Formulation, start: FrequencyEstimate, explanation: Explanation
) -> dict[str, Any]:
    """Return how fast the minimum rises with the bounds of each constraint, by its name.

    What a loss or a divergence keeps at the end of its domain has no multiplier: nobody stated it.
    Where several constraints state a bound of the same value, the multiplier is that of the
    tightest; of those that state the same total or bound, the first has it and the others have 0.
    """
    d = start.d
    names = names_of(formulation.constraints)
    rest = _Rest(explanation, formulation.region(d), domain_of_all(formulation, start))
    result: dict[str, Any] = {}
    for name, constraint in zip(names, formulation.constraints, strict=True):
        box = constraint.box(d)
        if not constraint.convex:
            result[name] = None
        elif constraint.total(d) is not None:
            result[name] = rest.take_total()
        elif box is not None:
            result[name] = rest.take_bounds(*box)
        else:
            result[name] = rest.take_rows(constraint, d)
    return result


class _Rest:
    """The multipliers that have not been given to a constraint yet."""

    def __init__(
        self, explanation: Explanation, region: Region, domain: tuple[float, float]
    ) -> None:
        self.region = region
        self.of_curved = list(explanation.of_curved)
        self.total = -explanation.sum_multiplier
        self.bounds = _of_stated(explanation.bound_multipliers, region, domain)
        self.rows = explanation.row_multipliers
        self.row_sizes = list(explanation.row_sizes)

    def take_total(self) -> Array:
        """Return the multiplier of the total; 0 from the second time on."""
        share = np.asarray(self.total)
        self.total = np.zeros(share.shape)
        return share

    def take_bounds(self, lower: Array, upper: Array) -> Array:
        """Return the multipliers of the bounds that hold for the problem as well; 0 elsewhere."""
        is_lower = np.asarray(lower == self.region.lower)
        is_upper = np.asarray(upper == self.region.upper)
        if is_lower.all() and is_upper.all():
            # One constraint has stated all bounds, as mostly: nothing is shared out.
            share = self.bounds
            self.bounds = np.zeros(share.shape)
        else:
            share = np.where(np.where(self.bounds > 0, is_lower, is_upper), self.bounds, 0.0)
            self.bounds = np.where(share != 0, 0.0, self.bounds)
        return share

    def take_rows(self, constraint: Constraint, d: int) -> Any:
        """Return the multipliers of the next constraint that is neither bounds nor a total."""
        size = self.row_sizes.pop(0)
        if size is None:
            of_forms = self.of_curved.pop(0)
            if not self.total.ndim:
                return constraint.rates(of_forms, d)
            of_trials = [constraint.rates(of_one, d) for of_one in of_forms]
            # Numbers have the shape of the stack; lists of cvxpy's arrays stay lists.
            is_number = all(isinstance(one, np.ndarray) and not one.ndim for one in of_trials)
            return np.reshape(of_trials, self.total.shape) if is_number else tuple(of_trials)
        share = self.rows[..., :size]
        self.rows = self.rows[..., size:]
        if kept_rows(constraint, d) is not None:
            return share / constraint.row_units
        # The rows are those that cvxpy has found.
        if not self.total.ndim:
            return dual_values(constraint, share, d)
        return tuple(dual_values(constraint, one, d) for one in share.reshape(-1, size))


def _of_stated(multipliers: Array, region: Region, domain: tuple[float, float]) -> Array:
    """Return the multipliers of bounds, 0 where an end of the domain holds a value instead."""
    for end, bound, sign in zip(domain, (region.lower, region.upper), (1.0, -1.0), strict=True):
        if np.isfinite(end):
            is_beyond = sign * (end - bound) > at_end(end)
            multipliers = np.where(is_beyond & (sign * multipliers > 0), 0.0, multipliers)
    return multipliers


def names_of(constraints: tuple[Constraint, ...]) -> list[str]:
    """Return the name of each constraint, with a number from its second use on."""
    seen: Counter[str] = Counter()
    names = []
    for constraint in constraints:
        name = constraint.name or type(constraint).__name__
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} {seen[name]}")
    return names
