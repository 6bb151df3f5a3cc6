"""Kernel of `dpmpc.linear.sketching`: dense public matrices of signs that are derived while they are applied, never stored.

Buffers in, buffers out, the GIL released. What a caller could get wrong about lengths is checked here, because a wrong
length would write outside of memory; everything else is checked by `dpmpc.linear.sketching`.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t


from dpmpc._kernels.dispatch cimport chosen, kernels
from dpmpc._kernels.dispatch import instruction_sets, use_instruction_set


cdef extern from "apply.h" nogil:
    enum sketch_kind:
        SKETCH_RING
        SKETCH_FIELD
        SKETCH_REAL

    enum:
        SKETCH_DONE
        SKETCH_NO_MEMORY
        SKETCH_NOT_CANONICAL

    struct dense_matrix:
        uint32_t key[2]
        uint32_t nonce[2]
        uint32_t rows

    int dense_signs(const kernels *kernels, const dense_matrix *S, uint32_t first, int64_t blocks, uint32_t *out)
    int dense_apply(const kernels *kernels, const dense_matrix *S, sketch_kind kind, uint64_t first, int64_t count,
                    int64_t width, bint shared, const uint64_t *X, uint64_t *Y)


_KINDS = {"ring64": SKETCH_RING, "mersenne61": SKETCH_FIELD, "float64": SKETCH_REAL}


cdef class Matrix:
    """A matrix of signs, given by its key and nonce (four words) and its rows."""

    cdef dense_matrix _matrix

    def __cinit__(self, words, uint32_t rows):
        if not 1 <= rows < 1 << 31:
            raise ValueError("rows: 1 <= rows < 2^31 expected")
        self._matrix.key[0], self._matrix.key[1], self._matrix.nonce[0], self._matrix.nonce[1] = words
        self._matrix.rows = rows

    def signs(self, uint32_t first, uint32_t[:, :, ::1] out):
        """Overwrite `out`, (blocks, k, 4), with the words of blocks of 128 clients from `first` on: set bits are -1."""
        cdef int status = SKETCH_DONE
        cdef int64_t blocks = out.shape[0]
        if out.shape[1] != self._matrix.rows or out.shape[2] != 4:
            raise ValueError("out: four words for each row expected")
        if blocks:
            with nogil:
                status = dense_signs(chosen, &self._matrix, first, blocks, &out[0, 0, 0])
        if status == SKETCH_NO_MEMORY:
            raise MemoryError

    def apply(self, str kind, uint64_t first, const uint64_t[:, ::1] X, uint64_t[:, ::1] Y):
        """Y += S[:, first:first + m] X; False if some X was no canonical field element, and Y then has no meaning.

        Y is (k, p). X is (m, p), each row for all rows of S, or (m, k p), each part for its row. Y must be canonical in
        a field, is canonical afterwards, and must not overlap X. Doubles are passed as the words that they are.
        """
        cdef int status = SKETCH_DONE
        cdef int64_t count = X.shape[0], width = Y.shape[1]
        cdef bint shared = X.shape[1] == width
        cdef sketch_kind how = _KINDS[kind]
        if Y.shape[0] != self._matrix.rows or not (shared or X.shape[1] == width * self._matrix.rows):
            raise ValueError("X and Y: shapes that belong together expected")
        if count and width:
            with nogil:
                status = dense_apply(chosen, &self._matrix, how, first, count, width, shared, &X[0, 0], &Y[0, 0])
        if status == SKETCH_NO_MEMORY:
            raise MemoryError
        return status != SKETCH_NOT_CANONICAL
