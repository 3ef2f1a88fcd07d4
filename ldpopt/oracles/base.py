"""What every frequency oracle does: randomise values, count support, simulate, estimate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.closed_form import norm_sub
from ldpopt.covariance import Covariance
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.oracles import randomness
from ldpopt.oracles.bit_information import BitInformation
from ldpopt.oracles.forms import IndexForm, Product, ReportForm, Reports
from ldpopt.oracles.index_information import IndexInformation
from ldpopt.oracles.index_law import IndexLaw, report_shares
from ldpopt.oracles.rational import log_above
from ldpopt.protocol import PureProtocol, ReportShares

if TYPE_CHECKING:
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import LinearOperator

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

AGGREGATE = "exact law of the aggregate"
IDEAL_HASH = "exact law of the aggregate under an ideal hash"
PER_USER = "one draw per user"

# A simulation per user draws so many users at a time, which bounds its memory whatever n is.
_USERS_AT_A_TIME = 1 << 16

# The probability of a client's rarest event must be so large that words of 64 bits keep it to a
# relative 2⁻³².
_RAREST = Fraction(1, 2**32)

_LARGEST_EPSILON = 100  # far beyond any privacy; e^ε still fits a double


def budget(epsilon: object) -> float:
    """Return a privacy budget as a float > 0 whose exponential is finite.

    Raises InvalidInputError or InvalidTypeError if it is not a number in that range.
    """
    value = validate.real("epsilon", epsilon, above=0)
    if value > _LARGEST_EPSILON:
        raise InvalidInputError(
            f"epsilon = {value:g} keeps nothing private: use a smaller epsilon, below about 20"
        )
    return value


class FrequencyOracle(PureProtocol, ABC):
    """A pure protocol with both of its sides.

    Reports are numpy arrays with one row per user: they can be sliced, concatenated and saved. A
    subclass computes p and q, states its ``report_form``, its ``pair_support`` and whether three
    values are alike (``exchangeable``), and implements ``_perturb`` on checked values.

    Attributes
    ----------
    p, q
        The probabilities of the client, each rounded once to a float. Estimates are made with
        these.
    exact_p, exact_q
        The same as fractions, which the client realises on uniform words. They are rounded so that
        no report is more than e^ε times as likely under one value as under another.
    exact_both
        Probability that a report supports both the user's own value and another given one.
    """

    name: ClassVar[str]
    """The name in files and on the command line. Oracles outside ``ORACLES`` have none."""

    simulation: ClassVar[str] = PER_USER
    """How ``simulate_counts`` draws: ``AGGREGATE``, ``IDEAL_HASH`` or ``PER_USER``."""

    def __init__(
        self,
        epsilon: float,
        d: int,
        *,
        p: Fraction,
        q: Fraction,
        both: Fraction,
    ) -> None:
        super().__init__(epsilon, d, p=float(p), q=float(q))
        self.exact_p = p
        self.exact_q = q
        self.exact_both = both
        if min(q, 1 - p) < _RAREST:
            raise InvalidInputError(
                f"epsilon = {self.epsilon:g} with d = {self.d} gives a probability below 2**-32 "
                f"(p = {self.p!r}, q = {self.q:.3g}), too rare to be drawn exactly: use a smaller "
                "epsilon or domain"
            )

    @property
    def report_form(self) -> ReportForm:
        """What a report is made of. Checks, counts, files, attacks and channels follow from it.

        Raises
        ------
        InvalidTypeError
            If a subclass does not define it.
        """
        raise InvalidTypeError(
            f"{type(self).__name__} does not say what its reports are made of: define its property "
            "report_form, and return an IndexForm, BitsForm, HashForm or SubsetForm of "
            "ldpopt.oracles.forms"
        )

    @property
    def options(self) -> dict[str, str]:
        """Keyword arguments besides epsilon and d that rebuild this oracle; files keep them."""
        return {}

    @property
    def report_bits(self) -> float:
        """Information in one report, in bits: what an ideal encoding of all reports needs."""
        return self.report_form.information

    @property
    def exact_ratio(self) -> Fraction:
        """P(report | a value it supports) / P(report | one it does not), exactly.

        It is (p-x)/(q-x) with x = ``exact_both``: the same for all reports and values, and 1 where
        both or neither are supported. The reason: the law of a report does not depend on the user's
        value, except for the probability that the report supports it. So all reports that support u
        and not v together have the ratio of each, P(u and not v | u) / P(u and not v | v).
        """
        given_own = self.exact_p - self.exact_both
        given_other = self.exact_q - self.exact_both
        return given_own / given_other

    @property
    def exact_epsilon(self) -> float:
        """The client's privacy loss: log ``exact_ratio``, rounded up; above ε - 10⁻⁹."""
        return log_above(self.exact_ratio)

    @property
    def likelihood_ratio(self) -> float:
        """``exact_ratio`` as a float, on which the likelihood of a report depends."""
        return float(self.exact_ratio)

    @property
    @abstractmethod
    def pair_support(self) -> tuple[float, float]:
        """P(a report supports both of two values): one of them the user's own, or neither."""

    def answer_variance(
        self,
        frequencies: Array,
        members: csr_array | None = None,
        *,
        centred: bool = False,
    ) -> tuple[Array, Array]:
        """Return (α, β) of each answer as every protocol does.

        Where three values are not alike (``exchangeable``), the variance of a sum depends on all
        frequencies. It is then computed from the law of a report that the estimates imply after
        Norm-Sub, and the part that β F does not explain is added to α. Cost: two products with S
        (``IndexForm``) per trial, and for sets one per set.

        Raises
        ------
        InvalidInputError
            If three values are not alike and reports are not indices: such an oracle needs an
            ``answer_variance`` of its own.
        """
        constant, slope = super().answer_variance(frequencies, members, centred=centred)
        single = members is None and not centred
        if self.exchangeable or single:
            return constant, slope
        # The law of a report needs frequencies that are possible.
        likely = norm_sub(frequencies)
        law = self._index_law(likely)
        if members is None:
            variance = law.centred_variance()
            return variance - slope * likely, slope
        by_trial = likely.reshape(-1, self.d)
        answers = np.asarray((members @ by_trial.T).T)
        answers = answers.reshape(*likely.shape[:-1], -1)
        variance = law.set_variance(members, centred=centred)
        return variance - slope * answers, slope

    def report_shares(self, members: csr_array, *, centred: bool) -> ReportShares | None:
        """Return what reports add to the answers to sets, where three values are not alike.

        Cost: three products with S (``IndexForm``) per set.
        """
        form = self.report_form
        if self.exchangeable or not isinstance(form, IndexForm):
            return None
        return report_shares(form, self.p, self.q, members, centred=centred)

    def covariance(self, frequencies: ArrayLike) -> Covariance:
        """Return n Cov[f̃] given the true frequencies f of shape (d,).

        Where three values are not alike (``exchangeable``), a product costs two products with S
        (``IndexForm``). Where their law is not known an InvalidInputError is raised.
        """
        if self.exchangeable:
            return super().covariance(frequencies)
        return self._index_law(validate.frequencies(frequencies, d=self.d)).covariance()

    def _index_law(self, frequencies: Array) -> IndexLaw:
        form = self.report_form
        if not isinstance(form, IndexForm):
            raise InvalidInputError(
                f"the variance of a sum of estimates of {type(self).__name__} is not known: state "
                "exchangeable = True if any three values are alike, or define answer_variance"
            )
        return IndexLaw(form, self.p, self.q, frequencies)

    def information_gain(self, frequencies: ArrayLike) -> float:
        """Return how much more precise estimates from reports can be than those from counts.

        Whether a second pass over the reports (``ldpopt.refine``) is worth it can be known before
        anything is collected: 1.17 means that rare values gain as much as from 17 % more users.

        Parameters
        ----------
        frequencies
            What the users' values are thought to be like, on the simplex, shape (d,): last
            week's estimate, or a power law.

        Returns
        -------
        κ >= 1, the variance of an estimate from counts over that of an efficient one from
        reports. For bits, hashes and sets it is that of a value that nobody has, κ = E[s] E[1/s]
        with s = 1 + (r-1) Σ f over the support of a report; by Jensen's inequality it is above 1
        unless all supports have the same total. For indices it is that of all values together,
        after Norm. With GRR it is 1: the counts hold all that reports do.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If the frequencies are not d numbers >= 0 with the sum 1.

        Notes
        -----
        Cost: about 110 exponentials per value; for indices some 50 products with S per direction,
        of which there are 16, or d if that is smaller.

        Examples
        --------
        >>> from ldpopt.oracles import OUE
        >>> zipf = 1 / np.arange(1, 1025)
        >>> round(OUE(epsilon=2.0, d=1024).information_gain(zipf / zipf.sum()), 3)
        1.034
        """
        f = validate.distribution("frequencies", frequencies, self.d)
        # Reports that support the same value are alike: their number is the count.
        if self.report_form.fixed_size == 1:
            return 1.0
        information = self.information(f)
        if isinstance(information, BitInformation):
            return information.gain
        constant, slope = self.answer_variance(f, centred=True)
        # Of users who are drawn themselves, as the information is: that adds their own variance.
        of_counts = np.sum(constant + slope * f) + 1 - f @ f
        # Rounding and sampled directions must not show a loss, which cannot be.
        return max(1.0, float(of_counts / information.total_variance()))

    def information(self, f: Array) -> BitInformation | IndexInformation:
        """Return the Fisher information of one report at f on the simplex, shape (d,)."""
        form = self.report_form
        more = self.likelihood_ratio - 1
        if isinstance(form, IndexForm):
            return IndexInformation(form, more, f)
        return BitInformation(f, more, self.q, form.fixed_size)

    @abstractmethod
    def _perturb(self, values: NDArray[np.int64], rng: randomness.Rng) -> Reports: ...

    def perturb(
        self,
        values: ArrayLike,
        *,
        rng: np.random.Generator | int | None = None,
        labels: Sequence[str] | None = None,
    ) -> Reports:
        """Randomise users' values: the client side.

        Parameters
        ----------
        values
            Whole numbers in 0 .. d-1, shape (n,): one value per user. With ``labels`` these
            themselves, as text.
        rng
            ``None`` uses the operating system's entropy. A Generator or a seed, given by name,
            makes reports repeatable and thereby voids their privacy: anyone who knows or guesses it
            can undo the randomisation. For simulations and tests.
        labels
            The d distinct labels of the domain, in its order.

        Returns
        -------
        One report per user, in the order of ``values``.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If a value is not a whole number in the domain, or is none of the labels; nothing is
            randomised then. If there are not d labels, or one occurs twice.

        Examples
        --------
        >>> from ldpopt.oracles import GRR
        >>> GRR(epsilon=1.0, d=3).perturb(["cat", "dog"], labels=["cat", "dog", "owl"], rng=1)
        array([0, 2], dtype=uint8)
        """
        if labels is None:
            validate.no_labels("values", values, "pass labels=, the labels of the domain")
        else:
            values = indices_of(values, labels, self.d)
        array = validate.array("values", values)
        if array.ndim != 1:
            raise InvalidInputError(
                f"values must have shape (n,), one value per user, got shape {array.shape}"
            )
        checked = validate.whole_numbers("values", array, low=0, high=self.d - 1)
        # None is the operating system's entropy, the only one that protects a user.
        generator = None if rng is None else validate.generator(rng)
        return self._perturb(checked, generator)

    def support_counts(self, reports: ArrayLike) -> Counts:
        """Count how many reports support each value: the server side.

        Parameters
        ----------
        reports
            What ``perturb`` returned, or several such arrays concatenated.

        Returns
        -------
        int64 counts of shape (d,). Counts of separate batches of reports add up. Reports of another
        oracle, ε or domain that look alike cannot be told apart: keep the oracle's parameters with
        the reports.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If the reports have a wrong shape, type or range for this oracle; the first bad report
            is named.
        """
        return self.report_form.support_counts(self._checked(reports))

    def support_operator(self, reports: ArrayLike) -> LinearOperator:
        """Return B, where B[i, v] is 1 if report i supports value v and 0 if not, as its products.

        The likelihood of reports needs no more: P(report i | f) is proportional to
        Σf + (r-1) (B f)_i with r = ``likelihood_ratio``.

        Parameters
        ----------
        reports
            What ``perturb`` returned, or several such arrays concatenated.

        Returns
        -------
        A scipy ``LinearOperator`` of float64, of shape (n, d). ``matvec`` takes f of shape (d,) to
        the sum of f over each report's values, ``rmatvec`` weights of shape (n,) to weighted
        support counts; weights of 1 give ``support_counts``.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            As ``support_counts``.

        Notes
        -----
        A product of either kind costs n + d operations with GRR, n + K log₂ K with Hadamard
        response, n·k with subset selection and n·d/8 with unary encoding and local hashing. The
        operators of these two hold a copy of n·d/8 bytes; local hashing evaluates its n·d hashes
        once, for that copy. The others hold the reports.

        Examples
        --------
        >>> from ldpopt.oracles import GRR
        >>> operator = GRR(epsilon=1.0, d=3).support_operator([2, 0, 2])
        >>> operator.matvec(np.array([0.5, 0.25, 0.125])), operator.rmatvec(np.ones(3))
        (array([0.125, 0.5  , 0.125]), array([1., 0., 2.]))
        """
        from scipy.sparse.linalg import LinearOperator  # slow to import, and counts do without

        checked = self._checked(reports)
        forward, back = self.report_form.support_products(checked)
        return LinearOperator(
            (len(checked), self.d),
            matvec=_of_column(forward),
            rmatvec=_of_column(back),
            dtype=np.dtype(np.float64),
        )

    def _checked(self, reports: ArrayLike) -> Reports:
        validate.unmasked("reports", reports)
        try:
            array = np.asarray(reports)
        except ValueError:
            raise InvalidInputError(
                "reports must be one array, as perturb returns it or np.concatenate joins it"
            ) from None
        # Files and networks deliver reports: they are checked before anything is counted.
        self.report_form.check(array)
        return array

    def estimate(
        self,
        counts: ArrayLike,
        n: int,
        *,
        labels: Sequence[str] | None = None,
    ) -> FrequencyEstimate:
        """Return the unbiased estimate from support counts over n reports (N Eq. 4).

        Parameters
        ----------
        counts
            How many reports support each value, shape (d,) or (trials, d), or a Series of pandas,
            whose index holds the labels.
        n
            How many reports there are; under OUE and others a report supports several values.
        labels
            The d distinct labels of the domain, in its order.

        Returns
        -------
        Frequencies of the shape of ``counts``, with their noise: some may be negative.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            As ``FrequencyEstimate.from_counts``, which also warns of counts whose sum n reports of
            this oracle practically never give (``ImplausibleCountsWarning``).

        Examples
        --------
        >>> from ldpopt.oracles import GRR
        >>> oracle = GRR(epsilon=1.0, d=3)
        >>> oracle.estimate([500, 300, 200], n=1000, labels=["cat", "dog", "owl"]).top(1)[0].label
        'cat'
        """
        return FrequencyEstimate.from_counts(counts, n, self, labels=labels)

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
        int64 counts of shape (trials, d), or (d,). The cost does not depend on n, except where
        ``simulation`` is "one draw per user".

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If the counts are not d whole numbers >= 0 with a user among them, or trials < 1.
        """
        true = validate.whole_numbers("true_counts", true_counts, low=0, high=2**62)
        # Summed in floats, since the sum itself could overflow int64.
        if true.sum(dtype=np.float64) > 2**62:
            raise InvalidInputError("true_counts has more than 2**62 users")
        if true.shape != (self.d,):
            raise InvalidInputError(f"true_counts must have shape ({self.d},), got {true.shape}")
        if not true.any():
            raise InvalidInputError("true_counts has no user: all counts are 0")
        repeats = 1 if trials is None else validate.integer("trials", trials, minimum=1)
        counts = self._simulate(true, validate.generator(rng), repeats)
        return counts[0] if trials is None else counts

    def _simulate(
        self,
        true_counts: Counts,
        rng: np.random.Generator,
        trials: int,
    ) -> Counts:
        """Draw reports of all users. Overridden where the law of the counts is known."""
        counts = np.zeros((trials, self.d), dtype=np.int64)
        # User i has the first value whose cumulated number of users exceeds i.
        last_user = np.cumsum(true_counts)
        n = int(last_user[-1])
        for trial in range(trials):
            for start in range(0, n, _USERS_AT_A_TIME):
                stop = min(start + _USERS_AT_A_TIME, n)
                users = np.arange(start, stop)
                values = np.searchsorted(last_user, users, side="right")
                counts[trial] += self._draw_counts(values, rng)
        return counts

    def _draw_counts(self, values: NDArray[np.int64], rng: np.random.Generator) -> Counts:
        """Draw the support counts of these users; a subclass may do without their reports."""
        reports = self._perturb(values, rng)
        return self.report_form.support_counts(reports)


def simulate_independent(
    true_counts: Counts,
    p: float,
    q: float,
    rng: np.random.Generator,
    trials: int,
) -> Counts:
    """Draw Binomial(n_v, p) + Binomial(n - n_v, q), independent over v.

    This is the law of unary encoding, and of local hashing with an ideal hash.
    """
    users = true_counts[:, None]
    others = true_counts.sum() - users
    # Values outside, trials inside: numpy's binomial sampler prepares itself anew whenever its
    # parameters change.
    shape = (len(true_counts), trials)
    counts = rng.binomial(users, p, shape)
    counts += rng.binomial(others, q, shape)
    return np.ascontiguousarray(counts.T)


def indices_of(values: ArrayLike, labels: Sequence[str], d: int) -> NDArray[np.int64]:
    """Return the places of values among d labels.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If there are not d distinct labels, or a value is none of them; the first one is named.
    """
    names = list(labels)
    if len(names) != d:
        raise InvalidInputError(f"labels must name all {d} values of the domain, got {len(names)}")
    place_of: dict[object, int] = {}
    for place, name in enumerate(names):
        first = place_of.setdefault(name, place)
        if first != place:
            raise InvalidInputError(f"labels must be distinct: {first} and {place} are {name!r}")
    if isinstance(values, str):
        raise InvalidTypeError(f"values must be a list of labels, got the text {values!r}")
    validate.unmasked("values", values)
    indices = []
    for user, value in enumerate(np.asarray(values, dtype=object).tolist()):
        # A list is no label, and has no hash.
        if not isinstance(value, str) or value not in place_of:
            raise InvalidInputError(
                f"values must be among the {d} labels, found {value!r} at index {user}"
            )
        indices.append(place_of[value])
    return np.array(indices, dtype=np.int64)


def _of_column(product: Product) -> Product:
    """Return the product of an array that may also be a column."""

    def of_column(x: Array) -> Array:
        # Before 1.18 scipy hands the columns of a matrix on as (d, 1).
        flat = np.asarray(x, dtype=np.float64).reshape(-1)
        return product(flat)

    return of_column
