"""The ledger's engine and its references, by numbers computed by hand."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from ldpopt import closed_form
from ldpopt.claims.engine import agreement as engine
from ldpopt.claims.engine import wrong_points
from ldpopt.claims.engine.agreement import (
    Agreement,
    SolverRecord,
    _Reference,
    compare_with_solvers,
)
from ldpopt.claims.engine.batches import Case, batches, by_block, compare_joined
from ldpopt.claims.engine.claim import Claim, Finding, Verdict
from ldpopt.claims.engine.exactness import ExactRecord
from ldpopt.claims.engine.instances import (
    Instance,
    InstanceSet,
    binary_response,
    small_reports,
)
from ldpopt.claims.engine.measures import largest, relative_error, smallest
from ldpopt.claims.engine.run import Result, run_claim, to_json
from ldpopt.claims.engine.tolerances import GAP
from ldpopt.claims.reference.channels import (
    channel,
    count_law,
    has_uncorrelated_counts,
    marginal_law,
)
from ldpopt.claims.reference.multipliers import multiplier
from ldpopt.claims.reference.operations import operations
from ldpopt.claims.reference.rational import exact_solution
from ldpopt.claims.topics.equivalences import CLS, WEIGHTED_MLE, _apply_mle_apx
from ldpopt.claims.topics.errata import _zero_first
from ldpopt.constraints import (
    Bounds,
    Custom,
    GroupTotals,
    Linear,
    Monotone,
    NonNegative,
    SumsTo,
)
from ldpopt.errors import SolverError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import BinomialMLE, GaussianMLE, LeastSquares, WeightedLeastSquares
from ldpopt.oracles import GRR, ORACLES, OUE
from ldpopt.protocol import PureProtocol
from ldpopt.solve.certificate import certify
from ldpopt.solve.problem import Problem
from tests.tolerances import CERTIFIED, SIGMAS


@pytest.fixture(scope="module")
def instances():
    return InstanceSet(quick=True)


# --- one solver's point beside the closed form's --------------------------------------------------


def instance_of(*rows, kind="random", joined=1):
    """Return a stack of these vectors, reported through OUE by 1,000 users."""
    frequencies = np.array(rows)
    oracle = OUE(epsilon=1.0, d=frequencies.shape[-1])
    return Instance("by hand", kind, FrequencyEstimate(frequencies, 1_000, oracle), joined)


def reference(joined=1):
    """Return the reference of f̃ = (.8, .4): f' = (.7, .3), ½‖f' - f̃‖² = .01, μ = .1."""
    instance = instance_of([0.8, 0.4], joined=joined)
    points = np.array([[0.7, 0.3]])
    return _Reference.of(CLS, instance, points, certify(CLS, instance.estimate, points))


def solution(x, y, objective):
    return SimpleNamespace(frequencies=np.array([x, y]), objective=objective, iterations=3)


def test_a_reference_has_the_objective_the_curvature_and_the_price_of_a_violation():
    judged = reference()
    assert judged.value == pytest.approx([0.01])
    assert judged.curvature == pytest.approx([1.0])
    assert judged.price == pytest.approx([0.1])  # |μ|; no bound is active


def test_a_point_beside_the_optimum_is_as_far_as_its_objective_allows():
    # (e, -e) costs e², which allows sqrt(2 e²): its own length.
    e = 1e-4
    record = reference().judge((0,), solution(0.7 + e, 0.3 - e, 0.01 + e**2 / 1))
    assert (record.converged, record.not_converged) == (1, 0)
    assert record.difference == pytest.approx(e)
    assert record.ratio == pytest.approx(1.0, abs=1e-6)
    assert record.ratio <= 1
    assert record.below == 0
    assert record.closed.tolist() == [0.7, 0.3]
    assert record.solved.tolist() == [0.7 + e, 0.3 - e]


def test_a_point_farther_than_its_objective_allows_refutes_the_closed_form():
    record = reference().judge((0,), solution(0.7001, 0.2999, 0.01))
    assert record.ratio > 1_000
    assert not record.agrees


def test_an_objective_below_the_closed_forms_refutes_it():
    record = reference().judge((0,), solution(0.7, 0.3, 0.01 - 2.02e-7))
    assert record.below == pytest.approx(2e-7)  # over 1 + .01
    assert not record.agrees


def test_a_violation_explains_a_lower_objective_by_its_price():
    # The sum is off by 5e-7, which may lower the objective by .1 times that.
    objective = 0.5 * (0.01 + (0.1 - 5e-7) ** 2)
    record = reference().judge((0,), solution(0.7, 0.3 + 5e-7, objective))
    assert record.converged == 1
    assert record.below == pytest.approx(0.0, abs=1e-12)
    assert record.agrees


@pytest.mark.parametrize(
    ("point", "converged"),
    [
        (None, False),
        ((0.7, 0.3, 0.01 + 1.1e-6), False),
        ((0.7, 0.3, 0.01 + 0.9e-6), True),
        ((0.7, 0.3 + 1.1e-6, 0.01), False),
        ((0.7, 0.3 + 0.9e-6, 0.01), True),
    ],
    ids=["gave up", "objective above", "objective", "violation above", "violation"],
)
def test_a_solver_converges_if_its_point_is_as_good_as_the_closed_forms(point, converged):
    record = reference(joined=3).judge((0,), None if point is None else solution(*point))
    assert record.converged == (3 if converged else 0)
    assert record.not_converged == (0 if converged else 3)


def test_without_multipliers_the_gradient_prices_a_violation():
    instance = instance_of([0.8, 0.4])
    points = np.array([[0.7, 0.3]])
    certificate = SimpleNamespace(
        sum_multiplier=np.array([np.nan]),
        bound_multipliers=np.zeros((1, 2)),
        row_multipliers=np.zeros((1, 0)),
    )
    judged = _Reference.of(CLS, instance, points, certificate)
    assert judged.price == pytest.approx([0.2])  # |-.1| + |-.1|


def test_the_price_adds_all_multipliers_and_passes_over_undefined_ones():
    certificate = SimpleNamespace(
        sum_multiplier=np.array([-0.1]),
        bound_multipliers=np.array([[0.2, np.nan]]),
        row_multipliers=np.array([[-0.4]]),
    )
    instance = instance_of([0.8, 0.4])
    judged = _Reference.of(CLS, instance, np.array([[0.7, 0.3]]), certificate)
    assert judged.price == pytest.approx([0.7])


def test_a_flat_loss_allows_any_distance(monkeypatch):
    monkeypatch.setattr(LeastSquares, "curvature", lambda self, *limits, **named: np.zeros((1, 2)))
    record = reference().judge((0,), solution(0.2, 0.8, 0.01))
    assert record.ratio == 0
    assert record.agrees


def test_the_curvature_holds_for_all_values_up_to_one_or_to_the_largest(monkeypatch):
    limits = []

    def curvature(self, estimate, lower=-math.inf, upper=math.inf):
        if np.ndim(upper) == 0:  # certificates ask with a limit per value
            limits.append((lower, upper))
        return np.ones((1, 2))

    monkeypatch.setattr(LeastSquares, "curvature", curvature)
    reference()
    instance = instance_of([3.0, 0.4])
    points = instance.estimate.frequencies
    _Reference.of(CLS, instance, points, certify(CLS, instance.estimate, points))
    assert limits == [(0.0, 1.0), (0.0, 3.0)]


@pytest.mark.parametrize(
    ("p", "q", "raw", "curvature"),
    [
        # a = 3, b = 1: 2 (3 - 1)²/(3 + 1)³ at the smallest f̃ and the largest f.
        (0.5, 0.25, [0.5, -1.0], 0.125),
        # a = 4, b = -1: 2 (4 - 1)²/4³ at the largest f̃ and f = 0.
        (0.75, 0.5, [1.0, 0.0], 0.28125),
    ],
    ids=["variance rises", "variance falls"],
)
def test_the_curvature_of_the_weighted_likelihood_by_hand(p, q, raw, curvature):
    estimate = FrequencyEstimate(np.array(raw), 100, PureProtocol(1.0, 2, p=p, q=q))
    assert GaussianMLE().curvature(estimate, 0.0, 1.0).min() == pytest.approx(curvature)


# --- records and agreements -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "agrees"),
    [
        (SolverRecord(converged=9, not_converged=1), True),
        (SolverRecord(converged=8, not_converged=1), False),
        (SolverRecord(converged=1, not_converged=9), False),
        (SolverRecord(), False),
        (SolverRecord(converged=1, ratio=1.0, below=1e-7), True),
        (SolverRecord(converged=1, ratio=1.01), False),
        (SolverRecord(converged=1, ratio=math.nan), False),
        (SolverRecord(converged=1, below=1.1e-7), False),
        (SolverRecord(converged=1, below=math.nan), False),
        # Half of the points may be the closed form's own, unless no iteration was needed.
        (SolverRecord(converged=4, steps=9, points=4, identical=2), True),
        (SolverRecord(converged=4, steps=9, points=4, identical=3), False),
        (SolverRecord(converged=4, steps=0, points=4, identical=0), True),
        (SolverRecord(converged=4, steps=0, points=4, identical=1), False),
    ],
)
def test_a_solver_agrees_if_it_converges_on_nine_of_ten_and_always_to_the_same_point(
    record, agrees
):
    assert record.agrees == agrees


@pytest.mark.parametrize(
    ("changes", "holds"),
    [
        ({}, True),
        ({"vectors": 0}, False),
        ({"gap": 1e-12, "violation": 1e-12}, True),
        ({"gap": 1.1e-12}, False),
        ({"gap": math.nan}, False),
        ({"violation": 1.1e-12}, False),
        ({"violation": math.nan}, False),
        ({"exact": ExactRecord(1, distance=1e-12)}, True),
        ({"exact": ExactRecord(1, distance=1.1e-12)}, False),
        ({"exact": ExactRecord(1, distance=math.nan)}, False),
        ({"planted": 3, "refused": 3}, True),
        ({"planted": 3, "refused": 2}, False),
        ({"solvers": {}}, True),  # certified alone
        ({"solvers": {"A": SolverRecord(1), "B": SolverRecord(0, 1)}}, False),
    ],
)
def test_an_agreement_holds_if_it_is_certified_and_all_solvers_agree(changes, holds):
    fields = {"vectors": 1, "solvers": {"A": SolverRecord(1)}, **changes}
    assert Agreement(**fields).holds == holds


def record(converged, not_converged, difference, ratio, below, closed, solved):
    return SolverRecord(
        converged,
        not_converged,
        difference,
        ratio,
        below,
        steps=10 * converged,
        points=converged,
        closed=np.array(closed),
        solved=np.array(solved),
    )


def test_merged_agreements_add_up_and_keep_the_worst_numbers():
    first = Agreement(
        vectors=2,
        gap=0.1,
        violation=0.4,
        exact=ExactRecord(1, 0.5, 3.0),
        planted=3,
        refused=3,
        solvers={"A": record(3, 1, 0.5, 0.25, 0.125, [1.0], [2.0])},
        unconfirmed=["x"],
    )
    second = Agreement(
        vectors=5,
        gap=0.2,
        violation=0.3,
        exact=ExactRecord(2, 0.25, 4.0),
        planted=6,
        refused=5,
        solvers={"A": record(4, 2, 0.25, 0.5, 0.25, [3.0], [4.0]), "B": SolverRecord(1)},
        unconfirmed=["y"],
    )
    merged = Agreement.merged([first, second])
    assert (merged.vectors, merged.gap, merged.violation) == (7, 0.2, 0.4)
    assert merged.exact == ExactRecord(3, 0.5, 4.0)
    assert (merged.planted, merged.refused) == (9, 8)
    assert merged.unconfirmed == ["x", "y"]
    assert list(merged.solvers) == ["A", "B"]
    total = merged.solvers["A"]
    assert (total.converged, total.not_converged) == (7, 3)
    assert (total.steps, total.points) == (70, 7)
    assert (total.difference, total.ratio, total.below) == (0.5, 0.5, 0.25)
    assert total.closed.tolist() == [1.0, 3.0]
    assert total.solved.tolist() == [2.0, 4.0]
    assert first.solvers["A"].converged == 3  # the parts stay as they were


def test_merging_keeps_nan():
    for parts in ([Agreement(gap=math.nan), Agreement()], [Agreement(), Agreement(gap=math.nan)]):
        assert math.isnan(Agreement.merged(parts).gap)
    bad = Agreement(solvers={"A": SolverRecord(1, ratio=math.nan)})
    good = Agreement(solvers={"A": SolverRecord(1)})
    assert math.isnan(Agreement.merged([bad, good]).solvers["A"].ratio)


def test_a_picture_keeps_so_many_coordinates(monkeypatch):
    monkeypatch.setattr(engine, "_PLOTTED", 3)
    total = SolverRecord()
    for start in (0.0, 2.0, 4.0):
        total.add(record(1, 0, 0, 0, 0, [start, start + 1], [start, start + 1]))
    assert total.closed.tolist() == total.solved.tolist() == [0.0, 1.0, 2.0]


def test_evidence_names_every_number():
    agreement = Agreement(
        vectors=12,
        gap=0.1,
        violation=0.2,
        exact=ExactRecord(11, 0.01, 2.0),
        planted=7,
        refused=6,
        solvers={
            "A": record(9, 1, 0.3, 0.4, 0.5, [], []),
            "B": SolverRecord(),
        },
        unconfirmed=["emoji", "zipf"],
    )
    assert agreement.evidence == {
        "vectors certified by the closed form's own gap": 12,
        "closed form's largest gap": 0.1,
        "closed form's largest violation": 0.2,
        "vectors compared with the exact minimiser, a rational number": 11,
        "largest distance to it, in units in the last place": 2.0,
        "the same in frequency": 0.01,
        "wrong points that the certificate refused": "6 of 7",
        "vectors solved by A": 9,
        "vectors solved by B": 0,
        "iterations of A": 90,
        "iterations of B": 0,
        "points of A, one per solve": 9,
        "points of B, one per solve": 0,
        "points of A that are the closed form's in every bit": 0,
        "points of B that are the closed form's in every bit": 0,
        "vectors on which A gave up or was inaccurate": 1,
        "largest difference to A, in frequency": 0.3,
        "largest distance to A over what its objective allows": 0.4,
        "largest advantage of A in the objective, relative": 0.5,
        "real instances with fewer than two solvers": "emoji, zipf",
    }


# --- comparisons ----------------------------------------------------------------------------------


def norm_sub(estimate):
    return closed_form.norm_sub(estimate.frequencies)


@pytest.fixture
def fake_solvers(monkeypatch):
    """Replace the solvers: RIGHT returns Norm-Sub's point, every other name gives up."""
    calls = []

    def solve(self, estimate, path, solver, **options):
        calls.append((solver, path, estimate.d, options))
        if solver != "RIGHT":
            raise SolverError("no point")
        f = norm_sub(estimate)
        return SimpleNamespace(
            frequencies=f, objective=float(self.loss.value(f, estimate)), iterations=1
        )

    monkeypatch.setattr(Problem, "solve", solve)
    return calls


def test_every_vector_goes_to_every_solver_with_its_options(fake_solvers):
    pair = instance_of([0.8, 0.4], [0.5, 0.2])
    agreement = compare_with_solvers(
        CLS, norm_sub, [pair], ("RIGHT", "WRONG"), options={"RIGHT": {"steps": 7}}
    )
    assert agreement.vectors == 2
    assert agreement.solvers["RIGHT"].converged == 2
    assert agreement.solvers["WRONG"].not_converged == 2
    assert (
        fake_solvers == [("RIGHT", "conic", 2, {"steps": 7})] * 2 + [("WRONG", "conic", 2, {})] * 2
    )
    assert not agreement.holds


@pytest.mark.parametrize(("kind", "given"), [("random", 2), ("adversarial", 5), ("real", 5)])
def test_solvers_get_two_vectors_of_a_random_stack_and_certificates_all(fake_solvers, kind, given):
    stack = instance_of(*[[0.8, 0.4 + k / 16] for k in range(5)], kind=kind)
    agreement = compare_with_solvers(CLS, norm_sub, [stack], ("RIGHT",))
    assert agreement.solvers["RIGHT"].converged == given
    assert agreement.vectors == agreement.exact.vectors == 5


def test_a_solver_that_returns_the_closed_forms_own_points_is_refused(fake_solvers):
    # Binary fractions: a vector and a stack of one have the same bits.
    agreement = compare_with_solvers(CLS, norm_sub, [instance_of([0.75, 0.5])], ("RIGHT",))
    record = agreement.solvers["RIGHT"]
    assert (record.points, record.identical, record.steps) == (1, 1, 1)
    assert record.ratio == 0
    assert not agreement.holds


def test_a_certificate_that_accepts_everything_is_refused(monkeypatch):
    stack = instance_of([0.8, 0.4])
    assert compare_with_solvers(CLS, norm_sub, [stack], ()).holds

    def blind(problem, estimate, points):
        nothing = np.zeros(len(points))
        return SimpleNamespace(gap=nothing, violation=nothing)

    monkeypatch.setattr(wrong_points, "certify", blind)
    agreement = compare_with_solvers(CLS, norm_sub, [stack], ())
    assert (agreement.planted, agreement.refused) == (3, 0)
    assert not agreement.holds


def test_a_point_beside_the_exact_minimiser_is_refused_although_its_gap_is_small():
    # 1e-9 from its place: the gap is of second order, and far below what rounding may leave.
    stack = instance_of([0.8, 0.4])
    agreement = compare_with_solvers(
        CLS, lambda e: norm_sub(e) + np.array([1e-9, -1e-9]), [stack], ()
    )
    assert agreement.gap < GAP
    assert agreement.exact.distance == pytest.approx(1e-9)
    assert not agreement.holds


def test_exact_minimisers_are_computed_where_they_are_rational():
    stack = instance_of(*[[0.8, 0.4, 0.1]] * 6).estimate
    points = norm_sub(stack)
    assert ExactRecord.of(CLS, stack, points).vectors == 6
    assert ExactRecord.of(WEIGHTED_MLE, stack, points).vectors == 6
    likelihood = Problem(BinomialMLE(), CLS.constraints)
    assert ExactRecord.of(likelihood, stack, points) == ExactRecord()
    # On other polyhedra the first four vectors stand for the stack.
    ranked = Problem(LeastSquares(), [*CLS.constraints, Monotone([0, 1, 2])])
    assert ExactRecord.of(ranked, stack, points).vectors == 4
    assert ExactRecord.of(ranked, stack, points).ulps < 4


def test_a_solver_is_not_given_vectors_beyond_its_limit(fake_solvers):
    stacks = [instance_of([0.8, 0.4]), instance_of([0.8, 0.4, 0.1])]
    agreement = compare_with_solvers(CLS, norm_sub, stacks, ("RIGHT",), largest={"RIGHT": 2})
    assert [d for _, _, d, _ in fake_solvers] == [2]
    assert agreement.vectors == 2
    assert agreement.solvers["RIGHT"].converged == 1


@pytest.mark.parametrize(
    ("kind", "solvers", "unconfirmed"),
    [
        ("real", ("RIGHT", "RIGHT"), []),
        ("real", ("RIGHT", "WRONG"), ["by hand"]),
        ("random", ("RIGHT", "WRONG"), []),
    ],
)
def test_real_instances_that_two_solvers_do_not_confirm_are_named(
    fake_solvers, kind, solvers, unconfirmed
):
    stack = instance_of([0.8, 0.4], kind=kind)
    assert compare_with_solvers(CLS, norm_sub, [stack], solvers).unconfirmed == unconfirmed


def test_a_gap_is_relative_to_the_gradient():
    # f̃ = (1001, 0), f' = (1, 0): the gradient is 1000, and 1e-6 of mass costs 1e-3.
    stack = instance_of([1001.0, 0.0])
    agreement = compare_with_solvers(CLS, lambda e: np.array([[1 - 1e-6, 1e-6]]), [stack], ())
    assert agreement.gap == pytest.approx(1e-6, rel=1e-2)
    assert agreement.violation < CERTIFIED
    off = compare_with_solvers(CLS, lambda e: np.array([[1.0, 1e-3]]), [stack], ())
    assert off.violation == pytest.approx(1e-3)


def test_the_largest_gap_of_all_instances_counts():
    good = instance_of([0.8, 0.4])
    bad = instance_of([0.5, 0.2, -0.01])
    for stacks in ([good, bad], [bad, good]):
        agreement = compare_with_solvers(CLS, lambda e: _zero_first(e.frequencies), stacks, ())
        # The true rise is .0065.
        assert agreement.gap > 0.006
        assert agreement.vectors == 2


def test_a_closed_form_without_numbers_is_caught(monkeypatch, instances):
    monkeypatch.setattr(GaussianMLE, "gradient", lambda self, f, estimate: np.full_like(f, np.nan))
    stack = instances.adversarial[:1]
    assert not compare_with_solvers(WEIGHTED_MLE, _apply_mle_apx, stack, ("CLARABEL",)).holds


# --- vectors end to end ---------------------------------------------------------------------------


def test_batches_hold_whole_vectors_in_their_order():
    rows = np.arange(70.0 * 7).reshape(70, 7)
    oracle = GRR(epsilon=1.0, d=7)
    stack = Instance("stack", "random", FrequencyEstimate(rows, 50, oracle))
    first, second = batches(stack)  # 224/7 = 32 vectors each; six are left over
    assert first.vectors == second.vectors == 32
    assert (first.name, first.kind) == ("stack", "random")
    assert first.estimate.frequencies.tolist() == [list(map(float, range(224)))]
    assert second.estimate.frequencies[0, 0] == 224
    protocol = first.estimate.noise.protocol
    assert (protocol.p, protocol.q, protocol.d) == (oracle.p, oracle.q, 224)
    assert first.estimate.n == 50


def test_a_closed_form_of_blocks_takes_each_vector_by_itself():
    stack = instance_of([0.8, 0.4, 0.5, 0.2])
    seen = []

    def closed(estimate):
        seen.append((estimate.frequencies.tolist(), estimate.n, estimate.d))
        return norm_sub(estimate)

    joined = by_block(closed, 2)(stack.estimate)
    assert seen == [([[0.8, 0.4], [0.5, 0.2]], 1_000, 2)]
    assert joined == pytest.approx(np.array([[0.7, 0.3, 0.65, 0.35]]))


def test_a_joined_problem_has_every_constraint_in_every_block():
    weights = np.array([1.0, 2.0])
    case = Case(
        Problem(
            WeightedLeastSquares(weights),
            [
                Bounds([0.0, 0.1], [0.8, 0.9]),
                GroupTotals([[0], [1]], [0.4, 0.6]),
                Linear([[1.0, -1.0]], [-0.5], [0.25]),
            ],
        ),
        norm_sub,
        tiled_loss=lambda copies: WeightedLeastSquares(np.tile(weights, copies)),
    )
    problem = case.joined(d=2, copies=2)
    assert problem.loss.weights.tolist() == [1.0, 2.0, 1.0, 2.0]
    bounds, groups, differences = problem.constraints
    lower, upper = bounds.box(4)
    assert lower.tolist() == [0.0, 0.1, 0.0, 0.1]
    assert upper.tolist() == [0.8, 0.9, 0.8, 0.9]
    rows = groups.rows(4)
    assert rows.matrix.toarray().tolist() == np.eye(4).tolist()
    assert rows.lower.tolist() == rows.upper.tolist() == [0.4, 0.6, 0.4, 0.6]
    rows = differences.rows(4)
    assert rows.matrix.toarray().tolist() == [[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]]
    assert (rows.lower.tolist(), rows.upper.tolist()) == ([-0.5, -0.5], [0.25, 0.25])


def test_a_constraint_without_rows_cannot_be_joined():
    case = Case(Problem(LeastSquares(), [Custom(lambda f: [f[0] >= f[1]])]), norm_sub)
    with pytest.raises(TypeError, match="cannot be joined"):
        case.joined(d=2, copies=2)


def test_a_wrong_projection_of_joined_vectors_is_caught(instances):
    wrong = Case(CLS, lambda e: _zero_first(e.frequencies))
    assert compare_joined(Case(CLS, norm_sub), instances.crowd, ("CLARABEL",)).holds
    assert not compare_joined(wrong, instances.crowd, ("CLARABEL",)).holds


# --- findings and results -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("holds", "more", "verdict"),
    [
        (True, {}, Verdict.HOLDS),
        (True, {"corrected": True}, Verdict.HOLDS),
        (True, {"proof": "Simplex.v: cls"}, Verdict.PROVED),
        (False, {"corrected": True}, Verdict.CORRECTED),
        (False, {"corrected": False}, Verdict.FAILS),
        (False, {}, Verdict.FAILS),
        (False, {"proof": "Simplex.v: cls"}, Verdict.FAILS),
        (None, {}, Verdict.INCONCLUSIVE),
        (None, {"corrected": True}, Verdict.INCONCLUSIVE),
        (None, {"proof": "Simplex.v: cls"}, Verdict.INCONCLUSIVE),
        (None, {"missing": "the data"}, Verdict.UNCHECKED),
    ],
)
def test_the_verdict_follows_from_what_was_found(holds, more, verdict):
    assert Finding(holds, 1, {}, **more).verdict is verdict


@pytest.mark.parametrize(
    "more", [{}, {"corrected": True}, {"corrected": False}, {"proof": "Simplex.v: cls"}]
)
@pytest.mark.parametrize("holds", [True, False])
def test_nothing_is_decided_on_no_instances(holds, more):
    assert Finding(holds, 0, {}, **more).verdict is Verdict.INCONCLUSIVE


def test_an_undefined_number_is_no_evidence_for_a_statement():
    evidence = {"largest error": math.nan}
    assert Finding(True, 1, evidence).verdict is Verdict.INCONCLUSIVE
    assert Finding(True, 1, evidence, proof="Simplex.v: cls").verdict is Verdict.INCONCLUSIVE
    assert Finding(False, 1, evidence, corrected=True).verdict is Verdict.INCONCLUSIVE
    # It may be what contradicts one.
    assert Finding(False, 1, evidence).verdict is Verdict.FAILS


@pytest.mark.parametrize("holds", [True, False])
def test_what_lacks_something_decides_nothing(holds):
    with pytest.raises(ValueError, match="lacks the data cannot decide"):
        Finding(holds, 1, {}, missing="the data")


def test_a_finding_of_an_agreement_shows_it():
    agreement = Agreement(vectors=3, gap=1.0)
    finding = Finding.of(agreement)
    assert not finding.holds
    assert finding.instances == 3
    assert finding.evidence == agreement.evidence
    assert finding.agreement is agreement


def toy(verdict, evidence):
    claim = Claim("toy", "N I", "A toy.", verdict, lambda instances: Finding(True, 2, evidence))
    return run_claim(claim, InstanceSet(quick=True))


def test_a_result_compares_the_verdict_with_the_expected_one():
    assert toy(Verdict.HOLDS, {}).as_expected
    assert not toy(Verdict.FAILS, {}).as_expected
    assert 0 <= toy(Verdict.HOLDS, {}).seconds < 60
    finding = Finding(False, 1, {}, corrected=True)
    assert Result(toy(Verdict.CORRECTED, {}).claim, finding, 0.0).as_expected


def test_a_check_that_returns_no_finding_is_never_as_expected():
    claim = Claim("toy", "N I", "A toy.", Verdict.INCONCLUSIVE, lambda instances: True)
    result = run_claim(claim, InstanceSet(quick=True))
    assert result.raised.startswith("TypeError: the check returned bool, and not a Finding (run.py")
    assert result.finding.verdict is Verdict.INCONCLUSIVE
    assert not result.as_expected


def test_json_writes_what_is_not_finite_as_text():
    (row,) = json.loads(to_json([toy(Verdict.FAILS, {"x": math.inf, "y": 1.5, "z": math.nan})]))
    assert row == {
        "id": "toy",
        "source": "N I",
        "statement": "A toy.",
        "verdict": "inconclusive",
        "expected": "fails",
        "instances": 2,
        "evidence": {"x": "inf", "y": 1.5, "z": "nan"},
    }


# --- instances ------------------------------------------------------------------------------------


def test_same_seed_gives_the_same_instances_and_another_one_others(instances):
    again = InstanceSet(quick=True)
    other = InstanceSet(quick=True, seed=1)
    for name in ("random", "crowd", "adversarial"):
        for first, second in zip(getattr(instances, name), getattr(again, name), strict=True):
            assert np.array_equal(first.estimate.frequencies, second.estimate.frequencies)
    first, second = (s.random[0].estimate.frequencies for s in (instances, other))
    assert not np.array_equal(first, second)


def test_random_instances_cover_all_oracles_and_sizes(instances):
    for stacks, sizes in ((instances.random, {2, 7, 32}), (instances.crowd, {7})):
        assert {(type(i.estimate.oracle), i.estimate.d) for i in stacks} == {
            (type(make(1.0, d)), d) for make in ORACLES.values() for d in sizes
        }
    assert {i.vectors for i in instances.random} == {2}
    assert {i.vectors for i in instances.crowd} == {32}


def test_real_instances_have_the_papers_users_where_these_are_drawn_at_once(instances):
    users = {i.name: i.estimate.n for i in instances.real}
    assert users["emoji oue"] == 884_427
    assert min(users.values()) == 30_000  # drawn one by one
    assert len(users) == len(ORACLES)


def test_adversarial_instances_have_variances_that_rise_stay_and_fall(instances):
    signs = {np.sign(round(i.estimate.noise.kappa, 9)) for i in instances.adversarial}
    assert signs >= {0, 1}
    assert {i.estimate.d for i in instances.adversarial} == {4, 16, 64}
    assert any((i.estimate.frequencies <= 0).all(axis=-1).any() for i in instances.adversarial)


def test_the_edge_cases_are_among_the_instances(instances):
    rows = [row for instance in instances.adversarial for row in instance.estimate.frequencies]
    assert any((row == 0).all() for row in rows)
    assert any((row < 0).all() for row in rows)
    assert any((row == row[0]).all() and row.sum() == 1 for row in rows)
    # A zero beside the smallest numbers, and sums that overflow.
    assert any(row.min() == 0 and row.max() < 1e-299 for row in instances.extreme)
    with np.errstate(over="ignore"):
        assert any(np.isinf(np.abs(row).sum()) for row in instances.extreme)


def test_a_part_of_an_instance_keeps_its_protocol():
    stack = instance_of([0.8, 0.4], [0.5, 0.2], joined=3)
    part = stack.where(np.array([False, True]))
    assert part.estimate.frequencies.tolist() == [[0.5, 0.2]]
    assert part.estimate.n == 1_000
    assert part.estimate.noise.protocol is stack.estimate.noise.protocol
    assert (stack.vectors, part.vectors) == (6, 3)


def test_the_small_population_and_the_binary_response():
    oracle, users = small_reports()
    assert (type(oracle), oracle.d, oracle.epsilon) == (OUE, 8, 1.0)
    assert users.sum() == 10_000
    assert users[0] / users[1] == pytest.approx(8, rel=1e-2)  # k^-3
    binary = binary_response(0.7)
    assert binary.p + binary.q == pytest.approx(1.0)
    assert binary.epsilon == 0.7


# --- references -----------------------------------------------------------------------------------


def test_exact_solution_by_hand():
    # One third of the missing mass .31 to each of three values.
    assert exact_solution(np.array([0.5, 0.2, -0.01]), 0.0) == pytest.approx(
        [0.5 + 0.31 / 3, 0.2 + 0.31 / 3, 0.28 / 3]
    )
    # The second value stays below 0: (1 + t)/(1 - κt) = 1 with t = 0.
    assert exact_solution(np.array([1.0, -2.0]), 0.3).tolist() == [1.0, 0.0]
    # The third value would rise to -1.4 with an equal share: the two others give .1 each.
    assert exact_solution(np.array([0.7, 0.5, -2.0]), 0.0) == pytest.approx([0.6, 0.4, 0.0])
    # t = (1 - .4)/(2 + .5) = .24 and 1 - κt = .88.
    assert exact_solution(np.array([0.3, 0.1]), 0.5) == pytest.approx([0.54 / 0.88, 0.34 / 0.88])


def test_the_multiplier_by_hand():
    # (.7 + t)/(1 - t/2) = 1 has t = .2, read off the larger value in either place.
    solution_ = np.array([[1.0, 0.0], [0.0, 1.0]])
    raw = np.array([[0.7, -0.5], [-0.5, 0.7]])
    assert multiplier(solution_, raw, kappa=0.5) == pytest.approx([0.2, 0.2])
    assert multiplier(solution_, raw, kappa=0.0) == pytest.approx([0.3, 0.3])


@pytest.mark.parametrize("measure", [largest, smallest])
def test_nan_is_neither_large_nor_small_enough(measure):
    assert math.isnan(measure([1.0, math.nan]))
    assert math.isnan(measure([math.nan, 1.0]))


def test_relative_errors_by_hand():
    assert relative_error([1.0, 3.0], [2.0, 2.0]) == 0.5
    assert relative_error(0.5, 2.0) == 0.75


def test_the_channel_of_randomised_response_by_hand():
    law = channel(GRR(epsilon=math.log(2), d=3))  # p = 2/4, q = 1/4
    assert law.supports.tolist() == np.eye(3, dtype=bool).tolist()
    assert law.probability == pytest.approx(0.25 + 0.25 * np.eye(3))
    assert law.expectation == pytest.approx(0.25 + 0.25 * np.eye(3))
    assert law.privacy_loss == pytest.approx(math.log(2))
    # All users have value 0: variances p(1-p), q(1-q), and -pq, -q² between them.
    assert law.covariance(np.array([1.0, 0.0, 0.0])) == pytest.approx(
        np.array([[0.25, -0.125, -0.125], [-0.125, 0.1875, -0.0625], [-0.125, -0.0625, 0.1875]])
    )


def test_the_channel_of_unary_encoding_by_hand():
    oracle = OUE(epsilon=math.log(3), d=2)  # p = 1/2, q = 1/4
    law = channel(oracle)
    by_support = {
        tuple(s): row
        for s, row in zip(law.supports.tolist(), law.probability.tolist(), strict=True)
    }
    assert by_support[True, True] == pytest.approx([0.125, 0.125])
    assert by_support[True, False] == pytest.approx([0.375, 0.125])
    assert by_support[False, False] == pytest.approx([0.375, 0.375])


@pytest.mark.parametrize("name", ORACLES)
def test_enumerated_reports_agree_with_the_client(name):
    oracle = ORACLES[name](1.0, 4)
    users = 40_000
    law = channel(oracle)
    assert law.probability.sum(axis=0) == pytest.approx(np.ones(4), abs=CERTIFIED)
    sizes = law.supports.sum(axis=1)
    mean = law.probability[:, 2] @ sizes
    sd = np.sqrt(law.probability[:, 2] @ (sizes - mean) ** 2 / users)
    reports = oracle.perturb(np.full(users, 2), rng=0)
    measured = oracle.support_counts(reports).sum() / users
    assert abs(measured - mean) <= SIGMAS * sd + CERTIFIED


def test_unary_encoding_and_hashing_have_uncorrelated_counts():
    names = {name for name, make in ORACLES.items() if has_uncorrelated_counts(make(1.0, 4))}
    assert names == {"sue", "oue", "olh", "blh"}


def test_the_law_of_one_count_by_hand():
    # One of two users has the value: it supports with 1/2, the other one with 1/4.
    law = marginal_law(OUE(epsilon=math.log(3), d=2), n=2, owners=1)
    assert law == pytest.approx([0.375, 0.5, 0.125])


def test_the_joint_law_of_counts_by_hand():
    # Randomised response with 3/4 and 1/4: both users keep their values with 9/16.
    counts, weights = count_law(GRR(epsilon=math.log(3), d=2), np.array([1, 1]))
    assert counts.tolist() == [[0, 2], [1, 1], [2, 0]]
    assert weights == pytest.approx([3 / 16, 10 / 16, 3 / 16])


def test_the_joint_law_of_counts_has_the_marginal_one():
    oracle = ORACLES["ss"](0.5, 5)
    users = np.array([3, 0, 1, 0, 1])
    counts, weights = count_law(oracle, users)
    for value, owners in enumerate(users):
        marginal = np.bincount(counts[:, value], weights, minlength=6)
        assert marginal == pytest.approx(marginal_law(oracle, 5, owners), abs=CERTIFIED)


def test_operations_are_counted_and_change_nothing():
    f = np.array([0.5, 0.2, -0.01, 0.4])
    assert operations(lambda x: np.maximum(x, 0.0).sum(), f) == 8
    assert operations(np.sort, f) == 8  # 4 log2 4
    assert operations(lambda x: x[x > 0.3], f) == 4 + 4
    assert operations(lambda x: np.maximum(x, 0.0) + x[:2].sum(), f) == 4 + 1 + 2 + 4
    seen = []
    operations(lambda x: seen.append(np.asarray(norm_sub_of(x))), f)
    assert np.array_equal(seen[0], norm_sub_of(f))


def norm_sub_of(f):
    return closed_form.norm_sub(f)


def test_problems_of_the_ledger_are_least_squares_and_the_weighted_likelihood_on_the_simplex():
    assert repr(CLS) == repr(Problem(LeastSquares(), [NonNegative(), SumsTo(1.0)]))
    assert repr(WEIGHTED_MLE) == repr(Problem(GaussianMLE(), [NonNegative(), SumsTo(1.0)]))
