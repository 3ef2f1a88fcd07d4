"""Repair the links from source pages back to the reference.

Sphinx's viewcode takes one module for all objects of a source file. An object that the package
exports under a shorter name beside others of its file then gets links to anchors that no page has.
"""

import re
from pathlib import Path

_BACK_LINK = re.compile(r"(reference/generated/([\w.]+)\.html)#([\w.]+)")


def repair(html: Path) -> None:
    """Change the anchors of back links to those of the pages that they lead to."""
    for page in sorted((html / "_modules").rglob("*.html")):
        text = page.read_text(encoding="utf-8")
        page.write_text(_BACK_LINK.sub(_repaired, text), encoding="utf-8")


def _repaired(link: re.Match[str]) -> str:
    page, documented, anchor = link.groups()
    # The page of an object is named as its anchor; a member's anchor goes on from there.
    name = documented.rpartition(".")[2]
    member = re.fullmatch(rf"(?:.*\.)?{name}(\.\w+)?", anchor)
    return f"{page}#{documented}{member[1] or ''}" if member else link[0]
