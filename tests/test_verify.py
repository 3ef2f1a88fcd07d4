import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from ldpopt import closed_form
from ldpopt.claims import (
    FIGURE_STATEMENTS,
    LEDGER,
    Bench,
    Verdict,
    check,
    to_json,
)
from ldpopt.claims.engine.agreement import compare
from ldpopt.claims.engine.batches import compare_joined
from ldpopt.claims.engine.claim import ENTERED
from ldpopt.claims.reference.channels import channel, count_law, marginal_law
from ldpopt.claims.reference.operations import operations
from ldpopt.claims.reference.rational import exact_solution
from ldpopt.claims.topics import empirical, likelihoods, noise, protocols
from ldpopt.claims.topics.agreements import CLS, WEIGHTED_MLE, _apply_mle_apx
from ldpopt.claims.topics.errata import _zero_first
from ldpopt.errors import DataUnavailableError
from ldpopt.losses import GaussianMLE, LeastSquares
from ldpopt.oracles import ORACLES, OUE
from ldpopt.priors import PowerLaw
from ldpopt.rendering.page import claims_page
from tests.tolerances import CERTIFIED

REQUIRED = {
    "cls-norm-sub": "holds",
    "mle-apx": "holds-as-corrected",
    "mle-apx-draft": "holds",
    "mle-cls-identical": "holds",
    "mle-cls-bound": "holds",
    "norm-cls": "holds",
    "base-pos-ls": "holds",
    "norm-mul-kl": "holds",
    "capped-simplex": "holds",
    "weighted-simplex": "holds",
    "group-totals": "holds",
    "monotone-simplex": "holds",
    "tree-consistency": "holds",
    "tree-consistency-nonnegative": "holds",
    "tree-order-simplex": "holds",
    "unimodal-simplex": "holds",
    "multinomial-mle": "holds",
    "binomial-mle": "holds",
    "at-most": "holds",
    "base-cut-l0": "holds",
    "norm-hyb-cls": "holds",
    "exact-mle": "holds",
    "per-report-mle": "fails",
    "gamma-near-one": "holds",
    "mle-cls-dominated": "holds-as-corrected",
    "normaliser-vanishes": "holds",
    "mle-convex": "holds",
    "power-order": "holds",
    "power-positive": "holds",
    "power-shrinkage": "holds-as-corrected",
    "power-sigma": "holds-as-corrected",
    "power-density": "holds-as-corrected",
    "power-window": "holds",
    "calibrate-optimal": "holds",
    "calibrate-moments": "holds",
    "calibrate-lowers": "holds",
    "power-bias-sum": "holds",
    "power-ns-optimal": "holds",
    "table1-nonnegative": "holds",
    "table1-sum": "holds",
    "order": "holds",
    "order-norm-hyb": "fails",
    "order-iff": "holds-as-corrected",
    "norm-hyb-norm-cut": "fails",
    "norm-idle": "holds",
    "norm-idle-hr": "fails",
    "norm-changes-others": "holds-as-corrected",
    "base-pos-accuracy": "holds",
    "post-pos-queries": "holds",
    "norm-sub-nearer": "holds",
    "set-symmetry": "holds",
    "norm-cut-threshold": "holds",
    "oue-zero-sets": "holds",
    "lemma-1": "holds",
    "lemma-2": "holds",
    "lemma-3": "holds",
    "lemma-4": "holds-as-corrected",
    "norm-mul-bias": "holds",
    "norm-sub-bias": "holds",
    "base-cut-bias": "holds",
    "false-positives": "holds-as-corrected",
    "false-positive-share": "holds-as-corrected",
    "unbiased": "holds",
    "variance": "holds",
    "variance-closed-forms": "holds",
    "counts-binomial": "holds-as-corrected",
    "variance-approximation": "holds-as-corrected",
    "independent": "holds-as-corrected",
    "norm-variance": "holds-as-corrected",
    "noise-gaussian": "holds",
    "noise-common": "holds-as-corrected",
    "mse-any-distribution": "holds",
    "pure-private": "holds",
    "grr-oue": "holds",
    "olh-best-g": "holds-as-corrected",
    "olh-oue": "holds-as-corrected",
    "ss-p": "holds-as-corrected",
    "ss-variance": "holds",
    "blh-hr": "holds",
    "sue-oue": "holds",
    "hr-half": "holds-as-corrected",
    "communication": "holds-as-corrected",
    "table1-complexity": "holds",
    "olh-p": "holds-as-corrected",
    "oue-estimator": "holds-as-corrected",
    "oue-flip": "holds-as-corrected",
    "olh-random-projection": "holds",
    "norm-sub-words": "holds-as-corrected",
    "mle-apx-words": "holds-as-corrected",
    "norm-delta": "holds-as-corrected",
    "kkt-multiplier": "holds-as-corrected",
}

PICTURES = 17  # claims that compare a closed form with solvers


@pytest.fixture(scope="module")
def results():
    bench = Bench(quick=True)
    return [check(claim, bench) for claim in LEDGER.values()]


def test_every_verdict_is_the_required_one(results):
    assert {r.claim.id: str(r.finding.verdict) for r in results} == REQUIRED
    assert all(r.as_expected for r in results)


def test_equivalences_compare_with_two_solvers_on_all_kinds_of_instances(results):
    compared = [r.finding.agreement for r in results if r.finding.agreement is not None]
    assert len(compared) == PICTURES
    assert all(
        len(agreement.optimal) >= 2 and min(agreement.optimal.values()) > 0
        for agreement in compared
    )
    assert {instance.kind for instance in Bench(quick=True).all} == {
        "random",
        "adversarial",
        "real",
    }


def test_full_runs_put_thousands_of_vectors_before_solvers():
    bench = Bench()
    assert sum(instance.vectors for instance in bench.crowd) > 2_000
    assert {instance.estimate.d for instance in bench.crowd} == {2, 3, 7, 32}


def test_the_ledger_holds_every_claim_once_in_topics():
    assert set(LEDGER) == set(ENTERED)
    topics = [claim.topic for claim in LEDGER.values()]
    changes = [
        topic for topic, before in zip(topics, [None, *topics], strict=False) if topic != before
    ]
    assert len(changes) == len(set(topics)) == 13
    assert all(topics)


def test_json_has_the_stable_fields(results):
    rows = json.loads(to_json(results))
    fields = {"id", "source", "statement", "verdict", "expected", "instances", "evidence"}
    assert [set(row) for row in rows] == [fields] * len(REQUIRED)
    assert all(row["instances"] > 0 and row["evidence"] for row in rows)


def test_page_is_self_contained_and_shows_every_claim(results):
    page = claims_page(results)
    assert "http" not in page
    assert page.count("data:image/png;base64,") == PICTURES
    assert all(f'id="{identifier}"' in page for identifier in REQUIRED)
    assert all(
        f"<code>{figure}</code>" in page for entry in FIGURE_STATEMENTS for figure in entry.figures
    )


def test_statements_of_figures_name_figures_of_the_papers():
    named = {figure for entry in FIGURE_STATEMENTS for figure in entry.figures}
    papers = {"ndss": range(1, 11), "draft": range(1, 10), "calibrate": range(3, 10)}
    assert named == {
        f"{paper}-fig{number}" for paper, numbers in papers.items() for number in numbers
    }
    assert all(
        re.match("[NDK] ", entry.source) and entry.statement.endswith(".")
        for entry in FIGURE_STATEMENTS
    )


def test_page_names_a_verdict_that_differs(results):
    wrong = [r for r in results if r.claim.id == "norm-idle-hr"]
    changed = type(wrong[0])(
        claim=type(wrong[0].claim)(**{**vars(wrong[0].claim), "expected": Verdict.HOLDS}),
        finding=wrong[0].finding,
        seconds=0.0,
    )
    assert "1 of 1 verdicts differ" in claims_page([changed])


def test_a_wrong_projection_is_caught(monkeypatch):
    monkeypatch.setattr(closed_form, "norm_sub", _zero_first)
    monkeypatch.setattr(Bench, "extreme", [np.array([0.5, 0.2, -0.01])])
    monkeypatch.setattr(Bench, "real", [])  # small vectors are enough to see it
    finding = LEDGER["cls-norm-sub"].check(Bench(quick=True))
    assert finding.verdict is Verdict.FAILS


def test_a_wrong_sign_in_mle_apx_is_caught(monkeypatch):
    right = closed_form.mle_apx
    monkeypatch.setattr(closed_form, "mle_apx", lambda f, kappa: right(f, 0.5 * kappa))
    monkeypatch.setattr(Bench, "real", [])
    finding = LEDGER["mle-apx"].check(Bench(quick=True))
    assert finding.verdict is Verdict.FAILS


def test_same_seed_gives_the_same_instances():
    first, second = Bench(quick=True).random, Bench(quick=True).random
    assert all(
        np.array_equal(a.estimate.frequencies, b.estimate.frequencies)
        for a, b in zip(first, second, strict=True)
    )


def test_exact_solution_by_hand():
    # One third of the missing mass .31 to each of three values.
    assert exact_solution(np.array([0.5, 0.2, -0.01]), 0.0) == pytest.approx(
        [0.5 + 0.31 / 3, 0.2 + 0.31 / 3, 0.28 / 3]
    )
    # The second value is dry: (1 + t)/(1 - κt) = 1 with t = 0.
    assert exact_solution(np.array([1.0, -2.0]), 0.3).tolist() == [1.0, 0.0]


def test_a_closed_form_without_numbers_is_caught(monkeypatch):
    monkeypatch.setattr(GaussianMLE, "gradient", lambda self, f, estimate: np.full_like(f, np.nan))
    assert not compare(
        WEIGHTED_MLE, _apply_mle_apx, Bench(quick=True).adversarial[:1], ("CLARABEL",)
    ).holds


def test_a_wrong_projection_of_joined_vectors_is_caught():
    crowd = Bench(quick=True).crowd
    assert compare_joined(
        CLS, lambda e: closed_form.norm_sub(e.frequencies), crowd, ("CLARABEL",)
    ).holds
    assert not compare_joined(CLS, lambda e: _zero_first(e.frequencies), crowd, ("CLARABEL",)).holds


# What is broken, for the claims that must notice.
BREAKS = {
    "variance": lambda patch: _scale_variance(patch, 1.5),
    "noise-gaussian": lambda patch: _scale_variance(patch, 1.5),
    "norm-variance": lambda patch: patch.setattr(closed_form, "norm", lambda f, total=1.0: f),
    "lemma-2": lambda patch: patch.setattr(closed_form, "norm", lambda f, total=1.0: f + 0.01),
    "lemma-3": lambda patch: patch.setattr(closed_form, "norm", lambda f, total=1.0: f + 0.01),
    "base-pos-accuracy": lambda patch: patch.setattr(
        closed_form, "base_pos", lambda f: np.maximum(f, 0.02)
    ),
    "norm-sub-nearer": lambda patch: patch.setattr(closed_form, "norm_sub", _zero_first),
    "at-most": lambda patch: patch.setattr(closed_form, "at_most", _first_values),
    "power-positive": lambda patch: patch.setattr(
        PowerLaw, "posterior_mean", lambda self, counts, noise: counts
    ),
    "calibrate-optimal": lambda patch: patch.setattr(
        PowerLaw, "posterior_mean", lambda self, counts, noise: counts
    ),
    "base-cut-l0": lambda patch: patch.setattr(
        closed_form, "base_cut", lambda f, threshold: np.maximum(f, 0.0)
    ),
    "kkt-multiplier": lambda patch: patch.setattr(
        closed_form, "mle_apx", lambda f, kappa: closed_form.norm_sub(f)
    ),
    "table1-complexity": lambda patch: patch.setattr(closed_form, "base_pos", _slow),
    "pure-private": lambda patch: patch.setattr(
        protocols, "ORACLES", {"oue": lambda e, d: OUE(epsilon=1.1 * e, d=d)}
    ),
}


def _scale_variance(patch, factor):
    right = noise._printed_variance
    patch.setattr(noise, "_printed_variance", lambda oracle, f: factor * right(oracle, f))


def _first_values(f, k):
    return closed_form.norm_sub(np.where(np.arange(f.shape[-1]) < k, f, -np.inf))


def _slow(f):
    for _ in range(math.isqrt(len(f))):
        result = np.maximum(f, 0.0)
    return result


@pytest.mark.parametrize("identifier", BREAKS)
def test_a_claim_about_broken_code_fails(monkeypatch, identifier):
    BREAKS[identifier](monkeypatch)
    assert LEDGER[identifier].check(Bench(quick=True)).verdict is Verdict.FAILS


def test_a_wrong_simulation_is_caught(monkeypatch):
    right = OUE._simulate
    monkeypatch.setattr(
        OUE, "_simulate", lambda self, users, rng, trials: right(self, users, rng, trials) + 10
    )
    assert LEDGER["unbiased"].check(Bench(quick=True)).verdict is Verdict.FAILS


@pytest.mark.parametrize("name", ORACLES)
def test_enumerated_reports_agree_with_the_client(name):
    oracle, reports = ORACLES[name](1.0, 4), 40_000
    law = channel(oracle)
    assert law.probability.sum(axis=0) == pytest.approx(np.ones(4), abs=CERTIFIED)
    sizes = law.supports.sum(axis=1)
    mean = law.probability[:, 2] @ sizes
    sd = np.sqrt(law.probability[:, 2] @ (sizes - mean) ** 2 / reports)
    found = oracle.support_counts(oracle.perturb(np.full(reports, 2), rng=0)).sum() / reports
    assert abs(found - mean) <= 5 * sd + CERTIFIED  # a false alarm in 1.7 million


def test_the_joint_law_of_counts_has_the_marginal_one():
    oracle, users = ORACLES["ss"](0.5, 5), np.array([3, 0, 1, 0, 1])
    counts, weights = count_law(oracle, users)
    for value, own in enumerate(users):
        marginal = np.bincount(counts[:, value], weights, minlength=6)
        assert marginal == pytest.approx(marginal_law(oracle, 5, own), abs=CERTIFIED)


def test_operations_are_counted_and_change_nothing():
    f = np.array([0.5, 0.2, -0.01, 0.4])
    assert operations(lambda x: np.maximum(x, 0.0).sum(), f) == 8
    assert operations(np.sort, f) == 8
    assert operations(lambda x: x[x > 0.3], f) == 4 + 4
    seen = []
    operations(lambda x: seen.append(np.asarray(closed_form.norm_sub(x))), f)
    assert np.array_equal(seen[0], closed_form.norm_sub(f))


def test_a_likelihood_paired_with_itself_differs_by_nothing():
    setting = likelihoods._settings()[0]
    assert likelihoods.paired(setting, LeastSquares(), np.random.default_rng(0), trials=3) == (
        0.0,
        0.0,
    )


RESULTS = Path(__file__).parent.parent / "experiments" / "results"


def test_the_judged_statements_of_the_figures_join_the_ledger():
    judged = empirical.results(RESULTS)
    assert len(judged) > 100
    assert all(result.as_expected for result in judged)
    assert {str(r.finding.verdict) for r in judged} == {"holds", "holds-as-corrected"}
    assert len({r.claim.topic for r in judged}) == 1
    rows = json.loads(to_json(judged))
    assert all(row["instances"] > 0 and row["evidence"]["figure"] for row in rows)
    assert not {row["id"] for row in rows} & set(LEDGER)


def test_a_statement_whose_verdict_changes_is_a_surprise(tmp_path):
    records = json.loads((RESULTS / empirical.NAME).read_text("utf-8"))
    records[0]["verdict"] = "fails"
    (tmp_path / empirical.NAME).write_text(json.dumps(records), "utf-8")
    assert [r.claim.id for r in empirical.results(tmp_path) if not r.as_expected] == [
        records[0]["id"]
    ]


@pytest.mark.parametrize("content", [None, "{", "[1]", '[{"verdict": "holds"}]'])
def test_a_results_folder_that_is_none_is_an_error(tmp_path, content):
    if content is not None:
        (tmp_path / empirical.NAME).write_text(content, "utf-8")
    with pytest.raises(DataUnavailableError, match=r"statements\.json"):
        empirical.results(tmp_path)
