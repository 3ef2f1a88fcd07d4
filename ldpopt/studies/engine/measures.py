"""What is measured on a chunk of trials: a measure is declared by its fields.

Random sets are drawn anew for every trial.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.closed_form import significance_threshold
from ldpopt.datasets import Dataset
from ldpopt.errors import InvalidInputError, users_code
from ldpopt.estimate import FrequencyEstimate, metrics
from ldpopt.oracles.base import FrequencyOracle
from ldpopt.studies.engine.candidate import Candidate
from ldpopt.studies.engine.moments import Values

Array = NDArray[np.float64]
Estimates = Mapping[str, FrequencyEstimate]
Evaluate = Callable[[Any, Estimates, Any], list[Values]]
"""From raw estimates, treated estimates and a generator to what is measured; where the data
themselves are measured, there are neither."""


@dataclass(frozen=True)
class Setting:
    """What a measure may know of a cell: its data, its oracle (if any) and its candidates."""

    data: Dataset
    oracle: FrequencyOracle | None
    candidates: tuple[Candidate, ...] = ()

    @property
    def protocol(self) -> FrequencyOracle:
        """The oracle of a cell that has one; raise InvalidInputError otherwise."""
        if self.oracle is None:
            raise InvalidInputError(
                "this measure needs an oracle, and the data themselves are shown without one"
            )
        return self.oracle

    def sets(self, family: str) -> list[NDArray[np.intp]]:
        """Return a family of the data's sets; raise InvalidInputError where they have none."""
        if family not in self.data.sets:
            there = ", ".join(self.data.sets) or "none"
            raise InvalidInputError(
                f"the data {self.data.name!r} have no sets called {family!r} (theirs: {there}): "
                "leave out this measure, or give a Dataset with such sets"
            )
        return self.data.sets[family]


class Measure(Protocol):
    """A quantity of a study."""

    def start(self, setting: Setting) -> Evaluate:
        """Return the function (raw, treated estimates, rng) -> values of a chunk of trials.

        ``rng`` is the chunk's generator: nothing that is drawn is shared by all trials.
        """
        ...


def declaration_of(measure: Any) -> dict[str, Any]:
    """Return the name of a measure's class and its fields; functions by their names."""
    parts = {field.name: getattr(measure, field.name) for field in fields(measure)}
    named = {key: getattr(part, "__name__", part) for key, part in parts.items()}
    return {"measure": type(measure).__name__, **named}


def values_of(estimate: FrequencyEstimate) -> Array:
    """Return the answers to the d queries for single values: Post-Pos clips them (N V-C)."""
    return np.maximum(estimate.frequencies, 0.0) if estimate.clip_answers else estimate.frequencies


def stacked(columns: list[Array]) -> Array:
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

    def start(self, setting: Setting) -> Evaluate:
        """See ``Measure.start``."""
        data = setting.data
        # K counts users, N and D their shares.
        unit = data.n if self.in_counts else 1

        def evaluate(_: Any, estimates: Estimates, __: Any) -> list[Values]:
            # Both measures from one difference.
            off = [(values_of(each) - data.frequencies) * unit for each in estimates.values()]
            mse = stacked([np.mean(errors**2, axis=-1) for errors in off])
            mae = stacked([np.mean(np.abs(errors), axis=-1) for errors in off])
            names = [*estimates]
            suffix = " (counts)" if self.in_counts else ""
            return [
                Values.of("full domain", f"mse{suffix}", [""], names, mse),
                Values.of("full domain", f"mae{suffix}", [""], names, mae),
            ]

        return evaluate


@dataclass(frozen=True)
class RandomSets:
    """Mean squared error of sums over uniform sets of ⌊ρd/100⌋ values, drawn per trial (N V-D).

    Sets that all trials share would leave their own draw out of the trials' deviation: with 200 of
    them, whether the most frequent value is in two or in three decides about Norm-Mul.
    """

    percents: tuple[int, ...]
    sets: int = 200

    def start(self, setting: Setting) -> Evaluate:
        """See ``Measure.start``."""
        data = setting.data
        validate.whole_numbers("the percentages of random sets", self.percents, low=0, high=100)
        members = np.zeros((len(self.percents), self.sets, data.d), dtype=bool)
        for row, percent in zip(members, self.percents, strict=True):
            # Rounded down, as in N.
            row[:, : percent * data.d // 100] = True

        def evaluate(_: Any, estimates: Estimates, rng: Any) -> list[Values]:
            treated = np.stack([each.frequencies for each in estimates.values()], axis=-1)
            # Answers of Post-Pos are clipped at 0, and not its frequencies.
            is_clipped = np.array([each.clip_answers for each in estimates.values()], dtype=bool)
            lowest = np.where(is_clipped, 0.0, -np.inf)
            # By the chunk's generator: further trials have further sets, and methods that are
            # computed apart have the same ones, so that their errors are compared in pairs.
            errors = [_set_errors(trial, lowest, members, data, rng) for trial in treated]
            names = [*estimates]
            return [Values.of("random sets", "mse", self.percents, names, np.stack(errors))]

        return evaluate


def _set_errors(
    treated: Array,
    lowest: Array,
    members: NDArray[np.bool_],
    data: Dataset,
    rng: np.random.Generator,
) -> Array:
    """Return the errors of one trial on sets drawn for it, shape (percents, methods).

    ``treated`` has shape (d, methods); ``lowest`` is the smallest answer that a method gives.
    """
    errors = []
    # One size of sets at a time: the sets of all sizes would fill the memory.
    for of_one_size in members:
        sets = rng.permuted(of_one_size, axis=-1).astype(np.float64)
        answers = np.maximum(sets @ treated, lowest)
        truth = sets @ data.frequencies
        errors.append(np.mean((answers - truth[:, None]) ** 2, axis=0))
    return np.stack(errors)


@dataclass(frozen=True)
class FixedSets:
    """Mean squared error of sums over the data's own sets, such as states (N V-D, D 4.3)."""

    families: tuple[str, ...]

    def start(self, setting: Setting) -> Evaluate:
        """See ``Measure.start``."""
        families = {family: setting.sets(family) for family in self.families}
        frequencies = FrequencyEstimate(setting.data.frequencies)

        def evaluate(_: Any, estimates: Estimates, __: Any) -> list[Values]:
            result = []
            for family, sets in families.items():
                # By the same code as answers, so that labels and indices mean the same.
                truth = frequencies.query(sets)
                errors = []
                for estimate in estimates.values():
                    squares = (estimate.query(sets) - truth) ** 2
                    errors.append(np.mean(squares, axis=-1))
                name = f"{family} sets"
                result.append(Values.of(name, "mse", [""], [*estimates], stacked(errors)))
            return result

        return evaluate


@dataclass(frozen=True)
class Top:
    """Mean squared error over the k most frequent values (N V-E)."""

    ks: tuple[int, ...]

    def start(self, setting: Setting) -> Evaluate:
        """See ``Measure.start``."""
        data = setting.data
        what = f"the numbers k of the most frequent values of {data.name!r}"
        validate.whole_numbers(what, self.ks, low=1, high=data.d)
        # Stable: of equally frequent values the first ones are the top, in every run.
        order = np.argsort(-data.counts, kind="stable")[: max(self.ks)]
        truth = data.frequencies[order]
        last = np.array(self.ks) - 1

        def evaluate(_: Any, estimates: Estimates, __: Any) -> list[Values]:
            errors = []
            for estimate in estimates.values():
                top = values_of(estimate)[:, order]
                squares = (top - truth) ** 2
                # One cumulative sum gives the error for every k.
                sums = np.cumsum(squares, axis=-1)
                errors.append(sums[:, last] / (last + 1))
            return [Values.of("top k", "mse", self.ks, [*estimates], stacked(errors))]

        return evaluate


@dataclass(frozen=True)
class HeavyHitters:
    """Precision, recall and F of the values at or above a threshold (K Eq. 6-8).

    ``multiples`` are of the significance threshold (K Eq. 22, β = 0.05); the parameter is the
    threshold as a count. A precision without any prediction, and a recall without any heavy
    hitter, are 1: nothing was wrong.
    """

    multiples: tuple[float, ...] = (1.0,)

    def start(self, setting: Setting) -> Evaluate:
        """See ``Measure.start``."""
        data = setting.data
        oracle = setting.protocol
        # K Eq. 22 in counts, at β = 0.05.
        significant = data.n * significance_threshold(data.d, oracle.sd(data.n), alpha=0.05)
        # Rounded, because they are the labels of the tables.
        thresholds = [round(float(significant * multiple), 1) for multiple in self.multiples]

        def evaluate(_: Any, estimates: Estimates, __: Any) -> list[Values]:
            names = list(estimates)
            # Counts, in which K states thresholds.
            counts = [values_of(estimate) * data.n for estimate in estimates.values()]
            by_method = [_scores_at(thresholds, each, data.counts) for each in counts]
            # At one threshold the figure's x axis is ε: the parameter says which threshold it is.
            labels = thresholds if len(thresholds) > 1 else ["significance"]
            result = []
            for metric in ("precision", "recall", "f-score"):
                columns = [scores[metric] for scores in by_method]
                result.append(Values.of("heavy hitters", metric, labels, names, stacked(columns)))
            return result

        return evaluate


def _scores_at(
    thresholds: list[float], counts: Array, true_counts: NDArray[np.int64]
) -> dict[str, Array]:
    """Return precision, recall and F of each trial, each of shape (trials, thresholds)."""
    by_threshold = [_identified(counts, true_counts, threshold) for threshold in thresholds]
    return {
        metric: np.stack([scores[metric] for scores in by_threshold], axis=-1)
        for metric in by_threshold[0]
    }


def _identified(counts: Array, true_counts: NDArray[np.int64], threshold: float) -> dict[str, Any]:
    """Return precision, recall and F of each trial's values at or above a threshold."""
    # Of integers: the truth has no rounding to decide about.
    real = true_counts >= threshold
    reported = counts >= threshold
    hits = (real & reported).sum(axis=-1)
    predicted = reported.sum(axis=-1)
    actual = real.sum()
    both = predicted + actual
    # The maxima keep 0/0 away where the other branch is taken.
    precision = hits / np.maximum(predicted, 1)
    recall = hits / max(actual, 1)
    f_score = 2 * hits / np.maximum(both, 1)
    return {
        "precision": np.where(predicted, precision, 1.0),
        "recall": np.where(actual, recall, 1.0),
        "f-score": np.where(both, f_score, 1.0),
    }


Score = Callable[[Array, Array], Any]
"""From answers of shape (d,), or (trials, d), and the truth of shape (d,) to an error of each."""


@dataclass(frozen=True)
class Metric:
    """A function of (answer, truth) over all values: one number per trial.

    Attributes
    ----------
    name
        The metric in tables.
    function
        Takes the answers and the true frequencies.
    is_own
        Whether it is the user's, who writes it for one vector: it is then called trial by trial,
        and what it returns is checked.
    """

    name: str
    function: Score
    is_own: bool = True

    def start(self, setting: Setting) -> Evaluate:
        """See ``Measure.start``."""
        truth = setting.data.frequencies

        def evaluate(_: Any, estimates: Estimates, __: Any) -> list[Values]:
            scores = [self._scores(values_of(e), truth) for e in estimates.values()]
            return [Values.of("full domain", self.name, [""], [*estimates], stacked(scores))]

        return evaluate

    def _scores(self, answers: Array, truth: Array) -> Array:
        """Return one number per trial."""
        if not self.is_own:
            return np.asarray(self.function(answers, truth))
        # One by one: users write functions of a vector, and a mean over axis 0 would pass
        # unnoticed.
        return np.array([self._score(answer, truth) for answer in answers])

    def _score(self, answer: Array, truth: Array) -> float:
        with users_code(f"the metric {self.name!r}"):
            score = np.asarray(self.function(answer, truth))
        # One NaN would make every mean of its candidate NaN.
        if score.size != 1 or score.dtype.kind not in "biuf" or not np.isfinite(score).all():
            raise InvalidInputError(
                f"the metric {self.name!r} must return one finite number for (answer, truth), each "
                f"of shape {truth.shape}; it returned {score!r}"
            )
        return float(score.reshape(()))


METRICS: Mapping[str, Score] = MappingProxyType(
    {
        "mse": metrics.mean_squared_error,
        "mae": metrics.mean_absolute_error,
        "largest error": metrics.largest_error,
        "total variation": metrics.total_variation,
    }
)
"""Errors over the whole domain by name, each vectorised over trials."""
