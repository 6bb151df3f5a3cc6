/* Elementwise arithmetic in the ring Z_2^64 that takes fewer passes than NumPy's. */
#ifndef DPMPC_ARITHMETIC_RING_H
#define DPMPC_ARITHMETIC_RING_H

#include <stddef.h>
#include <stdint.h>

#include "arithmetic_clones.h"

/* `out` may be an operand. */
CLONES static void ring_subtract_two(const uint64_t *x, const uint64_t *a, const uint64_t *b, uint64_t *out, size_t n) {
  for (size_t i = 0; i < n; i++) out[i] = x[i] - a[i] - b[i];
}

#endif
