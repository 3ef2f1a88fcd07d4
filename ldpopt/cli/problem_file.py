"""A problem stated in a file of TOML or YAML: a loss and constraints, by name and with numbers.

Nothing in such a file is run: a name is looked up among the public classes, and what stands beside
it are the arguments of the class, checked by its own constructor.
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ldpopt import constraints, losses, priors, validate
from ldpopt.adjustable import Adjustable
from ldpopt.cli.names import is_problem_file
from ldpopt.collection.labels import Labels
from ldpopt.collection.untrusted import distinct, read_text
from ldpopt.errors import InvalidInputError, LdpoptError, MissingPackageError
from ldpopt.solve.problem import Problem

_KEYS = ("loss", "constraints")

# What a file cannot hold: functions, reports, other losses. Sums are stated by several losses.
_IN_PYTHON = {"ChannelMLE", "Custom", "PerReportMLE", "WeightedSum", "LinearInequalities"}


def read_problem(path: Path, labels: Labels) -> Problem:
    """Return the problem that a file states.

    Parameters
    ----------
    path
        TOML or YAML with a ``loss``, a name or a table with a ``name`` and its arguments, or a list
        of such tables, whose optional ``weight`` multiplies them; and a list of ``constraints``,
        each a name or such a table.
    labels
        The domain: arguments that hold values may name them by their labels.

    Raises
    ------
    InvalidInputError
        If the file cannot be read, or a key, a name or a number in it is wrong: which one, and what
        would be right.
    """
    record = parsed_file(path)
    # A key that is not known may be a slip for one that matters: it is never passed over.
    for key in record:
        if key not in _KEYS:
            raise InvalidInputError(f"{path}: {validate.unknown_name('key', key, _KEYS)}")
    if "loss" not in record:
        raise InvalidInputError(f'{path} states no loss: add a line such as loss = "LeastSquares"')
    stated = record.get("constraints", [])
    # In TOML a single [constraints] is a table, and its keys would pass for names.
    if not isinstance(stated, list):
        raise InvalidInputError(
            f"{path}: constraints must be a list: in TOML each begins with [[constraints]]"
        )
    classes = _classes(constraints, constraints.Constraint)
    return Problem(
        _loss(path, record["loss"], labels),
        [
            _instance(path, f"constraint {number}", entry, classes, labels)
            for number, entry in enumerate(stated, 1)
        ],
    )


def _loss(path: Path, stated: object, labels: Labels) -> losses.Loss:
    """Return a loss, or the weighted sum of several."""
    classes = _classes(losses, losses.Loss)
    if not isinstance(stated, list):
        return _weighted(path, "loss", stated, classes, labels)
    if not stated:
        raise InvalidInputError(f"{path}: loss is an empty list: name at least one")
    terms = [
        _weighted(path, f"loss {number}", entry, classes, labels)
        for number, entry in enumerate(stated, 1)
    ]
    # Not sum(), whose start is a number.
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _weighted(
    path: Path, place: str, entry: object, classes: Mapping[str, type[Any]], labels: Labels
) -> losses.Loss:
    if not isinstance(entry, Mapping) or "weight" not in entry:
        alone: losses.Loss = _instance(path, place, entry, classes, labels)
        return alone
    # The weight is no argument of the loss: it multiplies what the others make.
    rest = {key: value for key, value in entry.items() if key != "weight"}
    loss: losses.Loss = _instance(path, place, rest, classes, labels)
    with _located(path, place):
        return validate.real("weight", entry["weight"], above=0) * loss


def _instance(
    path: Path, place: str, entry: object, classes: Mapping[str, type[Any]], labels: Labels
) -> Any:
    """Return the object that an entry of a file states."""
    table = {"name": entry} if isinstance(entry, str) else entry
    if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
        raise InvalidInputError(
            f"{path}: {place} must be a name, or a table with a name, such as name = "
            f'"{next(iter(classes))}"'
        )
    name = table["name"]
    place = f"{place} ({name})"
    if name in _IN_PYTHON:
        raise InvalidInputError(
            f"{path}: {place} takes what no file can hold: state the problem in Python"
        )
    arguments = {key: value for key, value in table.items() if key != "name"}
    with _located(path, place):
        make = validate.lookup("name", name, classes)
        _check_keys(make, arguments)
        return make(**{key: _value(make, key, value, labels) for key, value in arguments.items()})


@contextmanager
def _located(path: Path, place: str) -> Iterator[None]:
    """Turn every error about an entry of a file into one that names the file and the entry."""
    try:
        yield
    except LdpoptError as error:
        raise InvalidInputError(f"{path}: {place}: {error}") from None
    # What a constructor does not check, such as text among numbers.
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidInputError(
            f"{path}: {place}: its arguments are not what it takes ({error}): see its page in the "
            "reference"
        ) from None


def _check_keys(make: type, arguments: Mapping[str, Any]) -> None:
    """Raise an error if an argument is unknown to a class, or one without a default is missing."""
    parameters = _parameters(make)
    for key in arguments:
        if not parameters:
            raise InvalidInputError(f"it takes no arguments: remove {key!r}")
        if key not in parameters:
            raise validate.unknown_name("argument", key, parameters)
    missing = [
        key
        for key, parameter in parameters.items()
        if parameter.default is parameter.empty and key not in arguments
    ]
    if missing:
        raise InvalidInputError(
            f"{' and '.join(missing)} must be given: it takes {', '.join(parameters)}"
        )


def _parameters(make: type) -> dict[str, inspect.Parameter]:
    """Return the arguments of a class by name; a class without a constructor has none."""
    # Not of the class, whose metaclass takes any arguments.
    constructor: Any = getattr(make, "__init__")  # noqa: B009 (mypy refuses make.__init__)
    parameters = list(inspect.signature(constructor).parameters.values())[1:]
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {each.name: each for each in parameters if each.kind not in variable}


def _value(make: type[Adjustable], key: str, value: Any, labels: Labels) -> Any:
    """Return an argument: values of the domain by their indices, priors by their classes."""
    # Here, and not when it is solved: an error then names the place in the file.
    if key in make.of_values:
        return _indices(value, labels)
    if key == "prior":
        return validate.lookup("prior", str(value), _classes(priors, priors.Prior))
    return value


def _indices(value: Any, labels: Labels) -> Any:
    """Return lists of labels, or lists of such lists, with an index for every label."""
    if isinstance(value, str):
        return labels.index(value)
    return [_indices(item, labels) for item in value] if isinstance(value, list) else value


def _classes(module: Any, base: type) -> dict[str, type]:
    """Return the public classes of a module that can be made, by name."""
    public = {name: getattr(module, name) for name in module.__all__}
    return {
        name: value
        for name, value in public.items()
        if isinstance(value, type)
        and issubclass(value, base)
        and not inspect.isabstract(value)
        and name not in _IN_PYTHON
    }


def parsed_file(path: Path) -> Mapping[str, Any]:
    """Return what a problem file holds, a table; raise InvalidInputError if it holds none."""
    if not is_problem_file(str(path)):
        raise InvalidInputError(f"problems are read from .toml, .yaml or .yml, got {path}")
    text = read_text(path, f"cannot read the problem {path}")
    is_toml = path.suffix.lower() == ".toml"
    parse: Callable[[str], Any] = tomllib.loads if is_toml else _yaml
    try:
        record = parse(text)
    except RecursionError:
        raise InvalidInputError(f"{path} is nested too deeply") from None
    except InvalidInputError:
        raise
    # Of TOML, of YAML, and of whole numbers with too many digits.
    except ValueError as error:
        kind = "TOML" if is_toml else "YAML"
        # The words of tomllib for a list that is continued by tables.
        is_mixed = "immutable namespace" in str(error)
        remedy = ": write all entries in one list, or each below [[constraints]]"
        sentence = f"{path} is not {kind}: {error}{remedy if is_mixed else ''}"
        raise InvalidInputError(sentence) from None
    if not isinstance(record, Mapping):
        raise InvalidInputError(f"{path} must state a loss and constraints by these names")
    return record


def _yaml(text: str) -> Any:
    """Return what YAML states, read without its tags that make objects and without aliases.

    Raises ValueError for what is not YAML.
    """
    try:
        import yaml
    except ImportError:
        raise MissingPackageError(
            "problems in YAML need the package PyYAML: pip install 'ldpopt[yaml]', or write TOML"
        ) from None

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # it ships no types
        """Refuses what would make a small file large, and keys that hide one another."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("aliases (*name) are not read: write the value out")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            return distinct(self.construct_pairs(node, deep=True))

    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None
    # Of keys that are lists.
    except TypeError as error:
        raise ValueError(str(error)) from None
