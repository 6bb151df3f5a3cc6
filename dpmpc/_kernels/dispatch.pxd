"""The table of csrc/kernels.h, and the row of it that the process uses."""

from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef extern from "kernels.h" nogil:
    struct row_bounds:
        const double *offset
        const double *slope
        const double *least
        const double *most
        size_t period

    struct field_kernel:
        bint (*any_not_canonical)(const uint64_t *a, size_t n) noexcept nogil
        void (*add)(const uint64_t *a, const uint64_t *b, uint64_t *out, size_t n) noexcept nogil
        void (*subtract)(const uint64_t *a, const uint64_t *b, uint64_t *out, size_t n) noexcept nogil
        void (*subtract_two)(const uint64_t *x, const uint64_t *a, const uint64_t *b, uint64_t *out,
                             size_t n) noexcept nogil
        void (*multiply)(const uint64_t *a, const uint64_t *b, uint64_t *out, size_t n) noexcept nogil
        void (*multiply_add)(const uint64_t *a, uint64_t factor, const uint64_t *b, uint64_t *out,
                             size_t n) noexcept nogil
        bint (*embed)(const int64_t *values, uint64_t *out, size_t n) noexcept nogil
        void (*lift)(const uint64_t *a, int64_t *out, size_t n) noexcept nogil
        bint (*mask)(uint64_t *words, size_t n) noexcept nogil
        void (*ring_subtract_two)(const uint64_t *x, const uint64_t *a, const uint64_t *b, uint64_t *out,
                                  size_t n) noexcept nogil

    struct fixed_kernel:
        bint (*encode_box)(const double *z, size_t n, double scale, const double *lower, const double *upper,
                           size_t period, int64_t *q) noexcept nogil
        bint (*encode_ball)(const double *z, size_t rows, size_t columns, double scale, int64_t radius,
                            int64_t *q) noexcept nogil
        bint (*normalise_rows)(const double *x, size_t n, const row_bounds *bounds, double *z) noexcept nogil
        bint (*encode_rows)(const double *x, size_t n, const row_bounds *bounds, double scale,
                            int64_t *q) noexcept nogil
        void (*second_moments)(const double *z, size_t rows, size_t columns, double weight, double *out) noexcept nogil

    enum proof_squares:
        pass

    struct proof_circuit:
        proof_squares squares
        size_t columns
        size_t column_digits
        size_t digits
        size_t products
        size_t rows
        uint64_t low
        const uint64_t *weights
        const uint64_t *matrix
        size_t terms
        const uint64_t *places
        const uint64_t *factors
        uint64_t constant

    struct proof_point:
        const uint64_t *wires
        const uint64_t *outputs
        const uint64_t *quotient
        uint64_t kappa[3]

    struct proof_tables:
        const uint64_t *wires
        const uint64_t *outputs
        const uint64_t *inverses

    struct proof_kernel:
        void (*columns)(const proof_circuit *C, uint64_t one, size_t count, size_t words, const uint64_t *x,
                        uint64_t *z, uint64_t *scratch) noexcept nogil
        void (*prove)(const proof_circuit *C, const proof_tables *tables, size_t count, const uint64_t *x,
                      const uint64_t *joint, const uint64_t *blinds, uint64_t *proof,
                      uint64_t *scratch) noexcept nogil
        void (*query)(const proof_circuit *C, const proof_point *point, uint64_t one, size_t count,
                      const uint64_t *records, const uint64_t *joint, uint64_t *messages,
                      uint64_t *scratch) noexcept nogil
        void (*decide)(const proof_circuit *C, const uint64_t *kappa, size_t count, const uint64_t *opened,
                       const uint64_t *joint, uint8_t *accepted) noexcept nogil

    struct hash_kernel:
        void (*sha256)(const uint8_t *head, size_t head_bytes, const uint8_t *rows, size_t count, size_t row_bytes,
                       uint8_t *digests) noexcept nogil

    struct keys_kernel:
        void (*fill)(const uint8_t *keys, size_t count, int length, size_t words, uint8_t *out) noexcept nogil

    const keys_kernel *keys_here()

    struct kernels:
        const char *name
        const field_kernel *field
        const fixed_kernel *fixed
        const proof_kernel *proof
        const hash_kernel *hash


cdef const kernels *chosen
