"""The papers' figures as pages: each drawn from kept results, with what its paper says of it."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from experiments.figures import FIGURES
from ldpopt.claims.figures import STATEMENTS
from tools.site import ledger
from tools.site.ledger import Record
from tools.texts import ROOT

RESULTS = ROOT / "experiments" / "results"

PAGES = {
    "ndss": "N: Wang et al., NDSS 2020",
    "draft": "D: its draft of 2019",
    "calibrate": "K: Jia and Gong, INFOCOM 2019",
}

_ON_A_PAPER = """\
The figures of the paper, drawn from our simulations. Below each picture stands what the paper says
of it, and whether our numbers agree. A picture opens alone when it is selected. Its last line names
the panels whose data [were not at hand](../how-to/figures.md)."""

_NOT_DRAWN = """\
This figure needs data that may not be passed on with the library, and that were not at hand when
the pictures were drawn. [`make figures`](../how-to/figures.md) draws it where they are."""

_ABOUT = """# The papers' figures

All 26 figures of three papers, drawn anew from simulations with as many trials as in the papers:
[N](ndss.md) is Wang et al. (NDSS 2020), [D](draft.md) its draft of 2019, and [K](calibrate.md) Jia
and Gong (INFOCOM 2019). The table lists what the papers say of their figures, with the verdict on
the numbers behind our pictures ([what the verdicts mean](../ledger/index.md)). `make figures`
computes everything again.

"""


def write(folder: Path, records: Sequence[Record]) -> None:
    """Write a page per paper, and the table of all statements about figures."""
    folder.mkdir(parents=True, exist_ok=True)
    by_id = {record["id"]: record for record in records}
    judged = [s for s in STATEMENTS if s.id in by_id]
    links = {s.id: s.figure.partition("-")[0] for s in judged}
    for page, title in PAGES.items():
        lines = [f"# {title}", "", _ON_A_PAPER, ""]
        for name in (name for name in FIGURES if name.partition("-")[0] == page):
            figure = FIGURES[name]
            lines += [f"## {figure.source}: {figure.title}", ""]
            picture = RESULTS / f"{name}.svg"
            if picture.is_file():
                shutil.copy(picture, folder / picture.name)
                # The picture alone fills the screen: its words are small between two columns.
                shown = [f"```{{image}} {picture.name}", f":alt: {figure.title}"]
                lines += [*shown, f":target: ../_images/{picture.name}", "```", ""]
            else:
                lines += [_NOT_DRAWN, ""]
            for statement in (s for s in judged if s.figure == name):
                entry = ledger.entry(by_id[statement.id])
                # One level down: a statement stands below its figure.
                lines += [line.replace("## `", "### `") for line in entry]
        (folder / f"{page}.md").write_text("\n".join(lines), encoding="utf-8")
    toctree = ["```{toctree}", ":hidden:", "", *PAGES, "```", ""]
    index = [_ABOUT, *toctree, *ledger.table([by_id[s.id] for s in judged], links)]
    (folder / "index.md").write_text("\n".join(index), encoding="utf-8")
