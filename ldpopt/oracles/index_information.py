"""The Fisher information of reports that are indices: exact, by products alone.

With K outcomes and law s_y/Σs, s = 1 + (r-1) S f, the information about directions h with Σh = 0 is

    J = (r-1)² Sᵀ diag(1/s) S / Σs.

It is never written out: J h costs two products with S, and all eigenvalues lie within a factor of
max s / min s <= e^ε of each other, so that conjugate gradients end after a few dozen products.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.errors import warn
from ldpopt.oracles.forms import IndexForm

Array = NDArray[np.float64]

_TOLERANCE = 1e-13  # of the residual, relative to the right-hand side
_STEPS = 500  # products after which rounding has the last word
_EXACT = 256  # values up to which every variance is computed, and not a sample of directions
_DIRECTIONS = 16  # of the sample: the mean variance of 1,000 values is then known to 0.1 %
_SEED = 18  # of the sample, so that everyone gets the same number


class IndexInformation:
    """J at frequencies f, and what follows from it.

    Parameters
    ----------
    form
        The form of the reports, which has the products with S.
    more
        r - 1, with r the likelihood ratio of the oracle.
    frequencies
        f on the simplex, shape (d,).
    """

    def __init__(self, form: IndexForm, more: float, frequencies: Array) -> None:
        self.form = form
        self.more = more
        self.frequencies = frequencies
        self.likelihood = 1 + more * form.sums(frequencies)
        self._curvature = more**2 / self.likelihood / self.likelihood.sum()

    def score(self, histogram: Array) -> Array:
        """Return the slope of the mean log likelihood of reports, less what is common to all.

        The histogram has the number of reports of each index, shape (size,).
        """
        shares = histogram / histogram.sum()
        slope = self.more * self.form.counts(shares / self.likelihood)
        return np.asarray(slope - slope.mean())

    def solve(self, rows: Array) -> Array:
        """Return J⁻¹ x on Σ = 0 for each row x with the sum 0: shape (m, d).

        Warns
        -----
        LdpoptWarning
            If conjugate gradients do not arrive: with the largest residual that is left.
        """
        h = np.zeros_like(rows)
        # What rounding left of a sum would never vanish: J has no information about it.
        residual = rows - rows.mean(axis=-1, keepdims=True)
        step = residual
        square = _squares(residual)
        target = _TOLERANCE**2 * square
        for _ in range(_STEPS):
            if (square <= target).all():
                break
            image = self._times(step)
            along = np.sum(step * image, axis=-1, keepdims=True)
            # A row that has arrived has no step left.
            length = np.divide(square, along, out=np.zeros_like(square), where=along > 0)
            h = h + length * step
            residual = residual - length * image
            next_square = _squares(residual)
            ratio = np.divide(next_square, square, out=np.zeros_like(square), where=square > 0)
            step = residual + ratio * step
            square = next_square
        # Written so that NaN fails it.
        missed = ~(square <= target)
        if missed.any():
            left = np.sqrt(square[missed] / (target[missed] / _TOLERANCE**2)).max()
            warn(
                f"the information of the reports is inaccurate: after {_STEPS} steps of conjugate "
                f"gradients a relative residual of {left:.1e} is left, {_TOLERANCE:g} was sought: "
                "variances and gains that follow from it are rough, as they are for large budgets"
            )
        return h

    def total_variance(self) -> float:
        """Return tr(J⁻¹) on Σ = 0: the variances of all values, times the number of reports."""
        d = self.form.d
        if d <= _EXACT:
            inverse = self.solve(np.eye(d) - 1 / d)
            return float(np.trace(inverse))
        # xᵀ J⁻¹ x of random signs x has the trace as its mean; J⁻¹ is nearly a multiple of I, so
        # that it hardly varies.
        signs = np.random.default_rng(_SEED).choice([-1.0, 1.0], (_DIRECTIONS, d))
        centred = signs - signs.mean(axis=1, keepdims=True)
        quadratic = np.sum(centred * self.solve(centred), axis=1)
        # Each direction by its own length, which centring has shortened.
        mean_variance = np.mean(quadratic / _squares(centred)[:, 0])
        return float(mean_variance * (d - 1))

    def _times(self, rows: Array) -> Array:
        """Return J x on Σ = 0 for each row."""
        image = self.form.counts(self._curvature * self.form.sums(rows))
        return np.asarray(image - image.mean(axis=-1, keepdims=True))


def _squares(rows: Array) -> Array:
    return np.asarray(np.sum(rows * rows, axis=-1, keepdims=True))
