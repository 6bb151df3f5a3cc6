/* Rows in the units of their columns: clipped to public bounds, mapped to [-1, 1], encoded as integers. */
#ifndef DPMPC_ARITHMETIC_ROWS_H
#define DPMPC_ARITHMETIC_ROWS_H

#include "arithmetic_fixed.h"

/* The public bounds of `period` consecutive elements, which repeat. A value outside [least, most] is refused. */
typedef struct {
  const double *offset, *slope, *least, *most;
  size_t period;
} Bounds;

/* z = clip((x - offset) / slope, -1, 1). An infinite difference or quotient is clipped like any other. */
static inline double to_unit(double x, double offset, double slope) {
  double z = (x - offset) / slope;
  z = z < 1.0 ? z : 1.0;
  return z > -1.0 ? z : -1.0;
}

/* Returns non-zero if some x is not finite or is refused. `least` and `most` may be infinite, and a NaN is not finite. */
CLONES static int normalise_rows(const double *x, size_t n, const Bounds *bounds, double *z) {
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

/* q = round(scale z), half to even, for the z of `normalise_rows`: `encode_box` with bounds -1 and 1, in one pass. `scale`
   is a power of two of at most 2^50, so that |scale z| is exact and needs no clipping. */
CLONES static int encode_rows(const double *x, size_t n, const Bounds *bounds, double scale, int64_t *q) {
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

/* The upper triangle of (1, z)(1, z)^T without its corner, entries off the diagonal times `weight`; `columns` <= width. */
static void second_moments(const double *z, size_t rows, size_t columns, double weight, double *out) {
  for (size_t i = 0; i < rows; i++, z += columns) {
    for (size_t j = 0; j < columns; j++) *out++ = z[j] * weight;
    for (size_t j = 0; j < columns; j++) {
      *out++ = z[j] * z[j];
      for (size_t k = j + 1; k < columns; k++) *out++ = z[j] * z[k] * weight;
    }
  }
}

/* The next two work on `chunk` rows at a time, so that what is in between stays in `scratch`, in the first-level cache. */

/* `encode_ball` of what `normalise_rows` makes of the rows; returns what that returns. `scratch` holds `chunk` rows. */
static int encode_ball_rows(const double *x, size_t rows, size_t columns, const Bounds *bounds, double scale,
                            int64_t radius, double *scratch, size_t chunk, int64_t *q) {
  int refused = 0;
  for (size_t i = 0; i < rows; i += chunk) {
    const size_t count = rows - i < chunk ? rows - i : chunk;
    refused |= normalise_rows(x + i * columns, count * columns, bounds, scratch);
    encode_ball(scratch, count, columns, scale, radius, q + i * columns);
  }
  return refused;
}

/* `encode_box`, from -limit to limit, of the `second_moments` of what `normalise_rows` makes of the rows; returns what that
   returns. `scratch` holds `chunk` rows of `columns`, then of `width` entries; `lower` and `upper` hold a chunk, too. */
static int encode_moment_rows(const double *x, size_t rows, size_t columns, const Bounds *bounds, double scale,
                              double weight, const double *lower, const double *upper, size_t width, double *scratch,
                              size_t chunk, int64_t *q) {
  double *moments = scratch + chunk * columns;
  int refused = 0;
  for (size_t i = 0; i < rows; i += chunk) {
    const size_t count = rows - i < chunk ? rows - i : chunk;
    refused |= normalise_rows(x + i * columns, count * columns, bounds, scratch);
    second_moments(scratch, count, columns, weight, moments);
    encode_box(moments, count * width, scale, lower, upper, chunk * width, q + i * width);
  }
  return refused;
}

#endif
