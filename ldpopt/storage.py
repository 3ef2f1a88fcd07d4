"""Writing in one step: readers see the old file or the whole new one, never a part."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ldpopt.errors import InvalidInputError

try:
    import fcntl
except ImportError:  # Windows has no such locks: two runs cannot notice each other there
    fcntl = None  # type: ignore[assignment]

# What systems answer for a file system without locks.
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


_ABANDONED = 60.0  # seconds without a change, after which a draft may be that of a killed run


def draft_of(path: Path) -> Path:
    """Return the hidden name under which a file is written before it is complete."""
    # The same for every run: what a killed one left is found, and written over.
    return path.with_name(f".{path.name}.part")


def lock_of(path: Path) -> Path:
    """Return the hidden name of the file that a run holds while an output is its own."""
    return path.with_name(f".{path.name}.lock")


@contextmanager
def drafted(path: Path) -> Iterator[Path]:
    """Yield the draft of a file, which gets its name at the end of the block.

    After an error there is no draft, and whatever had the name before is unchanged.

    Raises
    ------
    InvalidInputError
        If another run writes the same file at this moment.
    OSError
        If the draft cannot be created, or not get its name.
    """
    draft = draft_of(path)
    # Held until it has its name: another run could write into it otherwise.
    descriptor = _opened_alone(draft, path)
    try:
        yield draft
        with draft.open("rb") as written:
            # The name must not be on the disk before the bytes are.
            os.fsync(written.fileno())
        draft.replace(path)
    except BaseException:
        # On a full disk the part that was written would take the room that is missing.
        draft.unlink(missing_ok=True)
        raise
    finally:
        _let_go(descriptor)


def check_draft(path: Path) -> None:
    """Create and remove the draft of a file, which may be one that a killed run left.

    Raises
    ------
    InvalidInputError
        If another run writes the file at this moment.
    OSError
        If the draft cannot be created.
    """
    descriptor = _opened_alone(draft_of(path), path)
    draft_of(path).unlink()
    _let_go(descriptor)


def clear_drafts(folder: Path) -> None:
    """Remove the drafts of a folder's parts that killed runs left."""
    for draft in folder.glob(".part-*.part"):
        # A younger one may be of a run that has not locked it yet, or has just ended.
        with suppress(OSError, InvalidInputError):
            if time.time() - draft.stat().st_mtime > _ABANDONED:
                descriptor = _opened_alone(draft, draft)
                if descriptor is not None:
                    draft.unlink()
                _let_go(descriptor)


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Keep an output for this run alone until the block ends; it need not exist.

    The end of the process ends it too, whatever the reason. Raises InvalidInputError if another run
    has the output, or its folder cannot be written to.
    """
    lock = lock_of(path)
    with cannot_write(path):
        descriptor = _opened_alone(lock, path)
    try:
        yield
    finally:
        # Before it is let go: the next run would lose the name of its lock otherwise.
        lock.unlink(missing_ok=True)
        _let_go(descriptor)


def _let_go(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)


def _opened_alone(name: Path, target: Path) -> int | None:
    """Return a file of this name that no other run has open, created where missing.

    None where the system has no locks.
    """
    # A link could lead to any file of this user, in a folder where others write too.
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    while True:
        descriptor = os.open(name, flags, 0o666)
        if fcntl is None:
            os.close(descriptor)
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise InvalidInputError(
                f"another run is writing {target}: wait for its end, or choose another name"
            ) from None
        except OSError as error:
            os.close(descriptor)
            if error.errno not in _NO_LOCKS:
                raise
            return None
        # The run that held it may have renamed or removed the file since it was opened.
        if _has_name(descriptor, name):
            return descriptor
        os.close(descriptor)


def _has_name(descriptor: int, name: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), name.stat())
    except FileNotFoundError:
        return False


@contextmanager
def cannot_write(path: Path) -> Iterator[None]:
    """Turn every failure of the system to write a file into an error that names it."""
    try:
        yield
    except OSError as error:
        # Arrow's own words are about its sources; the number says what the system refused.
        reason = os.strerror(error.errno) if error.errno else error
        raise InvalidInputError(f"cannot write {path}: {reason}") from None


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in one step; raise an error that names it if that is not possible."""
    with cannot_write(path), drafted(path) as draft:
        draft.write_bytes(content)
