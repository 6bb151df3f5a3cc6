/* Encoding rows by two kernels in turn, with those of one instruction set: what Cython calls. */
#ifndef DPMPC_ARITHMETIC_ROWS_H
#define DPMPC_ARITHMETIC_ROWS_H

#include "kernels.h"

/* `encode_ball` of what `normalise_rows` makes of the rows; returns what that returns. `scratch` holds `chunk` rows. */
int encode_ball_rows(const struct fixed_kernel *fixed, const double *x, size_t rows, size_t columns,
                     const struct row_bounds *bounds, double scale, int64_t radius, double *scratch, size_t chunk,
                     int64_t *q);

/* `encode_box`, from `lower` to `upper`, of the `second_moments` of what `normalise_rows` makes of the rows; returns
 * what that returns. `scratch` holds `chunk` rows of `columns`, then of `width` entries; `lower` and `upper` hold a
 * chunk, too. */
int encode_moment_rows(const struct fixed_kernel *fixed, const double *x, size_t rows, size_t columns,
                       const struct row_bounds *bounds, double scale, double weight, const double *lower,
                       const double *upper, size_t width, double *scratch, size_t chunk, int64_t *q);

#endif
