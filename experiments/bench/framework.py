"""The framework: cost of re-solving beside the bare solver, one root, large cone programs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

import ldpopt
from experiments.bench import populations
from experiments.bench.limit import within
from experiments.bench.row import Row
from experiments.bench.timing import measure
from ldpopt import constraints, losses
from ldpopt.errors import LdpoptError

Array = NDArray[np.float64]

SIMPLEX = [constraints.NonNegative(), constraints.SumsTo(1.0)]
RESOLVED = {
    "CLS": (losses.LeastSquares, ("CLARABEL", "OSQP", "QOCO", "PIQP")),
    "MLE": (losses.GaussianMLE, ("CLARABEL",)),
}
LARGE = {  # target in seconds, and the solvers of which the best one has it
    "CLS": (losses.LeastSquares, 2.0, ("CLARABEL", "OSQP", "QOCO", "PIQP")),
    "MLE": (losses.GaussianMLE, 10.0, ("CLARABEL", "QOCO")),
}

# Problems with a parameter and a reference, and the parameter's first value.
VARIED: dict[str, tuple[Callable[..., ldpopt.Problem], float]] = {
    "L1 price": (
        lambda lam, r: ldpopt.Problem(losses.LeastSquares() + lam * losses.L1To(r), SIMPLEX),
        0.002,
    ),
    "L1 ball": (
        lambda radius, r: ldpopt.Problem(
            losses.LeastSquares(), [*SIMPLEX, constraints.Near(r, radius, 1)]
        ),
        0.2,
    ),
    "minimax in an L1 ball": (
        lambda radius, r: ldpopt.Problem(
            losses.MaxAbsolute(), [*SIMPLEX, constraints.Near(r, radius, 1)]
        ),
        0.2,
    ),
    "variation": (
        lambda bound, _: ldpopt.Problem(
            losses.LeastSquares(), [*SIMPLEX, constraints.Smooth(bound)]
        ),
        0.3,
    ),
}
VARIED_SOLVERS = ("CLARABEL", "QOCO", "PIQP")

# Functions that users bound themselves, of frequencies f about the true ones z.
CURVES: dict[str, Callable[..., cp.Expression]] = {
    "norm of a part": lambda f, z: cp.norm((f - z)[: f.size // 2]),
    "sum of squares": lambda f, z: cp.sum_squares(f - z),
    "entropy": lambda f, _: -cp.sum(cp.entr(f)),
    "relative entropy": lambda f, z: cp.sum(cp.rel_entr(f, z)),
    "quotient": lambda f, _: cp.quad_over_lin(f[:8], f[8]),
}
CURVED = {"CLS": losses.LeastSquares, "exact MLE": losses.BinomialMLE}

# What is ours weighs more on a small program.
OVERHEADS = {64: 1.5, 1024: 1.2}
# A proof is to take no longer than the solve, and is nothing that a bare solver gives: twice the
# bare solver's time leaves nothing for what is ours besides.
PROOF = 1.0
WITH_PROOF = 2.0
FASTER = 200.0


def run(settings: Mapping[str, Any]) -> list[Row]:
    """Return the rows of all questions."""
    again = [*resolving(settings), *new_values(settings), *own_curves(settings)]
    return [*again, *one_root(settings), *large(settings)]


def resolving(settings: Mapping[str, Any]) -> list[Row]:
    """Return the cost of ``Problem.solve`` beside the bare call when a shape is solved again."""
    rows = []
    for d in settings["small"]:
        estimate = populations.oue_estimate(
            d, settings["n"], settings["epsilon"], np.random.default_rng(d)
        )
        for name, (loss, solvers) in RESOLVED.items():
            for solver in solvers:
                solve = partial(
                    ldpopt.Problem(loss(), SIMPLEX).solve, estimate, path="conic", solver=solver
                )
                first = solve()
                # One and the same solve gives both times: a ratio of two different ones would be
                # noisier.
                best = min(
                    (solve() for _ in range(settings["repeats"])),
                    key=lambda solution: solution.seconds,
                )
                rows.append(
                    Row(
                        what=f"{name} solved again, d = {d:,}",
                        seconds=best.seconds,
                        measure="cost",
                        against=f"bare {solver}",
                        against_seconds=best.solver_seconds,
                        target=OVERHEADS.get(d),
                        first_seconds=first.seconds,
                    )
                )
    return rows


def new_values(settings: Mapping[str, Any]) -> list[Row]:
    """Return the cost of solving again with new parameter values, without the proof and with it."""
    rows = []
    for d in settings["small"]:
        rng = np.random.default_rng(d)
        estimate = populations.oue_estimate(d, settings["n"], settings["epsilon"], rng)
        reference = populations.zipf(d) * np.exp(0.25 * rng.standard_normal(d))
        for name, (build, first) in VARIED.items():
            for solver in VARIED_SOLVERS:
                parameter = ldpopt.Parameter("parameter", first)
                problem = build(parameter, reference / reference.sum())
                solve = partial(problem.solve, estimate, path="conic", solver=solver)
                # The first vector of this size is compiled in, the second one with parameters.
                first_solution = solve()
                solve()
                # The fastest call gives all times: the smallest ratio would be that of a solver
                # which another process has interrupted.
                whole, solution = min(
                    (_timed(solve, parameter) for _ in range(settings["repeats"])),
                    key=lambda timed: timed[0],
                )
                bare = (f"bare {solver}", solution.solver_seconds)
                times = {
                    "with a new value": (solution.seconds, *bare, OVERHEADS.get(d)),
                    "with a new value and its proof": (whole, *bare, WITH_PROOF),
                    "with a new value: its proof": (
                        solution.proof_seconds,
                        f"the solve by {solver}",
                        solution.seconds,
                        PROOF,
                    ),
                }
                rows += [
                    Row(
                        what=f"{name} {what}, d = {d:,}",
                        seconds=seconds,
                        measure="cost",
                        against=against,
                        against_seconds=against_seconds,
                        target=target,
                        first_seconds=first_solution.seconds,
                    )
                    for what, (seconds, against, against_seconds, target) in times.items()
                ]
    return rows


def own_curves(settings: Mapping[str, Any]) -> list[Row]:
    """Return the cost of a proof under users' own curved constraints, beside a later solve."""
    rows = []
    for d in settings["small"]:
        estimate = populations.oue_estimate(
            d, settings["n"], settings["epsilon"], np.random.default_rng(d)
        )
        z = populations.zipf(d)
        for (method, loss), (name, curve) in itertools.product(CURVED.items(), CURVES.items()):
            without = ldpopt.Problem(loss(), SIMPLEX).minimise(estimate)
            ends = [float(curve(cp.Constant(f), z).value) for f in (without, z)]
            # Halfway to the truth, so that it holds at the minimum.
            bound = ends[0] - 0.5 * abs(ends[0] - ends[1])
            curved = constraints.Custom(partial(_at_most, curve, z, bound))
            solve = partial(ldpopt.Problem(loss(), [*SIMPLEX, curved]).solve, estimate)
            first = solve()
            # A solve of seconds hardly varies. The fastest call gives both times, as above.
            repeats = settings["repeats"] if first.seconds < 1 else 1
            best = min(
                (solve() for _ in range(repeats)),
                key=lambda solution: solution.seconds + solution.proof_seconds,
            )
            rows.append(
                Row(
                    what=f"{method}, own {name}: its proof, d = {d:,}",
                    seconds=best.proof_seconds,
                    measure="cost",
                    against="its solve",
                    against_seconds=best.seconds,
                    target=PROOF,
                    first_seconds=first.proof_seconds,
                    detail=f"{best.status}, gap {float(best.certificate.gap):.1e}",
                )
            )
    return rows


def _at_most(
    curve: Callable[..., cp.Expression], z: Array, bound: float, f: cp.Expression
) -> list[cp.Constraint]:
    return [curve(f, z) <= bound]


def _timed(
    solve: Callable[[], ldpopt.Solution], parameter: ldpopt.Parameter
) -> tuple[float, ldpopt.Solution]:
    """Return the time of a call with another value of a parameter, and its solution."""
    parameter.value = parameter.value * 1.003
    began = time.perf_counter()
    solution = solve()
    return time.perf_counter() - began, solution


def one_root(settings: Mapping[str, Any]) -> list[Row]:
    """Return the one-root path on a stack beside CLARABEL, which solves a few of its vectors."""
    d, trials, few = settings["stack"]
    estimate = populations.oue_estimate(
        d, settings["n"], settings["epsilon"], np.random.default_rng(d)
    )
    # Another stream than that of the estimate above, which has d for its seed.
    rng = np.random.default_rng(1)
    noise = estimate.sigma * rng.standard_normal((trials, d))
    stack = ldpopt.FrequencyEstimate(
        populations.zipf(d) + noise, n=estimate.n, oracle=estimate.oracle
    )
    # A thousand vectors would take CLARABEL minutes; its time per vector hardly varies.
    part = stack[:few]
    cases: dict[str, tuple[losses.Loss, list[constraints.Constraint]]] = {
        "capped simplex": (
            losses.LeastSquares(),
            [constraints.Bounds(0.0, 0.2), constraints.SumsTo(1.0)],
        ),
        "weighted simplex": (losses.WeightedLeastSquares(rng.uniform(0.5, 2.0, d)), SIMPLEX),
        "weighted MLE, capped": (
            losses.GaussianMLE(),
            [constraints.Bounds(0.0, 0.2), constraints.SumsTo(1.0)],
        ),
    }
    rows = []
    for name, (loss, where) in cases.items():
        problem = ldpopt.Problem(loss, where)
        root = measure(partial(problem.solve, stack), repeats=3)
        # Compiled beforehand, so that CLARABEL is timed alone.
        problem.solve(part, path="conic", solver="CLARABEL")
        cone = measure(partial(problem.solve, part, path="conic", solver="CLARABEL"), repeats=1)
        largest_gap = float(np.max(root.value.certificate.gap))
        rows.append(
            Row(
                what=f"one root, {name}, {trials:,} x {d:,}",
                seconds=root.best,
                measure="speed-up",
                against="CLARABEL",
                against_seconds=cone.best * trials / few,
                target=FASTER,
                first_seconds=root.first,
                detail=f"CLARABEL's time from {few} vectors; largest gap {largest_gap:.1e}",
            )
        )
    return rows


def large(settings: Mapping[str, Any]) -> list[Row]:
    """Return the time of one cone program on a large domain, compilation included."""
    rows = []
    for name, (_, target, solvers) in LARGE.items():
        timings: dict[str, tuple[float, str]] = {}
        for solver in solvers:
            try:
                seconds, detail = within(
                    settings["limit"], _solve_large, name, solver, settings
                ) or (np.inf, "stopped")
            except (LdpoptError, ChildProcessError) as error:
                seconds = np.inf
                detail = str(error)
            timings[solver] = seconds, detail
        # The target is that of the best solver: a user takes that one.
        best = min(timings, key=lambda solver: timings[solver][0])
        rows += [
            Row(
                what=f"{name} by {solver}, d = {settings['large']:,}",
                seconds=seconds,
                measure="seconds",
                target=target if solver == best else None,
                detail=detail,
            )
            for solver, (seconds, detail) in timings.items()
            if np.isfinite(seconds)
        ]
    return rows


def _solve_large(name: str, solver: str, settings: Mapping[str, Any]) -> tuple[float, str]:
    d = settings["large"]
    estimate = populations.oue_estimate(
        d, settings["n"], settings["epsilon"], np.random.default_rng(d)
    )
    solution = ldpopt.Problem(LARGE[name][0](), SIMPLEX).solve(
        estimate, path="conic", solver=solver
    )
    return solution.seconds, (
        f"{solution.status}, {solution.compile_seconds:.2g} s of it compilation, "
        f"gap {float(solution.certificate.gap):.1e}"
    )
