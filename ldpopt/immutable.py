"""Objects that stay as they were built, so that nothing derived from them goes stale."""

from __future__ import annotations

import difflib
import inspect
import sys
from abc import ABCMeta
from collections.abc import Callable, Iterable, Iterator
from dataclasses import FrozenInstanceError
from enum import Enum
from functools import cached_property
from numbers import Number
from operator import is_
from typing import Any, ClassVar, NamedTuple, NoReturn, Self, TypeVar, overload

import numpy as np

from ldpopt.errors import InvalidInputError, InvalidTypeError

_Class = TypeVar("_Class", bound=type)
_Value = TypeVar("_Value")


class _Container(NamedTuple):
    """An object in an attribute that can still be changed, and what it held at first."""

    name: str
    value: Any
    contents: tuple[Any, ...]


class _Form(NamedTuple):
    """An array in an attribute, and how it read its memory at first.

    Numpy lets anyone set the shape, the strides and the type of an array that cannot be written to.
    """

    name: str
    array: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    memory: Any


class _Held(NamedTuple):
    """What an attribute holds that needs a look: itself, or in tuples, lists and the like.

    ``parts`` are immutable objects, ``containers`` those that can be changed, and ``forms`` those
    of the arrays. ``foreign`` states whether there is an object of an unknown kind.
    """

    parts: tuple[Immutable, ...] = ()
    containers: tuple[_Container, ...] = ()
    forms: tuple[_Form, ...] = ()
    foreign: bool = False


class _Contents(NamedTuple):
    """What an object holds in all its attributes that needs a look.

    ``parts`` are the immutable objects in attributes, those among theirs, and so on, each once.
    ``containers`` and ``forms`` are the object's own. ``is_settled`` states whether neither the
    object nor one of its parts holds a foreign object.
    """

    parts: tuple[Immutable, ...]
    containers: tuple[_Container, ...]
    forms: tuple[_Form, ...]
    is_settled: bool


class _Seal:
    """The class and the attributes at the end of construction.

    ``held`` has an entry for each attribute that needs a look, and ``derived`` the values of
    derived properties that were computed so far.
    """

    __slots__ = ("_contents", "attributes", "derived", "held", "kind")

    def __init__(
        self,
        kind: type,
        attributes: dict[str, Any],
        held: dict[str, _Held],
        derived: dict[str | None, Any],
    ) -> None:
        self.kind = kind
        self.attributes = attributes
        self.held = held
        self.derived = derived
        self._contents: _Contents | None = None

    @property
    def contents(self) -> _Contents:
        """What the attributes hold, joined at the first look: most estimates never get one."""
        if self._contents is None:
            self._contents = _joined(self.held.values())
        return self._contents


def _joined(holdings: Iterable[_Held]) -> _Contents:
    # By identity: a user's class may call different objects equal.
    parts: dict[int, Immutable] = {}
    containers: tuple[_Container, ...] = ()
    forms: tuple[_Form, ...] = ()
    is_settled = True
    for holding in holdings:
        containers += holding.containers
        forms += holding.forms
        is_settled &= not holding.foreign
        for part in holding.parts:
            contents = part._contents
            is_settled &= contents.is_settled
            for deeper in (part, *contents.parts):
                parts[id(deeper)] = deeper
    return _Contents(tuple(parts.values()), containers, forms, is_settled)


class SealsInstances(ABCMeta):
    """Seals every instance at the end of its construction, subclasses' constructors included."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return a sealed instance."""
        try:
            instance = super().__call__(*args, **kwargs)
        except TypeError:
            # Python names the class whose constructor it is, which may be an internal base.
            _require_arguments(cls, args, kwargs)
            raise
        instance._seal()
        return instance

    @property
    def __signature__(cls) -> inspect.Signature:
        """What ``help`` and editors show of a class: its constructor's arguments and defaults."""
        # Without it they would show those of __call__ above, which takes anything.
        constructor = cls.__init__  # type: ignore[misc]
        if constructor is object.__init__:
            return inspect.Signature()
        signature = inspect.signature(constructor)
        _, *arguments = signature.parameters.values()
        return signature.replace(parameters=arguments, return_annotation=inspect.Signature.empty)


def _require_arguments(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise an error unless a constructor takes these arguments; it names the nearest keyword."""
    signature = inspect.signature(cls)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        hint = ""
        for wrong in kwargs:
            close = difflib.get_close_matches(wrong, signature.parameters, n=1)
            if wrong not in signature.parameters and close:
                hint = f": for {wrong}=..., did you mean {close[0]}=...?"
        raise InvalidTypeError(f"{cls.__name__}(): {error}{hint}") from None


def called_as(name: str) -> Callable[[_Class], _Class]:
    """Return a decorator of an internal base, whose methods users call by another class.

    Python's errors about arguments state where a method was written: with it they state ``name``.
    """

    def named(cls: _Class) -> _Class:
        for method in vars(cls).values():
            # A class method holds its function.
            function = getattr(method, "__func__", method)
            if inspect.isfunction(function):
                function.__qualname__ = f"{name}.{function.__name__}"
        return cls

    return named


class derived_property(cached_property[_Value]):  # a decorator, as its base is
    """A property of an immutable object that is computed once, and that nobody can replace.

    A ``cached_property`` keeps its value among the attributes, where anyone can set another one.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> _Value: ...

    def __get__(self, instance: object | None, owner: type[Any] | None = None) -> Self | _Value:
        """Return the value, computed at the first look."""
        if instance is None:
            return self
        attributes = vars(instance)
        seal: _Seal | None = attributes.get("_sealed")
        # A constructor may look too: what it computes is kept with the seal.
        derived: dict[str | None, Any]
        derived = attributes.setdefault("_derived", {}) if seal is None else seal.derived
        if self.attrname not in derived:
            derived[self.attrname] = locked(self.func(instance))
        value: _Value = derived[self.attrname]
        return value

    def __set__(self, instance: Any, value: object) -> None:
        instance._refuse(self.attrname)


class Immutable(metaclass=SealsInstances):
    """Base of classes whose instances cannot change after construction.

    A constructor sets attributes as usual. Afterwards an array that is an attribute, or a member
    of one, is a copy in memory that cannot be written to, whatever its flags are set to; setting
    or deleting an attribute raises ``FrozenInstanceError``, an ``AttributeError``. Lists, sets,
    dictionaries and scipy's sparse matrices are copies that nobody else holds. Copies and pickles
    are sealed too. Equality is identity. Python has ways around this, such as
    ``object.__setattr__``, ``append`` of a list and a new ``shape`` of an array:
    ``require_unchanged`` notices them. What it cannot look into, such as a function or an object of
    another class, makes ``is_settled`` false.

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

    _kept: ClassVar[frozenset[str]] = frozenset()
    """Names of attributes whose objects the class itself takes care of, such as a memory."""

    def _seal(self) -> None:
        attributes = vars(self)
        attributes.pop("_sealed", None)
        derived: dict[str | None, Any] = attributes.pop("_derived", {})
        held: dict[str, _Held] = {}
        for name, value in attributes.items():
            attributes[name] = locked(value)
            self._look_into(name, attributes[name], held)
        attributes["_sealed"] = _Seal(type(self), attributes.copy(), held, derived)

    def _altered(self, **changes: Any) -> Self:
        """Return a sealed copy with other values of some attributes.

        No constructor runs, so that what stays costs nothing: the values must fit each other.
        """
        seal = vars(self)["_sealed"]
        attributes = seal.attributes.copy()
        held = seal.held.copy()
        for name, value in changes.items():
            held.pop(name, None)
            # Most changes are names and flags.
            if type(value) in _PLAIN:
                attributes[name] = value
                continue
            attributes[name] = locked(value)
            self._look_into(name, attributes[name], held)
        copy: Self = object.__new__(seal.kind)
        vars(copy).update(attributes, _sealed=_Seal(seal.kind, attributes, held, {}))
        return copy

    @classmethod
    def _look_into(cls, name: str, value: Any, held: dict[str, _Held]) -> None:
        """Note what an attribute holds that needs a look, if it holds anything."""
        # Most are numbers, text, parts or arrays: these need no search.
        kind = type(value)
        if kind in _PLAIN:
            return
        if isinstance(kind, SealsInstances):
            held[name] = _Held(parts=(value,))
            return
        if _is_locked(value):
            held[name] = _Held(forms=(_form(name, value),))
            return
        if isinstance(value, _SETTLED):
            return
        contents = cls._search(name, value)
        if any(contents):
            held[name] = contents

    @classmethod
    def _search(cls, name: str, value: Any) -> _Held:
        """Return what an attribute holds that needs a look, itself or in containers."""
        parts: list[Immutable] = []
        containers: list[_Container] = []
        forms: list[_Form] = []
        foreign = False
        for part in _parts(value):
            # By the metaclass: an abstract base class takes five times as long to answer.
            if isinstance(type(part), SealsInstances):
                parts.append(part)
                continue
            if isinstance(part, np.ndarray):
                forms.append(_form(name, part))
            if _is_locked(part):
                continue
            contents = _contents(part)
            if contents is not None:
                containers.append(_Container(name, part, contents))
            elif name not in cls._kept:
                foreign = True
        return _Held(tuple(parts), tuple(containers), tuple(forms), foreign)

    @property
    def is_settled(self) -> bool:
        """Whether every attribute is of a kind whose changes are prevented or noticed."""
        return self._contents.is_settled

    @property
    def _contents(self) -> _Contents:
        contents: _Contents = vars(self)["_sealed"].contents
        return contents

    def require_unchanged(self) -> None:
        """Raise an error if an attribute was set, deleted or added around the seal.

        Objects among the attributes are looked at too. Cost: about a microsecond per object,
        since every solve does this.

        Raises
        ------
        InvalidInputError
            If so, with the name of the attribute.
        """
        for part in self._require_as_sealed():
            part._require_as_sealed()

    def _require_as_sealed(self) -> tuple[Immutable, ...]:
        """Raise the error of ``require_unchanged`` for this object alone; return its parts."""
        attributes = vars(self)
        seal: _Seal | None = attributes.get("_sealed")
        if seal is None or seal.kind is not type(self):
            self._report("__class__")
        sealed = seal.attributes
        # Attributes stand in the order of their construction, then comes the seal.
        if not all(map(is_, attributes.values(), sealed.values())):
            self._look_for_changes(seal)
        # A cached property comes behind the seal.
        elif len(attributes) > len(sealed) + 1:
            self._look_for_additions(seal)
        contents = seal.contents
        for name, array, shape, strides, dtype, memory in contents.forms:
            is_same = array.base is memory and array.dtype is dtype and array.shape == shape
            if not is_same or array.strides != strides:
                self._report(name)
        for name, value, members in contents.containers:
            now = _contents(value)
            if now is None or len(now) != len(members) or not all(map(is_, now, members)):
                self._report(name)
        return contents.parts

    def _look_for_changes(self, seal: _Seal) -> None:
        """Raise an error that names what changed, if anything but a cached property did."""
        attributes = vars(self)
        for name, value in seal.attributes.items():
            if name not in attributes or attributes[name] is not value:
                self._report(name)
        self._look_for_additions(seal)

    def _look_for_additions(self, seal: _Seal) -> None:
        """Raise an error that names an attribute which is new and no cached property."""
        for name in vars(self):
            if name in seal.attributes or name == "_sealed":
                continue
            # A cached property keeps its value among the attributes, a derived one does not.
            member = getattr(seal.kind, name, None)
            if not isinstance(member, cached_property) or isinstance(member, derived_property):
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


# Values of these kinds cannot change.
_SETTLED = (type(None), str, bytes, Number, range, type, np.generic, np.dtype, Enum)

# The most frequent of them: a look at the type is ten times as quick as isinstance with Number.
_PLAIN = frozenset((type(None), str, bool, int, float))

# Kinds that hold others and nothing else, and those of them that cannot be changed themselves.
_OF_MEMBERS = (tuple, list, set, frozenset)
_FIXED = (tuple, frozenset)

# Formats of scipy's sparse matrices that consist of arrays. The others hold lists or dictionaries.
_OF_ARRAYS = ("bsr", "coo", "csc", "csr", "dia")


def locked(value: Any) -> Any:
    """Return an array in memory that cannot be written to; other values as they are.

    Of a tuple, list, set, dictionary or sparse matrix it is a copy with its members locked.
    """
    kind = type(value)
    if kind in _PLAIN or isinstance(kind, SealsInstances):
        return value
    if isinstance(value, np.ndarray):
        return _locked_array(value)
    if isinstance(value, _SETTLED):
        return value
    return _locked_container(value)


def _locked_container(value: Any) -> Any:
    """Return a copy of a container with its members locked; values of other kinds as they are."""
    kind = type(value)
    if kind is tuple:
        # Long ones are labels, which need no copy.
        return value if _PLAIN.issuperset(map(type, value)) else tuple(map(locked, value))
    if kind is list:
        return list(map(locked, value))
    if kind is dict:
        return {key: locked(member) for key, member in value.items()}
    # The members of a set can be keys: they are no arrays.
    if kind in (set, bytearray):
        return kind(value)
    return _locked_matrix(value) if _is_sparse(value) else value


def _locked_array(values: Any) -> Any:
    """Return an array in memory that cannot be written to."""
    if values.dtype.hasobject:
        # Such memory holds addresses, which bytes would not keep alive: a flag must do.
        values = values.copy()
        values.flags.writeable = False
        return values
    # The owner of an array may set its flags again, and a view's base may be writable: bytes
    # never are.
    if isinstance(values.base, bytes) or _is_closed(values):
        return values
    return np.ndarray(values.shape, values.dtype, buffer=values.tobytes())


def _is_locked(value: Any) -> bool:
    """Return whether a value is an array that stays as it is, after ``locked``."""
    return isinstance(value, np.ndarray) and not value.dtype.hasobject


def _form(name: str, array: Any) -> _Form:
    return _Form(name, array, array.shape, array.strides, array.dtype, array.base)


def _is_sparse(value: Any) -> bool:
    # scipy.sparse is slow to import, and while nobody has imported it there is no matrix of it.
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(value))


def _locked_matrix(matrix: Any) -> Any:
    """Return a sparse matrix of the same format, or else CSR, whose arrays cannot be written to."""
    kept = matrix.copy() if matrix.format in _OF_ARRAYS else matrix.tocsr()
    if kept.format != "dia":
        # Some operations do this on demand and in place, which locked arrays would not allow.
        kept.sum_duplicates()
    for name, value in vars(kept).items():
        if isinstance(value, np.ndarray | tuple):
            vars(kept)[name] = locked(value)
    return kept


def _parts(value: Any) -> Iterator[Any]:
    """Return what needs a look among a value and what tuples, lists, sets and dictionaries hold."""
    kind = type(value)
    members: Any = ()
    if kind in _OF_MEMBERS:
        members = value
    elif kind is dict:
        members = (*value.keys(), *value.values())
    elif _is_sparse(value):
        members = vars(value).values()
    elif isinstance(value, _SETTLED):
        return
    if kind not in _FIXED:
        yield value
    if not _PLAIN.issuperset(map(type, members)):
        for member in members:
            yield from _parts(member)


def _contents(value: Any) -> tuple[Any, ...] | None:
    """Return what an object that can be changed holds now, or None for one of another kind."""
    kind = type(value)
    if kind is list or kind is bytearray:
        return tuple(value)
    if kind is dict:
        return (*value.keys(), *value.values())
    if kind is set:
        return tuple(sorted(value, key=id))  # any order will do that depends on the members alone
    if isinstance(value, np.ndarray):
        return tuple(value.ravel())
    if _is_sparse(value):
        return tuple(x for x in vars(value).values() if isinstance(x, np.ndarray | tuple))
    return None


def closed(values: Any) -> Any:
    """Return a view of an array that nobody else holds, which no flag opens; without a copy."""
    values.flags.writeable = False
    return np.asarray(memoryview(values))


def _is_closed(values: Any) -> bool:
    memory = values.base
    return isinstance(memory, memoryview) and memory.readonly and isinstance(memory.obj, np.ndarray)
