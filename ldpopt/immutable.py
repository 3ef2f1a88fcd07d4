"""Objects that stay as they were built, so that nothing derived from them goes stale."""

from __future__ import annotations

from abc import ABCMeta
from dataclasses import FrozenInstanceError
from typing import Any, NoReturn

import numpy as np


class _SealsInstances(ABCMeta):
    """Seals every instance at the end of its construction, subclasses' constructors included."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        instance = super().__call__(*args, **kwargs)
        instance._seal()
        return instance


class Immutable(metaclass=_SealsInstances):
    """Base of classes whose instances cannot change after construction.

    A constructor sets attributes as usual. Afterwards an array that is an attribute, or a member
    of a tuple that is one, is a read-only copy, so that writing to it or to the array that the
    caller passed changes nothing; setting or deleting an attribute raises ``FrozenInstanceError``,
    an ``AttributeError``. Copies and pickles are sealed too. Equality is identity.

    Examples
    --------
    >>> class Scaled(Immutable):
    ...     def __init__(self, weights):
    ...         self.weights = weights
    >>> given = np.array([1.0, 2.0])
    >>> scaled = Scaled(given)
    >>> given[0] = 7.0
    >>> scaled.weights
    array([1., 2.])
    >>> scaled.weights = given
    Traceback (most recent call last):
    dataclasses.FrozenInstanceError: Scaled is immutable, ...
    """

    _sealed = False

    def _seal(self) -> None:
        attributes = vars(self)
        for name, value in attributes.items():
            attributes[name] = _read_only(value)
        attributes["_sealed"] = True

    def __setattr__(self, name: str, value: object) -> None:
        if self._sealed:
            self._refuse(name)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        self._refuse(name)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Pickles and deep copies come without a constructor, and their arrays are writable.
        vars(self).update(state)
        self._seal()

    def _refuse(self, name: str) -> NoReturn:
        kind = type(self).__name__
        raise FrozenInstanceError(
            f"{kind} is immutable, so its attribute {name!r} cannot change: build a new {kind}"
        )


def _read_only(value: object) -> Any:
    """Return a read-only copy of an array, or of a tuple of arrays; anything else as it is."""
    if type(value) is tuple:
        return tuple(_read_only(member) for member in value)
    if not isinstance(value, np.ndarray):
        return value
    # A read-only view is no protection: its base may be writable.
    if value.flags.writeable or not value.flags.owndata:
        value = value.copy()
        value.flags.writeable = False
    return value
