"""A problem about several measurements, as one about their combination."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import (
    Entropy,
    GroupNorm,
    KLTo,
    L1To,
    LeastSquares,
    Loss,
    TotalVariation,
    WeightedLeastSquares,
    WeightedSum,
)
from ldpopt.losses.joint import JointLikelihood, JointLoss
from ldpopt.solve.formulation import Formulation
from ldpopt.sources import Sources

# Losses that measure f alone: over several measurements they count once.
_PENALTIES = (Entropy, GroupNorm, KLTo, L1To, TotalVariation)


def about_one(
    problem: Formulation, measured: Sources | FrequencyEstimate | ArrayLike
) -> tuple[Formulation, FrequencyEstimate | ArrayLike]:
    """Return a problem about sources as one about their combination; any other as it is.

    Of squares over measurements of the values the loss becomes that of the combination, which has
    the same minimisers, and closed forms.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the loss does not state what several measurements weigh.
    """
    if not isinstance(measured, Sources):
        return problem, measured
    loss = problem.loss
    leaves = list(loss.leaves())
    if leaves[0][1] is not loss:
        # Of all leaves: a penalty inside an inner sum would otherwise count once per measurement.
        terms = [
            term if isinstance(term, _PENALTIES) else _joint(term, measured) for _, term in leaves
        ]
        loss = WeightedSum(terms, [weight for weight, _ in leaves])
    else:
        loss = _joint(loss, measured)
        # Alone a factor of the loss changes nothing, and the plain loss has more closed forms.
        if isinstance(loss, WeightedLeastSquares) and np.ptp(loss.weights) == 0:
            loss = LeastSquares()
    return problem.with_loss(loss), measured.combined()


def _joint(loss: Loss, sources: Sources) -> Loss:
    """Return the sum of a loss over the sources, but for a constant."""
    joint = JointLoss(loss, sources)
    if not sources.is_plain:
        return joint
    if joint.is_square:
        return WeightedLeastSquares(sources.own_precision)
    # Of measurements of the values themselves the likelihood is a sum over values.
    is_sum_over_values = loss.is_likelihood and loss.separable is not None
    return JointLikelihood(loss, sources) if is_sum_over_values else joint
