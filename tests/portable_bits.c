/* Digests of what the kernels compute in floating point, and of sums of doubles by public matrices, for each
 * instruction set of this build that the processor can run: see test_packaging.py. */
#include <stdio.h>
#include <string.h>

#include "apply.h"

#define ROWS 4000
#define COLUMNS 10
#define MOMENTS (COLUMNS + COLUMNS * (COLUMNS + 1) / 2)
#define WIDE 29 /* columns of X in sketches: more than the straight-line code knows */
#define SKETCH_ROWS 50

static uint64_t state;
static double z[ROWS * COLUMNS], moments[ROWS * MOMENTS], Y[SKETCH_ROWS * WIDE];
static int64_t q[ROWS * COLUMNS];

/* Uniform on [-1, 1): xorshift. */
static double uniform(void)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (double)(state >> 11) * 0x1p-52 - 1;
}

/* FNV-1a. */
static void tell(const char *set, const char *name, const void *buffer, size_t bytes)
{
    uint64_t digest = 14695981039346656037u;
    for (size_t i = 0; i < bytes; i++)
        digest = (digest ^ ((const unsigned char *)buffer)[i]) * 1099511628211u;
    printf("%s %s %016llx\n", set, name, (unsigned long long)digest);
}

static void tell_real(const char *set, const struct fixed_kernel *fixed)
{
    double offset[COLUMNS], slope[COLUMNS], least[COLUMNS], most[COLUMNS];
    const struct row_bounds bounds = {offset, slope, least, most, COLUMNS};
    for (int j = 0; j < COLUMNS; j++)
        offset[j] = uniform(), slope[j] = 1.1 + uniform(), least[j] = -9, most[j] = 9;
    fixed->encode_ball(z, ROWS, COLUMNS, 0x1p42, INT64_C(1) << 42, q);
    tell(set, "ball", q, sizeof q);
    fixed->encode_rows(z, ROWS * COLUMNS, &bounds, 0x1p40, q);
    tell(set, "rows", q, sizeof q);
    fixed->second_moments(z, ROWS, COLUMNS, 0.7, moments);
    tell(set, "moments", moments, sizeof moments);
}

static void tell_sketches(const char *set, const struct kernels *kernels)
{
    const struct sketch_matrix sparse = {SKETCH_INDEPENDENT, {1, 2}, {3, 4}, SKETCH_ROWS, 15};
    const struct dense_matrix dense = {{1, 2}, {3, 4}, SKETCH_ROWS};
    const enum sketch_kind kinds[] = {SKETCH_REAL, SKETCH_RING, SKETCH_FIELD};
    const char *names[] = {"real", "ring", "field"};
    for (int kind = 0; kind < 3; kind++)
        for (int64_t width = 1; width <= WIDE; width++) {
            const uint64_t *X = kind ? (const uint64_t *)q : (const uint64_t *)z; /* q: small, and cleared of signs */
            memset(Y, 0, sizeof Y);
            sketch_scatter(kernels, &sparse, kinds[kind], 5, 1300, width, 1, X, (uint64_t *)Y);
            dense_apply(kernels, &dense, kinds[kind], 9, 1300, width, 1, X, (uint64_t *)Y);
            tell(set, names[kind], Y, sizeof Y);
        }
}

int main(void)
{
    const struct kernels *table;
    const int count = kernels_here(&table);
    for (int i = 0; i < count; i++) {
        state = 88172645463325252u;
        for (int j = 0; j < ROWS * COLUMNS; j++)
            z[j] = 0.6 * uniform();
        tell_real(table[i].name, table[i].fixed);
        for (int j = 0; j < ROWS * COLUMNS; j++)
            q[j] &= INT64_MAX >> 4;
        tell_sketches(table[i].name, &table[i]);
    }
    return 0;
}
