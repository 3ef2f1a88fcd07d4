"""Frequency estimates: numbers with their provenance, and what is computed from them."""

from ldpopt.estimate.estimate import FrequencyEstimate

__all__ = ["FrequencyEstimate"]
