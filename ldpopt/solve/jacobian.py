"""The derivative of a solution in the estimate that it was solved for.

On its face a minimiser satisfies equations: the slope is a combination of the rows that hold, and
these stay what they are. Their derivative gives the Jacobian, with H the second derivatives of the
loss in f, B the (negated) mixed ones in f and f̃, and N the rows:

    J = (H⁻¹ - H⁻¹ Nᵀ (N H⁻¹ Nᵀ)⁺ N H⁻¹) B.

Values that rows tie together move as one, which takes these rows out of the equations: of an order
or a price on variation nothing is left but blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ldpopt import validate
from ldpopt.constraints import LinearInequalities
from ldpopt.errors import InvalidInputError, NoDerivativeError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.frames import by_label
from ldpopt.losses.base import Totals
from ldpopt.solve.certificate.bounds.competitors import at_end
from ldpopt.solve.face import EXACT, Face, face_of
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.programs.program import quadratic_multipliers
from ldpopt.tables import html_of

Array = NDArray[np.float64]

# Singular values below this share of the largest are those of rows that depend on others.
_DEPENDENT = 1e-9

# Entries of the dense basis of rows that are neither ties nor disjoint.
_LARGEST_BASIS = 4 * 10**7

# A multiplier above this share of the slopes shows that a bound holds in earnest.
_CLEAR = 1e-7

# Products with so many unit vectors are taken at once.
_COLUMNS = 256

# Up to this size, of order 1, a multiplier of the program for one side is rounding.
_SLACK = 1e-7


@dataclass(frozen=True, eq=False, repr=False)
class Jacobian:
    """∂f̂_u/∂f̃_v of a solution f̂, kept as blocks and a few directions; ``dense`` writes it out.

    ``jacobian @ x`` is how the solution moves with the estimate, and ``jacobian.vjp(g)`` the
    gradient in the estimate of a function whose gradient in the solution is g. ``np.asarray`` of it
    is the matrix.

    Attributes
    ----------
    is_one_sided
        Whether the solution has a kink here: the derivative then holds for moves to one side.
    kinks
        What holds without a multiplier there, in words.

    Notes
    -----
    Cost of a product: O(d r) with r rows that are no ties, 1 on the simplex.

    Examples
    --------
    >>> from ldpopt import Problem, constraints, losses
    >>> simplex = [constraints.NonNegative(), constraints.SumsTo(1.0)]
    >>> solution = Problem(losses.LeastSquares(), simplex).solve([0.5, 0.75, -0.5])
    >>> np.asarray(solution.jacobian())
    array([[ 0.5, -0.5,  0. ],
           [-0.5,  0.5,  0. ],
           [ 0. ,  0. ,  0. ]])
    """

    _block: NDArray[np.int64]  # of each value, -1 where it stays
    _height: Array  # curvature of each block
    _basis: Any  # (blocks, r): directions that rows take away, scaled
    _sensitivity: Array
    _is_centred: bool
    kinks: tuple[str, ...]

    @property
    def is_one_sided(self) -> bool:
        """Whether the solution has a kink here."""
        return bool(self.kinks)

    @property
    def shape(self) -> tuple[int, int]:
        """(d, d)."""
        return len(self._block), len(self._block)

    def __len__(self) -> int:
        return self.shape[0]

    def __matmul__(self, moves: ArrayLike) -> Array:
        """Return the moves of the solution with moves of the estimate, (d,) or (d, m)."""
        x = self._columns("moves", moves)
        # The loss shifts the estimate to its sum first: a move of all values alike does not count.
        if self._is_centred:
            x = x - x.mean(axis=0)
        return self._moved(self._sensitivity[:, None] * x).reshape(np.shape(moves))

    def vjp(self, gradient: ArrayLike) -> Array:
        """Return Jᵀ g for g of shape (d,) or (d, m)."""
        g = self._columns("gradient", gradient)
        result = self._sensitivity[:, None] * self._moved(g)
        if self._is_centred:
            result = result - result.mean(axis=0)
        return result.reshape(np.shape(gradient))

    @cached_property
    def diagonal(self) -> Array:
        """∂f̂_v/∂f̃_v of each value, shape (d,)."""
        # Block -1, of values that stay, takes the last entry.
        moves = np.append(self._own_moves, 0.0)[self._block]
        diagonal = moves * self._sensitivity
        if self._is_centred:
            # The shift moves all values, by one part in d of the move of each.
            diagonal = diagonal - self._moved(self._sensitivity[:, None])[:, 0] / len(diagonal)
        return np.asarray(diagonal)

    @cached_property
    def low_rank(self) -> tuple[Array, Array, Array] | None:
        """(a, U, V) of shapes (d,), (d, r) and (d, r) with the matrix diag(a) - U Vᵀ.

        None where rows tie values together, or where they are many.
        """
        if self._of_values is None:
            return None
        give, left = self._of_values
        gain = give * self._sensitivity
        right = self._sensitivity[:, None] * left
        if self._is_centred:
            # With I - 11ᵀ/d on its right.
            means = (gain - left @ right.sum(axis=0)) / len(self)
            left = np.column_stack([left, means])
            right = np.column_stack([right, np.ones(len(self))])
        return gain, left, right

    @cached_property
    def _of_values(self) -> tuple[Array, Array] | None:
        """How values move with slopes of their own, and what rows take away, as full vectors.

        None where several values move as one, or where rows are many.
        """
        moving = np.flatnonzero(self._block >= 0)
        if len(moving) != len(self._height) or self._is_sparse:
            return None
        count = len(self._block)
        block = self._block[moving]
        give = np.zeros(count)
        give[moving] = 1 / self._height[block]
        left = np.zeros((count, self._basis.shape[1]))
        left[moving] = self._basis[block]
        return give, left

    @property
    def trace(self) -> float:
        """The degrees of freedom: how many values of the solution move with the estimate."""
        return float(np.sum(self.diagonal))

    def dense(self) -> Array:
        """Return the matrix, shape (d, d)."""
        return self @ np.eye(len(self))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the matrix."""
        return self.dense().astype(np.float64 if dtype is None else dtype, copy=False)

    @cached_property
    def _own_moves(self) -> Array:
        """How a block moves with a slope of its own."""
        # Of a sparse basis a product with itself is sparse too.
        squares = self._basis.multiply(self._basis) if self._is_sparse else self._basis**2
        return np.asarray(1 / self._height - np.asarray(squares.sum(axis=1)).ravel())

    @property
    def _is_sparse(self) -> bool:
        return not isinstance(self._basis, np.ndarray)

    def _moved(self, slopes: Array) -> Array:
        """Return how values move with slopes of shape (d, m)."""
        if self._of_values is not None:
            give, left = self._of_values
            return np.asarray(give[:, None] * slopes - left @ (left.T @ slopes))
        moving = np.flatnonzero(self._block >= 0)
        block = self._block[moving]
        sums = np.zeros((len(self._height), slopes.shape[1]))
        np.add.at(sums, block, slopes[moving])
        # In blocks: their own moves, less those that the rows forbid.
        moves = sums / self._height[:, None] - self._basis @ (self._basis.T @ sums)
        result = np.zeros_like(slopes)
        result[moving] = moves[block]
        return result

    def _columns(self, what: str, vectors: ArrayLike) -> Array:
        x = np.asarray(validate.array(what, vectors), dtype=np.float64)
        d = len(self)
        if x.ndim not in (1, 2) or len(x) != d:
            raise InvalidInputError(f"{what} must have shape ({d},) or ({d}, m), got {x.shape}")
        wrong = ~np.isfinite(x)
        if wrong.any():
            at = validate.first(wrong)
            raise InvalidInputError(f"{what} must be finite, found {x[at]}{validate.placed(at)}")
        return x.reshape(d, -1)

    def __repr__(self) -> str:
        d = len(self)
        return f"Jacobian(d={d}, degrees of freedom {self.trace:.6g}, {self._side})"

    def _repr_html_(self) -> str:
        """Return what is known of the matrix, without its numbers."""
        d = len(self)
        facts = [
            ("matrix", f"{d:,} × {d:,}"),
            ("degrees of freedom", f"{self.trace:.6g}"),
            ("derivative", self._side),
        ]
        return html_of((), facts, title="Derivative of the solution in its estimate")

    @property
    def _side(self) -> str:
        return "one-sided: " + "; ".join(self.kinks[:3]) if self.kinks else "exact"


@dataclass(frozen=True, eq=False, repr=False)
class JointJacobian(Jacobian):
    """The same where totals of groups are measured too: a block of the Jacobian of both.

    With M the moves of values and totals t = A f by their slopes, s their sensitivities, it is
    [I 0] M diag(s) [I; A]: each measurement moves by what it sees of the values' move.
    """

    _members: Any  # A, sparse (m, d)

    @property
    def shape(self) -> tuple[int, int]:
        """(d, d)."""
        d = self._members.shape[1]
        return d, d

    def __matmul__(self, moves: ArrayLike) -> Array:
        """Return the moves of the solution with moves of the combination, (d,) or (d, m)."""
        x = self._columns("moves", moves)
        seen = np.concatenate([x, self._members @ x])
        moved = self._moved(self._sensitivity[:, None] * seen)
        return moved[: len(x)].reshape(np.shape(moves))

    def vjp(self, gradient: ArrayLike) -> Array:
        """Return Jᵀ g for g of shape (d,) or (d, m)."""
        g = self._columns("gradient", gradient)
        of_totals = np.zeros((self._members.shape[0], g.shape[1]))
        slopes = np.concatenate([g, of_totals])
        moved = self._sensitivity[:, None] * self._moved(slopes)
        of_values = moved[: len(g)]
        # An estimate moves each total by the sum of the values in it.
        result = of_values + self._members.T @ moved[len(g) :]
        return np.asarray(result).reshape(np.shape(gradient))

    @property
    def low_rank(self) -> None:
        """None: groups of values move together."""
        return None

    @cached_property
    def diagonal(self) -> Array:
        """How much each value moves as it alone does, shape (d,): d products."""
        d = len(self)
        result = np.empty(d)
        # In parts: the matrix itself may have no room.
        for first in range(0, d, _COLUMNS):
            places = np.arange(first, min(first + _COLUMNS, d))
            units = np.zeros((d, len(places)))
            units[places, places - first] = 1.0
            result[places] = (self @ units)[places, places - first]
        return result


def jacobian(
    formulation: Formulation,
    start: FrequencyEstimate,
    f: Array,
    towards: ArrayLike | None = None,
) -> Jacobian:
    """Return the derivative of the minimiser f in the estimate that it was solved for.

    Parameters
    ----------
    formulation, start, f
        A problem, one vector's estimate, and the minimiser.
    towards
        A move of the estimate, shape (d,): at a kink the derivative is the one on this side. None
        lets all constraints hold that hold there.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the estimate is a stack, or ``towards`` is not a finite vector of d numbers.
    NoDerivativeError
        If the face is not known: see ``face_of``.
    """
    if f.ndim != 1:
        raise InvalidInputError(
            f"a Jacobian is of one vector, and this solution has the shape {f.shape}: solve for "
            "estimate[0], say"
        )
    direction = None
    if towards is not None:
        direction = validate.vector("towards", by_label("towards", towards, start.labels))
        validate.one_per_value("towards", direction, start.d)
    # Most problems are of this kind, and face_of costs several times as much.
    separate = _without_rows(formulation, start, f)
    if separate is not None:
        return separate
    face = face_of(formulation, start, f)
    loss = formulation.loss
    totals = loss.totals(f)
    if totals is not None:
        face = face.with_totals(totals)
        if direction is not None:
            direction = np.concatenate([direction, totals.members @ direction])
    # Without a direction all that holds by accident is kept, as if it held in earnest.
    held_values = face.weak_sides != 0
    held_rows = np.ones(len(face.weak_rows.side), dtype=np.bool_)
    has_weak = held_values.any() or held_rows.any()
    if direction is not None and has_weak:
        held_values, held_rows = _held_towards(face, direction)
    rows = [face.rows.matrix, face.weak_rows.matrix[np.flatnonzero(held_rows)]]
    from scipy import sparse

    matrix = sparse.csr_array(sparse.vstack(rows, format="csr"))
    return _on_face(face, face.fixed | held_values, matrix, totals)


def _without_rows(formulation: Formulation, start: FrequencyEstimate, f: Array) -> Jacobian | None:
    """Return the Jacobian where values interact through one total alone, by sums over values.

    None is returned of other problems, and at kinks: those are for ``face_of``.
    """
    # A box with at most one total: its rows are known without being written down.
    region = formulation.region(start.d)
    loss = formulation.loss
    is_smooth = loss.smooth_part is loss and loss.separable is not None
    sensitivity = loss.sensitivity(f, start) if is_smooth and region.is_box else None
    if sensitivity is None:
        return None
    slope = np.asarray(loss.gradient(f, start))
    # Strictly inside: what is at an end by accident is left to face_of.
    is_inside = (f > region.lower + EXACT) & (f < region.upper - EXACT)
    free = is_inside & np.isfinite(slope)
    height = np.broadcast_to(loss.curvature(start, f, f), f.shape)[free]
    if not free.any() or not np.all(height > 0):
        return None
    # How far a value moves with its slope.
    give = 1 / height
    price = 0.0
    basis = np.zeros((len(give), 0))
    if region.total is not None:
        # The mean slope, weighted as the least squares of one Newton step weight it.
        price = float(np.sum(slope[free] * give) / np.sum(give))
        basis = (give / np.sqrt(np.sum(give)))[:, None]
    # Of the terms too whose difference the slopes are: these may all be rounding.
    largest_slope = float(np.max(np.abs(slope[np.isfinite(slope)])))
    scale = largest_slope + float(np.max(height * f[free]))
    # Values that are free must be explained by the price, and those at an end drawn to it.
    missed = np.abs(slope[free] - price)
    if np.max(missed) > _CLEAR * scale:
        return None
    is_low = f <= region.lower + EXACT
    pull = np.where(is_low, slope - price, price - slope)
    if not np.all(pull[~free] > _CLEAR * scale):
        return None
    # A loss may end before the bounds: there its end would be one.
    first, last = loss.domain(loss.constants(start))
    if f.min() - first <= at_end(first) or last - f.max() <= at_end(last):
        return None
    # Every value that moves is a block of its own: no rows tie them.
    block = np.where(free, np.cumsum(free) - 1, -1)
    every = np.broadcast_to(sensitivity, f.shape)
    return Jacobian(block, height, basis, every, loss.is_centred, ())


def _on_face(face: Face, fixed: NDArray[np.bool_], matrix: Any, totals: Totals | None) -> Jacobian:
    """Return the Jacobian with some values and rows that stay what they are."""
    from scipy import sparse

    d = len(fixed)
    block = _blocks(matrix, fixed)
    count = int(block.max(initial=-1)) + 1
    moving = np.flatnonzero(block >= 0)
    height: Array = np.zeros(count)
    # A block bends as much as its values do together.
    np.add.at(height, block[moving], face.curvature[moving])
    if not np.all(height > 0):
        raise NoDerivativeError(
            "no exact derivative: the loss does not bend in every value that is free to move"
        )
    entries = (np.ones(len(moving)), (moving, block[moving]))
    to_blocks = sparse.csr_array(entries, shape=(d, count))
    # By blocks: a tie inside one is 0, and leaves.
    rows = sparse.csr_array(matrix @ to_blocks)
    # Ties within a block have become rows of rounding.
    sizes = np.asarray(abs(rows).sum(axis=1)).ravel()
    before = np.asarray(abs(matrix).sum(axis=1)).ravel()
    rows = rows[np.flatnonzero(sizes > _DEPENDENT * before)]
    basis = _basis(rows, height)
    parts = (block, height, basis, face.sensitivity, face.is_centred, face.kinks)
    if totals is None:
        return Jacobian(*parts)
    return JointJacobian(*parts, totals.members)


def _blocks(matrix: Any, fixed: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the block of each value, -1 where it stays: rows f_u - f_v tie values together."""
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

    d = len(fixed)
    counts = np.diff(matrix.indptr)
    # Of rows with two entries the place of the first; ties are those whose entries cancel.
    of_pairs = matrix.indptr[:-1][counts == 2]
    first = of_pairs[matrix.data[of_pairs] == -matrix.data[of_pairs + 1]]
    ends = (matrix.indices[first], matrix.indices[first + 1])
    graph = sparse.csr_array((np.ones(len(first)), ends), shape=(d, d))
    count, label = connected_components(graph, directed=False)
    # One value that stays keeps its whole block.
    stays = np.zeros(count, dtype=np.bool_)
    stays[label[fixed]] = True
    number = np.cumsum(~stays) - 1
    return np.where(stays[label], -1, number[label])


def _basis(rows: Any, height: Array) -> Any:
    """Return H^-½ Q with Q an orthonormal basis of what H^-½ Nᵀ spans, for rows N of blocks."""
    from scipy import sparse

    root = 1 / np.sqrt(height)
    scaled = sparse.csr_array(rows @ sparse.diags_array(root))
    m, count = scaled.shape
    # Rows without a common block are orthogonal already: totals of groups, of which there may be
    # many.
    rows_of_block = np.bincount(scaled.indices, minlength=1)
    if np.max(rows_of_block) <= 1:
        squares = np.asarray((scaled * scaled).sum(axis=1)).ravel()
        directions = sparse.diags_array(1 / np.sqrt(squares)) @ scaled
        basis = sparse.csr_array(sparse.diags_array(root) @ directions.T)
        return basis.toarray() if m <= 1 else basis
    if m * count > _LARGEST_BASIS:
        raise NoDerivativeError(
            f"no exact derivative: {m:,} rows of {count:,} blocks are too many for a dense basis"
        )
    # Not by Cholesky: rows may depend on each other, and then a product with itself is singular.
    left, sizes, _ = np.linalg.svd(scaled.toarray().T, full_matrices=False)
    kept = sizes > _DEPENDENT * sizes.max(initial=0.0)
    return root[:, None] * left[:, kept]


def _held_towards(face: Face, direction: Array) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which weak values and rows hold when the estimate moves in a direction.

    The move of the solution is that of a small problem: half its curvature less its product with
    the pull of the estimate, under the rows that hold; those without a multiplier may be left to
    the inside.
    """
    from scipy import sparse

    d = len(direction)
    if face.is_centred:
        direction = direction - direction.mean()
    # Values that stay are no variables: their curvature may be infinite.
    moving = np.flatnonzero(~face.fixed)
    weak = np.flatnonzero(face.weak_sides[moving])
    # A weak value is a row with one 1.
    entries = (np.ones(len(weak)), (np.arange(len(weak)), weak))
    unit = sparse.csr_array(entries, shape=(len(weak), len(moving)))
    matrices = [face.rows.matrix[:, moving], face.weak_rows.matrix[:, moving], unit]
    # Equations have both ends at 0, the others one: they may be left to the inside.
    of_equations = np.zeros(len(face.rows.side), dtype=np.int64)
    of_weak_values = face.weak_sides[moving][weak]
    sides = np.concatenate([of_equations, face.weak_rows.side, of_weak_values])
    system = LinearInequalities(
        sparse.vstack(matrices, format="csr"),
        np.where(sides == -1, -np.inf, 0.0),
        np.where(sides == 1, np.inf, 0.0),
    )
    curvature = face.curvature[moving]
    slope = -face.sensitivity[moving] * direction[moving]
    # The solver's tolerances are absolute: numbers of order 1.
    steepest = max(float(np.max(np.abs(slope))), float(np.finfo(np.float64).tiny))
    multipliers = quadratic_multipliers(
        system, slope / steepest, curvature / float(np.max(curvature))
    )
    if multipliers is None:
        raise NoDerivativeError("no exact derivative: the program of its one side failed")
    # In the order of the matrices: rows in earnest, then weak rows, then weak values.
    first = len(face.rows.side)
    count = len(face.weak_rows.side)
    holds_rows = np.abs(multipliers[first : first + count]) > _SLACK
    holds_values = np.zeros(d, dtype=np.bool_)
    holds_values[moving[weak]] = np.abs(multipliers[first + count :]) > _SLACK
    return holds_values, holds_rows
