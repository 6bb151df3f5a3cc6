/* Y += S X for a dense public matrix of signs that is derived while it is used and never stored.
 *
 * The method of the four Russians (Arlazarov, Dinic, Kronrod, Faradzhev 1970): the signs of one row for g clients are
 * one of 2^g patterns. For each group of g clients a table of the 2^g signed sums of their rows of X is built; then
 * every row of S adds one entry of the table to its row of Y. That is one addition for g clients and, for the table,
 * about 2^g / k; a matrix product has g multiplications and additions.
 *
 * Clients are taken by words: the 32 signs of one row for clients 32 w .. 32 w + 31, split into groups. Columns of X
 * are taken by tiles of a few vectors, which fit the registers. Drawing the signs (dense_draw.c) and adding
 * (dense_sum.c) are kernels of their own.
 *
 * All instruction sets compute the same bits. For doubles the order of additions is fixed: a group's signed sum is that
 * of its first floor(g/2) clients, in order, plus that of the others, in order; a word's signed sum adds its groups in
 * order, and goes onto Y. Clients of a word that are not in X count as zeros.
 *
 * How S follows from its key is specified in dpmpc/linear/sketching/__init__.py. */

#include <stdlib.h>
#include <string.h>

#include "apply.h"

#define DENSE_LINE 64 /* bytes: what buffers are aligned to */

/* Entries of all tables of a word. */
static int64_t dense_entries(int groups)
{
    const int clients = DENSE_WORD / groups, larger = DENSE_WORD % groups;
    return ((int64_t)(groups + larger)) << clients;
}

static void *dense_new(int64_t count, size_t size)
{
    const size_t bytes = ((size_t)count * size + DENSE_LINE - 1) / DENSE_LINE * DENSE_LINE;
    return aligned_alloc(DENSE_LINE, bytes);
}

static void dense_free(struct dense_work *work)
{
    free(work->signs);
    free(work->tables);
    free(work->sums);
}

/* Whether there was memory. `vectors` is 0 where there are no sums to hold. */
static int dense_new_work(struct dense_work *work, const struct kernels *kernels, uint32_t rows, int64_t vectors)
{
    const int64_t steps = ((int64_t)rows + DENSE_STEP - 1) / DENSE_STEP;
    const int64_t lanes = kernels->dense_sum->lanes, entries = vectors ? dense_entries(dense_groups(rows)) : 1;
    work->signs = dense_new(steps * DENSE_STEP * 4, sizeof *work->signs);
    work->tables = dense_new(entries * DENSE_TILE * lanes, sizeof *work->tables);
    work->sums = dense_new(rows * vectors * lanes + 1, sizeof *work->sums);
    if (work->signs && work->tables && work->sums)
        return 1;
    dense_free(work);
    return 0;
}

/* Copy Y (k, p) to the sums' tiles or back. */
static void dense_copy_sums(int back, const struct kernels *kernels, uint32_t rows, int64_t width, uint64_t *sums,
                            uint64_t *Y)
{
    const int64_t lanes = kernels->dense_sum->lanes, vectors = (width + lanes - 1) / lanes;
    for (int64_t first = 0, tile; first < vectors; first += tile) {
        tile = dense_tile(first, vectors);
        const int64_t start = first * lanes, words = tile * lanes;
        const int64_t used = width - start < words ? width - start : words;
        for (uint32_t row = 0; row < rows; row++, sums += words) {
            uint64_t *y = Y + (size_t)row * (size_t)width + start;
            if (back) {
                memcpy(y, sums, (size_t)used * sizeof *y);
            } else {
                memset(sums, 0, (size_t)words * sizeof *sums);
                memcpy(sums, y, (size_t)used * sizeof *y);
            }
        }
    }
}

/* Y (k, p) += S[:, first .. first + count] X, X (count, p), with Y canonical before and after. */
static int dense_multiply(const struct kernels *kernels, const struct dense_matrix *S, enum sketch_kind kind,
                          uint64_t first, int64_t count, int64_t width, const uint64_t *X, uint64_t *Y)
{
    struct dense_work work;
    const uint64_t end = first + (uint64_t)count;
    const int64_t lanes = kernels->dense_sum->lanes;
    int canonical = 1;
    if (!dense_new_work(&work, kernels, S->rows, (width + lanes - 1) / lanes))
        return SKETCH_NO_MEMORY;
    dense_copy_sums(0, kernels, S->rows, width, work.sums, Y);
    for (uint64_t start = first; start < end;) {
        const int64_t skipped = (int64_t)(start % DENSE_WORD), left = (int64_t)(end - start);
        const int64_t clients = left < DENSE_WORD - skipped ? left : DENSE_WORD - skipped;
        if (start == first || start % DENSE_BLOCK == 0)
            kernels->dense_draw->draw(S, (uint32_t)(start / DENSE_BLOCK), work.signs);
        canonical &= kernels->dense_sum->sum(kind, S->rows, width, skipped, clients,
                                             work.signs + start % DENSE_BLOCK / DENSE_WORD, X, &work);
        start += (uint64_t)clients;
        X += clients * width;
    }
    dense_copy_sums(1, kernels, S->rows, width, work.sums, Y);
    dense_free(&work);
    return canonical ? SKETCH_DONE : SKETCH_NOT_CANONICAL;
}

/* The same for X (count, k p): part r of a client's row goes to row r alone. */
static int dense_scatter(const struct kernels *kernels, const struct dense_matrix *S, enum sketch_kind kind,
                         uint64_t first, int64_t count, int64_t width, const uint64_t *X, uint64_t *Y)
{
    struct dense_work work;
    const uint64_t end = first + (uint64_t)count;
    int canonical = 1;
    if (!dense_new_work(&work, kernels, S->rows, 0))
        return SKETCH_NO_MEMORY;
    for (uint64_t start = first; start < end;) {
        const int64_t skipped = (int64_t)(start % DENSE_BLOCK), left = (int64_t)(end - start);
        const int64_t clients = left < DENSE_BLOCK - skipped ? left : DENSE_BLOCK - skipped;
        kernels->dense_draw->draw(S, (uint32_t)(start / DENSE_BLOCK), work.signs);
        canonical &= kernels->dense_sum->scatter(kind, S->rows, width, clients, skipped, work.signs, X, Y);
        start += (uint64_t)clients;
        X += clients * width * S->rows;
    }
    dense_free(&work);
    return canonical ? SKETCH_DONE : SKETCH_NOT_CANONICAL;
}

/* Y = S X with sums of a field reduced. */
int dense_apply(const struct kernels *kernels, const struct dense_matrix *S, enum sketch_kind kind, uint64_t first,
                int64_t count, int64_t width, int shared, const uint64_t *X, uint64_t *Y)
{
    const int status = shared ? dense_multiply(kernels, S, kind, first, count, width, X, Y)
                              : dense_scatter(kernels, S, kind, first, count, width, X, Y);
    make_canonical(kind, S->rows * width, Y);
    return status;
}

/* Write the words of `blocks` blocks of 128 clients, [block][row][4]. */
int dense_signs(const struct kernels *kernels, const struct dense_matrix *S, uint32_t first, int64_t blocks,
                uint32_t *out)
{
    struct dense_work work;
    if (!dense_new_work(&work, kernels, S->rows, 0))
        return SKETCH_NO_MEMORY;
    for (int64_t block = 0; block < blocks; block++, out += (size_t)S->rows * 4) {
        kernels->dense_draw->draw(S, first + (uint32_t)block, work.signs);
        memcpy(out, work.signs, (size_t)S->rows * 4 * sizeof *out);
    }
    dense_free(&work);
    return SKETCH_DONE;
}
