"""A frequency estimate: what it answers, with which confidence, and how it is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.errors import extra_needed
from ldpopt.estimate import intervals
from ldpopt.estimate.representation import Representation
from ldpopt.estimate.sets import NamedSets, Sets, answers, membership, named_sets
from ldpopt.estimate.shown import (
    Shown,
    TopValues,
    interval_notes,
    largest,
    names_of,
    set_errors,
    standard_errors,
    top_values,
)
from ldpopt.estimate.thresholds import checked_threshold
from ldpopt.estimate.traced import TracedFrequencies
from ldpopt.tables import data_frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

PICTURED = 40
"""How many values can still be read below each other in a picture."""


class FrequencyEstimate(TracedFrequencies):
    """Estimated frequencies of d values, for one collection of reports or a stack of trials.

    Parameters
    ----------
    frequencies
        Finite fractions of users, shape (d,) or (..., d); kept as a read-only float64 array. They
        are estimates, (c/n - q)/(p - q) from the counts c of n reports: ``oracle.estimate(counts,
        n)`` or ``FrequencyEstimate.from_counts`` computes them. The shares c/n of the reports are
        none: those of GRR sum to 1 as estimates do, so that nothing shows the mistake.
    n
        Number of reports behind each vector, >= 1. May be left out where no noise is needed.
    oracle
        The protocol of the reports; its d must match. May be left out like ``n``.
    noise
        Instead of ``oracle``, the noise given by hand: a ``Noise``, or variances of shape (d,)
        of estimates whose errors are independent. A covariance matrix is refused; that of
        reports is known from ``n`` and ``oracle``.
    is_raw
        True if nothing was done to the frequencies since they were computed from counts, False
        if something was. If it is not stated, see the attribute ``is_raw``.
    labels
        Names of the d values, kept by whatever processes the estimate; by default the index
        of a pandas Series. A Series whose index has the same names in another order is sorted
        by them.
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

    Warns
    -----
    ImplausibleCountsWarning
        If the frequencies are shares of reports: n f are whole numbers with a sum that counts of
        the oracle have, and estimates have not. Raw estimates of whole counts never have the
        warning, and those that are rounded to multiples of 1/n with a probability below 4e-9.
        If ``is_raw=True`` and all are at least 0, some exactly, with the sum 1, as methods make
        them: raw estimates that are so follow from whole counts, up to rounding to some digits, and
        never have the warning.
    LdpoptWarning
        If they are a column that sums to about 1, as one of a table: it is trials of one value.
    ImplausibleUnitWarning
        If they are integers above 1, as counts are; with ``n`` and ``oracle`` also if they are
        percent, numbers of users, or whole numbers as floats: the noise is that of shares of 1.

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
        total = self._answers(rows, names)
        if not isinstance(sets, Mapping):
            return total
        # The index () makes a number of an array without axes.
        return {name: total[..., i][()] for i, name in enumerate(names)}

    def _answers(self, rows: Sets, names: list[str]) -> Array:
        """Return the total frequency of each set of indices; errors state its name."""
        total = answers(self.frequencies, rows, names)
        return np.maximum(total, 0.0) if self.clip_answers else total

    def top(self, k: int | None = None, *, above: float | None = None) -> TopValues:
        """Return the largest values of one vector, the largest first, with their labels.

        Parameters
        ----------
        k
            How many; 10 by default, or all that are above the threshold.
        above
            Only values with a larger frequency, as in ``heavy_hitters``.

        Returns
        -------
        A list of values with ``label``, ``index`` and ``frequency``, which ``print`` and notebooks
        show as a table; of equal frequencies the first in the domain comes first.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If the estimate is a stack, k is no whole number >= 0, or the threshold is not finite.

        Warns
        -----
        ImplausibleUnitWarning
            If the threshold looks like percent, as of ``heavy_hitters``.

        Notes
        -----
        Cost: a few passes, and a sort of k values.

        Examples
        --------
        >>> estimate = FrequencyEstimate([0.25, 0.5, 0.125], labels=["cat", "dog", "cow"])
        >>> estimate.top(1)
        value  index  frequency
        dog    1      0.50000
        >>> estimate.top(1)[0]
        Value(label='dog', index=1, frequency=0.5)
        >>> [value.label for value in estimate.top(above=0.2)]
        ['dog', 'cat']
        """
        self._require_vector("top")
        if above is not None:
            above = checked_threshold("above", above, self.frequencies, self._noise)
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
            If the threshold is not a finite number, or the estimate was changed.

        Warns
        -----
        ImplausibleUnitWarning
            If it is 1 or more, the frequencies are shares of 1, and ten standard errors of theirs
            are less: 30 % is 0.3.

        Examples
        --------
        >>> FrequencyEstimate([0.5, 0.1, 0.3]).heavy_hitters(threshold=0.2)
        array([ True, False,  True])
        """
        self.require_unchanged()
        number = checked_threshold("threshold", threshold, self.frequencies, self._noise)
        return np.asarray(self.frequencies > number)

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
            each on its own, or all. It is 0.95 for 95 %, as scipy's ``confidence_level``;
            statsmodels has 0.05, its ``alpha``.
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
            If the noise is unknown, the level is not in (0, 1), ``selected`` is below 1 or is given
            together with ``simultaneous``, a set is invalid, sets are given with a protocol known
            by p and q alone, or the raw estimate is unknown or not known to be raw.

        Warns
        -----
        ImplausibleLevelWarning
            If the level is below 0.5.

        Notes
        -----
        At a frequency of 0 the lower end cannot be too high, so coverage is up to (1 + level)/2
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
        level = validate.confidence("level", level)
        names, rows = ([], None) if sets is None else named_sets(sets, self.labels)
        ends = self._ends(level, rows, names, simultaneous=simultaneous, selected=selected)
        if not isinstance(sets, Mapping):
            return ends
        lower, upper = ends
        by_name = {}
        for i, name in enumerate(names):
            # Of one vector of estimates a number, not an array without axes.
            by_name[name] = (lower[..., i][()], upper[..., i][()])
        return by_name

    def _ends(
        self,
        level: float,
        sets: Sets | None,
        names: list[str],
        *,
        simultaneous: bool,
        selected: int | None,
    ) -> tuple[Array, Array]:
        """Return the ends of the intervals of values, or of sets of indices."""
        noise = self.noise
        raw = self.require_raw("intervals need")
        members = None if sets is None else membership(sets, raw.d, names)
        count = raw.d if members is None else members.shape[0]
        each = intervals.level_of_each(
            level, max(count, 1), simultaneous=simultaneous, selected=selected
        )
        if raw is self:
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
        MissingPackageError
            If pandas is not installed.
        InvalidInputError, InvalidTypeError
            If the estimate is a stack; and as ``interval``.

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
            columns["frequency"] = self._answers(rows, columns["label"])
        noise = self._noise
        # A set's error has the covariances of its values; frequencies without noise have no column.
        if noise is not None and rows is None:
            columns["standard_error"] = standard_errors(self.frequencies, noise)
        elif noise is not None and rows is not None:
            columns["standard_error"] = set_errors(self.frequencies, noise, rows)
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
        number = validate.integer("number", number, minimum=0)
        simultaneous = validate.flag("simultaneous", simultaneous)
        titles, rows = ([], None) if sets is None else named_sets(sets, self.labels)
        numbers = self.frequencies if rows is None else self._answers(rows, titles)
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
        notes = interval_notes(result, level, each, simultaneous=simultaneous)
        return replace(result, notes=notes)

    def plot(
        self,
        sets: Sets | NamedSets | None = None,
        *,
        level: float | None = 0.95,
        largest: int = PICTURED,
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
        if not self.has_noise:
            return "the noise of this estimate is not known"
        is_known = self.raw is not None and self.raw.is_raw
        return "" if is_known else "the raw estimate behind this one is not known"

    def __repr__(self) -> str:
        return self._representation.line

    def __str__(self) -> str:
        """Return the largest values as lines of text, below what is known of all."""
        return self._representation.text

    def _repr_html_(self) -> str:
        """Return the largest values as a table, below what is known of all."""
        return self._representation.html

    @property
    def _representation(self) -> Representation:
        return Representation(
            self.frequencies, self.labels, self._noise, self.method, self.is_raw, self._origin
        )
