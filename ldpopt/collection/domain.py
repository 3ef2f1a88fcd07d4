"""What an analyst brings along as files: the domain's labels, users' values, sets to ask about."""

from __future__ import annotations

import json
from collections.abc import Iterator
from csv import Error, reader
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv

from ldpopt import validate
from ldpopt.collection.header import fingerprint
from ldpopt.collection.parquet import CLIENT_ID
from ldpopt.errors import InvalidInputError

VALUE = "value"


@dataclass(frozen=True)
class Domain:
    """``d`` values, named by labels or, without them, by their numbers from 0."""

    d: int
    labels: tuple[str, ...] | None = None

    @classmethod
    def read(cls, text: str) -> Domain:
        """Return the domain that a number or a file of labels says: one a line, or a JSON list.

        Raises InvalidInputError if the file cannot be read, or a label is empty or occurs twice; the first such line is named.
        """
        if text.strip().isdecimal():
            return cls(validate.integer("the domain", int(text), minimum=2))
        content = read_text(
            Path(text), f"the domain {text!r} is neither a number of values nor a file of labels"
        )
        labels = _json(text, content) if text.lower().endswith(".json") else content.splitlines()
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise InvalidInputError(f"{text} must be a JSON list of labels")
        seen: dict[str, int] = {}
        for line, label in enumerate(labels, 1):
            if not label.strip():
                raise InvalidInputError(f"{text}: label {line} is empty")
            if label in seen:
                raise InvalidInputError(
                    f"{text}: label {line} is {label!r}, and so is label {seen[label]}"
                )
            seen[label] = line
        if len(labels) < 2:
            raise InvalidInputError(
                f"{text} has {len(labels)} labels: a domain has at least 2 values"
            )
        return cls(len(labels), tuple(labels))

    @property
    def fingerprint(self) -> str | None:
        """Fingerprint of the labels, if there are any."""
        return None if self.labels is None else fingerprint(self.labels)

    @property
    def names(self) -> list[str]:
        """What each value is called."""
        return list(map(str, range(self.d)) if self.labels is None else self.labels)

    def indices(self, column: pa.Array) -> NDArray[np.int64]:
        """Return the indices of values given as text, -1 for what is not in the domain."""
        if self.labels is not None:
            found = pc.index_in(column, pa.array(self.labels))
        else:
            plain = pc.match_substring_regex(column, r"^(0|[1-9][0-9]{0,9})$").fill_null(False)
            found = pc.if_else(plain, column, None).cast(pa.int64())
        values: NDArray[np.int64] = (
            found.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        )
        return np.where(values < self.d, values, -1)

    def sets(self, path: Path) -> dict[str, list[int]]:
        """Return the sets of a JSON file by name: an object of lists, or a list of lists, of labels or indices.

        Raises InvalidInputError if it is nothing of the kind or names a value that is not in the domain.
        """
        content = _json(str(path), read_text(path, f"cannot read the sets {path}"))
        named = dict(enumerate(content)) if isinstance(content, list) else content
        if (
            not isinstance(named, dict)
            or not named
            or not all(isinstance(members, list) for members in named.values())
        ):
            raise InvalidInputError(
                f"{path} must be an object of lists, or a list of lists, of labels or indices"
            )
        index = {name: i for i, name in enumerate(self.names)}
        result: dict[str, list[int]] = {}
        for name, members in named.items():
            result[str(name)] = []
            for member in members:
                by_number = (
                    isinstance(member, int)
                    and not isinstance(member, bool)
                    and 0 <= member < self.d
                )
                if not by_number and not (isinstance(member, str) and member in index):
                    raise InvalidInputError(
                        f"{path}: {member!r} in set {name!r} is not in the domain of {self.d} values"
                    )
                result[str(name)].append(member if by_number else index[member])
        return result


def read_values(path: Path, domain: Domain) -> Iterator[tuple[NDArray[np.int64], pa.Array | None]]:
    """Yield the values of a CSV file as indices, batch by batch, with their client ids if the file has them.

    Parameters
    ----------
    path
        Columns ``value`` and, optionally, ``client_id``; a file of one column needs no heading.
    domain
        The domain of the values.

    Raises
    ------
    InvalidInputError
        If the file cannot be read, has other columns, or a value is not in the domain; the first such line is named.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            heading = next(reader(file), [""])
    except (OSError, UnicodeDecodeError, Error) as error:
        raise InvalidInputError(f"cannot read {path}: {error}") from None
    headed = VALUE in heading or (len(heading) == 1 and domain.indices(pa.array(heading))[0] < 0)
    if len(heading) > 1 and VALUE not in heading:
        raise InvalidInputError(
            f"{path} has no column {VALUE!r}: its columns are {', '.join(heading)}"
        )
    names = heading if headed else [VALUE]
    if len(names) == 1:
        names = [VALUE]
    line = 1 + headed
    try:
        stream = csv.open_csv(
            path,
            read_options=csv.ReadOptions(
                column_names=names, skip_rows=int(headed), use_threads=False
            ),
            parse_options=csv.ParseOptions(ignore_empty_lines=False),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                strings_can_be_null=False,
                include_columns=names,
            ),
        )
        for batch in stream:
            column = batch.column(VALUE)
            values = domain.indices(column)
            if (values < 0).any():
                at = int(np.argmax(values < 0))
                raise InvalidInputError(
                    f"{path}, line {line + at}: {column[at].as_py()!r} is not in the domain of {domain.d} values"
                )
            yield values, batch.column(CLIENT_ID) if CLIENT_ID in names else None
            line += len(values)
    except (pa.ArrowException, OSError) as error:
        raise InvalidInputError(f"cannot read {path}: {error}") from None


def read_text(path: Path, trouble: str) -> str:
    """Return the text of a UTF-8 file, or raise an InvalidInputError that begins with ``trouble``."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{trouble} ({error})") from None


def _json(name: str, content: str) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        raise InvalidInputError(f"{name} is not JSON: {error}") from None
