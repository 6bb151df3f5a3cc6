/* CLONES: compile a loop once per instruction set and let the loader pick the best the processor has.

   Where the compiler or the C library cannot do that, and with -DDPMPC_GENERIC, the macro is empty and the baseline
   runs: same results. */
#ifndef DPMPC_ARITHMETIC_CLONES_H
#define DPMPC_ARITHMETIC_CLONES_H

#include <stdlib.h> /* defines __GLIBC__ where it applies; musl has no loader support for clones */

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__has_attribute) && !defined(DPMPC_GENERIC)
#if __has_attribute(target_clones)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#endif

/* The name of the clones that the loader picks, by the same order of preference. */
static const char *clones_name(void) {
#ifdef CLONES
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") ? "avx512f" : __builtin_cpu_supports("avx2") ? "avx2" : "default";
#else
#define CLONES
  return "portable";
#endif
}

#endif
