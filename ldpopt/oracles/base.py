"""What every frequency oracle does: randomise values on the client, count support on the server, estimate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.oracles import randomness
from ldpopt.oracles.rational import log_above
from ldpopt.protocol import PureProtocol

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

Reports = NDArray[Any]
Counts = NDArray[np.int64]
Product = Callable[[NDArray[np.float64]], NDArray[np.float64]]

AGGREGATE = "exact law of the aggregate"
IDEAL_HASH = "exact law of the aggregate under an ideal hash"
PER_USER = "one draw per user"
_USERS_AT_A_TIME = (
    1 << 16
)  # users drawn at a time in a per-user simulation: bounds memory whatever n is


_RAREST = Fraction(
    1, 2**32
)  # probability of the rarest event of a client: words of 64 bits keep it to 2⁻³² of itself


def budget(epsilon: object) -> float:
    """Return a privacy budget as a float > 0 whose exponential is finite; an error otherwise."""
    value = validate.real("epsilon", epsilon, above=0)
    if value > 100:
        raise InvalidInputError(
            f"epsilon = {value:g} keeps nothing private: use a smaller epsilon, below about 20"
        )
    return value


class FrequencyOracle(PureProtocol, ABC):
    """A pure protocol with both of its sides.

    Reports are numpy arrays with one row a user: they can be sliced, concatenated and saved. Subclasses compute p and q
    and implement ``_perturb``, ``_support_counts`` and ``_support_products`` on checked input.

    Attributes
    ----------
    p, q
        The probabilities of the client, each rounded once to a float: what estimates are made with.
    exact_p, exact_q
        The same as fractions: what the client realises, on uniform words. They are rounded so that no report is more than
        e^ε times as likely under one value as under another.
    exact_both
        Probability that a report supports the own value and a given other one.
    """

    def __init__(self, epsilon: float, d: int, *, p: Fraction, q: Fraction, both: Fraction) -> None:
        super().__init__(epsilon, d, p=float(p), q=float(q))
        self.exact_p, self.exact_q, self.exact_both = p, q, both
        if min(q, 1 - p) < _RAREST:
            raise InvalidInputError(
                f"epsilon = {self.epsilon:g} with d = {self.d} gives a probability below 2**-32 (p = {self.p!r}, "
                f"q = {self.q:.3g}), too rare to be drawn exactly: use a smaller epsilon or domain"
            )

    simulation: ClassVar[str] = PER_USER
    """How ``simulate_counts`` draws: from the exact law of the aggregate (of an ideal hash), or one draw per user."""

    @property
    @abstractmethod
    def report_bits(self) -> float:
        """Information in one report, in bits: the least that an ideal encoding needs to send any of them."""

    @property
    def exact_ratio(self) -> Fraction:
        """P(report | a value it supports) / P(report | one it does not): (p-x)/(q-x) with x = ``exact_both``.

        The ratio is the same for all reports and values, and 1 where both or neither are supported: reports come from a law
        that does not know the value, and only whether the own value is supported is drawn with another probability. So all
        reports that support u and not v together have the ratio of each, P(u and not v | u) / P(u and not v | v).
        """
        return (self.exact_p - self.exact_both) / (self.exact_q - self.exact_both)

    @property
    def exact_epsilon(self) -> float:
        """The privacy loss of the client: log ``exact_ratio``, rounded up. Between ε - 10⁻⁹ and ε."""
        return log_above(self.exact_ratio)

    @property
    def likelihood_ratio(self) -> float:
        """``exact_ratio`` as a float: what the likelihood of a report is made of."""
        return float(self.exact_ratio)

    @property
    @abstractmethod
    def pair_support(self) -> tuple[float, float]:
        """P(a report supports both of two values): where one of them is the user's own, and where neither is."""

    @abstractmethod
    def _perturb(self, values: NDArray[np.int64], rng: randomness.Rng) -> Reports: ...

    @abstractmethod
    def _check_reports(self, reports: NDArray[Any]) -> None:
        """Raise an error unless every row is a report that a client of this oracle can send."""

    @abstractmethod
    def _support_counts(self, reports: Reports) -> Counts: ...

    @abstractmethod
    def _support_products(self, reports: Reports) -> tuple[Product, Product]:
        """Return f ↦ B f and w ↦ Bᵀ w for the 0/1 matrix B of which report supports which value."""

    def perturb(
        self, values: ArrayLike, *, rng: np.random.Generator | int | None = None
    ) -> Reports:
        """Randomise users' values: the client side.

        Parameters
        ----------
        values
            Whole numbers in 0 .. d-1, shape (n,): one value a user.
        rng
            ``None`` uses the operating system's entropy. A Generator or a seed, given by name, makes reports repeatable and
            thereby voids their privacy: whoever knows or guesses it can undo the randomisation. For simulations and tests.

        Returns
        -------
        One report a user, in the order of ``values``.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If a value is not a whole number in the domain; nothing is randomised then.
        """
        found = validate.array("values", values)
        if found.ndim != 1:
            raise InvalidInputError(
                f"values must have shape (n,), one value a user, got shape {found.shape}"
            )
        checked = validate.whole_numbers("values", found, low=0, high=self.d - 1)
        return self._perturb(checked, None if rng is None else validate.generator(rng))

    def support_counts(self, reports: ArrayLike) -> Counts:
        """Count how many reports support each value: the server side.

        Parameters
        ----------
        reports
            What ``perturb`` returned, or several such arrays concatenated.

        Returns
        -------
        int64 counts of shape (d,). Counts of separate batches of reports add up. Reports of another oracle, ε or domain that
        look alike cannot be told apart: keep the oracle's parameters with the reports.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If the reports have a wrong shape, type or range for this oracle; the first bad report is named.
        """
        return self._support_counts(self._checked(reports))

    def support_operator(self, reports: ArrayLike) -> LinearOperator:
        """Return the matrix B of shape (n, d), B[i, v] = 1 if report i supports value v and 0 if not, as its products.

        The likelihood of reports needs no more: P(report i | f) is proportional to Σf + (r-1) (B f)_i with
        r = ``likelihood_ratio``.

        Parameters
        ----------
        reports
            What ``perturb`` returned, or several such arrays concatenated.

        Returns
        -------
        A scipy ``LinearOperator`` of float64. ``matvec`` takes f of shape (d,) to the sum of f over each report's values,
        ``rmatvec`` weights of shape (n,) to weighted support counts; weights of 1 give ``support_counts``.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            As ``support_counts``.

        Notes
        -----
        A product of either kind costs n + d operations with GRR, n + K log₂ K with Hadamard response, n·k with subset
        selection and n·d/8 with unary encoding and local hashing. These two hold a copy of n·d/8 bytes; local hashing
        evaluates its n·d hashes once, for that copy. The others hold the reports.

        Examples
        --------
        >>> from ldpopt.oracles import GRR
        >>> operator = GRR(epsilon=1.0, d=3).support_operator([2, 0, 2])
        >>> operator.matvec(np.array([0.5, 0.25, 0.125])), operator.rmatvec(np.ones(3))
        (array([0.125, 0.5  , 0.125]), array([1., 0., 2.]))
        """
        from scipy.sparse.linalg import LinearOperator  # slow to import, and counts do without

        found = self._checked(reports)
        forward, back = self._support_products(found)

        def flat(product: Product) -> Product:
            return lambda x: product(
                np.asarray(x, dtype=np.float64).reshape(-1)
            )  # scipy hands on columns as (d, 1)

        return LinearOperator(
            (len(found), self.d),
            matvec=flat(forward),
            rmatvec=flat(back),
            dtype=np.dtype(np.float64),
        )

    def _checked(self, reports: ArrayLike) -> Reports:
        try:
            found = np.asarray(reports)
        except ValueError:
            raise InvalidInputError(
                "reports must be one array, as perturb returns it or np.concatenate joins it"
            ) from None
        self._check_reports(found)
        return found

    def estimate(self, counts: ArrayLike, n: int) -> FrequencyEstimate:
        """Return the unbiased estimate from support counts of shape (d,) or (trials, d) over n reports (N Eq. 4)."""
        return FrequencyEstimate.from_counts(counts, n, self)

    def simulate_counts(
        self,
        true_counts: ArrayLike,
        rng: np.random.Generator | int | None,
        trials: int | None = None,
    ) -> Counts:
        """Draw support counts as if every user had reported.

        Parameters
        ----------
        true_counts
            How many users have each value, whole numbers of shape (d,), at least one user.
        rng
            Generator or seed; ``None`` for a generator with fresh entropy.
        trials
            Number of independent collections; ``None`` for one without a leading axis.

        Returns
        -------
        int64 counts of shape (trials, d), or (d,). The cost does not depend on n, except where ``simulation`` says "one
        draw per user".

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If the counts are not d whole numbers >= 0 with a user among them, or trials < 1.
        """
        true = validate.whole_numbers("true_counts", true_counts, low=0, high=2**62)
        if true.sum(dtype=np.float64) > 2**62:
            raise InvalidInputError("true_counts has more than 2**62 users")
        if true.shape != (self.d,):
            raise InvalidInputError(f"true_counts must have shape ({self.d},), got {true.shape}")
        if not true.any():
            raise InvalidInputError("true_counts has no user: all counts are 0")
        repeats = 1 if trials is None else validate.integer("trials", trials, minimum=1)
        counts = self._simulate(true, validate.generator(rng), repeats)
        return counts[0] if trials is None else counts

    def _simulate(self, true_counts: Counts, rng: np.random.Generator, trials: int) -> Counts:
        """Draw per user, a bounded number of users at a time. Overridden where the law of the aggregate is known."""
        counts = np.zeros((trials, self.d), dtype=np.int64)
        last_user = np.cumsum(true_counts)
        for trial in range(trials):
            for start in range(0, int(last_user[-1]), _USERS_AT_A_TIME):
                users = np.arange(start, min(start + _USERS_AT_A_TIME, int(last_user[-1])))
                values = np.searchsorted(last_user, users, side="right")
                counts[trial] += self._draw_counts(values, rng)
        return counts

    def _draw_counts(self, values: NDArray[np.int64], rng: np.random.Generator) -> Counts:
        """Draw the support counts of these users; a subclass may spare itself the reports."""
        return self._support_counts(self._perturb(values, rng))


def simulate_independent(
    true_counts: Counts, p: float, q: float, rng: np.random.Generator, trials: int
) -> Counts:
    """Draw Binomial(n_v, p) + Binomial(n - n_v, q), independent over v: unary encoding, and local hashing ideally."""
    n = true_counts.sum()
    # Values outside, trials inside: numpy's binomial sampler prepares itself anew whenever its parameters change.
    counts = rng.binomial(true_counts[:, None], p, (len(true_counts), trials))
    counts += rng.binomial((n - true_counts)[:, None], q, (len(true_counts), trials))
    return np.ascontiguousarray(counts.T)


def check_integer_reports(reports: NDArray[Any], *, high: int, columns: int | None = None) -> None:
    """Raise an error unless ``reports`` are integers in 0 .. high of shape (n,), or (n, columns)."""
    if reports.dtype.kind not in "iu":
        raise InvalidTypeError(
            f"reports must be an array of whole numbers, got an array of {reports.dtype}"
        )
    shape = "(n,)" if columns is None else f"(n, {columns})"
    if reports.ndim != (1 if columns is None else 2) or (
        columns is not None and reports.shape[1] != columns
    ):
        raise InvalidInputError(f"reports of this oracle have shape {shape}, got {reports.shape}")
    if reports.size and (reports.min() < 0 or reports.max() > high):
        at = validate.first((reports < 0) | (reports > high))
        raise InvalidInputError(
            f"report {int(at[0])} is out of range: found {reports[at]}, expected 0 .. {high}"
        )
