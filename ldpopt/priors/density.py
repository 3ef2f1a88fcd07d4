"""Priors given by a log-density on the counts: one smooth curve from estimates to posteriors, whatever the family."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, LdpoptWarning
from ldpopt.estimate import FrequencyEstimate
from ldpopt.priors.base import Posterior, Prior
from ldpopt.priors.curve import read_off
from ldpopt.priors.fitting import Kind, LikelihoodFit, maximise
from ldpopt.priors.summation import NODES, graded, merged, resolved_blocks, rule

Array = NDArray[np.float64]

_DROP = 30.0  # nats below the evidence at which counts are left out, beside log n for the weight of a count in the mean
_SPAN = 2.5  # standard deviations of the noise that one rule spans: its error is below 1e-11
CELL = 0.5  # standard deviations of the noise that one polynomial in y spans
FAR = 1e12  # standard deviations beyond which a posterior mean is at an end of 1 .. n and squares lose their meaning
_TERMS = 1 << 21  # nodes held at a time
_HUGE = 1e150  # what estimates are cut off at before they are squared
_ANCHORS = 128  # counts that bound the evidence from below


@dataclass(frozen=True)
class Noise:
    """Var[y | k] = sd² + slope k, in squared counts."""

    sd: float
    slope: float

    @classmethod
    def checked(cls, noise: float, slope: float, n: int, counts: Array) -> Noise:
        """Return the noise, or raise an error where a count or an estimate would have no variance."""
        found = cls(validate.real("noise", noise, above=0), validate.real("slope", slope))
        if found.slope:
            if found.variance(n) <= 0:
                raise InvalidInputError(
                    f"the noise must have a positive variance, got {found.sd:g}² {slope:+g} k at k = {n}"
                )
            bad = found.variance(counts) <= 0
            if bad.any():
                at = validate.first(bad)
                raise InvalidInputError(
                    f"value-dependent noise needs a positive variance at every estimate, found the count {counts[at]:g}"
                    f"{validate.placed(at)}: no support count gives it; use constant noise"
                )
        return found

    def variance(self, k: ArrayLike) -> Array:
        """Return Var[y | k]."""
        return self.sd**2 + self.slope * np.asarray(k, dtype=np.float64)

    def smallest(self, n: int) -> float:
        """Return the least standard deviation over counts up to n."""
        return math.sqrt(min(self.sd**2, float(self.variance(n))))

    def relative(self, y: Array, k: Array, nearest: Array) -> Array:
        """Return log φ((y-k)/s_k)/s_k - the same at the count ``nearest``, without cancellation for y far away."""
        step, away = k - nearest, y - nearest
        there = self.sd**2 + self.slope * nearest
        if not self.slope:
            return np.asarray(step * (away - step / 2) / there)
        here = self.variance(k)
        excess = step * ((step - 2 * away) * there - away**2 * self.slope)
        return np.asarray(-excess / (2 * here * there) - 0.5 * np.log(here / there))

    def at(self, y: Array, nearest: Array) -> Array:
        """Return log φ((y-k)/s_k)/s_k at the count ``nearest``; never minus infinity."""
        variance = self.variance(nearest)
        with np.errstate(over="ignore"):
            value = -((y - nearest) ** 2) / (2 * variance) - 0.5 * np.log(2 * math.pi * variance)
        return np.maximum(value, -np.finfo(np.float64).max)


class Density(Prior):
    """A prior π(k) ∝ exp(log_density(k)) on the counts 1 .. n.

    Subclasses give the log-density, also between whole counts, and the counts at which a new smooth piece begins
    (``breaks``). From these follow the normaliser, moments, posteriors and intervals, at a cost that
    grows with log n at most.
    """

    n: int

    @abstractmethod
    def log_density(self, k: Array) -> Array:
        """Return log π(k) up to a constant, for real k in 1 .. n; minus infinity where there is no mass."""

    @property
    def breaks(self) -> Array:
        """First counts of smooth pieces after the one that begins at 1: where the log-density jumps or has a kink."""
        return np.empty(0)

    @property
    def log_concave(self) -> bool:
        """Whether the log-density is concave: posteriors then are looked for around their one mode, however sharp."""
        return False

    # --- sums over counts ---------------------------------------------------------------------------------------------

    @cached_property
    def _starts(self) -> Array:
        return self._graded()

    def _graded(self) -> Array:
        """Return the blocks to start with: short next to breaks."""
        inner = np.asarray(self.breaks, dtype=np.float64)
        return graded(np.append(1.0, np.unique(inner[(inner > 1) & (inner <= self.n)])), self.n)

    @property
    def _tried(self) -> Array:
        """Counts at which mass is looked for."""
        return self._starts

    @cached_property
    def _anchors(self) -> tuple[Array, Array]:
        """Some counts with positive mass, and their log-densities."""
        level = self.log_density(self._tried)
        found = np.flatnonzero(level > -np.inf)
        if not len(found):
            raise InvalidInputError(
                "the log-density is minus infinity at 1 and at every break: the prior has no mass"
            )
        found = found[:: -(-len(found) // _ANCHORS)]
        return self._tried[found], level[found]

    @cached_property
    def _mass(self) -> tuple[float, float, float]:
        """Log of the normaliser, mean and variance of the prior."""
        low, high = np.ones(1), np.full(1, float(self.n))
        if self.log_concave:
            low, high = self._around_mode(np.ones(1), None)
        first, size = resolved_blocks(self.log_density, self._starts, self.n, low, high)
        offset, weight = rule(size.astype(np.int64))
        k = first[:, None] + offset
        with np.errstate(divide="ignore"):
            level = self.log_density(k) + np.log(weight)
        top = level.max()
        share = np.exp(level - top)
        total = share.sum()
        mean = float((share * k).sum() / total)
        variance = float((share * (k - mean) ** 2).sum() / total)
        return float(top + math.log(total)), mean, variance

    def mean(self) -> float:
        """Return E[k] of the prior."""
        return self._mass[1]

    def variance(self) -> float:
        """Return Var[k] of the prior."""
        return self._mass[2]

    # --- posteriors ---------------------------------------------------------------------------------------------------

    def posterior(self, counts: ArrayLike, noise: float, *, slope: float = 0.0) -> Posterior:
        """Return the posterior moments and evidence for estimated counts (K Eq. 11).

        Parameters
        ----------
        counts
            Estimated counts y, any shape; negative ones and ones above n too.
        noise, slope
            Var[y | k] = noise² + slope k, in squared counts.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If a count is not finite or a variance not positive.

        Notes
        -----
        Few points a standard deviation are computed by quadrature, the rest read off by interpolation; both are refined
        until relative errors are below about 1e-10. Cost: some hundreds of points, whatever n and the noise, and one
        polynomial an estimate.
        """
        y = finite(counts)
        level = Noise.checked(noise, slope, self.n, y)
        clipped = np.clip(y.ravel(), 1 - FAR * level.sd, self.n + FAR * level.sd)
        found = read_off(
            lambda points: self.moments_at(points, level), clipped, CELL * level.smallest(self.n)
        )
        mean, variance, evidence = found.reshape(3, *y.shape)
        beyond = clipped.reshape(y.shape) != y
        if beyond.any():
            nearest = np.where(y[beyond] < 1, 1.0, float(self.n))
            evidence[beyond] += level.at(y[beyond], nearest) - level.at(
                clipped.reshape(y.shape)[beyond], nearest
            )
            evidence[beyond] = np.maximum(evidence[beyond], -np.finfo(np.float64).max)
        return Posterior(mean, variance, evidence)

    def moments_at(self, y: Array, noise: Noise) -> Array:
        """Return posterior mean, variance and log-evidence at few points, by quadrature for each: (3, m)."""
        result = np.empty((3, len(y)))
        nearest = np.clip(np.rint(y), 1, self.n)
        for rows, _, k, level in self._weights(y, noise, nearest):
            top = level.max(axis=1, keepdims=True)
            weight = np.exp(level - top)
            total = weight.sum(axis=1)
            mean = (weight * k).sum(axis=1) / total
            result[0, rows] = mean
            result[1, rows] = (weight * (k - mean[:, None]) ** 2).sum(axis=1) / total
            result[2, rows] = top[:, 0] + np.log(total)
        result[2] += noise.at(y, nearest) - self._mass[0]
        return result

    def _weights(
        self, y: Array, noise: Noise, nearest: Array
    ) -> Iterator[tuple[NDArray[np.int64], tuple[Array, Array], Array, Array]]:
        """Yield (rows, first counts and stops of blocks, nodes, log-weights) for chunks of the points."""
        low, high = self._reach(y, noise, nearest)
        first, size = resolved_blocks(self.log_density, self._starts, self.n, *merged(low, high))
        deviation = np.sqrt(np.minimum(noise.variance(first), noise.variance(first + size)))
        pieces = np.ceil(size / np.maximum(_SPAN * deviation, NODES))
        before = np.append(0.0, np.cumsum(pieces))

        def locate(k: Array) -> Array:
            block = np.clip(np.searchsorted(first, k, side="right") - 1, 0, len(first) - 1)
            inside = np.clip(
                np.floor((k - first[block]) * pieces[block] / size[block]), 0, pieces[block] - 1
            )
            return np.asarray(before[block] + inside)

        begin, end = locate(low), locate(high)
        left, right = merged(begin, end)
        lengths = (right - left + 1).astype(np.int64)
        offset = np.append(0, np.cumsum(lengths))
        piece = np.repeat(left - offset[:-1], lengths) + np.arange(offset[-1])
        block = np.searchsorted(before, piece, side="right") - 1
        inside = piece - before[block]
        start = first[block] + np.floor(inside * size[block] / pieces[block])
        stop = first[block] + np.floor((inside + 1) * size[block] / pieces[block])
        at, weight = rule((stop - start).astype(np.int64))
        nodes = start[:, None] + at
        with np.errstate(divide="ignore"):
            logs = self.log_density(nodes) + np.log(weight)
        group = np.searchsorted(left, begin, side="right") - 1
        begin = (begin - left[group]).astype(np.int64) + offset[group]
        count = (end - left[group]).astype(np.int64) + offset[group] - begin + 1
        order = np.argsort(count, kind="stable")
        position = 0
        while position < len(y):
            widths = count[order[position:]] * NODES * np.arange(1, len(y) - position + 1)
            rows = order[
                position : position + max(1, int(np.searchsorted(widths, _TERMS, side="right")))
            ]
            position += len(rows)
            steps = np.arange(count[rows].max())
            index = np.minimum(begin[rows, None] + steps, len(piece) - 1)
            k = nodes[index].reshape(len(rows), -1)
            level = np.where((steps < count[rows, None])[..., None], logs[index], -np.inf).reshape(
                len(rows), -1
            )
            level += noise.relative(y[rows, None], k, nearest[rows, None])
            yield rows, (start[index], stop[index]), k, level

    def _reach(self, y: Array, noise: Noise, nearest: Array) -> tuple[Array, Array]:
        """Return the counts (low, high) outside which a posterior has no weight that matters."""
        if self.log_concave:
            return self._around_mode(y, noise)
        # One count's term bounds the evidence from below; outside R standard deviations at most exp(-R²/2) is left.
        anchors, level = self._anchors
        best = np.max(level + noise.relative(y[:, None], anchors, nearest[:, None]), axis=1)
        best = np.maximum(best, self.log_density(nearest)) - self._mass[0]
        spread = noise.variance(nearest)
        away = (y - nearest) ** 2 / spread
        smallest = noise.smallest(self.n)
        radius = np.sqrt(
            away
            + 2
            * np.maximum(
                _DROP + math.log(self.n) + 0.5 * np.log(spread) - math.log(smallest) - best, 0
            )
        )
        # |y - k| = radius s_k: a quadratic equation in k where the noise depends on it.
        middle = y + radius**2 * noise.slope / 2
        half = (
            radius
            * np.sqrt(np.maximum(noise.variance(y) + (radius * noise.slope / 2) ** 2, 0))
            * (1 + 1e-12)
        )
        return (
            np.clip(np.floor(np.minimum(middle - half, nearest)), 1, self.n),
            np.clip(np.ceil(np.maximum(middle + half, nearest)), 1, self.n),
        )

    def _around_mode(self, y: Array, noise: Noise | None) -> tuple[Array, Array]:
        """Return where a log-concave posterior (without noise: the prior) is within ``_DROP`` of its mode."""
        nearest = np.clip(np.rint(y), 1, self.n)

        def level(k: Array) -> Array:
            return self.log_density(k) + (noise.relative(y, k, nearest) if noise else 0.0)

        low, high = np.ones(len(y)), np.full(len(y), float(self.n))
        while (high - low > 2).any():  # the mode lies between neighbours that rise and fall
            middle = np.floor((low + high) / 2)
            rising = level(np.minimum(middle + 1, self.n)) > level(middle)
            low, high = (
                np.where(rising, middle, low),
                np.where(rising, high, np.minimum(middle + 1, high)),
            )
        candidates = np.stack([low, np.minimum(low + 1, high), high])
        levels = np.stack([level(k) for k in candidates])
        mode = candidates[levels.argmax(axis=0), np.arange(len(y))]
        floor = levels.max(axis=0) - _DROP - 2 * math.log(self.n)
        ends = []
        for end in (1.0, float(self.n)):
            outside, inside = np.full(len(y), end), mode
            while (np.abs(outside - inside) > 1).any():
                middle = np.rint((outside + inside) / 2)
                within = level(middle) >= floor
                inside, outside = (
                    np.where(within, middle, inside),
                    np.where(within, outside, middle),
                )
            ends.append(outside)
        return ends[0], ends[1]

    # --- fits ---------------------------------------------------------------------------------------------------------

    @classmethod
    def parameters(cls) -> Mapping[str, Kind]:
        """Return the names of what a fit determines, each with the range it lies in."""
        return {}

    @classmethod
    def from_moments(cls, mean: float, variance: float, n: int) -> Self:
        """Return the member of the family with this mean and variance of the true counts (K Eq. 17-18).

        Families with one parameter use the mean alone. Where no member has these moments the nearest limit is returned, with
        a warning. Families without parameters raise an error.
        """
        raise InvalidInputError(f"{cls.__name__} has no parameters to fit: construct it instead")

    @classmethod
    def fit(
        cls, estimate: FrequencyEstimate, *, by: str = "moments", value_dependent: bool = False
    ) -> Self:
        """Return the member of this family that fits one vector of estimated frequencies.

        Parameters
        ----------
        estimate
            With n and an oracle, frequencies of shape (d,).
        by
            ``moments`` equates mean and variance, E ŷ = E k and Var ŷ = Var k + s² (K Eq. 17-20); ``likelihood`` maximises
            Σ_v log Σ_k π(k) φ((y_v-k)/s) (K Eq. 16); ``maximum_likelihood`` also gives standard errors.
        value_dependent
            Whether the variance of an estimate grows with the true count, s² + b k, instead of being s² for all.

        Raises
        ------
        InvalidInputError
            If ``by`` is unknown, the noise level is not known, or there is more than one vector.
        """
        if validate.lookup("way to fit", by, {"moments": False, "likelihood": True}):
            return cast(
                Self, cls.maximum_likelihood(estimate, value_dependent=value_dependent).prior
            )
        mean, variance, n = moments(estimate, value_dependent=value_dependent)
        return cls.from_moments(mean, variance, n)

    @classmethod
    def maximum_likelihood(
        cls, estimate: FrequencyEstimate, *, value_dependent: bool = False
    ) -> LikelihoodFit:
        """Return the member of this family under which the estimates are most likely, with standard errors (K Eq. 16).

        The search starts from the fit by moments. Where the likelihood has no maximum inside the range of the parameters
        (noise hides the counts) the point reached is returned, with a warning and infinite standard errors. Arguments and
        errors as of ``fit``. Cost: some dozens of posterior curves.

        Examples
        --------
        >>> from ldpopt import datasets, oracles
        >>> from ldpopt.priors import PowerLaw
        >>> data = datasets.load("zipf")
        >>> oracle = oracles.OUE(epsilon=2.0, d=data.d)
        >>> estimate = oracle.estimate(oracle.simulate_counts(data.counts, rng=0), data.n)
        >>> found = PowerLaw.maximum_likelihood(estimate)
        >>> print(f"alpha = {found.parameters['alpha']:.2f} ± {found.standard_errors['alpha']:.2f}")
        alpha = 1.40 ± 0.02
        """
        _, _, n = moments(estimate)
        return maximise(
            lambda values: cast(Any, cls)(**values, n=n),
            cls.start(estimate),
            cls.parameters(),
            estimate,
            estimate.noise[1].b if value_dependent else 0.0,
        )

    @classmethod
    def start(cls, estimate: FrequencyEstimate) -> dict[str, float]:
        """Return parameters to begin a search from: those of the fit by moments, away from limits.

        An error is raised where the family has no parameters.
        """
        mean, variance, n = moments(estimate)
        if not cls.parameters():
            raise InvalidInputError(
                f"{cls.__name__} has no parameters to fit: construct it instead"
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LdpoptWarning)  # a start need not be right
            variance = max(variance, (0.1 * n * estimate.sigma) ** 2, 1.0)
            first = cls.from_moments(min(max(mean, 2.0), (n + 1) / 2), variance, n)
        return {name: float(getattr(first, name)) for name in cls.parameters()}

    # --- intervals ----------------------------------------------------------------------------------------------------

    def interval(
        self, counts: ArrayLike, noise: float, level: float = 0.95, *, slope: float = 0.0
    ) -> tuple[Array, Array]:
        """Return (lower, upper) counts that hold a share ``level`` of each posterior, equal tails cut off.

        The lower end is the smallest count with Pr[k <= lower | y] >= (1 - level)/2, the upper end the smallest with
        Pr[k <= upper | y] >= (1 + level)/2: whole counts, found exactly.

        Parameters
        ----------
        counts, noise, slope
            As in ``posterior``.
        level
            In (0, 1).

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If a count is not finite, a variance not positive, or ``level`` out of range.
        """
        level = validate.real("level", level, above=0, below=1)
        y = finite(counts)
        checked = Noise.checked(noise, slope, self.n, y)
        lower = self._quantile(y, checked, np.full(y.shape, (1 - level) / 2))
        upper = self._quantile(y, checked, np.full(y.shape, (1 + level) / 2))
        return lower, upper

    def _quantile(self, counts: Array, noise: Noise, probability: Array) -> Array:
        """Return the smallest count k with Pr[counts up to k | y] >= probability, elementwise."""
        shape = counts.shape
        y = np.clip(counts.ravel(), 1 - FAR * noise.sd, self.n + FAR * noise.sd)
        nearest = np.clip(np.rint(y), 1, self.n)
        wanted, result = probability.ravel(), np.empty(len(y))
        if not len(y):
            return result.reshape(shape)
        for rows, (start, stop), k, level in self._weights(y, noise, nearest):
            top = level.max(axis=1, keepdims=True)
            mass = np.exp(level - top).reshape(len(rows), -1, NODES).sum(axis=2)
            target = wanted[rows] * mass.sum(axis=1)
            # From blocks to ever smaller ones, until single counts are left.
            while True:
                upto = np.cumsum(mass, axis=1)
                reached = np.count_nonzero(upto < (target * (1 - 1e-13))[:, None], axis=1)
                chosen = np.minimum(reached, mass.shape[1] - 1)[:, None]
                target = target - (np.take_along_axis(upto - mass, chosen, axis=1))[:, 0]
                begin = np.take_along_axis(start, chosen, axis=1)
                size = np.take_along_axis(stop, chosen, axis=1) - begin
                if (size <= 1).all():
                    break
                parts = np.floor(size * np.arange(NODES + 1) / NODES)
                start, stop = begin + parts[:, :-1], begin + parts[:, 1:]
                offset, weight = rule((stop - start).astype(np.int64).ravel())
                k = start[..., None] + offset.reshape(*start.shape, NODES)
                with np.errstate(divide="ignore"):
                    fine = self.log_density(k) + np.log(weight).reshape(k.shape)
                fine += noise.relative(y[rows, None, None], k, nearest[rows, None, None])
                mass = np.exp(fine - top[..., None]).sum(axis=2)
            result[rows] = begin[:, 0]
        return result.reshape(shape)


def moments(
    estimate: FrequencyEstimate, *, value_dependent: bool = False
) -> tuple[float, float, int]:
    """Return mean and variance of the true counts as the estimates have them (K Eq. 17-20), and n.

    The variance is that of the estimates less that of their noise; it may come out negative. A stack of trials raises an
    error.
    """
    estimate = FrequencyEstimate.of(estimate)
    n, oracle = estimate.noise
    f = estimate.frequencies
    if f.ndim != 1:
        raise InvalidInputError(
            f"a prior is fitted to one vector of shape (d,), got shape {f.shape}: fit each trial"
        )
    with np.errstate(over="ignore"):
        mean = float(np.clip(np.sum(f / len(f)), -_HUGE, _HUGE)) * n
        spread = float(np.clip(np.mean(np.clip(f * n - mean, -_HUGE, _HUGE) ** 2), 0, _HUGE**2))
    return mean, spread - oracle.a * n - (oracle.b * mean if value_dependent else 0.0), n


def point(k: Array, at: float) -> Array:
    """Return the log-density of all mass on one count."""
    return np.where(k == at, 0.0, -np.inf)


def finite(counts: ArrayLike) -> Array:
    """Return estimated counts as float64, or raise an error that names the first one that is not finite."""
    y = np.asarray(validate.array("counts", counts), dtype=np.float64)
    if not np.isfinite(y).all():
        at = validate.first(~np.isfinite(y))
        raise InvalidInputError(f"counts must be finite, found {y[at]}{validate.placed(at)}")
    return y
