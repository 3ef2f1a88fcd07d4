"""Planted errors in a run of the figures: in its tables, and in the statements about them."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ldpopt.claims.engine.claim import Verdict
from ldpopt.claims.figures import run
from ldpopt.claims.figures.judge import Judged, judge
from ldpopt.claims.figures.manifest import write_manifest
from ldpopt.claims.figures.results import Results
from ldpopt.claims.figures.statement import Statement
from ldpopt.claims.planted.error import replace_attribute

PlantInTables = Callable[[Path], None]
Record = dict[str, str]

_KIND = "figures"
_FIGURE = "ndss-fig4.csv"


@dataclass(frozen=True)
class TableError:
    """An error that `read_figure_run` must notice; ``plant`` takes a copy of the tables.

    The other attributes are those of ``PlantedError``.
    """

    id: str
    what: str
    plant: PlantInTables = field(repr=False)
    kind: str = _KIND


TABLE_ERRORS: dict[str, TableError] = {}
"""The errors in a run of the figures, by id."""

TABLE_NUMBER = 8
"""How many of them there must be."""


def in_tables(identifier: str, what: str) -> Callable[[PlantInTables], PlantInTables]:
    """Register the decorated function as what plants an error in the tables of a run."""

    def register(plant: PlantInTables) -> PlantInTables:
        TABLE_ERRORS[identifier] = TableError(identifier, what, plant)
        return plant

    return register


def _change_rows(folder: Path, pattern: str, change: Callable[[Record], None]) -> None:
    """Change the rows of some tables, and the manifest with them, as a run would write it."""
    for path in folder.glob(pattern):
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            names = reader.fieldnames or []
            rows = list(reader)
        for row in rows:
            change(row)
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)
    # Otherwise its checksums would show the change, whatever the statements see.
    write_manifest(folder)


@in_tables("figures-mse", "PowerNS's errors in N Figure 4 are a hundred times larger")
def figures_mse(folder: Path) -> None:
    """Scale the errors of one method."""

    def change(row: Record) -> None:
        if row["method"] == "power-ns":
            # To six digits, as tables are written.
            row["mean"] = f"{100 * float(row['mean']):.6g}"

    _change_rows(folder, _FIGURE, change)


@in_tables("figures-two-trials", "every number is the mean of two trials")
def figures_two_trials(folder: Path) -> None:
    """Lower the number of trials; means and deviations stay."""

    def change(row: Record) -> None:
        # The data themselves have no trials.
        if row["trials"] != "0":
            row["trials"] = "2"

    _change_rows(folder, "*-fig*.csv", change)


@in_tables("figures-table-lost", "the table of N Figure 4 is missing")
def figures_table_lost(folder: Path) -> None:
    """Delete one table."""
    # The manifest is written anew: the missing rows must be noticed, not the checksum.
    (folder / _FIGURE).unlink()
    write_manifest(folder)


@in_tables("figures-tables-lost", "all tables are missing")
def figures_tables_lost(folder: Path) -> None:
    """Delete every table."""
    for path in folder.glob("*.csv"):
        path.unlink()


@in_tables("figures-statements-lost", "116 of 126 statements are missing")
def figures_statements_lost(_: Path) -> None:
    """Leave out statements."""
    replace_attribute(run, "STATEMENTS", run.STATEMENTS[:10])


def _change_judge(change: Callable[[Statement, Results], Judged]) -> None:
    replace_attribute(run, "judge", change)


@in_tables("figures-unmeasured", "no statement finds a reading")
def figures_unmeasured(folder: Path) -> None:
    """Judge every statement on a folder without tables."""
    # The tables themselves stay, so that no other check sees a difference.
    nothing = Results(folder / "nowhere")
    _change_judge(lambda statement, _: judge(statement, nothing))


@in_tables("figures-expectation", "one statement that fails is expected to hold")
def figures_expectation(_: Path) -> None:
    """Change what the ledger expects of one statement."""
    changed = list(run.STATEMENTS)
    # Any that fails will do: the first one is found without naming it.
    at = next(i for i, one in enumerate(changed) if one.expected is Verdict.FAILS)
    changed[at] = replace(changed[at], expected=Verdict.HOLDS)
    replace_attribute(run, "STATEMENTS", tuple(changed))


@in_tables("figures-verdict", "one statement ends as holding whatever is measured")
def figures_verdict(_: Path) -> None:
    """Change the verdict on one statement."""
    chosen = next(one for one in run.STATEMENTS if one.expected is Verdict.FAILS)

    def change(statement: Statement, results: Results) -> Judged:
        judged = judge(statement, results)
        if statement is not chosen:
            return judged
        return replace(judged, verdict=Verdict.HOLDS)

    _change_judge(change)
