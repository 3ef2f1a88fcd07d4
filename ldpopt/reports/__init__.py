"""Reports hold more than their counts: a second pass over them, and the estimate that it gives."""

from ldpopt.reports.estimate import RefinedEstimate, RefinedNoise
from ldpopt.reports.refinement import refine

__all__ = ["RefinedEstimate", "RefinedNoise", "refine"]
