"""What users get from a package index: extras, the package page, the citation."""

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import ldpopt
from ldpopt import errors, style
from ldpopt.errors import LdpoptError, MissingPackageError
from ldpopt.oracles import GRR
from tests.commands import run

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
PAGE = (ROOT / PROJECT["readme"]).read_text("utf-8")


def names(requirements):
    return {re.match(r"[\w.-]+", requirement)[0] for requirement in requirements}


# --- extras ---------------------------------------------------------------------------------------


def test_each_package_of_an_extra_is_missed_with_its_name():
    for package, (extra, _) in errors._EXTRAS.items():
        assert package in names(EXTRAS[extra])
        assert package not in names(PROJECT["dependencies"])
    with_sentences = ("cli", "dask", "files", "plot", "formulas", "mbi")
    brought = set().union(*(names(EXTRAS[extra]) for extra in with_sentences))
    assert brought == errors._EXTRAS.keys()
    assert EXTRAS["all"] == ["ldpopt[cli,files,plot]"]


@pytest.mark.parametrize(
    ("package", "use", "extra"),
    [
        ("matplotlib.figure", lambda: GRR(1.0, 3).estimate([1, 2, 3], 6).plot(), "plot"),
        ("matplotlib.style", style.use, "plot"),
        ("pyarrow", lambda: importlib.reload(ldpopt.collection).aggregate, "files"),
    ],
)
def test_without_an_extra_there_is_a_sentence(package, use, extra, monkeypatch):
    for name in [name for name in sys.modules if name.startswith(f"ldpopt.{extra}")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("ldpopt.estimate.figure", "ldpopt.collection.aggregation"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in [name for name in sys.modules if name.startswith("ldpopt.collection.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    for name in ("aggregate", "Aggregate"):
        monkeypatch.delitem(vars(ldpopt.collection), name, raising=False)
    with pytest.raises(MissingPackageError, match=rf"pip install 'ldpopt\[{extra}\]'") as error:
        use()
    assert isinstance(error.value, LdpoptError)
    assert isinstance(error.value, ImportError)


def test_commands_without_an_extra_end_with_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.table", None)
    monkeypatch.delitem(sys.modules, "ldpopt.rendering.methods_table", raising=False)
    result = run("methods")
    assert (result.status, result.err) == (
        2,
        "Error: tables in a terminal need the package rich: pip install 'ldpopt[cli]'\n",
    )


def test_the_command_without_its_extra_ends_with_a_sentence():
    script = "import sys; sys.modules['typer'] = None; from ldpopt.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (
        2,
        "Error: the command ldpopt needs the package typer: pip install 'ldpopt[cli]'\n",
    )


def test_other_packages_that_are_missing_are_no_extras():
    with pytest.raises(ModuleNotFoundError, match="no_such_package"), errors.extra_needed():
        importlib.import_module("no_such_package")


# --- the package page and the citation ------------------------------------------------------------


def test_the_package_page_has_no_relative_link():
    targets = re.findall(r"\]\(([^)]+)\)|(?:src|href|srcset)=\"([^\"]+)\"", PAGE)
    links = [link or tag for link, tag in targets]
    assert links
    assert all(link.startswith("https://") for link in links)
    assert all(link.startswith("https://") for link in PROJECT["urls"].values())


def test_the_package_page_names_every_extra():
    rows = set(re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\|.*$", PAGE, re.MULTILINE))))
    assert rows >= EXTRAS.keys()


def bibtex(citation):
    """Return the BibTeX entry of a CITATION.cff, by the rules for software of its own fields."""
    authors = " and ".join(
        f"{{{author['name']}}}" if "name" in author else f"{author['family-names']}"
        for author in citation["authors"]
    )
    fields = {
        "author": authors,
        "title": citation["title"],
        "year": str(citation["date-released"].year),
        "version": citation["version"],
        "license": citation["license"],
    }
    lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
    return f"@software{{ldpopt,\n{lines}\n}}"


def test_the_citation_has_year_and_version_and_is_the_entry_that_the_page_shows():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == PROJECT["version"] == ldpopt.__version__
    assert citation["license"] == PROJECT["license"]
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    entry = bibtex(citation)
    # Those who see the package alone, and those who see the repository, find the same entry.
    for page in (PAGE, (ROOT / "README.md").read_text("utf-8")):
        assert f"```bibtex\n{entry}\n```" in page
    # Braces balance, and no character of BibTeX's own stands in a field.
    assert entry.count("{") == entry.count("}")
    assert not re.search(r"[%#&~\\]", entry)
    for reference in citation["references"]:
        assert {"type", "title", "authors", "year"} <= reference.keys()
