/* Key streams of many keys by the processor's AES instructions: AES-CTR from block 0, of 128 or 256 bits.
 *
 * Every instruction used takes the same time for all operands, and nothing indexes memory or branches by a key or a key
 * stream; the array of round keys is overwritten before a call returns. There is no AES in plain C here: its tables
 * would leak through the cache. Where these instructions are missing callers use OpenSSL (dpmpc/base/randomness.py).
 *
 * The file has flags of its own for these instructions (instruction_sets.toml) and runs none of them before the processor
 * has been asked. A portable build compiles it without. */

#include "kernels.h"

#include <stddef.h>
#include <string.h>

#if defined(__x86_64__) && defined(__AES__) && defined(__SSSE3__) && !defined(DPMPC_GENERIC)

#include <immintrin.h>
#define HAVE_KERNEL
typedef __m128i block;

static int usable(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("aes") && __builtin_cpu_supports("ssse3");
}

#elif defined(__aarch64__) && (defined(__ARM_FEATURE_AES) || defined(__ARM_FEATURE_CRYPTO)) &&                           \
    !defined(__ARM_BIG_ENDIAN) && !defined(DPMPC_GENERIC) && (defined(__linux__) || defined(__APPLE__))

#include <arm_neon.h>
#ifdef __linux__
#include <sys/auxv.h>
#define HAS_AES (UINT64_C(1) << 3) /* HWCAP_AES */
#endif
#define HAVE_KERNEL
typedef uint8x16_t block;

static int usable(void)
{
#ifdef __linux__
    return (getauxval(AT_HWCAP) & HAS_AES) != 0;
#else
    return 1; /* every 64-bit processor of Apple's */
#endif
}

#endif

#ifdef HAVE_KERNEL

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")
#define BLOCK_BYTES 16
#define MOST_ROUNDS 14
#define TOGETHER 4 /* keys whose schedules are made side by side: each step waits for the one before */
#define AT_ONCE 8  /* blocks that are encrypted side by side */

#ifdef __x86_64__

INLINE block load(const uint8_t *from) { return _mm_loadu_si128((const block *)from); }
INLINE void store(uint8_t *to, block x) { _mm_storeu_si128((block *)to, x); }
INLINE block counter(uint64_t i) { return _mm_set_epi64x((long long)__builtin_bswap64(i), 0); }
INLINE block exclusive_or(block a, block b) { return _mm_xor_si128(a, b); }

/* What one middle round, and the last one, do to a block that was `begin`-ned, with the key before and their own. */
INLINE block begin(block x, block key) { return _mm_xor_si128(x, key); }
INLINE block middle(block x, block before, block key) { return (void)before, _mm_aesenc_si128(x, key); }
INLINE block end(block x, block before, block key) { return (void)before, _mm_aesenclast_si128(x, key); }

/* SubWord of a round key's last word in all four, rotated and with a constant, or neither: in four equal columns the
 * last round's ShiftRows changes nothing. */
INLINE block rotated(block key, uint32_t constant)
{
    const block last = _mm_set1_epi32(0x0c0f0e0d); /* bytes 13, 14, 15, 12 */
    return _mm_aesenclast_si128(_mm_shuffle_epi8(key, last), _mm_set1_epi32((int)constant));
}
INLINE block unrotated(block key) { return _mm_aesenclast_si128(_mm_shuffle_epi32(key, 0xff), _mm_setzero_si128()); }

/* The exclusive or of each word with all words before it. */
INLINE block prefixes(block x)
{
    x = _mm_xor_si128(x, _mm_slli_si128(x, 4));
    return _mm_xor_si128(x, _mm_slli_si128(x, 8));
}

#else

INLINE block load(const uint8_t *from) { return vld1q_u8(from); }
INLINE void store(uint8_t *to, block x) { vst1q_u8(to, x); }
INLINE block counter(uint64_t i)
{
    return vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(0), vcreate_u64(__builtin_bswap64(i))));
}
INLINE block exclusive_or(block a, block b) { return veorq_u8(a, b); }

/* AESE adds its key first, so that a round takes the key before its own. */
INLINE block begin(block x, block key) { return (void)key, x; }
INLINE block middle(block x, block before, block key) { return (void)key, vaesmcq_u8(vaeseq_u8(x, before)); }
INLINE block end(block x, block before, block key) { return veorq_u8(vaeseq_u8(x, before), key); }

INLINE block unrotated(block key)
{
    const block last = vreinterpretq_u8_u32(vdupq_laneq_u32(vreinterpretq_u32_u8(key), 3));
    return vaeseq_u8(last, vdupq_n_u8(0));
}
INLINE block rotated(block key, uint32_t constant)
{
    const uint32x4_t words = vreinterpretq_u32_u8(unrotated(key)); /* little-endian: RotWord is a shift to the right */
    return vreinterpretq_u8_u32(
        veorq_u32(vorrq_u32(vshrq_n_u32(words, 8), vshlq_n_u32(words, 24)), vdupq_n_u32(constant)));
}
INLINE block prefixes(block x)
{
    const block zero = vdupq_n_u8(0);
    x = veorq_u8(x, vextq_u8(zero, x, 12));
    return veorq_u8(x, vextq_u8(zero, x, 8));
}

#endif

/* Rcon, FIPS 197, section 5.2. */
static const uint8_t constants[] = {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x1b, 0x36};

/* The compiler may not leave out a call that it does not know. */
static void *(*const volatile overwrite)(void *, int, size_t) = memset;

/* KeyExpansion, FIPS 197, section 5.2, of `count` keys of 16 or 32 bytes. */
INLINE void schedule(const uint8_t *keys, int length, int count, block round_keys[TOGETHER][MOST_ROUNDS + 1])
{
    const int half = length / BLOCK_BYTES, rounds = 6 + length / 4;
    for (int j = 0; j < count; j++)
        for (int i = 0; i < half; i++)
            round_keys[j][i] = load(keys + length * j + BLOCK_BYTES * i);
    UNROLL for (int i = half; i <= rounds; i++)
    {
        for (int j = 0; j < count; j++) {
            block *const key = round_keys[j] + i;
            const block word = i % half ? unrotated(key[-1]) : rotated(key[-1], constants[i / half - 1]);
            *key = exclusive_or(prefixes(key[-half]), word);
        }
    }
}

/* Encrypt blocks first .. first + at_once and write the first `bytes` bytes of them, whole blocks or one half more. */
INLINE void encrypt(const block *round_keys, int rounds, int at_once, uint64_t first, size_t bytes, uint8_t *out)
{
    block x[AT_ONCE];
    uint8_t last[BLOCK_BYTES];
    UNROLL for (int q = 0; q < at_once; q++) x[q] = begin(counter(first + (uint64_t)q), round_keys[0]);
    UNROLL for (int i = 1; i < rounds; i++)
    {
        UNROLL for (int q = 0; q < at_once; q++) x[q] = middle(x[q], round_keys[i - 1], round_keys[i]);
    }
    UNROLL for (int q = 0; q < at_once; q++) x[q] = end(x[q], round_keys[rounds - 1], round_keys[rounds]);
    UNROLL for (int q = 0; q < at_once; q++)
    {
        const size_t at = BLOCK_BYTES * (size_t)q;
        if (bytes >= at + BLOCK_BYTES)
            store(out + at, x[q]);
        else if (bytes > at) {
            store(last, x[q]);
            memcpy(out + at, last, BLOCK_BYTES / 2);
        }
    }
}

INLINE void fill_of(const uint8_t *keys, size_t count, int length, size_t words, uint8_t *out)
{
    const int rounds = 6 + length / 4;
    const size_t each = 8 * words;
    block round_keys[TOGETHER][MOST_ROUNDS + 1];
    for (size_t first = 0; first < count; first += TOGETHER) {
        const int together = count - first < TOGETHER ? (int)(count - first) : TOGETHER;
        if (together == TOGETHER)
            schedule(keys + (size_t)length * first, length, TOGETHER, round_keys);
        else
            schedule(keys + (size_t)length * first, length, together, round_keys);
        for (int j = 0; j < together; j++) {
            uint8_t *const row = out + each * (first + (size_t)j);
            size_t at = 0;
            for (; each - at > AT_ONCE / 2 * BLOCK_BYTES; at += AT_ONCE * BLOCK_BYTES) {
                const size_t left = each - at, most = AT_ONCE * BLOCK_BYTES;
                encrypt(round_keys[j], rounds, AT_ONCE, at / BLOCK_BYTES, left < most ? left : most, row + at);
                if (left <= most)
                    break;
            }
            if (each - at <= AT_ONCE / 2 * BLOCK_BYTES && each > at)
                encrypt(round_keys[j], rounds, AT_ONCE / 2, at / BLOCK_BYTES, each - at, row + at);
        }
    }
    overwrite(round_keys, 0, sizeof round_keys);
}

static void fill(const uint8_t *keys, size_t count, int length, size_t words, uint8_t *out)
{
    if (length == 16)
        fill_of(keys, count, 16, words, out);
    else
        fill_of(keys, count, 32, words, out);
}

static const struct keys_kernel aes = {fill};

const struct keys_kernel *keys_here(void) { return usable() ? &aes : NULL; }

#else

const struct keys_kernel *keys_here(void) { return NULL; }

#endif
