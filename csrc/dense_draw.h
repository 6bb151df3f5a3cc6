/* Drawing the signs of a block of clients, for one instruction set. "Derivation" in dpmpc/sketching/__init__.py is the
 * specification. */

#if LANES > 1
typedef uint64_t NAME(lanes) __attribute__((vector_size(8 * LANES)));
#else
typedef uint64_t NAME(lanes);
#endif

#include "philox.h"

/* Draw the words of block `block` for all rows, [row][4]; rows are rounded up to a multiple of DENSE_STEP. */
static void NAME(draw)(const struct dense_matrix *S, uint32_t block, uint32_t *signs)
{
    const NAME(lanes) zero = {0};
    uint64_t numbers[GROUPS * LANES];
    NAME(lanes) rows[GROUPS], counter[GROUPS][4];
    NAME(philox_key) key;
    NAME(expand_key)(&key, S->key);
    for (int i = 0; i < GROUPS * LANES; i++)
        numbers[i] = (uint64_t)i;
    memcpy(rows, numbers, sizeof rows);
    for (uint32_t row = 0; row < S->rows; row += GROUPS * LANES) {
        for (int g = 0; g < GROUPS; g++) {
            counter[g][0] = zero + block;
            counter[g][1] = rows[g];
            counter[g][2] = zero + S->nonce[0];
            counter[g][3] = zero + S->nonce[1];
            rows[g] += GROUPS * LANES;
        }
        NAME(philox)(counter, &key);
        for (int g = 0; g < GROUPS; g++)
            NAME(store_words)(counter[g], signs + 4 * ((size_t)row + (size_t)(g * LANES)));
    }
}
