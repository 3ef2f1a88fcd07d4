"""Writing in one step: readers see the old file or the whole new one, never a part."""

from __future__ import annotations

import os
from pathlib import Path

from ldpopt.errors import InvalidInputError


def draft_of(path: Path) -> Path:
    """Return the hidden name under which a file is written before it is complete."""
    return path.with_name(f".{path.name}.{os.getpid()}.part")


def replace(draft: Path, path: Path) -> None:
    """Give a finished draft its name, once its bytes are on the disk."""
    with draft.open("rb") as written:
        os.fsync(written.fileno())
    draft.replace(path)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in one step; raise an error that names it if that is not possible."""
    draft = draft_of(path)
    try:
        draft.write_bytes(content)
        replace(draft, path)
    except OSError as error:
        # On a full disk the part that was written would take the room that is missing.
        draft.unlink(missing_ok=True)
        raise InvalidInputError(f"cannot write {path}: {error.strerror}") from None
