/* Adding a row of X to a row of Y, for one instruction set. */

#define FOLD(v) (((v) & MERSENNE61) + ((v) >> 61))
#if LANES > 4 /* the lesser of v and v - p, which wraps around if v < p */
#define FOLD2(v) ((sketch_words2)_mm_min_epu64((__m128i)(v), (__m128i)((v) - MERSENNE61)))
#define FOLD4(v) ((sketch_words4)_mm256_min_epu64((__m256i)(v), (__m256i)((v) - MERSENNE61)))
#else
#define FOLD2(v) FOLD(v)
#define FOLD4(v) FOLD(v)
#endif

/* y += +-x for the 64-bit words of one `word`. `flip` is 0 for +; for - it is what turns x into -x: all ones in the
 * ring (-x = (x ^ flip) + 1), p in the field (-x = x ^ p), the sign bit of a double. */
#define DEFINE_ADD(add, word, real, fold)                                                                              \
    INLINE void add(enum sketch_kind kind, uint64_t *restrict y, const uint64_t *restrict x, uint64_t flip)            \
    {                                                                                                                  \
        word sum, term;                                                                                                \
        real a, b;                                                                                                     \
        memcpy(&sum, y, sizeof sum);                                                                                   \
        memcpy(&term, x, sizeof term);                                                                                 \
        term ^= flip;                                                                                                  \
        if (kind == SKETCH_RING) {                                                                                     \
            sum += term - flip;                                                                                        \
        } else if (kind == SKETCH_FIELD) {                                                                             \
            sum += term; /* at most (p + 1) + p: the fold leaves at most p + 1 */                                      \
            sum = fold(sum);                                                                                           \
        } else {                                                                                                       \
            memcpy(&a, &sum, sizeof a);                                                                                \
            memcpy(&b, &term, sizeof b);                                                                               \
            a += b;                                                                                                    \
            memcpy(&sum, &a, sizeof sum);                                                                              \
        }                                                                                                              \
        memcpy(y, &sum, sizeof sum);                                                                                   \
    }

DEFINE_ADD(NAME(add1), uint64_t, double, FOLD)
#if LANES > 1
DEFINE_ADD(NAME(add2), sketch_words2, sketch_reals2, FOLD2)
#endif
#if LANES > 2
DEFINE_ADD(NAME(add4), sketch_words4, sketch_reals4, FOLD4)
#endif
#undef DEFINE_ADD
#undef FOLD
#undef FOLD2
#undef FOLD4

/* What `flip` is for -. */
INLINE uint64_t NAME(minus)(enum sketch_kind kind)
{
    return kind == SKETCH_RING ? UINT64_MAX : kind == SKETCH_FIELD ? MERSENNE61 : UINT64_C(1) << 63;
}

/* The words that went by, or-ed with their successors: some bit above the 60th is set if one was p or more. */
typedef struct {
#if LANES > 2
    sketch_words4 four;
#endif
    uint64_t one;
} NAME(seen);

INLINE void NAME(see_row)(int64_t width, const uint64_t *x, NAME(seen) *seen)
{
    int64_t i = 0;
#if LANES > 2
    for (; i + 4 <= width; i += 4) {
        sketch_words4 word;
        memcpy(&word, x + i, sizeof word);
        seen->four |= word | (word + 1);
    }
#endif
    for (; i < width; i++)
        seen->one |= x[i] | (x[i] + 1);
}

INLINE int NAME(all_canonical)(const NAME(seen) *seen)
{
    uint64_t any = seen->one;
#if LANES > 2
    for (int i = 0; i < 4; i++)
        any |= seen->four[i];
#endif
    return any >> 61 == 0;
}

/* A row of X, `width` words, onto a row of Y. */
INLINE void NAME(add_row)(enum sketch_kind kind, int64_t width, uint64_t *restrict y, const uint64_t *restrict x,
                          uint64_t flip)
{
    int64_t i = 0;
#if LANES > 2
    for (; i + 4 <= width; i += 4)
        NAME(add4)(kind, y + i, x + i, flip);
#endif
#if LANES > 1
    for (; i + 2 <= width; i += 2)
        NAME(add2)(kind, y + i, x + i, flip);
#endif
    for (; i < width; i++)
        NAME(add1)(kind, y + i, x + i, flip);
}

#if LANES > 2
/* A row of X with fewer than 12 words, or its negative: small enough for the registers. */
typedef struct {
    sketch_words4 four[2];
    sketch_words2 two;
    uint64_t one;
} NAME(row);

/* What x stands for with the sign that `flip` says; see add1. */
#define SIGNED(x) (kind == SKETCH_RING ? ((x) ^ flip) - flip : (x) ^ flip)

INLINE void NAME(load_row)(enum sketch_kind kind, int64_t width, const uint64_t *x, uint64_t flip, NAME(row) *row)
{
    for (int64_t v = 0; v < width / 4; v++) {
        memcpy(&row->four[v], x + 4 * v, sizeof row->four[v]);
        row->four[v] = SIGNED(row->four[v]);
    }
    if (width & 2) {
        memcpy(&row->two, x + (width & ~INT64_C(3)), sizeof row->two);
        row->two = SIGNED(row->two);
    }
    if (width & 1)
        row->one = SIGNED(x[width - 1]);
}
#undef SIGNED

/* Add the row that an entry's sign asks for. The sign is moved to the top of every lane, where blendv reads it. */
INLINE void NAME(add_either)(enum sketch_kind kind, int64_t width, uint64_t *y, const NAME(row) *plus,
                             const NAME(row) *minus, uint32_t entry)
{
    const __m256d sign = (__m256d)_mm256_slli_epi32(_mm256_set1_epi32((int)entry), 31);
    for (int64_t v = 0; v < width / 4; v++) {
        const sketch_words4 term =
            (sketch_words4)_mm256_blendv_pd((__m256d)plus->four[v], (__m256d)minus->four[v], sign);
        NAME(add4)(kind, y + 4 * v, (const uint64_t *)&term, 0);
    }
    if (width & 2) {
        const sketch_words2 term =
            (sketch_words2)_mm_blendv_pd((__m128d)plus->two, (__m128d)minus->two, _mm256_castpd256_pd128(sign));
        NAME(add2)(kind, y + (width & ~INT64_C(3)), (const uint64_t *)&term, 0);
    }
    if (width & 1)
        NAME(add1)(kind, y + width - 1, entry & 1 ? &minus->one : &plus->one, 0);
}
#endif
