"""The folder that the user names in the environment variable LDPOPT_DATA."""

from __future__ import annotations

import os
from pathlib import Path

from ldpopt.errors import DataUnavailableError

VARIABLE = "LDPOPT_DATA"


def data_folder() -> Path | None:
    """Return the folder named by ``LDPOPT_DATA``; None if the variable is unset or empty."""
    folder = os.environ.get(VARIABLE)
    return Path(folder).expanduser() if folder else None


def locate(folder: Path, name: str, remedy: str) -> Path:
    """Return ``folder/name.gz``, else ``folder/name``.

    Parameters
    ----------
    folder
        Where to look.
    name
        File name without ``.gz``.
    remedy
        What to do if there is no such file: the end of the error's message.

    Raises
    ------
    DataUnavailableError
        If neither file exists.

    Examples
    --------
    >>> locate(Path("absent"), "pos.dat", "supply it")
    Traceback (most recent call last):
        ...
    ldpopt.errors.DataUnavailableError: no pos.dat.gz or pos.dat in absent (LDPOPT_DATA): supply it
    """
    # The compressed one first, which is the form in which most of these files are published.
    for path in (folder / f"{name}.gz", folder / name):
        if path.is_file():
            return path
    raise DataUnavailableError(f"no {name}.gz or {name} in {folder} ({VARIABLE}): {remedy}")
