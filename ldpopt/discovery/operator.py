"""An operator: a step of which closed forms are composed.

It is a function of vectors whose parameters, such as bounds or an order, are those that the problem
states. What is known of it (applied twice it is applied once, it keeps the order of the values, it
may change places with another) spares the search compositions that are equal to others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.discovery.setting import Setting
from ldpopt.errors import InvalidInputError, LdpoptError

Array = NDArray[np.float64]
Function = Callable[[Array, Setting], Array]


@dataclass(frozen=True)
class Operator:
    """A function of vectors, with what is known of it.

    Attributes
    ----------
    name
        What expressions call it, without " -> ".
    text
        What it does to x, as a formula in one line.
    latex
        The same in LaTeX, with ``{x}`` where its argument goes.
    function
        From values of shape (trials, d) and a ``Setting`` to values of the same shape. A row for
        which it is not defined is NaN, if ``is_partial``.
    parameters
        Which of ``PARAMETERS`` it takes from the setting: all must be stated by the problem.
    is_idempotent
        Whether applying it twice is applying it once.
    keeps_order
        Whether values that are in some order stay in it, where all have the same bounds.
    commutes_with
        Names of operators with which it may change places.
    is_partial
        Whether there are vectors for which it is not defined.
    is_own
        Whether it was registered by a user: what it returns is then checked.
    """

    name: str
    text: str
    latex: str
    function: Function
    parameters: tuple[str, ...] = ()
    is_idempotent: bool = False
    keeps_order: bool = False
    commutes_with: frozenset[str] = frozenset()
    is_partial: bool = False
    is_own: bool = False

    def is_available(self, setting: Setting) -> bool:
        """Return whether the problem states every parameter that the operator takes."""
        return all(value is not None for value in self.values(setting).values())

    def values(self, setting: Setting) -> dict[str, Any]:
        """Return the operator's parameters as the problem states them."""
        return setting.parameters(self.parameters)

    def apply(self, values: Array, setting: Setting) -> Array:
        """Return the operator's result for values of shape (trials, d), of the same shape.

        Raises
        ------
        InvalidInputError
            If an operator of a user fails, or returns another shape, no real numbers, or NaN.
        """
        # The library's own are tested: checking them would take as long as to apply them.
        if not self.is_own:
            return self.function(values, setting)
        # A copy: a function that writes to its argument would change what others get.
        try:
            returned = self.function(values.copy(), setting)
        except LdpoptError:
            raise
        except Exception as error:
            raise InvalidInputError(
                f"the operator {self.name!r} failed: {type(error).__name__}: {error}; return the "
                "argument where it is not defined"
            ) from error
        return _checked(self.name, returned, values.shape)

    def __repr__(self) -> str:
        return f"Operator({self.name!r})"


def _checked(name: str, returned: Any, shape: tuple[int, ...]) -> Array:
    """Return what a user's operator returned as float64, or raise an error."""
    # As numbers they would lose their imaginary parts, and the mask.
    if np.iscomplexobj(returned) or isinstance(returned, np.ma.MaskedArray):
        raise InvalidInputError(
            f"the operator {name!r} must return plain real numbers, got {type(returned).__name__} "
            f"of {np.asarray(returned).dtype}"
        )
    try:
        values = np.asarray(returned, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"the operator {name!r} must return an array of numbers, got {returned!r}"
        ) from None
    if values.shape != shape:
        raise InvalidInputError(
            f"the operator {name!r} must return the shape of its argument, {shape}, "
            f"got {values.shape}"
        )
    wrong = ~np.isfinite(values)
    if wrong.any():
        row, value = (int(i) for i in np.argwhere(wrong)[0])
        raise InvalidInputError(
            f"the operator {name!r} must return finite numbers, got {values[row, value]} at value "
            f"{value} of row {row}: return the argument where it is not defined"
        )
    return values
