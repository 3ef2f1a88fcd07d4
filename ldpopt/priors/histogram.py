"""A histogram of counts, from users who report openly (K III-C, the hybrid setting)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.priors.counts import EstimatedCounts, freeze, require_masses
from ldpopt.priors.density import Density

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Histogram(Density):
    """Mass ``masses[i]`` spread evenly over the counts ``edges[i]`` .. ``edges[i+1] - 1``.

    Parameters
    ----------
    edges
        First counts of the bins, ascending whole numbers from 1 on, and the count after the last
        bin, at most n + 1.
    masses
        Non-negative weights of the bins, one less than edges, with a positive sum; they are
        normalised. Both arrays are kept read-only.
    n
        Number of users.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If edges do not ascend within 1 .. n + 1, or masses are negative, all zero or not one less
        than edges.

    Examples
    --------
    >>> prior = Histogram(edges=[1, 2, 101], masses=[0.5, 0.5], n=1000)
    >>> round(prior.mean(), 9)  # (1 + 51)/2
    26.0
    """

    edges: Array
    masses: Array
    n: int

    def __post_init__(self) -> None:
        n = validate.integer("n (the number of reports)", self.n, minimum=1)
        edges = validate.whole_numbers("edges", self.edges, low=1, high=n + 1)
        edges = edges.astype(np.float64)
        masses = np.asarray(validate.array("masses", self.masses), dtype=np.float64)
        if edges.ndim != 1 or len(edges) < 2 or (np.diff(edges) <= 0).any():
            raise InvalidInputError("edges must be at least two counts in ascending order")
        # A bin is from one edge to below the next.
        bins = len(edges) - 1
        if masses.shape != (bins,):
            raise InvalidInputError(
                f"{len(edges)} edges need {bins} masses, got shape {masses.shape}"
            )
        require_masses("masses", masses)
        freeze(self, n=n, edges=edges, masses=masses / masses.sum())

    def log_density(self, k: Array) -> Array:
        """Return log π(k) up to a constant, for real k."""
        density = self.masses / np.diff(self.edges)
        with np.errstate(divide="ignore"):  # bins may have mass 0
            heights = np.log(density)
        outside = [-np.inf]
        heights = np.concatenate([outside, heights, outside])
        place = np.searchsorted(self.edges, k, side="right")
        return np.asarray(heights[place])

    @property
    def breaks(self) -> Array:
        """First counts of the bins."""
        return self.edges

    @classmethod
    def fit(  # type: ignore[override] # takes open counts, and no other options
        cls,
        estimate: FrequencyEstimate,
        opt_in: ArrayLike | None = None,
    ) -> Histogram:
        """Return the histogram of the true counts as users who report openly show them.

        Their counts are scaled to all n users. The first bin holds what m open users cannot show,
        counts up to n/m; each further bin is as long as all before it.

        Parameters
        ----------
        estimate
            The estimate that the prior is for: it gives d and n.
        opt_in
            How many of the open users have each value, shape (d,). It is required.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If n is unknown, or ``opt_in`` is missing or not d whole numbers with a sum in 1 .. n.

        Examples
        --------
        >>> from ldpopt import oracles
        >>> estimate = oracles.GRR(epsilon=1.0, d=3).estimate([500, 300, 200], n=1000)
        >>> Histogram.fit(estimate, opt_in=[7, 2, 1]).edges.tolist()
        [1.0, 100.0, 200.0, 400.0, 800.0, 1001.0]
        """
        if opt_in is None:
            raise InvalidInputError(
                "Histogram is fitted to open counts: use Histogram.fit(estimate, opt_in=counts)"
            )
        n = EstimatedCounts.of(estimate).n
        d = FrequencyEstimate.of(estimate).d
        counts = validate.whole_numbers("opt_in", opt_in, low=0, high=n)
        if counts.shape != (d,):
            raise InvalidInputError(f"opt_in must have shape ({d},), got {counts.shape}")
        total = int(counts.sum())
        if not 1 <= total <= n:
            raise InvalidInputError(
                f"opt_in must sum to a number of users in 1 .. {n}, got {total}"
            )
        scaled = np.clip(np.rint(counts * (n / total)), 1, n)
        per_open_user = -(-n // total)  # rounded up
        edges = [1, max(2, per_open_user)]
        while edges[-1] <= n:
            doubled = 2 * edges[-1]
            edges.append(min(doubled, n + 1))
        first_counts = np.array(edges)
        # Counts are whole: half below its first count no bin begins with another one.
        masses, _ = np.histogram(scaled, first_counts - 0.5)
        return cls(first_counts.astype(np.float64), masses.astype(np.float64), n)
