"""Pure protocols: two probabilities, and every constant that follows from them.

In a pure protocol (Wang et al. 2017) a report supports the user's own value with probability p and every other value with
probability q < p. Nothing else about a protocol matters once its reports are counted.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError


class PureProtocol:
    """A pure protocol on ``d`` values at privacy budget ``epsilon``, known by its probabilities ``p`` and ``q``.

    Oracles are subclasses that compute p and q. Use this class itself for estimates from a protocol that ldpopt does not
    implement.

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
        If an argument is out of range, or ``epsilon`` so small or large that p and q cannot be told apart from each
        other, 0 and 1 in double precision.

    Examples
    --------
    >>> protocol = PureProtocol(epsilon=math.log(3), d=10, p=0.5, q=0.25)
    >>> round(protocol.sd(n=10_000), 6)
    0.017321
    """

    def __init__(self, epsilon: float, d: int, *, p: float, q: float) -> None:
        self.epsilon = validate.real("epsilon", epsilon, above=0)
        self.d = validate.integer("d (the number of values)", d, minimum=2)
        self.p, self.q = validate.real("p", p), validate.real("q", q)
        if not 0 < self.q < self.p < 1 or self.p - self.q < 1e-12 * self.p:
            raise InvalidInputError(
                f"epsilon = {epsilon:g} with d = {d} gives p = {p!r} and q = {q!r}; a protocol needs 0 < q < p < 1: "
                "use a less extreme epsilon"
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
        """Return Var[f̃_v] = (a + b f_v)/n (N Eq. 5); the default is the paper's approximation f_v = 0 (N Eq. 7).

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
        if not ((f >= 0) & (f <= 1)).all():
            raise InvalidInputError("frequency must lie in 0 .. 1: it is the true share of users, not an estimate")
        result: NDArray[np.float64] = (self.a + self.b * f) / validate.integer(
            "n (the number of reports)", n, minimum=1
        )
        return result

    def sd(self, n: int) -> float:
        """Return σ = sqrt(a/n), the standard deviation of the estimate of a value that nobody has."""
        return math.sqrt(self.a / validate.integer("n (the number of reports)", n, minimum=1))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(epsilon={self.epsilon:g}, d={self.d}, p={self.p:.6g}, q={self.q:.6g})"
