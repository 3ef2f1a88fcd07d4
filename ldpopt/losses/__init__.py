"""What is minimised: each loss states its value, its gradient and its form for solvers."""

from ldpopt.losses.base import Loss
from ldpopt.losses.deviation import LeastAbsolute
from ldpopt.losses.divergence import KullbackLeibler
from ldpopt.losses.likelihood import BinomialMLE, MultinomialMLE
from ldpopt.losses.normalised import NormalisedGaussianMLE
from ldpopt.losses.per_report import PerReportMLE
from ldpopt.losses.posterior import PosteriorMean
from ldpopt.losses.quadratic import GaussianMLE, LeastSquares, WeightedLeastSquares
from ldpopt.losses.threshold import HardThreshold

__all__ = [
    "BinomialMLE",
    "GaussianMLE",
    "HardThreshold",
    "KullbackLeibler",
    "LeastAbsolute",
    "LeastSquares",
    "Loss",
    "MultinomialMLE",
    "NormalisedGaussianMLE",
    "PerReportMLE",
    "PosteriorMean",
    "WeightedLeastSquares",
]
