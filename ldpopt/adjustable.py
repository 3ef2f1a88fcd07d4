"""Losses and constraints that were built with parameters in place of numbers, or from labels.

Such an object holds the numbers of the moment when it was built, like any other, and its recipe:
the arguments as they were given. ``at`` builds it again from the values of another moment. So
everything that is computed from an object is about one set of values, and never becomes stale.

Numbers with labels, such as a Series of pandas, belong to the values of these names. Which places
these have is known with the estimate, so that they are an argument that varies, too. So are labels
where the indices of values could stand.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

import numpy as np

from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.frames import Labelled, is_frame, may_have_labels
from ldpopt.immutable import Immutable, SealsInstances
from ldpopt.named_values import Named, Places, has_labels, numbers_in, require_one_reading

if TYPE_CHECKING:
    import cvxpy as cp

    from ldpopt.estimate import FrequencyEstimate

Values = Mapping[int, Any]
"""Values of some parameters by their ``id``, in place of those that they hold."""

_Built = TypeVar("_Built")

# An expression is evaluated at what its parameters hold: two threads must not change that at once.
_ONE_AT_A_TIME = threading.RLock()


class Latest:
    """The object that was built last, and for what: equal values share what is kept by object.

    A copy remembers nothing.
    """

    __slots__ = ("_built", "_key")

    def __init__(self) -> None:
        self._key: Any = None
        self._built: Any = None

    def of(self, key: Any, build: Callable[[], _Built]) -> _Built:
        """Return the object of a key, the last one or one that is built now."""
        with _ONE_AT_A_TIME:
            if key != self._key:
                self._built = build()
                self._key = key
            return cast("_Built", self._built)

    def __reduce__(self) -> tuple[type[Latest], tuple[()]]:
        """Let copies and pickles begin anew."""
        return (Latest, ())


class Recipe(Immutable):
    """The arguments of a constructor, parameters and parts that vary among them."""

    # ``build`` looks at what varies.
    _kept = frozenset({"kind", "args", "kwargs", "is_open", "_latest"})

    def __init__(self, kind: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.kind = kind
        self.args = args
        self.kwargs = kwargs
        # Whether it has parameters: labels alone leave nothing open once there is an estimate.
        self.is_open = _is_open((args, kwargs))
        self._latest = Latest()

    def build(self, start: FrequencyEstimate | None, values: Values) -> Any:
        """Return the object for some values; those of the other parameters are the present ones."""
        args, kwargs = _present((self.args, self.kwargs), start, values)
        return self._latest.of(_key((args, kwargs)), lambda: self._fixed(args, kwargs))

    def _fixed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the object of one set of arguments."""
        recipe = self if self.is_open else None
        numbers = _listed_numbers(self.kind, self.args, self.kwargs)
        plain = self._plain(args, kwargs)
        return plain._altered(
            _recipe=recipe, _written=self, _is_fixed=True, _listed_numbers=numbers
        )

    def varying(self) -> Any:
        """Return the object that stands for all values; its numbers are those of this moment."""
        present = _present((self.args, self.kwargs), None, {})
        return self._plain(*present)._altered(_recipe=self, _written=self)

    def _plain(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.kind.plain(args, kwargs)  # type: ignore[attr-defined]  # of its metaclass

    def parameters(self, start: FrequencyEstimate) -> list[Any]:
        """Return the cvxpy parameters among the arguments, in the order of their first use."""
        return _parameters_in((self.args, self.kwargs), start)


class _TakesParameters(SealsInstances):
    """Lets constructors see numbers where parameters were given."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        cls._require_definitions()  # type: ignore[attr-defined]  # of Adjustable
        if any(map(_may_name_values, (*args, *kwargs.values()))):
            args, kwargs = _with_labels(cls, args, kwargs)
        # Most arguments are plain, and nothing has to be remembered of them.
        is_plain = not (
            any(map(holds_parameters, args)) or any(map(holds_parameters, kwargs.values()))
        )
        if is_plain or not getattr(cls, "_adjusts", True):
            instance = super().__call__(*args, **kwargs)
            cls._require_defined_in_class(vars(instance))  # type: ignore[attr-defined]
            numbers = _listed_numbers(cls, args, kwargs)
            return instance._altered(_listed_numbers=numbers) if numbers else instance
        return Recipe(cls, args, kwargs).varying()

    def plain(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return an instance from arguments that do not vary."""
        return super().__call__(*args, **kwargs)

    def __setattr__(cls, name: str, value: Any) -> None:
        # What a class states is looked at when it is made.
        if is_from_outside(cls):
            cls._require_defined_in_class((name,))  # type: ignore[attr-defined]
        super().__setattr__(name, value)


def is_from_outside(kind: type) -> bool:
    """Return whether a class is defined outside this package."""
    return kind.__module__.partition(".")[0] != __name__.partition(".")[0]


class Adjustable(Immutable, metaclass=_TakesParameters):
    """Base of classes whose constructors take a ``Parameter`` wherever they take a number."""

    _recipe: Recipe | None = None

    _written: Recipe | None = None
    """The arguments as they were written, also where an estimate has given labels their places."""

    _is_fixed: bool = False
    """Whether the object was built for one set of values, and stays with them."""

    _listed_numbers: tuple[tuple[str, Any, frozenset[str]], ...] = ()
    """By argument, the numbers that stand for values and are in no array, and their texts: an
    estimate tells whether they could be its labels, too."""

    _adjusts: ClassVar[bool] = True
    """Whether the constructor gets numbers where parameters are given."""

    _for_callers: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}
    """By name, what is done to a method of every subclass so that users can call it too: this
    library passes arrays and sizes that it has checked."""

    _definitions: ClassVar[frozenset[str]] = frozenset()
    """The methods that say what an object is."""

    _statements: ClassVar[frozenset[str]] = frozenset()
    """What is known beside these, and opens faster paths and shorter proofs."""

    _defined_by: ClassVar[str] = ""
    """What says in their place what an object is, where no method of a derived class counts."""

    _is_general: ClassVar[bool] = True
    """In its own body: whether a class states nothing that is true of some objects alone."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # A definition may also come from another base, which need be no class of this kind.
        if any(is_from_outside(cls._holder_of(name)) for name in cls._definitions):
            cls._require_to_count()
            cls._forget_statements()
        for name, decorate in cls._for_callers.items():
            method = getattr(cls, name)
            # What is inherited has it already.
            if not hasattr(method, "is_for_callers"):
                decorated = decorate(method)
                decorated.is_for_callers = True
                type.__setattr__(cls, name, decorated)

    @classmethod
    def _require_to_count(cls) -> None:
        """Raise an error where nothing would call what a class defines."""
        if cls._defined_by:
            general = cls._general_base().__name__
            methods = ", ".join(sorted(cls._definitions))
            raise InvalidTypeError(
                f"{cls.__name__} derives from a class whose objects are defined by "
                f"{cls._defined_by} alone, so that no {methods} of its own would count: "
                f"derive from {general}"
            )

    @classmethod
    def _forget_statements(cls) -> None:
        """Drop what was stated before an object was defined anew, and all that this package states.

        A user's class that derives from groups with totals, say, may be another set. What the
        general base leaves open is then open again: ``_require_definitions`` names it.
        """
        general = cls._general_base()
        place = {base: number for number, base in enumerate(cls.__mro__)}
        holders = [cls._holder_of(name) for name in cls._definitions]
        newest = min(place[holder] for holder in holders if is_from_outside(holder))
        for name in cls._statements:
            holder = cls._holder_of(name)
            # Definitions do not follow from each other: one of an older class stays right.
            is_older = place[holder] > newest and name not in cls._definitions
            if is_older or not is_from_outside(holder):
                type.__setattr__(cls, name, inspect.getattr_static(general, name))

    @classmethod
    def _require_defined_in_class(cls, names: Iterable[str]) -> None:
        """Raise an error if a definition is set on a class that was made, or on an object."""
        for name in sorted(cls._definitions.intersection(names)):
            raise InvalidTypeError(
                f"{name} of {cls.__name__} is set after the class was made, when nothing looks at "
                f"it: define it in the body of the class, or of one that derives from it"
            )

    @classmethod
    def _require_definitions(cls) -> None:
        """Raise an error that names what ``_forget_statements`` has left open."""
        for name in sorted(cls.__abstractmethods__ & cls._statements):
            for base in cls.__mro__:
                dropped = vars(base).get(name)
                if dropped is not None and not getattr(dropped, "__isabstractmethod__", False):
                    raise InvalidTypeError(
                        f"{cls.__name__} defines a part of {base.__name__} anew, so that the rest "
                        f"may not fit it: define {name} as well, or state that it stays by "
                        f"{name} = {base.__name__}.{name} in the class"
                    )

    @classmethod
    def _general_base(cls) -> type:
        """Return the base whose statements are true of all objects that derive from it."""
        return next(base for base in cls.__mro__[1:] if vars(base).get("_is_general"))

    @classmethod
    def _holder_of(cls, name: str) -> type:
        """Return the class whose definition of a name counts for this one."""
        return next(base for base in cls.__mro__ if name in vars(base))

    _per_value: ClassVar[frozenset[str]] = frozenset()
    """The arguments of the constructor with one number per value, which may have labels."""

    _per_column: ClassVar[frozenset[str]] = frozenset()
    """Those with one column per value, of which a vector is one row."""

    _rest: ClassVar[Mapping[str, float]] = {}
    """What such an argument states of the values that it does not name, where it is a mapping."""

    of_values: ClassVar[Mapping[str, int]] = {}
    """The arguments of the constructor that are values, by their indices or labels, and in how many
    lists these stand at least: 0 for one value, 2 for groups."""

    @classmethod
    def _stated(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of the constructor by name, those as lists that came as mappings."""
        return given

    def _as_stated(self, name: str, present: Any) -> Any:
        """Return the label that an argument was given as, what it is now if there is none."""
        if self._written is None:
            return present
        names = list(type(self).__signature__.parameters)
        given = dict(zip(names, self._written.args, strict=False)) | self._written.kwargs
        return given[name].stated if isinstance(given[name], Named) else present

    @property
    def varies(self) -> bool:
        """Whether another moment may give another object: it holds parameters, or a function."""
        return self._recipe is not None and not self._is_fixed

    def at(self, start: FrequencyEstimate | None, values: Values) -> Self:
        """Return the object with the values that its parameters have now.

        Parameters
        ----------
        start
            The estimate that is solved for; None where none is known.
        values
            Values of some parameters, by ``id``, in place of those that they hold.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If a parameter has no value, or one that the constructor refuses.
        """
        if self._recipe is None or self._is_fixed:
            return self
        built: Self = self._recipe.build(start, values)
        return built

    def require_one_reading(self, labels: Sequence[str]) -> None:
        """Raise an error if a number is the index of one value and the label of another."""
        for what, numbers, texts in self._listed_numbers:
            # Every solve asks, and most labels are no numbers.
            if not texts.isdisjoint(labels):
                require_one_reading(what, numbers, Places(labels).index, labels)

    def parameters_for(self, start: FrequencyEstimate) -> list[Any]:
        """Return the parameters that the object has for an estimate, in the order of their use."""
        return [] if self._recipe is None else self._recipe.parameters(start)


def is_expression(value: Any) -> bool:
    """Return whether a value is one of cvxpy's expressions, without importing cvxpy."""
    cvxpy = sys.modules.get("cvxpy")
    return cvxpy is not None and isinstance(value, cvxpy.Expression)


def holds_parameters(value: Any) -> bool:
    """Return whether an argument is, or holds, a parameter or an object that varies."""
    if isinstance(value, list | tuple):
        return any(map(holds_parameters, value))
    if isinstance(value, Adjustable):
        return value.varies
    return isinstance(value, Labelled | Named) or is_expression(value)


def _listed_numbers(
    cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[str, Any, frozenset[str]], ...]:
    """Return the numbers that stand for values, by argument, unless they are in an array."""
    if not cls.of_values:
        return ()
    given = dict(zip(cls.__signature__.parameters, args, strict=False)) | kwargs
    numbered = []
    for name, depth in cls.of_values.items():
        numbers = tuple(numbers_in(given.get(name)))
        if numbers:
            stated = numbers if depth else numbers[0]
            numbered.append((f"{name} of {cls.__name__}", stated, frozenset(map(str, numbers))))
    return tuple(numbered)


def _is_open(value: Any) -> bool:
    """Return whether an argument depends on parameters, or on a function of the user."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return any(map(_is_open, value))
    if isinstance(value, Adjustable):
        return value.varies and (value._recipe is None or value._recipe.is_open)
    return is_expression(value)


def _may_name_values(value: Any) -> bool:
    """Return whether an argument may have labels in it: what most arguments are has none."""
    if isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
        return True
    return isinstance(value, Mapping) or may_have_labels(value) or has_labels(value)


def _with_labels(
    cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments that keep the labels in them until there is an estimate.

    These are numbers in objects of pandas and polars or in mappings, and values by their labels.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an argument has labels that has no number per value, or a mapping holds no numbers.
    """
    names = list(cls.__signature__.parameters)
    given = cls._stated(dict(zip(names, args, strict=False)) | kwargs)
    numbers: dict[str, Labelled] = {}
    for name, value in given.items():
        labelled = _labelled(cls, name, value)
        if isinstance(labelled, Labelled):
            numbers[name] = labelled
        elif labelled is not None:
            given[name] = labelled
    # One order for all of them, also where the estimate will have no labels.
    whole = [each.labels for each in numbers.values() if each.rest is None]
    joint = tuple(dict.fromkeys(label for each in numbers.values() for label in each.labels))
    order = whole[0] if whole else joint
    for name, each in numbers.items():
        given[name] = Labelled(name, each.by(order), order, each.rest)
    # By place where they came so: some constructors want the name of an argument.
    placed = tuple(given.pop(name) for name in names[: len(args)])
    return placed + args[len(names) :], given


def _labelled(cls: Any, name: str, value: Any) -> Labelled | Named | None:
    """Return an argument of a class with its labels, or None if it has none that count."""
    if name in cls.of_values:
        named = Named.of(f"{name} of {cls.__name__}", value, cls.of_values[name])
        if named is not None:
            return named
    of_values = name in cls._per_value | cls._per_column
    if of_values and (rows := Labelled.of_mappings(name, value, cls._rest.get(name))):
        return rows
    # Of other matrices names of rows and columns mean nothing here.
    if is_frame(value) and not of_values:
        return None
    if is_frame(value) and name in cls._per_column:
        labelled = Labelled.of_columns(name, value)
    else:
        labelled = Labelled.of(name, value)
    if labelled is not None and not of_values:
        raise InvalidInputError(
            f"{name} of {cls.__name__} does not go by the labels of values, and has some: "
            f"pass an array ({name}.to_numpy())"
        )
    return labelled


def _present(value: Any, start: FrequencyEstimate | None, values: Values) -> Any:
    """Return an argument with numbers in place of parameters."""
    if isinstance(value, list | tuple):
        return type(value)(_present(member, start, values) for member in value)
    if isinstance(value, dict):
        return {name: _present(member, start, values) for name, member in value.items()}
    if isinstance(value, Labelled | Named):
        return value.by_itself() if start is None else value.by(start.labels)
    if isinstance(value, Adjustable):
        # Before there is an estimate a function stays what it is.
        if start is None and not values:
            return value
        return value.at(start, values)
    if is_expression(value):
        return number_of(value, values)
    return value


def number_of(expression: cp.Expression, values: Values) -> Any:
    """Return the value of an expression of parameters: a float, or an array.

    Raises
    ------
    InvalidInputError
        If a parameter has no value, or the expression has variables.
    """
    if expression.variables():
        raise InvalidInputError(
            f"{expression} has variables: where a number is expected only parameters may stand; "
            "losses.Custom and constraints.Custom take a function, lambda f: ..., and its f is the "
            "variable"
        )
    # cvxpy evaluates an expression at what its parameters hold. That a place takes no infinite
    # number is for the place to say.
    with (
        _ONE_AT_A_TIME,
        holding(expression.parameters(), values),
        np.errstate(all="ignore"),
    ):
        result = np.asarray(expression.value, dtype=np.float64)
    return float(result) if result.ndim == 0 else result


class holding:
    """Let parameters hold other values for a while.

    Raises
    ------
    InvalidInputError
        If one of them has no value.
    """

    def __init__(self, parameters: list[Any], values: Values) -> None:
        self._before = [(parameter, parameter.value) for parameter in parameters]
        for parameter in parameters:
            value = values.get(parameter.id, parameter.value)
            if value is None:
                raise InvalidInputError(
                    f"the parameter {parameter.name()} has no value: set {parameter.name()}.value "
                    "first, to any number that the place allows (Problem.path replaces it)"
                )
        self._values = values

    def __enter__(self) -> None:
        for parameter, before in self._before:
            parameter.save_value(self._values.get(parameter.id, before))

    def __exit__(self, *_: object) -> None:
        for parameter, before in self._before:
            parameter.save_value(before)


def _parameters_in(value: Any, start: FrequencyEstimate) -> list[Any]:
    """Return the parameters in an argument, each once."""
    if isinstance(value, dict):
        value = list(value.values())
    parameters: list[Any] = []
    if isinstance(value, list | tuple):
        for member in value:
            parameters += _parameters_in(member, start)
    elif isinstance(value, Adjustable):
        parameters = value.parameters_for(start)
    elif is_expression(value):
        parameters = value.parameters()
    # By id: cvxpy's == builds a constraint.
    return list({parameter.id: parameter for parameter in parameters}.values())


def _key(value: Any) -> Any:
    """Return what is equal for equal arguments: numbers by value, other objects by identity."""
    if isinstance(value, list | tuple):
        return tuple(map(_key, value))
    if isinstance(value, dict):
        return tuple((name, _key(member)) for name, member in value.items())
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype.str, value.tobytes())
    if isinstance(value, bool | int | float | str | type(None)):
        return value
    # The object that was built last holds it, so that no other one gets its id meanwhile.
    return id(value)
