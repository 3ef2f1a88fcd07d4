"""The multipliers of every constraint under its own name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import Constraint
from ldpopt.solve.certificate.evidence import Evidence
from ldpopt.solve.formulation import Formulation

Array = NDArray[np.float64]


def by_name(formulation: Formulation, d: int, evidence: Evidence) -> Mapping[str, Any]:
    """Return how fast the minimum rises with the bounds of each constraint, by its name.

    Where several constraints state a bound of the same value, the multiplier is that of the
    tightest; of those that state the same total or bound, the first has it and the others have 0.
    """
    names = _names(formulation.constraints)
    region = formulation.region(d)
    # What has been given to a constraint is taken from the rest.
    bounds = evidence.bound_multipliers
    taken = np.zeros(bounds.shape, dtype=bool)
    total_is_taken = False
    position = 0
    sizes = list(evidence.row_sizes)
    from_solver = list(evidence.by_constraint)
    result: dict[str, Any] = {}
    for name, constraint in zip(names, formulation.constraints, strict=True):
        box = constraint.box(d)
        if not constraint.convex:
            result[name] = None
        elif from_solver:
            result[name] = from_solver.pop(0)
        elif constraint.total(d) is not None:
            result[name] = np.where(total_is_taken, 0.0, -evidence.sum_multiplier)
            total_is_taken = True
        elif box is not None:
            holds = np.where(bounds > 0, box[0] == region.lower, box[1] == region.upper)
            share = np.where(holds & ~taken, bounds, 0.0)
            taken |= share != 0
            result[name] = share
        else:
            size = sizes.pop(0)
            result[name] = evidence.row_multipliers[..., position : position + size]
            position += size
    return MappingProxyType(result)


def _names(constraints: tuple[Constraint, ...]) -> list[str]:
    """Return the name of each constraint, with a number from its second use on."""
    seen: Counter[str] = Counter()
    names = []
    for constraint in constraints:
        name = constraint.name or type(constraint).__name__
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} {seen[name]}")
    return names
