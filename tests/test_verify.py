import json

import numpy as np
import pytest

from ldpopt import closed_form
from ldpopt.losses import GaussianMLE
from ldpopt.report.page import claims_page
from ldpopt.verify import LEDGER, Bench, Verdict, check, to_json
from ldpopt.verify.agreement import compare
from ldpopt.verify.agreements import WEIGHTED_MLE, _apply_mle_apx
from ldpopt.verify.errata import _zero_first
from ldpopt.verify.exact import exact_solution

REQUIRED = {
    "cls-norm-sub": "holds",
    "mle-apx": "holds-as-corrected",
    "mle-apx-draft": "holds",
    "mle-cls-identical": "holds",
    "mle-cls-bound": "holds",
    "norm-cls": "holds",
    "base-pos-ls": "holds",
    "norm-mul-kl": "holds",
    "norm-idle": "holds",
    "norm-idle-hr": "fails",
    "order": "holds",
    "order-norm-hyb": "fails",
    "table1-nonnegative": "holds",
    "table1-sum": "holds",
    "olh-p": "holds-as-corrected",
    "oue-estimator": "holds-as-corrected",
    "oue-flip": "holds-as-corrected",
    "olh-random-projection": "holds",
    "norm-sub-words": "holds-as-corrected",
    "capped-simplex": "holds",
    "weighted-simplex": "holds",
    "group-totals": "holds",
    "monotone-simplex": "holds",
    "multinomial-mle": "holds",
    "binomial-mle": "holds",
    "power-bias-sum": "holds",
}


@pytest.fixture(scope="module")
def results():
    bench = Bench(quick=True)
    return [check(claim, bench) for claim in LEDGER.values()]


def test_every_verdict_is_the_required_one(results):
    assert {r.claim.id: str(r.finding.verdict) for r in results} == REQUIRED
    assert all(r.as_expected for r in results)


def test_equivalences_compare_with_two_solvers_on_all_kinds_of_instances(results):
    compared = [r.finding.agreement for r in results if r.finding.agreement is not None]
    assert len(compared) == 11
    assert all(len(agreement.optimal) >= 2 and min(agreement.optimal.values()) > 0 for agreement in compared)
    assert {instance.kind for instance in Bench(quick=True).all} == {"random", "adversarial", "real"}


def test_json_has_the_stable_fields(results):
    rows = json.loads(to_json(results))
    fields = {"id", "source", "statement", "verdict", "expected", "instances", "evidence"}
    assert [set(row) for row in rows] == [fields] * len(REQUIRED)
    assert all(row["instances"] > 0 and row["evidence"] for row in rows)


def test_page_is_self_contained_and_shows_every_claim(results):
    page = claims_page(results)
    assert "http" not in page
    assert page.count("data:image/png;base64,") == 11
    assert all(f'id="{identifier}"' in page for identifier in REQUIRED)


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
    finding = LEDGER["cls-norm-sub"].check(Bench(quick=True))
    assert finding.verdict is Verdict.FAILS


def test_a_wrong_sign_in_mle_apx_is_caught(monkeypatch):
    right = closed_form.mle_apx
    monkeypatch.setattr(closed_form, "mle_apx", lambda f, kappa: right(f, 0.5 * kappa))
    finding = LEDGER["mle-apx"].check(Bench(quick=True))
    assert finding.verdict is Verdict.FAILS


def test_same_seed_gives_the_same_instances():
    first, second = Bench(quick=True).random, Bench(quick=True).random
    assert all(
        np.array_equal(a.estimate.frequencies, b.estimate.frequencies) for a, b in zip(first, second, strict=True)
    )


def test_exact_solution_by_hand():
    # One third of the missing mass .31 to each of three values.
    assert exact_solution(np.array([0.5, 0.2, -0.01]), 0.0) == pytest.approx([0.5 + 0.31 / 3, 0.2 + 0.31 / 3, 0.28 / 3])
    # The second value is dry: (1 + t)/(1 - κt) = 1 with t = 0.
    assert exact_solution(np.array([1.0, -2.0]), 0.3).tolist() == [1.0, 0.0]


def test_a_closed_form_without_numbers_is_caught(monkeypatch):
    monkeypatch.setattr(GaussianMLE, "gradient", lambda self, f, estimate: np.full_like(f, np.nan))
    assert not compare(WEIGHTED_MLE, _apply_mle_apx, Bench(quick=True).adversarial[:1], ("CLARABEL",)).holds
