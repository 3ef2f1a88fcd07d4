"""Settings of all tests."""

from hypothesis import settings

# No deadline: a busy machine is not a bug. The same examples every time: a red run can be
# repeated.
settings.register_profile("ldpopt", deadline=None, derandomize=True)
settings.load_profile("ldpopt")
