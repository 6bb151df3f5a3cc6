"""From a specification to a task, before any data: noise, modulus, bytes, expected error, advice."""

from dpmpc.release.planning.designing import design

__all__ = ["design"]
