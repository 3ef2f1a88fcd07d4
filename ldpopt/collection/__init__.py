"""Reports in files: written by clients, read without trust, counted in constant memory.

What it offers needs pyarrow, which the extra ``files`` brings.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ldpopt.errors import extra_needed

if TYPE_CHECKING:
    from ldpopt.collection.aggregation import Aggregate, aggregate
    from ldpopt.collection.counts import read_counts
    from ldpopt.collection.files import (
        ReportWriter,
        append_reports,
        open_reports,
        read_reports,
        seal_reports,
        write_reports,
    )
    from ldpopt.collection.merging import Merged, merge
    from ldpopt.collection.schema import Schema

_HOMES = {
    "Aggregate": "aggregation",
    "Merged": "merging",
    "ReportWriter": "files",
    "Schema": "schema",
    "aggregate": "aggregation",
    "append_reports": "files",
    "merge": "merging",
    "open_reports": "files",
    "read_counts": "counts",
    "read_reports": "files",
    "seal_reports": "files",
    "write_reports": "files",
}
"""The module of every public name."""

__all__ = [
    "Aggregate",
    "Merged",
    "ReportWriter",
    "Schema",
    "aggregate",
    "append_reports",
    "merge",
    "open_reports",
    "read_counts",
    "read_reports",
    "seal_reports",
    "write_reports",
]


def __getattr__(name: str) -> Any:
    """Import a public name on its first use.

    The package itself can be imported without pyarrow, so that ``from ldpopt import *`` can.

    Raises
    ------
    AttributeError
        If there is no such name.
    MissingPackageError
        If pyarrow is not installed.
    """
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with extra_needed():
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value  # the next access does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
