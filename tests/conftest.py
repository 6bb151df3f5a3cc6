"""Settings of the test suite: property tests have no deadline, because a busy machine is not a fault."""

from hypothesis import settings

settings.register_profile("dpmpc", deadline=None)
settings.load_profile("dpmpc")
