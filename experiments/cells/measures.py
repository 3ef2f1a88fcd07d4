"""What is measured on a chunk of trials: a measure is declared by its fields.

Random sets are drawn once per cell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from experiments.cells.moments import Moments
from experiments.cells.treatments import TREATMENTS
from ldpopt import FrequencyEstimate, select_method
from ldpopt.closed_form import significance_threshold
from ldpopt.datasets import Dataset
from ldpopt.estimate.sets import membership
from ldpopt.oracles.base import FrequencyOracle

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = NDArray[np.float64]
Estimates = Mapping[str, FrequencyEstimate]
Evaluate = Callable[[FrequencyEstimate, Estimates, np.random.Generator], list[Moments]]

TRUTH = "truth"
SELECTED = "selected"


class Measure(Protocol):
    """A quantity of the figures."""

    def start(
        self, data: Dataset, oracle: FrequencyOracle | None, rng: np.random.Generator
    ) -> Evaluate:
        """Draw the cell's sets; return the function (raw, treated estimates, rng) -> moments."""


def _values(estimate: FrequencyEstimate) -> Array:
    """Return the answers to the d queries for single values: Post-Pos clips them (N V-C)."""
    return np.maximum(estimate.frequencies, 0.0) if estimate.clip_answers else estimate.frequencies


def _answers(estimate: FrequencyEstimate, sets: csr_array) -> Array:
    """Return the answers to set queries from a membership matrix that was checked once."""
    answers = (sets @ estimate.frequencies.T).T
    return np.maximum(answers, 0.0) if estimate.clip_answers else answers


def _stack(columns: list[Array]) -> Array:
    """Return one (trials, parameters) or (trials,) array per method as one stacked array.

    Its shape is (trials, parameters, methods).
    """
    return np.stack([c if c.ndim == 2 else c[:, None] for c in columns], axis=-1)


@dataclass(frozen=True)
class FullDomain:
    """Mean squared and mean absolute error over all values (N V-A, D C.2).

    With ``in_counts`` the errors are those of counts (K Eq. 5).
    """

    in_counts: bool = False

    def start(
        self, data: Dataset, oracle: FrequencyOracle | None, rng: np.random.Generator
    ) -> Evaluate:
        # K counts users, N and D their shares.
        unit = data.n if self.in_counts else 1

        def evaluate(
            _: FrequencyEstimate, estimates: Estimates, __: np.random.Generator
        ) -> list[Moments]:
            off = [(_values(e) - data.frequencies) * unit for e in estimates.values()]
            errors = {
                "mse": [np.mean(x**2, axis=-1) for x in off],
                "mae": [np.mean(np.abs(x), axis=-1) for x in off],
            }
            suffix = " (counts)" if self.in_counts else ""
            return [
                Moments.of("full domain", m + suffix, [""], [*estimates], _stack(e))
                for m, e in errors.items()
            ]

        return evaluate


@dataclass(frozen=True)
class RandomSets:
    """Mean squared error of sums over uniform sets of ⌊ρd/100⌋ values, drawn per cell (N V-D)."""

    percents: tuple[int, ...]
    sets: int = 200

    def start(
        self, data: Dataset, oracle: FrequencyOracle | None, rng: np.random.Generator
    ) -> Evaluate:
        members = np.zeros((len(self.percents), self.sets, data.d), dtype=bool)
        for row, percent in zip(members, self.percents, strict=True):
            # Rounded down, as in N.
            row[:, : percent * data.d // 100] = True
        # The matrix is built once per cell rather than once per method.
        drawn = rng.permuted(members, axis=-1).reshape(-1, data.d)
        sets = membership(drawn, data.d)
        truth = sets @ data.frequencies

        def evaluate(
            _: FrequencyEstimate, estimates: Estimates, __: np.random.Generator
        ) -> list[Moments]:
            errors = [
                ((_answers(e, sets) - truth) ** 2)
                .reshape(-1, len(self.percents), self.sets)
                .mean(axis=-1)
                for e in estimates.values()
            ]
            return [Moments.of("random sets", "mse", self.percents, [*estimates], _stack(errors))]

        return evaluate


@dataclass(frozen=True)
class FixedSets:
    """Mean squared error of sums over the data's own sets, such as states (N V-D, D 4.3)."""

    families: tuple[str, ...]

    def start(
        self, data: Dataset, oracle: FrequencyOracle | None, rng: np.random.Generator
    ) -> Evaluate:
        def evaluate(
            _: FrequencyEstimate, estimates: Estimates, __: np.random.Generator
        ) -> list[Moments]:
            result = []
            for family in self.families:
                truth = FrequencyEstimate(data.frequencies).query(data.sets[family])
                errors = [
                    np.mean((e.query(data.sets[family]) - truth) ** 2, axis=-1)
                    for e in estimates.values()
                ]
                result.append(
                    Moments.of(f"{family} sets", "mse", [""], [*estimates], _stack(errors))
                )
            return result

        return evaluate


@dataclass(frozen=True)
class Top:
    """Mean squared error over the k most frequent values (N V-E)."""

    ks: tuple[int, ...]

    def start(
        self, data: Dataset, oracle: FrequencyOracle | None, rng: np.random.Generator
    ) -> Evaluate:
        # Stable: of equally frequent values the first ones are the top, in every run.
        order = np.argsort(-data.counts, kind="stable")[: max(self.ks)]
        last = np.array(self.ks) - 1

        def evaluate(
            _: FrequencyEstimate, estimates: Estimates, __: np.random.Generator
        ) -> list[Moments]:
            errors = []
            for e in estimates.values():
                # One cumulative sum gives the error for every k.
                sums = np.cumsum((_values(e)[:, order] - data.frequencies[order]) ** 2, axis=-1)
                errors.append(sums[:, last] / (last + 1))
            return [Moments.of("top k", "mse", self.ks, [*estimates], _stack(errors))]

        return evaluate


@dataclass(frozen=True)
class ByRank:
    """Every estimated count and its error by true rank, and the sum of the errors (N Fig. 1-3)."""

    def start(
        self, data: Dataset, oracle: FrequencyOracle | None, rng: np.random.Generator
    ) -> Evaluate:
        order = np.argsort(-data.counts, kind="stable")
        # By true rank, so that the curve of the truth falls.
        truth = data.counts[order].astype(np.float64)
        ranks = range(1, data.d + 1)

        def evaluate(
            _: FrequencyEstimate, estimates: Estimates, __: np.random.Generator
        ) -> list[Moments]:
            counts = [e.frequencies[:, order] * data.n for e in estimates.values()]
            off = _stack([c - truth for c in counts])
            # The truth as if it were a method: the table then has its line.
            same = np.broadcast_to(truth, counts[0].shape)
            return [
                Moments.of("value", "count", ranks, [*estimates, TRUTH], _stack([*counts, same])),
                Moments.of("value", "bias (counts)", ranks, [*estimates], off),
                Moments.of(
                    "full domain",
                    "bias sum (counts)",
                    [""],
                    [*estimates],
                    off.sum(axis=1, keepdims=True),
                ),
            ]

        return evaluate


@dataclass(frozen=True)
class Selection:
    """The choices of ``select_method`` on each trial, and their errors on the data (N Fig. 9)."""

    family: str
    fits: tuple[str, ...]
    trials: int = 10

    def start(
        self, data: Dataset, oracle: FrequencyOracle | None, rng: np.random.Generator
    ) -> Evaluate:
        sets = np.zeros((len(data.sets[self.family]), data.d), dtype=bool)
        for row, members in zip(sets, data.sets[self.family], strict=True):
            row[members] = True
        truth = FrequencyEstimate(data.frequencies).query(sets)

        def evaluate(
            raw: FrequencyEstimate, estimates: Estimates, rng: np.random.Generator
        ) -> list[Moments]:
            names = [*estimates]
            real = np.stack(
                [np.mean((estimates[m].query(sets) - truth) ** 2, axis=-1) for m in names], axis=-1
            )
            simulated = np.empty((len(real), len(self.fits), len(names)))
            chosen = np.zeros_like(simulated)
            for trial in range(len(raw.frequencies)):
                # One trial at a time: a choice is made for one collection.
                estimate = raw[trial]
                for row, fit in enumerate(self.fits):
                    choice = select_method(
                        estimate, sets, names, fit=fit, trials=self.trials, rng=rng
                    )
                    # Scores come by increasing error; the table keeps the order of the methods.
                    by_name = {error.method: error.mean for error in choice.scores}
                    simulated[trial, row] = [by_name[m] for m in names]
                    chosen[trial, row, names.index(choice.method)] = 1.0
            # One of the methods is 1 in ``chosen``: this is its error on the real data.
            picked = np.einsum("tfm,tm->tf", chosen, real)[:, :, None]
            both = np.concatenate(
                [np.broadcast_to(real[:, None], simulated.shape), picked], axis=-1
            )
            query = f"{self.family} sets"
            return [
                Moments.of(query, "simulated mse", self.fits, names, simulated),
                Moments.of(query, "share of choices", self.fits, names, chosen),
                Moments.of(query, "mse of the choice", self.fits, [*names, SELECTED], both),
            ]

        return evaluate


@dataclass(frozen=True)
class HeavyHitters:
    """Precision, recall and F of the values at or above a threshold (K Eq. 6-8).

    ``multiples`` are of the significance threshold (K Eq. 22, β = 0.05); the parameter is the
    threshold as a count. A precision without any prediction, and a recall without any heavy
    hitter, are 1: nothing was wrong.
    """

    multiples: tuple[float, ...] = (1.0,)

    def start(
        self, data: Dataset, oracle: FrequencyOracle | None, rng: np.random.Generator
    ) -> Evaluate:
        # K Eq. 22 in counts, at β = 0.05.
        significant = data.n * significance_threshold(data.d, oracle.sd(data.n), alpha=0.05)
        # Rounded, because they are the labels of the tables.
        thresholds = [round(float(significant * multiple), 1) for multiple in self.multiples]

        def evaluate(
            _: FrequencyEstimate, estimates: Estimates, __: np.random.Generator
        ) -> list[Moments]:
            scores: dict[str, list[list[Array]]] = {"precision": [], "recall": [], "f-score": []}
            for e in estimates.values():
                counts = _values(e) * data.n
                columns: dict[str, list[Array]] = {metric: [] for metric in scores}
                for threshold in thresholds:
                    real = data.counts >= threshold
                    reported = counts >= threshold
                    hits = (real & reported).sum(axis=-1)
                    predicted = reported.sum(axis=-1)
                    actual = real.sum()
                    columns["precision"].append(
                        np.where(predicted, hits / np.maximum(predicted, 1), 1.0)
                    )
                    columns["recall"].append(np.where(actual, hits / max(actual, 1), 1.0))
                    columns["f-score"].append(
                        np.where(
                            predicted + actual, 2 * hits / np.maximum(predicted + actual, 1), 1.0
                        )
                    )
                for metric, values in columns.items():
                    scores[metric].append(np.stack(values, axis=-1))
            # At one threshold the figure's x axis is ε: the parameter says which threshold it is.
            labels = thresholds if len(thresholds) > 1 else ["significance"]
            return [
                Moments.of("heavy hitters", metric, labels, [*estimates], _stack(values))
                for metric, values in scores.items()
            ]

        return evaluate


@dataclass(frozen=True)
class Noise:
    """Density, mean and variance of a collection's noise over all values, in counts (K Fig. 4)."""

    bins: int = 60

    def start(
        self, data: Dataset, oracle: FrequencyOracle | None, rng: np.random.Generator
    ) -> Evaluate:
        sd = oracle.sd(data.n) * data.n
        # Four standard deviations: of 42,178 values two or three lie beyond.
        edges = np.linspace(-4 * sd, 4 * sd, self.bins + 1)
        # As the tables print them: a label that is read back from a CSV file is equal.
        centres = [float(f"{c:.6g}") for c in (edges[1:] + edges[:-1]) / 2]
        # K Eq. 14's Gaussian law, in counts.
        predicted = np.exp(-0.5 * (np.array(centres) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))

        def evaluate(
            raw: FrequencyEstimate, estimates: Estimates, __: np.random.Generator
        ) -> list[Moments]:
            (name,) = estimates
            noise = (raw.frequencies - data.frequencies) * data.n
            # Over all values and not only those inside: the noise beyond four deviations belongs to
            # the whole.
            density = np.stack([np.histogram(row, edges)[0] for row in noise]) / (
                data.d * (edges[1] - edges[0])
            )
            # The law has no spread over trials: every trial gets the same.
            both = _stack([density, np.broadcast_to(predicted, density.shape)])
            summary = {
                "mean (counts)": (noise.mean(axis=-1), 0.0),
                "variance (counts)": (noise.var(axis=-1), sd**2),
            }
            return [
                Moments.of("noise", "density", centres, [name, "predicted"], both),
                *(
                    Moments.of(
                        "noise",
                        metric,
                        [""],
                        [name, "predicted"],
                        _stack([measured, np.full(len(measured), expected)]),
                    )
                    for metric, (measured, expected) in summary.items()
                ),
            ]

        return evaluate


@dataclass(frozen=True)
class RankedCounts:
    """The data themselves: counts by rank (D Fig. 6)."""

    def start(
        self, data: Dataset, oracle: FrequencyOracle | None, rng: np.random.Generator
    ) -> Evaluate:
        counts = np.sort(data.counts)[::-1].astype(np.float64)
        counted = Moments.of("value", "count", range(1, data.d + 1), [TRUTH], counts[None, :, None])
        return lambda _, __, ___: [counted]


@dataclass(frozen=True)
class FrequencyShares:
    """The data themselves: the share of items that occur a given number of times (K Fig. 3)."""

    def start(
        self, data: Dataset, oracle: FrequencyOracle | None, rng: np.random.Generator
    ) -> Evaluate:
        # Items that nobody has would be a share at 0, which a logarithmic axis lacks.
        frequency, items = np.unique(data.counts[data.counts > 0], return_counts=True)
        share = items / items.sum()
        shares = Moments.of(
            "items", "share of items", frequency.tolist(), [TRUTH], share[None, :, None]
        )
        return lambda _, __, ___: [shares]


def check_names(methods: tuple[str, ...]) -> None:
    """Raise KeyError at declaration time rather than in the middle of a run."""
    for name in methods:
        _ = TREATMENTS[name]
