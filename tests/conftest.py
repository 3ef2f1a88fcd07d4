"""Settings of all tests."""

import gc

import numpy  # noqa: F401, Hypothesis seeds its random numbers if it is loaded
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

# No deadline: a busy machine is not a bug. The same examples every time: a red run can be
# repeated.
settings.register_profile("ldpopt", deadline=None, derandomize=True)
settings.load_profile("ldpopt")

# The libraries and the tests are half a million objects that stay: the search for garbage looks at
# them neither while they are loaded nor in any test.
gc.disable()


@settings(max_examples=1)
@given(st.none())
def _first_example(_):
    """Do nothing, once."""


@pytest.fixture
def by_cones(monkeypatch):
    """Prove points under curved constraints by cone programs, not by tangents of the curves."""
    from ldpopt.solve.certificate.polyhedra import polyhedron

    monkeypatch.setattr(polyhedron, "with_tangents", lambda *_: None)


def pytest_collection():
    # In its first example Hypothesis registers its random numbers and numpy's, and asks the search
    # for garbage who refers to them: it must see the objects that are frozen below, and takes half
    # a second once the tests are loaded.
    _first_example()


def pytest_collection_finish():
    # What imports left behind is kept too: to look for it first would take half a second.
    gc.freeze()
    # Libraries that tests load later are not frozen. With a search for every 700 new objects, as
    # usual, the tests took 3 to 7 % more processor time than with one for 10,000, and with that
    # some 5 % more than with one for 100,000. Here a full search comes every 40 million objects.
    gc.set_threshold(100_000, 20, 20)
    gc.enable()


def pytest_unconfigure():
    # What is garbage now is searched for what it reports, twice, since the first may leave some.
    # pytest does so five more times, and took seconds for objects that stay to the end.
    gc.collect()
    gc.collect()
    gc.freeze()
