"""A frequency estimate: numbers together with the reports' number and the protocol that they came from."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, InvalidTypeError, LdpoptWarning
from ldpopt.estimate import intervals
from ldpopt.estimate.noise import Noise
from ldpopt.estimate.sets import Sets, answers, membership
from ldpopt.protocol import PureProtocol


@dataclass(frozen=True, eq=False)
class FrequencyEstimate:
    """Estimated frequencies of d values, for one collection of reports or a stack of trials.

    Parameters
    ----------
    frequencies
        Finite fractions of users, shape (d,) or (..., d); kept as a read-only float64 array.
    n
        Number of reports behind each vector, >= 1. May be left out where no noise level is needed.
    oracle
        The protocol of the reports; its d must match. May be left out like ``n``.
    method
        Name of the post-processing that produced the frequencies; ``base`` for raw estimates.
    clip_answers
        Whether answers to queries are clipped at zero (the method ``post-pos``).
    raw
        The estimate before post-processing, which ``postprocess`` keeps: ``interval`` needs it.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a frequency is not finite (the first index is named), a shape does not fit, a stack is empty, or n < 1.

    Examples
    --------
    >>> from ldpopt import oracles
    >>> estimate = FrequencyEstimate([0.7, 0.4, -0.1], n=10_000, oracle=oracles.OUE(epsilon=1.0, d=3))
    >>> round(estimate.sigma, 4)
    0.0192
    >>> estimate.query([[0], [1, 2]])
    array([0.7, 0.3])
    """

    frequencies: NDArray[np.float64]
    n: int | None = None
    oracle: PureProtocol | None = None
    method: str = "base"
    clip_answers: bool = False
    raw: FrequencyEstimate | None = None

    def __post_init__(self) -> None:
        d = None if self.oracle is None else _protocol(self.oracle).d
        values = validate.frequencies(self.frequencies, d=d)
        if not values.size:
            raise InvalidInputError(
                f"a stack must have at least one trial, got shape {values.shape}: axis {values.shape.index(0)} is empty"
            )
        if np.asarray(self.frequencies).dtype.kind in "iu" and values.max() > 1:
            warnings.warn(
                "these frequencies are whole numbers above 1: if they are counts of reports, use oracle.estimate(counts, n)",
                LdpoptWarning,
                stacklevel=3,
            )
        if values.flags.writeable or not values.flags.owndata:  # the caller could change it later
            values = values.copy()
            values.flags.writeable = False
        object.__setattr__(self, "frequencies", values)
        if self.n is not None:
            object.__setattr__(
                self, "n", validate.integer("n (the number of reports)", self.n, minimum=1)
            )

    @classmethod
    def from_counts(cls, counts: ArrayLike, n: int, oracle: PureProtocol) -> FrequencyEstimate:
        """Return the unbiased estimate f̃_v = (c_v/n - q)/(p - q) (N Eq. 4).

        Parameters
        ----------
        counts
            Support counts: whole numbers in 0 .. n, shape (d,) or (trials, d).
        n
            Number of reports counted, >= 1.
        oracle
            The protocol of the reports.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If a count is not a whole number in 0 .. n (the first index is named), there are not d of them, a stack is
            empty, or n < 1.
        """
        _protocol(oracle)
        n = validate.integer("n (the number of reports)", n, minimum=1)
        found = validate.whole_numbers("counts", counts, low=0, high=n)
        if found.ndim == 0 or found.shape[-1] != oracle.d:
            raise InvalidInputError(
                f"counts must have {oracle.d} values on the last axis, got shape {found.shape}"
            )
        return cls((found / n - oracle.q) / (oracle.p - oracle.q), n=n, oracle=oracle)

    @classmethod
    def of(cls, estimate: FrequencyEstimate | ArrayLike) -> FrequencyEstimate:
        """Return an estimate as it is, and plain frequencies as an estimate without a noise level."""
        return estimate if isinstance(estimate, cls) else cls(estimate)  # type: ignore[arg-type]

    @property
    def d(self) -> int:
        """Number of values in the domain."""
        return int(self.frequencies.shape[-1])

    @property
    def noise(self) -> Noise:
        """The noise of the raw estimate, from n and the oracle; an error says so where they are unknown."""
        if self.n is None or self.oracle is None:
            raise InvalidInputError(
                "this needs the noise level of the estimate: build it as FrequencyEstimate(frequencies, n=..., oracle=...)"
            )
        return Noise.of_reports(self.n, self.oracle)

    @property
    def sigma(self) -> float:
        """Standard deviation of the raw estimate of a value that nobody has (N Eq. 7).

        An error is raised where it differs between values, or is unknown.
        """
        sd = self.noise.sd
        if np.ndim(sd):
            raise InvalidInputError(
                "the noise of this estimate differs between values: use estimate.noise.sd"
            )
        return float(sd)

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
        found = answers(self.frequencies, sets)
        return np.maximum(found, 0.0) if self.clip_answers else found

    def interval(
        self, level: float = 0.95, sets: Sets | None = None, *, simultaneous: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return ends (lower, upper) of confidence intervals for the true frequencies of values, or of sets.

        Of a raw estimate: score intervals with the protocol's exact variance (Clopper-Pearson where counts are small). Of a
        post-processed one: raw intervals again, never ones around the post-processed numbers, now with what is known of the
        truth, that no frequency is negative and that they sum to 1. The sum lets a set share the noise of all others, and
        ends are cut to [0, 1]. Both keep the coverage, whatever the method; the interval may leave out the method's number.

        Parameters
        ----------
        level
            Probability that an interval covers the frequency among the n users, in (0, 1): of each on its own, or of all.
        sets
            As in ``query``; None for the values.
        simultaneous
            Whether all intervals of a trial shall cover at once (Bonferroni). Values after post-processing are then bounded
            by the whole box and the sum.

        Returns
        -------
        Two arrays of shape (..., d), or (..., m).

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If n or the oracle is unknown, the level is not in (0, 1), a set is not one, sets are asked of a protocol known by p
            and q alone, or the estimate is post-processed and does not know its raw one.

        Notes
        -----
        At a frequency of 0 the cut leaves one end that can fail, so coverage is up to (1 + level)/2 there. Hadamard response
        estimates a part of a set's variance. Values drawn from a larger population vary by f(1-f)/n more. Reports that do not
        follow the protocol void the level. Cost: a few passes.

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
        start = self if self.method == "base" else self.raw
        if start is None:
            raise InvalidInputError(
                f"intervals are made from the raw estimate, which this one by {self.method!r} does not know: get it from "
                "ldpopt.postprocess, or pass raw=..."
            )
        noise = start.noise
        members = None if sets is None else membership(sets, start.d)
        asked = start.d if members is None else members.shape[0]
        each = 1 - (1 - level) / max(asked, 1) if simultaneous else level
        consistent = self.method != "base"
        centred = consistent and noise.knows_pairs
        lower, upper = intervals.unconstrained_interval(
            start.frequencies, noise, each, members, centred=centred
        )
        if not consistent:
            return lower, upper
        if simultaneous and members is None:
            return intervals.on_simplex(lower, upper)
        return intervals.clipped(lower, upper)

    def __repr__(self) -> str:
        trials = "".join(f"{size} trials x " for size in self.frequencies.shape[:-1])
        return f"FrequencyEstimate({trials}d={self.d}, method={self.method!r}, n={self.n}, oracle={self.oracle!r})"


def _protocol(oracle: object) -> PureProtocol:
    if not isinstance(oracle, PureProtocol):
        raise InvalidTypeError(f"oracle must be an oracle or a PureProtocol, got {oracle!r}")
    return oracle
