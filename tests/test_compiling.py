"""Functions that Python calls are compiled once, and what they only read stays as it was."""

import numpy as np
import pytest
from numba import TypingError
from numpy.testing import assert_array_equal

from ldpopt.closed_form import compiling
from ldpopt.closed_form.rows import locked_view


def double(values, result):
    for k in range(len(values)):
        result[k] = 2.0 * values[k]


@pytest.fixture
def dispatchers(monkeypatch):
    """What numba makes of functions, in the order in which they are compiled."""
    dispatchers = []
    compiled = compiling.compiled

    def noted(function):
        dispatchers.append(compiled(function))
        return dispatchers[-1]

    monkeypatch.setattr(compiling, "compiled", noted)
    return dispatchers


def test_arrays_of_estimates_and_new_ones_are_compiled_for_once(dispatchers):
    function = compiling.entry("result")(double)
    values = np.arange(3.0)
    for given in (values, locked_view(values)):
        result = np.empty(3)
        function(given, result)
        assert_array_equal(result, [0.0, 2.0, 4.0])
    assert len(dispatchers[0].nopython_signatures) == 1
    assert values.flags.writeable


def test_an_array_that_is_not_named_cannot_be_written_to():
    with pytest.raises(TypingError, match="Cannot modify readonly array"):
        compiling.entry()(double)(np.arange(3.0), np.empty(3))


def test_what_an_entry_is_called_and_made_of_is_that_of_its_function():
    function = compiling.entry("result")(double)
    assert function.__name__ == "double"
    assert function.__wrapped__ is double
