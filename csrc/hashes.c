/* SHA-256 (FIPS 180-4) of many texts of one length, a text in each lane of a vector.
 *
 * Nothing indexes memory or branches by what is hashed, so that keys may be. */

#include "instruction_set.h"
#include "kernels.h"

#if LANES > 1
#define TEXTS (2 * LANES) /* hashed side by side */
typedef halves word;
#else
#define TEXTS 1
typedef uint32_t word;
#endif

#define BLOCK_BYTES 64
#define LENGTH_BYTES 8
#define ROUNDS 64
#define STATE_WORDS 8
#define BLOCK_WORDS 16

static const uint32_t K[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static const uint32_t START[STATE_WORDS] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                            0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

INLINE word rotate(word x, int count) { return (x >> count) | (x << (32 - count)); }

/* FIPS 180-4, section 6.2.2; W is overwritten. */
INLINE void compress(word state[STATE_WORDS], word W[BLOCK_WORDS])
{
    word a = state[0], b = state[1], c = state[2], d = state[3];
    word e = state[4], f = state[5], g = state[6], h = state[7];
    for (int first = 0; first < ROUNDS; first += BLOCK_WORDS) {
        _Pragma("GCC unroll 16") for (int t = 0; t < BLOCK_WORDS; t++)
        {
            if (first) {
                const word x = W[(t + 1) % BLOCK_WORDS], y = W[(t + 14) % BLOCK_WORDS];
                W[t] += (rotate(x, 7) ^ rotate(x, 18) ^ (x >> 3)) + W[(t + 9) % BLOCK_WORDS] +
                        (rotate(y, 17) ^ rotate(y, 19) ^ (y >> 10));
            }
            const word sum = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + (g ^ (e & (f ^ g))) + K[first + t] + W[t];
            const word next = sum + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) | (c & (a | b)));
            h = g, g = f, f = e, e = d + sum, d = c, c = b, b = a, a = next;
        }
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

INLINE uint32_t big_endian(const uint8_t *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    value = __builtin_bswap32(value);
#endif
    return value;
}

INLINE void set(word *to, int lane, uint32_t value)
{
#if LANES > 1
    (*to)[lane] = value;
#else
    (void)lane, *to = value;
#endif
}

INLINE uint32_t get(word from, int lane)
{
#if LANES > 1
    return from[lane];
#else
    return (void)lane, from;
#endif
}

/* A text is `head`, which all share, then a row of its own. */
struct text {
    const uint8_t *head;
    size_t head_bytes, row_bytes;
};

/* Copy what of [start, start + size) lies in the block that begins at `at`. */
INLINE void copy_part(uint8_t block[BLOCK_BYTES], size_t at, const uint8_t *part, size_t start, size_t size)
{
    const size_t first = start > at ? start : at;
    const size_t last = start + size < at + BLOCK_BYTES ? start + size : at + BLOCK_BYTES;
    if (first < last)
        memcpy(block + (first - at), part + (first - start), last - first);
}

/* Return the block of a padded text that begins at `at`: in `block`, or where it lies in the row. */
INLINE const uint8_t *block_of(const struct text *text, const uint8_t *row, size_t at, uint8_t block[BLOCK_BYTES])
{
    const size_t size = text->head_bytes + text->row_bytes;
    if (at >= text->head_bytes && at + BLOCK_BYTES <= size)
        return row + (at - text->head_bytes);
    memset(block, 0, BLOCK_BYTES);
    copy_part(block, at, text->head, 0, text->head_bytes);
    copy_part(block, at, row, text->head_bytes, text->row_bytes);
    if (size >= at && size < at + BLOCK_BYTES)
        block[size - at] = 0x80;
    if (at + BLOCK_BYTES >= size + 1 + LENGTH_BYTES)
        for (int i = 0; i < LENGTH_BYTES; i++)
            block[BLOCK_BYTES - 1 - i] = (uint8_t)(8 * (uint64_t)size >> 8 * i);
    return block;
}

static void sha256(const uint8_t *head, size_t head_bytes, const uint8_t *rows, size_t count, size_t row_bytes,
                   uint8_t *digests)
{
    const struct text text = {head, head_bytes, row_bytes};
    const size_t end = (head_bytes + row_bytes + LENGTH_BYTES) / BLOCK_BYTES * BLOCK_BYTES + BLOCK_BYTES;
    const size_t common = head_bytes / BLOCK_BYTES * BLOCK_BYTES;
    word begin[STATE_WORDS], state[STATE_WORDS], W[BLOCK_WORDS];
    uint8_t block[BLOCK_BYTES];
    for (int i = 0; i < STATE_WORDS; i++)
        begin[i] = START[i] - (word){0};
    for (size_t at = 0; at < common; at += BLOCK_BYTES) {
        for (int t = 0; t < BLOCK_WORDS; t++)
            W[t] = big_endian(head + at + 4 * t) - (word){0};
        compress(begin, W);
    }
    for (size_t first = 0; first < count; first += TEXTS) {
        memcpy(state, begin, sizeof state);
        for (size_t at = common; at < end; at += BLOCK_BYTES) {
            for (int lane = 0; lane < TEXTS; lane++) { /* the last text is hashed again where there are no more */
                const size_t row = first + (size_t)lane < count ? first + (size_t)lane : count - 1;
                const uint8_t *bytes = block_of(&text, rows + row_bytes * row, at, block);
                for (int t = 0; t < BLOCK_WORDS; t++)
                    set(W + t, lane, big_endian(bytes + 4 * t));
            }
            compress(state, W);
        }
        for (int lane = 0; lane < TEXTS && first + (size_t)lane < count; lane++)
            for (int i = 0; i < STATE_WORDS; i++)
                for (int byte = 0; byte < 4; byte++)
                    digests[32 * (first + (size_t)lane) + (size_t)(4 * i + byte)] =
                        (uint8_t)(get(state[i], lane) >> (24 - 8 * byte));
    }
    void *(*const volatile overwrite)(void *, int, size_t) = memset; /* what is hashed may be a key */
    overwrite(block, 0, sizeof block);
    overwrite(W, 0, sizeof W);
}

const struct hash_kernel EXPORT(hash) = {sha256};
