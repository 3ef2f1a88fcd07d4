"""``ldpopt verify --self-test``: whether the ledger notices errors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ldpopt.cli.shared import errors, output, progress_bar, remark

if TYPE_CHECKING:
    from ldpopt.claims.planted import PlantedError, TableError


def self_test(workers: int, figures: Path | None) -> None:
    """Plant every error of the catalogue, and print which claim notices it.

    Parameters
    ----------
    workers
        How many errors are planted at a time, each in a process of its own.
    figures
        The tables of a run of the figures, in copies of which errors are planted too.

    Raises
    ------
    typer.Exit
        With status 1 if an error goes unnoticed or is missing from the catalogue, or a claim is
        red without one.
    """
    from ldpopt.claims import planted, read_figure_run
    from ldpopt.rendering.self_test_table import self_test_summary, self_test_table

    catalogue: dict[str, PlantedError | TableError] = {**planted.ERRORS}
    complete = planted.NUMBER
    if figures is not None:
        read_figure_run(figures)  # a folder without tables is an error now, and no sighting later
        catalogue |= planted.TABLE_ERRORS
        complete += planted.TABLE_NUMBER
    number = len(catalogue)
    remark(f"Planting {number} errors, one at a time; this takes a few minutes.")
    sightings = []
    with progress_bar() as progress:
        # One more: the claims without an error.
        task = progress.add_task("", total=number + 1)
        for sighting in planted.self_test(workers, figures):
            progress.update(task, description=sighting.error)
            progress.advance(task)
            sightings.append(sighting)
    unplanted = [sighting for sighting in sightings if sighting.error == planted.NOTHING]
    sightings = [sighting for sighting in sightings if sighting.error != planted.NOTHING]
    output.print(self_test_table(catalogue, sightings))
    errors.print(self_test_summary(sightings), highlight=False, soft_wrap=True)
    # A claim that is red anyway notices nothing.
    surprises = [sighting.claim for sighting in unplanted if sighting.is_seen]
    if surprises:
        remark(f"Without a planted error the claim {surprises[0]} is not as expected.", "bold red")
    # "All noticed" says little about a catalogue that has lost some.
    if number != complete:
        remark(f"There are {number} errors to plant, and not {complete}.", "bold red")
    if surprises or number != complete or not all(sighting.is_seen for sighting in sightings):
        raise typer.Exit(1)
