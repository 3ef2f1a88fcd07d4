"""Table I: each method by name, as the optimisation problem that it solves, with its guarantees."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import closed_form, priors, validate
from ldpopt.constraints import Fixed, NonNegative, SumsTo
from ldpopt.errors import InvalidInputError, InvalidTypeError, LdpoptError, MethodError, warn
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.sets import NamedSets, Sets
from ldpopt.group_totals import within_groups
from ldpopt.immutable import closed
from ldpopt.losses import (
    GaussianMLE,
    HardThreshold,
    KullbackLeibler,
    LeastSquares,
    Loss,
    PosteriorMean,
)
from ldpopt.solve.composition import Composition
from ldpopt.solve.problem import Problem
from ldpopt.tables import html_of

Array = NDArray[np.float64]
Guarantee = Literal["yes", "no", "almost"]
Stated = Callable[..., Problem | Composition]

_ALPHA = 2.0  # expected number of false positives above the threshold (N IV-A)
_BETA = 0.05  # the same, of OUE-Zero: one vector in twenty has a false positive (K Eq. 22)


@dataclass(frozen=True, kw_only=True)
class Method:
    """A post-processing method: a row of N Table I.

    Attributes
    ----------
    name, label
        The name that ``postprocess`` takes, and the papers' spelling.
    description
        What it does.
    source
        Where it is defined.
    stated
        From options to the problem that it solves; None for a method that minimises nothing.
    transform
        For a method without a problem, the function from an estimate and options to frequencies.
    nonnegative, sums_to_one
        Its guarantees; "almost" means a sum of at most 1.
    preserves_order
        Whether a larger estimate never becomes the smaller one.
    complexity
        Of one vector.
    clip_answers
        Whether it acts on the answers to queries rather than on the vector.
    fits_prior
        Whether it fits a prior to each estimate.
    keeps_raw
        Whether it returns the estimate itself, so that a raw one is still raw.
    continuous
        Of a method without a problem: whether it never jumps as the estimate moves. None where that
        is not known.
    """

    name: str
    label: str
    description: str
    source: str
    complexity: str
    nonnegative: Guarantee
    sums_to_one: Guarantee
    preserves_order: bool = True
    stated: Stated | None = None
    transform: Callable[..., Array] | None = None
    clip_answers: bool = False
    fits_prior: bool = False
    keeps_raw: bool = False
    continuous: bool | None = None

    def __repr__(self) -> str:
        return f"Method({self.name!r}: {self.formula or self.description})"

    def _repr_html_(self) -> str:
        """Return the row of the table of methods as notebooks show it."""
        facts = [
            ("name", self.name),
            ("what it does", self.description),
            ("problem", self.formula or "none"),
            ("f ≥ 0", self.nonnegative),
            ("Σf = 1", self.sums_to_one),
            ("keeps the order", "yes" if self.preserves_order else "no"),
            ("cost", self.complexity),
            ("options", ", ".join(f"{name}={value!r}" for name, value in self.options.items())),
            ("source", self.source),
        ]
        # A method without options says nothing of them.
        return html_of((), [fact for fact in facts if fact[1]], title=self.label)

    @property
    def problem(self) -> Problem | Composition | None:
        """The problem that it solves with its default options, None if it minimises nothing.

        A ``Composition`` states another problem for each vector.
        """
        if self.stated is None:
            return None
        # A problem keeps the priors that it fitted: a new one fits, and warns, again.
        return self.stated() if self.fits_prior else self._kept_problem

    @cached_property
    def _kept_problem(self) -> Problem | Composition:
        """The problem, kept: stating it costs more than a closed form for a thousand values."""
        assert self.stated is not None  # problem asks for it
        return self.stated()

    @property
    def is_continuous(self) -> bool | None:
        """Whether it never jumps as the estimate moves; None of functions of which it is not known.

        The minimiser of a convex problem moves continuously. Thresholds jump, and so does a second
        problem that depends on which values the first one keeps.
        """
        problem = self.problem
        if problem is None:
            return self.continuous
        return isinstance(problem, Problem) and problem.convex

    @property
    def is_own(self) -> bool:
        """Whether it is a function of the user."""
        return isinstance(self.transform, OwnFunction)

    @property
    def formula(self) -> str:
        """The problem in the papers' letters; empty if there is none."""
        problem = self.problem
        return "" if problem is None else problem.formula

    @property
    def options(self) -> dict[str, Any]:
        """Names and defaults of the options that ``postprocess`` passes on."""
        function = self.stated or self.transform
        assert function is not None  # a method has one of the two
        parameters = inspect.signature(function).parameters.values()
        # A transform also takes the estimate itself, by position.
        options = [option for option in parameters if option.kind is option.KEYWORD_ONLY]
        return {option.name: option.default for option in options}

    def solve(self, estimate: FrequencyEstimate, **options: Any) -> FrequencyEstimate:
        """Return the estimate after this method, as ``postprocess`` does."""
        # Before anything is stated: an unknown keyword would otherwise be a TypeError of a private
        # function.
        self._check_options(options)
        # A copy with another name is as raw as before: its intervals need no ancestor.
        if self.keeps_raw:
            return estimate.unclipped(self.name)
        if self.stated is not None:
            # With the default options the problem is there already, and so is what it compiled.
            problem = self.stated(**options) if options else self.problem
            assert problem is not None  # it is stated
            frequencies = problem.minimise(estimate)
        else:
            assert self.transform is not None  # a method has one of the two
            frequencies = self.transform(estimate, **options)
        frequencies = closed(frequencies)  # nobody else has it, so that no copy is needed
        return estimate.processed(frequencies, method=self.name, clip_answers=self.clip_answers)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle a method of the table by its name: the functions that state it do not pickle."""
        if METHODS.get(self.name) is self:
            return _built_in, (self.name,)
        return super().__reduce_ex__(protocol)

    def _check_options(self, options: Mapping[str, Any]) -> None:
        """Raise an error that names the first option which the method does not have."""
        for option in options:
            if not self.options:
                raise InvalidInputError(f"{self.name} takes no options, got {option!r}")
            if option not in self.options:
                raise validate.unknown_name(f"option of {self.name}", option, self.options)


def _minimises(
    loss: Callable[[], Loss],
    *constraints: NonNegative | SumsTo,
    nonnegative: Guarantee | None = None,
    **row: Any,
) -> Method:
    """Return the method that minimises a loss; its guarantees are what the constraints state."""

    def stated() -> Problem:
        return Problem(loss(), constraints)

    return _solves(stated, nonnegative=nonnegative, **row)


def _solves(stated: Stated, *, nonnegative: Guarantee | None = None, **row: Any) -> Method:
    """Return the method that solves a problem; its guarantees are those of the constraints.

    A loss may guarantee more than the constraints: ``nonnegative`` then says so.
    """
    problem = stated()
    if isinstance(problem, Composition):
        # Any vector will do: what it states has the same bounds and the same total as every other.
        problem = problem.problem_for(FrequencyEstimate([0.75, 0.5], noise=[0.01, 0.01]))
    # Two values are the smallest domain.
    lower, _ = problem.box(2)  # what holds for two values holds for any number of them
    # Read off the problem, so that the table cannot promise what the constraints do not state.
    row["nonnegative"] = nonnegative or ("yes" if (lower >= 0).all() else "no")
    row["sums_to_one"] = "yes" if problem.total(2) == 1.0 else "no"
    return Method(stated=stated, **row)


def _base_cut(*, alpha: float = _ALPHA, top_k: int | None = None) -> Problem:
    alpha = validate.real("alpha", alpha, above=0)
    if top_k is None:
        return Problem(HardThreshold(alpha), [NonNegative()])
    # An alpha of 2 that the caller wrote looks like the default: it passes.
    if alpha != _ALPHA:
        raise InvalidInputError("alpha and top_k both set the threshold: give one of them")
    return Problem(HardThreshold(top_k=top_k), [NonNegative()])


def _base_zero(*, beta: float = _BETA) -> Problem:
    return Problem(HardThreshold(validate.real("beta", beta, above=0)), [NonNegative()])


def _norm_hyb(*, alpha: float = _ALPHA, top_k: int | None = None) -> Composition:
    cut = _base_cut(alpha=alpha, top_k=top_k)
    # The same threshold decides which values are kept and which problem that amounts to.
    loss = cut.loss
    assert isinstance(loss, HardThreshold)

    def minimise(estimate: FrequencyEstimate) -> Array:
        return closed_form.norm_hyb(estimate.frequencies, loss.threshold(estimate))

    def stated_by(vector: FrequencyEstimate) -> Problem:
        f = vector.frequencies
        kept = np.flatnonzero(closed_form.kept_by_norm_hyb(f, loss.threshold(vector)))
        return Problem(LeastSquares(), [NonNegative(), SumsTo(1.0), Fixed(kept, f[kept])])

    formula = "min ½‖f-f̃‖², f ≥ 0, Σf = 1, f = f̃ where Base-Cut keeps f̃"
    return Composition(cut, stated_by, minimise, "norm-hyb", formula)


def _require_flag(name: str, value: object) -> None:
    """Raise an error unless an option is True or False: any text would count as True."""
    if not isinstance(value, bool):
        raise InvalidTypeError(f"{name} must be True or False, got {value!r}")


def _norm_sub(*, zero_first: bool = False) -> Problem | Composition:
    _require_flag("zero_first", zero_first)
    if not zero_first:
        return Problem(LeastSquares(), _SIMPLEX)

    def minimise(estimate: FrequencyEstimate) -> Array:
        _require_positive(estimate.frequencies, "norm-sub with zero_first")
        return closed_form.zero_first(estimate.frequencies)

    def stated_by(vector: FrequencyEstimate) -> Problem:
        zeros = np.flatnonzero(vector.frequencies <= 0)
        return Problem(LeastSquares(), [*_SIMPLEX, Fixed(zeros, np.zeros(len(zeros)))])

    # Base-Pos decides what is fixed, which makes it the first of two problems.
    first = Problem(LeastSquares(), [NonNegative()])
    formula = "min ½‖f-f̃‖², f ≥ 0, Σf = 1, f = 0 where f̃ ≤ 0"
    return Composition(first, stated_by, minimise, "norm-sub, zero first", formula)


def _require_positive(f: Array, name: str) -> None:
    """Raise an error unless every vector has a positive value."""
    without = np.max(f, axis=-1) <= 0
    if without.any():
        at = validate.first(np.asarray(without))
        raise InvalidInputError(
            f"{name} needs a positive estimate, found a vector without one{validate.placed(at)}; "
            "norm-sub itself always has an answer"
        )


_CROSSINGS: Mapping[str, closed_form.Crossing] = MappingProxyType({"cut": "cut", "keep": "keep"})


def _norm_cut(estimate: FrequencyEstimate, *, crossing: str = "cut") -> Array:
    f = estimate.frequencies
    choice = validate.lookup("crossing", crossing, _CROSSINGS)
    if choice == "keep":
        return _norm_cut_behind_crossing(f)
    # The definition adds up the largest estimates while their sum is below 1: here not even the
    # first one fits.
    if np.any(f.max(axis=-1) > 1):
        warn(
            "norm-cut returns 0 everywhere for a vector with an estimate above 1: by its "
            "definition such a value, and all below it, are cut; norm-sub has no such case"
        )
    return closed_form.norm_cut(f)


def _norm_cut_behind_crossing(f: Array) -> Array:
    """Return Norm-Cut as the authors' code computes it, or raise an error where it divides by 0."""
    crosses = np.sum(np.maximum(f, 0.0), axis=-1) > 1
    # Where nothing crosses all values are kept, negative ones too, and divided by their sum.
    without = ~crosses & (np.sum(f, axis=-1) <= 0)
    if without.any():
        at = validate.first(without)
        raise InvalidInputError(
            'norm-cut with crossing="keep" divides by the sum of the estimates, which is not '
            f"positive{validate.placed(at)}; norm-cut without options always has an answer"
        )
    return closed_form.norm_cut(f, crossing="keep")


def _unchanged(estimate: FrequencyEstimate) -> Array:
    return estimate.frequencies


# One pair of objects for all methods: constraints are immutable.
_SIMPLEX = (NonNegative(), SumsTo(1.0))


def _posterior(
    prior: type[priors.Prior], total: float | None = None
) -> Callable[[], PosteriorMean]:
    """Return the function that makes the loss, so that every problem fits its own prior."""
    return lambda: PosteriorMean(prior, total=total)


def _posterior_on_simplex(prior: type[priors.Prior], total: float | None = None) -> Stated:
    """Return the function that states the projection of a posterior mean, within groups or not."""
    loss = _posterior(prior, total)

    def stated(*, groups: Sets | NamedSets | None = None) -> Problem | Composition:
        return Problem(loss(), _SIMPLEX) if groups is None else within_groups(loss, groups)

    return stated


def _power_under(*constraints: NonNegative | SumsTo) -> Stated:
    """Return the function that states Power's problem under some constraints."""

    def stated(*, binned: bool = False) -> Problem:
        _require_flag("binned", binned)
        prior = priors.BinnedPowerLaw if binned else priors.PowerLaw
        return Problem(PosteriorMean(prior), constraints)

    return stated


_ALL = [
    _minimises(
        LeastSquares,
        name="base",
        label="Base",
        description="the unbiased estimate itself",
        source="N IV",
        complexity="O(1)",
        keeps_raw=True,
    ),
    _minimises(
        LeastSquares,
        NonNegative(),
        name="base-pos",
        label="Base-Pos",
        description="negative estimates to 0",
        source="N IV-A",
        complexity="O(d)",
    ),
    Method(
        name="post-pos",
        label="Post-Pos",
        description="negative answers to queries to 0; the vector stays",
        source="N IV-A",
        complexity="O(1)",
        nonnegative="yes",
        sums_to_one="no",
        # Answers to queries are clipped, for which no problem about the vector has a counterpart.
        transform=_unchanged,
        clip_answers=True,
        continuous=True,
    ),
    _solves(
        _base_cut,
        name="base-cut",
        label="Base-Cut",
        description="estimates below T = Φ⁻¹(1-α/d)σ to 0",
        source="N IV-A",
        complexity="O(d)",
    ),
    _minimises(
        LeastSquares,
        SumsTo(1.0),
        name="norm",
        label="Norm",
        description="add δ so that the sum is 1",
        source="N IV-B",
        complexity="O(d)",
    ),
    _minimises(
        KullbackLeibler,
        SumsTo(1.0),
        name="norm-mul",
        label="Norm-Mul",
        description="negative to 0, then multiply by γ",
        source="N IV-B",
        complexity="O(d)",
    ),
    Method(
        name="norm-cut",
        label="Norm-Cut",
        description="negative and small ones to 0 until the sum is at most 1",
        source="N IV-B",
        complexity="O(d log d)",
        nonnegative="yes",
        sums_to_one="almost",
        # Its result is not the minimiser of anything that N states: a function, not a problem.
        transform=_norm_cut,
        continuous=False,
    ),
    _solves(
        _norm_sub,
        name="norm-sub",
        label="Norm-Sub",
        description="max(f̃+δ, 0) with sum 1",
        source="N IV-B, IV-C",
        complexity="O(d log d)",
    ),
    _solves(
        _norm_hyb,
        name="norm-hyb",
        label="Norm-Hyb",
        description="keep estimates at or above T, Norm-Sub on the others",
        source="D 3.3",
        complexity="O(d log d)",
        preserves_order=False,
    ),
    _minimises(
        GaussianMLE,
        *_SIMPLEX,
        name="mle-apx",
        label="MLE-Apx",
        description="max(f̃+t, 0)/(1-κt) with sum 1",
        source="N IV-D",
        complexity="O(d log d)",
    ),
    _solves(
        # The prior starts at one user: no posterior mean is below 1/n.
        _power_under(),
        name="power",
        fits_prior=True,
        label="Power",
        description="posterior mean under a fitted power law",
        source="N IV-E, K III",
        complexity="O(d)",
        nonnegative="yes",
    ),
    _solves(
        # E‖f - f'‖² = ‖E f - f'‖² + a constant: on the simplex the minimum is the projection of the
        # posterior mean, which is Norm-Sub.
        _power_under(*_SIMPLEX),
        name="power-ns",
        fits_prior=True,
        label="PowerNS",
        description="Norm-Sub after Power",
        source="N IV-E",
        complexity="O(d log d)",
    ),
    _solves(
        _base_zero,
        name="base-zero",
        label="OUE-Zero",
        description="estimates below T = Φ⁻¹(1-β/d)σ to 0",
        source="K IV-A",
        complexity="O(d)",
    ),
    _minimises(
        _posterior(priors.NPMLE),
        name="npmle",
        fits_prior=True,
        label="NPMLE",
        description="posterior mean under the likeliest prior of all",
        source="Kiefer, Wolfowitz 1956",
        complexity="O(d)",
        nonnegative="yes",
    ),
    _solves(
        _posterior_on_simplex(priors.NPMLE),
        name="npmle-ns",
        fits_prior=True,
        label="NPMLE-NS",
        description="Norm-Sub after NPMLE",
        source="Kiefer, Wolfowitz 1956",
        complexity="O(d log d)",
    ),
    # The true counts sum to n. Without the noise of their sum the bottom of the prior is fitted
    # better.
    _minimises(
        _posterior(priors.Mixture, total=1.0),
        name="mixture",
        fits_prior=True,
        label="Mixture",
        description="posterior mean under a prior mixed from simple shapes",
        source="ours",
        complexity="O(d)",
        nonnegative="yes",
    ),
    _solves(
        _posterior_on_simplex(priors.Mixture, total=1.0),
        name="mixture-ns",
        fits_prior=True,
        label="Mixture-NS",
        description="Norm-Sub after the mixture's posterior mean",
        source="ours",
        complexity="O(d log d)",
    ),
]

METHODS: Mapping[str, Method] = MappingProxyType({method.name: method for method in _ALL})
"""All methods by name, in the order of Table I."""


def _built_in(name: str) -> Method:
    """Return a method of the table: what its pickles call."""
    return METHODS[name]


@dataclass(frozen=True, eq=False)
class _Stated:
    """A problem of the user as the function that states it."""

    problem: Problem | Composition

    def __call__(self) -> Problem | Composition:
        return self.problem


@dataclass(frozen=True, eq=False)
class OwnFunction:
    """A function of the user, from one vector's estimate to its frequencies, with checks.

    Attributes
    ----------
    name
        What errors call it.
    function
        Takes an estimate of shape (d,), and options by keyword; returns an array of shape (d,), an
        estimate or a solution.
    """

    name: str
    function: Callable[..., Any]

    @property
    def __signature__(self) -> inspect.Signature:
        """The signature of the function, whose keyword-only arguments are the method's options."""
        return inspect.signature(self.function)

    def __call__(self, estimate: FrequencyEstimate, **options: Any) -> Array:
        """Return the frequencies of every trial.

        Trial by trial, because a function that is written for one vector may treat a stack of them
        as if it were one, without an error.

        Raises
        ------
        MethodError
            If the function changes its input, or returns another shape, or numbers that are not
            finite.
        """
        result = np.empty(estimate.frequencies.shape)
        for trial in np.ndindex(estimate.frequencies.shape[:-1]):
            result[trial] = self._vector(estimate[trial] if trial else estimate, options)
        return result

    def _vector(self, estimate: FrequencyEstimate, options: Mapping[str, Any]) -> Array:
        try:
            answer = self.function(estimate, **options)
        except ValueError as error:
            # The frequencies are locked: numpy's sentence says neither whose they are nor what to
            # do.
            if "read-only" not in str(error):
                raise
            raise MethodError(
                f"the method {self.name!r} changes the estimate that it is given: let it begin "
                "with f = estimate.frequencies.copy()"
            ) from error
        return self._checked(getattr(answer, "frequencies", answer), estimate.d)

    def _checked(self, answer: Any, d: int) -> Array:
        """Return an answer as d finite numbers, or raise an error that says what it is instead."""
        try:
            f = validate.array(f"what the method {self.name!r} returns", answer)
        except LdpoptError as error:
            raise MethodError(
                f"{error}: return one real number per value, an estimate or a solution"
            ) from None
        if f.shape != (d,):
            raise MethodError(
                f"the method {self.name!r} must return one frequency per value, shape ({d},); it "
                f"returned shape {f.shape}: it is called with one vector at a time"
            )
        finite = np.isfinite(f)
        if not finite.all():
            at = validate.first(~finite)
            raise MethodError(
                f"the method {self.name!r} returned {f[at]} at {validate.where(at)}: let it return "
                "finite numbers for every estimate, those without a positive value too"
            )
        return f.astype(np.float64)


def method_of(what: Any, name: str | None = None) -> Method:
    """Return a method: one of ``METHODS`` by its name, or one of the user's own.

    Parameters
    ----------
    what
        A name in ``METHODS``, a Method, a Problem, or a function from an estimate of shape (d,) to
        frequencies of that shape. Its keyword-only arguments are options of the method.
    name
        Of a method of one's own; by default the function's, or the problem in words.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the name is unknown, or ``what`` is none of these.

    Examples
    --------
    >>> def halved(estimate, *, factor=0.5):
    ...     return factor * estimate.frequencies
    >>> method_of(halved).options
    {'factor': 0.5}
    >>> method_of(halved).solve(FrequencyEstimate([0.5, 0.25]), factor=0.1).frequencies
    array([0.05 , 0.025])
    """
    if isinstance(what, str):
        return validate.lookup("method", what, METHODS)
    if isinstance(what, Method):
        return what
    if isinstance(what, Problem | Composition):
        stated = what.statement if isinstance(what, Problem) else what.name
        return _users_method(name or stated, what.formula, stated=_Stated(what))
    if callable(what) and not isinstance(what, type):
        label = name or str(getattr(what, "__name__", type(what).__name__))
        return _users_method(label, "", transform=OwnFunction(label, what))
    raise InvalidTypeError(
        "a method is a name such as 'norm-sub', a Problem, or a function from an estimate to "
        f"frequencies, got {what!r}"
    )


def named_methods(what: Any) -> dict[str, Method]:
    """Return methods by name: one of what ``method_of`` takes, several, or several by name.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If there is none, one of them is no method, or two have one name.

    Examples
    --------
    >>> list(named_methods({"ours": lambda estimate: estimate.frequencies, "theirs": "norm"}))
    ['ours', 'theirs']
    """
    methods: dict[str, Method] = {}
    if isinstance(what, Mapping):
        methods = {str(name): method_of(method, str(name)) for name, method in what.items()}
    else:
        is_single = isinstance(what, str | Method | Composition) or not isinstance(what, Iterable)
        for place, item in enumerate([what] if is_single else what):
            method = method_of(item)
            if method.name in methods:
                raise InvalidInputError(
                    f"candidates must be distinct, got {method.name!r} again at position {place}: "
                    "pass a dictionary from distinct names to candidates"
                )
            methods[method.name] = method
    if not methods:
        raise InvalidInputError("candidates must hold at least one method, got none")
    return methods


def _users_method(name: str, description: str, **how: Any) -> Method:
    """Return a method of the user, of which nothing is guaranteed."""
    return Method(
        name=name,
        label=name,
        description=description or "a function of your own",
        source="your own",
        complexity="",
        nonnegative="no",
        sums_to_one="no",
        preserves_order=False,
        **how,
    )


def markdown_table() -> str:
    """Return Table I as the documentation shows it: a row per method with its guarantees."""
    rows = ["| name | what it does | ≥ 0 | Σ = 1 | keeps order |", "|---|---|---|---|---|"]
    for method in METHODS.values():
        order = "yes" if method.preserves_order else "no"
        rows.append(
            f"| `{method.name}` | {method.description} | {method.nonnegative} "
            f"| {method.sums_to_one} | {order} |"
        )
    return "\n".join(rows)


def postprocess(
    estimate: FrequencyEstimate | ArrayLike,
    method: str | Method | Problem | Composition | Callable[..., Any],
    **options: Any,
) -> FrequencyEstimate:
    """Apply a method of Table I, or your own, to an estimate or a stack of trials.

    Parameters
    ----------
    estimate
        A FrequencyEstimate; a plain array of shape (..., d) is enough for methods that need no
        noise.
    method
        A name in ``METHODS``, a Problem, or a function from an estimate of shape (d,) to
        frequencies, which is called trial by trial: see ``method_of``.
    **options
        Options of the method: ``groups`` for ``npmle-ns`` and ``mixture-ns`` (disjoint sets of
        values, such as categories: each keeps the total that the raw estimates give it, which a
        prior alone would shrink); ``alpha`` (expected false positives, 2) and ``top_k`` (number of
        values of interest, if known) for ``base-cut`` and ``norm-hyb``; ``beta`` (expected
        false positives, .05) for ``base-zero``. Three more give what the code that drew N's
        figures computes: ``crossing="keep"`` for ``norm-cut`` (it keeps the value that crosses
        the sum of 1, and rescales), ``zero_first=True`` for ``norm-sub`` (values that are not
        positive stay 0), ``binned=True`` for ``power`` and ``power-ns`` (posterior means at
        estimates in bins of ten counts).

    Returns
    -------
    FrequencyEstimate with the same noise and labels, named after the method, which keeps the raw
    one for intervals. A further method starts from its frequencies: the clipping of answers by
    ``post-pos`` does not carry over.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the method or an option is unknown, a number is not finite, the noise is needed and
        not known, or the method has no answer (``norm-mul`` and ``zero_first`` with no positive
        estimate, ``crossing="keep"`` where all estimates are kept and sum to 0 or less). If a
        function of yours changes its input, or returns another shape or numbers that are not
        finite.

    Warns
    -----
    LdpoptWarning
        If a method that uses the noise (``base-cut`` and ``norm-hyb`` without ``top_k``,
        ``base-zero``, ``mle-apx``, and those with a prior) gets a processed estimate: it is
        made for raw ones.

    Notes
    -----
    Cost: Table I, for all trials at once. The frequencies are those of
    ``METHODS[method].problem.solve(estimate)``, where the method has a problem.

    Examples
    --------
    >>> postprocess([0.5, 0.2, -0.01], "norm-sub").frequencies.round(3)
    array([0.603, 0.303, 0.093])
    >>> postprocess([0.5, -0.1], lambda estimate: abs(estimate.frequencies)).frequencies
    array([0.5, 0.1])
    """
    return method_of(method).solve(FrequencyEstimate.of(estimate), **options)
