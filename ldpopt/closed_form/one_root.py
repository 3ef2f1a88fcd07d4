"""Any separable convex loss on a box with one total: one multiplier, one bracketed root, all trials at once.

min Σ ℓ_v(f_v), lower <= f <= upper, Σf = total. With the multiplier μ, f_v(μ) minimises ℓ_v(f) + μf on its interval, and
Σ f_v(μ) does not increase. At μ <= -ℓ'_v(upper_v) a value sits at its upper bound and at μ >= -ℓ'_v(lower_v) at its lower one,
so the bracket is known (MATH 3).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def one_root(
    minimiser: Callable[[Array, NDArray[np.intp]], Array], low: Array, high: Array, total: float, scale: float
) -> Array:
    """Return the frequencies at the multiplier where they sum to the total.

    Parameters
    ----------
    minimiser
        From multipliers of shape (m, 1) and the numbers of m trials to f(μ) of shape (m, d), inside the box.
    low, high
        Bracket of the multiplier for every trial, shape (trials,).
    total
        The sum to reach, between the sums of the bounds.
    scale
        Size of the sum that rounding is measured against.

    Returns
    -------
    Values of shape (trials, d), on the box, whose sums differ from the total by rounding.

    Notes
    -----
    Cost: about a dozen evaluations of f(μ) for all trials (Chandrupatla 1997).
    """
    from scipy.optimize import elementwise

    trials = np.arange(len(low))

    def excess(mu: Array, trial: NDArray[np.intp]) -> Array:
        return np.asarray(minimiser(mu[:, None], trial.astype(np.intp)).sum(axis=-1) - total)

    eps = float(np.finfo(np.float64).eps)
    found = elementwise.find_root(
        excess, (low, high), args=(trials,), maxiter=200,
        tolerances={"xatol": 0.0, "xrtol": 2 * eps, "fatol": eps * scale, "frtol": 0.0},
    )  # fmt: skip
    return minimiser(np.where(np.isfinite(found.x), found.x, low)[:, None], trials)
