"""README and docstrings say what the code does."""

import ast
import contextlib
import io
import re
from pathlib import Path

import pytest

import ldpopt
from ldpopt.methods import METHODS
from ldpopt.oracles import ORACLES

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_readme_examples_print_what_the_readme_says():
    snippets = re.findall(r"```python\n(.*?)```\s*```text\n(.*?)```", README, flags=re.S)
    assert len(snippets) == 5
    names: dict[str, object] = {}
    for code, expected in snippets:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "README.md", "exec"), names)
        assert printed.getvalue() == expected


def test_readme_table_has_every_method_with_its_guarantees():
    for name, method in METHODS.items():
        order = "yes" if method.preserves_order else "no"
        guarantees = f"{method.nonnegative} | {method.sums_to_one} | {order}"
        assert f"| `{name}` | {method.description} | {guarantees} |" in README


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


# The docstring of validate.py states for all its checks that they raise. The command line turns
# errors into exit statuses.
PUBLIC = sorted(
    path
    for path in (ROOT / "ldpopt").rglob("*.py")
    if path.name != "validate.py" and path.parent.name != "cli"
)


@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: str(path.relative_to(ROOT)))
def test_public_functions_state_errors_where_they_raise(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            raises = any(
                isinstance(inner, ast.Raise) and inner.exc is not None for inner in ast.walk(node)
            )
            docstring = (ast.get_docstring(node) or "").lower()
            assert not raises or "raise" in docstring or "error" in docstring, (
                f"{path.name}:{node.lineno} {node.name}"
            )
