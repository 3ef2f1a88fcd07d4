"""KKT solutions as plain functions on float64 arrays of shape (..., d).

They take arrays and check nothing: ``Problem`` and ``postprocess``, which call them, make sure that
numbers are finite and thresholds >= 0. ``significance_threshold``, of numbers alone, does check.
"""

from ldpopt.closed_form.affine import norm, norm_mul
from ldpopt.closed_form.equations import scaled_to_equations, with_equations
from ldpopt.closed_form.group_roots import Groups, group_roots
from ldpopt.closed_form.groups import group_totals
from ldpopt.closed_form.hierarchy import tree_consistency, tree_scaling
from ldpopt.closed_form.margins import KnownMargins, Margin, with_margins
from ldpopt.closed_form.one_root import (
    Minimiser,
    doubled_bracket,
    least_absolute,
    one_root,
    weighted_deviations,
    weighted_squares,
)
from ldpopt.closed_form.orders import (
    STEEPEST_SLOPE,
    bounds_along_forest,
    isotonic,
    isotonic_on_pairs,
    monotone,
    split_by_slopes,
    top_set,
)
from ldpopt.closed_form.penalised import group_norms, towards_reference
from ldpopt.closed_form.simplex import at_most, mle_apx, norm_sub, water_filling
from ldpopt.closed_form.thresholds import (
    Crossing,
    base_cut,
    base_pos,
    kept_by_norm_hyb,
    kth_highest,
    norm_cut,
    norm_hyb,
    significance_threshold,
    zero_first,
)
from ldpopt.closed_form.variation import fused

__all__ = [
    "STEEPEST_SLOPE",
    "Crossing",
    "Groups",
    "KnownMargins",
    "Margin",
    "Minimiser",
    "at_most",
    "base_cut",
    "base_pos",
    "bounds_along_forest",
    "doubled_bracket",
    "fused",
    "group_norms",
    "group_roots",
    "group_totals",
    "isotonic",
    "isotonic_on_pairs",
    "kept_by_norm_hyb",
    "kth_highest",
    "least_absolute",
    "mle_apx",
    "monotone",
    "norm",
    "norm_cut",
    "norm_hyb",
    "norm_mul",
    "norm_sub",
    "one_root",
    "scaled_to_equations",
    "significance_threshold",
    "split_by_slopes",
    "top_set",
    "towards_reference",
    "tree_consistency",
    "tree_scaling",
    "water_filling",
    "weighted_deviations",
    "weighted_squares",
    "with_equations",
    "with_margins",
    "zero_first",
]
