/* Adding S X for a dense public matrix, whose signs have been drawn, to sums or to Y.
 *
 * Vectors of more than four words would only pad common widths further. */

#include "rows.h"

#if LANES >= 4
typedef quad words;
typedef real_quad reals;
#elif LANES >= 2
typedef pair words;
typedef real_pair reals;
#else
typedef uint64_t words;
typedef double reals;
#endif

INLINE words fold(words v)
{
    return (v & MERSENNE61) + (v >> 61);
}

/* a + b, of a field unreduced. */
INLINE words add(enum sketch_kind kind, words a, words b)
{
    reals x, y;
    if (kind != SKETCH_REAL)
        return a + b;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    x += y;
    memcpy(&a, &x, sizeof a);
    return a;
}

/* a + b; in a field for a, b <= p, and the result, too, is at most p: 2 p folds to p. */
INLINE words add_folded(enum sketch_kind kind, words a, words b)
{
    a = add(kind, a, b);
    return kind == SKETCH_FIELD ? fold(a) : a;
}

INLINE words negative(enum sketch_kind kind, words x)
{
    return kind == SKETCH_RING ? -x : x ^ flip_of(kind);
}

/* All signed sums of `clients` vectors, each with `stride` lanes to the next: entry e takes client c with a minus if
 * bit c of e is set. Sums are in client order; the entries of no client are 0. */
INLINE void signed_sums(enum sketch_kind kind, int clients, int64_t stride, const words *x, words *entries)
{
    const words zero = {0};
    entries[0] = clients ? x[0] : zero;
    if (clients)
        entries[1] = negative(kind, x[0]);
    for (int c = 1; c < clients; c++) {
        const words plus = x[c * stride], minus = negative(kind, plus);
        for (int e = 0; e < 1 << c; e++) {
            entries[e + (1 << c)] = add_folded(kind, entries[e], minus);
            entries[e] = add_folded(kind, entries[e], plus);
        }
    }
}

/* The table of `clients` rows x[client][vector]: the signed sums of the first half, plus those of the others. */
INLINE void build_table(enum sketch_kind kind, int clients, int64_t vectors, const words *x, words *table)
{
    const int lower = clients / 2, upper = clients - lower;
    words low[1 << 4], high[1 << 4];
    for (int64_t v = 0; v < vectors; v++) {
        signed_sums(kind, lower, vectors, x + v, low);
        signed_sums(kind, upper, vectors, x + lower * vectors + v, high);
        for (int h = 0; h < 1 << upper; h++)
            for (int l = 0; l < 1 << lower; l++)
                table[((h << lower) + l) * vectors + v] = add_folded(kind, low[l], high[h]);
    }
}

/* Add one word's tile to the sums: `groups` is a constant, and so is `vectors` where there are vectors. */
INLINE void sum_tile(enum sketch_kind kind, int groups, int64_t vectors, uint32_t rows, const uint32_t *signs,
                     const words *x, words *tables, words *sums)
{
    const int small = DENSE_WORD / groups, larger = DENSE_WORD % groups;
    words *table = tables;
    for (int g = 0; g < groups; g++) {
        const int clients = small + (g < larger);
        build_table(kind, clients, vectors, x, table);
        x += clients * vectors;
        table += vectors << clients;
    }
    for (uint32_t row = 0; row < rows; row++, signs += 4, sums += vectors) {
        const uint32_t word = *signs;
        words total[DENSE_TILE];
        for (int g = 0; g < groups; g++) {
            const int shift = g * small + (g < larger ? g : larger), clients = small + (g < larger);
            const int64_t before = (int64_t)(g + (g < larger ? g : larger)) << small;
            const int64_t entry = before + (word >> shift & ((UINT32_C(1) << clients) - 1));
            for (int64_t v = 0; v < vectors; v++)
                total[v] = g ? add(kind, total[v], tables[entry * vectors + v]) : tables[entry * vectors + v];
            if (kind == SKETCH_FIELD && groups > 8 && g % 7 == 6) /* 8 p + 7 < 2^64, and 8 p + 7 folds to p + 7 */
                for (int64_t v = 0; v < vectors; v++)
                    total[v] = fold(total[v]);
        }
        for (int64_t v = 0; v < vectors; v++)
            if (kind == SKETCH_FIELD)
                sums[v] = fold(sums[v] + fold(total[v]));
            else
                sums[v] = add(kind, sums[v], total[v]);
    }
}

#if LANES > 1
#define VECTORS(groups, v)                                                                                             \
    case v:                                                                                                            \
        sum_tile(kind, groups, v, rows, signs, x, tables, sums);                                                       \
        return;
#define GROUPED(groups)                                                                                                \
    case groups:                                                                                                       \
        switch (vectors) {                                                                                             \
            VECTORS(groups, 1) VECTORS(groups, 2) VECTORS(groups, 3) VECTORS(groups, 4)                                \
        }                                                                                                              \
        return;
#else
#define GROUPED(groups)                                                                                                \
    case groups:                                                                                                       \
        sum_tile(kind, groups, vectors, rows, signs, x, tables, sums);                                                 \
        return;
#endif

INLINE void sum_kind(enum sketch_kind kind, int64_t vectors, uint32_t rows, const uint32_t *signs, const words *x,
                     words *tables, words *sums)
{
    switch (dense_groups(rows)) {
        GROUPED(16) GROUPED(8) GROUPED(6) GROUPED(5) GROUPED(4)
    }
}
#undef GROUPED
#undef VECTORS

/* Add clients `skipped` .. `skipped` + count of a word to the sums; say whether all words of a field were below p. */
static int sum(enum sketch_kind kind, uint32_t rows, int64_t width, int64_t skipped, int64_t count,
               const uint32_t *signs, const uint64_t *X, const struct dense_work *work)
{
    const int64_t all = (width + ROW_LANES - 1) / ROW_LANES;
    words x[DENSE_WORD * DENSE_TILE], *tables = (words *)work->tables, *sums = (words *)work->sums;
    uint64_t seen = 0;
    for (int64_t first = 0, vectors; first < all; first += vectors, sums += vectors * rows) {
        vectors = dense_tile(first, all);
        const int64_t start = first * ROW_LANES, words = vectors * ROW_LANES;
        const int64_t used = width - start < words ? width - start : words;
        memset(x, 0, sizeof x);
        for (int64_t c = 0; c < count; c++)
            memcpy(x + (skipped + c) * vectors, X + c * width + start, (size_t)used * sizeof *X);
        if (kind == SKETCH_RING) {
            sum_kind(SKETCH_RING, vectors, rows, signs, x, tables, sums);
        } else if (kind == SKETCH_FIELD) {
            sum_kind(SKETCH_FIELD, vectors, rows, signs, x, tables, sums);
        } else {
            sum_kind(SKETCH_REAL, vectors, rows, signs, x, tables, sums);
        }
    }
    if (kind == SKETCH_FIELD)
        for (int64_t i = 0; i < count * width; i++)
            seen |= X[i] | (X[i] + 1); /* some bit above the 60th is set if X[i] >= p */
    return seen >> 61 == 0;
}

INLINE int scatter_kind(enum sketch_kind kind, uint32_t rows, int64_t width, int64_t count, int64_t skipped,
                        const uint32_t *signs, const uint64_t *restrict X, uint64_t *restrict Y)
{
    uint64_t seen = 0;
    for (int64_t c = skipped; c < skipped + count; c++)
        for (uint32_t row = 0; row < rows; row++, X += width) {
            const uint32_t word = signs[4 * (size_t)row + (size_t)(c / DENSE_WORD)];
            if (kind == SKETCH_FIELD)
                for (int64_t i = 0; i < width; i++)
                    seen |= X[i] | (X[i] + 1);
            add_row(kind, width, Y + (size_t)row * (size_t)width, X,
                    flip_of(kind) & -(uint64_t)(word >> c % DENSE_WORD & 1));
        }
    return seen >> 61 == 0;
}

/* Add clients `skipped` .. `skipped` + count of a block, with a row for each copy, to Y. */
static int scatter(enum sketch_kind kind, uint32_t rows, int64_t width, int64_t count, int64_t skipped,
                   const uint32_t *signs, const uint64_t *X, uint64_t *Y)
{
    if (kind == SKETCH_RING)
        return scatter_kind(SKETCH_RING, rows, width, count, skipped, signs, X, Y);
    return kind == SKETCH_FIELD ? scatter_kind(SKETCH_FIELD, rows, width, count, skipped, signs, X, Y)
                                : scatter_kind(SKETCH_REAL, rows, width, count, skipped, signs, X, Y);
}

const struct dense_sum_kernel EXPORT(dense_sum) = {ROW_LANES, sum, scatter};
