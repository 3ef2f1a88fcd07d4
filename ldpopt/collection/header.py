"""What a file of reports or counts states about itself: the protocol, its labels, its identity."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from uuid import uuid4

from ldpopt import validate
from ldpopt.collection.seal import BLANK, FIELD
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.oracles import ORACLES, FrequencyOracle
from ldpopt.printable import counted

VERSION = 4
"""Of the format. Version 1 had no checksums."""

# Up to version 3 sets were lists in Parquet, which are read as well. In version 2 CSV was different
# too, whose files of that time are refused for their first line.
_READ = (2, 3, VERSION)

# A file that claims a larger domain is not believed: a vector of its counts takes 8 bytes per
# value, and counting holds a few of them.
_LARGEST_D = 2**24


# Digits of the fingerprint of a list of labels, of that of its labels in alphabetical order, and of
# each of at most so many parts of the list: what tells two lists apart, and where they differ.
_WHOLE = 32
_ORDERED = 8
_PART = 6
_PARTS = 64


def fingerprint(labels: Sequence[str]) -> str:
    """Return a code that tells one list of labels from any other, and where two lists differ.

    It begins with the first half of a SHA-256, in hexadecimal. Behind a colon each follow eight
    digits of the labels in alphabetical order, and six of each of up to 64 parts of the list.
    """
    texts = list(labels)
    parts = [_digits(texts[start:end], _PART) for start, end in _part_bounds(len(texts))]
    return ":".join([_digits(texts, _WHOLE), _digits(sorted(texts), _ORDERED), "".join(parts)])


def _digits(labels: Sequence[str], number: int) -> str:
    # As JSON: joined by any separator, two lists of labels might read the same.
    return sha256(json.dumps(list(labels), ensure_ascii=False).encode()).hexdigest()[:number]


def _part_bounds(d: int) -> list[tuple[int, int]]:
    """Return where each part of a list of d labels begins and ends; of 64 labels each is a part."""
    number = min(_PARTS, d)
    return [(i * d // number, (i + 1) * d // number) for i in range(number)]


def label_difference(ours: str | None, theirs: str | None, d: int, names: Sequence[str]) -> str:
    """Return in words what differs between two lists of d labels, given their fingerprints.

    ``names`` are the labels of the first list, if they are known, or empty.
    """
    if ours is None or theirs is None:
        return "only one of them has labels"
    ours_pieces = ours.split(":")
    theirs_pieces = theirs.split(":")
    # Other programs, and older versions, write the first piece alone.
    if len(ours_pieces) < 3 or len(theirs_pieces) < 3:
        return "their lists of labels differ"
    if ours_pieces[1] == theirs_pieces[1]:
        return "they have the same labels in another order"
    for i, (start, end) in enumerate(_part_bounds(d)):
        digits = slice(i * _PART, (i + 1) * _PART)
        if ours_pieces[2][digits] != theirs_pieces[2][digits]:
            return _place_of_difference(start, end, names)
    return "their lists of labels differ"


def _place_of_difference(start: int, end: int, names: Sequence[str]) -> str:
    """Return in words where two lists differ first: in labels ``start .. end-1``."""
    # Counted from 1, as the lines of a file of labels are.
    if end - start == 1:
        shown = f", {names[start]!r}" if names else ""
        return f"their lists of labels differ first in label {start + 1}{shown}"
    shown = f", {names[start]!r} to {names[end - 1]!r}" if names else ""
    return f"their lists of labels differ first among labels {start + 1} to {end}{shown}"


@dataclass(frozen=True, eq=False)
class Header:
    """The protocol of a file's reports.

    Parameters
    ----------
    oracle
        The oracle that the reports were made with.
    labels
        ``fingerprint`` of the labels of the domain, ``None`` where values are numbers.
    file
        An identity that a copy of the file shares, so that no report is counted twice; ``None``
        where unknown.

    Examples
    --------
    >>> from ldpopt.oracles import OLH
    >>> Header(OLH(epsilon=1.0, d=8, rounding="floor")).protocol
    {'oracle': 'olh', 'epsilon': 1.0, 'd': 8, 'rounding': 'floor', 'g': 3, 'labels': None}
    """

    oracle: FrequencyOracle
    labels: str | None = None
    file: str | None = None

    @classmethod
    def fresh(cls, oracle: FrequencyOracle, labels: str | None = None) -> Header:
        """Return the header of a file that is about to be written.

        Raises InvalidTypeError if its oracle has no name.
        """
        oracle_name(oracle)
        return cls(oracle, labels, uuid4().hex)

    @property
    def protocol(self) -> dict[str, Any]:
        """All that reports must share to be counted together."""
        return {
            "oracle": oracle_name(self.oracle),
            "epsilon": self.oracle.epsilon,
            "d": self.oracle.d,
            **self.oracle.options,
            # The form follows from the rest: it is kept to notice a file that contradicts itself.
            **self.oracle.report_form.parameters,
            "labels": None if self.labels is None else self.labels[:_WHOLE],
        }

    def record(self) -> dict[str, Any]:
        """Return the header as a file stores it, with the place for the file's checksum."""
        about = {**self.protocol, "labels": self.labels, "file": self.file}
        return {FIELD: BLANK, "version": VERSION, **about}

    @classmethod
    def from_record(cls, record: object, where: str) -> Header:
        """Return the header that was stored.

        Parameters
        ----------
        record
            What ``record`` returned, after a round through JSON.
        where
            The file, for the errors.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If something is missing, of another version of the format, or contradicts itself.
        """
        fields = _complete(record, where)
        try:
            d = validate.integer("d", fields["d"], minimum=2)
            if d > _LARGEST_D:
                raise InvalidInputError(
                    f"d = {d} is more than 2**24, the largest domain of files; counts of reports "
                    "in memory may be larger"
                )
            oracle = make_oracle(fields["oracle"], fields["epsilon"], d, fields)
        except (InvalidInputError, InvalidTypeError) as error:
            raise type(error)(f"{where}: {error}") from None
        header = cls(oracle, fields.get("labels"), fields.get("file"))
        # Fields that follow from others must be as they follow: a mismatch is a damaged header.
        for key, value in header.protocol.items():
            # Labels follow from nothing.
            if key != "labels" and key in fields and fields[key] != value:
                raise InvalidInputError(
                    f"{where} says {key} = {fields[key]!r}, but its protocol has {value!r}"
                )
        return header

    def agree(self, other: Header, here: str, there: str, names: Sequence[str] = ()) -> None:
        """Raise an error if the reports of two files may not be counted together.

        The error names the files and what differs, with the labels of the first one if they are
        given.
        """
        ours = self.protocol
        theirs = other.protocol
        # Of both: a key that only one of them has is a difference too.
        for key in ours | theirs:
            if ours.get(key) == theirs.get(key):
                continue
            if key == "labels":
                words = label_difference(self.labels, other.labels, self.oracle.d, names)
                raise InvalidInputError(
                    f"{here} and {there} are not about the same values: {words}; give the list "
                    "that the reports were made with"
                )
            raise InvalidInputError(
                f"{here} has {key} = {ours.get(key)!r}, but {there} has {key} = "
                f"{theirs.get(key)!r}: reports of different protocols cannot be counted "
                "together; ldpopt.Sources combines estimates of several protocols"
            )


def _complete(record: object, where: str) -> Mapping[str, Any]:
    """Return a record that has all fields of a header, of the right version and type."""
    if not isinstance(record, Mapping):
        raise InvalidInputError(f"{where} does not say which oracle made its reports")
    # First: fields of another version may have other names.
    version = record.get("version", VERSION)
    if version not in _READ:
        raise InvalidInputError(
            f"{where} has version {version!r} of the format, this is ldpopt for version {VERSION}: "
            "read it with the ldpopt that wrote it, and write it anew with this one"
        )
    missing = [key for key in ("version", FIELD, "oracle", "epsilon", "d") if key not in record]
    if missing:
        raise InvalidInputError(f"{where} does not say the {' and '.join(missing)} of its reports")
    for key in ("labels", "file"):
        if not isinstance(record.get(key), str | None):
            raise InvalidInputError(f"{where} says {key} = {record[key]!r}, which is not text")
    return record


def check_sum(oracle: FrequencyOracle, total: int, n: int, where: str) -> None:
    """Raise InvalidInputError if n reports cannot have counts of this sum.

    Where all reports support the same number of values (GRR, subset selection) there is but one.
    """
    size = oracle.report_form.fixed_size
    if size is not None and total != n * size:
        raise InvalidInputError(
            f"{where} has counts with the sum {total}, but that of {counted(n, 'report')} is "
            f"{n * size}"
        )


def oracle_name(oracle: FrequencyOracle) -> str:
    """Return the name of an oracle in files and on the command line.

    Raises InvalidTypeError for an oracle that is not in ``ldpopt.oracles.ORACLES``.
    """
    for name, make in ORACLES.items():
        # Not isinstance: a subclass may draw reports that the name does not stand for.
        if make is type(oracle):
            return name
    raise InvalidTypeError(f"only reports of {', '.join(ORACLES)} can be stored, got {oracle!r}")


def make_oracle(
    name: str, epsilon: float, d: int, options: Mapping[str, Any] | None = None
) -> FrequencyOracle:
    """Return the oracle of that name, with those of its options that are given.

    Raises InvalidInputError for an unknown name, with the nearest known one.
    """
    make = validate.lookup("oracle", name, ORACLES)
    # Made without options first, to ask which options it has.
    oracle = make(epsilon, d)
    given = {key: options[key] for key in oracle.options if options and key in options}
    return make(epsilon, d, **given) if given else oracle
