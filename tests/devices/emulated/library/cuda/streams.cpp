// Streams, which do everything at once, unless a test wants it late.
#include "capture.h"
#include "late.h"

namespace emulator {

Stream *stream_of(void *handle) {
    // 0, 1 and 2 are the handles of the default streams.
    return (uintptr_t)handle <= 2 ? &legacy_stream : (Stream *)handle;
}

API int cudaStreamCreateWithFlags(void **handle, unsigned flags) {
    Stream *made = new Stream;
    made->is_blocking = !(flags & 1);
    made->device = current_device();
    *handle = made;
    return success;
}

API int cudaStreamCreate(void **handle) { return cudaStreamCreateWithFlags(handle, 0); }
API int cudaStreamCreateWithPriority(void **handle, unsigned flags, int) {
    return cudaStreamCreateWithFlags(handle, flags);
}

API int cudaStreamDestroy(void *handle) {
    Guard guard;
    capturing.erase(stream_of(handle));
    delete stream_of(handle);
    return success;
}

API int cudaStreamSynchronize(void *handle) {
    Guard guard;
    if (Status refused = check_capture_of(stream_of(handle))) return refused;
    if (stream_of(handle) == &legacy_stream)
        if (Status refused = check_legacy_stream()) return refused;
    counts.synchronizations++;
    run_all(*stream_of(handle)->queue);
    return success;
}

API int cudaStreamQuery(void *handle) {
    Guard guard;
    if (Status refused = check_capture_of(stream_of(handle))) return refused;
    return stream_of(handle)->queue->waiting.empty() ? success : not_ready;
}

API int cudaStreamGetFlags(void *handle, unsigned *flags) {
    *flags = !stream_of(handle)->is_blocking;
    return success;
}

API int cudaStreamGetPriority(void *, int *priority) {
    *priority = 0;
    return success;
}

API int cudaLaunchHostFunc(void *stream, void (*function)(void *), void *data) {
    return issue(stream, [=] { function(data); });
}

API int cudaStreamAddCallback(void *stream, void (*function)(void *, int, void *), void *data, unsigned) {
    Guard guard;
    if (Status refused = check_capture_of(stream_of(stream))) return refused;
    run_all(*stream_of(stream)->queue);
    function(stream, success, data);
    return success;
}

}  // namespace emulator
