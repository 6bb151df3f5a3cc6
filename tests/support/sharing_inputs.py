"""Secrets and schemes that the tests of shares have in common."""

import numpy as np

from dpmpc.base.randomness import Stream

P = (1 << 61) - 1

KEY = bytes(range(16))


def words(values):
    return np.array(values, dtype=np.uint64)


def secret(ring, shape, seed=1):
    return ring.uniform(Stream.from_seed(seed), shape)
