"""Several measurements of one distribution, combined by their precision."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form import norm_sub
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.noise import Noise
from ldpopt.estimate.sets import membership, named_sets
from ldpopt.immutable import Immutable, derived_property
from ldpopt.sources.forest import Forest, ForestSquares, Index, forest_of
from ldpopt.sources.noise import CombinedCovariance, CombinedNoise, Part
from ldpopt.sources.overlap import OverlapSquares
from ldpopt.sources.source import Source
from ldpopt.sources.tables import of_sources
from ldpopt.tables import ShownAsTable, TitledTable

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = NDArray[np.float64]

# Precision of a total over that of a value up to which ten digits of the total are kept.
_MOST_PRECISE = 1e10

# Relative differences of numbers that were rounded on their way, as by a file of text.
_SAME = 1e-9

_SMALL = 1_024  # values up to which variances account for how those of one source vary together


class Sources(ShownAsTable, Immutable):
    """Independent measurements of the same d frequencies f, or of totals of groups of them.

    Parameters
    ----------
    sources
        Each a ``Source``, or a raw ``FrequencyEstimate`` of the values.
    independent
        States that two sources with the same numbers, up to rounding, are of different users all
        the same.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If there is no source, none estimates the values themselves, domains or labels differ, a
        group is empty or has a value outside the domain, or the same users seem to count twice.

    Notes
    -----
    The users of each source are a sample of one population: with several sources f are its
    frequencies, and the variance f/n of the sample, at most, is a part of the noise. Each
    measurement counts by its precision, 1/variance, at the uniform frequency 1/d of a value and
    |g|/d of a group: weights that do not depend on the data keep the combination unbiased and
    linear. Estimates of the values are averaged; groups that lie inside each other or apart are
    joined by two passes over their forest; groups that overlap by a dense system of their number
    (``explain`` states which).

    Examples
    --------
    >>> from ldpopt import oracles
    >>> weak = oracles.OUE(0.5, d=3).estimate([5_200, 4_000, 3_800], 10_000)
    >>> strong = oracles.OUE(2.0, d=3).estimate([3_200, 2_000, 1_700], 10_000)
    >>> week = Sources([weak, strong])
    >>> combined = week.combined()
    >>> combined.frequencies.round(3), round(combined.sigma, 4), round(strong.sigma, 4)
    (array([0.577, 0.21 , 0.125]), 0.0084, 0.0085)
    """

    def __init__(
        self, sources: Sequence[Source | FrequencyEstimate], *, independent: bool = False
    ) -> None:
        if isinstance(sources, Source | FrequencyEstimate) or not np.iterable(sources):
            raise InvalidTypeError("sources must be a list of Source or FrequencyEstimate objects")
        self.sources = tuple(Source.named(each, f"source {i}") for i, each in enumerate(sources))
        if not self.sources:
            raise InvalidInputError("there are no sources: pass at least one")
        # Totals of groups leave their division among values open, whatever their precision.
        whole = [source for source in self.sources if source.groups is None]
        if not whole:
            raise InvalidInputError(
                "no source estimates the values themselves: totals of groups alone leave open how "
                "each group is divided among its values"
            )
        self.d: int = whole[0].size
        self.labels = common_labels(whole)
        if not independent:
            require_different_users(self.sources)
        members: list[csr_array | None] = []
        for source in self.sources:
            is_whole = source.groups is None
            members.append(None if is_whole else _members(source, self.labels, self.d))
        self.members: tuple[csr_array | None, ...] = tuple(members)

    def __len__(self) -> int:
        return len(self.sources)

    def __iter__(self) -> Iterator[Source]:
        return iter(self.sources)

    @property
    def is_plain(self) -> bool:
        """Whether all sources estimate the values themselves."""
        return all(members is None for members in self.members)

    @property
    def n(self) -> int | None:
        """Number of reports of all sources; None if one does not know its own."""
        return total_reports(self.sources)

    @derived_property
    def precisions(self) -> tuple[Array, ...]:
        """The weight of each number of each source: 1/variance at the uniform distribution."""
        # At the uniform distribution, not at the estimates: weights that follow these would give
        # more to what came out small, and bias the mean.
        precisions = []
        for source, members in zip(self.sources, self.members, strict=True):
            size = 1.0 if members is None else np.asarray(members.sum(axis=1))
            precisions.append(1 / source.variance(size / self.d, sampled=self._is_sampled))
        return tuple(precisions)

    @derived_property
    def own_precision(self) -> Array:
        """The weight of the values' own measurements together, shape (d,)."""
        return np.asarray(np.sum([w for w, a in self._measured() if a is None], axis=0))

    @derived_property
    def forest(self) -> Forest | None:
        """The groups of all sources as a forest; None where some overlap, or there are none."""
        return None if self.is_plain else forest_of(self._all_members)

    @derived_property
    def _all_members(self) -> Any:
        from scipy import sparse

        return sparse.vstack([a for a in self.members if a is not None], format="csr")

    @derived_property
    def _squares(self) -> ForestSquares | OverlapSquares | None:
        """The squared distances to all sources, as a quadratic of f; None where no group is."""
        if self.is_plain:
            return None
        self._require_comparable_precisions()
        # In the order of ``_all_members``.
        weights = np.concatenate([w for w, a in self._measured() if a is not None])
        if self.forest is not None:
            return ForestSquares(self.forest, self.own_precision, weights)
        return OverlapSquares(self._all_members, self.own_precision, weights)

    def _require_comparable_precisions(self) -> None:
        """Raise an error where groups are measured so precisely that rounding would decide."""
        weakest = float(self.own_precision.min())
        for source, (precision, members) in zip(self.sources, self._measured(), strict=True):
            ratio = float(precision.max()) / weakest
            if members is not None and ratio > _MOST_PRECISE:
                raise InvalidInputError(
                    f"{source.name} is {ratio:.0g} times as precise as a value: state totals that "
                    "are known as a constraint, GroupTotals"
                )

    @property
    def _knows_pairs(self) -> bool:
        """Whether every source states how its numbers vary together."""
        # A protocol known by p and q alone does not; variances by hand are of independent errors.
        noises = [source.estimate.noise for source in self.sources]
        return all(noise.protocol is None or noise.knows_pairs for noise in noises)

    def _measured(self) -> Iterator[tuple[Array, csr_array | None]]:
        return zip(self.precisions, self.members, strict=True)

    def explain(self) -> str:
        """Return in words how the sources are combined.

        Examples
        --------
        >>> Sources([FrequencyEstimate([0.5, 0.5], noise=[0.01, 0.01])]).explain()
        '1 source: a mean, weighted by precision'
        """
        count = f"{len(self)} source{'s' if len(self) > 1 else ''}"
        if self.is_plain:
            return f"{count}: a mean, weighted by precision"
        groups = self._all_members.shape[0]
        if self.forest is not None:
            return f"{count}: two passes over a forest of {groups:,} groups and {self.d:,} values"
        return f"{count}: a dense system, because some of the {groups:,} groups overlap"

    def combined(self) -> FrequencyEstimate:
        """Return the best linear estimate of f with its noise: raw in kind, for every method.

        Notes
        -----
        The values' variances are exact for the weights used; where groups are measured they need
        the totals of these groups, in whose place the estimates stand. Sets of values have
        the variance that follows from all sources together. Cost: a few passes, or two over the
        forest, or the cube of the number of groups that overlap.
        """
        frequencies = self._combination([source.estimate.frequencies for source in self.sources])
        return FrequencyEstimate(
            frequencies,
            noise=self._noise(frequencies),
            is_raw=True,
            labels=self.labels,
            method="base",
        )

    def moved(self, by: Array) -> Sources:
        """Return the sources as they were if each had measured values that are higher by b, (d,).

        Their combination moves by b.
        """
        moved = []
        for source, members in zip(self.sources, self.members, strict=True):
            seen = by if members is None else members @ by
            moved.append(source.moved(seen))
        return Sources(moved, independent=True)

    def on_forest(self) -> tuple[Array, Index, Array]:
        """Return measurements, parents and precisions of the forest of groups and values.

        Each of shape (groups + d,), groups first; equal groups are averaged. Only where ``forest``
        is known.
        """
        assert self.forest is not None
        precision = np.zeros(self.forest.groups)
        moment = np.zeros(self.forest.groups)
        moment_of_value = np.zeros(self.d)
        # Groups of all sources stand one after the other.
        first = 0
        for source, (weights, members) in zip(self.sources, self._measured(), strict=True):
            weighted = weights * source.estimate.frequencies
            if members is None:
                moment_of_value += weighted
                continue
            # Several groups may be one node: their moments add up.
            nodes = self.forest.node_of_group[first : first + source.size]
            np.add.at(precision, nodes, weights)
            np.add.at(moment, nodes, weighted)
            first += source.size
        of_groups = moment / precision
        of_values = moment_of_value / self.own_precision
        measured = np.concatenate([of_groups, of_values])
        trust = np.concatenate([precision, self.own_precision])
        return measured, self.forest.parents, trust

    def _combination(self, measured: Sequence[Array]) -> Array:
        """Return the combination of measurements, each of shape (..., size): linear in them."""
        # The normal equations: their right side is Σ_k A_kᵀ W_k y_k.
        leading = np.shape(measured[0])[:-1]
        right = np.zeros((math.prod(leading), self.d))
        for (precision, members), each in zip(self._measured(), measured, strict=True):
            weighted = np.atleast_2d(precision * each)
            right += weighted if members is None else weighted @ members
        return self._solved(right).reshape(*leading, self.d)

    def _weights(self, rows: Array) -> list[Array]:
        """Return what each number of each source contributes to answers Σ x_v f_v, x in rows."""
        # The transpose of the map from measurements: their matrix is symmetric.
        solved = self._solved(rows)
        weights = []
        for precision, members in self._measured():
            seen = solved if members is None else (members @ solved.T).T
            weights.append(precision * seen)
        return weights

    def _solved(self, rows: Array) -> Array:
        """Return the solutions of the normal equations for right sides of shape (k, d)."""
        if self._squares is None:
            return rows / self.own_precision
        return self._squares.solve(rows)

    def _noise(self, frequencies: Array) -> Noise:
        """Return the noise of the combination, given its frequencies."""
        # Those of the means of the values' own measurements, as numbers where all are equal: some
        # losses and priors need one noise for all values.
        constant: Any = 0.0
        slope: Any = 0.0
        for source, (precision, members) in zip(self.sources, self._measured(), strict=True):
            if members is None:
                share = _as_number((precision / self.own_precision) ** 2)
                constant = constant + share * source.variance(0.0)
                slope = slope + share * source.slope(sampled=self._is_sampled)
        constant = _as_number(constant)
        slope = _as_number(slope)
        if self._squares is not None:
            # Raw frequencies may be negative, and their groups' variances with them.
            constant, slope = self._with_groups(constant, slope, norm_sub(frequencies))
        origins = frozenset().union(*(origins_of(source.estimate) for source in self.sources))
        return CombinedNoise(constant, slope, self.n, joint=self._covariance, origins=origins)

    def _with_groups(self, constant: Any, slope: Any, f: Array) -> tuple[Array, Array]:
        """Return the parts of the variances when groups are measured, at these frequencies."""
        assert self._squares is not None
        of_groups = [
            source.variance(members @ f, sampled=self._is_sampled)
            for source, members in zip(self.sources, self.members, strict=True)
            if members is not None
        ]
        of_values = np.broadcast_to(constant + slope * f, self.d)
        variance, follows = self._squares.variances(of_values, np.concatenate(of_groups))
        # Estimates of one source may vary together. That changes a variance by a part of 1/d, which
        # is worth its d products only where d is small.
        if self.d <= _SMALL and self._knows_pairs:
            variance = self._covariance(f).diagonal
        # What the value's own frequency adds is known as a function of it.
        growth = np.broadcast_to(follows**2 * slope, self.d)
        return variance - growth * f, growth

    def _covariance(self, frequencies: Array) -> CombinedCovariance:
        """Return the covariance of the combination, given a distribution of shape (d,)."""
        parts = []
        for source, members in zip(self.sources, self.members, strict=True):
            seen = frequencies if members is None else members @ frequencies
            besides = source.besides(seen, sampled=self._is_sampled)
            parts.append(Part(source.estimate.noise.covariance(seen), besides))
        # Without groups each value is a mean of its own measurements.
        shares = None
        if self.is_plain:
            shares = [precision / self.own_precision for precision in self.precisions]
        return CombinedCovariance(self.d, self._weights, self._combination, parts, shares)

    @property
    def _is_sampled(self) -> bool:
        """Whether the sources have users of their own, each a sample of the same population."""
        return len(self.sources) > 1

    def __repr__(self) -> str:
        inside = ", ".join(map(repr, self.sources))
        return f"Sources([{inside}])"

    @property
    def _table(self) -> TitledTable:
        shares = [
            float(np.mean(precision / self.own_precision)) if members is None else None
            for precision, members in self._measured()
        ]
        return of_sources(self.explain(), self.sources, shares)


def total_reports(sources: Sequence[Source]) -> int | None:
    """Return the number of reports of all sources; None if one does not know its own."""
    counts = [source.estimate.n for source in sources]
    stated = [count for count in counts if count is not None]
    return sum(stated) if len(stated) == len(counts) else None


def common_labels(sources: Sequence[Source]) -> tuple[str, ...] | None:
    """Return the labels of the domain; sizes or labels that differ raise an error."""
    first = sources[0]
    labelled = None
    for source in sources:
        if source.size != first.size:
            raise InvalidInputError(
                f"{source.name} has {source.size} values and {first.name} has {first.size}: "
                "sources need one domain; pass groups=... for totals of values"
            )
        labels = source.estimate.labels
        if labels is None:
            continue
        # The first source with labels gives them; sources without any follow its order.
        if labelled is None:
            labelled = source
            continue
        common = labelled.estimate.labels
        if labels != common and common is not None:
            differ = [a != b for a, b in zip(common, labels, strict=True)]
            at = differ.index(True)
            raise InvalidInputError(
                f"{source.name} calls value {at} {labels[at]!r} and {labelled.name} calls it "
                f"{common[at]!r}: bring both into the same order of labels"
            )
    return None if labelled is None else labelled.estimate.labels


def require_different_users(sources: Sequence[Source]) -> None:
    """Raise an error if two sources have the same numbers, up to rounding."""
    seen: list[tuple[Any, Source]] = []
    for source in sources:
        origins = origins_of(source.estimate)
        for origin in origins:
            for other, first in seen:
                if _are_same(origin, other):
                    raise InvalidInputError(
                        f"{source.name} has the numbers of {first.name}: the same users may not "
                        "count twice; if they are others, pass independent=True"
                    )
        seen += [(origin, source) for origin in origins]


def _are_same(first: Any, second: Any) -> bool:
    """Return whether two origins are one collection, whose numbers a file may have rounded."""
    n, numbers = first
    other_n, others = second
    if n != other_n or len(numbers) != len(others):
        return False
    f = np.frombuffer(numbers)
    difference = np.max(np.abs(f - np.frombuffer(others)))
    return bool(difference <= _SAME * np.max(np.abs(f)))


def origins_of(estimate: FrequencyEstimate) -> frozenset[Any]:
    """Return what identifies the collections behind an estimate."""
    # A combination has numbers of its own, and those of its sources count again with it; a second
    # pass gives other numbers than the counts of the same reports.
    origins = estimate.noise.origins
    return origins or frozenset({estimate.numbers})


def _members(source: Source, labels: tuple[str, ...] | None, d: int) -> csr_array:
    """Return the groups of a source as rows of zeros and ones."""
    names, rows = named_sets(source.groups, labels)
    # Names on both sides match totals and groups; a list matches them by position.
    if isinstance(source.groups, Mapping) and source.estimate.labels is not None:
        rows = _in_order(source, names, list(rows))
        names = list(source.estimate.labels)
    members = membership(rows, d, names)
    sizes = np.diff(members.indptr)
    if not sizes.all():
        raise InvalidInputError(
            f"group {int(np.argmin(sizes))} of {source.name} is empty: every group needs a value"
        )
    return members


def _in_order(source: Source, names: list[str], rows: list[Any]) -> list[Any]:
    """Return named groups in the order of the labels of the estimate of their totals."""
    labels = source.estimate.labels or ()
    if sorted(names) != sorted(labels):
        raise InvalidInputError(
            f"{source.name} has estimates of {', '.join(labels)} and groups named "
            f"{', '.join(names)}: name them alike"
        )
    return [rows[names.index(label)] for label in labels]


def _as_number(values: Any) -> Any:
    """Return one number where all values are equal."""
    array = np.asarray(values)
    return float(array.flat[0]) if array.size and np.ptp(array) == 0 else array
