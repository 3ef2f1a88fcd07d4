"""A series of collections: each round sharpened by those before and after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.closed_form.smoothing import random_walk_spread, random_walk_weights
from ldpopt.covariance import Covariance
from ldpopt.errors import InvalidInputError, InvalidTypeError, extra_needed
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.noise import Noise
from ldpopt.immutable import Immutable
from ldpopt.named_values import Places
from ldpopt.printable import counted
from ldpopt.sources.noise import CombinedCovariance, CombinedNoise, Part
from ldpopt.sources.source import Source
from ldpopt.sources.sources import (
    common_labels,
    origins_of,
    require_different_users,
    total_reports,
)
from ldpopt.sources.tables import of_rounds, ranged
from ldpopt.tables import ShownAsTable, TitledTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Index = NDArray[np.int64]

# Drifts that are tried, over the noise of a round: a hundredth of it lets all rounds count alike,
# and a hundred times it lets each count alone.
_GRID = np.concatenate([[0.0], np.geomspace(0.01, 100.0, 33), [np.inf]])

# Ends of the classes of values, by the mean over all rounds in units of its noise: frequent values
# move further than rare ones, and one drift for all would smooth them away.
_CLASSES = 4.0 ** np.arange(1, 8)


class Rounds(ShownAsTable, Immutable):
    """Estimates of T rounds after smoothing over time: what ``rounds`` returns.

    Rounds are counted from 0 everywhere: ``series[0]``, the first row of the table and the first
    point of a picture are the same round.

    Attributes
    ----------
    estimates
        One per round, raw in kind: every method applies to it.
    drift
        Standard deviation, in units of frequency, by which each value moves from one round to the
        next, as it was given or chosen, shape (d,).
    risk
        Estimated mean squared error of all rounds together, and of the raw rounds: a pair. None
        where the drift was given.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        drift: Array,
        risk: tuple[float, float] | None,
    ) -> None:
        self.drift = drift
        self.risk = risk
        self._sources = tuple(sources)
        # Values of one drift share their weights: T² numbers per drift, not per value.
        distinct, self._class = np.unique(drift, return_inverse=True)
        self._weights = random_walk_weights(_precisions(sources), distinct)
        self._spread = random_walk_spread(self._weights, distinct)
        smoothed = _smoothed(self._weights, self._class, _frequencies(sources))
        labels = common_labels(sources)
        # Linear in raw estimates, and so unbiased up to the drift: raw in kind.
        self.estimates = tuple(
            FrequencyEstimate(
                frequencies,
                noise=self._noise(t),
                is_raw=True,
                labels=labels,
                method="base",
            )
            for t, frequencies in enumerate(smoothed)
        )

    def weights(self, value: int | str) -> Array:
        """Return what each round (row) takes from each measurement of a value, shape (T, T).

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If the value is no index or label of the domain.
        """
        return np.asarray(self._weights[self._class[self._place(value)]])

    def _place(self, value: int | str) -> int:
        """Return the index of a value that is given by its index or label."""
        first = self.estimates[0]
        if isinstance(value, str):
            return Places(first.labels or ()).of(value, "values")
        if np.iterable(value):
            raise InvalidTypeError(f"a value must be one index or label, got {value!r}")
        return int(validate.whole_numbers("values", [value], low=0, high=first.d - 1)[0])

    def _noise(self, t: int) -> Noise:
        """Return the noise of round t: of reports, and of the drift since or until then."""
        shares = self._weights[self._class, t].T  # (T, d)
        noises = [source.estimate.noise for source in self._sources]
        # The part of the drift is a constant, and that of the reports follows the frequency.
        constant: Array = self._spread[self._class, t]
        slope: Array = np.zeros_like(constant)
        for share, noise in zip(shares, noises, strict=True):
            constant = constant + share**2 * noise.constant
            slope = slope + share**2 * noise.slope
        joint = _RoundCovariance(self._sources, shares, self._spread[self._class, t])
        # One number where all values have the same: some losses and priors need that.
        if np.ptp(constant) == 0 and np.ptp(slope) == 0:
            constant = constant[0]
            slope = slope[0]
        origins: frozenset[Any] = frozenset()
        for source in self._sources:
            origins |= origins_of(source.estimate)
        count = total_reports(self._sources)
        return CombinedNoise(constant, slope, count, joint=joint, origins=origins)

    def __len__(self) -> int:
        return len(self.estimates)

    def __iter__(self) -> Iterator[FrequencyEstimate]:
        return iter(self.estimates)

    @overload
    def __getitem__(self, t: int) -> FrequencyEstimate: ...
    @overload
    def __getitem__(self, t: slice) -> tuple[FrequencyEstimate, ...]: ...
    def __getitem__(self, t: int | slice) -> FrequencyEstimate | tuple[FrequencyEstimate, ...]:
        try:
            return self.estimates[t]
        except (IndexError, TypeError):
            raise InvalidInputError(
                f"rounds[{t!r}] is not a round: their numbers are 0 to {len(self) - 1}"
            ) from None

    def plot(self, values: Sequence[int | str], level: float = 0.95) -> Figure:
        """Return a picture of some values over the rounds, raw and smoothed, with bands.

        Parameters
        ----------
        values
            Indices or labels of the values.
        level
            Probability, in (0, 1), that a band covers the frequency of a value in a round.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If a value is not of the domain, there is none, or the level is not in (0, 1).
        """
        level = validate.confidence("level", level)
        if isinstance(values, str) or not np.iterable(values):
            raise InvalidTypeError(f"plot takes a list of values, [{values!r}], got {values!r}")
        places = [self._place(value) for value in values]
        if not places:
            raise InvalidInputError("there are no values to draw: pass indices or labels")
        with extra_needed():
            from ldpopt.sources.figure import rounds_figure  # loads matplotlib

        return rounds_figure(self.estimates, _frequencies(self._sources), places, level)

    def __repr__(self) -> str:
        return f"Rounds({self._title})"

    @property
    def _title(self) -> str:
        rounds = f"{counted(len(self), 'round')} of {self.estimates[0].d:,} values"
        return f"{rounds}, drift {ranged(self.drift)}"

    @property
    def _table(self) -> TitledTable:
        notes: tuple[str, ...] = ()
        if self.risk is not None:
            together, alone = self.risk
            notes = (
                f"unbiased estimate of the mean squared error over all rounds: {together:.3g}, of "
                f"each round alone: {alone:.3g}",
            )
            if together < 0:
                # Unbiased means that it may fall below 0, which looks like a defect.
                notes += ("the first is below 0 by chance: it is small beside its own error",)
        return of_rounds(self._title, self._sources, self.estimates, notes)


@dataclass(frozen=True)
class _RoundCovariance:
    """The covariance of one round's estimate: of weighted measurements and of the drift."""

    sources: tuple[Source, ...]
    shares: Array  # (T, d)
    spread: Array  # (d,)

    def __call__(self, frequencies: Array) -> CombinedCovariance:
        d = len(frequencies)
        none = np.zeros(d)
        # The drift is one more measurement, of 0, with independent errors and no reports.
        parts = [
            Part(source.estimate.noise.covariance(frequencies), none) for source in self.sources
        ]
        nothing = Covariance(np.ones(d), np.zeros((d, 0)), np.zeros((0, 0))).scaled(0.0)
        parts.append(Part(nothing, self.spread))
        shares = [*self.shares, np.ones(d)]
        return CombinedCovariance(d, self._drawn, self._joined, parts, shares)

    def _drawn(self, rows: Array) -> list[Array]:
        return [*(share * rows for share in self.shares), rows]

    def _joined(self, rows: Sequence[Array]) -> Array:
        *measured, independent = rows
        parts = [share * row for share, row in zip(self.shares, measured, strict=True)]
        return np.asarray(np.sum(parts, axis=0) + independent)


def rounds(
    estimates: Sequence[Source | FrequencyEstimate],
    drift: Literal["risk"] | ArrayLike = "risk",
    *,
    independent: bool = False,
) -> Rounds:
    """Return the estimates of a series of collections, each sharpened by the others.

    A frequency moves from one round to the next by steps of mean 0 and standard deviation
    ``drift``; the estimate of each round is the best linear one under this model, a weighted mean
    over all rounds (a Kalman smoother without a prior for the first round).

    Parameters
    ----------
    estimates
        Raw estimates of one domain in the order of time, each with its noise. Users, budgets and
        oracles may differ from round to round.
    drift
        One number >= 0 in units of frequency, or one for each value; infinity lets each round
        stand alone. With ``"risk"`` it is chosen: the one with the smallest unbiased estimate of
        the error (Stein 1981), for values of similar frequency separately.
    independent
        As of ``Sources``: rounds with the same numbers are of different users all the same.

    Returns
    -------
    ``Rounds``: a sequence of estimates, ``.drift``, ``.risk`` and ``.plot(values)``.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If there are fewer than two rounds, domains or labels differ, an estimate has no noise, is
        processed or a stack, or a drift is negative.

    Notes
    -----
    The noise of each result has the part of the drift, so that intervals cover the frequency of
    that round, if values move as far as the drift states: a value that moves much further than
    others of its order is covered less often (.7 in place of .95 for one that moved ten times as
    far). The drift includes that the users of each round are a sample. Cost: T² d operations, per
    drift tried.

    Examples
    --------
    >>> from ldpopt import oracles
    >>> oracle = oracles.OUE(1.0, d=3)
    >>> weeks = [oracle.estimate([c, 3_400, 2_900], 10_000) for c in (4_100, 4_000, 4_150)]
    >>> year = rounds(weeks, drift=0.0)
    >>> year[0].frequencies.round(3), round(year[0].sigma / weeks[0].sigma, 3)
    (array([0.603, 0.308, 0.091]), 0.577)
    """
    if isinstance(estimates, Source | FrequencyEstimate) or not np.iterable(estimates):
        raise InvalidTypeError("rounds takes a list of estimates, in the order of time")
    sources = [Source.named(each, f"round {t}") for t, each in enumerate(estimates)]
    if len(sources) < 2:
        raise InvalidInputError(f"rounds need each other: pass at least two, got {len(sources)}")
    for source in sources:
        if source.groups is not None or np.any(source.drift):
            raise InvalidInputError(
                f"{source.name} has groups or a drift of its own: rounds are estimates of the "
                "values; combine several measurements of one round by Sources first"
            )
    common_labels(sources)
    if not independent:
        require_different_users(sources)
    d = sources[0].size
    if isinstance(drift, str):
        if drift != "risk":
            raise InvalidInputError(f'drift must be "risk" or numbers, got {drift!r}')
        return Rounds(sources, *_drift_by_risk(sources))
    return Rounds(sources, _checked_drift(drift, d), None)


def _checked_drift(drift: ArrayLike, d: int) -> Array:
    values = np.asarray(validate.array("drift", drift), dtype=np.float64)
    if values.shape not in {(), (d,)}:
        raise InvalidInputError(f"drift must be one number or {d}, got shape {values.shape}")
    is_wrong = ~(values >= 0)
    if is_wrong.any():
        at = validate.first(is_wrong)
        raise InvalidInputError(f"drift must be >= 0, found {values[at]:g}{validate.placed(at)}")
    return np.broadcast_to(values, d).copy()


def _drift_by_risk(sources: Sequence[Source]) -> tuple[Array, tuple[float, float]]:
    """Return the drift with the smallest estimated error for each class of values, and risks."""
    measured = _frequencies(sources)
    precisions = _precisions(sources)
    # Unbiased: the variance is linear in the frequency, of which the estimate is unbiased.
    variances = np.stack(
        [source.variance(row) for source, row in zip(sources, measured, strict=True)]
    )
    unit = 1 / np.sqrt(precisions.mean())
    # Weights do not depend on the values: those of all drifts serve all classes.
    weights = random_walk_weights(precisions, _GRID * unit)
    mean = precisions @ measured / precisions.sum()
    classes = np.digitize(mean * np.sqrt(precisions.sum()), _CLASSES)
    moved = weights - np.eye(len(sources))
    kept = np.einsum("ktt->kt", weights)
    drift = np.empty(measured.shape[1])
    chosen = 0.0
    for each in np.unique(classes):
        members = classes == each
        # Stein: ‖M y‖² - tr C + 2 tr(K C) with K = I + M; the noise tr C is the same for all.
        steps = moved @ measured[:, members]
        distances = np.sum(steps**2, axis=(1, 2))
        own_noise = variances[:, members].sum(axis=1)
        risks = distances + 2 * kept @ own_noise
        best = int(np.argmin(risks))
        drift[members] = _GRID[best] * unit
        chosen += float(risks[best])
    noise = float(variances.sum())
    size = measured.size
    return drift, ((chosen - noise) / size, noise / size)


def _frequencies(sources: Sequence[Source]) -> Array:
    return np.stack([source.estimate.frequencies for source in sources])


def _precisions(sources: Sequence[Source]) -> Array:
    """Return the weight of each round: 1/variance at the uniform distribution, shape (T,)."""
    variances = [source.variance(1 / source.size).mean() for source in sources]
    return 1 / np.array(variances)


def _smoothed(weights: Array, classes: Index, measured: Array) -> Array:
    """Return the weighted means over time, shape (T, d)."""
    result = np.empty_like(measured)
    for each, rows in enumerate(weights):
        members = classes == each
        result[:, members] = rows @ measured[:, members]
    return result
