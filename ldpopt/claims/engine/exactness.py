"""How far the points of a closed form are from the exact minimisers, vector by vector."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import GaussianMLE, LeastSquares, WeightedLeastSquares
from ldpopt.solve.certificate import certify
from ldpopt.solve.problem import Problem

Array = NDArray[np.float64]

# Likelihoods have logarithms: their minimisers are not rational.
_RATIONAL = (LeastSquares, WeightedLeastSquares, GaussianMLE)

# On bounds and a total all vectors take less than a second together. On other polyhedra a vector of
# 50 values takes a fiftieth of a second, so that a stack is represented by its first ones.
_PER_STACK = 4
_LARGEST = 50


@dataclass
class ExactRecord:
    """What exact arithmetic says of a closed form's points.

    Attributes
    ----------
    vectors
        Number of vectors whose exact minimiser was computed.
    distance
        Largest |f_v - f*_v| of them.
    ulps
        The same in units in the last place of each vector's largest f*.
    """

    vectors: int = 0
    distance: float = 0.0
    ulps: float = 0.0

    @classmethod
    def of(cls, problem: Problem, estimate: FrequencyEstimate, points: Array) -> ExactRecord:
        """Return the record of a stack; an empty one where there is no exact certificate.

        Parameters
        ----------
        problem
            What the points claim to solve.
        estimate
            A stack of estimates, shape (m, d).
        points
            Frequencies of the same shape.
        """
        is_box = problem.is_box(estimate.d)
        if type(problem.loss) not in _RATIONAL or not problem.convex:
            return cls()
        if not is_box:
            # Of variances that grow with f the minimisers beside rows are not rational.
            if problem.loss.uses_noise or estimate.d > _LARGEST:
                return cls()
            estimate = estimate[:_PER_STACK]
            points = points[:_PER_STACK]
        certificate = certify(problem, estimate, points, exact=True)
        # Infinite where the exact minimiser is not found, which no tolerance lets pass.
        return cls(
            vectors=len(points),
            distance=float(np.max(certificate.distance)),
            ulps=float(np.max(certificate.ulps)),
        )

    def add(self, other: ExactRecord) -> None:
        """Add what is known of further vectors."""
        self.vectors += other.vectors
        self.distance = float(np.maximum(self.distance, other.distance))
        self.ulps = float(np.maximum(self.ulps, other.ulps))
