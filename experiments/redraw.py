"""The kept pictures drawn anew from the kept tables: nothing is computed again.

Run as ``python -m experiments.redraw`` after a change of the style or of a drawing; names select
figures.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from experiments import poisoning
from experiments.figures import FIGURES
from experiments.pictures.draw import draw
from ldpopt.claims.figures.results import Results
from ldpopt.storage import write_whole

RESULTS = Path(__file__).parent / "results"


def main(names: Sequence[str]) -> None:
    """Write the pictures of these figures, or of all whose tables are kept."""
    tables = Results(RESULTS)
    for name in names or [*FIGURES, "poisoning"]:
        if name == "poisoning":
            poisoning.save(poisoning.draw(poisoning.kept()))
            continue
        # Without its data a figure has no table, and no picture.
        rows = tables.rows(name) if (RESULTS / f"{name}.csv").is_file() else []
        if rows:
            for suffix, content in draw(FIGURES[name], rows).items():
                write_whole(RESULTS / f"{name}.{suffix}", content)


if __name__ == "__main__":
    main(sys.argv[1:])
