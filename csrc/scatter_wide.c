/* Y += S X for one block of clients of a sparse public matrix, whose entries have been drawn: rows of more than 16 words.
 *
 * A pass over a row of X adds it to the rows of up to eight copies together, so that many rows of Y are under way at a
 * time. Where Y is larger than a second-level cache, the rows that a later client meets are prefetched. With one copy
 * they always are, and most of the time goes into reading X: where Y takes a third of that cache or more, X is
 * prefetched past it, since every line of X would else evict one of Y. */

#include "scatter.h"

#if LANES >= 2
#define LARGE (INT64_C(1) << 17)   /* words of Y above which its rows are prefetched, of several copies: 1 MiB */
#define CROWDED (INT64_C(3) << 14) /* words of Y that are much of a second-level cache: 384 KiB */
#define LONG 64                    /* words of a row of X from which on it is prefetched past that cache in any case */
#define SOON 3                     /* clients until the one whose row of Y is prefetched, for one copy */
#define TOGETHER 8                 /* rows of Y that take a row of X in one pass, at most */

/* How many copies there are: several, one, or one whose X is prefetched past the second-level cache. */
enum { SEVERAL, ALONE, ALONE_CROWDED };

/* Where there is one copy, prefetch what is read of X later. */
INLINE void prefetch_alone(int alone, const uint64_t *x)
{
    if (alone == ALONE)
        PREFETCH((uintptr_t)x + AHEAD);
    if (alone == ALONE_CROWDED)
        PREFETCH_ONCE((uintptr_t)x + AHEAD_ONCE);
}

/* Rows of Y that take a client's row of X together, and what turns it into its negative. */
struct meeting {
    uint64_t *y[TOGETHER], *next[TOGETHER]; /* `next`: rows that a later client meets */
    uint64_t flip[TOGETHER];
    int64_t apart; /* words from one copy's row of X to the next copy's; 0 if all copies take one */
};

/* Add the words of X from i on that are one `word` to `together` rows of Y. If all copies take them they are read once:
 * behind the first row of Y the compiler could not know that they are still the same. */
#define DEFINE_ADD_TO_ALL(name, word, add, load)                                                                       \
    INLINE void name(enum sketch_kind kind, int together, const struct meeting *at, const uint64_t *x, int64_t i)      \
    {                                                                                                                  \
        const word words = load(x + i);                                                                                \
        for (int j = 0; j < together; j++)                                                                             \
            add(kind, at->y[j] + i, at->apart ? load(x + j * at->apart + i) : words, at->flip[j]);                     \
    }
#if LANES >= 4
DEFINE_ADD_TO_ALL(add_quads, quad, add_quad, load_quad)
#else
DEFINE_ADD_TO_ALL(add_pairs, pair, add_pair, load_pair)
DEFINE_ADD_TO_ALL(add_words, uint64_t, add_word, *)
#endif
#undef DEFINE_ADD_TO_ALL

/* The last words of a row, fewer than four, from word i on. */
INLINE void add_rest(enum sketch_kind kind, int together, int64_t width, const struct meeting *at, const uint64_t *x,
                     int64_t i)
{
#if LANES >= 4
    const quad words = load_part(width - i, x + i);
    for (int j = 0; j < together; j++)
        add_quad(kind, at->y[j] + i, at->apart ? load_part(width - i, x + j * at->apart + i) : words, at->flip[j]);
#else
    if (width & 2) {
        add_pairs(kind, together, at, x, i);
        i += 2;
    }
    if (width & 1)
        add_words(kind, together, at, x, i);
#endif
}

/* Add a line of a row, from word i on, to `together` rows of Y, prefetching a later client's rows of Y (`fetch`) and,
 * where there is one copy (`alone`), what is read of X later. */
INLINE void add_line(enum sketch_kind kind, int together, int alone, int fetch, const struct meeting *at,
                     const uint64_t *x, int64_t i)
{
    prefetch_alone(alone, x + i);
    if (fetch)
        for (int j = 0; j < together; j++)
            PREFETCH_TO_WRITE(at->next[j] + i);
#if LANES >= 4
    add_quads(kind, together, at, x, i);
    add_quads(kind, together, at, x, i + 4);
#else
    for (int pair = 0; pair < LINE; pair += 2)
        add_pairs(kind, together, at, x, i + pair);
#endif
}

/* Several lines, without a loop. */
#define DEFINE_LINES(name, lines, half)                                                                                \
    INLINE void name(enum sketch_kind kind, int together, int alone, int fetch, const struct meeting *at,              \
                     const uint64_t *x, int64_t i)                                                                     \
    {                                                                                                                  \
        half(kind, together, alone, fetch, at, x, i);                                                                  \
        half(kind, together, alone, fetch, at, x, i + lines / 2 * LINE);                                               \
    }
DEFINE_LINES(add_2_lines, 2, add_line)
DEFINE_LINES(add_4_lines, 4, add_2_lines)
DEFINE_LINES(add_8_lines, 8, add_4_lines)
DEFINE_LINES(add_16_lines, 16, add_8_lines)
#undef DEFINE_LINES

/* One client's row onto the rows of `together` copies. `later` are the entries of the client for whom rows of Y are
 * prefetched meanwhile. All but `width`, `pitch` and `stride` are
 * constants.
 *
 * Where a short loop ends is often not foreseen by the processor, which then loses the time of several lines. For one
 * copy that is much: rows of up to 127 words are added without a loop, by tests of single bits of the width, which come
 * out the same for every client. */
INLINE void add_together(enum sketch_kind kind, int shared, int together, int alone, int fetch, int64_t width,
                         int64_t pitch, int64_t stride, const uint32_t *entries, const uint32_t *later,
                         const uint64_t *x, uint64_t *Y)
{
    struct meeting at = {.apart = shared ? 0 : width};
    int64_t i = 0;
    for (int j = 0; j < together; j++) {
        const uint32_t entry = entries[j * stride];
        at.y[j] = Y + (size_t)(entry >> 1) * (size_t)pitch;
        at.flip[j] = flip_of(kind) & -(uint64_t)(entry & 1);
        if (fetch)
            at.next[j] = Y + (size_t)(later[j * stride] >> 1) * (size_t)pitch;
    }
#define ADD_LINES(lines, add)                                                                                          \
    do {                                                                                                               \
        add(kind, together, alone, fetch, &at, x, i);                                                                  \
        i += lines * LINE;                                                                                             \
    } while (0)
    if (alone) {
        while (i + 16 * LINE <= width)
            ADD_LINES(16, add_16_lines);
        if (width & 8 * LINE)
            ADD_LINES(8, add_8_lines);
        if (width & 4 * LINE)
            ADD_LINES(4, add_4_lines);
        if (width & 2 * LINE)
            ADD_LINES(2, add_2_lines);
        if (width & LINE)
            ADD_LINES(1, add_line);
    } else {
        while (i + LINE <= width)
            ADD_LINES(1, add_line);
    }
#undef ADD_LINES
    prefetch_alone(alone, x + width - 1);
    if (fetch)
        for (int j = 0; j < together; j++)
            PREFETCH_TO_WRITE(at.next[j] + width - 1);
    if (width & 4) {
        prefetch_alone(alone, x + i); /* else a line between the last whole one and the row's end is left out */
#if LANES >= 4
        add_quads(kind, together, &at, x, i);
#else
        add_pairs(kind, together, &at, x, i);
        add_pairs(kind, together, &at, x, i + 2);
#endif
        i += 4;
    }
    if (width & 3)
        add_rest(kind, together, width, &at, x, i);
}

INLINE int scatter_rows(enum sketch_kind kind, int shared, int alone, int fetch, const struct sketch_terms *terms,
                        uint64_t *Y)
{
    const uint32_t copies = alone ? 1 : terms->copies;
    const int64_t width = terms->width, pitch = terms->pitch, stride = terms->stride, count = terms->count;
    const int64_t step = shared ? width : width * copies;
    const uint32_t *all = terms->entries;
    const uint64_t *X = terms->X;
    struct seen seen = {0};
    for (int64_t c = 0; c < count; c++, X += step) {
        const int64_t soon = alone ? SOON : 1;
        const uint32_t *entries = all + c, *later = entries + (c + soon < count ? soon : 0);
        const uint64_t *x = X;
        if (!alone)
            prefetch_row(step, X);
        if (kind == SKETCH_FIELD)
            see_row(step, X, &seen);
#define ADD_TO(number)                                                                                                 \
    do {                                                                                                               \
        add_together(kind, shared, number, alone, fetch, width, pitch, stride, entries, later, x, Y);                         \
        entries += number * stride;                                                                                    \
        later += number * stride;                                                                                      \
        x += shared ? 0 : number * width;                                                                              \
    } while (0)
        for (uint32_t eight = copies / TOGETHER; eight; eight--)
            ADD_TO(TOGETHER);
        if (copies & 4)
            ADD_TO(4);
        if (copies & 2)
            ADD_TO(2);
        if (copies & 1)
            ADD_TO(1);
#undef ADD_TO
    }
    return all_canonical(&seen);
}

/* One copy, X prefetched into the second-level cache. A function of its own: where the compiler sees that rows are
 * shorter than `LONG` it drops tests of their width, and GCC 12's code for the rest takes a sixth longer. */
#define DEFINE_ALONE(name, kind)                                                                                       \
    static __attribute__((noinline)) int name(const struct sketch_terms *terms, uint64_t *Y)                           \
    {                                                                                                                  \
        return scatter_rows(kind, 1, ALONE, 1, terms, Y);                                                              \
    }
DEFINE_ALONE(alone_ring, SKETCH_RING)
DEFINE_ALONE(alone_field, SKETCH_FIELD)
DEFINE_ALONE(alone_real, SKETCH_REAL)
#undef DEFINE_ALONE

INLINE int scatter_kind(enum sketch_kind kind, const struct sketch_terms *terms, uint64_t *Y)
{
    const int64_t words = terms->rows * terms->pitch;
    if (!terms->shared)
        return scatter_rows(kind, 0, SEVERAL, 0, terms, Y);
    if (terms->copies == 1 && (words > CROWDED || terms->width >= LONG))
        return scatter_rows(kind, 1, ALONE_CROWDED, 1, terms, Y);
    if (terms->copies == 1)
        return kind == SKETCH_RING    ? alone_ring(terms, Y)
               : kind == SKETCH_FIELD ? alone_field(terms, Y)
                                      : alone_real(terms, Y);
    return words > LARGE ? scatter_rows(kind, 1, SEVERAL, 1, terms, Y) : scatter_rows(kind, 1, SEVERAL, 0, terms, Y);
}

static int scatter(const struct sketch_terms *terms, uint64_t *Y)
{
    switch (terms->kind) {
        case SKETCH_RING:
            return scatter_kind(SKETCH_RING, terms, Y);
        case SKETCH_FIELD:
            return scatter_kind(SKETCH_FIELD, terms, Y);
        default:
            return scatter_kind(SKETCH_REAL, terms, Y);
    }
}

const struct scatter_wide_kernel EXPORT(scatter_wide) = {scatter};
#else
const struct scatter_wide_kernel EXPORT(scatter_wide) = {NULL}; /* scatter_short.c takes rows of any width */
#endif
