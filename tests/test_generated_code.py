"""Generated functions return what the library does, to 1 ulp per value, in all languages."""

import ctypes
import json
import shutil
import subprocess

import numpy as np
import pytest

import ldpopt
from ldpopt import constraints, losses, oracles
from ldpopt.discovery import LANGUAGES, OPERATORS, code_of, register_operator
from ldpopt.discovery.code import source_of
from ldpopt.discovery.code.steps import steps_of
from ldpopt.discovery.setting import Setting
from ldpopt.errors import InvalidInputError, UnsupportedProblemError

CC = next(filter(None, map(shutil.which, ("cc", "gcc", "clang", "tcc"))), None)
NODE = shutil.which("node")

D = 31
N = 3_000
RNG = np.random.default_rng(5)
TRUTH = RNG.dirichlet(np.full(D, 0.3))
OUE = oracles.OUE(1.0, D)
GRR = oracles.GRR(1.0, D)
BY_OUE = OUE.estimate(RNG.binomial(N, OUE.q + (OUE.p - OUE.q) * TRUTH), n=N)
BY_GRR = GRR.estimate(RNG.multinomial(N, GRR.q + (GRR.p - GRR.q) * TRUTH), n=N)
POSITIVE = np.maximum(BY_OUE.frequencies, 1e-3)
MIXED = RNG.permutation(D)
PARENTS = np.arange(D - 1) // 2
DOWN = np.stack([PARENTS, np.arange(1, D)], axis=1)
SIMPLEX = [constraints.NonNegative(), constraints.SumsTo(1.0)]
GROUPS = constraints.GroupTotals([np.arange(9), np.arange(9, 20)], [0.3, 0.4])
OWN = constraints.Bounds(np.zeros(D), np.linspace(0.2, 0.6, D))

RANKED = [np.arange(float(D))]
REFERENCE = np.full(D, 1 / D)
# Without the last values, which a divergence then holds at 0.
FALLING = np.maximum(np.arange(D - 3.0, -3.0, -1.0), 0.0)
FALLING /= FALLING.sum()
LS = losses.LeastSquares()
CASES = {
    "unchanged": (LS, [], BY_OUE),
    "clipped": (LS, SIMPLEX[:1], BY_OUE),
    "norm": (LS, SIMPLEX[1:], BY_OUE),
    "norm_sub": (LS, SIMPLEX, BY_OUE),
    "own_bounds": (LS, [OWN, SIMPLEX[1]], BY_OUE),
    "groups": (LS, [OWN, GROUPS], BY_OUE),
    "groups_and_total": (losses.BinomialMLE(), [*SIMPLEX, GROUPS], BY_OUE),
    "chain": (LS, [*SIMPLEX, constraints.Monotone(np.arange(D))], BY_OUE),
    "mixed_chain": (losses.BinomialMLE(), [*SIMPLEX, constraints.Monotone(MIXED)], BY_OUE),
    "peak": (losses.GaussianMLE(), [*SIMPLEX, constraints.Unimodal(7)], BY_OUE),
    "tree_down": (LS, [*SIMPLEX, constraints.Monotone(DOWN)], BY_OUE),
    "tree_up": (LS, [*SIMPLEX, constraints.Monotone(DOWN[:, ::-1])], BY_OUE),
    "equal": (LS, [*SIMPLEX, constraints.Monotone(MIXED), constraints.Monotone(DOWN)], BY_OUE),
    "tree_totals": (LS, [constraints.Hierarchy(np.append(-1, PARENTS), 1.0)], BY_OUE),
    "few": (LS, [*SIMPLEX, constraints.AtMost(4)], BY_OUE),
    "top_set": (LS, [*SIMPLEX, constraints.TopSet(MIXED[:6])], BY_OUE),
    "top_set_of_counts": (losses.BinomialMLE(), [*SIMPLEX, constraints.TopSet([5])], BY_OUE),
    "weighted": (losses.GaussianMLE(), SIMPLEX, BY_OUE),
    "binomial": (losses.BinomialMLE(), [*SIMPLEX, constraints.Bounds(0.0, 0.4)], BY_OUE),
    "multinomial": (losses.MultinomialMLE(), SIMPLEX, BY_GRR),
    "row": (LS, [*SIMPLEX, constraints.Linear(RANKED, -np.inf, 9.0)], BY_OUE),
    "row_from_below": (LS, [OWN, SIMPLEX[1], constraints.Linear(RANKED, 20.0, np.inf)], BY_OUE),
    "row_that_holds": (LS, [*SIMPLEX, constraints.Linear(RANKED, 0.0, 30.0)], BY_OUE),
    "row_without_total": (LS, [*SIMPLEX[:1], constraints.Linear(RANKED, 3.0, 4.0)], BY_OUE),
    "ball": (LS, [*SIMPLEX, constraints.Near(REFERENCE, 0.1, norm=1)], BY_OUE),
    "ball_of_own_bounds": (LS, [OWN, constraints.Near(REFERENCE, 0.3, norm=1)], BY_OUE),
    "ball_that_holds": (LS, [*SIMPLEX, constraints.Near(REFERENCE, 2.25, norm=1)], BY_OUE),
    "round_ball": (LS, [*SIMPLEX, constraints.Near(REFERENCE, 0.1)], BY_OUE),
    "round_ball_of_own_bounds": (LS, [OWN, constraints.Near(REFERENCE, 0.1)], BY_OUE),
    "round_ball_without_total": (LS, [*SIMPLEX[:1], constraints.Near(FALLING, 0.1)], BY_OUE),
    "divergence_ball": (LS, [*SIMPLEX, constraints.Near(FALLING, 0.05, "kl")], BY_OUE),
    "divergence_ball_of_own_bounds": (
        LS,
        # The library's own search may stop 1e-13 of the radius inside.
        [OWN, SIMPLEX[1], constraints.Near(FALLING, 0.03, "kl")],
        BY_OUE,
    ),
    "divergence_ball_that_holds": (
        LS,
        [*SIMPLEX, constraints.Near(REFERENCE, 50.0, "kl")],
        BY_OUE,
    ),
    "margins": (
        LS,
        [
            constraints.Margins((3, 4), 0, [0.5, 0.3, 0.2]),
            constraints.Margins((3, 4), 1, [0.4, 0.3, 0.2, 0.1]),
            SIMPLEX[1],
        ],
        BY_OUE.frequencies[:12],
    ),
    "divergence": (losses.KullbackLeibler(), SIMPLEX[1:], POSITIVE),
    "divergence_from_below": (
        losses.KullbackLeibler(),
        [constraints.Bounds(0.01, 0.3), SIMPLEX[1]],
        POSITIVE,
    ),
    "one_group_of_all": (LS, [SIMPLEX[0], constraints.GroupTotals([MIXED], [1.0])], BY_OUE),
}


def stated(case):
    loss, sets, estimate = CASES[case]
    return ldpopt.Problem(loss, sets), ldpopt.FrequencyEstimate.of(estimate)


def arguments_of(source, estimate):
    """Return the protocol's numbers that a function takes, by the comment at its top."""
    if "q: the probability" in source:
        return [estimate.oracle.q, estimate.oracle.p]
    return [estimate.noise.kappa] if "kappa: the growth" in source else []


def as_c(path, estimate, name, arguments):
    """Return the status and the result of a compiled function."""
    values = np.ascontiguousarray(estimate, dtype=np.float64)
    result = np.empty(len(values))
    pointer = ctypes.POINTER(ctypes.c_double)
    function = getattr(ctypes.CDLL(str(path)), f"repair_{name}")
    status = function(
        ctypes.c_size_t(len(values)),
        values.ctypes.data_as(pointer),
        result.ctypes.data_as(pointer),
        *map(ctypes.c_double, arguments),
    )
    return status, result


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Return all functions in C, compiled at once: their kernels are static."""
    if CC is None:
        pytest.skip("no C compiler is installed")
    folder = tmp_path_factory.mktemp("c")
    for case in CASES:
        problem, estimate = stated(case)
        source = code_of(problem, estimate, "c", name=f"repair_{case}")
        (folder / f"{case}.c").write_text(source, "utf-8")
    strict = ["-O1", "-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    files = sorted(map(str, folder.glob("*.c")))
    subprocess.run([CC, *strict, "-o", folder / "all.so", *files, "-lm"], check=True)
    return folder / "all.so"


@pytest.fixture(scope="module")
def from_node(tmp_path_factory):
    """Return what node computes with all modules, in one process."""
    if NODE is None:
        pytest.skip("node is not installed")
    folder = tmp_path_factory.mktemp("js")
    inputs = {}
    for case in CASES:
        problem, estimate = stated(case)
        source = code_of(problem, estimate, "javascript", name="repair")
        (folder / f"{case}.mjs").write_text(source, "utf-8")
        inputs[case] = [estimate.frequencies.tolist(), *arguments_of(source, estimate)]
    script = (
        f"const inputs = {json.dumps(inputs)}; const out = {{}};\n"
        "for (const [name, input] of Object.entries(inputs)) {\n"
        "  const { repair } = await import(`./${name}.mjs`);\n"
        "  out[name] = Array.from(repair(...input));\n"
        "  try { repair([NaN], ...input.slice(1)); out[name] = []; } catch (error) {\n"
        "    if (!(error instanceof RangeError)) throw error; }\n"
        "}\nconsole.log(JSON.stringify(out));\n"
    )
    (folder / "all.mjs").write_text(script, "utf-8")
    done = subprocess.run([NODE, folder / "all.mjs"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def in_numpy(case, values=None):
    problem, estimate = stated(case)
    source = code_of(problem, estimate, "numpy")
    scope = {}
    exec(source, scope)
    given = estimate.frequencies if values is None else values
    return scope["post_process"](given, *arguments_of(source, estimate))


def require_same(result, case):
    problem, estimate = stated(case)
    ours = problem.minimise(estimate)
    # 1 ulp of 1 per value: numbers of order 1 are added up in each.
    np.testing.assert_allclose(result, ours, rtol=0, atol=estimate.d * np.spacing(1.0))
    assert ldpopt.certify(problem, estimate, result).is_optimal(1e-12)


@pytest.mark.parametrize("case", CASES)
def test_numpy_returns_what_we_do(case):
    require_same(in_numpy(case), case)


@pytest.mark.parametrize(
    ("case", "right", "wrong"),
    [
        ("row", "x - price * weights", "x + price * weights"),
        ("row_from_below", "low - value_at(-price)", "low - value_at(-price / 2) / 1.01"),
        ("row_without_total", "value_at(price) - high", "value_at(price) - high * 1.01"),
        ("ball", "sum()) - radius", "sum()) - 1.01 * radius"),
        ("ball_of_own_bounds", "f += reference", "f += reference * 1.001"),
        ("round_ball", "sum())) - radius", "sum())) - 1.01 * radius"),
        ("round_ball_of_own_bounds", "x / (1 + price)", "x / (1 + price) + 0.001"),
        ("divergence_ball", "f * np.log(ratio) - f", "1.01 * f * np.log(ratio) - f"),
        ("divergence_ball_of_own_bounds", "price * logarithm", "price * 1.01 * logarithm"),
    ],
)
def test_rows_and_balls_change_the_result(case, right, wrong):
    problem, estimate = stated(case)
    *others, _ = CASES[case][1]
    without = ldpopt.Problem(LS, others).minimise(estimate)
    # Otherwise the case would show nothing of the row or the ball.
    assert np.abs(problem.minimise(estimate) - without).max() > 1e-3
    source = code_of(problem, estimate, "numpy")
    scope = {}
    assert right in source
    exec(source.replace(right, wrong), scope)
    with pytest.raises((AssertionError, ValueError)):
        require_same(scope["post_process"](estimate.frequencies), case)


@pytest.mark.parametrize("case", CASES)
def test_c_returns_what_we_do(case, library):
    problem, estimate = stated(case)
    source = code_of(problem, estimate, "c")
    status, result = as_c(library, estimate.frequencies, case, arguments_of(source, estimate))
    assert status == 0
    require_same(result, case)


@pytest.mark.parametrize("case", CASES)
def test_javascript_returns_what_we_do(case, from_node):
    require_same(np.array(from_node[case]), case)


def test_a_wrong_sign_in_a_kernel_would_be_seen():
    problem, estimate = stated("norm_sub")
    source = code_of(problem, estimate, "numpy")
    assert source.count("return x - price") == 1
    scope = {}
    exec(source.replace("return x - price", "return 1.001 * x - price"), scope)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        require_same(scope["post_process"](estimate.frequencies), "norm_sub")


@pytest.mark.parametrize("case", ["norm_sub", "chain", "binomial"])
def test_what_has_no_numbers_of_its_own_takes_any_number_of_values(case):
    loss, sets, _ = CASES[case]
    oracle = oracles.OUE(1.0, 9)
    estimate = oracle.estimate([300, 200, 100, 90, 80, 70, 60, 50, 40], n=400)
    if case == "chain":
        sets = [*SIMPLEX, constraints.Monotone(np.arange(9))]
    result = in_numpy(case, estimate.frequencies)
    assert ldpopt.certify(ldpopt.Problem(loss, sets), estimate, result).is_optimal(1e-12)


@pytest.mark.parametrize("language", LANGUAGES)
def test_sources_stand_alone_and_state_bad_input(language):
    source = code_of(*stated("peak"), language)
    imports = {"numpy": "import numpy as np", "c": "#include <math.h>", "javascript": "export"}
    assert imports[language] in source
    assert "ldpopt" not in source.replace("Generated by ldpopt", "")
    assert "not finite" in source
    assert "kappa: the growth of the variance" in source
    assert max(map(len, source.splitlines())) <= 100


def test_bad_input_has_a_status_in_c(library):
    right_way = [OUE.q, OUE.p]
    cases = [
        (1, "own_bounds", BY_OUE.frequencies[:-1], []),
        (2, "norm_sub", [0.5, np.nan], []),
        (2, "binomial", [0.5, 40.0], right_way),
        (2, "weighted", [0.5, -1e9], [BY_OUE.noise.kappa]),
        (3, "binomial", [0.5, 0.5], right_way),  # two values of at most 0.4 each
        (3, "divergence_from_below", [0.5, 0.5, 0.5, 0.0], []),
        (5, "binomial", [0.5, 0.5], right_way[::-1]),
        (5, "weighted", [0.5, 0.5], [-2.0]),
    ]
    for status, case, values, arguments in cases:
        assert as_c(library, values, case, arguments)[0] == status


@pytest.mark.parametrize(
    ("case", "values", "message"),
    [
        ("own_bounds", [0.5, 0.5], "too few or many"),
        ("norm_sub", [0.5, np.nan], "no estimate of a frequency: nan at 1"),
        ("binomial", [0.5, 40.0], "no estimate of a frequency: 40.0 at 1"),
        ("binomial", [0.5, 0.5], "the bounds do not allow a sum of 1"),
        ("divergence_from_below", [0.5, 0.5, 0.5, 0.0], "is not positive has a lower bound"),
    ],
)
def test_bad_input_raises_in_numpy(case, values, message):
    with pytest.raises(ValueError, match=message):
        in_numpy(case, values)


def test_every_operator_has_a_source_or_says_that_it_has_none():
    sets = [OWN, SIMPLEX[1], GROUPS, constraints.Monotone(np.arange(D)), constraints.AtMost(3)]
    problem = ldpopt.Problem(losses.GaussianMLE(), sets)
    setting = Setting.of(problem, BY_OUE)
    for operator in OPERATORS.values():
        if operator.is_available(setting):
            for language in LANGUAGES:
                assert "post_process" in source_of([operator], setting, language)
    step = register_operator("own step", lambda values: values)
    try:
        with pytest.raises(UnsupportedProblemError, match="'own step' has no source"):
            source_of([step], setting)
    finally:
        OPERATORS.remove("own step")


@pytest.mark.parametrize("name", ["level the highest", "mean of ties", "scale by group"])
def test_other_operators_return_what_they_do_in_searches(name):
    tied = constraints.Linear([[1.0, -1.0] + [0.0] * (D - 2)], 0.0, 0.0)
    sets = [*SIMPLEX, GROUPS, constraints.AtMost(3), tied]
    setting = Setting.of(ldpopt.Problem(LS, sets), BY_OUE)
    operator = OPERATORS[name]
    scope = {}
    exec(source_of([operator], setting, "numpy"), scope)
    ours = operator.apply(BY_OUE.frequencies[None], setting)[0]
    np.testing.assert_allclose(scope["post_process"](BY_OUE.frequencies), ours, rtol=0, atol=1e-14)


def test_prices_without_effect_are_no_division_by_zero():
    """Between two prices all values are at the reference, whose sum is a bit more than 1."""
    reference = np.array([0.6528427815610721, 0.3471572184389277])
    ball = constraints.Near(reference, 0.0038, norm=1)
    scope = {}
    exec(code_of(ldpopt.Problem(LS, [*SIMPLEX, ball]), np.zeros(2), "numpy"), scope)
    moved = np.add(reference, [-0.0019, 0.0019])
    np.testing.assert_allclose(scope["post_process"](np.zeros(2)), moved, rtol=0, atol=1e-15)


def test_what_has_no_source_ends_in_a_sentence():
    smooth = ldpopt.Problem(LS, [*SIMPLEX, constraints.Smooth(0.5, 0.5)])
    with pytest.raises(UnsupportedProblemError, match=r"no closed form.*ldpopt\.discover"):
        code_of(smooth, BY_OUE)
    weighted = constraints.Near(REFERENCE, 0.1, 1, weights=np.arange(1.0, D + 1))
    near = ldpopt.Problem(LS, [*SIMPLEX, weighted])
    with pytest.raises(UnsupportedProblemError, match="which has no source"):
        code_of(near, BY_OUE)
    diamond = constraints.Monotone([(0, 1), (0, 2), (1, 3), (2, 3)])
    with pytest.raises(UnsupportedProblemError, match="not for other partial orders"):
        code_of(ldpopt.Problem(LS, [*SIMPLEX, diamond]), BY_OUE)


@pytest.mark.parametrize("name", ["mine", "pool by group"])
def test_an_operator_of_a_user_has_no_source_whatever_its_name(name):
    """Also where a writer has that name: what a user's function does is not known."""
    problem, estimate = stated("norm_sub")
    register_operator(name, lambda x: x)
    try:
        with pytest.raises(UnsupportedProblemError, match=f"'{name}' has no source to generate"):
            steps_of((OPERATORS[name],), Setting.of(problem, estimate))
    finally:
        OPERATORS.remove(name)


def test_what_cannot_be_asked_for_ends_in_a_sentence():
    problem, estimate = stated("norm_sub")
    with pytest.raises(InvalidInputError, match="unknown language"):
        code_of(problem, estimate, "cobol")
    with pytest.raises(InvalidInputError, match="identifier"):
        code_of(problem, estimate, "c", name="f(){}")
    with pytest.raises(InvalidInputError, match="'level' is taken"):
        code_of(problem, estimate, "c", name="level")


@pytest.mark.parametrize(
    ("language", "name"),
    [("c", "exit"), ("c", "sqrtf"), ("javascript", "class"), ("numpy", "lambda")],
)
def test_words_of_a_language_are_no_names(language, name):
    simplex = [constraints.NonNegative(), constraints.SumsTo(1.0)]
    problem = ldpopt.Problem(losses.LeastSquares(), simplex)
    with pytest.raises(InvalidInputError, match=f"name '{name}' is a word of {language}"):
        code_of(problem, np.full(4, 0.25), language, name=name)
