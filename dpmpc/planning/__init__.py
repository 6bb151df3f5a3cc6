"""From what is wanted to a task, before any data: noise, modulus, bytes, expected error, advice."""

from dpmpc.planning.specification import design

__all__ = ["design"]
