/* The sketch for one instruction set. The includer defines
 *   SET                      the suffix of every name here
 *   LANES                    64-bit words in a vector
 *   GROUPS                   vectors that the generator works on together
 *   MULTIPLY_LOW(a, b)       the 64-bit products of the lower halves of a's lanes with b < 2^32
 *   INTERLEAVE_LOWER, _UPPER the shuffles (a0, b0, a1, b1, ..) of two vectors' lower and upper halves
 *
 * Clients are taken in blocks. A block's part of S is drawn into a small buffer that stays in the first-level cache;
 * then the rows of X are read once, in order, and added to rows of Y, which fits the second-level cache for common
 * shapes. A client meets a row of Y at most once, so that every element of Y receives its terms in client order
 * whatever the vector width: doubles come out the same on every instruction set. */

#define STEP (4 * GROUPS * LANES) /* entries that the generator yields at once */

#if LANES > 1
#define VECTOR(n) __attribute__((vector_size(8 * (n))))
typedef uint64_t NAME(lanes) VECTOR(LANES);
typedef uint64_t NAME(words2) VECTOR(2);
typedef double NAME(reals2) VECTOR(2);
typedef uint64_t NAME(words4) VECTOR(4);
typedef double NAME(reals4) VECTOR(4);
typedef uint64_t NAME(words8) VECTOR(8);
typedef double NAME(reals8) VECTOR(8);
#undef VECTOR
#else
typedef uint64_t NAME(lanes);
#endif

#include "philox.h"
#include "sketch_draw.h"
#include "sketch_scatter.h"

/* Draw the block that holds client `start`; return where its entries begin and, in `clients`, how many they are. */
static const uint32_t *NAME(block_at)(const struct sketch_matrix *S, uint64_t start, uint64_t end,
                                      struct sketch_block *block, int64_t *clients)
{
    const uint64_t base = start & ~UINT64_C(3), left = end - base, stride = (uint64_t)block->stride;
    const uint64_t count = left < stride ? left : stride;
    NAME(draw)(S, base, sketch_whole_tiles(count), block);
    *clients = (int64_t)(base + count - start);
    return block->entries + (start - base);
}

/* Y += S[:, first .. first + count] X. */
static int NAME(scatter)(const struct sketch_matrix *S, enum sketch_kind kind, uint64_t first, int64_t count,
                         int64_t width, int shared, const uint64_t *X, uint64_t *Y)
{
    struct sketch_block block;
    const uint64_t end = first + (uint64_t)count;
    const int64_t step = shared ? width : width * S->copies;
    int64_t clients;
    int status = sketch_block_new(&block, S);
    if (status != SKETCH_DONE)
        return status;
    for (uint64_t start = first; start < end; start += (uint64_t)clients, X += clients * step) {
        const uint32_t *entries = NAME(block_at)(S, start, end, &block, &clients);
        if (NAME(scatter_block)(kind, shared, width, S->copies, clients, block.stride, entries, X, Y))
            status = SKETCH_NOT_CANONICAL;
    }
    sketch_block_free(&block);
    return status;
}

/* Write the packed entries of clients first .. first + count, [copy][client]. */
static int NAME(entries)(const struct sketch_matrix *S, uint64_t first, int64_t count, uint32_t *out)
{
    struct sketch_block block;
    const uint64_t end = first + (uint64_t)count;
    int64_t clients;
    const int status = sketch_block_new(&block, S);
    if (status != SKETCH_DONE)
        return status;
    for (uint64_t start = first; start < end; start += (uint64_t)clients, out += clients) {
        const uint32_t *entries = NAME(block_at)(S, start, end, &block, &clients);
        for (uint32_t copy = 0; copy < S->copies; copy++)
            memcpy(out + copy * count, entries + copy * block.stride, (size_t)clients * sizeof *out);
    }
    sketch_block_free(&block);
    return status;
}

/* One counter through this body's Philox, for the published known answers. */
static void NAME(philox_once)(uint32_t counter[4], const uint32_t key[2])
{
    const NAME(lanes) zero = {0};
    NAME(lanes) state[GROUPS][4];
    NAME(philox_key) expanded;
    uint32_t words[4 * LANES];
    for (int g = 0; g < GROUPS; g++)
        for (int w = 0; w < 4; w++)
            state[g][w] = zero + counter[w];
    NAME(expand_key)(&expanded, key);
    NAME(philox)(state, &expanded);
    NAME(store_words)(state[0], words);
    memcpy(counter, words, 4 * sizeof *counter);
}

static const struct sketch_body NAME(body) = {QUOTE(SET), NAME(philox_once), NAME(entries), NAME(scatter)};

#undef STEP
#undef SET
#undef LANES
#undef GROUPS
#undef MULTIPLY_LOW
#undef INTERLEAVE_LOWER
#undef INTERLEAVE_UPPER
#undef PHILOX_ROUNDS
