"""What only figures of the papers show: values by rank, choices of methods, noise, data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ldpopt import METHODS, FrequencyEstimate, select_method
from ldpopt.errors import InvalidInputError
from ldpopt.studies.engine.measures import Estimates, Evaluate, Setting, stacked
from ldpopt.studies.engine.moments import Values

TRUTH = "truth"
SELECTED = "selected"


@dataclass(frozen=True)
class ByRank:
    """Every estimated count and its error by true rank, and the sum of the errors (N Fig. 1-3)."""

    def start(self, setting: Setting) -> Evaluate:
        data = setting.data
        order = np.argsort(-data.counts, kind="stable")
        # By true rank, so that the curve of the truth falls.
        truth = data.counts[order].astype(np.float64)
        ranks = range(1, data.d + 1)

        def evaluate(
            _: FrequencyEstimate, estimates: Estimates, __: np.random.Generator
        ) -> list[Values]:
            counts = [e.frequencies[:, order] * data.n for e in estimates.values()]
            off = stacked([c - truth for c in counts])
            # The truth as if it were a method: the table then has its line.
            same = np.broadcast_to(truth, counts[0].shape)
            return [
                Values.of("value", "count", ranks, [*estimates, TRUTH], stacked([*counts, same])),
                Values.of("value", "bias (counts)", ranks, [*estimates], off),
                Values.of(
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
    """The choices of ``select_method`` on each trial, and their errors on the data (N Fig. 9).

    A choice is among all candidates of a cell, which is why they cannot be computed one by one.
    """

    family: str
    fits: tuple[str, ...]
    trials: int = 10

    def start(self, setting: Setting) -> Evaluate:
        data = setting.data
        family = setting.sets(self.family)
        sets = np.zeros((len(family), data.d), dtype=bool)
        for row, members in zip(sets, family, strict=True):
            row[members] = True
        # By name where there is one: Power's work is shared in a treatment, and not in a choice.
        methods = [METHODS.get(c.name, c.steps[-1][0]) for c in setting.candidates]
        truth = FrequencyEstimate(data.frequencies).query(sets)

        def evaluate(
            raw: FrequencyEstimate, estimates: Estimates, rng: np.random.Generator
        ) -> list[Values]:
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
                        estimate,
                        sets,
                        methods,
                        fit=fit,
                        trials=self.trials,
                        rng=rng,
                        by="simulation",
                    )
                    if choice.dropped:
                        raise InvalidInputError("; ".join(choice.dropped.values()))
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
                Values.of(query, "simulated mse", self.fits, names, simulated),
                Values.of(query, "share of choices", self.fits, names, chosen),
                Values.of(query, "mse of the choice", self.fits, [*names, SELECTED], both),
            ]

        return evaluate


@dataclass(frozen=True)
class Noise:
    """Density, mean and variance of a collection's noise over all values, in counts (K Fig. 4)."""

    bins: int = 60

    def start(self, setting: Setting) -> Evaluate:
        data = setting.data
        sd = setting.protocol.sd(data.n) * data.n
        # Four standard deviations: of 42,178 values two or three lie beyond.
        edges = np.linspace(-4 * sd, 4 * sd, self.bins + 1)
        # As the tables print them: a label that is read back from a CSV file is equal.
        centres = [float(f"{c:.6g}") for c in (edges[1:] + edges[:-1]) / 2]
        # K Eq. 14's Gaussian law, in counts.
        predicted = np.exp(-0.5 * (np.array(centres) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))

        def evaluate(
            raw: FrequencyEstimate, estimates: Estimates, __: np.random.Generator
        ) -> list[Values]:
            (name,) = estimates
            noise = (raw.frequencies - data.frequencies) * data.n
            # Over all values and not only those inside: the noise beyond four deviations belongs to
            # the whole.
            density = np.stack([np.histogram(row, edges)[0] for row in noise]) / (
                data.d * (edges[1] - edges[0])
            )
            # The law has no spread over trials: every trial gets the same.
            both = stacked([density, np.broadcast_to(predicted, density.shape)])
            summary = {
                "mean (counts)": (noise.mean(axis=-1), 0.0),
                "variance (counts)": (noise.var(axis=-1), sd**2),
            }
            return [
                Values.of("noise", "density", centres, [name, "predicted"], both),
                *(
                    Values.of(
                        "noise",
                        metric,
                        [""],
                        [name, "predicted"],
                        stacked([measured, np.full(len(measured), expected)]),
                    )
                    for metric, (measured, expected) in summary.items()
                ),
            ]

        return evaluate


@dataclass(frozen=True)
class RankedCounts:
    """The data themselves: counts by rank (D Fig. 6)."""

    def start(self, setting: Setting) -> Evaluate:
        data = setting.data
        counts = np.sort(data.counts)[::-1].astype(np.float64)
        counted = Values.of("value", "count", range(1, data.d + 1), [TRUTH], counts[None, :, None])
        return lambda _, __, ___: [counted]


@dataclass(frozen=True)
class FrequencyShares:
    """The data themselves: the share of items that occur a given number of times (K Fig. 3)."""

    def start(self, setting: Setting) -> Evaluate:
        data = setting.data
        # Items that nobody has would be a share at 0, which a logarithmic axis lacks.
        frequency, items = np.unique(data.counts[data.counts > 0], return_counts=True)
        share = items / items.sum()
        shares = Values.of(
            "items", "share of items", frequency.tolist(), [TRUTH], share[None, :, None]
        )
        return lambda _, __, ___: [shares]
