"""Look for links and pictures of a built site that lead nowhere."""

from collections.abc import Iterator
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


def broken_links(folder: Path) -> Iterator[str]:
    """Yield "page: target" for every link or picture inside the site that is not there."""
    # Templates of the theme lie among the scripts and pictures.
    paths = [path for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts]
    pages = {path.resolve(): _parsed(path) for path in paths}
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
