"""The exact likelihood of the reports themselves, which counts alone do not determine."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses.base import Loss
from ldpopt.oracles.base import FrequencyOracle

if TYPE_CHECKING:
    import cvxpy as cp
    from scipy.sparse.linalg import LinearOperator

Array = NDArray[np.float64]

_LARGEST = (
    1 << 23
)  # entries of the channel that a solver is given: exponential cones on more are hopeless
_ROUNDING = 1e-9  # by how much an estimate may differ from that of the reports


class PerReportMLE(Loss):
    """-1/n Σ_i log (Σ_v f_v + (r-1) Σ_{v in S_i} f_v): the likelihood of each report i, which supports the values S_i.

    r is the oracle's likelihood ratio; the constant that does not depend on f is left out. For GRR it is the multinomial
    likelihood. For unary encoding and hashing counts lose which values were supported together, and this likelihood gains by
    that (N VI: 'the exact MLE'). It is not separable; only products with the support matrix are needed, so that its memory is
    that of the reports.

    Parameters
    ----------
    oracle
        The protocol of the reports, from ``ldpopt.oracles``.
    reports
        What ``perturb`` returned, one row a user.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If it is no oracle, or a report cannot come from it.

    Notes
    -----
    Cost: value and gradient are one or two products of ``oracle.support_operator``, n·d/8 operations for unary encoding. On
    the simplex it is solved by mixture weights (``ldpopt.priors.mixture_weights``): by Newton
    steps on the support, or by EM, which is the iterative Bayesian update (ElSalamouny, Palamidessi 2020).

    Examples
    --------
    >>> from ldpopt import Problem, constraints, oracles
    >>> oracle = oracles.OUE(epsilon=3.0, d=4)
    >>> reports = oracle.perturb([0, 0, 0, 1, 1, 2] * 200, rng=0)
    >>> estimate = oracle.estimate(oracle.support_counts(reports), n=1200)
    >>> loss = PerReportMLE(oracle, reports)
    >>> solution = Problem(loss, [constraints.NonNegative(), constraints.SumsTo(1.0)]).solve(estimate)
    >>> solution.solver, solution.certificate.is_optimal(1e-9)
    ('accelerated', True)
    """

    def __init__(self, oracle: FrequencyOracle, reports: ArrayLike) -> None:
        if not isinstance(oracle, FrequencyOracle):
            raise InvalidTypeError(f"oracle must be an oracle from ldpopt.oracles, got {oracle!r}")
        self.oracle = oracle
        # Some operators keep the array itself, and the caller may change it later.
        kept = reports.copy() if isinstance(reports, np.ndarray) else reports
        self._support = oracle.support_operator(kept)
        if not self._support.shape[0]:
            raise InvalidInputError("there are no reports: the likelihood needs at least one")

    @property
    def n(self) -> int:
        """Number of reports."""
        return int(self._support.shape[0])

    @cached_property
    def _frequencies(self) -> Array:
        counts = np.rint(self._support.rmatvec(np.ones(self.n))).astype(np.int64)
        return self.oracle.estimate(counts, self.n).frequencies

    @property
    def channel(self) -> LinearOperator:
        """The likelihood of every report under every value, up to a factor a report: 1, or r where it supports the value."""
        from scipy.sparse.linalg import LinearOperator

        more = self.oracle.likelihood_ratio - 1
        return LinearOperator(
            self._support.shape,
            matvec=lambda f: np.sum(f) + more * self._support.matvec(f),
            rmatvec=lambda w: np.sum(w) + more * self._support.rmatvec(w),
            dtype=np.dtype(np.float64),
        )

    def validate_for(self, estimate: FrequencyEstimate) -> None:
        """Raise an error unless the estimate is the raw one of these very reports."""
        n = estimate.noise.require_n()
        protocol = estimate.noise.require_protocol()
        if estimate.frequencies.ndim > 1:
            raise InvalidInputError(
                "the likelihood of reports takes one estimate, not a stack: a loss has one set of reports"
            )
        if n != self.n or (protocol.p, protocol.q, protocol.d) != (
            self.oracle.p,
            self.oracle.q,
            self.oracle.d,
        ):
            raise InvalidInputError(
                f"the estimate comes from {n} reports of {protocol!r}, the loss holds {self.n} of {self.oracle!r}"
            )
        if np.max(np.abs(estimate.frequencies - self._frequencies)) > _ROUNDING * max(
            1.0, self.oracle.sd(n)
        ):
            raise InvalidInputError(
                "the estimate is not that of these reports: pass oracle.estimate(oracle.support_counts(reports), n)"
            )

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return -mean log W f; ``inf`` where a report is impossible."""
        likelihood = self.channel.matvec(f)
        if not np.all(likelihood > 0):
            return np.asarray(np.inf)
        return np.asarray(-np.mean(np.log(likelihood)))

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return -Wᵀ(1/(W f))/n."""
        channel = self.channel
        with np.errstate(
            divide="ignore", invalid="ignore"
        ):  # where a report is impossible, and the loss infinite
            return np.asarray(-channel.rmatvec(1 / channel.matvec(f)) / self.n)

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return f̃, by which no solution depends on the estimate: the reports are compiled in."""
        return (estimate.frequencies,)

    def cone_form(
        self, f: cp.Expression, data: tuple[Any, ...], constants: tuple[float, ...]
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return -mean log W f with the channel as a dense matrix, a cone a report; an error where that is too large."""
        import cvxpy as cp

        if self.n * self.oracle.d > _LARGEST:
            raise InvalidInputError(
                f"a solver would need an exponential cone for each of {self.n:,} reports and {self.n * self.oracle.d:,} numbers: "
                "use path='iterative', which works with products"
            )
        return -cp.sum(cp.log(self.channel.matmat(np.eye(self.oracle.d)) @ f)) / self.n, []

    def __repr__(self) -> str:
        return f"PerReportMLE(<{self.n} reports of {type(self.oracle).__name__}>)"
