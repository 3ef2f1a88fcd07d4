"""Frequency estimates: numbers with their provenance, and what is computed from them."""

from ldpopt.estimate.estimate import FrequencyEstimate
from ldpopt.estimate.metrics import (
    Identification,
    accuracy_limit,
    heavy_hitters,
    identification,
    law_limit,
    mean_absolute_error,
    mean_squared_error,
)
from ldpopt.estimate.noise import Noise
from ldpopt.estimate.shown import Shown, TopValues, Value

__all__ = [
    "FrequencyEstimate",
    "Identification",
    "Noise",
    "Shown",
    "TopValues",
    "Value",
    "accuracy_limit",
    "heavy_hitters",
    "identification",
    "law_limit",
    "mean_absolute_error",
    "mean_squared_error",
]
