"""Which method answers given queries best: tried on synthetic data that fit the estimate.

Source: N V-D and Fig. 9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ldpopt import progress, validate
from ldpopt.datasets.dataset import apportion
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate, metrics
from ldpopt.estimate.sets import NamedSets, Sets, membership, named_sets, totals
from ldpopt.methods import METHODS, Method, method_of, named_methods
from ldpopt.oracles.base import FrequencyOracle
from ldpopt.tables import html_of, lines_of

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = NDArray[np.float64]

_BATCH = 1 << 19  # frequencies simulated at a time: bounds the memory of any number of trials
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class MethodScore:
    """The error of one method's answers on the synthetic data.

    Attributes
    ----------
    method
        Its name.
    mean
        Mean squared error of an answer, over all sets and trials.
    low, high
        95 % confidence interval of that mean, cut off at 0.
    excess_low, excess_high
        95 % confidence interval of its error minus the chosen method's, on the same reports; 0 and
        0 for the chosen one. If it contains 0, so many trials cannot tell the two apart.
    """

    method: str
    mean: float
    low: float
    high: float
    excess_low: float
    excess_high: float


_HEADINGS = ("method", "mean squared error", "95 % interval", "")


@dataclass(frozen=True)
class Selection:
    """The method with the smallest simulated error, and the errors of all candidates.

    Attributes
    ----------
    method
        The chosen one, a name for ``postprocess``.
    scores
        One entry per candidate, by increasing error.
    fit
        The method that made the synthetic data.
    trials
        Number of simulated collections.
    dropped
        Why each candidate that had no answer in some trial is not among the scores, by its name.
    """

    method: str
    scores: tuple[MethodScore, ...]
    fit: str
    trials: int
    dropped: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        title = f"{self.method}, by {self.trials} simulations of data fitted by {self.fit}"
        lines = lines_of(_HEADINGS, self._rows())
        lines += [f"{name}  dropped: {reason}" for name, reason in self.dropped.items()]
        return "\n".join([title, *lines])

    def _repr_html_(self) -> str:
        """Return the errors of all candidates as notebooks show them."""
        notes = [
            f"By {self.trials} simulations of data fitted by {self.fit}.",
            *(f"{name} is dropped: {reason}" for name, reason in self.dropped.items()),
        ]
        return html_of(_HEADINGS, self._rows(), notes, title=f"Chosen: {self.method}")

    def _rows(self) -> list[list[str]]:
        """Return the table that is printed, and shown in notebooks."""
        return [
            [s.method, f"{s.mean:.3g}", f"{s.low:.3g} .. {s.high:.3g}", self._verdict(s)]
            for s in self.scores
        ]

    def _verdict(self, score: MethodScore) -> str:
        if score.method == self.method:
            return "chosen"
        # An excess that may be 0: so many trials cannot tell the two apart.
        return "undecided" if score.excess_low <= 0 else "worse"


def select_method(
    est: FrequencyEstimate,
    sets: Sets | NamedSets,
    candidates: Any = None,
    fit: Any = "norm-sub",
    trials: int = 100,
    rng: np.random.Generator | int | None = None,
) -> Selection:
    """Choose the method with the smallest mean squared error of these queries on synthetic data.

    ``fit`` turns the estimate into a distribution. Collections of n users who hold values by it are
    simulated with the estimate's own oracle, every candidate post-processes the same simulated
    reports, and its answers are compared with those of the distribution. The reports are used
    through the estimate alone, so that the choice costs no privacy. The choice is as good as the
    fit: a fit that already has a candidate's prior built in favours that candidate (N V-D).

    Parameters
    ----------
    est
        One raw estimate, shape (d,), with its n and an oracle that can be simulated.
    sets
        The queries, as ``FrequencyEstimate.query`` takes them; at least one.
    candidates
        What ``named_methods`` takes: distinct names in ``METHODS``, problems and functions of your
        own, or a dictionary from names to them; all of ``METHODS`` by default. One that has no
        answer in a simulated trial is dropped with a note: it has no mean error.
    fit
        Method with non-negative values that sum to 1, such as ``norm-sub`` (N's recommendation) or
        ``power-ns``.
    trials
        Number of simulated collections, at least 2.
    rng
        Generator or seed; None for fresh entropy.

    Returns
    -------
    Selection with the chosen name and a table of simulated errors, which ``print`` shows.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the estimate is a stack or post-processed, or its oracle cannot be simulated; if there is
        no set or no candidate, or a name is unknown or repeated; if ``fit`` does not give a
        distribution; if no candidate has an answer in every trial.

    Notes
    -----
    Cost: ``trials`` simulated collections, post-processed by every candidate.

    Examples
    --------
    >>> from ldpopt import datasets, oracles
    >>> data = datasets.load("emoji")
    >>> oracle = oracles.OUE(epsilon=1.0, d=data.d)
    >>> raw = oracle.estimate(oracle.simulate_counts(data.counts, rng=0), data.n)
    >>> queries = data.sets["category"]
    >>> select_method(raw, queries, ["base", "norm-mul", "norm-sub"], trials=20, rng=1).method
    'norm-sub'
    """
    oracle, n = _simulated(est)
    methods = named_methods(METHODS if candidates is None else candidates)
    fitted_by = method_of(fit)
    trials = validate.integer("trials", trials, minimum=2)
    # One generator for all batches, in their order: the same seed gives the same choice.
    generator = validate.generator(rng)
    members = membership(named_sets(sets, est.labels)[1], est.d)
    if not members.shape[0]:
        raise InvalidInputError("select_method needs at least one set")
    true_counts = _synthetic_counts(est, n, fitted_by)
    # The truth of the simulation is the rounded distribution, not the fitted one.
    true_answers = totals(true_counts / n, members)
    errors = {name: np.empty(trials) for name in methods}
    dropped: dict[str, str] = {}
    batch = max(1, _BATCH // est.d)
    starts = range(0, trials, batch)
    for start in progress.track(starts, f"{trials:,} trials", len(starts)):
        stop = min(start + batch, trials)
        counts = oracle.simulate_counts(true_counts, generator, trials=stop - start)
        raw = oracle.estimate(counts, n, labels=est.labels)
        for name in list(errors):
            try:
                errors[name][start:stop] = _errors(raw, methods[name], members, true_answers)
            # The estimate is one of this library's own: a method that refuses it has no answer.
            except InvalidInputError as reason:
                del errors[name]
                dropped[name] = str(reason)
    if not errors:
        reasons = "; ".join(dropped.values())
        raise InvalidInputError(f"no candidate has an answer in every trial: {reasons}")
    ranked = _ranked(np.stack(list(errors.values()), axis=1), list(errors), fitted_by.name)
    return replace(ranked, dropped=dropped)


def _errors(
    raw: FrequencyEstimate, method: Method, members: csr_array, true_answers: Array
) -> Array:
    """Return the mean squared error of one method in every trial, shape (trials,)."""
    processed = method.solve(raw)
    answers = totals(processed.frequencies, members)
    if processed.clip_answers:  # as estimate.query does; the sets are a matrix already
        answers = np.maximum(answers, 0.0)
    return metrics.mean_squared_error(answers, true_answers)


def _simulated(est: FrequencyEstimate) -> tuple[FrequencyOracle, int]:
    """Return the oracle and the n of one raw estimate, from which reports can be simulated."""
    is_estimate = isinstance(est, FrequencyEstimate)
    if not is_estimate or est.frequencies.ndim != 1 or not est.is_raw:
        raise InvalidInputError(
            "select_method takes one raw estimate of shape (d,), from oracle.estimate or made with "
            f"is_raw=True; got {est!r}"
        )
    oracle = est.noise.protocol
    n = est.noise.n
    if n is None or not isinstance(oracle, FrequencyOracle):
        raise InvalidInputError(
            "select_method simulates reports: the estimate must have n and an oracle of "
            f"ldpopt.oracles, got n = {n} and {oracle!r}"
        )
    return oracle, n


def _synthetic_counts(est: FrequencyEstimate, n: int, fit: Method) -> NDArray[np.int64]:
    """Return n users by value, as close as whole numbers come to the fitted distribution."""
    fitted = fit.solve(est).frequencies
    # The sum of a million rounded values is off by more than the last bit.
    if fitted.min() < 0 or not np.isclose(fitted.sum(), 1.0, rtol=0, atol=1e-9):
        raise InvalidInputError(
            f"fit = {fit.name!r} gives no distribution (lowest {fitted.min():.3g}, "
            f"sum {fitted.sum():.6g}): use norm-sub or power-ns"
        )
    return apportion(fitted, n)


def _ranked(errors: Array, names: list[str], fit: str) -> Selection:
    """Rank the candidates by the mean of their errors, shape (trials, candidates)."""
    means = errors.mean(axis=0)
    # Of equal errors the candidate that was named first is chosen.
    order = np.argsort(means, kind="stable")
    # Paired differences: the same reports for both methods cancel most of the spread.
    excesses = errors - errors[:, order[:1]]
    half_widths = _half_widths(errors)
    # A squared error is never negative, though Student's interval may be.
    low = np.maximum(means - half_widths, 0.0)
    high = means + half_widths
    excess_means = excesses.mean(axis=0)
    excess_half_widths = _half_widths(excesses)
    excess_low = excess_means - excess_half_widths
    excess_high = excess_means + excess_half_widths
    scores = tuple(
        MethodScore(
            method=names[i],
            mean=float(means[i]),
            low=float(low[i]),
            high=float(high[i]),
            excess_low=float(excess_low[i]),
            excess_high=float(excess_high[i]),
        )
        for i in order
    )
    return Selection(scores[0].method, scores, fit, len(errors))


def _half_widths(samples: Array) -> Array:
    """Return the half widths of Student's confidence intervals of the columns' means."""
    from scipy.special import stdtrit  # slow to import, and used only here

    trials = len(samples)
    quantile = float(stdtrit(trials - 1, (1 + _CONFIDENCE) / 2))
    half_widths: Array = quantile * samples.std(axis=0, ddof=1) / np.sqrt(trials)
    return half_widths
