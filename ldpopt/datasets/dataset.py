"""A domain with its true counts, and the rounding that keeps counts summing to n."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.estimate.shown import largest
from ldpopt.frames import column_of, is_frame, is_from
from ldpopt.immutable import locked
from ldpopt.tables import html_of

if TYPE_CHECKING:
    from ldpopt.estimate import FrequencyEstimate
    from ldpopt.oracles import FrequencyOracle

_LARGEST = np.iinfo(np.int64).max
_LISTED = 10  # values that a notebook shows


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
        families = {}
        for family, sets in self.sets.items():
            # A masked index would lose its mask below, and count.
            validate.unmasked(f"the sets {family!r}", sets)
            families[family] = [locked(np.asarray(members)) for members in sets]
        object.__setattr__(self, "sets", families)
        object.__setattr__(self, "labels", tuple(self.labels))

    @classmethod
    def from_pandas(cls, data: Any, name: str = "", source: str = "given by the caller") -> Dataset:
        """Return the data set of a DataFrame or Series of counts, or of users' values.

        Parameters
        ----------
        data
            A Series of whole numbers, whose index has the labels; or a DataFrame with one column of
            them, and its labels in the index or in the only other column, of polars too; or a
            Categorical, or a Series of one, with the value of each user: its categories are the
            domain.
        name
            Of the data set; that of the Series by default.
        source
            One line: origin and licence.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If the data are something else, or a user has no value.

        Examples
        --------
        >>> import pandas as pd  # doctest: +SKIP
        >>> Dataset.from_pandas(pd.Series({"heads": 7, "tails": 3})).labels  # doctest: +SKIP
        ('heads', 'tails')
        """
        if is_frame(data):
            column = column_of(data)
            places = tuple(map(str, range(len(column.numbers))))
            return cls(name or column.name, column.numbers, column.labels or places, source)
        is_series = is_from(data, "Series", "pandas")
        name = name or str(getattr(data, "name", None) or "counts")
        users = data.array if is_series else data
        if is_from(users, "Categorical", "pandas"):
            codes = np.asarray(users.codes)
            # What pandas calls missing has the code -1.
            if (codes < 0).any():
                raise InvalidInputError(
                    f"user {int(np.argmax(codes < 0))} has no value: drop missing ones (dropna)"
                )
            # Categories that nobody holds are values of the domain all the same.
            counts = np.bincount(codes, minlength=len(users.categories))
            return cls(name, counts, tuple(map(str, users.categories)), source)
        if not is_series:
            raise InvalidTypeError(
                "from_pandas takes a DataFrame or a Series of counts, or a Categorical of values, "
                f"got {data!r}"
            )
        return cls(name, np.asarray(data), tuple(map(str, data.index)), source)

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

    def _repr_html_(self) -> str:
        """Return what notebooks show: facts, the largest values and the families of sets."""
        facts = [
            ("users", f"{self.n:,}"),
            ("values", f"{self.d:,}"),
            ("source", self.source),
        ]
        for family, sets in self.sets.items():
            facts.append((f"sets: {family}", f"{len(sets):,}"))
        rows = []
        for i in largest(self.counts, _LISTED):
            users = self.counts[i]
            rows.append([self.labels[i], f"{users:,}", f"{users / self.n:.4g}"])
        # A domain may have a million values: what is left out is counted.
        rest = self.d - _LISTED
        more = [f"… {rest:,} more"] if rest > 0 else []
        table = html_of(("value", "users", "frequency"), rows, more)
        return html_of((), facts, title=f"Data set {self.name}") + table

    def collect(
        self,
        oracle: FrequencyOracle,
        rng: np.random.Generator | int | None = None,
        trials: int | None = None,
    ) -> FrequencyEstimate:
        """Return the raw estimate from simulated reports of all users, with the labels.

        Parameters
        ----------
        oracle
            What every user reports through; its d is that of the data set.
        rng, trials
            As in ``oracle.simulate_counts``.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If the oracle is none, or has another d.

        Examples
        --------
        >>> from ldpopt import datasets, oracles
        >>> data = datasets.load("emoji")
        >>> raw = data.collect(oracles.OUE(epsilon=4.0, d=data.d), rng=0)
        >>> raw.n == data.n, raw.labels == data.labels
        (True, True)
        """
        # A class has the methods too.
        if isinstance(oracle, type) or not hasattr(oracle, "simulate_counts"):
            raise InvalidTypeError(
                f"oracle must be one of ldpopt.oracles, such as OUE(1.0, {self.d}), got {oracle!r}"
            )
        if oracle.d != self.d:
            raise InvalidInputError(
                f"the oracle has d = {oracle.d} values, and this data set {self.d}: make the "
                f"oracle with d={self.d}"
            )
        counts = oracle.simulate_counts(self.counts, rng, trials)
        return oracle.estimate(counts, self.n, labels=self.labels)

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
        users = validate.integer("n", n, minimum=1)
        # Not n times the frequencies, rounded one by one: those would not sum to n.
        return replace(self, counts=apportion(self.counts, users))
