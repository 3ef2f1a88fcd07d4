"""The checks of the code itself find what they should and nothing else."""

import json

import pytest

from tools import density, prose, texts


def rules(tmp_path, content, name="module.py"):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return [(finding.rule, finding.line) for finding in prose.findings(path)]


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ("Costs two linear programs an answer.", "per"),
        ("Costs a transform a trial.", "per"),
        ("Costs 1,000 hashes a report.", "per"),
        ("Shape (n,), one value a\n    user.", "per"),
        ("Return it; an error if it is missing.", "error"),
        ("As said above.", "told"),
        ("To the accuracy asked for.", "asked"),
        ("Return which rows are none.", "none"),
        ("It falls without end.", "idiom"),
    ],
)
def test_phrase_is_found(tmp_path, words, rule):
    assert rules(tmp_path, f'def f():\n    """{words}"""\n') == [(rule, 2)]


@pytest.mark.parametrize(
    "words",
    [
        "Two linear programs per answer.",
        "One trial at a time, several in a row, half a second.",
        "The seconds a cell may take, 1e-7 below the objective a solver's point has.",
        "Two values that cannot be told apart.",
        "Raises an error if the file is missing.",
        ">>> said = 'one value a user'",
    ],
)
def test_plain_english_passes(tmp_path, words):
    assert rules(tmp_path, f'def f():\n    """First.\n\n    {words}\n    """\n') == []


def test_phrases_are_found_in_every_kind_of_text(tmp_path):
    source = (
        "x = 1  # one value a user\n"
        "# two programs\n# an answer\n"
        'print("costs one row " f"a user {x}")\n'
        "y = f'''\none row a {x}\none row a user'''\n"
    )
    assert rules(tmp_path, source) == [("per", 1), ("per", 2), ("per", 4), ("per", 7)]
    markdown = "Fine.\n\n```text\none row a user\n```\nIt costs one row a user.\n"
    assert rules(tmp_path, markdown, "page.md") == [("per", 6)]
    cells = [
        {"cell_type": "markdown", "source": ["Fine."]},
        {"cell_type": "code", "source": ["x = 1\n", "# one row a user"]},
    ]
    assert rules(tmp_path, json.dumps({"cells": cells}), "book.ipynb") == [("per", 2)]


@pytest.mark.parametrize(
    ("statement", "rule"),
    [
        ("found = 1", "name"),
        ("def _asked(): pass", "name"),
        ("def f(known): pass", "name"),
        ("self.trouble = 1", "name"),
        ("worst, vectors = 0.0, 10", "parallel"),
    ],
)
def test_names_and_assignments_are_found(tmp_path, statement, rule):
    assert rules(tmp_path, statement + "\n") == [(rule, 1)]


@pytest.mark.parametrize(
    "statement",
    [
        "lower, upper = 0.0, 1.0",
        "raw_lower, raw_upper = f(x), g(x)",
        "a_name, other = other, a_name % other",
        "value, error = compute()",
        "x = found",
    ],
)
def test_pairs_that_belong_together_pass(tmp_path, statement):
    assert rules(tmp_path, statement + "\n") == []


def test_every_exception_has_a_reason_and_is_needed():
    assert all(entry.reason for entry in prose.allowed())
    _, unused = prose.check(None)
    assert unused == []


def test_exception_covers_its_file_rule_and_words():
    entry = prose.Allowed("tools/*.py", "per", "one value a user", "quoted")
    path = texts.ROOT / "tools" / "prose.py"
    finding = prose.Finding(path.relative_to(texts.ROOT), 1, "per", "One value a user", "")
    assert entry.covers(finding)
    for change in ({"rule": "told"}, {"words": "one row a user"}, {"path": path.parent}):
        assert not entry.covers(prose.Finding(**vars(finding) | change))


SOURCE = '''"""A module."""

import os


def public(x):
    """Return y."""
    # why
    first, last = 1, 2  # both
    if x and first or last:
        return [y for y in x if y]
    return os


def _hidden():
    pass
'''


def test_density_of_a_small_file(tmp_path):
    measurement = density.Measurement()
    measurement.add(SOURCE)
    # import, def, assignment, if, two returns, def, pass; counted by hand
    assert len(measurement.widths) == 8
    assert (measurement.comments, measurement.docstring_lines) == (2, 2)
    assert (measurement.assignments, measurement.parallel) == (1, 1)
    assert (measurement.public, measurement.documented) == (1, 1)
    # one, the if, "and", "or", the comprehension and its condition
    assert sorted(measurement.complexities) == [1, 6]
    # the comment above the first statement is not part of the body
    assert sorted(measurement.lengths) == [1, 4]
