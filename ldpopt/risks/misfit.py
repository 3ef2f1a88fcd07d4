"""How far the answers of fitted data are from the true ones, as far as the raw answers show it.

Data that are simulated from a fit have the fit's answers. For sets whose members belong together
these are wrong: shrinkage adds up within a set. The raw answers have no such bias, but noise: what
they say of the fit's errors is weighed against that noise.
"""

from __future__ import annotations

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


def expected_misfit(raw: Array, fitted: Array, noise: Array, independent: float) -> Array:
    """Return the expected excess of the true answers over the fitted ones, shape (k,).

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
    result = np.zeros_like(raw)
    is_noisy = noise > _NO_NOISE * np.max(noise, initial=0.0)
    if not is_noisy.any():
        return result
    excess = (raw - fitted)[is_noisy]
    size = np.maximum(fitted[is_noisy], 0.0)
    tempering = independent / len(raw)
    weights = []
    means = []
    for share in _OWN_SHARES:
        for common in _COMMON_SHARES:
            log_likelihood, mean = _under(share, common, excess, size, noise[is_noisy])
            prior = _prior(share, _OWN_SHARES) * _prior(common, _COMMON_SHARES)
            weights.append(tempering * log_likelihood + np.log(prior))
            means.append(mean)
    relative = np.exp(np.array(weights) - np.max(weights))
    result[is_noisy] = relative @ np.array(means) / relative.sum()
    return result


def _prior(share: float, shares: tuple[float, ...]) -> float:
    """Return the prior weight of a share: half for none, the rest for all others alike."""
    # Chosen among three settings of the weights. That count is of these weights alone: some 60
    # variants of the whole rule were tried on kept draws (docs/explanation/risk.md).
    return 0.5 if share == 0 else 0.5 / (len(shares) - 1)


def _under(
    share: float, common: float, excess: Array, size: Array, noise: Array
) -> tuple[float, Array]:
    """Return the log-likelihood of the excess under two shares, and the expected misfit.

    The excess has the covariance D + β² a aᵀ with D = diag(noise + t² a²), which is inverted by
    the formula of Sherman and Morrison.
    """
    variance = noise + share**2 * size**2
    of_size = size / variance
    growth = 1 + common**2 * float(size @ of_size)
    along = common**2 * float(excess @ of_size) / growth
    solved = excess / variance - along * of_size
    log_determinant = float(np.sum(np.log(variance))) + np.log(growth)
    log_likelihood = -(float(excess @ solved) + log_determinant) / 2
    mean = share**2 * size**2 * solved + common**2 * size * float(size @ solved)
    return log_likelihood, mean
