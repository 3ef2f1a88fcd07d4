"""Published data files, for tests that run only where the environment names a folder with them."""

import os
from pathlib import Path

import pytest


def real_file(name):
    """The path of a published file in the folder LDPOPT_DATA; the test is skipped without it."""
    data_folder = os.environ.get("LDPOPT_DATA")
    if not data_folder:
        pytest.skip(f"set LDPOPT_DATA to a folder with {name}")
    path = Path(data_folder) / name
    return path if path.is_file() else pytest.skip(f"{path} is missing")
