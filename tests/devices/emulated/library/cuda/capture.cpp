// The rules of capture, as in "CUDA Graphs" of the CUDA C++ Programming Guide.
#include "capture.h"
#include "late.h"

namespace emulator {

Stream legacy_stream;
std::set<Stream *> capturing;

Status invalidate(Capture &capture, Status status) {
    capture.is_invalid = true;
    return status;
}

Status check_unsafe_call() {
    for (Stream *stream : capturing) {
        Capture &capture = *stream->capture;
        const bool is_mine = pthread_equal(capture.thread, pthread_self());
        if (capture.mode == global || (capture.mode == thread_local_mode && is_mine))
            return invalidate(capture, capture_unsupported);
    }
    return success;
}

Status check_device_wide_call() {
    Status status = success;
    for (Stream *stream : capturing) status = invalidate(*stream->capture, capture_unsupported);
    return status;
}

Status check_capture_of(Stream *stream) {
    return stream->capture ? invalidate(*stream->capture, capture_unsupported) : success;
}

Status check_legacy_stream() {
    for (Stream *stream : capturing)
        if (stream->is_blocking) return invalidate(*stream->capture, capture_implicit);
    return success;
}

bool is_any_stream_captured() {
    Guard guard;
    return !capturing.empty();
}

Status issue(void *handle, Work work) {
    Guard guard;
    Stream *stream = stream_of(handle);
    if (stream == &legacy_stream) {
        if (Status refused = check_legacy_stream()) return refused;
    } else if (Capture *capture = stream->capture.get()) {
        if (capture->is_invalid) return capture_invalidated;
        if (!stream->is_origin) capture->unjoined.insert(stream);
        capture->graph->nodes.push_back(std::move(work));
        return success;
    }
    enqueue(stream, std::move(work));
    return success;
}

Status issue_library_call(void *stream, Work work) {
    return issue(stream, [work = std::move(work)] {
        counts.library_calls++;
        if (!is_idle) work();
    });
}

API int cudaStreamBeginCapture(void *handle, int mode) {
    Guard guard;
    Stream *stream = stream_of(handle);
    if (stream == &legacy_stream) return capture_unsupported;
    if (stream->capture) return invalid_value;
    stream->capture = std::make_shared<Capture>();
    stream->capture->mode = Mode(mode);
    stream->capture->thread = pthread_self();
    stream->is_origin = true;
    capturing.insert(stream);
    return success;
}

API int cudaStreamEndCapture(void *handle, void **graph) {
    Guard guard;
    Stream *stream = stream_of(handle);
    *graph = nullptr;
    if (!stream->capture || !stream->is_origin) return capture_unmatched;
    std::shared_ptr<Capture> capture = stream->capture;
    if (capture->mode != relaxed && !pthread_equal(capture->thread, pthread_self()))
        return capture_wrong_thread;
    stream->is_origin = false;
    for (auto each = capturing.begin(); each != capturing.end();) {
        Stream *member = *each++;
        if (member->capture == capture) member->capture.reset(), capturing.erase(member);
    }
    if (capture->is_invalid) return capture_invalidated;
    if (!capture->unjoined.empty()) return capture_unjoined;
    *graph = capture->graph.release();
    return success;
}

API int cudaStreamIsCapturing(void *handle, int *status) {
    Guard guard;
    Stream *stream = stream_of(handle);
    if (stream == &legacy_stream)
        if (Status refused = check_legacy_stream()) return refused;
    *status = !stream->capture ? 0 : stream->capture->is_invalid ? 2 : 1;
    return success;
}

API int cudaThreadExchangeStreamCaptureMode(int *) { return not_supported; }

}  // namespace emulator
