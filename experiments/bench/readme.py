"""The speed table of the benchmarks' page out of a run of all benchmarks.

    python -m experiments.bench.readme [build/bench]    # after python -m experiments.bench

The rows stay in ``experiments/results/bench.csv``, from which the table can be made again.
"""

from __future__ import annotations

import csv
import itertools
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from experiments.bench.row import COPY, PASS, Row
from ldpopt.storage import write_whole

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "experiments" / "results" / "bench.csv"
PAGE = ROOT / "docs" / "benchmarks" / "speed.md"

BEGIN = "| what | time | in comparison |\n"
LIMITS = "| what | goal | measured |\n"
END = "\n\n"

Cells = tuple[str, str, str]

_NUMBERS = ("seconds", "against_seconds", "target", "first_seconds")

_VARIED = ("L1 price", "L1 ball", "minimax in an L1 ball", "variation")


class Results:
    """The rows of one run, by benchmark and by what was measured."""

    def __init__(self, path: Path) -> None:
        self._rows: dict[tuple[str, str, str], Row] = {}
        # The CSV file, not the JSON one: it is short enough to be kept with the figures.
        with path.open(encoding="utf-8", newline="") as file:
            for record in csv.DictReader(file):
                key = (record["benchmark"], record["what"], record["against"])
                # Times without a reference or a target have an empty cell there.
                numbers = {name: float(record[name]) for name in _NUMBERS if record[name]}
                texts = {name: record[name] for name in ("what", "measure", "against", "detail")}
                self._rows[key] = Row.from_record(texts | numbers)

    def seconds(self, benchmark: str, what: str, against: str = "") -> float:
        """Return the time of a row; of several references the first that contains a text counts."""
        return self.row(benchmark, what, against).seconds

    def cost(self, benchmark: str, what: str, against: str) -> float:
        """Return how many times as long as the reference it takes."""
        row = self.row(benchmark, what, against)
        assert row.against_seconds is not None  # these are rows with a reference
        return row.seconds / row.against_seconds

    def gain(self, benchmark: str, what: str, against: str) -> float:
        """Return how many times as long the reference takes."""
        return 1 / self.cost(benchmark, what, against)

    def longest(self, benchmark: str) -> float:
        """Return the longest time of a benchmark."""
        return max(row.seconds for key, row in self._rows.items() if key[0] == benchmark)

    def row(self, benchmark: str, what: str, against: str) -> Row:
        """Return a row; of several references the first that contains a text counts."""
        # The name of a peer is followed by its version, and by whether it is the fastest.
        matches = [
            row
            for key, row in self._rows.items()
            if key[:2] == (benchmark, what) and against in key[2]
        ]
        if not matches:
            raise KeyError(f"no row {what!r} against {against!r} among those of {benchmark!r}")
        return matches[0]


def table(results: Results) -> str:
    """Return the table in Markdown."""
    lines = [BEGIN.rstrip(), "|---|---|---|"]
    lines += [f"| {what} | {time} | {comparison} |" for what, time, comparison in _rows(results)]
    return "\n".join(lines)


def limits(results: Results) -> str:
    """Return the table of what is near a limit of the machine, in Markdown."""
    lines = [LIMITS.rstrip(), "|---|---|---|"]
    for what, rows in _near_limits(results):
        (goal,) = {row.goal for row in rows}
        numbers = [row.seconds if row.ratio is None else row.ratio for row in rows]
        verdicts = [" (missed)" if row.met is False else "" for row in rows]
        measured = " / ".join(
            f"{number:.3g}{verdict}" for number, verdict in zip(numbers, verdicts, strict=True)
        )
        lines.append(f"| {what} | {goal} | {measured} |")
    return "\n".join(lines)


def _near_limits(results: Results) -> Iterator[tuple[str, list[Row]]]:
    """Return rows of one goal, and what they are."""
    row = results.row
    yield (
        "passes that reading and writing once take: 10⁶ values / 5,000 trials of d = 1,024",
        [row(benchmark, COPY, PASS) for benchmark in ("closed-form", "methods")],
    )
    dense = "noise of sd 1/d, random order"
    yield (
        "passes of `norm-sub` / `mle-apx` over 10⁶ values, noise as small as 1/d",
        [row("closed-form", f"{name}, {dense}", PASS) for name in ("norm-sub", "mle-apx")],
    )
    names = ("norm-cut", "norm-sub", "norm-hyb", "mle-apx")
    yield (
        f"passes of {' / '.join(f'`{name}`' for name in names)} over 5,000 trials of d = 1,024",
        [row("methods", f"{name}, 5,000 trials of d = 1,024", PASS) for name in names],
    )
    yield (
        "seconds of one vector of d = 1,024: `norm-sub` / `mle-apx`",
        [row("overhead", f"one vector, {name}, d = 1,024", "") for name in ("norm-sub", "mle-apx")],
    )
    for name in ("npmle", "mixture"):
        yield (
            f"seconds of `{name}-ns`, 50 trials of d = 1,024 with a fit each",
            [row("nonparametric", f"{name}-ns, 50 trials of d = 1,024", "")],
        )
    solvers = ("CLARABEL", "OSQP", "QOCO", "PIQP")
    for d in ("64", "1,024"):
        yield (
            f"a compiled problem solved again beside the bare call, d = {d}: {' / '.join(solvers)}",
            [row("framework", f"CLS solved again, d = {d}", f"bare {name}") for name in solvers],
        )
    yield (
        "one root on a weighted simplex beside CLARABEL, 1,000 vectors of d = 1,024",
        [row("framework", "one root, weighted simplex, 1,000 x 1,024", "CLARABEL")],
    )
    counted = ("195,312 reports, d = 1,024", "4,741 reports, d = 42,178")
    yield (
        "subset selection from Parquet beside counting in memory, d = 1,024 / 42,178",
        [row("aggregation", f"SubsetSelection from Parquet, {n}", "memory") for n in counted],
    )
    yield (
        "counting OLH reports with a second core",
        [row("aggregation", "OLH on 2 cores, 500,000 reports, d = 1,024", "one core")],
    )


def _rows(results: Results) -> Iterator[Cells]:
    # From what every user runs to what few do.
    yield from _closed_forms(results)
    yield from _single_solves(results)
    yield from _priors(results)
    yield from _framework(results)
    yield from _reports(results)


def _closed_forms(results: Results) -> Iterator[Cells]:
    # In random order, as domains are: sorted ones are quicker for one method, slower for another.
    for method in ("norm-sub", "mle-apx"):
        many = (f"{method}, OUE counts of 1,000,000 users, random order", PASS)
        yield (
            f"`{method}`, d = 10⁶, OUE counts of 10⁶ users in random order",
            duration(results.seconds("closed-form", *many)),
            f"{factor(results.cost('closed-form', *many))} × one pass",
        )
        dense = (f"{method}, noise of sd 1/d, random order", PASS)
        yield (
            "the same, noise as small as 1/d",
            duration(results.seconds("closed-form", *dense)),
            f"{factor(results.cost('closed-form', *dense))} × one pass",
        )
    yield (
        "every closed form, d = 10⁶",
        f"{duration(results.longest('every-closed-form'))} at most",
        "",
    )
    together = ("10 methods together, 5,000 trials", PASS)
    yield (
        "all methods but the Power family, 5,000 trials of d = 1,024",
        duration(results.seconds("methods", *together)),
        f"{factor(results.cost('methods', *together))} × one pass",
    )
    # CLARABEL alone: the others take longer, or reach less.
    for method in ("norm-sub", "mle-apx"):
        small = results.seconds("solvers", f"{method}, d = 1,024", "CLARABEL")
        large = results.seconds("solvers", f"{method}, d = 42,178", "CLARABEL")
        gains = [
            factor(results.gain("solvers", f"{method}, d = {d}", "CLARABEL"))
            for d in ("1,024", "42,178")
        ]
        yield (
            f"`{method}`, d = 1,024 / 42,178",
            f"{duration(small)} / {duration(large)}",
            f"{' / '.join(gains)} × faster than CLARABEL",
        )
    drawn = ("OUE, 1,000 trials, n = 1,000,000, d = 1,024", PASS)
    yield (
        "1,000 simulated collections of OUE, n = 10⁶, d = 1,024",
        duration(results.seconds("simulate", *drawn)),
        "",
    )


def _single_solves(results: Results) -> Iterator[Cells]:
    # Norm is the shortest closed form: nothing shows the cost of the road around it better.
    form = "the bare closed form"
    for road in ("postprocess", "Problem.solve"):
        for d in ("10", "1,024"):
            rows = [f"{road}, {method}, d = {d}" for method in ("norm", "norm-sub", "mle-apx")]
            times = [duration(results.seconds("overhead", row, form)) for row in rows]
            costs = [factor(results.cost("overhead", row, form)) for row in rows]
            yield (
                f"`{road}` of one vector, d = {d}: `norm` / `norm-sub` / `mle-apx`",
                " / ".join(times),
                f"{' / '.join(costs)} × the bare closed form",
            )


def _priors(results: Results) -> Iterator[Cells]:
    direct = ("power, d = 1,024, n = 1,000,000", "direct summation")
    yield (
        "`power` with its fit, d = 1,024, n = 10⁶",
        duration(results.seconds("priors", *direct)),
        f"{factor(results.gain('priors', *direct))} × faster than direct summation over ±10 σ",
    )
    # The cost hardly grows with the number of users: the two ends show it.
    ends = [f"power, d = 1,024, n = {n}" for n in ("10,000", "10,000,000,000")]
    yield (
        "the same, n = 10⁴ / 10¹⁰",
        " / ".join(duration(results.seconds("priors", end)) for end in ends),
        "",
    )
    yield (
        "`power` with its fit, d = 42,178, n = 990,002",
        duration(results.seconds("priors", "power, d = 42,178, n = 990,002")),
        "",
    )
    stack = "power, 5,000 trials of d = 1,024, a fit for each"
    yield f"`{stack[:5]}`{stack[5:]}", duration(results.seconds("priors", stack)), ""
    fits = [f"{method}-ns, d = 42,178, n = 990,002" for method in ("npmle", "mixture")]
    yield (
        "`npmle-ns` / `mixture-ns` with their fits, d = 42,178",
        " / ".join(duration(results.seconds("nonparametric", fit)) for fit in fits),
        "",
    )


def _framework(results: Results) -> Iterator[Cells]:
    for name in ("capped simplex", "weighted simplex", "weighted MLE, capped"):
        row = (f"one root, {name}, 1,000 x 1,024", "CLARABEL")
        yield (
            f"one root on 1,000 vectors of d = 1,024: {name}",
            duration(results.seconds("framework", *row)),
            f"{factor(results.gain('framework', *row))} × faster than CLARABEL",
        )
    # A small program too, on which what is ours weighs most.
    for d in ("64", "1,024"):
        again = f"CLS solved again, d = {d}"
        costs = [
            f"{results.cost('framework', again, f'bare {solver}'):.2f} ({solver})"
            for solver in ("CLARABEL", "OSQP", "QOCO", "PIQP")
        ]
        yield (
            f"a compiled problem solved again, d = {d}",
            f"{duration(results.seconds('framework', again, 'bare CLARABEL'))} by CLARABEL",
            f"{', '.join(costs)} × the bare call",
        )
    states = ("a new value", "a new value and its proof")
    for d, what in itertools.product(("64", "1,024"), states):
        costs = []
        for solver in ("CLARABEL", "QOCO", "PIQP"):
            ratios = [
                results.cost("framework", f"{problem} with {what}, d = {d}", f"bare {solver}")
                for problem in _VARIED
            ]
            costs.append(f"{min(ratios):.2f} to {max(ratios):.2f} ({solver})")
        yield (
            f"four parametric problems with {what}, d = {d}",
            "",
            f"{', '.join(costs)} × the bare call",
        )
    yield (
        "CLS / weighted MLE by cone, d = 42,178",
        " / ".join(
            duration(results.seconds("framework", f"{program}, d = 42,178"))
            for program in ("CLS by PIQP", "MLE by CLARABEL")
        ),
        "PIQP / CLARABEL",
    )


def _reports(results: Results) -> Iterator[Cells]:
    for protocol, peer in (
        ("OLH", "pure-ldp"),
        ("OUE", "the fastest peer"),
        ("SubsetSelection", "the fastest peer"),
        ("HadamardResponse", "pure-ldp"),
    ):
        against = peer.removeprefix("the ")
        gain = results.gain("peers", protocol, against)
        yield (
            f"`{protocol}` perturb and aggregate, n = 10⁵, d = 1,024",
            duration(results.seconds("peers", protocol, against)),
            f"{factor(gain)} × faster than {peer}",
        )
    # The two that draw most random numbers per report.
    for protocol in ("OUE", "SubsetSelection"):
        secure = f"{protocol}, operating system's entropy"
        yield (
            f"the same, `{protocol}` with the operating system's entropy, as on a real client",
            duration(results.seconds("peers", secure)),
            "",
        )
    for d, reports in (("1,024", 195_312), ("42,178", 4_741)):
        rows = [f"{name} from Parquet, {reports:,} reports, d = {d}" for name in ("OUE", "OLH")]
        memory = "support_counts in memory"
        speeds = [factor(reports / results.seconds("aggregation", row, memory)) for row in rows]
        costs = [factor(results.cost("aggregation", row, memory)) for row in rows]
        yield (
            f"files of OUE / OLH reports, d = {d}",
            f"{' / '.join(speeds)} reports per s",
            f"{' / '.join(costs)} × the time of counting them in memory",
        )


def duration(seconds: float) -> str:
    """Return a time with two digits and its unit."""
    units = ((1e-4, 1e6, "µs"), (1e-1, 1e3, "ms"), (float("inf"), 1.0, "s"))
    scale, unit = next((scale, unit) for limit, scale, unit in units if seconds < limit)
    value = seconds * scale
    if value >= 10:
        return f"{value:.0f} {unit}"
    return f"{value:.1f} {unit}" if value >= 1 else f"{value:.2f} {unit}"


def factor(value: float) -> str:
    """Return a factor with two digits, and three from 100 on."""
    if value < 10:
        return f"{value:.1f}"
    # Further digits are those of one run on one machine.
    digits = 2 if value < 100 else 3
    return f"{float(f'{value:.{digits}g}'):,.0f}"


def in_text(text: str, new: str) -> str:
    """Return the page's text with another table in place of the one with the same heading."""
    # The table ends at the first blank line.
    begin = text.index(new[: new.index("\n") + 1])
    end = text.index(END, begin)
    return text[:begin] + new + text[end:]


def main(folder: Path) -> None:
    """Keep the rows of a run, and write their tables into the page."""
    shutil.copyfile(folder / "bench.csv", KEPT)
    results = Results(KEPT)
    text = PAGE.read_text(encoding="utf-8")
    for new in (table(results), limits(results)):
        text = in_text(text, new)
    write_whole(PAGE, text.encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "bench")
