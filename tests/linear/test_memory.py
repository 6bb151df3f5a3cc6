"""What the sparse kernel touches: nothing behind X, and nothing behind a row of Y that is not its own."""

import subprocess
import sys

import numpy as np
import pytest

from dpmpc._kernels import sketch
from support.matrix_inputs import each_instruction_set

instruction_set = each_instruction_set(sketch)
KEY = (1, 2, 3, 4)

# X ends where a page ends that is followed by one that nobody may touch: a process that does dies.
BEHIND_X = """
import ctypes, mmap, sys
import numpy as np
from dpmpc._kernels import sketch

sketch.use_instruction_set(sys.argv[1])
room = mmap.mmap(-1, 64 * mmap.PAGESIZE)
start = ctypes.addressof(ctypes.c_char.from_buffer(room))
last = (len(room) - mmap.PAGESIZE) // 8
assert ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(start + 8 * last), mmap.PAGESIZE, 0) == 0
words = np.frombuffer(room, np.uint64)
for rows, copies, clients in ((9, 1, 36), (9, 4, 21), (9, 9, 12), (1000, 4, 21)):
    matrix = sketch.Matrix("independent", (1, 2, 3, 4), rows, copies)
    for width in (*range(1, 20), 27, 30):
        for parts in {1, copies}:
            X = words[last - clients * parts * width : last].reshape(clients, parts * width)
            X[:] = np.arange(X.size, dtype=np.uint64).reshape(X.shape)
            for kind in ("ring64", "mersenne61", "float64"):
                here, copied = np.zeros((rows, width), np.uint64), np.zeros((rows, width), np.uint64)
                assert matrix.scatter(kind, 5, X, here)
                sketch.use_instruction_set("portable")
                assert matrix.scatter(kind, 5, X.copy(), copied)
                sketch.use_instruction_set(sys.argv[1])
                assert np.array_equal(here, copied), (rows, copies, width, parts, kind)
print("untouched")
"""


def test_nothing_behind_x_is_touched(instruction_set):
    done = subprocess.run(
        [sys.executable, "-c", BEHIND_X, instruction_set], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "untouched\n"), done.stderr


@pytest.mark.parametrize("clients", [3, 400])
@pytest.mark.parametrize("width", [1, 6, 10, 13, 18])
def test_nothing_behind_y_is_touched(instruction_set, width, clients):
    """Few clients are added to Y itself, many to a copy of it that has room for whole vectors."""
    rows, copies, guard = 50, 4, 0x5EED
    matrix = sketch.Matrix("independent", KEY, rows, copies)
    X = np.ones((clients, width), np.uint64)
    room = np.full(rows * width + 16, guard, np.uint64)
    Y = room[8:-8].reshape(rows, width)
    expected = Y.copy()
    sketch.use_instruction_set("portable")
    matrix.scatter("ring64", 0, X, expected)
    sketch.use_instruction_set(instruction_set)
    matrix.scatter("ring64", 0, X, Y)
    assert np.array_equal(Y, expected)
    assert (room[:8] == guard).all()
    assert (room[-8:] == guard).all()
