"""The covariance of a whole estimate, kept as a diagonal plus a matrix of low rank."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError

Array = NDArray[np.float64]


class Covariance:
    """diag(independent) + B C Bᵀ, a symmetric d x d matrix that only ``dense`` writes out.

    Parameters
    ----------
    independent
        The diagonal part, shape (d,). It is not the matrix's diagonal, which ``diagonal`` is.
    basis, core
        B of shape (d, k) and the symmetric C of shape (k, k), with k small.

    Notes
    -----
    A product costs d k operations per vector, and d² only in ``dense``.

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
    def diagonal(self) -> Array:
        """The variance of every value, shape (d,)."""
        # Value by value: writing out the matrix for its diagonal would cost d² k operations.
        shared = np.einsum("vk,kl,vl->v", self._basis, self._core, self._basis)
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
        rows = w.reshape(-1, self.d)
        # All vectors in one product, since it reads the basis once.
        return np.asarray(np.sum(rows.T * self._product(rows.T), axis=0)).reshape(w.shape[:-1])

    def dense(self) -> Array:
        """Return the matrix, shape (d, d)."""
        return self._product(np.eye(self.d))

    def scaled(self, factor: float) -> Covariance:
        """Return the matrix times ``factor`` >= 0, such as 1/n for the mean of n reports."""
        return Covariance(self._independent * factor, self._basis, self._core * factor)

    def with_diagonal(self, variances: Array) -> Covariance:
        """Return the matrix plus diag(variances): independent errors besides, shape (d,)."""
        return Covariance(self._independent + variances, self._basis, self._core)

    def _product(self, columns: Array) -> Array:
        """Return the product with the columns of a (d, m) matrix."""
        # From the right: the small matrices never meet a d x d one.
        shared = self._basis @ (self._core @ (self._basis.T @ columns))
        return np.asarray(self._independent[:, None] * columns + shared)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(d={self.d})"
