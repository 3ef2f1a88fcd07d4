"""Least squares with a price on total variation: the fused lasso along one chain."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def fused(f: Array, price: float) -> Array:
    """Return the minimiser of ½ ‖f' - f‖² + price Σ |f'_v - f'_{v+1}|.

    A clip to bounds that all values share, and a shift, keep which neighbours are equal and which
    of them is above: so Norm-Sub of the result is the minimiser on the simplex (Friedman, Hastie,
    Höfling, Tibshirani 2007, for clips).

    Parameters
    ----------
    f
        Values of shape (..., d), in the order of the chain.
    price
        What a unit of total variation costs, >= 0.

    Notes
    -----
    Dynamic programming along the chain (Johnson 2013). Cost: linear, compiled on first use.

    Examples
    --------
    >>> fused(np.array([0.5, 0.25, 0.0, 0.25]), 0.125)
    array([0.375 , 0.25  , 0.1875, 0.1875])
    """
    from ldpopt.closed_form.variation_kernels import denoise_rows  # imports numba

    rows = np.ascontiguousarray(f.reshape(-1, f.shape[-1]))
    return np.asarray(denoise_rows(rows, float(price)).reshape(f.shape))
