"""A method: a problem, or a function, with what is guaranteed of its result."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.immutable import closed
from ldpopt.methods.own_function import OwnFunction
from ldpopt.solve.composition import Composition
from ldpopt.solve.problem import Problem
from ldpopt.tables import html_of

Array = NDArray[np.float64]
Guarantee = Literal["yes", "no", "almost"]
Stated = Callable[..., Problem | Composition]


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

    def _check_options(self, options: Mapping[str, Any]) -> None:
        """Raise an error that names the first option which the method does not have."""
        for option in options:
            if not self.options:
                raise InvalidInputError(f"{self.name} takes no options, got {option!r}")
            if option not in self.options:
                raise validate.unknown_name(f"option of {self.name}", option, self.options)
