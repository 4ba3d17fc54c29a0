// Handles of cuBLAS.
#include "handle.h"

namespace emulator {

API int cublasCreate_v2(Handle **handle) {
    *handle = new Handle;
    return blas_success;
}

API int cublasDestroy_v2(Handle *handle) {
    delete handle;
    return blas_success;
}

API int cublasGetVersion_v2(Handle *, int *version) {
    *version = 120900;
    return blas_success;
}

API int cublasSetStream_v2(Handle *handle, void *stream) {
    handle->stream = stream;
    return blas_success;
}

API int cublasGetStream_v2(Handle *handle, void **stream) {
    *stream = handle->stream;
    return blas_success;
}

API int cublasSetPointerMode_v2(Handle *handle, int mode) {
    handle->pointer_mode = mode;
    return blas_success;
}

API int cublasGetPointerMode_v2(Handle *handle, int *mode) {
    *mode = handle->pointer_mode;
    return blas_success;
}

API int cublasSetMathMode(Handle *handle, int mode) {
    handle->math_mode = mode;
    return blas_success;
}

API int cublasGetMathMode(Handle *handle, int *mode) {
    *mode = handle->math_mode;
    return blas_success;
}

}  // namespace emulator
