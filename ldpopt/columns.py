"""Names of columns in tables of values: those of files and of data frames alike.

A value has its name in the column ``value`` or ``label``. Files of this library that state their
protocol, and results, have ``value``; data sets have ``label``. Every reader takes both, first the
one that its documentation names.
"""

from __future__ import annotations

from collections.abc import Sequence

VALUE = "value"
LABEL = "label"
COUNT = "count"
FREQUENCY = "frequency"


def first_named(heading: Sequence[str], *names: str) -> str | None:
    """Return the first of some names that a heading has, None if it has none of them.

    Examples
    --------
    >>> first_named(["count", "label"], VALUE, LABEL)
    'label'
    """
    return next((name for name in names if name in heading), None)
