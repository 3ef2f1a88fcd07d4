import ast
import json
import re
import sys
from collections import Counter
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from markupsafe import escape

import ldpopt
from ldpopt import closed_form
from ldpopt.claims import (
    LEDGER,
    InstanceSet,
    Verdict,
    read_figure_run,
    run_claim,
    to_json,
    topics,
)
from ldpopt.claims.checking import check_ledger
from ldpopt.claims.engine import draws
from ldpopt.claims.engine.ledger import collect
from ldpopt.claims.reference import published
from ldpopt.claims.topics import (
    authors,
    beside_the_law,
    bias,
    controls,
    derivations,
    errata,
    noise,
    protocols,
    tasks,
    thresholds,
    values,
    variances,
)
from ldpopt.claims.topics.errata import _zero_first
from ldpopt.datasets import Dataset
from ldpopt.estimate import metrics
from ldpopt.oracles import OUE, subset
from ldpopt.oracles.forms import HashForm
from ldpopt.priors import Blend, Discrete, PowerLaw
from ldpopt.rendering import picture
from ldpopt.rendering.claims_page import HEADLINES, claims_page
from ldpopt.rendering.page import papers_of
from ldpopt.reports.estimate import unchanged
from ldpopt.risks import Collection
from ldpopt.risks.misfit import Misfit
from ldpopt.sources import Sources
from ldpopt.studies import selection
from tests import kept_claims
from tests.printed import draws_as_kept

ROOT = Path(__file__).parent.parent
KEPT_RUN = ROOT / "experiments" / "results"

COARSE = 40  # dots per inch


@pytest.fixture(scope="module")
def instances():
    """The quick set of instances: made once, and shared by all tests that do not alter it."""
    return InstanceSet(quick=True)


@pytest.fixture(scope="module")
def results(instances):
    return [run_claim(claim, instances) for claim in LEDGER.values()]


def test_every_verdict_is_the_expected_one(results):
    assert [r.claim.id for r in results if not r.as_expected] == []


def test_no_claim_is_lost_or_added_unnoticed():
    """Without a list, deleting a claim, or a topic that is not found, would leave all green."""
    assert sorted(LEDGER) == sorted(kept_claims.kept())


def test_every_claim_shows_the_numbers_that_it_showed_before(results):
    """Verdicts are stated by the claims; an error in a check may leave its verdict as it was."""
    if not draws_as_kept():
        pytest.skip("numpy draws other numbers than those of the kept run")
    now = kept_claims.shown(results)
    assert list(kept_claims.differences(kept_claims.kept(), now)) == []


def test_variances_are_compared_at_the_sizes_of_the_papers_data(instances):
    sizes = {d for _, d in variances._grid(instances)}
    assert sizes >= {915, 1_024, 1_573, 42_178}


@pytest.mark.parametrize(("tolerance", "impossible"), [("IDENTITY", -1.0), ("SIGMAS", 0.0)])
def test_each_part_of_a_verdict_is_red_alone(tolerance, impossible, instances, monkeypatch):
    """The split is exact, and its variance is the stated one: one of the two is not enough."""
    assert LEDGER["mse-split"].check(instances).holds
    monkeypatch.setattr(values, tolerance, impossible)
    assert not LEDGER["mse-split"].check(instances).holds


@pytest.mark.parametrize(
    ("old", "new", "near"),
    [
        ("310", "310", True),
        ("310", "300", False),
        ("1,000", "1,005", True),
        ("0.940", "0.939", True),
        ("0.04", "0.05", True),
        ("0.04", "0.06", False),
        ("-0.5", "0.5", False),
        ("2.4e-15", "9.1e-16", True),
        ("2.4e-15", "2.4e-05", False),
    ],
)
def test_kept_numbers_may_differ_by_their_rounding_alone(old, new, near):
    assert kept_claims.is_near(old, new) is near


def test_a_changed_number_and_a_lost_one_are_named():
    def record(numbers, instances=9):
        return {"toy": {"instances": instances, "evidence": {"gap": numbers}}}

    before = record("0.5 3")
    for after, line in [
        (record("0.5 4"), "toy, gap: 0.5 3, now 0.5 4"),
        (record("0.5"), "toy, gap: 0.5 3, now 0.5"),
        (record(""), "toy, gap: 0.5 3, now nothing"),
        (record("0.5 3", 8), "toy: 9 instances, now 8"),
    ]:
        assert list(kept_claims.differences(before, after)) == [line]
    assert list(kept_claims.differences(before, record("0.501 3"))) == []


def test_every_check_in_the_topics_is_a_claim_of_the_ledger():
    """A check whose decorator is lost, or whose name another one takes, would be left out."""
    checks = [
        (path.stem, node.name)
        for path in Path(topics.__file__).parent.glob("*.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef)
        and [ast.unparse(arg) for arg in node.args.args] == ["instances: InstanceSet"]
        and ast.unparse(node.returns or ast.Constant(None)) == "Finding"
    ]
    assert len(set(checks)) == len(checks) == len(LEDGER)


def shown_and_red(claim):
    """Return the words of what a check shows, and the sentences of when it would be red."""
    shown, *red = re.split(r"\bRed\s", claim.check.__doc__ or "")
    return shown.split(), red


def test_every_check_states_what_it_shows_and_when_it_would_be_red():
    for claim in LEDGER.values():
        shown, red = shown_and_red(claim)
        assert len(red) == 1, claim.id
        assert len(shown) >= 8, claim.id


def test_topics_come_in_their_stated_order():
    modules = [import_module(claim.check.__module__) for claim in LEDGER.values()]
    orders = [module.ORDER for module in modules]
    assert orders == sorted(orders)
    assert [claim.topic for claim in LEDGER.values()] == [module.TITLE for module in modules]


TOY = """
from ldpopt.claims.engine.claim import Finding, Verdict, claim

TITLE = "A toy topic"
ORDER = {order}


@claim("{name}", "nobody", "One is one.", Verdict.HOLDS)
def one_is_one(instances):
    return Finding(1 == 1, 1, {{}})
"""


def toy_package(monkeypatch, folder, **sources):
    """Return a package with these modules; it is forgotten after the test."""
    package = folder / "toy_topics"
    package.mkdir()
    (package / "__init__.py").write_text("", "utf-8")
    for name, source in sources.items():
        (package / f"{name}.py").write_text(source, "utf-8")
    monkeypatch.syspath_prepend(folder)
    for name in ("toy_topics", *(f"toy_topics.{module}" for module in sources)):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return import_module("toy_topics")


def test_a_new_claim_is_one_file_that_nothing_lists(monkeypatch, tmp_path):
    package = toy_package(
        monkeypatch,
        tmp_path,
        early=TOY.format(name="second", order=2),
        late=TOY.format(name="first", order=1),
        borrowed=TOY.format(name="third", order=3)
        + "from toy_topics.early import one_is_one as two",
    )
    ledger = collect(package)
    assert list(ledger) == ["first", "second", "third"]
    assert {claim.topic for claim in ledger.values()} == {"A toy topic"}
    assert run_claim(ledger["first"], InstanceSet(quick=True)).as_expected


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ({"bare": "TITLE = 'no order'"}, "bare states no ORDER"),
        ({"bare": "ORDER = 1"}, "bare states no TITLE"),
        (
            {"one": TOY.format(name="x", order=1), "two": TOY.format(name="y", order=1)},
            "both have ORDER = 1",
        ),
        (
            {"one": TOY.format(name="x", order=1), "two": TOY.format(name="x", order=2)},
            "there is a claim 'x' already",
        ),
    ],
    ids=["no order", "no title", "one order twice", "one id twice"],
)
def test_topics_that_cannot_be_put_in_order_are_refused(monkeypatch, tmp_path, sources, message):
    with pytest.raises(TypeError, match=message):
        collect(toy_package(monkeypatch, tmp_path, **sources))


def test_comparisons_use_two_solvers_on_all_kinds_of_instances(results, instances):
    compared = [r.finding.agreement for r in results if r.finding.agreement is not None]
    assert compared
    assert all(len(agreement.solvers) >= 2 for agreement in compared)
    assert all(record.converged > 0 for a in compared for record in a.solvers.values())
    assert {instance.kind for instance in instances.all} == {"random", "adversarial", "real"}


def test_a_finding_with_solvers_shows_them_as_evidence_and_the_other_way_round(results):
    for result in results:
        counts_vectors = any(key.startswith("vectors solved by") for key in result.finding.evidence)
        assert counts_vectors == (result.finding.agreement is not None)


def test_all_sets_of_three_values_satisfy_the_printed_conditions_of_the_example(results):
    # By hand: Σ over D1 of f is below 1 for each of the seven sets, so that each is a point.
    (result,) = (result for result in results if result.claim.id == "kkt-sign")
    evidence = result.finding.evidence
    assert evidence["points that satisfy the conditions for [0.5, 0.2, -0.01]"] == 7
    assert evidence["their sets D1"] == "1; 2; 3; 1 2; 1 3; 2 3; 1 2 3"


def test_norm_mul_is_certified_on_every_stack_in_which_it_has_an_answer(results, instances):
    (result,) = (result for result in results if result.claim.id == "norm-mul-kl")
    expected = 0
    for instance in instances.all:
        # One vector without a positive value leaves the whole stack out.
        if instance.estimate.frequencies.max(axis=-1).min() > 0:
            expected += instance.vectors
    for stack in instances.crowd:
        expected += int(np.count_nonzero(stack.estimate.frequencies.max(axis=-1) > 0))
    assert result.finding.instances == expected


def test_full_runs_put_thousands_of_vectors_before_solvers():
    crowd = InstanceSet().crowd
    assert sum(instance.vectors for instance in crowd) > 2_000
    assert {instance.estimate.d for instance in crowd} == {2, 3, 7, 32}


def test_json_has_the_stable_fields(results):
    rows = json.loads(to_json(results))
    fields = {"id", "source", "statement", "verdict", "expected", "instances", "evidence"}
    assert [set(row) for row in rows] == [fields] * len(LEDGER)
    assert all(row["instances"] > 0 and row["evidence"] for row in rows)


@pytest.fixture(scope="module")
def run():
    """The figures that the repository keeps."""
    return read_figure_run(KEPT_RUN)


@pytest.fixture(scope="module")
def page(results, run):
    """The page of everything, with every picture drawn to a file in its own way, but coarsely.

    Most of a file's time goes by its dots: with a tenth of them, the errors in drawing one of the
    pictures still show.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(picture, "_RESOLUTION", COARSE)
        return claims_page(results, run)


@pytest.fixture(scope="module")
def one(results):
    """A result without a picture."""
    return next(result for result in results if result.finding.agreement is None)


def test_page_is_self_contained_and_shows_every_claim(results, page):
    pictures = sum(result.finding.agreement is not None for result in results)
    assert "http" not in page
    assert page.count("data:image/png;base64,") == pictures
    assert all(f'id="{identifier}"' in page for identifier in LEDGER)


def test_page_shows_the_statements_of_a_figures_run_with_their_verdicts(one, run):
    assert "--figures experiments/results" in claims_page([one])
    page = " ".join(claims_page([one], run).split())  # lines may break anywhere
    assert all(f'id="{result.claim.id}"' in page for result in run.results)
    assert f"All {1 + len(run.results)} verdicts are as the ledger expects" in page
    assert "s, added over all processes." in page
    assert "--figures" not in page
    altered = replace(run, defects=("ndss-fig4.csv is missing", "ndss-fig5.csv was altered"))
    page = " ".join(claims_page([one], altered).split())
    assert "not as their run wrote them:</strong> ndss-fig4.csv is missing; ndss-fig5.csv" in page


def test_a_page_without_figures_links_to_none_of_them(instances):
    result = run_claim(LEDGER["gamma-near-one"], instances)
    assert result.finding.verdict is Verdict.HOLDS
    page = claims_page([result])
    places = set(re.findall(r'\bid="([^"]*)"', page))
    assert set(re.findall(r'href="#([^"]*)"', page)) <= places
    assert "n-fig1-follow" in page
    assert "numbers of the figures" not in page


def test_the_first_screen_says_in_words_what_is_known(results, run, page):
    page = " ".join(page.split())
    first = page[: page.index('<h2 id="statements"')]
    ended = Counter(r.finding.verdict for r in [*results, *run.results])
    for verdict, number in ended.items():
        card = f'<span class="count">{number}</span> <a href="#statements" data-show="{verdict}">'
        assert card in first
    assert "of the claims compare a closed form with" in first
    # What is proved is shown before anything is opened, and so is what is wrong.
    questions = first[first.index("What readers of the papers ask first") :]
    assert "solves constrained least squares.</a>" in questions[: questions.index("<details")]
    assert set(HEADLINES) <= set(LEDGER)
    assert "Kosarak (" in first


def test_the_page_sets_print_and_correction_side_by_side(results, run, page):
    corrected = [r for r in [*results, *run.results] if r.finding.verdict is Verdict.CORRECTED]
    # A verdict without the words of its correction would leave a reader with half of it.
    assert [r.claim.id for r in corrected if not r.finding.correction] == []
    page = " ".join(page.split())
    assert f"{len(corrected)} corrections" in page
    for result in corrected:
        pair = (
            f"<strong>As printed</strong>{escape(result.claim.statement)}</div> "
            f"<div><strong>Corrected</strong>{escape(result.finding.correction)}</div>"
        )
        assert page.count(pair) >= 2, result.claim.id  # two papers may share one


def test_every_claim_can_be_filtered_by_paper_and_verdict(results, run, page):
    page = " ".join(page.split())
    for result in [*results, *run.results]:
        papers = " ".join(papers_of(result.claim.source))
        item = f'id="{result.claim.id}" data-verdict="{result.finding.verdict}" data-papers='
        assert f'{item}"{papers}"' in page
    assert set(re.findall(r'data-papers="([^"]*)"', page)) >= {"N", "D", "K", "N D", "other"}


def test_page_names_a_verdict_that_differs(results):
    wrong = [r for r in results if r.claim.id == "norm-idle-hr"]
    changed = type(wrong[0])(
        claim=type(wrong[0].claim)(**{**vars(wrong[0].claim), "expected": Verdict.HOLDS}),
        finding=wrong[0].finding,
        seconds=0.0,
    )
    page = " ".join(claims_page([changed]).split())
    assert "Not as the ledger expects: 1 of 1 verdicts." in page


def test_a_wrong_projection_is_caught(monkeypatch):
    monkeypatch.setattr(closed_form, "norm_sub", _zero_first)
    monkeypatch.setattr(InstanceSet, "extreme", [np.array([0.5, 0.2, -0.01])])
    monkeypatch.setattr(InstanceSet, "real", [])  # small vectors are enough to see it
    finding = LEDGER["cls-norm-sub"].check(InstanceSet(quick=True))
    assert finding.verdict is Verdict.FAILS


def test_a_wrong_sign_in_mle_apx_is_caught(monkeypatch):
    right = closed_form.mle_apx
    monkeypatch.setattr(closed_form, "mle_apx", lambda f, kappa: right(f, 0.5 * kappa))
    monkeypatch.setattr(InstanceSet, "real", [])
    finding = LEDGER["mle-apx"].check(InstanceSet(quick=True))
    assert finding.verdict is Verdict.FAILS


# What is broken, for the claims that must notice.
BREAKS = {
    # Every variance too large by a fifth.
    # By half: the quick run has a seventh of the draws of the whole one.
    "risk-unbiased": lambda patch: patch.setattr(
        Collection, "noise_total", property(lambda self: 1.5 * self.covariance.trace(self._members))
    ),
    # A method that is named in the place of the simulated choice: the raw estimates.
    "choice-by-simulation": lambda patch: patch.setattr(
        selection.Selection, "simulated", property(lambda self: "base")
    ),
    "combination-optimal": lambda patch: patch.setattr(
        Sources,
        "precisions",
        property(lambda self: tuple(np.full(each.size, 1.0) for each in self.sources)),
    ),
    "near-the-law": lambda patch: patch.setattr(
        beside_the_law, "postprocess", lambda raw, method: ldpopt.postprocess(raw, "norm-sub")
    ),
    "law-and-limit": lambda patch: patch.setattr(metrics, "law_limit", metrics.accuracy_limit),
    # The posterior under the mean of the laws, as it was before.
    "mean-of-posteriors": lambda patch: patch.setattr(
        Blend,
        "posterior_mean",
        lambda self, y, sd: Discrete(self.support, self.weights, self.n).posterior_mean(y, sd),
    ),
    "reports-over-counts": lambda patch: patch.setattr(
        beside_the_law,
        "refine",
        lambda oracle, reports, *start: unchanged(
            oracle.estimate(oracle.support_counts(reports), len(reports))
        ),
    ),
    "choice-by-both": lambda patch: patch.setattr(
        selection,
        "expected_misfit",
        lambda raw, *rest: Misfit(np.zeros_like(raw), 0.0),
    ),
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
    "mle-apx-draft": lambda patch: patch.setattr(
        closed_form, "mle_apx", lambda f, kappa: np.full_like(f, np.nan)
    ),
    "table1-complexity": lambda patch: patch.setattr(published, "bisected_shift", _sorting),
    "partition-rounds": lambda patch: patch.setattr(closed_form, "norm_sub", _zero_first),
    "norm-sub-delta": lambda patch: patch.setattr(closed_form, "norm_sub", _zero_first),
    "cls-partition": lambda patch: patch.setattr(closed_form, "norm_sub", _zero_first),
    "norm-cut-unchanged": lambda patch: patch.setattr(
        closed_form, "norm_cut", lambda f, crossing="cut": 0.99 * np.maximum(f, 0.0)
    ),
    "ss-k": lambda patch: patch.setitem(subset._SIZES, "best", subset._nearest_size),
    "authors-fig2": lambda patch: patch.setitem(authors._VARIANTS, "norm-cut", {}),
    "kkt-equation": lambda patch: patch.setattr(derivations, "_x", lambda point, y, f: y - f),
    "x-inverse": lambda patch: patch.setattr(derivations, "_x", lambda point, y, f: y - f),
    "kkt-sign": lambda patch: patch.setattr(derivations, "_stationary", _without_signs),
    "no-best-method": lambda patch: patch.setattr(tasks, "is_larger", lambda *_: False),
    "sets-exceed-values": lambda patch: patch.setattr(
        draws, "set_errors", lambda errors, rho: np.zeros(len(errors))
    ),
    "hash-uniform": lambda patch: patch.setattr(
        HashForm, "buckets", lambda self, seeds, values: seeds % np.uint64(self.g)
    ),
    "pure-private": lambda patch: patch.setattr(
        protocols, "ORACLES", {"oue": lambda e, d: OUE(epsilon=1.1 * e, d=d)}
    ),
    # Where the number is below 2 in one setting alone, the statement does not hold.
    "false-positives": lambda patch: patch.setattr(
        bias, "_tail", lambda oracle, n, alpha: (1.9 if type(oracle) is OUE else 3.0) / oracle.d
    ),
    "unbiased": lambda patch: _add_to_counts(patch, 10),
    "oue-flip": lambda patch: patch.setattr(errata, "_unary_loss", lambda p, q: 0.0),
    "significance-threshold": lambda patch: patch.setattr(
        closed_form, "significance_threshold", lambda d, sigma, alpha=2.0: 4 * sigma
    ),
    "hr-like-ss": lambda patch: patch.setattr(variances, "HadamardResponse", OUE),
    "oue-faster": lambda patch: patch.setattr(protocols, "_hashed", lambda x: x),
    "table1-words": lambda patch: patch.setattr(
        closed_form, "base_cut", lambda f, threshold: np.maximum(f, 0.0)
    ),
    "raw-sums-far": lambda patch: patch.setattr(closed_form, "norm_sub", lambda f: f),
    "power-changes-low": lambda patch: patch.setattr(
        values, "answers_of", lambda instances, method: draws.zipf_draws(instances)[1].frequencies
    ),
    "norm-cut-sum": lambda patch: patch.setattr(
        closed_form, "norm_cut", lambda f, crossing="cut": 0.9 * closed_form.norm_sub(f)
    ),
    "top-k-consistent": lambda patch: patch.setattr(
        closed_form,
        "norm_sub",
        lambda f, total=1.0: np.where(np.arange(f.shape[-1]) < 8, f, 0.0),
    ),
    # An exact certificate that takes every point for the minimiser.
    "certificates-refuse": lambda patch: _blind_exact_certificates(patch),
    # Nothing reaches the threshold: then Base finds no more than Base-Cut.
    "oue-zero-sets": lambda patch: patch.setattr(
        closed_form, "significance_threshold", lambda *_, **__: 20.0
    ),
}


def _scale_variance(patch, factor):
    right = noise._printed_variance
    patch.setattr(noise, "_printed_variance", lambda oracle, f: factor * right(oracle, f))


def _add_to_counts(patch, number):
    right = OUE._simulate
    patch.setattr(
        OUE, "_simulate", lambda self, users, rng, trials: right(self, users, rng, trials) + number
    )


def _blind_exact_certificates(patch):
    right = controls.certify

    def blind(problem, estimate, points, exact=False):
        result = right(problem, estimate, points, exact=exact)
        if exact:
            object.__setattr__(result, "distance", np.zeros(len(points)))
        return result

    patch.setattr(controls, "certify", blind)
    # One stack is enough to see it.
    patch.setattr(controls, "_small", lambda instances: instances.random[:1])


def _first_values(f, k):
    return closed_form.norm_sub(np.where(np.arange(f.shape[-1]) < k, f, -np.inf))


def _sorting(f, total=1.0):
    np.sort(f)  # d log d operations; the right result is taken from an array that counts none
    return closed_form.norm_sub(f.view(np.ndarray), total)


def _without_signs(f, kappa):
    return [((0,), False), ((1,), False)]


@pytest.mark.parametrize("identifier", BREAKS)
def test_a_claim_about_broken_code_fails(monkeypatch, identifier):
    BREAKS[identifier](monkeypatch)
    # A set of its own: checks keep what they compute on a set.
    assert LEDGER[identifier].check(InstanceSet(quick=True)).verdict is Verdict.FAILS


# --- several processes ----------------------------------------------------------------------------


def test_claims_checked_in_two_processes_are_those_of_one():
    few = {name: LEDGER[name] for name in ("grr-oue", "oue-flip")}  # of two topics
    alone = list(check_ledger(few, quick=True))
    together = list(check_ledger(few, quick=True, workers=2))
    assert [r.claim.id for r in together] == [r.claim.id for r in alone] == list(few)
    assert to_json(together) == to_json(alone)


MENDED = {
    "authors-norm-sub": lambda patch: patch.setattr(
        closed_form, "zero_first", closed_form.norm_sub
    ),
    "authors-norm-cut": lambda patch: patch.setattr(
        closed_form, "norm_cut", lambda f, crossing="cut": np.maximum(f, 0.0)
    ),
    "mostly-zeros": lambda patch: patch.setattr(
        values, "answers_of", lambda instances, method: np.zeros((2, 1_024))
    ),
    "cut-sum-nearer": lambda patch: patch.setattr(
        closed_form, "base_cut", lambda f, threshold: closed_form.norm_sub(f)
    ),
}
"""What would make a statement true that the ledger expects to fail."""


@pytest.mark.parametrize("identifier", MENDED)
def test_a_claim_that_is_expected_to_fail_can_hold(monkeypatch, identifier):
    MENDED[identifier](monkeypatch)
    assert LEDGER[identifier].expected is Verdict.FAILS
    assert LEDGER[identifier].check(InstanceSet(quick=True)).verdict is Verdict.HOLDS


def test_a_zero_of_power_would_be_seen(monkeypatch):
    """It cannot be, and so no other share of zeros could hide it."""
    monkeypatch.setattr(
        values,
        "answers_of",
        lambda instances, method: np.full((2, 1_024), 0.0 if method == "power" else 1.0),
    )
    verdict = LEDGER["mostly-zeros"].check(InstanceSet(quick=True)).verdict
    assert verdict is Verdict.HOLDS  # against the expectation: the run is red


def test_real_instances_have_the_budget_that_their_docstring_states():
    assert {each.estimate.oracle.epsilon for each in InstanceSet(quick=True).real} == {1.0}


def _flat(name):
    """Return a data set in which no value is frequent."""
    return Dataset(name, np.full(1_024, 1_000), [str(v) for v in range(1_024)], "made up")


TRUE_AS_PRINTED = {
    "variance-approximation": lambda patch: patch.setattr(noise.datasets, "load", _flat),
    "noise-common": lambda patch: patch.setattr(noise.datasets, "load", _flat),
    # Errors that do not depend on T.
    "known-k": lambda patch: patch.setattr(
        thresholds, "errors_of", lambda *_, **__: np.ones((3, 1_024))
    ),
    "norm-cut-sum": lambda patch: patch.setattr(
        closed_form, "norm_cut", lambda f, crossing="cut": closed_form.norm_sub(f)
    ),
    "partition-rounds": lambda patch: patch.setattr(
        published, "repeated_partition", lambda f: (closed_form.norm_sub(f), 3)
    ),
}
"""What would make a statement true as printed that the ledger corrects."""


@pytest.mark.parametrize("identifier", TRUE_AS_PRINTED)
def test_a_claim_that_is_corrected_can_hold(monkeypatch, identifier):
    TRUE_AS_PRINTED[identifier](monkeypatch)
    assert LEDGER[identifier].expected is Verdict.CORRECTED
    assert LEDGER[identifier].check(InstanceSet(quick=True)).verdict is Verdict.HOLDS
