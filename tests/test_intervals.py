"""Intervals: variances of sets by enumeration, ends by definition, coverage from the exact law."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize, special, stats
from scipy.sparse import csr_array

import ldpopt
from ldpopt import FrequencyEstimate, Problem, constraints
from ldpopt.errors import InfeasibleError, InvalidInputError, InvalidTypeError, SolverError
from ldpopt.estimate import Noise, intervals
from ldpopt.losses import LeastSquares
from ldpopt.methods import METHODS
from ldpopt.oracles import GRR, OLH, ORACLES, OUE, HadamardResponse, SubsetSelection
from ldpopt.protocol import PureProtocol, ReportShares
from ldpopt.solve.programs.program import ConeProgram
from tests.every_two import every_two
from tests.tolerances import SIGMAS

SMALL = 1e-10  # sums over up to 2.6e5 reports; variances of order 10
TRUTH = np.array([0.4, 0.25, 0.2, 0.15, 0.0])
SETS = np.array(
    [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [0, 1, 0, 1, 1],
        [0, 1, 1, 1, 1],
        [1, 1, 1, 1, 1],
        [0, 0, 0, 0, 0],
    ]
)
MEMBERS = csr_array(SETS.astype(float))


def interval_of(oracle, n, level):
    """Return the function from raw frequencies to their intervals."""
    noise = Noise.of_reports(n, oracle)
    return lambda f: intervals.unconstrained_interval(f, noise, level)


def reports_of(name, oracle):
    """Return each report's support, (reports, d), and the law given each value, (d, reports)."""
    d = oracle.d
    if name == "grr":
        supports = np.eye(d)
    elif name == "ss":
        supports = np.array(
            [np.isin(range(d), c) for c in itertools.combinations(range(d), oracle.k)], dtype=float
        )
    elif name == "hr":
        supports = (scipy.linalg.hadamard(oracle.columns)[1 : d + 1].T + 1) / 2
    elif name in ("olh", "blh"):  # all functions, and all buckets
        functions = np.array(list(itertools.product(range(oracle.g), repeat=d)))
        supports = np.concatenate([functions == bucket for bucket in range(oracle.g)]).astype(float)
        weight = np.where(supports.T == 1, oracle.p, (1 - oracle.p) / (oracle.g - 1))
        return supports, weight / len(functions)
    else:
        supports = np.array(list(itertools.product([0, 1], repeat=d)), dtype=float)
        one = np.where(np.eye(d) == 1, oracle.p, oracle.q)[:, None, :]
        return supports, np.prod(np.where(supports == 1, one, 1 - one), axis=-1)
    holding = supports.sum(axis=0)[:, None]
    law = np.where(supports.T == 1, oracle.p / holding, (1 - oracle.p) / (len(supports) - holding))
    return supports, law


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("name", ORACLES)
def test_the_variance_of_sets_is_that_of_all_reports_enumerated(name, epsilon, centred):
    oracle = ORACLES[name](epsilon, 5)
    supports, law = reports_of(name, oracle)
    assert_allclose(law.sum(axis=1), 1, rtol=SMALL)
    assert_allclose(law @ supports, np.where(np.eye(5) == 1, oracle.p, oracle.q), atol=SMALL)
    for rows, members in ((SETS, MEMBERS), (np.eye(5), None)):
        weights = rows - rows.sum(axis=1, keepdims=True) / 5 * centred
        answers = supports @ weights.T / (oracle.p - oracle.q)
        given_value = law @ answers**2 - (law @ answers) ** 2
        constant, slope = oracle.answer_variance(TRUTH, members, centred=centred)
        assert_allclose(constant + slope * (rows @ TRUTH), TRUTH @ given_value, atol=SMALL)


def test_the_variance_of_a_value_is_the_papers():
    for make in ORACLES.values():
        oracle = make(1.0, 5)
        constant, slope = oracle.answer_variance(TRUTH)
        assert_allclose(constant + slope * TRUTH, 100 * oracle.variance(100, TRUTH), rtol=SMALL)


def test_hadamard_variances_of_a_stack_are_those_of_its_rows():
    oracle = HadamardResponse(1.0, 5)
    stack = np.stack([TRUTH, TRUTH[::-1], np.full(5, 0.2)])
    for members, centred in itertools.product((None, MEMBERS), (False, True)):
        together, _ = oracle.answer_variance(stack, members, centred=centred)
        for row, one in zip(np.broadcast_to(together, (3, together.shape[-1])), stack, strict=True):
            assert_allclose(
                row, oracle.answer_variance(one, members, centred=centred)[0], rtol=SMALL
            )


def test_ends_of_a_score_interval_are_z_deviations_away_by_their_own_variance():
    answers = np.linspace(-0.1, 1.1, 50)
    z = 1.7
    n = 1000
    for slope in (-0.9, 0.0, 30.0):
        for end in intervals.score(answers, np.array([4.0]) / n, np.array([slope]) / n, z):
            assert_allclose((answers - end) ** 2, z**2 * (4.0 + slope * end) / n, atol=SMALL)


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_clopper_pearson_is_scipys(level):
    counts = np.array([0, 1, 7, 19, 20, 7])
    lower, upper = intervals.clopper_pearson(counts.astype(float), np.array([20.0]), level)
    expected = [stats.binomtest(int(c), 20).proportion_ci(level) for c in counts]
    assert_allclose(lower, [e.low for e in expected], atol=1e-10)
    assert_allclose(upper, [e.high for e in expected], atol=1e-10)
    apart = intervals.clopper_pearson(counts.astype(float), np.full(6, 20.0), level)
    assert_array_equal(apart, (lower, upper))


def test_the_range_on_the_simplex_is_that_of_linear_programs():
    rng = np.random.default_rng(2)
    missed = 0
    for _ in range(40):
        centre = rng.dirichlet(np.ones(4)) + rng.normal(0, 0.1, 4)
        box = centre - rng.uniform(0, 0.15, 4), centre + rng.uniform(0, 0.15, 4)
        ends = np.array(intervals.on_simplex(*box))
        bounds = list(np.clip(box, 0, 1).T)
        for v in range(4):
            programs = [
                optimize.linprog(sign * np.eye(4)[v], A_eq=[[1] * 4], b_eq=[1], bounds=bounds)
                for sign in (1, -1)
            ]
            if programs[0].status == 0:
                assert_allclose(ends[:, v], [programs[0].fun, -programs[1].fun], atol=1e-9)
            else:  # the box misses the simplex
                missed += 1
                assert_array_equal(ends[:, v], np.clip(np.array(box)[:, v], 0, 1))
    assert 0 < missed < 80


# --- coverage, from the exact law of one count ----------------------------------------------------


def coverage(oracle, n, holders, interval):
    """Return P(interval covers holders/n) under Binomial(holders, p) + Binomial(n - holders, q)."""
    law = np.convolve(
        stats.binom.pmf(np.arange(holders + 1), holders, oracle.p),
        stats.binom.pmf(np.arange(n - holders + 1), n - holders, oracle.q),
    )
    frequencies = (np.arange(n + 1) / n - oracle.q) / (oracle.p - oracle.q)
    lower, upper = interval(frequencies)
    return law @ ((lower <= holders / n) & (holders / n <= upper))


@every_two(name=[*ORACLES], epsilon=[0.5, 1.0, 4.0], level=[0.8, 0.95, 0.99])
def test_values_are_covered_at_the_boundary_in_the_tail_and_in_the_head(name, epsilon, level):
    for d, n in ((128, 2000), (2000, 300)):
        oracle = ORACLES[name](epsilon, d)
        for holders in (0, 1, n // 100, n // 10, n // 2, n):
            covered = coverage(oracle, n, holders, interval_of(oracle, n, level))
            assert covered >= level - 0.01, (d, n, holders)


@pytest.mark.parametrize("holders", [0, 3])
def test_normal_tails_alone_would_not_cover_small_counts(holders):
    oracle = GRR(epsilon=1.0, d=2000)
    n = 1000  # half a report is expected of a value that nobody has
    level = 0.95
    z = stats.norm.ppf((1 + level) / 2)
    normal = coverage(
        oracle,
        n,
        holders,
        lambda f: intervals.score(f, *Noise.of_reports(n, oracle).answer_variance(f), z),
    )
    assert normal < level - 0.01
    assert (
        coverage(
            oracle,
            n,
            holders,
            lambda f: intervals.unconstrained_interval(f, Noise.of_reports(n, oracle), level),
        )
        >= level
    )


def test_sets_of_grr_with_small_counts_are_covered():
    oracle = GRR(epsilon=1.0, d=2000)
    n = 500
    level = 0.95
    pair = PureProtocol(
        1.0, 2, p=oracle.p + oracle.q, q=2 * oracle.q
    )  # a report supports one of two values
    members = csr_array(np.eye(2, 2000) + np.eye(2, 2000, k=2))[[0]]

    def of_set(answers):
        frequencies = np.zeros((len(answers), 2000))
        frequencies[:, 0] = answers
        return (
            end[:, 0]
            for end in intervals.unconstrained_interval(
                frequencies, Noise.of_reports(n, oracle), level, members
            )
        )

    for holders in (0, 2, 50):
        assert coverage(pair, n, holders, of_set) >= level


# --- sets of values that are not alike ------------------------------------------------------------


@pytest.mark.parametrize("centred", [False, True])
def test_what_a_report_adds_to_a_set_is_that_of_all_reports_enumerated(centred):
    oracle = HadamardResponse(2.0, 5)
    supports, law = reports_of("hr", oracle)
    sets = SETS[:5].astype(float)
    weights = sets - sets.mean(axis=1, keepdims=True) * centred
    shift = sets.mean(axis=1) * centred
    offset = oracle.q * weights.sum(axis=1)
    shares = (supports @ weights.T - offset) / (oracle.p - oracle.q) + shift
    assert_allclose(law @ shares, sets.T, atol=SMALL)
    away = shares[None, :, :] - sets.T[:, None, :]
    variance = np.einsum("vr,vrs->vs", law, away**2)
    third = np.einsum("vr,vrs->vs", law, away**3)
    bounds = oracle.report_shares(csr_array(sets), centred=centred)
    assert_allclose(bounds.lowest, shares.min(axis=0), atol=SMALL)
    assert_allclose(bounds.highest, shares.max(axis=0), atol=SMALL)
    for i, members in enumerate(sets > 0):
        assert_allclose(bounds.inside[i], variance[members, i].max(), atol=SMALL)
        if not members.all():
            assert_allclose(bounds.outside[i], variance[~members, i].max(), atol=SMALL)
    some = sets.sum(axis=1) < 5  # the share of all values is constant in Norm's answer
    worst = np.abs(third[:, some]).max(axis=0) / variance[:, some].min(axis=0) ** 1.5
    assert_allclose(bounds.skewness[some], worst, rtol=1e-6)
    sizes = supports @ sets.T
    for i in range(len(sets)):
        differences = np.diff(np.unique(sizes[:, i])) / (oracle.p - oracle.q)
        assert_allclose(differences / bounds.step[i], np.rint(differences / bounds.step[i]))
    assert OLH(1.0, 5).report_shares(csr_array(sets), centred=centred) is None


def test_the_ends_of_bounded_shares_are_those_of_two_points():
    """There, n times the divergence of two laws on -v/b and b with means t and 0 is log(2/α).

    The largest variance v is that of the frequency at the end; shares reach 3.5 above their mean at
    the lower end, and 1 - (-1.5) = 2.5 at the upper one.
    """
    n = 400
    level = 0.9
    shares = ReportShares(*(np.array([value]) for value in (2.0, 0.5, -1.5, 3.5, 0.0, 0.0)))
    answer = np.array([0.3])
    for end, reach in zip(intervals.bounded(answer, n, shares, level), (3.5, 2.5), strict=True):
        distance = abs(end - answer)
        variance = 0.5 + 1.5 * end
        null = variance / (reach**2 + variance)
        tilted = (variance + reach * distance) / (reach**2 + variance)
        divergence = special.rel_entr(tilted, null) + special.rel_entr(1 - tilted, 1 - null)
        assert_allclose(n * divergence, np.log(2 / (1 - level)), rtol=1e-9)


def test_the_inequality_is_above_every_binomial_tail():
    """A share with two values, whose mean has a binomial law: the case it is sharpest for."""
    n = 40
    for probability in (0.02, 0.3, 0.5, 0.9):
        counts = np.arange(np.floor(n * probability) + 1, n + 1)
        distance = counts / n - probability
        reach = 1 - probability
        bound = np.exp(-n * intervals._bennett(distance, probability * reach, reach))
        tail = stats.binom.sf(counts - 1, n, probability)
        assert (tail <= bound * (1 + 1e-9)).all()
        # Sharp on a logarithmic scale: a bound without the variance would be far above.
        assert_allclose(bound[-1], tail[-1], rtol=1e-9)


def hadamard_coverage(oracle, users, sets, trials, *, level=0.95, centred):
    """Return how often the interval of each set covers, simulated from the law of the columns."""
    supports, law = reports_of("hr", oracle)
    rng = np.random.default_rng(8)
    n = int(users.sum())
    columns = sum(rng.multinomial(users[v], law[v], trials) for v in np.flatnonzero(users))
    frequencies = (columns @ supports / n - oracle.q) / (oracle.p - oracle.q)
    ends = intervals.unconstrained_interval(
        frequencies, Noise.of_reports(n, oracle), level, csr_array(sets), centred=centred
    )
    truth = sets @ (users / n)
    lower, upper = (np.clip(end, 0, 1) for end in ends)
    return ((lower <= truth + SMALL) & (truth <= upper + SMALL)).mean(axis=0)


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("n", [5, 20, 100])
def test_sets_of_hadamard_response_are_covered_with_few_reports(n, centred):
    """Where the normal tail stood alone, one set in twelve was covered with .80 to .93."""
    trials = 3_000
    alarm = 0.95 - SIGMAS * np.sqrt(0.95 * 0.05 / trials)
    # In turns: each d and each epsilon meets users of one value, and of all.
    for place, (d, epsilon) in enumerate([(7, 1.0), (7, 6.0), (15, 6.0), (15, 1.0)]):
        # The first three and the first seven values are subgroups of the rows without the first:
        # a report supports all of them, or half of them and one less.
        sets = np.array([np.arange(d) < 3, np.arange(d) < 7, np.arange(d) % 2 == 0, np.ones(d)])
        oracle = HadamardResponse(epsilon, d)
        values = np.arange(n) % d if place % 2 else np.zeros(n, dtype=int)
        users = np.bincount(values, minlength=d)
        covered = hadamard_coverage(oracle, users, sets, trials, centred=centred)
        assert (covered >= alarm).all(), (d, epsilon, covered)


def test_a_subgroup_of_many_values_is_covered():
    """Of 512 columns one supports all of 511 values: by a normal tail .91 would be covered."""
    oracle = HadamardResponse(1.0, 1023)
    sets = (np.arange(1023) < 511)[None, :].astype(float)
    users = np.zeros(1023, dtype=int)
    users[[0, 600]] = 50
    covered = hadamard_coverage(oracle, users, sets, 2_000, centred=True)
    assert (covered >= 0.95 - SIGMAS * np.sqrt(0.95 * 0.05 / 2_000)).all()


def test_many_reports_leave_the_normal_tail_of_sets_as_it_is():
    oracle = HadamardResponse(1.0, 15)
    raw = oracle.estimate(oracle.simulate_counts(np.full(15, 1_000), rng=2), 15_000)
    members = csr_array((np.arange(15) < 6)[None, :].astype(float))
    z = stats.norm.ppf(0.975)
    expected = intervals.score(
        raw.query([range(6)]), *raw.noise.answer_variance(raw.frequencies, members), z
    )
    assert_allclose(raw.interval(sets=[range(6)]), expected, rtol=1e-9)


# --- coverage, simulated --------------------------------------------------------------------------

POPULATION = np.array([450] * 4 + [60] * 15 + [3] * 20 + [0] * 25)
"""Users by value: head, middle, tail and boundary, 2,760 in all."""
GROUPS = {
    "head": slice(0, 4),
    "middle": slice(4, 19),
    "tail": slice(19, 39),
    "boundary": slice(39, 64),
}


@pytest.mark.parametrize("name", ORACLES)
def test_simulated_coverage_after_post_processing(name):
    oracle = ORACLES[name](1.0, 64)
    n = int(POPULATION.sum())
    level = 0.95
    trials = 800
    raw = oracle.estimate(oracle.simulate_counts(POPULATION, rng=11, trials=trials), n)
    post = ldpopt.postprocess(raw, "norm-sub")
    truth = POPULATION / n
    lower, upper = post.interval(level)
    covered = (lower <= truth) & (truth <= upper)
    for name, values in GROUPS.items():
        rates = covered[:, values].mean(axis=1)
        assert rates.mean() >= level - 0.01 - 2 * rates.std() / np.sqrt(trials), name
    sets = [range(4), range(0, 64, 2), range(1, 64), range(30, 64)]
    answers = FrequencyEstimate(truth).query(sets)
    for estimate in (raw, post):
        lower, upper = estimate.interval(level, sets)
        rates = ((lower <= answers) & (answers <= upper)).mean(axis=0)
        assert (rates >= level - SIGMAS * np.sqrt(level * (1 - level) / trials)).all(), rates
        lower, upper = estimate.interval(level, simultaneous=True)
        joint = ((lower <= truth) & (truth <= upper)).all(axis=-1).mean()
        assert joint >= level - SIGMAS * np.sqrt(level * (1 - level) / trials)


def test_the_interval_around_norm_sub_fails_in_the_head_and_the_cut_raw_one_does_not():
    oracle = OUE(epsilon=1.0, d=128)
    n = 20_000
    level = 0.95
    trials = 4000
    weights = np.arange(1, 129) ** -1.3
    counts = np.floor(n * weights / weights.sum()).astype(int)
    counts[0] += n - counts.sum()
    truth = counts / n
    raw = oracle.estimate(oracle.simulate_counts(counts, rng=3, trials=trials), n)
    post = ldpopt.postprocess(raw, "norm-sub")
    z = stats.norm.ppf((1 + level) / 2)
    naive = z * np.sqrt(oracle.variance(n, post.frequencies.clip(0, 1)))
    error = SIGMAS * np.sqrt(level * (1 - level) / trials)  # 0.017
    assert (np.abs(post.frequencies - truth) <= naive)[:, 0].mean() < level - error
    lower, upper = post.interval(level)
    assert ((lower <= truth) & (truth <= upper))[:, 0].mean() >= level - error
    raw_lower, raw_upper = raw.interval(level)
    narrower = 1 - (upper - lower).mean() / (raw_upper - raw_lower).mean()
    assert 0.40 < narrower < 0.45


# --- intervals that were selected -----------------------------------------------------------------


@pytest.mark.parametrize("make", [OUE, GRR])
def test_intervals_of_the_largest_values_keep_the_false_coverage_rate(make):
    """N = 10⁶ users, d = 5,000, ε = 1: what `ldpopt estimate --plot` shows."""
    d = 5_000
    n = 10**6
    trials = 30
    shown = 40
    weights = np.arange(1, d + 1) ** -1.1
    users = np.floor(n * weights / weights.sum()).astype(int)
    users[0] += n - users.sum()
    oracle = make(1.0, d)
    raw = oracle.estimate(oracle.simulate_counts(users, rng=12, trials=trials), n)
    post = ldpopt.postprocess(raw, "norm-sub")
    largest = np.argsort(-post.frequencies, kind="stable")[:, :shown]

    def misses(**options):
        """Return the share of the intervals shown that miss, in every trial."""
        ends = (np.take_along_axis(end, largest, axis=1) for end in post.interval(0.95, **options))
        lower, upper = ends
        truth = (users / n)[largest]
        return ((truth < lower) | (truth > upper)).mean(axis=1)

    rates = misses(selected=shown)
    # A trial whose misses are as rare as promised is above it by chance, but not all trials are.
    assert rates.mean() <= 0.05 + SIGMAS * np.sqrt(0.05 / shown / trials)
    assert misses().mean() > 0.3
    assert (misses(simultaneous=True) > 0).mean() <= 0.05 + SIGMAS * np.sqrt(0.05 * 0.95 / trials)


def test_selected_intervals_have_the_level_that_their_share_asks_for():
    assert intervals.level_of_selected(0.95, 40, 5_000) == pytest.approx(0.9996)
    assert_array_equal(RAW.interval(0.9, selected=2), RAW.interval(1 - 0.1 * 2 / 5))
    assert_array_equal(RAW.interval(0.9, selected=1), RAW.interval(0.9, simultaneous=True))
    for enough in (5, 6):
        assert_array_equal(RAW.interval(0.9, selected=enough), RAW.interval(0.9))
    sets = [[0], [1, 2], [3]]
    assert_array_equal(RAW.interval(0.9, sets, selected=1), RAW.interval(1 - 0.1 / 3, sets))
    with pytest.raises(InvalidInputError, match="leave out selected"):
        RAW.interval(0.9, selected=2, simultaneous=True)
    with pytest.raises(InvalidInputError, match=r"selected .* must be at least 1"):
        RAW.interval(0.9, selected=0)


# --- intervals that hold something possible -------------------------------------------------------


@pytest.mark.parametrize("n", [50, 20_000])
@pytest.mark.parametrize("name", ORACLES)
def test_no_interval_is_a_point_and_none_shrinks(name, n):
    oracle = ORACLES[name](1.0, 8)
    rng = np.random.default_rng(3)
    # As far outside as counts can be: no report, or every report, supports a value.
    shares = np.concatenate([np.zeros((1, 8)), np.ones((1, 8)), rng.random((20, 8))])
    raw = (np.round(n * shares) / n - oracle.q) / (oracle.p - oracle.q)
    noise = Noise.of_reports(n, oracle)
    for members in (None, csr_array(np.eye(3, 8) + np.eye(3, 8, k=2))):
        for centred in (False, True):
            answers, *plain = intervals._answers_and_ends(
                raw, noise, 0.95, members, centred=centred
            )
            lower, upper = intervals.possible_interval(raw, noise, 0.95, members, centred=centred)
            cut_lower, cut_upper = intervals.clipped(*plain)
            assert ((lower <= cut_lower) & (cut_upper <= upper)).all()
            assert ((lower >= 0) & (upper <= 1)).all()
            assert (upper > lower).all()
            possible = (answers >= 0) & (answers <= 1)
            assert_array_equal(lower[possible], cut_lower[possible])
            assert_array_equal(upper[possible], cut_upper[possible])


def test_the_end_of_a_negative_estimate_is_that_of_the_likelihood_ratio():
    sd = 0.01
    z = stats.norm.ppf(0.975)
    raw = FrequencyEstimate([-0.05, -0.03, -0.02, -0.01, 0.0, 1.11], noise=sd**2, is_raw=True)
    post = ldpopt.postprocess(raw, "base-pos")
    lower, upper = post.interval(0.95)
    x = raw.frequencies[:5]
    f = upper[:5]
    # Twice the logarithm of the likelihood at 0, the best possible frequency, over that at f.
    ratio = ((x - f) ** 2 - x**2) / sd**2
    assert_allclose(ratio, z**2, rtol=1e-9)
    assert_array_equal(lower[:5], 0)
    assert_allclose(((1.11 - lower[5]) ** 2 - 0.11**2) / sd**2, z**2, rtol=1e-9)
    assert upper[5] == 1


# --- the method -----------------------------------------------------------------------------------

RAW = OUE(epsilon=1.0, d=5).estimate([361, 338, 315, 292, 264], 1000)


def test_intervals_of_a_raw_estimate_surround_it_and_may_leave_the_unit_interval():
    lower, upper = RAW.interval()
    assert (lower < RAW.frequencies).all()
    assert (upper > RAW.frequencies).all()
    assert lower.min() < 0


@pytest.mark.parametrize("method", [name for name in METHODS if name != "base"])
def test_every_method_keeps_the_raw_estimate_and_gives_its_intervals(method):
    post = ldpopt.postprocess(RAW, method)
    assert post.raw is RAW
    again = ldpopt.postprocess(post, "norm-sub")
    assert again.raw is RAW
    assert_array_equal(post.interval(0.9), again.interval(0.9))
    lower, upper = post.interval(0.9)
    assert ((lower >= 0) & (lower <= upper) & (upper <= 1)).all()


@pytest.mark.parametrize("name", ORACLES)
def test_a_set_and_all_other_values_have_the_same_interval_once_the_sum_is_known(name):
    oracle = ORACLES[name](1.0, 5)
    raw = oracle.estimate(oracle.simulate_counts([400, 300, 200, 100, 0], rng=4, trials=3), 1000)
    lower, upper = ldpopt.postprocess(raw, "norm-sub").interval(
        0.9, [[0, 3], [1, 2, 4], range(5), []]
    )
    assert_allclose(lower[:, 0], 1 - upper[:, 1], atol=1e-9)
    assert_allclose(upper[:, 0], 1 - lower[:, 1], atol=1e-9)
    # A variance of zero, rounded: its root is 1e-8.
    assert_allclose([lower[:, 2], upper[:, 2]], 1, atol=1e-7)
    assert_allclose([lower[:, 3], upper[:, 3]], 0, atol=1e-7)


@pytest.mark.parametrize("make", [GRR, OUE, OLH, SubsetSelection, HadamardResponse])
def test_trials_are_answered_row_by_row(make):
    oracle = make(1.0, 5)
    raw = oracle.estimate(oracle.simulate_counts([400, 300, 200, 100, 0], rng=4, trials=3), 1000)
    post = ldpopt.postprocess(raw, "norm-sub")
    for options in ({}, {"sets": [[0, 1], [3]]}, {"simultaneous": True}):
        lower, upper = post.interval(**options)
        for trial in range(3):
            single = oracle.estimate(
                np.round(1000 * (oracle.q + (oracle.p - oracle.q) * raw.frequencies[trial])), 1000
            )
            row = ldpopt.postprocess(single, "norm-sub").interval(**options)
            assert_allclose([lower[trial], upper[trial]], row, atol=1e-9)


def test_simultaneous_intervals_are_wider_and_the_sum_narrows_them():
    post = ldpopt.postprocess(RAW, "norm-sub")
    widths = [np.subtract(*post.interval(simultaneous=joint)[::-1]) for joint in (False, True)]
    assert (widths[1] >= widths[0]).all()
    assert widths[1].sum() > widths[0].sum()


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, 95, float("nan"), "0.95"])
def test_a_level_outside_is_refused(level):
    with pytest.raises((InvalidInputError, InvalidTypeError), match="level"):
        RAW.interval(level)


def test_a_level_in_percent_is_refused_with_what_it_is():
    with pytest.raises(InvalidInputError, match=r"> 0 and < 1, got 97\.5: 97\.5 % is 0\.975$"):
        RAW.interval(97.5)


def test_what_is_not_known_is_an_error():
    with pytest.raises(InvalidInputError, match="noise level"):
        FrequencyEstimate([0.5, 0.5]).interval()
    oracle = OUE(1.0, 2)
    with pytest.raises(InvalidInputError, match="does not know"):
        FrequencyEstimate([0.5, 0.5], n=10, oracle=oracle, is_raw=False).interval()
    with pytest.raises(InvalidInputError, match="nothing shows that this one is"):
        FrequencyEstimate([0.5, 0.5], n=10, oracle=oracle).interval()
    with pytest.raises(InvalidInputError, match="set 0"):
        RAW.interval(sets=[[7]])


def test_a_protocol_known_by_p_and_q_has_intervals_for_values_and_none_for_sets():
    estimate = FrequencyEstimate.from_counts([50, 30], 100, PureProtocol(1.0, 2, p=0.5, q=0.25))
    oracle = OUE(epsilon=np.log(3), d=2)
    assert_allclose(
        estimate.interval(),
        FrequencyEstimate.from_counts([50, 30], 100, oracle).interval(),
        rtol=1e-9,
    )
    assert np.shape(ldpopt.postprocess(estimate, "norm-sub").interval()) == (2, 2)
    with pytest.raises(InvalidInputError, match="joint law"):
        estimate.interval(sets=[[0, 1]])


# --- under other constraints ----------------------------------------------------------------------

SIMPLEX = [constraints.NonNegative(), constraints.SumsTo(1.0)]
SOLVED = 1e-6  # Clarabel on frequencies times d; HiGHS is closer


def test_linear_programs_on_the_simplex_find_the_closed_form():
    interval = Problem(LeastSquares(), SIMPLEX).interval(RAW, 0.9)
    assert_allclose(interval, intervals.on_simplex(*RAW.interval(1 - 0.1 / 5)), atol=SOLVED)
    post = ldpopt.postprocess(RAW, "norm-sub")
    assert_array_equal(Problem(LeastSquares(), SIMPLEX).interval(post, 0.9), interval)


def test_cone_programs_agree_with_linear_ones():
    sets = [[0, 1], [2, 3, 4]]
    order = constraints.Monotone(range(5))
    custom = constraints.Custom(lambda f: [f[:-1] >= f[1:]])
    linear, conic = (
        Problem(LeastSquares(), [*SIMPLEX, c]).interval(RAW, 0.9, sets) for c in (order, custom)
    )
    assert_allclose(conic, linear, atol=SOLVED)


def test_the_range_under_an_order_is_the_running_bound():
    lower, upper = Problem(LeastSquares(), [constraints.Monotone(range(5))]).interval(RAW, 0.9)
    box = RAW.interval(1 - 0.1 / 5)
    assert_allclose(upper, np.minimum.accumulate(box[1]), atol=SOLVED)
    assert_allclose(lower, np.maximum.accumulate(box[0][::-1])[::-1], atol=SOLVED)


def test_a_conflict_among_constraints_is_not_blamed_on_the_reports():
    falling = constraints.Monotone(range(5))
    rising = constraints.Linear([[-1.0, 1.0, 0.0, 0.0, 0.0]], 0.1)
    with pytest.raises(InfeasibleError, match=r"these conflict: f\[0\] >= f\[1\]; row 0 of"):
        Problem(LeastSquares(), [falling, rising]).interval(RAW)


def test_joint_intervals_under_an_order_cover_at_once_and_are_narrower():
    oracle = OUE(1.0, 8)
    trials = 30
    counts = np.array([1000, 600, 400, 400, 300, 200, 50, 50])
    truth = counts / 3000
    raw = oracle.estimate(oracle.simulate_counts(counts, rng=6, trials=trials), 3000)
    lower, upper = Problem(LeastSquares(), [*SIMPLEX, constraints.Monotone(range(8))]).interval(raw)
    covered = ((lower <= truth + SOLVED) & (truth <= upper + SOLVED)).all(axis=1).sum()
    assert covered >= stats.binom.ppf(1e-6, trials, 0.95)
    plain = intervals.on_simplex(*raw.interval(1 - 0.05 / 8))
    assert (upper - lower).mean() < 0.95 * (plain[1] - plain[0]).mean()


def test_the_end_of_a_range_at_zero_has_no_sign():
    raw = FrequencyEstimate([0.9, 0.2, -0.1], noise=[1e-3] * 3, is_raw=True)
    lower, upper = Problem(LeastSquares(), SIMPLEX).interval(raw)
    assert lower[2] == upper[2] == 0
    assert not np.signbit([lower[2], upper[2]]).any()


def test_constraints_that_the_reports_refute_are_named_as_such():
    for constraint in (
        constraints.Linear([[1, 1, 0, 0, 0]], upper=0.2),
        constraints.Custom(lambda f: [f[0] <= 0.05]),
    ):
        with pytest.raises(InfeasibleError, match="the data reject the constraints"):
            Problem(LeastSquares(), [*SIMPLEX, constraint]).interval(RAW)
    ends = Problem(LeastSquares(), [*SIMPLEX, constraints.Fixed([0], [0.05])]).interval(RAW)
    assert_allclose([end[0] for end in ends], 0.05, atol=SOLVED)
    with pytest.raises(InvalidInputError, match="not convex"):
        Problem(LeastSquares(), [*SIMPLEX, constraints.AtMost(2)]).interval(RAW)


def test_a_normal_tail_is_used_only_where_the_count_is_hardly_skewed():
    # With q = 0.01, z³ (1 - 2q)/6 = 1.2298 must be at most 0.2 standard deviations of the count:
    # sqrt(n q (1 - q)) >= 6.149, which is n >= 3,819. Its steps are fine enough from 3,445 on.
    protocol = PureProtocol(1.0, 2, p=0.5, q=0.01)
    z = stats.norm.ppf(0.975)
    for n, is_normal in ((3_800, False), (3_840, True)):
        counts = np.array([n // 100, n // 100 + 5])
        raw = FrequencyEstimate.from_counts(counts, n, protocol)
        expected = intervals.score(raw.frequencies, *raw.noise.answer_variance(raw.frequencies), z)
        if not is_normal:
            lower = stats.beta.ppf(0.025, counts, n - counts + 1)
            upper = stats.beta.ppf(0.975, counts + 1, n - counts)
            expected = [(end - 0.01) / 0.49 for end in (lower, upper)]
        assert_allclose(raw.interval(), expected, rtol=1e-9)


def test_an_end_that_the_solver_calls_inaccurate_is_an_error(monkeypatch):
    solve = ConeProgram.solve

    def inaccurate(self, options=None):
        return replace(solve(self, options), status="optimal_inaccurate")

    monkeypatch.setattr(ConeProgram, "solve", inaccurate)
    raw = OUE(epsilon=1.0, d=3).estimate([3_750, 3_850, 2_750], 10_000)
    falling = constraints.Custom(lambda f: [f[:-1] >= f[1:]])
    problem = Problem(LeastSquares(), [constraints.SumsTo(1.0), falling])
    with pytest.raises(SolverError, match="no range of an answer: optimal_inaccurate"):
        problem.interval(raw)


def test_a_set_of_hadamard_response_is_covered_at_high_levels():
    oracle = HadamardResponse(12.0, 3)
    raw = oracle.estimate(oracle.simulate_counts([1, 1, 0], rng=7, trials=1_000), 2)
    lower, _ = ldpopt.postprocess(raw, "norm-sub").interval(0.999, sets=[[1, 2]])
    # Half of the two users have a value of the set.
    assert (lower > 0.5).mean() <= 0.001


def test_a_level_next_to_1_has_a_finite_interval():
    level = 1 - 1e-16
    oracle = OUE(epsilon=1.0, d=4)
    raw = oracle.estimate(oracle.simulate_counts([500, 300, 150, 50], rng=0), 1_000)
    widest = raw.interval(level)
    assert (1 + level) / 2 == 1.0
    assert np.isfinite(widest).all()
    assert (widest[0] <= raw.interval(0.999)[0]).all()
    assert (widest[1] >= raw.interval(0.999)[1]).all()
