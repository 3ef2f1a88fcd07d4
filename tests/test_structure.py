"""Structure states what solutions have in common, seen on problems whose form is known."""

import numpy as np
import pytest

from ldpopt import FrequencyEstimate, Parameter, Problem, losses, oracles, structure
from ldpopt import constraints as c
from ldpopt.discovery.shifts import KINDS, Support, blocks_of, kinds_of
from ldpopt.errors import InvalidInputError, InvalidTypeError

D = 10
SIMPLEX = [c.NonNegative(), c.SumsTo(1.0)]
COUNTS = np.array([240, 200, 160, 120, 100, 80, 50, 30, 15, 5])
HALVES = c.GroupTotals([np.arange(5), np.arange(5, D)], [0.7, 0.3])


def trials(epsilon=1.0, times=1, number=12):
    oracle = oracles.OUE(epsilon, D)
    counts = oracle.simulate_counts(times * COUNTS, rng=0, trials=number)
    return oracle.estimate(counts, times * COUNTS.sum())


@pytest.fixture(scope="module")
def noisy():
    return structure(
        Problem(losses.LeastSquares(), SIMPLEX),
        [trials(times=1), trials(times=4), trials(times=16)],
    )


@pytest.mark.parametrize(
    ("loss", "sets", "kind"),
    [
        (losses.LeastSquares(), SIMPLEX, "constant"),
        (losses.KullbackLeibler(), SIMPLEX, "proportional"),
        (losses.LeastSquares(), [c.NonNegative(), HALVES], "constant by group"),
        (losses.KullbackLeibler(), [c.NonNegative(), HALVES], "proportional by group"),
        (losses.LeastSquares(), [*SIMPLEX, c.Monotone(np.arange(D))], "constant by block"),
        (losses.BinomialMLE(), SIMPLEX, "increasing"),
        (losses.BinomialMLE(), [*SIMPLEX, c.Monotone(np.arange(D))], "other"),
    ],
)
def test_the_shift_is_that_of_the_known_form(loss, sets, kind):
    assert structure(Problem(loss, sets), trials()).shift == kind


def test_the_problem_is_the_one_that_was_passed_whichever_estimate_comes_last():
    price = Parameter("price", 0.5)
    first_is_largest = c.Custom(lambda f: f[0] >= f[1])
    loss = losses.LeastSquares() + price * losses.TotalVariation()
    problem = Problem(loss, [*SIMPLEX, first_is_largest])
    price.value = 0.25
    stacks = [trials(times=1, number=2), trials(times=4, number=2)]
    for order in (stacks, stacks[::-1]):
        shown = structure(problem, order)
        assert shown.problem is problem
        # The numbers of that moment, and not those with which the problem was built.
        assert "0.25 * TotalVariation()" in repr(shown)
        assert shown.formula in shown._repr_html_()
        assert repr(shown).startswith("Structure of 4 solutions of")
    assert repr(structure(problem, stacks[0][0])).startswith("Structure of 1 solution of")


def test_norm_sub_has_an_ideal_support_and_one_degree_less_than_values(noisy):
    assert noisy.is_ideal
    for row, f in zip(noisy.rows, noisy.frequencies, strict=True):
        assert row.support == np.count_nonzero(f > 1e-6)
        assert row.degrees_of_freedom == row.support - 1
        assert (row.active_bounds, row.active_rows) == (D - row.support, 1)


def test_a_support_that_an_order_forces_is_no_ideal():
    problem = Problem(losses.LeastSquares(), [*SIMPLEX, c.Monotone([0, 1, 2, 3])])
    # Pooled to .5, .5, -.2, -.2: the first value stays for the second one's sake.
    shown = structure(problem, [0.1, 0.9, -0.9, 0.5])
    assert not shown.is_ideal
    (row,) = shown.rows
    assert (row.support, row.blocks, row.active_bounds) == (2, 1, 2)


def test_blocks_and_degrees_of_freedom_of_an_order():
    problem = Problem(losses.LeastSquares(), [*SIMPLEX, c.Monotone([0, 1, 2, 3])])
    (row,) = structure(problem, [0.4, 0.1, 0.3, 0.2]).rows
    assert (row.blocks, row.support, row.degrees_of_freedom) == (2, 4, 1)
    assert row.active_rows == 3  # two pairs of equal values, and the total


def test_the_multiplier_of_norm_sub_is_its_shift(noisy):
    row = noisy.rows[0]
    f = noisy.frequencies[0]
    kept = f > 1e-6
    shift = (noisy.estimates[0] - f)[kept].mean()
    assert row.multiplier == pytest.approx(shift, abs=1e-9)


def test_multipliers_along_n_and_epsilon(noisy):
    table = noisy.multipliers()
    assert [n for _, n, _, _ in table] == [1_000, 4_000, 16_000]
    assert -1.0 < noisy.exponent_of_n < -0.2
    assert noisy.rate_of_epsilon is None
    both = structure(Problem(losses.LeastSquares(), SIMPLEX), [trials(0.5), trials(2.0)])
    assert both.rate_of_epsilon < 0
    assert both.exponent_of_n is None


def test_without_a_total_there_is_no_multiplier():
    shown = structure(Problem(losses.LeastSquares(), [c.NonNegative()]), trials(number=2))
    assert {row.multiplier for row in shown.rows} == {None}
    assert shown.multipliers() == []


def test_a_face_that_rows_do_not_state_has_no_dimension():
    problem = Problem(losses.LeastSquares(), [*SIMPLEX, c.Smooth(total_variation=0.1)])
    assert structure(problem, trials(number=1)).rows[0].degrees_of_freedom is None


def test_a_structure_shows_itself(noisy):
    text = repr(noisy)
    assert text.startswith("Structure of 36 solutions of LeastSquares() under NonNegative()")
    assert "shift    constant" in text
    assert "the multiplier is proportional to n^-0." in text
    assert "Structure of 36 solutions" in noisy._repr_html_()
    figure = noisy.plot()
    assert [axes.get_title() for axes in figure.axes] == ["values", "shift: constant", "multiplier"]


def test_a_constant_shift_is_drawn_beside_zero():
    """Without it the axis would enlarge the rounding of one constant."""
    figure = structure(Problem(losses.LeastSquares(), SIMPLEX), trials(number=1)[:1]).plot()
    low, high = figure.axes[1].get_ylim()
    assert low <= 0 <= high
    # One solution has one number.
    inside = figure.axes[2].get_xlim()
    ticks = [tick for tick in figure.axes[2].get_xticks() if inside[0] <= tick <= inside[1]]
    assert ticks == [0]


def test_a_structure_is_a_frame(noisy):
    pytest.importorskip("pandas")
    assert list(noisy.to_frame()["n"].unique()) == [1_000, 4_000, 16_000]


def test_blocks_are_equal_values():
    assert blocks_of(np.array([0.5, 0.2, 0.5 + 1e-9, 0.1])).tolist() == [2, 1, 2, 0]
    assert blocks_of(np.empty(0)).tolist() == []


@pytest.mark.parametrize(
    ("f", "first"),
    [
        ([0.4, 0.3, 0.1], "constant"),
        ([1.0, 0.8, 0.4], "proportional"),
        ([0.4, 0.3, 0.25], "constant by group"),
        ([1.0, 0.8, 0.1], "proportional by group"),
        ([0.35, 0.35, 0.1], "constant by block"),
        ([0.45, 0.45, 0.15], "constant by block and group"),
        ([0.5, 0.45, 0.1], "increasing"),
        ([0.1, 0.3, 0.2], "other"),
    ],
)
def test_the_kind_of_a_shift(f, first):
    """The estimates are .5, .4, .2, of which the last one is a group of its own."""
    f = np.array(f)
    support = Support(np.array([0.5, 0.4, 0.2]), f, np.array([0, 0, 1]), blocks_of(f))
    kinds = kinds_of(support)
    assert (kinds[0] if kinds else "other") == first
    assert set(kinds) <= set(KINDS)


def test_bad_input_is_a_clear_error():
    problem = Problem(losses.LeastSquares(), SIMPLEX)
    with pytest.raises(InvalidTypeError, match="structure takes a Problem"):
        structure("simplex", trials(number=1))
    with pytest.raises(InvalidInputError, match="the estimates have 2 and 3 values"):
        structure(problem, [FrequencyEstimate([0.5, 0.5]), FrequencyEstimate([0.2, 0.3, 0.5])])
