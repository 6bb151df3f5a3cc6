/* Drawing a block of a sparse public matrix. "Derivation" in dpmpc/linear/sketching/__init__.py is the specification.
 *
 * A packed entry is (row << 1) | negative. No row is 2^31 - 1, so that an entry of all ones can say "rejected". */

#include "kernels.h"
#include "philox.h"

#define SKETCH_PART 16            /* entries among which a refused one is looked for */
#define STEP (4 * GROUPS * LANES) /* words that the generator yields at once */

/* What all draws of one copy share. */
struct draw_source {
    philox_key key;
    uint32_t nonce[2];
    uint32_t stream;   /* the counter's word 1: purpose and copy */
    uint32_t span;     /* 2 k: packed entries are uniform below this */
    uint32_t rejected; /* 2^32 mod 2 k: remainders below it are rejected */
};

static void open_source(struct draw_source *source, const struct sketch_matrix *S, enum sketch_purpose purpose)
{
    expand_key(&source->key, S->key);
    source->nonce[0] = S->nonce[0];
    source->nonce[1] = S->nonce[1];
    source->stream = (uint32_t)purpose << 31;
    source->span = 2 * S->rows;
    source->rejected = -source->span % source->span;
}

/* Spread the numbers of STEP / 4 Philox blocks over lanes: even ones to even groups, odd ones to odd groups. */
INLINE void load_numbers(const uint32_t *numbers, lanes blocks[GROUPS])
{
#if LANES == 1
    blocks[0] = numbers[0];
#else
    for (int g = 0; g < GROUPS; g += 2) {
        memcpy(&blocks[g], numbers + g * LANES, sizeof blocks[g]); /* what is in upper halves does not matter */
        blocks[g + 1] = blocks[g] >> 32;
    }
#endif
}

/* Encrypt the counters of some blocks; counter[g][w] then holds word w of those in group g. */
INLINE void draw_words(const struct draw_source *source, const lanes blocks[GROUPS], uint32_t attempt,
                       lanes counter[GROUPS][4])
{
    const lanes zero = {0};
    for (int g = 0; g < GROUPS; g++) {
        counter[g][0] = blocks[g];
        counter[g][1] = zero + source->stream;
        counter[g][2] = zero + (source->nonce[0] ^ attempt);
        counter[g][3] = zero + source->nonce[1];
    }
    philox(counter, &source->key);
}

/* Draw packed entries for some blocks that load_numbers spread, `apart` entries from word to word. All ones: rejected.
 *
 * Lemire's multiply-shift, exactly uniform ("Fast random integer generation in an interval", ACM TOMACS 2019): a word
 * times 2 k has the packed entry in its upper half and the remainder in its lower one. */
INLINE void draw_step(const struct draw_source *source, const lanes blocks[GROUPS], uint32_t attempt, int apart,
                      uint32_t *out)
{
    lanes counter[GROUPS][4];
    draw_words(source, blocks, attempt, counter);
#if LANES == 1
    for (int w = 0; w < 4; w++) {
        const uint64_t product = multiply_low(counter[0][w], source->span);
        out[w * apart] = (uint32_t)(product >> 32) | -(uint32_t)((uint32_t)product < source->rejected);
    }
#else
    const halves rejected = (halves){0} + source->rejected;
    for (int w = 0; w < 4; w++)
        for (int g = 0; g < GROUPS; g += 2) {
            const lanes even = multiply_low(counter[g][w], source->span);
            const lanes odd = multiply_low(counter[g + 1][w], source->span);
            const halves remainder = (halves)((even & UINT32_MAX) | odd << 32);
            halves entry = (halves)(even >> 32 | (odd & ~(uint64_t)UINT32_MAX));
            entry |= (halves)(remainder < rejected);
            memcpy(out + w * apart + g * LANES, &entry, sizeof entry);
        }
#endif
}

/* First attempts for indices first .. first + count, whole tiles. Block 32 t + r has indices 128 t + r + 32 w. */
INLINE void draw_first(const struct draw_source *source, uint64_t first, int64_t count, uint32_t *out)
{
    uint32_t numbers[STEP / 4];
    lanes blocks[GROUPS];
    for (uint32_t i = 0; i < STEP / 4; i++)
        numbers[i] = (uint32_t)(first >> 2) + i;
    load_numbers(numbers, blocks);
    for (int64_t tile = 0; tile < count; tile += SKETCH_TILE)
        for (int64_t i = 0; i < SKETCH_TILE / 4; i += STEP / 4) {
            draw_step(source, blocks, 0, SKETCH_TILE / 4, out + tile + i);
            for (int g = 0; g < GROUPS; g++)
                blocks[g] += STEP / 4;
        }
}

/* The least of `count` differences. */
INLINE uint32_t least(const uint32_t *differences, int count)
{
    uint32_t least = UINT32_MAX;
    for (int i = 0; i < count; i++)
        least = least < differences[i] ? least : differences[i];
    return least;
}

/* List the refused entries of one copy: those rejected by Lemire and those on an earlier copy's row. */
static int64_t list_refused(const uint32_t *out, int64_t stride, uint32_t copy, int64_t count, uint32_t *pending)
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
        if (least(refused, SKETCH_TILE) >= 2)
            continue;
        for (int part = 0; part < SKETCH_TILE; part += SKETCH_PART) {
            if (least(refused + part, SKETCH_PART) >= 2)
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
static int64_t redraw(const struct draw_source *source, uint32_t copy, uint32_t attempt, uint64_t first, int64_t stride,
                      uint32_t *out, uint32_t *pending, int64_t waiting)
{
    int64_t still = 0;
    for (int64_t start = 0; start < waiting; start += STEP / 4) {
        const int live = waiting - start < STEP / 4 ? (int)(waiting - start) : STEP / 4;
        uint32_t numbers[STEP / 4] = {0}, drawn[STEP];
        lanes blocks[GROUPS];
        for (int i = 0; i < live; i++) {
            const uint64_t index = first + pending[start + i];
            numbers[i] = (uint32_t)(index / SKETCH_TILE * (SKETCH_TILE / 4) + index % (SKETCH_TILE / 4));
        }
        load_numbers(numbers, blocks);
        draw_step(source, blocks, attempt, STEP / 4, drawn);
        for (int i = 0; i < live; i++) {
            const uint32_t index = pending[start + i], word = index % SKETCH_TILE / (SKETCH_TILE / 4);
            const uint32_t entry = drawn[word * (STEP / 4) + (uint32_t)i];
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

/* Entries with distinct rows for indices first .. first + count, whole tiles, copy after copy, by sequential
 * rejection. */
static void draw_distinct(const struct sketch_matrix *S, enum sketch_purpose purpose, uint64_t first, int64_t count,
                          int64_t stride, uint32_t *out, uint32_t *pending)
{
    struct draw_source source;
    open_source(&source, S, purpose);
    for (uint32_t copy = 0; copy < S->copies; copy++, source.stream++) {
        draw_first(&source, first, count, out + copy * stride);
        int64_t waiting = list_refused(out, stride, copy, count, pending);
        for (uint32_t attempt = 1; waiting; attempt++)
            waiting = redraw(&source, copy, attempt, first, stride, out, pending, waiting);
    }
}

/* The signs of clients first .. first + count, whole tiles, as 0 and 1: a Philox block has a bit for each of a tile. */
static void draw_signs(const struct draw_source *source, uint64_t first, int64_t count, uint32_t *out)
{
    const int64_t step = STEP / 4 * SKETCH_TILE;
    for (int64_t start = 0; start < count; start += step) {
        const int64_t end = start + step < count ? start + step : count;
        uint64_t numbers[STEP / 4];
        uint32_t words[STEP], *word = words;
        lanes blocks[GROUPS], counter[GROUPS][4];
        for (int i = 0; i < STEP / 4; i++)
            numbers[i] = (first + (uint64_t)start) / SKETCH_TILE + (uint64_t)i;
        memcpy(blocks, numbers, sizeof blocks);
        draw_words(source, blocks, 0, counter);
        for (int g = 0; g < GROUPS; g++)
            store_words(counter[g], words + g * 4 * LANES);
        for (int64_t i = start; i < end; i += 32, word++)
            for (int bit = 0; bit < 32; bit++)
                out[i + bit] = *word >> bit & 1;
    }
}

/* Balanced entries: client i of batch b = i / k takes row (i mod k + shift of b) mod k and the sign of its own bit. */
static void draw_balanced(const struct sketch_matrix *S, uint64_t first, int64_t count, struct sketch_block *block)
{
    const uint32_t rows = S->rows;
    const uint64_t first_batch = first / rows / SKETCH_TILE * SKETCH_TILE;
    const uint64_t last_batch = (first + (uint64_t)count - 1) / rows;
    struct draw_source source;
    open_source(&source, S, SKETCH_CLIENT);
    draw_distinct(S, SKETCH_BATCH, first_batch, sketch_whole_tiles(last_batch - first_batch + 1), block->shift_stride,
                  block->shifts, block->pending);
    for (uint32_t copy = 0; copy < S->copies; copy++, source.stream++) {
        uint32_t *entries = block->entries + copy * block->stride;
        const uint32_t *shift = block->shifts + copy * block->shift_stride + (first / rows - first_batch);
        uint32_t place = (uint32_t)(first % rows);
        draw_signs(&source, first, count, entries);
        for (int64_t i = 0; i < count; shift++, place = 0) {
            const int64_t end = rows - place < count - i ? i + (rows - place) : count;
            for (uint32_t row = place + (*shift >> 1); i < end; i++, row++)
                entries[i] |= (row < rows ? row : row - rows) << 1;
        }
    }
}

/* Draw the entries of clients first .. first + count, whole tiles. */
static void draw(const struct sketch_matrix *S, uint64_t first, int64_t count, struct sketch_block *block)
{
    if (S->family == SKETCH_INDEPENDENT)
        draw_distinct(S, SKETCH_CLIENT, first, count, block->stride, block->entries, block->pending);
    else if (S->family == SKETCH_BALANCED)
        draw_balanced(S, first, count, block);
    else
        memset(block->entries, 0, (size_t)count * sizeof *block->entries);
}

/* One counter through this Philox, for the published known answers. */
static void philox_once(uint32_t counter[4], const uint32_t key[2])
{
    const lanes zero = {0};
    lanes state[GROUPS][4];
    philox_key expanded;
    uint32_t words[4 * LANES];
    for (int g = 0; g < GROUPS; g++)
        for (int w = 0; w < 4; w++)
            state[g][w] = zero + counter[w];
    expand_key(&expanded, key);
    philox(state, &expanded);
    store_words(state[0], words);
    memcpy(counter, words, 4 * sizeof *counter);
}

const struct sketch_draw_kernel EXPORT(sketch_draw) = {philox_once, draw};
