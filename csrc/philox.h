/* Philox4x32-7: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). Seven rounds are
 * the fewest that pass BigCrush.
 *
 * Part of sketch_draw.h and dense_draw.h; each_set.h says what LANES, GROUPS and MULTIPLY_LOW are. GROUPS times LANES
 * counters are encrypted together: one group alone would wait for its own multiplications.
 *
 * Each 64-bit lane carries one 32-bit word of a counter in its lower half. What stands in the upper half is
 * ignored: MULTIPLY_LOW does not read it, and xor never carries it down. */

#define PHILOX_ROUNDS 7

/* The round keys, spread over all lanes once so that rounds need no further broadcast. */
typedef struct {
    NAME(lanes) left[PHILOX_ROUNDS], right[PHILOX_ROUNDS];
} NAME(philox_key);

INLINE void NAME(expand_key)(NAME(philox_key) *expanded, const uint32_t key[2])
{
    const NAME(lanes) zero = {0};
    for (uint32_t round = 0; round < PHILOX_ROUNDS; round++) {
        expanded->left[round] = zero + (key[0] + round * 0x9E3779B9u);
        expanded->right[round] = zero + (key[1] + round * 0xBB67AE85u);
    }
}

/* Encrypt counters in place; counter[g][w] holds word w of group g. */
INLINE void NAME(philox)(NAME(lanes) counter[GROUPS][4], const NAME(philox_key) *key)
{
    for (int round = 0; round < PHILOX_ROUNDS; round++)
        for (int g = 0; g < GROUPS; g++) {
            const NAME(lanes) left = MULTIPLY_LOW(counter[g][0], 0xD2511F53u);
            const NAME(lanes) right = MULTIPLY_LOW(counter[g][2], 0xCD9E8D57u);
            counter[g][0] = (right >> 32) ^ counter[g][1] ^ key->left[round];
            counter[g][1] = right;
            counter[g][2] = (left >> 32) ^ counter[g][3] ^ key->right[round];
            counter[g][3] = left;
        }
}

/* Write the lower halves of one group's lanes: the four words of the first counter, of the second, and so on. */
INLINE void NAME(store_words)(const NAME(lanes) counter[4], uint32_t *words)
{
#if LANES == 1
    for (int w = 0; w < 4; w++)
        words[w] = (uint32_t)counter[w];
#else
    const NAME(lanes) pair01 = (counter[0] & 0xFFFFFFFFu) | (counter[1] << 32);
    const NAME(lanes) pair23 = (counter[2] & 0xFFFFFFFFu) | (counter[3] << 32);
    const NAME(lanes) lower = __builtin_shuffle(pair01, pair23, (NAME(lanes))INTERLEAVE_LOWER);
    const NAME(lanes) upper = __builtin_shuffle(pair01, pair23, (NAME(lanes))INTERLEAVE_UPPER);
    memcpy(words, &lower, sizeof lower);
    memcpy(words + 2 * LANES, &upper, sizeof upper);
#endif
}
