"""What is minimised: each loss states its value, its gradient and its form for solvers."""

import sys

from ldpopt.losses.base import Loss, WeightedSum
from ldpopt.losses.channel import ChannelMLE
from ldpopt.losses.custom import Custom
from ldpopt.losses.deviation import Huber, L1To, LeastAbsolute, MaxAbsolute
from ldpopt.losses.divergence import Entropy, KLTo, KullbackLeibler
from ldpopt.losses.likelihood import BinomialMLE, MultinomialMLE
from ldpopt.losses.normalised import NormalisedGaussianMLE
from ldpopt.losses.penalties import GroupNorm, TotalVariation
from ldpopt.losses.per_report import PerReportMLE
from ldpopt.losses.posterior import PosteriorMean
from ldpopt.losses.quadratic import GaussianMLE, LeastSquares, WeightedLeastSquares
from ldpopt.losses.threshold import HardThreshold

__all__ = [
    "BinomialMLE",
    "ChannelMLE",
    "Custom",
    "Entropy",
    "GaussianMLE",
    "GroupNorm",
    "HardThreshold",
    "Huber",
    "KLTo",
    "KullbackLeibler",
    "L1To",
    "LeastAbsolute",
    "LeastSquares",
    "Loss",
    "MaxAbsolute",
    "MultinomialMLE",
    "NormalisedGaussianMLE",
    "PerReportMLE",
    "PosteriorMean",
    "TotalVariation",
    "WeightedLeastSquares",
    "WeightedSum",
]

# Who has imported cvxpy may write a parameter of cvxpy's own times a loss, which cvxpy leaves to
# the loss once this module is there. Others need not wait for cvxpy.
if "cvxpy" in sys.modules:
    import ldpopt.parameter  # noqa: F401
