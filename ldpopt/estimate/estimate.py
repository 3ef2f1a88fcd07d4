"""A frequency estimate: numbers together with their noise, and whether they are still raw."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, InvalidTypeError, warn
from ldpopt.estimate import intervals
from ldpopt.estimate.noise import Noise
from ldpopt.estimate.sets import Sets, answers, membership
from ldpopt.immutable import Immutable
from ldpopt.printable import printable
from ldpopt.protocol import PureProtocol

Array = NDArray[np.float64]

_SHOWN = 3  # values that a representation lists

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
        Names of the d values, kept by whatever processes the estimate.
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
        self.labels = None if labels is None else _labels(labels, self.d)
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
            Names of the d values.

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
        return cls(frequencies, n, oracle, is_raw=True, labels=labels, method="base")

    @classmethod
    def of(cls, estimate: FrequencyEstimate | ArrayLike) -> FrequencyEstimate:
        """Return an estimate as it is, and plain frequencies as an estimate without noise."""
        return estimate if isinstance(estimate, cls) else cls(estimate)  # type: ignore[arg-type]

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

    def query(self, sets: Sets) -> NDArray[np.float64]:
        """Return the total frequency of each set of values.

        Parameters
        ----------
        sets
            Boolean array of shape (m, d), or a sequence of m arrays of distinct indices.

        Returns
        -------
        Answers of shape (..., m): the leading axes are those of the frequencies.
        """
        total = answers(self.frequencies, sets)
        return np.maximum(total, 0.0) if self.clip_answers else total

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

    def interval(
        self,
        level: float = 0.95,
        sets: Sets | None = None,
        *,
        simultaneous: bool = False,
        selected: int | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
        Two arrays of shape (..., d), or (..., m).

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

    def _largest(self) -> list[tuple[str, float]]:
        """Return the labels (or indices) and frequencies of the largest values of one vector."""
        # Stable: of equal values the first in the domain is shown.
        order = np.argsort(-self.frequencies, kind="stable")[:_SHOWN]
        names = self.labels or [str(v) for v in range(self.d)]
        # Of any origin, and shown in terminals: escape sequences in them must not act.
        return [(printable(names[v]), float(self.frequencies[v])) for v in order]

    def _facts(self) -> dict[str, str]:
        """Return what a representation shows besides the largest values."""
        trials = "".join(f"{size} trials x " for size in self.frequencies.shape[:-1])
        sums = self.frequencies.sum(axis=-1)
        low, high = f"{sums.min():.4g}", f"{sums.max():.4g}"
        state = {True: "yes", False: "no", None: "not known"}[self.is_raw]
        return {
            "d": f"{trials}d={self.d}",
            "n": str(self.n),
            "oracle": repr(self.oracle),
            "method": repr(self.method),
            "raw": state,
            "sum": low if low == high else f"{low} .. {high}",
            "min": f"{self.frequencies.min():.4g}",
        }

    def __repr__(self) -> str:
        facts = self._facts()
        shown = [facts.pop("d"), *(f"{name}={value}" for name, value in facts.items())]
        if self.frequencies.ndim == 1:
            largest = ", ".join(f"{name}: {value:.4g}" for name, value in self._largest())
            shown.append(f"largest={{{largest}}}")
        return f"FrequencyEstimate({', '.join(shown)})"

    def _repr_html_(self) -> str:
        """Return a small table for notebooks."""
        rows = list(self._facts().items())
        if self.frequencies.ndim == 1:
            rows += [(f"f of {name}", f"{value:.4g}") for name, value in self._largest()]
        cells = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
            for name, value in rows
        )
        return f"<table>{cells}</table>"


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


def _labels(labels: Sequence[str], d: int) -> tuple[str, ...]:
    if isinstance(labels, str):  # a sequence too, of letters: of d letters, perhaps
        raise InvalidInputError(f"labels must be a sequence of {d} names, got the text {labels!r}")
    if not np.iterable(labels):
        raise InvalidTypeError(f"labels must be a sequence of {d} names, got {labels!r}")
    names = tuple(str(label) for label in labels)
    if len(names) != d:
        raise InvalidInputError(f"labels must be a sequence of {d} names, got {len(names)}")
    return names


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
