/* Adding a row of X to rows of Y.
 *
 * Rows are not aligned, and 64-byte words of them would straddle cache lines: even with AVX-512 they are added 32 bytes
 * at a time. With -DLANES=1 compilers turn the loops over single words into what vectors they know. */
#ifndef DPMPC_ROWS_H
#define DPMPC_ROWS_H

#include "instruction_set.h"
#include "kernels.h"

#define ROW_LANES (LANES < 4 ? LANES : 4) /* words that are added at a time */

#if LANES >= 2
typedef uint64_t pair __attribute__((vector_size(16)));
typedef double real_pair __attribute__((vector_size(16)));
#endif
#if LANES >= 4
typedef uint64_t quad __attribute__((vector_size(32)));
typedef double real_quad __attribute__((vector_size(32)));
#endif

/* v mod 2^61 - 1, up to p; with a minimum of words the lesser of v and v - p, which wraps around if v < p. */
#define FOLD(v) (((v)&MERSENNE61) + ((v) >> 61))
#if defined(__AVX512VL__)
#define FOLD_PAIR(v) ((pair)_mm_min_epu64((__m128i)(v), (__m128i)((v)-MERSENNE61)))
#define FOLD_QUAD(v) ((quad)_mm256_min_epu64((__m256i)(v), (__m256i)((v)-MERSENNE61)))
#else
#define FOLD_PAIR(v) FOLD(v)
#define FOLD_QUAD(v) FOLD(v)
#endif

/* What turns x into -x by xor: all ones in the ring (-x = (x ^ flip) + 1), p in the field, the sign bit of a double. */
INLINE uint64_t flip_of(enum sketch_kind kind)
{
    return kind == SKETCH_RING ? UINT64_MAX : kind == SKETCH_FIELD ? MERSENNE61 : UINT64_C(1) << 63;
}

/* y += +-x for the 64-bit words of one `word`; `flip` is 0 for + and flip_of(kind) for -. */
#define DEFINE_ADD(name, word, real, FOLDED)                                                                           \
    INLINE void name(enum sketch_kind kind, uint64_t *y, word x, uint64_t flip)                                        \
    {                                                                                                                  \
        word sum;                                                                                                      \
        real a, b;                                                                                                     \
        memcpy(&sum, y, sizeof sum);                                                                                   \
        x ^= flip;                                                                                                     \
        if (kind == SKETCH_RING) {                                                                                     \
            sum += x - flip;                                                                                           \
        } else if (kind == SKETCH_FIELD) {                                                                             \
            sum += x; /* at most (p + 1) + p: the fold leaves at most p + 1 */                                         \
            sum = FOLDED(sum);                                                                                         \
        } else {                                                                                                       \
            memcpy(&a, &sum, sizeof a);                                                                                \
            memcpy(&b, &x, sizeof b);                                                                                  \
            a += b;                                                                                                    \
            memcpy(&sum, &a, sizeof sum);                                                                              \
        }                                                                                                              \
        memcpy(y, &sum, sizeof sum);                                                                                   \
    }
DEFINE_ADD(add_word, uint64_t, double, FOLD)
#if LANES >= 2
DEFINE_ADD(add_pair, pair, real_pair, FOLD_PAIR)
#endif
#if LANES >= 4
DEFINE_ADD(add_quad, quad, real_quad, FOLD_QUAD)
#endif
#undef DEFINE_ADD

#if LANES >= 2
INLINE pair load_pair(const uint64_t *x)
{
    pair words;
    memcpy(&words, x, sizeof words);
    return words;
}
#endif

#if LANES >= 4
INLINE quad load_quad(const uint64_t *x)
{
    quad words;
    memcpy(&words, x, sizeof words);
    return words;
}
#endif

/* A row of X, `width` words, onto a row of Y. */
INLINE void add_row(enum sketch_kind kind, int64_t width, uint64_t *restrict y, const uint64_t *restrict x,
                    uint64_t flip)
{
    int64_t i = 0;
#if LANES >= 4
    for (; i + 4 <= width; i += 4)
        add_quad(kind, y + i, load_quad(x + i), flip);
#endif
#if LANES >= 2
    for (; i + 2 <= width; i += 2)
        add_pair(kind, y + i, load_pair(x + i), flip);
#endif
    for (; i < width; i++)
        add_word(kind, y + i, x[i], flip);
}

#endif
