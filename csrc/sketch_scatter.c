/* Y += S X for one block of clients of a sparse public matrix, whose entries have been drawn.
 *
 * Rows of X are read once, in order; rows of Y are met at random. What is done depends on the words of a row:
 *  - fewer than 12: the row stays in registers, with its negative, while all copies add it;
 *  - 12, and up to 16 with one copy: straight-line code;
 *  - more: a pass over the row adds it to the rows of up to eight copies together, so that many rows of Y are under way
 *    at a time. Where Y is larger than a second-level cache, the rows that the next client meets are prefetched. */

#include "rows.h"

#define AHEAD 8192               /* bytes between what is read of X and what is prefetched */
#define LARGE (INT64_C(1) << 17) /* words of Y above which its rows are prefetched, twice that for one copy: 1 MiB */
#define SOON 32    /* words of a row of one copy up to which the next client's is prefetched in any case */
#define NARROW 12  /* words of the widest row for which there is straight-line code for all copies */
#define LINE 8     /* words of a cache line */
#define TOGETHER 8 /* rows of Y that take a wide row of X in one pass, at most */

#define PREFETCH(address) __builtin_prefetch((const void *)(address), 0, 2)
#define PREFETCH_TO_WRITE(address) __builtin_prefetch(address, 1, 3)

/* The words that went by, or-ed with their successors: some bit above the 60th is set if one was p or more. */
struct seen {
#if LANES >= 4
    quad four;
#endif
    uint64_t one;
};

INLINE void see_row(int64_t width, const uint64_t *x, struct seen *seen)
{
    int64_t i = 0;
#if LANES >= 4
    for (; i + 4 <= width; i += 4) {
        const quad words = load_quad(x + i);
        seen->four |= words | (words + 1);
    }
#endif
    for (; i < width; i++)
        seen->one |= x[i] | (x[i] + 1);
}

INLINE int all_canonical(const struct seen *seen)
{
    uint64_t any = seen->one;
#if LANES >= 4
    for (int i = 0; i < 4; i++)
        any |= seen->four[i];
#endif
    return any >> 61 == 0;
}

INLINE void prefetch_row(int64_t step, const uint64_t *X)
{
    for (int64_t i = 0; i < step; i += LINE)
        PREFETCH((uintptr_t)(X + i) + AHEAD);
}

/* ---- short rows ---- */

/* One client's copies copy .. copy + together, one after the other. */
INLINE void add_copies(enum sketch_kind kind, int shared, int64_t width, uint32_t together, uint32_t copy,
                       int64_t stride, const uint32_t *restrict entries, const uint64_t *restrict x,
                       uint64_t *restrict Y)
{
    for (uint32_t j = copy; j < copy + together; j++) {
        const uint32_t entry = entries[j * stride];
        add_row(kind, width, Y + (size_t)(entry >> 1) * (size_t)width, shared ? x : x + j * width,
                flip_of(kind) & -(uint64_t)(entry & 1));
    }
}

#if LANES >= 4
/* A row of X with fewer than 12 words, or its negative: small enough for the registers. */
struct short_row {
    quad four[2];
    pair two;
    uint64_t one;
};

/* What x stands for with the sign that `flip` says; see add_word. */
#define SIGNED(x) (kind == SKETCH_RING ? ((x) ^ flip) - flip : (x) ^ flip)

INLINE void load_row(enum sketch_kind kind, int64_t width, const uint64_t *x, uint64_t flip, struct short_row *row)
{
    for (int64_t v = 0; v < width / 4; v++)
        row->four[v] = SIGNED(load_quad(x + 4 * v));
    if (width & 2)
        row->two = SIGNED(load_pair(x + (width & ~INT64_C(3))));
    if (width & 1)
        row->one = SIGNED(x[width - 1]);
}
#undef SIGNED

/* Add the row that an entry's sign asks for. The sign is moved to the top of every lane, where blendv reads it. */
INLINE void add_either(enum sketch_kind kind, int64_t width, uint64_t *y, const struct short_row *plus,
                       const struct short_row *minus, uint32_t entry)
{
    const __m256d sign = (__m256d)_mm256_slli_epi32(_mm256_set1_epi32((int)entry), 31);
    for (int64_t v = 0; v < width / 4; v++)
        add_quad(kind, y + 4 * v, (quad)_mm256_blendv_pd((__m256d)plus->four[v], (__m256d)minus->four[v], sign), 0);
    if (width & 2)
        add_pair(kind, y + (width & ~INT64_C(3)),
                 (pair)_mm_blendv_pd((__m128d)plus->two, (__m128d)minus->two, _mm256_castpd256_pd128(sign)), 0);
    if (width & 1)
        add_word(kind, y + width - 1, entry & 1 ? minus->one : plus->one, 0);
}
#endif

/* Scatter all clients; say whether all words of a field were below p. Always inlined: what callers pass as constants
 * becomes straight-line code. */
INLINE int scatter_short(enum sketch_kind kind, int shared, int64_t width, uint32_t copies, int fetch,
                         const struct sketch_terms *terms, uint64_t *restrict Y)
{
    const int64_t step = shared ? width : width * copies, stride = terms->stride, count = terms->count;
    const uint32_t *restrict entries = terms->entries;
    const uint64_t *restrict X = terms->X;
    struct seen seen = {0};
    for (int64_t c = 0; c < count; c++, X += step) {
        uint32_t copy = 0;
        prefetch_row(step, X);
        if (kind == SKETCH_FIELD)
            see_row(step, X, &seen);
#if LANES >= 4
        if (shared && width < NARROW && copies > 1) {
            struct short_row plus = {0}, minus = {0};
            load_row(kind, width, X, 0, &plus);
            load_row(kind, width, X, flip_of(kind), &minus);
            for (; copy < copies; copy++) {
                const uint32_t entry = entries[copy * stride + c];
                add_either(kind, width, Y + (size_t)(entry >> 1) * (size_t)width, &plus, &minus, entry);
            }
        }
#endif
        for (; copy + 4 <= copies; copy += 4)
            add_copies(kind, shared, width, 4, copy, stride, entries + c, X, Y);
        for (; copy < copies; copy++)
            add_copies(kind, shared, width, 1, copy, stride, entries + c, X, Y);
        if (fetch) {
            const uint64_t *next = Y + (size_t)(entries[c + (c + 1 < count)] >> 1) * (size_t)width;
            PREFETCH_TO_WRITE(next);
            PREFETCH_TO_WRITE(next + width - 1);
        }
    }
    return all_canonical(&seen);
}

/* ---- wide rows ---- */

#if LANES >= 2
/* Rows of Y that take a client's row of X together, and what turns it into its negative. */
struct meeting {
    uint64_t *y[TOGETHER], *next[TOGETHER]; /* `next`: rows that the next client meets */
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
DEFINE_ADD_TO_ALL(add_words, uint64_t, add_word, *)
DEFINE_ADD_TO_ALL(add_pairs, pair, add_pair, load_pair)
#if LANES >= 4
DEFINE_ADD_TO_ALL(add_quads, quad, add_quad, load_quad)
#endif
#undef DEFINE_ADD_TO_ALL

/* Add a line of a row, from word i on, to `together` rows of Y, prefetching the next client's rows of Y (`fetch`) and,
 * where there is one copy (`alone`), what is read of X later. */
INLINE void add_line(enum sketch_kind kind, int together, int alone, int fetch, const struct meeting *at,
                     const uint64_t *x, int64_t i)
{
    if (alone)
        PREFETCH((uintptr_t)(x + i) + AHEAD);
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
 * prefetched meanwhile. All but `width` and `stride` are constants.
 *
 * Where a short loop ends is often not foreseen by the processor, which then loses the time of several lines. For one
 * copy that is much: rows of up to 127 words are added without a loop, by tests of single bits of the width, which come
 * out the same for every client. */
INLINE void add_together(enum sketch_kind kind, int shared, int together, int alone, int fetch, int64_t width,
                         int64_t stride, const uint32_t *entries, const uint32_t *later, const uint64_t *x, uint64_t *Y)
{
    struct meeting at = {.apart = shared ? 0 : width};
    int64_t i = 0;
    for (int j = 0; j < together; j++) {
        const uint32_t entry = entries[j * stride];
        at.y[j] = Y + (size_t)(entry >> 1) * (size_t)width;
        at.flip[j] = flip_of(kind) & -(uint64_t)(entry & 1);
        if (fetch)
            at.next[j] = Y + (size_t)(later[j * stride] >> 1) * (size_t)width;
    }
#define ADD_LINES(lines, add)                                                                                          \
    do {                                                                                                               \
        add(kind, together, alone, fetch, &at, x, i);                                                                  \
        i += lines * LINE;                                                                                             \
    } while (0)
    if (together == 1) {
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
    if (alone)
        PREFETCH((uintptr_t)(x + width - 1) + AHEAD);
    if (fetch)
        for (int j = 0; j < together; j++)
            PREFETCH_TO_WRITE(at.next[j] + width - 1);
    if (width & 4) {
#if LANES >= 4
        add_quads(kind, together, &at, x, i);
#else
        add_pairs(kind, together, &at, x, i);
        add_pairs(kind, together, &at, x, i + 2);
#endif
        i += 4;
    }
    if (width & 2) {
        add_pairs(kind, together, &at, x, i);
        i += 2;
    }
    if (width & 1)
        add_words(kind, together, &at, x, i);
}

INLINE int scatter_wide(enum sketch_kind kind, int shared, int alone, int fetch, const struct sketch_terms *terms,
                        uint64_t *Y)
{
    const uint32_t copies = alone ? 1 : terms->copies;
    const int64_t width = terms->width, stride = terms->stride, count = terms->count;
    const int64_t step = shared ? width : width * copies;
    const uint32_t *all = terms->entries;
    const uint64_t *X = terms->X;
    struct seen seen = {0};
    for (int64_t c = 0; c < count; c++, X += step) {
        const uint32_t *entries = all + c, *later = entries + (c + 1 < count);
        const uint64_t *x = X;
        if (!alone)
            prefetch_row(step, X);
        if (kind == SKETCH_FIELD)
            see_row(step, X, &seen);
#define ADD_TO(number)                                                                                                 \
    do {                                                                                                               \
        add_together(kind, shared, number, alone, fetch, width, stride, entries, later, x, Y);                         \
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
#endif

/* ---- choosing ---- */

INLINE int scatter_as(enum sketch_kind kind, int shared, const struct sketch_terms *terms, uint64_t *Y)
{
    const int64_t width = terms->width;
    const uint32_t copies = terms->copies;
#if LANES >= 4
#define STRAIGHT(width)                                                                                                \
    case width:                                                                                                        \
        return scatter_short(kind, 1, width, 1, width >= LINE, terms, Y);
    if (shared && copies == 1)
        switch (width) {
            /* clang-format off */
            STRAIGHT(1) STRAIGHT(2) STRAIGHT(3) STRAIGHT(4) STRAIGHT(5) STRAIGHT(6) STRAIGHT(7) STRAIGHT(8)
            STRAIGHT(9) STRAIGHT(10) STRAIGHT(11) STRAIGHT(12) STRAIGHT(13) STRAIGHT(14) STRAIGHT(15) STRAIGHT(16)
            /* clang-format on */
        }
#undef STRAIGHT
#define STRAIGHT(width)                                                                                                \
    case width:                                                                                                        \
        return copies == 4 ? scatter_short(kind, shared, width, 4, 0, terms, Y)                                        \
                           : scatter_short(kind, shared, width, copies, 0, terms, Y);
    switch (width) {
        /* clang-format off */
        STRAIGHT(1) STRAIGHT(2) STRAIGHT(3) STRAIGHT(4) STRAIGHT(5) STRAIGHT(6)
        STRAIGHT(7) STRAIGHT(8) STRAIGHT(9) STRAIGHT(10) STRAIGHT(11) STRAIGHT(12)
        /* clang-format on */
    }
#undef STRAIGHT
#endif
#if LANES >= 2
    if (width > NARROW) {
        const int large = shared && terms->rows * width > (copies > 1 ? LARGE : 2 * LARGE);
        if (shared && copies == 1)
            return large || width <= SOON ? scatter_wide(kind, 1, 1, 1, terms, Y)
                                          : scatter_wide(kind, 1, 1, 0, terms, Y);
        return large ? scatter_wide(kind, 1, 0, 1, terms, Y) : scatter_wide(kind, shared, 0, 0, terms, Y);
    }
#endif
    return scatter_short(kind, shared, width, copies, 0, terms, Y);
}

static int scatter(const struct sketch_terms *terms, uint64_t *Y)
{
    switch (terms->kind) {
        case SKETCH_RING:
            return terms->shared ? scatter_as(SKETCH_RING, 1, terms, Y) : scatter_as(SKETCH_RING, 0, terms, Y);
        case SKETCH_FIELD:
            return terms->shared ? scatter_as(SKETCH_FIELD, 1, terms, Y) : scatter_as(SKETCH_FIELD, 0, terms, Y);
        default:
            return terms->shared ? scatter_as(SKETCH_REAL, 1, terms, Y) : scatter_as(SKETCH_REAL, 0, terms, Y);
    }
}

const struct sketch_scatter_kernel EXPORT(sketch_scatter) = {scatter};
