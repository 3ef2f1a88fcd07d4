"""The methods of Table I: definitions, edge cases, guarantees, and the problems they solve."""

import dataclasses
import functools
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ldpopt import (
    METHODS,
    FrequencyEstimate,
    Problem,
    closed_form,
    constraints,
    losses,
    oracles,
    postprocess,
    priors,
)
from ldpopt.errors import InvalidInputError, InvalidTypeError, LdpoptWarning
from tests import reference
from tests.every_two import every_two
from tests.tolerances import CERTIFIED, EPS, ROUNDING, SUM

TABLE_I = [
    "base", "base-pos", "post-pos", "base-cut", "norm", "norm-mul", "norm-cut", "norm-sub",
    "norm-hyb", "mle-apx", "power", "power-ns",
]  # fmt: skip
NEEDS_NOISE = {"base-cut", "norm-hyb", "mle-apx", "power", "power-ns", "base-zero"}
SIZES = [2, 3, 5, 8, 13, 40, 200]
ORACLES = {
    "kappa > 0": oracles.OUE,
    "kappa = 0": oracles.SUE,
    "kappa < 0": oracles.HadamardResponse,
}
ALL_DISTRIBUTIONS = [name for name in TABLE_I if METHODS[name].sums_to_one == "yes"]


def literal(name, f, estimate, alpha=2.0, top_k=None):
    """Return the method's definition applied to one vector (a list)."""
    noise = estimate.oracle is not None
    if name in ("base-cut", "norm-hyb"):
        cut = (
            reference.threshold_of_top(f, top_k)
            if top_k
            else reference.threshold(len(f), estimate.sigma, alpha)
        )
        return reference.base_cut(f, cut) if name == "base-cut" else reference.norm_hyb(f, cut)
    if name in ("power", "power-ns"):
        mean = reference.power(f, estimate.n, estimate.sigma)
        return mean if name == "power" else reference.norm_sub(mean)
    kappa = estimate.oracle.kappa if noise else None
    return {
        "base": reference.base,
        "post-pos": reference.base,
        "base-pos": reference.base_pos,
        "norm": reference.norm,
        "norm-mul": reference.norm_mul,
        "norm-cut": reference.norm_cut,
        "norm-sub": reference.norm_sub,
        "mle-apx": lambda f: reference.mle_apx(f, kappa),
    }[name](f)


def collected(d, oracle=oracles.OUE, n=2000, trials=None, seed=0, exponent=1.1):
    """Return a raw estimate from simulated reports on a Zipf population."""
    population = np.random.default_rng(seed).multinomial(
        n, (w := np.arange(1.0, d + 1) ** -exponent) / w.sum()
    )
    chosen = oracle(epsilon=1.0, d=d)
    return chosen.estimate(chosen.simulate_counts(population, seed, trials), n)


def apply(name, estimate, **options):
    """Apply a method where its warnings are not what is tested."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdpoptWarning)
        return postprocess(estimate, name, **options)


# --- the table ------------------------------------------------------------------------------------


def test_the_table_begins_with_the_twelve_methods_of_the_papers_in_their_order():
    assert list(METHODS)[:12] == TABLE_I


def test_every_method_is_registered_under_its_own_name_with_a_source():
    for name, method in METHODS.items():
        assert method.name == name
        assert method.label
        assert method.description
        assert method.source


def test_the_table_cannot_be_changed():
    with pytest.raises(TypeError):
        METHODS["mine"] = METHODS["base"]


# --- each method against its definition -----------------------------------------------------------


@every_two(
    name=[name for name in TABLE_I if not name.startswith("power")],
    d=SIZES,
    kind=[*ORACLES],
)
def test_method_equals_its_definition(name, d, kind):
    estimate = collected(d, ORACLES[kind], seed=d)
    expected = literal(name, estimate.frequencies.tolist(), estimate)
    assert_allclose(
        apply(name, estimate).frequencies, reference.floats(expected), rtol=0, atol=ROUNDING
    )


@pytest.mark.parametrize("scale", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("d", [1, 2, 7, 60])
@pytest.mark.parametrize("name", [name for name in TABLE_I if name not in NEEDS_NOISE])
def test_method_equals_its_definition_on_plain_vectors(name, d, scale):
    f = np.random.default_rng(d).normal(1 / d, scale, d)
    f[0] = abs(f[0])
    expected = literal(name, f.tolist(), FrequencyEstimate(f))
    assert_allclose(
        apply(name, f).frequencies,
        reference.floats(expected),
        rtol=0,
        atol=ROUNDING * max(1, scale * 4),
    )


@pytest.mark.parametrize("top_k", [1, 3, 13])
@pytest.mark.parametrize("name", ["base-cut", "norm-hyb"])
def test_top_k_puts_the_threshold_at_the_kth_highest_estimate(name, top_k):
    estimate = collected(13, trials=4)
    frequencies = apply(name, estimate, top_k=top_k).frequencies
    for row, f in zip(frequencies, estimate.frequencies, strict=True):
        expected = literal(name, f.tolist(), estimate, top_k=top_k)
        assert_allclose(row, reference.floats(expected), rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("alpha", [0.01, 1, 2.0, 5, 6.5, 100])
@pytest.mark.parametrize("name", ["base-cut", "norm-hyb"])
def test_alpha_sets_the_expected_number_of_false_positives(name, alpha):
    estimate = collected(13, seed=3)
    expected = literal(name, estimate.frequencies.tolist(), estimate, alpha=alpha)
    assert_allclose(
        apply(name, estimate, alpha=alpha).frequencies,
        reference.floats(expected),
        rtol=0,
        atol=ROUNDING,
    )


@pytest.mark.parametrize("beta", [0.001, 0.05, 1, 50])
@pytest.mark.parametrize("d", [2, 13, 200])
def test_base_zero_is_base_cut_with_its_own_number_of_false_positives(d, beta):
    estimate = collected(d, trials=5)
    result = apply("base-zero", estimate, beta=beta)
    assert_array_equal(result.frequencies, apply("base-cut", estimate, alpha=beta).frequencies)
    assert_array_equal(
        apply("base-zero", estimate).frequencies,
        apply("base-zero", estimate, beta=0.05).frequencies,
    )
    expected = reference.base_cut(
        estimate.frequencies[2].tolist(), reference.threshold(d, estimate.sigma, beta)
    )
    assert_allclose(result.frequencies[2], expected, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize(
    ("beta", "error"),
    [(0, InvalidInputError), (np.nan, InvalidInputError), ("2", InvalidTypeError)],
)
def test_beta_out_of_range_is_refused_by_name(beta, error):
    with pytest.raises(error, match="beta"):
        postprocess(collected(5), "base-zero", beta=beta)


@pytest.mark.parametrize("name", TABLE_I)
def test_a_stack_equals_its_trials_one_by_one(name):
    estimate = collected(20, trials=6)
    frequencies = apply(name, estimate).frequencies
    for row, f in zip(frequencies, estimate.frequencies, strict=True):
        alone = apply(name, FrequencyEstimate(f, estimate.n, estimate.oracle)).frequencies
        assert_allclose(row, alone, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("name", TABLE_I)
def test_the_result_remembers_where_it_came_from_and_the_input_is_kept(name):
    estimate = collected(6)
    before = estimate.frequencies.copy()
    result = apply(name, estimate)
    assert (result.method, result.n, result.oracle) == (name, estimate.n, estimate.oracle)
    assert_array_equal(estimate.frequencies, before)


# --- what each method says of itself --------------------------------------------------------------


@pytest.fixture(scope="module", params=ORACLES)
def stack(request):
    return collected(64, ORACLES[request.param], trials=20, seed=9)


@pytest.fixture(scope="module")
def processed(stack):
    """Return the function from a method's name to its answer, which several tests look at.

    It is computed once: some methods fit a prior to every trial.
    """
    return functools.cache(lambda name: apply(name, stack))


def answers_of_single_values(result):
    return result.query([[v] for v in range(result.d)])


@pytest.mark.parametrize("name", METHODS)
def test_nonnegative_is_as_declared(name, processed):
    lowest = answers_of_single_values(processed(name)).min()
    assert (lowest >= 0) == (METHODS[name].nonnegative == "yes")


@pytest.mark.parametrize("name", METHODS)
def test_sums_to_one_is_as_declared(name, processed):
    sums = processed(name).frequencies.sum(axis=-1)
    reaches = np.abs(sums - 1).max() <= SUM
    exceeds = sums.max() > 1 + SUM
    actual = "yes" if reaches else "no" if exceeds else "almost"
    # Power's sum is near 1 by its fit, and OUE's own is 1 on average: neither is a promise.
    assert actual == METHODS[name].sums_to_one or METHODS[name].sums_to_one == "no"


def test_sums_of_methods_that_do_not_normalise_are_not_one(processed):
    for name in ("base-pos", "base-cut", "power"):
        assert np.abs(processed(name).frequencies.sum(axis=-1) - 1).max() > SUM


@pytest.mark.parametrize(
    "name", [name for name, method in METHODS.items() if method.preserves_order]
)
def test_a_larger_estimate_never_becomes_the_smaller_one(name, stack, processed):
    rank = np.argsort(stack.frequencies, axis=-1)
    rising = np.take_along_axis(processed(name).frequencies, rank, axis=-1)
    assert np.diff(rising, axis=-1).min() >= -EPS


def test_norm_hyb_does_not_preserve_order_as_it_says():
    assert not METHODS["norm-hyb"].preserves_order
    frequencies = postprocess([0.31, 0.29, 0.29], "norm-hyb", top_k=1).frequencies
    assert_allclose(frequencies, [0.31, 0.345, 0.345], rtol=0, atol=ROUNDING)


# --- edge cases -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["norm", "norm-mul", "norm-sub"])
def test_a_domain_of_one_value_has_all_the_mass(name):
    assert_allclose(postprocess([0.3], name).frequencies, [1.0], rtol=0, atol=ROUNDING)
    assert_allclose(
        postprocess([[0.3], [7.0]], name).frequencies, [[1.0], [1.0]], rtol=0, atol=ROUNDING
    )


def test_a_domain_of_one_value_with_a_known_top():
    assert postprocess([0.3], "base-cut", top_k=1).frequencies.tolist() == [0.3]
    assert postprocess([0.3], "norm-hyb", top_k=1).frequencies.tolist() == [1.0]


@pytest.mark.parametrize(("d", "alpha"), [(2, 2.0), (4, 2.0), (3, 2.0), (8, 100.0)])
def test_a_threshold_below_zero_is_zero(d, alpha):
    f = [0.1, -0.01] + [-0.5] * (d - 2)
    estimate = FrequencyEstimate(f, n=100, oracle=oracles.OUE(epsilon=1.0, d=d))
    assert postprocess(estimate, "base-cut", alpha=alpha).frequencies.tolist() == [0.1] + [0.0] * (
        d - 1
    )


def test_a_known_top_reaching_below_zero_keeps_no_negative_value():
    assert postprocess([0.5, -0.1, -0.2], "base-cut", top_k=2).frequencies.tolist() == [
        0.5,
        0.0,
        0.0,
    ]


@pytest.mark.parametrize("f", [[-0.1, -0.2], [0.0, 0.0], [0.0, -1e-300]])
def test_norm_mul_without_a_positive_value_raises(f):
    with pytest.raises(InvalidInputError, match=r"needs a positive estimate: .*use norm-sub"):
        postprocess(f, "norm-mul")
    with pytest.raises(InvalidInputError, match="in trial 1:"):
        postprocess([[0.5, 0.5], f], "norm-mul")


def test_all_negative_estimates_still_become_a_distribution():
    estimate = FrequencyEstimate([-0.1, -0.2, -0.4], n=100, oracle=oracles.OUE(epsilon=1.0, d=3))
    for name in ("norm-sub", "norm-hyb", "mle-apx"):
        frequencies = postprocess(estimate, name).frequencies
        expected = literal(name, [-0.1, -0.2, -0.4], estimate)
        assert_allclose(frequencies, reference.floats(expected), rtol=0, atol=ROUNDING)
        assert frequencies.min() > 0


def test_norm_cut_of_a_value_above_one_is_zero_and_says_so():
    with pytest.warns(LdpoptWarning, match="norm-cut returns 0 everywhere.*norm-sub"):
        assert postprocess([1.2, 0.1, -0.3], "norm-cut").frequencies.tolist() == [0.0, 0.0, 0.0]


def test_norm_cut_warns_for_one_trial_of_a_stack_and_leaves_the_others():
    with pytest.warns(LdpoptWarning):
        frequencies = postprocess([[1.2, 0.1], [0.6, 0.1]], "norm-cut").frequencies
    assert frequencies.tolist() == [[0.0, 0.0], [0.6, 0.1]]


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        ([0.5, 0.3, 0.3, 0.1], [0.5, 0.0, 0.0, 0.0]),  # both of the tied go, and all below
        ([0.5, 0.25, 0.25, 0.1], [0.5, 0.25, 0.25, 0.0]),  # both stay
        ([0.4, 0.4, 0.4], [0.0, 0.0, 0.0]),
        ([0.5, 0.3, -0.2], [0.5, 0.3, 0.0]),  # at most 1: all positive ones stay
        ([0.9, 0.3, -0.5], [0.9, 0.0, 0.0]),  # negative values make no room
        ([0.0, 0.0], [0.0, 0.0]),
        ([-1.0, -2.0], [0.0, 0.0]),
    ],
)
def test_norm_cut_at_ties_and_limits(f, expected):
    assert postprocess(f, "norm-cut").frequencies.tolist() == expected
    assert reference.norm_cut(f) == expected


@pytest.mark.parametrize("d", [3, 10, 49, 1000])
@pytest.mark.parametrize("seed", range(3))
def test_norm_cut_keeps_all_of_a_sum_of_one_up_to_rounding(d, seed):
    f = np.random.default_rng(seed).dirichlet(np.ones(d))
    assert_array_equal(postprocess(f, "norm-cut").frequencies, f)


@pytest.mark.parametrize("d", [3, 10, 49])
def test_norm_cut_keeps_all_of_equal_shares(d):
    assert_array_equal(postprocess(np.full(d, 1 / d), "norm-cut").frequencies, 1 / d)


# --- variants of the authors' own code ------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        ([0.6, 0.3, 0.2, -0.1], [0.6 / 1.1, 0.3 / 1.1, 0.2 / 1.1, 0.0]),
        ([0.2, -0.1, 0.6, 0.3, 0.1], [0.2 / 1.1, 0.0, 0.6 / 1.1, 0.3 / 1.1, 0.0]),
        ([1.5, 0.2], [1.0, 0.0]),  # the first value crosses by itself
        ([0.5, 0.3, -0.2], [0.5 / 0.6, 0.3 / 0.6, -0.2 / 0.6]),  # nothing crosses: all are scaled
        ([0.5, 0.5, 0.5], [0.5 / 1.5, 0.5 / 1.5, 0.5 / 1.5]),  # a sum of 1 does not cross
        ([0.4, 0.7, 0.4], [0.4 / 1.1, 0.7 / 1.1, 0.0]),  # of equal values the first
    ],
)
def test_norm_cut_that_keeps_what_crosses_by_hand(f, expected):
    answer = postprocess(f, "norm-cut", crossing="keep").frequencies
    assert answer == pytest.approx(expected, abs=1e-15)
    stack = postprocess([f, f[::-1]], "norm-cut", crossing="keep").frequencies
    assert_array_equal(stack[0], answer)


@pytest.mark.parametrize("f", [[0.1, -0.1], [-0.2, -0.3], [[0.5, 0.6], [0.2, -0.4]], [0.0, 0.0]])
def test_norm_cut_without_anything_to_divide_by_is_refused(f):
    with pytest.raises(InvalidInputError, match="divides by the sum"):
        postprocess(f, "norm-cut", crossing="keep")


def test_an_unknown_crossing_is_refused():
    with pytest.raises(InvalidInputError, match="unknown crossing 'kept': did you mean 'keep'"):
        postprocess([0.5, 0.6], "norm-cut", crossing="kept")


@pytest.mark.parametrize(("name", "option"), [("norm-sub", "zero_first"), ("power", "binned")])
@pytest.mark.parametrize("value", ["no", 0, None])
def test_a_flag_is_true_or_false(name, option, value):
    with pytest.raises(InvalidTypeError, match=f"{option} must be True or False"):
        postprocess(collected(5), name, **{option: value})


def test_zero_first_never_raises_a_value_that_is_not_positive():
    answer = postprocess([0.5, 0.2, -0.01, 0.0], "norm-sub", zero_first=True).frequencies
    assert answer == pytest.approx([0.65, 0.35, 0.0, 0.0])
    raw = collected(40)
    assert np.maximum(raw.frequencies, 0).sum() > 1
    # There no value is raised, so that the variant is the projection.
    variant = postprocess(raw, "norm-sub", zero_first=True).frequencies
    assert variant == pytest.approx(postprocess(raw, "norm-sub").frequencies, abs=1e-15)


def test_zero_first_is_certified_as_the_problem_that_it_solves():
    problem = METHODS["norm-sub"].stated(zero_first=True)
    solution = problem.solve([[0.5, 0.2, -0.01], [0.3, -0.5, 0.1]])
    assert solution.certificate.gap.max() < 1e-12
    assert METHODS["norm-sub"].problem.solve([0.5, 0.2, -0.01]).frequencies[2] > 0.05


def test_zero_first_needs_a_positive_value():
    with pytest.raises(InvalidInputError, match="without one at index 1"):
        postprocess([[0.5, 0.2], [-0.5, 0.0]], "norm-sub", zero_first=True)


def test_power_in_bins_is_power_at_the_nearest_ten_and_five():
    raw = collected(30, n=2000)
    counts = 2000 * raw.frequencies
    prior = priors.PowerLaw.fit(raw)
    bins = 10 * np.rint(counts / 10) + 5
    expected = prior.posterior_mean(bins, 2000 * raw.sigma) / 2000
    assert apply("power", raw, binned=True).frequencies == pytest.approx(expected, rel=1e-9)
    assert not np.allclose(apply("power", raw).frequencies, expected, rtol=1e-4)
    of_stack = apply("power-ns", collected(30, n=2000, trials=2), binned=True)
    assert of_stack.frequencies.sum(axis=-1) == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize(
    ("f", "top_k", "expected"),
    [
        ([0.5, 0.4, 0.3, -0.1], 3, [0.5, 0.4, 0.1, 0.0]),  # 3 exceed 1: the 2 highest stay
        ([0.5, 0.5, 0.3], 2, [0.5, 0.5, 0.0]),  # exactly 1 does not exceed it
        ([0.6, 0.6, -0.2], 2, [0.6, 0.4, 0.0]),  # of equal values the first stays
        ([1.5, 0.2, 0.1], 1, [1.0, 0.0, 0.0]),  # not even the highest fits
        (
            [1.0, 0.25, 0.25],
            3,
            [5 / 6, 1 / 12, 1 / 12],
        ),  # a sum of 1 is not below 1: none stays fixed
        ([0.2, 0.1], 2, [0.55, 0.45]),  # nothing left to adjust: all are
        ([0.25, 0.25], 1, [0.5, 0.5]),  # ties at T are all kept: the same
    ],
)
def test_norm_hyb_by_hand(f, top_k, expected):
    assert_allclose(
        postprocess(f, "norm-hyb", top_k=top_k).frequencies, expected, rtol=0, atol=ROUNDING
    )
    by_definition = reference.norm_hyb(f, reference.threshold_of_top(f, top_k))
    assert_allclose(reference.floats(by_definition), expected, rtol=0, atol=ROUNDING)


def test_post_pos_clips_answers_and_not_the_vector():
    f = [0.5, -0.3, 0.1]
    result = postprocess(f, "post-pos")
    assert result.frequencies.tolist() == f
    assert result.clip_answers
    assert_allclose(result.query([[0, 1], [1, 2], [1]]), [0.2, 0.0, 0.0], rtol=0, atol=ROUNDING)
    assert_allclose(
        postprocess(f, "base").query([[0, 1], [1, 2]]), [0.2, -0.2], rtol=0, atol=ROUNDING
    )


def test_a_later_method_does_not_clip_answers_any_more():
    assert not postprocess(postprocess([0.5, -0.3], "post-pos"), "norm").clip_answers


NOISE_LEVEL = [
    "base-cut",
    "norm-hyb",
    "mle-apx",
    "power",
    "power-ns",
    "base-zero",
    "npmle",
    "npmle-ns",
    "mixture",
    "mixture-ns",
    "auto-ns",
]


@pytest.mark.parametrize("name", METHODS)
def test_methods_that_use_the_noise_level_warn_of_estimates_without_that_noise(name):
    raw = FrequencyEstimate([0.6, 0.3, 0.2, -0.05], n=10_000, oracle=oracles.OUE(epsilon=1.0, d=4))
    processed = postprocess(raw, "norm-sub")
    if name not in NOISE_LEVEL:
        postprocess(processed, name)
    else:
        with pytest.warns(
            LdpoptWarning, match="processed by 'norm-sub' have a different one"
        ) as record:
            postprocess(processed, name)
        assert len(record) == 1
        assert record[0].filename == __file__
    for first in ("base", "post-pos", "norm"):
        postprocess(postprocess(raw, first), name)


def test_a_given_number_of_values_needs_no_noise_level_of_raw_estimates():
    raw = FrequencyEstimate([0.6, 0.3, 0.2], n=10_000, oracle=oracles.OUE(epsilon=1.0, d=3))
    assert postprocess(postprocess(raw, "norm-sub"), "norm-hyb", top_k=1).method == "norm-hyb"


@pytest.mark.parametrize(
    "f", [[1e-300, -1e-300], [1e300, 1e300], [1e300, -1e-300], [1e17, 0.2], [1e300, -0.3]]
)
@pytest.mark.parametrize("name", [name for name in TABLE_I if not name.startswith("power")])
def test_extreme_magnitudes(name, f):
    estimate = FrequencyEstimate(f, n=1000, oracle=oracles.OUE(epsilon=1.0, d=2))
    frequencies = apply(name, estimate).frequencies
    scale = (
        max(1.0, np.abs(f).max()) if METHODS[name].sums_to_one != "yes" or name == "norm" else 1.0
    )
    assert_allclose(
        frequencies, reference.floats(literal(name, f, estimate)), rtol=0, atol=ROUNDING * scale
    )


@pytest.mark.parametrize("f", [[1e-300, -1e-300], [1e300, 1e300], [1e300, -1e300], [-5.0, -5.0]])
def test_power_of_extreme_magnitudes_stays_among_the_counts(f):
    estimate = FrequencyEstimate(f, n=1000, oracle=oracles.OUE(epsilon=1.0, d=2))
    frequencies = apply("power", estimate).frequencies
    assert ((frequencies >= 1 / 1000) & (frequencies <= 1)).all()
    assert_allclose(apply("power-ns", estimate).frequencies, [0.5, 0.5], rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", TABLE_I)
def test_a_number_that_is_not_finite_is_named_by_its_first_position(name, bad):
    with pytest.raises(InvalidInputError, match=f"found {bad} at index 1"):
        postprocess([0.5, bad, bad], name)
    with pytest.raises(InvalidInputError, match=f"found {bad} at trial 1, index 0"):
        postprocess([[0.5, 0.5], [bad, 0.5]], name)


@pytest.mark.parametrize(
    ("f", "error"), [([], ValueError), (0.5, ValueError), (["a"], TypeError), ([True], TypeError)]
)
def test_what_is_not_a_vector_of_numbers_is_refused(f, error):
    with pytest.raises(error, match="frequencies must"):
        postprocess(f, "norm-sub")


# --- names and options ----------------------------------------------------------------------------


def test_an_unknown_method_is_answered_with_the_nearest_names():
    with pytest.raises(
        InvalidInputError, match="unknown method 'norm-subb': did you mean 'norm-sub'"
    ):
        postprocess([0.5, 0.5], "norm-subb")


@pytest.mark.parametrize("method", [None, 3, ["norm-sub"]])
def test_what_is_neither_a_name_nor_a_method_is_refused(method):
    with pytest.raises(InvalidTypeError, match="a method is a name"):
        postprocess([0.5, 0.5], method)


def test_a_misspelt_option_is_answered_with_the_nearest_names():
    with pytest.raises(
        InvalidInputError, match="unknown option of base-cut 'alhpa': did you mean 'alpha'"
    ):
        postprocess(collected(5), "base-cut", alhpa=1)


def test_an_option_of_another_method_is_refused():
    with pytest.raises(InvalidInputError, match="norm-mul takes no options, got 'alpha'"):
        postprocess([0.5, 0.5], "norm-mul", alpha=1)


def test_options_are_listed_with_their_defaults():
    assert METHODS["norm-hyb"].options == {"alpha": 2.0, "top_k": None}
    assert METHODS["norm-mul"].options == {}
    assert METHODS["norm-sub"].options == {"zero_first": False}
    assert METHODS["norm-cut"].options == {"crossing": "cut"}
    assert METHODS["power"].options == METHODS["power-ns"].options == {"binned": False}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"alpha": 0}, InvalidInputError),
        ({"alpha": -1}, InvalidInputError),
        ({"alpha": np.nan}, InvalidInputError),
        ({"alpha": "2"}, InvalidTypeError),
        ({"top_k": 0}, InvalidInputError),
        ({"top_k": 6}, InvalidInputError),
        ({"top_k": 1.5}, InvalidTypeError),
        ({"top_k": True}, InvalidTypeError),
        ({"alpha": 3.0, "top_k": 2}, InvalidInputError),
    ],
)
@pytest.mark.parametrize("name", ["base-cut", "norm-hyb"])
def test_options_out_of_range_are_refused_by_name(name, options, error):
    with pytest.raises(error, match=next(iter(options))):
        postprocess(collected(5), name, **options)


@pytest.mark.parametrize("name", sorted(NEEDS_NOISE))
def test_a_method_that_needs_the_noise_level_says_how_to_give_it(name):
    with pytest.raises(InvalidInputError, match=r"noise level.*n=\.\.\., oracle="):
        postprocess([0.5, 0.5], name)


def test_a_count_that_no_oracle_gives_is_refused_by_mle_apx():
    estimate = FrequencyEstimate([0.5, -9.0], n=10, oracle=oracles.OUE(epsilon=1.0, d=2))
    with pytest.raises(InvalidInputError, match="found f = -9 at index 1"):
        postprocess(estimate, "mle-apx")


# --- a method is a problem ------------------------------------------------------------------------

PROBLEMS = [name for name, method in METHODS.items() if method.problem is not None]


def test_two_methods_minimise_nothing():
    assert sorted(METHODS.keys() - set(PROBLEMS)) == ["norm-cut", "post-pos"]


@pytest.mark.parametrize("trials", [None, 3])
@pytest.mark.parametrize("kind", ORACLES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_method_and_its_problem_agree_to_the_last_bit(name, kind, trials):
    raw = collected(40, ORACLES[kind], trials=trials, seed=5)
    solution = METHODS[name].problem.solve(raw)
    assert_array_equal(solution.frequencies, apply(name, raw).frequencies)
    assert solution.estimate.raw is raw


@pytest.mark.parametrize("kind", ORACLES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_certificate_of_every_method_is_optimal(name, kind):
    raw = collected(40, ORACLES[kind], seed=6)
    certificate = METHODS[name].problem.solve(raw).certificate
    assert certificate.is_optimal(CERTIFIED)


def test_every_trial_of_norm_hyb_solves_its_own_problem():
    raw = collected(12, trials=3, seed=2)
    composition = METHODS["norm-hyb"].problem
    solution = composition.solve(raw)
    assert solution.certificate.gap.shape == (3,)
    assert solution.certificate.is_optimal(CERTIFIED)
    for trial in range(3):
        alone = composition.problem_for(raw[trial])
        solved = alone.solve(raw[trial])
        assert_allclose(solved.frequencies, solution.frequencies[trial], rtol=0, atol=CERTIFIED)
        assert_allclose(solution.objective[trial], solved.objective, rtol=0, atol=CERTIFIED)


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("base-cut", "min ½‖f-f̃‖² + ½T²‖f‖₀, f ≥ 0"),
        ("norm-sub", "min ½‖f-f̃‖², f ≥ 0, Σf = 1"),
        ("mle-apx", "min Σ(f-f̃)²/(a+bf), f ≥ 0, Σf = 1"),
        ("norm-cut", ""),
    ],
)
def test_the_formula_is_that_of_the_problem(name, formula):
    assert METHODS[name].formula == formula


@pytest.mark.parametrize("name", NOISE_LEVEL)
def test_a_problem_warns_of_processed_estimates_as_its_method_does(name):
    raw = collected(12, seed=1)
    processed = postprocess(raw, "norm-sub")
    with pytest.warns(LdpoptWarning, match="processed by 'norm-sub' have a different") as record:
        METHODS[name].problem.solve(processed)
    assert len(record) == 1
    assert record[0].filename == __file__


def test_what_is_not_known_to_be_processed_is_not_warned_of():
    unknown = FrequencyEstimate([0.6, 0.3], n=10_000, oracle=oracles.OUE(epsilon=1.0, d=2))
    assert unknown.is_raw is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        postprocess(unknown, "mle-apx")


def test_the_raw_estimate_stays_raw_under_base_and_under_nothing_else():
    raw = collected(8)
    assert postprocess(raw, "base").is_raw
    assert not any(apply(name, raw).is_raw for name in METHODS if name != "base")


def test_mixture_ns_shifts_to_the_known_sum_before_the_fit():
    # Without the shift, or with another sum, the prior's bottom and every answer move.
    raw = collected(64, seed=3)
    shifted = raw.processed(raw.frequencies + (1 - raw.frequencies.sum()) / 64)
    posterior = priors.posterior_mean(shifted, priors.Mixture)
    unshifted = priors.posterior_mean(raw, priors.Mixture)
    for method, step in (("mixture", lambda f: f), ("mixture-ns", closed_form.norm_sub)):
        frequencies = postprocess(raw, method).frequencies
        assert_allclose(frequencies, step(posterior), rtol=0, atol=CERTIFIED)
        assert np.abs(frequencies - step(unshifted)).max() > 1e-5


# --- hard thresholds ------------------------------------------------------------------------------


def test_the_price_of_a_value_by_hand():
    # T = 0.3: keeping 0.5 and 0.1 costs 2 x 0.045, zeroing 0.1 costs 0.005 less than its price.
    loss = losses.HardThreshold(top_k=1)
    estimate = FrequencyEstimate([0.3, 0.1])
    assert loss.value(np.array([0.3, 0.1]), estimate) == pytest.approx(0.09)
    assert loss.value(np.array([0.3, 0.0]), estimate) == pytest.approx(0.045 + 0.005)
    solution = Problem(loss, [constraints.NonNegative()]).solve(estimate)
    assert solution.frequencies.tolist() == [0.3, 0.0]
    assert solution.certificate.scope == "the support found"


def test_base_cut_is_the_best_of_all_supports():
    estimate = collected(7, seed=11)
    loss = losses.HardThreshold()
    best = Problem(loss, [constraints.NonNegative()]).solve(estimate).objective
    masks = (np.arange(2**7)[:, None] >> np.arange(7)) & 1
    tried = loss.value(np.maximum(estimate.frequencies, 0.0) * masks, estimate)
    assert best == pytest.approx(tried.min(), rel=1e-12)


def test_a_threshold_with_a_total_is_solved_by_steps_on_the_support_found():
    estimate = collected(6, seed=4)
    simplex = [constraints.NonNegative(), constraints.SumsTo(1.0)]
    solution = Problem(losses.HardThreshold(), simplex).solve(estimate)
    assert solution.certificate.is_optimal(1e-8)
    assert solution.frequencies.sum() == pytest.approx(1.0)


def test_thresholds_differ_between_values_whose_noise_differs():
    estimate = FrequencyEstimate([0.2, 0.2], noise=[0.01, 0.0001])
    # Φ⁻¹(1 - 0.05/2) = 1.95996 standard deviations of 0.1 and 0.01.
    assert_allclose(losses.HardThreshold(0.05).threshold(estimate), [0.195996, 0.0195996], 1e-5)
    estimate = FrequencyEstimate([0.19, 0.19], noise=[0.01, 0.0001])
    assert postprocess(estimate, "base-zero").frequencies.tolist() == [0.0, 0.19]


def test_the_representation_of_a_method_states_its_problem():
    assert repr(METHODS["norm-sub"]) == "Method('norm-sub': min ½‖f-f̃‖², f ≥ 0, Σf = 1)"
    assert repr(METHODS["post-pos"]).startswith("Method('post-pos': negative answers")
    assert repr(METHODS["norm-hyb"].problem).startswith("Composition(min ½‖f-f̃‖², f ≥ 0, Σf = 1, ")


def test_the_warning_of_a_fit_comes_each_time_through_both_doors():
    protocol = oracles.OUE(epsilon=1.0, d=3)
    # Counts far below those of noise alone: the mean count is negative, which no power law has.
    raw = protocol.estimate([2_000, 2_100, 2_200], 10_000)
    for _ in range(2):
        with pytest.warns(LdpoptWarning):
            postprocess(raw, "power")
        with pytest.warns(LdpoptWarning):
            METHODS["power"].problem.solve(raw)


def test_a_composition_is_called_optimal_only_where_each_trial_is_certified():
    raw = FrequencyEstimate([[0.7, 0.5, -0.1], [0.5, 0.6, 0.2]], noise=[0.01, 0.01, 0.01])
    right = METHODS["norm-hyb"].problem
    assert right.solve(raw).status == "optimal"

    def off_in_the_second_trial(estimate):
        frequencies = right.minimise(estimate)
        frequencies[1] = [0.2, 0.4, 0.4]
        return frequencies

    wrong = dataclasses.replace(right, closed_form=off_in_the_second_trial)
    with pytest.warns(
        LdpoptWarning, match="inaccurate: Fixed.* is violated by 0.2 and its certified gap"
    ):
        solution = wrong.solve(raw)
    assert solution.status == "inaccurate"
    assert not solution.certificate.is_optimal(1e-8, relative=True)


@pytest.mark.parametrize("size", [1e155, 1e300])
def test_a_composition_proves_nothing_of_numbers_whose_squares_overflow(size):
    raw = FrequencyEstimate(size * np.array([0.5, 0.3, -0.2]), noise=[size, size, size])
    with pytest.warns(LdpoptWarning, match="inaccurate"):
        assert METHODS["norm-hyb"].problem.solve(raw).status == "inaccurate"
