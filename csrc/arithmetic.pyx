"""Elementwise kernels of `dpmpc.linear.encoding`: arithmetic modulo 2^61 - 1 and fixed-point encoding.

Flat contiguous buffers in, flat contiguous buffers out, the GIL released. Lengths are checked by the caller.
"""

from libc.stdint cimport int64_t, uint64_t


from dpmpc._kernels.dispatch cimport chosen, fixed_kernel, row_bounds
from dpmpc._kernels.dispatch import instruction_set, instruction_sets, use_instruction_set


cdef extern from "arithmetic_rows.h" nogil:
    bint c_encode_ball_rows "encode_ball_rows"(
        const fixed_kernel *fixed, const double *x, size_t rows, size_t columns, const row_bounds *bounds, double scale,
        int64_t radius, double *scratch, size_t chunk, int64_t *q)
    bint c_encode_moment_rows "encode_moment_rows"(
        const fixed_kernel *fixed, const double *x, size_t rows, size_t columns, const row_bounds *bounds, double scale,
        double weight, const double *lower, const double *upper, size_t width, double *scratch, size_t chunk,
        int64_t *q)


def any_not_canonical(const uint64_t[::1] a):
    """Whether some element is not below p = 2^61 - 1."""
    cdef bint found
    with nogil:
        found = chosen.field.any_not_canonical(&a[0], a.shape[0])
    return found


def add(const uint64_t[::1] a, const uint64_t[::1] b, uint64_t[::1] out):
    """out = a + b mod p; `out` may be `a` or `b`, here and below."""
    with nogil:
        chosen.field.add(&a[0], &b[0], &out[0], out.shape[0])


def subtract(const uint64_t[::1] a, const uint64_t[::1] b, uint64_t[::1] out):
    """out = a - b mod p."""
    with nogil:
        chosen.field.subtract(&a[0], &b[0], &out[0], out.shape[0])


def subtract_two(const uint64_t[::1] x, const uint64_t[::1] a, const uint64_t[::1] b, uint64_t[::1] out):
    """out = x - a - b mod p."""
    with nogil:
        chosen.field.subtract_two(&x[0], &a[0], &b[0], &out[0], out.shape[0])


def ring_subtract_two(const uint64_t[::1] x, const uint64_t[::1] a, const uint64_t[::1] b, uint64_t[::1] out):
    """out = x - a - b mod 2^64."""
    with nogil:
        chosen.field.ring_subtract_two(&x[0], &a[0], &b[0], &out[0], out.shape[0])


def multiply(const uint64_t[::1] a, const uint64_t[::1] b, uint64_t[::1] out):
    """out = a b mod p."""
    with nogil:
        chosen.field.multiply(&a[0], &b[0], &out[0], out.shape[0])


def multiply_add(const uint64_t[::1] a, uint64_t factor, const uint64_t[::1] b, uint64_t[::1] out):
    """out = factor a + b mod p."""
    with nogil:
        chosen.field.multiply_add(&a[0], factor, &b[0], &out[0], out.shape[0])


def embed(const int64_t[::1] values, uint64_t[::1] out):
    """out = values mod p; returns whether some value is beyond (p - 1)/2 and so cannot be lifted again."""
    cdef bint beyond
    with nogil:
        beyond = chosen.field.embed(&values[0], &out[0], out.shape[0])
    return beyond


def lift(const uint64_t[::1] a, int64_t[::1] out):
    """out = the representative of a in [-(p - 1)/2, (p - 1)/2]."""
    with nogil:
        chosen.field.lift(&a[0], &out[0], out.shape[0])


def mask(uint64_t[::1] words):
    """Keep the low 61 bits, in place; returns whether some word became p, which is to be redrawn."""
    cdef bint redraw
    with nogil:
        redraw = chosen.field.mask(&words[0], words.shape[0])
    return redraw


def encode_box(const double[::1] z, double scale, const double[::1] lower, const double[::1] upper, int64_t[::1] out):
    """out = clip(round(scale z), lower, upper), the bounds repeating along z; returns whether some z is not finite."""
    cdef bint refused
    with nogil:
        refused = chosen.fixed.encode_box(&z[0], z.shape[0], scale, &lower[0], &upper[0], lower.shape[0], &out[0])
    return refused


def encode_ball(const double[:, ::1] z, double scale, int64_t radius, int64_t[:, ::1] out):
    """Rows of z to integers of Euclidean norm at most `radius`; returns whether some z is not finite."""
    cdef bint refused
    with nogil:
        refused = chosen.fixed.encode_ball(&z[0, 0], z.shape[0], z.shape[1], scale, radius, &out[0, 0])
    return refused


cdef row_bounds bounds_of(const double[:, ::1] bounds):
    return row_bounds(&bounds[0, 0], &bounds[1, 0], &bounds[2, 0], &bounds[3, 0], bounds.shape[1])


def normalise_rows(const double[::1] x, const double[:, ::1] bounds, double[::1] out):
    """out = clip((x - offset) / slope, -1, 1), the columns of `bounds` (offset, slope, least, most) repeating along x.

    Returns whether some x is not finite or lies outside [least, most].
    """
    cdef row_bounds public = bounds_of(bounds)
    cdef bint refused
    with nogil:
        refused = chosen.fixed.normalise_rows(&x[0], x.shape[0], &public, &out[0])
    return refused


def encode_rows(const double[::1] x, const double[:, ::1] bounds, double scale, int64_t[::1] out):
    """out = round(scale z) for the z of `normalise_rows`, half to even; returns what that returns."""
    cdef row_bounds public = bounds_of(bounds)
    cdef bint refused
    with nogil:
        refused = chosen.fixed.encode_rows(&x[0], x.shape[0], &public, scale, &out[0])
    return refused


def second_moments(const double[:, ::1] z, double weight, double[:, ::1] out):
    """Rows of the upper triangle of (1, z)(1, z)^T without its corner, entries off the diagonal times `weight`."""
    with nogil:
        chosen.fixed.second_moments(&z[0, 0], z.shape[0], z.shape[1], weight, &out[0, 0])


def encode_ball_rows(
    const double[:, ::1] x,
    const double[:, ::1] bounds,
    double scale,
    int64_t radius,
    double[:, ::1] scratch,
    int64_t[:, ::1] out,
):
    """Apply `encode_ball` to rows of `normalise_rows`, as many at a time as `scratch` has; returns what that returns."""
    cdef row_bounds public = bounds_of(bounds)
    cdef bint refused
    with nogil:
        refused = c_encode_ball_rows(
            chosen.fixed, &x[0, 0], x.shape[0], x.shape[1], &public, scale, radius, &scratch[0, 0], scratch.shape[0],
            &out[0, 0]
        )
    return refused


def encode_moment_rows(
    const double[:, ::1] x,
    const double[:, ::1] bounds,
    double scale,
    double weight,
    const double[::1] lower,
    const double[::1] upper,
    double[:, ::1] scratch,
    int64_t[:, ::1] out,
):
    """Apply `encode_box` to `second_moments` of rows of `normalise_rows`; returns what that returns.

    `scratch` has as many rows as are encoded at a time, each of x.shape[1] + out.shape[1] entries; `lower` and `upper`
    have one entry for each of out's in so many rows.
    """
    cdef row_bounds public = bounds_of(bounds)
    cdef bint refused
    with nogil:
        refused = c_encode_moment_rows(
            chosen.fixed, &x[0, 0], x.shape[0], x.shape[1], &public, scale, weight, &lower[0], &upper[0], out.shape[1],
            &scratch[0, 0], scratch.shape[0], &out[0, 0]
        )
    return refused
