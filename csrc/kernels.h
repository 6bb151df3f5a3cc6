/* The kernels' contract: what each does, and the one table by which all are chosen.
 *
 * A kernel is an ordinary C file that setup.py compiles once for each instruction set (instruction_set.h). It exports
 * one table of its functions. kernels.c holds a row of such tables for each instruction set, and says which of them
 * the processor can run; dpmpc._kernels.dispatch chooses one row for the process. All rows compute the same bits. */
#ifndef DPMPC_KERNELS_H
#define DPMPC_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#define MERSENNE61 ((UINT64_C(1) << 61) - 1)

/* What the 64-bit words of X and Y are. */
enum sketch_kind {
    SKETCH_RING,  /* integers modulo 2^64 */
    SKETCH_FIELD, /* integers modulo p = 2^61 - 1: X below p, Y at most p + 1 */
    SKETCH_REAL   /* IEEE doubles */
};

enum sketch_status { SKETCH_DONE, SKETCH_NO_MEMORY, SKETCH_NOT_CANONICAL };

/* ---- sparse public matrices: sketch_apply.c ---- */

#define SKETCH_TILE 128 /* clients whose words are those of 32 Philox blocks; a multiple of what any vector draws */

/* Who draws; the top bit of the counter's word 1. */
enum sketch_purpose { SKETCH_CLIENT, SKETCH_BATCH };

enum sketch_family {
    SKETCH_INDEPENDENT, /* each client's rows are drawn for itself */
    SKETCH_BALANCED,    /* k consecutive clients share out the k rows of each copy */
    SKETCH_ONES         /* one row, all ones; the key is not used */
};

struct sketch_matrix {
    enum sketch_family family;
    uint32_t key[2], nonce[2];
    uint32_t rows;   /* k, in [1, 2^31) */
    uint32_t copies; /* s, in [1, k] */
};

/* A part of S in use: packed entries of up to `stride` clients, [copy][client]; the same for batches; scratch. A packed
 * entry is (row << 1) | negative. */
struct sketch_block {
    int64_t stride, shift_stride;
    uint32_t *entries, *shifts, *pending;
};

static inline int64_t sketch_whole_tiles(uint64_t count)
{
    return (int64_t)((count + SKETCH_TILE - 1) / SKETCH_TILE * SKETCH_TILE);
}

struct sketch_draw_kernel {
    /* Encrypt one counter, for the published known answers. */
    void (*philox)(uint32_t counter[4], const uint32_t key[2]);
    /* Draw the entries of clients first .. first + count, whole tiles. */
    void (*draw)(const struct sketch_matrix *S, uint64_t first, int64_t count, struct sketch_block *block);
};

/* Rows to add: `count` clients, X (count, width) if `shared` by all copies and (count, copies width) if not. */
struct sketch_terms {
    enum sketch_kind kind;
    int shared;
    int64_t width, count, stride;
    int64_t pitch; /* words from a row of Y to the next */
    uint32_t rows, copies;
    const uint32_t *entries; /* [copy][client], `stride` from copy to copy */
    const uint64_t *X;
};

/* Y += S X; they say whether all words of a field were below p. Where the pitch is a multiple of `pad` words, what lies
 * behind the `width` words of a row of Y has no meaning afterwards; elsewhere it is left alone, and the width is for
 * scatter_short, which then takes longer. */
struct scatter_short_kernel {
    int64_t pad, widest; /* rows of more words than `widest` are for scatter_wide */
    int (*scatter)(const struct sketch_terms *terms, uint64_t *Y);
};

struct scatter_wide_kernel {
    int (*scatter)(const struct sketch_terms *terms, uint64_t *Y);
};

/* ---- dense public matrices: dense_apply.c ---- */

#define DENSE_BLOCK 128 /* clients whose signs in one row are one Philox block */
#define DENSE_WORD 32   /* clients whose signs in one row are one word */
#define DENSE_STEP 32   /* rows drawn together: a multiple of what any vector draws */
#define DENSE_TILE 4    /* vectors of a tile, at most */

struct dense_matrix {
    uint32_t key[2], nonce[2];
    uint32_t rows; /* k, in [1, 2^31) */
};

/* Buffers of one call. */
struct dense_work {
    uint32_t *signs;  /* a block's words, [row][4] */
    uint64_t *tables; /* a word's tables, one after the other */
    uint64_t *sums;   /* Y, [tile][row][lane] */
};

struct dense_draw_kernel {
    /* Draw the words of a block of 128 clients for all rows, [row][4]; rows are rounded up to multiples of DENSE_STEP.
     */
    void (*draw)(const struct dense_matrix *S, uint32_t block, uint32_t *signs);
};

struct dense_sum_kernel {
    int64_t lanes; /* words in a vector of `sum` */
    /* Add clients `skipped` .. `skipped` + count of a word to the sums of all tiles, and those of a block, with a row
     * for each copy, to Y; say whether all words of a field were below p. */
    int (*sum)(enum sketch_kind kind, uint32_t rows, int64_t width, int64_t skipped, int64_t count,
               const uint32_t *signs, const uint64_t *X, const struct dense_work *work);
    int (*scatter)(enum sketch_kind kind, uint32_t rows, int64_t width, int64_t count, int64_t skipped,
                   const uint32_t *signs, const uint64_t *X, uint64_t *Y);
};

/* Groups that a word is split into: larger tables pay for themselves with more rows. They decide the order in which
 * doubles are added, so that they depend on nothing but k. */
static inline int dense_groups(uint32_t rows)
{
    return rows < 16 ? 16 : rows < 128 ? 8 : rows < 400 ? 6 : rows < 1500 ? 5 : 4;
}

/* Vectors of the tile that begins with vector `first` of `vectors`: tiles are as equal as can be. */
static inline int64_t dense_tile(int64_t first, int64_t vectors)
{
    const int64_t left = vectors - first, tiles = (left + DENSE_TILE - 1) / DENSE_TILE;
    return (left + tiles - 1) / tiles;
}

/* ---- integers: arithmetic_field.c ---- */

/* `out` may be an operand: each element is read before it is written. */
struct field_kernel {
    int (*any_not_canonical)(const uint64_t *a, size_t n);
    void (*add)(const uint64_t *a, const uint64_t *b, uint64_t *out, size_t n);
    void (*subtract)(const uint64_t *a, const uint64_t *b, uint64_t *out, size_t n);
    void (*subtract_two)(const uint64_t *x, const uint64_t *a, const uint64_t *b, uint64_t *out, size_t n);
    void (*multiply)(const uint64_t *a, const uint64_t *b, uint64_t *out, size_t n);
    void (*multiply_add)(const uint64_t *a, uint64_t factor, const uint64_t *b, uint64_t *out, size_t n);
    int (*embed)(const int64_t *values, uint64_t *out, size_t n);
    void (*lift)(const uint64_t *a, int64_t *out, size_t n);
    int (*mask)(uint64_t *words, size_t n);
    void (*ring_subtract_two)(const uint64_t *x, const uint64_t *a, const uint64_t *b, uint64_t *out, size_t n);
};

/* ---- real numbers: arithmetic_fixed.c ---- */

/* The public bounds of `period` consecutive elements, which repeat. A value outside [least, most] is refused. */
struct row_bounds {
    const double *offset, *slope, *least, *most;
    size_t period;
};

/* Those that return a number return non-zero if some input was not finite or was refused. */
struct fixed_kernel {
    int (*encode_box)(const double *z, size_t n, double scale, const double *lower, const double *upper, size_t period,
                      int64_t *q);
    int (*encode_ball)(const double *z, size_t rows, size_t columns, double scale, int64_t radius, int64_t *q);
    int (*normalise_rows)(const double *x, size_t n, const struct row_bounds *bounds, double *z);
    int (*encode_rows)(const double *x, size_t n, const struct row_bounds *bounds, double scale, int64_t *q);
    void (*second_moments)(const double *z, size_t rows, size_t columns, double weight, double *out);
};

/* ---- proofs that contributions are well formed: proof.c ---- */

/* Which values are claimed to be squares. */
enum proof_squares {
    PROOF_NO_SQUARES,
    PROOF_SQUARED_COLUMNS, /* y_j = z_j^2 */
    PROOF_PRODUCTS         /* W = z z^T, by (v z)^2 = v^T W v for two random v */
};

/* The statement, and how it is laid out (dpmpc/linear/proving/circuit.py). Field elements below p, here and below. */
struct proof_circuit {
    enum proof_squares squares;
    size_t columns, column_digits;    /* d, and how many digits each z_j has */
    size_t digits, products, rows;    /* words of the witness: digits, then products; N */
    uint64_t low;                     /* z_j = low + sum_k weights_k digit_jk */
    const uint64_t *weights;          /* [column_digits] */
    const uint64_t *matrix;           /* [column][column], z M takes the place of z; NULL for none */
    size_t terms;                     /* of the linear form that has to vanish, if there is one: */
    const uint64_t *places, *factors; /* sum_i factors_i x_places_i + constant */
    uint64_t constant;
};

/* Weights of interpolation at one point from the values at 0..N, at 1..N and, of the quotient, at 0, N+1..4N. */
struct proof_point {
    const uint64_t *wires, *outputs, *quotient; /* [N + 1], [N], and [3N + 1] times Z(r) */
    uint64_t kappa[3];
};

/* Weights at each of the 3N + 1 points of the quotient, and 1 / Z there. */
struct proof_tables {
    const uint64_t *wires, *outputs, *inverses;
};

static inline size_t proof_square_count(const struct proof_circuit *C)
{
    return C->squares == PROOF_NO_SQUARES ? 0 : C->squares == PROOF_PRODUCTS ? 2 : C->products;
}

static inline size_t proof_digit_wires(const struct proof_circuit *C)
{
    return (C->digits + C->rows - 1) / C->rows;
}

static inline size_t proof_wires(const struct proof_circuit *C)
{
    return proof_digit_wires(C) + (proof_square_count(C) + C->rows - 1) / C->rows;
}

/* Words of a record: witness, blinds, quotient in pairs. */
static inline size_t proof_words(const struct proof_circuit *C)
{
    return C->digits + C->products + proof_wires(C) + 2 * (3 * C->rows + 1);
}

static inline size_t proof_joint_words(const struct proof_circuit *C)
{
    return 2 * proof_wires(C) + 2 * C->columns;
}

static inline size_t proof_scratch_words(const struct proof_circuit *C)
{
    return 2 * C->columns + 2 * proof_square_count(C);
}

/* Each handles `count` reports in turn. `joint` is [report][joint words]: sigma in pairs, then v and v'. `one`
 * is the share of the constant 1. */
struct proof_kernel {
    /* z, or z M, from `words` words a report, of which the first are digits. */
    void (*columns)(const struct proof_circuit *C, uint64_t one, size_t count, size_t words, const uint64_t *x,
                    uint64_t *z, uint64_t *scratch);
    /* Blinds and quotient: [report][wires + 2 (3N + 1)]. */
    void (*prove)(const struct proof_circuit *C, const struct proof_tables *tables, size_t count, const uint64_t *x,
                  const uint64_t *joint, const uint64_t *blinds, uint64_t *proof, uint64_t *scratch);
    /* A server's messages: [report][wires + 1]. */
    void (*query)(const struct proof_circuit *C, const struct proof_point *point, uint64_t one, size_t count,
                  const uint64_t *records, const uint64_t *joint, uint64_t *messages, uint64_t *scratch);
    /* Whether opened messages are those of well-formed reports: 1 or 0 for each. */
    void (*decide)(const struct proof_circuit *C, const uint64_t kappa[3], size_t count, const uint64_t *opened,
                   const uint64_t *joint, uint8_t *accepted);
};

/* ---- SHA-256 of many texts: hashes.c ---- */

struct hash_kernel {
    /* Overwrite `digests`, [count][32], with the hashes of head || row for rows of one length. */
    void (*sha256)(const uint8_t *head, size_t head_bytes, const uint8_t *rows, size_t count, size_t row_bytes,
                   uint8_t *digests);
};

/* ---- key streams of many keys: key_streams.c ---- */

/* In no row of the table: no instruction set of it implies AES instructions. */
struct keys_kernel {
    /* Overwrite `out`, [count][words] of any alignment, with the AES-CTR key streams, from block 0, of keys of 16 or 32
     * bytes; the block number is big-endian. */
    void (*fill)(const uint8_t *keys, size_t count, int length, size_t words, uint8_t *out);
};

/* What this processor can run, or NULL. */
const struct keys_kernel *keys_here(void);

/* ---- the table ---- */

struct kernels {
    const char *name; /* of the instruction set */
    const struct sketch_draw_kernel *sketch_draw;
    const struct scatter_short_kernel *scatter_short;
    const struct scatter_wide_kernel *scatter_wide;
    const struct dense_draw_kernel *dense_draw;
    const struct dense_sum_kernel *dense_sum;
    const struct field_kernel *field;
    const struct fixed_kernel *fixed;
    const struct proof_kernel *proof;
    const struct hash_kernel *hash;
};

/* Rows for the instruction sets that this processor can run, the fastest last; return how many. */
int kernels_here(const struct kernels **rows);

#endif
