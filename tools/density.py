"""Measure how densely Python code is written.

    python -m tools.density                      # the folders of this project
    python -m tools.density path/to/tree ...     # any other trees, for comparison

A code line is one that is neither blank nor comment nor docstring. Nodes are those of Python's
syntax tree. Complexity is McCabe's: one, and one for each branch, loop, handler, condition of a
comprehension and further operand of "and" or "or".
"""

import argparse
import ast
import io
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tools.texts import ROOT

FOLDERS = ("ldpopt", "experiments", "tools", "tests")

LIMIT = 100
"""Columns of a line; lines beyond it are counted."""

_BRANCHES = (ast.If, ast.For, ast.While, ast.IfExp, ast.ExceptHandler, ast.With, ast.Assert)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DOCUMENTED = (ast.Module, ast.ClassDef, *_FUNCTIONS)


@dataclass
class Measurement:
    """Sums over the files of a tree."""

    files: int = 0
    nodes: int = 0
    comments: int = 0
    docstring_lines: int = 0
    assignments: int = 0
    parallel: int = 0
    widths: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    complexities: list[int] = field(default_factory=list)
    public: int = 0
    documented: int = 0

    def add(self, source: str) -> None:
        """Add one file."""
        module = ast.parse(source)
        docstrings = _docstring_lines(module)
        comments = _comment_lines(source)
        self.files += 1
        self.comments += len(comments)
        self.docstring_lines += len(docstrings)
        for number, line in enumerate(source.splitlines(), 1):
            if number in docstrings or not line.strip():
                continue
            indent = len(line) - len(line.lstrip())
            # A comment behind code leaves its line a code line.
            if comments.get(number) != indent:
                self.widths.append(len(line))
        for node in ast.walk(module):
            self._add_node(node)

    def _add_node(self, node: ast.AST) -> None:
        self.nodes += 1
        if isinstance(node, ast.Assign):
            self.assignments += 1
            self.parallel += _is_parallel(node)
        elif isinstance(node, _FUNCTIONS):
            self.lengths.append(_body_length(node))
            self.complexities.append(complexity(node))
            # A name with an underscore is for readers of the code, who see it anyway.
            if not node.name.startswith("_"):
                self.public += 1
                self.documented += ast.get_docstring(node) is not None

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield what a table shows: a heading and a number."""
        # An empty tree has zeros instead of no numbers.
        code = max(len(self.widths), 1)
        text = code + self.docstring_lines + self.comments
        over = sum(width > LIMIT for width in self.widths)
        branched = sum(value > 10 for value in self.complexities)
        parallel = _percent(self.parallel, self.assignments)
        documented = self.documented / max(self.public, 1)
        yield "files / code lines", f"{self.files} / {len(self.widths):,}"
        yield f"lines > {LIMIT} columns, %", f"{_percent(over, code):.1f}"
        yield "width p90 / p99", _quantiles(self.widths, 0.9, 0.99)
        yield "nodes per code line", f"{self.nodes / code:.2f}"
        yield "parallel, % of assignments", f"{parallel:.1f}"
        yield "comments per 100 code lines", f"{_percent(self.comments, code):.1f}"
        yield "docstring share of lines", f"{self.docstring_lines / text:.2f}"
        yield "public functions documented", f"{documented:.2f}"
        yield "function lines p90/p99/max", _quantiles(self.lengths, 0.9, 0.99, 1.0)
        yield "complexity p99/max", _quantiles(self.complexities, 0.99, 1.0)
        yield "complexity > 10, %", f"{_percent(branched, len(self.complexities)):.1f}"


def measure(paths: Iterable[Path]) -> Measurement:
    """Return the measurement of all Python files below the paths."""
    total = Measurement()
    for path in paths:
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        for file in files:
            source = file.read_text(encoding="utf-8")
            total.add(source)
    return total


def complexity(function: ast.AST) -> int:
    """Return McCabe's complexity of a function, with that of functions defined inside it."""
    # A function without a branch has one way through it.
    score = 1
    for node in ast.walk(function):
        if isinstance(node, (*_BRANCHES, ast.match_case)):
            score += 1
        elif isinstance(node, ast.BoolOp):
            # "a and b and c" is one node with three values, and two places to stop.
            score += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            score += 1 + len(node.ifs)
    return score


def _docstring_lines(module: ast.Module) -> set[int]:
    """Return the lines of docstrings, those of attributes and constants among them."""
    lines: set[int] = set()
    for node in ast.walk(module):
        if not isinstance(node, _DOCUMENTED):
            continue
        for statement in node.body:
            # A string by itself does nothing but document, wherever it stands.
            if _is_string(statement):
                last = statement.end_lineno or statement.lineno
                lines.update(range(statement.lineno, last + 1))
    return lines


def _is_string(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Expr):
        return False
    value = statement.value
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _comment_lines(source: str) -> dict[int, int]:
    """Return the column in which the comment of each commented line starts."""
    # By tokens: a hash sign inside a string is no comment.
    columns: dict[int, int] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line, column = token.start
            columns[line] = column
    return columns


def _is_parallel(node: ast.Assign) -> bool:
    # A tuple on the right: to unpack what a call returns is no parallel assignment.
    return isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple)


def _body_length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines from the first statement after the docstring to the last."""
    body = node.body
    # The docstring is counted by itself.
    if ast.get_docstring(node) is not None:
        body = body[1:]
    if not body:
        return 0
    last = body[-1].end_lineno or 0
    return last - body[0].lineno + 1


def _percent(part: int, whole: int) -> float:
    return 100 * part / max(whole, 1)


def _quantiles(values: list[int], *shares: float) -> str:
    """Return quantiles of whole numbers, each of them one of the numbers."""
    ordered = sorted(values) or [0]
    last = len(ordered) - 1
    # Rounded to the nearest rank: between two of them no function stands.
    ranks = [round(share * last) for share in shares]
    return " / ".join(str(ordered[rank]) for rank in ranks)


def main(arguments: list[str] | None = None) -> int:
    """Print the measurements side by side."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.density",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", nargs="*", type=Path, help="files or folders")
    options = parser.parse_args(arguments)
    paths = options.paths or [ROOT / name for name in FOLDERS]
    # One column per tree, so that trees can be compared.
    tables = [dict(measure([path]).rows()) for path in paths]
    print(_line("", [path.name for path in paths]))
    # Every tree has the same headings.
    for heading in tables[0]:
        print(_line(heading, [table[heading] for table in tables]))
    return 0


def _line(heading: str, cells: list[str]) -> str:
    columns = "".join(f"{cell:>18}" for cell in cells)
    return f"{heading:30}{columns}"


if __name__ == "__main__":
    sys.exit(main())
