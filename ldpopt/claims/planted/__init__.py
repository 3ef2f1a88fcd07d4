"""Errors planted on purpose: what shows that the ledger can fail, ``ldpopt verify --self-test``.

An error is one function with ``@planted`` in a module of this folder. It changes the package in
memory, in a process of its own; the claims then run, and one of them must notice.
"""

from ldpopt.claims.planted.catalogue import ERRORS, NUMBER
from ldpopt.claims.planted.error import PlantedError, Sighting
from ldpopt.claims.planted.run import NOTHING, look_at_tables, look_for, self_test
from ldpopt.claims.planted.tables import TABLE_ERRORS, TABLE_NUMBER, TableError

__all__ = [
    "ERRORS",
    "NOTHING",
    "NUMBER",
    "TABLE_ERRORS",
    "TABLE_NUMBER",
    "PlantedError",
    "Sighting",
    "TableError",
    "look_at_tables",
    "look_for",
    "self_test",
]
