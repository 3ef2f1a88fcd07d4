"""The matrix of losses and constraints: what the planner says, in four formats.

``python -m tests.test_coverage`` certifies every cell of ``ldpopt coverage --all`` that claims a
closed form or a root, on three random and three adversarial estimates. It takes about ten minutes,
and prints the cells that are not certified.
"""

import itertools
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import ldpopt
from ldpopt import Problem, certify, constraints, oracles
from ldpopt.constraints import Bounds
from ldpopt.errors import InfeasibleError, InvalidInputError, LdpoptError, LdpoptWarning
from ldpopt.losses import MultinomialMLE
from ldpopt.solve.acceptance.judge import size_of
from ldpopt.solve.coverage import (
    _CONSTRAINTS,
    _LOSSES,
    _MORE_CONSTRAINTS,
    _MORE_LOSSES,
    _N,
    PATHS,
    Cell,
    coverage,
)
from tests.commands import run
from tests.tolerances import CERTIFIED

PAGE = Path(__file__).parent.parent / "docs" / "explanation" / "coverage.md"
D = 6
# A law in falling order, and one dominant value at the end.
STARTS = [[0.4, 0.25, 0.15, 0.1, 0.06, 0.04], [0.05, 0.05, 0.05, 0.05, 0.1, 0.7]]
ALL_LOSSES = _LOSSES | _MORE_LOSSES
ALL_CONSTRAINTS = _CONSTRAINTS | _MORE_CONSTRAINTS
CERTIFIED_ROWS = {
    # It has no closed form: its algorithms are iterative.
    "NormalisedGaussianMLE": 0,
    "LeastSquares": 22,
    "WeightedLeastSquares": 19,
    "LeastAbsolute": 14,
    "GaussianMLE": 18,
    "BinomialMLE": 18,
    "MultinomialMLE": 17,
    "KullbackLeibler": 30,
    "PosteriorMean": 22,
    "HardThreshold": 1,
    "Huber": 14,
    "MaxAbsolute": 12,
    "KLTo": 32,
    "LeastSquares + L1To": 19,
    "LeastSquares + KLTo": 30,
    "LeastSquares + TotalVariation": 4,
    "LeastSquares + GroupNorm": 4,
}
GAP = 1e-9
"""Relative: a ball beside kinks is searched by its multiplier, whose last bits cost that much."""


@pytest.fixture(scope="module")
def matrix():
    return coverage()


def test_the_first_matrix_has_a_form_for_many_of_its_problems(matrix):
    assert len(matrix.cells) == 1_040
    assert matrix.with_form == 472
    assert sum(matrix.counts.values()) == 1_040
    assert matrix.counts["no minimum"] == 15
    assert str(matrix).startswith("472 of 1,040 problems have a closed form")


def test_cells_name_the_form_that_solves_them(matrix):
    cells = {(cell.loss, cell.constraints): cell for cell in matrix.cells}
    pooled = cells["GaussianMLE", ("NonNegative", "SumsTo", "Monotone")]
    assert (pooled.path, pooled.name, pooled.has_form) == ("closed form", "pava, mle-apx", True)
    assert cells["BinomialMLE", ("Bounds", "GroupTotals")].name == "one root per group"
    assert cells["MultinomialMLE", ("NonNegative",)].path == "no minimum"
    assert cells["BinomialMLE", ("Bounds", "Linear")].name == "one root, one root for a row"
    assert cells["LeastSquares", ("Smooth", "Linear")].path == "conic"
    assert not cells["LeastSquares", ("Smooth", "Linear")].has_form


def test_the_page_of_the_site_is_what_the_command_prints(matrix):
    assert f"\n\n{matrix.markdown()}\n" in PAGE.read_text(encoding="utf-8")


def test_all_losses_and_constraints_have_rows():
    wide = ldpopt.coverage(up_to=1, every=True)
    names = {name for cell in wide.cells for name in cell.constraints}
    assert {"TopSet", "Margins", "Near, 1-norm", "Near, weighted 1-norm", "AtMost"} <= names
    assert {"Huber", "KLTo", "NormalisedGaussianMLE"} <= set(wide.losses)
    paths = {(cell.loss, cell.constraints): cell.path for cell in wide.cells}
    assert paths["Huber", ("Margins",)] == "closed form"
    assert paths["HardThreshold", ()] == "iterative"
    assert paths["BinomialMLE", ("AtMost",)] == "no path"


@pytest.mark.parametrize("name", ALL_LOSSES)
def test_rows_of_all_constraints_are_certified(name):
    """Each constraint alone and on the simplex, under every loss of the library."""
    loss = ALL_LOSSES[name]
    oracle = oracles.GRR(1.0, D) if name == "MultinomialMLE" else oracles.OUE(1.0, D)
    rng = np.random.default_rng(2)
    counts = [oracle.simulate_counts(rng.multinomial(_N, law), rng) for law in STARTS]
    estimate = oracle.estimate(np.stack(counts), _N)
    simplex = [constraints.NonNegative(), constraints.SumsTo(1.0)]
    solved = 0
    for kind, around in itertools.product(ALL_CONSTRAINTS.values(), ([], simplex)):
        problem = Problem(loss, [*around, kind])
        try:
            if problem.plan(estimate).path != "closed-form":
                continue
            solution = problem.solve(estimate)
        except LdpoptError:
            # No minimum, no point, or no path: the matrix says so.
            continue
        if not np.isfinite(problem.region(D).lower).all():
            # A certificate bounds what a minimum could be from a set that is bounded.
            continue
        size = size_of(problem, solution.estimate, solution.frequencies, solution.objective)
        assert np.max(solution.certificate.gap / size) <= GAP, problem
        assert np.max(solution.certificate.violation) <= CERTIFIED, problem
        solved += 1
    assert solved == CERTIFIED_ROWS[name]


def estimates_of(loss):
    """Return three random estimates and three hostile ones: far outside, tied, of one value."""
    oracle = oracles.GRR(1.0, D) if isinstance(loss, MultinomialMLE) else oracles.OUE(1.0, D)
    rng = np.random.default_rng(7)
    laws = [*STARTS, rng.dirichlet(np.ones(D))]
    counts = [oracle.simulate_counts(rng.multinomial(_N, law), rng) for law in laws]
    single = np.zeros(D, dtype=np.int64)
    single[3] = _N
    tied = np.full(D, _N // D)
    tied[-1] += _N % D
    far = np.array([0, _N // 2, 1, _N - _N // 2 - 1, 0, 0])
    if not isinstance(loss, MultinomialMLE):
        # Reports that support no value or all are possible too: far below 0, and far above 1.
        far = np.array([0, _N, 1, _N, _N // 2, 0])
    hostile = [tied, far, single]
    return oracle.estimate(np.stack([*counts, *hostile]), _N)


def failure_of(cell, chosen=slice(None)):
    """Return why one of a cell's answers is not certified; None if all are that exist.

    ``chosen`` are the places of the estimates that it gets: all of them, if not named.
    """
    loss = ALL_LOSSES[cell.loss]
    problem = Problem(loss, [ALL_CONSTRAINTS[name] for name in cell.constraints])
    estimates = estimates_of(loss)[chosen]
    answers = 0
    for estimate in estimates:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LdpoptWarning)
            try:
                solution = problem.solve(estimate)
            except (InfeasibleError, InvalidInputError):
                # The estimate keeps values at zero that the set needs, or has no minimum there.
                continue
        answers += 1
        certificate = solution.certificate
        f = solution.frequencies
        if np.isinf(certificate.gap):
            # Nothing bounds a minimum far away: a convex function least near a point is least.
            certificate = certify(within_reach(problem, estimate, f), estimate, f)
        if not certificate.is_optimal(1e-8, relative=True):
            share = float(certificate.gap / certificate.scale)
            return f"{solution.solver}: relative gap {share:.1e}"
    return None if answers else "no answer for any estimate"


def within_reach(problem, estimate, f):
    """Return the problem with bounds around a point, inside the domain of its loss."""
    start, end = problem.loss.domain(problem.loss.constants(estimate))
    low = max(float(f.min()) - 0.25, start + 1e-6)
    high = min(float(f.max()) + 0.25, end - 1e-6)
    return Problem(problem.loss, [*problem.constraints, Bounds(low, high)])


def claimed_cells():
    """Return the cells of the whole matrix that claim a closed form or a root."""
    return [cell for cell in coverage(every=True).cells if cell.has_form]


def test_triples_of_the_whole_matrix_are_certified():
    rng = np.random.default_rng(11)
    checked = 0
    while checked < 12:
        name = str(rng.choice([*ALL_LOSSES]))
        chosen = tuple(rng.choice([*ALL_CONSTRAINTS], 3, replace=False).tolist())
        cell = Cell(name, chosen, "closed form", "")
        problem = Problem(ALL_LOSSES[name], [ALL_CONSTRAINTS[kind] for kind in chosen])
        estimate = estimates_of(ALL_LOSSES[name])[0]
        try:
            is_claimed = problem.plan(estimate).path == "closed-form"
        except LdpoptError:
            # Constraints that contradict each other, or that no path takes together.
            continue
        if is_claimed:
            # In turns one of the three laws, and one of what is hostile.
            assert failure_of(cell, slice(checked % 3, None, 3)) is None, cell
            checked += 1


def test_the_rounding_of_a_total_leaves_tiny_frequencies_their_digits():
    """Those of 1e-16 have a logarithm of their own, which an equal share of it would change."""
    assert failure_of(Cell("LeastSquares + KLTo", ("Margins",), "one root", "")) is None


def test_the_command_prints_a_table_json_and_markdown():
    shown = run("coverage", "--up-to", "1")
    assert shown.status == 0
    assert all(short in shown.out for short in PATHS.values())
    assert "problems have a closed form or one root per total" in " ".join(shown.out.split())
    record = json.loads(run("coverage", "--up-to", "1", "--json").out)
    assert record["problems"] == len(record["cells"]) == 80
    assert record["cells"][0] == {
        "loss": "LeastSquares",
        "constraints": [],
        "path": "closed form",
        "name": "base",
    }
    assert run("coverage", "--up-to", "0", "--markdown").out.startswith("| constraints |")


def test_wrong_options_are_refused_with_a_sentence():
    with pytest.raises(InvalidInputError, match="up_to must be 0 to 3, got 4"):
        coverage(up_to=4)
    both = run("coverage", "--json", "--markdown")
    assert (both.status, both.out) == (2, "")
    assert "give one of them" in both.err


def main(first, step):
    """Print every cell, of each ``step`` one, that is not certified, and how many are."""
    cells = claimed_cells()[first::step]
    failures = {cell: failure for cell in cells if (failure := failure_of(cell)) is not None}
    for cell, failure in failures.items():
        print(cell.loss, "under", ", ".join(cell.constraints), "->", failure, flush=True)
    print(f"{len(cells) - len(failures):,} of {len(cells):,} cells are certified")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
