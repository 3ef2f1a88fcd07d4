"""The exact likelihood of the reports themselves, which counts of supports forget.

A report has the probability P(report | f) ∝ Σf + (r-1) (B f)_i, where B[i, v] says whether report i supports v and r is the
oracle's likelihood ratio. Factors that do not depend on f are left out: an unsupported value has likelihood 1, a supported
one r. On the simplex this is a mixture (``ldpopt.mixture``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

Array = NDArray[np.float64]


def report_likelihoods(support: LinearOperator, ratio: float) -> LinearOperator:
    """Return A = 11ᵀ + (r-1) B: the likelihood of every report under every value, up to a factor per report.

    Parameters
    ----------
    support
        B of shape (n, d), as an oracle's ``support_operator`` returns it.
    ratio
        r > 1, the oracle's ``likelihood_ratio``.

    Examples
    --------
    >>> from ldpopt.mixture import mixture_weights
    >>> from ldpopt.oracles import OUE
    >>> oracle = OUE(epsilon=3.0, d=4)
    >>> support = oracle.support_operator(oracle.perturb(np.repeat(np.arange(4), [700, 200, 100, 0]), rng=0))
    >>> mixture_weights(report_likelihoods(support, oracle.likelihood_ratio)).weights.round(2)
    array([0.65, 0.24, 0.11, 0.  ])
    """
    from scipy.sparse.linalg import LinearOperator

    excess = ratio - 1
    return LinearOperator(
        support.shape,
        matvec=lambda f: np.sum(f) + excess * support.matvec(f),
        rmatvec=lambda w: np.sum(w) + excess * support.rmatvec(w),
        dtype=np.dtype(np.float64),
    )


def report_loss(likelihoods: LinearOperator, f: Array) -> tuple[float, Array]:
    """Return -1/n Σ log (A f)_i and its gradient -1/n Aᵀ(1/(A f)): two products.

    Parameters
    ----------
    likelihoods
        A of shape (n, d), as ``report_likelihoods`` returns it.
    f
        Frequencies of shape (d,). Where a report has no positive probability the value is ``inf`` and the gradient NaN.

    Examples
    --------
    >>> from ldpopt.oracles import GRR
    >>> oracle = GRR(epsilon=np.log(3.0), d=2)
    >>> likelihoods = report_likelihoods(oracle.support_operator([0, 0, 1]), oracle.likelihood_ratio)
    >>> value, gradient = report_loss(likelihoods, np.array([0.75, 0.25]))
    >>> round(value, 4), gradient.round(4)
    (-0.746, array([-1.0222, -0.9333]))
    """
    probability = likelihoods.matvec(f)
    if not (probability > 0).all():
        return np.inf, np.full(f.shape, np.nan)
    n = len(probability)
    return -float(np.log(probability).sum()) / n, np.asarray(-likelihoods.rmatvec(1 / probability) / n)
