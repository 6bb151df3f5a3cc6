/* Adding S X to the sums, for one instruction set. */

#include "sketch_add.h"

#if LANES > 1
typedef double NAME(reals) __attribute__((vector_size(8 * LANES)));
#else
typedef double NAME(reals);
#endif

INLINE NAME(lanes) NAME(fold)(NAME(lanes) v)
{
    return (v & MERSENNE61) + (v >> 61);
}

/* a + b, of a field unreduced. */
INLINE NAME(lanes) NAME(add)(enum sketch_kind kind, NAME(lanes) a, NAME(lanes) b)
{
    NAME(reals) x, y;
    if (kind != SKETCH_REAL)
        return a + b;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    x += y;
    memcpy(&a, &x, sizeof a);
    return a;
}

/* a + b; in a field for a, b <= p, and the result, too, is at most p: 2 p folds to p. */
INLINE NAME(lanes) NAME(add_folded)(enum sketch_kind kind, NAME(lanes) a, NAME(lanes) b)
{
    a = NAME(add)(kind, a, b);
    return kind == SKETCH_FIELD ? NAME(fold)(a) : a;
}

INLINE NAME(lanes) NAME(negative)(enum sketch_kind kind, NAME(lanes) x)
{
    return kind == SKETCH_RING ? -x : x ^ NAME(minus)(kind);
}

/* All signed sums of `clients` vectors, each with `stride` lanes to the next: entry e takes client c with a minus if
 * bit c of e is set. Sums are in client order; the entries of no client are 0. */
INLINE void NAME(signed_sums)(enum sketch_kind kind, int clients, int64_t stride, const NAME(lanes) *x,
                              NAME(lanes) *entries)
{
    const NAME(lanes) zero = {0};
    entries[0] = clients ? x[0] : zero;
    if (clients)
        entries[1] = NAME(negative)(kind, x[0]);
    for (int c = 1; c < clients; c++) {
        const NAME(lanes) plus = x[c * stride], minus = NAME(negative)(kind, plus);
        for (int e = 0; e < 1 << c; e++) {
            entries[e + (1 << c)] = NAME(add_folded)(kind, entries[e], minus);
            entries[e] = NAME(add_folded)(kind, entries[e], plus);
        }
    }
}

/* The table of `clients` rows x[client][vector]: the signed sums of the first half, plus those of the others. */
INLINE void NAME(build_table)(enum sketch_kind kind, int clients, int64_t vectors, const NAME(lanes) *x,
                              NAME(lanes) *table)
{
    const int lower = clients / 2, upper = clients - lower;
    NAME(lanes) low[1 << 4], high[1 << 4];
    for (int64_t v = 0; v < vectors; v++) {
        NAME(signed_sums)(kind, lower, vectors, x + v, low);
        NAME(signed_sums)(kind, upper, vectors, x + lower * vectors + v, high);
        for (int h = 0; h < 1 << upper; h++)
            for (int l = 0; l < 1 << lower; l++)
                table[((h << lower) + l) * vectors + v] = NAME(add_folded)(kind, low[l], high[h]);
    }
}

/* Add one word's tile to the sums: `groups` and `vectors` are constants. */
INLINE void NAME(sum_tile)(enum sketch_kind kind, int groups, int64_t vectors, uint32_t rows, const uint32_t *signs,
                           const NAME(lanes) *x, NAME(lanes) *tables, NAME(lanes) *sums)
{
    const int small = DENSE_WORD / groups, larger = DENSE_WORD % groups;
    NAME(lanes) *table = tables;
    for (int g = 0; g < groups; g++) {
        const int clients = small + (g < larger);
        NAME(build_table)(kind, clients, vectors, x, table);
        x += clients * vectors;
        table += vectors << clients;
    }
    for (uint32_t row = 0; row < rows; row++, signs += 4, sums += vectors) {
        const uint32_t word = *signs;
        NAME(lanes) total[DENSE_TILE];
        for (int g = 0; g < groups; g++) {
            const int shift = g * small + (g < larger ? g : larger), clients = small + (g < larger);
            const int64_t before = (int64_t)(g + (g < larger ? g : larger)) << small;
            const int64_t entry = before + (word >> shift & ((UINT32_C(1) << clients) - 1));
            for (int64_t v = 0; v < vectors; v++)
                total[v] = g ? NAME(add)(kind, total[v], tables[entry * vectors + v]) : tables[entry * vectors + v];
            if (kind == SKETCH_FIELD && groups > 8 && g % 7 == 6) /* 8 p + 7 < 2^64, and 8 p + 7 folds to p + 7 */
                for (int64_t v = 0; v < vectors; v++)
                    total[v] = NAME(fold)(total[v]);
        }
        for (int64_t v = 0; v < vectors; v++)
            if (kind == SKETCH_FIELD)
                sums[v] = NAME(fold)(sums[v] + NAME(fold)(total[v]));
            else
                sums[v] = NAME(add)(kind, sums[v], total[v]);
    }
}

#define VECTORS(groups, v)                                                                                             \
    case v:                                                                                                            \
        NAME(sum_tile)(kind, groups, v, rows, signs, x, tables, sums);                                                 \
        return;
#define GROUPED(groups)                                                                                                \
    case groups:                                                                                                       \
        switch (vectors) {                                                                                             \
            VECTORS(groups, 1) VECTORS(groups, 2) VECTORS(groups, 3) VECTORS(groups, 4)                                \
        }                                                                                                              \
        return;

INLINE void NAME(sum_kind)(enum sketch_kind kind, int64_t vectors, uint32_t rows, const uint32_t *signs,
                           const NAME(lanes) *x, NAME(lanes) *tables, NAME(lanes) *sums)
{
    switch (dense_groups(rows)) {
        GROUPED(16) GROUPED(8) GROUPED(6) GROUPED(5) GROUPED(4)
    }
}
#undef GROUPED
#undef VECTORS

/* Add clients `skipped` .. `skipped` + count of a word to the sums; say whether all words of a field were below p. */
static int NAME(sum)(enum sketch_kind kind, uint32_t rows, int64_t width, int64_t skipped, int64_t count,
                     const uint32_t *signs, const uint64_t *X, const struct dense_work *work)
{
    const int64_t all = (width + LANES - 1) / LANES;
    NAME(lanes) x[DENSE_WORD * DENSE_TILE], *tables = (NAME(lanes) *)work->tables, *sums = (NAME(lanes) *)work->sums;
    uint64_t seen = 0;
    for (int64_t first = 0, vectors; first < all; first += vectors, sums += vectors * rows) {
        vectors = dense_tile(first, all);
        const int64_t start = first * LANES, words = vectors * LANES;
        const int64_t used = width - start < words ? width - start : words;
        memset(x, 0, sizeof x);
        for (int64_t c = 0; c < count; c++)
            memcpy(x + (skipped + c) * vectors, X + c * width + start, (size_t)used * sizeof *X);
        if (kind == SKETCH_RING) {
            NAME(sum_kind)(SKETCH_RING, vectors, rows, signs, x, tables, sums);
        } else if (kind == SKETCH_FIELD) {
            NAME(sum_kind)(SKETCH_FIELD, vectors, rows, signs, x, tables, sums);
        } else {
            NAME(sum_kind)(SKETCH_REAL, vectors, rows, signs, x, tables, sums);
        }
    }
    if (kind == SKETCH_FIELD)
        for (int64_t i = 0; i < count * width; i++)
            seen |= X[i] | (X[i] + 1); /* some bit above the 60th is set if X[i] >= p */
    return seen >> 61 == 0;
}

INLINE int NAME(scatter_kind)(enum sketch_kind kind, uint32_t rows, int64_t width, int64_t count, int64_t skipped,
                              const uint32_t *signs, const uint64_t *restrict X, uint64_t *restrict Y)
{
    uint64_t seen = 0;
    for (int64_t c = skipped; c < skipped + count; c++)
        for (uint32_t row = 0; row < rows; row++, X += width) {
            const uint32_t word = signs[4 * (size_t)row + (size_t)(c / DENSE_WORD)];
            if (kind == SKETCH_FIELD)
                for (int64_t i = 0; i < width; i++)
                    seen |= X[i] | (X[i] + 1);
            NAME(add_row)(kind, width, Y + (size_t)row * (size_t)width, X,
                          NAME(minus)(kind) & -(uint64_t)(word >> c % DENSE_WORD & 1));
        }
    return seen >> 61 == 0;
}

/* Add clients `skipped` .. `skipped` + count of a block, with a row for each copy, to Y. */
static int NAME(scatter)(enum sketch_kind kind, uint32_t rows, int64_t width, int64_t count, int64_t skipped,
                         const uint32_t *signs, const uint64_t *X, uint64_t *Y)
{
    if (kind == SKETCH_RING)
        return NAME(scatter_kind)(SKETCH_RING, rows, width, count, skipped, signs, X, Y);
    return kind == SKETCH_FIELD ? NAME(scatter_kind)(SKETCH_FIELD, rows, width, count, skipped, signs, X, Y)
                                : NAME(scatter_kind)(SKETCH_REAL, rows, width, count, skipped, signs, X, Y);
}
