"""What a study takes, in canonical form: data sets by name, oracles with budgets, measures."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ldpopt import datasets, validate
from ldpopt.datasets import Dataset
from ldpopt.errors import InvalidInputError, InvalidTypeError, users_code
from ldpopt.estimate import FrequencyEstimate
from ldpopt.frames import is_frame, is_from
from ldpopt.oracles import ORACLES, FrequencyOracle
from ldpopt.studies.engine.measures import METRICS, Measure, Metric


class Collection(NamedTuple):
    """An oracle of a study for one data set: name and budget as tables state them."""

    name: str
    epsilon: float
    oracle: FrequencyOracle


def data_sets_of(what: Any, labels: Sequence[str] | None = None) -> dict[str, Dataset]:
    """Return data sets by name.

    Parameters
    ----------
    what
        The name of a data set, a Dataset, a CSV file with the columns label and count, counts, or a
        DataFrame or Series of counts; several of these, or a dictionary from names to them.
    labels
        The domain that CSV files must have; by default each has its own.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a name or a file is unknown, counts are not whole numbers, a file has other labels, or
        two data sets have one name.

    Examples
    --------
    >>> list(data_sets_of(["zipf", "emoji"])), data_sets_of([5, 3])["counts"].n
    (['zipf', 'emoji'], 8)
    """
    if isinstance(what, Mapping):
        items = [(str(name), item) for name, item in what.items()]
    else:
        # Without a name an item is called what it calls itself.
        items = [("", item) for item in _items(what, (str, Path, Dataset))]
    result: dict[str, Dataset] = {}
    for name, item in items:
        data = _data_set(item, name, labels)
        # Rows of a table are found by name: a second one would hide the first.
        if data.name in result:
            raise InvalidInputError(
                f"two data sets are called {data.name!r}: pass a dictionary from distinct names to "
                "data sets"
            )
        result[data.name] = data
    if not result:
        raise InvalidInputError("a study needs at least one data set")
    return result


def budgets_of(epsilons: Any) -> tuple[Any, ...]:
    """Return budgets as a tuple, which several oracles read; each oracle checks its own.

    Raises
    ------
    InvalidTypeError
        If they are one number or a text.

    Examples
    --------
    >>> budgets_of(epsilon / 2 for epsilon in (1, 2))
    (0.5, 1.0)
    """
    if isinstance(epsilons, str) or not np.iterable(epsilons):
        remedy = f": pass [{epsilons!r}]" if isinstance(epsilons, numbers.Real) else ""
        raise InvalidTypeError(f"epsilons must be a list of numbers, got {epsilons!r}{remedy}")
    return tuple(epsilons)


def _items(what: Any, kinds: tuple[type, ...]) -> list[Any]:
    """Return one item, or those of a collection, as a list; an array of numbers is one item."""
    if isinstance(what, FrequencyEstimate):
        raise InvalidTypeError(
            "the data of a study are the counts of users, from which it simulates reports, not an "
            "estimate; compare_risk compares methods on one"
        )
    # The items of a DataFrame would be its columns, or their names.
    if isinstance(what, kinds) or is_frame(what) or not isinstance(what, Iterable):
        return [what]
    if isinstance(what, np.ndarray) and what.size:
        return [np.atleast_1d(what)]
    items = list(what)
    # [5, 3] are the counts of one data set, ["zipf", "emoji"] are two of them.
    is_vector = all(isinstance(x, numbers.Real) for x in items)
    return [what] if items and is_vector else items


def _data_set(what: Any, name: str, labels: Sequence[str] | None) -> Dataset:
    """Return one data set, under a name if one is given."""
    if isinstance(what, str | Path) and is_file(what):
        # A file before a name: names of data sets have neither slash nor ending.
        what = datasets.read_counts(what, labels)
    elif isinstance(what, str):
        what = datasets.load(what)
    if isinstance(what, Dataset):
        return replace(what, name=name) if name else what
    if (
        is_frame(what)
        or is_from(what, "Series", "pandas")
        or is_from(what, "Categorical", "pandas")
    ):
        return Dataset.from_pandas(what, name)
    if is_from(what, "Series", "polars"):
        name = name or what.name
        what = np.asarray(what)
    if not isinstance(what, np.ndarray | list | tuple):
        raise InvalidTypeError(
            "data are the name of a data set, a Dataset, a CSV file with the columns label and "
            f"count, a DataFrame, or counts; got {what!r}"
        )
    counts = validate.array("counts", what)
    # Counts come without labels: the places of the values stand for them.
    numbers = tuple(map(str, range(counts.size)))
    return Dataset(name or "counts", counts, numbers, "given by the caller")


def is_file(what: str | Path) -> bool:
    """Return whether a name of data is that of a file, and not of a data set."""
    return isinstance(what, Path) or "/" in what or what.endswith((".csv", ".csv.gz"))


def collections_of(what: Any, epsilons: Sequence[float], data: Dataset) -> list[Collection]:
    """Return oracles with budgets for one data set.

    Parameters
    ----------
    what
        A name in ``oracles.ORACLES``, a class of oracle or another function of (epsilon, d), which
        stand for one oracle per budget, or an oracle; several of these, or a dictionary from names
        to them.
    epsilons
        The budgets.
    data
        Whose d the oracles must have.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a name is unknown, an oracle has another d, or two have one name and budget.

    Examples
    --------
    >>> zipf = datasets.load("zipf")
    >>> [(c.name, c.epsilon) for c in collections_of(["grr", "oue"], [0.5], zipf)]
    [('grr', 0.5), ('oue', 0.5)]
    """
    if isinstance(what, Mapping):
        items = [(str(name), item) for name, item in what.items()]
    else:
        # A text is itself iterable, by letters; what is no list is refused below, by its name.
        alone = isinstance(what, str | FrequencyOracle) or callable(what) or not np.iterable(what)
        items = [("", item) for item in ([what] if alone else what)]
    result: list[Collection] = []
    for name, item in items:
        result += _collections(item, name, epsilons, data)
    seen = set()
    for name, epsilon, _ in result:
        # One oracle at two budgets is no repetition.
        if (name, epsilon) in seen:
            raise InvalidInputError(
                f"two oracles are called {name!r} at ε = {epsilon:g}: pass a dictionary "
                "from distinct names to oracles"
            )
        seen.add((name, epsilon))
    if not result:
        raise InvalidInputError("a study needs at least one oracle and one epsilon")
    return result


def _collections(
    what: Any, name: str, epsilons: Sequence[float], data: Dataset
) -> list[Collection]:
    if isinstance(what, FrequencyOracle):
        # An oracle that is given whole has its own domain and budget: neither can follow the data.
        if what.d != data.d:
            raise InvalidInputError(
                f"the oracle {what!r} is for {what.d:,} values, and {data.name!r} has {data.d:,}: "
                "give its name or its class, and the budgets as epsilons"
            )
        return [Collection(name or what.name, what.epsilon, what)]
    make: Callable[..., FrequencyOracle]
    # A class and a function are called alike, so that a budget per line costs the user nothing.
    make = validate.lookup("oracle", what, ORACLES) if isinstance(what, str) else what
    if not callable(make):
        raise InvalidTypeError(
            "an oracle is a name such as 'oue', a class, a function of (epsilon, d) or an oracle, "
            f"got {what!r}"
        )
    with users_code(f"the oracle {what!r}, called with (epsilon, d),"):
        made_oracles = [make(epsilon, data.d) for epsilon in epsilons]
    for oracle in made_oracles:
        # Before any draw: a wrong return value would only fail inside a worker.
        if not isinstance(oracle, FrequencyOracle):
            raise InvalidTypeError(
                f"{what!r} must return an oracle for (epsilon, d), got {oracle!r}"
            )
    return [
        Collection(name or oracle.name, float(epsilon), oracle)
        for epsilon, oracle in zip(epsilons, made_oracles, strict=True)
    ]


def measures_of(what: Any) -> tuple[Measure, ...]:
    """Return measures.

    Parameters
    ----------
    what
        A name in ``METRICS``, a function of (answer, truth), both of shape (d,), or a measure such
        as ``Top((10,))``; several of these, or a dictionary from names to functions.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a name is unknown or occurs twice, or something is none of these.

    Examples
    --------
    >>> [metric.name for metric in measures_of({"worst": lambda f, truth: abs(f - truth).max()})]
    ['worst']
    """
    if isinstance(what, Mapping):
        measures = [_measure(item, str(name)) for name, item in what.items()]
    elif isinstance(what, str) or callable(what) or hasattr(what, "start") or not np.iterable(what):
        measures = [_measure(what, "")]
    else:
        measures = [_measure(item, "") for item in what]
    names: set[str] = set()
    for measure in measures:
        # Other measures have names of their own kind, which their fields tell apart.
        if not isinstance(measure, Metric):
            continue
        if measure.name in names:
            raise InvalidInputError(
                f"two metrics are called {measure.name!r}: pass a dictionary from distinct names "
                "to metrics"
            )
        names.add(measure.name)
    if not measures:
        raise InvalidInputError("a study needs at least one metric")
    return tuple(measures)


def _measure(what: Any, name: str) -> Measure:
    if isinstance(what, str):
        # The library's own take all trials at once, and need no check of what they return.
        return Metric(name or what, validate.lookup("metric", what, METRICS), is_own=False)
    if hasattr(what, "start") and is_dataclass(what):
        measure: Measure = what  # type: ignore[assignment]  # by its method, as of a protocol
        return measure
    # A class would be called with (answer, truth) and build an object.
    if callable(what) and not isinstance(what, type):
        return Metric(name or str(getattr(what, "__name__", type(what).__name__)), what)
    raise InvalidTypeError(
        f"a metric is a name ({', '.join(METRICS)}), a function of (answer, truth), or a measure "
        f"of ldpopt.studies.engine.measures; got {what!r}"
    )
