"""Claims about the oracles themselves: privacy, and which of them is how accurate."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import InstanceSet
from ldpopt.claims.reference.channels import channel
from ldpopt.oracles import BLH, GRR, OLH, ORACLES, OUE, SUE, HadamardResponse, SubsetSelection

TITLE = "The protocols: privacy, and which of them is how accurate"
ORDER = 100

SMALL = [(1.0, 4), (0.5, 5), (2.0, 3)]
"""Pairs (ε, d) at which every report of every oracle is enumerated. Subset selection has k = 2 in the second."""

_ROUNDING = 1e-12  # sums of up to 1,000 probabilities


def _grid(instances: InstanceSet) -> list[tuple[float, int]]:
    """Return pairs (ε, d) that cover the papers' settings: ε up to 5, d up to Kosarak's."""
    epsilons = np.linspace(0.1, 5.0, 15 if instances.quick else 99)
    sizes = [2, 3, 4, 5, 8, 16, 33, 100, 915, 1024, 1573, 42_178]
    return [(float(epsilon), d) for epsilon in epsilons for d in sizes]


def _optimum(epsilon: float) -> float:
    """Return 4e^ε/(e^ε-1)², the papers' n Var f̃ of OUE and OLH at f = 0."""
    e = math.exp(epsilon)
    return 4 * e / (e - 1) ** 2


@claim(
    "pure-private",
    "N II Definition 1, III; K Definition 1",
    "Every oracle is ε-locally differentially private, and pure: a report supports the own value with probability p and any "
    "other with the same probability q.",
    Verdict.HOLDS,
)
def _pure_private(instances: InstanceSet) -> Finding:
    loss, impurity, reports = 0.0, 0.0, 0
    for make in ORACLES.values():
        for epsilon, d in SMALL:
            oracle = make(epsilon, d)
            law = channel(oracle)
            pure = oracle.q + (oracle.p - oracle.q) * np.eye(d)
            loss = max(loss, abs(law.privacy_loss - epsilon))
            impurity = max(impurity, float(np.max(np.abs(law.expectation - pure))))
            reports += len(law.supports)
    return Finding(
        max(loss, impurity) < _ROUNDING,
        reports,
        {
            "largest |privacy loss - ε|, over all reports and pairs of values": loss,
            "largest |Pr[report of v supports u] - p or q|": impurity,
            "enumerated": "all reports of all oracles, at (ε, d) = "
            + ", ".join(f"({e:g}, {d})" for e, d in SMALL),
        },
    )


@claim(
    "grr-oue",
    "D 2.3, N III-A",
    "Without f's part GRR's variance, linear in d, is below OUE's where d - 2 < 3e^ε, and OUE's is below for larger d.",
    Verdict.HOLDS,
)
def _grr_oue(instances: InstanceSet) -> Finding:
    wrong, differs, grid = 0, 0, _grid(instances)
    for epsilon, d in grid:
        grr, oue = GRR(epsilon=epsilon, d=d), OUE(epsilon=epsilon, d=d)
        wrong += (grr.a < oue.a) != (d - 2 < 3 * math.exp(epsilon))
        # f's part adds b/d to the mean over the domain.
        differs += (grr.a < oue.a) != (grr.a + grr.b / d < oue.a + oue.b / d)
    line = [GRR(epsilon=1.0, d=d).a for d in (10, 20, 30)]
    linear = math.isclose(line[2] - line[1], line[1] - line[0], rel_tol=1e-9)
    return Finding(
        wrong == 0 and linear,
        len(grid),
        {
            "pairs (ε, d) on the wrong side": wrong,
            "pairs where the mean over the domain, f's part included, says otherwise": differs,
            "n Var of GRR at ε = 1, d = 10, 20, 30": ", ".join(f"{a:.3f}" for a in line),
            "n Var of OUE at ε = 1": OUE(epsilon=1.0, d=10).a,
        },
    )


@claim(
    "olh-best-g",
    "N III-B, D 2.4",
    "OLH's variance is smallest at g = e^ε + 1, in practice the closest integer (N) or the floor (D).",
    Verdict.CORRECTED,
)
def _olh_best_g(instances: InstanceSet) -> Finding:
    """With h = g - 1 the variance is (e²/h + 2e + h)/(e-1)², e = e^ε: convex in h, smallest at h = e, equal at h and e²/h."""

    def variance(h: float, e: float) -> float:
        return (e * e / h + 2 * e + h) / (e - 1) ** 2

    epsilons = np.linspace(0.05, 5.0, 100 if instances.quick else 2_000)
    continuous, suboptimal, formula = 0.0, 0, 0.0
    excess = {"nearest": 0.0, "floor": 0.0}
    for epsilon in epsilons:
        e = math.exp(epsilon)
        steps = e * np.array([1 - 1e-3, 1, 1 + 1e-3])
        continuous = max(
            continuous, float(variance(steps[1], e) / min(variance(h, e) for h in steps) - 1)
        )
        best = min(variance(h, e) for h in range(max(1, int(e) - 2), int(e) + 4))
        for rounding in ("nearest", "floor"):
            oracle = OLH(epsilon=float(epsilon), d=8, rounding=rounding)
            formula = max(formula, abs(oracle.a / variance(oracle.g - 1, e) - 1))
            excess[rounding] = max(excess[rounding], oracle.a / best - 1)
            suboptimal += rounding == "nearest" and oracle.a > best * (1 + 1e-9)
    # The best integer changes from g to g + 1 where e^ε = sqrt(g(g-1)), a little before N's e^ε = g - 1/2.
    return Finding(
        holds=max(excess.values()) < 1e-9,
        corrected=continuous < 1e-9 and formula < 1e-9 and 0 < excess["nearest"] < 0.03,
        instances=len(epsilons),
        evidence={
            "g = e^ε + 1 is the minimum of the variance as a continuous function of g, to": continuous,
            "the best integer": "g where sqrt((g-1)(g-2)) <= e^ε <= sqrt(g(g-1))",
            "budgets of the grid at which the closest integer is not the best": suboptimal,
            "the closest integer's variance exceeds the best integer's by at most, relative": excess[
                "nearest"
            ],
            "the floor's, relative": excess["floor"],
        },
    )


@claim(
    "olh-oue",
    "D 2.4, N III-C",
    "With g = e^ε + 1 in practice an integer, OLH has the variance of OUE.",
    Verdict.CORRECTED,
)
def _olh_oue(instances: InstanceSet) -> Finding:
    epsilons = np.linspace(0.05, 5.0, 100 if instances.quick else 2_000)
    excess = {
        rounding: np.array(
            [
                OLH(epsilon=float(e), d=8, rounding=rounding).a / OUE(epsilon=float(e), d=8).a - 1
                for e in epsilons
            ]
        )
        for rounding in ("nearest", "floor")
    }
    whole = max(
        abs(OLH(epsilon=math.log(k), d=8).a / OUE(epsilon=math.log(k), d=8).a - 1)
        for k in (2, 3, 5, 20, 100)
    )
    nearest, floor = excess["nearest"], excess["floor"]
    usual = epsilons >= 0.7  # where e^ε + 1 > 3
    return Finding(
        holds=float(max(nearest.max(), floor.max())) < 1e-9,
        corrected=whole < 1e-9
        and float(nearest.min()) > -1e-9
        and float(nearest[usual].max()) < 0.02,
        instances=2 * len(epsilons),
        evidence={
            "largest relative difference at e^ε = 2, 3, 5, 20, 100": whole,
            "with the closest integer OLH's variance is larger by at most, ε from 0.05 to 5": float(
                nearest.max()
            ),
            "from ε = 0.7 on": float(nearest[usual].max()),
            "with the floor, ε from 0.05 to 5": float(floor.max()),
            "at ε = 1 with the closest integer (g = 4)": OLH(epsilon=1.0, d=8).a / _optimum(1.0)
            - 1,
            "at ε = 1 with the floor (g = 3)": OLH(epsilon=1.0, d=8, rounding="floor").a
            / _optimum(1.0)
            - 1,
        },
    )


@claim(
    "ss-p",
    "N III-C, D 2.4",
    "In subset selection the own value is included with p = 1/2, and k is an integer near d/(e^ε + 1).",
    Verdict.CORRECTED,
)
def _ss_p(instances: InstanceSet) -> Finding:
    def loss(p: float, k: int, d: int) -> float:
        """Return the privacy loss of k-subsets: (p/C(d-1,k-1)) over ((1-p)/C(d-1,k))."""
        return abs(math.log(p / (1 - p) * (d - k) / k))

    grid = [pair for pair in _grid(instances) if pair[1] > 2]
    printed, right, inside = 0.0, 0.0, []
    for epsilon, d in grid:
        oracle = SubsetSelection(epsilon=epsilon, d=d)
        printed = max(printed, loss(0.5, oracle.k, d) - epsilon)
        right = max(right, abs(loss(oracle.p, oracle.k, d) - epsilon))
        if d >= 100:
            inside.append(oracle.p)
    return Finding(
        holds=printed < 1e-9,
        corrected=right < 1e-9,
        instances=len(grid),
        evidence={
            "with p = 1/2 and the integer k the privacy loss exceeds ε by up to": printed,
            "correction": "p = k e^ε/(k e^ε + d - k), which is 1/2 at k = d/(e^ε + 1) only",
            "with it, largest |privacy loss - ε|": right,
            "p for d of 100 and more, ε up to 5": f"{min(inside):.4f} .. {max(inside):.4f}",
        },
    )


@claim(
    "ss-variance",
    "N III-C, VI; D 2.4",
    "Subset selection's variance is smaller than that of OLH and OUE, and essentially the same for a large domain.",
    Verdict.HOLDS,
)
def _ss_variance(instances: InstanceSet) -> Finding:
    grid = _grid(instances)
    worst, large, worst_at_one = 0.0, 1.0, 0.0
    for epsilon, d in grid:
        ss = SubsetSelection(epsilon=epsilon, d=d)
        rivals = [OUE(epsilon=epsilon, d=d), OLH(epsilon=epsilon, d=d)]
        worst = max(worst, *(ss.a / rival.a for rival in rivals))
        worst_at_one = max(worst_at_one, *((ss.a + ss.b) / (rival.a + rival.b) for rival in rivals))
        if d > 900 and epsilon <= 2:
            large = min(large, ss.a / rivals[0].a)
    # The q that the papers derive with p = 1/2 and k = d/(e^ε + 1), in exact arithmetic at e^ε = 3.
    e, d_exact = Fraction(3), 12
    k = Fraction(d_exact) / (e + 1)
    chain = (2 * k - 1) / (2 * (d_exact - 1)), (d_exact - (e + 1) / 2) / ((e + 1) * (d_exact - 1))
    return Finding(
        worst < 1 and large > 0.98 and chain[0] == chain[1] < 1 / (e + 1),
        len(grid),
        {
            "largest ratio of the variance at f = 0 to that of OUE or OLH, all (ε, d), integer k": worst,
            "largest ratio at f = 1": worst_at_one,
            "smallest ratio to OUE for d > 900 and ε <= 2": large,
            "the printed q = (1/(e^ε+1)) (d - (e^ε+1)/2)/(d-1)": "equals (2k-1)/(2(d-1)), exactly, at e^ε = 3, d = 12",
        },
    )


@claim(
    "blh-hr",
    "D 2.4; N III-C, VI",
    "Random matrix projection and Hadamard response, with g = 2, have a larger variance than OLH for larger ε.",
    Verdict.HOLDS,
)
def _blh_hr(instances: InstanceSet) -> Finding:
    epsilons = np.linspace(0.05, 5.0, 50 if instances.quick else 500)
    theory, worse, same = 0.0, 0, 0.0
    first_worse = math.inf
    for epsilon in map(float, epsilons):
        blh, hr = BLH(epsilon=epsilon, d=8), HadamardResponse(epsilon=epsilon, d=8)
        olh, oue = OLH(epsilon=epsilon, d=8), OUE(epsilon=epsilon, d=8)
        theory = max(theory, abs(blh.a / oue.a / math.cosh(epsilon / 2) ** 2 - 1))
        same = max(same, abs(blh.a - hr.a) / hr.a)
        worse += blh.a < olh.a * (1 - 1e-12)
        if blh.a > olh.a * (1 + 1e-9):
            first_worse = min(first_worse, epsilon)
    above = [
        BLH(epsilon=float(e), d=8).a > OLH(epsilon=float(e), d=8).a
        for e in epsilons
        if e >= math.log(2)
    ]
    ratios = {e: BLH(epsilon=e, d=8).a / OLH(epsilon=e, d=8).a for e in (1.0, 2.0, 4.0)}
    return Finding(
        theory < 1e-9 and same < 1e-9 and all(above),
        len(epsilons),
        {
            "smallest ε of the grid at which OLH is better": first_worse,
            "budgets of the grid at which OLH is worse": worse,
            **{
                f"variance of BLH and HR over OLH's at ε = {e:g}": ratio
                for e, ratio in ratios.items()
            },
            "over OUE's it is cosh²(ε/2), to a relative": theory,
        },
    )


@claim(
    "sue-oue",
    "D 2.3, on [36]; N III-C, on [31]",
    "Among all unary encodings of the same budget OUE, with p = 1/2, has the smallest variance for values of low frequency; "
    "it improves on SUE (basic RAPPOR).",
    Verdict.HOLDS,
)
def _sue_oue(instances: InstanceSet) -> Finding:
    epsilons = np.linspace(0.05, 5.0, 20 if instances.quick else 200)
    best, theory = 0.0, 0.0
    for epsilon in map(float, epsilons):
        sue, oue = SUE(epsilon=epsilon, d=8), OUE(epsilon=epsilon, d=8)
        keep = np.linspace(0.01, 0.99, 981)  # 1/2 among them
        flip = 1 / (1 + math.exp(epsilon) * (1 - keep) / keep)  # from e^ε = p(1-q)/(q(1-p))
        variance = flip * (1 - flip) / (keep - flip) ** 2
        best = max(best, oue.a / float(variance.min()) - 1)
        theory = max(theory, abs(sue.a / oue.a / math.cosh(epsilon / 4) ** 2 - 1))
    crossing = {e: SUE(epsilon=e, d=8).a - OUE(epsilon=e, d=8).a for e in (1.0, 2.0, 4.0)}
    return Finding(
        best < 1e-9 and theory < 1e-9,
        len(epsilons),
        {
            "OUE's variance at f = 0 exceeds the best of 981 encodings by a relative": best,
            "SUE's over OUE's is cosh²(ε/4), to a relative": theory,
            **{
                f"but SUE is the better one for frequencies above, at ε = {e:g}": f
                for e, f in crossing.items()
            },
        },
    )


@claim(
    "hr-half",
    "D 2.4",
    "In Hadamard response every report is a subset of exactly half of the domain, if the domain size is even.",
    Verdict.CORRECTED,
)
def _hr_half(instances: InstanceSet) -> Finding:
    def halves(d: int, size: int) -> list[int]:
        """Return how many of rows 0 .. d-1 are +1 in each column but the constant one."""
        return [
            sum((row & column).bit_count() % 2 == 0 for row in range(d))
            for column in range(1, size)
        ]

    even = {d: halves(d, 1 << (d - 1).bit_length()) for d in range(2, 17, 2)}
    powers = all(set(even[d]) == {d // 2} for d in (2, 4, 8, 16))
    return Finding(
        holds=all(set(sizes) == {d // 2} for d, sizes in even.items()),
        corrected=powers,
        instances=len(even),
        evidence={
            "sizes of the supported subset by column, d = 6": " ".join(map(str, even[6])),
            "d = 8": " ".join(map(str, even[8])),
            "correction": "exactly half where d is a power of two and column 0, constant, is left out",
        },
    )


@claim(
    "communication",
    "N III-B, III-C; D 2.4, V",
    "A report of OUE or subset selection takes a number of bits linear in d; one of OLH or Hadamard response is of constant "
    "size.",
    Verdict.CORRECTED,
)
def _communication(instances: InstanceSet) -> Finding:
    sizes = [2**k for k in (8, 10, 12, 14)]
    bits = {
        name: [ORACLES[name](1.0, d).report_bits for d in sizes]
        for name in ("oue", "ss", "olh", "hr", "grr")
    }
    growth = {
        name: math.log(b[-1] / b[0]) / math.log(sizes[-1] / sizes[0]) for name, b in bits.items()
    }
    by_one = bool(np.allclose(np.diff(bits["hr"]), 2.0))  # a factor 4 in d is two bits
    linear = all(abs(growth[name] - 1) < 0.05 for name in ("oue", "ss"))
    return Finding(
        holds=linear and growth["olh"] == 0 == growth["hr"],
        corrected=linear and growth["olh"] == 0 and by_one,
        instances=len(sizes),
        evidence={
            **{
                f"bits of a report of {name}, d = 256 .. 16,384": f"{b[0]:.0f} .. {b[-1]:.0f}"
                for name, b in bits.items()
            },
            **{f"exponent of d, {name}": growth[name] for name in ("oue", "ss", "olh")},
            "correction": "Hadamard response needs log2 K bits, K the power of two above d: one more for every doubling",
        },
    )
