"""Finite channels given as matrices: checked, with their privacy loss, and mixed between users."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.immutable import Immutable

Array = NDArray[np.float64]

_ROUNDED_SUM = 1e-9  # by which the sum of a column that was written down may miss 1


class Matrix(Immutable):
    """What a client sends, as the probability of each of m outcomes under each of d values.

    Parameters
    ----------
    matrix
        Probabilities of shape (m, d): column v is the law of what a user of value v sends.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If it is no matrix of numbers >= 0 whose columns sum to 1; the first wrong column is named.

    Examples
    --------
    >>> coin = Matrix([[0.75, 0.25], [0.25, 0.75]])
    >>> coin.outcomes, coin.d, round(coin.epsilon, 6)  # log 3
    (2, 2, 1.098612)
    """

    def __init__(self, matrix: ArrayLike) -> None:
        array = np.array(validate.array("the channel", matrix), dtype=np.float64)
        if array.ndim != 2 or 0 in array.shape:
            raise InvalidInputError(
                f"the channel must have shape (outcomes, d), got shape {array.shape}"
            )
        # Written so that NaN fails it.
        wrong = ~((array >= 0) & (array <= 1))
        if wrong.any():
            row, column = validate.first(wrong)
            raise InvalidInputError(
                f"the channel must have probabilities in 0 .. 1, found {array[row, column]:g} at "
                f"outcome {row} of value {column}"
            )
        sums = array.sum(axis=0)
        off = np.abs(sums - 1) > _ROUNDED_SUM
        if off.any():
            column = int(np.argmax(off))
            hint = ""
            if np.all(np.abs(array.sum(axis=1) - 1) <= _ROUNDED_SUM):
                hint = "; its rows do: pass its transpose"
            raise InvalidInputError(
                f"the columns of a channel must sum to 1, and column {column} sums to "
                f"{sums[column]:.12g}{hint}"
            )
        self.matrix = array

    @property
    def outcomes(self) -> int:
        """Number of outcomes."""
        return int(self.matrix.shape[0])

    @property
    def d(self) -> int:
        """Number of values."""
        return int(self.matrix.shape[1])

    @property
    def epsilon(self) -> float:
        """The privacy loss: the largest log ratio of an outcome's probabilities under two values.

        It is that of the numbers in the matrix, in fractions, rounded up; infinite if an outcome is
        possible under some values alone.
        """
        largest = Fraction(1)
        for row in self.matrix:
            if not row.any():  # an outcome that nobody sends tells nothing
                continue
            if not row.all():
                return math.inf
            largest = max(largest, Fraction(float(row.max())) / Fraction(float(row.min())))
        return math.nextafter(_log(largest), math.inf) if largest > 1 else 0.0

    def __repr__(self) -> str:
        return f"Matrix({self.outcomes} outcomes, d={self.d}, epsilon={self.epsilon:.6g})"


def mix(channels: Sequence[Matrix], users: ArrayLike | None = None) -> Matrix:
    """Return the channel of users of which each has one of several channels, and says which.

    Parameters
    ----------
    channels
        Of the same d values.
    users
        How many users have each channel; None: equally many.

    Returns
    -------
    A channel whose outcomes are those of the first channel, then those of the second one, and so
    on: counts of each, concatenated, are its counts. Its ε is the largest of theirs.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If there is no channel, domains differ, or there is not one number of users > 0 per channel.

    Examples
    --------
    >>> weak = Matrix([[0.6, 0.4], [0.4, 0.6]])
    >>> strong = Matrix([[0.9, 0.1], [0.1, 0.9]])
    >>> mix([weak, strong], users=[300, 100]).matrix.round(3).tolist()
    [[0.45, 0.3], [0.3, 0.45], [0.225, 0.025], [0.025, 0.225]]
    """
    if not np.iterable(channels):
        raise InvalidTypeError(f"mix takes a list of channels, got {channels!r}")
    parts = list(channels)
    if not parts:
        raise InvalidInputError("there is no channel to mix: pass at least one")
    for place, part in enumerate(parts):
        if not isinstance(part, Matrix):
            raise InvalidTypeError(f"channel {place} must be a Matrix, got {part!r}")
        if part.d != parts[0].d:
            raise InvalidInputError(
                f"channel {place} is of {part.d} values, and channel 0 of {parts[0].d}"
            )
    sizes = np.ones(len(parts)) if users is None else validate.vector("users", users)
    if len(sizes) != len(parts) or sizes.min() <= 0:
        raise InvalidInputError(
            f"users must be {len(parts)} numbers > 0, one per channel, got {sizes.tolist()}"
        )
    # A user's outcome states the channel too: rows of the parts, each weighted by its share.
    shares = sizes / sizes.sum()
    rows = [share * part.matrix for share, part in zip(shares, parts, strict=True)]
    return Matrix(np.concatenate(rows))


def _log(ratio: Fraction) -> float:
    """Return the logarithm of a ratio above 1, also of one that is close to it."""
    return math.log1p(float(ratio - 1))
