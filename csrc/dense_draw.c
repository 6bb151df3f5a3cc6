/* Drawing the signs of a dense public matrix. "Derivation" in dpmpc/linear/sketching/__init__.py is the specification. */

#include "kernels.h"
#include "philox.h"

/* Draw the words of block `block` for all rows, [row][4]; rows are rounded up to a multiple of DENSE_STEP. */
static void draw(const struct dense_matrix *S, uint32_t block, uint32_t *signs)
{
    const lanes zero = {0};
    uint64_t numbers[GROUPS * LANES];
    lanes rows[GROUPS], counter[GROUPS][4];
    philox_key key;
    expand_key(&key, S->key);
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
        philox(counter, &key);
        for (int g = 0; g < GROUPS; g++)
            store_words(counter[g], signs + 4 * ((size_t)row + (size_t)(g * LANES)));
    }
}

const struct dense_draw_kernel EXPORT(dense_draw) = {draw};
