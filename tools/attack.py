"""Solve random problems, and look for an answer that is wrong, refused or not certified.

    python -m tools.attack                      # five minutes of problems that nobody saw before
    python -m tools.attack --minutes 60 --workers 2
    python -m tools.attack --seed 7 --first 1200 --count 1   # one problem again

Every problem is drawn around a point, which meets all its constraints: no set is empty, and the
loss at the point bounds the minimum from above. Losses, constraints, estimates, lengths and units
are random. What must hold, whatever they are:

- nothing but an error of the library is raised, and none says that the set is empty, unless the
  loss is infinite at the point;
- an answer that is called optimal meets the constraints, is certified, and is no worse than the
  point, or than the answer of a solver;
- the certified gap of any vector of the set is at least what it loses to the answer.

Answers that are not certified are counted too: they say so themselves, and are no error. Tests have
fixed seeds, so that a change is what makes them fail; this looks where they do not.
"""

import argparse
import secrets
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import count, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt import FrequencyEstimate, Problem, certify, constraints, losses, oracles, priors
from ldpopt.errors import InfeasibleError, LdpoptError, LdpoptWarning
from ldpopt.printable import counted
from ldpopt.solve.status import Status

Array = NDArray[np.float64]

PROMISED = 1e-8
"""The gap and the violation of an optimal answer, relative to the certificate's scale and size."""

WORSE = 2e-8
"""By how much another vector of the set may be better, relative to the certificate's scale."""

BLIND = 1e-6
"""As much of a gap may be missing: what a competitor of a solver violates counts as a rise."""

_CONTINUED = 32  # problems per task of a worker

_SHOWN = 40  # answers without a certificate that a report names


@dataclass(frozen=True)
class Case:
    """A random problem, its estimate, and a point that meets its constraints."""

    problem: Problem
    estimate: FrequencyEstimate
    inside: Array

    def __str__(self) -> str:
        kind = type(self.problem.loss).__name__
        sets = ", ".join(map(repr, self.problem.constraints)) or "no constraints"
        return f"{kind}, {sets}; d = {self.estimate.d}, total {self.inside.sum():.3g}"


@dataclass(frozen=True)
class Verdict:
    """What became of a problem: an outcome, all that is wrong with it, and what is doubtful."""

    outcome: str
    wrong: tuple[str, ...] = ()
    doubt: str = ""


@dataclass
class Record:
    """The outcomes of many problems."""

    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    def add(self, place: str, case: str, verdict: Verdict) -> None:
        """Count one problem, and keep what is wrong with it."""
        self.outcomes[verdict.outcome] += 1
        self.findings += [f"{place}  {case}\n    {wrong}" for wrong in verdict.wrong]
        if verdict.doubt:
            self.doubts.append(f"{place}  {case}\n    {verdict.doubt}")

    def __iadd__(self, other: "Record") -> "Record":
        self.outcomes += other.outcomes
        self.findings += other.findings
        self.doubts += other.doubts
        return self

    def report(self) -> str:
        """Return the number of every outcome, some answers without a proof, and all findings."""
        number = sum(self.outcomes.values())
        lines = [f"{counted(number, 'problem')}:"]
        lines += [f"  {times:8,}  {outcome}" for outcome, times in self.outcomes.most_common()]
        lines += [f"{counted(len(self.doubts), 'answer')} not certified", *self.doubts[:_SHOWN]]
        lines += [counted(len(self.findings), "finding"), *self.findings]
        return "\n".join(lines)


# --- what is drawn --------------------------------------------------------------------------------


def drawn(seed: int, number: int) -> Case:
    """Return the problem with a number in the series of a seed."""
    rng = np.random.default_rng([seed, number])
    d = int(
        rng.choice([2, 3, 5, 8, 12, 24, 60, 300], p=[0.05, 0.1, 0.2, 0.25, 0.2, 0.1, 0.07, 0.03])
    )
    loss_of, unit_is_free = _LOSSES[int(rng.integers(len(_LOSSES)))]
    unit = float(10 ** rng.uniform(-6, 6)) if unit_is_free and rng.random() < 0.4 else 1.0
    point = _point(rng, d) * unit
    loss = loss_of(rng, point)
    estimate = _estimate(rng, point, loss)
    number_of_sets = int(rng.choice(5, p=[0.05, 0.15, 0.3, 0.3, 0.2]))
    kinds = rng.choice(len(_SETS), number_of_sets, replace=False)
    sets = [_SETS[kind](rng, point) for kind in kinds]
    return Case(Problem(loss, [one for one in sets if one is not None]), estimate, point)


def _point(rng: np.random.Generator, d: int) -> Array:
    """Return frequencies that sum to 1: even, skewed, with zeros, or with ties."""
    point = rng.dirichlet(np.full(d, rng.choice([0.2, 1.0, 5.0])))
    shape = rng.random()
    if shape < 0.25:
        point[rng.random(d) < 0.4] = 0.0
    elif shape < 0.5:
        point = np.round(point * 8) / 8
    return point / point.sum() if point.sum() > 0 else np.full(d, 1 / d)


def _estimate(rng: np.random.Generator, point: Array, loss: losses.Loss) -> FrequencyEstimate:
    """Return the counts of an oracle, or the point with noise near or far."""
    d = len(point)
    size = float(point.max())
    if loss.uses_noise or isinstance(loss, losses.PosteriorMean):
        n = int(10 ** rng.uniform(2, 6))
        epsilon = float(rng.uniform(0.3, 4))
        kind = oracles.GRR if isinstance(loss, losses.MultinomialMLE) else oracles.OUE
        oracle = kind(epsilon, d)
        return oracle.estimate(oracle.simulate_counts(rng.multinomial(n, point), rng), n)
    noise = size * 10 ** rng.uniform(-4, 1.5)
    values = point + rng.normal(0.0, noise, d)
    if rng.random() < 0.2:
        step = noise / 2
        values = np.round(values / step) * step
    if isinstance(loss, losses.KullbackLeibler):
        values = np.abs(values)
    return FrequencyEstimate(values)


def _weights(rng: np.random.Generator, d: int, orders: float = 2.0) -> Array:
    return np.asarray(10 ** rng.uniform(-orders, orders, d))


def _positive(rng: np.random.Generator, point: Array) -> Array:
    """Return a vector of the point's total with all values above 0."""
    return np.asarray(point.sum() * rng.dirichlet(np.full(len(point), 2.0)))


def _some_groups(rng: np.random.Generator, d: int) -> list[NDArray[np.intp]]:
    """Return disjoint groups of some or all values."""
    labels = rng.integers(0, rng.integers(1, min(d, 6) + 1) + 1, d)
    groups = [np.flatnonzero(labels == label) for label in range(labels.max())]
    return [group for group in groups if len(group)] or [np.arange(d)]


def _penalised(kind: str, rng: np.random.Generator, point: Array) -> losses.Loss:
    """Return squares plus a penalty of a random price."""
    size = float(point.max())
    price = size * 10 ** rng.uniform(-3, 1)
    if kind == "l1":
        return losses.LeastSquares() + price * losses.L1To(point)
    if kind == "kl":
        return losses.LeastSquares() + size * price * losses.KLTo(_positive(rng, point))
    if kind == "variation":
        return losses.LeastSquares() + price * losses.TotalVariation()
    groups = _some_groups(rng, len(point))
    return losses.LeastSquares() + price * losses.GroupNorm(groups)


_LOSSES: Sequence[tuple[Callable[[np.random.Generator, Array], losses.Loss], bool]] = (
    (lambda *_: losses.LeastSquares(), True),
    (lambda rng, point: losses.WeightedLeastSquares(_weights(rng, len(point))), True),
    (lambda *_: losses.LeastAbsolute(), True),
    (lambda rng, point: losses.Huber(float(point.max() * 10 ** rng.uniform(-2, 1))), True),
    (lambda *_: losses.MaxAbsolute(), True),
    (lambda *_: losses.KullbackLeibler(), True),
    (lambda rng, point: losses.KLTo(_positive(rng, point)), True),
    (lambda *_: losses.GaussianMLE(), False),
    (lambda *_: losses.BinomialMLE(), False),
    (lambda *_: losses.MultinomialMLE(), False),
    (lambda *_: losses.PosteriorMean(priors.PowerLaw), False),
    (partial(_penalised, "l1"), True),
    (partial(_penalised, "kl"), True),
    (partial(_penalised, "variation"), True),
    (partial(_penalised, "groups"), True),
)
"""How losses are drawn, and whether frequencies in any unit make sense to them."""


def _bounds(rng: np.random.Generator, point: Array) -> constraints.Constraint:
    slack = point.max() * 10 ** rng.uniform(-3, 1, (2, len(point)))
    low = np.where(rng.random(len(point)) < 0.3, -np.inf, point - slack[0])
    high = np.where(rng.random(len(point)) < 0.3, np.inf, point + slack[1])
    # Some bounds hold at the point itself.
    low = np.where(rng.random(len(point)) < 0.1, point, low)
    return constraints.Bounds(low, high)


def _fixed(rng: np.random.Generator, point: Array) -> constraints.Constraint:
    d = len(point)
    places = rng.choice(d, max(1, d // 4), replace=False)
    return constraints.Fixed(places, point[places])


def _totals(rng: np.random.Generator, point: Array) -> constraints.Constraint:
    groups = _some_groups(rng, len(point))
    if rng.random() < 0.2:
        groups.append(rng.choice(len(point), max(1, len(point) // 2), replace=False))
    return constraints.GroupTotals(groups, [point[group].sum() for group in groups])


def _order(rng: np.random.Generator, point: Array) -> constraints.Constraint:
    """Return a chain, a part of one, a tree, or any pairs that hold at the point."""
    falling = np.argsort(-point, kind="stable")
    d = len(point)
    kind = rng.integers(4)
    if kind == 0 or d == 2:
        return constraints.Monotone(falling)
    if kind == 1:
        kept = np.sort(rng.choice(d, max(2, d // 2), replace=False))
        return constraints.Monotone(falling[kept])
    if kind == 2:
        parents = np.asarray(rng.random(d - 1) * np.arange(1, d), dtype=int)
        return constraints.Monotone(np.stack([falling[parents], falling[1:]], axis=1))
    places = np.sort(np.stack([rng.choice(d, 2, replace=False) for _ in range(d)]), axis=1)
    return constraints.Monotone(falling[np.unique(places, axis=0)])


def _rows(rng: np.random.Generator, point: Array) -> constraints.Constraint:
    number = int(rng.integers(1, 4))
    matrix = rng.normal(size=(number, len(point)))
    matrix[rng.random(matrix.shape) < rng.choice([0.0, 0.7])] = 0.0
    matrix *= _weights(rng, number)[:, None]
    values = matrix @ point
    slack = np.abs(matrix).max(axis=1) * point.max() * 10 ** rng.uniform(-3, 0, (2, number))
    lower = np.where(rng.random(number) < 0.5, -np.inf, values - slack[0])
    upper = np.where(rng.random(number) < 0.3, np.inf, values + slack[1])
    is_equation = rng.random(number) < 0.2
    return constraints.Linear(
        matrix, np.where(is_equation, values, lower), np.where(is_equation, values, upper)
    )


def _near(rng: np.random.Generator, point: Array) -> constraints.Constraint | None:
    """Return a ball around another vector that the point is in, or on its edge."""
    norms: tuple[Any, ...] = (1, 2, np.inf, "kl")
    norm = norms[rng.integers(len(norms))]
    reference = _positive(rng, point)
    is_weighted = norm == 1 and rng.random() < 0.5
    weights = _weights(rng, len(point), 1.0) if is_weighted else None
    distance = constraints.Near(reference, 0.0, norm, weights=weights).violation(point)
    radius = float(distance * (1 + 1e-12) * rng.choice([1.0, 1.1, 3.0]))
    return constraints.Near(reference, radius, norm, weights=weights)


def _smooth(rng: np.random.Generator, point: Array) -> constraints.Constraint:
    variation = float(np.abs(np.diff(point)).sum()) * rng.choice([1.0, 1.5]) * (1 + 1e-12)
    return constraints.Smooth(total_variation=variation + float(point.max()) * 1e-9)


def _top(_: np.random.Generator, point: Array) -> constraints.Constraint:
    members = np.argsort(-point, kind="stable")[: max(1, len(point) // 3)]
    return constraints.TopSet(members)


def _margins(rng: np.random.Generator, point: Array) -> constraints.Constraint | None:
    d = len(point)
    divisors = [k for k in range(2, d) if d % k == 0]
    if not divisors:
        return None
    rows = int(rng.choice(divisors))
    table = point.reshape(rows, -1)
    axis = int(rng.integers(2))
    return constraints.Margins(table.shape, axis, table.sum(axis=1 - axis))


_SETS: Sequence[Callable[[np.random.Generator, Array], constraints.Constraint | None]] = (
    lambda *_: constraints.NonNegative(),
    lambda _, point: constraints.SumsTo(float(point.sum())),
    _bounds,
    _fixed,
    _totals,
    _order,
    _rows,
    _near,
    _smooth,
    _top,
    _margins,
)


# --- what must hold -------------------------------------------------------------------------------


def attacked(case: Case, rng: np.random.Generator) -> Verdict:
    """Return what becomes of a problem, and what is wrong with it."""
    problem = case.problem
    estimate = case.estimate
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdpoptWarning)
        try:
            solution = problem.solve(estimate)
        except InfeasibleError as error:
            # A set is empty too where the loss is infinite in all of it.
            if not np.isfinite(problem.loss.value(case.inside, estimate)):
                return Verdict("infeasible")
            return Verdict("infeasible", (f"a set with a point in it is called empty: {error}",))
        except LdpoptError as error:
            return Verdict(f"refused: {type(error).__name__}: {str(error)[:60]}")
        except Exception:
            return Verdict("failed", (_last_lines(),))
        if solution.status is not Status.OPTIMAL:
            return Verdict(f"{solution.status.value}, {solution.path}", doubt=_doubt(solution))
        try:
            wrong = tuple(_wrongs(case, solution, rng))
        except LdpoptError as error:
            wrong = (f"no certificate of an optimal answer: {error}",)
        except Exception:
            wrong = (_last_lines(),)
    return Verdict(f"optimal, {solution.path}", wrong)


def _last_lines() -> str:
    return " / ".join(traceback.format_exc().strip().splitlines()[-3:])


def _doubt(solution: Any) -> str:
    """Return what is known of an answer that is not certified."""
    certificate = solution.certificate
    return (
        f"gap {certificate.gap:.2g} in a scale of {certificate.scale:.2g}, violation "
        f"{certificate.violation:.2g} in a size of {certificate.size:.2g} {certificate.reason}"
    )


def _wrongs(case: Case, solution: Any, rng: np.random.Generator) -> Iterator[str]:
    """Yield all that is wrong with an optimal answer."""
    problem = case.problem
    estimate = case.estimate
    best = solution.frequencies
    certificate = solution.certificate
    scale = float(certificate.scale)
    if not certificate.is_optimal(PROMISED, relative=True):
        yield (
            f"an optimal answer has a gap of {certificate.gap:.2g} in a scale of {scale:.2g}, "
            f"and a violation of {certificate.violation:.2g} in a size of {certificate.size:.2g}"
        )
    lowest = float(problem.loss.value(best, estimate))
    outside = _gained_outside(certificate)
    for name, other, blind in _competitors(case, solution, rng):
        value = float(problem.loss.value(other, estimate))
        if not np.isfinite(value):
            continue
        if value < lowest - max(WORSE, blind) * scale:
            yield f"{name} is better by {lowest - value:.2g}, the scale is {scale:.2g}"
        gap = float(certify(problem, estimate, other).gap)
        missing = (value - lowest) - gap
        if missing > (WORSE + blind) * scale + outside + 1e-12 * abs(value):
            yield f"the gap of {name} is {gap:.3g}, it loses {value - lowest:.3g}"


def _gained_outside(certificate: Any) -> float:
    """Return by how much an answer that is outside by rounding may be better than all inside.

    Each constraint yields its multiplier times its violation.
    """
    parts = (
        certificate.sum_multiplier,
        certificate.bound_multipliers,
        certificate.row_multipliers,
    )
    prices = sum(float(np.abs(np.nan_to_num(part)).sum()) for part in parts)
    return float(certificate.violation) * prices


def _competitors(
    case: Case, solution: Any, rng: np.random.Generator
) -> Iterator[tuple[str, Array, float]]:
    """Yield vectors of the set: their names, values, and how much of a gap may be missing."""
    best = solution.frequencies
    yield "the point", case.inside, 0.0
    # Sets are convex: what is between two vectors of one is inside.
    share = float(10 ** rng.uniform(-5, -0.1))
    yield "a vector on the way to it", best + share * (case.inside - best), 0.0
    if solution.path == "conic" or case.estimate.d > 60 or rng.random() < 0.7:
        return
    try:
        other = case.problem.solve(case.estimate, path="conic")
    except LdpoptError:
        return
    if other.certificate.violation <= PROMISED * other.certificate.size:
        yield "a solver's answer", other.frequencies, BLIND


# --- the command ----------------------------------------------------------------------------------


def attack(seed: int, numbers: Sequence[int]) -> Record:
    """Return the record of some problems of a series."""
    record = Record()
    for number in numbers:
        case = drawn(seed, number)
        verdict = attacked(case, np.random.default_rng([seed, number, 1]))
        record.add(f"--seed {seed} --first {number} --count 1", str(case), verdict)
    return record


def main(arguments: Sequence[str] | None = None) -> int:
    """Attack for some minutes, or some problems; return 1 if anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tools.attack", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--minutes", type=float, default=5.0, help="how long, 5 by default")
    parser.add_argument("--seed", type=int, help="a series of problems; by default a new one")
    parser.add_argument("--first", type=int, default=0, help="the number of the first problem")
    parser.add_argument("--count", type=int, help="how many, instead of minutes")
    parser.add_argument("--workers", type=int, default=1, help="processes, 1 by default")
    options = parser.parse_args(arguments)
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    numbers: Iterator[int] = count(options.first)
    if options.count is not None:
        numbers = islice(numbers, options.count)
    until = None if options.count is not None else time.monotonic() + 60 * options.minutes
    record = Record()
    try:
        for part in _records(seed, numbers, options.workers, until):
            record += part
            done = f"{sum(record.outcomes.values()):,} problems, {len(record.findings)} findings"
            print(f"\r{done}", end="", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        pass
    print(file=sys.stderr)
    print(f"seed {seed}\n{record.report()}")
    return 1 if record.findings else 0


def _records(
    seed: int, numbers: Iterator[int], workers: int, until: float | None
) -> Iterator[Record]:
    """Yield the record of each part of the series, until a moment if there is one."""
    parts = iter(lambda: list(islice(numbers, _CONTINUED)), [])
    if workers == 1:
        for part in parts:
            yield attack(seed, part)
            if until is not None and time.monotonic() > until:
                return
        return
    with ProcessPoolExecutor(workers) as pool:
        waiting = {pool.submit(attack, seed, part) for part in islice(parts, 2 * workers)}
        while waiting:
            done = {future for future in waiting if future.done()} or {next(iter(waiting))}
            waiting -= done
            for future in done:
                yield future.result()
            if until is None or time.monotonic() < until:
                waiting |= {pool.submit(attack, seed, part) for part in islice(parts, len(done))}


if __name__ == "__main__":
    sys.exit(main())
