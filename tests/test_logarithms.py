"""Compiled logarithms of quotients, beside 40 digits."""

import mpmath
import numpy as np
import pytest

from ldpopt.closed_form.logarithms import log_ratios

RNG = np.random.default_rng(0)
COUNT = 2_000
TINY = np.finfo(np.float64).tiny
LARGEST = np.finfo(np.float64).max
NUMBERS = {
    "of all sizes": np.exp(RNG.uniform(-708.0, 709.0, COUNT)),
    "of one size": RNG.uniform(0.01, 4.0, COUNT),
    "near 1": 1 + RNG.normal(0.0, 1e-4, COUNT),
    "next to 1": 1 + np.arange(-200, 201) * np.finfo(np.float64).eps,
    "next to the ends of an interval": np.sqrt(0.5) * (1 + np.arange(-200, 201) * 2e-16),
    "powers of 2": 2.0 ** np.arange(-1022, 1024),
    "the first and the last": np.array([TINY, LARGEST]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_logarithms_are_right_to_one_unit_in_the_last_place(name):
    numbers = NUMBERS[name]
    logs, are_numbers = log_ratios(numbers, np.ones(len(numbers)))
    assert are_numbers
    with mpmath.workdps(40):
        exact = [mpmath.log(mpmath.mpf(x)) for x in numbers.tolist()]
        away = [abs(mpmath.mpf(y) - z) for y, z in zip(logs.tolist(), exact, strict=True)]
    units = np.spacing(np.abs(np.array(exact, dtype=np.float64)))
    assert np.max(np.array(away, dtype=np.float64) / units) < 1


def test_quotients_are_those_that_numpy_rounds():
    f, reference = RNG.uniform(0.1, 1.0, (2, 700))
    into = np.empty(700)
    logs, _ = log_ratios(f, reference, into)
    assert logs is into
    of_quotients, _ = log_ratios(f / reference, np.ones(700))
    assert (logs == of_quotients).all()


@pytest.mark.parametrize(
    ("f", "reference"),
    [
        (0.0, 1.0),
        (-1.0, 1.0),
        (1.0, 0.0),
        (0.0, 0.0),
        (np.nan, 1.0),
        (1.0, np.nan),
        (np.inf, 1.0),
        (1.0, np.inf),
        # Quotients beyond the doubles, or with fewer digits than others.
        (1e-200, 1e200),
        (1e200, 1e-200),
        (1.0, 1.1 / TINY),
    ],
)
@pytest.mark.parametrize("place", [0, 4, 9])
def test_quotients_without_a_logarithm_are_no_numbers(f, reference, place):
    values = np.full(10, 2.0)
    divisors = np.ones(10)
    values[place] = f
    divisors[place] = reference
    logs, are_numbers = log_ratios(values, divisors)
    assert not are_numbers
    assert np.isnan(logs[place])
    assert np.count_nonzero(np.isnan(logs)) == 1
