"""Clients in other languages: vectors are those of the library, and the JavaScript one is right.

The tests of JavaScript are skipped where node is not installed.
"""

import json
import math
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ldpopt.collection.header import Header
from ldpopt.collection.layout import layout_of
from ldpopt.oracles import ORACLES
from ldpopt.studies.audit import audit
from tools import vectors

CLIENTS = Path(__file__).parent.parent / "clients"
PAGE = (Path(__file__).parent.parent / "docs" / "protocol.md").read_text("utf-8")
NODE = shutil.which("node")
EPSILON = 1.0
D = 9
N = 3_000
Z = 5.5  # of 7 oracles and 9 values one test in 400,000 is beyond

needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed")


def node(*arguments):
    command = [NODE, *map(str, arguments)]
    ended = subprocess.run(command, cwd=CLIENTS, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def reports_of(oracle, n, *values):
    """Return n reports of each value by the JavaScript client, as the library reads them."""
    printed = node("javascript/reports.mjs", oracle.name, oracle.epsilon, oracle.d, n, *values)
    rows = [line.split(",") for line in printed.splitlines()]
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

    outcome = audit(client, claim, [0, 1], reports=8_000, batched=True)
    assert outcome.passed == passes
    assert outcome.lower < EPSILON + math.log(1.2)


def test_the_page_names_what_headers_hold():
    schema = json.loads(re.search(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)[1])
    properties = schema["properties"]
    assert properties["oracle"]["enum"] == list(ORACLES)
    for oracle_type in ORACLES.values():
        record = Header.fresh(oracle_type(EPSILON, D)).record()
        assert set(schema["required"]) <= set(record) <= set(properties)
        assert record["version"] == properties["version"]["const"]
