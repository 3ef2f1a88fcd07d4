"""A function of the user as a step from estimates to frequencies, with checks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, LdpoptError, MethodError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.traced import in_order

Array = NDArray[np.float64]


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
            If the function takes other arguments, changes its input, takes it for an array, or
            returns another shape, or numbers that are not finite.
        """
        self._require_arguments(options)
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
            if "read-only" not in str(error) and "WRITEABLE" not in str(error):
                raise
            raise self._changes_its_input() from error
        except (AttributeError, TypeError) as error:
            if _takes_an_array(error, estimate):
                raise MethodError(
                    f"the method {self.name!r} takes an estimate for an array of its frequencies "
                    f"({error}): let it begin with f = estimate.frequencies"
                ) from error
            raise
        try:
            estimate.require_unchanged()
        except InvalidInputError as error:
            raise self._changes_its_input() from error
        return self._checked(answer, estimate)

    def _require_arguments(self, options: Mapping[str, Any]) -> None:
        """Raise an error unless the function takes an estimate and these options."""
        try:
            self.__signature__.bind(None, **options)
        # A function in C may have no signature.
        except ValueError:
            return
        except TypeError as error:
            raise MethodError(
                f"the method {self.name!r} is called with one estimate, and options by keyword, "
                f"which it does not take ({error}): give further arguments a default"
            ) from None

    def _changes_its_input(self) -> MethodError:
        return MethodError(
            f"the method {self.name!r} changes the estimate that it is given: let it begin with "
            "f = estimate.frequencies.copy()"
        )

    def _checked(self, answer: Any, estimate: FrequencyEstimate) -> Array:
        """Return an answer as d finite numbers, or raise an error that says what it is instead."""
        what = f"what the method {self.name!r} returns"
        d = estimate.d
        # An estimate has labels, which the frequencies of a solution need not repeat.
        if not isinstance(answer, FrequencyEstimate):
            answer = getattr(answer, "frequencies", answer)
        try:
            f = validate.array(what, in_order(what, answer, estimate.labels))
        except LdpoptError as error:
            raise MethodError(
                f"{error}: return one real number per value, an estimate or a solution"
            ) from None
        if f.shape != (d,):
            raise MethodError(
                f"the method {self.name!r} must return one frequency per value, shape ({d},); it "
                f"returned shape {f.shape}: it is called with one vector at a time"
            )
        # NaN would spoil means over draws without a word.
        finite = np.isfinite(f)
        if not finite.all():
            at = validate.first(~finite)
            raise MethodError(
                f"the method {self.name!r} returned {f[at]} at {validate.where(at)}: let it return "
                "finite numbers for every estimate, those without a positive value too"
            )
        return f.astype(np.float64)


def _takes_an_array(error: AttributeError | TypeError, estimate: FrequencyEstimate) -> bool:
    """Return whether an error is that of a function which takes the estimate for an array."""
    if isinstance(error, AttributeError):
        return error.obj is estimate and hasattr(estimate.frequencies, str(error.name))
    # Python's sentence about operators names the types of both sides.
    return "unsupported operand" in str(error) and type(estimate).__name__ in str(error)
