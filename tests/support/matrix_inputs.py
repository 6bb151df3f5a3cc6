"""What the kernels of public matrices are tested with: numbers of each kind, on each instruction set."""

import numpy as np
import pytest

from dpmpc.linear.encoding.ring import Mersenne61

KINDS = ("ring64", "mersenne61", "float64")
P = Mersenne61.modulus


def each_instruction_set(kernel):
    """Return a fixture that runs a test with every body of a kernel."""
    sets = kernel.instruction_sets()

    @pytest.fixture(params=sets, name="instruction_set")
    def instruction_set(request):
        kernel.use_instruction_set(request.param)
        yield request.param
        kernel.use_instruction_set(sets[-1])

    return instruction_set


def numbers(kind, shape, seed=0):
    """Return doubles, or integers of which the first half are what carries furthest."""
    rng = np.random.default_rng(seed)
    if kind == "float64":
        return rng.normal(size=shape)
    end = P if kind == "mersenne61" else 1 << 64
    X = rng.integers(0, end, shape, dtype=np.uint64)
    X[: (len(X) + 1) // 2] = end - 1
    return X


def ring_of(kind):
    """Return the ring to ask for; it is not looked at with doubles."""
    return "ring64" if kind == "float64" else kind
