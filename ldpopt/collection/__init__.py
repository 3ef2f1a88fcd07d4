"""Reports in files: written by clients, read without trust, counted in constant memory.

Importing this package imports pyarrow.
"""

from ldpopt.collection.aggregation import Aggregate, aggregate
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

__all__ = [
    "Aggregate",
    "Merged",
    "ReportWriter",
    "Schema",
    "aggregate",
    "append_reports",
    "merge",
    "open_reports",
    "read_reports",
    "seal_reports",
    "write_reports",
]
