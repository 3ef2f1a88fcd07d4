"""Cases of several factors: every two values meet."""

import itertools

import pytest

from tests.every_two import every_two

FACTORS = {
    "loss": {"squares": 1, "deviations": 2, "kinks": 3},
    "unit": [0.001, 1.0],
    "constraints": [["bounds"], ["total"], ["order"], []],
}


def cases():
    """Return the cases of the factors, as the mark states them to pytest."""
    _, stated = every_two(**FACTORS).args
    return stated


def test_every_two_values_of_different_factors_meet_in_fewer_cases_than_all():
    rows = [case.values for case in cases()]
    assert len(rows) < 3 * 2 * 4
    values = [list(f.values()) if isinstance(f, dict) else f for f in FACTORS.values()]
    for first, second in itertools.combinations(range(3), 2):
        for pair in itertools.product(values[first], values[second]):
            assert any((row[first], row[second]) == pair for row in rows)


def test_a_case_has_the_names_of_its_values():
    names = {case.id for case in cases()}
    assert "squares-0.001-constraints0" in names
    assert len(names) == len(cases())


def test_two_factors_are_not_thinned_out():
    with pytest.raises(ValueError, match="two factors meet in full"):
        every_two(loss=[1, 2], unit=[1, 2])
