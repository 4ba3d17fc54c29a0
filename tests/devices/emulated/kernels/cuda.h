// CUDA C++ as far as the kernels of CuPy and sknet use it, for a C++ compiler. Precompiled, as it precedes
// each.
#pragma once
#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <initializer_list>

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
// One block runs at a time; before each, what is in this section is overwritten with NaN.
#define __shared__ static __attribute__((section("emulated_shared")))

struct emulated_size {
    unsigned x, y, z;
};
extern "C" emulated_size emulated_thread, emulated_block, emulated_block_size, emulated_grid_size;
extern "C" char *emulated_dynamic_memory;
#define threadIdx emulated_thread
#define blockIdx emulated_block
#define blockDim emulated_block_size
#define gridDim emulated_grid_size
#define warpSize 32

#define __CUDACC_VER_MAJOR__ 12  // CuPy asks for it, to use cuda_fp16.h

#include "warps.h"
#include "numbers.h"
#include "atomics.h"
#include "launching.h"
