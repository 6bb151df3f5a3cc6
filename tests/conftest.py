"""Property tests are not timed: a busy machine is no fault."""

from hypothesis import settings

settings.register_profile("dpmpc", deadline=None)
settings.load_profile("dpmpc")
