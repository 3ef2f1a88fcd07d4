"""What operators take from a problem: its bounds, total, groups, order, ties, tree and noise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form import Groups
from ldpopt.constraints import Bounds, Constraint, GroupTotals, Hierarchy, SumsTo
from ldpopt.constraints.isotonic import ForestOrder, Isotonic, joined, order_of
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.noise import Noise
from ldpopt.losses import Loss
from ldpopt.protocol import PureProtocol
from ldpopt.solve.formulation import Formulation

Array = NDArray[np.float64]
Index = NDArray[np.int64]

PARAMETERS = (
    "lower",
    "upper",
    "total",
    "groups",
    "order",
    "ties",
    "tree",
    "count",
    "n",
    "p",
    "q",
    "kappa",
    "noise",
)
"""What an operator may ask a setting for."""


@dataclass(frozen=True, eq=False)
class Setting:
    """What one problem of one size states, in the form in which operators need it.

    A parameter that the problem does not state is None, and operators that need it are left out.

    Attributes
    ----------
    loss
        What the problem minimises.
    d
        The number of values.
    lower, upper
        Bounds of each value, shape (d,), infinite where a value has none; None if all are.
    total
        The sum of all values.
    groups
        Disjoint groups with their totals: the values in no group are one more, where the total
        leaves them a sum.
    order
        The order of all constraints that state one together, as pooling sees it.
    ties
        The number of each value's class, shape (d,): values of one class are equal.
    tree
        The ``Hierarchy`` whose nodes the values are.
    count
        How many values may differ from 0.
    n, oracle, noise
        The number of reports, their protocol, and the noise of the estimates.
    """

    loss: Loss
    d: int
    lower: Array | None
    upper: Array | None
    total: float | None
    groups: Groups | None
    order: Isotonic | None
    ties: Index | None
    tree: Hierarchy | None
    count: int | None
    n: int | None
    oracle: PureProtocol | None
    noise: Noise | None
    _problems: dict[Any, Formulation] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, problem: Formulation, estimate: FrequencyEstimate) -> Setting:
        """Return what a problem states for estimates of this one's size, protocol and noise.

        The problem must be one at a moment, as ``Formulation.at`` returns it.
        """
        d = estimate.d
        region = problem.region(d)
        trees = [part for part in problem.constraints if isinstance(part, Hierarchy)]
        counts = [part.largest_support for part in problem.constraints]
        total = region.total
        return cls(
            loss=problem.loss,
            d=d,
            lower=_stated(region.lower),
            upper=_stated(region.upper),
            total=total,
            groups=_groups(problem.constraints, d, total),
            order=_order(problem.constraints, d),
            ties=_ties(problem.constraints, d),
            tree=trees[0] if trees else None,
            count=min((count for count in counts if count is not None), default=None),
            n=estimate.n,
            oracle=estimate.oracle,
            noise=_noise(estimate),
        )

    @property
    def p(self) -> float | None:
        """The probability with which a report supports its own value."""
        return None if self.oracle is None else float(self.oracle.p)

    @property
    def q(self) -> float | None:
        """The probability with which a report supports another value."""
        return None if self.oracle is None else float(self.oracle.q)

    @property
    def kappa(self) -> float | None:
        """The growth of the noise's variance with the frequency, relative to that at 0."""
        return None if self.oracle is None else float(self.oracle.kappa)

    @property
    def has_common_bounds(self) -> bool:
        """Whether one lower and one upper bound hold for all values."""
        bounds = [bound for bound in (self.lower, self.upper) if bound is not None]
        return all(bool(np.all(bound == bound[0])) for bound in bounds)

    def parameters(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Return some of the parameters by their names, None where the problem states none."""
        return {name: getattr(self, name) for name in names}

    def estimate(self, values: Array) -> FrequencyEstimate:
        """Return values of shape (trials, d) as estimates with this setting's noise."""
        if self.oracle is not None:
            return FrequencyEstimate(values, self.n, self.oracle, is_raw=False)
        return FrequencyEstimate(values, self.n, noise=self.noise, is_raw=False)

    def bounded(self, loss: Loss, *, by_group: bool = False) -> Formulation:
        """Return a loss under the bounds and the total alone, or those of the groups."""
        key = (type(loss), by_group)
        if key not in self._problems:
            self._problems[key] = Formulation(loss, tuple(self._separate(by_group)))
        return self._problems[key]

    def _separate(self, by_group: bool) -> list[Constraint]:
        """Return the bounds, and the total or the groups' totals, as constraints."""
        parts: list[Constraint] = []
        if self.lower is not None or self.upper is not None:
            lower = np.full(self.d, -np.inf) if self.lower is None else self.lower
            upper = np.full(self.d, np.inf) if self.upper is None else self.upper
            parts.append(Bounds(lower, upper))
        if by_group and self.groups is not None:
            members = [
                np.flatnonzero(self.groups.of_value == group) for group in range(self.groups.number)
            ]
            parts.append(GroupTotals(members, self.groups.totals))
        elif self.total is not None:
            parts.append(SumsTo(self.total))
        return parts


def _noise(estimate: FrequencyEstimate) -> Noise | None:
    try:
        return estimate.noise
    except InvalidInputError:  # losses of plain frequencies need none
        return None


def _stated(bounds: Array) -> Array | None:
    """Return bounds, or None where none of them is finite."""
    return bounds if np.isfinite(bounds).any() else None


def _groups(constraints: tuple[Constraint, ...], d: int, total: float | None) -> Groups | None:
    """Return the first disjoint groups that a constraint states, with the rest as one more."""
    for constraint in constraints:
        groups = constraint.disjoint_groups(d)
        if groups is None:
            continue
        has_others = bool((groups.of_value == groups.number).any())
        if not has_others or total is None:
            return groups
        left = total - float(groups.totals.sum())
        return Groups(groups.of_value, np.append(groups.totals, left))
    return None


def _order(constraints: tuple[Constraint, ...], d: int) -> Isotonic | None:
    """Return all orders as one; None without an order, or where together they make no forest."""
    orders: list[Isotonic] = []
    for constraint in constraints:
        order = constraint.isotonic(d)
        if order is None:
            pairs = _pairs(constraint, d)[0]
            order = order_of(pairs, d) if len(pairs) else None
        if order is not None:
            orders.append(order)
    if not orders:
        return None
    order = joined(orders, d)
    # An order without a pair leaves everything as it is.
    is_empty = isinstance(order, ForestOrder) and not len(order.pairs())
    return None if is_empty else order


def _ties(constraints: tuple[Constraint, ...], d: int) -> Index | None:
    """Return the class of each value where rows state that values are equal, else None."""
    pairs = np.concatenate([_pairs(one, d)[1] for one in constraints] or [np.empty((0, 2), int)])
    if not len(pairs):
        return None
    from scipy import sparse  # slow to import

    links = sparse.csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(d, d))
    _, classes = sparse.csgraph.connected_components(links, directed=False)
    return np.asarray(classes, dtype=np.int64)


def _pairs(constraint: Constraint, d: int) -> tuple[Index, Index]:
    """Return pairs (a, b) with f[a] >= f[b], and pairs of equal values, that rows state.

    A row states one if it has two entries, one the negative of the other, and a bound of 0.
    """
    none = np.empty((0, 2), dtype=np.int64)
    rows = constraint.rows(d) if constraint.box(d) is None else None
    if rows is None or rows.auxiliary is not None:
        return none, none
    matrix = rows.matrix.tocsr()
    above: list[tuple[int, int]] = []
    equal: list[tuple[int, int]] = []
    for row in range(matrix.shape[0]):
        entries = slice(matrix.indptr[row], matrix.indptr[row + 1])
        factors = matrix.data[entries]
        if len(factors) != 2 or factors[0] != -factors[1] or not factors[0]:
            continue
        high, low = matrix.indices[entries][np.argsort(-factors)]
        if rows.lower[row] == 0 and rows.upper[row] == 0:
            equal.append((high, low))
        elif rows.lower[row] == 0:
            above.append((high, low))
        elif rows.upper[row] == 0:
            above.append((low, high))
    return (
        np.array(above, dtype=np.int64).reshape(-1, 2),
        np.array(equal, dtype=np.int64).reshape(-1, 2),
    )
