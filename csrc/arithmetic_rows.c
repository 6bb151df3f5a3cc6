/* Rows clipped, mapped and encoded `chunk` at a time, so that what is in between stays in `scratch`, in the first-level
 * cache. */

#include "arithmetic_rows.h"

/* `encode_ball` of what `normalise_rows` makes of the rows; returns what that returns. `scratch` holds `chunk` rows. */
int encode_ball_rows(const struct fixed_kernel *fixed, const double *x, size_t rows, size_t columns,
                     const struct row_bounds *bounds, double scale, int64_t radius, double *scratch, size_t chunk,
                     int64_t *q)
{
    int refused = 0;
    for (size_t i = 0; i < rows; i += chunk) {
        const size_t count = rows - i < chunk ? rows - i : chunk;
        refused |= fixed->normalise_rows(x + i * columns, count * columns, bounds, scratch);
        fixed->encode_ball(scratch, count, columns, scale, radius, q + i * columns);
    }
    return refused;
}

/* `encode_box`, from -limit to limit, of the `second_moments` of what `normalise_rows` makes of the rows; returns what
   that returns. `scratch` holds `chunk` rows of `columns`, then of `width` entries; `lower` and `upper` hold a chunk,
   too. */
int encode_moment_rows(const struct fixed_kernel *fixed, const double *x, size_t rows, size_t columns,
                       const struct row_bounds *bounds, double scale, double weight, const double *lower,
                       const double *upper, size_t width, double *scratch, size_t chunk, int64_t *q)
{
    double *moments = scratch + chunk * columns;
    int refused = 0;
    for (size_t i = 0; i < rows; i += chunk) {
        const size_t count = rows - i < chunk ? rows - i : chunk;
        refused |= fixed->normalise_rows(x + i * columns, count * columns, bounds, scratch);
        fixed->second_moments(scratch, count, columns, weight, moments);
        fixed->encode_box(moments, count * width, scale, lower, upper, chunk * width, q + i * width);
    }
    return refused;
}
