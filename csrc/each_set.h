/* Include the file BODY once per instruction set, the narrowest first. It finds, and end_set.h forgets,
 *   SET                      the suffix of every name in it
 *   LANES                    64-bit words in a vector
 *   GROUPS                   vectors that the generator works on together
 *   MULTIPLY_LOW(a, b)       the 64-bit products of the lower halves of a's lanes with b < 2^32
 *   INTERLEAVE_LOWER, _UPPER the shuffles (a0, b0, a1, b1, ..) of two vectors' lower and upper halves */

#define SET portable
#define LANES 1
#define GROUPS 1
#define MULTIPLY_LOW(a, b) ((uint64_t)(uint32_t)(a) * (uint64_t)(b))
#include BODY
#include "end_set.h"

#ifdef SKETCH_WIDE_BODIES
#define SET sse2
#define LANES 2
#define GROUPS 2
#define MULTIPLY_LOW(a, b) ((NAME(lanes))_mm_mul_epu32((__m128i)(a), (__m128i)((NAME(lanes)){0} + (b))))
#define INTERLEAVE_LOWER {0, 2}
#define INTERLEAVE_UPPER {1, 3}
#include BODY
#include "end_set.h"

#pragma GCC push_options
#pragma GCC target("avx2")
#define SET avx2
#define LANES 4
#define GROUPS 2
#define MULTIPLY_LOW(a, b) ((NAME(lanes))_mm256_mul_epu32((__m256i)(a), (__m256i)((NAME(lanes)){0} + (b))))
#define INTERLEAVE_LOWER {0, 4, 1, 5}
#define INTERLEAVE_UPPER {2, 6, 3, 7}
#include BODY
#include "end_set.h"
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,prefer-vector-width=512")
#define SET avx512
#define LANES 8
#define GROUPS 4
#define MULTIPLY_LOW(a, b) ((NAME(lanes))_mm512_mul_epu32((__m512i)(a), (__m512i)((NAME(lanes)){0} + (b))))
#define INTERLEAVE_LOWER {0, 8, 1, 9, 2, 10, 3, 11}
#define INTERLEAVE_UPPER {4, 12, 5, 13, 6, 14, 7, 15}
#include BODY
#include "end_set.h"
#pragma GCC pop_options
#endif

#undef BODY
