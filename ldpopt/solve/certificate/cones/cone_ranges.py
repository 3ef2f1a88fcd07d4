"""What curved cones say about the ranges of their entries; all bounds are rounded outward."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.solve.certificate.bounds.dual import EPS
from ldpopt.solve.certificate.bounds.intervals import TINY, require_order
from ldpopt.solve.certificate.cones.dual_cones import Cones

Array = NDArray[np.float64]

# numpy's exp and log are within a few units in the last place; generous.
_FUNCTION = 64 * EPS


def contract(cones: Cones, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Return what remains of ranges of s when s lies in the cones."""
    lower, upper = lower.copy(), upper.copy()
    lower[: cones.zero] = np.maximum(lower[: cones.zero], 0.0)
    upper[: cones.zero] = np.minimum(upper[: cones.zero], 0.0)
    inequalities = slice(cones.zero, cones.soc_start)
    lower[inequalities] = np.maximum(lower[inequalities], 0.0)
    for kind, parameter, rows in cones.groups:
        low, high = lower[rows], upper[rows]
        if kind == "soc":
            _contract_second_order(low, high)
        elif kind == "psd":
            _contract_semidefinite(low, high, parameter)
        elif kind == "exp":
            _contract_exponential(low, high)
        else:
            _contract_power(low, high, np.array(parameter))
        lower[rows] = low
        upper[rows] = high
    # All was rounded outward: ends that cross show that nothing is between them.
    require_order(lower, upper)
    return lower, upper


def _contract_second_order(low: Array, high: Array) -> None:
    """Use s₀ >= ‖s₁…‖: of the smallest others from below, and as a limit of each of them."""
    nearest = np.maximum(np.maximum(low[:, 1:], -high[:, 1:]), 0.0)
    with np.errstate(over="ignore"):
        norm = np.linalg.norm(nearest, axis=1) * (1 - (low.shape[1] + 8) * EPS)
    # Squares of numbers beyond 1e154 overflow.
    low[:, 0] = np.maximum(low[:, 0], np.where(np.isfinite(norm), np.maximum(norm, 0.0), 0.0))
    np.minimum(high[:, 1:], high[:, :1], out=high[:, 1:])
    np.maximum(low[:, 1:], -high[:, :1], out=low[:, 1:])


def _contract_semidefinite(low: Array, high: Array, order: int) -> None:
    """Use S_ii >= 0 and |S_ij| <= √(S_ii S_jj)."""
    columns, rows = np.tril_indices(order)
    diagonal = np.cumsum(np.arange(1, order + 1)) - 1
    low[:, diagonal] = np.maximum(low[:, diagonal], 0.0)
    ends = np.sqrt(np.maximum(high[:, diagonal], 0.0))
    with np.errstate(invalid="ignore"):
        limit = np.sqrt(2.0) * ends[:, rows] * ends[:, columns] * (1 + 8 * EPS) + TINY
    limit = np.where(np.isnan(limit) | (rows == columns), np.inf, limit)
    np.minimum(high, limit, out=high)
    np.maximum(low, -limit, out=low)


def _contract_exponential(low: Array, high: Array) -> None:
    """Use y exp(x/y) <= z, y >= 0: x <= y log(z/y) <= z/e, and y + x <= z."""
    low[:, 1:] = np.maximum(low[:, 1:], 0.0)
    x_low = low[:, 0]
    y_low = low[:, 1]
    y_high = high[:, 1]
    z_high = high[:, 2]
    with np.errstate(all="ignore"):
        # y log(z/y) is concave in y with its maximum z/e at y = z/e.
        peak = z_high / np.e
        y = np.clip(peak, y_low, y_high)
        largest = y * np.log(z_high / y)
        rounding = _FUNCTION * (np.abs(largest) + y)
        largest = np.where(y == peak, peak * (1 + _FUNCTION), largest + rounding) + TINY
        # At y = 0 the cone is x <= 0.
        largest = np.where(y == 0, TINY, largest)
        largest = np.where(np.isnan(largest), np.inf, largest)
        # y exp(x/y) grows with x, and in y from y = x on, where it is e x.
        y = np.clip(x_low, y_low, y_high)
        smallest = y * np.exp(x_low / y)
        smallest *= 1 - _FUNCTION * (1 + np.abs(x_low / y))
        smallest = np.where(np.isfinite(smallest), np.maximum(smallest, 0.0), 0.0)
        # exp(t) >= 1 + t
        y_most = z_high - x_low + 4 * EPS * (np.abs(z_high) + np.abs(x_low))
        y_most = np.where(np.isnan(y_most), np.inf, y_most)
    high[:, 0] = np.minimum(high[:, 0], largest)
    low[:, 2] = np.maximum(low[:, 2], smallest)
    high[:, 1] = np.minimum(y_high, y_most + TINY)


def _contract_power(low: Array, high: Array, exponents: Array) -> None:
    """Use that bases are not negative, and that their largest mean limits the last entry."""
    low[:, :-1] = np.maximum(low[:, :-1], 0.0)
    with np.errstate(all="ignore"):
        logarithms = np.log(np.maximum(high[:, :-1], 0.0))
        largest = np.exp(np.sum(exponents * logarithms, axis=1))
        largest *= 1 + _FUNCTION * (4 + np.sum(np.abs(logarithms), axis=1))
    # A base of 0 beside an infinite one says nothing here.
    largest = np.where(np.isnan(largest), np.inf, largest + TINY)
    high[:, -1] = np.minimum(high[:, -1], largest)
    low[:, -1] = np.maximum(low[:, -1], -largest)
