"""Settings of all tests."""

import gc

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


def pytest_collection_finish():
    # Hypothesis 6.100 registers its random numbers in its first example, and asks the search for
    # garbage who refers to them: that must see the objects that are frozen below.
    _first_example()
    gc.collect()
    gc.freeze()
    # Libraries that tests load later are not frozen: at the usual thresholds, searching them again
    # and again took 3 to 7 % of the processor time. Here a full one comes every 4 million objects.
    gc.set_threshold(10_000, 20, 20)
    gc.enable()
