/* Adding a row of X to a row of Y, for one instruction set. */

/* y += +-x for the 64-bit words of one `word`. `flip` is 0 for +; for - it is what turns x into -x: all ones in the
 * ring (-x = (x ^ flip) + 1), p in the field (-x = x ^ p), the sign bit of a double. */
#define DEFINE_ADD(add, word, real)                                                                                    \
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
            sum = (sum & MERSENNE61) + (sum >> 61);                                                                    \
        } else {                                                                                                       \
            memcpy(&a, &sum, sizeof a);                                                                                \
            memcpy(&b, &term, sizeof b);                                                                               \
            a += b;                                                                                                    \
            memcpy(&sum, &a, sizeof sum);                                                                              \
        }                                                                                                              \
        memcpy(y, &sum, sizeof sum);                                                                                   \
    }

DEFINE_ADD(NAME(add1), uint64_t, double)
#if LANES > 1
DEFINE_ADD(NAME(add2), sketch_words2, sketch_reals2)
#endif
#if LANES > 2
DEFINE_ADD(NAME(add4), sketch_words4, sketch_reals4)
#endif
#undef DEFINE_ADD

/* What `flip` is for -. */
INLINE uint64_t NAME(minus)(enum sketch_kind kind)
{
    return kind == SKETCH_RING ? UINT64_MAX : kind == SKETCH_FIELD ? MERSENNE61 : UINT64_C(1) << 63;
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
