"""Repair what Sphinx writes wrongly on the pages of source files.

Sphinx's viewcode takes one module for all objects of a source file. An object that the package
exports under a shorter name beside others of its file then gets links to anchors that no page has.
And its list of modules puts a list into a list, and not into an item of it, which screen readers
cannot count. The theme's buttons that unfold a part of the contents have no name.
"""

import re
from pathlib import Path

_BACK_LINK = re.compile(r"(reference/generated/([\w.]+)\.html)#([\w.]+)")


_UNFOLD = '<summary><span class="toctree-toggle"'


def repair(html: Path) -> None:
    """Lead back links to their anchors, put lists of modules into items, and name buttons."""
    for page in sorted(html.rglob("*.html")):
        text = page.read_text(encoding="utf-8")
        if _UNFOLD in text:
            named = _UNFOLD.replace("<summary>", '<summary aria-label="Show the pages below">')
            page.write_text(text.replace(_UNFOLD, named), encoding="utf-8")
    for page in sorted((html / "_modules").rglob("*.html")):
        text = _BACK_LINK.sub(_repaired, page.read_text(encoding="utf-8"))
        if page.parent.name == "_modules" and page.name == "index.html":
            text = text.replace("</li>\n<ul>", "\n<ul>")
            # A list inside a list ends before the next item, or with the outer one.
            text = re.sub(r"</ul>(?=<li>|</ul>)", "</ul></li>\n", text)
        page.write_text(text, encoding="utf-8")


def _repaired(link: re.Match[str]) -> str:
    page, documented, anchor = link.groups()
    # The page of an object is named as its anchor; a member's anchor goes on from there.
    name = documented.rpartition(".")[2]
    member = re.fullmatch(rf"(?:.*\.)?{name}(\.\w+)?", anchor)
    return f"{page}#{documented}{member[1] or ''}" if member else link[0]
