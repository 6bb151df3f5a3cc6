/* Elementwise arithmetic in the prime field Z_p, p = 2^61 - 1.

   Every function takes canonical elements (0 <= a < p) and gives canonical elements. 2^61 = 1 (mod p), so a sum
   or product is reduced by adding its high bits to its low bits, with no division and no comparison: loops of
   shifts and adds that the compiler turns into vectors. `out` may be an operand: each element is read before it
   is written. */
#ifndef DPMPC_ARITHMETIC_M61_H
#define DPMPC_ARITHMETIC_M61_H

#include <stddef.h>
#include <stdint.h>

#include "arithmetic_clones.h"

#define M61 ((UINT64_C(1) << 61) - 1)

/* 0 <= v <= 2p - 2  ->  v mod p. Folding v alone would leave v = p as p. Folding v + 1 <= 2p - 1 and taking the 1 off
   again does not: v < p stays v, and v >= p, where v + 1 >= 2^61, becomes v + 1 - 2^61 + 1 - 1 = v - p. */
static inline uint64_t m61_fold(uint64_t v) {
  v += 1;
  return (v & M61) + (v >> 61) - 1;
}

/* The product is at most (p - 1)^2 < 2^122; its two halves of 61 bits add up to at most 2p - 3. */
static inline uint64_t m61_product(uint64_t a, uint64_t b) {
  unsigned __int128 product = (unsigned __int128)a * b;
  return m61_fold(((uint64_t)product & M61) + (uint64_t)(product >> 61));
}

/* Non-zero if some element is not below p: such an `a` has a bit above the 61st, or `a + 1` has. */
CLONES static int m61_any_not_canonical(const uint64_t *a, size_t n) {
  uint64_t high = 0;
  for (size_t i = 0; i < n; i++) high |= a[i] | (a[i] + 1);
  return (high >> 61) != 0;
}

CLONES static void m61_add(const uint64_t *a, const uint64_t *b, uint64_t *out, size_t n) {
  for (size_t i = 0; i < n; i++) out[i] = m61_fold(a[i] + b[i]);
}

CLONES static void m61_subtract(const uint64_t *a, const uint64_t *b, uint64_t *out, size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint64_t difference = a[i] - b[i];
    out[i] = difference + (M61 & (0 - (difference >> 63)));
  }
}

/* out = x - a - b: one addition of p for each of the two borrows. */
CLONES static void m61_subtract_two(const uint64_t *x, const uint64_t *a, const uint64_t *b, uint64_t *out, size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint64_t first = x[i] - a[i];
    uint64_t second = first + (M61 & (0 - (first >> 63))) - b[i];
    out[i] = second + (M61 & (0 - (second >> 63)));
  }
}

static void m61_multiply(const uint64_t *a, const uint64_t *b, uint64_t *out, size_t n) {
  for (size_t i = 0; i < n; i++) out[i] = m61_product(a[i], b[i]);
}

/* factor <= 7: factor * a + b <= 8 (p - 1) fits a word, and its low bits plus its high bits are at most p + 7. */
CLONES static void m61_multiply_add_small(const uint64_t *a, uint64_t factor, const uint64_t *b, uint64_t *out,
                                          size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint64_t v = factor * a[i] + b[i];
    out[i] = m61_fold((v & M61) + (v >> 61));
  }
}

/* out = factor * a + b: one step of Horner's rule, whose factors are party numbers, or of a weighted sum of shares. */
static void m61_multiply_add(const uint64_t *a, uint64_t factor, const uint64_t *b, uint64_t *out, size_t n) {
  if (factor <= 7) {
    m61_multiply_add_small(a, factor, b, out, n);
    return;
  }
  for (size_t i = 0; i < n; i++) out[i] = m61_fold(m61_product(a[i], factor) + b[i]);
}

/* |v| <= (p - 1)/2  ->  v mod p. Non-zero if some value is larger: v + (p - 1)/2 is then not canonical. */
CLONES static int m61_embed(const int64_t *values, uint64_t *out, size_t n) {
  uint64_t high = 0;
  for (size_t i = 0; i < n; i++) {
    uint64_t v = (uint64_t)values[i], shifted = v + (M61 >> 1);
    high |= shifted | (shifted + 1);
    out[i] = v + (M61 & (0 - (v >> 63)));
  }
  return (high >> 61) != 0;
}

/* The representative in [-(p - 1)/2, (p - 1)/2]: elements of 2^60 and more stand for negative numbers. */
CLONES static void m61_lift(const uint64_t *a, int64_t *out, size_t n) {
  for (size_t i = 0; i < n; i++) out[i] = (int64_t)(a[i] - (M61 & (0 - (a[i] >> 60))));
}

/* Keep the low 61 bits of uniform words. Non-zero if some word became p, which its reader must then redraw. */
CLONES static int m61_mask(uint64_t *words, size_t n) {
  uint64_t high = 0;
  for (size_t i = 0; i < n; i++) {
    words[i] &= M61;
    high |= words[i] + 1;
  }
  return (high >> 61) != 0;
}

#endif
