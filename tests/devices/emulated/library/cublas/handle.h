// A handle of cuBLAS: the stream and the modes that calls with it have.
#pragma once
#include "../emulator.h"

namespace emulator {

struct Handle {
    void *stream = nullptr;
    int pointer_mode = 0, math_mode = 0;
};

enum BlasStatus : int {
    blas_success = 0,
    blas_invalid_value = 7,
    blas_execution_failed = 13,
    blas_not_supported = 15
};

inline int call(Handle *handle, Work work) {
    return issue_library_call(handle->stream, std::move(work)) ? blas_execution_failed : blas_success;
}

}  // namespace emulator
