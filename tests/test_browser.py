"""The pages that stand alone, in the system's Chromium, which needs no package beside it.

`make docs-check` looks at all pages of the site, with playwright and axe-core.
"""

import json
import re
import shutil
import subprocess
from html import unescape

import pytest

from ldpopt.claims import LEDGER, Finding, Result
from ldpopt.rendering.claims_page import claims_page
from tests.test_site import ROOT
from tools.site.browser import ON_A_TELEPHONE, PROGRAMS

CHROMIUM = next(filter(None, map(shutil.which, PROGRAMS)), None)

# Opens pages as wide as a telephone, unfolds all, and notes what a reader would see. A page of its
# own is needed for it: no window is narrower than 500 px.
LOOK = """<!doctype html>
{frames}
<pre id="seen"></pre>
<script>
const seen = {{}};
for (const frame of document.querySelectorAll("iframe")) {{
  frame.onload = () => {{
    const page = frame.contentDocument;
    page.querySelectorAll("details").forEach((one) => {{ one.open = true; }});
    const form = page.querySelector("form.filter");
    const before = form.querySelector("output").textContent;
    form.words.value = "no page has such words";
    form.dispatchEvent(new Event("input"));
    seen[frame.id] = {{
      width: page.documentElement.scrollWidth,
      missing: [...page.images].filter((i) => i.complete && !i.naturalWidth).length,
      before, after: form.querySelector("output").textContent,
    }};
    document.getElementById("seen").textContent = JSON.stringify(seen);
  }};
}}
</script>
"""


def looked_at(folder, pages):
    """Return what Chromium sees of pages, by name: width in pixels, pictures, the filter."""
    frames = "".join(
        f'<iframe id="{name}" width="420" height="900" src="{path.resolve().as_uri()}"></iframe>'
        for name, path in pages.items()
    )
    wrapper = folder / "look.html"
    wrapper.write_text(LOOK.format(frames=frames), encoding="utf-8")
    return what_is_seen(wrapper)


def what_is_seen(wrapper):
    """Return what the script of a page leaves in its element `seen`."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
    # A clock of its own: it ends when the pages are loaded, however busy the machine is.
    options += [
        "--virtual-time-budget=5000",
        "--dump-dom",
        f"--user-data-dir={wrapper.parent / 'user'}",
    ]
    done = subprocess.run(
        [CHROMIUM, *options, wrapper.as_uri()], capture_output=True, text=True, timeout=300
    )
    return json.loads(unescape(re.search(r'<pre id="seen">(.*?)</pre>', done.stdout)[1]))


@pytest.mark.skipif(CHROMIUM is None, reason=f"none of {', '.join(PROGRAMS)} is installed")
def test_pages_that_stand_alone_fit_a_telephone_and_filter(tmp_path):
    evidence = {"a word without a blank": "x" * 200, "vectors": 12_345}
    results = [Result(LEDGER[name], Finding(True, 2, evidence), 0.1) for name in list(LEDGER)[:3]]
    report = tmp_path / "report.html"
    report.write_text(claims_page(results), encoding="utf-8")
    wide = tmp_path / "wide.html"
    wide.write_text(
        '<form class="filter"><input name="words"><output></output></form>'
        '<p style="width: 900px">wide</p><img src="gone.png">'
    )
    table = tmp_path / "table.html"
    table.write_text(
        f'<script src="{(ROOT / "docs" / "_static" / "filter.js").as_uri()}"></script>'
        '<form class="filter"><input name="words"><output></output></form>'
        "<table><tbody><tr><td>Monotone</td></tr><tr><td>SumsTo</td></tr></tbody></table>"
    )
    comparison = ROOT / "experiments" / "results" / "compare.html"
    pages = {"report": report, "comparison": comparison, "wide": wide, "table": table}
    seen = looked_at(tmp_path, pages)
    assert seen["report"]["width"] <= 420
    assert (seen["report"]["before"], seen["report"]["after"]) == ("3 of 3", "0 of 3")
    assert seen["comparison"]["width"] <= 420
    assert seen["comparison"]["missing"] == 0
    assert seen["comparison"]["after"].startswith("0 of ")
    # Of the pages of the site: a table without papers and verdicts.
    assert (seen["table"]["before"], seen["table"]["after"]) == ("2 of 2", "0 of 2")
    # A page with faults shows that they would be seen.
    assert seen["wide"]["width"] > 900
    assert seen["wide"]["missing"] == 1


@pytest.mark.skipif(CHROMIUM is None, reason=f"none of {', '.join(PROGRAMS)} is installed")
def test_the_check_sees_what_a_box_cuts_and_lets_tables_and_dots_pass(tmp_path):
    wide = "a_name_that_is_never_broken_" * 10
    page = tmp_path / "cut.html"
    page.write_text(
        f"""<!doctype html>
        <div id="cut" class="card" style="overflow: hidden">{wide}</div>
        <details><summary>more</summary><section style="overflow-x: auto">{wide}</section></details>
        <div class="pst-scrollable-table-container" style="overflow: auto">{wide}</div>
        <p style="overflow: hidden; text-overflow: ellipsis">{wide}</p>
        <pre id="seen"></pre>
        <script>({ON_A_TELEPHONE})().then((seen) => {{
          document.getElementById("seen").textContent = JSON.stringify(seen);
        }});</script>""",
        encoding="utf-8",
    )
    cut = what_is_seen(page)["cut"]
    assert [box.split(" needs ")[0] for box in cut] == ["div.card", "section."]
