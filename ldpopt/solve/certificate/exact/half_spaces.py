"""Rows in fractions, and what those with auxiliary variables mean in the values alone.

Bounds of sums of absolute values, and known top sets, have rows over (f, t): f is in the set if
some t satisfies them together with f. In the library's sets each t_j has lower bounds that depend
on f alone, and all other rows are the easier to satisfy the smaller the t_j are. So the largest of
its lower bounds is the t_j that fits f best. With it in place of t_j, a row with auxiliary
variables becomes a row in f alone that holds for the whole set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import NamedTuple

Vector = list[Fraction]


class HalfSpace(NamedTuple):
    """row·x >= bound, or row·x = bound.

    ``place`` is the number of the row it is of, and the bound, -1 for the lower and 1 for the upper
    one; None for what follows from several rows.
    """

    row: dict[int, Fraction]
    bound: Fraction
    is_equation: bool
    place: tuple[int, int] | None = None

    def turned(self) -> HalfSpace:
        """Return the same from the other side."""
        row = {v: -entry for v, entry in self.row.items()}
        return self._replace(row=row, bound=-self.bound)

    def inequalities(self) -> list[HalfSpace]:
        """Return the inequality itself, or both inequalities that an equation consists of."""
        return [self, self.turned()] if self.is_equation else [self]


@dataclass(frozen=True, eq=False)
class Rows:
    """lower <= A x <= upper in fractions, each row as {index: coefficient}; None is no bound.

    The first ``d`` of the ``columns`` are the values, the others auxiliary variables. Bounds of
    the values have no matrix.
    """

    matrix: list[dict[int, Fraction]]
    lower: list[Fraction | None]
    upper: list[Fraction | None]
    d: int
    columns: int

    def is_equation(self, i: int) -> bool:
        """Return whether a row or value has one bound from both sides."""
        return self.lower[i] is not None and self.lower[i] == self.upper[i]

    def auxiliary(self, i: int) -> list[int]:
        """Return the auxiliary variables of a row."""
        return [j for j in self.matrix[i] if j >= self.d]

    def only_bounds_auxiliary(self, i: int) -> bool:
        """Return whether a row is a bound of an auxiliary variable: mostly the others imply it."""
        return len(self.matrix[i]) == 1 and min(self.matrix[i]) >= self.d

    def slopes(self, multipliers: dict[int, Fraction]) -> Vector:
        """Return Aᵀy, one number per column."""
        result = [Fraction(0)] * self.columns
        for i, multiplier in multipliers.items():
            for v, entry in self.matrix[i].items():
                result[v] += entry * multiplier
        return result

    @cached_property
    def projection(self) -> Projection | None:
        """The rows in the values alone; None where other auxiliary variables than those above."""
        plain: list[HalfSpace] = []
        lowest: dict[int, list[HalfSpace]] = {}
        falling: list[HalfSpace] = []
        for one in half_spaces(self):
            further = [entry for v, entry in one.row.items() if v >= self.d]
            if not further:
                plain.append(one)
                continue
            # An equation counts as two inequalities, each of a kind of its own.
            for side in one.inequalities():
                entries = {v: entry for v, entry in side.row.items() if v >= self.d}
                if all(entry < 0 for entry in entries.values()):
                    falling.append(side)
                elif len(entries) == 1:
                    lowest.setdefault(next(iter(entries)), []).append(side)
                else:
                    return None
        # A variable without a lower bound satisfies by itself whatever else is stated of it.
        free = set(range(self.d, self.columns)) - set(lowest)
        binding = [one for one in falling if not free & set(one.row)]
        return Projection(self.d, self.columns, plain, lowest, falling, binding)


class Projection(NamedTuple):
    """The half spaces of rows by their auxiliary variables.

    Attributes
    ----------
    d, columns
        Numbers of values, and of values and auxiliary variables.
    plain
        Those in the values alone.
    lowest
        Those that bound an auxiliary variable from below, by this variable.
    falling
        Those that only become harder to satisfy as auxiliary variables grow.
    binding
        Those of them in which each variable has a lower bound.
    """

    d: int
    columns: int
    plain: list[HalfSpace]
    lowest: dict[int, list[HalfSpace]]
    falling: list[HalfSpace]
    binding: list[HalfSpace]

    def extended(self, f: Vector) -> Vector:
        """Return f and the auxiliary variables that fit it best."""
        x = [*f, *([Fraction(0)] * (self.columns - self.d))]
        for j, ends in self.lowest.items():
            x[j] = max(map(partial(_end, j, f, self.d), ends))
        for one in self.falling:
            # Of variables without a lower bound, as low as this row needs one of them to be.
            loose = [j for j in one.row if j >= self.d and j not in self.lowest]
            excess = one.bound - product(one.row, x)
            if loose and excess > 0:
                x[loose[0]] += excess / one.row[loose[0]]
        return x

    def defining(self, f: Vector) -> dict[int, HalfSpace]:
        """Return the half space that states the largest lower bound of each auxiliary variable."""
        return {j: max(ends, key=partial(_end, j, f, self.d)) for j, ends in self.lowest.items()}

    def cuts(self, f: Vector) -> Iterator[HalfSpace]:
        """Yield half spaces in f alone that hold for the set, among them one that f violates.

        Where f is in the set there is none that it violates.
        """
        yield from self.plain
        chosen = self.defining(f)
        for one in self.binding:
            row = {v: entry for v, entry in one.row.items() if v < self.d}
            bound = one.bound
            for j, entry in one.row.items():
                if j >= self.d:
                    share = -entry / chosen[j].row[j]
                    bound += share * chosen[j].bound
                    of_values = {v: x for v, x in chosen[j].row.items() if v < self.d}
                    subtract(row, of_values, -share)
            yield HalfSpace(row, bound, is_equation=False)


def _end(j: int, f: Vector, d: int, one: HalfSpace) -> Fraction:
    """Return the lower bound of a variable that a half space states at f."""
    of_values = sum((entry * f[v] for v, entry in one.row.items() if v < d), Fraction(0))
    return (one.bound - of_values) / one.row[j]


def half_spaces(limits: Rows) -> Iterator[HalfSpace]:
    """Yield each side of rows, or of values if there is no matrix."""
    for i, (lower, upper) in enumerate(zip(limits.lower, limits.upper, strict=True)):
        row = limits.matrix[i] if limits.matrix else {i: Fraction(1)}
        is_equation = limits.is_equation(i)
        if lower is not None:
            yield HalfSpace(row, lower, is_equation, (i, -1))
        if upper is not None and not is_equation:
            yield HalfSpace(row, upper, is_equation, (i, 1)).turned()


def product(row: dict[int, Fraction], x: Vector) -> Fraction:
    """Return Σ a x."""
    return sum((entry * x[v] for v, entry in row.items()), Fraction(0))


def subtract(row: dict[int, Fraction], other: dict[int, Fraction], factor: Fraction) -> None:
    """Subtract a multiple of another row, and drop entries that become 0."""
    for k, entry in other.items():
        changed = row.get(k, Fraction(0)) - factor * entry
        if changed:
            row[k] = changed
        else:
            row.pop(k, None)


def violation_of(f: Vector, system: Rows, bounds: Rows) -> Fraction:
    """Return by how much a vector leaves the set, 0 inside."""
    assert system.projection is not None
    x = system.projection.extended(f)
    heights = [product(row, x) for row in system.matrix]
    excess = Fraction(0)
    for reached, limits in ((f, bounds), (heights, system)):
        for value, lower, upper in zip(reached, limits.lower, limits.upper, strict=True):
            excess = max(excess, _outside(value, lower, upper))
    return excess


def _outside(value: Fraction, lower: Fraction | None, upper: Fraction | None) -> Fraction:
    """Return how far a value is outside its bounds, negative or 0 inside."""
    below = Fraction(0) if lower is None else lower - value
    above = Fraction(0) if upper is None else value - upper
    return max(below, above)


class Combined(NamedTuple):
    """row·x = bound, the sum of rows of a system each times its share."""

    row: dict[int, Fraction]
    bound: Fraction
    shares: dict[int, Fraction]


def without_auxiliary(held: list[Combined], system: Rows) -> list[Combined]:
    """Return the sums of equations in which no auxiliary variable is left: the values' own.

    Multipliers whose slopes vanish in all auxiliary variables are combinations of these sums.
    """
    left = held
    for j in range(system.d, system.columns):
        users = [one for one in left if j in one.row]
        if not users:
            continue
        # Short rows fill nothing in.
        pivot = min(users, key=lambda one: len(one.row))
        left = [_without(j, one, pivot) for one in left if one is not pivot]
    return left


def _without(j: int, one: Combined, pivot: Combined) -> Combined:
    """Return an equation minus the multiple of another one that leaves no variable j."""
    if j not in one.row:
        return one
    factor = one.row[j] / pivot.row[j]
    row = dict(one.row)
    shares = dict(one.shares)
    subtract(row, pivot.row, factor)
    subtract(shares, pivot.shares, factor)
    return Combined(row, one.bound - factor * pivot.bound, shares)
