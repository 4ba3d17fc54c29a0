/* Kernels for processors that have x86-64-v4, which is AVX-512 among others. */

#include "atomics.h"
#include "native.h"

#ifdef SKNET_HAS_LEVELS
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("arch=x86-64-v4"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4")
#endif

#define KERNELS sknet_v4
#define NAME "x86-64-v4"
#define VECTOR_BYTES 32
#define FUSES
#define LONG_BYTES 64 /* of codes */
#include "kernels.inc.c"

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
