/* Kernels for processors that have x86-64-v2, which is SSE4.2 among others. */

#include "atomics.h"
#include "native.h"

#ifdef SKNET_HAS_LEVELS
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("arch=x86-64-v2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v2")
#endif

#define KERNELS sknet_v2
#define NAME "x86-64-v2"
#define VECTOR_BYTES 16
#include "kernels.inc.c"

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
