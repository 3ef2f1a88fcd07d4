"""Claims of a user's own file: in the ledger's table, page and exit status, or one sentence."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from ldpopt.claims import LEDGER, Finding, InstanceSet, Verdict, claim, read_claims, run_claim
from ldpopt.claims.engine.run import to_json
from ldpopt.errors import InvalidInputError
from ldpopt.executors import InProcess
from tests.commands import run

GOOD = """
import numpy as np
from neighbour import LIMIT
from ldpopt.claims import Finding, claim
from ldpopt.claims.topics.noise import noise_common

TITLE = "Ours"


@claim("our-sum", "our report, section 2", "Random shares sum to 1.", "{expected}")
def our_sum(instances):
    shares = instances.rng().dirichlet(np.ones(4), size=10)
    error = float(abs(shares.sum(axis=1) - 1).max())
    return Finding(holds=error < LIMIT, instances=10, evidence={{"largest error": error}})
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "neighbour.py").write_text("LIMIT = 1e-9", "utf-8")
    monkeypatch.setattr("sys.path", list(sys.path))
    return tmp_path


def written(folder, source):
    path = folder / "my_claims.py"
    path.write_text(source, "utf-8")
    return path


def test_a_files_claims_are_those_that_it_defines(folder):
    claims = read_claims(written(folder, GOOD.format(expected="holds")), taken=LEDGER)
    assert list(claims) == ["our-sum"]
    assert claims["our-sum"].topic == "Ours"
    assert claims["our-sum"].expected is Verdict.HOLDS


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("expected", ["holds", "fails"])
def test_own_claims_are_in_the_table_the_files_and_the_exit_status(
    folder, monkeypatch, expected, workers
):
    # One claim of the ledger beside them. Other processes would import all of it.
    monkeypatch.setattr("ldpopt.claims.LEDGER", {"oue-flip": LEDGER["oue-flip"]})
    monkeypatch.setattr("ldpopt.claims.checking.executor_for", lambda workers: InProcess())
    monkeypatch.setattr("ldpopt.claims.statements.defects_of_list", lambda *_: [])
    path = written(folder, GOOD.format(expected=expected))
    out = folder / "out"
    result = run("verify", "--quick", "--claims", path, "--out", out, "--workers", workers)
    records = json.loads((out / "claims.json").read_text("utf-8"))
    assert [record["id"] for record in records] == ["oue-flip", "our-sum"]
    assert records[-1]["verdict"] == "holds"
    assert "our-sum" in result.out.partition("Your claims")[2]
    assert 'id="our-sum"' in (out / "report.html").read_text("utf-8")
    assert result.status == (0 if expected == "holds" else 1)
    assert ("not what the ledger expects: our-sum" in result.err) == (expected == "fails")


WRONG = {
    "no such file": (None, "no such file of claims; check the path"),
    "no claims": ("x = 1", "has no claims: decorate functions with @claim"),
    "syntax": ("def", "does not run: SyntaxError: "),
    "import": ("import no_such_module", "does not run: ModuleNotFoundError: No module named"),
    "no id": (
        "from ldpopt.claims import claim\n@claim\ndef f(i): pass",
        "a claim needs an id in lower case with hyphens",
    ),
    "taken": (
        "from ldpopt.claims import claim\n@claim('oue-flip', 's', 't', 'holds')\ndef f(i): pass",
        "there is a claim 'oue-flip' already; give this one another id",
    ),
    "twice": (
        "from ldpopt.claims import claim\nmake = claim('mine', 's', 't', 'holds')\n"
        "@make\ndef f(i): pass\n@make\ndef g(i): pass",
        "there is a claim 'mine' already",
    ),
}


@pytest.mark.parametrize(("source", "message"), WRONG.values(), ids=WRONG)
def test_a_file_that_cannot_be_used_is_one_sentence_before_any_check(folder, source, message):
    path = folder / "none.py" if source is None else written(folder, source)
    result = run("verify", "--claims", path)
    assert result.status == 2
    assert message in " ".join(result.err.split())
    assert "Checking" not in result.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "needs an id in lower case with hyphens, @claim\\('my-claim'"),
        (("mine", "s", "t"), "unknown verdict ''"),
        (("", "s", "t", "holds"), "needs an id in lower case with hyphens"),
        (("Mine", "s", "t", "holds"), "got 'Mine'"),
        (("mine", "", "t", "holds"), "needs a source and a statement"),
        (("mine", "s", "", "holds"), "needs a source and a statement"),
        (("mine", "s", "t", "hold"), "unknown verdict 'hold': did you mean 'holds'"),
    ],
)
def test_a_claim_says_what_it_is(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        claim(*arguments)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"holds": "no"}, "holds of a Finding is True, False or None, got 'no'"),
        ({"corrected": 1}, "corrected of a Finding is True, False or None, got 1"),
        ({"instances": -1}, "must be at least 0, got -1 (test_own_claims.py"),
        ({"evidence": [0.5]}, "maps what was measured to numbers and short texts"),
        ({"evidence": {"errors": np.ones(2)}}, "evidence 'errors' of a Finding is a number"),
    ],
)
def test_a_finding_that_no_file_can_hold_makes_its_claim_red(parts, message):
    def check(instances):
        return Finding(**{"holds": True, "instances": 1, "evidence": {}} | parts)

    result = run_claim(claim("mine", "s", "t", "holds")(check), None)
    assert not result.as_expected
    assert message in result.raised


def test_findings_with_numbers_of_numpy_are_written():
    def check(instances):
        evidence = {"error": np.float32(0.5), "draws": np.int64(3), "all": np.bool_(True)}
        return Finding(np.bool_(True), np.int64(2), evidence)

    result = run_claim(claim("mine", "s", "t", "holds")(check), None)
    (record,) = json.loads(to_json([result]))
    assert (record["verdict"], record["instances"]) == ("holds", 2)
    assert record["evidence"] == {"error": 0.5, "draws": 3, "all": True}


def test_a_check_that_exits_ends_no_run():
    result = run_claim(claim("mine", "s", "t", "holds")(lambda instances: sys.exit(3)), None)
    assert result.raised.startswith("SystemExit: 3")


def test_the_example_of_the_page_is_a_file_of_claims(folder):
    page = Path(__file__).parent.parent / "docs" / "how-to" / "own-claims.md"
    (example,) = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), flags=re.S)
    (added,) = read_claims(written(folder, example)).values()
    assert added.check(InstanceSet(quick=True)).verdict is Verdict.HOLDS
