"""Kernel of `dpmpc.linear.proving`: fully linear proofs over Z_p, p = 2^61 - 1, for a block of reports at a time.

Buffers in, buffers out, the GIL released. What a caller could get wrong about lengths is checked here, because a wrong
length would write outside of memory. That all words are below p is checked by `dpmpc.linear.proving`: lazily reduced sums
overflow otherwise.
"""

import numpy as _np

from libc.stdint cimport uint8_t, uint64_t


from dpmpc._kernels.dispatch cimport chosen, proof_circuit, proof_kernel, proof_point, proof_tables


cdef extern from "kernels.h" nogil:
    enum proof_squares:
        PROOF_NO_SQUARES
        PROOF_SQUARED_COLUMNS
        PROOF_PRODUCTS

    size_t proof_wires(const proof_circuit *C)
    size_t proof_words(const proof_circuit *C)
    size_t proof_joint_words(const proof_circuit *C)
    size_t proof_scratch_words(const proof_circuit *C)


_SQUARES = {"none": PROOF_NO_SQUARES, "columns": PROOF_SQUARED_COLUMNS, "products": PROOF_PRODUCTS}


cdef class Proofs:
    """Proofs of one circuit (theorem proof-soundness): see `proof_circuit` in csrc/kernels.h for the arguments.

    `matrix` is empty where there is none. `tables` are the weights at the 3N + 1 points of the quotient, and 1 / Z
    there: three arrays of 3N + 1 rows.
    """

    cdef proof_circuit _circuit
    cdef proof_tables _tables
    cdef object _held  # the memory that both point to

    def __cinit__(
        self,
        str squares,
        size_t columns,
        size_t digits,
        size_t products,
        size_t rows,
        uint64_t low,
        const uint64_t[::1] weights not None,
        const uint64_t[:, ::1] matrix not None,
        const uint64_t[::1] places not None,
        const uint64_t[::1] factors not None,
        uint64_t constant,
        const uint64_t[:, ::1] wires not None,
        const uint64_t[:, ::1] outputs not None,
        const uint64_t[::1] inverses not None,
    ):
        cdef size_t points = 3 * rows + 1, needed = 0
        cdef proof_squares kind = _SQUARES[squares]
        if kind == PROOF_SQUARED_COLUMNS:
            needed = columns
        elif kind == PROOF_PRODUCTS:
            needed = columns * (columns + 1) // 2
        if rows < 1 or digits < columns * <size_t>weights.shape[0] or products != needed:
            raise ValueError("rows, digits, products: a row, the digits of all columns and their products expected")
        if matrix.shape[0] and (<size_t>matrix.shape[0] != columns or <size_t>matrix.shape[1] != columns):
            raise ValueError("matrix: none, or a row and a column for each column expected")
        if places.shape[0] != factors.shape[0] or any(place >= digits + products for place in places):
            raise ValueError("places, factors: words of the witness expected, each with its factor")
        if (
            <size_t>wires.shape[0] != points or <size_t>wires.shape[1] != rows + 1
            or <size_t>outputs.shape[0] != points or <size_t>outputs.shape[1] != rows
            or <size_t>inverses.shape[0] != points
        ):
            raise ValueError("wires, outputs, inverses: weights at 3 N + 1 points expected")
        self._held = (weights, matrix, places, factors, wires, outputs, inverses)
        self._circuit.squares = kind
        self._circuit.columns, self._circuit.column_digits = columns, weights.shape[0]
        self._circuit.digits, self._circuit.products, self._circuit.rows = digits, products, rows
        self._circuit.low, self._circuit.constant = low, constant
        self._circuit.weights = &weights[0] if weights.shape[0] else NULL
        self._circuit.matrix = &matrix[0, 0] if matrix.shape[0] else NULL
        self._circuit.terms = places.shape[0]
        self._circuit.places = &places[0] if places.shape[0] else NULL
        self._circuit.factors = &factors[0] if factors.shape[0] else NULL
        self._tables.wires, self._tables.outputs = &wires[0, 0], &outputs[0, 0]
        self._tables.inverses = &inverses[0]

    def columns(self, uint64_t one, const uint64_t[:, ::1] x, uint64_t[:, ::1] out):
        """Overwrite `out`, (n, d), with z or z M of witnesses or whole records; `one` is the share of 1."""
        cdef uint64_t[::1] scratch = self._scratch()
        self._require(x.shape[1] >= <Py_ssize_t>self._circuit.digits, "x")
        self._require(out.shape[0] == x.shape[0] and out.shape[1] == <Py_ssize_t>self._circuit.columns, "out")
        if out.shape[0] and out.shape[1]:
            with nogil:
                chosen.proof.columns(&self._circuit, one, x.shape[0], x.shape[1], &x[0, 0], &out[0, 0], &scratch[0])

    def prove(
        self,
        const uint64_t[:, ::1] x,
        const uint64_t[:, ::1] joint,
        const uint64_t[:, ::1] blinds,
        uint64_t[:, ::1] out,
    ):
        """Overwrite `out` with the proofs, blinds and quotients, of witnesses `x`."""
        cdef uint64_t[::1] scratch = self._scratch()
        cdef Py_ssize_t count = x.shape[0], witness = self._circuit.digits + self._circuit.products
        cdef Py_ssize_t proof = proof_words(&self._circuit) - witness
        self._require(x.shape[1] == witness, "x")
        self._require_joint(joint, count)
        self._require(blinds.shape[0] == count and blinds.shape[1] == <Py_ssize_t>proof_wires(&self._circuit), "blinds")
        self._require(out.shape[0] == count and out.shape[1] == proof, "out")
        if count:
            with nogil:
                chosen.proof.prove(
                    &self._circuit, &self._tables, count, &x[0, 0], &joint[0, 0], &blinds[0, 0], &out[0, 0], &scratch[0]
                )

    def query(
        self,
        const uint64_t[::1] wires,
        const uint64_t[::1] outputs,
        const uint64_t[::1] quotient,
        const uint64_t[::1] kappa,
        uint64_t one,
        const uint64_t[:, ::1] records,
        const uint64_t[:, ::1] joint,
        uint64_t[:, ::1] out,
    ):
        """Overwrite `out`, (n, c + 1), with one server's messages at a point; `one` is its share of 1."""
        cdef uint64_t[::1] scratch = self._scratch()
        cdef Py_ssize_t count = records.shape[0], rows = self._circuit.rows
        cdef proof_point point
        self._require(wires.shape[0] == rows + 1, "wires")
        self._require(outputs.shape[0] == rows, "outputs")
        self._require(quotient.shape[0] == 3 * rows + 1, "quotient")
        self._require(kappa.shape[0] == 3, "kappa")
        self._require(records.shape[1] == <Py_ssize_t>proof_words(&self._circuit), "records")
        self._require_joint(joint, count)
        self._require(out.shape[0] == count, "out")
        self._require(out.shape[1] == <Py_ssize_t>proof_wires(&self._circuit) + 1, "out")
        point.wires, point.outputs, point.quotient = &wires[0], &outputs[0], &quotient[0]
        point.kappa[0], point.kappa[1], point.kappa[2] = kappa[0], kappa[1], kappa[2]
        if count:
            with nogil:
                chosen.proof.query(
                    &self._circuit, &point, one, count, &records[0, 0], &joint[0, 0], &out[0, 0], &scratch[0]
                )

    def decide(
        self,
        const uint64_t[::1] kappa,
        const uint64_t[:, ::1] opened,
        const uint64_t[:, ::1] joint,
        uint8_t[::1] out,
    ):
        """Overwrite `out` with 1 for each opened message of a well-formed report, 0 for others."""
        cdef Py_ssize_t count = opened.shape[0]
        self._require(kappa.shape[0] == 3, "kappa")
        self._require(opened.shape[1] == <Py_ssize_t>proof_wires(&self._circuit) + 1, "opened")
        self._require_joint(joint, count)
        self._require(out.shape[0] == count, "out")
        if count:
            with nogil:
                chosen.proof.decide(&self._circuit, &kappa[0], count, &opened[0, 0], &joint[0, 0], &out[0])

    cdef uint64_t[::1] _scratch(self):
        return _np.empty(proof_scratch_words(&self._circuit) + 1, _np.uint64)

    cdef int _require_joint(self, const uint64_t[:, ::1] joint, Py_ssize_t count) except -1:
        self._require(joint.shape[0] == count and joint.shape[1] == <Py_ssize_t>proof_joint_words(&self._circuit), "joint")
        return 0

    cdef int _require(self, bint fits, str name) except -1:
        if not fits:
            raise ValueError(f"{name}: a shape that belongs to the circuit and the other arrays expected")
        return 0
