"""Look at the pages in a browser: ``python -m tools.site.browser``, behind ``make docs-check``.

The system's Chromium, headless, opens every page of the site as wide as a telephone, and looks at
those that people read on a screen too, in the light and in the dark theme. A page fails if it
overflows, lacks a picture or a file, raises an error in its script, or breaks a rule of axe-core
about contrast, landmarks, names and the like (WCAG 2 A and AA). Where there is no browser the
checks are skipped, with the reason.

Of long lists and tables axe reads the first three rows of each kind: rows at the same place, made
of the same elements with the same classes, styles, roles and states, look alike. A fault that only
one of their texts has is not seen here. What the text of a page states of its structure, such as
names of links, pictures and fields, is therefore checked without a browser too, on every row of
every page of every build: ``tools.site.check``.

A page at which a tab stays longer than ``LIMIT`` seconds ends the run with an error that names it.
"""

import argparse
import os
import queue
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tools.site.__main__ import BUILD, COMPARISON

# The names of Chromium and its relatives on the systems that have them.
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGES = ("playwright", "axe_playwright_python")

TELEPHONE = {"width": 420, "height": 900}
SCREEN = {"width": 1280, "height": 900}
THEMES = ("light", "dark")

# Milliseconds for opening a page: some need half a minute where ten processes share a core.
_PATIENCE = 180_000

LIMIT = 300.0
"""Seconds for all that is looked at on one page. The longest page takes 10, and 110 where ten
processes share a core. Scripts that run in a page have no limit in playwright."""

# Seconds between two looks at how long the tabs have been at their pages.
_GLANCE = 5.0

SEARCHED = "MLE-Apx"
"""What the search of the site must find: a name with a hyphen."""

# Rules of the standard, and the two about landmarks, which axe counts as good practice.
AXE: dict[str, Any] = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]},
    "rules": {"landmark-one-main": {"enabled": True}, "region": {"enabled": True}},
    "resultTypes": ["violations"],
}

# A theme changes colours alone.
AXE_COLOURS: dict[str, Any] = {
    "runOnly": {"type": "rule", "values": ["color-contrast"]},
    "resultTypes": ["violations"],
}

# Pages of single objects and of source files are made alike: axe reads a few of them.
MADE_ALIKE = ("reference/generated", "_modules")
FEW = 3

# What a telephone shows of a page, as it opens and when all is unfolded, in one visit.
ON_A_TELEPHONE = """async () => {
  const scrolls = (element) => {
    for (let at = element.parentElement; at && at !== document.body; at = at.parentElement)
      if (getComputedStyle(at).overflowX !== "visible") return true;
    return false;
  };
  const overflowing = () => {
    const width = document.documentElement.clientWidth;
    const needed = document.documentElement.scrollWidth;
    if (needed <= width) return null;
    const wide = [...document.body.querySelectorAll("*")].find(
      (element) => element.getBoundingClientRect().right > width + 1 && !scrolls(element));
    return `${needed} px, by ` + (wide ? wide.outerHTML.slice(0, 80) : "an element not found");
  };
  const closed = overflowing();
  document.querySelectorAll("details").forEach((one) => { one.open = true; });
  const open = overflowing();
  // What keeps its overflow to itself: code, tables and formulas are moved sideways by the reader.
  const moved =
    "pre, .highlight, .pst-scrollable-table-container, .formula, .cell_output, .output, .scroll";
  const cut = [];
  for (const box of document.body.querySelectorAll("*")) {
    if (box.clientWidth < 2 || box.clientHeight < 2 || box.scrollWidth <= box.clientWidth + 1)
      continue;
    const { overflowX, textOverflow } = getComputedStyle(box);
    // A text that ends in three dots says so, and a field shows the end of its text on demand.
    if (overflowX === "visible" || textOverflow === "ellipsis" || box.matches("input, select"))
      continue;
    if (!box.closest(moved))
      cut.push(`${box.tagName.toLowerCase()}.${box.className.toString().slice(0, 60)} needs ` +
        `${box.scrollWidth} of ${box.clientWidth} px`);
  }
  // Pictures below the screen load when they are reached: all of them are fetched here. They are
  // not decoded: that waits for the next frame, and a browser without a screen may draw none.
  const fetched = [...document.images].map((image) => new Promise((resolve) => {
    image.onload = image.onerror = resolve;
    image.loading = "eager";
    if (image.complete) resolve();
  }));
  const late = new Promise((resolve) => setTimeout(resolve, 60000));
  await Promise.race([Promise.all(fetched), late]);
  const missing = [...document.images].filter((image) => !image.complete || !image.naturalWidth)
    .map((image) => image.getAttribute("src").slice(0, 80));
  return { closed, open, cut, missing };
}"""

# Whether the page behind everything is light or dark, as it should be: the page's script, which
# sets it, hears of another theme a moment later.
FOLLOWS = """async (theme) => {
  const lightness = () => {
    const colours = [document.body, document.documentElement]
      .map((element) => getComputedStyle(element).backgroundColor.match(/[\\d.]+/g).map(Number));
    const [red, green, blue] = colours.find((c) => c.length < 4 || c[3] > 0) || [255, 255, 255];
    return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255;
  };
  for (let i = 0; i < 100; i++) {
    if ((lightness() > 0.5) === (theme === "light")) return true;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return false;
}"""

# A colour between two themes, half a second long, is no colour of either.
WITHOUT_MOTION = "*, *::before, *::after { transition: none !important }"

# Axe measures the contrast of each piece of text, and a page of code has ten thousand pieces. Those
# at equal places look alike, and so do rows and items with elements of the same kinds: a few of
# each stay. Of these what has a name, a label or a text of its own to check is never taken away.
THIN_OUT = """(few) => {
  const kept = "img, input, select, iframe, h1, h2, h3, [id], [role], [aria-label]";
  const whole = "svg, button, select, summary, label, a *";
  const seen = new Map();
  const place = (element) => {
    let path = "";
    for (let at = element; at && at !== document.body; at = at.parentElement)
      path += `>${at.tagName}.${at.className}.${at.getAttribute("style") || ""}`;
    return path;
  };
  // What decides how an element looks and is read, but for its text and its addresses.
  const states = ["style", "role", "hidden", "disabled", "scope", "colspan"];
  const kind = (at) => `${at.tagName}.${at.className}.` +
    states.map((name) => at.getAttribute(name)).join();
  const inside = (element) =>
    [...new Set([...element.querySelectorAll("*")].map(kind))].sort().join();
  const surplus = (key) => {
    seen.set(key, (seen.get(key) || 0) + 1);
    return seen.get(key) > few;
  };
  for (const item of document.body.querySelectorAll("details, tr, li"))
    if (item.isConnected && surplus(`${place(item)} with ${inside(item)}`)) item.remove();
  const leaves = [...document.body.querySelectorAll("*")].filter(
    (element) => !element.firstElementChild && !element.matches(kept) && !element.closest(whole));
  for (const leaf of leaves.filter((leaf) => surplus(place(leaf)))) {
    let at = leaf;
    // A row or an item without content would be left, by the thousand.
    while (at.parentElement !== document.body && at.parentElement.childNodes.length === 1 &&
           !at.parentElement.matches(`${kept}, ${whole}`)) at = at.parentElement;
    at.remove();
  }
}"""

# Pieces of text at equal places that axe measures.
FEW_PIECES = 3


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


def findings(site: Path, single: list[Path], *, tabs: int = 1) -> Iterator[str]:
    """Yield "page: what is wrong" for the pages of a site and for single pages.

    Parameters
    ----------
    site
        The folder of a built site.
    single
        Self-contained pages, which are opened as files.
    tabs
        How many pages are looked at side by side, each in a browser of its own.
    """
    with _served(site) as address:
        pages = {str(path.relative_to(site)): path for path in sorted(site.rglob("*.html"))}
        names = [name for name in pages if not name.startswith("_static")]
        # The single pages are long: at the end one tab would be at work while the others wait.
        addresses = {path.name: path.resolve().as_uri() for path in single}
        addresses |= {name: f"{address}/{name}" for name in names}
        yield from _in_tabs(addresses, tabs)
        with _browser() as browser, _tab(browser, viewport=SCREEN) as tab:
            if not _search_finds(tab, f"{address}/search.html?q={SEARCHED}"):
                yield f"search.html: {SEARCHED} is not found"


class StandstillError(Exception):
    """A page at which a tab stayed too long."""


@dataclass
class _AtWork:
    """At which page each tab is, and since when."""

    pages: dict[int, tuple[str, float]] = field(default_factory=dict)

    def begins(self, name: str) -> None:
        """Note that the tab of this thread opens a page."""
        self.pages[threading.get_ident()] = name, time.monotonic()

    def ends(self) -> None:
        """Note that the tab of this thread is at no page any more."""
        self.pages.pop(threading.get_ident(), None)

    def require_progress(self) -> None:
        """Raise StandstillError if a tab has been at its page for too long."""
        now = time.monotonic()
        # A copy: other threads go on meanwhile.
        for name, since in list(self.pages.values()):
            if now - since > LIMIT:
                raise StandstillError(
                    f"{name}: nothing was heard of it for {LIMIT:.0f} s. Look at it alone with "
                    "`python -m tools.site.browser --page FILE`: a script that never ends, a "
                    "picture that never comes, or a machine without a free processor"
                )


def _in_tabs(addresses: Mapping[str, str], tabs: int) -> Iterator[str]:
    """Yield what is wrong with pages as soon as it is seen, in any order.

    Raises StandstillError if a tab does not get on.
    """
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in addresses:
        waiting.put(name)
    seen: queue.SimpleQueue[str | Exception | None] = queue.SimpleQueue()
    read = set(_read_by_people(addresses))
    at_work = _AtWork()

    def look() -> None:
        try:
            at_work.begins("the start of a browser")
            # A thread needs a playwright of its own.
            with _browser() as browser, _tab(browser, viewport=TELEPHONE) as tab:
                for name in _taken(waiting):
                    at_work.begins(name)
                    for finding in _on_page(tab, addresses[name], is_read=name in read):
                        seen.put(f"{name}: {finding}")
                at_work.begins("the end of a browser")
        except Exception as error:  # whatever it is, it ends the run below
            seen.put(error)
        at_work.ends()
        seen.put(None)

    # Daemons: a tab that stands still cannot be stopped, and the run ends without it.
    for _ in range(tabs):
        threading.Thread(target=look, daemon=True).start()
    open_tabs = tabs
    while open_tabs:
        at_work.require_progress()
        try:
            finding = seen.get(timeout=_GLANCE)
        except queue.Empty:
            continue
        if finding is None:
            open_tabs -= 1
        elif isinstance(finding, Exception):
            raise finding
        else:
            yield finding


def _taken(waiting: queue.SimpleQueue[str]) -> Iterator[str]:
    """Take names from a queue, which other threads take from too, until it is empty."""
    while True:
        try:
            yield waiting.get_nowait()
        except queue.Empty:
            return


def _read_by_people(names: Mapping[str, str]) -> Iterator[str]:
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

        def end_headers(self) -> None:
            # Scripts and styles are those of all pages: the browser asks for each once.
            self.send_header("Cache-Control", "max-age=3600")
            super().end_headers()

    class Server(ThreadingHTTPServer):
        # Two browsers open a dozen connections at once, of which five would wait in line and the
        # others be refused.
        request_queue_size = 128

    server = Server(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
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


def _on_page(tab: _Tab, url: str, *, is_read: bool) -> Iterator[str]:
    """Open a page once, and yield what is wrong with it at all widths and in all themes."""
    tab.page.set_viewport_size(TELEPHONE)
    tab.page.emulate_media(color_scheme=THEMES[0])
    yield from _on_a_telephone(tab, url)
    if is_read:
        tab.page.set_viewport_size(SCREEN)
        tab.page.add_style_tag(content=WITHOUT_MOTION)
        tab.page.evaluate(THIN_OUT, FEW_PIECES)
        for theme, rules in zip(THEMES, (AXE, AXE_COLOURS), strict=True):
            yield from (f"{theme}: {finding}" for finding in _in_theme(tab, theme, rules))


def _on_a_telephone(tab: _Tab, url: str) -> Iterator[str]:
    tab.open(url)
    seen = tab.page.evaluate(ON_A_TELEPHONE)
    width = TELEPHONE["width"]
    if seen["closed"]:
        yield f"it is wider than {width} px: {seen['closed']}"
    if seen["open"]:
        yield f"when all is open it is wider than {width} px: {seen['open']}"
    for box in seen["cut"]:
        yield f"at {width} px a part of it is cut: {box}"
    for picture in seen["missing"]:
        yield f"the picture {picture} is missing"
    yield from tab.wrong


def _in_theme(tab: _Tab, theme: str, rules: Mapping[str, Any]) -> Iterator[str]:
    """Yield which rules the open page breaks in a theme."""
    tab.page.emulate_media(color_scheme=theme)
    if not tab.page.evaluate(FOLLOWS, theme):
        yield "its background does not follow the theme"
    axe = import_module("axe_playwright_python.sync_playwright").Axe()
    for violation in axe.run(tab.page, None, rules).response["violations"]:
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
    parser.add_argument(
        "--tabs",
        type=int,
        default=min(4, os.cpu_count() or 1),
        help="pages looked at side by side (default: one per processor, up to 4)",
    )
    arguments = parser.parse_args()
    if reason := obstacle():
        print(f"Skipped, nothing was checked: {reason}.")
        return 0
    single = arguments.page or [
        BUILD / "verify" / "report.html",
        COMPARISON,
    ]
    number = 0
    start = time.monotonic()
    try:
        for finding in findings(arguments.site, single, tabs=arguments.tabs):
            number += 1
            print(finding, flush=True)
    except StandstillError as error:
        print(f"Stopped: {error}.", flush=True)
        # At once: the usual end would wait for the browser that stands still. Browsers end with
        # their programs, which end with this one.
        os._exit(1)
    seconds = time.monotonic() - start
    result = f"{number} findings" if number else "The pages look as they should"
    print(f"{result}; looked at in {seconds:.0f} s.")
    return 1 if number else 0


if __name__ == "__main__":
    sys.exit(main())
