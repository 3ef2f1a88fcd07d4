"""The checksum of a file over all of its bytes: what is damaged or edited is not counted.

A file states its SHA-256 in the header with which it begins, as ``"sha256": "..."``, taken with
zeros in the place of its 64 digits. In Parquet, whose pages have checksums of their own, it is that
of the footer: the header, the schema, and where each page lies. It protects against accidents and
edits by hand; anyone who forges a file can also compute it.
"""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

from ldpopt.errors import DataUnavailableError

FIELD = "sha256"
BLANK = "0" * 64
"""What stands in the place of the digits while the checksum is computed."""

# A header that another program wrote may lack the blank, and in CSV each quote is doubled.
_PLACE = re.compile(rb'"sha256""?: ?"{1,2}([0-9a-f]{64})"')


class Seal:
    """The checksum of content that is read or written piece by piece.

    Parameters
    ----------
    first
        The first piece, in which the checksum has its place.

    Raises
    ------
    ValueError
        If it has none.
    """

    def __init__(self, first: bytes) -> None:
        place = _PLACE.search(first)
        if place is None:
            raise ValueError("no place for a checksum")
        self.start, self._end = place.span(1)
        self._stated = place[1]
        self._hash = sha256(first[: self.start])
        self._hash.update(BLANK.encode())
        self._hash.update(first[self._end :])

    def add(self, piece: bytes) -> None:
        """Add the next piece."""
        self._hash.update(piece)

    @property
    def stated(self) -> str:
        """The checksum that the first piece states."""
        return self._stated.decode()

    @property
    def digits(self) -> bytes:
        """The checksum of what was added so far."""
        return self._hash.hexdigest().encode()

    def check(self, path: Path) -> None:
        """Raise DataUnavailableError if the content is not what the checksum was taken of."""
        if self.digits != self._stated:
            raise DataUnavailableError(
                f"{path} is corrupt or was edited: its content does not have the checksum that it "
                "states"
            )


def has_place(content: bytes) -> bool:
    """Return whether some content states a checksum."""
    return _PLACE.search(content) is not None


def sealed(content: bytes) -> bytes:
    """Return content with its checksum in the place of the blank.

    Examples
    --------
    >>> sealed(b'{"sha256": "%s", "n": 3}' % BLANK.encode())[:24]
    b'{"sha256": "2342dc40f48e'
    """
    seal = Seal(content)
    return b"".join([content[: seal.start], seal.digits, content[seal.start + len(BLANK) :]])


def check(content: bytes, path: Path) -> str:
    """Return the checksum that content states; raise DataUnavailableError if it has another one."""
    seal = Seal(content)
    seal.check(path)
    return seal.stated
