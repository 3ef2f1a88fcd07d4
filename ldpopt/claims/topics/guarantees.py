"""Claims about what methods guarantee: Table I's flags, order, and where Norm changes nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import Instance, InstanceSet
from ldpopt.claims.engine.measures import as_text, largest, smallest
from ldpopt.claims.engine.tolerances import FORMULA, IDENTITY, SUM
from ldpopt.claims.reference import published
from ldpopt.estimate import FrequencyEstimate
from ldpopt.methods import METHODS, postprocess
from ldpopt.oracles import GRR, HadamardResponse, SubsetSelection

TITLE = "What methods guarantee: Table I's flags, order, and where Norm changes nothing"
ORDER = 60

Array = NDArray[np.float64]

_SLOW = {"power", "power-ns"}  # summed directly over counts: given the random instances only

# The ten rows of N Table I: the papers' twelve methods come first, two of them are D's alone.
_PAPER_METHODS = [name for name in list(METHODS)[:12] if name not in {"base", "norm-hyb"}]


def _instances(instances: InstanceSet, name: str) -> Iterable[Instance]:
    """Yield the instances of a method: norm-mul has no answer without a positive value."""
    # No adversarial ones: estimates that no collection gives may break a method's own conditions.
    pool = instances.random + ([] if name in _SLOW else instances.real)
    for instance in pool:
        if name != "norm-mul" or (instance.estimate.frequencies > 0).any(axis=-1).all():
            yield instance


@cache
def _outputs(
    instances: InstanceSet, name: str
) -> list[tuple[FrequencyEstimate, FrequencyEstimate]]:
    """Return estimates and a method's answers to them; several claims use them."""
    outputs = []
    for instance in _instances(instances, name):
        raw = instance.estimate
        if name == "norm-cut":
            answered = (raw.frequencies <= 1).all(axis=-1)
            if not answered.any():
                continue
            raw = raw[answered]  # by definition, it answers 0 everywhere to the others
        n = raw.noise.require_n()
        mean_count = raw.frequencies.mean(axis=-1) * n
        if name in _SLOW and not ((mean_count > 2) & (mean_count < n / 2)).all():
            continue  # no power law has a mean below 1, and above n/2 they rise
        outputs.append((raw, postprocess(raw, name)))
    return outputs


@cache
def _lowest_answer(instances: InstanceSet, name: str) -> float:
    """Return the lowest answer of a method to a query about a single value."""
    # Through queries: Post-Pos clips answers, not frequencies.
    return min(
        smallest(result.query(np.eye(result.d, dtype=np.bool_)))
        for _, result in _outputs(instances, name)
    )


@claim(
    "table1-nonnegative",
    "N Table I, column Non-neg",
    "All methods but Norm return non-negative answers; Norm does not.",
    Verdict.HOLDS,
)
def table1_nonnegative(instances: InstanceSet) -> Finding:
    """Query every single value of every method's answers on the random and real instances.

    Red if the sign of a method's lowest answer is not the one that the library's table of methods
    states, without tolerance.
    """
    # By answers, never by the definition of a method: a flag must be true of what users get.
    as_stated = True
    vectors = 0
    evidence: dict[str, float | int | str] = {}
    for name in _PAPER_METHODS:
        lowest = _lowest_answer(instances, name)
        vectors += sum(len(result.frequencies) for _, result in _outputs(instances, name))
        evidence[f"{name}: lowest answer"] = lowest
        # Both ways: a method that is better than its flag makes the table wrong as well.
        as_stated &= (lowest >= 0) == (METHODS[name].nonnegative == "yes")
    return Finding(holds=as_stated, instances=vectors, evidence=evidence)


@claim(
    "table1-sum",
    "N Table I, column Sum to 1",
    "Norm, Norm-Mul, Norm-Sub, MLE-Apx and PowerNS sum to 1, Norm-Cut almost (at most 1); the "
    "others do not.",
    Verdict.HOLDS,
)
def table1_sum(instances: InstanceSet) -> Finding:
    """Sum every method's answers on the random and real instances.

    "Yes" is 1 to SUM on every vector, "almost" is at most 1 on every vector. Red if a method's
    word is not the one that the library's table of methods states.
    """
    as_stated = True
    vectors = 0
    evidence: dict[str, float | int | str] = {}
    for name in _PAPER_METHODS:
        # Together over all instances: a flag of Table I is a statement about every input.
        sums = [np.sum(result.frequencies, axis=-1) for _, result in _outputs(instances, name)]
        totals = np.concatenate(sums)
        vectors += len(totals)
        evidence[f"{name}: sums"] = f"{totals.min():.6f} .. {totals.max():.6f}"
        as_stated &= _sum_flag(totals) == METHODS[name].sums_to_one
    return Finding(holds=as_stated, instances=vectors, evidence=evidence)


@claim(
    "draft-table1",
    "D Table 1, rows Base and Norm-Hyb",
    "Base is neither non-negative nor sums to 1; Norm-Hyb is and does.",
    Verdict.HOLDS,
)
def draft_table1(instances: InstanceSet) -> Finding:
    """Take the lowest answer and the sums of both methods on the random and real instances.

    Red if a word of the two rows does not follow, without tolerance for signs and to SUM for sums.
    """
    evidence: dict[str, float | int | str] = {}
    # D's table has two rows that N's has not.
    rows = {}
    for name in ("base", "norm-hyb"):
        # By frequencies: neither method clips answers to queries.
        outputs = [result.frequencies for _, result in _outputs(instances, name)]
        lowest = min(smallest(f) for f in outputs)
        totals = np.concatenate([np.sum(f, axis=-1) for f in outputs])
        rows[name] = (lowest >= 0, _sum_flag(totals))
        evidence[f"{name}: lowest answer"] = lowest
        evidence[f"{name}: sums"] = f"{totals.min():.6f} .. {totals.max():.6f}"
    return Finding(
        holds=rows == {"base": (False, "no"), "norm-hyb": (True, "yes")},
        instances=len(totals),
        evidence=evidence,
    )


def _by_words(estimate: FrequencyEstimate, name: str) -> Array:
    """Return what Table I's description of a method gives, computed anew."""
    f = estimate.frequencies
    # With T as the papers define it (α = 2): the words say "below T" and not which T.
    threshold = closed_form.significance_threshold(estimate.d, float(estimate.sigma))
    if name == "base-pos":
        return np.where(f < 0, 0.0, f)
    if name == "base-cut":
        return np.where(f < threshold, 0.0, f)
    if name == "norm":
        return np.asarray(f + (1 - f.sum(axis=-1, keepdims=True)) / estimate.d)
    positive = np.where(f < 0, 0.0, f)
    if name == "norm-mul":
        return np.asarray(positive / positive.sum(axis=-1, keepdims=True))
    # Norm-Cut alone needs a search for θ, and the bisection takes one vector at a time.
    rows = positive.reshape(-1, estimate.d)
    return np.array([published.bisected_cut(row) for row in rows]).reshape(f.shape)


@claim(
    "table1-words",
    "N Table I, column Description",
    "Negative estimates, or those below T or θ, are converted to 0 by Base-Pos, Base-Cut and "
    "Norm-Cut; Norm adds δ; Norm-Mul multiplies the positive ones by γ; Post-Pos converts negative "
    "answers; PowerNS applies Norm-Sub after Power.",
    Verdict.HOLDS,
)
def table1_words(instances: InstanceSet) -> Finding:
    """Apply the descriptions to some random and real estimates, and compare with the methods.

    Red if an answer differs by FORMULA or more.
    """
    differences: dict[str, list[float]] = {}
    vectors = 0
    for name in ("base-pos", "base-cut", "norm", "norm-mul", "norm-cut"):
        differences[name] = []
        for raw, result in _outputs(instances, name):
            # A bisection per vector: a few of each stack are enough.
            few = raw[:3]
            gaps = np.abs(_by_words(few, name) - result.frequencies[:3]).max(axis=-1)
            # Where positive estimates sum to 1 rounding decides whether Norm-Cut cuts the last.
            sums = np.sum(np.maximum(few.frequencies, 0.0), axis=-1)
            gaps = gaps[np.abs(sums - 1) > SUM]
            differences[name].append(largest(gaps) if len(gaps) else 0.0)
            vectors += len(gaps)
    differences["post-pos"] = []
    for raw, result in _outputs(instances, "post-pos"):
        # Post-Pos acts on answers: one value, two, and the whole domain, whose sum is hardly
        # negative.
        first_values = [np.arange(size) for size in (1, 2, raw.d)]
        sums = raw.query(first_values)
        gap = largest(result.query(first_values) - np.maximum(sums, 0.0))
        differences["post-pos"].append(gap)
    # Both leave out the same instances, so that the pairs belong together.
    pairs = zip(_outputs(instances, "power"), _outputs(instances, "power-ns"), strict=True)
    differences["power-ns"] = [
        largest(closed_form.norm_sub(power.frequencies) - result.frequencies)
        for (_, power), (_, result) in pairs
    ]
    return Finding(
        holds=max(map(largest, differences.values())) < FORMULA,
        instances=vectors,
        evidence={f"largest difference, {name}": largest(d) for name, d in differences.items()},
    )


@claim(
    "method-classes",
    "N IV-F",
    "Norm-Mul, Norm-Cut, Norm-Sub and PowerNS satisfy both requirements, only Norm the sum alone, "
    "and Base-Pos, Post-Pos, Base-Cut and Power non-negativity alone.",
    Verdict.CORRECTED,
)
def method_classes(instances: InstanceSet) -> Finding:
    """Sort the ten methods of Table I by what their answers satisfy on all instances.

    Red if the three printed classes come out (then the statement holds), or if they do not with
    Norm-Cut, whose sum may be below 1, apart, and with MLE-Apx, which the sentence leaves out.
    """
    classes: dict[str, set[str]] = {"both": set(), "sum": set(), "sign": set(), "at most 1": set()}
    for name in _PAPER_METHODS:
        sums = [np.sum(result.frequencies, axis=-1) for _, result in _outputs(instances, name)]
        flag = _sum_flag(np.concatenate(sums))
        if flag == "no":
            kind = "sign"
        elif flag == "almost":
            # A class of its own: the sentence knows no "almost", as Table I does.
            kind = "at most 1"
        elif _lowest_answer(instances, name) >= 0:
            kind = "both"
        else:
            kind = "sum"
        classes[kind].add(name)
    # The two classes on which the sentence and the correction agree.
    rest = classes["sum"] == {"norm"}
    rest &= classes["sign"] == {"base-pos", "post-pos", "base-cut", "power"}
    as_printed = classes["both"] == {"norm-mul", "norm-cut", "norm-sub", "power-ns"}
    as_corrected = classes["both"] == {"norm-mul", "norm-sub", "mle-apx", "power-ns"} and classes[
        "at most 1"
    ] == {"norm-cut"}
    return Finding(
        holds=rest and as_printed,
        corrected=rest and as_corrected,
        instances=len(_PAPER_METHODS),
        evidence={
            **{f"class: {kind}": ", ".join(sorted(names)) for kind, names in classes.items()},
            "correction": "MLE-Apx belongs to the third class, and Norm-Cut's sum is at most 1, as "
            "Table I states",
        },
    )


@claim(
    "norm-cut-unchanged",
    "N IV-B, D 3.3",
    "Norm-Cut turns low estimates to 0 without changing those of high-frequency values.",
    Verdict.HOLDS,
)
def norm_cut_unchanged(instances: InstanceSet) -> Finding:
    """Compare the answers that are not 0 with the estimates, on the random and real instances.

    Red if one differs in a single bit, or if a value that is kept is below one that is cut.
    """
    changed = 0
    misplaced = 0
    kept_values = 0
    for raw, result in _outputs(instances, "norm-cut"):
        kept = result.frequencies > 0
        # To the last bit: "without changing" leaves no room for rounding.
        changed += int(np.count_nonzero(result.frequencies[kept] != raw.frequencies[kept]))
        # A method that kept other values than the highest could still change none of them.
        lowest_kept = np.min(np.where(kept, raw.frequencies, np.inf), axis=-1)
        highest_cut = np.max(np.where(kept, -np.inf, raw.frequencies), axis=-1)
        misplaced += int(np.count_nonzero(highest_cut > lowest_kept))
        kept_values += int(kept.sum())
    return Finding(
        holds=changed == 0 and misplaced == 0 and kept_values > 0,
        instances=kept_values,
        evidence={"kept values that differ": changed, "vectors out of order": misplaced},
    )


def _sum_flag(totals: Array) -> str:
    """Return Table I's word for a method whose answers have these sums."""
    # One vector is enough to lose the "yes": the column is about every input.
    if bool(np.all(np.abs(totals - 1) <= SUM)):
        return "yes"
    return "almost" if bool(np.all(totals <= 1 + SUM)) else "no"


def _inversions(before: Array, after: Array) -> int:
    """Return how many neighbours in the order of ``before`` are in the wrong order in ``after``.

    Differences of rounding size do not count.
    """
    # Neighbours suffice: answers that never fall from one to the next are in order altogether.
    order = np.argsort(before, axis=-1, kind="stable")
    steps = np.diff(np.take_along_axis(after, order, axis=-1), axis=-1)
    # Equal estimates have no order that an answer could invert.
    distinct = np.diff(np.take_along_axis(before, order, axis=-1), axis=-1) > 0
    return int(np.count_nonzero(distinct & (steps < -IDENTITY)))


def _ties(before: Array, after: Array) -> int:
    """Return how many neighbours of different estimates have equal answers."""
    order = np.argsort(before, axis=-1, kind="stable")
    gaps = np.diff(np.take_along_axis(before, order, axis=-1), axis=-1)
    steps = np.diff(np.take_along_axis(after, order, axis=-1), axis=-1)
    # To the last bit: values that are set to 0 are equal, others differ by more than rounding.
    return int(np.count_nonzero((gaps > 0) & (steps == 0)))


@claim(
    "order",
    "N IV, D 3",
    "Every method of N preserves the order of the estimates (ties may appear).",
    Verdict.PROVED,
    theorems=(
        "order_is_preserved",
        "mle_apx_preserves_order",
        "base_pos_preserves_order",
        "cutting_preserves_order",
        "norm_preserves_order_exactly",
        "norm_mul_preserves_order",
        "power_preserves_order_strictly",
    ),
)
def order(instances: InstanceSet) -> Finding:
    """Compare neighbours in the order of the estimates, on the random and real instances.

    Red if one answer is below that of a smaller estimate by more than IDENTITY.
    """
    # Counted over everything: one inversion anywhere refutes the statement.
    inversions = 0
    vectors = 0
    for name in _PAPER_METHODS:
        for estimate, result in _outputs(instances, name):
            inversions += _inversions(estimate.frequencies, result.frequencies)
            vectors += len(result.frequencies)
    return Finding(
        holds=inversions == 0,
        instances=vectors,
        evidence={"neighbours in the wrong order": inversions},
    )


@claim(
    "order-norm-hyb",
    "D 3.3",
    "Norm-Hyb preserves the order of the estimates, as D states of all methods.",
    Verdict.FAILS,
    theorems=("norm_hyb_does_not_preserve_order",),
)
def order_norm_hyb(instances: InstanceSet) -> Finding:
    """Show the counter-example [.31, .29, .29] with the highest value kept.

    The two others share the rest and move above the kept one: [.31, .345, .345]. Red if Norm-Hyb
    answers anything else, to IDENTITY: that would refute the counter-example, not the statement.
    """
    estimate = np.array([0.31, 0.29, 0.29])
    answer = postprocess(estimate, "norm-hyb", top_k=1).frequencies
    # The statement is refuted by one vector, whose answer follows from the definition.
    as_derived = np.allclose(answer, [0.31, 0.345, 0.345], rtol=0, atol=IDENTITY)
    # Beside the counter-example: how rare inversions are.
    inversions = 0
    vectors = 0
    for raw, result in _outputs(instances, "norm-hyb"):
        inversions += _inversions(raw.frequencies, result.frequencies)
        vectors += len(result.frequencies)
    # Both: an answer as derived that kept the order would be a mistake of the derivation.
    refuted = as_derived and _inversions(estimate, answer) > 0
    return Finding(
        holds=not refuted,
        instances=vectors + 1,
        evidence={
            "[.31, .29, .29] with the highest kept becomes": as_text(answer),
            "neighbours in the wrong order on other instances": inversions,
        },
    )


@claim(
    "order-iff",
    "N IV-F, D 3.6",
    "Under all methods f'_v1 <= f'_v2 if and only if f̃_v1 <= f̃_v2.",
    Verdict.CORRECTED,
    theorems=("order_is_preserved", "order_iff_is_false"),
)
def order_iff(instances: InstanceSet) -> Finding:
    """Count ties and inversions of every method's answers on the random and real instances.

    One direction alone is true: values that a method sets to 0 are tied, whichever of them was
    estimated higher. Red if no method makes a tie (then the statement holds), or if one inverts
    neighbours by more than IDENTITY.
    """
    ties: dict[str, int] = {}
    inversions = 0
    vectors = 0
    for name in _PAPER_METHODS:
        for estimate, result in _outputs(instances, name):
            # By method, as one without ties would satisfy the printed equivalence.
            ties[name] = ties.get(name, 0) + _ties(estimate.frequencies, result.frequencies)
            inversions += _inversions(estimate.frequencies, result.frequencies)
            vectors += len(result.frequencies)
    return Finding(
        holds=inversions == 0 and not any(ties.values()),
        corrected=inversions == 0,
        instances=vectors,
        evidence={
            **{
                f"neighbours of different estimates that are tied, {name}": count
                for name, count in ties.items()
            },
            "neighbours in the wrong order": inversions,
            "correction": "f̃_v1 <= f̃_v2 implies f'_v1 <= f'_v2, not the other way round",
        },
    )


@claim(
    "norm-hyb-norm-cut",
    "D 3.3",
    "With Norm-Cut's threshold θ in place of T, Norm-Hyb becomes Norm-Cut.",
    Verdict.FAILS,
    theorems=("norm_hyb_is_not_norm_cut",),
)
def norm_hyb_norm_cut(instances: InstanceSet) -> Finding:
    """Compare both on [.6, .3, .2, -.1] and on the real instances, with θ the smallest kept value.

    Norm-Hyb gives the other values what is left of 1, Norm-Cut gives them 0: their distance must
    be what Norm-Cut leaves. Red if both agree to FORMULA everywhere (then the statement holds), or
    if the distance is not what Norm-Cut leaves, to FORMULA.
    """
    # .6 + .3 + .2 exceeds 1: Norm-Cut keeps the first two and leaves .1.
    example = np.array([0.6, 0.3, 0.2, -0.1])
    # By hand first: on real data a fault of both methods could look like agreement.
    cut = closed_form.norm_cut(example)
    hyb = closed_form.norm_hyb(example, 0.3)
    as_derived = np.allclose(cut, [0.6, 0.3, 0, 0]) and np.allclose(hyb, [0.6, 0.3, 0.1, 0])
    distances = []
    unexplained = []
    vectors = 0
    for instance in instances.real:
        f = instance.estimate.frequencies
        kept = closed_form.norm_cut(f)
        if not (kept > 0).any(axis=-1).all():
            continue  # θ is undefined where Norm-Cut keeps nothing
        # θ by its meaning, the smallest value that is kept; with ties at θ itself none is.
        theta = np.min(np.where(kept > 0, kept, np.inf), axis=-1, keepdims=True)
        distance = np.sum(np.abs(closed_form.norm_hyb(f, theta) - kept), axis=-1)
        unexplained.append(largest(distance - (1 - kept.sum(axis=-1))))
        distances.append(largest(distance))
        vectors += instance.vectors
    explained = as_derived and largest(unexplained) < FORMULA
    return Finding(
        holds=largest(distances) < FORMULA or not explained,
        instances=vectors + 1,
        evidence={
            "[.6, .3, .2, -.1] by Norm-Cut, θ = .3": as_text(cut, digits=2),
            "by Norm-Hyb with T = .3": as_text(hyb, digits=2),
            "their distance in the 1-norm is what Norm-Cut leaves of 1, up to": largest(
                unexplained
            ),
            "on real data: smallest distance": min(distances),
            "on real data: median distance": float(np.median(distances)),
            "on real data: largest distance": largest(distances),
        },
    )


def _largest_change_by_norm(instances: InstanceSet, kinds: tuple[type, ...]) -> tuple[float, int]:
    """Return the largest change of an estimate by Norm under some oracles, and how many vectors."""
    changes = []
    vectors = 0
    for instance in instances.random + instances.real:
        if isinstance(instance.estimate.oracle, kinds):
            result = postprocess(instance.estimate, "norm").frequencies
            changes.append(largest(result - instance.estimate.frequencies))
            vectors += instance.vectors
    return largest(changes), vectors


@claim(
    "norm-idle",
    "N IV-B",
    "Norm does nothing for GRR and subset selection: their estimates sum to 1 already.",
    Verdict.PROVED,
    theorems=(
        "norm_does_nothing_for_reports_of_one_size",
        "subset_selection_has_reports_of_one_size",
    ),
)
def norm_idle(instances: InstanceSet) -> Finding:
    """Apply Norm to the random and real instances of both oracles.

    Red if an estimate changes by IDENTITY or more.
    """
    change, vectors = _largest_change_by_norm(instances, (GRR, SubsetSelection))
    return Finding(
        holds=change < IDENTITY,
        instances=vectors,
        evidence={"largest change of an estimate": change},
    )


@claim(
    "norm-idle-hr",
    "N IV-B",
    "Norm does nothing for Hadamard response.",
    Verdict.FAILS,
)
def norm_idle_hr(instances: InstanceSet) -> Finding:
    """Apply Norm to the random and real instances of Hadamard response.

    Reports support different numbers of values, so that the estimates do not sum to 1. Red if no
    estimate changes (then the statement holds), or if the change on a real estimate is not an
    equal share of the missing sum.
    """
    change, vectors = _largest_change_by_norm(instances, (HadamardResponse,))
    # One estimate is enough to show where the change comes from; the claim itself is about all.
    raw = next(
        i.estimate for i in instances.real if isinstance(i.estimate.oracle, HadamardResponse)
    )
    missing = 1 - float(raw.frequencies.sum())
    share = float((postprocess(raw, "norm").frequencies - raw.frequencies).max())
    # The change must be what Norm is defined to do.
    explained = math.isclose(raw.d * share, missing)
    # Not one less than a power of two, where all columns would support equally many values.
    oracle = HadamardResponse(epsilon=1.0, d=5)
    columns = range(oracle.columns)
    sizes = [int(oracle.support_counts(np.array([column])).sum()) for column in columns]
    return Finding(
        holds=change < IDENTITY or not explained,
        instances=vectors,
        evidence={
            "largest change of an estimate": change,
            "1 - Σf̃ on a real estimate, which Norm spreads evenly": missing,
            "values that a report supports, by column, d = 5": " ".join(map(str, sizes)),
        },
    )


@claim(
    "norm-changes-others",
    "D 3.2",
    "Norm does nothing for GRR alone: under all other oracles a report is a subset of random size, "
    "and estimates change.",
    Verdict.CORRECTED,
)
def norm_changes_others(instances: InstanceSet) -> Finding:
    """Apply Norm to the random and real instances, and list the oracles whose estimates stay.

    Red unless Norm changes no estimate by IDENTITY or more for GRR and subset selection, and for
    no other oracle: subsets of a fixed size too leave nothing to do.
    """
    changes: dict[str, list[float]] = {}
    vectors = 0
    for instance in instances.random + instances.real:
        f = instance.estimate.frequencies
        # By oracle, since the statement names the one that is left alone.
        name = type(instance.estimate.oracle).__name__
        changes.setdefault(name, []).append(largest(closed_form.norm(f) - f))
        vectors += instance.vectors
    unchanged = {name for name, values in changes.items() if largest(values) < IDENTITY}
    return Finding(
        holds=unchanged == {"GRR"},
        corrected=unchanged == {"GRR", "SubsetSelection"},
        instances=vectors,
        evidence={
            **{
                f"largest change of an estimate, {name}": largest(values)
                for name, values in changes.items()
            },
            "correction": "the subsets of subset selection have a fixed size too (N IV-B)",
        },
    )
