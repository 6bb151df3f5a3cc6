/* What the kernels that scatter rows of X onto rows of Y share: scatter_short.c and scatter_wide.c.
 *
 * Rows of X are read once, in order; rows of Y are met at random. Where vectors have four words or more, rows of Y lie
 * a multiple of four words apart, so that all additions are of whole vectors: what X lacks counts as zeros, which
 * masked loads make without touching what is behind X. What they leave behind a row of Y means nothing. */
#ifndef DPMPC_SCATTER_H
#define DPMPC_SCATTER_H

#include "rows.h"

#define AHEAD 8192               /* bytes between what is read of X and what is prefetched */
#define AHEAD_ONCE 4096          /* the same, of what goes to the first-level cache alone */
#define LINE 8                   /* words of a cache line */

#define PREFETCH(address) __builtin_prefetch((const void *)(address), 0, 2)
#define PREFETCH_ONCE(address) __builtin_prefetch((const void *)(address), 0, 0) /* does not stay in any cache */
#define PREFETCH_TO_WRITE(address) __builtin_prefetch(address, 1, 3)

INLINE void prefetch_row(int64_t step, const uint64_t *X)
{
    for (int64_t i = 0; i < step; i += LINE)
        PREFETCH((uintptr_t)(X + i) + AHEAD);
}

#if LANES >= 4
#define LANE_NUMBERS _mm256_set_epi64x(3, 2, 1, 0)

/* The first `words` words, at most four, and zeros. */
INLINE quad load_part(int64_t words, const uint64_t *x)
{
    const __m256i mask = _mm256_cmpgt_epi64(_mm256_set1_epi64x(words), LANE_NUMBERS);
    return (quad)_mm256_maskload_epi64((const long long *)x, mask);
}
#endif

/* What the words that went by have in common: some bit above the 60th is set if one was p or more. */
struct seen {
#if LANES >= 4
    quad four;
#endif
    uint64_t one;
};

INLINE void see_row(int64_t width, const uint64_t *x, struct seen *seen)
{
    int64_t i = 0;
#if LANES >= 4
    for (; i + 4 <= width; i += 4) {
        const quad words = load_quad(x + i);
        seen->four |= words | (words + 1);
    }
#endif
    for (; i < width; i++)
        seen->one |= x[i] | (x[i] + 1);
}

INLINE int all_canonical(const struct seen *seen)
{
    uint64_t any = seen->one;
#if LANES >= 4
    for (int i = 0; i < 4; i++)
        any |= seen->four[i];
#endif
    return any >> 61 == 0;
}

#endif
