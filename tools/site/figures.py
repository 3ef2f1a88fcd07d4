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

_ABOUT = """# The papers' figures

All 26 figures, drawn anew from simulations with as many trials as in the papers, and what the
papers say of them, judged on the numbers behind the pictures. `make figures` computes everything
again.

"""


def write(folder: Path, records: Sequence[Record]) -> None:
    """Write a page per paper, and the table of all statements about figures."""
    folder.mkdir(parents=True, exist_ok=True)
    by_id = {record["id"]: record for record in records}
    judged = [s for s in STATEMENTS if s.id in by_id]
    links = {s.id: s.figure.partition("-")[0] for s in judged}
    for page, title in PAGES.items():
        lines = [f"# {title}", ""]
        for name in (name for name in FIGURES if name.partition("-")[0] == page):
            lines += [f"## {FIGURES[name].title}", ""]
            picture = RESULTS / f"{name}.svg"
            if picture.is_file():
                shutil.copy(picture, folder / picture.name)
                lines += [f"![{FIGURES[name].title}]({picture.name})", ""]
            for statement in (s for s in judged if s.figure == name):
                entry = ledger.entry(by_id[statement.id])
                # One level down: a statement stands below its figure.
                lines += [line.replace("## `", "### `") for line in entry]
        (folder / f"{page}.md").write_text("\n".join(lines), encoding="utf-8")
    toctree = ["```{toctree}", ":hidden:", "", *PAGES, "```", ""]
    index = [_ABOUT, *toctree, *ledger.table([by_id[s.id] for s in judged], links)]
    (folder / "index.md").write_text("\n".join(index), encoding="utf-8")
