"""How steps are written in each language, and the function around them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldpopt.discovery.code.kernels import sources_of
from ldpopt.discovery.code.steps import Step
from ldpopt.printable import printable

Array = NDArray[Any]

_PER_LINE = 8
PROTOCOL = {
    "q": "q: the probability that a report supports another value",
    "p": "p: the probability that a report supports the user's value, q < p",
    "kappa": "kappa: the growth of the variance with the frequency, over that at 0, > -1",
}


class Language(ABC):
    """What all languages share: constants, steps, and what the comment in front states.

    Parameters
    ----------
    steps
        The steps.
    name
        The name of the function.
    about
        Lines on what it computes.
    d
        The number of values that it is written for; None for any.
    """

    key: ClassVar[str]
    comment: ClassVar[tuple[str, str, str]]
    """Begin of the first line of a comment, of each line, and its end."""

    def __init__(
        self, steps: Sequence[Step], name: str, about: Sequence[str], d: int | None
    ) -> None:
        self.steps = steps
        self.name = name
        self.about = [printable(line).replace("*/", "* /") for line in about]
        self.d = d
        self.protocol = [
            key for key in PROTOCOL if any(key in step.protocol for step in self.steps)
        ]
        self.constants: list[str] = []

    def source(self) -> str:
        """Return the whole file."""
        body = [self.call(number, step) for number, step in enumerate(self.steps, start=1)]
        kernels = sources_of(self.key, [name for step in self.steps for name in step.kernels])
        parts = [self.head(), *kernels, *self.constants, self.function("\n".join(body))]
        return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"

    def head_comment(self) -> str:
        """Return the comment at the top."""
        begin, middle, end = self.comment
        lines = [*self.about, "", *self.usage(), *(PROTOCOL[key] for key in self.protocol)]
        return "\n".join([begin, *(f"{middle}{line}".rstrip() for line in lines), end]).strip()

    @abstractmethod
    def usage(self) -> list[str]:
        """Return lines on how to call it, and what happens with bad input."""

    @abstractmethod
    def head(self) -> str:
        """Return the comment and what is imported."""

    @abstractmethod
    def call(self, number: int, step: Step) -> str:
        """Return the line that applies a step, and state its constants."""

    @abstractmethod
    def function(self, body: str) -> str:
        """Return the function around the steps."""

    def text(self, value: float) -> str:
        """Return a number that reads as the same double."""
        if np.isnan(value):
            return self.specials[2]
        if np.isinf(value):
            return self.specials[0] if value > 0 else self.specials[1]
        return repr(float(value))

    specials: ClassVar[tuple[str, str, str]]
    """Infinity, minus infinity, and not a number."""

    def listed(self, values: Array) -> str:
        """Return the entries of an array, some to a line."""
        texts = [
            str(int(v)) if np.issubdtype(values.dtype, np.integer) else self.text(v) for v in values
        ]
        rows = [", ".join(texts[i : i + _PER_LINE]) for i in range(0, len(texts), _PER_LINE)]
        return ",\n    ".join(rows)

    @property
    def size(self) -> str:
        """What the comment says of the number of values."""
        return "any number of values" if self.d is None else f"{self.d} values"


class C(Language):
    """Standard C from 1999, with the mathematics library alone."""

    key = "c"
    comment = ("/*", " * ", " */")
    specials = ("INFINITY", "-INFINITY", "NAN")

    def usage(self) -> list[str]:
        """Return how to compile it, and the status."""
        return [
            f"Compile with: cc -O2 -std=c99 -c FILE.c, and link with -lm. It takes {self.size};",
            "estimate and f may be the same array. Returns 0, or what is wrong, f then being",
            "undefined: 1 another number of values, 2 an estimate that is not finite or outside",
            "the protocol's range, 3 a total that the bounds do not allow, 4 no memory, 5 wrong",
            "numbers of the protocol.",
        ]

    def head(self) -> str:
        """Return the comment and the headers."""
        headers = ["math", "stdlib", "string"]
        return self.head_comment() + "\n" + "".join(f"#include <{h}.h>\n" for h in headers)

    def _constant(self, name: str, values: Array | None) -> str:
        if values is None:
            return "NULL"
        kind = "size_t" if np.issubdtype(values.dtype, np.integer) else "double"
        self.constants.append(
            f"static const {kind} {name}[{len(values)}] = {{\n    {self.listed(values)}\n}};"
        )
        return name

    def _bounds(self, number: int, step: Step) -> list[tuple[str, str]]:
        assert step.bounds is not None
        ends = []
        for kind, bound in zip(("lower", "upper"), step.bounds, strict=True):
            array = np.atleast_1d(np.asarray(bound, dtype=np.float64))
            ends.append((self._constant(f"{kind}_{number}", array), str(int(np.ndim(bound)))))
        return ends

    def _protocol(self, step: Step) -> str:
        if not step.protocol:
            return "NULL"
        return f"(const double[]){{{', '.join(step.protocol)}}}"

    def call(self, number: int, step: Step) -> str:
        """Return the statement of a step."""
        if step.by_group:
            return self._by_group(number, step)
        name = step.kernel
        if name == "clip":
            (low, low_step), (high, high_step) = self._bounds(number, step)
            return f"    clip(f, d, {low}, {low_step}, {high}, {high_step});"
        if name == "variance mean":
            way = "to" if step.numbers["into"] else "from"
            return f"    {way}_variance(f, d, kappa);"
        if name == "level":
            (low, low_step), (high, high_step) = self._bounds(number, step)
            arguments = (
                f"{low}, {low_step}, {high}, {high_step}, {self.text(step.numbers['total'])},\n"
                f"                   response_{step.response.lower()}, {self._protocol(step)}"
            )
        else:
            arguments = self._plain(number, step)
        function = name.replace(" ", "_")
        return f"    status = {function}(f, d, {arguments});\n    if (status) return status;"

    def _plain(self, number: int, step: Step) -> str:
        arrays = {
            key: self._constant(f"{key}_{number}", values)
            for key, values in (step.arrays or {}).items()
        }
        numbers = {key: self.text(value) for key, value in step.numbers.items()}
        for key in ("k", "nodes", "groups"):
            if key in numbers:
                numbers[key] = str(int(step.numbers[key]))
        if step.kernel == "pool values":
            size = "d" if arrays["node"] == arrays["parent"] == "NULL" else numbers["nodes"]
            return f"{arrays['node']}, {size}, {arrays['parent']}, {numbers['sign']}"
        return ", ".join([*arrays.values(), *numbers.values()])

    def _by_group(self, number: int, step: Step) -> str:
        assert step.arrays is not None
        group = self._constant(f"group_{number}", step.arrays["group"])
        totals = self._constant(f"totals_{number}", step.arrays["totals"])
        count = len(step.arrays["totals"]) if step.arrays["totals"] is not None else 0
        if step.kernel == "level":
            inner = self._level_of_group(number, step)
        else:
            inner = f"    (void)members, (void)protocol;\n    return {step.kernel}(f, n, total);"
        self.constants.append(
            f"static int of_group_{number}(double *f, size_t n, const size_t *members, "
            "double total,\n"
            f"                      const double *protocol) {{\n{inner}\n}}"
        )
        return (
            f"    status = by_group(f, d, {group}, {count}, {totals}, of_group_{number}, "
            f"{self._protocol(step)});\n    if (status) return status;"
        )

    def _level_of_group(self, number: int, step: Step) -> str:
        (low, low_step), (high, high_step) = self._bounds(number, step)
        return (
            "    double *ends = malloc(2 * n * sizeof *ends);\n"
            "    if (!ends) return 4;\n"
            "    for (size_t i = 0; i < n; i++) {\n"
            f"        ends[i] = {low}[members[i] * {low_step}];\n"
            f"        ends[n + i] = {high}[members[i] * {high_step}];\n"
            "    }\n"
            f"    int status = level(f, n, ends, 1, ends + n, 1, total, "
            f"response_{step.response.lower()}, protocol);\n"
            "    free(ends);\n"
            "    return status;"
        )

    def function(self, body: str) -> str:
        """Return the function."""
        arguments = "".join(f", double {key}" for key in self.protocol)
        wrong_size = "d == 0" if self.d is None else f"d != {self.d}"
        lines = [
            f"int {self.name}(size_t d, const double *estimate, double *f{arguments}) {{",
            "    int status = 0;",
            f"    if ({wrong_size} || !estimate || !f) return 1;",
        ]
        wrong = {
            "q": "    if (!(0 <= q && q < p && p <= 1)) return 5;",
            "kappa": "    if (!(kappa > -1 && isfinite(kappa))) return 5;",
        }
        lines += [wrong[key] for key in self.protocol if key in wrong]
        lines += [
            "    for (size_t i = 0; i < d; i++) {",
            "        if (!isfinite(estimate[i])) return 2;",
        ]
        if "q" in self.protocol:
            lines += [
                "        double share = q + (p - q) * estimate[i];",
                "        if (share < -1e-6 || share > 1 + 1e-6) return 2;",
            ]
        if "kappa" in self.protocol:
            lines.append("        if (!(1 + kappa * estimate[i] > 0)) return 2;")
        lines += ["    }", "    memmove(f, estimate, d * sizeof *f);", body, "    return status;"]
        return "\n".join([*lines, "}"])


class JavaScript(Language):
    """An ECMAScript module, for node and browsers."""

    key = "javascript"
    comment = ("/*", " * ", " */")
    specials = ("Infinity", "-Infinity", "NaN")

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

    def _constant(self, name: str, values: Array | None) -> str:
        if values is None:
            return "null"
        self.constants.append(f"const {name} = [\n    {self.listed(values)}\n];")
        return name

    def _bounds(self, number: int, step: Step) -> tuple[str, str]:
        assert step.bounds is not None
        low, high = (
            self.text(float(bound))
            if np.ndim(bound) == 0
            else self._constant(f"{kind}{number}", bound)
            for kind, bound in zip(("lower", "upper"), step.bounds, strict=True)
        )
        return low, high

    def call(self, number: int, step: Step) -> str:
        """Return the statement of a step."""
        name = step.kernel
        response = f"response{step.response.capitalize()}"
        protocol = f"[{', '.join(step.protocol)}]"
        if step.by_group:
            assert step.arrays is not None
            group = self._constant(f"group{number}", step.arrays["group"])
            totals = self._constant(f"totals{number}", step.arrays["totals"])
            inner = f"{name}(part, total)"
            if name == "level":
                low, high = (
                    end if end[0] in "-0123456789I" else f"members.map((i) => {end}[i])"
                    for end in self._bounds(number, step)
                )
                inner = f"level(part, {low}, {high}, total, {response}, {protocol})"
            kernel = f"(part, members, total) => {inner}"
            return f"  byGroup(f, {group}, {totals}, {kernel});"
        if name == "clip":
            return f"  clip(f, {', '.join(self._bounds(number, step))});"
        if name == "variance mean":
            return f"  {'to' if step.numbers['into'] else 'from'}Variance(f, kappa);"
        if name == "level":
            ends = ", ".join(self._bounds(number, step))
            total = self.text(step.numbers["total"])
            return f"  level(f, {ends}, {total}, {response}, {protocol});"
        return f"  {_camel(name)}(f, {_plain(self, number, step, 'null', 'f.length')});"

    def function(self, body: str) -> str:
        """Return the exported function."""
        arguments = ", ".join(["estimate", *self.protocol])
        wrong_size = "f.length === 0" if self.d is None else f"f.length !== {self.d}"
        lines = [
            f"export function {self.name}({arguments}) {{",
            "  const f = Float64Array.from(estimate);",
            f"  if ({wrong_size}) throw new RangeError(`too few or many values: ${{f.length}}`);",
        ]
        usable = ["Number.isFinite(x)"]
        if "q" in self.protocol:
            message = 'throw new RangeError("0 <= q < p <= 1 is needed")'
            lines.append(f"  if (!(0 <= q && q < p && p <= 1)) {message};")
            usable.append("Math.abs(q + (p - q) * x - 0.5) <= 0.5 + 1e-6")
        if "kappa" in self.protocol:
            message = 'throw new RangeError("kappa > -1 is needed")'
            lines.append(f"  if (!(kappa > -1 && Number.isFinite(kappa))) {message};")
            usable.append("1 + kappa * x > 0")
        return "\n".join(
            [
                *lines,
                f"  const at = f.findIndex((x) => !({' && '.join(usable)}));",
                "  const what = `no estimate of a frequency: ${f[at]} at ${at}`;",
                "  if (at >= 0) throw new RangeError(what);",
                body,
                "  return f;",
                "}",
            ]
        )


class NumPy(Language):
    """Python with numpy alone."""

    key = "numpy"
    comment = ("", "", "")
    specials = ("np.inf", "-np.inf", "np.nan")

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
        text = self.head_comment().replace("\\", "\\\\").replace('"""', "'''")
        return f'"""{text}\n"""\n\nimport numpy as np'

    def _constant(self, name: str, values: Array | None) -> str:
        if values is None:
            return "None"
        self.constants.append(f"{name.upper()} = np.array([\n    {self.listed(values)}\n])")
        return name.upper()

    def _bounds(self, number: int, step: Step) -> tuple[str, str]:
        assert step.bounds is not None
        low, high = (
            self.text(float(bound))
            if np.ndim(bound) == 0
            else self._constant(f"{kind}_{number}", bound)
            for kind, bound in zip(("lower", "upper"), step.bounds, strict=True)
        )
        return low, high

    def call(self, number: int, step: Step) -> str:
        """Return the statement of a step."""
        name = step.kernel
        response = f"_response_{step.response.lower()}"
        protocol = f"({''.join(f'{key}, ' for key in step.protocol).strip()})"
        if step.by_group:
            assert step.arrays is not None
            group = self._constant(f"group_{number}", step.arrays["group"])
            totals = self._constant(f"totals_{number}", step.arrays["totals"])
            inner = f"_{name}(part, total)"
            if name == "level":
                low, high = (
                    f"{end}[members]" if end.isidentifier() else end
                    for end in self._bounds(number, step)
                )
                inner = f"_level(part, {low}, {high}, total, {response}, {protocol})"
            kernel = f"lambda part, members, total: {inner}"
            return f"    _by_group(f, {group}, {totals}, {kernel})"
        if name == "clip":
            return f"    _clip(f, {', '.join(self._bounds(number, step))})"
        if name == "variance mean":
            return f"    _{'to' if step.numbers['into'] else 'from'}_variance(f, kappa)"
        if name == "level":
            ends = ", ".join(self._bounds(number, step))
            total = self.text(step.numbers["total"])
            return f"    _level(f, {ends}, {total}, {response}, {protocol})"
        arguments = _plain(self, number, step, "None", "len(f)")
        return f"    _{name.replace(' ', '_')}(f, {arguments})"

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
            "    usable = np.isfinite(f)",
        ]
        if "q" in self.protocol:
            lines += [
                "    if not 0 <= q < p <= 1:",
                '        raise ValueError("0 <= q < p <= 1 is needed")',
                "    usable &= np.abs(q + (p - q) * f - 0.5) <= 0.5 + 1e-6",
            ]
        if "kappa" in self.protocol:
            lines += [
                "    if not (kappa > -1 and np.isfinite(kappa)):",
                '        raise ValueError("kappa > -1 is needed")',
                "    usable &= 1 + kappa * f > 0",
            ]
        lines += [
            "    if not usable.all():",
            "        at = int(np.argmin(usable))",
            '        raise ValueError(f"no estimate of a frequency: {f[at]} at {at}")',
        ]
        return "\n".join([*lines, body, "    return f"])


def _plain(language: Any, number: int, step: Step, nothing: str, length: str) -> str:
    """Return arrays and numbers as arguments, for languages whose arrays know their length."""
    arrays = {
        key: language._constant(f"{key}_{number}", values)
        for key, values in (step.arrays or {}).items()
    }
    numbers = {key: language.text(value) for key, value in step.numbers.items()}
    for key in ("k", "nodes", "groups"):
        if key in numbers:
            numbers[key] = str(int(step.numbers[key]))
    if step.kernel == "pool values":
        size = length if arrays["node"] == arrays["parent"] == nothing else numbers["nodes"]
        return f"{arrays['node']}, {size}, {arrays['parent']}, {numbers['sign']}"
    return ", ".join([*arrays.values(), *numbers.values()])


def _camel(name: str) -> str:
    first, *others = name.split()
    return first + "".join(word.capitalize() for word in others)


LANGUAGES: dict[str, type[Language]] = {"numpy": NumPy, "c": C, "javascript": JavaScript}
