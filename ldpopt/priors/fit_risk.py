"""The risk of posterior means under fitted mixture weights, without the truth.

With y_v = k_v + N(0, s²), any rule g has the unbiased risk (Stein 1981)

    R = Σ_v (g_v - y_v)² - d s² + 2 s² Σ_v ∂g_v/∂y_v.

For the posterior mean under fixed weights the slope is the posterior variance over s² (Tweedie).
Fitted weights move with the estimates as well. Let A_bj be the density of bin b under component j,
P = A w, m_bj the posterior mean under component j and M that under the mixture. Then

    G_bj = A_bj (m_bj - M_b)/P_b = ∂M_b/∂w_j = s² ∂(A_bj/P_b)/∂y_b,

so that with H = AᵀDA + c/w², D = size/P², the curvature of the penalised likelihood, the slopes of
all estimates through the weights add up to tr(H⁻¹ Gᵀ size G)/s².
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.priors.binning import Binned

Array = NDArray[np.float64]


class FitRisk(NamedTuple):
    """Unbiased risk of a fitted mixture, and how much of it is the fit, in units of s².

    Attributes
    ----------
    risk
        R/s², which estimates Σ_v E(g_v - k_v)²/s² without bias.
    refit
        Slopes of all estimates through the fitted weights, added up: what the fit adds to the
        degrees of freedom.
    """

    risk: float
    refit: float


def fit_risk(
    binned: Binned,
    densities: Array,
    firsts: Array,
    weights: Array,
    second: Array,
    pseudo_count: float,
) -> FitRisk:
    """Return the risk of posterior means under weights that ``penalised_weights`` returned.

    Parameters
    ----------
    binned
        The estimates; their noise is taken as that of a count of 0.
    densities, firsts
        ∫ φ(y_b - k) and ∫ k φ(y_b - k) over each component, shape (bins, components), both with
        the same factor in each row.
    weights
        The fitted weights, shape (components,).
    second
        ∫ k² φ(y_b - k) over the mixture, shape (bins,), with the same factors.
    pseudo_count
        c of the fit.
    """
    from ldpopt.priors.product_kernels import product  # imports numba

    size = binned.size
    variance = binned.noise.sd**2
    probability = product(densities, weights)
    mean = product(firsts, weights) / probability
    spread = np.maximum(second / probability - mean**2, 0.0)
    # How each posterior mean moves with each weight: with the curvature of the fit this gives what
    # refitting the prior adds to the sum of the slopes.
    moves = (firsts - densities * mean[:, None]) / probability[:, None]
    rows = densities * (np.sqrt(size) / probability)[:, None]
    curvature = product(rows.T, rows)
    curvature.flat[:: len(weights) + 1] += pseudo_count / weights**2
    responses = product(moves.T, moves * size[:, None])
    through_weights = np.linalg.solve(curvature, responses)
    refit = float(np.trace(through_weights)) / variance
    distance = size @ (mean - binned.y) ** 2
    slopes = size @ spread
    # Stein's formula in units of the noise's variance; the slope of a mean is its spread over it.
    risk = (distance + 2 * slopes) / variance + 2 * refit - binned.d
    return FitRisk(float(risk), refit)
