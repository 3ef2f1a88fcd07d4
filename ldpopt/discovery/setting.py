"""What operators take from a problem: its bounds, total, groups, order, ties, tree and noise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form import Groups, KnownMargins
from ldpopt.constraints import Bounds, Constraint, GroupTotals, SumsTo
from ldpopt.constraints.base import Ball, Tree
from ldpopt.constraints.isotonic import Isotonic, joined, order_of
from ldpopt.discovery.row_facts import RowFacts, row_facts
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.noise import Noise
from ldpopt.losses import Loss
from ldpopt.protocol import PureProtocol
from ldpopt.solve.certificate.prices.margin_prices import margins_of
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.paths.closed_forms.one_row import taken_apart

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
        The tree whose nodes the values are.
    count
        How many values may differ from 0.
    n, oracle, noise
        The number of reports, their protocol, and the noise of the estimates.
    row
        The coefficients and the two ends of the only row beside a box with at most one total.
    ball
        The only ball of a norm without weights, or of the divergence, beside such a box.
    margins
        The margins of one table, where nothing else is known.
    """

    loss: Loss
    d: int
    lower: Array | None
    upper: Array | None
    total: float | None
    groups: Groups | None
    order: Isotonic | None
    ties: Index | None
    tree: Tree | None
    count: int | None
    n: int | None
    oracle: PureProtocol | None
    noise: Noise | None
    row: tuple[Array, float, float] | None = None
    ball: Ball | None = None
    margins: KnownMargins | None = None
    _problems: dict[Any, Formulation] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, problem: Formulation, estimate: FrequencyEstimate) -> Setting:
        """Return what a problem states for estimates of this one's size, protocol and noise.

        The problem must be one at a moment, as ``Formulation.at`` returns it.
        """
        d = estimate.d
        region = problem.region(d)
        # An order that the library knows is not read from its rows again.
        unordered = [part for part in problem.constraints if part.isotonic(d) is None]
        facts = row_facts(tuple(unordered), d)
        trees = [part.tree for part in problem.constraints if part.tree is not None]
        stated_counts = [part.largest_support for part in problem.constraints]
        counts = [count for count in stated_counts if count is not None]
        total = facts.total if region.total is None else region.total
        return cls(
            loss=problem.loss,
            d=d,
            lower=_stated(np.maximum(region.lower, facts.lower)),
            upper=_stated(np.minimum(region.upper, facts.upper)),
            total=total,
            groups=_groups(facts, d, total),
            order=_order(problem.constraints, facts, d),
            ties=_ties(facts, d),
            tree=trees[0] if trees else None,
            count=min(counts, default=None),
            n=estimate.n,
            oracle=estimate.oracle,
            noise=_noise(estimate),
            row=_row(problem, d),
            ball=_ball(problem, d),
            margins=margins_of(problem.constraints, d),
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
    def box(self) -> tuple[Array, Array]:
        """The lower and the upper bound of each value, infinite where none is stated."""
        lower = np.full(self.d, -np.inf) if self.lower is None else self.lower
        upper = np.full(self.d, np.inf) if self.upper is None else self.upper
        return lower, upper

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
        # An operator has changed them: they are no raw estimates, but have their noise.
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
            parts.append(Bounds(*self.box))
        if by_group and self.groups is not None:
            of_value = self.groups.of_value
            members = [np.flatnonzero(of_value == group) for group in range(self.groups.number)]
            parts.append(GroupTotals(members, self.groups.totals))
        elif self.total is not None:
            parts.append(SumsTo(self.total))
        return parts


def _row(problem: Formulation, d: int) -> tuple[Array, float, float] | None:
    apart = taken_apart(problem, d)
    return None if apart is None else (apart.coefficients, apart.lower, apart.upper)


def _ball(problem: Formulation, d: int) -> Ball | None:
    balls = [part.ball for part in problem.constraints if part.ball is not None]
    if len(balls) != 1 or balls[0].weights is not None:
        return None
    others = tuple(part for part in problem.constraints if part.ball is None)
    is_alone = Formulation(problem.loss, others).is_box(d)
    return balls[0] if is_alone else None


def _noise(estimate: FrequencyEstimate) -> Noise | None:
    try:
        return estimate.noise
    except InvalidInputError:  # losses of plain frequencies need none
        return None


def _stated(bounds: Array) -> Array | None:
    """Return bounds, or None where none of them is finite."""
    return bounds if np.isfinite(bounds).any() else None


def _groups(facts: RowFacts, d: int, total: float | None) -> Groups | None:
    """Return the groups that rows state, with the rest as one more; None if they overlap."""
    if not facts.groups:
        return None
    of_value = np.full(d, len(facts.groups))
    for number, (members, _) in enumerate(facts.groups):
        # A value in two groups: no operator takes such groups.
        if (of_value[members] < len(facts.groups)).any():
            return None
        of_value[members] = number
    totals = np.array([sum_of_group for _, sum_of_group in facts.groups])
    has_others = bool((of_value == len(totals)).any())
    if has_others and total is not None:
        # Values in no group have the number behind the last group.
        totals = np.append(totals, total - totals.sum())
    return Groups(of_value, totals)


def _order(constraints: tuple[Constraint, ...], facts: RowFacts, d: int) -> Isotonic | None:
    """Return all orders as one; None without an order, or where one is that of a top set."""
    stated = [constraint.isotonic(d) for constraint in constraints]
    orders = [order for order in stated if order is not None]
    if len(facts.above):
        orders.append(order_of(facts.above, d))
    if not orders:
        return None
    order = joined(orders, d)
    # An order without a pair leaves everything as it is.
    forest = None if order is None else order.forest
    is_empty = forest is not None and not len(forest.pairs())
    return None if is_empty else order


def _ties(facts: RowFacts, d: int) -> Index | None:
    """Return the class of each value where rows state that values are equal, else None."""
    if not len(facts.equal):
        return None
    from scipy import sparse  # slow to import

    first = facts.equal[:, 0]
    second = facts.equal[:, 1]
    links = sparse.csr_array((np.ones(len(first)), (first, second)), shape=(d, d))
    _, classes = sparse.csgraph.connected_components(links, directed=False)
    return np.asarray(classes, dtype=np.int64)
