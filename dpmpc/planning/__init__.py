"""From a specification to a task, before any data: noise, modulus, bytes, expected error, advice."""

from dpmpc.planning.designing import design
from dpmpc.specification import Budget, Mechanism, ReleaseSpec, Sketch

__all__ = ["Budget", "Mechanism", "ReleaseSpec", "Sketch", "design"]
