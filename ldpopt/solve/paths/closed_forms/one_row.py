"""One linear row beside a box with at most one total: the root of the row's price.

Without the row the problem has a form. Where its point breaks the row, the row holds with equality,
and its multiplier λ tilts the loss of each value by λ a_v: a·f falls as λ grows, and f is that of a
box with a total, whose multiplier is found inside. Least squares take Newton's steps in both.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.closed_form.brackets import End, bracketed_root
from ldpopt.closed_form.one_root import scale_of
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import LeastSquares
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.paths.closed_forms.lookup import closed_form_for
from ldpopt.solve.paths.closed_forms.one_root import bracket, finite_bounds, reachable_bounds
from ldpopt.solve.paths.closed_forms.registry import Match, solves_family

Array = NDArray[np.float64]

# The first price, as a share of the range of slopes, and by what it grows: far too large a price
# leaves a total to the last bits of its multiplier.
_FIRST_PRICE = 1e-6
_GROWTH = (4.0, 1e4)
# Beyond 1e24 times the first price no point meets the row.
_MAX_DOUBLINGS = 40
# Newton's steps in both multipliers settle after a dozen, or not at all.
_NEWTON_STEPS = 40
_HALVINGS = 12
# What equations miss where the point is taken for linear in the multipliers.
_LINEAR = 1e-9
# Of the row's own rounding, by which its value may stay inside: the gap is the price times this.
_SLACK = 1e-14
# Of that rounding, from which on the row's value jumps at the price: a loss is linear in some
# values there.
_JUMP = 1e5


class _Row(NamedTuple):
    """The row a·f between two ends, and the problem without it."""

    coefficients: Array
    lower: float
    upper: float
    rest: Formulation

    def at_most(self, sign: float) -> tuple[Array, float]:
        """Return a and b of a·f <= b, for the upper end (1) or the lower one (-1)."""
        return sign * self.coefficients, self.upper if sign > 0 else -self.lower


def taken_apart(formulation: Formulation, d: int) -> _Row | None:
    """Return the only row and the rest; None for other problems."""
    tied = formulation.region(d).tied
    row = tied[0].row(d) if len(tied) == 1 else None
    if row is None:
        return None
    rest = formulation.under(tuple(c for c in formulation.constraints if c is not tied[0]))
    return _Row(row.coefficients, row.lower, row.upper, rest) if rest.is_box(d) else None


@solves_family
def one_row(formulation: Formulation, estimate: FrequencyEstimate) -> Match | None:
    """Return the form without the row, and with it as an equation where that breaks it."""
    row = taken_apart(formulation, estimate.d)
    if row is None or not _has_minima(row.rest, estimate):
        return None
    form = closed_form_for(row.rest, estimate)
    if form is None:
        return None
    return Match(
        f"{form.name}, one root for a row", lambda: _solved(row, estimate, form), may_miss=True
    )


def _has_minima(rest: Formulation, estimate: FrequencyEstimate) -> bool:
    """Return whether there is a minimum at every price: squares, and bounded sets."""
    separable = rest.loss.separable
    if separable is None:
        return False
    region = rest.region(estimate.d)
    # With a total, lower bounds keep all values below what they leave of it.
    if separable.is_square or (region.total is not None and region.lower_count == estimate.d):
        return True
    # As stated: the end of a loss's domain is no bound that its response keeps away from.
    box = (region.lower, region.upper)
    if region.total is not None:
        box = finite_bounds(*box, region.total)
    # Other losses may grow like a straight line: beyond its slope a price has no minimum.
    return all(bool(np.isfinite(end).all()) for end in box)


def _solved(row: _Row, estimate: FrequencyEstimate, form: Match) -> Array:
    """Return the minimisers of all trials."""
    f = form.evaluate()
    value = np.asarray(f @ row.coefficients)
    rounding = _rounding(row, f)
    for sign, is_outside in ((1.0, value > row.upper), (-1.0, value < row.lower)):
        a, limit = row.at_most(sign)
        for trial in zip(*np.nonzero(np.atleast_1d(is_outside)), strict=True):
            # One vector has no leading axes.
            place = trial if value.ndim else ()
            f[place] = _at_the_edge(row.rest, estimate[place], f[place], (a, limit), rounding)
    return f


def _rounding(row: _Row, f: Array) -> float:
    """Return what a·f is known to, about."""
    return _SLACK * max(float(np.max(np.abs(f) @ np.abs(row.coefficients))), 1e-300)


def _at_the_edge(
    rest: Formulation,
    estimate: FrequencyEstimate,
    without: Array,
    row: tuple[Array, float],
    rounding: float,
) -> Array:
    """Return the minimiser of one vector with a·f = limit, where ``without`` it a·f is larger."""
    a, limit = row
    if rest.loss.family is LeastSquares:
        return _nearest(rest, estimate, a, limit)
    tilted = _Tilted(rest, estimate, a)
    settled = tilted.by_newton(limit, without, rounding)
    if settled is not None:
        return settled
    inside = outside = np.empty(0)

    def excess(price: float) -> float:
        nonlocal inside, outside
        f = tilted.minimiser(price)
        # What is inside later is nearer to the edge: the search only narrows.
        if a @ f <= limit:
            inside = f
        else:
            outside = f
        return float(a @ f) - limit

    price = tilted.first_price
    start = End(0.0, excess(0.0))
    low = start
    high = End(price, excess(price))
    for _ in range(_MAX_DOUBLINGS):
        if high.value <= 0:
            break
        ahead = _further(high, start)
        low = high
        high = End(ahead, excess(ahead))
    if high.value > 0:
        # No point meets the row: the nearest one, whose violation is for the caller to judge.
        return tilted.minimiser(high.place)
    if low.value > 0:
        bracketed_root(excess, (high, low), lambda value: -rounding <= value <= 0)
        short = limit - float(a @ inside)
        if short > _JUMP * rounding:
            # Both are best at this price, and so is what lies between them.
            return inside + short / float(a @ (outside - inside)) * (outside - inside)
    return inside


def _further(tried: End, start: End) -> float:
    """Return a larger price: a little beyond where a straight line would meet the row."""
    smallest, largest = _GROWTH
    fall = start.value - tried.value
    growth = smallest if fall <= 0 else 1.5 * start.value / fall
    return tried.place * min(max(growth, smallest), largest)


def _nearest(rest: Formulation, estimate: FrequencyEstimate, a: Array, limit: float) -> Array:
    """Return the nearest point of the bounds with the total and the row as equations."""
    from scipy import sparse

    loss = cast("LeastSquares", rest.loss)
    region = rest.region(estimate.d)
    rows = [a]
    right = [limit]
    if region.total is not None:
        # In units of the row: the system of both is solved as one.
        size = max(float(np.abs(a).max()), np.finfo(np.float64).tiny)
        rows.append(np.full(len(a), size))
        right.append(size * region.total)
    target = loss.target(estimate)
    matrix = sparse.csc_array(np.stack(rows))
    return closed_form.with_equations(target, matrix, np.array(right), region.lower, region.upper)


class _Tilted:
    """The problem without its row, with a price on a·f."""

    def __init__(self, rest: Formulation, estimate: FrequencyEstimate, a: Array) -> None:
        separable = rest.loss.separable
        assert separable is not None  # one_row
        self._separable = separable
        self._coefficients = a
        self._loss = rest.loss
        self._estimate = estimate
        self._constants = rest.loss.constants(estimate)
        d = estimate.d
        self._data = tuple(np.broadcast_to(x, (1, d)) for x in rest.loss.data(estimate))
        self._total = rest.total(d)
        lower, upper = reachable_bounds(rest, estimate)
        if self._total is None:
            self._box = (lower, upper)
            return
        self._box = finite_bounds(lower, upper, self._total)
        ends = bracket(rest.loss, estimate, self._box, self._at(0.0), self._total)
        self._ends = tuple(float(end[0]) for end in ends)

    def _at(self, price: float) -> closed_form.Minimiser:
        def minimiser(mu: Array, _: NDArray[np.intp]) -> Array:
            tilt = mu + price * self._coefficients
            f = self._separable.response(tilt, self._data, self._constants)
            return np.clip(f, *self._box, out=f)

        return minimiser

    @property
    def first_price(self) -> float:
        """A price that is small beside the slopes, from which the search goes up."""
        size = max(float(np.abs(self._coefficients).max()), np.finfo(np.float64).tiny)
        if self._total is None:
            return _FIRST_PRICE / size
        width = self._ends[1] - self._ends[0]
        return max(_FIRST_PRICE * width, np.finfo(np.float64).eps) / size

    def minimiser(self, price: float) -> Array:
        """Return the point that is best at a price."""
        if self._total is None:
            f: Array = self._at(price)(np.zeros((1, 1)), np.zeros(1, dtype=np.intp))[0]
            return f
        # A tilt moves every slope by at most this.
        shift = price * float(np.abs(self._coefficients).max())
        ends = (np.array([self._ends[0] - shift]), np.array([self._ends[1] + shift]))
        (f,) = closed_form.one_root(self._at(price), ends, self._box, self._total)
        return np.asarray(f)

    def by_newton(self, limit: float, without: Array, rounding: float) -> Array | None:
        """Return the point with a·f = limit by Newton's steps in all multipliers at once, or None.

        They begin at the multiplier of the total for the minimiser ``without`` the row, shape (d,).

        They need a dozen readings of the values where a root inside a root needs hundreds. Nothing
        is returned where they do not settle: the root inside the root then finds the point.
        """
        rows = [self._coefficients]
        wanted = [limit]
        if self._total is not None:
            rows.append(np.ones(len(self._coefficients)))
            wanted.append(self._total)
        equations = np.stack(rows)
        right = np.array(wanted)
        multipliers = np.zeros(len(right))
        multipliers[1:] = self._price_of_total(without)
        f, missed = self._at_multipliers(equations, right, multipliers)
        for number in range(_NEWTON_STEPS):
            if not np.isfinite(missed).all():
                return None
            free, moves = self._slopes(f)
            between = equations[:, free]
            normal = np.einsum("if,f,jf->ij", between, moves, between)
            try:
                step = np.linalg.solve(normal, missed)
            except np.linalg.LinAlgError:  # no value is between its bounds
                return None
            if float(np.max(np.abs(missed))) <= _LINEAR * scale_of(right):
                # So near, the point is linear in the multipliers: what is missed is shared.
                f[free] -= moves * (step[:, None] * between).sum(axis=0)
                f = np.clip(f, *self._box, out=f)
                rest = np.abs(self._sums(f) - right)
                size = float(np.abs(f).sum())
                is_met = rest[0] <= rounding and bool((rest[1:] <= _SLACK * size).all())
                return f if is_met else None
            for _ in range(_HALVINGS):
                ahead, left = self._at_multipliers(equations, right, multipliers + step)
                # The first step trades what the row misses for what the total then misses.
                if number == 0 or np.linalg.norm(left) < np.linalg.norm(missed):
                    break
                step = step / 2
            else:
                return None
            multipliers = multipliers + step
            f = ahead
            missed = left
        return None

    def _at_multipliers(
        self, equations: Array, right: Array, multipliers: Array
    ) -> tuple[Array, Array]:
        """Return the best point at multipliers, and by how much it is above the right sides."""
        tilt = np.einsum("i,iv->v", multipliers, equations)[None]
        with np.errstate(all="ignore"):
            f = self._separable.response(tilt, self._data, self._constants)[0]
        f = np.clip(f, *self._box, out=f)
        return f, self._sums(f) - right

    def _sums(self, f: Array) -> Array:
        """Return a·f and, beside a total, Σ f."""
        # In numpy's order: what a matrix product adds up depends on the processor.
        sums = [(self._coefficients * f).sum()]
        if self._total is not None:
            sums.append(f.sum())
        return np.array(sums)

    def _price_of_total(self, without: Array) -> float:
        """Return the multiplier of the total at the minimiser without the row."""
        lower, upper = self._box
        is_free = (lower < without) & (without < upper)
        if not is_free.any():
            return 0.0
        # All free values have this slope, but for rounding.
        return -float(np.median(self._loss.gradient(without, self._estimate)[is_free]))

    def _slopes(self, f: Array) -> tuple[NDArray[np.intp], Array]:
        """Return the values that are free to move, and by how much each falls with its price."""
        lower, upper = self._box
        # Few of many: at its bounds a value does not move.
        free = np.flatnonzero((lower < f) & (f < upper))
        curvature = np.broadcast_to(self._loss.curvature(self._estimate, f, f), f.shape)[free]
        is_curved = curvature > 0
        return free[is_curved], 1.0 / curvature[is_curved]
