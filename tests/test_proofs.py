"""Theorems count as proved only with the content that Coq accepted."""

import json
import shutil
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from ldpopt import closed_form
from ldpopt.claims import LEDGER, Finding, Verdict
from ldpopt.claims.engine import run
from ldpopt.proofs import FOLDER, RECORD, accepted_theorems, integers_in, proof_of, without_comments
from tools import prove
from tools.theorem_of_answer import MOST_DIGITS, as_integers, digits_of_accuracy

ROOT = Path(__file__).parent.parent
CLS = "norm_sub_is_the_solution_to_cls"


@pytest.fixture
def folder(tmp_path):
    """A copy of the sources and the record, to be changed."""
    copy = tmp_path / "proofs"
    shutil.copytree(FOLDER, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_every_theorem_of_the_sources_is_accepted():
    stated = {}
    for path in FOLDER.glob("*.v"):
        stated |= prove.theorems_in(path.name, path.read_text(encoding="utf-8"))
    accepted = accepted_theorems()
    assert accepted.keys() == stated.keys()
    assert len(accepted) >= 97
    for name, theorem in accepted.items():
        assert theorem.statement == stated[name]["statement"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # a proof that is not given
        ("apply norm_sub_in_simplex, E|]. split; intros y S.", "Admitted."),
        ("Open Scope R_scope.", "Open Scope R_scope.\nAxiom false : False."),
        # a statement that is false, and one that says less
        (
            "dist2 d (norm_sub delta f) f + dist2 d y",
            "2 * dist2 d (norm_sub delta f) f + dist2 d y",
        ),
        ("only_minimiser d (simplex d)", "True \\/ only_minimiser d (simplex d)"),
        # a comment: harmless, but the file is not the one that Coq read
        ("asks for the distribution nearest", "asks for a distribution nearest"),
    ],
)
def test_an_edit_of_a_source_withdraws_its_theorems_and_those_built_on_it(folder, old, new):
    edit(folder / "NormSub.v", old, new)
    left = accepted_theorems(folder)
    assert proof_of(CLS, folder=folder) == ""
    # All other files with theorems build on NormSub.v.
    assert {theorem.file for theorem in left.values()} == {"Nearest.v", "Protocols.v"}


def test_an_edit_withdraws_no_file_that_does_not_build_on_it(folder):
    files = {theorem.file for theorem in accepted_theorems(folder).values()}
    edit(folder / "KKT.v", "Seven", "Eight")
    left = {theorem.file for theorem in accepted_theorems(folder).values()}
    assert files - left == {"KKT.v"}


def test_a_missing_source_withdraws_what_builds_on_it(folder):
    (folder / "WeightedMLE.v").unlink()
    assert proof_of(CLS, folder=folder)
    assert proof_of("mle_apx_is_the_solution_to_mle", folder=folder) == ""
    assert proof_of("mle_is_near_cls", folder=folder) == ""
    assert proof_of(CLS, "mle_is_near_cls", folder=folder) == ""


def test_a_record_that_is_edited_with_its_source_does_not_hide_an_assumption(folder):
    source = folder / "KKT.v"
    edit(source, "Open Scope R_scope.", "Open Scope R_scope.\nAxiom easy : 1 = 2.")
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    record["files"]["KKT.v"]["sha256"] = prove.content_hash(source)
    (folder / RECORD).write_text(json.dumps(record), encoding="utf-8")
    assert proof_of("kkt_with_dual_feasibility_is_norm_sub", folder=folder) == ""


def test_a_further_axiom_in_the_record_withdraws_the_file(folder):
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    record["files"]["KKT.v"]["axioms"].append("LdpOpt.KKT.easy")
    (folder / RECORD).write_text(json.dumps(record), encoding="utf-8")
    assert proof_of("seven_points_satisfy_the_printed_conditions", folder=folder) == ""
    assert proof_of(CLS, folder=folder)


def change_record(folder, change):
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    change(record)
    (folder / RECORD).write_text(json.dumps(record), encoding="utf-8")


def test_a_statement_that_is_edited_in_the_record_alone_is_withdrawn(folder):
    def claim_more(record):
        entry = record["theorems"][CLS]
        entry["statement"] = entry["statement"].replace("only_minimiser", "best_of_all", 1)

    change_record(folder, claim_more)
    assert proof_of(CLS, folder=folder) == ""
    assert proof_of("delta_exists", folder=folder)


def test_a_theorem_that_only_the_record_has_is_none(folder):
    entry = {"file": "NormSub.v", "prose": "All.", "statement": "all : False"}
    change_record(folder, lambda record: record["theorems"].update(all=entry))
    assert "all" not in accepted_theorems(folder)


def test_a_record_that_names_fewer_imports_withdraws_the_file(folder):
    change_record(folder, lambda record: record["files"]["KKT.v"].update(requires=[]))
    edit(folder / "NormSub.v", "Qed.", "Admitted.")
    assert proof_of("kkt_with_dual_feasibility_is_norm_sub", folder=folder) == ""


@pytest.mark.parametrize(
    "line",
    [
        "Unset Guard Checking.",
        "Declare Module M : T.",
        'Definition s := "(*". Axiom easy : 1 = 2. Definition t := "*)".',
    ],
)
def test_other_ways_to_an_assumption_are_seen_in_an_edited_record(folder, line):
    source = folder / "KKT.v"
    edit(source, "Open Scope R_scope.", f"Open Scope R_scope.\n{line}")
    digest = prove.content_hash(source)
    change_record(folder, lambda record: record["files"]["KKT.v"].update(sha256=digest))
    assert proof_of("kkt_with_dual_feasibility_is_norm_sub", folder=folder) == ""


def test_line_ends_do_not_matter(folder):
    for path in folder.glob("*.v"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert accepted_theorems(folder).keys() == accepted_theorems().keys()


def test_words_in_comments_are_no_assumptions():
    assert "Axiom" not in without_comments("(* Axiom (* nested *) Axiom *) Lemma a : True.")
    assert "Axiom" in without_comments("(* one *) Axiom a : True. (* two *)")


def verdict_of(identifier, monkeypatch, folder):
    """The verdict of a claim whose check finds nothing against it."""
    with monkeypatch.context() as patch:
        patch.setattr(run, "proof_of", lambda *names: proof_of(*names, folder=folder))
        fine = Finding(True, 1, {"vectors": 1})
        return run.run_claim(replace(LEDGER[identifier], check=lambda _: fine), None)


def test_a_changed_source_takes_proved_from_the_claims_that_cite_it(folder, monkeypatch):
    assert verdict_of("cls-norm-sub", monkeypatch, folder).as_expected
    edit(folder / "NormSub.v", "Qed.", "Admitted.")
    result = verdict_of("cls-norm-sub", monkeypatch, folder)
    assert result.finding.verdict is Verdict.HOLDS
    assert not result.as_expected
    assert "withdrawn" in result.finding.evidence["theorems"]


def test_a_changed_source_shows_in_the_claims_that_fail_by_its_theorem(folder, monkeypatch):
    fails = Finding(False, 1, {})
    claim = replace(LEDGER["order-norm-hyb"], check=lambda _: fails)
    assert run.run_claim(claim, None).as_expected
    edit(folder / "OtherMethods.v", "Qed.", "Admitted.")
    monkeypatch.setattr(run, "proof_of", lambda *names: proof_of(*names, folder=folder))
    result = run.run_claim(claim, None)
    assert result.finding.verdict is Verdict.FAILS
    assert not result.as_expected
    assert result.expectation == "fails, with its theorems"


def test_claims_cite_theorems_that_are_proved():
    cited = {name for claim in LEDGER.values() for name in claim.theorems}
    assert cited <= accepted_theorems().keys()
    for claim in LEDGER.values():
        assert claim.theorems or claim.expected is not Verdict.PROVED


def test_a_theorem_does_not_save_a_claim_whose_check_fails():
    finding = run.with_proof(Finding(False, 1, {}), (CLS,))
    assert finding.verdict is Verdict.FAILS
    assert finding.evidence["theorems"] == f"NormSub.v: {CLS}"


def test_files_come_after_those_that_they_import():
    line = "From LdpOpt Require Import {}."
    sources = {"B.v": line.format("A"), "A.v": "", "C.v": line.format("A B")}
    assert prove.in_levels(sources | {"D.v": ""}) == [["A.v", "D.v"], ["B.v"], ["C.v"]]
    with pytest.raises(prove.ProofError, match="circular"):
        prove.in_levels({"A.v": line.format("B"), "B.v": line.format("A")})
    with pytest.raises(prove.ProofError, match="missing"):
        prove.in_levels({"A.v": line.format("B")})


def test_a_theorem_needs_prose():
    with pytest.raises(prove.ProofError, match="no prose"):
        prove.theorems_in("A.v", "(* not for readers *)\nTheorem a : True.\nProof. auto. Qed.")


def test_without_coqc_make_prove_names_the_package(monkeypatch, capsys):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["prove"])
    assert prove.main() != 0
    assert "package coq" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("coqc") is None, reason="needs coqc (package coq)")
def test_coq_refuses_a_false_statement_and_names_an_assumption(tmp_path, monkeypatch):
    monkeypatch.setattr(prove, "BUILD", tmp_path / "build")
    true = "(** True. *)\nTheorem two : 1 + 1 = 2.\nProof. reflexivity. Qed."
    assert prove.compile_all({"A.v": true})["files"]["A.v"]["axioms"] == []
    with pytest.raises(prove.ProofError, match="Coq refuses"):
        prove.compile_all({"A.v": true.replace("= 2", "= 3")})
    admitted = prove.compile_all({"A.v": true.replace("reflexivity. Qed", "Admitted")})
    assert admitted["files"]["A.v"]["axioms"] == ["A.two"]


@pytest.mark.skipif(shutil.which("coqc") is None, reason="needs coqc (package coq)")
def test_the_recipe_of_a_theorem_compiles(tmp_path, monkeypatch):
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    sources = {"Sums.v": (FOLDER / "Sums.v").read_text(encoding="utf-8")}
    _, _, rest = text.partition("```coq\n")
    sources["Averages.v"] = rest.partition("```")[0]
    monkeypatch.setattr(prove, "BUILD", tmp_path / "build")
    # Axioms take Coq a second per file.
    monkeypatch.setattr(prove, "_axioms_of", lambda file, names: [])
    assert "averages_add_up" in prove.compile_all(sources)["theorems"]


def test_todays_answer_on_emoji_is_the_one_of_the_theorem():
    numbers = integers_in("Emoji.v")
    one = numbers["one"][0]
    estimate = np.array([x / one for x in numbers["estimate"]])
    answer = np.array([x / one for x in numbers["norm_sub_answer"]])
    assert estimate.shape == (736,)
    np.testing.assert_allclose(closed_form.norm_sub(estimate), answer, rtol=0, atol=1e-16)


def test_an_answer_that_changes_is_no_longer_the_one_of_the_theorem(monkeypatch):
    assert LEDGER["emoji-answers"].check(None).holds
    exact = closed_form.norm_sub
    monkeypatch.setattr(closed_form, "norm_sub", lambda f: exact(f) * (1 + 1e-12))
    assert not LEDGER["emoji-answers"].check(None).holds


def test_digits_are_counted_from_the_exact_solution():
    exponent, (f, answer) = as_integers(np.array([0.5, 0.25]), np.array([0.625, 0.375]))
    assert (exponent, f, answer) == (3, [4, 2], [5, 3])
    million = 10**6
    moved = [625_010, 374_990]
    assert digits_of_accuracy([500_000, 250_000], moved, million, Fraction(0)) == 5
    assert digits_of_accuracy(f, answer, 2**exponent, Fraction(0)) == MOST_DIGITS


def test_make_prove_is_part_of_continuous_integration():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "make prove PROVE=--check" in script
