// Names and messages of errors, as the CUDA documentation has them.
#include "../emulator.h"

namespace emulator {

struct Error {
    int code;
    const char *runtime_name, *driver_name, *text;
};

static const Error ERRORS[] = {
    {success, "cudaSuccess", "CUDA_SUCCESS", "no error"},
    {invalid_value, "cudaErrorInvalidValue", "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {out_of_memory, "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {no_device, "cudaErrorNoDevice", "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {invalid_device, "cudaErrorInvalidDevice", "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {invalid_image, "cudaErrorInvalidKernelImage", "CUDA_ERROR_INVALID_IMAGE",
     "device kernel image is invalid"},
    {invalid_handle, "cudaErrorInvalidResourceHandle", "CUDA_ERROR_INVALID_HANDLE",
     "invalid resource handle"},
    {not_found, "cudaErrorSymbolNotFound", "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {not_ready, "cudaErrorNotReady", "CUDA_ERROR_NOT_READY", "device not ready"},
    {launch_failure, "cudaErrorLaunchFailure", "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {not_supported, "cudaErrorNotSupported", "CUDA_ERROR_NOT_SUPPORTED",
     "operation not supported: the emulated driver does not have this function"},
    {capture_unsupported, "cudaErrorStreamCaptureUnsupported", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {capture_invalidated, "cudaErrorStreamCaptureInvalidated", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {capture_unmatched, "cudaErrorStreamCaptureUnmatched", "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {capture_unjoined, "cudaErrorStreamCaptureUnjoined", "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "capturing stream has unjoined work"},
    {capture_isolation, "cudaErrorStreamCaptureIsolation", "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {capture_implicit, "cudaErrorStreamCaptureImplicit", "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {captured_event, "cudaErrorCapturedEvent", "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {capture_wrong_thread, "cudaErrorStreamCaptureWrongThread", "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
};
static const Error UNKNOWN = {-1, "cudaErrorUnknown", "CUDA_ERROR_UNKNOWN", "unknown error"};

static const Error &error(int code) {
    for (const Error &each : ERRORS)
        if (each.code == code) return each;
    return UNKNOWN;
}

API const char *cudaGetErrorName(int code) { return error(code).runtime_name; }
API const char *cudaGetErrorString(int code) { return error(code).text; }
API int cudaGetLastError() { return success; }
API int cudaPeekAtLastError() { return success; }

// Every function of the runtime that is not emulated leads here.
API int emulator_unsupported() { return not_supported; }

API int cuGetErrorName(int code, const char **text) {
    *text = error(code).driver_name;
    return success;
}

API int cuGetErrorString(int code, const char **text) {
    *text = error(code).text;
    return success;
}

}  // namespace emulator
