"""Frequency estimates: numbers with their provenance, and what is computed from them."""

from ldpopt.estimate.estimate import FrequencyEstimate
from ldpopt.estimate.noise import Noise

__all__ = ["FrequencyEstimate", "Noise"]
