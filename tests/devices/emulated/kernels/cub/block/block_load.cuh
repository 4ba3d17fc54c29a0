// Declared with the reductions, which are all that CuPy includes this for.
#pragma once
#include <cub/block/block_reduce.cuh>
