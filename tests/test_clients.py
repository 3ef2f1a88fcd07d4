"""Clients in other languages: vectors are those of the library, and the JavaScript one is right.

The tests of JavaScript are skipped where node is not installed.
"""

import csv
import hashlib
import json
import math
import re
import shutil
import subprocess
from pathlib import Path

import jsonschema
import numpy as np
import pyarrow.parquet as pq
import pytest

from ldpopt.collection import open_reports, write_reports
from ldpopt.collection.header import fingerprint
from ldpopt.collection.layout import layout_of
from ldpopt.collection.parquet import METADATA
from ldpopt.errors import LdpoptError
from ldpopt.oracles import ORACLES
from ldpopt.studies.audit import audit
from tests.commands import run
from tools import vectors

CLIENTS = Path(__file__).parent.parent / "clients"
PAGE = (Path(__file__).parent.parent / "docs" / "protocol.md").read_text("utf-8")
NODE = shutil.which("node")
EPSILON = 1.0
D = 9
N = 3_000
Z = 5.5  # of 7 oracles and 9 values one test in 400,000 is beyond
SURE = 0.999999  # the client draws from the operating system: a false alarm in a million runs

needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed")


def node(*arguments):
    command = [NODE, *map(str, arguments)]
    ended = subprocess.run(command, cwd=CLIENTS, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def reports_of(oracle, n, *values):
    """Return n reports of each value by the JavaScript client, as the library reads them."""
    printed = node("javascript/reports.mjs", oracle.name, oracle.epsilon, oracle.d, n, *values)
    heading, *rows = (line.split(",") for line in printed.splitlines())
    assert tuple(heading) == layout_of(oracle).names
    reports, codes = layout_of(oracle).parse(rows)
    assert not codes.any()
    return reports


def test_the_vectors_are_those_of_the_library():
    kept = json.loads((CLIENTS / "vectors.json").read_text("utf-8"))
    assert kept == vectors.vectors()


def test_the_vectors_cover_every_oracle():
    assert {name for name, *_ in vectors.CASES} == set(ORACLES)


@needs_node
def test_the_javascript_client_reproduces_the_vectors():
    assert "# fail 0" in node("--test", "--test-reporter=tap", "javascript/")


@needs_node
@pytest.mark.parametrize("name", ORACLES)
def test_reports_of_the_javascript_client_support_values_as_often_as_they_should(name):
    oracle = ORACLES[name](EPSILON, D)
    value = 4
    counts = oracle.support_counts(reports_of(oracle, N, value))
    expected = np.where(np.arange(D) == value, oracle.p, oracle.q)
    scores = (counts - N * expected) / np.sqrt(N * expected * (1 - expected))
    assert np.abs(scores).max() < Z


@needs_node
@pytest.mark.parametrize(("claim", "passes"), [(EPSILON, True), (EPSILON - 0.4, False)])
def test_an_audit_of_the_javascript_client_finds_its_budget(claim, passes):
    oracle = ORACLES["hr"](EPSILON, 3)

    def client(values):
        # All reports of an audit's batch are of one value.
        assert len(set(values)) == 1
        return reports_of(oracle, len(values), values[0])

    outcome = audit(client, claim, [0, 1], reports=8_000, batched=True, confidence=SURE)
    assert outcome.passed == passes
    assert outcome.lower < EPSILON + math.log(1.2)


@needs_node
def test_files_of_the_javascript_client_are_audited_as_the_page_shows(tmp_path):
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for value, path in enumerate(files):
        path.write_text(node("javascript/reports.mjs", "olh", EPSILON, D, 400, value))
    protocol = ["--oracle", "olh", "--epsilon", EPSILON, "--d", D]
    columns = ["--column", "seed", "--column", "bucket"]
    sure = ["--confidence", SURE]
    audited = run("audit", "--reports", *files, "--values", "0,1", *protocol, *columns, *sure)
    assert audited.status == 0
    assert "privacy loss, by reports" in audited.out


@needs_node
def test_the_javascript_client_says_how_it_is_called():
    command = [NODE, "javascript/reports.mjs", "oue", "1", "64", "20000"]
    ended = subprocess.run(command, cwd=CLIENTS, check=False, capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr.startswith("Usage: ")


SCHEMA = json.loads(re.search(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)[1])
LABELS = {None: None, "few": list("abcdefghi"), "many": [f"é {i}" for i in range(1000)]}


@pytest.fixture(scope="module")
def headers(tmp_path_factory):
    """Headers as they are in files, of every oracle, in both formats, with and without labels."""
    folder = tmp_path_factory.mktemp("headers")
    headers = []
    for name, make in ORACLES.items():
        for kind, labels in LABELS.items():
            oracle = make(EPSILON, D if labels is None else len(labels))
            path = folder / f"{name}-{kind}"
            reports = oracle.perturb([0, 1], rng=0)
            write_reports(path.with_suffix(".parquet"), oracle, reports, labels=labels)
            write_reports(path.with_suffix(".csv"), oracle, reports, labels=labels)
            stored = pq.read_metadata(path.with_suffix(".parquet")).metadata[METADATA]
            headers.append(json.loads(stored))
            with path.with_suffix(".csv").open(encoding="utf-8", newline="") as file:
                headers.append(json.loads(next(csv.reader(file))[-1]))
    return headers


def test_headers_of_files_follow_the_schema_of_the_page(headers):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    validator = jsonschema.Draft202012Validator(SCHEMA)
    assert len(headers) == 2 * len(LABELS) * len(ORACLES)
    for header in headers:
        validator.validate(header)
    assert SCHEMA["properties"]["oracle"]["enum"] == list(ORACLES)
    # All that the schema knows occurs.
    assert set().union(*headers) == SCHEMA["properties"].keys()


@pytest.mark.parametrize(
    "change",
    [
        {"sha256": "0"},
        {"version": 5},
        {"oracle": "rappor"},
        {"epsilon": 0},
        {"d": 2**24 + 1},
        {"labels": "red"},
        {"rows": -1},
        {"town": "x"},
    ],
)
def test_what_the_schema_forbids_is_refused_here_too(change, headers, tmp_path):
    header = next(header for header in headers if header["oracle"] == "grr" and "rows" in header)
    changed = {**header, **change}
    assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(changed)
    # Unknown fields are passed over, and labels only compared: a later version may have others.
    if change.keys() & {"sha256", "version", "oracle", "epsilon", "d", "rows"}:
        path = tmp_path / "r.csv"
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([["report", json.dumps(changed)], [0, ""], [1, ""]])
        with pytest.raises(LdpoptError):
            open_reports(path)


def test_the_page_says_how_labels_are_hashed():
    labels = LABELS["many"]

    def digits(part, number):
        text = json.dumps(part, ensure_ascii=False, separators=(", ", ": "))
        return hashlib.sha256(text.encode()).hexdigest()[:number]

    parts = [labels[i * 1000 // 64 : (i + 1) * 1000 // 64] for i in range(64)]
    pieces = [digits(labels, 32), digits(sorted(labels), 8), "".join(digits(p, 6) for p in parts)]
    assert fingerprint(labels) == ":".join(pieces)
