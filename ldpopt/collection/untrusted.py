"""Text and JSON of files that nobody vouches for: any content is read, or refused in a sentence."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from ldpopt.errors import InvalidInputError, not_utf8

# More than counts or labels of the largest domain take.
_LARGEST = 1 << 29


def check_regular(path: Path, problem: str) -> None:
    """Raise an InvalidInputError that begins with ``problem`` unless a path leads to a file.

    A pipe could keep a reader waiting for ever, and a device have no end.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{problem} ({_reason(error)})") from None
    if not stat.S_ISREG(mode):
        raise InvalidInputError(f"{problem} (it is a folder, device, pipe or socket)")


def _reason(error: OSError | ValueError) -> str:
    """Return why a file cannot be read, without the number and the path that Python adds."""
    return error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)


def read_bytes(path: Path, problem: str) -> bytes:
    """Return the content of a file of text.

    Raises an InvalidInputError that begins with ``problem`` if it cannot be read, or is too large
    to be what it should be.
    """
    check_regular(path, problem)
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{problem} ({_reason(error)})") from None
    if len(content) > _LARGEST:
        raise InvalidInputError(f"{problem} (it has more than {_LARGEST:,} bytes)")
    return content


def read_text(path: Path, problem: str) -> str:
    """Return the text of a UTF-8 file; errors as ``read_bytes``."""
    try:
        # Spreadsheets put a mark of the encoding in front, which is no part of the text.
        return read_bytes(path, problem).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{problem} ({not_utf8(error)})") from None


def parse_json(text: str | bytes) -> Any:
    """Return what JSON states.

    Raises ValueError for anything else, names that occur twice in an object, and lists in lists in
    lists that go too deep.
    """
    try:
        return json.loads(text, object_pairs_hook=distinct)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object as a dictionary; raise ValueError if a name occurs twice in it."""
    record: dict[str, Any] = {}
    for name, value in pairs:
        if name in record:
            raise ValueError(f"the name {name!r} occurs twice in an object")
        record[name] = value
    return record
