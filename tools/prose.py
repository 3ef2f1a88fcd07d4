"""Find turns of phrase, names and assignments that make a reader stop.

    python -m tools.prose                 # everything; status 1 if there is a finding
    python -m tools.prose ldpopt/losses   # one folder or file
    python -m tools.prose --count         # how many per folder and rule

Each rule is a pattern with a remedy. What a rule catches wrongly is listed in
``tools/prose_exceptions.toml`` with a reason; an exception that no longer applies is a finding too.
"""

import argparse
import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.texts import ROOT, files, sources, texts

EXCEPTIONS = Path(__file__).with_name("prose_exceptions.toml")


def _any_of(words: str) -> str:
    """Return a pattern for any of the words."""
    return "|".join(words.split())


# "two cones a value": the noun that is counted, then the noun it is counted by.
_COUNTED = _any_of("""
    additions answers? array arrays bits? bytes? calls? cells? checks? columns? cones? constants?
    copies counts? deviation deviations distributions? draws? entries entry errors? event events
    factor factors files? functions? hours? instances? items? kinks? lines? loops? ms minutes?
    multiplications? numbers? objectives once one ones operations? panels? parameter
    parameters passes points? polynomials? products? programs? projections? reports? rho roots?
    rounds? rows? runs? samples? seconds? seeds? sets? solutions? sorts? steps? sums?
    tables? tasks? terms? texts? thousand transactions? transforms? trials? twice users? values?
    vectors? weights? words? µs ns million module level column
""")
_RATED = _any_of("""
    answer batch bin bit block call cell chunk claim class client column constraint core cell
    coordinate day draw dimension entry estimate event experiment figure file group grid hour
    instance interval iteration kind level line loss machine matrix measure message method minute
    month node number objective oracle order page pair panel part partition path piece point prior
    problem process processor program protocol query record report root round row run sample screen
    second seed set shape side solution solve solver statement step sum table task term thread topic
    trial user value variable vector version week worker word year
""")
# Not "the seconds a cell may take", where the second noun has a verb of its own.
_EACH = rf"(?-i:an?) (?:{_RATED})\b(?![-'’])(?! (?:can|may|must|is|has|takes?)\b)"
_VERB = "(?!reports? a problem)"
_RELATIVE = "which|that|it|they"
# "a transform a trial", "1,000 hashes a report": nouns beyond the list, known by the number before.
_PREPOSITION = "above|as|at|by|for|from|in|is|of|on|than|to|where|with"
_NUMBER_OF = (
    rf"(?:an?|one|two|three|four|few|several) (?!(?:{_PREPOSITION})\b)\w+|(?!1 )\d+ \w{{3,}}s"
)


@dataclass(frozen=True)
class Phrase:
    """A pattern of words and what to write instead."""

    rule: str
    pattern: re.Pattern[str]
    remedy: str


def _phrase(rule: str, pattern: str, remedy: str) -> Phrase:
    # Prose is wrapped anywhere: a blank in a pattern stands for any white space.
    return Phrase(rule, re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE), remedy)


PHRASES = (
    _phrase("per", rf"\b{_VERB}(?:{_COUNTED}|{_NUMBER_OF}) {_EACH}", 'write "per" for a rate'),
    _phrase("error", r"[;,] (?:an )?error (?:if|unless|where|otherwise|for|when|names|says)\b",
            'state it in "Raises", or write a sentence: "Raises an error if ..."'),
    _phrase("error", r"\berrors? of ours\b", 'write "an LdpError" or "an error of this package"'),
    _phrase("told", r"\b(?:un)?told\b(?! apart)", 'write "given" or "specified"'),
    _phrase("told", r"\bsaid\b", 'write "given", "stated" or "specified"'),
    _phrase("asked", r"\basked\b", 'write "requested" or "required", or name who asks'),
    _phrase("none", rf"\b(?:{_RELATIVE})(?: \w+)? (?:is|are) none\b", 'write "which are not ..."'),
    _phrase("none", r"\bnone of ours\b", "name what it is not"),
    _phrase("none", r"\bthose that there are\b", 'write "the existing ..."'),
    _phrase("idiom", r"\bwithout end\b", 'write "unbounded"'),
    _phrase("idiom", r"\bplays? no part\b|\bha(?:s|ve) no part in\b", 'write "is not used"'),
    _phrase("idiom", r"\bwhoever\b", 'write "the caller", "anyone who" or "the process that"'),
    _phrase("idiom", r"\bquick to \w+", "state what is fast"),
    _phrase("idiom", r"\bwhere there (?:is|are) none\b", 'write "if there is no ..."'),
    # Joined by a tool that fills paragraphs: pydoc then shows no section.
    Phrase("section", re.compile(r"\b(?:Parameters|Returns|Raises|Warns|Notes|Examples) -{3,}"),
           "put the underline on a line of its own"),
)  # fmt: skip

_VAGUE = "found asked made said told known own mine room pushes trouble least most"
VAGUE_NAMES = frozenset(_VAGUE.split())
"""Names that state how a value came about, or nothing: a noun states what it is."""

PAIRS = frozenset(
    tuple(pair.split())
    for pair in (
        "lower upper", "low high", "left right", "start stop", "start end", "first last",
        "first second", "before after", "old new", "minimum maximum", "x y", "rows columns",
        "above below", "up down", "top bottom", "worse better", "n d", "d n",
        "numerator denominator", "p q", "mean variance", "expected actual", "a b",
    )
)  # fmt: skip
"""The last words of names that belong together, so that one line may assign both."""


@dataclass(frozen=True)
class Finding:
    """A place, the rule it breaks, the words concerned and what to do."""

    path: Path
    line: int
    rule: str
    words: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.words!r}: {self.remedy}"


def findings(path: Path) -> list[Finding]:
    """Return what the rules find in a file, in the order of its lines, before exceptions."""
    # Texts come first, then trees: sorted, a reader goes through the file once.
    return sorted(_all_findings(path), key=lambda finding: finding.line)


_NAMED = ast.Name | ast.arg | ast.FunctionDef | ast.ClassDef | ast.Attribute


def _all_findings(path: Path) -> Iterator[Finding]:
    place = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    for text in texts(path):
        for phrase in PHRASES:
            for match in phrase.pattern.finditer(text.words):
                words = " ".join(match.group().split())
                line = text.line_at(match.start())
                yield Finding(place, line, phrase.rule, words, phrase.remedy)
    for module in sources(path):
        for node in ast.walk(module):
            # A million nodes, of which half can break a rule.
            if isinstance(node, ast.Assign):
                yield from _parallel(node, place)
            elif isinstance(node, _NAMED):
                yield from _names(node, place)


def _names(node: ast.AST, place: Path) -> Iterator[Finding]:
    """Yield vague names where they are introduced."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        name = node.id
    elif isinstance(node, ast.arg):
        name = node.arg
    elif isinstance(node, ast.FunctionDef | ast.ClassDef):
        name = node.name
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        name = node.attr
    else:
        return
    # A private name is as vague as a public one.
    if name.strip("_") in VAGUE_NAMES:
        line = getattr(node, "lineno", 0)
        yield Finding(place, line, "name", name, "use a noun that states what it is")


def _parallel(node: ast.Assign, place: Path) -> Iterator[Finding]:
    """Yield assignments of several unrelated values in one statement."""
    if not isinstance(node.value, ast.Tuple):
        return
    target = node.targets[0]
    if not isinstance(target, ast.Tuple) or _belong_together(target) or _exchanges(node):
        return
    words = f"{ast.unparse(target)} = ..."
    yield Finding(place, node.lineno, "parallel", words, "assign one value per statement")


def _belong_together(target: ast.Tuple) -> bool:
    names = [ast.unparse(element) for element in target.elts]
    # By the last word: ``smallest_lower, smallest_upper`` belong together as ``lower, upper`` do.
    last_words = tuple(re.split(r"[_.]", name)[-1] for name in names)
    return last_words in PAIRS


def _exchanges(node: ast.Assign) -> bool:
    """Return whether the values read a target, as in ``a, b = b, a``: the order would matter."""
    written = {inner.id for inner in ast.walk(node.targets[0]) if isinstance(inner, ast.Name)}
    read = {inner.id for inner in ast.walk(node.value) if isinstance(inner, ast.Name)}
    return bool(written & read)


@dataclass(frozen=True)
class Allowed:
    """A finding that is right as it stands: in files that match, by rule and words."""

    path: str
    rule: str
    words: str
    reason: str

    def covers(self, finding: Finding) -> bool:
        """Return whether it is this finding that is allowed."""
        return (
            finding.path.match(self.path)
            and self.rule in ("*", finding.rule)
            and self.words in ("*", finding.words.lower())
        )


def allowed() -> list[Allowed]:
    """Return the exceptions, each with a reason."""
    # A missing file is an error: without it every exception would be a finding.
    table = tomllib.loads(EXCEPTIONS.read_text(encoding="utf-8"))
    return [Allowed(**entry) for entry in table.get("exception", [])]


def check(paths: list[Path] | None) -> tuple[list[Finding], list[Allowed]]:
    """Return the findings that no exception covers, and the exceptions that cover none."""
    exceptions = allowed()
    remaining = []
    used = set()
    for path in files(paths):
        for finding in findings(path):
            reasons = [entry for entry in exceptions if entry.covers(finding)]
            # All that cover it: two exceptions for one place are both in use.
            used.update(reasons)
            if not reasons:
                remaining.append(finding)
    return remaining, [entry for entry in exceptions if entry not in used]


def _folder(finding: Finding) -> str:
    parts = finding.path.parts
    return "/".join(parts[:2]) if parts[0] == "ldpopt" else parts[0]


def _table(remaining: list[Finding]) -> str:
    rules = sorted({finding.rule for finding in remaining})
    counts = Counter((_folder(finding), finding.rule) for finding in remaining)
    lines = [_line("folder", [*rules, "all"])]
    for folder in sorted({folder for folder, _ in counts}):
        numbers = [counts[folder, rule] for rule in rules]
        lines.append(_line(folder, [*numbers, sum(numbers)]))
    by_rule = Counter(finding.rule for finding in remaining)
    lines.append(_line("all", [*(by_rule[rule] for rule in rules), len(remaining)]))
    return "\n".join(lines)


def _line(heading: str, cells: Sequence[object]) -> str:
    return f"{heading:28}" + "".join(f"{cell!s:>10}" for cell in cells)


def main(arguments: list[str] | None = None) -> int:
    """Print the findings; return 1 if there are any."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.prose",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", nargs="*", type=Path, help="files or folders; default: all")
    parser.add_argument("--count", action="store_true", help="print numbers per folder and rule")
    options = parser.parse_args(arguments)
    paths = [path.resolve() for path in options.paths] or None
    remaining, unused = check(paths)
    if options.count:
        print(_table(remaining))
    else:
        print(*remaining, sep="\n", end="\n" if remaining else "")
    # With part of the files only, an exception for another part would look unused.
    if paths is None:
        for entry in unused:
            print(f"{EXCEPTIONS.name}: exception no longer needed: {entry}")
    return 1 if remaining or (paths is None and unused) else 0


if __name__ == "__main__":
    sys.exit(main())
