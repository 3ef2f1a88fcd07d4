"""How far the answers of fitted data are from the true ones, as far as the raw answers show it.

Data that are simulated from a fit have the fit's answers. For sets whose members belong together
these are wrong: shrinkage adds up within a set. The raw answers have no such bias, but noise: what
they say of the fit's errors is weighed against that noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# By which share of itself a fitted answer may be wrong: each on its own, and all by one share, as
# where the largest values are requested. Up to all of it; noise that is larger than the answers
# themselves can say nothing of them.
_OWN_SHARES = (0.0, 0.05, 0.1, 0.2, 0.35, 0.6, 1.0)
_COMMON_SHARES = (0.0, 0.1, 0.3, 1.0)

# Noise below this part of the largest is rounding: the answer is the same for all estimates.
_NO_NOISE = 1e-12


class Misfit(NamedTuple):
    """By how much the true answers exceed the fitted ones, as far as it is known.

    Attributes
    ----------
    mean
        Its expectation e, shape (k,).
    spread
        The sum of its variances. Its expected square, which is what an error grows by, is ‖e‖² and
        this: where the raw answers tell little, e is near 0 though the misfit need not be.
    """

    mean: Array
    spread: float


def expected_misfit(raw: Array, fitted: Array, noise: Array, independent: float) -> Misfit:
    """Return what the raw answers tell of the excess of the true answers over the fitted ones.

    The true answers are a (1 + b + t z) with the fitted ones a ≥ 0, a common b ~ N(0, β²) and own
    z ~ N(0, 1) times t. The raw answers tell which β and t are likely, from 0 to 1; half of the
    prior weight of each is on 0. The result is the mean over both.

    Parameters
    ----------
    raw, fitted
        Unbiased answers, and those of the fit, shape (k,).
    noise
        Variances of the raw answers about the fitted ones where the fit is right, shape (k,).
    independent
        How many independent answers the noise amounts to, at most k. Fewer are weaker evidence.
    """
    expected = np.zeros_like(raw)
    is_noisy = noise > _NO_NOISE * np.max(noise, initial=0.0)
    if not is_noisy.any():
        return Misfit(expected, 0.0)
    excess = (raw - fitted)[is_noisy]
    size = np.maximum(fitted[is_noisy], 0.0)
    variances = noise[is_noisy]
    # Answers that depend on each other are less evidence than their number: each counts in part.
    tempering = independent / len(raw)
    weights = []
    means = []
    spreads = []
    for share in _OWN_SHARES:
        for common in _COMMON_SHARES:
            log_likelihood, mean, spread = _under(share, common, excess, size, variances)
            prior = _prior(share, _OWN_SHARES) * _prior(common, _COMMON_SHARES)
            weights.append(tempering * log_likelihood + np.log(prior))
            means.append(mean)
            spreads.append(spread)
    relative = np.exp(np.array(weights) - np.max(weights))
    relative /= relative.sum()
    overall = relative @ np.array(means)
    expected[is_noisy] = overall
    # Within the shares, and between them.
    between = np.sum((np.array(means) - overall) ** 2, axis=1)
    return Misfit(expected, float(relative @ (np.array(spreads) + between)))


def _prior(share: float, shares: tuple[float, ...]) -> float:
    """Return the prior weight of a share: half for none, the rest for all others alike."""
    # Set with the rest of the rule, of which some 80 variants were tried on kept draws
    # (docs/explanation/risk.md).
    return 0.5 if share == 0 else 0.5 / (len(shares) - 1)


def _under(
    share: float, common: float, excess: Array, size: Array, noise: Array
) -> tuple[float, Array, float]:
    """Return, under two shares, the log-likelihood of the excess and the misfit's mean and spread.

    The excess has the covariance C = D + β² a aᵀ with D = diag(noise + t² a²), which is inverted
    by the formula of Sherman and Morrison. What is left of the misfit's variance is N - N C⁻¹ N
    with N = diag(noise).
    """
    of_own = share**2 * size**2
    variance = noise + of_own  # D
    of_size = size / variance  # D⁻¹ a
    growth = 1 + common**2 * float(size @ of_size)
    coupling = common**2 / growth
    # C⁻¹ times the excess.
    solved = excess / variance - coupling * float(excess @ of_size) * of_size
    log_determinant = float(np.sum(np.log(variance))) + np.log(growth)
    log_likelihood = -(float(excess @ solved) + log_determinant) / 2
    # The misfit's own covariance, diag(t² a²) + β² a aᵀ, times that.
    of_common = common**2 * size * float(size @ solved)
    mean = of_own * solved + of_common
    # N - N C⁻¹ N is N - N D⁻¹ N and a term of rank one.
    spread_of_own = float(np.sum(noise * (variance - noise) / variance))
    spread_of_common = coupling * float(np.sum((noise * of_size) ** 2))
    return log_likelihood, mean, spread_of_own + spread_of_common
