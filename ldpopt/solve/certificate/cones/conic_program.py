"""Programs as Clarabel takes them, and a lower bound of their minimum from any multipliers.

The program is min c·x + ½ xᵀPx with A x + s = b, s in K, which cvxpy makes of every convex problem.
Let x̂ be any point, z any point of the dual cone K*, D a diagonal matrix with P - D positive
semidefinite, and let every feasible x lie in a box. With h the objective and
ρ = c + P x̂ + Aᵀz,

    h(x̂) - h(x) <= z·(b - A x̂) + Σ_j max_{x_j in box} [ρ_j (x̂_j - x_j) - ½ D_j (x̂_j - x_j)²]

for every feasible x, for h(x) - h(x̂) >= (c + P x̂)·(x - x̂) + ½ Σ D_j (x_j - x̂_j)² and
z·(b - A x) = z·s >= 0 (Neumaier and Shcherbina 2004 for linear programs; Jansson, Chaykin and Keil
2007 for cones). ``rise`` is that right side, with all rounding charged. It assumes nothing about
x̂ and z: a solver that failed only makes it larger.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.solve.certificate.bounds import exact_sums
from ldpopt.solve.certificate.bounds.dual import EPS, separable_rise
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.cones.dual_cones import Cones, project, surely_positive
from ldpopt.solve.certificate.cones.ranges import Cut
from ldpopt.solve.programs.program import by_clarabel
from ldpopt.solve.programs.solvers import SOLVERS
from ldpopt.solve.programs.units import Coefficients, Units, balanced, row_groups

Array = NDArray[np.float64]

# Largest order of a matrix P whose smallest eigenvalue is worth a factorisation.
_DENSE = 1500

# How much of its trace a form may be indefinite by, in roundings per variable: products of matrices
# are rounded, and this covers what their proof takes itself.
_SEMIDEFINITE = 8

# Clarabel's own limit of 200 is met by steep exponential cones that it solves in 300.
_ITERATIONS = 500

# How Clarabel ends where shorter steps may take it further.
_STUCK = ("InsufficientProgress", "NumericalError")
_SOLVED = "Solved"


class Rise(NamedTuple):
    """An upper bound of h(x̂) - min h.

    Attributes
    ----------
    value
        The bound; ``inf`` where a residual points to a side without bound.
    residual, error
        ρ, and how far rounding may have moved it.
    open
        The variables whose term is infinite, by number.
    """

    value: float
    residual: Array
    error: Array
    open: NDArray[np.int64]


class Multipliers(NamedTuple):
    """What a solver claims: a point and multipliers, in the units of the program.

    Attributes
    ----------
    x, z
        The point and the multipliers.
    is_last
        Whether the solver could do no better: no tighter tolerance changes them.
    attained
        By how much the solver's own point is better than the one that is judged: no multipliers
        prove less than that, but for what its point violates.
    missed
        The 2-norm of what the solver's point misses the constraints by: it is feasible if these
        are moved by so much.
    """

    x: Array
    z: Array
    is_last: bool = False
    attained: float = 0.0
    missed: float = 0.0

    @property
    def explaining(self) -> float:
        """How large multipliers must be for the judged point to be a minimum all the same.

        The minimum falls by at most |z| times what constraints are moved by, for the multipliers z
        of the minimum: a point that misses them by less is better by more under longer z alone.
        """
        return np.inf if self.missed == 0 else float(np.nan_to_num(self.attained / self.missed))


@dataclass(frozen=True, eq=False)
class ConicProgram:
    """min c·x + ½ xᵀPx with A x + s = b, s in K.

    Attributes
    ----------
    quadratic
        P, symmetric and positive semidefinite; None for 0.
    linear, linear_error
        c, and how far the numbers meant may lie from it.
    matrix, right, cones
        A (CSC), b and K.
    """

    quadratic: Any
    linear: Array
    matrix: Any
    right: Array
    cones: Cones
    linear_error: Array | float = 0.0

    @classmethod
    def of(cls, data: Any) -> ConicProgram:
        """Return the program in cvxpy's ``get_problem_data("CLARABEL")``."""
        from scipy import sparse

        quadratic = None
        if data.get("P") is not None and data["P"].nnz:
            # Clarabel reads the upper triangle alone.
            upper = sparse.triu(data["P"], format="csc")
            quadratic = (upper + sparse.triu(upper, 1).T).tocsc()
        return cls(
            quadratic,
            np.asarray(data["c"], dtype=np.float64),
            sparse.csc_array(data["A"]),
            np.asarray(data["b"], dtype=np.float64),
            Cones.of(data["dims"]),
        )

    @cached_property
    def is_convex(self) -> bool:
        """Whether P is proved to be positive semidefinite but for rounding of its entries.

        cvxpy takes the user's word, and eigenvalues a little below 0, for that. Of a larger form
        than ``_DENSE`` only a dominant diagonal is a proof, and else it is taken too.
        """
        if self.quadratic is None:
            return True
        diagonal = np.asarray(self.quadratic.diagonal())
        sizes = np.asarray(abs(self.quadratic).sum(axis=0)).ravel()
        rounding = _SEMIDEFINITE * (len(diagonal) + 2) * EPS * float(np.abs(diagonal).sum())
        if np.all(diagonal + rounding >= sizes - np.abs(diagonal)):
            return True
        used = np.flatnonzero(np.diff(self.quadratic.indptr))
        if len(used) > _DENSE:
            return bool(np.all(diagonal >= 0))
        return surely_positive(self.quadratic[used][:, used].toarray(), -rounding)

    @cached_property
    def curvature(self) -> Array:
        """D: a diagonal below P, proved in floating point; 0 where nothing is known."""
        size = len(self.linear)
        if self.quadratic is None:
            return np.zeros(size)
        diagonal = np.asarray(self.quadratic.diagonal())
        if self.quadratic.nnz == np.count_nonzero(diagonal):
            return np.asarray(np.maximum(diagonal, 0.0))
        result = np.zeros(size)
        used = np.flatnonzero(np.diff(self.quadratic.indptr))
        if len(used) > _DENSE:
            return result
        # Variables that only meet themselves keep their own curvature.
        dense = self.quadratic[used][:, used].toarray()
        smallest = float(np.linalg.eigvalsh(dense)[0])
        for part in (0.9, 0.5):
            if smallest > 0 and surely_positive(dense, part * smallest):
                result[used] = part * smallest
                break
        return result

    def value(self, x: Array) -> tuple[float, float]:
        """Return c·x + ½ xᵀPx, rounded once, and a bound of the error."""
        linear = exact_sums.two_product(self.linear, x)
        if self.quadratic is None:
            return exact_sums.total(*linear)
        entries = self.quadratic.tocoo()
        high, low = exact_sums.two_product(entries.data / 2, x[entries.row])
        column = x[entries.col]
        products = (*exact_sums.two_product(high, column), *exact_sums.two_product(low, column))
        return exact_sums.total(*linear, *products)

    def cut(self, level: float) -> Cut:
        """Return c·x + ½ Σ D x² <= level: what holds where the objective is at most the level."""
        return Cut(self.linear, self.curvature, level)

    def rise(self, point: Multipliers, box: Box, curvature: Array | None = None) -> Rise:
        """Return the bound of the module's text from any x̂ and z; z is projected on K* first.

        ``curvature`` replaces D where the objective is h only up to first order at x̂.
        """
        z = project(point.z, self.cones)
        x = point.x
        curvature = self.curvature if curvature is None else curvature
        residual, error = self.residual(x, z)
        error = error + self.linear_error
        slack, slack_error = exact_sums.row_totals(self.matrix, -x, self.right)
        products, product_error = map(float, exact_sums.product_totals(z, slack))
        product_error += float(np.abs(z) @ slack_error) * (1 + len(z) * EPS)
        apart = float(separable_rise(residual, error, x, box.lower, box.upper, curvature))
        value = products + product_error + apart
        value += 4 * EPS * (abs(products) + product_error + apart)
        if not np.isfinite(value):
            value = np.inf
        slope = np.abs(residual) + error
        unbounded = np.where(residual > 0, np.isinf(box.lower), np.isinf(box.upper))
        unbounded &= (slope > 0) & (curvature == 0)
        return Rise(value, residual, error, np.flatnonzero(unbounded))

    def residual(self, x: Array, z: Array) -> tuple[Array, Array]:
        """Return c + P x + Aᵀz, each rounded once, and bounds of the errors."""
        from scipy import sparse

        if self.quadratic is None:
            return exact_sums.column_totals(self.matrix, z, self.linear)
        stacked = sparse.vstack([self.quadratic, self.matrix], format="csc")
        return exact_sums.column_totals(stacked, np.concatenate([x, z]), self.linear)

    def units_near(self, sizes: Array) -> Units:
        """Return units in which the numbers of the program are of order 1.

        Parameters
        ----------
        sizes
            How large the variables are, shape (columns,); 0 where that is not known, as of
            auxiliary variables, which get the units that the others imply.
        """
        is_known = sizes > 0
        # Powers of two, so that nothing is rounded.
        stated = np.where(is_known, np.exp2(np.round(np.log2(np.where(is_known, sizes, 1.0)))), 1.0)
        cones = self.cones
        groups = row_groups(cones.soc_start, cones.sizes)
        scaled = self.matrix.copy()
        scaled.data = scaled.data * np.repeat(stated, np.diff(scaled.indptr))
        entries = Coefficients.of(scaled, groups, 0.0)
        units = balanced(entries, is_known, with_objective=True)
        if units is None:
            return Units(np.ones(len(self.right)), stated, 1.0)
        return units._replace(columns=units.columns * stated)

    def solve(self, tolerance: float, units: Units | None = None) -> Multipliers | None:
        """Return what Clarabel ends with, whatever its status; None if it has no numbers.

        Clarabel's tolerances are absolute: rows and variables are solved for in their units, and
        the objective is divided by its largest coefficient, that of a linear term if there is one.
        """
        if units is None:
            units = Units(np.ones(len(self.right)), np.ones(len(self.linear)), 1.0)
        costs = self.linear * units.columns
        quadratic = self._quadratic_in(units.columns)
        # Squares of deviations alone have no other costs.
        scale = _largest(costs) or _largest(quadratic.data) or 1.0
        parts = (
            quadratic / scale,
            costs / scale,
            self._matrix_in(units),
            self.right * units.rows,
            self.cones.for_clarabel(),
        )
        accuracy = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), tolerance)
        result = by_clarabel(parts, {**accuracy, "max_iter": _ITERATIONS})
        if result is None or str(result.status) in _STUCK:
            careful = by_clarabel(parts, {**accuracy, **SOLVERS["CLARABEL"].careful})
            result = result if careful is None else careful
        if result is None:
            return None
        x = units.columns * np.asarray(result.x)
        z = scale * units.rows * np.asarray(result.z)
        if not (np.isfinite(x).all() and np.isfinite(z).all()):
            return None
        # The solver's slack lies in the cones, whatever rounding the rows have.
        slack = np.asarray(result.s) / units.rows
        with np.errstate(all="ignore"):
            missed = float(np.linalg.norm(self.right - self.matrix @ x - slack))
        return Multipliers(x, z, is_last=str(result.status) != _SOLVED, missed=missed)

    def _quadratic_in(self, columns: Array) -> Any:
        """Return the upper triangle of P, which is all that Clarabel reads, in some units."""
        from scipy import sparse

        size = len(self.linear)
        if self.quadratic is None:
            return sparse.csc_array((size, size))
        stored = self.quadratic.tocsc()
        column = np.repeat(np.arange(size), np.diff(stored.indptr))
        data = stored.data * columns[stored.indices] * columns[column]
        # A diagonal, as it mostly is, is its own triangle: its entries need not be sorted anew.
        if np.all(stored.indices <= column):
            return sparse.csc_array((data, stored.indices, stored.indptr), shape=(size, size))
        is_upper = stored.indices <= column
        place = (stored.indices[is_upper], column[is_upper])
        return sparse.csc_array((data[is_upper], place), shape=(size, size))

    def _matrix_in(self, units: Units) -> Any:
        """Return A in some units."""
        scaled = self.matrix.copy()
        scaled.data = scaled.data * np.repeat(units.columns, np.diff(scaled.indptr))
        scaled.data *= units.rows[scaled.indices]
        return scaled


def _largest(numbers: Array) -> float:
    return float(np.max(np.abs(numbers), initial=0.0))
