"""A problem about several measurements, as one about their combination."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import LeastSquares, Loss, WeightedLeastSquares, WeightedSum
from ldpopt.losses.joint import JointLikelihood, JointLoss
from ldpopt.solve.formulation import Formulation
from ldpopt.sources import Sources

Array = NDArray[np.float64]


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
        terms = [term if term.is_penalty else _joint(term, measured) for _, term in leaves]
        loss = WeightedSum(terms, [weight for weight, _ in leaves])
    else:
        loss = _joint(loss, measured, is_alone=True)
    return problem.with_loss(loss), measured.combined()


def _joint(loss: Loss, sources: Sources, *, is_alone: bool = False) -> Loss:
    """Return the sum of a loss over the sources, but for a constant, and alone for a factor."""
    joint = JointLoss(loss, sources)
    if not sources.is_plain:
        return joint
    if joint.of_squares:
        weights = sources.own_precision
        # The plain loss has more closed forms.
        has_one_weight = is_alone and np.ptp(weights) == 0
        return LeastSquares() if has_one_weight else WeightedLeastSquares(weights)
    # Of measurements of the values themselves the likelihood is a sum over values.
    is_sum_over_values = loss.is_likelihood and loss.separable is not None
    return JointLikelihood(loss, sources) if is_sum_over_values else joint


def require_combinable(loss: Loss) -> None:
    """Raise an error if more than the combination of several measurements decides the solution.

    Of squares it alone does, and its noise is known.
    """
    for _, term in loss.leaves():
        if term.loss_of_each is not None:
            raise InvalidInputError(
                "the combination of several measurements, whose noise is known, does not decide "
                f"what {term.loss_of_each!r} finds: use LeastSquares(), which weighs each by its "
                "precision"
            )
