"""Which method answers given queries best: by synthetic data that fit the estimate, and by risk.

Sources: N V-D and Fig. 9 for the simulation; ``ldpopt.risks`` for the unbiased risk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form, progress, validate
from ldpopt.datasets.dataset import apportion
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate, metrics
from ldpopt.estimate.sets import NamedSets, Sets, membership, named_sets, totals
from ldpopt.methods import METHODS, Method, method_of, named_methods
from ldpopt.oracles.base import FrequencyOracle
from ldpopt.printable import percent
from ldpopt.risks import ALPHA, PROBES, Collection, RiskTable
from ldpopt.risks.misfit import Misfit, expected_misfit
from ldpopt.studies.risk import evidence_of, kind_for
from ldpopt.tables import data_frame, html_of, lines_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from scipy.sparse import csr_array

Array = NDArray[np.float64]

_BATCH = 1 << 19  # frequencies simulated at a time: bounds the memory of any number of trials
_CONFIDENCE = 0.95

By = Literal["both", "risk", "simulation"]
_BY: dict[str, By] = {"both": "both", "risk": "risk", "simulation": "simulation"}


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
        95 % confidence interval of its error minus the smallest one, on the same reports; 0 and 0
        of that method. If it contains 0, so many trials cannot tell the two apart.
    """

    method: str
    mean: float
    low: float
    high: float
    excess_low: float
    excess_high: float


@dataclass(frozen=True)
class Selection:
    """The method that two kinds of evidence choose, and the errors of all candidates.

    Attributes
    ----------
    method
        The chosen one, a name for ``postprocess``.
    scores
        Simulated errors, one entry per candidate, by increasing error; empty without simulation.
    fit
        The method that made the synthetic data; empty without simulation.
    trials
        Number of simulated collections.
    dropped
        Why each candidate without an answer is not among the scores, by its name.
    risks
        Unbiased estimates of the same errors; None without them.
    extra
        What is added to each simulated error for the part of the true answers that the synthetic
        data miss, as far as the raw answers tell it; the smallest sum is chosen. Empty unless both
        kinds are used.
    weights
        The parts of ``estimate`` by method, which sum to 1. Where the simulations and the choice
        name two methods, each counts in inverse proportion to its corrected error: the mean of two
        answers is nearer to the truth than a choice of which nobody can be sure.
    estimate
        These reports by the chosen method, or the mean of the two; None if it has no answer here.
    """

    method: str
    scores: tuple[MethodScore, ...]
    fit: str
    trials: int
    dropped: Mapping[str, str] = field(default_factory=dict)
    risks: RiskTable | None = None
    extra: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    estimate: FrequencyEstimate | None = field(default=None, repr=False, compare=False)

    @property
    def simulated(self) -> str:
        """The method with the smallest simulated error; empty without simulation."""
        return self.scores[0].method if self.scores else ""

    @property
    def disagreement(self) -> str:
        """What the two kinds of evidence disagree about, in a sentence; empty if they agree."""
        if not self.extra or self.method == self.simulated:
            return ""
        more = self.extra[self.simulated] - self.extra[self.method]
        return (
            f"the simulations would choose {self.simulated}, but the raw answers show that the "
            f"data that {self.fit} fits may be wrong for these sets, which adds {more:.3g} to its "
            f"error over that of {self.method}"
        )

    @property
    def title(self) -> str:
        """The chosen method, and what it is chosen by."""
        parts = []
        if self.scores:
            parts.append(f"{self.trials} simulations of data fitted by {self.fit}")
        if self.risks is not None:
            parts.append(self.risks.rows[0].risk.how)
        return f"{self.method}, by {' and '.join(parts)}"

    def __repr__(self) -> str:
        headings, rows = self.texts()
        return "\n".join([self.title, *lines_of(headings, rows), *self.notes()])

    def _repr_html_(self) -> str:
        """Return the errors of all candidates as notebooks show them."""
        headings, rows = self.texts()
        return html_of(
            headings, rows, [f"{self.title}.", *self.notes()], title=f"Chosen: {self.method}"
        )

    def to_frame(self) -> Any:
        """Return simulated errors and risks as a DataFrame, one row per candidate."""
        risks = {}
        if self.risks is not None:
            risks = {row.method: row.risk.mean for row in self.risks.rows}
        simulated = {score.method: score.mean for score in self.scores}
        corrected = {score.method: _corrected(score, self.extra) for score in self.scores}
        records = [
            {
                "method": name,
                "is_chosen": name == self.method,
                # None where a method was judged by the other kind of evidence alone.
                "simulated": simulated.get(name),
                "corrected": corrected.get(name),
                "risk": risks.get(name),
            }
            for name in simulated or risks
        ]
        return data_frame(records, "the attributes scores and risks")

    def plot(self) -> Figure:
        """Return a picture of the risks above the best.

        Raises
        ------
        InvalidInputError
            If the choice was by simulation alone.
        """
        if self.risks is None:
            raise InvalidInputError('this choice is by simulation alone: use by="both" for risks')
        return self.risks.plot()

    def texts(self) -> tuple[list[str], list[list[str]]]:
        """Return headings and rows of text: simulated errors with intervals, then risks."""
        headings = ["method"]
        if self.scores:
            headings += ["simulated MSE", "interval"]
        if self.extra:
            headings.append("corrected")
        if self.risks is not None:
            headings += ["estimated MSE", "above the best"]
        simulated = {score.method: score for score in self.scores}
        names = list(simulated)
        if not names and self.risks is not None:
            names = [row.method for row in self.risks.rows]
        rows = []
        for name in names:
            row = [name]
            if self.scores:
                score = simulated[name]
                row += [f"{score.mean:.3g}", f"{score.low:.3g} .. {score.high:.3g}"]
            if self.extra:
                row.append(f"{simulated[name].mean + self.extra[name]:.3g}")
            if self.risks is not None:
                risk = self.risks.row(name)
                interval = f"{risk.excess_low:.3g} .. {risk.excess_high:.3g}"
                is_best = risk.method == self.risks.best
                row += [f"{risk.risk.mean:.3g}", "best" if is_best else interval]
            rows.append([*row, self._verdict(name)])
        return [*headings, "verdict"], rows

    def notes(self) -> list[str]:
        """Return sentences: what the numbers are, where they disagree, and who is dropped."""
        notes = [f"intervals have a level of {percent(_CONFIDENCE)}"]
        if self.extra:
            notes.append("corrected: plus what the raw answers tell of the error of the fit itself")
        if self.disagreement:
            notes.append(self.disagreement)
        if len(self.weights) > 1:
            parts = " and ".join(f"{weight:.2f} {name}" for name, weight in self.weights.items())
            notes.append(
                f"the mean of both, {parts}, has a smaller error on average than a choice between "
                "them: its answers are in Selection.estimate in Python, and in the output of --json"
            )
        return [*notes, *(f"{name} is dropped: {why}" for name, why in self.dropped.items())]

    def _verdict(self, name: str) -> str:
        """Return "chosen", "undecided" where the evidence cannot tell it apart, or "worse"."""
        if name == self.method:
            return "chosen"
        # Intervals that hold 0: of risks where there are any, which are the unbiased ones.
        if self.risks is not None:
            return "undecided" if self.risks.row(name).excess_low <= 0 else "worse"
        score = next(score for score in self.scores if score.method == name)
        return "undecided" if score.excess_low <= 0 else "worse"


def select_method(
    est: FrequencyEstimate,
    sets: Sets | NamedSets,
    candidates: Any = None,
    fit: Any = "norm-sub",
    trials: int = 100,
    rng: np.random.Generator | int | None = None,
    *,
    by: str = "both",
) -> Selection:
    """Choose the method with the smallest mean squared error of these queries.

    Two kinds of evidence are used. Simulation: ``fit`` turns the estimate into a distribution,
    collections of n users who hold values by it are simulated with the estimate's own oracle, and
    every candidate is judged on them (N V-D). It has little noise, but is as good as the fit: where
    shrinkage adds up, as in sets whose members belong together, the fit itself is shrunk and takes
    the harm for truth. The raw answers on these very reports are unbiased, with more noise. They
    tell how far the fit's answers may be from the true ones. To each simulated error is added the
    expected square of this difference, without the part that the method's own answers share, and
    ``disagreement`` states where this overrules the simulation. ``risks`` holds unbiased estimates
    of the errors (``compare_risk``) beside them.

    The reports are used through the estimate alone, so that the choice costs no privacy.

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
    by
        ``"both"``; ``"simulation"`` alone, as in N; or ``"risk"`` alone, by ``compare_risk``.

    Returns
    -------
    Selection with the chosen name, the answer by it (``estimate``: where both kinds of evidence
    name two methods, a mean of theirs), and a table of errors, which ``print`` shows.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the estimate is a stack or post-processed, or its oracle cannot be simulated; if there is
        no set or no candidate, or a name is unknown or repeated; if ``fit`` does not give a
        distribution; if no candidate has an answer in every trial; if a function gives two answers
        for one estimate.

    Notes
    -----
    Cost: ``trials`` simulated collections, post-processed by every candidate, and 21 evaluations
    for the risk.

    Examples
    --------
    >>> from ldpopt import datasets, oracles
    >>> data = datasets.load("emoji")
    >>> oracle = oracles.OUE(epsilon=1.0, d=data.d)
    >>> raw = oracle.estimate(oracle.simulate_counts(data.counts, rng=0), data.n)
    >>> queries = data.sets["category"]
    >>> choice = select_method(raw, queries, ["base", "norm", "norm-sub"], trials=20, rng=1)
    >>> choice.method, choice.simulated
    ('norm', 'norm-sub')
    >>> list(choice.weights), choice.estimate.query(queries).shape
    (['norm', 'norm-sub'], (9,))
    """
    kind = validate.lookup("by", by, _BY)
    methods = named_methods(METHODS if candidates is None else candidates)
    trials = validate.integer("trials", trials, minimum=2)
    # One generator for all, in their order: the same seed gives the same choice.
    generator = validate.generator(rng)
    _require_oracle(est)
    names, rows = named_sets(sets, est.labels)
    if not membership(rows, est.d, names).shape[0]:
        raise InvalidInputError("select_method needs at least one set")
    if kind == "risk":
        _, risks = _risks(Collection(est, sets, "select_method"), methods, generator)
        # Nothing is simulated: there are no scores, no fit and no trials.
        chosen = Selection(
            method=risks.best, scores=(), fit="", trials=0, dropped=risks.dropped, risks=risks
        )
        return _with_estimate(chosen, methods, est)
    simulated = _simulated(est, sets, methods, method_of(fit), trials, generator)
    if kind == "simulation":
        return _with_estimate(simulated.selection(), methods, est)
    collection = Collection(est, sets, "select_method")
    judged = {name: methods[name] for name in simulated.errors}
    answered, risks = _risks(collection, judged, generator)
    # Without an answer near the estimate a candidate has no risk, and is not chosen.
    answering = {name: judged[name] for name in answered}
    noise = _noise_about_fit(simulated, collection)
    fitted = collection.answered(simulated.truth)
    independent = collection.independent_answers(generator)
    misfit = expected_misfit(collection.answers, fitted, noise, independent)
    extra = _extra_errors(simulated, answering, collection, misfit, float(np.sum(noise)))
    return _with_estimate(simulated.selection(extra, risks), answering, est)


def _with_estimate(
    selection: Selection, methods: Mapping[str, Method], raw: FrequencyEstimate
) -> Selection:
    """Return a selection with the answer on these reports, and its parts."""
    weights = _weights_of(selection, methods)
    try:
        parts = [methods[name].solve(raw) for name in weights]
    # A method may answer all simulated collections and not this one.
    except InvalidInputError:
        return selection
    estimate = parts[0]
    if len(parts) > 1:
        stack = np.stack([part.frequencies for part in parts])
        estimate = raw.processed(list(weights.values()) @ stack, method=" + ".join(weights))
    return replace(selection, weights=weights, estimate=estimate)


def _weights_of(selection: Selection, methods: Mapping[str, Method]) -> dict[str, float]:
    """Return the weights of the chosen method and of the one that the simulations would choose."""
    names = [selection.method, selection.simulated]
    corrected = {score.method: _corrected(score, selection.extra) for score in selection.scores}
    # Clipped answers are no sums of frequencies, and so have no mean either.
    is_clipped = any(methods[name].clip_answers for name in names if name)
    if not selection.disagreement or is_clipped or corrected[selection.method] == 0:
        return {selection.method: 1.0}
    # As of two answers with independent errors of these sizes.
    precision = {name: 1 / corrected[name] for name in names}
    whole = sum(precision.values())
    return {name: value / whole for name, value in precision.items()}


def _risks(
    collection: Collection, methods: Mapping[str, Method], generator: np.random.Generator
) -> tuple[list[str], RiskTable]:
    """Return who has an answer, and their risks; an error is raised if none has one."""
    kind = kind_for(methods, "auto")
    evidence, dropped = evidence_of(
        collection, methods, kind, alpha=ALPHA, probes=PROBES, rng=generator
    )
    if not evidence:
        raise InvalidInputError(f"no candidate has an answer: {'; '.join(dropped.values())}")
    share = ALPHA if kind == "bootstrap" else 0.0
    table = RiskTable.of(evidence, collection, kind, dropped, level=_CONFIDENCE, alpha=share)
    return list(evidence), table


def _noise_about_fit(simulated: _Simulated, collection: Collection) -> Array:
    """Return the variance of each raw answer about that of the simulated truth, shape (k,)."""
    raw = collection.raw
    # The fit follows the noise a little: it is nearer to the raw estimate than the truth is.
    near = np.sum((closed_form.norm(raw.frequencies) - simulated.truth) ** 2)
    followed = min(1.0, float(near) / float(np.sum(collection.covariance.diagonal)))
    return followed * collection.answer_variances


def _extra_errors(
    simulated: _Simulated,
    methods: Mapping[str, Method],
    collection: Collection,
    misfit: Misfit,
    noise: float,
) -> dict[str, float]:
    """Return what a misfit adds to the mean squared error of each method's answers.

    A method that moves the fit's answers by the share ρ of the way to the raw ones misses 1 - ρ of
    the misfit: Norm follows it whole, and its error is what is simulated. One that moves the other
    way misses more than all of what is expected; what is unknown beyond that has no direction.

    That is the mean over such collections. On this one the answers also hold ρ² of its noise,
    which may be larger than the mean: where the way to the raw answers is longer than misfit and
    noise explain, it is likely noise. The larger of both counts.
    """
    fitted = collection.answered(simulated.truth)
    way = collection.answers - fitted
    length = float(way @ way)
    expected = float(misfit.mean @ misfit.mean)
    extra = {}
    for name, method in methods.items():
        processed = method.solve(collection.raw)
        answers = collection.answered(processed.frequencies, clip=processed.clip_answers)
        followed = float((answers - fitted) @ way) / length if length > 0 else 1.0
        # Beyond the misfit it is noise, which the simulation counts already.
        missed = 1 - min(followed, 1.0)
        on_average = missed**2 * expected + min(missed, 1.0) ** 2 * misfit.spread
        # The mean of (ρ way - misfit)², less the noise in it that the simulation counts already.
        taken = min(max(followed, 0.0), 1.0)
        of_way = taken**2 * (length - noise) - 2 * taken * float(way @ misfit.mean)
        extra[name] = max(on_average, of_way + expected + misfit.spread) / collection.count
    return extra


@dataclass(frozen=True, eq=False)
class _Simulated:
    """Errors on synthetic data.

    Attributes
    ----------
    errors
        Mean squared error of every method in each trial, shape (trials,).
    dropped
        Why other methods have no answer.
    truth
        The distribution that is simulated, shape (d,): rounded to whole users.
    fit
        The name of the method that fitted it.
    """

    errors: Mapping[str, Array]
    dropped: Mapping[str, str]
    truth: Array
    fit: str

    def selection(
        self, extra: Mapping[str, float] | None = None, risks: RiskTable | None = None
    ) -> Selection:
        """Return the choice, of those methods to whose errors something may be added."""
        extra = {} if extra is None else extra
        names = list(extra) or list(self.errors)
        errors = np.stack([self.errors[name] for name in names], axis=1)
        scores = _ranked(errors, names)
        dropped = dict(self.dropped)
        if risks is not None:
            dropped |= risks.dropped
        # Of equal sums the method with the smaller simulated error is chosen.
        best = min(scores, key=lambda score: _corrected(score, extra))
        return Selection(
            method=best.method,
            scores=scores,
            fit=self.fit,
            trials=len(errors),
            dropped=dropped,
            risks=risks,
            extra=extra,
        )


def _corrected(score: MethodScore, extra: Mapping[str, float]) -> float:
    """Return a simulated error with what the fit's own error adds to it, where that is known."""
    return score.mean + extra.get(score.method, 0.0)


def _simulated(
    est: FrequencyEstimate,
    sets: Sets | NamedSets,
    methods: Mapping[str, Method],
    fitted_by: Method,
    trials: int,
    generator: np.random.Generator,
) -> _Simulated:
    """Return the errors on synthetic data (N V-D)."""
    oracle, n = _require_oracle(est)
    _, rows = named_sets(sets, est.labels)
    members = membership(rows, est.d)
    true_counts = _synthetic_counts(est, n, fitted_by)
    # The truth of the simulation is the rounded distribution, not the fitted one.
    truth = true_counts / n
    true_answers = totals(truth, members)
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
    return _Simulated(errors, dropped, truth, fitted_by.name)


def _errors(
    raw: FrequencyEstimate, method: Method, members: csr_array, true_answers: Array
) -> Array:
    """Return the mean squared error of one method in every trial, shape (trials,)."""
    processed = method.solve(raw)
    answers = totals(processed.frequencies, members)
    if processed.clip_answers:  # as estimate.query does; the sets are a matrix already
        answers = np.maximum(answers, 0.0)
    return metrics.mean_squared_error(answers, true_answers)


def _require_oracle(est: FrequencyEstimate) -> tuple[FrequencyOracle, int]:
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


def _ranked(errors: Array, names: Sequence[str]) -> tuple[MethodScore, ...]:
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
    return tuple(
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


def _half_widths(samples: Array) -> Array:
    """Return the half widths of Student's confidence intervals of the columns' means."""
    from scipy.special import stdtrit  # slow to import, and used only here

    trials = len(samples)
    quantile = float(stdtrit(trials - 1, (1 + _CONFIDENCE) / 2))
    half_widths: Array = quantile * samples.std(axis=0, ddof=1) / np.sqrt(trials)
    return half_widths
