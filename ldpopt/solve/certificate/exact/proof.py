"""Certificates in exact arithmetic: ``certify(..., exact=True)``.

Doubles are rational numbers, so that the question whether a vector is optimal has an exact answer
wherever the KKT conditions are rational: for squares on boxes and polyhedra (``box``, ``rows``). Of
absolute deviations, and of sums with them, weak duality is exact (``kinked``). Likelihoods have
logarithms; ``likelihoods`` encloses theirs, and ``enclosures`` where their minimisers are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpopt import progress, validate
from ldpopt.errors import UnsupportedProblemError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.immutable import Immutable
from ldpopt.losses import (
    GaussianMLE,
    LeastSquares,
    Loss,
    WeightedLeastSquares,
)
from ldpopt.solve.certificate import shown
from ldpopt.solve.certificate.exact import box, kinked, likelihoods
from ldpopt.solve.certificate.exact import rows as exact_rows
from ldpopt.solve.certificate.exact.result import Exact
from ldpopt.solve.certificate.exact.terms import LOSSES, stated
from ldpopt.solve.formulation import Formulation, Region
from ldpopt.tables import html_of

Array = NDArray[np.float64]

Prove = Callable[[Formulation, FrequencyEstimate, Array, Region], Exact]
"""From a problem, one estimate, one vector and the region of the problem to what is proved."""

_ON_BOXES: Mapping[type[Loss], Prove] = {
    LeastSquares: box.exact,
    WeightedLeastSquares: box.exact,
    GaussianMLE: box.exact,
    **dict.fromkeys(likelihoods.LOSSES, likelihoods.exact),
}
"""What proves each loss on bounds and totals. A class of a user may change what a loss means."""


@dataclass(frozen=True, eq=False, repr=False)
class ExactCertificate(Immutable):
    """How far a vector of doubles is from the exact minimiser, proved without rounding.

    All arrays have the leading (trial) axes of the vector. Immutable.

    Attributes
    ----------
    gap
        The smallest double that is not below L(f) - min L, in the loss's own units, at least 0: of
        a point outside the set, whose loss may be below the minimum, that is 0. For likelihoods,
        the Kullback-Leibler loss and losses with kinks a proved upper bound. ``inf`` where none is
        known.
    distance
        max |f_v - f*_v| from the exact minimiser f*, rounded up; ``inf`` where it is not known. For
        likelihoods and the Kullback-Leibler loss a proved upper bound, far within a last place; for
        squares with kinks one of the size of the root of the gap.
    ulps
        The same in units in the last place of the largest |f*_v|, rounded up.
    violation
        By how much the vector leaves the set, exactly and then rounded up: the sum of doubles that
        should be 1 is rarely 1.
    minimiser
        f* rounded to the nearest doubles, shape (..., d); None where it is not known in all trials.
    reason
        Why a number is not known in some trial; empty if all are.
    """

    gap: Array
    distance: Array
    ulps: Array
    violation: Array
    minimiser: Array | None
    reason: str = ""

    def is_optimal(self, tol: float = 1e-9) -> bool:
        """Return whether gap <= tol and violation <= tol in every trial, both absolute."""
        tol = validate.real("tol", tol, above=0)
        return bool(np.all(self.gap <= tol) and np.all(self.violation <= tol))

    def __repr__(self) -> str:
        names = ("gap", "distance", "ulps", "violation")
        numbers = [f"{name}={float(np.max(getattr(self, name))):.3g}" for name in names]
        reason = [f"reason={self.reason!r}"] if self.reason else []
        return f"ExactCertificate({', '.join([*numbers, *reason])})"

    def _repr_html_(self) -> str:
        """Return the numbers, the worst of all trials."""
        names = ("gap", "distance", "ulps", "violation")
        return html_of((), shown.numbers_of(self, names), title="Exact certificate")


def exact_certificate(
    formulation: Formulation, start: FrequencyEstimate, point: Array
) -> ExactCertificate:
    """Return the exact certificate of a vector, or stack of vectors, that fits the estimate.

    Parameters
    ----------
    formulation
        Squares, plain, weighted or over variances a + b f, or a likelihood or Kullback-Leibler
        loss, on bounds with at most one total; squares that are plain, weighted or over constant
        variances, absolute deviations, the largest one, total variation, and sums of all these,
        also on polyhedra.
    start
        The estimate. Its doubles, and the noise's a and b, are taken at face value.
    point
        Finite frequencies, shape (..., d).

    Raises
    ------
    UnsupportedProblemError
        For other losses and sets, and for likelihoods without the extra ``exact``.

    Notes
    -----
    Theorem: for a strictly convex loss the vector that satisfies the KKT conditions is the only
    minimiser. They are checked in integers or fractions, with no tolerance, and sides or rows that
    do not satisfy them are replaced until they do. Cost: see ``box``, ``rows``, ``kinked`` and
    ``likelihoods``.

    Examples
    --------
    >>> from ldpopt.constraints import NonNegative, SumsTo
    >>> simplex = Formulation(LeastSquares(), (NonNegative(), SumsTo(1.0)))
    >>> estimate = FrequencyEstimate([0.5, 0.25, -0.125])
    >>> exact_certificate(simplex, estimate, np.array([0.625, 0.375, 0.0]))
    ExactCertificate(gap=0, distance=0, ulps=0, violation=0)
    """
    d = point.shape[-1]
    region = formulation.region(d)
    prove = _method(formulation, start)
    trials = list(np.ndindex(point.shape[:-1]))
    counted = progress.track(trials, f"{len(trials):,} proofs", len(trials))
    # What overflows in doubles is only suggested, never part of a proof.
    with np.errstate(all="ignore"):
        proofs = [prove(formulation, start[trial], point[trial], region) for trial in counted]
    shape = point.shape[:-1]
    minimisers = [proof.minimiser for proof in proofs if proof.minimiser is not None]
    is_complete = len(minimisers) == len(proofs)

    def stacked(name: str) -> Array:
        return np.array([getattr(proof, name) for proof in proofs]).reshape(shape)

    return ExactCertificate(
        stacked("gap"),
        stacked("distance"),
        stacked("ulps"),
        stacked("violation"),
        np.array(minimisers).reshape(point.shape) if is_complete else None,
        next((proof.reason for proof in proofs if proof.reason), ""),
    )


def _method(formulation: Formulation, start: FrequencyEstimate) -> Prove:
    """Return the function for a loss and a set, or raise an error if they have none."""
    loss = formulation.loss
    d = start.d
    if not formulation.convex:
        wrong = next(one for one in formulation.constraints if not one.convex)
        raise UnsupportedProblemError(
            f"an exact certificate takes convex sets, and {wrong!r} is none: leave out exact=True"
        )
    on_box = _ON_BOXES.get(type(loss))
    if on_box is not None and formulation.region(d).is_box:
        if on_box is likelihoods.exact:
            # An error now if it is missing, not in the first trial.
            likelihoods.library()
        return on_box
    statement = stated(loss, start[(0,) * (start.frequencies.ndim - 1)])
    if statement is None and on_box is None:
        names = ", ".join(sorted(kind.__name__ for kind in {*_ON_BOXES, *LOSSES}))
        raise UnsupportedProblemError(
            f"an exact certificate takes the losses {names}, and sums of those that are squares "
            f"or have kinks, not {loss!r}: leave out exact=True"
        )
    if statement is None:
        raise UnsupportedProblemError(
            f"an exact certificate of {loss!r} takes bounds and one total, not "
            f"{formulation.statement}: leave out exact=True"
        )
    if exact_rows.rows_of(formulation, formulation.region(d), d) is None:
        raise UnsupportedProblemError(
            "an exact certificate takes bounds, totals, linear rows and bounds of sums of absolute "
            f"values, not {formulation.statement}: leave out exact=True"
        )
    return exact_rows.exact if statement.is_square else kinked.exact
