"""Claims about the papers' three tasks: which method is how good at which, in N's setting."""

from __future__ import annotations

import numpy as np

from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.draws import (
    DRAFT,
    NDSS,
    SETTING,
    errors_of,
    is_larger,
    task_errors,
    zipf_draws,
)
from ldpopt.claims.engine.instances import InstanceSet
from ldpopt.claims.engine.measures import largest

TITLE = "The three tasks: which method is good at which"
ORDER = 75


@claim(
    "no-best-method",
    "N I",
    "No single method outperforms the others for all tasks.",
    Verdict.HOLDS,
)
def no_best_method(instances: InstanceSet) -> Finding:
    """Compare N's methods on single values, the top 10 and 32, and sets of four sizes.

    Red if some method is beaten in no task: for each one there must be a task in which another has
    a smaller MSE by CONFIDENCE standard errors of the paired difference.
    """
    tasks = {name: task_errors(instances, name) for name in NDSS}
    # One method that nothing beats anywhere would refute the sentence.
    unbeaten = []
    evidence: dict[str, float | int | str] = {}
    for name in NDSS:
        beaten = [
            task
            for task, errors in tasks[name].items()
            # A method is never larger than itself: no exception is needed for it.
            if any(is_larger(errors, tasks[other][task]) for other in NDSS)
        ]
        if not beaten:
            unbeaten.append(name)
        evidence[f"tasks in which {name} is beaten, of {len(tasks[name])}"] = len(beaten)
    for task in tasks["base"]:
        means = {name: float(tasks[name][task].mean()) for name in NDSS}
        evidence[f"smallest MSE, {task}"] = min(means, key=means.__getitem__)
    return Finding(
        holds=not unbeaten,
        instances=len(zipf_draws(instances)[1].frequencies),
        evidence={**evidence, "data": SETTING},
    )


@claim(
    "norm-hyb-overall",
    "D I",
    "Norm-Hyb performs overall the best among D's methods.",
    Verdict.HOLDS,
)
def norm_hyb_overall(instances: InstanceSet) -> Finding:
    """Compare by the task at which each of D's methods is farthest from the best one.

    "Overall" is read as that: the largest ratio of a method's MSE to the smallest one, over single
    values, the top 10 and 32, and sets. Red if another method has a smaller largest ratio.
    """
    means = {}
    for name in DRAFT:
        errors = task_errors(instances, name)
        means[name] = {task: float(of_task.mean()) for task, of_task in errors.items()}
    # Ratios, since the errors of the tasks differ by four orders of magnitude.
    best = {task: min(means[name][task] for name in DRAFT) for task in means["base"]}
    # A mean over the tasks would let a method buy a bad task with several easy ones.
    worst = {name: max(means[name][task] / best[task] for task in best) for name in DRAFT}
    _, raw = zipf_draws(instances)
    return Finding(
        holds=min(worst, key=worst.__getitem__) == "norm-hyb",
        instances=len(raw.frequencies),
        evidence={
            **{f"largest ratio to the best method, {name}": ratio for name, ratio in worst.items()},
            "data": SETTING,
        },
    )


@claim(
    "top-k-mle",
    "N V-E",
    "MLE-Apx performs the same as Norm-Sub on the top k values.",
    Verdict.HOLDS,
)
def top_k_mle(instances: InstanceSet) -> Finding:
    """Compare the MSE of both on the top 2, 10 and 32 values, on the same draws.

    Red if a ratio differs from 1 by a tenth or more.
    """
    # On the same draws, whose noise the ratio does not see.
    sub = errors_of(instances, "norm-sub") ** 2
    mle = errors_of(instances, "mle-apx") ** 2
    # Zipf's values are in the order of their frequencies: the first k are the top k.
    ratios = {k: float(mle[:, :k].mean() / sub[:, :k].mean()) for k in (2, 10, 32)}
    return Finding(
        holds=largest(np.array(list(ratios.values())) - 1) < 0.1,
        instances=len(sub),
        evidence={
            **{f"MLE-Apx's MSE over Norm-Sub's, top {k}": r for k, r in ratios.items()},
            "data": SETTING,
        },
    )


@claim(
    "top-k-consistent",
    "D 4.4",
    "Base and Norm-Sub have a consistent MSE for different k.",
    Verdict.HOLDS,
)
def top_k_consistent(instances: InstanceSet) -> Finding:
    """Compare the MSE of the top 2, 4, 16 and 32 values with that of the top 8.

    Red if a ratio is not between 0.5 and 2, as those of Base-Cut, beside, are not.
    """
    evidence: dict[str, float | int | str] = {}
    # Base-Cut as a control: a method whose error does change with k must show it here.
    ratios: dict[str, list[float]] = {}
    for name in ("base", "norm-sub", "base-cut"):
        squares = np.mean(errors_of(instances, name) ** 2, axis=0)
        # Eight values, not two: the mean of so few draws would be noise.
        few = float(squares[:8].mean())
        ratios[name] = [float(squares[:k].mean()) / few for k in (2, 4, 16, 32)]
        evidence[f"MSE of the top 2, 4, 16 and 32 over that of the top 8, {name}"] = ", ".join(
            f"{ratio:.2f}" for ratio in ratios[name]
        )
    consistent = [*ratios["base"], *ratios["norm-sub"]]
    return Finding(
        holds=min(consistent) > 0.5 and max(consistent) < 2 < max(ratios["base-cut"]),
        instances=len(zipf_draws(instances)[1].frequencies),
        evidence={**evidence, "data": SETTING},
    )
