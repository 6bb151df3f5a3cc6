/* Philox4x32-7: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). Seven rounds are
 * the fewest that pass BigCrush.
 *
 * GROUPS times LANES counters are encrypted together. Each 64-bit lane carries one 32-bit word of a counter in its
 * lower half. What stands in the upper half is ignored: multiply_low does not read it, and xor never carries it
 * down. */
#ifndef DPMPC_PHILOX_H
#define DPMPC_PHILOX_H

#include "instruction_set.h"

#define PHILOX_ROUNDS 7

/* The round keys, spread over all lanes once so that rounds need no further broadcast. */
typedef struct {
    lanes left[PHILOX_ROUNDS], right[PHILOX_ROUNDS];
} philox_key;

INLINE void expand_key(philox_key *expanded, const uint32_t key[2])
{
    const lanes zero = {0};
    for (uint32_t round = 0; round < PHILOX_ROUNDS; round++) {
        expanded->left[round] = zero + (uint32_t)(key[0] + round * 0x9E3779B9u);
        expanded->right[round] = zero + (uint32_t)(key[1] + round * 0xBB67AE85u);
    }
}

/* Encrypt counters in place; counter[g][w] holds word w of group g. */
INLINE void philox(lanes counter[GROUPS][4], const philox_key *key)
{
    for (int round = 0; round < PHILOX_ROUNDS; round++)
        for (int g = 0; g < GROUPS; g++) {
            const lanes left = multiply_low(counter[g][0], 0xD2511F53u);
            const lanes right = multiply_low(counter[g][2], 0xCD9E8D57u);
            counter[g][0] = (right >> 32) ^ counter[g][1] ^ key->left[round];
            counter[g][1] = right;
            counter[g][2] = (left >> 32) ^ counter[g][3] ^ key->right[round];
            counter[g][3] = left;
        }
}

/* Write the lower halves of one group's lanes: the four words of the first counter, of the second, and so on. */
INLINE void store_words(const lanes counter[4], uint32_t *words)
{
#if LANES == 1
    for (int w = 0; w < 4; w++)
        words[w] = (uint32_t)counter[w];
#else
    const lanes pair01 = (counter[0] & UINT32_MAX) | (counter[1] << 32);
    const lanes pair23 = (counter[2] & UINT32_MAX) | (counter[3] << 32);
    const lanes lower = INTERLEAVE_LOWER(pair01, pair23);
    const lanes upper = INTERLEAVE_UPPER(pair01, pair23);
    memcpy(words, &lower, sizeof lower);
    memcpy(words + 2 * LANES, &upper, sizeof upper);
#endif
}

#endif
