"""Stage the pages of the site in one folder, from the files that hold their text.

A text has one home: a page of ``docs/``, or a file of the repository that is a page as it is. Links
between files become links between pages.
"""

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from tools.site import figures, ledger, reference
from tools.site.ledger import Record
from tools.texts import ROOT

# Files outside docs/ that are pages as they are, and where.
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "how-to/extend.md",
    "CERTIFICATES.md": "explanation/certificates.md",
    "SECURITY.md": "explanation/security.md",
    "ldpopt/proofs/README.md": "explanation/proofs.md",
    "ldpopt/datasets/data/README.md": "how-to/bundled-data.md",
    "experiments/results/priors.md": "benchmarks/priors.md",
    "experiments/results/priors-tables.md": "benchmarks/priors-tables.md",
}

# Folders of the repository whose content the site shows on pages of its own. Texts link to the
# folder, which a plain checkout has.
SHOWN = {
    "ldpopt/claims/statements": "ledger/index.md",
    "experiments/results": "figures/index.md",
}

PICTURES = "pictures"

_NOWHERE = "nowhere"  # the target of a link to a file that is no page, until it becomes words

# A link or a picture, in Markdown or in a directive for pictures: what leads to it, its target.
_LINK = re.compile(r"(\]\(|^```\{image\} )(?!https?:|#)([^)#\s]+)(#[^)\s]*)?", re.MULTILINE)
_DEAD_LINK = re.compile(rf"\[([^\]\[]+)\]\({_NOWHERE}\)")
# A picture that is a link to itself, on a line of its own.
_OPENING = re.compile(r"^\[!\[([^\]]+)\]\(([^)]+)\)\]\(\2\)$", re.MULTILINE)
_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


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
    pages = homes()
    for file, page in pages.items():
        text = (ROOT / file).read_text(encoding="utf-8")
        if file.suffix == ".ipynb":
            text = _notebook(text, file, pages, folder)
        else:
            text = linked(text, file, pages, folder)
        _write(folder / page, text)
    shutil.copy(ROOT / "ldpopt/rendering/templates/statements.css", folder / "_static")
    reference.write(folder / "reference")
    ledger.write(folder / "ledger", records)
    figures.write(folder / "figures", records)


def homes() -> dict[Path, Path]:
    """Return the page of each file of the repository that is one, both relative."""
    docs = ROOT / "docs"
    pages = {path.relative_to(ROOT): path.relative_to(docs) for path in sorted(docs.rglob("*.md"))}
    pages |= {Path(file): Path(page) for file, page in PAGES.items()}
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    return pages | {path.relative_to(ROOT): Path("tutorials", path.name) for path in notebooks}


def _write(target: Path, text: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.suffix == ".md" and not text.lstrip().startswith("# "):
        # Every page has a title, by which others list it.
        text = f"# {target.stem.replace('-', ' ').capitalize()}\n\n{text}"
    target.write_text(text, encoding="utf-8")


def _notebook(text: str, file: Path, pages: dict[Path, Path], folder: Path) -> str:
    """Return a notebook with the links of its text changed; the site shows its kept outputs."""
    content = json.loads(text)
    for cell in content["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = linked("".join(cell["source"]), file, pages, folder)
    return json.dumps(content)


def linked(text: str, file: Path, pages: dict[Path, Path], folder: Path) -> str:
    """Return a file's text with links to files changed to links to their pages.

    Pictures are copied beside the pages. A link to a file that is no page becomes plain text:
    readers of the site do not have it.
    """
    up = "../" * len(pages[file].parent.parts)

    def changed(match: re.Match[str]) -> str:
        opening, address, anchor = match.groups()
        target = (ROOT / file.parent / address).resolve()
        name = target.relative_to(ROOT) if target.is_relative_to(ROOT) else Path()
        if name in pages:
            return f"{opening}{up}{pages[name].as_posix()}{anchor or ''}"
        if name.suffix in (".png", ".svg") and target.is_file():
            (folder / PICTURES).mkdir(exist_ok=True)
            shutil.copy(target, folder / PICTURES)
            return f"{opening}{up}{PICTURES}/{target.name}"
        if name.as_posix() in SHOWN:
            return f"{opening}{up}{SHOWN[name.as_posix()]}"
        return f"{opening}{_NOWHERE}"

    text = "".join(
        # Code keeps its brackets: what looks like a link there is none.
        part
        if part.startswith("```") and not part.startswith("```{image}")
        else _DEAD_LINK.sub(r"\1", _LINK.sub(changed, part))
        for part in _FENCED.split(text)
    )
    return _OPENING.sub(lambda match: _opening(match[1], match[2], up), text)


def _opening(title: str, picture: str, up: str) -> str:
    """Return a picture that opens alone: a plain link to a file would download it."""
    name = picture.rpartition("/")[2]
    return f"```{{image}} {picture}\n:alt: {title}\n:target: {up}_images/{name}\n```"
