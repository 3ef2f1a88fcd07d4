"""Generated code in languages whose arrays know their length: JavaScript, and Python with numpy."""

from __future__ import annotations

import keyword
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ldpopt.discovery.code.language import Array, Checks, Language
from ldpopt.discovery.code.steps import Step

# What ECMAScript reserves in modules, and names that a module cannot bind anew.
_WORDS = """arguments await break case catch class const continue debugger default delete do
else enum eval export extends false finally for function if implements import in instanceof
interface let new null package private protected public return static super switch this throw
true try typeof undefined var void while with yield"""


class Script(Language):
    """A language in which bounds are numbers or arrays, and functions may be arguments."""

    indent: ClassVar[str]
    terminator: ClassVar[str]
    """What ends a statement."""

    def ends(self, number: int, step: Step) -> list[str]:
        """Return each bound: a number for all values, or the name of an array."""
        assert step.bounds is not None
        named = zip(("lower", "upper"), step.bounds, strict=True)
        return [
            self.text(float(bound))
            if np.ndim(bound) == 0
            else self.array(f"{kind}_{number}", bound)
            for kind, bound in named
        ]

    def statement(self, name: str, arguments: Sequence[str]) -> str:
        """Return the call: what goes wrong is raised."""
        call = f"{self.called(name)}({', '.join(['f', *arguments])}){self.terminator}"
        # In one line: JavaScript ends a statement where a line ends before "=>".
        return self.indent + call

    def by_group(self, number: int, step: Step) -> str:
        """Return the call with the function that is called for each group."""
        assert step.arrays is not None
        group = self.array(f"group_{number}", step.arrays["group"])
        totals = self.array(f"totals_{number}", step.arrays["totals"])
        arguments = ["part", "total"]
        if step.kernel == "level":
            # A bound that is one number holds for every group.
            bounds = [
                end if np.ndim(bound) == 0 else self.of_members(end)
                for end, bound in zip(self.ends(number, step), step.bounds or (), strict=True)
            ]
            response = self.called(f"response {step.response}")
            arguments = ["part", *bounds, "total", response, self.listing(step.protocol)]
        inner = f"{self.called(step.kernel)}({', '.join(arguments)})"
        return self.statement("by group", [group, totals, self.lambda_of(inner)])

    @abstractmethod
    def of_members(self, array: str) -> str:
        """Return the entries of an array for the members of a group."""

    @abstractmethod
    def lambda_of(self, inner: str) -> str:
        """Return a call as a function of part, members and total."""


class JavaScript(Script):
    """An ECMAScript module, for node and browsers."""

    key = "javascript"
    comment = ("/*", " * ", " */")
    specials = ("Infinity", "-Infinity", "NaN")
    nothing = "null"
    length = "f.length"
    reserved = frozenset(_WORDS.split())
    indent = "  "
    terminator = ";"
    checks: ClassVar[dict[str, Checks]] = {
        "q": Checks(
            number=(
                "  if (!(0 <= q && q < p && p <= 1)) "
                'throw new RangeError("0 <= q < p <= 1 is needed");',
            ),
            values=("Math.abs(q + (p - q) * x - 0.5) <= 0.5 + 1e-6",),
        ),
        "kappa": Checks(
            number=(
                "  if (!(kappa > -1 && Number.isFinite(kappa))) "
                'throw new RangeError("kappa > -1 is needed");',
            ),
            values=("1 + kappa * x > 0",),
        ),
    }

    def usage(self) -> list[str]:
        """Return how to import it."""
        return [
            f"An ECMAScript module for node and browsers. It takes {self.size} as an array and",
            "returns a Float64Array. Bad input raises a RangeError: another number of values, an",
            "estimate that is not finite or outside the protocol's range, a total that the bounds",
            "do not allow, wrong numbers of the protocol.",
        ]

    def head(self) -> str:
        """Return the comment."""
        return self.head_comment()

    def constant(self, name: str, values: Array) -> str:
        """Return the statement of an array."""
        return f"const {name} = [\n    {self.listed(values)}\n];"

    def listing(self, names: Sequence[str]) -> str:
        """Return numbers as an array."""
        return f"[{', '.join(names)}]"

    def called(self, name: str) -> str:
        """Return the name in camel case."""
        first, *others = name.split()
        return first + "".join(word.capitalize() for word in others)

    def of_members(self, array: str) -> str:
        """Return the entries of an array for the members of a group."""
        return f"members.map((i) => {array}[i])"

    def lambda_of(self, inner: str) -> str:
        """Return a call as a function."""
        return f"(part, members, total) => {inner}"

    def function(self, body: str) -> str:
        """Return the exported function."""
        arguments = ", ".join(["estimate", *self.protocol])
        wrong_size = "f.length === 0" if self.d is None else f"f.length !== {self.d}"
        usable = " && ".join(["Number.isFinite(x)", *self.value_checks()])
        lines = [
            f"export function {self.name}({arguments}) {{",
            "  const f = Float64Array.from(estimate);",
            f"  if ({wrong_size}) throw new RangeError(`too few or many values: ${{f.length}}`);",
            *self.number_checks(),
            f"  const at = f.findIndex((x) => !({usable}));",
            "  const what = `no estimate of a frequency: ${f[at]} at ${at}`;",
            "  if (at >= 0) throw new RangeError(what);",
            body,
            "  return f;",
            "}",
        ]
        return "\n".join(lines)


class NumPy(Script):
    """Python with numpy alone."""

    key = "numpy"
    comment = ("", "", "")
    specials = ("np.inf", "-np.inf", "np.nan")
    nothing = "None"
    length = "len(f)"
    reserved = frozenset(keyword.kwlist)
    indent = "    "
    terminator = ""
    checks: ClassVar[dict[str, Checks]] = {
        "q": Checks(
            number=(
                "    if not 0 <= q < p <= 1:",
                '        raise ValueError("0 <= q < p <= 1 is needed")',
            ),
            values=("    usable &= np.abs(q + (p - q) * f - 0.5) <= 0.5 + 1e-6",),
        ),
        "kappa": Checks(
            number=(
                "    if not (kappa > -1 and np.isfinite(kappa)):",
                '        raise ValueError("kappa > -1 is needed")',
            ),
            values=("    usable &= 1 + kappa * f > 0",),
        ),
    }

    def usage(self) -> list[str]:
        """Return how to call it."""
        return [
            f"The function takes {self.size} and returns a new array. It needs numpy alone. Bad",
            "input raises a ValueError: another number of values, an estimate that is not finite",
            "or outside the protocol's range, a total that the bounds do not allow, wrong numbers",
            "of the protocol.",
        ]

    def head(self) -> str:
        """Return the docstring and the import."""
        # A backslash or three quotes in the name of a constraint would end the docstring.
        text = self.head_comment().replace("\\", "\\\\").replace('"""', "'''")
        return f'"""{text}\n"""\n\nimport numpy as np'

    def constant_name(self, name: str) -> str:
        """Return the name in capitals, as constants of Python have it."""
        return name.upper()

    def constant(self, name: str, values: Array) -> str:
        """Return the statement of an array."""
        return f"{name} = np.array([\n    {self.listed(values)}\n])"

    def listing(self, names: Sequence[str]) -> str:
        """Return numbers as a tuple, which may have one member."""
        return f"({''.join(f'{name}, ' for name in names).strip()})"

    def called(self, name: str) -> str:
        """Return the name as that of a private function."""
        return "_" + name.lower().replace(" ", "_")

    def of_members(self, array: str) -> str:
        """Return the entries of an array for the members of a group."""
        return f"{array}[members]"

    def lambda_of(self, inner: str) -> str:
        """Return a call as a function."""
        return f"lambda part, members, total: {inner}"

    def function(self, body: str) -> str:
        """Return the function."""
        arguments = ", ".join(["estimate", *self.protocol])
        shape = "f.ndim != 1 or not len(f)" if self.d is None else f"f.shape != ({self.d},)"
        lines = [
            "",
            f"def {self.name}({arguments}):",
            "    f = np.array(estimate, dtype=float)",
            f"    if {shape}:",
            '        raise ValueError(f"too few or many values: shape {f.shape}")',
            *self.number_checks(),
            "    usable = np.isfinite(f)",
            *self.value_checks(),
            "    if not usable.all():",
            "        at = int(np.argmin(usable))",
            '        raise ValueError(f"no estimate of a frequency: {f[at]} at {at}")',
            body,
            "    return f",
        ]
        return "\n".join(lines)
