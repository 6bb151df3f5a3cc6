/* Y += S X for one block of clients of a sparse public matrix, whose entries have been drawn: rows of up to 16 words.
 *
 * Where rows of Y have room for whole vectors of four words, a row of X stays in registers, with its negative, while
 * all copies add it: one body for all widths of as many vectors, and bodies of their own for the commonest widths.
 * Other rows of Y take rows of X of any width, one copy after the other. */

#include "scatter.h"

INLINE int scatter_plain(enum sketch_kind kind, int shared, const struct sketch_terms *terms, uint64_t *restrict Y)
{
    const uint32_t copies = terms->copies;
    const int64_t width = terms->width, step = shared ? width : width * copies;
    const uint64_t *X = terms->X;
    struct seen seen = {0};
    for (int64_t c = 0; c < terms->count; c++, X += step) {
        prefetch_row(step, X);
        if (kind == SKETCH_FIELD)
            see_row(step, X, &seen);
        for (uint32_t j = 0; j < copies; j++) {
            const uint32_t entry = terms->entries[j * terms->stride + c];
            add_row(kind, width, Y + (size_t)(entry >> 1) * (size_t)terms->pitch, shared ? X : X + j * width,
                    flip_of(kind) & -(uint64_t)(entry & 1));
        }
    }
    return all_canonical(&seen);
}

#if LANES >= 4
#define QUADS 4 /* vectors of the widest row */
#define SOON 12 /* clients between the one whose row is added and the one whose row of Y is prefetched, for one copy */

/* A row of X, and zeros behind it. */
INLINE void load_row(int quads, int64_t width, const uint64_t *x, quad *row)
{
    _Pragma("GCC unroll 4") for (int v = 0; v < quads - 1; v++) row[v] = load_quad(x + 4 * v);
    const uint64_t *tail = x + 4 * (quads - 1);
    const int64_t left = width - 4 * (quads - 1);
    if (__builtin_constant_p(left) && left == 4)
        row[quads - 1] = load_quad(tail);
    else if (__builtin_constant_p(left) && left == 2)
        row[quads - 1] = (quad)_mm256_zextsi128_si256((__m128i)load_pair(tail));
    else if (__builtin_constant_p(left) && left == 1)
        row[quads - 1] = (quad){tail[0]};
    else
        row[quads - 1] = load_part(left, tail);
}

INLINE void see_quads(int quads, const quad *row, struct seen *seen)
{
    _Pragma("GCC unroll 4") for (int v = 0; v < quads; v++) seen->four |= row[v] | (row[v] + 1);
}

/* Add `plus` or `minus`, as the sign asks for: it is moved to the top of every lane, where blendv reads it. */
INLINE void add_either(enum sketch_kind kind, int quads, uint64_t *y, const quad *plus, const quad *minus,
                       uint32_t entry)
{
    const __m256d sign = (__m256d)_mm256_slli_epi32(_mm256_set1_epi32((int)entry), 31);
    _Pragma("GCC unroll 4") for (int v = 0; v < quads; v++)
        add_quad(kind, y + 4 * v, (quad)_mm256_blendv_pd((__m256d)plus[v], (__m256d)minus[v], sign), 0);
}

/* Scatter all clients; say whether all words of a field were below p. `constant` stands for the width, and `fixed` for
 * the copies, where they are not 0. Always inlined: what callers pass as constants becomes straight-line code. */
INLINE int scatter_quads(enum sketch_kind kind, int shared, int quads, int64_t constant, uint32_t fixed,
                         const struct sketch_terms *terms, uint64_t *restrict Y)
{
    const uint32_t copies = fixed ? fixed : terms->copies;
    const int64_t width = constant ? constant : terms->width, step = shared ? width : width * copies;
    const int64_t stride = terms->stride, count = terms->count;
    const uint32_t *restrict entries = terms->entries;
    const uint64_t *restrict X = terms->X;
    struct seen seen = {0};
    for (int64_t c = 0; c < count; c++, X += step) {
        quad plus[QUADS], minus[QUADS];
        prefetch_row(step, X);
        if (fixed == 1 && quads > 1) {
            const uint64_t *next = Y + (size_t)(entries[c + SOON < count ? c + SOON : c] >> 1) * (4 * quads);
            PREFETCH_TO_WRITE(next);
            PREFETCH_TO_WRITE(next + 4 * quads - 1);
        }
        if (shared) {
            load_row(quads, width, X, plus);
            _Pragma("GCC unroll 4") for (int v = 0; v < quads; v++)
                minus[v] = kind == SKETCH_RING ? -plus[v] : plus[v] ^ flip_of(kind);
            if (kind == SKETCH_FIELD)
                see_quads(quads, plus, &seen);
        }
#define ADD_COPY(j)                                                                                                    \
    do {                                                                                                               \
        const uint32_t entry = entries[(j) * stride + c];                                                              \
        uint64_t *y = Y + (size_t)(entry >> 1) * (4 * quads);                                                          \
        if (shared) {                                                                                                  \
            add_either(kind, quads, y, plus, minus, entry);                                                            \
        } else {                                                                                                       \
            load_row(quads, width, X + (j) * width, plus);                                                             \
            if (kind == SKETCH_FIELD)                                                                                  \
                see_quads(quads, plus, &seen);                                                                         \
            _Pragma("GCC unroll 4") for (int v = 0; v < quads; v++)                                                    \
                add_quad(kind, y + 4 * v, plus[v], flip_of(kind) & -(uint64_t)(entry & 1));                            \
        }                                                                                                              \
    } while (0)
        if (fixed) {
            _Pragma("GCC unroll 4") for (uint32_t j = 0; j < fixed; j++) ADD_COPY(j);
        } else {
            for (uint32_t j = 0; j < copies; j++)
                ADD_COPY(j);
        }
#undef ADD_COPY
    }
    return all_canonical(&seen);
}

#define FOR_COPIES(quads, width)                                                                                       \
    return terms->copies == 4 ? scatter_quads(kind, shared, quads, width, 4, terms, Y)                                 \
           : shared && terms->copies == 1                                                                              \
               ? scatter_quads(kind, shared, quads, width, 1, terms, Y)                                                \
               : scatter_quads(kind, shared, quads, width, 0, terms, Y)

INLINE int scatter_kind(enum sketch_kind kind, int shared, const struct sketch_terms *terms, uint64_t *restrict Y)
{
    if (terms->pitch % 4 || terms->width > 4 * QUADS)
        return scatter_plain(kind, shared, terms, Y);
#define CONSTANT(constant) \
    if (terms->width == constant && terms->copies == 4) \
        return scatter_quads(kind, shared, (constant + 3) / 4, constant, 4, terms, Y);
    if (kind != SKETCH_REAL) {
        CONSTANT(1)
        CONSTANT(4)
        CONSTANT(10)
    }
#undef CONSTANT
    switch ((terms->width + 3) / 4) {
        case 1:
            FOR_COPIES(1, 0);
        case 2:
            FOR_COPIES(2, 0);
        case 3:
            FOR_COPIES(3, 0);
        default:
            FOR_COPIES(4, 0);
    }
}
#undef FOR_COPIES

#define WIDEST (4 * QUADS)
#else
#define scatter_kind scatter_plain
#define WIDEST (LANES == 1 ? INT64_MAX : 12)
#endif

static int scatter(const struct sketch_terms *terms, uint64_t *Y)
{
    switch (terms->kind) {
        case SKETCH_RING:
            return terms->shared ? scatter_kind(SKETCH_RING, 1, terms, Y) : scatter_kind(SKETCH_RING, 0, terms, Y);
        case SKETCH_FIELD:
            return terms->shared ? scatter_kind(SKETCH_FIELD, 1, terms, Y) : scatter_kind(SKETCH_FIELD, 0, terms, Y);
        default:
            return terms->shared ? scatter_kind(SKETCH_REAL, 1, terms, Y) : scatter_kind(SKETCH_REAL, 0, terms, Y);
    }
}

const struct scatter_short_kernel EXPORT(scatter_short) = {ROW_LANES < 4 ? 1 : 4, WIDEST, scatter};
