/* Applying public matrices to chunks of clients, with the kernels of one instruction set: what Cython calls. */
#ifndef DPMPC_APPLY_H
#define DPMPC_APPLY_H

#include "kernels.h"

/* Encrypt one Philox counter, for the published known answers. */
static inline void sketch_philox(const struct kernels *kernels, uint32_t counter[4], const uint32_t key[2])
{
    kernels->sketch_draw->philox(counter, key);
}

/* Write the packed entries of clients first .. first + count, [copy][client]. */
int sketch_entries(const struct kernels *kernels, const struct sketch_matrix *S, uint64_t first, int64_t count,
                   uint32_t *out);

/* Y += S[:, first .. first + count] X, with Y canonical before and after; the second for clients whose packed entries,
 * [copy][client], were drawn before; there X has the rows of `given` clients, who stand for all others too. */
int sketch_scatter(const struct kernels *kernels, const struct sketch_matrix *S, enum sketch_kind kind, uint64_t first,
                   int64_t count, int64_t width, int shared, const uint64_t *X, uint64_t *Y);
int sketch_scatter_stored(const struct kernels *kernels, const struct sketch_matrix *S, enum sketch_kind kind,
                          const uint32_t *entries, int64_t count, int64_t given, int64_t width, int shared,
                          const uint64_t *X, uint64_t *Y);

/* Write the words of `blocks` blocks of 128 clients, [block][row][4]. */
int dense_signs(const struct kernels *kernels, const struct dense_matrix *S, uint32_t first, int64_t blocks,
                uint32_t *out);

/* Y += S[:, first .. first + count] X, with Y canonical before and after. */
int dense_apply(const struct kernels *kernels, const struct dense_matrix *S, enum sketch_kind kind, uint64_t first,
                int64_t count, int64_t width, int shared, const uint64_t *X, uint64_t *Y);

/* Make every word of Y canonical: in a field below p. */
static inline void make_canonical(enum sketch_kind kind, int64_t words, uint64_t *Y)
{
    if (kind == SKETCH_FIELD)
        for (int64_t i = 0; i < words; i++)
            Y[i] -= MERSENNE61 & -((Y[i] + 1) >> 61);
}

#endif
