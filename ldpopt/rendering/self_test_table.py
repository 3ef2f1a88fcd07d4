"""What the ledger noticed of the errors that were planted in it, in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.markup import escape
from rich.table import Table

from ldpopt.claims.planted.error import PlantedError, Sighting
from ldpopt.claims.planted.tables import TableError
from ldpopt.printable import counted


def self_test_table(
    errors: Mapping[str, PlantedError | TableError], sightings: Sequence[Sighting]
) -> Table:
    """Return one row per planted error: what it is, and the claim that noticed it.

    Parameters
    ----------
    errors
        The planted errors by id.
    sightings
        How the search for each of them ended, in any order.
    """
    table = Table(box=box.SIMPLE_HEAD, title="Planted errors", title_justify="left")
    # As wide as the longest id: cut off, it could not be looked up.
    table.add_column("error", min_width=max(map(len, errors), default=0))
    table.add_column("noticed by")
    table.add_column("claims run", justify="right")
    table.add_column("s", justify="right", no_wrap=True)
    by_error = {sighting.error: sighting for sighting in sightings}
    for identifier, error in errors.items():
        sighting = by_error[identifier]
        table.add_row(
            f"[bold]{identifier}[/]\n[dim]{escape(error.kind)}:[/] {escape(error.what)}",
            _noticed_by(sighting),
            f"{sighting.claims_run}",
            f"{sighting.seconds:.1f}",
        )
    return table


def _noticed_by(sighting: Sighting) -> str:
    if not sighting.is_seen:
        return "[bold red]no claim[/]"
    return f"[green]{sighting.claim}[/]\n[dim]{escape(sighting.how)}[/]"


def self_test_summary(sightings: Sequence[Sighting]) -> str:
    """Return one line: how many of the planted errors were noticed, and which were not."""
    seen = [sighting for sighting in sightings if sighting.is_seen]
    count = f"{len(seen)} of {counted(len(sightings), 'planted error')} noticed"
    missed = [sighting.error for sighting in sightings if not sighting.is_seen]
    if missed:
        return f"[bold red]{count}; no claim sees:[/] {', '.join(missed)}"
    return f"[green]{count}.[/]"
