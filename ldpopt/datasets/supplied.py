"""BMS-POS and San Francisco's fire calls: files without a fixed address.

The user puts them into the folder that LDPOPT_DATA names.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

from ldpopt.datasets import folder
from ldpopt.datasets.dataset import Dataset
from ldpopt.datasets.readers import Transactions, read_column, read_transactions
from ldpopt.errors import DataUnavailableError, LdpoptWarning

_POS_ORIGIN = "BMS-POS of the KDD Cup 2000 (Zheng, Kohavi and Mason 2001), one transaction per line"
_FIRE_ORIGIN = (
    "Fire Department Calls for Service of data.sfgov.org, the rows with a Call Date in 2016, "
    "exported as CSV"
)


def pos() -> Dataset:
    """Return how often each item of BMS-POS was bought.

    The file is ``pos.dat.gz`` or ``pos.dat`` in ``LDPOPT_DATA``. The published one has 515,597
    transactions and 1,657 items; there is no checksum, so other numbers raise a warning.

    Returns
    -------
    The data set, by ascending item id; n is the number of items over all transactions.

    Raises
    ------
    DataUnavailableError
        If there is no such file, or it is not one of transactions.

    Warns
    -----
    LdpoptWarning
        If the file has another number of transactions or items.

    Examples
    --------
    >>> pos().d  # doctest: +SKIP
    1657
    """
    path = _supplied("pos.dat", _POS_ORIGIN)
    transactions = read_transactions(path)
    data = transactions.to_dataset("pos", f"{_POS_ORIGIN} (supplied file)")
    _compare(path, "transactions", transactions.offsets.size - 1, 515_597, "items", data.d, 1_657)
    return data


def pos_transactions() -> Transactions:
    """Return the transactions behind ``pos``, with the same errors."""
    return read_transactions(_supplied("pos.dat", _POS_ORIGIN))


def fire() -> Dataset:
    """Return the number of calls of each fire unit (column ``Unit ID``).

    The file is ``fire.csv.gz`` or ``fire.csv`` in ``LDPOPT_DATA``. That of the papers has 305,132
    calls and 742 units; there is no checksum, so other numbers raise a warning.

    Returns
    -------
    The data set, ordered by the text of the unit id.

    Raises
    ------
    DataUnavailableError
        If there is no such file, or a row has no unit.
    InvalidInputError
        If the file has no column ``Unit ID``.

    Warns
    -----
    LdpoptWarning
        If the file has another number of calls or units.

    Examples
    --------
    >>> fire().d  # doctest: +SKIP
    742
    """
    path = _supplied("fire.csv", _FIRE_ORIGIN)
    calls = read_column(path, "Unit ID")
    # A reader names data after their file, which may have any name; this one has a source, too.
    data = replace(calls, name="fire", source=f"{_FIRE_ORIGIN} (supplied file)")
    _compare(path, "calls", data.n, 305_132, "units", data.d, 742)
    return data


def _supplied(name: str, origin: str) -> Path:
    """Return the path of a file that only the user can provide."""
    remedy = f"this file must be supplied ({origin})"
    # There is no address to download these from: without the folder nothing can be done.
    data_folder = folder.data_folder()
    if data_folder is None:
        raise DataUnavailableError(
            f"no {name}: {remedy}; put {name}.gz or {name} into a folder and set the environment "
            f"variable {folder.VARIABLE} to it"
        )
    return folder.locate(data_folder, name, remedy)


def _compare(
    path: Path,
    rows: str,
    n: int,
    expected_n: int,
    values: str,
    d: int,
    expected_d: int,
) -> None:
    """Warn if the file does not have the size of the published one."""
    # Not an error: other years, or a corrected file, are good data, but not those of the papers.
    if (n, d) != (expected_n, expected_d):
        warnings.warn(
            f"{path} has {n:,} {rows} and {d:,} {values}; the published data set has "
            f"{expected_n:,} and {expected_d:,}",
            LdpoptWarning,
            stacklevel=4,  # the caller of datasets.load
        )
