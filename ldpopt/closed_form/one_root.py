"""Any separable convex loss on a box with one total: one multiplier, one bracketed root, all trials at once.

min Σ ℓ_v(f_v), lower <= f <= upper, Σf = total. With the multiplier μ, f_v(μ) minimises ℓ_v(f) + μf on its interval, and
Σ f_v(μ) does not increase. At μ <= -ℓ'_v(upper_v) a value sits at its upper bound and at μ >= -ℓ'_v(lower_v) at its lower one,
so the bracket is known.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ldpopt.errors import InvalidInputError

Array = NDArray[np.float64]

_EXCESS = 1e-12  # of the sum, at which the search ends: the free values share it, and its effect on the loss is its square
_NARROWINGS = 3
_SHRINK = 2.0**-10


def one_root(
    minimiser: Callable[[Array, NDArray[np.intp]], Array],
    bracket: tuple[Array, Array],
    box: tuple[Array, Array],
    total: float,
) -> Array:
    """Return the frequencies at the multiplier where they sum to the total.

    Parameters
    ----------
    minimiser
        From multipliers of shape (m, 1) and the numbers of m trials to f(μ) of shape (m, d), inside the box.
    bracket
        Bounds of the multiplier for every trial, each of shape (trials,).
    box
        Lower and upper bounds of the values, each of shape (d,).
    total
        The sum to reach, between the sums of the bounds.

    Returns
    -------
    Values of shape (trials, d), on the box, whose sums differ from the total by rounding.

    Raises
    ------
    InvalidInputError
        If double precision cannot meet the total, which takes estimates of 10⁹ and more.

    Notes
    -----
    Cost: about a dozen evaluations of f(μ) for all trials (Chandrupatla 1997).
    """
    from scipy.optimize import elementwise

    (low, high), (lower, upper) = bracket, box
    trials, scale = np.arange(len(low)), max(1.0, abs(total))

    def excess(mu: Array, trial: NDArray[np.intp]) -> Array:
        return np.asarray(minimiser(mu[:, None], trial.astype(np.intp)).sum(axis=-1) - total)

    eps = float(np.finfo(np.float64).eps)
    low, high = _narrowed(excess, low, high, trials)
    found = elementwise.find_root(
        excess, (low, high), args=(trials,), maxiter=200,
        tolerances={"xatol": 0.0, "xrtol": 2 * eps, "fatol": _EXCESS * scale, "frtol": 0.0},
    )  # fmt: skip
    f = minimiser(np.where(np.isfinite(found.x), found.x, low)[:, None], trials)
    # The last bit of the multiplier may be worth more than that of the sum too: the free values share what is left.
    free = (lower < f) & (f < upper)
    rest = total - f.sum(axis=-1, keepdims=True)
    f += free * (rest / np.maximum(np.count_nonzero(free, axis=-1, keepdims=True), 1))
    np.clip(f, lower, upper, out=f)
    left = np.abs(total - f.sum(axis=-1))
    if (left > 1e-9 * scale).any():
        worst = int(np.argmax(left))
        raise InvalidInputError(
            f"trial {worst} is beyond double precision on this path: its total is missed by {left[worst]:g}, because estimates "
            "are so large that their last bit is worth more; clip them, or use path='conic'"
        )
    return f


def _narrowed(
    excess: Callable[[Array, NDArray[np.intp]], Array],
    low: Array,
    high: Array,
    trials: NDArray[np.intp],
) -> tuple[Array, Array]:
    """Return a smaller bracket: the multiplier is often thousands of times nearer to 0 than the steepest slope."""
    zero = np.clip(0.0, low, high)
    above = excess(zero, trials) > 0
    near, far = np.zeros(len(zero)), np.where(above, high, low) - zero  # measured from zero
    for _ in range(_NARROWINGS):
        middle = np.where(near == 0, far * _SHRINK, np.sign(far) * np.sqrt(np.abs(near * far)))
        beyond = (excess(zero + middle, trials) > 0) != above
        near, far = np.where(beyond, near, middle), np.where(beyond, middle, far)
    return zero + np.where(above, near, far), zero + np.where(above, far, near)


def least_absolute(f: Array, lower: Array, upper: Array, total: float | None = None) -> Array:
    """Return a minimiser of Σ |f'_v - f_v| on a box with at most one total: of many, the one nearest to f in least squares.

    Clipping is optimal without the total. What is then missing or too much may be spread over the values in any way that stays
    in the box and moves none of them back: the nearest such point is a projection with one root.

    Parameters
    ----------
    f
        Values of shape (..., d).
    lower, upper
        Bounds of shape (d,), infinite ones too.
    total
        The sum to reach, between the sums of the bounds; None for none.

    Raises
    ------
    InvalidInputError
        As ``one_root``.

    Examples
    --------
    >>> least_absolute(np.array([0.9, 0.6, -0.1]), np.zeros(3), np.full(3, np.inf), 1.0)
    array([0.65, 0.35, 0.  ])
    """
    clipped = np.clip(f, lower, upper)
    if total is None:
        return clipped
    start = clipped.reshape(-1, f.shape[-1])
    rest = total - start.sum(axis=-1, keepdims=True)
    low = np.where(rest < 0, np.maximum(lower, start + rest), start)
    high = np.where(rest > 0, np.minimum(upper, start + rest), start)
    flat = f.reshape(start.shape)
    bracket = (flat - high).min(axis=-1), (flat - low).max(axis=-1)
    result = one_root(
        lambda mu, t: np.clip(flat[t] - mu, low[t], high[t]), bracket, (low, high), total
    )
    return result.reshape(f.shape)
