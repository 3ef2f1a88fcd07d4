"""Non-negative values with a total, and either of the two alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.closed_form.simplex import weighted_projection
from ldpopt.constraints import NonNegative, SumsTo
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import GaussianMLE, KullbackLeibler, LeastSquares, MultinomialMLE
from ldpopt.solve.paths.closed_forms.registry import solves

Array = NDArray[np.float64]


@solves(LeastSquares, name="base")
def _unconstrained(loss: LeastSquares, estimate: FrequencyEstimate) -> Array:
    return loss.target(estimate).copy()


@solves(LeastSquares, NonNegative, name="base-pos")
def _clipped(loss: LeastSquares, estimate: FrequencyEstimate, _: NonNegative) -> Array:
    return closed_form.base_pos(loss.target(estimate))


@solves(LeastSquares, SumsTo, name="norm")
def _shifted(loss: LeastSquares, estimate: FrequencyEstimate, total: SumsTo) -> Array:
    return closed_form.norm(loss.target(estimate), total.total())


@solves(LeastSquares, NonNegative, SumsTo, name="norm-sub")
def _projected(
    loss: LeastSquares, estimate: FrequencyEstimate, _: NonNegative, total: SumsTo
) -> Array:
    return closed_form.norm_sub(loss.target(estimate), total.total())


@solves(GaussianMLE, name="base")
def _likeliest(_: GaussianMLE, estimate: FrequencyEstimate) -> Array:
    return estimate.frequencies.copy()


@solves(GaussianMLE, NonNegative, name="base-pos")
def _likeliest_clipped(_: GaussianMLE, estimate: FrequencyEstimate, __: NonNegative) -> Array:
    return closed_form.base_pos(estimate.frequencies)


def _has_positive_variance(
    _: GaussianMLE, estimate: FrequencyEstimate, __: NonNegative, total: SumsTo
) -> bool:
    """Return whether one κ holds for all values, and the variance is positive on the set."""
    # The loss divides by 1 + κ f, linear in f: positive at 0 and at the total is positive between.
    noise = estimate.noise
    return noise.is_common and 1 + noise.kappa * total.total() > 0


@solves(GaussianMLE, NonNegative, SumsTo, name="mle-apx", applies=_has_positive_variance)
def _weighted(_: GaussianMLE, estimate: FrequencyEstimate, __: NonNegative, total: SumsTo) -> Array:
    # N Eq. (12) with signs that agree, which are those of D Eq. (14): see the claims on errata.
    # The loss has checked that every 1 + κ f̃ is positive.
    return weighted_projection(estimate.frequencies, estimate.noise.kappa, total.total())


@solves(MultinomialMLE, NonNegative, SumsTo, name="water-filling")
def _filled(
    loss: MultinomialMLE, estimate: FrequencyEstimate, _: NonNegative, total: SumsTo
) -> Array:
    # q and p - q: the likelihood is that of the shares of reports q + (p - q) f.
    floor, slope = loss.constants(estimate)
    return closed_form.water_filling(loss.shares(estimate), floor / slope, total.total())


# The divergence is infinite below zero, so that NonNegative adds nothing to it.
@solves(KullbackLeibler, SumsTo, name="norm-mul")
def _scaled(_: KullbackLeibler, estimate: FrequencyEstimate, total: SumsTo) -> Array:
    return closed_form.norm_mul(estimate.frequencies, total.total())


@solves(KullbackLeibler, NonNegative, SumsTo, name="norm-mul")
def _scaled_on_simplex(
    loss: KullbackLeibler, estimate: FrequencyEstimate, _: NonNegative, total: SumsTo
) -> Array:
    return _scaled(loss, estimate, total)
