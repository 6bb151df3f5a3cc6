/* CLONES: compile a loop once per instruction set and let the loader pick the best the processor has.

   Where the compiler or the C library cannot do that, the macro is empty and the baseline runs: same results. */
#ifndef DPMPC_ARITHMETIC_CLONES_H
#define DPMPC_ARITHMETIC_CLONES_H

#include <stdlib.h> /* defines __GLIBC__ where it applies; musl has no loader support for clones */

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__has_attribute)
#if __has_attribute(target_clones)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#endif
#ifndef CLONES
#define CLONES
#endif

#endif
