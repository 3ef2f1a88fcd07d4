"""Pure protocols: two probabilities, and every constant that follows from them.

In a pure protocol (Wang et al. 2017) a report supports the user's own value with probability p and
every other value with probability q < p. Nothing else about a protocol matters for the estimate of
one value; sums of estimates also need the joint law of two counts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.covariance import Covariance
from ldpopt.errors import InvalidInputError
from ldpopt.immutable import Immutable

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# A variance of the number of supported values below this, relative to its mean squared, is none.
_FIXED = 1e-12


class ReportShares(NamedTuple):
    """What single reports add to the answers to sets: bounds over all users, of shape (m,) each.

    A report's share is such that the answer is the mean of n shares, and the share of a user has
    the mean 1 if the user's value is in the set, 0 if not.

    Attributes
    ----------
    inside, outside
        Largest variance of the share of a user whose value is in the set, and is not.
    lowest, highest
        The extreme shares.
    skewness
        Bound of the skewness of a share, whatever the distribution of users.
    step
        The shares of a set are whole multiples of this apart, except for a small part where the
        answer is Norm's.
    """

    inside: NDArray[np.float64]
    outside: NDArray[np.float64]
    lowest: NDArray[np.float64]
    highest: NDArray[np.float64]
    skewness: NDArray[np.float64]
    step: NDArray[np.float64]

    def of(self, sets: NDArray[np.intp]) -> ReportShares:
        """Return the shares in some of the answers."""
        return ReportShares(*(part[sets] for part in self))


class PureProtocol(Immutable):
    """A pure protocol on ``d`` values at privacy budget ``epsilon``, given by p and q.

    Oracles are subclasses that compute p and q. Use this class itself for estimates from a protocol
    that ldpopt does not implement.

    Parameters
    ----------
    epsilon
        Privacy budget in nats, > 0.
    d
        Number of values in the domain, >= 2.
    p, q
        Probabilities that a report supports the user's own value and any other one; 0 < q < p < 1.

    Raises
    ------
    InvalidInputError
        If an argument is out of range, or ``epsilon`` so small or large that p, q, 0 and 1 are not
        four different numbers in double precision.

    Examples
    --------
    >>> protocol = PureProtocol(epsilon=math.log(3), d=10, p=0.5, q=0.25)
    >>> round(protocol.sd(n=10_000), 6)
    0.017321
    """

    exchangeable: ClassVar[bool] = False
    """Whether any three values are alike: a report of one of them supports the other two with the
    same probability, whichever values they are. Sums of estimates have a simpler variance then. An
    oracle has to state it."""

    def __init__(self, epsilon: float, d: int, *, p: float, q: float) -> None:
        self.epsilon = validate.real("epsilon", epsilon, above=0)
        self.d = validate.integer("d (the number of values)", d, minimum=2)
        self.p = validate.real("p", p)
        self.q = validate.real("q", q)
        # Closer than 1e-12 the difference p - q, by which estimates are divided, is rounding error.
        if not 0 < self.q < self.p < 1 or self.p - self.q < 1e-12 * self.p:
            raise InvalidInputError(
                f"epsilon = {epsilon:g} with d = {d} gives p = {p!r} and q = {q!r}; a protocol "
                "needs 0 < q < p < 1: use a less extreme epsilon"
            )

    @property
    def a(self) -> float:
        """Constant part of n Var[f̃_v]: q(1-q)/(p-q)² (N Eq. 7)."""
        return self.q * (1 - self.q) / (self.p - self.q) ** 2

    @property
    def b(self) -> float:
        """Part of n Var[f̃_v] proportional to f_v: (1-p-q)/(p-q) (N Eq. 5)."""
        return (1 - self.p - self.q) / (self.p - self.q)

    @property
    def kappa(self) -> float:
        """κ = b/a = (p-q)(1-p-q)/(q(1-q)) > -1: how fast the variance grows with the frequency."""
        return self.b / self.a

    def variance(self, n: int, frequency: ArrayLike = 0.0) -> NDArray[np.float64]:
        """Return Var[f̃_v] = (a + b f_v)/n (N Eq. 5).

        The default f_v = 0 is the paper's approximation (N Eq. 7).

        Parameters
        ----------
        n
            Number of reports, >= 1.
        frequency
            True frequencies f_v in [0, 1], any shape; the result has the same shape.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If n < 1 or a frequency is outside [0, 1].
        """
        f = validate.array("frequency", frequency).astype(np.float64)
        # Written so that NaN fails it.
        if not ((f >= 0) & (f <= 1)).all():
            raise InvalidInputError(
                "frequency must lie in 0 .. 1: it is the true share of users, not an estimate"
            )
        n = validate.integer("n (the number of reports)", n, minimum=1)
        return np.asarray((self.a + self.b * f) / n)

    def sd(self, n: int) -> float:
        """Return σ = sqrt(a/n), the standard deviation of an estimate whose value nobody has."""
        return math.sqrt(self.a / validate.integer("n (the number of reports)", n, minimum=1))

    @property
    def pair_support(self) -> tuple[float, float] | None:
        """P(a report supports both of two values): one of them the user's own, or neither.

        None where only p and q are known: they do not determine how two counts vary together.
        """
        return None

    @property
    def has_fixed_size(self) -> bool:
        """Whether all reports are known to support the same number of values, as those of GRR."""
        if self.pair_support is None:
            return False
        # The variance is 0 up to rounding.
        return bool(self._size_variance(*self.pair_support) <= _FIXED * self.mean_size**2)

    @property
    def mean_size(self) -> float:
        """Mean number of values that a report supports, the same for all users: p + (d-1) q."""
        return self.p + (self.d - 1) * self.q

    @property
    def largest_size_variance(self) -> float:
        """No less than the variance of the number of values that a report supports.

        It is that variance itself where any three values are alike (``exchangeable``): it is then
        the same for all users. Otherwise it is m (d-m) with m = ``mean_size``, which no number in
        0 .. d with this mean exceeds (Bhatia and Davis 2000).

        Examples
        --------
        >>> from ldpopt.oracles import SUE
        >>> oracle = SUE(epsilon=1.0, d=10)  # ten independent bits
        >>> bool(np.isclose(oracle.largest_size_variance, 10 * oracle.p * oracle.q))
        True
        """
        if self.exchangeable and self.pair_support is not None:
            return max(0.0, self._size_variance(*self.pair_support))
        return self.mean_size * (self.d - self.mean_size)

    def _size_variance(self, with_user: float, neither: float) -> float:
        """Return the variance of the number of supported values, given ``pair_support``.

        It sums the variances of d indicators, of which one has the mean p, and the covariances of
        their pairs.
        """
        others = self.d - 1
        single = self.p * (1 - self.p) + others * self.q * (1 - self.q)
        with_own = 2 * others * (with_user - self.p * self.q)
        return single + with_own + others * (others - 1) * (neither - self.q**2)

    def answer_variance(
        self,
        frequencies: NDArray[np.float64],
        members: csr_array | None = None,
        *,
        centred: bool = False,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return (α, β): the answer to a query has n Var = α + β F, with F its true frequency.

        With 0/1 weights w of a set, n Var[Σ w f̃] = Σ w² (a + b f) + Σ_{u≠v} w_u w_v (r + s
        (f_u + f_v)). Here r and s follow from p, q and ``pair_support``: zero for unary encoding
        and hashing, negative for GRR (one multinomial draw per user) and subset selection. Answers
        that use Σf = 1 are those of f̃ + (1 - Σf̃)/d, the method Norm: the weights are then w
        less its mean.

        Parameters
        ----------
        frequencies
            Raw estimates (..., d), plugged in where the variance depends on other frequencies than
            F (values that are not ``exchangeable``).
        members
            Sparse (m, d) of zeros and ones; None for every value by itself.
        centred
            Whether the answer is Norm's.

        Returns
        -------
        Two arrays that broadcast to (..., m), or to (..., d).

        Raises
        ------
        InvalidInputError
            If ``pair_support`` is None and the answer needs it.

        Notes
        -----
        The users' values are fixed, and their reports independent: this is the error about the
        frequencies among these users, without that of drawing the users from a larger population.

        Examples
        --------
        >>> from scipy.sparse import csr_array
        >>> from ldpopt.oracles import GRR
        >>> everyone = csr_array([[1.0, 1.0, 1.0]])  # the counts of GRR sum to n
        >>> alpha, beta = GRR(epsilon=1.0, d=3).answer_variance(np.zeros(3), everyone)
        >>> abs(alpha + beta).max() < 1e-12
        np.True_
        """
        size = np.ones(1) if members is None else np.asarray(members.sum(axis=1))
        # A single value needs p and q alone.
        if self.pair_support is None and members is None and not centred:
            return np.full(1, self.a), np.full(1, self.b)
        r, s = self._pair_covariance()
        share = size / self.d if centred else np.zeros_like(size)
        # The weights of the set's values and, negated, of all others, where there are any.
        inside = np.where(size > 0, 1 - share, 0.0)
        outside = np.where(size < self.d, share, 0.0)
        others = self.d - size
        squares = size * inside**2 + others * outside**2
        total = size * inside - others * outside
        # Of Σ w² f = inside² F + outside² (1 - F), with the growth b less what the pairs u = v
        # of the second sum would add. The total is 0 wherever there is an outside weight.
        growth = self.b - 2 * s
        constant = (self.a - r) * squares + r * total**2 + growth * outside**2
        slope = growth * (inside**2 - outside**2) + 2 * s * total
        return constant, slope

    def report_shares(self, members: csr_array, *, centred: bool) -> ReportShares | None:
        """Return what reports add to the answers to sets; None where counts of events are enough.

        Parameters
        ----------
        members, centred
            As of ``answer_variance``.

        Returns
        -------
        None where a report supports the values of a set independently of each other, or so that
        fewer follow where some are supported: a set's count then has at most the tails of as many
        independent events.
        """
        return None

    def covariance(self, frequencies: ArrayLike) -> Covariance:
        """Return n Cov[f̃] given the true frequencies f of shape (d,): diagonal plus rank two.

        With the r and s of ``answer_variance`` it is diag(a + b f - r - 2 s f) + r 11ᵀ + s (f1ᵀ
        + 1fᵀ). Raises InvalidInputError where ``pair_support`` is None, or f has another shape.
        """
        f = validate.frequencies(frequencies, d=self.d)
        r, s = self._pair_covariance()
        diagonal = self.a - r + (self.b - 2 * s) * f
        if r == 0 and s == 0:
            # Products and draws of a diagonal matrix cost less.
            return Covariance(diagonal, np.empty((self.d, 0)), np.empty((0, 0)))
        basis = np.stack([np.ones_like(f), f], axis=1)
        return Covariance(diagonal, basis, np.array([[r, s], [s, 0.0]]))

    def _pair_covariance(self) -> tuple[float, float]:
        """Return r and s: n Cov[f̃_u, f̃_v] = r + s (f_u + f_v) for u ≠ v."""
        if self.pair_support is None:
            raise InvalidInputError(
                "the variance of a sum of estimates needs the joint law of two counts, which p and "
                "q alone do not give: use an oracle from ldpopt.oracles"
            )
        with_user, neither = self.pair_support
        gap = self.p - self.q
        r = (neither - self.q**2) / gap**2
        s = (with_user - self.p * self.q) / gap**2 - r
        return r, s

    def __repr__(self) -> str:
        about = f"epsilon={self.epsilon:g}, d={self.d}, p={self.p:.6g}, q={self.q:.6g}"
        return f"{type(self).__name__}({about})"
