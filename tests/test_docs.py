"""README, pages and docstrings say what the code does."""

import ast
import contextlib
import importlib
import inspect
import io
import os
import pkgutil
import re
import shlex
import textwrap
from pathlib import Path, PurePath

import click
import pytest
from typer.main import get_command

import ldpopt
from experiments.command import app as experiments_app
from ldpopt.cli.app import app as ldpopt_app
from ldpopt.methods import markdown_table
from ldpopt.oracles import ORACLES
from tests.printed import repeatable
from tools.site.stage import homes

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCS = ROOT / "docs"
HOMES = homes()
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
# The recipes are applied to a copy of the package, by tests of their own.
WITH_CODE = [
    page
    for page in PAGES
    if page.name != "CONTRIBUTING.md" and "```python" in page.read_text("utf-8")
]
# A snippet ends at its own fence: one without output is not run together with the next.
EXAMPLE = re.compile(r"```python\n((?:(?!```).)*)```\s*```text\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"^\$ (.*(?:\n {4,}.*)*)", re.MULTILINE)


def name_of(page):
    return page.relative_to(ROOT).with_suffix("").as_posix()


# --- every block of code on every page ------------------------------------------------------------


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_examples_print_what_the_page_shows(page):
    text = page.read_text("utf-8")
    examples = EXAMPLE.findall(text)
    # A block without its output would be one that nobody runs.
    assert len(examples) == text.count("```python")
    names: dict[str, object] = {}
    for code, expected in examples:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(page), "exec"), names)
        assert repeatable(printed.getvalue()) == repeatable(expected)


def commands_of(page):
    """Return the commands that a page shows, each as its words without brackets and remarks."""
    blocks = re.findall(
        r"^```console\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    lines = [line for block in blocks for line in COMMAND.findall(block)]
    return [shlex.split(re.sub(r"[\[\]]", "", line), comments=True) for line in lines]


COMMANDS = [(page, words) for page in PAGES for words in commands_of(page)]


def test_pages_show_commands_of_each_kind():
    assert {words[0] for _, words in COMMANDS} >= {"make", "ldpopt", "python", "pip"}


@pytest.mark.parametrize(
    ("page", "words"), COMMANDS, ids=[f"{name_of(p)}: {' '.join(w[:3])}" for p, w in COMMANDS]
)
def test_commands_exist_with_the_options_that_a_page_shows(page, words):
    program, first, *rest = words
    if program == "make":
        makefile = (ROOT / "Makefile").read_text("utf-8")
        assert re.search(rf"^{first}:", makefile, re.MULTILINE)
    elif program == "ldpopt":
        option = first.startswith("--")
        command = get_command(ldpopt_app)
        assert_takes(
            command if option else command.commands[first].loaded(), words[1:][not option :]
        )
    elif words[:3] == ["python", "-m", "experiments"]:
        assert_takes(get_command(experiments_app).commands[rest[1]], rest[2:])
    elif program == "node":
        assert (ROOT / first).is_file()
    elif program == "python":
        assert first == "-m"
        assert importlib.util.find_spec(rest[0])
    else:
        assert words[:2] == ["pip", "install"]


def assert_takes(command, words):
    """Raise an error of click if a command has no such option, or no place for an argument."""
    context = click.Context(command, resilient_parsing=True)
    options = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options
    command.make_parser(context).parse_args(args=list(words))


# --- links and tables -----------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files(page):
    parts = re.split(r"(^```.*?^```$)", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    # What looks like a link in code is none.
    text = "".join(part for part in parts if not part.startswith("```") or "{image}" in part)
    targets = re.findall(r"(?:\]\(|\{image\} |src(?:set)?=\")(?!https?:|#)([^)#\s\"]+)", text)
    for target in targets:
        assert (page.parent / target).resolve().exists(), target


@pytest.mark.parametrize("folder", ["benchmarks", "explanation", "how-to", "tutorials"])
def test_the_list_of_pages_has_the_order_of_the_sidebar(folder):
    text = (DOCS / folder / "index.md").read_text("utf-8")
    listed = []
    for link in re.findall(r"^- \[.*?\]\(([^)]+)\)", text, flags=re.MULTILINE):
        file = (DOCS / folder / link).resolve().relative_to(DOCS.parent)
        # Files outside docs/ have a page of another name.
        listed.append(PurePath(os.path.relpath(HOMES[file], folder)).with_suffix("").as_posix())
    trees = "".join(re.findall(r"^```\{toctree\}$(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    assert re.findall(r"^[\w./-]+$", trees, flags=re.MULTILINE) == listed
    captions = re.findall(r"^:caption: (.*)$", trees, flags=re.MULTILINE)
    assert captions == re.findall(r"^## (.*)$", text, flags=re.MULTILINE)[: len(captions)]


def test_the_readme_is_two_screens_and_leads_on():
    text = README.read_text("utf-8")
    assert text.count("\n") <= 110
    for part in ("Two commands", "An example", "Where to go", "How to cite", "Licence"):
        assert f"## {part}\n" in text
    assert "](docs/start.md)" in text


def test_the_explanation_has_the_methods_table_as_it_is_derived():
    assert markdown_table() in (DOCS / "explanation" / "methods.md").read_text("utf-8")


def test_the_explanation_names_every_oracle():
    text = (DOCS / "explanation" / "oracles.md").read_text("utf-8")
    assert all(f"`{oracle.__name__}`" in text for oracle in ORACLES.values())


def test_version_has_one_value():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == ldpopt.__version__
    assert f"version: {ldpopt.__version__}" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_type_checkers_see_the_names_that_are_imported_late():
    tree = ast.parse((ROOT / "ldpopt/__init__.py").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name: node.module for node in block.body for alias in node.names}
    submodules = {name for name, module in seen.items() if module == "ldpopt"}
    late = {name: f"ldpopt.{home}" for name, home in ldpopt._HOMES.items()}
    assert {name: seen[name] for name in seen.keys() - submodules} == late
    # Applications are built on these names: an import of them, too, would be a cycle.
    applications = {"claims", "collection"}
    assert {*seen, *applications, "__version__"} == set(ldpopt.__all__)
    assert all(getattr(ldpopt, name).__all__ for name in applications)


# What users meet through the names of other packages, or not at all.
INSIDE = {
    "cli",
    "methods",
    "proofs",
    "rendering",
    "reports",
    "risks",
    "solve",
    "sources",
}


def test_every_public_package_is_named():
    packages = {module.name for module in pkgutil.iter_modules(ldpopt.__path__) if module.ispkg}
    assert packages - INSIDE <= set(ldpopt.__all__)
    assert not INSIDE & set(ldpopt.__all__)


# --- docstrings state what is raised --------------------------------------------------------------


def packages():
    yield ldpopt
    for module in pkgutil.walk_packages(ldpopt.__path__, "ldpopt."):
        if module.ispkg and module.name != "ldpopt.cli":  # its errors are exit statuses
            yield importlib.import_module(module.name)


def public_objects():
    """Return what users import: names in a package's __all__, and those of modules for users."""
    objects = {}
    for package in packages():
        for name in getattr(package, "__all__", ()):
            objects[id(getattr(package, name))] = getattr(package, name)
    for name in ("protocol", "studies.audit", "studies.poisoning", "studies.comparison"):
        module = importlib.import_module(f"ldpopt.{name}")
        for key, value in vars(module).items():
            if not key.startswith("_") and getattr(value, "__module__", "") == module.__name__:
                objects[id(value)] = value
    return list(objects.values())


def public_functions():
    """Return public functions, and methods and properties of classes, by name."""
    functions = {}
    for item in public_objects():
        if inspect.isfunction(item):
            functions[item.__qualname__] = item
        elif inspect.isclass(item):
            for cls in item.__mro__:
                for key, member in vars(cls).items():
                    member = getattr(member, "__func__", getattr(member, "fget", member))
                    if inspect.isfunction(member) and not key.startswith("_"):
                        functions[member.__qualname__] = member
    return {
        name: function
        for name, function in sorted(functions.items())
        if function.__module__.startswith("ldpopt.")
    }


def raises(tree):
    """Return whether a function itself raises more than NotImplementedError.

    Functions inside it are another matter.
    """
    waiting = list(tree.body)
    while waiting:
        node = waiting.pop()
        raised = node.exc if isinstance(node, ast.Raise) else None
        if raised is not None and "NotImplementedError" not in ast.unparse(raised):
            return True
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return False


def states_what_it_raises(docstring):
    """Return whether there is a numpydoc section, or a check's summary says just that."""
    return "Raises\n------\n" in docstring or docstring.startswith("Raise ")


def test_public_functions_have_a_raises_section_if_they_raise():
    silent = []
    for name, function in public_functions().items():
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
        if raises(tree) and not states_what_it_raises(inspect.getdoc(function) or ""):
            silent.append(name)
    assert silent == []


def test_the_rule_finds_what_it_should():
    names = public_functions().keys()
    assert {
        "postprocess",
        "Problem.solve",
        "TracedFrequencies.sigma",
        "Constraint.cone_form",
    } <= names

    def of(source):
        return raises(ast.parse(source).body[0])

    assert of("def f():\n  if x:\n    raise ValueError")
    assert not of("def f():\n  try:\n    g()\n  except E:\n    raise")
    assert not of("def f():\n  def g():\n    raise ValueError\n  return g")
    assert not states_what_it_raises("Return x, otherwise an error.")
