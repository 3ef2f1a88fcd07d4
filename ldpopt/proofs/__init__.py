"""Theorems about the closed forms, for every input, and the record of their compilation.

The folder holds the sources (``*.v``) and ``theorems.json``, which `make prove` writes after Coq
has accepted all of them: every theorem with its statement, and every file with its hash and the
axioms that it rests on. A theorem counts as proved only while its file and all that it builds on
have the recorded content. Coq itself is needed by `make prove` alone.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
RECORD = "theorems.json"

AXIOMS_OF_THE_REALS = frozenset(
    {
        "ClassicalDedekindReals.sig_forall_dec",
        "ClassicalDedekindReals.sig_not_dec",
        "FunctionalExtensionality.functional_extensionality_dep",
        "Classical_Prop.classic",  # the library's mean value theorem, behind exp and ln
    }
)
"""What Coq's library of real numbers assumes. A theorem that assumes more is not proved."""

LIBRARY = "LdpOpt"
"""The name that the sources import one another by: `From LdpOpt Require Import Sums`."""

_UNPROVED = re.compile(
    r"\b(?:Admitted|admit|Axioms?|Parameters?|Conjectures?|Hypothes[ie]s|Variables?|Context"
    # These turn checks of Coq off, or bring in what no proof stands behind.
    r"|Unset|bypass_check|Declare|Primitive|Load)\b"
)
"""Words that bring an assumption into a source."""

_REQUIRE = re.compile(rf"From {LIBRARY} Require Import ([\w\s]+)\.")

_INTEGERS = re.compile(r"^Definition (\w+) : (?:list )?Z :=([^.]*)\.$", re.MULTILINE)


@dataclass(frozen=True)
class Theorem:
    """A theorem that Coq accepted.

    Attributes
    ----------
    name
        Unique among all files.
    file
        Its source.
    prose
        What it states, in the words of the comment above it.
    statement
        The statement in Coq's language.
    axioms
        What Coq's `Print Assumptions` names for the theorems of the file.
    """

    name: str
    file: str
    prose: str
    statement: str
    axioms: tuple[str, ...]


def content_hash(path: Path) -> str:
    """Return the SHA-256 of a source, the same whatever ends its lines."""
    # Text mode turns all ends of lines into one.
    return _hash(path.read_text(encoding="utf-8"))


def _hash(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()


def required(source: str) -> list[str]:
    """Return the files of this folder that a source imports.

    Examples
    --------
    >>> required("From LdpOpt Require Import Sums NormSub.")
    ['Sums.v', 'NormSub.v']
    """
    return [f"{module}.v" for line in _REQUIRE.findall(source) for module in line.split()]


def without_comments(source: str) -> str:
    """Return a source with blanks in place of its comments, which nest; lines stay.

    Examples
    --------
    >>> without_comments("Lemma a (* one (* two *) *) : b.")
    'Lemma a                     : b.'
    """
    depth = 0
    kept = []
    # The marks are parts of the split themselves, and belong to the comment that they open or end.
    for part in re.split(r"(\(\*|\*\))", source):
        depth += part == "(*"
        kept.append(re.sub(r"[^\n]", " ", part) if depth else part)
        depth -= part == "*)"
    return "".join(kept)


def accepted_theorems(folder: Path = FOLDER) -> dict[str, Theorem]:
    """Return the theorems of a folder that its record proves, by name.

    A file has no theorem here if it differs from the recorded one, is missing or not recorded,
    makes an assumption of its own, rests on more than `AXIOMS_OF_THE_REALS`, or builds on such a
    file. A theorem is not among them either if its recorded statement is not the one of its file.

    Raises
    ------
    OSError
        If the record itself is missing.

    Examples
    --------
    >>> accepted_theorems()["norm_sub_is_the_solution_to_cls"].file
    'NormSub.v'
    """
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    files = record["files"]
    sources = {name: _source(folder / name) for name in files}
    intact = {name for name, entry in files.items() if _is_as_recorded(sources[name], entry)}
    return {
        theorem.name: theorem
        for theorem in _recorded(record)
        if _builds_on(theorem.file, files) <= intact
        # The hash protects the source from a change, and nothing else protects the record.
        and f"\nTheorem {theorem.statement}.\nProof." in sources[theorem.file]
    }


def integers_in(file: str, folder: Path = FOLDER) -> dict[str, list[int]]:
    """Return the integers and lists of integers that a source defines, by name.

    Examples
    --------
    >>> len(integers_in("Emoji.v")["estimate"])
    736
    """
    code = without_comments((folder / file).read_text(encoding="utf-8"))
    numbers = {}
    for name, value in _INTEGERS.findall(code):
        base, _, exponent = value.strip("[]\n .").partition(" ^ ")
        if exponent:
            numbers[name] = [int(base) ** int(exponent)]
        else:
            numbers[name] = [int(x) for x in base.split(";")]
    return numbers


def proof_of(*names: str, folder: Path = FOLDER) -> str:
    """Return file and name of theorems for a report; empty if one of them is not proved.

    Examples
    --------
    >>> proof_of("norm_sub_is_the_solution_to_cls", "delta_exists")
    'NormSub.v: norm_sub_is_the_solution_to_cls, delta_exists'
    >>> proof_of("norm_sub_is_the_solution_to_cls", "no_such_theorem")
    ''
    """
    theorems = accepted_theorems(folder)
    if not theorems.keys() >= set(names):
        return ""
    by_file: dict[str, list[str]] = {}
    for name in names:
        by_file.setdefault(theorems[name].file, []).append(name)
    return "; ".join(f"{file}: {', '.join(members)}" for file, members in by_file.items())


def _recorded(record: dict[str, Any]) -> Iterator[Theorem]:
    for name, entry in record["theorems"].items():
        yield Theorem(
            name,
            entry["file"],
            entry["prose"],
            entry["statement"],
            tuple(record["files"][entry["file"]]["axioms"]),
        )


def _source(path: Path) -> str:
    """Return the text of a source; an empty one, which has no theorem, if the file is missing."""
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _is_as_recorded(source: str, entry: dict[str, Any]) -> bool:
    """Return whether a source has the recorded content and no assumption beyond the reals."""
    if not AXIOMS_OF_THE_REALS.issuperset(entry["axioms"]):
        return False
    # A list that lacks a file would hide that this one was changed.
    if _hash(source) != entry["sha256"] or required(source) != entry["requires"]:
        return False
    # A record that was edited along with its source would pass the hash. Most sources have no such
    # word at all, and taking comments out is the slow part.
    if not _UNPROVED.search(source):
        return True
    code = without_comments(source)
    # A quotation mark in code may open a text with the marks of comments, which hides a word.
    return not _UNPROVED.search(code) and '"' not in code


def _builds_on(file: str, files: dict[str, Any]) -> set[str]:
    """Return a file and all files that it requires, directly or through others."""
    reached: set[str] = set()
    waiting = [file]
    while waiting:
        name = waiting.pop()
        # Several ways lead to a file that many others import.
        if name not in reached:
            reached.add(name)
            # A file without an entry is not intact: it counts as reached and leads nowhere.
            waiting += files.get(name, {}).get("requires", [])
    return reached
