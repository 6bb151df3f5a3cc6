"""The instruction set of all kernels: one table, one choice for the process."""

cdef extern from "kernels.h":
    int kernels_here(const kernels **rows)


cdef const kernels *_rows
cdef int _count = kernels_here(&_rows)
chosen = &_rows[_count - 1]


def instruction_sets():
    """Names of the instruction sets that this processor can run, the one chosen at import last."""
    return tuple(_rows[i].name.decode() for i in range(_count))


def instruction_set():
    """Name of the instruction set that runs now."""
    return chosen.name.decode()


def use_instruction_set(str name):
    """Run this instruction set from now on, in every kernel and the whole process: for tests and measurements."""
    global chosen
    chosen = &_rows[instruction_sets().index(name)]
