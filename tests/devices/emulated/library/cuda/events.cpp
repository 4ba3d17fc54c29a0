// Events, by which streams join a capture and leave it.
#include "capture.h"
#include "late.h"

namespace emulator {

struct Event {
    std::weak_ptr<Capture> capture;
    Stream *stream = nullptr;
    std::shared_ptr<Queue> queue = new_queue();  // of the stream, and how much of it the event comes after
    uint64_t number = 0;
};

API int cudaEventCreateWithFlags(Event **event, unsigned) {
    *event = new Event;
    return success;
}

API int cudaEventCreate(Event **event) { return cudaEventCreateWithFlags(event, 0); }

API int cudaEventDestroy(Event *event) {
    delete event;
    return success;
}

API int cudaEventRecord(Event *event, void *handle) {
    Guard guard;
    Stream *stream = stream_of(handle);
    if (stream == &legacy_stream)
        if (Status refused = check_legacy_stream()) return refused;
    event->capture = stream->capture;
    event->stream = stream;
    event->queue = stream->queue;
    event->number = stream->queue->issued();
    return success;
}

// An event of a capture brings the waiting stream into it; the first stream's wait brings work back.
API int cudaStreamWaitEvent(void *handle, Event *event, unsigned) {
    Guard guard;
    Stream *stream = stream_of(handle);
    std::shared_ptr<Capture> capture = event->capture.lock();
    if (!capture) {
        if (stream->capture && event->stream) return invalidate(*stream->capture, capture_isolation);
        if (event->queue != stream->queue)
            enqueue(stream, [queue = event->queue, number = event->number] { run_until(*queue, number); });
        return success;
    }
    if (stream == &legacy_stream) return invalidate(*capture, capture_implicit);
    if (stream->capture && stream->capture != capture) return invalidate(*capture, capture_unsupported);
    if (!stream->capture) {
        stream->capture = capture;
        capturing.insert(stream);
        capture->unjoined.insert(stream);
    }
    capture->unjoined.erase(event->stream);
    return success;
}

static Status check_event(Event *event) {
    std::shared_ptr<Capture> capture = event->capture.lock();
    return capture ? invalidate(*capture, captured_event) : success;
}

API int cudaEventSynchronize(Event *event) {
    Guard guard;
    if (Status refused = check_event(event)) return refused;
    counts.synchronizations++;
    run_until(*event->queue, event->number);
    return success;
}

API int cudaEventQuery(Event *event) {
    Guard guard;
    if (Status refused = check_event(event)) return refused;
    return event->queue->done < event->number ? not_ready : success;
}

API int cudaEventElapsedTime(float *milliseconds, Event *, Event *) {
    *milliseconds = 0;
    return success;
}

}  // namespace emulator
