/* What the kernels of public matrices share: names that differ by instruction set, vectors, kinds of numbers.
 *
 * A file that is included once per instruction set (each_set.h) gives every name the suffix SET by NAME(name). A kernel's
 * body is what one instruction set does; `bodies_here` says how many of its bodies, EACH_BODY, the processor can run. */

#ifndef DPMPC_BODIES_H
#define DPMPC_BODIES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#define PREFETCH(address) __builtin_prefetch((const void *)(address), 0, 2)
#else
#define INLINE static inline
#define PREFETCH(address) ((void)(address))
#endif

/* Wider bodies need GCC's vectors and its target pragma; elsewhere, and with -DDPMPC_GENERIC, the portable body is alone. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(DPMPC_GENERIC)
#define SKETCH_WIDE_BODIES 1
#include <immintrin.h>
typedef uint64_t sketch_words2 __attribute__((vector_size(16)));
typedef double sketch_reals2 __attribute__((vector_size(16)));
typedef uint64_t sketch_words4 __attribute__((vector_size(32)));
typedef double sketch_reals4 __attribute__((vector_size(32)));
#endif

#define MERSENNE61 ((UINT64_C(1) << 61) - 1)

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define NAME(x) JOIN(x, SET)
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

/* A kernel's bodies, the fastest one last. */
#ifdef SKETCH_WIDE_BODIES
#define EACH_BODY(kernel) {&kernel##_portable, &kernel##_sse2, &kernel##_avx2, &kernel##_avx512}
#else
#define EACH_BODY(kernel) {&kernel##_portable}
#endif

/* How many of EACH_BODY, from the first on, this processor can run. */
static int bodies_here(void)
{
#ifdef SKETCH_WIDE_BODIES
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2"))
        return 2;
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw")
               ? 4
               : 3;
#else
    return 1;
#endif
}

/* What the 64-bit words of X and Y are. */
enum sketch_kind {
    SKETCH_RING,  /* integers modulo 2^64 */
    SKETCH_FIELD, /* integers modulo p = 2^61 - 1: X below p, Y at most p + 1 */
    SKETCH_REAL   /* IEEE doubles */
};

enum sketch_status { SKETCH_DONE, SKETCH_NO_MEMORY, SKETCH_NOT_CANONICAL };

/* Make every word of Y canonical: in a field below p. */
static void make_canonical(enum sketch_kind kind, int64_t words, uint64_t *Y)
{
    if (kind == SKETCH_FIELD)
        for (int64_t i = 0; i < words; i++)
            Y[i] -= MERSENNE61 & -((Y[i] + 1) >> 61);
}

#endif
