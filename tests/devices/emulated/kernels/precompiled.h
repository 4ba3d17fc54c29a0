// What precedes every kernel, with the headers that CuPy's own kernels include.
#include "cuda.h"

#include <cupy/complex.cuh>
#include <cupy/carray.cuh>
#include <cupy/atomics.cuh>
#include <cupy/math_constants.h>
