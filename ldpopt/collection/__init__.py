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

__all__ = [
    "Aggregate",
    "ReportWriter",
    "aggregate",
    "append_reports",
    "open_reports",
    "read_reports",
    "seal_reports",
    "write_reports",
]
