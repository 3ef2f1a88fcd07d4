"""A domain with its true counts, and the rounding that keeps counts summing to n."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError
from ldpopt.immutable import locked

_LARGEST = np.iinfo(np.int64).max


def apportion(weights: NDArray[Any], total: int) -> NDArray[np.int64]:
    """Round ``total * weights / sum(weights)`` to whole numbers that sum to ``total``.

    By the method of largest remainders (Hamilton) each entry gets the floor of its share, and the
    entries with the largest remainders get one more; equal remainders go by index. Hence every
    entry is within 1 of its share.

    Parameters
    ----------
    weights
        Non-negative numbers of shape (d,), with a positive sum. Integer weights are apportioned
        exactly, floats up to rounding error.
    total
        Sum of the result, a whole number.

    Returns
    -------
    Whole numbers (int64) of shape (d,).

    Notes
    -----
    Cost: one sort of d remainders.

    Examples
    --------
    >>> import numpy as np
    >>> apportion(np.array([1, 1, 1]), 5)
    array([2, 2, 1])
    """
    if int(weights.max()) * total > _LARGEST:
        # Python's integers: a product beyond 64 bits would wrap silently.
        weights = weights.astype(object)
    products = weights * total
    divisor = weights.sum()
    counts: NDArray[np.int64] = (products // divisor).astype(np.int64)
    remainders = products % divisor
    by_remainder = np.argsort(-remainders, kind="stable")
    # Fewer than d, since each floor loses less than 1: no entry gets two.
    missing = total - int(counts.sum())
    counts[by_remainder[:missing]] += 1
    return counts


@dataclass(frozen=True, eq=False)
class Dataset:
    """The true counts of a domain of d values, its labels, and fixed sets of values for queries.

    Parameters
    ----------
    name
        Name of the data set.
    counts
        How many users hold each value: whole numbers of shape (d,), kept as a read-only int64 copy.
    labels
        Name of each value: d strings.
    source
        One line: origin and licence.
    sets
        Families of fixed sets by name: ``sets["state"]`` has, for each state, an array of the
        indices of its values; kept as read-only copies.
    set_names
        The names of the sets of each family, in the order of ``sets``.

    Raises
    ------
    InvalidTypeError
        If the counts are not numbers.
    InvalidInputError
        If the counts are not a vector of whole numbers >= 0 with a positive sum below 2⁶³, or the
        labels are not d.

    Examples
    --------
    >>> coins = Dataset("coins", [7, 3], ("heads", "tails"), "thrown once")
    >>> coins.n, coins.d, coins.frequencies
    (10, 2, array([0.7, 0.3]))
    """

    name: str
    counts: NDArray[np.int64]
    labels: tuple[str, ...]
    source: str
    sets: Mapping[str, list[NDArray[np.intp]]] = field(default_factory=dict)
    set_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        counts = validate.whole_numbers("counts", self.counts, low=0, high=_LARGEST)
        if counts.ndim != 1 or not counts.any():
            raise InvalidInputError(
                f"counts must have shape (d,) and a positive sum, got shape {counts.shape}"
            )
        if len(self.labels) != counts.size:
            raise InvalidInputError(
                f"{counts.size} counts need as many labels, got {len(self.labels)}"
            )
        # Python's integers: the sum may leave 64 bits, and would wrap there.
        users = sum(counts.tolist())
        if users > _LARGEST:
            raise InvalidInputError(f"the counts sum to {users}, which is more than 2**63 - 1")
        object.__setattr__(self, "counts", locked(counts))
        for family, sets in self.sets.items():
            validate.unmasked(f"the sets {family!r}", sets)
        families = {
            family: [locked(np.asarray(x)) for x in sets] for family, sets in self.sets.items()
        }
        object.__setattr__(self, "sets", families)
        object.__setattr__(self, "labels", tuple(self.labels))

    @property
    def n(self) -> int:
        """Number of users: the sum of the counts."""
        return int(self.counts.sum())

    @property
    def d(self) -> int:
        """Number of values in the domain."""
        return self.counts.size

    @property
    def frequencies(self) -> NDArray[np.float64]:
        """The true frequencies ``counts / n``, shape (d,): fractions of users that sum to 1."""
        return self.counts / self.n

    def __repr__(self) -> str:
        return f"Dataset({self.name!r}, d={self.d}, n={self.n}, sets={list(self.sets)})"

    def scaled(self, n: int) -> Dataset:
        """Return ``n`` users with the same frequencies, up to rounding.

        Parameters
        ----------
        n
            Number of users, at least 1.

        Returns
        -------
        A data set whose counts sum to ``n`` exactly; each is within 1 of ``n * frequencies``
        (largest remainders, ties by index).

        Raises
        ------
        InvalidTypeError
            If ``n`` is not a whole number.
        InvalidInputError
            If ``n`` is less than 1.

        Notes
        -----
        Cost: one sort of d remainders.

        Examples
        --------
        >>> Dataset("coins", [7, 3], ("heads", "tails"), "thrown once").scaled(5).counts
        array([4, 1])
        """
        return replace(self, counts=apportion(self.counts, validate.integer("n", n, minimum=1)))
