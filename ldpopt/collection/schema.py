"""Where reports are in files of other programs, which state no protocol themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ldpopt.collection.header import Header, fingerprint
from ldpopt.collection.layout import Layout, layout_of
from ldpopt.errors import InvalidInputError
from ldpopt.estimate.labels import checked_labels
from ldpopt.oracles import FrequencyOracle


@dataclass(frozen=True, eq=False)
class Schema:
    """The protocol and the columns of a service's own Parquet or CSV files.

    Their reports must be what ``oracle.perturb`` returns, one per row, in columns as the library's
    own files have them (see the page on the protocols): a whole number, bytes (hexadecimal digits
    in CSV), a seed and a bucket, or a list of members. Rows that are not are set aside. Such files
    have no checksums of this library: what is damaged on the way is not noticed by it.

    Parameters
    ----------
    oracle
        The oracle that the reports were made with.
    columns
        Names of the columns, as many as a report has: two (seed and bucket) with local hashing, one
        otherwise. Default: the names in the library's own files.
    client_id
        Name of the column of client ids, each of which counts once; ``None`` if there is none.
    labels
        The labels of the domain, which results keep a fingerprint of. With randomised response
        (GRR) a report may then be a label as well as a number: in Parquet as the column's type
        states, text or whole numbers.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If there is a wrong number of columns, one of them twice, or the oracle has no name; if
        there are not d labels, or one of them twice.

    Examples
    --------
    >>> from ldpopt.oracles import GRR
    >>> Schema(GRR(epsilon=1.0, d=4), columns=["answer"]).columns
    ('answer',)
    """

    oracle: FrequencyOracle
    columns: Sequence[str] = ()
    client_id: str | None = None
    labels: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if self.labels is not None:
            labels = checked_labels(self.labels, self.oracle.d)
            # A report that is a label could otherwise be either of two values.
            object.__setattr__(self, "labels", _distinct(labels))
        expected = layout_of(self.oracle).names
        columns = tuple(self.columns) or expected
        if len(columns) != len(expected):
            raise InvalidInputError(
                f"reports of {type(self.oracle).__name__} have {len(expected)} columns "
                f"({', '.join(expected)}), got {len(columns)} names: {', '.join(columns)}"
            )
        every = list(columns)
        if self.client_id is not None:
            every.append(self.client_id)
        # One column cannot have two roles.
        for name in every:
            if every.count(name) > 1:
                raise InvalidInputError(f"the column {name!r} is named twice: give distinct names")
        object.__setattr__(self, "columns", columns)

    @property
    def layout(self) -> Layout:
        """How a report is stored in the columns."""
        return layout_of(self.oracle, self.labels)

    @property
    def header(self) -> Header:
        """What a file of the library would state, without an identity of the file."""
        labels = None if self.labels is None else fingerprint(self.labels)
        return Header(self.oracle, labels)

    @property
    def record(self) -> dict[str, object]:
        """The columns, in the types of JSON: what else must agree for a run to be continued."""
        return {"columns": list(self.columns), "client_id": self.client_id}


def _distinct(labels: tuple[str, ...]) -> tuple[str, ...]:
    """Return labels; raise an error if one of them is there twice."""
    places: dict[str, int] = {}
    for place, label in enumerate(labels):
        first = places.setdefault(label, place)
        if first != place:
            raise InvalidInputError(
                f"{label!r} is the label of value {first} and of value {place}: give distinct "
                "labels"
            )
    return labels
