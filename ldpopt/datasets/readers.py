"""Readers of the file formats in which the field's data sets are published.

Gzip is recognised by its content.
"""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from ldpopt.columns import COUNT, FREQUENCY, LABEL, VALUE
from ldpopt.datasets.dataset import Dataset
from ldpopt.errors import DataUnavailableError, InvalidInputError, not_utf8, other_separator, warn
from ldpopt.printable import counted
from ldpopt.validate import digits_of

_GZIP = b"\x1f\x8b"
_DIGITS_OF_INT64 = 18  # every number of 18 digits fits into 64 bits
_EXCERPT = 40  # bytes of a faulty line that its error quotes


@dataclass(frozen=True, eq=False)
class Transactions:
    """Lines of items: line i holds ``items[offsets[i]:offsets[i + 1]]``, never none.

    Parameters
    ----------
    items
        The items of all lines, one after another, int64 of shape (total,).
    offsets
        Where each line begins in ``items``, and their number: int64 of shape (lines + 1,).
    """

    items: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def to_dataset(self, name: str, source: str) -> Dataset:
        """Return how often each item occurs over all lines.

        Parameters
        ----------
        name, source
            As in ``Dataset``.

        Returns
        -------
        A data set whose domain is the items that occur, by ascending id; labels are the ids.

        Notes
        -----
        Cost: one sort of the items.

        Examples
        --------
        >>> import numpy as np
        >>> baskets = Transactions(np.array([5, 2, 5]), np.array([0, 2, 3]))
        >>> data = baskets.to_dataset("baskets", "made up")
        >>> data.labels, data.counts
        (('2', '5'), array([1, 2]))
        """
        ids, counts = np.unique(self.items, return_counts=True)
        return Dataset(name, counts, tuple(map(str, ids)), source)


def read_transactions(path: str | Path) -> Transactions:
    r"""Read a file with one transaction per line, in the format of the FIMI repository.

    A transaction is whole numbers >= 0 separated by blanks.

    Parameters
    ----------
    path
        The file, plain or gzip.

    Returns
    -------
    The items and where each line begins.

    Raises
    ------
    DataUnavailableError
        If the file is missing, unreadable, empty or cut off, or if a line is blank or holds
        anything but numbers of at most 18 digits; the message names the file and the line.

    Notes
    -----
    There are two uses of such a file: ``load("kosarak")`` counts every item of every line
    (``Transactions.to_dataset``), while other studies let each line be one user who holds one of
    its items, drawn at random as below. Cost: linear; about a second and 0.5 GB for the 8 million
    items of Kosarak.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "baskets.dat")
    ...     _ = path.write_text("1 2 3\n2 5\n")
    ...     baskets = read_transactions(path)
    >>> baskets.items, baskets.offsets
    (array([1, 2, 3, 2, 5]), array([0, 3, 5]))
    >>> rng = np.random.default_rng(1)
    >>> drawn = baskets.items[baskets.offsets[:-1] + rng.integers(0, np.diff(baskets.offsets))]
    >>> drawn.shape
    (2,)
    """
    path = Path(path)
    return parse_transactions(read_bytes(path), path)


def read_column(path: str | Path, column: str) -> Dataset:
    r"""Read a CSV file with a header and count the values of one column.

    Parameters
    ----------
    path
        The file, UTF-8, plain or gzip.
    column
        Name of the column in the header.

    Returns
    -------
    A data set named after the file. Its domain is the values that occur, in the order of their
    text.

    Raises
    ------
    InvalidInputError
        If the header has no such column; the message lists those it has.
    DataUnavailableError
        If the file is missing, unreadable, empty or cut off, or if a line has no value in the
        column; the message names the file and the line.

    Warns
    -----
    LdpoptWarning
        If two names differ in spaces alone.

    Notes
    -----
    Cost: linear; the file is read line by line, so that memory holds the domain only.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "calls.csv")
    ...     _ = path.write_text("call,unit\n1,E02\n2,B05\n3,E02\n")
    ...     calls = read_column(path, "unit")
    >>> calls.labels, calls.counts
    (('B05', 'E02'), array([1, 2]))
    """
    path = Path(path)
    totals = Counter(_column(path, column))
    if not totals:
        raise DataUnavailableError(f"{path}: no rows after the header; get the file again")
    # By text, not by the first occurrence: the same values give the same domain in any order of
    # rows.
    labels = sorted(totals)
    _warn_of_spaces(path, labels)
    counts = np.array([totals[label] for label in labels])
    name = path.name.split(".")[0]
    return Dataset(name, counts, tuple(labels), str(path))


def read_counts(
    path: str | Path, labels: Sequence[str] | None = None, sets: Sequence[str] = ()
) -> Dataset:
    r"""Read a CSV file with the columns ``label`` and ``count``, one row per value.

    Parameters
    ----------
    path
        The file, UTF-8, plain or gzip. The first column may be called ``value`` instead.
    labels
        The values of the domain in their order, which the file must have, in any order; by default
        they are what the file has, in its order.
    sets
        Further columns, each a family of sets: the values with one entry in it are one set.

    Returns
    -------
    A data set named after the file.

    Raises
    ------
    InvalidInputError
        If a column is missing, a count is no whole number >= 0 or a value occurs twice (the line
        is named), or the labels are not the given ones.
    DataUnavailableError
        If the file is missing, unreadable, empty or cut off.

    Warns
    -----
    LdpoptWarning
        If two names differ in spaces alone.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "coins.csv")
    ...     _ = path.write_text("label,count\ntails,3\nheads,7\n")
    ...     coins = read_counts(path, labels=["heads", "tails"])
    >>> coins.name, coins.labels, coins.counts
    ('coins', ('heads', 'tails'), array([7, 3]))
    """
    path = Path(path)
    counts = {}
    groups: dict[str, list[str]] = {}
    for line, label, (text, *entries) in _by_label(path, COUNT, *sets):
        counts[label] = _count(path, line, text)
        groups[label] = entries
    names = tuple(counts) if labels is None else tuple(labels)
    require_labels(path, tuple(counts), names)
    _warn_of_spaces(path, names)
    # As Python's numbers first: numpy would make floats of those beyond 64 bits.
    column = np.array([counts[label] for label in names], dtype=object)
    families = {}
    set_names = {}
    for place, family in enumerate(sets):
        # In the order of the domain, which may be another than that of the rows.
        of_value = np.array([groups[label][place] for label in names])
        # By text, as the values of a column: the same sets in any order of rows.
        set_names[family] = tuple(np.unique(of_value).tolist())
        _warn_of_spaces(path, set_names[family])
        families[family] = [np.flatnonzero(of_value == each) for each in set_names[family]]
    name = path.name.split(".")[0]
    return Dataset(name, column.astype(np.int64), names, str(path), families, set_names)


def _warn_of_spaces(path: Path, names: Iterable[str]) -> None:
    """Warn of two names that differ in spaces alone, as after commas: they count apart."""
    of_text: dict[str, str] = {}
    for name in names:
        text = " ".join(name.split())
        other = of_text.setdefault(text, name)
        if other != name:
            warn(
                f"{path}: {other!r} and {name!r} differ in spaces alone, and count as two: if they "
                "are one, take the spaces out of the file"
            )
            return


def read_frequencies(path: str | Path) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    r"""Read a CSV file with the columns ``label`` (or ``value``) and ``frequency``.

    ``ldpopt estimate --out`` writes such files. Errors are those of ``read_counts``.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "estimate.csv")
    ...     _ = path.write_text("value,frequency\nheads,0.75\ntails,-0.05\n")
    ...     read_frequencies(path)
    (('heads', 'tails'), array([ 0.75, -0.05]))
    """
    path = Path(path)
    numbers = {}
    for line, label, (text,) in _by_label(path, FREQUENCY):
        numbers[label] = _frequency(path, line, text)
    return tuple(numbers), np.array(list(numbers.values()))


def require_labels(path: Path, labels: Sequence[str], expected: Sequence[str]) -> None:
    """Raise InvalidInputError, with the first difference, unless a file has the expected labels."""
    # Both ways: a label too many is as wrong as one too few.
    for text, names, others in (
        ("has no row for", expected, set(labels)),
        ("has a row for", labels, set(expected)),
    ):
        missing = [name for name in names if name not in others]
        if missing:
            raise InvalidInputError(
                f"{path} {text} {missing[0]!r} ({counted(len(missing), 'such label')}): its "
                f"labels must be the {len(expected)} of the domain; complete the file, or "
                "choose its own domain"
            )


def _by_label(path: Path, *columns: str) -> Iterator[tuple[int, str, list[str]]]:
    """Yield line, label and other cells of each row of a table with one row per label."""
    seen: set[str] = set()
    others = [(column,) for column in columns]
    for line, (label, *texts) in _cells(path, ((LABEL, VALUE), *others)):
        # To add both up, or to take the last one, could hide an error of the table.
        if label in seen:
            raise InvalidInputError(
                f"{path}, line {line}: {label!r} occurs twice; keep one row per label"
            )
        seen.add(label)
        yield line, label, texts
    if not seen:
        raise DataUnavailableError(f"{path}: no rows after the header; get the file again")


def _count(path: Path, line: int, text: str) -> int:
    digits = digits_of(text)
    if digits is None or len(digits) > _DIGITS_OF_INT64:
        raise InvalidInputError(
            f"{path}, line {line}: a count must be a whole number >= 0 of at most "
            f"{_DIGITS_OF_INT64} digits, found {text!r}"
        )
    return int(digits)


def _frequency(path: Path, line: int, text: str) -> float:
    # One sentence for text and for what Python reads as a number but is none: nan and inf.
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidInputError(
            f"{path}, line {line}: a frequency must be a finite number, found {text!r}"
        )
    return number


def read_bytes(path: Path) -> bytes:
    """Return the content of a file, decompressed if it is gzip.

    A DataUnavailableError is raised if the file cannot be read or decompressed.
    """
    try:
        return decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        _refuse(path, error)


def decompress(content: bytes) -> bytes:
    """Return ``content``, decompressed if it is gzip; errors are those of `gzip.decompress`."""
    return gzip.decompress(content) if content.startswith(_GZIP) else content


def parse_transactions(content: bytes, path: Path) -> Transactions:
    """Return the transactions in ``content``; errors name ``path``."""
    # One pass in C over the whole file: line by line this check would take longer than the parsing.
    foreign = content.translate(None, b"0123456789 \t\r\n")
    if foreign:
        _refuse_line(path, content, content.index(foreign[:1]))
    characters = np.frombuffer(content, dtype=np.uint8)
    # A number begins and ends where "is a digit" changes.
    is_digit = characters >= ord("0")
    edges = np.flatnonzero(np.diff(is_digit, prepend=False, append=False))
    begins = edges[::2]
    lengths = edges[1::2] - begins
    if not begins.size:
        raise DataUnavailableError(f"{path}: the file is empty; get it again")
    longest = int(lengths.argmax())
    if lengths[longest] > _DIGITS_OF_INT64:
        _refuse_line(path, content, int(begins[longest]))
    # The last line may lack its line feed: no line begins at the very end of the file.
    line_ends = np.flatnonzero(characters == ord("\n")) + 1
    later_begins = line_ends[line_ends < characters.size]
    line_begins = np.concatenate([[0], later_begins])
    offsets = np.append(np.searchsorted(begins, line_begins), begins.size)
    # A line is a user where one item per line is drawn: one without items could not report.
    is_blank = np.diff(offsets) == 0
    if is_blank.any():
        _refuse_line(path, content, int(line_begins[is_blank.argmax()]))
    return Transactions(_numbers(characters, begins, lengths), offsets)


def _numbers(
    characters: NDArray[np.uint8],
    begins: NDArray[np.intp],
    lengths: NDArray[np.intp],
) -> NDArray[np.int64]:
    """Return the numbers whose digits begin at the given characters."""
    result = np.zeros(begins.size, dtype=np.int64)
    for place in range(int(lengths.max())):  # Horner's rule, on all numbers at once
        longer = np.flatnonzero(lengths > place)
        digits = characters[begins[longer] + place] - ord("0")
        result[longer] = 10 * result[longer] + digits
    return result


def _column(path: Path, column: str) -> Iterator[str]:
    """Yield the values of one column of a CSV file."""
    for _, (value,) in _cells(path, ((column,),)):
        yield value


def _cells(path: Path, columns: Sequence[Sequence[str]]) -> Iterator[tuple[int, list[str]]]:
    """Yield line and values of some columns of a CSV file, each under one of several names."""
    line = 0
    try:
        with path.open("rb") as file:
            compressed = file.read(len(_GZIP)) == _GZIP
        opener = gzip.open if compressed else open
        # A byte order mark, as spreadsheets write it, would become part of the first column's name.
        # Line ends are left to the csv module: a quoted value may hold some.
        with opener(path, "rt", encoding="utf-8-sig", newline="") as text:
            rows = csv.reader(text)
            header = next(rows, None)
            if header is None:
                raise DataUnavailableError(f"{path}: the file is empty; get it again")
            places = [_place(path, header, names) for names in columns]
            for row in rows:
                line = rows.line_num
                for place, names in zip(places, columns, strict=True):
                    if len(row) <= place or not row[place]:
                        raise DataUnavailableError(
                            f"{path}, line {line}: no value of {names[0]!r}; complete or remove it"
                        )
                yield line, [row[place] for place in places]
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        _refuse(path, error, f" after line {line}")


def _place(path: Path, header: Sequence[str], names: Sequence[str]) -> int:
    """Return which column of a header has one of some names."""
    for name in names:
        if header.count(name) > 1:
            # Nothing says which of them is meant, and the first may be an older one.
            raise InvalidInputError(f"{path}: two columns {name!r}; remove or rename one of them")
        if name in header:
            return header.index(name)
    remedy = other_separator(header) or ": take one of them, or rename one"
    raise InvalidInputError(
        f"{path}: no column {names[0]!r}; the header has {', '.join(header)}{remedy}"
    )


def _refuse(path: Path, error: Exception, where: str = "") -> NoReturn:
    """Raise the error for a file that cannot be read."""
    if isinstance(error, FileNotFoundError):
        raise DataUnavailableError(f"{path}: no such file; check the path") from None
    if isinstance(error, UnicodeDecodeError):
        raise DataUnavailableError(f"{path}: cannot be read{where}: {not_utf8(error)}") from None
    reason = getattr(error, "strerror", None) or error
    raise DataUnavailableError(
        f"{path}: cannot be read{where} ({reason}); get the file again"
    ) from None


def _refuse_line(path: Path, content: bytes, position: int) -> NoReturn:
    """Raise the error for the line around ``position``."""
    number = content.count(b"\n", 0, position) + 1
    begin = content.rfind(b"\n", 0, position) + 1
    line = content[begin:].split(b"\n", 1)[0]
    # What is wrong may be no text at all: characters that cannot be decoded are marked.
    excerpt = line[:_EXCERPT].decode(errors="replace")
    raise DataUnavailableError(
        f"{path}, line {number}: expected whole numbers >= 0 separated by blanks, at most "
        f"{_DIGITS_OF_INT64} digits each, found {excerpt!r}; correct or remove the line"
    )
