"""Priors over true counts, their fits, and posterior means under them (K III, N IV-E)."""

from ldpopt.priors.base import Posterior, Prior, posterior_mean
from ldpopt.priors.power_law import PowerLaw, power

__all__ = ["Posterior", "PowerLaw", "Prior", "posterior_mean", "power"]
