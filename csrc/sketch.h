/* Y += S X for a sparse public matrix S that is derived while it is used and never stored.
 *
 * This file holds what all instruction sets share: the description of S, the kinds of numbers, the memory of one block,
 * and the table of bodies. sketch_body.h holds the algorithm and is included once per instruction set; all bodies
 * compute the same bits. How S follows from its key is specified in dpmpc/sketching.py. */

#ifndef DPMPC_SKETCH_H
#define DPMPC_SKETCH_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#define PREFETCH(address) __builtin_prefetch((const void *)(address), 0, 2)
#else
#define INLINE static inline
#define PREFETCH(address) ((void)(address))
#endif

/* Wider bodies need GCC's vectors and its target pragma; elsewhere the portable body is alone. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#define SKETCH_WIDE_BODIES 1
#include <immintrin.h>
#endif

#define MERSENNE61 ((UINT64_C(1) << 61) - 1)
#define SKETCH_TILE 64       /* entries that are checked together; a multiple of every body's STEP */
#define SKETCH_ENTRIES 8192  /* entries of a block of S, about: they stay in the first-level cache */
#define SKETCH_CLIENTS 2048  /* clients of a block, at most */
#define SKETCH_AHEAD 4096    /* bytes between what is read of X and what is prefetched */
#define SKETCH_BODIES 4

/* What the 64-bit words of X and Y are. */
enum sketch_kind {
    SKETCH_RING,  /* integers modulo 2^64 */
    SKETCH_FIELD, /* integers modulo p = 2^61 - 1: X below p, Y at most p + 1 */
    SKETCH_REAL   /* IEEE doubles */
};

enum sketch_status { SKETCH_DONE, SKETCH_NO_MEMORY, SKETCH_NOT_CANONICAL };

/* Who draws; the top bit of the counter's word 1. */
enum sketch_purpose { SKETCH_CLIENT, SKETCH_BATCH };

enum sketch_family {
    SKETCH_INDEPENDENT, /* each client's rows are drawn for itself */
    SKETCH_BALANCED,    /* k consecutive clients share out the k rows of each copy */
    SKETCH_ONES         /* one row, all ones; the key is not used */
};

struct sketch_matrix {
    enum sketch_family family;
    uint32_t key[2], nonce[2];
    uint32_t rows;   /* k, in [1, 2^31) */
    uint32_t copies; /* s, in [1, k] */
};

/* What one instruction set can do. `entries` and `scatter` return a sketch_status. */
struct sketch_body {
    const char *name;
    void (*philox)(uint32_t counter[4], const uint32_t key[2]);
    int (*entries)(const struct sketch_matrix *S, uint64_t first, int64_t count, uint32_t *out);
    int (*scatter)(const struct sketch_matrix *S, enum sketch_kind kind, uint64_t first, int64_t count, int64_t width,
                   int shared, const uint64_t *X, uint64_t *Y);
};

/* A part of S in use: packed entries of up to `stride` clients, [copy][client]; the same for batches; scratch. */
struct sketch_block {
    int64_t stride, shift_stride;
    uint32_t *entries, *shifts, *pending;
};

static int sketch_block_new(struct sketch_block *block, const struct sketch_matrix *S)
{
    const int64_t fit = SKETCH_ENTRIES / S->copies / SKETCH_TILE * SKETCH_TILE;
    block->stride = fit < SKETCH_TILE ? SKETCH_TILE : fit > SKETCH_CLIENTS ? SKETCH_CLIENTS : fit;
    block->shift_stride = S->family == SKETCH_BALANCED ? block->stride + SKETCH_TILE : 0; /* k = 1: as many batches as clients */
    const size_t entries = (size_t)block->stride * S->copies, shifts = (size_t)block->shift_stride * S->copies;
    block->entries = malloc((entries + shifts + (size_t)block->stride + SKETCH_TILE) * sizeof *block->entries);
    if (!block->entries)
        return SKETCH_NO_MEMORY;
    block->shifts = block->entries + entries;
    block->pending = block->shifts + shifts;
    return SKETCH_DONE;
}

static void sketch_block_free(struct sketch_block *block)
{
    free(block->entries);
}

static int64_t sketch_whole_tiles(uint64_t count)
{
    return (int64_t)((count + SKETCH_TILE - 1) / SKETCH_TILE * SKETCH_TILE);
}

/* Bring the elements of a field from at most p + 1 below p. */
static void sketch_canonicalise(uint64_t *words, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        words[i] -= MERSENNE61 & -((words[i] + 1) >> 61);
}

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define NAME(x) JOIN(x, SET)
#define QUOTE_(a) #a
#define QUOTE(a) QUOTE_(a)

#define SET portable
#define LANES 1
#define GROUPS 1
#define MULTIPLY_LOW(a, b) ((uint64_t)(uint32_t)(a) * (uint64_t)(b))
#include "sketch_body.h"

#ifdef SKETCH_WIDE_BODIES
#define SET sse2
#define LANES 2
#define GROUPS GG
#define MULTIPLY_LOW(a, b) ((NAME(lanes))_mm_mul_epu32((__m128i)(a), (__m128i)((NAME(lanes)){0} + (b))))
#define INTERLEAVE_LOWER {0, 2}
#define INTERLEAVE_UPPER {1, 3}
#include "sketch_body.h"

#pragma GCC push_options
#pragma GCC target("avx2")
#define SET avx2
#define LANES 4
#define GROUPS GG
#define MULTIPLY_LOW(a, b) ((NAME(lanes))_mm256_mul_epu32((__m256i)(a), (__m256i)((NAME(lanes)){0} + (b))))
#define INTERLEAVE_LOWER {0, 4, 1, 5}
#define INTERLEAVE_UPPER {2, 6, 3, 7}
#include "sketch_body.h"
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,prefer-vector-width=512")
#define SET avx512
#define LANES 8
#define GROUPS GG
#define MULTIPLY_LOW(a, b) ((NAME(lanes))_mm512_mul_epu32((__m512i)(a), (__m512i)((NAME(lanes)){0} + (b))))
#define INTERLEAVE_LOWER {0, 8, 1, 9, 2, 10, 3, 11}
#define INTERLEAVE_UPPER {4, 12, 5, 13, 6, 14, 7, 15}
#include "sketch_body.h"
#pragma GCC pop_options
#endif

/* List the bodies that this processor can run, the fastest one last, and return their number. */
static int sketch_bodies(const struct sketch_body *bodies[SKETCH_BODIES])
{
    int count = 0;
    bodies[count++] = &body_portable;
#ifdef SKETCH_WIDE_BODIES
    __builtin_cpu_init();
    bodies[count++] = &body_sse2;
    if (__builtin_cpu_supports("avx2"))
        bodies[count++] = &body_avx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw"))
        bodies[count++] = &body_avx512;
#endif
    return count;
}

#endif
