"""Constraints and penalties that name values by the labels of the estimate."""

import html
import pickle

import numpy as np
import pytest

import ldpopt
from ldpopt import FrequencyEstimate, Parameter, Problem, losses
from ldpopt import constraints as c
from ldpopt.errors import InvalidInputError, InvalidTypeError
from tests.tolerances import SUM

SIMPLEX = [c.NonNegative(), c.SumsTo(1.0)]
PETS = ("cat", "ape", "bee", "dog")
FREQUENCIES = [0.5, 0.3, 0.2, 0.1]
ESTIMATE = FrequencyEstimate(FREQUENCIES, labels=PETS)
INF = np.inf


def series(**entries):
    return pytest.importorskip("pandas", reason="pandas is an optional package").Series(entries)


# The same part twice: by labels, and by the indices that these have.
CONSTRAINTS = {
    "known value": (lambda: c.Fixed({"ape": 0.2}), lambda: c.Fixed([1], [0.2])),
    "known values": (
        lambda: c.Fixed(["dog", "cat"], [0.2, 0.3]),
        lambda: c.Fixed({3: 0.2, 0: 0.3}),
    ),
    "a Series": (lambda: c.Fixed(series(dog=0.2, cat=0.3)), lambda: c.Fixed([3, 0], [0.2, 0.3])),
    "an array of text": (lambda: c.TopSet(np.array(["bee"])), lambda: c.TopSet([2])),
    "groups": (
        lambda: c.GroupTotals([["dog", "cat"], ["bee"]], [0.5, 0.3]),
        lambda: c.GroupTotals([[3, 0], [2]], [0.5, 0.3]),
    ),
    "groups with names": (
        lambda: c.GroupTotals({"x": ["dog", "cat"], "y": ["bee"]}, {"y": 0.3, "x": 0.5}),
        lambda: c.GroupTotals([[3, 0], [2]], [0.5, 0.3]),
    ),
    "totals of a Series": (
        lambda: c.GroupTotals({"x": ["dog", "cat"], "y": ["bee"]}, series(y=0.3, x=0.5)),
        lambda: c.GroupTotals([[3, 0], [2]], [0.5, 0.3]),
    ),
    "an order": (lambda: c.Monotone(["dog", "bee"]), lambda: c.Monotone([3, 2])),
    "an index": (lambda: c.Monotone(series(dog=1, bee=2).index), lambda: c.Monotone([3, 2])),
    "pairs": (
        lambda: c.Monotone([("bee", "cat"), ("dog", "cat")]),
        lambda: c.Monotone([(2, 0), (3, 0)]),
    ),
    "a mode": (lambda: c.Unimodal("bee"), lambda: c.Unimodal(2)),
    "a smooth order": (
        lambda: c.Smooth(0.1, order=["dog", "cat", "ape"]),
        lambda: c.Smooth(0.1, order=[3, 0, 1]),
    ),
    "rows": (
        lambda: c.Linear([{"dog": 1, "cat": -1}, {"bee": 2}], [0, 0.5], INF),
        lambda: c.Linear([[-1, 0, 0, 1], [0, 0, 2, 0]], [0, 0.5], INF),
    ),
    "a row": (lambda: c.Linear({"dog": 1, "cat": -1}, 0), lambda: c.Linear([-1, 0, 0, 1], 0)),
    "bounds of some": (
        lambda: c.Bounds(lower={"dog": 0.2}, upper={"cat": 0.25}),
        lambda: c.Bounds([-INF, -INF, -INF, 0.2], [0.25, INF, INF, INF]),
    ),
}


@pytest.mark.parametrize("case", CONSTRAINTS)
def test_constraints_take_the_labels_of_the_estimate(case):
    by_label, by_index = (make() for make in CONSTRAINTS[case])
    problem = Problem(losses.LeastSquares(), [*SIMPLEX, by_label])
    expected = Problem(losses.LeastSquares(), [*SIMPLEX, by_index]).solve(FREQUENCIES)
    solution = problem.solve(ESTIMATE)
    np.testing.assert_array_equal(solution.frequencies, expected.frequencies)
    assert np.abs(solution.frequencies - SIMPLEX_ALONE).max() > SUM, "the constraint does nothing"
    assert solution.status == "optimal"
    # Wherever the values stand: the same constraint is about the same names.
    backwards = FrequencyEstimate(FREQUENCIES[::-1], labels=PETS[::-1])
    moved = pickle.loads(pickle.dumps(problem)).solve(backwards)
    if case not in {"a mode"}:  # a scale has an order of its own
        np.testing.assert_allclose(moved.frequencies[::-1], solution.frequencies, atol=1e-7)
    # By itself it goes by the labels of its argument.
    assert by_label.violation(ESTIMATE) == by_index.violation(ESTIMATE.frequencies) > 0
    assert problem.violation(ESTIMATE) == pytest.approx(
        max(part.violation(ESTIMATE.frequencies) for part in (*SIMPLEX, by_index))
    )


SIMPLEX_ALONE = Problem(losses.LeastSquares(), SIMPLEX).solve(FREQUENCIES).frequencies


EVENLY = {"dog": 0.1, "bee": 0.2, "ape": 0.3, "cat": 0.4}


@pytest.mark.parametrize(
    ("by_label", "by_index"),
    [
        (losses.KLTo(EVENLY), losses.KLTo([0.4, 0.3, 0.2, 0.1])),
        (losses.L1To(EVENLY), losses.L1To([0.4, 0.3, 0.2, 0.1])),
        (losses.TotalVariation(["dog", "ape", "cat"]), losses.TotalVariation([3, 1, 0])),
        (losses.GroupNorm([["dog", "cat"], ["bee"]]), losses.GroupNorm([[3, 0], [2]])),
    ],
    ids=["divergence", "deviation", "variation", "groups"],
)
def test_penalties_take_the_labels_of_the_estimate(by_label, by_index):
    solution, expected = (
        Problem(losses.LeastSquares() + 0.1 * part, SIMPLEX).solve(ESTIMATE)
        for part in (by_label, by_index)
    )
    np.testing.assert_array_equal(solution.frequencies, expected.frequencies)


def test_a_mapping_is_numbers_with_labels_wherever_a_series_is():
    for by_label, by_index in (
        (losses.WeightedLeastSquares(EVENLY), losses.WeightedLeastSquares([0.4, 0.3, 0.2, 0.1])),
        (losses.LeastSquares(), losses.LeastSquares()),
    ):
        near = [*SIMPLEX, c.Near(EVENLY, 0.1, 1)]
        expected = Problem(by_index, [*SIMPLEX, c.Near([0.4, 0.3, 0.2, 0.1], 0.1, 1)])
        np.testing.assert_allclose(
            Problem(by_label, near).solve(ESTIMATE).frequencies,
            expected.solve(ESTIMATE).frequencies,
            rtol=0,
            atol=SUM,
        )
    with pytest.raises(InvalidInputError, match="weights goes by its labels, and has no number"):
        Problem(losses.WeightedLeastSquares({"cat": 1.0})).solve(ESTIMATE)


def test_a_parameter_may_stand_beside_a_label():
    share = Parameter("share", 0.25)
    problem = Problem(losses.LeastSquares(), [*SIMPLEX, c.Fixed({"ape": share})])
    assert problem.solve(ESTIMATE).frequencies[1] == 0.25
    assert [s.frequencies[1] for s in problem.path(ESTIMATE, share=[0.1, 0.4])] == [0.1, 0.4]
    share.value = 0.125
    assert problem.solve(ESTIMATE).frequencies[1] == 0.125


def test_other_ways_into_a_problem_know_the_labels():
    problem = Problem(losses.LeastSquares(), [*SIMPLEX, c.Fixed({"ape": 0.25})])
    point = problem.solve(ESTIMATE).frequencies
    assert ldpopt.certify(problem, ESTIMATE, point).is_optimal(1e-12)
    np.testing.assert_array_equal(problem.minimise(ESTIMATE), point)
    assert "one root" in problem.explain(ESTIMATE)
    # The conditions of optimality are the same whichever values these are.
    by_index = Problem(losses.LeastSquares(), [*SIMPLEX, c.Fixed({1: 0.25})])
    assert str(problem.kkt()) == str(by_index.kkt())
    problem = Problem(losses.LeastSquares(), [c.Unimodal("bee")])
    assert "Unimodal('bee')" in repr(problem)
    # Also once an estimate has given the label its place.
    solution = problem.solve(FrequencyEstimate([0.2, 0.5, 0.3], labels=["ant", "bee", "cow"]))
    assert "Unimodal('bee')" in repr(solution.problem)
    again = pickle.loads(pickle.dumps(solution))
    assert "Unimodal('bee')" in html.unescape(again._repr_html_())
    assert "bee" in solution.problem.constraints[0].latex


REFUSED = {
    "an unknown label": (
        lambda: Problem(losses.LeastSquares(), [c.Fixed({"owl": 0.2})]).solve(ESTIMATE),
        "indices of Fixed has 'owl', which is no label of this estimate",
    ),
    "an unknown label of a bound": (
        lambda: Problem(losses.LeastSquares(), [c.Bounds(upper={"owl": 0.2})]).solve(ESTIMATE),
        "upper has a number for 'owl', which is no value: see estimate.labels",
    ),
    "a bound of a misspelt label": (
        lambda: Problem(losses.LeastSquares(), [c.Bounds(upper={"dgo": 0.2})]).solve(ESTIMATE),
        r"for 'dgo', which is no value \(did you mean 'dog'\?\): see",
    ),
    "an estimate without labels": (
        lambda: Problem(losses.LeastSquares(), [c.TopSet(["ape"])]).solve(FREQUENCIES),
        "indices of TopSet has the label 'ape', and the estimate has no labels: pass labels=",
    ),
    "bounds without labels": (
        lambda: Problem(losses.LeastSquares(), [c.Bounds(upper={"ape": 0.2})]).solve([0.3]),
        "upper goes by labels, 'ape' first, and the estimate has none",
    ),
    "a vector without labels": (
        lambda: c.Fixed({"ape": 0.2}).violation(np.array(FREQUENCIES)),
        "the estimate has no labels",
    ),
    "a label of several values": (
        lambda: c.TopSet(["ape"]).violation(FrequencyEstimate([0.5, 0.5], labels=["ape", "ape"])),
        "'ape', which is the label of several values",
    ),
    "a label twice": (lambda: c.Monotone(["ape", "bee", "ape"]), "must not repeat an index"),
    "other names of totals": (
        lambda: c.GroupTotals({"x": ["ape"]}, {"y": 0.5}),
        "groups and totals must have the same names, and 'x' is in one of them alone",
    ),
    "values that are missing": (lambda: c.Fixed(["ape"]), "Fixed needs a number per index"),
    "a text for an order": (lambda: c.Monotone("ape"), "order must be indices, got the text 'ape'"),
    "a text for a group": (lambda: c.GroupTotals(["ape"], [0.5]), "group 0 must be indices"),
    "a row of texts": (lambda: c.Linear([{"ape": "1"}]), "A must map labels to numbers"),
    "a bound of a number": (
        lambda: c.Bounds(upper={3: 0.1}),
        "upper must map labels to numbers, found 3: 0.1; a label is a text, '3'",
    ),
    "one bound without its name": (lambda: c.Bounds({"ape": 0.1}), "one by its name"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_labels_that_mean_nothing_are_refused(case):
    use, message = REFUSED[case]
    with pytest.raises((InvalidInputError, InvalidTypeError), match=message):
        use()


@pytest.mark.parametrize("make", [c.Fixed, lambda places, _: c.Monotone(places)])
@pytest.mark.parametrize("places", [["dog", 0], [0, "dog"], [1, "dog", 0]])
def test_a_label_beside_an_index_is_no_repetition(make, places):
    """Before there is an estimate no label has the place of a number that is stated."""
    part = make(places, [0.25] * len(places))
    estimate = FrequencyEstimate(FREQUENCIES, labels=["cat", "owl", "cow", "dog"])
    assert Problem(losses.LeastSquares(), [part]).solve(estimate).status.value == "optimal"
    same = FrequencyEstimate(FREQUENCIES, labels=["dog", "owl", "cow", "cat"])
    with pytest.raises(InvalidInputError, match="must not repeat an index, found 0 again"):
        Problem(losses.LeastSquares(), [part]).solve(same)


NUMBERED = FrequencyEstimate(FREQUENCIES, labels=["3", "1", "0", "2"])

# Each has the number 3, which is the index of the label "2", and the label of index 0.
AMBIGUOUS = {
    "indices of Fixed": lambda: c.Fixed({3: 0.2}),
    "indices of TopSet": lambda: c.TopSet([1, 3]),
    "groups of GroupTotals": lambda: c.GroupTotals([[1], (3,)], [0.3, 0.1]),
    "order of Monotone": lambda: c.Monotone([(3, 1)]),
    "mode of Unimodal": lambda: c.Unimodal(3),
    "order of Smooth": lambda: c.Smooth(0.1, order=[3, 1]),
    "order of TotalVariation": lambda: losses.LeastSquares() + losses.TotalVariation([3, 1]),
    "groups of GroupNorm": lambda: losses.LeastSquares() + 0.1 * losses.GroupNorm([[3]]),
}


@pytest.mark.parametrize("what", AMBIGUOUS)
def test_a_number_that_could_be_an_index_or_a_label_is_refused(what):
    part = AMBIGUOUS[what]()
    is_loss = isinstance(part, losses.Loss)
    stated = (part, SIMPLEX) if is_loss else (losses.LeastSquares(), [*SIMPLEX, part])
    problem = pickle.loads(pickle.dumps(Problem(*stated)))
    for use in (
        problem.solve,
        problem.explain,
        lambda est: ldpopt.certify(problem, est, FREQUENCIES),
        # A loss is not used for a violation.
        *([] if is_loss else [problem.violation]),
    ):
        with pytest.raises(
            InvalidInputError,
            match=f"{what} has the number 3: the value of that index is labelled '2', and the "
            "label '3' is at index 0; pass the text '3' for the label, or the",
        ):
            use(NUMBERED)
    # Labels that are no numbers, or numbers in their own places, leave one reading.
    for labels in (None, PETS, ("0", "1", "2", "3")):
        problem.solve(FrequencyEstimate(FREQUENCIES, labels=labels))


def test_a_parameter_beside_a_number_does_not_hide_it():
    problem = Problem(losses.LeastSquares(), [*SIMPLEX, c.Fixed([3], [Parameter("share", 0.2)])])
    with pytest.raises(InvalidInputError, match="indices of Fixed has the number 3"):
        problem.solve(NUMBERED)


def test_arrays_are_indices_and_texts_are_labels():
    def solved(*arguments):
        problem = Problem(losses.LeastSquares(), [*SIMPLEX, c.Fixed(*arguments)])
        return problem.solve(NUMBERED).frequencies

    assert solved(np.array([3]), [0.2])[3] == pytest.approx(0.2)
    assert solved(["3"], [0.2])[0] == pytest.approx(0.2)
    # The label "1" is at index 1.
    assert solved([1], [0.2])[1] == pytest.approx(0.2)
    Problem(losses.LeastSquares(), [c.Monotone(range(4))]).solve(NUMBERED)
