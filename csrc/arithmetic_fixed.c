/* Fixed-point encoding: real numbers to integers, never outside the integer box or ball that was asked for. */

#include <math.h>
#include <string.h>

#include "instruction_set.h"
#include "kernels.h"

static inline uint64_t bits_of(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

/* 1 for an infinity or a NaN: their exponent is all ones, so one more unit of exponent carries into the sign bit. */
static inline uint64_t not_finite(double v)
{
    return ((bits_of(v) & UINT64_C(0x7ff0000000000000)) + UINT64_C(0x0010000000000000)) >> 63;
}

/* q = clip(round(scale z), lower, upper), round half to even. `lower` and `upper` hold integers of at most 2^51 in
   absolute value for `period` consecutive elements, and repeat.

   Rounding is monotone and leaves integers alone, so clipping to integers may come first: then |v| <= 2^51, and
   adding 1.5 * 2^52, where doubles are 1 apart, makes the processor round v to the nearest even integer, which is
   the difference of the two bit patterns. Returns non-zero if some z is not finite. */
static int encode_box(const double *z, size_t n, double scale, const double *lower, const double *upper, size_t period,
                      int64_t *q)
{
    const double anchor = 6755399441055744.0;
    const uint64_t anchor_bits = bits_of(anchor);
    uint64_t refused = 0;
    for (size_t start = 0; start < n; start += period) {
        const size_t count = n - start < period ? n - start : period;
        for (size_t j = 0; j < count; j++) {
            double v = z[start + j] * scale;
            refused |= not_finite(z[start + j]);
            v = v < upper[j] ? v : upper[j];
            v = v > lower[j] ? v : lower[j];
            q[start + j] = (int64_t)(bits_of(v + anchor) - anchor_bits);
        }
    }
    return refused != 0;
}

/* Move integer coordinates toward zero until ||q||_2 <= radius, exactly. |q_j| <= 2^52: the sum fits in 128 bits. */
static void pull_into_ball(int64_t *q, size_t columns, int64_t radius)
{
    const unsigned __int128 limit = (unsigned __int128)radius * radius;
    for (;;) {
        unsigned __int128 squares = 0;
        for (size_t j = 0; j < columns; j++)
            squares += (unsigned __int128)((__int128)q[j] * q[j]);
        if (squares <= limit)
            return;
        for (size_t j = 0; j < columns; j++)
            q[j] -= (q[j] > 0) - (q[j] < 0);
    }
}

/* Whether the norm is so far below the radius that rounding cannot matter: the sum errs by 2^-53 for each column, and
   rows of 2^20 columns stay below the margin. */
static int surely_in_ball(const int64_t *q, size_t columns, int64_t radius)
{
    double squares = 0;
    for (size_t j = 0; j < columns; j++)
        squares += (double)q[j] * (double)q[j];
    return squares < (double)radius * (double)radius * (1 - 0x1p-30);
}

/* Each row of `columns` reals: scale to integer units, pull onto the ball of `radius` <= 2^51 if outside, truncate
   toward zero. Truncation only shortens a vector; what floating point adds is removed by `pull_into_ball`. Norms of
   rows whose squares might leave the range of doubles are taken relative to the largest coordinate, so that no finite
   input overflows. Returns non-zero if some z is not finite. */
static int encode_ball(const double *z, size_t rows, size_t columns, double scale, int64_t radius, int64_t *q)
{
    const uint64_t smallest = bits_of(0x1p-400), largest = bits_of(0x1p400), infinite = bits_of(INFINITY);
    int refused = 0;
    for (size_t i = 0; i < rows; i++, z += columns, q += columns) {
        uint64_t peak_bits = 0; /* without their signs, doubles are in the order of their bits */
        for (size_t j = 0; j < columns; j++) {
            const uint64_t bits = bits_of(z[j]) & (UINT64_MAX >> 1);
            peak_bits = bits > peak_bits ? bits : peak_bits;
        }
        if (peak_bits >= infinite || peak_bits == 0) {
            refused |= peak_bits != 0;
            memset(q, 0, columns * sizeof *q);
            continue;
        }
        double peak = 1, squares = 0;
        if (peak_bits >= smallest && peak_bits <= largest) {
            for (size_t j = 0; j < columns; j++)
                squares += z[j] * z[j];
        } else {
            memcpy(&peak, &peak_bits, sizeof peak);
            for (size_t j = 0; j < columns; j++)
                squares += (z[j] / peak) * (z[j] / peak);
        }
        const double reach = (double)radius / sqrt(squares);
        if (!(peak * scale > reach))
            for (size_t j = 0; j < columns; j++)
                q[j] = (int64_t)(z[j] * scale);
        else if (peak == 1)
            for (size_t j = 0; j < columns; j++)
                q[j] = (int64_t)(z[j] * reach);
        else
            for (size_t j = 0; j < columns; j++)
                q[j] = (int64_t)(z[j] / peak * reach);
        if (!surely_in_ball(q, columns, radius))
            pull_into_ball(q, columns, radius);
    }
    return refused;
}

/* ---- rows in the units of their columns: clipped to public bounds, mapped to [-1, 1] ---- */

/* z = clip((x - offset) / slope, -1, 1). An infinite difference or quotient is clipped like any other. */
static inline double to_unit(double x, double offset, double slope)
{
    double z = (x - offset) / slope;
    z = z < 1.0 ? z : 1.0;
    return z > -1.0 ? z : -1.0;
}

/* Returns non-zero if some x is not finite or is refused. `least` and `most` may be infinite, and a NaN is not finite.
 */
static int normalise_rows(const double *x, size_t n, const struct row_bounds *bounds, double *z)
{
    const double *offset = bounds->offset, *slope = bounds->slope, *least = bounds->least, *most = bounds->most;
    uint64_t refused = 0;
    for (size_t start = 0; start < n; start += bounds->period) {
        const size_t count = n - start < bounds->period ? n - start : bounds->period;
        for (size_t j = 0; j < count; j++) {
            const double v = x[start + j];
            refused |= not_finite(v) | (uint64_t)(v < least[j]) | (uint64_t)(v > most[j]);
            z[start + j] = to_unit(v, offset[j], slope[j]);
        }
    }
    return refused != 0;
}

/* q = round(scale z), half to even, for the z of `normalise_rows`: `encode_box` with bounds -1 and 1, in one pass.
   `scale` is a power of two of at most 2^50, so that |scale z| is exact and needs no clipping. */
static int encode_rows(const double *x, size_t n, const struct row_bounds *bounds, double scale, int64_t *q)
{
    const double anchor = 6755399441055744.0;
    const uint64_t anchor_bits = bits_of(anchor);
    const double *offset = bounds->offset, *slope = bounds->slope, *least = bounds->least, *most = bounds->most;
    uint64_t refused = 0;
    for (size_t start = 0; start < n; start += bounds->period) {
        const size_t count = n - start < bounds->period ? n - start : bounds->period;
        for (size_t j = 0; j < count; j++) {
            const double v = x[start + j];
            refused |= not_finite(v) | (uint64_t)(v < least[j]) | (uint64_t)(v > most[j]);
            q[start + j] = (int64_t)(bits_of(to_unit(v, offset[j], slope[j]) * scale + anchor) - anchor_bits);
        }
    }
    return refused != 0;
}

/* The upper triangle of (1, z)(1, z)^T without its corner, entries off the diagonal times `weight`; `columns` <= width.
 */
static void second_moments(const double *z, size_t rows, size_t columns, double weight, double *out)
{
    for (size_t i = 0; i < rows; i++, z += columns) {
        for (size_t j = 0; j < columns; j++)
            *out++ = z[j] * weight;
        for (size_t j = 0; j < columns; j++) {
            *out++ = z[j] * z[j];
            for (size_t k = j + 1; k < columns; k++)
                *out++ = z[j] * z[k] * weight;
        }
    }
}

const struct fixed_kernel EXPORT(fixed) = {encode_box, encode_ball, normalise_rows, encode_rows, second_moments};
