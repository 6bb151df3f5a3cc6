/* Fully linear proofs in Z_p, p = 2^61 - 1: prove, query, decide (theorem proof-soundness; letters are those of the report).
 *
 * Everything is inner products of field elements. A product is below 2^122, so LAZY of them are added up in 128 bits
 * before they are reduced once; that needs operands below p, which callers check. Nothing here branches on a secret
 * word. */

#include "instruction_set.h"
#include "kernels.h"

#define M61 MERSENNE61
#define LAZY 32 /* LAZY (p - 1)^2 + p < 2^128 */

typedef unsigned __int128 wide;

/* Any 128-bit x  ->  x mod p: three parts of 61, 61 and 6 bits, whose sum is at most 2p + 63. */
INLINE uint64_t reduce(wide x)
{
    uint64_t sum = ((uint64_t)x & M61) + ((uint64_t)(x >> 61) & M61) + (uint64_t)(x >> 122);
    sum = (sum & M61) + (sum >> 61); /* at most p + 1 */
    return sum - (M61 & (0 - (uint64_t)(sum >= M61)));
}

INLINE uint64_t add(uint64_t a, uint64_t b)
{
    const uint64_t sum = a + b;
    return sum - (M61 & (0 - (uint64_t)(sum >= M61)));
}

INLINE uint64_t subtract(uint64_t a, uint64_t b)
{
    const uint64_t difference = a - b;
    return difference + (M61 & (0 - (difference >> 63)));
}

INLINE uint64_t multiply(uint64_t a, uint64_t b)
{
    return reduce((wide)a * b);
}

/* first + sum_i a_i b_i, with b_i `stride` words apart. */
INLINE uint64_t inner(uint64_t first, const uint64_t *a, const uint64_t *b, size_t stride, size_t n)
{
    while (n > LAZY) {
        wide sum = first;
        for (size_t i = 0; i < LAZY; i++)
            sum += (wide)a[i] * b[i * stride];
        first = reduce(sum);
        a += LAZY, b += LAZY * stride, n -= LAZY;
    }
    wide sum = first;
    for (size_t i = 0; i < n; i++)
        sum += (wide)a[i] * b[i * stride];
    return reduce(sum);
}

/* sum_i sigma_i g_i in K = F[i], as long as terms come in. */
struct extension_sum {
    wide re, im;
    unsigned terms;
};

INLINE void accumulate(struct extension_sum *sum, const uint64_t *sigma, uint64_t g)
{
    sum->re += (wide)sigma[0] * g;
    sum->im += (wide)sigma[1] * g;
    if (++sum->terms == LAZY) {
        sum->re = reduce(sum->re);
        sum->im = reduce(sum->im);
        sum->terms = 0;
    }
}

/* X (X - 1) (X - 2) (X - 3) = Y (Y + 2) for Y = X^2 - 3 X: zero just for digits of base 4. */
INLINE uint64_t digit_gadget(uint64_t x)
{
    const uint64_t y = multiply(x, subtract(x, 3));
    return multiply(y, add(y, 2));
}

INLINE size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* z_j = low + sum_k weights_k digit_jk, or (z M)_j: linear, so that shares of digits give shares of z. */
static void columns_of(const struct proof_circuit *C, uint64_t one, const uint64_t *x, uint64_t *z, uint64_t *scratch)
{
    const size_t d = C->columns;
    const uint64_t low = multiply(C->low, one);
    uint64_t *plain = C->matrix ? scratch : z;
    for (size_t j = 0; j < d; j++)
        plain[j] = inner(low, C->weights, x + j * C->column_digits, 1, C->column_digits);
    if (C->matrix)
        for (size_t j = 0; j < d; j++)
            z[j] = inner(0, plain, C->matrix + j, d, d);
}

/* Roots and what is claimed to be their squares: (z_j, y_j), or (v z, v^T W v) for both v. */
static void pairs_of(const struct proof_circuit *C, uint64_t one, const uint64_t *x, const uint64_t *v, uint64_t *root,
                     uint64_t *square, uint64_t *scratch)
{
    const size_t d = C->columns;
    uint64_t *z = scratch, *twice = scratch + d;
    if (C->squares == PROOF_NO_SQUARES)
        return;
    if (C->squares == PROOF_SQUARED_COLUMNS) {
        columns_of(C, one, x, root, scratch);
        memcpy(square, x + C->digits, d * sizeof *square);
        return;
    }
    columns_of(C, one, x, z, twice);
    for (int s = 0; s < 2; s++, v += d) {
        const uint64_t *w = x + C->digits;
        uint64_t total = 0;
        root[s] = inner(0, v, z, 1, d);
        for (size_t j = 0; j < d; j++)
            twice[j] = add(v[j], v[j]);
        for (size_t j = 0; j < d; w += d - j, j++)
            total = add(total, multiply(v[j], inner(multiply(v[j], w[0]), twice + j + 1, w + 1, 1, d - j - 1)));
        square[s] = total;
    }
}

static void columns(const struct proof_circuit *C, uint64_t one, size_t count, size_t words, const uint64_t *x,
                    uint64_t *z, uint64_t *scratch)
{
    for (size_t n = 0; n < count; n++)
        columns_of(C, one, x + n * words, z + n * C->columns, scratch);
}

/* The quotient (P - H) / Z at its 3N + 1 points, after the blinds. */
static void prove(const struct proof_circuit *C, const struct proof_tables *tables, size_t count, const uint64_t *x,
                  const uint64_t *joint, const uint64_t *blinds, uint64_t *proof, uint64_t *scratch)
{
    const size_t N = C->rows, squares = proof_square_count(C), digit_wires = proof_digit_wires(C);
    const size_t wires = proof_wires(C), points = 3 * N + 1;
    uint64_t *root = scratch, *square = root + squares;
    for (size_t n = 0; n < count; n++) {
        pairs_of(C, 1, x, joint + 2 * wires, root, square, square + squares);
        memcpy(proof, blinds, wires * sizeof *proof);
        uint64_t *quotient = proof + wires;
        for (size_t e = 0; e < points; e++) {
            const uint64_t *at = tables->wires + e * (N + 1), *at_outputs = tables->outputs + e * N;
            struct extension_sum sum = {0, 0, 0};
            for (size_t i = 0; i < digit_wires; i++) {
                const uint64_t blind = multiply(at[0], blinds[i]);
                const uint64_t w = inner(blind, at + 1, x + i * N, 1, least(N, C->digits - i * N));
                accumulate(&sum, joint + 2 * i, digit_gadget(w));
            }
            for (size_t i = digit_wires, s = 0; i < wires; i++, s += N) {
                const uint64_t blind = multiply(at[0], blinds[i]);
                const uint64_t w = inner(blind, at + 1, root + s, 1, least(N, squares - s));
                const uint64_t known = inner(0, at_outputs, square + s, 1, least(N, squares - s));
                accumulate(&sum, joint + 2 * i, subtract(multiply(w, w), known));
            }
            quotient[2 * e] = multiply(reduce(sum.re), tables->inverses[e]);
            quotient[2 * e + 1] = multiply(reduce(sum.im), tables->inverses[e]);
        }
        x += C->digits + C->products;
        joint += proof_joint_words(C);
        blinds += wires;
        proof += wires + 2 * points;
    }
}

/* w_1(r), ..., w_c(r), then y = kappa_0 A_0 + kappa_1 A_1 + kappa_2 zero for A = Z(r) Q(r) + H(r). */
static void query(const struct proof_circuit *C, const struct proof_point *point, uint64_t one, size_t count,
                  const uint64_t *records, const uint64_t *joint, uint64_t *messages, uint64_t *scratch)
{
    const size_t N = C->rows, squares = proof_square_count(C), digit_wires = proof_digit_wires(C);
    const size_t wires = proof_wires(C), points = 3 * N + 1;
    const uint64_t *at = point->wires;
    uint64_t *root = scratch, *square = root + squares;
    for (size_t n = 0; n < count; n++) {
        const uint64_t *x = records, *blinds = x + C->digits + C->products, *quotient = blinds + wires;
        struct extension_sum sum = {0, 0, 0};
        pairs_of(C, one, x, joint + 2 * wires, root, square, square + squares);
        for (size_t i = 0; i < digit_wires; i++) {
            const uint64_t blind = multiply(at[0], blinds[i]);
            messages[i] = inner(blind, at + 1, x + i * N, 1, least(N, C->digits - i * N));
        }
        for (size_t i = digit_wires, s = 0; i < wires; i++, s += N) {
            const uint64_t blind = multiply(at[0], blinds[i]);
            messages[i] = inner(blind, at + 1, root + s, 1, least(N, squares - s));
            accumulate(&sum, joint + 2 * i, inner(0, point->outputs, square + s, 1, least(N, squares - s)));
        }
        const uint64_t re = inner(reduce(sum.re), point->quotient, quotient, 2, points);
        const uint64_t im = inner(reduce(sum.im), point->quotient, quotient + 1, 2, points);
        wide zero = (wide)C->constant * one;
        for (size_t i = 0; i < C->terms; i++)
            zero = reduce(zero) + (wide)C->factors[i] * x[C->places[i]];
        const uint64_t check[3] = {re, im, reduce(zero)};
        messages[wires] = inner(0, point->kappa, check, 1, 3);
        records += proof_words(C);
        joint += proof_joint_words(C);
        messages += wires + 1;
    }
}

/* Whether y = kappa_0 G_0 + kappa_1 G_1 for G = sum_i sigma_i g_i(w_i(r)). */
static void decide(const struct proof_circuit *C, const uint64_t kappa[3], size_t count, const uint64_t *opened,
                   const uint64_t *joint, uint8_t *accepted)
{
    const size_t digit_wires = proof_digit_wires(C), wires = proof_wires(C);
    for (size_t n = 0; n < count; n++) {
        struct extension_sum sum = {0, 0, 0};
        for (size_t i = 0; i < digit_wires; i++)
            accumulate(&sum, joint + 2 * i, digit_gadget(opened[i]));
        for (size_t i = digit_wires; i < wires; i++)
            accumulate(&sum, joint + 2 * i, multiply(opened[i], opened[i]));
        const uint64_t gadgets[2] = {reduce(sum.re), reduce(sum.im)};
        accepted[n] = inner(0, kappa, gadgets, 1, 2) == opened[wires];
        opened += wires + 1;
        joint += proof_joint_words(C);
    }
}

const struct proof_kernel EXPORT(proof) = {columns, prove, query, decide};
