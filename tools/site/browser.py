"""Look at the pages in a browser: ``python -m tools.site.browser``, behind ``make docs-check``.

The system's Chromium, headless, opens every page of the site as wide as a telephone, and the pages
that people read in the light and in the dark theme. A page fails if it overflows, lacks a picture
or a file, raises an error in its script, or breaks a rule of axe-core about contrast, landmarks,
names and the like (WCAG 2 A and AA). Where there is no browser the checks are skipped, with the
reason.
"""

import argparse
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tools.site.__main__ import BUILD
from tools.texts import ROOT

# The names of Chromium and its relatives on the systems that have them.
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGES = ("playwright", "axe_playwright_python")

TELEPHONE = {"width": 420, "height": 900}
SCREEN = {"width": 1280, "height": 900}
THEMES = ("light", "dark")

# Milliseconds for a page: some need half a minute where ten processes share a core.
_PATIENCE = 180_000

SEARCHED = "MLE-Apx"
"""What the search of the site must find: a name with a hyphen."""

# Rules of the standard, and the two about landmarks, which axe counts as good practice.
AXE = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]},
    "rules": {"landmark-one-main": {"enabled": True}, "region": {"enabled": True}},
    "resultTypes": ["violations"],
}

# Pages of single objects and of source files are made alike: axe reads a few of them.
MADE_ALIKE = ("reference/generated", "_modules")
FEW = 3

OVERFLOWING = """() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return null;
  const scrolls = (element) => {
    for (let at = element.parentElement; at && at !== document.body; at = at.parentElement)
      if (getComputedStyle(at).overflowX !== "visible") return true;
    return false;
  };
  const wide = [...document.body.querySelectorAll("*")].find(
    (element) => element.getBoundingClientRect().right > width + 1 && !scrolls(element));
  return `${document.documentElement.scrollWidth} px, by ` +
    (wide ? wide.outerHTML.slice(0, 80) : "an element that is not found");
}"""

# Pictures below the screen load when they are reached: all of them are fetched here.
MISSING = """async () => {
  const missing = [];
  for (const image of document.images) {
    image.loading = "eager";
    await image.decode().catch(() => missing.push(image.getAttribute("src").slice(0, 80)));
  }
  return missing;
}"""

# Of the page behind everything, between 0 (black) and 1.
LIGHTNESS = """() => {
  const colours = [document.body, document.documentElement]
    .map((element) => getComputedStyle(element).backgroundColor.match(/[\\d.]+/g).map(Number));
  const [red, green, blue] = colours.find((c) => c.length < 4 || c[3] > 0) || [255, 255, 255];
  return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255;
}"""

OPEN_ALL = "() => document.querySelectorAll('details').forEach((one) => { one.open = true; })"


def obstacle() -> str | None:
    """Return why nothing can be checked here, or None."""
    if not _program():
        return f"none of the browsers {', '.join(PROGRAMS)} is installed"
    lacking = [package for package in PACKAGES if find_spec(package) is None]
    if lacking:
        return f"{', '.join(lacking)} is not installed: pip install '.[browser]'"
    return None


def _program() -> str | None:
    paths = (shutil.which(name) for name in PROGRAMS)
    return next((path for path in paths if path), None)


def findings(site: Path, single: list[Path]) -> Iterator[str]:
    """Yield "page: what is wrong" for the pages of a site and for single pages.

    Parameters
    ----------
    site
        The folder of a built site.
    single
        Self-contained pages, which are opened as files.
    """
    with _served(site) as address, _browser() as browser:
        pages = {str(path.relative_to(site)): path for path in sorted(site.rglob("*.html"))}
        names = [name for name in pages if not name.startswith("_static")]
        addresses = {name: f"{address}/{name}" for name in names}
        addresses |= {path.name: path.resolve().as_uri() for path in single}
        with _tab(browser, viewport=TELEPHONE) as tab:
            for name, url in addresses.items():
                yield from (f"{name}: {finding}" for finding in _on_a_telephone(tab, url))
        for theme in THEMES:
            with _tab(browser, viewport=SCREEN, color_scheme=theme) as tab:
                for name in _read_by_people(addresses):
                    wrong = _in_theme(tab, addresses[name], theme)
                    yield from (f"{name}, {theme}: {finding}" for finding in wrong)
        with _tab(browser, viewport=SCREEN) as tab:
            if not _search_finds(tab, f"{address}/search.html?q={SEARCHED}"):
                yield f"search.html: {SEARCHED} is not found"


def _read_by_people(names: dict[str, str]) -> Iterator[str]:
    """Yield all pages but those that are made alike, and a few of these."""
    seen = dict.fromkeys(MADE_ALIKE, 0)
    for name in names:
        kind = next((folder for folder in MADE_ALIKE if name.startswith(folder)), None)
        if kind is not None:
            seen[kind] += 1
            if seen[kind] > FEW:
                continue
        yield name


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine alone: scripts of pages may not read files otherwise."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def _browser() -> Iterator[Any]:
    # By name, since neither package is needed for anything else.
    with import_module("playwright.sync_api").sync_playwright() as playwright:
        # Without the sandbox, which does not run as root, as in a container: the pages are ours.
        browser = playwright.chromium.launch(executable_path=_program(), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class _Tab:
    """A page of the browser, and what went wrong on it since someone looked."""

    page: Any
    wrong: list[str]

    def open(self, url: str) -> None:
        """Open an address, and forget what was wrong before."""
        self.wrong.clear()
        self.page.goto(url)


@contextmanager
def _tab(browser: Any, **options: Any) -> Iterator[_Tab]:
    context = browser.new_context(**options)
    context.set_default_timeout(_PATIENCE)
    tab = _Tab(context.new_page(), [])

    def answered(answer: Any) -> None:
        if answer.status >= 400:
            tab.wrong.append(f"{answer.status} for {answer.url}")

    tab.page.on("response", answered)
    tab.page.on("pageerror", lambda error: tab.wrong.append(f"its script raised {error}"))
    tab.page.on(
        "requestfailed", lambda request: tab.wrong.append(f"no answer from {request.url[:80]}")
    )
    try:
        yield tab
    finally:
        context.close()


def _on_a_telephone(tab: _Tab, url: str) -> Iterator[str]:
    tab.open(url)
    if wide := tab.page.evaluate(OVERFLOWING):
        yield f"it is wider than {TELEPHONE['width']} px: {wide}"
    tab.page.evaluate(OPEN_ALL)
    if wide := tab.page.evaluate(OVERFLOWING):
        yield f"when all is open it is wider than {TELEPHONE['width']} px: {wide}"
    for picture in tab.page.evaluate(MISSING):
        yield f"the picture {picture} is missing"
    yield from tab.wrong


def _in_theme(tab: _Tab, url: str, theme: str) -> Iterator[str]:
    tab.open(url)
    if (tab.page.evaluate(LIGHTNESS) > 0.5) != (theme == "light"):
        yield "its background does not follow the theme"
    axe = import_module("axe_playwright_python.sync_playwright").Axe()
    for violation in axe.run(tab.page, None, AXE).response["violations"]:
        node = violation["nodes"][0]
        why = node["failureSummary"].splitlines()[-1].strip()
        yield (
            f"{violation['id']} at {len(violation['nodes'])} places, the first "
            f"{' '.join(node['html'].split())[:120]}: {why}"
        )


def _search_finds(tab: _Tab, url: str) -> bool:
    tab.open(url)
    results = tab.page.locator("#search-results li")
    try:
        # The script fills the list in, line by line.
        results.filter(has_text=SEARCHED).first.wait_for(timeout=10_000)
    except import_module("playwright.sync_api").TimeoutError:
        return False
    return True


def main() -> int:
    """Check all pages and print what is wrong; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.site.browser", description=__doc__)
    parser.add_argument("--site", type=Path, default=BUILD / "html")
    parser.add_argument(
        "--page",
        type=Path,
        action="append",
        help="a self-contained page; by default the report and the comparison",
    )
    arguments = parser.parse_args()
    if reason := obstacle():
        print(f"Skipped, nothing was checked: {reason}.")
        return 0
    single = arguments.page or [
        BUILD / "verify" / "report.html",
        ROOT / "experiments" / "results" / "compare.html",
    ]
    number = 0
    for finding in findings(arguments.site, single):
        number += 1
        print(finding, flush=True)
    print("The pages look as they should." if not number else f"{number} findings.")
    return 1 if number else 0


if __name__ == "__main__":
    sys.exit(main())
