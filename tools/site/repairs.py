"""Repair what Sphinx writes wrongly on the pages of source files.

Sphinx's viewcode takes one module for all objects of a source file. An object that the package
exports under a shorter name beside others of its file then gets links to anchors that no page has.
And its list of modules puts a list into a list, and not into an item of it, which screen readers
cannot count. The theme's buttons that unfold a part of the contents have no name. Long names of
objects may break anywhere in a narrow column, and pictures of notebooks cannot be enlarged. Lines
end inside numbers such as 1e-10, between "ε =" and its number, and in a paper's section IV-B.
"""

import re
from pathlib import Path

_BACK_LINK = re.compile(r"(reference/generated/([\w.]+)\.html)#([\w.]+)")

_UNFOLD = '<summary><span class="toctree-toggle"'

# One long name of an object, in a link, in code or in the title of its source.
_NAME = re.compile(
    r'(<a [^>]*reference internal[^>]*>|<span class="pre">|<h1>Source code for )'
    r"([\w.]{16,}(?:\(\))?)(?=</)"
)
# The ends of its words: behind a dot or an underscore, before a capital or a bracket.
_WORD_END = re.compile(r"(?<=[._])(?=\w)|(?<=[a-z])(?=[A-Z(])")

_PICTURE = re.compile(r'<img alt="[^"]*" src="([^"]*)" />')

# What is shown as it is: tags, code, which readers copy, and what no reader sees.
_AS_IT_IS = re.compile(
    r"(?s)(<(?:pre|code|script|style|title|option|math)\b.*?"
    r"</(?:pre|code|script|style|title|option|math)>|<[^>]*>)"
)
# 1e-10, IV-B and "ε = 1" each belong into one line.
_UNBROKEN = re.compile(
    r"\b\d[\d.]*e-\d+\b|\b[IVX]+-[A-F]\b|(?:\b[a-zαβγδεκρΣ] )?(?:=|≤|≥|&lt;|&gt;) [\d.,]*\d"
)


def repair(html: Path) -> None:
    """Repair all pages of a site, each of the defects above."""
    for page in sorted(html.rglob("*.html")):
        text = page.read_text(encoding="utf-8")
        named = _UNFOLD.replace("<summary>", '<summary aria-label="Show the pages below">')
        repaired = _NAME.sub(_breakable, text.replace(_UNFOLD, named))
        if page.parent.name == "tutorials":
            repaired = _PICTURE.sub(_opening, repaired)
        repaired = _unbroken(repaired)
        if repaired != text:
            page.write_text(repaired, encoding="utf-8")
    for page in sorted((html / "_modules").rglob("*.html")):
        text = _BACK_LINK.sub(_repaired, page.read_text(encoding="utf-8"))
        if page.parent.name == "_modules" and page.name == "index.html":
            text = text.replace("</li>\n<ul>", "\n<ul>")
            # A list inside a list ends before the next item, or with the outer one.
            text = re.sub(r"</ul>(?=<li>|</ul>)", "</ul></li>\n", text)
        page.write_text(text, encoding="utf-8")


def _breakable(name: re.Match[str]) -> str:
    """Return a name that may go on in the next line after each of its words."""
    return name[1] + _WORD_END.sub("<wbr>", name[2])


def _unbroken(page: str) -> str:
    """Return a page whose lines do not end inside a number or the name of a section."""
    # Every second part is a match of the pattern, and the text of the page lies between them.
    parts = _AS_IT_IS.split(page)
    parts[::2] = [
        _UNBROKEN.sub(r'<span class="unbroken">\g<0></span>', text) for text in parts[::2]
    ]
    return "".join(parts)


def _opening(picture: re.Match[str]) -> str:
    """Return a picture that opens alone: beside two columns its words are small."""
    return f'<a class="image-reference" href="{picture[1]}">{picture[0]}</a>'


def _repaired(link: re.Match[str]) -> str:
    page, documented, anchor = link.groups()
    # The page of an object is named as its anchor; a member's anchor goes on from there.
    name = documented.rpartition(".")[2]
    member = re.fullmatch(rf"(?:.*\.)?{name}(\.\w+)?", anchor)
    return f"{page}#{documented}{member[1] or ''}" if member else link[0]
