"""Which method answers the user's own queries best: tried out on synthetic data fitted to the estimate (N V-D, Fig. 9)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.datasets.dataset import apportion
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate, metrics
from ldpopt.estimate.sets import Sets, membership
from ldpopt.methods import METHODS, postprocess
from ldpopt.oracles.base import FrequencyOracle

_AT_A_TIME = 1 << 19  # values simulated at a time: bounds memory whatever the number of trials is


@dataclass(frozen=True)
class SimulatedError:
    """What one method's answers were wrong by on the synthetic data.

    Attributes
    ----------
    method
        Its name.
    mean
        Mean squared error of an answer, over all sets and trials.
    low, high
        95 % confidence interval of that mean, cut off at 0.
    excess_low, excess_high
        95 % confidence interval of its error minus the chosen method's, on the same reports; 0 and 0 for the chosen one.
        Where it contains 0 the two cannot be told apart by this many trials.
    """

    method: str
    mean: float
    low: float
    high: float
    excess_low: float
    excess_high: float


@dataclass(frozen=True)
class Selection:
    """The method with the smallest simulated error, and the errors of all candidates.

    Attributes
    ----------
    method
        The chosen one, a name for ``postprocess``.
    evidence
        One entry a candidate, by increasing error.
    fit
        The method that made the synthetic data.
    trials
        How many collections were simulated.
    """

    method: str
    evidence: tuple[SimulatedError, ...]
    fit: str
    trials: int

    def __str__(self) -> str:
        width = max(len(row.method) for row in self.evidence)
        lines = [
            f"{row.method:{width}}  {row.mean:.3g}  [{row.low:.3g}, {row.high:.3g}]"
            + "  undecided" * (row.method != self.method and row.excess_low <= 0)
            for row in self.evidence
        ]
        return "\n".join(
            [f"{self.method}, by {self.trials} simulations of data fitted by {self.fit}", *lines]
        )


def select_method(
    est: FrequencyEstimate,
    sets: Sets,
    candidates: Iterable[str] | None = None,
    fit: str = "norm-sub",
    trials: int = 100,
    rng: np.random.Generator | int | None = None,
) -> Selection:
    """Choose the method with the smallest mean squared error of these queries on synthetic data fitted to the estimate.

    ``fit`` turns the estimate into a consistent distribution; n users who hold values by it are simulated ``trials`` times
    with the estimate's own oracle, every candidate post-processes the same simulated reports, and its answers are compared
    with the distribution's. It looks at the reports only through the estimate, so it costs no privacy. The choice is as
    good as the fit: a fit that already has a candidate's prior built in favours that candidate (N V-D).

    Parameters
    ----------
    est
        One raw estimate, shape (d,), with its n and an oracle that can be simulated.
    sets
        The queries: boolean (m, d), or m arrays of distinct indices; at least one.
    candidates
        Distinct names in ``METHODS``; all of them by default.
    fit
        Method with non-negative values that sum to 1: ``norm-sub`` (N's recommendation) or ``power-ns``, for instance.
    trials
        Simulated collections, at least 2.
    rng
        Generator or seed; None for fresh entropy.

    Returns
    -------
    Selection with the chosen name and a table of simulated errors, which ``print`` shows.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the estimate is a stack, post-processed already, or its oracle cannot be simulated; if there is no set or no
        candidate, or a name is unknown or repeated; if ``fit`` does not give a distribution; if a candidate has no answer.

    Notes
    -----
    Cost: ``trials`` simulated collections, post-processed by every candidate.

    Examples
    --------
    >>> from ldpopt import datasets, oracles
    >>> data = datasets.load("emoji")
    >>> oracle = oracles.OUE(epsilon=1.0, d=data.d)
    >>> raw = oracle.estimate(oracle.simulate_counts(data.counts, rng=0), data.n)
    >>> select_method(raw, data.sets["category"], candidates=["base", "norm-mul", "norm-sub"], trials=20, rng=1).method
    'norm-sub'
    """
    if not isinstance(est, FrequencyEstimate) or est.frequencies.ndim != 1 or not est.is_raw:
        raise InvalidInputError(
            f"select_method takes one raw estimate (from oracle.estimate), of shape (d,); got {est!r}"
        )
    n = est.noise.require_n()
    oracle = est.noise.require_protocol()
    if not isinstance(oracle, FrequencyOracle):
        raise InvalidInputError(
            f"select_method simulates the oracle of the estimate; {oracle!r} only knows p and q"
        )
    names = list(
        METHODS
        if candidates is None
        else [candidates]
        if isinstance(candidates, str)
        else candidates
    )
    for place, name in enumerate(names):
        validate.lookup("method", name, METHODS)
        if name in names[:place]:
            raise InvalidInputError(
                f"candidates must be distinct, found {name!r} again at position {place}"
            )
    trials = validate.integer("trials", trials, minimum=2)
    generator = validate.generator(rng)
    asked = membership(sets, est.d)
    if not names or not asked.shape[0]:
        raise InvalidInputError("select_method needs at least one set and one candidate")
    truth = _synthetic_counts(est, n, fit)

    true_answers = asked @ (truth / n)
    errors = np.empty((trials, len(names)))
    step = max(1, _AT_A_TIME // est.d)
    for start in range(0, trials, step):
        part = slice(start, min(start + step, trials))
        raw = oracle.estimate(oracle.simulate_counts(truth, generator, trials=part.stop - start), n)
        for column, name in enumerate(names):
            after = postprocess(raw, name)
            answers = (asked @ after.frequencies.T).T
            found = np.maximum(answers, 0.0) if after.clip_answers else answers
            errors[part, column] = metrics.mean_squared_error(found, true_answers)
    return _decide(errors, names, fit)


def _synthetic_counts(est: FrequencyEstimate, n: int, fit: str) -> NDArray[np.int64]:
    """Return n whole users who hold values by the distribution that ``fit`` makes of the estimate."""
    fitted = postprocess(est, fit).frequencies
    if fitted.min() < 0 or not np.isclose(fitted.sum(), 1.0, rtol=0, atol=1e-9):
        raise InvalidInputError(
            f"fit = {fit!r} gives no distribution (lowest {fitted.min():.3g}, sum {fitted.sum():.6g}): use norm-sub or power-ns"
        )
    return apportion(fitted, n)


def _decide(errors: NDArray[np.float64], names: list[str], fit: str) -> Selection:
    """Rank the candidates by their mean error; Student's t for every interval."""
    from scipy.special import stdtrit  # slow to import, and only here

    trials = len(errors)
    reach = float(stdtrit(trials - 1, 0.975)) / np.sqrt(trials)
    mean = errors.mean(axis=0)
    order = np.argsort(mean, kind="stable")
    excess = errors - errors[:, order[:1]]
    half, excess_half = reach * errors.std(axis=0, ddof=1), reach * excess.std(axis=0, ddof=1)
    middle = excess.mean(axis=0)
    rows = tuple(
        SimulatedError(
            names[i], *(float(x) for x in (mean[i], max(mean[i] - half[i], 0.0), mean[i] + half[i])),
            *(float(x) for x in (middle[i] - excess_half[i], middle[i] + excess_half[i])),
        )
        for i in order
    )  # fmt: skip
    return Selection(rows[0].method, rows, fit, trials)
