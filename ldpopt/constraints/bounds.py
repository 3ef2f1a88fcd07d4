"""Bounds value by value."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.closed_form.rows import is_long, locked_rows
from ldpopt.constraints.base import Constraint, LinearInequalities, unit_matrix
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.expressions import in_uniform_units
from ldpopt.frames import entries_of
from ldpopt.printable import counted, latex_number

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]
_Given = ParamSpec("_Given")


class _Box(Constraint):
    """Base class of bounds value by value: ``box`` states them in full."""

    _is_general = True
    _definitions = Constraint._definitions | {"box"}

    @abstractmethod
    def box(self, d: int) -> tuple[Array, Array]:
        """Return (lower, upper) of shape (d,)."""

    @property
    def is_in_units(self) -> bool:
        """True: values are compared with numbers."""
        return True

    def violation(self, f: Array) -> Array:
        """Return the largest distance of a value from its bounds."""
        lower, upper = self.box(f.shape[-1])
        # An infinite bound is at a distance of -inf, which no maximum with 0 takes.
        outside = np.maximum(lower - f, f - upper)
        return np.asarray(np.max(outside, axis=-1).clip(min=0.0))

    def rows(self, d: int) -> LinearInequalities:
        """Return the bounds as rows."""
        # One row per value, also where a bound is infinite: the number of a row is its value.
        lower, upper = self.box(d)
        return LinearInequalities(unit_matrix(d), lower, upper)

    def row_name(self, row: int, d: int) -> str:
        """Return the bounds of one value."""
        lower, upper = self.box(d)
        return describe_bounds(f"f[{row}]", lower[row], upper[row])

    def cone_form(self, f: cp.Expression) -> list[cp.Constraint]:
        """Return the finite bounds, with coefficients of order 1 for the solver's variable d f."""
        d = f.size
        lower, upper = self.box(d)
        scaled = in_uniform_units(f)
        forms = []
        for bound, is_lower in ((lower, True), (upper, False)):
            finite = np.flatnonzero(np.isfinite(bound))
            if len(finite):
                # A selection of all values would add a matrix to the program for nothing.
                values = scaled[finite] if len(finite) < d else scaled
                end = d * bound[finite]
                forms.append(values >= end if is_lower else values <= end)
        return forms


def describe_bounds(name: str, lower: float, upper: float) -> str:
    """Return the bounds of a value as a reader would write them."""
    # Equal bounds read better as one equation.
    if lower == upper:
        return f"{name} = {lower:g}"
    left = f"{lower:g} <= " if np.isfinite(lower) else ""
    right = f" <= {upper:g}" if np.isfinite(upper) else ""
    return f"{left}{name}{right}"


class NonNegative(_Box):
    """f_v >= 0 for every value.

    Examples
    --------
    >>> float(NonNegative().violation(np.array([0.5, -0.25])))
    0.25
    """

    @property
    def latex(self) -> str:
        """The set in LaTeX."""
        return r"f \ge 0"

    @property
    def formula(self) -> str:
        """F ≥ 0."""
        return "f ≥ 0"

    def violation(self, f: Array) -> Array:
        """Return the distance of the smallest value below 0, in one pass."""
        return np.asarray(np.maximum(-f.min(axis=-1), 0.0))

    def box(self, d: int) -> tuple[Array, Array]:
        """Return 0 and infinity."""
        return np.zeros(d), np.full(d, np.inf)


def _one_bound_has_a_name(constructor: Callable[_Given, None]) -> Callable[_Given, None]:
    """Refuse a call from which nobody can tell which bound is meant."""

    @wraps(constructor)  # the signature that ``help`` shows stays
    def checked(*args: _Given.args, **kwargs: _Given.kwargs) -> None:
        _, *bounds = args  # the first is the object itself
        if len(bounds) < 2 and not kwargs:
            raise InvalidTypeError(
                "Bounds takes two bounds, or one by its name: "
                "write Bounds(upper=0.08) or Bounds(lower=0.01, upper=0.08)"
            )
        constructor(*args, **kwargs)

    return checked


class Bounds(_Box):
    """lower <= f_v <= upper.

    Parameters
    ----------
    lower, upper
        One number for all values, or one per value; -inf and inf stand for no bound. They are in
        the unit of the frequencies: 0.1 for 10 % of a total of 1.
        One of them may be left out if the other is given by name. A mapping from labels of the
        estimate bounds the values that it names.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a lower bound is above its upper bound (the first index is named), a bound is NaN, or
        there is no bound, or one without its name.

    Examples
    --------
    >>> float(Bounds(0.0, 0.25).violation(np.array([0.5, 0.25])))
    0.25
    """

    _per_value = frozenset({"lower", "upper"})
    _rest: ClassVar[Mapping[str, float]] = {"lower": -np.inf, "upper": np.inf}

    @_one_bound_has_a_name
    def __init__(self, lower: ArrayLike = -np.inf, upper: ArrayLike = np.inf) -> None:
        # Shapes are kept: one number for all values still fits any domain.
        self.lower = validate.array("lower", lower).astype(np.float64)
        self.upper = validate.array("upper", upper).astype(np.float64)
        try:
            lowers, uppers = np.broadcast_arrays(self.lower, self.upper)
        except ValueError:
            raise InvalidInputError(
                "lower and upper must be numbers or of one shape, got "
                f"{self.lower.shape} and {self.upper.shape}"
            ) from None
        # Written so that NaN is refused: it compares as false.
        in_order = (lowers <= uppers) & (lowers < np.inf) & (uppers > -np.inf)
        if not in_order.all():
            at = int(np.argmin(in_order))
            for name, bounds in (("lower", lowers), ("upper", uppers)):
                if np.isnan(bounds.flat[at]):
                    raise InvalidInputError(f"{name} must not be NaN, found it at index {at}")
            raise InvalidInputError(
                f"lower must be <= upper, found {lowers.flat[at]} and {uppers.flat[at]} at index "
                f"{at}: no number lies between"
            )

    @property
    def latex(self) -> str:
        """The set in LaTeX."""
        lower, upper = (
            latex_number(bound) if bound.ndim == 0 else letter
            for bound, letter in ((self.lower, "l"), (self.upper, "u"))
        )
        return rf"{lower} \le f \le {upper}"

    def validate_for(self, d: int) -> None:
        """Raise an error unless each bound is one number or d of them."""
        for name, bound in (("lower", self.lower), ("upper", self.upper)):
            # Other shapes would be broadcast to the domain, or not, by chance of d.
            if bound.shape not in ((), (d,)):
                raise InvalidInputError(
                    f"{name} of {type(self).__name__} must be a number or have shape ({d},), "
                    f"got {bound.shape}"
                )

    def violation(self, f: Array) -> Array:
        """Return the largest distance of a value from its bounds."""
        if self.lower.ndim or self.upper.ndim:
            return self._violation_of_each(f)
        # The extremes stand for all values, and take no arrays.
        outside = np.maximum(self.lower - f.min(axis=-1), f.max(axis=-1) - self.upper)
        return np.asarray(np.maximum(outside, 0.0))

    def _violation_of_each(self, f: Array) -> Array:
        """Return the violation where bounds differ between values."""
        if not is_long(f.shape[-1]):
            return super().violation(f)
        from ldpopt.constraints.violation_kernels import farthest_outside  # imports numba

        self.validate_for(f.shape[-1])
        ends = (np.atleast_1d(self.lower), np.atleast_1d(self.upper))
        return farthest_outside(locked_rows(f), *ends).reshape(f.shape[:-1])

    def box(self, d: int) -> tuple[Array, Array]:
        """Return the bounds, one per value."""
        # Copies, since a broadcast number is one place in memory.
        lower = np.broadcast_to(self.lower, (d,))
        upper = np.broadcast_to(self.upper, (d,))
        return lower.copy(), upper.copy()

    def __repr__(self) -> str:
        lower, upper = (
            f"{bound:g}" if bound.ndim == 0 else f"<{counted(len(bound), 'value')}>"
            for bound in (self.lower, self.upper)
        )
        return f"Bounds({lower}, {upper})"


class Fixed(_Box):
    """f_v = value for some values, whose frequencies are known.

    Parameters
    ----------
    indices
        Distinct indices of the domain, or labels of the estimate. A mapping, or a Series of pandas,
        from these to their numbers states both.
    values
        One finite number per index.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an index is repeated, or there is not one finite number per index.

    Examples
    --------
    >>> float(Fixed([1], [0.25]).violation(np.array([0.5, 0.5])))
    0.25
    >>> from ldpopt import FrequencyEstimate, Problem, losses
    >>> known = Problem(losses.LeastSquares(), [Fixed({"dog": 0.25})])
    >>> known.solve(FrequencyEstimate([0.5, 0.5], labels=["cat", "dog"])).frequencies
    array([0.5 , 0.25])
    """

    of_values: ClassVar[Mapping[str, int]] = {"indices": 1}

    @classmethod
    def _stated(cls, given: dict[str, Any]) -> dict[str, Any]:
        entries = entries_of(given.get("indices"))
        if entries is None or "values" in given:
            return given
        return {**given, "indices": list(entries), "values": list(entries.values())}

    def __init__(self, indices: Any, values: ArrayLike | None = None) -> None:
        if values is None:
            raise InvalidInputError(
                "Fixed needs a number per index: Fixed([0, 1], [0.5, 0.25]) or Fixed({0: 0.5})"
            )
        self.indices = validate.distinct_indices("indices", indices)
        self.values = np.atleast_1d(validate.array("values", values).astype(np.float64))
        if self.values.shape != self.indices.shape or not np.isfinite(self.values).all():
            raise InvalidInputError(
                f"values must be {len(self.indices)} finite numbers, one per index, "
                f"got {self.values}"
            )

    @property
    def latex(self) -> str:
        """The set in LaTeX."""
        return rf"f_v = c_v \text{{ for }} {len(self.indices)} \text{{ values}}"

    def validate_for(self, d: int) -> None:
        """Raise an error if an index is outside the domain."""
        # The domain is known only now: the constructor has checked the rest.
        what = f"indices of {type(self).__name__}"
        validate.whole_numbers(what, self.indices, low=0, high=d - 1)

    def violation(self, f: Array) -> Array:
        """Return the largest difference of a fixed value from what it is."""
        apart = np.abs(f[..., self.indices] - self.values)
        return np.asarray(apart.max(axis=-1, initial=0.0))

    def box(self, d: int) -> tuple[Array, Array]:
        """Return the fixed values as both bounds, and no bounds elsewhere."""
        # Values that are not fixed have no bounds here; others may come from other constraints.
        lower = np.full(d, -np.inf)
        upper = np.full(d, np.inf)
        lower[self.indices] = self.values
        upper[self.indices] = self.values
        return lower, upper

    def __repr__(self) -> str:
        return f"Fixed(<{counted(len(self.indices), 'value')}>)"
