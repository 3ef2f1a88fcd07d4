"""Collect what the site is made of in one folder, where Sphinx finds it."""

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.site import figures, ledger, reference
from tools.site.ledger import Record
from tools.texts import ROOT

# Files of the repository that are pages as they are, and where.
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "how-to/extend.md",
    "CERTIFICATES.md": "explanation/certificates.md",
    "SECURITY.md": "explanation/security.md",
    "docs/protocol.md": "protocol.md",
    "ldpopt/proofs/README.md": "explanation/proofs.md",
    "experiments/results/priors.md": "benchmarks/priors.md",
    "experiments/results/priors-tables.md": "benchmarks/priors-tables.md",
}

# Sections of the README that are pages, by heading.
SECTIONS = {
    "From reports to estimates": "how-to/own-reports.md",
    "Which method for my queries": "how-to/select-method.md",
    "Command line": "how-to/command-line.md",
    "Data": "how-to/data-sets.md",
    "Methods and their guarantees": "explanation/methods.md",
    "Losses and constraints": "explanation/losses-and-constraints.md",
    "Priors": "explanation/priors.md",
    "Oracles": "explanation/oracles.md",
    "Intervals": "explanation/intervals.md",
    "Poisoning": "explanation/poisoning.md",
    "Speed": "benchmarks/speed.md",
}

_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")


def stage(folder: Path, records: Sequence[Record]) -> None:
    """Write all sources of the site into a folder, anew.

    Parameters
    ----------
    folder
        What it holds is replaced.
    records
        The claims with their verdicts, as `ldpopt verify` writes them.
    """
    # What an earlier build left would be served on: a page that was deleted since, for example.
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder)
    _notebooks(folder / "tutorials")
    shutil.copy(ROOT / "experiments" / "results" / "emoji.png", folder)
    for name, page in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        _write(folder / page, _with_links_inside(text, Path(name), Path(page)))
    for heading, text in _readme_sections():
        if heading in SECTIONS:
            page = SECTIONS[heading]
            _write(folder / page, _with_links_inside(text, Path("README.md"), Path(page)))
    reference.write(folder / "reference")
    ledger.write(folder / "ledger", records)
    figures.write(folder / "figures", records)


def _readme_sections() -> Iterator[tuple[str, str]]:
    """Yield the README's sections as pages: heading, and text that begins with it as a title."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading = section.partition("\n")[0]
        yield heading, f"# {section}"


def _write(target: Path, text: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.suffix == ".md" and not text.lstrip().startswith("# "):
        # Every page has a title, by which others list it.
        text = f"# {target.stem.replace('-', ' ').capitalize()}\n\n{text}"
    target.write_text(text, encoding="utf-8")


def _notebooks(folder: Path) -> None:
    """Copy the notebooks, whose kept outputs the site shows."""
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        content = json.loads(notebook.read_text(encoding="utf-8"))
        for cell in content["cells"]:
            if cell["cell_type"] == "markdown":
                text = "".join(cell["source"])
                page = Path("tutorials", notebook.name)
                cell["source"] = _with_links_inside(text, notebook.relative_to(ROOT), page)
        _write(folder / notebook.name, json.dumps(content))


def _with_links_inside(text: str, file: Path, page: Path) -> str:
    """Return a file's text with its links to other files changed to links to their pages.

    A link to a file that is no page becomes plain text: readers of the site do not have it.
    """

    def changed(match: re.Match[str]) -> str:
        target = (ROOT / file.parent / match.group(1)).resolve()
        name = target.relative_to(ROOT).as_posix() if target.is_relative_to(ROOT) else ""
        if name not in PAGES:
            return "]"
        up = "../" * len(page.parent.parts)
        return f"]({up}{PAGES[name]}{match.group(2) or ''})"

    linked = _LINK.sub(changed, text)
    # "[words]" alone would be read as a reference that leads nowhere.
    return re.sub(r"(?<!!)\[([^\]\[]+)\](?![\(\[:])", r"\1", linked) if linked != text else linked
