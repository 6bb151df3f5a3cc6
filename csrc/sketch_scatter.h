/* Y += S X for one block of clients, for one instruction set. */

#include "sketch_add.h"

/* One client's copies copy .. copy + together. */
INLINE void NAME(add_copies)(enum sketch_kind kind, int shared, int64_t width, uint32_t together, uint32_t copy,
                             int64_t stride, const uint32_t *restrict entries, const uint64_t *restrict x,
                             uint64_t *restrict Y)
{
    for (uint32_t j = copy; j < copy + together; j++) {
        const uint32_t entry = entries[j * stride];
        NAME(add_row)(kind, width, Y + (size_t)(entry >> 1) * (size_t)width, shared ? x : x + j * width,
                      NAME(minus)(kind) & -(uint64_t)(entry & 1));
    }
}

/* Scatter `count` clients; say whether all words of a field were below p. Always inlined: what callers pass as
 * constants becomes straight-line code. A short row that all copies take is loaded and negated once. */
INLINE int NAME(scatter_as)(enum sketch_kind kind, int shared, int64_t width, uint32_t copies, int64_t count,
                            int64_t stride, const uint32_t *restrict entries, const uint64_t *restrict X,
                            uint64_t *restrict Y)
{
    const int64_t step = shared ? width : width * copies;
    NAME(seen) seen = {0};
    for (int64_t c = 0; c < count; c++, X += step) {
        uint32_t copy = 0;
        for (int64_t i = 0; i < step; i += 8)
            PREFETCH((uintptr_t)(X + i) + SKETCH_AHEAD);
        if (kind == SKETCH_FIELD)
            NAME(see_row)(step, X, &seen);
#if LANES > 2
        if (shared && width < 12 && copies > 1) {
            NAME(row) plus, minus;
            NAME(load_row)(kind, width, X, 0, &plus);
            NAME(load_row)(kind, width, X, NAME(minus)(kind), &minus);
            for (; copy < copies; copy++) {
                const uint32_t entry = entries[copy * stride + c];
                NAME(add_either)(kind, width, Y + (size_t)(entry >> 1) * (size_t)width, &plus, &minus, entry);
            }
        }
#endif
        for (; copy + 4 <= copies; copy += 4)
            NAME(add_copies)(kind, shared, width, 4, copy, stride, entries + c, X, Y);
        for (; copy < copies; copy++)
            NAME(add_copies)(kind, shared, width, 1, copy, stride, entries + c, X, Y);
    }
    return NAME(all_canonical)(&seen);
}

#define SCATTER(width, copies) NAME(scatter_as)(kind, shared, width, copies, count, stride, entries, X, Y)
#define STRAIGHT(w)                                                                                                    \
    case w:                                                                                                            \
        return copies == 4 ? SCATTER(w, 4) : SCATTER(w, copies);

/* Straight-line code for short rows, where loops would cost as much as their work. */
INLINE int NAME(scatter_kind)(enum sketch_kind kind, int shared, int64_t width, uint32_t copies, int64_t count,
                              int64_t stride, const uint32_t *entries, const uint64_t *X, uint64_t *Y)
{
#if LANES > 2
    switch (width) {
        STRAIGHT(1) STRAIGHT(2) STRAIGHT(3) STRAIGHT(4) STRAIGHT(5) STRAIGHT(6)
        STRAIGHT(7) STRAIGHT(8) STRAIGHT(9) STRAIGHT(10) STRAIGHT(11) STRAIGHT(12)
    }
#endif
    return SCATTER(width, copies);
}
#undef STRAIGHT
#undef SCATTER

static int NAME(scatter)(enum sketch_kind kind, int shared, int64_t width, uint32_t copies, int64_t count,
                         int64_t stride, const uint32_t *entries, const uint64_t *X, uint64_t *Y)
{
#define SCATTER(kind_)                                                                                                 \
    (shared ? NAME(scatter_kind)(kind_, 1, width, copies, count, stride, entries, X, Y)                                \
            : NAME(scatter_kind)(kind_, 0, width, copies, count, stride, entries, X, Y))
    if (kind == SKETCH_RING)
        return SCATTER(SKETCH_RING);
    return kind == SKETCH_FIELD ? SCATTER(SKETCH_FIELD) : SCATTER(SKETCH_REAL);
#undef SCATTER
}
