"""Cones as Clarabel takes them, and projections on their duals that rounding cannot undo.

A program's slack s = b - A x lies in a product of cones K. Weak duality needs z in the dual K*,
that is z·s >= 0 for all s in K, exactly. A solver's z is there up to its tolerances; ``project``
moves any z into K*, by a little if it is near, with margins that cover the rounding of the check:

========== ====================================== ==============================================
cone       K                                      K*
========== ====================================== ==============================================
zero       s = 0                                  everything
nonneg     s >= 0                                 z >= 0
soc        s₀ >= ‖s₁…‖                            the same
psd        smat(s) positive semidefinite          the same
exp        s₁ exp(s₀/s₁) <= s₂, s₁ > 0 (closure)  -z₀ exp(z₁/z₀ - 1) <= z₂, z₀ < 0 (closure)
power      Π s_i^(α_i) >= |s_last|, s_i >= 0      Π (z_i/α_i)^(α_i) >= |z_last|, z_i >= 0
========== ====================================== ==============================================

smat reads the columns of an upper triangle, whose entries off the diagonal carry a factor √2. The
exponents α of a power cone sum to 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.solve.certificate.bounds.dual import EPS

Array = NDArray[np.float64]

# exp, log and powers of numpy are within a few units in the last place; 32 leave room for their
# arguments' own rounding.
_FUNCTION = 32 * EPS

HUGE = 1e140
"""No multiplier is as large; the squares of smaller ones do not overflow."""

# Numbers below this are taken for 0 where a quotient of them would overflow.
_SMALL = 1e-290


@dataclass(frozen=True)
class Cones:
    """The sizes of a product of cones, in Clarabel's order.

    Attributes
    ----------
    zero, nonneg
        Numbers of rows.
    soc, psd
        Rows of each second-order cone, and orders of the matrices of each semidefinite one.
    exponential
        Number of cones of three rows.
    powers
        The exponents of each power cone; a cone has one row more than exponents.
    """

    zero: int
    nonneg: int
    soc: tuple[int, ...] = ()
    psd: tuple[int, ...] = ()
    exponential: int = 0
    powers: tuple[tuple[float, ...], ...] = ()

    @classmethod
    def of(cls, dims: Any) -> Cones:
        """Return the cones that cvxpy names in ``data["dims"]``."""
        three = [(float(power), 1.0 - float(power)) for power in dims.p3d]
        many = [tuple(map(float, powers)) for powers in dims.pnd]
        return cls(
            int(dims.zero),
            int(dims.nonneg),
            tuple(map(int, dims.soc)),
            tuple(map(int, dims.psd)),
            int(dims.exp),
            (*three, *many),
        )

    @property
    def linear(self) -> bool:
        """Whether all rows are equations and inequalities."""
        return not (self.soc or self.psd or self.exponential or self.powers)

    @property
    def rows(self) -> int:
        """The number of all rows."""
        return self.soc_start + sum(self.sizes)

    @property
    def soc_start(self) -> int:
        """The first row after equations and inequalities."""
        return self.zero + self.nonneg

    @property
    def sizes(self) -> list[int]:
        """The rows of every cone after equations and inequalities."""
        triangles = [order * (order + 1) // 2 for order in self.psd]
        powers = [len(exponents) + 1 for exponents in self.powers]
        return [*self.soc, *triangles, *[3] * self.exponential, *powers]

    @cached_property
    def groups(self) -> list[tuple[str, Any, NDArray[np.int64]]]:
        """List (kind, parameter, row numbers of shape (cones, rows)) for cones of one shape.

        The parameter is the order of a matrix or the exponents; None for other kinds. A proof asks
        some twenty times, and of thousands of cones each answer takes as long as a pass.
        """
        kinds: list[tuple[str, Any]] = [("soc", None)] * len(self.soc)
        kinds += [("psd", order) for order in self.psd]
        kinds += [("exp", None)] * self.exponential
        kinds += [("power", exponents) for exponents in self.powers]
        shapes: dict[tuple[str, Any, int], list[int]] = {}
        start = self.soc_start
        for (kind, parameter), size in zip(kinds, self.sizes, strict=True):
            shapes.setdefault((kind, parameter, size), []).append(start)
            start += size
        return [
            (kind, parameter, np.array(starts)[:, None] + np.arange(size))
            for (kind, parameter, size), starts in shapes.items()
        ]

    def for_clarabel(self) -> list[Any]:
        """Return the cones as Clarabel's objects."""
        import clarabel

        cones: list[Any] = []
        if self.zero:
            cones.append(clarabel.ZeroConeT(self.zero))
        if self.nonneg:
            cones.append(clarabel.NonnegativeConeT(self.nonneg))
        cones += [clarabel.SecondOrderConeT(size) for size in self.soc]
        cones += [clarabel.PSDTriangleConeT(order) for order in self.psd]
        cones += [clarabel.ExponentialConeT() for _ in range(self.exponential)]
        for exponents in self.powers:
            if len(exponents) == 2:
                cones.append(clarabel.PowerConeT(exponents[0]))
            else:
                cones.append(clarabel.GenPowerConeT(list(exponents), 1))
        return cones


def project(z: Array, cones: Cones) -> Array:
    """Return a point of the dual cone near z, whatever z is; it is certainly inside.

    Entries that are not finite, or beyond 1e140, count as 0. A point that is inside by more than
    rounding stays the same.

    Raises
    ------
    ValueError
        If z has another number of entries than the cones have rows.
    """
    if z.shape != (cones.rows,):
        raise ValueError(f"z has shape {z.shape}, the cones have {cones.rows} rows")
    result = np.where(np.abs(z) < HUGE, z, 0.0)
    inequalities = slice(cones.zero, cones.soc_start)
    result[inequalities] = np.maximum(result[inequalities], 0.0)
    for kind, parameter, rows in cones.groups:
        block = result[rows]
        if kind == "soc":
            result[rows] = _in_second_order(block)
        elif kind == "psd":
            result[rows] = [_in_semidefinite(triangle, parameter) for triangle in block]
        elif kind == "exp":
            result[rows] = _in_dual_exponential(block)
        else:
            result[rows] = _in_dual_power(block, np.array(parameter))
    return result


def _in_second_order(block: Array) -> Array:
    """Raise the first entries to the norms of the others, rounded up."""
    others = block[:, 1:]
    # Scaled by the largest entry, so that squares neither overflow nor vanish.
    scale = np.max(np.abs(others), axis=1, initial=0.0)
    divided = others / np.where(scale > 0, scale, 1.0)[:, None]
    norms = scale * np.sqrt(np.sum(divided * divided, axis=1))
    norms *= 1 + (others.shape[1] + 8) * EPS
    # Of subnormal numbers a quotient has few bits: the sum of magnitudes is safe, and as small.
    norms = np.where(scale < _SMALL, np.sum(np.abs(others), axis=1) * (1 + EPS), norms)
    block = block.copy()
    block[:, 0] = np.maximum(block[:, 0], norms)
    return block


def triangle_to_matrix(triangle: Array, order: int) -> Array:
    """Return smat(triangle): the symmetric matrix whose upper columns are given."""
    matrix = np.zeros((order, order))
    columns, rows = np.tril_indices(order)  # row <= column, column by column
    matrix[rows, columns] = np.where(rows == columns, triangle, triangle / np.sqrt(2.0))
    return matrix + np.triu(matrix, 1).T


def matrix_to_triangle(matrix: Array) -> Array:
    """Return svec(matrix), the inverse of ``triangle_to_matrix``."""
    columns, rows = np.tril_indices(len(matrix))
    return np.where(rows == columns, 1.0, np.sqrt(2.0)) * matrix[rows, columns]


def _in_semidefinite(triangle: Array, order: int) -> Array:
    """Cut negative eigenvalues off, then shift the diagonal until positive definite for sure."""
    if not triangle.any():
        return triangle
    matrix = triangle_to_matrix(triangle, order)
    # The vector is the claim: what √2 costs in reading it as a matrix is charged as a shift.
    reading = 4 * EPS * float(np.abs(matrix).sum())
    if surely_positive(matrix, reading):
        return triangle
    try:
        eigenvalues, vectors = np.linalg.eigh(matrix)
    except np.linalg.LinAlgError:  # of numbers near the ends of the doubles
        return np.zeros_like(triangle)
    if eigenvalues[0] < -order * EPS * np.abs(eigenvalues).max():
        matrix = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
        triangle = matrix_to_triangle((matrix + matrix.T) / 2)
        matrix = triangle_to_matrix(triangle, order)
    shift = order * EPS * float(np.trace(np.abs(matrix))) + _SMALL
    diagonal = np.cumsum(np.arange(1, order + 1)) - 1
    while shift < HUGE:
        raised = triangle.copy()
        raised[diagonal] += shift
        # Ends: at the latest when the diagonal dominates.
        if surely_positive(triangle_to_matrix(raised, order), reading):
            return raised
        shift *= 4
    return np.zeros_like(triangle)


def surely_positive(matrix: Array, margin: float = 0.0) -> bool:
    """Return True only if matrix - margin is positive semidefinite in exact arithmetic.

    If the Cholesky factorisation of A - c runs to its end in floating point, and c covers its
    rounding, n/(1 - n) ε tr(A) and underflow, then A is positive definite (Rump 2006, Verification
    of positive definiteness, theorem 2.3).
    """
    order = len(matrix)
    trace = float(np.trace(np.abs(matrix)))
    # Twice Rump's constant, which covers the rounding of the subtraction and of the trace too.
    shift = margin * (1 + 4 * EPS) + 2 * (order + 2) * EPS * trace + order * _SMALL
    lowered = matrix - shift * np.eye(order)
    if not np.isfinite(lowered).all():
        return False
    try:
        factor = np.linalg.cholesky(lowered)
    except np.linalg.LinAlgError:
        return False
    return bool(np.isfinite(factor).all())  # otherwise something has overflowed


def _in_dual_exponential(block: Array) -> Array:
    """Move (u, v, w) into -u exp(v/u - 1) <= w by raising w or v, whichever moves less."""
    u = np.minimum(block[:, 0], 0.0)
    # So small a u is 0: the quotient below would overflow.
    u = np.where(u > -_SMALL, 0.0, u)
    flat = np.asarray(u == 0)
    v = block[:, 1]
    w = np.maximum(block[:, 2], 0.0)
    with np.errstate(all="ignore"):
        quotient = v / np.where(flat, -1.0, u)
        raised_w = -u * np.exp(quotient - 1)
        # A relative error of the quotient is an absolute one of the exponent.
        raised_w *= 1 + (4 + 2 * np.abs(quotient)) * _FUNCTION
        raised_w = np.maximum(raised_w + _SMALL, w)  # exp may have vanished
        # Not the logarithm of the quotient, which may overflow.
        first, second = np.log(w), np.log(np.where(flat, 1.0, -u))
        raised_v = u * (1 + first - second)
        raised_v += 4 * _FUNCTION * np.abs(u) * (2 + np.abs(first) + np.abs(second))
        raised_v = np.maximum(raised_v, v)
    raised_w = np.where(np.isfinite(raised_w), raised_w, np.inf)
    raised_v = np.where(np.isfinite(raised_v), raised_v, np.inf)
    raise_w = raised_w - w <= raised_v - v
    # Where u is 0 the cone is v >= 0, w >= 0; there too if neither rise is finite.
    flat = flat | np.isinf(np.where(raise_w, raised_w, raised_v))
    u = np.where(flat, 0.0, u)
    new_v = np.where(flat, np.maximum(v, 0.0), np.where(raise_w, v, raised_v))
    new_w = np.where(flat, w, np.where(raise_w, raised_w, w))
    return np.stack([u, new_v, new_w], axis=1)


def _in_dual_power(block: Array, exponents: Array) -> Array:
    """Cut negative entries off, then the last one down to the weighted geometric mean."""
    bases = np.maximum(block[:, :-1], 0.0)
    last = block[:, -1]
    with np.errstate(divide="ignore"):
        logarithms = np.log(bases / exponents)
    positive = np.asarray((bases > _SMALL).all(axis=1))
    logarithms = np.where(positive[:, None], logarithms, 0.0)
    mean = np.exp(np.sum(exponents * logarithms, axis=1))
    margin = (4 + 2 * np.sum(np.abs(logarithms), axis=1)) * _FUNCTION * len(exponents)
    limit = np.where(positive, np.maximum(mean * (1 - margin), 0.0), 0.0)
    return np.concatenate([bases, np.clip(last, -limit, limit)[:, None]], axis=1)
