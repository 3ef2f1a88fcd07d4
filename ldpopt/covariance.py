"""The covariance of a whole estimate, kept as a diagonal plus a matrix of low rank."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError

Array = NDArray[np.float64]


class Covariance:
    """diag(independent) + B C Bᵀ, a symmetric d x d matrix that only ``dense`` writes out.

    Functions of arrays take it for that matrix: ``np.linalg.pinv(covariance)``.

    Parameters
    ----------
    independent
        The diagonal part, shape (d,). It is not the matrix's diagonal, which ``diagonal`` is.
    basis, core
        B of shape (d, k) and the symmetric C of shape (k, k), with k small.

    Notes
    -----
    A product costs d k operations per vector, and d² only in ``dense`` and ``np.asarray``.

    Examples
    --------
    >>> covariance = Covariance(np.array([1.0, 2.0]), np.ones((2, 1)), np.array([[0.5]]))
    >>> covariance.dense()
    array([[1.5, 0.5],
           [0.5, 2.5]])
    >>> covariance @ np.array([1.0, 0.0]), float(covariance.quadratic([1.0, 1.0]))
    (array([1.5, 0.5]), 5.0)
    """

    def __init__(self, independent: Array, basis: Array, core: Array) -> None:
        self._independent = independent
        self._basis = basis
        self._core = core

    @property
    def d(self) -> int:
        """Number of values."""
        return len(self._independent)

    @property
    def shape(self) -> tuple[int, int]:
        """(d, d)."""
        return self.d, self.d

    @property
    def parts(self) -> tuple[Array, Array, Array] | None:
        """The diagonal part, B and C; None of a kind that has more than these."""
        # Other kinds add to what these give, and may leave them empty.
        if type(self) is not Covariance:
            return None
        return self._independent, self._basis, self._core

    @property
    def diagonal(self) -> Array:
        """The variance of every value, shape (d,)."""
        # Value by value: writing out the matrix for its diagonal would cost d² k operations.
        shared = np.einsum("vk,vk->v", self._basis @ self._core, self._basis)
        return np.asarray(self._independent + shared)

    def __matmul__(self, vectors: ArrayLike) -> Array:
        """Return the product with a vector of shape (d,) or the columns of a (d, m) matrix.

        A ``vectors`` of another shape, or one that is not of finite numbers, raises an error.
        """
        x = np.asarray(validate.array("vectors", vectors), dtype=np.float64)
        if x.ndim not in (1, 2) or len(x) != self.d:
            raise InvalidInputError(
                f"a covariance of {self.d} values multiplies vectors of shape ({self.d},) or "
                f"({self.d}, m), got shape {x.shape}"
            )
        columns = x.reshape(self.d, -1)
        return self._product(columns).reshape(x.shape)

    def quadratic(self, weights: ArrayLike) -> Array:
        """Return wᵀ C w, the variance of Σ w_v f̃_v.

        Parameters
        ----------
        weights
            One vector of shape (d,), or several, shape (..., d): 0 and 1 for the members of a set.

        Returns
        -------
        Shape (...): one variance per vector.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If the last axis is not of length d.
        """
        w = np.asarray(validate.array("weights", weights), dtype=np.float64)
        if w.ndim == 0 or w.shape[-1] != self.d:
            raise InvalidInputError(
                f"weights must have {self.d} values on the last axis, got shape {w.shape}"
            )
        columns = w.reshape(-1, self.d).T
        # All vectors in one product, since it reads the basis once.
        squares = np.sum(columns * self._product(columns), axis=0)
        return np.asarray(squares).reshape(w.shape[:-1])

    def draws(self, count: int, rng: np.random.Generator) -> Array:
        """Return normal vectors with this covariance and mean 0, shape (count, d).

        The independent parts must be positive, as they are at the frequencies of a distribution.

        Examples
        --------
        >>> from ldpopt.oracles import GRR
        >>> noise = GRR(epsilon=1.0, d=3).covariance(np.array([0.5, 0.3, 0.2]))
        >>> draws = noise.draws(4, np.random.default_rng(0))
        >>> bool(np.all(abs(draws.sum(axis=1)) < 1e-6))  # the counts of GRR sum to n
        True
        """
        standard = rng.standard_normal((count, self.d))
        root = np.sqrt(self._independent)
        if not self._basis.shape[1]:
            return np.asarray(root * standard)
        # In units of the independent parts it is I + Q M Qᵀ with few columns in Q, whose root
        # differs from I in these columns alone.
        basis, triangle = np.linalg.qr(self._basis / root[:, None])
        sizes, directions = np.linalg.eigh(triangle @ self._core @ triangle.T)
        # What has no variance, such as the sum of all counts of GRR, is rounded to below 0.
        factors = np.sqrt(np.maximum(1 + sizes, 0.0)) - 1
        along = basis @ directions
        stretched = (standard @ along) * factors
        return np.asarray(root * (standard + stretched @ along.T))

    def trace(self, members: Any = None) -> float:
        """Return tr(A Σ Aᵀ) for a sparse matrix A of zeros and ones; of Σ itself without one."""
        variances = self.diagonal if members is None else self.variances(members)
        return float(np.sum(variances))

    def variances(self, members: Any) -> Array:
        """Return the diagonal of A Σ Aᵀ for a sparse (m, d) matrix A of zeros and ones, (m,)."""
        rows = np.asarray(members @ self._basis)
        shared = np.einsum("mk,kl,ml->m", rows, self._core, rows)
        return np.asarray(members @ self._independent + shared)

    def trace_with(self, derivative: Any) -> float:
        """Return tr(J Σ) for a matrix J that knows its ``diagonal`` and its products (``@``)."""
        total = float(derivative.diagonal @ self._independent)
        if self._basis.shape[1]:
            # tr(J B C Bᵀ), as the sum of the entries of B times those of J B C.
            moved = derivative @ (self._basis @ self._core)
            total += float(np.sum(self._basis * moved))
        return total

    def dense(self) -> Array:
        """Return the matrix, shape (d, d)."""
        return self._product(np.eye(self.d))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the matrix as numpy and cvxpy take it; ``copy=False`` raises a ValueError.

        Examples
        --------
        >>> covariance = Covariance(np.array([1.0, 4.0]), np.empty((2, 0)), np.empty((0, 0)))
        >>> np.linalg.inv(covariance).diagonal()
        array([1.  , 0.25])
        """
        if copy is False:
            raise ValueError("a covariance is kept in parts: as an array it is a copy")
        return self.dense().astype(dtype or np.float64, copy=False)

    def scaled(self, factor: float) -> Covariance:
        """Return the matrix times ``factor`` >= 0, such as 1/n for the mean of n reports."""
        return Covariance(self._independent * factor, self._basis, self._core * factor)

    def centred(self) -> Covariance:
        """Return the covariance after the mean of all values is taken from each of them.

        Examples
        --------
        >>> covariance = Covariance(np.array([1.0, 2.0]), np.ones((2, 1)), np.array([[0.5]]))
        >>> covariance.centred().dense()
        array([[ 0.75, -0.75],
               [-0.75,  0.75]])
        """
        ones = np.ones(self.d)
        means = self._product(ones[:, None]) / self.d
        # (I - 11ᵀ/d) Σ (I - 11ᵀ/d) with m = Σ1/d, and 1ᵀm/d in the corner.
        k = self._core.shape[0]
        core = np.zeros((k + 2, k + 2))
        core[:k, :k] = self._core
        core[k:, k:] = [[means.mean(), -1.0], [-1.0, 0.0]]
        basis = np.column_stack([self._basis, ones, means])
        return Covariance(self._independent, basis, core)

    def _product(self, columns: Array) -> Array:
        """Return the product with the columns of a (d, m) matrix."""
        independent = self._independent[:, None] * columns
        if not self._basis.shape[1]:
            return np.asarray(independent)
        # From the right: the small matrices never meet a d x d one.
        shared = self._basis @ (self._core @ (self._basis.T @ columns))
        return np.asarray(independent + shared)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(d={self.d})"
