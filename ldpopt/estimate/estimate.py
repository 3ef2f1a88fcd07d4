"""A frequency estimate: numbers together with their noise, and whether they are still raw."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, InvalidTypeError, extra_needed, warn
from ldpopt.estimate import intervals
from ldpopt.estimate.labels import checked_labels, labels_of
from ldpopt.estimate.noise import Noise
from ldpopt.estimate.sets import NamedSets, Sets, answers, membership, named_sets
from ldpopt.estimate.shown import (
    Shown,
    Value,
    interval_notes,
    largest,
    names_of,
    set_errors,
    standard_errors,
    top_values,
)
from ldpopt.immutable import Immutable
from ldpopt.printable import shortened
from ldpopt.protocol import PureProtocol
from ldpopt.tables import data_frame, html_of, lines_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

_SHOWN = 3  # values that a representation of one line names
_LISTED = 10  # values that a table lists
_LONG_FORM = ("sum", "smallest")  # facts that a representation of one line leaves out
_PICTURED = 40  # values that can still be read below each other in a picture

# By how many units in the last place of n a support count may differ from a whole number: the
# estimate of a count, and the count of that estimate, round about six times. Beyond 2**40
# reports the differences could hide any number.
_COUNT_ROUNDING = 16 * float(np.finfo(np.float64).eps)
_COUNTABLE = 2**40

# Probability that changed frequencies pass for raw ones which is small enough.
_CHANCE = 1e-6

# By how much a shift of all values by one number may differ between them, relative to the
# largest of them.
_SHIFT_ROUNDING = 1e-12


class FrequencyEstimate(Immutable):
    """Estimated frequencies of d values, for one collection of reports or a stack of trials.

    Parameters
    ----------
    frequencies
        Finite fractions of users, shape (d,) or (..., d); kept as a read-only float64 array.
    n
        Number of reports behind each vector, >= 1. May be left out where no noise is needed.
    oracle
        The protocol of the reports; its d must match. May be left out like ``n``.
    noise
        Instead of ``oracle``, the noise given by hand: a ``Noise``, or variances of shape (d,)
        of estimates whose errors are independent.
    is_raw
        True if nothing was done to the frequencies since they were computed from counts, False
        if something was. If it is not stated, see the attribute ``is_raw``.
    labels
        Names of the d values, kept by whatever processes the estimate; of a pandas Series its
        index, unless they are given.
    method
        Name of what produced the frequencies: a label for readers, on which nothing depends.
    clip_answers
        Whether answers to queries are clipped at zero (the method ``post-pos``).
    raw
        The estimate before processing, of the same shape: ``interval`` needs it. Its noise is
        taken over.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a frequency is not finite (the first index is named), a shape does not fit, a stack
        is empty, n < 1, or two arguments contradict each other.

    Examples
    --------
    >>> from ldpopt import oracles
    >>> oracle = oracles.OUE(epsilon=1.0, d=3)
    >>> estimate = FrequencyEstimate([0.7, 0.4, -0.1], n=10_000, oracle=oracle)
    >>> round(estimate.sigma, 4)
    0.0192
    >>> estimate.query([[0], [1, 2]])
    array([0.7, 0.3])
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
        raw: FrequencyEstimate | None = None,
    ) -> None:
        self.frequencies: Array = _frequencies(frequencies, oracle)
        if raw is not None:
            _check_raw(raw, self.frequencies.shape, is_raw)
            is_raw = False
            # Processing changes frequencies, not what is known of the reports behind them.
            if n is None and oracle is None and noise is None:
                n = raw.n
                oracle = raw.oracle
                noise = raw._noise
        self._noise: Noise | None = _noise_of(n, oracle, noise, self.d)
        self.n: int | None = _reports(n, self._noise)
        self.oracle: PureProtocol | None = oracle
        if self._noise is not None:
            self.oracle = self._noise.protocol
        if labels is None:
            labels = labels_of(frequencies)
        self.labels = None if labels is None else checked_labels(labels, self.d)
        self.method = method
        self.clip_answers = clip_answers
        self._stated = _state(is_raw)
        self._ancestor = raw

    @classmethod
    def from_counts(
        cls,
        counts: ArrayLike,
        n: int,
        oracle: PureProtocol,
        *,
        labels: Sequence[str] | None = None,
    ) -> FrequencyEstimate:
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
            Names of the d values; of a pandas Series its index, unless they are given.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If a count is not a whole number in 0 .. n (the first index is named), there are not
            d of them, a stack is empty, n < 1, or counts do not have the sum that reports of
            this protocol give (GRR and subset selection: each report supports as many values).
        """
        _protocol(oracle)
        n = validate.integer("n (the number of reports)", n, minimum=1)
        whole = validate.whole_numbers("counts", counts, low=0, high=n)
        if whole.ndim == 0 or whole.shape[-1] != oracle.d:
            raise InvalidInputError(
                f"counts must have {oracle.d} values on the last axis, got shape {whole.shape}"
            )
        _check_sums(whole, n, oracle)
        frequencies = (whole / n - oracle.q) / (oracle.p - oracle.q)
        if labels is None:
            labels = labels_of(counts)
        return cls(frequencies, n, oracle, is_raw=True, labels=labels, method="base")

    @classmethod
    def of(cls, estimate: FrequencyEstimate | ArrayLike) -> FrequencyEstimate:
        """Return an estimate as it is, and plain frequencies as an estimate without noise."""
        return estimate if isinstance(estimate, cls) else cls(estimate)

    @property
    def d(self) -> int:
        """Number of values in the domain."""
        return int(self.frequencies.shape[-1])

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
            If it differs between values, or is not known.
        """
        sd = self.noise.sd
        if np.ndim(sd):
            raise InvalidInputError(
                "the noise of this estimate differs between values: use estimate.noise.sd"
            )
        return float(sd)

    @cached_property
    def is_raw(self) -> bool | None:
        """Whether the frequencies are those that the counts gave; None if that is not known.

        It is True of estimates from counts, False of processed ones, and what was stated of
        others. If nothing was stated, the frequencies are raw if all n (q + (p-q) f) are whole
        numbers in 0 .. n, which changed frequencies satisfy by chance with a probability below
        1e-6. If not, or where the arithmetic cannot tell, the answer is None: see
        ``_may_be_counts_by_chance``.
        """
        if self._stated is not None:
            return self._stated
        if self.n is None or self.oracle is None or self.n > _COUNTABLE:
            return None
        counts = self.n * (self.oracle.q + (self.oracle.p - self.oracle.q) * self.frequencies)
        whole = np.clip(np.rint(counts), 0, self.n)
        if np.max(np.abs(counts - whole)) > _COUNT_ROUNDING * self.n:
            return None
        return None if self._may_be_counts_by_chance(self.n, self.oracle) else True

    def _may_be_counts_by_chance(self, n: int, protocol: PureProtocol) -> bool:
        """Return whether changed frequencies might follow from whole counts as these ones do."""
        # Each of d numbers is whole by chance with this probability; a known sum leaves d - 1.
        if (2 * _COUNT_ROUNDING * n) ** (self.d - 1) >= _CHANCE:
            return True
        # With whole n p and n q round frequencies are counts, and shifts are often whole.
        shares = n * np.array([protocol.p, protocol.q])
        if np.max(np.abs(shares - np.rint(shares))) <= _COUNT_ROUNDING * n:
            return True
        # Cutting leaves zeros, which are counts where n q is whole.
        if np.any(self.frequencies == 0):
            return True
        # A shift to the sum 1 is whole for one vector in d where n (d q + p - q) is whole, as for
        # symmetric unary encoding of two values. Only if all reports support as many values the
        # sum of raw frequencies is 1.
        sums = self.frequencies.sum(axis=-1)
        size = 1 + np.abs(self.frequencies).sum(axis=-1)
        is_one = np.abs(sums - 1) <= _SHIFT_ROUNDING * size
        return not is_one.all() if protocol.has_fixed_size else bool(is_one.any())

    @property
    def raw(self) -> FrequencyEstimate | None:
        """The estimate before processing: itself unless processed; None if that is not known."""
        # One of unknown state may be raw itself: ``require_raw`` looks at that.
        return self._ancestor if self._stated is False else self

    @cached_property
    def has_raw_noise(self) -> bool | None:
        """Whether the frequencies have the noise of raw ones, also after a shift by one number.

        None where it is not known whether they are raw.
        """
        if self.is_raw is not False:
            return self.is_raw
        # Processed, and from what is not known: nothing shows that the noise is still that of raw
        # ones.
        if self._ancestor is None:
            return False
        shift = self.frequencies - self._ancestor.frequencies
        size = max(1.0, float(np.abs(self._ancestor.frequencies).max()))
        return bool(np.ptp(shift, axis=-1).max() <= _SHIFT_ROUNDING * size)

    def require_raw(self, what: str) -> FrequencyEstimate:
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
    ) -> FrequencyEstimate:
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

    def unclipped(self, method: str) -> FrequencyEstimate:
        """Return the same frequencies under another name, with answers that are not clipped."""
        return self._altered(method=method, clip_answers=False)

    def __getitem__(self, trial: Any) -> FrequencyEstimate:
        """Return one trial of a stack, or several (a slice): everything else is kept.

        An index that is not one of the leading axes raises an error.
        """
        leading = self.frequencies.shape[:-1]
        # Numbers of the trials, indexed in place of their frequencies: an index cannot reach
        # values.
        numbers = np.arange(math.prod(leading)).reshape(leading)
        try:
            chosen = self.frequencies.reshape(-1, self.d)[numbers[trial]]
        except IndexError:
            raise InvalidInputError(
                f"estimate[{trial!r}] is not a trial: the leading axes have the shape {leading}"
            ) from None
        ancestor = None if self._ancestor is None else self._ancestor[trial]
        if not chosen.size:
            raise InvalidInputError(
                f"estimate[{trial!r}] has no trial: the leading axes have the shape {leading}"
            )
        return self._altered(frequencies=chosen, _ancestor=ancestor)

    def __iter__(self) -> Iterator[FrequencyEstimate]:
        """Iterate over the trials of a stack, along its first axis; one vector raises an error."""
        if self.frequencies.ndim == 1:
            raise InvalidTypeError("this estimate is one vector, not a stack of trials")
        return (self[i] for i in range(len(self.frequencies)))

    @overload
    def query(self, sets: Sets) -> NDArray[np.float64]: ...
    @overload
    def query(self, sets: NamedSets) -> dict[str, Any]: ...
    def query(self, sets: Sets | NamedSets) -> NDArray[np.float64] | dict[str, Any]:
        """Return the total frequency of each set of values.

        Parameters
        ----------
        sets
            Boolean array of shape (m, d), or a sequence of m arrays of distinct indices or labels;
            or a mapping from the names of sets to such arrays.

        Returns
        -------
        Answers of shape (..., m): the leading axes are those of the frequencies. Of a mapping the
        answers by name, each of shape (...).

        Examples
        --------
        >>> estimate = FrequencyEstimate([0.5, 0.25, 0.125], labels=["cat", "dog", "cow"])
        >>> estimate.query([["cat", "dog"]]), estimate.query({"pets": ["cat", "dog"]})
        (array([0.75]), {'pets': np.float64(0.75)})
        """
        names, rows = named_sets(sets, self.labels)
        total = answers(self.frequencies, rows)
        if self.clip_answers:
            total = np.maximum(total, 0.0)
        if not isinstance(sets, Mapping):
            return total
        # The index () makes a number of an array without axes.
        return {name: total[..., i][()] for i, name in enumerate(names)}

    def top(self, k: int | None = None, *, above: float | None = None) -> list[Value]:
        """Return the largest values of one vector, the largest first, with their labels.

        Parameters
        ----------
        k
            How many; 10 by default, or all that are above the threshold.
        above
            Only values with a larger frequency, as in ``heavy_hitters``.

        Returns
        -------
        Values with ``label``, ``index`` and ``frequency``; of equal frequencies the first in the
        domain comes first.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If the estimate is a stack, k is no whole number >= 0, or the threshold is not finite.

        Notes
        -----
        Cost: a few passes, and a sort of k values.

        Examples
        --------
        >>> estimate = FrequencyEstimate([0.25, 0.5, 0.125], labels=["cat", "dog", "cow"])
        >>> estimate.top(1)
        [Value(label='dog', index=1, frequency=0.5)]
        >>> [value.label for value in estimate.top(above=0.2)]
        ['dog', 'cat']
        """
        self._require_vector("top")
        return top_values(self.frequencies, self.labels, k, above)

    def heavy_hitters(self, threshold: float) -> NDArray[np.bool_]:
        """Return which values have a frequency above the threshold (K II-A).

        Parameters
        ----------
        threshold
            A finite number, such as ``closed_form.significance_threshold(d, estimate.sigma,
            0.05)``: above it, a raw estimate has an expected number of at most 0.05 values that
            nobody has (K Eq. 22).

        Returns
        -------
        Booleans of the frequencies' shape.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If the threshold is not a finite number.

        Examples
        --------
        >>> FrequencyEstimate([0.5, 0.1, 0.3]).heavy_hitters(threshold=0.2)
        array([ True, False,  True])
        """
        return np.asarray(self.frequencies > validate.real("threshold", threshold))

    @overload
    def interval(
        self,
        level: float = 0.95,
        sets: Sets | None = None,
        *,
        simultaneous: bool = False,
        selected: int | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    @overload
    def interval(
        self,
        level: float = 0.95,
        *,
        sets: NamedSets,
        simultaneous: bool = False,
        selected: int | None = None,
    ) -> dict[str, tuple[Any, Any]]: ...
    def interval(
        self,
        level: float = 0.95,
        sets: Sets | NamedSets | None = None,
        *,
        simultaneous: bool = False,
        selected: int | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]] | dict[str, tuple[Any, Any]]:
        """Return ends (lower, upper) of confidence intervals for true frequencies.

        Raw estimates get score intervals with the protocol's exact variance, and
        Clopper-Pearson intervals where counts are small; sets under Hadamard response get the
        bounds of Bennett's inequality there. Post-processed estimates get the
        intervals of their raw estimate, tightened by f >= 0 and Σf = 1; they are never centred
        on the biased, post-processed values. The sum lets a set share the noise of all other
        values, and ends are cut to [0, 1]. Both kinds keep the coverage, whatever the method;
        the interval may leave out the method's number. An answer far below 0 has an interval from 0
        to a positive end.

        Parameters
        ----------
        level
            Probability, in (0, 1), that an interval covers the frequency among the n users:
            each on its own, or all.
        sets
            As in ``query``; None for the values.
        simultaneous
            Whether all intervals of a trial cover at once with this probability (Bonferroni).
            Values after post-processing are then bounded by the whole box and the sum.
        selected
            How many of the intervals will be looked at, if these are chosen by their estimates, as
            the largest ones are. Intervals then have the level 1 - (1 - level) selected/count,
            which keeps the expected share of those looked at that miss below 1 - level.

        Returns
        -------
        Two arrays of shape (..., d), or (..., m); of a mapping of sets the ends by name.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If the noise is unknown, the level is not in (0, 1), ``selected`` is below 1 or beside
            ``simultaneous``, a set is invalid, sets are
            given with a protocol known by p and q alone, or the raw estimate is unknown or not
            known to be raw.

        Notes
        -----
        At a frequency of 0 the cut leaves one end that can fail, so coverage is up to (1 + level)/2
        there. For Hadamard response, a part of a set's variance is itself estimated. If the users
        are a sample from a larger population, the population's frequencies vary by a further
        f(1-f)/n. Reports that do not follow the protocol void the level. Cost: a few passes.

        Examples
        --------
        >>> from ldpopt import oracles, postprocess
        >>> raw = oracles.OUE(epsilon=1.0, d=3).estimate([4_300, 3_300, 2_650], 10_000)
        >>> [end.round(3) for end in raw.interval()]
        [array([ 0.656,  0.226, -0.054]), array([0.738, 0.303, 0.021])]
        >>> [end.round(3) for end in postprocess(raw, "norm-sub").interval()]
        [array([0.683, 0.251, 0.   ]), array([0.749, 0.315, 0.033])]
        """
        level = validate.real("level", level, above=0, below=1)
        names, rows = ([], None) if sets is None else named_sets(sets, self.labels)
        ends = self._ends(level, rows, simultaneous=simultaneous, selected=selected)
        if not isinstance(sets, Mapping):
            return ends
        lower, upper = ends
        return {name: (lower[..., i][()], upper[..., i][()]) for i, name in enumerate(names)}

    def _ends(
        self, level: float, sets: Sets | None, *, simultaneous: bool, selected: int | None
    ) -> tuple[Array, Array]:
        """Return the ends of the intervals of values, or of sets of indices."""
        noise = self.noise
        raw = self.require_raw("intervals need")
        members = None if sets is None else membership(sets, raw.d)
        count = raw.d if members is None else members.shape[0]
        each = _level_of_each(level, max(count, 1), simultaneous, selected)
        consistent = raw is not self
        if not consistent:
            return intervals.unconstrained_interval(raw.frequencies, noise, each, members)
        # Only the intervals of processed estimates use Σf = 1. That needs how counts vary together,
        # which not every protocol states.
        lower, upper = intervals.possible_interval(
            raw.frequencies, noise, each, members, centred=noise.knows_pairs
        )
        # Bounds of all values that hold together are a box, and the box can be met with the
        # simplex. Intervals that hold one by one, or of sets, are no such box.
        if simultaneous and members is None:
            return intervals.on_simplex(lower, upper)
        return lower, upper

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

    def labelled(self, labels: Sequence[str]) -> FrequencyEstimate:
        """Return the same estimate with other names of its values.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If they are not d names.

        Examples
        --------
        >>> FrequencyEstimate([0.5, 0.25]).labelled(["cat", "dog"]).top(1)[0].label
        'cat'
        """
        names = checked_labels(labels, self.d)
        ancestor = None if self._ancestor is None else self._ancestor.labelled(names)
        return self._altered(labels=names, _ancestor=ancestor)

    def to_frame(
        self,
        sets: Sets | NamedSets | None = None,
        *,
        level: float | None = None,
        simultaneous: bool = False,
        selected: int | None = None,
    ) -> Any:
        """Return one vector as a DataFrame of pandas: one row per value, or per set.

        Parameters
        ----------
        sets
            As in ``query``; None for the values.
        level
            Of the intervals; None for none.
        simultaneous, selected
            As in ``interval``.

        Returns
        -------
        A DataFrame with the columns ``label``, ``frequency``, ``standard_error`` (of the raw
        estimates; if their noise is known) and, with a level, ``lower`` and ``upper``.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If pandas is not installed or the estimate is a stack; and as ``interval``.

        Examples
        --------
        >>> estimate = FrequencyEstimate([0.5, 0.25], labels=["cat", "dog"])
        >>> estimate.to_frame()  # doctest: +SKIP
          label  frequency
        0   cat       0.50
        1   dog       0.25
        """
        self._require_vector("to_frame")
        columns: dict[str, Any] = {}
        if sets is None:
            rows = None
            columns["label"] = names_of(self.labels, np.arange(self.d))
            columns["frequency"] = self.frequencies
        else:
            columns["label"], rows = named_sets(sets, self.labels)
            columns["frequency"] = self.query(rows)
        if self._noise is not None:
            columns["standard_error"] = (
                standard_errors(self.frequencies, self._noise)
                if rows is None
                else set_errors(self.frequencies, self._noise, rows)
            )
        if level is not None:
            columns["lower"], columns["upper"] = self.interval(
                level, rows, simultaneous=simultaneous, selected=selected
            )
        return data_frame(columns, "np.asarray(estimate), top and interval")

    def shown(
        self,
        number: int,
        sets: Sets | NamedSets | None = None,
        *,
        level: float | None = None,
        simultaneous: bool = False,
    ) -> Shown:
        """Return so many largest values, or sets, of one vector as tables and pictures show them.

        Intervals of what is shown because its estimate is large keep the false coverage rate of
        what is shown (``selected`` of ``interval``); simultaneous ones hold for all answers.

        Parameters
        ----------
        number
            How many.
        sets, level, simultaneous
            As in ``to_frame``.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If the estimate is a stack; and as ``interval``.

        Examples
        --------
        >>> estimate = FrequencyEstimate([0.25, 0.5, 0.125], labels=["cat", "dog", "cow"])
        >>> estimate.shown(2).names
        ['dog', 'cat']
        """
        self._require_vector("a list of the largest values")
        titles, rows = ([], None) if sets is None else named_sets(sets, self.labels)
        numbers = self.frequencies if rows is None else self.query(rows)
        indices = largest(numbers, number)
        names = names_of(self.labels if rows is None else titles, indices)
        result = Shown(names, numbers[indices], len(numbers))
        # An empty list of sets has no intervals.
        if level is None or not names:
            return result
        selected = None if simultaneous else len(names)
        lower, upper = self.interval(level, rows, simultaneous=simultaneous, selected=selected)
        result = replace(result, lower=lower[indices], upper=upper[indices])
        each = intervals.level_of_selected(level, len(names), result.count)
        notes = interval_notes(result, level, each, self.method, simultaneous=simultaneous)
        return replace(result, notes=notes)

    def plot(
        self,
        sets: Sets | NamedSets | None = None,
        *,
        level: float | None = 0.95,
        largest: int = _PICTURED,
        simultaneous: bool = False,
    ) -> Figure:
        """Return a picture of the largest values of one vector, or of sets, with intervals.

        Parameters
        ----------
        sets
            As in ``query``; None for the values.
        level
            Of the intervals, which keep the false coverage rate of the values shown; None for none.
            There are none either where the noise or the raw estimate is not known, and a note
            below the picture states that.
        largest
            How many values are shown.
        simultaneous
            Whether the intervals of all values, shown or not, hold at once.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If the estimate is a stack; and as ``interval``.

        Examples
        --------
        >>> from ldpopt import oracles
        >>> oracle = oracles.OUE(epsilon=1.0, d=3)
        >>> raw = oracle.estimate([4_300, 3_300, 2_650], 10_000, labels=["cat", "dog", "cow"])
        >>> raw.plot().get_suptitle()
        'all values: base, OUE, ε = 1, n = 10,000'
        """
        with extra_needed():
            from ldpopt.estimate.figure import estimate_figure  # loads matplotlib

        number = validate.integer("largest", largest, minimum=1)
        missing = "" if level is None else self._why_no_intervals
        shown = self.shown(
            number, sets, level=None if missing else level, simultaneous=simultaneous
        )
        notes = (f"Without intervals: {missing}.",) if missing else ()
        what = "sets" if sets is not None else "values"
        about = ", ".join(part for part in (self.method, *self._origin) if part)
        return estimate_figure(replace(shown, notes=shown.notes + notes), what, about, self.method)

    @property
    def _why_no_intervals(self) -> str:
        if self._noise is None:
            return "the noise of this estimate is not known"
        is_known = self.raw is not None and self.raw.is_raw
        return "" if is_known else "the raw estimate behind this one is not known"

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

    @property
    def _facts(self) -> dict[str, str]:
        """What a representation shows besides the largest values."""
        trials = "".join(f"{size:,} trials of " for size in self.frequencies.shape[:-1])
        sums = self.frequencies.sum(axis=-1)
        facts = {"values": f"{trials}{self.d:,}"}
        if self._origin:
            facts["reports"] = ", ".join(self._origin)
        if self.method:
            facts["method"] = self.method
        facts["raw"] = {True: "yes", False: "no", None: "not known"}[self.is_raw]
        facts["sum"] = _range(sums.min(), sums.max())
        facts["smallest"] = f"{self.frequencies.min():.4g}"
        if self._noise is not None:
            sd = np.sqrt(self._noise.constant)
            # Of values that nobody has: the smallest number of all, and nearly that of most.
            facts["standard error at 0"] = _range(np.min(sd), np.max(sd))
        return facts

    def _largest_texts(self, number: int) -> list[list[str]]:
        """Return label, frequency and, if it is known, standard error of the largest values."""
        indices = largest(self.frequencies, number)
        columns = [names_of(self.labels, indices)]
        columns.append([f"{value:.4g}" for value in self.frequencies[indices]])
        if self._noise is not None:
            errors = standard_errors(self.frequencies, self._noise, indices)
            columns.append([f"{error:.2g}" for error in errors])
        return [list(row) for row in zip(*columns, strict=True)]

    def __repr__(self) -> str:
        facts = [
            f"{name}: {value}" for name, value in self._facts.items() if name not in _LONG_FORM
        ]
        if self.frequencies.ndim == 1:
            # Of any origin, and shown in terminals: escape sequences in them must not act.
            pairs = ", ".join(
                f"{shortened(row[0])} {' ± '.join(row[1:])}" for row in self._largest_texts(_SHOWN)
            )
            facts.append(f"largest: {pairs}{', …' if self.d > _SHOWN else ''}")
        return f"FrequencyEstimate({'; '.join(facts)})"

    def __str__(self) -> str:
        """Return the largest values as lines of text, below what is known of all."""
        facts = [f"{name}: {value}" for name, value in self._facts.items()]
        if self.frequencies.ndim > 1:
            return "\n".join(facts)
        rows = [[shortened(name), *numbers] for name, *numbers in self._largest_texts(_LISTED)]
        table = lines_of(self._headings, rows)
        more = [f"… {self.d - _LISTED:,} more"] if self.d > _LISTED else []
        return "\n".join([*facts, *table, *more])

    def _repr_html_(self) -> str:
        """Return the largest values as a table, below what is known of all."""
        title = "Frequency estimate"
        facts = html_of((), list(self._facts.items()), title=title)
        if self.frequencies.ndim > 1:
            return facts
        more = [f"… {self.d - _LISTED:,} more"] if self.d > _LISTED else []
        return facts + html_of(self._headings, self._largest_texts(_LISTED), more)

    @property
    def _headings(self) -> list[str]:
        headings = ["value", "frequency"]
        if self._noise is None:
            return headings
        # Processing changes the noise of frequencies, and nobody knows how.
        return [*headings, "standard error" if self.is_raw else "standard error, raw"]


def _range(low: float, high: float) -> str:
    """Return one number for two that look the same."""
    ends = dict.fromkeys((f"{low:.4g}", f"{high:.4g}"))
    return " .. ".join(ends)


def _level_of_each(level: float, count: int, simultaneous: bool, selected: int | None) -> float:
    """Return the level of each of ``count`` intervals."""
    if selected is None:
        # Bonferroni: each interval gets an equal share of the probability to fail.
        return 1 - (1 - level) / count if simultaneous else level
    if simultaneous:
        raise InvalidInputError(
            "intervals that hold at once hold for selected values too: leave out selected=..., or "
            "simultaneous=True"
        )
    selected = validate.integer("selected (the number of intervals)", selected, minimum=1)
    return intervals.level_of_selected(level, selected, count)


def warn_unless_raw_noise(estimate: FrequencyEstimate) -> None:
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


def _frequencies(frequencies: ArrayLike, oracle: object | None) -> Array:
    """Return the frequencies as floats, of the oracle's domain if there is one."""
    d = None if oracle is None else _protocol(oracle).d
    values = validate.frequencies(frequencies, d=d)
    if not values.size:
        raise InvalidInputError(
            f"a stack must have at least one trial, got shape {values.shape}: "
            f"axis {values.shape.index(0)} is empty"
        )
    # Noise may lift an estimate above 1, but never to exact whole numbers.
    if np.asarray(frequencies).dtype.kind in "iu" and values.max() > 1:
        warn(
            "these frequencies are whole numbers above 1: if they are counts of reports, "
            "use oracle.estimate(counts, n)"
        )
    return values


def _protocol(oracle: object) -> PureProtocol:
    if not isinstance(oracle, PureProtocol):
        raise InvalidTypeError(f"oracle must be an oracle or a PureProtocol, got {oracle!r}")
    return oracle


def _check_sums(counts: NDArray[Any], n: int, oracle: PureProtocol) -> None:
    """Raise an error if every report supports as many values and the counts contradict that."""
    if not oracle.has_fixed_size:
        return
    size = round(oracle.p + (oracle.d - 1) * oracle.q)
    # Sums that might leave 64 bits are added as Python's numbers.
    exact = counts if n * oracle.d < 2**63 else counts.astype(object)
    sums = exact.sum(axis=-1)
    wrong = np.asarray(sums != n * size)
    if wrong.any():
        trial = validate.first(wrong)
        where = f" in {validate.trial(trial)}" if trial else ""
        raise InvalidInputError(
            f"counts must sum to {n * size}{where}, got {np.asarray(sums)[trial]}: each of the "
            f"n = {n} reports of {oracle!r} supports {size} of the values; check n and the counts"
        )


def _noise_of(
    n: int | None, oracle: PureProtocol | None, noise: Noise | ArrayLike | None, d: int
) -> Noise | None:
    """Return the noise from whichever arguments give it, or None; two of them raise an error."""
    if noise is None:
        return None if n is None or oracle is None else Noise.of_reports(n, oracle)
    result = _given_noise(n, oracle, noise)
    # One number stands for all values.
    size = max(np.size(result.constant), np.size(result.slope))
    if size not in (1, d):
        raise InvalidInputError(f"the noise is that of {size} values, the estimate has {d}")
    return result


def _given_noise(n: int | None, oracle: PureProtocol | None, noise: Noise | ArrayLike) -> Noise:
    """Return noise given by hand, unless n or the oracle contradicts it."""
    if isinstance(noise, Noise):
        if n is not None and n != noise.n:
            raise InvalidInputError(f"n = {n!r} and the noise's n = {noise.n!r} differ: pass one")
        # The oracle that the noise is of adds nothing, and contradicts nothing.
        if oracle is None or oracle is noise.protocol:
            return noise
    elif oracle is None:
        return Noise(noise, n=n)  # type: ignore[arg-type]
    raise InvalidInputError("oracle and noise both give the noise: pass one of them")


def _reports(n: int | None, noise: Noise | None) -> int | None:
    """Return the number of reports that is given by itself or with the noise, or None."""
    if n is not None:
        return validate.integer("n (the number of reports)", n, minimum=1)
    return None if noise is None else noise.n


def _state(is_raw: object) -> bool | None:
    """Return what is stated of frequencies; anything but a truth value or None is an error."""
    if is_raw is None:
        return None
    # A text such as "no" would count as true.
    if not isinstance(is_raw, bool | np.bool_):
        raise InvalidTypeError(f"is_raw must be True, False or None, got {is_raw!r}")
    return bool(is_raw)


def _check_raw(raw: object, shape: tuple[int, ...], is_raw: bool | None) -> None:
    """Raise an error unless ``raw`` can be what frequencies of this shape were made from."""
    if not isinstance(raw, FrequencyEstimate):
        raise InvalidTypeError(f"raw must be a FrequencyEstimate, got {raw!r}")
    if raw.frequencies.shape != shape:
        raise InvalidInputError(
            f"raw must have the shape of the frequencies, {shape}, got {raw.frequencies.shape}"
        )
    if is_raw:
        raise InvalidInputError("is_raw=True contradicts raw=...: a raw estimate is its own")
