"""What is stated of a single solution."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StructureRow:
    """The structure of one solution.

    Attributes
    ----------
    epsilon, n
        The budget and the number of reports of the estimate; None where they are not known.
    support
        How many values are off their bounds.
    is_ideal
        Whether each of these has an estimate at least as high as that of any value at its lower
        bound: the support is then found by sorting.
    shift
        The first of ``shifts.KINDS`` that holds on the support, else ``"other"``.
    blocks
        The number of different values on the support.
    active_bounds, active_rows
        How many values are at a bound, and how many other rows hold with equality.
    degrees_of_freedom
        The dimension of the face on which the solution lies: values off their bounds less the rank
        of the active rows. None above 2,000 values, and where a constraint is not rows in f alone.
    multiplier
        The multiplier of the total in the loss's units; None without a total.
    """

    epsilon: float | None
    n: int | None
    support: int
    is_ideal: bool
    shift: str
    blocks: int
    active_bounds: int
    active_rows: int
    degrees_of_freedom: int | None
    multiplier: float | None
