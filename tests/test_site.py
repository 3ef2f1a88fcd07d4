"""The documentation site: its pages are staged whole, and broken links are seen.

Sphinx itself runs in `make docs`, with warnings as errors.
"""

import contextlib
import inspect
import re
import threading
from pathlib import Path

import pytest

import ldpopt
from ldpopt import style
from ldpopt.claims import LEDGER
from ldpopt.claims.figures import STATEMENTS
from tools.site import browser, check, reference, repairs, stage

ROOT = Path(__file__).parent.parent


def record(claim, source):
    return {
        "id": claim,
        "source": source,
        "statement": "f < 1 | *x*",
        "verdict": "holds",
        "expected": "holds",
        "instances": 1234,
        "evidence": {"largest": 0.25, "how": "by <hand>", "correction": "f <= 1"},
    }


@pytest.fixture(scope="module")
def staged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    records = [record("cls-norm-sub", "N IV-C"), record(STATEMENTS[0].id, "K II, D 3.4")]
    stage.stage(folder, records)
    return folder


def test_every_page_that_is_listed_is_staged(staged):
    for index in staged.rglob("index.md"):
        text = index.read_text("utf-8")
        for block in re.findall(r"```\{toctree\}\n(.*?)```", text, flags=re.DOTALL):
            for name in (line for line in block.splitlines() if line and not line.startswith(":")):
                pages = [index.parent / f"{name}{ending}" for ending in (".md", ".ipynb")]
                assert any(page.is_file() for page in pages), (index, name)


@pytest.mark.parametrize("folder", ["how-to", "explanation"])
def test_a_list_of_pages_says_what_each_is(folder, staged):
    """The list of contents is hidden, for the column beside the page: another one has words."""
    text = (staged / folder / "index.md").read_text("utf-8")
    blocks = re.findall(r"```\{toctree\}\n(.*?)```", text, flags=re.DOTALL)
    names = [line for line in "\n".join(blocks).split() if not line.startswith(":")]
    pages = [name for name in names if (staged / folder / f"{name}.md").is_file()]
    assert len(pages) > 10
    for name in pages:
        assert f"({name}.md)" in text or f"(../{folder}/{name}.md)" in text, name


def test_every_file_that_is_a_page_is_staged_with_a_title(staged):
    homes = stage.homes()
    assert {Path(file) for file in stage.PAGES} < homes.keys()
    for page in (page for page in homes.values() if page.suffix == ".md"):
        assert (staged / page).read_text("utf-8").startswith("# "), page


def test_no_line_of_a_page_is_a_comment(staged):
    """MyST leaves out a line that begins with a percent sign: a sentence would lose its end."""
    for page in staged.rglob("*.md"):
        text = re.sub(r"(?ms)^(`{3,}).*?^\1", "", page.read_text("utf-8"))
        assert not re.findall(r"(?m)^\s*%.*", text), page


def test_claims_have_a_row_to_filter_and_their_code(staged):
    index = (staged / "ledger/index.md").read_text("utf-8")
    assert '<tr data-paper="N" data-verdict="holds">' in index
    assert 'href="equivalences.html#cls-norm-sub"' in index
    assert "f &lt; 1 | *x*" in index
    page = (staged / "ledger/equivalences.md").read_text("utf-8")
    assert "(cls-norm-sub)=" in page
    assert "<td>by &lt;hand&gt;</td>" in page
    assert "1,234 inputs" in page
    assert "<strong>Corrected</strong>f &lt;= 1</div>" in page
    assert f"def {LEDGER['cls-norm-sub'].check.__name__}(" in page


def test_a_claim_that_was_not_checked_rests_on_no_inputs(tmp_path):
    unchecked = record("cls-norm-sub", "N IV-C") | {"verdict": "cannot be checked here"}
    stage.stage(tmp_path, [unchecked, record(STATEMENTS[0].id, "K II")])
    page = (tmp_path / "ledger/equivalences.md").read_text("utf-8")
    assert "(the evidence shows 1,234 inputs, and decides nothing)" in page


def test_statements_about_figures_stand_below_their_picture(staged):
    first = STATEMENTS[0]
    page = (staged / "figures" / f"{first.figure.partition('-')[0]}.md").read_text("utf-8")
    assert page.index(f"{{image}} {first.figure}.svg") < page.index(f"### `{first.id}`")
    assert (staged / "figures" / f"{first.figure}.svg").is_file()
    table = (staged / "figures/index.md").read_text("utf-8")
    assert '<tr data-paper="K D" data-verdict="holds">' in table


def test_links_between_files_lead_to_pages(staged):
    losses = (staged / "explanation/losses-and-constraints.md").read_text("utf-8")
    assert "[What a certificate proves](../explanation/certificates.md)" in losses
    start = (staged / "start.md").read_text("utf-8")
    assert "[what a certificate proves](explanation/certificates.md)" in start
    assert "```{image} pictures/emoji-dark.png" in start
    assert (staged / "pictures/emoji-dark.png").is_file()
    tutorials = (staged / "tutorials/index.md").read_text("utf-8")
    assert "](../tutorials/7_poisoning.ipynb)" in tutorials


def test_a_link_to_a_file_that_is_no_page_becomes_words_and_code_keeps_its_brackets(tmp_path):
    text = "[a](../Makefile), [b](new.md#x), [c] d\n\n```python\nf[0](../Makefile)\n```\n"
    page = Path("docs/new.md")
    assert stage.linked(text, page, {page: Path("new.md")}, tmp_path) == text.replace(
        "[a](../Makefile)", "a", 1
    )


def test_a_picture_that_is_a_link_to_itself_opens_alone(tmp_path):
    page = Path("docs/explanation/new.md")
    file = "../../experiments/results/poisoning.png"
    linked = stage.linked(
        f"a\n\n[![b]({file})]({file})\n", page, {page: Path("explanation/new.md")}, tmp_path
    )
    directive = "```{image} ../pictures/poisoning.png\n:alt: b\n:target: ../_images/poisoning.png"
    assert linked == f"a\n\n{directive}\n```\n"


def test_a_link_to_a_folder_that_the_site_shows_leads_to_its_pages(tmp_path):
    page = Path("docs/how-to/new.md")
    assert all((stage.ROOT / folder).is_dir() for folder in stage.SHOWN)
    text = "[ledger](../../ldpopt/claims/statements)"
    linked = stage.linked(text, page, {page: Path("how-to/new.md")}, tmp_path)
    assert linked == "[ledger](../ledger/index.md)"


def test_the_reference_lists_each_public_object_once():
    names = [(m, n) for m in reference.MODULES for n in reference.public_names(m)]
    assert ("ldpopt", "Problem") in names
    assert ("ldpopt.oracles", "OUE") in names
    assert ("ldpopt.studies.poisoning", "ldp_recover") in names
    assert not any(name.startswith("_") for _, name in names)


def test_the_reference_has_a_page_of_every_public_module():
    modules = {name for name in ldpopt.__all__ if inspect.ismodule(getattr(ldpopt, name))}
    shown = {module.split(".")[1] for module in reference.MODULES if "." in module}
    assert shown == modules


def test_back_links_lead_to_the_page_of_their_object(tmp_path):
    (tmp_path / "_modules").mkdir()
    page = tmp_path / "_modules" / "comparison.html"
    before = "reference/generated/ldpopt.studies.comparison.Case.html#ldpopt.Case.solve"
    right = "reference/generated/ldpopt.studies.audit.audit.html#ldpopt.studies.audit.audit"
    page.write_text(f'<a href="../{before}"></a><a href="../{right}"></a>')
    repairs.repair(tmp_path)
    after = "ldpopt.studies.comparison.Case.html#ldpopt.studies.comparison.Case.solve"
    assert page.read_text() == (
        f'<a href="../reference/generated/{after}"></a><a href="../{right}"></a>'
    )


def test_buttons_that_unfold_contents_have_a_name(tmp_path):
    page = tmp_path / "index.html"
    page.write_text('<summary><span class="toctree-toggle"></span></summary><summary>x</summary>')
    repairs.repair(tmp_path)
    assert page.read_text() == (
        '<summary aria-label="Show the pages below"><span class="toctree-toggle"></span></summary>'
        "<summary>x</summary>"
    )


def test_long_names_break_after_their_words(tmp_path):
    page = tmp_path / "index.html"
    link = '<a class="reference internal" href="ldpopt.studies.html">'
    code = '<code><span class="pre">'
    title = "<h1>Source code for "
    page.write_text(
        f"{link}{code}ldpopt.studies.NewMLE</span></code></a>{link}short.Name</a>"
        f"{title}ldpopt.collection.files</h1>"
    )
    repairs.repair(tmp_path)
    assert page.read_text() == (
        f"{link}{code}ldpopt.<wbr>studies.<wbr>New<wbr>MLE</span></code></a>{link}short.Name</a>"
        f"{title}ldpopt.<wbr>collection.<wbr>files</h1>"
    )


def test_no_line_ends_inside_a_number_or_the_name_of_a_section(tmp_path):
    page = tmp_path / "index.html"
    page.write_text('<p title="1e-9">N IV-B, d &gt; 2, below 1e-10</p><code>1e-7</code>')
    repairs.repair(tmp_path)
    whole = [f'<span class="unbroken">{text}</span>' for text in ("IV-B", "d &gt; 2", "1e-10")]
    assert page.read_text() == (
        f'<p title="1e-9">N {whole[0]}, {whole[1]}, below {whole[2]}</p><code>1e-7</code>'
    )


def test_on_a_dark_page_pictures_have_its_background():
    """What is lightened shows the page wherever the picture is darker."""
    page = 0x14  # the darkest of the channels of #14181e, here and in pages that stand alone
    for folder in ("docs/_static/site.css", "ldpopt/rendering/templates/page.css"):
        sheet = (ROOT / folder).read_text(encoding="utf-8")
        assert "mix-blend-mode: lighten; }" in " ".join(sheet.split())
        turned = 1 - float(re.search(r"invert\(([.\d]+)\)", sheet)[1])
        assert turned * 255 <= page
    assert int(style._DARK["axes.facecolor"][1:3], 16) <= page


def test_a_picture_of_a_notebook_opens_alone(tmp_path):
    (tmp_path / "tutorials").mkdir()
    page = tmp_path / "tutorials" / "1_new.html"
    picture = '<img alt="error" src="../_images/a.png" />'
    page.write_text(picture)
    repairs.repair(tmp_path)
    opening = '<a class="image-reference" href="../_images/a.png">'
    assert page.read_text() == f"{opening}{picture}</a>"


def test_a_list_inside_the_list_of_modules_is_in_an_item(tmp_path):
    (tmp_path / "_modules").mkdir()
    page = tmp_path / "_modules" / "index.html"
    page.write_text("<ul><li>a</li>\n<ul><li>a.b</li>\n</ul><li>c</li>\n</ul>")
    repairs.repair(tmp_path)
    assert page.read_text().split() == (
        ["<ul><li>a", "<ul><li>a.b</li>", "</ul></li>", "<li>c</li>", "</ul>"]
    )


def test_the_browser_checks_say_why_they_are_skipped(monkeypatch, capsys):
    monkeypatch.setattr(browser, "PROGRAMS", ("no-such-browser",))
    monkeypatch.setattr("sys.argv", ["browser"])
    assert browser.main() == 0
    printed = capsys.readouterr().out
    assert printed == (
        "Skipped, nothing was checked: none of the browsers no-such-browser is installed.\n"
    )


def test_axe_reads_a_few_of_the_pages_that_are_made_alike():
    alike = [f"reference/generated/{i}.html" for i in range(9)]
    names = dict.fromkeys(["index.html", *alike, "start.html"], "")
    assert list(browser._read_by_people(names)) == ["index.html", *alike[:3], "start.html"]


def test_a_page_that_stands_still_ends_the_run_and_is_named(monkeypatch):
    ever = threading.Event()

    def on_page(tab, url, *, is_read):
        if url == "stuck":
            ever.wait()
        yield "seen"

    monkeypatch.setattr(browser, "_browser", contextlib.nullcontext)
    monkeypatch.setattr(browser, "_tab", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(browser, "_on_page", on_page)
    monkeypatch.setattr(browser, "_GLANCE", 0.02)
    monkeypatch.setattr(browser, "LIMIT", 0.2)
    pages = {"a.html": "fine", "b.html": "stuck", "c.html": "fine"}
    printed = []
    with pytest.raises(browser.StandstillError, match=r"^b\.html: nothing was heard of it"):
        printed.extend(browser._in_tabs(pages, tabs=2))
    ever.set()
    assert printed == ["a.html: seen", "c.html: seen"]
    # All pages are looked at where none stands still.
    assert sorted(browser._in_tabs({"a.html": "fine", "c.html": "fine"}, tabs=2)) == printed


def test_an_error_in_a_tab_ends_the_run(monkeypatch):
    def on_page(tab, url, *, is_read):
        raise OSError("the browser is gone")
        yield

    monkeypatch.setattr(browser, "_browser", contextlib.nullcontext)
    monkeypatch.setattr(browser, "_tab", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(browser, "_on_page", on_page)
    with pytest.raises(OSError, match="the browser is gone"):
        list(browser._in_tabs({"a.html": "", "b.html": ""}, tabs=2))


@pytest.mark.skipif(browser.obstacle() is not None, reason=str(browser.obstacle()))
def test_the_browser_finds_what_is_wrong_with_a_page(tmp_path):
    """One page has every fault; the search of this site finds nothing."""
    (tmp_path / "index.html").write_text(
        "<!doctype html><html lang='en'><title>t</title><body style='background: #fff'>"
        "<img src='gone.png' alt=''><p style='width: 900px'>wide</p><a href='x'></a>"
        "<script>throw Error('no')</script>"
    )
    printed = "\n".join(browser.findings(tmp_path, []))
    for part in (
        "index.html: it is wider than 420 px: 9",
        "the picture gone.png is missing",
        "404 for http://127.0.0.1",
        "its script raised no",
        "index.html: light: link-name at 1 places",
        "index.html: dark: its background does not follow the theme",
        "landmark-one-main",
        "search.html: MLE-Apx is not found",
    ):
        assert part in printed


def test_broken_links_are_named(tmp_path):
    (tmp_path / "a.html").write_text('<p id="x"></p><img src="gone.png"><a href="b.html#y"></a>')
    (tmp_path / "b.html").write_text(
        '<a href="a.html#x"></a><a href="a.html#z"></a><a href="https://e.org/q"></a><a href="#">'
    )
    assert list(check.broken_links(tmp_path)) == [
        "a.html: gone.png",
        "a.html: b.html#y",
        "b.html: a.html#z",
    ]


def test_pages_that_a_screen_reader_misreads_are_named(tmp_path):
    (tmp_path / "good.html").write_text(
        '<html lang="en"><title>t</title><main><h1 id="a">h</h1>'
        '<a href="x"><img alt="y"></a><details><summary>z<img alt="" src="o.png"></summary>'
        "<p>not closed</details><ul><li><p>i</ul><label>f<input></label>"
        '<label for="s">g</label><select id="s"></select><input type="hidden"></main>'
    )
    (tmp_path / "bad.html").write_text(
        '<html><main></main><main></main><h1 id="a"></h1><p id="a"><img src="p.png" alt=" ">'
        '<img src="q.png" alt="q.png">'
        '<a href="#q"><i></i></a><button></button><summary><img alt=""></summary><div><li></div>'
        '<input id="f"><b aria-labelledby="gone">'
    )
    assert list(check.structural_faults(tmp_path)) == [
        "bad.html: the picture p.png has no text",
        "bad.html: the picture q.png has no text",
        "bad.html: the link to #q has no text",
        "bad.html: a button has no text",
        "bad.html: a summary has no text",
        "bad.html: an item (li) lies in div, and not in a list",
        "bad.html: its language is not stated",
        "bad.html: it has 0 elements title instead of one",
        "bad.html: it has 2 elements main instead of one",
        "bad.html: the id a is there twice",
        "bad.html: aria-labelledby of a b names the id gone, which is not there",
        "bad.html: the input f has no label",
    ]
