/* What a kernel that is compiled once for each instruction set is written in.
 *
 * setup.py compiles such a file several times (instruction_sets.toml), with the flags of one instruction set and
 *   -DINSTRUCTION_SET=name   the name that its table of functions ends with
 *   -DLANES=n                64-bit words in a vector: 1 without vectors, 2 with SSE2 and NEON, 4 with AVX2, 8 with
 *                            AVX-512
 *
 * Everything in the file is static but one table, EXPORT(name), which kernels.c lists. Vectors are those of GNU C,
 * which GCC and clang share; the few operations that it lacks are here.
 *
 * All instruction sets compute the same bits. In floating point that needs -ffp-contract=off, so that no product and
 * sum are fused into one rounding, and that no sum is reordered, which compilers do only when asked to. */
#ifndef DPMPC_INSTRUCTION_SET_H
#define DPMPC_INSTRUCTION_SET_H

#include <stdint.h>
#include <string.h>

#if LANES > 1 && (defined(__SSE2__) || defined(__AVX2__))
#include <immintrin.h>
#elif LANES > 1 && defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define EXPORT(name) JOIN(name, INSTRUCTION_SET)

#define INLINE static inline __attribute__((always_inline))

/* Vectors that are worked on together: one alone would wait for its own multiplications. */
#if LANES == 1
#define GROUPS 1
#elif LANES == 8
#define GROUPS 4
#else
#define GROUPS 2
#endif

#if LANES > 1
typedef uint64_t lanes __attribute__((vector_size(8 * LANES)));
typedef uint32_t halves __attribute__((vector_size(8 * LANES)));
#else
typedef uint64_t lanes;
#endif

/* The 64-bit products of the lower halves of a's lanes with b. */
INLINE lanes multiply_low(lanes a, uint32_t b)
{
#if LANES == 1
    return (uint64_t)(uint32_t)a * b;
#elif LANES == 2 && defined(__SSE2__)
    return (lanes)_mm_mul_epu32((__m128i)a, _mm_set1_epi64x(b));
#elif LANES == 4 && defined(__AVX2__)
    return (lanes)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(b));
#elif LANES == 8 && defined(__AVX512F__)
    return (lanes)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64(b));
#elif LANES == 2 && defined(__ARM_NEON)
    return (lanes)vmull_n_u32(vmovn_u64((uint64x2_t)a), b);
#else
    return (a & UINT32_MAX) * b;
#endif
}

/* SHUFFLE(a, b, ...): the lanes of a, then b, that the numbers name. GCC learned clang's word for it with version 12.
 */
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define SHUFFLE __builtin_shufflevector
#endif
#endif
#ifndef SHUFFLE
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (lanes){__VA_ARGS__})
#endif
#if LANES == 2
#define INTERLEAVE_LOWER(a, b) SHUFFLE(a, b, 0, 2)
#define INTERLEAVE_UPPER(a, b) SHUFFLE(a, b, 1, 3)
#elif LANES == 4
#define INTERLEAVE_LOWER(a, b) SHUFFLE(a, b, 0, 4, 1, 5)
#define INTERLEAVE_UPPER(a, b) SHUFFLE(a, b, 2, 6, 3, 7)
#elif LANES == 8
#define INTERLEAVE_LOWER(a, b) SHUFFLE(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define INTERLEAVE_UPPER(a, b) SHUFFLE(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#endif

#endif
