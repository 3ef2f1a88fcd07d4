"""KKT solutions as plain functions on float64 arrays of shape (..., d).

They expect what the border has checked: finite numbers, thresholds >= 0. ``Problem`` and ``postprocess`` check.
"""

from ldpopt.closed_form.affine import norm, norm_mul
from ldpopt.closed_form.simplex import mle_apx, norm_sub
from ldpopt.closed_form.thresholds import (
    base_cut,
    base_pos,
    kth_highest,
    norm_cut,
    norm_hyb,
    significance_threshold,
)

__all__ = [
    "base_cut",
    "base_pos",
    "kth_highest",
    "mle_apx",
    "norm",
    "norm_cut",
    "norm_hyb",
    "norm_mul",
    "norm_sub",
    "significance_threshold",
]
