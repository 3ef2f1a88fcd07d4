"""Priors over true counts, their fits, and posterior means under them (K III, N IV-E)."""

from ldpopt.priors.auto import Auto
from ldpopt.priors.base import Posterior, Prior, posterior_mean
from ldpopt.priors.binned_power_law import BinnedPowerLaw
from ldpopt.priors.blend import Blend
from ldpopt.priors.density import Density
from ldpopt.priors.discrete import Discrete
from ldpopt.priors.families import Custom, Gaussian, Laplace, LogNormal, Poisson
from ldpopt.priors.fitting import LikelihoodFit
from ldpopt.priors.histogram import Histogram
from ldpopt.priors.mixture_prior import Mixture
from ldpopt.priors.npmle import NPMLE
from ldpopt.priors.power_law import PowerLaw
from ldpopt.priors.zero_inflated import ZeroInflated

__all__ = [
    "NPMLE",
    "Auto",
    "BinnedPowerLaw",
    "Blend",
    "Custom",
    "Density",
    "Discrete",
    "Gaussian",
    "Histogram",
    "Laplace",
    "LikelihoodFit",
    "LogNormal",
    "Mixture",
    "Poisson",
    "Posterior",
    "PowerLaw",
    "Prior",
    "ZeroInflated",
    "posterior_mean",
]
