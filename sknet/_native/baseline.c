/* Kernels for every processor of the platform. */

#include "atomics.h"
#include "native.h"

#define KERNELS sknet_baseline
#define NAME "baseline"
#ifdef __GNUC__
#define VECTOR_BYTES 16
#endif
#include "kernels.inc.c"
