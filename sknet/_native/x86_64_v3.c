/* Kernels for processors that have x86-64-v3, which is AVX2 among others. */

#include "atomics.h"
#include "native.h"

#ifdef SKNET_HAS_LEVELS
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("arch=x86-64-v3"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
#endif

#define KERNELS sknet_v3
#define NAME "x86-64-v3"
#define VECTOR_BYTES 32
#define FUSES
#include "kernels.inc.c"

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
