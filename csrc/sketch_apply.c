/* Y += S X for a sparse public matrix S that is derived while it is used and never stored.
 *
 * Clients are taken in blocks. A block's part of S is drawn into a small buffer that stays in the cache
 * (sketch_draw.c); then the rows of X are read once, in order, and added to rows of Y, which for common shapes fits
 * the second-level cache (scatter_short.c, scatter_wide.c).
 *
 * All instruction sets compute the same bits. A client meets a row of Y at most once, so that every element of Y
 * receives its terms in client order whatever the vector width: doubles, too, come out the same.
 *
 * How S follows from its key is specified in dpmpc/linear/sketching/__init__.py. */

#include <stdlib.h>
#include <string.h>

#include "apply.h"

#define SKETCH_ENTRIES 16384 /* entries of a block of S, about: few enough for the second-level cache */
#define SKETCH_CLIENTS 4096  /* clients of a block, at most */
#define SKETCH_WORTH 4       /* times that a row of Y is met, on average, from which on it is worth a copy */

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

/* Draw the block that holds client `start`; return where its entries begin and, in `clients`, how many they are. */
static const uint32_t *sketch_block_at(const struct kernels *kernels, const struct sketch_matrix *S, uint64_t start,
                                       uint64_t end, struct sketch_block *block, int64_t *clients)
{
    const uint64_t base = start / SKETCH_TILE * SKETCH_TILE, left = end - base, stride = (uint64_t)block->stride;
    const uint64_t count = left < stride ? left : stride;
    kernels->sketch_draw->draw(S, base, sketch_whole_tiles(count), block);
    *clients = (int64_t)(base + count - start);
    return block->entries + (start - base);
}

/* Write the packed entries of clients first .. first + count, [copy][client]. */
int sketch_entries(const struct kernels *kernels, const struct sketch_matrix *S, uint64_t first, int64_t count,
                   uint32_t *out)
{
    struct sketch_block block;
    const uint64_t end = first + (uint64_t)count;
    int64_t clients;
    if (!sketch_block_new(&block, S))
        return SKETCH_NO_MEMORY;
    for (uint64_t start = first; start < end; start += (uint64_t)clients, out += clients) {
        const uint32_t *entries = sketch_block_at(kernels, S, start, end, &block, &clients);
        for (uint32_t copy = 0; copy < S->copies; copy++)
            memcpy(out + copy * count, entries + copy * block.stride, (size_t)clients * sizeof *out);
    }
    sketch_block_free(&block);
    return SKETCH_DONE;
}

/* Y as kernels take it: itself or, if its rows are no whole vectors, a copy whose rows are. */
struct sketch_sums {
    uint64_t *words, *room;
    int64_t pitch;
};

/* Few clients are not worth a copy, and without memory for one there is none. */
static struct sketch_sums sketch_sums_new(const struct kernels *kernels, const struct sketch_matrix *S, int64_t count,
                                          int64_t width, uint64_t *Y)
{
    const int64_t pad = kernels->scatter_short->pad, pitch = (width + pad - 1) / pad * pad;
    const struct sketch_sums plain = {Y, NULL, width};
    if (pitch == width || count * S->copies < SKETCH_WORTH * (int64_t)S->rows)
        return plain;
    uint64_t *room = aligned_alloc(64, ((size_t)S->rows * (size_t)pitch * sizeof *Y + 63) / 64 * 64);
    if (!room)
        return plain;
    for (int64_t row = 0; row < S->rows; row++) {
        memcpy(room + row * pitch, Y + row * width, (size_t)width * sizeof *Y);
        memset(room + row * pitch + width, 0, (size_t)(pitch - width) * sizeof *Y);
    }
    return (struct sketch_sums){room, room, pitch};
}

/* Bring Y back, canonical. */
static void sketch_sums_end(enum sketch_kind kind, const struct sketch_matrix *S, int64_t width,
                            const struct sketch_sums *sums, uint64_t *Y)
{
    if (sums->room)
        for (int64_t row = 0; row < S->rows; row++)
            memcpy(Y + row * width, sums->room + row * sums->pitch, (size_t)width * sizeof *Y);
    free(sums->room);
    make_canonical(kind, S->rows * width, Y);
}

static int sketch_scatter_terms(const struct kernels *kernels, const struct sketch_terms *terms, uint64_t *Y)
{
    const int narrow = terms->width <= kernels->scatter_short->widest || terms->pitch % kernels->scatter_short->pad;
    return narrow ? kernels->scatter_short->scatter(terms, Y) : kernels->scatter_wide->scatter(terms, Y);
}

/* Y += S[:, first .. first + count] X, with Y canonical before and after. */
int sketch_scatter(const struct kernels *kernels, const struct sketch_matrix *S, enum sketch_kind kind, uint64_t first,
                   int64_t count, int64_t width, int shared, const uint64_t *X, uint64_t *Y)
{
    struct sketch_block block;
    const uint64_t end = first + (uint64_t)count;
    const int64_t step = shared ? width : width * S->copies;
    int64_t clients;
    int status = SKETCH_DONE;
    if (!sketch_block_new(&block, S))
        return SKETCH_NO_MEMORY;
    const struct sketch_sums sums = sketch_sums_new(kernels, S, count, width, Y);
    for (uint64_t start = first; start < end; start += (uint64_t)clients, X += clients * step) {
        const uint32_t *entries = sketch_block_at(kernels, S, start, end, &block, &clients);
        const struct sketch_terms terms = {kind,       shared,  width,     clients, block.stride,
                                           sums.pitch, S->rows, S->copies, entries, X};
        if (!sketch_scatter_terms(kernels, &terms, sums.words))
            status = SKETCH_NOT_CANONICAL;
    }
    sketch_sums_end(kind, S, width, &sums, Y);
    sketch_block_free(&block);
    return status;
}

/* The same for `count` clients whose packed entries, [copy][client], were drawn before. X has the rows of `given`
 * clients, who stand for all others too, again and again. */
int sketch_scatter_stored(const struct kernels *kernels, const struct sketch_matrix *S, enum sketch_kind kind,
                          const uint32_t *entries, int64_t count, int64_t given, int64_t width, int shared,
                          const uint64_t *X, uint64_t *Y)
{
    const struct sketch_sums sums = sketch_sums_new(kernels, S, count, width, Y);
    int canonical = 1;
    for (int64_t start = 0; start < count; start += given) {
        const int64_t clients = count - start < given ? count - start : given;
        const struct sketch_terms terms = {kind,       shared,  width,     clients,         count,
                                           sums.pitch, S->rows, S->copies, entries + start, X};
        canonical &= sketch_scatter_terms(kernels, &terms, sums.words);
    }
    sketch_sums_end(kind, S, width, &sums, Y);
    return canonical ? SKETCH_DONE : SKETCH_NOT_CANONICAL;
}
