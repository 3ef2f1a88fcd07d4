"""The Fisher information of reports whose bits are independent: a diagonal plus low rank.

Let a report be a row of bits that are 1 with probability q, and as likely under the value v as
1 + (r-1) B_v times that. Under frequencies f it is s = 1 + (r-1) Σ f B times as likely, and with
1/s = ∫ e^(-ts) dt every mean over reports becomes one integral over a product of d factors,

    k = E[1/s²] = ∫ ω,   W_v = E[B_v/s²] = q ∫ ω a_v,   E[B_u B_v/s²] = q² ∫ ω a_u a_v,

    φ_v = 1-q + q e^(-t(r-1) f_v),   a_v = e^(-t(r-1) f_v)/φ_v,   ω = e^(-t) Π φ_v / E[s] dt,

so that on some dozen points t the information J = E[L Lᵀ/s²], L = 1 + (r-1) B, is exactly

    J = diag(D) + ∫ ω b bᵀ,   b = 1 + (r-1) q a,   D_v = (r-1)² (W_v - q² ∫ ω a_v²) > 0.

It depends on the start alone. Means over the reports themselves would do in its place for a single
value; yet they err in the direction in which the estimate errs, and over d values that adds up to
d/n, more than the noise of a frequent one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ldpopt.covariance import Covariance
from ldpopt.immutable import Immutable, derived_property

Array = NDArray[np.float64]

# Gauss points on each piece: no number that follows moves by more than 1e-9.
_POINTS = 10
_PIECES = 11
_REACH = 25.0  # s is at least 1, and e⁻²⁵ is nothing beside that
_SPREAD = 0.2  # of s by what is set apart: beyond, rare sums below 0 would count at _REACH
_FEW_MEMBERS = 32  # of a set, up to which what one member says of the others is not neglected
_CELLS = 1 << 21  # exponentials held at a time: 16 MB
_NOTHING = 1e-9  # of the diagonal: directions with less information are left out
_SMALLEST = 1e-9  # of a variance, relative to that before the users' own is taken off


class BitInformation(Immutable):
    """J at a start f, what follows from it on Σh = 0, and the means of the powers of 1/s.

    Where all reports support k of d values, their bits are not independent, but vary as those do
    after the certain part of s, k times the mean of f, is set apart: to a relative 1/k, since a
    member leaves fewer places to others. Up to k = 32 the diagonal is exact (``diagonal_of_sets``).

    Parameters
    ----------
    start
        f on the simplex, shape (d,).
    more
        r - 1, with r the likelihood ratio of the oracle.
    q
        Probability that a report supports another value than the user's.
    size
        How many values every report supports; None where that differs.
    """

    def __init__(self, start: Array, more: float, q: float, size: int | None) -> None:
        d = len(start)
        self.start = start
        self.more = more
        self._size = size
        self.share = q if size is None else size / d
        # The part of each frequency that the size makes certain.
        apart = 0.0
        # Of a set, a bit that is 0 makes the others likelier: on Σh = 0 all vary by so much more.
        self._apart = 1.0
        if size is not None:
            spread = more * math.sqrt(d * self.share * (1 - self.share))
            apart = min(1 / d, _SPREAD / spread)
            self._apart = d / (d - 1)
        self.weights = more * (start - apart)
        certain = 1 + more * apart * self.share * d
        mean = 1 + more * self.share
        self.t, width = _quadrature()
        logs = -self.t * certain
        for _, falling in self._blocks():
            logs += np.log1p(self.share * (falling - 1)).sum(axis=0)
        self.omega = width * np.exp(logs) / mean
        # E[1/s], E[1/s²] and E[1/s³].
        self.powers = (1 / mean, float(self.omega.sum()), float(self.omega @ self.t))

    @property
    def gain(self) -> float:
        """κ = E[1/s²]/E[1/s]² >= 1: the precision of a rare value's estimate over that of counts.

        Where all supports have the same total it is 1, up to rounding.
        """
        one, two, _ = self.powers
        return max(1.0, two / one**2)

    @derived_property
    def _diagonal_of_few(self) -> Array | None:
        """D where a report supports few values; None where it may support any number, or many."""
        if self._size is None or not 0 < self._size <= min(_FEW_MEMBERS, len(self.start) - 1):
            return None
        diagonal = diagonal_of_sets(self.start, self.more, self._size)
        diagonal.flags.writeable = False
        return diagonal

    def step(self, score: Array) -> Array:
        """Return h = J⁻¹ (score - ν 1) with Σh = 0, shape (d,): the step of Fisher scoring."""
        diagonal, basis = self.parts()
        # Parts that are the same for all values are in ν: without them less is rounded.
        sides = np.column_stack([score - score.mean(), np.ones_like(score)])
        free, ones = _solved(diagonal, basis, sides).T
        return np.asarray(free - ones * (free.sum() / ones.sum()))

    def parts(self) -> tuple[Array, Array]:
        """Return D of shape (d,) and U of shape (d, k), k small: J = diag(D) + U Uᵀ."""
        d = len(self.start)
        diagonal = np.empty(d)
        rows = np.empty((d, len(self.t)))
        root = np.sqrt(self.omega)
        for block, falling in self._blocks():
            a = falling / (1 + self.share * (falling - 1))
            scaled = self.more * self.share * a
            rows[block] = (1 + scaled) * root
            # W - q² ∫ ω a² in one sum without cancellation: 0 <= q a <= 1.
            diagonal[block] = self.more * ((scaled * (1 - self.share * a)) @ self.omega)
        diagonal *= self._apart
        if self._diagonal_of_few is not None:
            diagonal = self._diagonal_of_few
        gram = rows.T @ (rows / diagonal[:, None])
        sizes, directions = np.linalg.eigh(gram)
        # Neighbouring points say nearly the same: a dozen directions hold all information.
        return diagonal, rows @ directions[:, sizes > _NOTHING]

    def covariance(self, n: int) -> Covariance:
        """Return the covariance of start + step, of n reports, about the frequencies of the users.

        It is J⁻¹/n on Σh = 0, less the variance of drawing the users themselves, (diag f - f fᵀ)/n.
        """
        diagonal, basis = self.parts()
        ones = _solved(diagonal, basis, np.ones((len(diagonal), 1)))
        k = basis.shape[1]
        scaled = basis / diagonal[:, None]
        inner = np.eye(k) + basis.T @ scaled
        # The inverse of the information by Woodbury's formula, on steps whose sum is 0. From it the
        # covariance of the users' values, diag(f) - f fᵀ, is taken: their own frequencies are the
        # truth here.
        core = np.zeros((k + 2, k + 2))
        core[:k, :k] = -np.linalg.inv(inner)
        core[k, k] = -1 / ones.sum()
        core[k + 1, k + 1] = 1.0
        columns = np.column_stack([scaled, ones, self.start])
        independent = 1 / diagonal
        # Rounding must not leave a value without a variance.
        left = np.maximum(independent - self.start, _SMALLEST * independent)
        return Covariance(left, columns, core).scaled(1 / n)

    def _blocks(self) -> Iterator[tuple[slice, Array]]:
        """Yield blocks of values with e^(-t(r-1) f) at all points, shape (values, points)."""
        step = max(1, _CELLS // len(self.t))
        for first in range(0, len(self.weights), step):
            block = slice(first, first + step)
            yield block, np.exp(-np.outer(self.weights[block], self.t))


def _solved(diagonal: Array, basis: Array, sides: Array) -> Array:
    """Return (diag(D) + U Uᵀ)⁻¹ of columns, by Woodbury's identity."""
    scaled = basis / diagonal[:, None]
    inner = np.eye(basis.shape[1]) + basis.T @ scaled
    alone = sides / diagonal[:, None]
    return np.asarray(alone - scaled @ np.linalg.solve(inner, basis.T @ alone))


def _decays(start: Array, more: float, t: Array) -> Array:
    """Return e^(-t (r - 1) f_v), shape (values, points)."""
    return np.exp(-more * np.multiply.outer(start, t))


def diagonal_of_sets(start: Array, more: float, size: int) -> Array:
    """Return D exactly, shape (d,), where every report supports ``size`` of d values.

    A member leaves fewer places to the others. With x_v = e^(-t(r-1) f_v), the mean of Π x over the
    members of all sets is the coefficient of z^size in Π (1 + z x_v), over that of (1 + z)^d; it is
    a mean over points z of a circle, on which values are independent: a_v = z x_v/(1 + z x_v).

    Parameters
    ----------
    start, more
        As in ``BitInformation``.
    size
        The number of values that every report supports, 1 .. d - 1.

    Notes
    -----
    Cost: about 60 (size + 8 √size + 16) complex exponentials per value.
    """
    d = len(start)
    t, width = _quadrature()
    # Coefficients further from ``size`` than this have no mass.
    nodes = min(d + 1, size + 8 * math.isqrt(size) + 16)
    half = np.arange(nodes // 2 + 1)
    # Points below the axis are conjugates of those above: they count by twice the real part.
    count = np.where((half == 0) | (2 * half == nodes), 1.0, 2.0) / nodes
    angle = 2 * np.pi * half / nodes
    # At this radius the terms cancel least where frequencies are flat.
    radius = size / (d - size)
    z = radius * np.exp(1j * angle)
    # The logarithm of how many sets of this size there are, the coefficient of z^size in (1 + z)^d.
    log_sets = math.lgamma(d + 1) - math.lgamma(size + 1) - math.lgamma(d - size + 1)
    logs = -t[:, None] - 1j * size * angle - log_sets - size * math.log(radius)
    # In blocks of values: all of them on all points would not fit into memory.
    step = max(1, _CELLS // (len(t) * len(z)))
    blocks = [slice(first, first + step) for first in range(0, d, step)]
    # The product over all values, as a sum of logarithms: it leaves the range of doubles.
    for block in blocks:
        x = _decays(start[block], more, t)
        logs = logs + np.log1p(x[:, :, None] * z).sum(axis=0)
    # Weights of the points (t, z) in the mean over sets and the integral over t.
    omega = np.exp(logs) * count * width[:, None] / (1 + more * size / d)
    diagonal = np.empty(d)
    for block in blocks:
        x = _decays(start[block], more, t)
        a = x[:, :, None] * z
        # A value's probability to be supported, at each point of the circle.
        a /= 1 + a
        diagonal[block] = more**2 * np.einsum("vtz,tz->v", a * (1 - a), omega).real
    return diagonal


def _quadrature() -> tuple[Array, Array]:
    """Return points and weights for integrals over t > 0 whose integrand falls like e^-t."""
    x, w = np.polynomial.legendre.leggauss(_POINTS)
    # Pieces of doubling length: the integrand has its mass, and its curvature, near 0.
    edges = np.append(0.0, _REACH * 2.0 ** np.arange(1 - _PIECES, 1))
    half = np.diff(edges) / 2
    middle = edges[:-1] + half
    points = middle[:, None] + half[:, None] * x
    weights = half[:, None] * w
    return points.ravel(), weights.ravel()
