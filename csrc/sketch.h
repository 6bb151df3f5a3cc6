/* Y += S X for a sparse public matrix S that is derived while it is used and never stored.
 *
 * Clients are taken in blocks. A block's part of S is drawn into a small buffer that stays in the cache
 * (sketch_draw.h); then the rows of X are read once, in order, and added to rows of Y, which for common shapes fits
 * the second-level cache (sketch_scatter.h). These two are included once per instruction set, after
 *   SET                      the suffix of every name in them
 *   LANES                    64-bit words in a vector
 *   GROUPS                   vectors that the generator works on together
 *   MULTIPLY_LOW(a, b)       the 64-bit products of the lower halves of a's lanes with b < 2^32
 *   INTERLEAVE_LOWER, _UPPER the shuffles (a0, b0, a1, b1, ..) of two vectors' lower and upper halves
 *
 * All bodies compute the same bits. A client meets a row of Y at most once, so that every element of Y receives its
 * terms in client order whatever the vector width: doubles, too, come out the same.
 *
 * How S follows from its key is specified in dpmpc/sketching.py. */

#ifndef DPMPC_SKETCH_H
#define DPMPC_SKETCH_H

#include "bodies.h"

#define SKETCH_TILE 128      /* clients whose words are those of 32 Philox blocks; a multiple of every body's STEP */
#define SKETCH_PART 16       /* entries among which a refused one is looked for */
#define SKETCH_ENTRIES 16384 /* entries of a block of S, about: few enough for the second-level cache */
#define SKETCH_CLIENTS 4096  /* clients of a block, at most */
#define SKETCH_AHEAD 8192    /* bytes between what is read of X and what is prefetched */
#define SKETCH_BODIES 4

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

/* A part of S in use: packed entries of up to `stride` clients, [copy][client]; the same for batches; scratch. */
struct sketch_block {
    int64_t stride, shift_stride;
    uint32_t *entries, *shifts, *pending;
};

/* What one instruction set does: draw a block of S, and add a block's S X to Y. */
struct sketch_body {
    const char *name;
    void (*philox)(uint32_t counter[4], const uint32_t key[2]);
    void (*draw)(const struct sketch_matrix *S, uint64_t first, int64_t count, struct sketch_block *block);
    int (*scatter)(enum sketch_kind kind, int shared, int64_t width, uint32_t copies, int64_t count, int64_t stride,
                   const uint32_t *entries, const uint64_t *X, uint64_t *Y);
};

/* Whether there was memory. */
static int sketch_block_new(struct sketch_block *block, const struct sketch_matrix *S)
{
    const int64_t fit = SKETCH_ENTRIES / S->copies / SKETCH_TILE * SKETCH_TILE;
    block->stride = fit < SKETCH_TILE ? SKETCH_TILE : fit > SKETCH_CLIENTS ? SKETCH_CLIENTS : fit;
    /* With k = 1 there are as many batches as clients. */
    block->shift_stride = S->family == SKETCH_BALANCED ? block->stride + SKETCH_TILE : 0;
    const size_t entries = (size_t)block->stride * S->copies, shifts = (size_t)block->shift_stride * S->copies;
    block->entries = malloc((entries + shifts + (size_t)block->stride + SKETCH_TILE) * sizeof *block->entries);
    if (!block->entries)
        return 0;
    block->shifts = block->entries + entries;
    block->pending = block->shifts + shifts;
    return 1;
}

static void sketch_block_free(struct sketch_block *block)
{
    free(block->entries);
}

static int64_t sketch_whole_tiles(uint64_t count)
{
    return (int64_t)((count + SKETCH_TILE - 1) / SKETCH_TILE * SKETCH_TILE);
}

#define SET portable
#define LANES 1
#define GROUPS 1
#define MULTIPLY_LOW(a, b) ((uint64_t)(uint32_t)(a) * (uint64_t)(b))
#include "sketch_draw.h"
#include "sketch_scatter.h"
#include "sketch_end.h"
static const struct sketch_body sketch_portable = {"portable", philox_once_portable, draw_portable, scatter_portable};

#ifdef SKETCH_WIDE_BODIES
#define SET sse2
#define LANES 2
#define GROUPS 2
#define MULTIPLY_LOW(a, b) ((NAME(lanes))_mm_mul_epu32((__m128i)(a), (__m128i)((NAME(lanes)){0} + (b))))
#define INTERLEAVE_LOWER {0, 2}
#define INTERLEAVE_UPPER {1, 3}
#include "sketch_draw.h"
#include "sketch_scatter.h"
#include "sketch_end.h"
static const struct sketch_body sketch_sse2 = {"sse2", philox_once_sse2, draw_sse2, scatter_sse2};

#pragma GCC push_options
#pragma GCC target("avx2")
#define SET avx2
#define LANES 4
#define GROUPS 2
#define MULTIPLY_LOW(a, b) ((NAME(lanes))_mm256_mul_epu32((__m256i)(a), (__m256i)((NAME(lanes)){0} + (b))))
#define INTERLEAVE_LOWER {0, 4, 1, 5}
#define INTERLEAVE_UPPER {2, 6, 3, 7}
#include "sketch_draw.h"
#include "sketch_scatter.h"
#include "sketch_end.h"
#pragma GCC pop_options
static const struct sketch_body sketch_avx2 = {"avx2", philox_once_avx2, draw_avx2, scatter_avx2};

/* Wider vectors help to draw. Rows of X and Y are not aligned, and 64-byte words of them would straddle cache lines:
 * they are still added 32 bytes at a time, but more registers and a minimum of words help there, too. */
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,prefer-vector-width=512")
#define SET avx512
#define LANES 8
#define GROUPS 4
#define MULTIPLY_LOW(a, b) ((NAME(lanes))_mm512_mul_epu32((__m512i)(a), (__m512i)((NAME(lanes)){0} + (b))))
#define INTERLEAVE_LOWER {0, 8, 1, 9, 2, 10, 3, 11}
#define INTERLEAVE_UPPER {4, 12, 5, 13, 6, 14, 7, 15}
#include "sketch_draw.h"
#include "sketch_scatter.h"
#include "sketch_end.h"
#pragma GCC pop_options
static const struct sketch_body sketch_avx512 = {"avx512", philox_once_avx512, draw_avx512, scatter_avx512};
#endif

/* List the bodies that this processor can run, the fastest one last, and return their number. */
static int sketch_bodies(const struct sketch_body *bodies[SKETCH_BODIES])
{
    int count = 0;
    bodies[count++] = &sketch_portable;
#ifdef SKETCH_WIDE_BODIES
    __builtin_cpu_init();
    bodies[count++] = &sketch_sse2;
    if (__builtin_cpu_supports("avx2")) {
        bodies[count++] = &sketch_avx2;
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
            bodies[count++] = &sketch_avx512;
    }
#endif
    return count;
}

/* Draw the block that holds client `start`; return where its entries begin and, in `clients`, how many they are. */
static const uint32_t *sketch_block_at(const struct sketch_body *body, const struct sketch_matrix *S, uint64_t start,
                                       uint64_t end, struct sketch_block *block, int64_t *clients)
{
    const uint64_t base = start / SKETCH_TILE * SKETCH_TILE, left = end - base, stride = (uint64_t)block->stride;
    const uint64_t count = left < stride ? left : stride;
    body->draw(S, base, sketch_whole_tiles(count), block);
    *clients = (int64_t)(base + count - start);
    return block->entries + (start - base);
}

/* Write the packed entries of clients first .. first + count, [copy][client]. */
static int sketch_entries(const struct sketch_body *body, const struct sketch_matrix *S, uint64_t first, int64_t count,
                          uint32_t *out)
{
    struct sketch_block block;
    const uint64_t end = first + (uint64_t)count;
    int64_t clients;
    if (!sketch_block_new(&block, S))
        return SKETCH_NO_MEMORY;
    for (uint64_t start = first; start < end; start += (uint64_t)clients, out += clients) {
        const uint32_t *entries = sketch_block_at(body, S, start, end, &block, &clients);
        for (uint32_t copy = 0; copy < S->copies; copy++)
            memcpy(out + copy * count, entries + copy * block.stride, (size_t)clients * sizeof *out);
    }
    sketch_block_free(&block);
    return SKETCH_DONE;
}

/* Make every word of Y canonical. */
static void sketch_finish(enum sketch_kind kind, int64_t words, uint64_t *Y)
{
    if (kind == SKETCH_FIELD)
        for (int64_t i = 0; i < words; i++)
            Y[i] -= MERSENNE61 & -((Y[i] + 1) >> 61);
}

/* Y += S[:, first .. first + count] X, with Y canonical before and after. */
static int sketch_scatter(const struct sketch_body *body, const struct sketch_matrix *S, enum sketch_kind kind,
                          uint64_t first, int64_t count, int64_t width, int shared, const uint64_t *X, uint64_t *Y)
{
    struct sketch_block block;
    const uint64_t end = first + (uint64_t)count;
    const int64_t step = shared ? width : width * S->copies;
    int64_t clients;
    int status = SKETCH_DONE;
    if (!sketch_block_new(&block, S))
        return SKETCH_NO_MEMORY;
    for (uint64_t start = first; start < end; start += (uint64_t)clients, X += clients * step) {
        const uint32_t *entries = sketch_block_at(body, S, start, end, &block, &clients);
        if (!body->scatter(kind, shared, width, S->copies, clients, block.stride, entries, X, Y))
            status = SKETCH_NOT_CANONICAL;
    }
    sketch_finish(kind, S->rows * width, Y);
    sketch_block_free(&block);
    return status;
}

/* The same for clients whose packed entries, [copy][client], were drawn before. */
static int sketch_scatter_stored(const struct sketch_body *body, const struct sketch_matrix *S, enum sketch_kind kind,
                                 const uint32_t *entries, int64_t count, int64_t width, int shared, const uint64_t *X,
                                 uint64_t *Y)
{
    const int canonical = body->scatter(kind, shared, width, S->copies, count, count, entries, X, Y);
    sketch_finish(kind, S->rows * width, Y);
    return canonical ? SKETCH_DONE : SKETCH_NOT_CANONICAL;
}

#endif
