"""Look for links of a built site that lead nowhere, and for pages that a screen reader misreads."""

from collections import Counter
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """What a page offers as targets, and what it links to."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect an element's id and the address that it leads to."""
        for key, value in attrs:
            if value is None:
                continue
            if key == "id" or (key == "name" and tag == "a"):
                self.anchors.add(value)
            if key in ("href", "src"):
                self.targets.append(value)


# Elements that have no end tag, and so hold nothing.
_VOID = {
    "area",
    "base",
    "br",
    "col",
    "embed",
    "hr",
    "img",
    "input",
    "link",
    "meta",
    "source",
    "wbr",
}

# Attributes that name other elements of the page by their ids.
_REFERENCES = ("for", "aria-labelledby", "aria-describedby", "aria-controls")

# Elements that belong into others.
_PARENTS = {"li": {"ul", "ol", "menu"}, "dt": {"dl", "div"}, "dd": {"dl", "div"}}


class _Structure(HTMLParser):
    """What a page states for readers who do not see it, in all of its rows."""

    def __init__(self) -> None:
        super().__init__()
        self.language = ""
        self.counts: Counter[str] = Counter()
        self.ids: Counter[str] = Counter()
        self.faults: list[str] = []
        self._open: list[tuple[str, str, list[str]]] = []
        self._inside: list[str] = []
        # Fields without a name of their own, with their ids.
        self._fields: list[tuple[str, str]] = []
        # Ids that others name, with one who does.
        self._references: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element's id, its language, and what a picture or a link is called."""
        given = {key: value or "" for key, value in attrs}
        self.counts[tag] += 1
        if "id" in given:
            self.ids[given["id"]] += 1
        if tag == "html":
            self.language = given.get("lang", "")
        elif tag == "img":
            self._name_of_picture(given)
        elif tag in ("button", "summary") or (tag == "a" and "href" in given):
            name = given.get("aria-label", "") or given.get("title", "")
            target = f"the link to {given['href']}" if tag == "a" else f"a {tag}"
            self._open.append((tag, target, [name]))
        elif tag in ("input", "select", "textarea"):
            self._name_of_field(tag, given)
        for attribute in _REFERENCES:
            for name in given.get(attribute, "").split():
                self._references.setdefault(name, f"{attribute} of a {tag}")
        parent = self._inside[-1] if self._inside else ""
        if tag in _PARENTS and parent not in _PARENTS[tag]:
            self.faults.append(f"an item ({tag}) lies in {parent or 'nothing'}, and not in a list")
        if tag not in _VOID:
            self._inside.append(tag)

    def _name_of_field(self, tag: str, given: dict[str, str]) -> None:
        if given.get("type") == "hidden" or "label" in self._inside:
            return
        if not any(given.get(name, "").strip() for name in ("aria-label", "title")):
            # A label may stand below it: this is judged at the end.
            self._fields.append((tag, given.get("id", "")))

    def _name_of_picture(self, given: dict[str, str]) -> None:
        alternative = given.get("alt", "")
        source = given.get("src", "")
        # Beside words that name the same thing a picture is an ornament, which says nothing.
        is_ornament = alternative == "" and "alt" in given and bool(self._open)
        # Sphinx puts the name of the file there, where nobody wrote anything.
        if not is_ornament and (not alternative.strip() or alternative == source):
            self.faults.append(f"the picture {source[:60]} has no text")
        self.handle_data(alternative)  # it names the link around it

    def handle_data(self, data: str) -> None:
        """Collect the text of links and buttons."""
        for *_, texts in self._open:
            texts.append(data)

    def handle_endtag(self, tag: str) -> None:
        """See whether a link or a button that ends here has a name."""
        if tag in self._inside:
            # Ends that may be left out, such as that of a paragraph, end with what holds them.
            while self._inside.pop() != tag:
                pass
        if self._open and self._open[-1][0] == tag:
            _, target, texts = self._open.pop()
            if not "".join(texts).strip():
                self.faults.append(f"{target} has no text")

    def all_faults(self) -> Iterator[str]:
        """Yield what is wrong, when the page was read."""
        yield from self.faults
        if not self.language:
            yield "its language is not stated"
        for tag in ("title", "main", "h1"):
            # Pictures in SVG may have titles of their own.
            if not self.counts[tag] or (tag != "title" and self.counts[tag] > 1):
                yield f"it has {self.counts[tag]} elements {tag} instead of one"
        yield from (f"the id {name} is there twice" for name, n in self.ids.items() if n > 1)
        for name, user in self._references.items():
            if name not in self.ids:
                yield f"{user} names the id {name}, which is not there"
        for tag, name in self._fields:
            if not name or name not in self._references:
                yield f"the {tag} {name or 'without an id'} has no label"


def structural_faults(folder: Path, single: Sequence[Path] = ()) -> Iterator[str]:
    """Yield "page: what is wrong" for what readers who do not see a page need of every page.

    Parameters
    ----------
    folder
        Of a built site.
    single
        Pages beside it that stand alone.
    """
    pages = {str(path.relative_to(folder)): path for path in _pages(folder)}
    pages |= {path.name: path for path in single}
    for name, path in pages.items():
        page = _Structure()
        page.feed(path.read_text(encoding="utf-8"))
        yield from (f"{name}: {fault}" for fault in page.all_faults())


def _pages(folder: Path) -> list[Path]:
    # Templates of the theme lie among the scripts and pictures.
    return [path for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts]


def broken_links(folder: Path) -> Iterator[str]:
    """Yield "page: target" for every link or picture inside the site that is not there."""
    pages = {path.resolve(): _parsed(path) for path in _pages(folder)}
    for path, page in pages.items():
        for target in dict.fromkeys(page.targets):
            parts = urlsplit(target)
            # Other sites may be away for a moment: a build does not depend on them.
            if parts.scheme or parts.netloc:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            missing = not file.exists() or (
                anchor and file in pages and anchor not in pages[file].anchors
            )
            if missing:
                yield f"{path.relative_to(folder.resolve())}: {target}"


def _parsed(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page
