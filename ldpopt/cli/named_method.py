"""Methods by their names on the command line: those of the table, and the user's own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.errors import users_code
from ldpopt.estimate import FrequencyEstimate
from ldpopt.methods import METHODS, Method
from ldpopt.methods.application import method_of
from ldpopt.methods.own_function import OwnFunction
from ldpopt.studies.named_objects import load_object


@dataclass(frozen=True, eq=False)
class _Named(OwnFunction):
    """A function of a module, whose errors are one sentence: there is no session to look around."""

    def __call__(self, estimate: FrequencyEstimate, **options: Any) -> NDArray[Any]:
        """Return the frequencies of every trial, or raise an error that names the function."""
        with users_code(f"the method {self.name!r}"):
            return super().__call__(estimate, **options)


def method_named(name: str) -> Method:
    """Return a method of the table, or a problem or function of the user's, as MODULE:NAME.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the name is unknown, its module does not run, or the object is no method.

    Examples
    --------
    >>> method_named("norm-sub").label
    'Norm-Sub'
    """
    if ":" not in name:
        return validate.lookup("method", name, METHODS)
    method = method_of(load_object(name), name)
    if isinstance(method.transform, OwnFunction):
        return replace(method, transform=_Named(name, method.transform.function))
    return method
