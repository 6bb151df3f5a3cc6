/* The one table of all kernels, a row for each instruction set, and which rows the processor can run. */

#include "kernels.h"

/* setup.py says with -DWITH_NAME for which instruction sets it has compiled the kernels, beside portable ones. */
#define ROW(set)                                                                                                       \
    {                                                                                                                  \
#set, &sketch_draw_##set, &scatter_short_##set, &scatter_wide_##set, &dense_draw_##set, &dense_sum_##set,      \
            &field_##set, &fixed_##set, &proof_##set, &hash_##set                                                       \
    }
#define DECLARE(set)                                                                                                   \
    extern const struct sketch_draw_kernel sketch_draw_##set;                                                          \
    extern const struct scatter_short_kernel scatter_short_##set;                                                      \
    extern const struct scatter_wide_kernel scatter_wide_##set;                                                        \
    extern const struct dense_draw_kernel dense_draw_##set;                                                            \
    extern const struct dense_sum_kernel dense_sum_##set;                                                              \
    extern const struct field_kernel field_##set;                                                                      \
    extern const struct fixed_kernel fixed_##set;                                                                      \
    extern const struct proof_kernel proof_##set;                                                                      \
    extern const struct hash_kernel hash_##set;

DECLARE(portable)
#ifdef WITH_SSE2
DECLARE(sse2)
#endif
#ifdef WITH_NEON
DECLARE(neon)
#endif
#ifdef WITH_AVX2
DECLARE(avx2)
#endif
#ifdef WITH_AVX512
DECLARE(avx512)
#endif

static const struct kernels table[] = {
    ROW(portable),
#ifdef WITH_SSE2 /* part of every x86-64 processor */
    ROW(sse2),
#endif
#ifdef WITH_NEON /* part of every 64-bit ARM processor */
    ROW(neon),
#endif
#ifdef WITH_AVX2
    ROW(avx2),
#endif
#ifdef WITH_AVX512
    ROW(avx512),
#endif
};

int kernels_here(const struct kernels **rows)
{
    int here = (int)(sizeof table / sizeof *table);
    *rows = table;
#if defined(WITH_AVX2) && defined(WITH_AVX512) /* the last two rows */
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2"))
        here -= 2;
    else if (!(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw")))
        here -= 1;
#endif
    return here;
}
