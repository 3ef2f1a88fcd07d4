"""Prices on the shape of the frequencies, which stand beside a loss that looks at the estimate."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.expressions import in_uniform_units
from ldpopt.losses.base import Loss
from ldpopt.printable import counted

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class _Penalty(Loss):
    """Base class of prices that do not depend on the estimate, and have kinks that values share."""

    has_shared_kinks = True
    is_nonnegative = True
    is_penalty = True

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return f̃ as a placeholder: nothing depends on it."""
        return (estimate.frequencies,)

    def sensitivity(self, f: Array, estimate: FrequencyEstimate) -> Array | None:
        """Return 0: the loss does not look at the estimate."""
        return np.zeros(f.shape)

    def cone_form(
        self,
        f: cp.Expression,
        data: tuple[Any, ...],
        constants: tuple[float, ...],
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return the penalty of d f: frequencies in units of the uniform one."""
        # A norm of d f is d times that of f: solvers get numbers of order 1.
        return self._of(in_uniform_units(f)), []

    def cone_factor(self, d: int, constants: tuple[Any, ...]) -> float:
        """Return d."""
        return float(d)

    def expression(self, f: cp.Expression, estimate: FrequencyEstimate) -> cp.Expression:
        """Return the loss itself."""
        return self._of(f)

    def expression_in(
        self, unit: float, counted: cp.Expression, estimate: FrequencyEstimate
    ) -> cp.Expression:
        """Return the loss, which is proportional to f."""
        return unit * self._of(counted)

    def _of(self, f: cp.Expression) -> cp.Expression:
        """Return the penalty, which is proportional to f."""
        raise NotImplementedError


class TotalVariation(_Penalty):
    """Σ |f_u - f_v| over neighbours u, v: frequencies that change seldom from one to the next.

    As a part of a sum, ``LeastSquares() + lam * TotalVariation()``, it is the fused lasso
    (Tibshirani, Saunders, Rosset, Zhu, Knight 2005).

    Parameters
    ----------
    order
        Distinct indices or labels along which values are neighbours, such as last month's ranks;
        None for 0, 1, 2, … . Values outside it have no neighbours.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an index is repeated, negative or no whole number, or there are fewer than two.

    Examples
    --------
    >>> estimate = FrequencyEstimate([0.25, 0.5, 0.25])
    >>> float(TotalVariation().value(np.array([0.25, 0.5, 0.25]), estimate))
    0.5
    >>> float(TotalVariation([0, 2, 1]).value(np.array([0.25, 0.5, 0.25]), estimate))
    0.25
    """

    of_values: ClassVar[Mapping[str, int]] = {"order": 1}

    def __init__(self, order: ArrayLike | None = None) -> None:
        self.order: Index | None = None
        if order is not None:
            self.order = validate.distinct_indices("order", order)
            if len(self.order) < 2:
                raise InvalidInputError(
                    f"order must have at least 2 indices, got {len(self.order)}"
                )

    @property
    def latex(self) -> str:
        """The loss in LaTeX."""
        return r"\sum_{u \sim v} \lvert f_u - f_v \rvert"

    def validate_for(self, estimate: FrequencyEstimate) -> None:
        """Raise an error if an index is outside the domain, or that has a single value."""
        if self.order is not None:
            what = f"order of {type(self).__name__}"
            validate.whole_numbers(what, self.order, low=0, high=estimate.d - 1)
        elif estimate.d < 2:
            raise InvalidInputError("TotalVariation() needs at least 2 values, got 1")

    @property
    def priced_chain(self) -> Index | slice:
        """The chain."""
        return slice(None) if self.order is None else self.order

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return Σ |f_u - f_v|."""
        along = f if self.order is None else f[..., self.order]
        steps = np.abs(np.diff(along, axis=-1))
        return np.asarray(np.sum(steps, axis=-1))

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return a subgradient: each value's signs of the differences to its neighbours."""
        along = f if self.order is None else f[..., self.order]
        sign = np.sign(np.diff(along, axis=-1))
        # A step up from u to v has the slope -1 in u and 1 in v.
        slope = np.zeros(along.shape)
        slope[..., 1:] += sign
        slope[..., :-1] -= sign
        if self.order is None:
            return slope
        # Values outside the order have no neighbour, and no slope.
        placed = np.zeros(f.shape)
        placed[..., self.order] = slope
        return placed

    def _of(self, f: cp.Expression) -> cp.Expression:
        import cvxpy as cp

        along = f if self.order is None else f[self.order]
        return cp.norm1(cp.diff(along))

    def __repr__(self) -> str:
        order = "" if self.order is None else f"<{counted(len(self.order), 'value')}>"
        return f"TotalVariation({order})"


class GroupNorm(_Penalty):
    """Σ_g ‖f_g‖₂ over groups g of values: whole groups become zero (Yuan, Lin 2006).

    Parameters
    ----------
    groups
        Arrays of indices or labels, each without repetition. Groups may overlap, and values in none
        are free.
    weights
        A number >= 0 per group in front of its norm; None for 1 each. √|g| treats groups of all
        sizes alike.

    Attributes
    ----------
    members, sizes
        The indices of all groups, one group after the other, and how many each has.
    disjoint
        Whether no value is in two groups.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a group is empty or repeats an index, or there is not one finite weight >= 0 per group.

    Examples
    --------
    >>> loss = GroupNorm([[0, 1], [2]])
    >>> float(loss.value(np.array([3.0, 4.0, -1.0]), FrequencyEstimate([0.25, 0.5, 0.25])))
    6.0
    """

    of_values: ClassVar[Mapping[str, int]] = {"groups": 2}

    def __init__(self, groups: Sequence[ArrayLike], weights: ArrayLike | None = None) -> None:
        if not np.iterable(groups) or not len(groups):
            raise InvalidTypeError(f"groups must be a sequence of index arrays, got {groups!r}")
        self.groups = tuple(
            validate.distinct_indices(f"group {i}", group) for i, group in enumerate(groups)
        )
        # One after the other: to go through groups takes longer than to go through values.
        self.sizes = np.array([len(group) for group in self.groups], dtype=np.int64)
        # The norm of nothing is 0 with any weight: more likely a slip.
        if not self.sizes.all():
            empty = int(np.argmin(self.sizes))
            raise InvalidInputError(f"group {empty} is empty: every group needs a member")
        self.members = np.concatenate(self.groups)
        in_order = np.sort(self.members)
        self.disjoint = bool((in_order[1:] != in_order[:-1]).all())
        # The same weight for all: groups of different sizes then count by their norms alone.
        given = np.ones(len(self.groups)) if weights is None else weights
        self.weights = validate.vector("weights", given)
        if len(self.weights) != len(self.groups) or np.any(self.weights < 0):
            raise InvalidInputError(
                f"weights must be {len(self.groups)} numbers >= 0, one per group, "
                f"got {self.weights}"
            )

    @property
    def latex(self) -> str:
        """The loss in LaTeX."""
        return r"\sum_g w_g \lVert f_g \rVert_2"

    def validate_for(self, estimate: FrequencyEstimate) -> None:
        """Raise an error if an index is outside the domain."""
        if self.members.max() < estimate.d:
            return
        for i, group in enumerate(self.groups):
            what = f"group {i} of {type(self).__name__}"
            validate.whole_numbers(what, group, low=0, high=estimate.d - 1)

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return Σ w_g ‖f_g‖."""
        return np.asarray(np.sum(self.weights * self._norms(f[..., self.members]), axis=-1))

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return Σ w_g f_g/‖f_g‖; 0, which is a subgradient, where a group is zero."""
        values = f[..., self.members]
        norms = self._norms(values)
        # At 0 any vector of at most unit length is a subgradient, and 0 is one of them.
        values /= np.repeat(np.where(norms > 0, norms, 1.0), self.sizes, axis=-1)
        values *= np.repeat(self.weights, self.sizes)
        slope = np.zeros(f.shape)
        if self.disjoint:
            slope[..., self.members] = values
        else:
            np.add.at(slope.T, self.members, values.T)
        return slope

    @property
    def overlaps(self) -> bool:  # type: ignore[override]
        """Whether a value is in two groups."""
        return not self.disjoint

    def _norms(self, values: Array) -> Array:
        """Return ‖f_g‖ of all groups from the values of their members, one after the other."""
        starts = np.cumsum(self.sizes) - self.sizes
        return np.sqrt(np.add.reduceat(values**2, starts, axis=-1))

    @property
    def compiled_key(self) -> Hashable:
        """The parameters that it was built with: then the weights are data."""
        return self._recipe_or_self

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return f̃ as a placeholder, and the weights where they are parameters."""
        if self._recipe is None:
            return super().data(estimate)
        trials = estimate.frequencies.shape[:-1]
        # Once per trial, as all data: solvers take the arrays trial by trial.
        weights = np.broadcast_to(self.weights, (*trials, len(self.weights)))
        return estimate.frequencies, weights

    def nonnegative_arrays(self, count: int, constants: tuple[Any, ...]) -> list[bool]:
        """Return that f̃ may be negative, and the weights may not."""
        return [i > 0 for i in range(count)]

    def cone_form(
        self,
        f: cp.Expression,
        data: tuple[Any, ...],
        constants: tuple[float, ...],
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return the penalty of d f, with the weights of the data if these are there."""
        return self._weighted(in_uniform_units(f), *data[1:] or (self.weights,)), []

    def _of(self, f: cp.Expression) -> cp.Expression:
        return self._weighted(f, self.weights)

    def _weighted(self, f: cp.Expression, weights: Any) -> cp.Expression:
        """Return the sum of the norms times weights, which may be a parameter."""
        import cvxpy as cp

        # One product with all norms: cvxpy compiles a chain of additions slowly.
        return weights @ cp.hstack([cp.norm(f[group]) for group in self.groups])

    def __repr__(self) -> str:
        return f"GroupNorm(<{counted(len(self.groups), 'group')}>)"
