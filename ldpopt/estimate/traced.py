"""Frequencies that know where they come from: their noise, and whether they are still raw."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, InvalidTypeError, warn
from ldpopt.estimate.labels import checked_labels
from ldpopt.estimate.noise import Noise
from ldpopt.estimate.origin import (
    checked_counts,
    checked_frequencies,
    checked_protocol,
    in_unit_of,
    noise_of,
    number_of_reports,
    stated_rawness,
    warn_of_processed,
    warn_of_scaled,
    warn_of_shares,
)
from ldpopt.estimate.rawness import are_surely_raw, is_shift
from ldpopt.frames import Labelled, by_label, labels_of
from ldpopt.immutable import Immutable, called_as, derived_property
from ldpopt.protocol import PureProtocol

Array = NDArray[np.float64]


def _in_order(what: str, values: ArrayLike, labels: Sequence[str] | None) -> ArrayLike:
    """Return numbers that have labels in the order of those given beside them; others as they are.

    By place, counts that are sorted by size would get the names of other values. Numbers whose own
    labels are all others get new names.

    Raises
    ------
    InvalidInputError
        If some of the labels are among the given ones and some are not, or all are numbers of
        values in another order.
    """
    index = None if labels is None else labels_of(values)
    if labels is None or index is None:
        return values
    names = checked_labels(labels, len(index))
    if not set(index).isdisjoint(names):
        ordered: ArrayLike = by_label(what, values, names)
        return ordered
    places = [str(place) for place in range(len(index))]
    if list(index) != places and set(index) == set(places):
        raise InvalidInputError(
            f"{what} have the numbers of values as their index, in another order than that of the "
            f"labels, first {index[0]}: pass {what}.sort_index()"
        )
    return values


@called_as("FrequencyEstimate")
class TracedFrequencies(Immutable):
    """Frequencies of d values with what is known of their origin.

    The base of ``FrequencyEstimate``, which states the parameters and adds the answers.
    """

    def __init__(
        self,
        frequencies: ArrayLike,
        n: int | None = None,
        oracle: PureProtocol | None = None,
        *,
        noise: Noise | ArrayLike | None = None,
        is_raw: bool | None = None,
        labels: Sequence[str] | None = None,
        method: str = "",
        clip_answers: bool = False,
        raw: Self | None = None,
    ) -> None:
        frequencies = _in_order("frequencies", frequencies, labels)
        # A pandas Series brings the names of its values.
        if labels is None:
            labels = labels_of(frequencies)
        self.frequencies: Array = checked_frequencies(frequencies, oracle)
        self.labels = None if labels is None else checked_labels(labels, self.d)
        if raw is not None:
            _check_raw(raw, self.frequencies.shape, self.labels, is_raw)
            is_raw = False
            # Processing changes frequencies, not what is known of the reports behind them.
            # Unless the caller states another origin.
            if n is None and oracle is None and noise is None:
                n = raw.n
                oracle = raw.oracle
                noise = raw._noise
        # From the oracle, or as given by hand; None where nothing is known of it.
        variances = by_label("noise", noise, self.labels)
        self._noise: Noise | None = noise_of(n, oracle, variances, self.d)
        self.n: int | None = number_of_reports(n, self._noise)
        self.oracle: PureProtocol | None = oracle
        # Noise may state its protocol itself: then both are of one.
        if self._noise is not None:
            self.oracle = self._noise.protocol
        self.method = method
        self.clip_answers = clip_answers
        self._stated = stated_rawness(is_raw)
        # What was processed may have any sum.
        if self._stated is not False and self.n is not None and self.oracle is not None:
            warn_of_shares(self.frequencies, self.n, self.oracle)
            if self._stated:
                warn_of_processed(self.frequencies, self.n, self.oracle)
        # Noise by hand may be in any unit, and a raw estimate has been looked at itself.
        if self.n is not None and self.oracle is not None and raw is None:
            warn_of_scaled(self.frequencies, self.n, self.oracle)
        # Intervals are of the raw estimate, whatever was made of it since.
        self._ancestor = raw

    @classmethod
    def from_counts(
        cls,
        counts: ArrayLike,
        n: int,
        oracle: PureProtocol,
        *,
        labels: Sequence[str] | None = None,
    ) -> Self:
        """Return the unbiased estimate f̃_v = (c_v/n - q)/(p - q) (N Eq. 4). It is raw.

        Parameters
        ----------
        counts
            Support counts: whole numbers in 0 .. n, shape (d,) or (trials, d).
        n
            Number of reports counted, >= 1.
        oracle
            The protocol of the reports.
        labels
            Names of the d values, by default the index of a pandas Series. With both, counts under
            these names are brought into their order; other names are replaced.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If a count is not a whole number in 0 .. n (the first index is named), there are not
            d of them, a stack is empty, n < 1, or counts do not have the sum that reports of
            this protocol give (GRR and subset selection: each report supports as many values);
            if an index has some of the labels and other names.

        Warns
        -----
        ImplausibleCountsWarning
            If the sum of the counts is one that n reports of this protocol give with a probability
            below 2.5e-14, whatever the frequencies: another epsilon, another n or another protocol,
            mostly. A wrong epsilon is noticed where it moves the mean size of a report; under BLH
            and Hadamard response that needs a domain that is not large beside n.
        """
        checked_protocol(oracle)
        n = validate.integer("n (the number of reports)", n, minimum=1)
        counts = _in_order("counts", counts, labels)
        shares = checked_counts(counts, n, oracle) / n
        frequencies = (shares - oracle.q) / (oracle.p - oracle.q)
        if labels is None:
            labels = labels_of(counts)
        return cls(frequencies, n, oracle, is_raw=True, labels=labels, method="base")

    @classmethod
    def of(cls, estimate: Self | ArrayLike, *, total: float | None = None) -> Self:
        """Return an estimate as it is, and plain frequencies as an estimate without noise.

        Integers above 1 have the warning of counts, unless they are of the size of the total, if
        one is given: they are in its unit then.
        """
        if isinstance(estimate, cls):
            return estimate
        if total is not None and total > 1:
            labels = labels_of(estimate)
            return cls(in_unit_of(total, estimate), labels=labels)
        return cls(estimate)

    @property
    def d(self) -> int:
        """Number of values in the domain."""
        return int(self.frequencies.shape[-1])

    @property
    def numbers(self) -> tuple[int | None, bytes]:
        """The number of reports and the frequencies, bit by bit: equal for the same collection.

        Examples
        --------
        >>> from ldpopt import FrequencyEstimate
        >>> FrequencyEstimate([0.5, 0.5]).numbers == FrequencyEstimate([0.5, 0.5]).numbers
        True
        """
        return self.n, self.frequencies.tobytes()

    @property
    def has_noise(self) -> bool:
        """Whether the noise of the raw estimate is known."""
        return self._noise is not None

    @property
    def noise(self) -> Noise:
        """The noise of the raw estimate.

        Raises
        ------
        InvalidInputError
            If it is not known.
        """
        if self._noise is None:
            raise InvalidInputError(
                "this computation needs the noise level of the estimate: build it as "
                "FrequencyEstimate(frequencies, n=..., oracle=...), or with noise=..."
            )
        return self._noise

    @property
    def sigma(self) -> float:
        """Standard deviation of the raw estimate of a value that nobody has (N Eq. 7).

        Raises
        ------
        InvalidInputError
            If it differs between values, is not known, or the estimate was changed.
        """
        self.require_unchanged()
        sd = self.noise.sd
        if np.ndim(sd):
            raise InvalidInputError(
                "the noise of this estimate differs between values: use estimate.noise.sd"
            )
        return float(sd)

    @derived_property
    def is_raw(self) -> bool | None:
        """Whether the frequencies are those that the counts gave; None if that is not known.

        It is True of estimates from counts, False of processed ones, and what was stated of
        others. If nothing was stated, the frequencies are raw if all n (q + (p-q) f) are whole
        numbers in 0 .. n, which changed frequencies satisfy by chance with a probability below
        1e-6. If not, or where the arithmetic cannot tell, the answer is None.
        """
        if self._stated is not None:
            return self._stated
        if self.n is None or self.oracle is None:
            return None
        return True if are_surely_raw(self.frequencies, self.n, self.oracle) else None

    @derived_property
    def extremes(self) -> tuple[Array, Array]:
        """The smallest and the largest frequency of each vector, both of shape (...)."""
        return self.frequencies.min(axis=-1), self.frequencies.max(axis=-1)

    @property
    def raw(self) -> Self | None:
        """The estimate before processing: itself unless processed; None if that is not known."""
        # One of unknown state may be raw itself: ``require_raw`` looks at that.
        return self._ancestor if self._stated is False else self

    @derived_property
    def has_raw_noise(self) -> bool | None:
        """Whether the frequencies have the noise of raw ones, also after a shift by one number.

        None where it is not known whether they are raw.
        """
        if self.is_raw is not False:
            return self.is_raw
        # Without the estimate before processing nothing shows that its noise was kept.
        if self._ancestor is None:
            return False
        return is_shift(self.frequencies, self._ancestor.frequencies)

    def require_raw(self, what: str) -> Self:
        """Return the raw estimate that this one is or was made from.

        Raises
        ------
        InvalidInputError
            Unless it is known to be raw; the message begins with ``what``.
        """
        self.require_unchanged()
        if self.raw is None:
            raise InvalidInputError(
                f"{what} the raw estimate, which this processed one does not know: get it from "
                "ldpopt.postprocess or Problem.solve, or pass raw=..."
            )
        if not self.raw.is_raw:
            raise InvalidInputError(
                f"{what} a raw estimate, and nothing shows that this one is: use "
                "oracle.estimate(counts, n), or pass is_raw=True if its frequencies were not "
                "changed since they were computed from counts"
            )
        return self.raw

    def processed(
        self, frequencies: Array, *, method: str = "", clip_answers: bool = False
    ) -> Self:
        """Return other frequencies, computed from these; noise, labels and raw estimate are kept.

        Parameters
        ----------
        frequencies
            Of the same shape.
        method, clip_answers
            As of the constructor.

        Raises
        ------
        InvalidInputError
            If a frequency is not finite or the shape differs.
        """
        values = validate.frequencies(frequencies)
        if values.shape != self.frequencies.shape:
            raise InvalidInputError(
                f"frequencies must have the shape of the estimate, {self.frequencies.shape}, "
                f"got {values.shape}"
            )
        # The raw estimate, not the last step: a chain of methods still leads to the reports' own
        # noise.
        return self._altered(
            frequencies=values,
            method=method,
            clip_answers=clip_answers,
            _stated=False,
            _ancestor=self.raw,
        )

    def unclipped(self, method: str) -> Self:
        """Return the same frequencies under another name, with answers that are not clipped."""
        return self._altered(method=method, clip_answers=False)

    def __getitem__(self, trial: Any) -> Self:
        """Return one trial of a stack, or several (a slice): everything else is kept.

        An index that is not one of the leading axes raises an error.
        """
        leading = self.frequencies.shape[:-1]
        # The only trial of a vector, for which every solve asks.
        if isinstance(trial, tuple) and not trial and not leading:
            return self
        # Numbers of the trials, indexed in place of their frequencies: an index cannot reach
        # values.
        numbers = np.arange(math.prod(leading)).reshape(leading)
        try:
            chosen = self.frequencies.reshape(-1, self.d)[numbers[trial]]
        # Lists of unequal lengths, and objects that are no index at all, are other errors of numpy.
        except (IndexError, ValueError, TypeError):
            remedy = "" if leading else "; its numbers are in frequencies, by label in query"
            raise InvalidInputError(
                f"estimate[{trial!r}] is not a trial: the leading axes have the shape {leading}"
                f"{remedy}"
            ) from None
        ancestor = None if self._ancestor is None else self._ancestor[trial]
        if not chosen.size:
            raise InvalidInputError(
                f"estimate[{trial!r}] has no trial: the leading axes have the shape {leading}"
            )
        return self._altered(frequencies=chosen, _ancestor=ancestor)

    def __iter__(self) -> Iterator[Self]:
        """Iterate over the trials of a stack, along its first axis; one vector raises an error."""
        if self.frequencies.ndim == 1:
            raise InvalidTypeError(
                "this estimate is one vector, not a stack of trials: its numbers are "
                "estimate.frequencies"
            )
        return (self[i] for i in range(len(self.frequencies)))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the frequencies as numpy takes them: ``np.asarray(estimate)`` copies nothing.

        The array is read-only unless it is a copy. What is known beside the numbers is not in it.

        Raises
        ------
        ValueError
            If ``copy`` is False and another type needs a copy.
        """
        values = self.frequencies
        if dtype is not None and np.dtype(dtype) != values.dtype:
            if copy is False:
                raise ValueError(f"frequencies are float64: as {np.dtype(dtype)} they are a copy")
            return values.astype(dtype)
        return values.copy() if copy else values

    def labelled(self, labels: Sequence[str]) -> Self:
        """Return the same estimate with other names of its values, in the order of the values.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If they are not d names, or those that the values have, in another order.

        Examples
        --------
        >>> from ldpopt import FrequencyEstimate
        >>> FrequencyEstimate([0.5, 0.25]).labelled(["cat", "dog"]).top(1)[0].label
        'cat'
        """
        names = checked_labels(labels, self.d)
        if self.labels not in (None, names) and sorted(self.labels) == sorted(names):
            raise InvalidInputError(
                "the values have these labels already, in another order: each would get the name "
                "of another one. Numbers of an estimate with labels go by them wherever they stand"
            )
        ancestor = None if self._ancestor is None else self._ancestor.labelled(names)
        return self._altered(labels=names, _ancestor=ancestor)

    def _require_vector(self, what: str) -> None:
        if self.frequencies.ndim > 1:
            raise InvalidInputError(
                f"{what} takes one vector, not a stack of trials: use estimate[0], say"
            )

    @property
    def _origin(self) -> list[str]:
        """The oracle, the budget and n, as far as they are known."""
        parts = []
        if self.oracle is not None:
            parts += [type(self.oracle).__name__, f"ε = {self.oracle.epsilon:g}"]
        if self.n is not None:
            parts.append(f"n = {self.n:,}")
        return parts


def warn_unless_raw_noise(estimate: TracedFrequencies) -> None:
    """Warn where the noise of raw estimates is about to be used for processed ones.

    It is not known of every estimate whether it is raw; those that are not known to be
    processed pass.
    """
    if estimate.has_raw_noise is False:
        by = f" by {estimate.method!r}" if estimate.method else ""
        warn(
            f"the noise level is that of raw estimates, and frequencies processed{by} have a "
            "different one: start from the raw estimate (estimate.raw)"
        )


def in_order(what: str, values: Any, labels: Sequence[str] | None) -> Any:
    """Return an estimate's frequencies or labelled numbers by these labels, anything else as it is.

    Raises
    ------
    InvalidInputError
        If both have labels, and not the same ones.
    """
    if isinstance(values, TracedFrequencies):
        if values.labels is None:
            return values.frequencies
        return Labelled(what, values.frequencies, values.labels).by(labels)
    return by_label(what, values, labels)


def _check_raw(
    raw: object, shape: tuple[int, ...], labels: tuple[str, ...] | None, is_raw: bool | None
) -> None:
    """Raise an error unless ``raw`` can be what frequencies of this shape were made from."""
    if not isinstance(raw, TracedFrequencies):
        raise InvalidTypeError(f"raw must be a FrequencyEstimate, got {type(raw).__name__}")
    if raw.frequencies.shape != shape:
        raise InvalidInputError(
            f"raw must have the shape of the frequencies, {shape}, got {raw.frequencies.shape}"
        )
    if None not in (labels, raw.labels) and labels != raw.labels:
        raise InvalidInputError(
            "raw names its values otherwise, or in another order, than the frequencies: bring both "
            "into one order of labels"
        )
    if is_raw:
        raise InvalidInputError("is_raw=True contradicts raw=...: a raw estimate is its own")
