"""The table of csrc/kernels.h, and the row of it that the process uses."""

from libc.stdint cimport int64_t, uint64_t


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

    struct kernels:
        const char *name
        const field_kernel *field
        const fixed_kernel *fixed


cdef const kernels *chosen
