"""Settings of all tests."""

import gc

from hypothesis import settings

# No deadline: a busy machine is not a bug. The same examples every time: a red run can be
# repeated.
settings.register_profile("ldpopt", deadline=None, derandomize=True)
settings.load_profile("ldpopt")

# The libraries and the tests are half a million objects that stay: the search for garbage looks at
# them neither while they are loaded nor in any test.
gc.disable()


def pytest_collection_finish():
    gc.collect()
    gc.freeze()
    gc.enable()
