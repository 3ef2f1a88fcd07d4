"""README and docstrings say what the code does."""

import ast
import contextlib
import importlib
import inspect
import io
import pkgutil
import re
import textwrap
from pathlib import Path

import ldpopt
from ldpopt.methods import markdown_table
from ldpopt.oracles import ORACLES

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_readme_examples_print_what_the_readme_says():
    # A snippet ends at its own fence: one without output is not run together with the next.
    pattern = r"```python\n((?:(?!```).)*)```\s*```text\n(.*?)```"
    snippets = re.findall(pattern, README, flags=re.S)
    assert len(snippets) == 8
    names: dict[str, object] = {}
    for code, expected in snippets:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "README.md", "exec"), names)
        assert printed.getvalue() == expected


def test_the_readme_shows_the_methods_table_as_it_is_derived():
    assert markdown_table() in README


def test_readme_names_every_oracle():
    assert all(f"`{oracle.__name__}`" in README for oracle in ORACLES.values())


def test_readme_files_exist():
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert targets
    assert all((ROOT / target).exists() for target in targets)


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
    assert {*seen, "__version__"} == set(ldpopt.__all__)


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
    for name in ("methods", "protocol", "studies.audit", "studies.poisoning", "studies.comparison"):
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
        "FrequencyEstimate.sigma",
        "Constraint.cone_form",
    } <= names

    def of(source):
        return raises(ast.parse(source).body[0])

    assert of("def f():\n  if x:\n    raise ValueError")
    assert not of("def f():\n  try:\n    g()\n  except E:\n    raise")
    assert not of("def f():\n  def g():\n    raise ValueError\n  return g")
    assert not states_what_it_raises("Return x, otherwise an error.")
