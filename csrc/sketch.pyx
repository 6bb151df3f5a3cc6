"""Kernel of `dpmpc.linear.sketching`: sparse public matrices that are derived while they are applied, never stored.

Buffers in, buffers out, the GIL released. What a caller could get wrong about lengths is checked here, because a wrong
length would write outside of memory; everything else is checked by `dpmpc.linear.sketching`.
"""

from cython.view cimport array
from libc.stdint cimport int64_t, uint32_t, uint64_t


from dpmpc._kernels.dispatch cimport chosen, kernels
from dpmpc._kernels.dispatch import instruction_sets, use_instruction_set


cdef extern from "apply.h" nogil:
    enum sketch_kind:
        SKETCH_RING
        SKETCH_FIELD
        SKETCH_REAL

    enum sketch_family:
        SKETCH_INDEPENDENT
        SKETCH_BALANCED
        SKETCH_ONES

    enum:
        SKETCH_DONE
        SKETCH_NO_MEMORY
        SKETCH_NOT_CANONICAL

    struct sketch_matrix:
        sketch_family family
        uint32_t key[2]
        uint32_t nonce[2]
        uint32_t rows
        uint32_t copies

    void sketch_philox(const kernels *kernels, uint32_t *counter, const uint32_t *key)
    int sketch_entries(const kernels *kernels, const sketch_matrix *S, uint64_t first, int64_t count, uint32_t *out)
    int sketch_scatter(const kernels *kernels, const sketch_matrix *S, sketch_kind kind, uint64_t first, int64_t count,
                       int64_t width, bint shared, const uint64_t *X, uint64_t *Y)
    int sketch_scatter_stored(const kernels *kernels, const sketch_matrix *S, sketch_kind kind,
                              const uint32_t *entries, int64_t count, int64_t given, int64_t width, bint shared,
                              const uint64_t *X, uint64_t *Y)


_KINDS = {"ring64": SKETCH_RING, "mersenne61": SKETCH_FIELD, "float64": SKETCH_REAL}
_FAMILIES = {"independent": SKETCH_INDEPENDENT, "balanced": SKETCH_BALANCED, "ones": SKETCH_ONES}


def philox(counter, key):
    """Philox4x32-7 of one counter (four words) under a key (two words), for the published known answers."""
    cdef uint32_t words[4]
    cdef uint32_t keys[2]
    words[:] = counter
    keys[:] = key
    sketch_philox(chosen, words, keys)
    return words[0], words[1], words[2], words[3]


cdef bint _shared(const sketch_matrix *S, const Py_ssize_t *X, const Py_ssize_t *Y) except -1:
    """Whether rows of X are for all copies, given the shapes of X and Y."""
    if Y[0] != S.rows or X[1] not in (Y[1], Y[1] * S.copies):
        raise ValueError("X and Y: shapes that belong together expected")
    return X[1] == Y[1]


cdef class Matrix:
    """A sparse matrix of signs, given by its family, its key and nonce (four words), its rows and its sparsity."""

    cdef sketch_matrix _matrix

    def __cinit__(self, str family, words, uint32_t rows, uint32_t copies):
        if not 1 <= copies <= rows < 1 << 31:
            raise ValueError("rows and copies: 1 <= copies <= rows < 2^31 expected")
        self._matrix.family = _FAMILIES[family]
        self._matrix.key[0], self._matrix.key[1], self._matrix.nonce[0], self._matrix.nonce[1] = words
        self._matrix.rows = rows
        self._matrix.copies = copies

    def entries(self, uint64_t first, uint32_t[:, ::1] out):
        """Overwrite `out`, (s, count), with the entries of clients from `first` on: (row << 1) | negative."""
        cdef int status = SKETCH_DONE
        cdef int64_t count = out.shape[1]
        if out.shape[0] != self._matrix.copies:
            raise ValueError("out: one row for each copy expected")
        if count:
            with nogil:
                status = sketch_entries(chosen, &self._matrix, first, count, &out[0, 0])
        if status == SKETCH_NO_MEMORY:
            raise MemoryError

    def scatter(self, str kind, uint64_t first, const uint64_t[:, ::1] X, uint64_t[:, ::1] Y):
        """Y += S[:, first:first + m] X; False if some X was no canonical field element, and Y then has no meaning.

        Y is (k, p). X is (m, p), each row for all copies, or (m, s p), each part for its copy. Y must be canonical in
        a field, is canonical afterwards, and must not overlap X. Doubles are passed as the words that they are.
        """
        cdef int status = SKETCH_DONE
        cdef int64_t count = X.shape[0], width = Y.shape[1]
        cdef bint shared = _shared(&self._matrix, X.shape, Y.shape)
        cdef sketch_kind how = _KINDS[kind]
        if count and width:
            with nogil:
                status = sketch_scatter(chosen, &self._matrix, how, first, count, width, shared, &X[0, 0], &Y[0, 0])
        if status == SKETCH_NO_MEMORY:
            raise MemoryError
        return status != SKETCH_NOT_CANONICAL


cdef class Stored:
    """The entries of a matrix's first clients, drawn once: to measure what drawing them costs."""

    cdef Matrix _of
    cdef uint32_t[:, ::1] _entries

    def __cinit__(self, Matrix of, int64_t count):
        if count < 1:
            raise ValueError("count: at least one client expected")
        self._of = of
        self._entries = array(shape=(of._matrix.copies, count), itemsize=sizeof(uint32_t), format="I")
        of.entries(0, self._entries)

    def scatter(self, str kind, const uint64_t[:, ::1] X, uint64_t[:, ::1] Y):
        """Y += S[:, :m] X for the m clients that are stored; see `Matrix.scatter`.

        Fewer rows of X, from one on, stand for all clients, again and again: rows that stay in the cache, to measure
        what meeting the rows of Y costs.
        """
        cdef int status
        cdef int64_t count = self._entries.shape[1], width = Y.shape[1]
        cdef sketch_kind how = _KINDS[kind]
        cdef bint shared = _shared(&self._of._matrix, X.shape, Y.shape)
        if not 1 <= X.shape[0] <= count or not width:
            raise ValueError("X and Y: from one row of X to one for each client, and columns, expected")
        with nogil:
            status = sketch_scatter_stored(chosen, &self._of._matrix, how, &self._entries[0, 0], count, X.shape[0], width,
                                           shared, &X[0, 0], &Y[0, 0])
        return status != SKETCH_NOT_CANONICAL
