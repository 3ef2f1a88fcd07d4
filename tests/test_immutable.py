"""Losses and constraints stay as they were built: through writes, rebinding, copies and pickles."""

import copy
import gc
import inspect
import pickle
from dataclasses import FrozenInstanceError

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from ldpopt import METHODS, FrequencyEstimate, Problem, losses, oracles, priors
from ldpopt.constraints import (
    AtMost,
    Bounds,
    Constraint,
    Custom,
    Fixed,
    GroupTotals,
    Hierarchy,
    HierarchyTotals,
    Linear,
    Margins,
    Monotone,
    Near,
    NonNegative,
    Smooth,
    SumsTo,
    TopSet,
    Unimodal,
)
from ldpopt.errors import InvalidInputError
from ldpopt.immutable import Immutable, derived_property
from ldpopt.losses.normalised import TiltedGaussianMLE


def first_above_second(f):
    return [f[0] >= f[1]]


def squares(f, y):
    return cp.sum_squares(f - y)


REPORTS = {
    oracle: oracle.perturb([0, 1, 2, 2] * 25, rng=0)
    for oracle in (
        oracles.GRR(epsilon=1.0, d=3),
        oracles.OUE(epsilon=1.0, d=3),
        oracles.OLH(epsilon=1.0, d=3),
        oracles.SubsetSelection(epsilon=1.0, d=3),
        oracles.HadamardResponse(epsilon=1.0, d=3),
    )
}
GRR = next(iter(REPORTS))

LOSSES = [
    losses.LeastSquares(),
    losses.WeightedLeastSquares([1.0, 2.0, 3.0]),
    losses.GaussianMLE(),
    losses.NormalisedGaussianMLE(),
    TiltedGaussianMLE(np.array([0.1, 0.2, 0.3])),
    losses.BinomialMLE(),
    losses.MultinomialMLE(),
    losses.KullbackLeibler(),
    losses.LeastAbsolute(),
    losses.PosteriorMean(priors.PowerLaw),
    losses.PerReportMLE(GRR, REPORTS[GRR]),
    losses.Huber(0.1),
    losses.L1To([0.5, 0.25, 0.25]),
    losses.KLTo([0.5, 0.25, 0.25]),
    losses.Entropy(),
    losses.MaxAbsolute(),
    losses.TotalVariation([2, 0, 1]),
    losses.GroupNorm([[0, 1], [2]]),
    losses.LeastSquares() + 0.5 * losses.TotalVariation(),
    losses.Custom(squares, name="squares"),
]
CONSTRAINTS = [
    NonNegative(),
    SumsTo(1.0),
    Bounds([0.0, 0.1, 0.2], 0.5),
    Fixed([1], [0.25]),
    Monotone([2, 0, 1]),
    Monotone([(0, 1), (0, 2)]),
    Unimodal(1),
    Smooth(total_variation=0.5),
    GroupTotals([[0, 1], [2]], [0.5, 0.5]),
    Hierarchy([-1, 0, 0], total=1.0),
    AtMost(2),
    Linear([[1.0, -1.0, 0.0]], lower=0.0),
    Near([0.5, 0.25, 0.25], 0.1),
    TopSet([2]),
    Margins((3, 1), 0, [0.5, 0.25, 0.25]),
    HierarchyTotals([[0, 0, 1]], [[0.5, float("nan")]]),
    Custom(first_above_second),
]
CUSTOM = [LOSSES[-1], CONSTRAINTS[-1]]
EVERYTHING = [*LOSSES, *CONSTRAINTS]


def arrays_of(thing):
    """Return every array that an object holds, those in its tuples too."""
    held = [
        x for value in vars(thing).values() for x in (value if type(value) is tuple else [value])
    ]
    return [x for x in held if isinstance(x, np.ndarray)]


def copies(thing):
    """Return an object, its copies and its pickle; operators on reports do not pickle."""
    yield thing
    yield copy.copy(thing)
    if not isinstance(thing, losses.PerReportMLE):
        yield copy.deepcopy(thing)
        yield pickle.loads(pickle.dumps(thing))


@pytest.mark.parametrize("thing", EVERYTHING, ids=repr)
def test_nothing_can_be_set_added_or_deleted(thing):
    for same in copies(thing):
        for name in [*vars(thing), "value", "violation", "weihgts"]:
            with pytest.raises(FrozenInstanceError, match=f"immutable.*'{name}'.*build a new"):
                setattr(same, name, None)
            with pytest.raises(AttributeError):
                delattr(same, name)
        assert repr(same) == repr(thing)


@pytest.mark.parametrize("thing", EVERYTHING, ids=repr)
def test_no_array_can_be_written_to(thing):
    for same in copies(thing):
        assert len(arrays_of(same)) == len(arrays_of(thing))
        for array in arrays_of(same):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0


def test_the_objects_that_take_arrays_hold_some():
    taking = (losses.WeightedLeastSquares, TiltedGaussianMLE, Bounds, Fixed, Monotone)
    taking += (GroupTotals, Hierarchy, HierarchyTotals, Linear, Margins, Near, TopSet)
    taking += (losses.L1To, losses.KLTo, losses.TotalVariation, losses.GroupNorm)
    assert {type(thing) for thing in EVERYTHING if arrays_of(thing)} == set(taking)


@pytest.mark.parametrize("thing", EVERYTHING, ids=repr)
def test_an_object_equals_itself_alone_and_is_a_key(thing):
    assert {thing: 1}[thing] == 1
    assert thing != copy.copy(thing)


def test_the_weights_that_were_passed_can_be_changed_without_effect():
    weights = np.array([1.0, 2.0, 3.0])
    loss = losses.WeightedLeastSquares(weights)
    weights[:] = 7.0
    assert loss.weights.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("build", "given"),
    [
        (lambda x: Bounds(x, 9.0), [0.0, 0.1, 0.2]),
        (lambda x: Bounds(-9.0, x), [0.0, 0.1, 0.2]),
        (lambda x: Fixed([0, 1, 2], x), [0.0, 0.1, 0.2]),
        (lambda x: Fixed(x, [0.1, 0.2]), [0, 1]),
        (Monotone, [2, 0, 1]),
        (Monotone, [[0, 1], [0, 2]]),
        (lambda x: GroupTotals([x], [0.5]), [0, 1]),
        (lambda x: GroupTotals([[0], [1]], x), [0.5, 0.25]),
        (Hierarchy, [-1, 0, 0]),
        (lambda x: Linear(x, 0.0, 0.5), [[1.0, -1.0, 0.0]]),
        (lambda x: Linear(sparse.csr_array(x), 0.0, 0.5), [[1.0, -1.0, 0.0]]),
        (lambda x: Linear([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], x, 1.0), [0.5, 0.25]),
    ],
)
def test_the_arrays_that_were_passed_can_be_changed_without_effect(build, given):
    array = np.array(given)
    f = np.array([0.5, 0.3, 0.9])
    constraint = build(array)
    before = constraint.violation(f)
    array[...] = 1
    assert_array_equal(constraint.violation(f), before)
    rows = constraint.rows(3)
    expected = build(np.array(given)).rows(3)
    assert_array_equal(rows.matrix.toarray(), expected.matrix.toarray())
    assert_array_equal(rows.lower, expected.lower)
    assert_array_equal(rows.upper, expected.upper)


def test_a_sparse_matrix_that_was_passed_can_be_changed_without_effect():
    matrix = sparse.csr_array(np.array([[1.0, -1.0, 0.0]]))
    constraint = Linear(matrix, 0.0, 0.5)
    matrix.data[:] = 7.0
    assert constraint.matrix.toarray().tolist() == [[1.0, -1.0, 0.0]]


def test_the_matrix_that_a_constraint_returns_is_not_its_own():
    constraint = Linear([[1.0, -1.0, 0.0]], 0.0, 0.5)
    with pytest.raises(ValueError, match="read-only"):
        constraint.matrix.data[0] = 7.0
    constraint.matrix.data = np.zeros(2)
    assert constraint.matrix.toarray().tolist() == [[1.0, -1.0, 0.0]]


@pytest.mark.parametrize("oracle", REPORTS, ids=lambda oracle: type(oracle).__name__)
def test_the_reports_that_were_passed_can_be_changed_without_effect(oracle):
    reports = REPORTS[oracle].copy()
    estimate = oracle.estimate(oracle.support_counts(reports), n=100)
    loss = losses.PerReportMLE(oracle, reports)
    f = np.array([0.2, 0.3, 0.5])
    before = loss.value(f, estimate)
    reports[:50] = reports[:1]
    assert loss.value(f, estimate) == before


def test_a_closed_form_and_a_solver_answer_for_the_weights_at_construction():
    weights = np.array([1.0, 2.0, 3.0])
    problem = Problem(losses.WeightedLeastSquares(weights), [NonNegative(), SumsTo(1.0)])
    f = [0.9, 0.6, -0.1]
    first = problem.solve(f, path="conic").frequencies
    with pytest.raises(ValueError, match="read-only"):
        problem.loss.weights[1] = 100.0
    weights[1] = 100.0
    assert_array_equal(problem.solve(f, path="conic").frequencies, first)


def test_a_subclass_is_sealed_after_its_own_constructor():
    class Shifted(losses.LeastSquares):
        def __init__(self, shift):
            super().__init__()
            self.shift = shift
            self.shift = shift  # a constructor may set an attribute twice

    shift = np.array([0.1, 0.2])
    loss = Shifted(shift)
    shift[0] = 7.0
    assert loss.shift.tolist() == [0.1, 0.2]
    with pytest.raises(FrozenInstanceError, match="Shifted is immutable"):
        loss.shift = shift


class Capped(Constraint):
    """Upper bounds that come from an attribute of any kind."""

    def __init__(self, held, read):
        self.held = held
        self.read = read

    def _caps(self, d):
        return np.asarray(self.read(self.held), dtype=np.float64)

    def violation(self, f):
        return np.maximum(f - self._caps(f.shape[-1]), 0).max(axis=-1)

    def cone_form(self, f):
        return [f <= self._caps(f.size)]

    def box(self, d):
        return np.full(d, -np.inf), self._caps(d)


class Table(Capped):
    """The same without a function among the attributes: nothing is foreign."""

    def __init__(self, held):
        self.held = held

    def _caps(self, d):
        return np.array([float(x) for x in self._flat()])

    def _flat(self):
        if sparse.issparse(self.held):
            return self.held.toarray()[0]
        return self.held.values() if isinstance(self.held, dict) else self.held


class Limits:
    """An object of a class that the library does not know."""

    def __init__(self):
        self.caps = [0.5, 0.5, 0.5]


def lowered(held):
    """Change an object as its class allows."""
    if isinstance(held, sparse.csr_array):
        held.data = np.array([0.1, 0.5, 0.5])
    else:
        held[0] = 0.1


CAPS = [0.5, 0.5, 0.5]
HOLDERS = {
    "list": lambda: list(CAPS),
    "dict": lambda: dict(enumerate(CAPS)),
    "matrix": lambda: sparse.csr_array([CAPS]),
    "array of objects": lambda: np.array(CAPS, dtype=object),
}


@pytest.mark.parametrize("make", HOLDERS.values(), ids=HOLDERS)
def test_what_was_passed_to_a_class_of_a_user_can_be_changed_without_effect(make):
    given = make()
    problem = Problem(losses.LeastSquares(), [Table(given), SumsTo(1.0)])
    assert problem.is_settled
    before = problem.solve(F).frequencies
    lowered(given)
    assert_array_equal(problem.solve(F).frequencies, before)


@pytest.mark.parametrize("path", ["auto", "conic"])
@pytest.mark.parametrize("make", HOLDERS.values(), ids=HOLDERS)
def test_what_a_class_of_a_user_holds_cannot_change_unnoticed(make, path):
    problem = Problem(losses.LeastSquares(), [Table(make()), SumsTo(1.0)])
    problem.solve(F, path=path)
    held = problem.constraints[0].held
    if isinstance(held, np.ndarray):
        with pytest.raises(ValueError, match="read-only"):
            lowered(held)
        held.flags.writeable = True  # of an array of objects the flag alone can protect
    lowered(held)
    with pytest.raises(ValueError, match="'held' of this Table was changed"):
        problem.solve(F, path=path)


def test_the_numbers_of_a_sparse_matrix_that_a_user_holds_cannot_be_written_to():
    for kind in ("csr", "csc", "coo", "bsr", "dia", "lil", "dok"):
        held = Table(sparse.csr_array([CAPS]).asformat(kind)).held
        with pytest.raises(ValueError, match="read-only"):
            held.data[...] = 1.0
        assert held.toarray().tolist() == [CAPS]


def test_lists_within_lists_and_objects_within_them_are_looked_at():
    weights = losses.WeightedLeastSquares([1.0, 1.0, 1.0])
    table = Table([0.5, 0.5, 0.5])
    for deep in ([[1], {"a": [weights, {2}]}], ([1], (weights, {2}))):
        table = Table([*CAPS])
        vars(table)["held"] = deep
        table._seal()
        table.require_unchanged()
        inner = table.held[1]["a"] if isinstance(deep, list) else table.held[1]
        inner[1].add(3)
        with pytest.raises(ValueError, match="'held' of this Table was changed"):
            table.require_unchanged()
        inner[1].remove(3)
        table.require_unchanged()
        before = weights.weights
        forged(weights, "weights", np.ones(3))
        with pytest.raises(ValueError, match="'weights' of this WeightedLeastSquares"):
            table.require_unchanged()
        forged(weights, "weights", before)


@pytest.mark.parametrize("path", ["auto", "conic"])
def test_objects_of_unknown_classes_are_read_anew_for_each_solve(path):
    limits = Limits()
    problem = Problem(losses.LeastSquares(), [Capped(limits, lambda held: held.caps), SumsTo(1.0)])
    assert not problem.is_settled
    assert problem.solve(F, path=path).frequencies.max() == pytest.approx(0.5, abs=1e-6)
    limits.caps[0] = 0.1
    assert problem.solve(F, path=path).frequencies[0] == pytest.approx(0.1, abs=1e-6)


@pytest.mark.parametrize("caps", [[0.5, 0.5], [0.5, 0.5, np.nan]], ids=["shape", "NaN"])
def test_the_box_of_a_class_of_a_user_is_checked(caps):
    with pytest.raises(
        ValueError, match=r"the box of Table\(\) must be two arrays of shape \(3,\)"
    ):
        Problem(losses.LeastSquares(), [Table(caps)]).solve(F)


def test_the_losses_and_constraints_of_the_library_are_settled():
    assert all(thing.is_settled for thing in EVERYTHING)
    # Functions may return something else the next time, and are called again.
    assert [thing for thing in EVERYTHING if thing.varies] == CUSTOM


def test_an_array_of_objects_outlives_the_one_that_was_passed():
    class Holder(Immutable):
        def __init__(self, values):
            self.values = values

    given = np.array([["a"], ["b"]], dtype=object)
    held = Holder(given)
    given[0] = None
    gc.collect()
    assert held.values.tolist() == [["a"], ["b"]]


def test_a_read_only_view_is_copied_because_its_base_may_change():
    class Holder(Immutable):
        def __init__(self, values):
            self.values = values

    base = np.array([1.0, 2.0])
    view = base[:]
    view.flags.writeable = False
    held = Holder(view)
    base[0] = 7.0
    assert held.values.tolist() == [1.0, 2.0]


def test_custom_constraints_read_what_their_function_reads_now():
    limit = [0.5]
    below = Custom(lambda f: [f[0] <= limit[0]])
    assert below.varies
    assert not SumsTo(1.0).varies
    assert float(below.violation(np.array([0.6, 0.4]))) == pytest.approx(0.1)
    limit[0] = 0.7
    assert float(below.violation(np.array([0.6, 0.4]))) == 0.0


def test_the_posterior_mean_of_a_pickled_loss_is_the_same():
    oracle = oracles.OUE(epsilon=1.0, d=3)
    estimate = oracle.estimate([5_000, 2_700, 2_600], n=10_000)
    loss = losses.PosteriorMean(priors.PowerLaw(alpha=1.5, n=10_000))
    target = loss.target(estimate)
    assert_array_equal(pickle.loads(pickle.dumps(loss)).target(estimate), target)
    assert_array_equal(copy.deepcopy(loss).target(estimate), target)


def test_an_estimate_beside_a_loss_is_read_only_too():
    estimate = FrequencyEstimate([0.5, 0.2])
    with pytest.raises(ValueError, match="read-only"):
        estimate.frequencies[0] = 1.0


# --- around the seal ------------------------------------------------------------------------------

SIMPLEX = [NonNegative(), SumsTo(1.0)]
F = [0.9, 0.6, -0.1]


def forged(thing, name, value):
    """Set an attribute as no class can prevent."""
    object.__setattr__(thing, name, value)
    return thing


@pytest.mark.parametrize("thing", [*EVERYTHING, GRR, priors.PowerLaw(alpha=1.5, n=100)], ids=repr)
def test_no_flag_opens_an_array_for_writing(thing):
    for same in copies(thing):
        for array in arrays_of(same):
            for memory in (array, array.view(), array.T, array.base):
                if isinstance(memory, np.ndarray):
                    with pytest.raises(ValueError, match="WRITEABLE"):
                        memory.setflags(write=True)


def test_an_array_whose_owner_can_open_it_again_is_copied():
    weights = np.array([1.0, 2.0, 3.0])
    frequencies = np.array(F)
    for array in (weights, frequencies):
        array.flags.writeable = False
    loss = losses.WeightedLeastSquares(weights)
    estimate = FrequencyEstimate(frequencies)
    for array in (weights, frequencies):
        array.flags.writeable = True
        array[:] = 7.0
    assert loss.weights.tolist() == [1.0, 2.0, 3.0]
    assert estimate.frequencies.tolist() == F


@pytest.mark.parametrize("path", ["auto", "conic"])
@pytest.mark.parametrize(
    ("constraint", "name", "value"),
    [
        (SumsTo(1.0), "_total", 0.5),
        (Bounds(0.0, [0.5, 0.5, 0.5]), "upper", np.array([0.2, 0.5, 0.5])),
        (Fixed([1], [0.25]), "values", np.array([0.5])),
        (Monotone([2, 0, 1]), "order", np.array([0, 1, 2])),
        (SumsTo(1.0), "total", lambda d: 0.5),
        (NonNegative(), "__class__", SumsTo),
    ],
    # The text of a function holds its address, which differs between test processes.
    ids=lambda part: getattr(part, "__name__", str(part)),
)
def test_a_constraint_that_was_changed_around_its_seal_is_an_error(constraint, name, value, path):
    constraint = copy.copy(constraint)
    problem = Problem(losses.LeastSquares(), [SIMPLEX[0], constraint])
    problem.solve(F, path=path)
    forged(constraint, name, value)
    with pytest.raises(ValueError, match=f"{name}.*was changed after its construction"):
        problem.solve(F, path=path)


def test_an_attribute_added_around_the_seal_is_noticed():
    constraint = Bounds(0.0, 0.5)
    forged(constraint, "middle", 0.25)
    with pytest.raises(ValueError, match="'middle' of this Bounds was changed"):
        Problem(losses.LeastSquares(), [constraint]).solve(F)


def test_an_object_that_did_not_change_is_compared_in_one_pass(monkeypatch):
    slow_looks = []
    constraint = Bounds(0.0, 0.5)
    monkeypatch.setattr(Bounds, "_look_for_changes", lambda self, seal: slow_looks.append(seal))
    constraint.require_unchanged()
    assert slow_looks == []


def test_a_deleted_attribute_is_noticed():
    constraint = Bounds(0.0, 0.5)
    del vars(constraint)["upper"]
    with pytest.raises(ValueError, match="'upper' of this Bounds was changed"):
        Problem(losses.LeastSquares(), [constraint]).solve(F)


@pytest.mark.parametrize("path", ["auto", "conic"])
def test_other_constraints_and_losses_that_a_problem_was_given_by_force_are_solved(path):
    problem = Problem(losses.LeastSquares(), SIMPLEX)
    assert problem.solve(F, path=path).frequencies.sum() == pytest.approx(1.0)
    forged(problem, "constraints", (NonNegative(), SumsTo(0.5)))
    assert problem.solve(F, path=path).frequencies.sum() == pytest.approx(0.5)
    forged(problem, "loss", losses.WeightedLeastSquares([1.0, 1e6, 1.0]))
    assert problem.solve(F, path=path).frequencies[1] == pytest.approx(0.5, abs=1e-3)


def test_bounds_that_a_problem_returns_cannot_be_written_to():
    for end in Problem(losses.LeastSquares(), SIMPLEX).box(3):
        with pytest.raises(ValueError, match="WRITEABLE"):
            end.setflags(write=True)


def test_the_posterior_mean_that_a_loss_keeps_cannot_be_written_to():
    estimate = oracles.OUE(epsilon=1.0, d=3).estimate([5_000, 2_700, 2_600], n=10_000)
    loss = losses.PosteriorMean(priors.PowerLaw)
    kept = loss.target(estimate)
    for array in (kept, Problem(loss).solve(estimate).frequencies):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9.0
    prior = priors.PowerLaw(alpha=1.5, n=10_000)
    loss = losses.PosteriorMean(prior)
    Problem(loss).solve(estimate)
    forged(prior, "alpha", 3.0)
    with pytest.raises(ValueError, match="'alpha' of this PowerLaw was changed"):
        Problem(loss).solve(estimate)


def test_what_an_estimate_is_made_of_cannot_change():
    oracle = oracles.OUE(epsilon=1.0, d=3)
    estimate = oracle.estimate([5_000, 2_700, 2_600], n=10_000)
    problem = Problem(losses.GaussianMLE(), SIMPLEX)
    for thing, name in ((oracle, "p"), (estimate, "frequencies"), (estimate.noise, "constant")):
        with pytest.raises(FrozenInstanceError):
            setattr(thing, name, 0.6)
    before = vars(estimate)["frequencies"]
    forged(estimate, "frequencies", np.array([0.5, 0.25, 0.25]))
    for use in (problem.solve, FrequencyEstimate.interval, problem.interval):
        with pytest.raises(ValueError, match="'frequencies' of this FrequencyEstimate was changed"):
            use(estimate)
    forged(estimate, "frequencies", before)
    problem.solve(estimate)
    forged(estimate.noise, "constant", 1.0)
    with pytest.raises(ValueError, match="'constant' of this Noise was changed"):
        problem.solve(estimate)
    with pytest.raises(ValueError, match="'constant' of this Noise was changed"):
        estimate.interval()


def test_the_frequencies_of_a_solution_cannot_be_written_to():
    solution = Problem(losses.LeastSquares(), SIMPLEX).solve(F)
    with pytest.raises(ValueError, match="read-only"):
        solution.frequencies[0] = 9.0


@pytest.mark.parametrize(
    ("name", "value"),
    [("frequencies", np.zeros(2)), ("labels", ("c", "d")), ("method", "other"), ("note", 1)],
)
def test_a_processed_estimate_is_sealed_as_one_that_was_constructed(name, value):
    raw = FrequencyEstimate([0.5, 0.25], noise=[0.01, 0.01], labels=("a", "b"))
    processed = raw.processed(np.array([0.6, 0.4]), method="by hand")
    assert processed.labels == ("a", "b")
    assert processed.noise is raw.noise
    processed.require_unchanged()
    with pytest.raises(FrozenInstanceError):
        setattr(processed, name, value)
    object.__setattr__(processed, name, value)
    with pytest.raises(InvalidInputError, match=name):
        processed.require_unchanged()


def test_an_estimate_notices_changes_of_the_one_that_it_was_processed_from():
    raw = FrequencyEstimate([0.5, 0.25], noise=[0.01, 0.01])
    processed = raw.processed(np.array([0.6, 0.4]))
    object.__setattr__(raw, "method", "other")
    with pytest.raises(InvalidInputError, match="method"):
        processed.require_unchanged()


@pytest.mark.parametrize("ask", [lambda e: e.sigma, lambda e: e.heavy_hitters(0.3)])
def test_an_estimate_that_was_changed_answers_nothing(ask):
    estimate = FrequencyEstimate([0.5, 0.25], noise=0.01)
    ask(estimate)
    with pytest.raises(InvalidInputError, match="'note' of this FrequencyEstimate was changed"):
        ask(forged(estimate, "note", 1))


def test_the_frequencies_of_a_processed_estimate_are_a_copy():
    given = np.array([0.6, 0.4])
    processed = FrequencyEstimate([0.5, 0.25]).processed(given)
    given[0] = 7.0
    assert processed.frequencies[0] == 0.6


def test_help_shows_what_a_constructor_takes():
    bounds = inspect.signature(Bounds)
    assert list(bounds.parameters) == ["lower", "upper"]
    assert list(inspect.signature(oracles.OUE).parameters) == ["epsilon", "d"]
    assert inspect.signature(FrequencyEstimate).parameters["labels"].default is None
    assert not inspect.signature(NonNegative).parameters


def test_solutions_whose_multipliers_were_read_are_copied_and_sent():
    problem = Problem(losses.LeastSquares(), [NonNegative(), SumsTo(1.0)])
    solution = problem.solve([0.7, 0.4, -0.1])
    read = dict(solution.duals)
    with pytest.raises(TypeError):
        solution.duals["SumsTo"] = 0.0
    certificate = solution.certificate
    parts = (*solution.duals.values(), certificate.bound_multipliers, certificate.row_multipliers)
    for array in (*parts, certificate.gap, certificate.violation, certificate.size):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0
    for again in (copy.deepcopy(solution), pickle.loads(pickle.dumps(solution))):
        assert again.duals.keys() == read.keys()
        assert_array_equal(again.frequencies, solution.frequencies)
        assert again.certificate.gap == solution.certificate.gap


def test_the_multipliers_of_a_composition_are_locked_trial_by_trial():
    problem = METHODS["norm-hyb"].problem
    estimate = FrequencyEstimate([[0.7, 0.4, -0.1], [0.5, 0.6, 0.2]], noise=[0.01, 0.01, 0.01])
    solution = problem.solve(estimate)
    assert solution.duals.shape == (2,)
    for trial in solution.duals:
        with pytest.raises(TypeError):
            trial["SumsTo"] = 0.0
    again = pickle.loads(pickle.dumps(solution))
    assert [set(trial) for trial in again.duals] == [set(trial) for trial in solution.duals]


# Deprecated by numpy, in part, and still there.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("name", "value"), [("shape", (1, 3)), ("strides", (0,)), ("dtype", np.dtype(np.int64))]
)
@pytest.mark.parametrize("path", ["auto", "conic"])
def test_an_array_that_is_read_in_another_way_is_noticed(name, value, path):
    """Numpy lets anyone set these of an array that cannot be written to."""
    for thing, attribute in (
        (losses.WeightedLeastSquares([1.0, 2.0, 3.0]), "weights"),
        (Bounds([0.0, 0.1, 0.2], 0.5), "lower"),
        (FrequencyEstimate(F), "frequencies"),
    ):
        loss = thing if isinstance(thing, losses.Loss) else losses.LeastSquares()
        bounds = [thing] if isinstance(thing, Constraint) else []
        estimate = thing if isinstance(thing, FrequencyEstimate) else FrequencyEstimate(F)
        problem = Problem(loss, [*bounds, SumsTo(1.0)])
        problem.solve(estimate, path=path)
        setattr(getattr(thing, attribute), name, value)
        with pytest.raises(InvalidInputError, match=f"'{attribute}' of this .* was changed"):
            problem.solve(estimate, path=path)


def test_an_array_that_was_given_other_memory_is_noticed():
    loss = losses.WeightedLeastSquares([1.0, 2.0, 3.0])
    other = np.array([7.0, 7.0, 7.0])
    loss.weights.__setstate__((1, other.shape, other.dtype, False, other.tobytes()))
    with pytest.raises(InvalidInputError, match="'weights' of this WeightedLeastSquares"):
        loss.require_unchanged()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_arrays_in_tuples_and_sparse_matrices_are_looked_at():
    class Holder(Immutable):
        def __init__(self):
            self.pair = (np.zeros(2), np.ones(2))
            self.matrix = sparse.csr_array([[1.0, 2.0]])

    holder = Holder()
    holder.require_unchanged()
    for array, name in ((holder.pair[1], "pair"), (holder.matrix.data, "matrix")):
        array.shape = (1, 2)
        with pytest.raises(InvalidInputError, match=f"'{name}' of this Holder"):
            holder.require_unchanged()
        array.shape = (2,)
        holder.require_unchanged()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_another_shape_with_the_same_strides_is_noticed():
    """By hand: 2 rows of 3 that overlap are within the memory of 3 rows of 2."""

    class Holder(Immutable):
        def __init__(self):
            self.table = np.arange(6.0).reshape(3, 2)

    holder = Holder()
    strides = holder.table.strides
    holder.table.shape = (2, 3)
    holder.table.strides = strides
    assert holder.table.tolist() == [[0.0, 1.0, 2.0], [2.0, 3.0, 4.0]]
    with pytest.raises(InvalidInputError, match="'table' of this Holder"):
        holder.require_unchanged()


class Derived(Immutable):
    """An object with a property that its constructor needs, and that is costly."""

    def __init__(self, values):
        self.values = values
        self.total = float(self.doubled.sum())

    @derived_property
    def doubled(self):
        CALLS.append(self)
        return 2 * self.values


CALLS = []


def test_a_derived_property_is_computed_once_and_cannot_be_replaced():
    CALLS.clear()
    thing = Derived(np.array([1.0, 2.0]))
    assert thing.total == 6.0
    assert thing.doubled.tolist() == [2.0, 4.0]
    assert len(CALLS) == 1
    for change in (setattr, object.__setattr__):
        with pytest.raises(FrozenInstanceError, match="'doubled'"):
            change(thing, "doubled", np.zeros(2))
    with pytest.raises(ValueError, match="read-only"):
        thing.doubled[0] = 7.0
    thing.require_unchanged()
    vars(thing)["doubled"] = np.zeros(2)
    assert thing.doubled.tolist() == [2.0, 4.0]
    with pytest.raises(InvalidInputError, match="'doubled' of this Derived was changed"):
        thing.require_unchanged()


def test_copies_of_an_object_derive_their_own_values():
    thing = Derived(np.array([1.0, 2.0]))
    changed = thing._altered(values=np.array([3.0, 4.0]))
    assert changed.doubled.tolist() == [6.0, 8.0]
    for same in (copy.copy(thing), copy.deepcopy(thing), pickle.loads(pickle.dumps(thing))):
        assert same.doubled.tolist() == [2.0, 4.0]
        same.require_unchanged()


def test_nobody_can_pass_processed_frequencies_for_raw_ones():
    raw = oracles.OUE(epsilon=1.0, d=3).estimate([5_000, 2_700, 2_600], n=10_000)
    processed = raw.processed(np.array([0.5, 0.3, 0.2]))
    for name in ("is_raw", "has_raw_noise"):
        with pytest.raises(FrozenInstanceError, match=name):
            object.__setattr__(processed, name, True)
        assert not getattr(processed, name)
    vars(processed)["is_raw"] = True
    with pytest.raises(InvalidInputError, match="'is_raw'"):
        processed.interval()


def test_the_objective_of_a_solution_is_that_of_its_loss_or_an_error():
    solution = Problem(losses.WeightedLeastSquares([1.0, 2.0, 3.0]), SIMPLEX).solve(F)
    forged(solution.problem.loss, "weights", np.array([9.0, 1.0, 1.0]))
    with pytest.raises(InvalidInputError, match="'weights'"):
        _ = solution.objective
