"""The exact likelihood of the reports themselves, which counts alone do not determine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.immutable import derived_property
from ldpopt.losses.base import Loss
from ldpopt.oracles.base import FrequencyOracle

if TYPE_CHECKING:
    import cvxpy as cp
    from scipy.sparse.linalg import LinearOperator

Array = NDArray[np.float64]

# Entries of the channel up to which a solver is given it: exponential cones on more do not end.
_LARGEST = 1 << 23
# By how much an estimate may differ from that of the reports, relative to its noise.
_ROUNDING = 1e-9


class PerReportMLE(Loss):
    """-1/n Σ_i log (Σ_v f_v + (r-1) Σ_{v in S_i} f_v): the likelihood of the reports themselves.

    Report i supports the values S_i, and r is the oracle's likelihood ratio; the constant that does
    not depend on f is left out. For GRR it is the multinomial likelihood. For unary encoding and
    hashing, counts lose which values were supported together; this likelihood uses it (N VI: 'the
    exact MLE'). It is not separable. Only products with the support matrix are needed, so that
    its memory is that of the reports.

    Parameters
    ----------
    oracle
        The protocol of the reports, from ``ldpopt.oracles``.
    reports
        What ``perturb`` returned, one row per user.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If ``oracle`` is no oracle, or a report cannot come from it.

    Notes
    -----
    Cost: value and gradient are one or two products of ``oracle.support_operator``, n·d/8
    operations for unary encoding. On the simplex it is solved by mixture weights
    (``ldpopt.priors.mixture_weights``): by Newton steps on the support, or by EM, which is the
    iterative Bayesian update (ElSalamouny, Palamidessi 2020).

    Examples
    --------
    >>> from ldpopt import Problem, constraints, oracles
    >>> oracle = oracles.OUE(epsilon=3.0, d=4)
    >>> reports = oracle.perturb([0, 0, 0, 1, 1, 2] * 200, rng=0)
    >>> estimate = oracle.estimate(oracle.support_counts(reports), n=1200)
    >>> loss = PerReportMLE(oracle, reports)
    >>> simplex = [constraints.NonNegative(), constraints.SumsTo(1.0)]
    >>> solution = Problem(loss, simplex).solve(estimate)
    >>> solution.solver, solution.certificate.is_optimal(1e-9)
    ('accelerated', True)
    """

    takes_reports = True
    _kept = frozenset({"_support"})  # made from a copy of the reports

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
    def latex(self) -> str:
        """The loss in LaTeX."""
        return r"-\tfrac{1}{n} \sum_i \log \Bigl(\sum_v f_v + (r - 1) \sum_{v \in S_i} f_v\Bigr)"

    @property
    def n(self) -> int:
        """Number of reports."""
        return int(self._support.shape[0])

    @derived_property
    def _frequencies(self) -> Array:
        # From the operator, so that the reports themselves need not be kept.
        each_once = np.ones(self.n)
        counts = np.rint(self._support.rmatvec(each_once))
        return self.oracle.estimate(counts.astype(np.int64), self.n).frequencies

    @property
    def channel(self) -> LinearOperator:
        """The likelihood of every report under every value, up to one factor per report.

        It is r where the report supports the value, and 1 elsewhere.
        """
        from scipy.sparse.linalg import LinearOperator

        support = self._support
        # Every report has the weight 1 on all values, and r - 1 more on those that it supports.
        more = self.oracle.likelihood_ratio - 1

        def forward(f: Array) -> Array:
            return np.asarray(np.sum(f) + more * support.matvec(f))

        def back(w: Array) -> Array:
            return np.asarray(np.sum(w) + more * support.rmatvec(w))

        return LinearOperator(
            support.shape,
            matvec=forward,
            rmatvec=back,
            dtype=np.dtype(np.float64),
        )

    def validate_for(self, estimate: FrequencyEstimate) -> None:
        """Raise an error unless the estimate is the raw one of these very reports."""
        n = estimate.noise.require_n()
        protocol = estimate.noise.require_protocol()
        if estimate.frequencies.ndim > 1:
            raise InvalidInputError(
                "the likelihood of reports takes one estimate, not a stack: "
                "a loss has one set of reports"
            )
        # By p, q and d: the estimate may know its protocol by these numbers alone.
        ours = (self.n, self.oracle.p, self.oracle.q, self.oracle.d)
        if (n, protocol.p, protocol.q, protocol.d) != ours:
            raise InvalidInputError(
                f"the estimate comes from {n} reports of {protocol!r}, "
                f"the loss holds {self.n} of {self.oracle!r}"
            )
        difference = np.max(np.abs(estimate.frequencies - self._frequencies))
        if difference > _ROUNDING * max(1.0, self.oracle.sd(n)):
            raise InvalidInputError(
                "the estimate is not that of these reports: "
                "pass oracle.estimate(oracle.support_counts(reports), n)"
            )

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return -mean log W f; ``inf`` where a report is impossible."""
        likelihood = self.channel.matvec(f)
        # Before the logarithm, which would warn.
        if not np.all(likelihood > 0):
            return np.asarray(np.inf)
        return np.asarray(-np.mean(np.log(likelihood)))

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return -Wᵀ(1/(W f))/n."""
        channel = self.channel
        # A report may be impossible: there the loss is infinite.
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = 1 / channel.matvec(f)
            return np.asarray(-channel.rmatvec(inverse) / self.n)

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return f̃ as a placeholder: the reports are compiled in, and nothing depends on it."""
        return (estimate.frequencies,)

    def cone_form(
        self,
        f: cp.Expression,
        data: tuple[Any, ...],
        constants: tuple[float, ...],
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return -mean log W f with the channel as a dense matrix, one exponential cone per report.

        Raises
        ------
        InvalidInputError
            If the matrix is too large for a solver.
        """
        import cvxpy as cp

        d = self.oracle.d
        if self.n * d > _LARGEST:
            raise InvalidInputError(
                f"a solver would need an exponential cone for each of {self.n:,} reports and "
                f"{self.n * d:,} numbers: use path='iterative', which works with products"
            )
        # Dense: every entry of a channel is positive.
        matrix = self.channel.matmat(np.eye(d))
        log_likelihoods = cp.log(matrix @ f)
        return -cp.sum(log_likelihoods) / self.n, []

    def cone_factor(self, d: int, constants: tuple[Any, ...]) -> float:
        """Return 1: the form is the loss."""
        return 1.0

    def __repr__(self) -> str:
        return f"PerReportMLE(<{self.n} reports of {type(self.oracle).__name__}>)"
