"""Objects that stay as they were built, so that nothing derived from them goes stale."""

from __future__ import annotations

from abc import ABCMeta
from dataclasses import FrozenInstanceError
from functools import cached_property
from itertools import chain
from operator import is_
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np

from ldpopt.errors import InvalidInputError


class _Seal(NamedTuple):
    """The class and the attributes at the end of construction.

    ``held`` are the immutable objects in each attribute, itself or members of a tuple, and
    ``parts`` those of all attributes.
    """

    kind: type
    attributes: dict[str, Any]
    held: dict[str, tuple[Immutable, ...]]
    parts: tuple[Immutable, ...]

    @classmethod
    def of(
        cls, kind: type, attributes: dict[str, Any], held: dict[str, tuple[Immutable, ...]]
    ) -> _Seal:
        return cls(kind, attributes, held, tuple(chain.from_iterable(held.values())))


class _SealsInstances(ABCMeta):
    """Seals every instance at the end of its construction, subclasses' constructors included."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        instance = super().__call__(*args, **kwargs)
        instance._seal()
        return instance


class Immutable(metaclass=_SealsInstances):
    """Base of classes whose instances cannot change after construction.

    A constructor sets attributes as usual. Afterwards an array that is an attribute, or a member
    of a tuple that is one, is a copy in memory that cannot be written to, whatever its flags are
    set to; setting or deleting an attribute raises ``FrozenInstanceError``, an ``AttributeError``.
    Copies and pickles are sealed too. Equality is identity. Python has ways around this, such as
    ``object.__setattr__``: ``require_unchanged`` notices them.

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

    _sealed: _Seal | None = None

    def _seal(self) -> None:
        attributes = vars(self)
        attributes.pop("_sealed", None)
        for name, value in attributes.items():
            attributes[name] = locked(value)
        held = {name: _immutables(value) for name, value in attributes.items()}
        attributes["_sealed"] = _Seal.of(type(self), attributes.copy(), held)

    def _altered(self, **changes: Any) -> Self:
        """Return a sealed copy with other values of some attributes.

        No constructor runs, so that what stays costs nothing: the values must fit each other.
        """
        seal = vars(self)["_sealed"]
        attributes = seal.attributes.copy()
        held = seal.held.copy()
        for name, value in changes.items():
            attributes[name] = locked(value)
            held[name] = _immutables(attributes[name])
        copy: Self = object.__new__(seal.kind)
        vars(copy).update(attributes, _sealed=_Seal.of(seal.kind, attributes, held))
        return copy

    def require_unchanged(self) -> None:
        """Raise an error if an attribute was set, deleted or added around the seal.

        Objects among the attributes are looked at too. Cost: about a microsecond per object, since
        every solve does this.

        Raises
        ------
        InvalidInputError
            If so, with the name of the attribute.
        """
        attributes = vars(self)
        seal = attributes.get("_sealed")
        if seal is None or seal.kind is not type(self):
            self._report("__class__")
        # Attributes stand in the order of their construction, the seal behind them.
        as_sealed = len(attributes) == len(seal.attributes) + 1
        if not as_sealed or not all(map(is_, attributes.values(), seal.attributes.values())):
            self._look_for_changes(seal)
        for part in seal.parts:
            part.require_unchanged()

    def _look_for_changes(self, seal: _Seal) -> None:
        """Raise an error that names what changed, if anything but a cached property did."""
        attributes = vars(self)
        for name, value in seal.attributes.items():
            if name not in attributes or attributes[name] is not value:
                self._report(name)
        for name in attributes.keys() - seal.attributes.keys() - {"_sealed"}:
            # A cached property keeps its value among the attributes.
            if not isinstance(getattr(seal.kind, name, None), cached_property):
                self._report(name)

    def _report(self, name: str) -> NoReturn:
        kind = type(self).__name__
        raise InvalidInputError(
            f"the attribute {name!r} of this {kind} was changed after its construction: "
            f"build a new {kind}"
        )

    def __setattr__(self, name: str, value: object) -> None:
        if self._sealed:
            self._refuse(name)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        self._refuse(name)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the seal: what is restored gets its own."""
        return {name: value for name, value in vars(self).items() if name != "_sealed"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Pickles and deep copies come without a constructor, and their arrays are writable.
        vars(self).update(state)
        self._seal()

    def _refuse(self, name: str) -> NoReturn:
        kind = type(self).__name__
        raise FrozenInstanceError(
            f"{kind} is immutable, so its attribute {name!r} cannot change: build a new {kind}"
        )


def _immutables(value: Any) -> tuple[Immutable, ...]:
    """Return the immutable objects among a value and, if it is a tuple, its members."""
    members = value if type(value) is tuple else (value,)
    # By the metaclass: an abstract base class takes five times as long to answer isinstance.
    return tuple(member for member in members if isinstance(type(member), _SealsInstances))


def locked(value: Any) -> Any:
    """Return an array in memory that cannot be written to; other values as they are.

    A tuple is returned with its members locked.
    """
    if type(value) is tuple:
        return tuple(locked(member) for member in value)
    if not isinstance(value, np.ndarray):
        return value
    # The owner of an array may set its flags again, and a view's base may be writable: bytes
    # never are.
    if isinstance(value.base, bytes) or _is_closed(value):
        return value
    return np.ndarray(value.shape, value.dtype, buffer=value.tobytes())


def closed(values: Any) -> Any:
    """Return a view of an array that nobody else holds, which no flag opens; without a copy."""
    values.flags.writeable = False
    return np.asarray(memoryview(values))


def _is_closed(values: Any) -> bool:
    memory = values.base
    return isinstance(memory, memoryview) and memory.readonly and isinstance(memory.obj, np.ndarray)
