/* Drawing a block of S, for one instruction set. "Derivation" in dpmpc/sketching.py is the specification.
 *
 * A packed entry is (row << 1) | negative. No row is 2^31 - 1, so that an entry of all ones can say "rejected". */

#if LANES > 1
typedef uint64_t NAME(lanes) __attribute__((vector_size(8 * LANES)));
#else
typedef uint64_t NAME(lanes);
#endif

#include "philox.h"

#define STEP (4 * GROUPS * LANES) /* entries that the generator yields at once */

/* What all draws of one copy share. */
typedef struct {
    NAME(philox_key) key;
    uint32_t nonce[2];
    uint32_t stream;   /* the counter's word 1: purpose and copy */
    uint32_t rows;     /* rows are uniform below this */
    uint32_t rejected; /* 2 (2^31 mod rows): what lies below is rejected */
} NAME(source);

static void NAME(open_source)(NAME(source) *source, const struct sketch_matrix *S, enum sketch_purpose purpose,
                              uint32_t rows)
{
    NAME(expand_key)(&source->key, S->key);
    source->nonce[0] = S->nonce[0];
    source->nonce[1] = S->nonce[1];
    source->stream = (uint32_t)purpose << 31;
    source->rows = rows;
    source->rejected = (UINT32_C(1) << 31) % rows << 1;
}

/* Draw STEP words, given the Philox block number of each four; unless `raw`, make packed entries of them.
 *
 * Lemire's multiply-shift, exactly uniform ("Fast random integer generation in an interval", ACM TOMACS 2019), on the
 * word's upper 31 bits x: (2 x) rows has the row in its upper half and twice Lemire's remainder in its lower one. */
INLINE void NAME(draw_step)(const NAME(source) *source, const NAME(lanes) blocks[GROUPS], uint32_t attempt, int raw,
                            uint32_t *out)
{
    const NAME(lanes) zero = {0}, rows = zero + source->rows;
    NAME(lanes) counter[GROUPS][4];
    for (int g = 0; g < GROUPS; g++) {
        counter[g][0] = blocks[g];
        counter[g][1] = zero + source->stream;
        counter[g][2] = zero + (source->nonce[0] ^ attempt);
        counter[g][3] = zero + source->nonce[1];
    }
    NAME(philox)(counter, &source->key);
    for (int g = 0; g < GROUPS; g++) {
        for (int w = 0; w < 4 && !raw; w++) {
            const NAME(lanes) word = counter[g][w];
            const NAME(lanes) product = MULTIPLY_LOW(word & ~UINT64_C(1), rows);
            const NAME(lanes) margin = (product & 0xFFFFFFFFu) - source->rejected; /* upper half all ones: rejected */
            counter[g][w] = (product >> 31 & ~UINT64_C(1)) | (word & 1) | margin >> 32;
        }
        NAME(store_words)(counter[g], out + g * 4 * LANES);
    }
}

/* First attempts, or raw words, of indices first .. first + count: first a multiple of 4, count of SKETCH_TILE. */
INLINE void NAME(draw_first)(const NAME(source) *source, uint64_t first, int64_t count, int raw, uint32_t *out)
{
    uint64_t numbers[STEP / 4];
    NAME(lanes) blocks[GROUPS];
    for (int i = 0; i < STEP / 4; i++)
        numbers[i] = (first >> 2) + (uint64_t)i;
    memcpy(blocks, numbers, sizeof blocks);
    for (int64_t i = 0; i < count; i += STEP) {
        NAME(draw_step)(source, blocks, 0, raw, out + i);
        for (int g = 0; g < GROUPS; g++)
            blocks[g] += STEP / 4;
    }
}

/* The least of `count` differences. */
INLINE uint32_t NAME(least)(const uint32_t *differences, int count)
{
    uint32_t least = UINT32_MAX;
    for (int i = 0; i < count; i++)
        least = least < differences[i] ? least : differences[i];
    return least;
}

/* List the refused entries of one copy: those rejected by Lemire and those on an earlier copy's row. */
static int64_t NAME(list_refused)(const uint32_t *out, int64_t stride, uint32_t copy, int64_t count, uint32_t *pending)
{
    int64_t waiting = 0;
    for (int64_t tile = 0; tile < count; tile += SKETCH_TILE) {
        const uint32_t *entries = out + copy * stride + tile;
        uint32_t refused[SKETCH_TILE]; /* least difference from all ones and from earlier copies; below 2: refused */
        for (int i = 0; i < SKETCH_TILE; i++)
            refused[i] = ~entries[i];
        for (uint32_t other = 0; other < copy; other++) {
            const uint32_t *earlier = out + other * stride + tile;
            for (int i = 0; i < SKETCH_TILE; i++) {
                const uint32_t difference = entries[i] ^ earlier[i];
                refused[i] = refused[i] < difference ? refused[i] : difference;
            }
        }
        if (NAME(least)(refused, SKETCH_TILE) >= 2)
            continue;
        for (int part = 0; part < SKETCH_TILE; part += SKETCH_PART) {
            if (NAME(least)(refused + part, SKETCH_PART) >= 2)
                continue;
            for (int i = part; i < part + SKETCH_PART; i++) {
                pending[waiting] = (uint32_t)(tile + i);
                waiting += refused[i] < 2;
            }
        }
    }
    return waiting;
}

/* Draw the pending indices of one copy again; keep those refused once more and return their number. */
static int64_t NAME(redraw)(const NAME(source) *source, uint32_t copy, uint32_t attempt, uint64_t first, int64_t stride,
                            uint32_t *out, uint32_t *pending, int64_t waiting)
{
    int64_t still = 0;
    for (int64_t start = 0; start < waiting; start += STEP / 4) {
        const int live = waiting - start < STEP / 4 ? (int)(waiting - start) : STEP / 4;
        uint64_t numbers[STEP / 4] = {0};
        uint32_t words[STEP];
        NAME(lanes) blocks[GROUPS];
        for (int i = 0; i < live; i++)
            numbers[i] = (first + pending[start + i]) >> 2;
        memcpy(blocks, numbers, sizeof blocks);
        NAME(draw_step)(source, blocks, attempt, 0, words);
        for (int i = 0; i < live; i++) {
            const uint32_t index = pending[start + i], entry = words[4 * i + (int)(index & 3)];
            int refused = entry == UINT32_MAX;
            for (uint32_t other = 0; other < copy; other++)
                refused |= (entry ^ out[other * stride + index]) < 2;
            out[copy * stride + index] = entry;
            pending[still] = index;
            still += refused;
        }
    }
    return still;
}

/* Entries with distinct rows for indices first .. first + count, copy after copy, by sequential rejection. */
static void NAME(draw_distinct)(const struct sketch_matrix *S, enum sketch_purpose purpose, uint64_t first,
                                int64_t count, int64_t stride, uint32_t *out, uint32_t *pending)
{
    NAME(source) source;
    NAME(open_source)(&source, S, purpose, S->rows);
    for (uint32_t copy = 0; copy < S->copies; copy++, source.stream++) {
        NAME(draw_first)(&source, first, count, 0, out + copy * stride);
        int64_t waiting = NAME(list_refused)(out, stride, copy, count, pending);
        for (uint32_t attempt = 1; waiting; attempt++)
            waiting = NAME(redraw)(&source, copy, attempt, first, stride, out, pending, waiting);
    }
}

/* Balanced entries: client i of batch b = i / k takes row (i mod k + shift of b) mod k and the sign of its own word. */
static void NAME(draw_balanced)(const struct sketch_matrix *S, uint64_t first, int64_t count,
                                struct sketch_block *block)
{
    const uint32_t rows = S->rows;
    const uint64_t first_batch = first / rows & ~UINT64_C(3), last_batch = (first + (uint64_t)count - 1) / rows;
    NAME(source) source;
    NAME(open_source)(&source, S, SKETCH_CLIENT, rows);
    NAME(draw_distinct)(S, SKETCH_BATCH, first_batch, sketch_whole_tiles(last_batch - first_batch + 1),
                        block->shift_stride, block->shifts, block->pending);
    for (uint32_t copy = 0; copy < S->copies; copy++, source.stream++) {
        uint32_t *entries = block->entries + copy * block->stride;
        const uint32_t *shift = block->shifts + copy * block->shift_stride + (first / rows - first_batch);
        uint32_t place = (uint32_t)(first % rows);
        NAME(draw_first)(&source, first, count, 1, entries);
        for (int64_t i = 0; i < count; shift++, place = 0) {
            const int64_t end = rows - place < count - i ? i + (rows - place) : count;
            for (uint32_t row = place + (*shift >> 1); i < end; i++, row++)
                entries[i] = (row < rows ? row : row - rows) << 1 | (entries[i] & 1);
        }
    }
}

/* Draw the entries of clients first .. first + count: first a multiple of 4, count of SKETCH_TILE. */
static void NAME(draw)(const struct sketch_matrix *S, uint64_t first, int64_t count, struct sketch_block *block)
{
    if (S->family == SKETCH_INDEPENDENT)
        NAME(draw_distinct)(S, SKETCH_CLIENT, first, count, block->stride, block->entries, block->pending);
    else if (S->family == SKETCH_BALANCED)
        NAME(draw_balanced)(S, first, count, block);
    else
        memset(block->entries, 0, (size_t)count * sizeof *block->entries);
}

/* One counter through this Philox, for the published known answers. */
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
