"""What a reader reads in a file: comments, docstrings, messages and Markdown, with their lines."""

import ast
import io
import json
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
FOLDERS = ("ldpopt", "docs", "experiments", "tests", "tools", "notebooks")
ENDINGS = (".py", ".md", ".ipynb", ".j2")

_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_QUOTE = re.compile(r"""^[rbufRBUF]*('{3}|"{3}|'|")(.*)\1$""", re.DOTALL)
_DOCTEST = re.compile(r"^\s*(>>>|\.\.\.).*$", re.MULTILINE)
_BETWEEN_STRINGS = (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT)
# No token has these kinds before Python 3.12.
_FSTRING_START = getattr(tokenize, "FSTRING_START", -1)
_FSTRING_END = getattr(tokenize, "FSTRING_END", -1)


@dataclass(frozen=True)
class Text:
    """A piece of prose and the line of the file on which each of its lines stands."""

    words: str
    lines: tuple[int, ...]

    def line_at(self, offset: int) -> int:
        """Return the line of the file that holds the character at this offset."""
        return self.lines[self.words.count("\n", 0, offset)]


class Token(NamedTuple):
    """A token of Python, and whether it is a comment that is the first one of its line."""

    kind: int
    value: str
    line: int
    starts_line: bool


def files(paths: list[Path] | None = None) -> Iterator[Path]:
    """Yield the project's files that hold prose: those below the given paths, or all of them."""
    if paths is None:
        paths = [ROOT / folder for folder in FOLDERS]
        paths += sorted(ROOT.glob("*.md"))
    for path in paths:
        # Sorted: findings come in the same order on every file system.
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in inside:
            if file.suffix in ENDINGS:
                yield file


def texts(path: Path) -> Iterator[Text]:
    """Yield the prose of a file."""
    content = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from _python(content)
    elif path.suffix == ".ipynb":
        yield from _notebook(content)
    else:
        # Code is no prose; blank lines in its place keep the line numbers.
        yield _text(_FENCE.sub(_blanked, content), 1)


def _blanked(match: re.Match[str]) -> str:
    """Return as many line ends as there are in what was matched."""
    return "\n" * match.group().count("\n")


def sources(path: Path) -> Iterator[ast.Module]:
    """Yield the syntax trees of a file: of a Python file one, of a notebook none."""
    if path.suffix == ".py":
        yield ast.parse(path.read_text(encoding="utf-8"))


def _text(words: str, first_line: int) -> Text:
    lines = range(first_line, first_line + words.count("\n") + 1)
    return Text(words, tuple(lines))


def _joined(pieces: list[Text]) -> Text:
    words: list[str] = []
    lines: list[int] = []
    for piece in pieces:
        words.append(piece.words)
        lines.extend(piece.lines)
    # By lines, so that each keeps its number; patterns take a line end for a blank.
    return Text("\n".join(words), tuple(lines))


def _notebook(content: str) -> Iterator[Text]:
    # A sentence of a notebook is searched for by its words: the cell's number stands for the line.
    for number, cell in enumerate(json.loads(content)["cells"], 1):
        source = "".join(cell["source"])
        is_prose = cell["cell_type"] == "markdown"
        for text in [_text(source, 1)] if is_prose else _python(source):
            yield Text(text.words, (number,) * len(text.lines))


def _python(source: str) -> Iterator[Text]:
    """Yield blocks of comments, and strings with those that Python joins to them."""
    tokens = list(_tokens(source))
    yield from _comments(tokens)
    yield from _strings(tokens)


def _comments(tokens: list[Token]) -> Iterator[Text]:
    """Yield comments, those on lines below each other as one text."""
    block: list[Text] = []
    for token in tokens:
        if token.kind != tokenize.COMMENT:
            continue
        # A comment behind code starts a new text, even below another comment.
        if block and not (token.starts_line and _ends_above(block, token)):
            yield _joined(block)
            block = []
        block.append(_text(token.value.lstrip("#: "), token.line))
    if block:
        yield _joined(block)


def _ends_above(block: list[Text], token: Token) -> bool:
    """Return whether a block ends on the line above a token."""
    last = block[-1].lines[-1]
    return last == token.line - 1


def _strings(tokens: list[Token]) -> Iterator[Text]:
    """Yield strings; those with nothing but line ends and comments between them are one text."""
    pieces: list[Text] = []
    for token in tokens:
        if token.kind == tokenize.STRING:
            pieces.append(_text(_content(token.value), token.line))
        elif pieces and token.kind not in _BETWEEN_STRINGS:
            yield _joined(pieces)
            pieces = []
    if pieces:
        yield _joined(pieces)


def _content(literal: str) -> str:
    """Return a string literal without quotes; doctest lines, which are code, are blanked."""
    match = _QUOTE.match(literal)
    # A literal that the pattern does not fit is read with its quotes, which no rule minds.
    words = match.group(2) if match else literal
    return _DOCTEST.sub("", words)


def _tokens(source: str) -> Iterator[Token]:
    """Yield the tokens, with an f-string as one of them.

    Python 3.12 splits f-strings into several tokens, 3.11 does not.
    """
    source_lines = source.splitlines(keepends=True)
    depth = 0
    start = (1, 0)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = token.type
        if kind == _FSTRING_START:
            # An f-string may hold others: the outermost one is the text.
            if depth == 0:
                start = token.start
            depth += 1
        elif kind == _FSTRING_END:
            depth -= 1
            if depth == 0:
                whole = _between(source_lines, start, token.end)
                yield Token(tokenize.STRING, whole, start[0], False)
        elif depth == 0:
            line, column = token.start
            # Of a million tokens few are comments, and nothing asks the others.
            is_first = kind == tokenize.COMMENT and not token.line[:column].strip()
            yield Token(kind, token.string, line, is_first)


def _between(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    """Return the text between two places, each a line, counted from one, and a column."""
    first_line, first_column = start
    last_line, last_column = end
    pieces = lines[first_line - 1 : last_line]
    # The end first: on one line its column would otherwise count from the start.
    pieces[-1] = pieces[-1][:last_column]
    pieces[0] = pieces[0][first_column:]
    return "".join(pieces)
