/* Digests of what the kernels compute in floating point, and which bodies were compiled: see test_packaging.py. */
#include <stdio.h>

#include "arithmetic_rows.h"
#include "bodies.h"

#define ROWS 4000
#define COLUMNS 10
#define MOMENTS (COLUMNS + COLUMNS * (COLUMNS + 1) / 2)

static uint64_t state = 88172645463325252u;
static double z[ROWS * COLUMNS], moments[ROWS * MOMENTS];
static int64_t q[ROWS * COLUMNS];

/* Uniform on [-1, 1): xorshift. */
static double uniform(void) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (double)(state >> 11) * 0x1p-52 - 1;
}

/* FNV-1a. */
static void tell(const char *name, const void *buffer, size_t bytes) {
  uint64_t digest = 14695981039346656037u;
  for (size_t i = 0; i < bytes; i++) digest = (digest ^ ((const unsigned char *)buffer)[i]) * 1099511628211u;
  printf("%s %016llx\n", name, (unsigned long long)digest);
}

int main(void) {
  double offset[COLUMNS], slope[COLUMNS], least[COLUMNS], most[COLUMNS];
  const Bounds bounds = {offset, slope, least, most, COLUMNS};
  for (int i = 0; i < ROWS * COLUMNS; i++) z[i] = 0.6 * uniform();
  for (int j = 0; j < COLUMNS; j++) offset[j] = uniform(), slope[j] = 1.1 + uniform(), least[j] = -9, most[j] = 9;
  encode_ball(z, ROWS, COLUMNS, 0x1p42, INT64_C(1) << 42, q);
  tell("ball", q, sizeof q);
  encode_rows(z, ROWS * COLUMNS, &bounds, 0x1p40, q);
  tell("rows", q, sizeof q);
  second_moments(z, ROWS, COLUMNS, 0.7, moments);
  tell("moments", moments, sizeof moments);
#ifdef SKETCH_WIDE_BODIES
  const char *bodies = "wide";
#else
  const char *bodies = "portable";
#endif
  fprintf(stderr, "%s %s\n", clones_name(), bodies);
  return 0;
}
