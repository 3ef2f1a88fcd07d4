"""Generated code in standard C."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ldpopt.discovery.code.language import Array, Checks, Language
from ldpopt.discovery.code.steps import Step

_INDENT = "    "
# Columns after which a statement goes on in the next line.
_WIDTH = 100
# Nothing can go wrong in these: they return no status.
_WITHOUT_STATUS = ("clip", "to variance", "from variance")

# Words of C99, and what the three headers declare: functions of math.h have ends f and l too.
_KEYWORDS = """auto break case char const continue default do double else enum extern float for
goto if inline int long register restrict return short signed sizeof static struct switch
typedef union unsigned void volatile while main"""
_MATHEMATICS = """acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc
exp exp2 expm1 fabs fdim floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround
log log10 log1p log2 logb lrint lround modf nan nearbyint nextafter nexttoward pow remainder
remquo rint round scalbln scalbn sin sinh sqrt tan tanh tgamma trunc"""
_LIBRARY = """fpclassify isfinite isgreater isgreaterequal isinf isless islessequal
islessgreater isnan isnormal isunordered signbit abort abs atexit atof atoi atol atoll bsearch
calloc div exit free getenv labs ldiv llabs lldiv malloc mblen mbstowcs mbtowc qsort rand
realloc srand strtod strtof strtol strtold strtoll strtoul strtoull system wcstombs wctomb
memchr memcmp memcpy memmove memset strcat strchr strcmp strcoll strcpy strcspn strerror strlen
strncat strncmp strncpy strpbrk strrchr strspn strstr strtok strxfrm size_t"""
_FUNCTIONS = _MATHEMATICS.split()


class C(Language):
    """Standard C from 1999, with the mathematics library alone."""

    key = "c"
    comment = ("/*", " * ", " */")
    specials = ("INFINITY", "-INFINITY", "NAN")
    nothing = "NULL"
    length = "d"
    reserved = frozenset(
        [
            *_KEYWORDS.split(),
            *_LIBRARY.split(),
            *_FUNCTIONS,
            *(name + end for name in _FUNCTIONS for end in "fl"),
        ]
    )
    checks: ClassVar[dict[str, Checks]] = {
        "q": Checks(
            number=("    if (!(0 <= q && q < p && p <= 1)) return 5;",),
            values=(
                "        double share = q + (p - q) * estimate[i];",
                "        if (share < -1e-6 || share > 1 + 1e-6) return 2;",
            ),
        ),
        "kappa": Checks(
            number=("    if (!(kappa > -1 && isfinite(kappa))) return 5;",),
            values=("        if (!(1 + kappa * estimate[i] > 0)) return 2;",),
        ),
    }

    def usage(self) -> list[str]:
        """Return how to compile it, and the status."""
        return [
            f"Compile with: cc -O2 -std=c99 -c FILE.c, and link with -lm. It takes {self.size};",
            "estimate and f may be the same array. Returns 0, or what is wrong, f then being",
            "undefined: 1 another number of values, 2 an estimate that is not finite or outside",
            "the protocol's range, 3 a total that the bounds do not allow, or a bound that the",
            "loss does not, 4 no memory, 5 wrong numbers of the protocol.",
        ]

    def head(self) -> str:
        """Return the comment and the headers."""
        headers = ["math", "stdlib", "string"]
        return self.head_comment() + "\n" + "".join(f"#include <{h}.h>\n" for h in headers)

    def constant(self, name: str, values: Array) -> str:
        """Return the statement of an array."""
        kind = "size_t" if np.issubdtype(values.dtype, np.integer) else "double"
        return f"static const {kind} {name}[{len(values)}] = {{\n    {self.listed(values)}\n}};"

    def ends(self, number: int, step: Step) -> list[str]:
        """Return each bound as an array and a step: 0 where one number holds for all values."""
        assert step.bounds is not None
        arguments = []
        for kind, bound in zip(("lower", "upper"), step.bounds, strict=True):
            array = np.atleast_1d(np.asarray(bound, dtype=np.float64))
            arguments += [self.array(f"{kind}_{number}", array), str(int(np.ndim(bound)))]
        return arguments

    def listing(self, names: Sequence[str]) -> str:
        """Return numbers as an array without a name."""
        return f"(const double[]){{{', '.join(names)}}}" if names else self.nothing

    def called(self, name: str) -> str:
        """Return the name in lower case."""
        return name.lower().replace(" ", "_")

    def statement(self, name: str, arguments: Sequence[str]) -> str:
        """Return the call, and what follows from its status."""
        call = f"{self.called(name)}({', '.join(['f', 'd', *arguments])});"
        if name in _WITHOUT_STATUS:
            return _wrapped(call)
        return _wrapped(f"status = {call}") + "\n    if (status) return status;"

    def by_group(self, number: int, step: Step) -> str:
        """Return the call, and state the function that is called for each group."""
        assert step.arrays is not None
        totals = step.arrays["totals"]
        assert totals is not None
        group = self.array(f"group_{number}", step.arrays["group"])
        arguments = [group, str(len(totals)), self.array(f"totals_{number}", totals)]
        if step.kernel == "level":
            inner = self._level_of_group(number, step)
        else:
            inner = f"    (void)members, (void)protocol;\n    return {step.kernel}(f, n, total);"
        self.constants.append(
            f"static int of_group_{number}(double *f, size_t n, const size_t *members, "
            "double total,\n"
            f"                      const double *protocol) {{\n{inner}\n}}"
        )
        arguments += [f"of_group_{number}", self.listing(step.protocol)]
        return self.statement("by group", arguments)

    def _level_of_group(self, number: int, step: Step) -> str:
        """Return the body of that function: bounds are those of the members."""
        low, low_step, high, high_step = self.ends(number, step)
        return (
            "    double *ends = malloc(2 * n * sizeof *ends);\n"
            "    if (!ends) return 4;\n"
            "    for (size_t i = 0; i < n; i++) {\n"
            f"        ends[i] = {low}[members[i] * {low_step}];\n"
            f"        ends[n + i] = {high}[members[i] * {high_step}];\n"
            "    }\n"
            f"    int status = level(f, n, ends, 1, ends + n, 1, total, "
            f"{self.called(f'response {step.response}')}, protocol);\n"
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
            *self.number_checks(),
            "    for (size_t i = 0; i < d; i++) {",
            "        if (!isfinite(estimate[i])) return 2;",
            *self.value_checks(),
            "    }",
            "    memmove(f, estimate, d * sizeof *f);",
            body,
            "    return status;",
            "}",
        ]
        return "\n".join(lines)


def _wrapped(statement: str) -> str:
    """Return a statement in lines that are not too long."""
    lines = textwrap.wrap(
        statement,
        _WIDTH,
        initial_indent=_INDENT,
        subsequent_indent=2 * _INDENT,
        break_long_words=False,
        # A minus sign is no hyphen.
        break_on_hyphens=False,
    )
    return "\n".join(lines)
