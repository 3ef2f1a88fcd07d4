"""Errors that can be planted in a source file: where, and what replaces what."""

import ast
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

Bytes = tuple[int, int]
Change = tuple[str, int, int, str]  # kind, first byte, byte after the last, replacement

_COMPARISONS: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
}
_OPERATORS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
}
_OPPOSITES = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "argmin": "argmax",
    "argmax": "argmin",
    "any": "all",
    "all": "any",
    "floor": "ceil",
    "ceil": "floor",
}
_CHECKS = ("real", "integer", "whole_numbers", "array", "frequencies")
"""Functions of ldpopt.validate: dropping one puts its second argument in its place."""

_CHECKING = ("validate", "require", "check", "expect", "warn")
"""How names of functions begin that raise an error or warn, and return nothing."""

_IRRELEVANT_KEYWORDS = frozenset({"stacklevel", "strict", "slots", "frozen", "eq", "repr"})
"""Arguments that change a warning's place, a failure that cannot happen, or speed."""

_ANY_ORDER = (
    "cast",
    "isinstance",
    "issubclass",
    "print",
    "max",
    "min",
    "maximum",
    "minimum",
    "multiply",
    # The larger of a number and a lower bound is the same in either order.
    "clip",
)
"""Functions whose swapped arguments change nothing, change types or messages alone, or fail at
once."""

KINDS = ("comparison", "sign", "constant", "index", "arguments", "check", "condition")


@dataclass(frozen=True)
class Mutation:
    """One planted error: bytes of a file and what replaces them."""

    path: str
    kind: str
    start: int
    end: int
    replacement: str
    function: str | None
    line: int
    before: str
    after: str

    def applied(self, source: bytes) -> bytes:
        """Return the source with the error in it."""
        return source[: self.start] + self.replacement.encode() + source[self.end :]

    def rank(self, seed: int) -> str:
        """Return a random number in hexadecimal that edits elsewhere in the file do not change."""
        # By what is read, not by the place: a line that moves keeps its number.
        words = f"{seed}|{self.path}|{self.function}|{self.before}|{self.after}|{self.kind}"
        return hashlib.sha256(words.encode()).hexdigest()

    def key(self, source: bytes) -> str:
        """Return what a result is kept under: the file's content and the change."""
        change = f"|{self.path}|{self.start}|{self.end}|{self.replacement}"
        return hashlib.sha256(source + change.encode()).hexdigest()

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind}: {self.before}  ->  {self.after}"


def mutations(path: str, source: bytes) -> Iterator[Mutation]:
    """Yield every error that can be planted in a file."""
    places = _Places(source)
    nodes = list(_walk(ast.parse(source), None))
    in_an_index = _bytes_of_indices(nodes, places)
    for node, function in nodes:
        for change in _changes(node, places):
            kind, start, _, _ = change
            # The number in x[-1] is an index: its sign and value are not changed a second time.
            if kind in ("sign", "constant") and start in in_an_index:
                continue
            yield _planted(path, source, function, change)


def _bytes_of_indices(nodes: Iterable[tuple[ast.AST, str | None]], places: "_Places") -> set[int]:
    """Return the places of all bytes that belong to the number of an index."""
    inside: set[int] = set()
    for node, _ in nodes:
        for _, start, end, _ in _index(node, places):
            inside.update(range(start, end))
    return inside


def _planted(path: str, source: bytes, function: str | None, change: Change) -> Mutation:
    """Return the error that a change of a file is."""
    kind, start, end, replacement = change
    changed = source[:start] + replacement.encode() + source[end:]
    return Mutation(
        path=path,
        kind=kind,
        start=start,
        end=end,
        replacement=replacement,
        function=function,
        # Lines are counted from one.
        line=source.count(b"\n", 0, start) + 1,
        before=_line(source, start),
        after=_line(changed, start),
    )


def _line(source: bytes, place: int) -> str:
    """Return the line that holds a byte, without its indent."""
    first = source.rfind(b"\n", 0, place) + 1
    last = source.find(b"\n", place)
    # The last line of a file may have no end.
    if last < 0:
        last = len(source)
    return source[first:last].decode().strip()


class _Places:
    """Where a node of the syntax tree stands, in bytes."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def of(self, node: ast.expr | ast.stmt) -> Bytes:
        # What is parsed from a file has an end, though its type says that it may have none.
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        first_line = self.starts[node.lineno - 1]
        last_line = self.starts[node.end_lineno - 1]
        return first_line + node.col_offset, last_line + node.end_col_offset

    def text(self, node: ast.expr) -> str:
        start, end = self.of(node)
        return self.source[start:end].decode()

    def between(self, left: ast.expr, right: ast.expr, operator: str) -> Bytes | None:
        """Return where the operator stands between two operands, if only once."""
        _, first = self.of(left)
        last, _ = self.of(right)
        gap = self.source[first:last]
        sign = operator.encode()
        # A comment may hold the operator too, and then its place is not certain.
        if b"#" in gap or gap.count(sign) != 1:
            return None
        start = first + gap.index(sign)
        return start, start + len(sign)


def _walk(node: ast.AST, function: str | None) -> Iterator[tuple[ast.AST, str | None]]:
    """Yield nodes whose change can matter, each with the outermost function around it."""
    yield node, function
    inner = _enclosing(node, function)
    for name, value in ast.iter_fields(node):
        children = value if isinstance(value, list) else [value]
        for child in children:
            # A field may also be a name or None, which has nothing to change.
            if isinstance(child, ast.AST) and not _irrelevant(name, child):
                yield from _walk(child, inner)


def _enclosing(node: ast.AST, function: str | None) -> str | None:
    """Return the name of the function around the children of a node.

    Names of classes end in "." until a function of theirs completes them.
    """
    if function is not None and not function.endswith("."):
        return function
    if isinstance(node, ast.ClassDef):
        return f"{function or ''}{node.name}."
    if isinstance(node, ast.FunctionDef):
        return f"{function or ''}{node.name}"
    return function


def _irrelevant(name: str, child: ast.AST) -> bool:
    """Return whether a child holds types, messages or settings that no test should depend on."""
    # Types change nothing at run time here, and most wrong decorators fail at import.
    if name in ("annotation", "returns", "decorator_list"):
        return True
    if isinstance(child, ast.Raise | ast.JoinedStr):
        return True
    if isinstance(child, ast.keyword):
        return child.arg in _IRRELEVANT_KEYWORDS
    return isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"


def _changes(node: ast.AST, places: _Places) -> Iterator[Change]:
    # Several kinds may apply to one node: a call may be a check and have arguments to swap.
    for produce in _PRODUCERS:
        yield from produce(node, places)


def _comparison(node: ast.AST, places: _Places) -> Iterator[Change]:
    # A chain of comparisons has several operators: which one changed would be unclear.
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return
    # The neighbour, and the opposite: an error of one, and a check the wrong way round.
    text, replacements = _COMPARISONS[type(node.ops[0])]
    place = places.between(node.left, node.comparators[0], text)
    if place is not None:
        for replacement in replacements:
            yield "comparison", *place, replacement


def _sign(node: ast.AST, places: _Places) -> Iterator[Change]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        start, _ = places.of(node)
        yield "sign", start, start + 1, ""
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        # Text has no difference: the error would be a crash that any call notices.
        if _is_text(node.left) or _is_text(node.right):
            return
        text, replacement = _OPERATORS[type(node.op)]
        place = places.between(node.left, node.right, text)
        if place is not None:
            yield "sign", *place, replacement


def _is_text(node: ast.expr) -> bool:
    is_string = isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    return is_string or isinstance(node, ast.JoinedStr)


def _constant(node: ast.AST, places: _Places) -> Iterator[Change]:
    if not isinstance(node, ast.Constant):
        return
    other = _another(node.value)
    if other is not None:
        yield "constant", *places.of(node), other


def _another(value: object) -> str | None:
    """Return another constant of the same kind as code; None for text and the like."""
    # Before int, of which bool is a subclass.
    if isinstance(value, bool):
        return str(not value)
    if isinstance(value, int):
        # Sizes and limits hardly react to one more: they are doubled.
        return str(value + 1 if value < 10 else 2 * value)
    if isinstance(value, float):
        # Twice zero would change nothing.
        return repr(2 * value) if value else "1.0"
    return None


def _index(node: ast.AST, places: _Places) -> Iterator[Change]:
    for part in _indexed_by(node):
        text = places.text(part)
        if not text.lstrip("-").isdigit():
            continue
        # First and last change places; other indices move by one.
        before = str(int(text) - 1)
        other = {"0": "-1", "-1": "0"}.get(text, before)
        yield "index", *places.of(part), other


def _indexed_by(node: ast.AST) -> list[ast.expr]:
    """Return the indices of a subscript and the ends of its slice; or the axis of a call."""
    if isinstance(node, ast.keyword):
        return [node.value] if node.arg == "axis" else []
    if not isinstance(node, ast.Subscript):
        return []
    if isinstance(node.slice, ast.Slice):
        ends = (node.slice.lower, node.slice.upper)
        return [end for end in ends if end is not None]
    if isinstance(node.slice, ast.Tuple):
        return node.slice.elts
    return [node.slice]


def _arguments(node: ast.AST, places: _Places) -> Iterator[Change]:
    if not isinstance(node, ast.Call) or len(node.args) < 2:
        return
    if _called_name(node) in _ANY_ORDER:
        return
    first, second = node.args[:2]
    if isinstance(first, ast.Starred) or isinstance(second, ast.Starred):
        return
    start, first_end = places.of(first)
    second_start, end = places.of(second)
    middle = places.source[first_end:second_start].decode()
    swapped = places.text(second) + middle + places.text(first)
    # Equal arguments swapped are the same call; a comment between them could hold code.
    if places.text(first) != places.text(second) and "#" not in middle:
        yield "arguments", start, end, swapped


def _called_name(call: ast.Call) -> str:
    """Return the last part of the name of the function that is called, or an empty string."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _check(node: ast.AST, places: _Places) -> Iterator[Change]:
    if isinstance(node, ast.If):
        # A branch that ends with an error and has no other is nothing but a check.
        if not node.orelse and isinstance(node.body[-1], ast.Raise):
            yield "check", *places.of(node.test), "False"
    elif isinstance(node, ast.Call):
        if len(node.args) >= 2 and _is_validation(node.func):
            yield "check", *places.of(node), places.text(node.args[1])
    # A call whose result nobody takes.
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        name = _called_name(node.value).strip("_")
        if name.startswith(_CHECKING):
            yield "check", *places.of(node), "pass"


def _is_validation(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "validate"
        and function.attr in _CHECKS
    )


def _condition(node: ast.AST, places: _Places) -> Iterator[Change]:
    # With three parts precedence would change too, and the error be more than one.
    if isinstance(node, ast.BoolOp) and len(node.values) == 2:
        text = "and" if isinstance(node.op, ast.And) else "or"
        other = "or" if text == "and" else "and"
        left, right = node.values
        place = places.between(left, right, text)
        if place is not None:
            yield "condition", *place, other
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        start, _ = places.of(node)
        yield "condition", start, start + len("not "), ""
    elif isinstance(node, ast.Call):
        name = _called_name(node)
        if name in _OPPOSITES:
            # The name is the last part of what is called: np.maximum, f.max.
            _, end = places.of(node.func)
            yield "condition", end - len(name), end, _OPPOSITES[name]


_PRODUCERS: tuple[Callable[[ast.AST, _Places], Iterator[Change]], ...] = (
    _comparison,
    _sign,
    _constant,
    _index,
    _arguments,
    _check,
    _condition,
)
