"""Table I: each method by name, as the optimisation problem that it solves, with its guarantees."""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from ldpopt import priors, validate
from ldpopt.constraints import NonNegative, SumsTo
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import GaussianMLE, KullbackLeibler, LeastSquares, Loss
from ldpopt.methods.method import Guarantee, Method, Stated
from ldpopt.methods.statements import (
    SIMPLEX,
    base_cut,
    base_zero,
    norm_cut,
    norm_hyb,
    norm_sub,
    posterior,
    posterior_on_simplex,
    power_under,
    unchanged,
)
from ldpopt.solve.composition import Composition
from ldpopt.solve.problem import Problem
from ldpopt.tables import html_of


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
    # With default options, as the table states them.
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
        transform=unchanged,
        clip_answers=True,
        continuous=True,
    ),
    _solves(
        base_cut,
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
        transform=norm_cut,
        continuous=False,
    ),
    _solves(
        norm_sub,
        name="norm-sub",
        label="Norm-Sub",
        description="max(f̃+δ, 0) with sum 1",
        source="N IV-B, IV-C",
        complexity="O(d log d)",
    ),
    _solves(
        norm_hyb,
        name="norm-hyb",
        label="Norm-Hyb",
        description="keep estimates at or above T, Norm-Sub on the others",
        source="D 3.3",
        complexity="O(d log d)",
        preserves_order=False,
    ),
    _minimises(
        GaussianMLE,
        *SIMPLEX,
        name="mle-apx",
        label="MLE-Apx",
        description="max(f̃+t, 0)/(1-κt) with sum 1",
        source="N IV-D",
        complexity="O(d log d)",
    ),
    _solves(
        # The prior starts at one user: no posterior mean is below 1/n.
        power_under(),
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
        power_under(*SIMPLEX),
        name="power-ns",
        fits_prior=True,
        label="PowerNS",
        description="Norm-Sub after Power",
        source="N IV-E",
        complexity="O(d log d)",
    ),
    _solves(
        base_zero,
        name="base-zero",
        label="OUE-Zero",
        description="estimates below T = Φ⁻¹(1-β/d)σ to 0",
        source="K IV-A",
        complexity="O(d)",
    ),
    _minimises(
        posterior(priors.NPMLE),
        name="npmle",
        fits_prior=True,
        label="NPMLE",
        description="posterior mean under the likeliest prior of all",
        source="Kiefer, Wolfowitz 1956",
        complexity="O(d)",
        nonnegative="yes",
    ),
    _solves(
        posterior_on_simplex(priors.NPMLE),
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
        posterior(priors.Mixture, total=1.0),
        name="mixture",
        fits_prior=True,
        label="Mixture",
        description="posterior mean under a prior mixed from simple shapes",
        source="ours",
        complexity="O(d)",
        nonnegative="yes",
    ),
    _solves(
        posterior_on_simplex(priors.Mixture, total=1.0),
        name="mixture-ns",
        fits_prior=True,
        label="Mixture-NS",
        description="Norm-Sub after the mixture's posterior mean",
        source="ours",
        complexity="O(d log d)",
    ),
    _solves(
        posterior_on_simplex(priors.Auto, total=1.0),
        name="auto-ns",
        fits_prior=True,
        label="Auto-NS",
        description="Norm-Sub after the posterior mean under a prior chosen by evidence",
        source="ours",
        complexity="O(d log d)",
    ),
    # Further methods: after those of the papers, which begin the table.
]


class _Table(Mapping[str, Method]):
    """Methods by name, with an error for others that names the nearest ones."""

    def __init__(self, methods: Iterable[Method]) -> None:
        self._methods = MappingProxyType({method.name: method for method in methods})

    def __getitem__(self, name: str) -> Method:
        """Return a method; an ``UnknownNameError`` is a ``KeyError`` too."""
        return validate.lookup("method", name, self._methods)

    def __iter__(self) -> Iterator[str]:
        return iter(self._methods)

    def __len__(self) -> int:
        return len(self._methods)

    def __repr__(self) -> str:
        return f"METHODS({', '.join(self)})"

    def _repr_html_(self) -> str:
        """Return Table I as notebooks show it."""
        return html_of(_HEADINGS, list(map(_cells, self.values())), title="Post-processing methods")


_HEADINGS = ("name", "what it does", "≥ 0", "Σ = 1", "keeps order")


def _cells(method: Method) -> tuple[str, ...]:
    """Return the row of a method in Table I."""
    order = "yes" if method.preserves_order else "no"
    return method.name, method.description, method.nonnegative, method.sums_to_one, order


METHODS: Mapping[str, Method] = _Table(_ALL)
"""All methods by name, in the order of Table I."""


def _built_in(name: str) -> Method:
    """Return a method of the table: what its pickles call."""
    return METHODS[name]


def _reduced(method: Method) -> Any:
    """Return what pickles a method: its name in the table, whose functions do not pickle."""
    if METHODS.get(method.name) is method:
        return _built_in, (method.name,)
    return object.__reduce_ex__(method, 2)


# Registered here, since a method itself does not know the table.
copyreg.pickle(Method, _reduced)


def markdown_table() -> str:
    """Return Table I as the documentation shows it: a row per method with its guarantees."""
    rows = [f"| {' | '.join(_HEADINGS)} |", "|" + "---|" * len(_HEADINGS)]
    for name, *cells in map(_cells, METHODS.values()):
        rows.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(rows)
