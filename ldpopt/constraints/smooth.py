"""Values in the order of a scale that change little from one to the next."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.constraints.absolute_sums import (
    absolute_sum_face,
    absolute_sum_form,
    absolute_sum_rows,
    differences_along,
)
from ldpopt.constraints.base import LinearInequalities, Polyhedron, Variation
from ldpopt.errors import InvalidInputError
from ldpopt.expressions import in_uniform_units
from ldpopt.printable import counted

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]
_STENCILS = {1: [-1.0, 1.0], 2: [1.0, -2.0, 1.0]}


class Smooth(Polyhedron):
    """Bounds of Σ |f_{v+1} - f_v| and Σ |f_{v-1} - 2 f_v + f_{v+1}| along an order.

    A bounded total variation keeps f from swinging up and down, a bounded sum of second differences
    keeps it near straight pieces.

    Parameters
    ----------
    total_variation, second_difference
        Upper bounds of the two sums: finite numbers >= 0, in units of frequency; None leaves a sum
        unbounded. A distribution that rises to one mode m and falls from there has a total
        variation of at most 2 m.
    order
        Distinct indices or labels along which values are neighbours, such as last month's ranks;
        None for 0, 1, 2, … . Values outside it are free.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If neither is given, one is negative or not a finite number, or an index is repeated.

    Examples
    --------
    >>> float(Smooth(total_variation=0.5).violation(np.array([0.25, 0.5, 0.0, 0.25])))
    0.5
    >>> float(Smooth(second_difference=1.0).violation(np.array([0.25, 0.5, 0.0, 0.25])))
    0.5
    """

    of_values: ClassVar[Mapping[str, int]] = {"order": 1}

    def __init__(
        self,
        total_variation: float | None = None,
        second_difference: float | None = None,
        *,
        order: ArrayLike | None = None,
    ) -> None:
        self.total_variation = _bound("total_variation", total_variation)
        self.second_difference = _bound("second_difference", second_difference)
        # Without a bound every vector would satisfy it: more likely a misspelt argument.
        if self.total_variation is None and self.second_difference is None:
            raise InvalidInputError(
                "Smooth needs a total_variation or a second_difference, or both"
            )
        self.order = None if order is None else validate.distinct_indices("order", order)

    @property
    def latex(self) -> str:
        """The set in LaTeX."""
        sums = {1: r"\lvert f_{v+1} - f_v \rvert", 2: r"\lvert f_{v-1} - 2 f_v + f_{v+1} \rvert"}
        parts = [rf"\sum_v {sums[order]} \le {bound:g}" for order, bound in self._parts]
        return r", \quad ".join(parts)

    @property
    def _parts(self) -> list[tuple[int, float]]:
        """The order of each difference that is bounded, and its bound."""
        bounds = [(1, self.total_variation), (2, self.second_difference)]
        return [(order, bound) for order, bound in bounds if bound is not None]

    def validate_for(self, d: int) -> None:
        """Raise an error if there are too few values for a difference."""
        # Without a difference there is nothing to bound: more likely the domain is the wrong one.
        needed = 1 + max(order for order, _ in self._parts)
        if self.order is not None:
            what = f"order of {type(self).__name__}"
            validate.whole_numbers(what, self.order, low=0, high=d - 1)
        count = d if self.order is None else len(self.order)
        if count < needed:
            raise InvalidInputError(f"{self!r} needs at least {needed} values, got {count}")

    def violation(self, f: Array) -> Array:
        """Return by how much a sum of absolute differences exceeds its bound, the larger of two."""
        excess = []
        along = f if self.order is None else f[..., self.order]
        for order, bound in self._parts:
            differences = np.diff(along, order, axis=-1)
            excess.append(np.abs(differences).sum(axis=-1) - bound)
        # The larger one, as everywhere: a violation is that of the worst row.
        return np.asarray(np.max(excess, axis=0).clip(min=0.0))

    @property
    def variation(self) -> Variation | None:
        """The bound of the total variation, if no other sum is bounded."""
        if self.total_variation is None or self.second_difference is not None:
            return None
        return Variation(self.order, self.total_variation)

    @property
    def is_in_units(self) -> bool:
        """True: coefficients are those of differences."""
        return True

    def rows(self, d: int) -> LinearInequalities:
        """Return -t <= difference <= t, Σ t <= bound and t >= 0, with auxiliary variables t."""
        from scipy import sparse

        parts = [
            absolute_sum_rows(self._differences(order, d), 0.0, 1.0, bound)
            for order, bound in self._parts
        ]
        if len(parts) == 1:
            return parts[0]
        return LinearInequalities(
            sparse.vstack([part.matrix for part in parts], format="csr"),
            np.concatenate([part.lower for part in parts]),
            np.concatenate([part.upper for part in parts]),
            sparse.block_diag([part.auxiliary for part in parts], format="csr"),
        )

    def cone_form(self, f: cp.Expression) -> list[cp.Constraint]:
        """Return the sums in units of the uniform frequency."""
        return self._forms(f, self._numbers(f.size))

    def adjustable_form(self, f: cp.Expression) -> tuple[list[cp.Constraint], list[cp.Parameter]]:
        """Return the sums with parameters for their bounds."""
        import cvxpy as cp  # slow to import, as everywhere in this folder

        if self._recipe is None:
            return self.cone_form(f), []
        bounds = [cp.Parameter(nonneg=True) for _ in self._parts]
        return self._forms(f, bounds), bounds

    def data(self, d: int) -> tuple[Array, ...]:
        """Return the bounds times d, if parameters may change them."""
        return () if self._recipe is None else self._numbers(d)

    def compiled_key(self, d: int) -> Hashable:
        """Equal for the same order and the same bounded sums, if parameters may change bounds."""
        if self._recipe is None:
            return self
        order = b"" if self.order is None else self.order.tobytes()
        return (self._recipe, tuple(number for number, _ in self._parts), order)

    def _numbers(self, d: int) -> tuple[Array, ...]:
        """Return the bounds times d."""
        return tuple(np.asarray(d * bound) for _, bound in self._parts)

    def _forms(self, f: cp.Expression, bounds: Sequence[Any]) -> list[cp.Constraint]:
        """Return that the sums of absolute differences are at most some bounds."""
        scaled = in_uniform_units(f)
        forms = []
        for (order, _), bound in zip(self._parts, bounds, strict=True):
            forms += absolute_sum_form(self._differences(order, f.size) @ scaled, bound)
        return forms

    def _differences(self, order: int, d: int) -> Any:
        """Return the matrix of the differences of an order."""
        along = np.arange(d) if self.order is None else self.order
        return differences_along(along, _STENCILS[order], d)

    def face(self, f: Array, near: float) -> LinearInequalities:
        """Return the rows of both sums in f alone that stand for them around f."""
        from scipy import sparse

        parts = [
            absolute_sum_face(self._differences(order, len(f)), 0.0, 1.0, bound, f, near)
            for order, bound in self._parts
        ]
        return LinearInequalities(
            sparse.vstack([part.matrix for part in parts], format="csr"),
            np.concatenate([part.lower for part in parts]),
            np.concatenate([part.upper for part in parts]),
        )

    def idle_bound(self, total: float) -> float | None:
        """Return a bound if both exceed the sums of differences of every f >= 0 with this sum.

        A value is in one difference per coefficient, and counts with it at most.
        """
        idle = [
            bound for order, bound in self._parts if bound > total * sum(map(abs, _STENCILS[order]))
        ]
        return idle[0] if len(idle) == len(self._parts) else None

    def row_name(self, row: int, d: int) -> str:
        """Return the constraint: only all its rows together state it."""
        return repr(self)

    def __repr__(self) -> str:
        bounds = {
            "total_variation": self.total_variation,
            "second_difference": self.second_difference,
        }
        shown = [f"{name}={bound:g}" for name, bound in bounds.items() if bound is not None]
        if self.order is not None:
            shown.append(f"order=<{counted(len(self.order), 'value')}>")
        return f"Smooth({', '.join(shown)})"


def _bound(what: str, value: float | None) -> float | None:
    if value is None:
        return None
    bound = validate.real(what, value)
    if bound < 0:
        raise InvalidInputError(
            f"{what} must be >= 0, got {value!r}: it bounds a sum of absolute values"
        )
    return bound
