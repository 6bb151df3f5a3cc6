/* Elementwise arithmetic in the prime field Z_p, p = 2^61 - 1, and in the ring Z_2^64 what NumPy does in more passes.

   Every function takes canonical elements (0 <= a < p) and gives canonical elements. 2^61 = 1 (mod p), so a sum
   or product is reduced by adding its high bits to its low bits, with no division and no comparison: loops of
   shifts and adds that the compiler turns into vectors. `out` may be an operand: each element is read before it
   is written. */

#include "instruction_set.h"
#include "kernels.h"

#define M61 MERSENNE61

/* 0 <= v <= 2p - 2  ->  v mod p. Folding v alone would leave v = p as p. Folding v + 1 <= 2p - 1 and taking the 1 off
   again does not: v < p stays v, and v >= p, where v + 1 >= 2^61, becomes v + 1 - 2^61 + 1 - 1 = v - p. */
static inline uint64_t fold(uint64_t v)
{
    v += 1;
    return (v & M61) + (v >> 61) - 1;
}

/* The product is at most (p - 1)^2 < 2^122; its two halves of 61 bits add up to at most 2p - 3. */
static inline uint64_t product(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return fold(((uint64_t)product & M61) + (uint64_t)(product >> 61));
}

/* Non-zero if some element is not below p: such an `a` has a bit above the 61st, or `a + 1` has. */
static int any_not_canonical(const uint64_t *a, size_t n)
{
    uint64_t high = 0;
    for (size_t i = 0; i < n; i++)
        high |= a[i] | (a[i] + 1);
    return (high >> 61) != 0;
}

static void add(const uint64_t *a, const uint64_t *b, uint64_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = fold(a[i] + b[i]);
}

static void subtract(const uint64_t *a, const uint64_t *b, uint64_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t difference = a[i] - b[i];
        out[i] = difference + (M61 & (0 - (difference >> 63)));
    }
}

/* out = x - a - b: one addition of p for each of the two borrows. */
static void subtract_two(const uint64_t *x, const uint64_t *a, const uint64_t *b, uint64_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t first = x[i] - a[i];
        uint64_t second = first + (M61 & (0 - (first >> 63))) - b[i];
        out[i] = second + (M61 & (0 - (second >> 63)));
    }
}

static void multiply(const uint64_t *a, const uint64_t *b, uint64_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = product(a[i], b[i]);
}

/* factor <= 7: factor * a + b <= 8 (p - 1) fits a word, and its low bits plus its high bits are at most p + 7. */
static void multiply_add_small(const uint64_t *a, uint64_t factor, const uint64_t *b, uint64_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t v = factor * a[i] + b[i];
        out[i] = fold((v & M61) + (v >> 61));
    }
}

/* out = factor * a + b: one step of Horner's rule, whose factors are party numbers, or of a weighted sum of shares. */
static void multiply_add(const uint64_t *a, uint64_t factor, const uint64_t *b, uint64_t *out, size_t n)
{
    if (factor <= 7) {
        multiply_add_small(a, factor, b, out, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        out[i] = fold(product(a[i], factor) + b[i]);
}

/* |v| <= (p - 1)/2  ->  v mod p. Non-zero if some value is larger: v + (p - 1)/2 is then not canonical. */
static int embed(const int64_t *values, uint64_t *out, size_t n)
{
    uint64_t high = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t v = (uint64_t)values[i], shifted = v + (M61 >> 1);
        high |= shifted | (shifted + 1);
        out[i] = v + (M61 & (0 - (v >> 63)));
    }
    return (high >> 61) != 0;
}

/* The representative in [-(p - 1)/2, (p - 1)/2]: elements of 2^60 and more stand for negative numbers. */
static void lift(const uint64_t *a, int64_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (int64_t)(a[i] - (M61 & (0 - (a[i] >> 60))));
}

/* Keep the low 61 bits of uniform words. Non-zero if some word became p, which its reader must then redraw. */
static int mask(uint64_t *words, size_t n)
{
    uint64_t high = 0;
    for (size_t i = 0; i < n; i++) {
        words[i] &= M61;
        high |= words[i] + 1;
    }
    return (high >> 61) != 0;
}

/* out = x - a - b in Z_2^64. */
static void ring_subtract_two(const uint64_t *x, const uint64_t *a, const uint64_t *b, uint64_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = x[i] - a[i] - b[i];
}

const struct field_kernel EXPORT(field) = {
    any_not_canonical, add, subtract, subtract_two, multiply, multiply_add, embed, lift, mask, ring_subtract_two,
};
