"""Tests of several factors: every two values of different factors together, not all at once.

A fault mostly needs one value, or two of different factors. Three factors of five values are 125
tests in full, and some 25 in which every two values meet. What needs three values at once is for
``make attack``, which draws problems of all kinds.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from allpairspy import AllPairs

Factor = Sequence[Any] | Mapping[str, Any]


def every_two(**factors: Factor) -> pytest.MarkDecorator:
    """Return the mark that gives a test so many cases that every two values meet in one of them.

    Parameters
    ----------
    factors
        By the parameter's name its values, or a mapping from their names to them.
    """
    columns = [named(name, values) for name, values in factors.items()]
    if len(columns) < 3:
        raise ValueError("two factors meet in full: stack two marks of pytest")
    # By places: the values need not be comparable.
    rows = AllPairs([list(range(len(column))) for column in columns])
    cases = []
    for places in rows:
        chosen = [column[place] for column, place in zip(columns, places, strict=True)]
        cases.append(
            pytest.param(*(value for _, value in chosen), id="-".join(n for n, _ in chosen))
        )
    return pytest.mark.parametrize(list(factors), cases)


def named(parameter: str, values: Factor) -> list[tuple[str, Any]]:
    """Return the values of a factor with the names by which a report of pytest shows them."""
    if isinstance(values, Mapping):
        return list(values.items())
    shown = (str, bool, int, float, type(None))
    return [
        (str(value) if isinstance(value, shown) else f"{parameter}{place}", value)
        for place, value in enumerate(values)
    ]
