// Copies and fills. A copy of the wrong kind is refused: hardware might read any memory of the host.
#include "late.h"

#include <cstring>

namespace emulator {

enum Kind { host_to_host, host_to_device, device_to_host, device_to_device, by_address };

static Kind kind_of(const void *target, const void *source) {
    const bool from = is_device_memory(source), to = is_device_memory(target);
    return from ? (to ? device_to_device : device_to_host) : (to ? host_to_device : host_to_host);
}

static void count(Kind kind, size_t size) {
    if (kind == host_to_device) counts.to_device++, counts.to_device_bytes += size;
    if (kind == device_to_host) counts.to_host++, counts.to_host_bytes += size;
    if (kind == device_to_device) counts.on_device++, counts.on_device_bytes += size;
}

static Work copying(void *target, const void *source, size_t size, Kind kind) {
    return [=] {
        count(kind, size);
        memmove(target, source, size);
    };
}

API int cudaMemcpy(void *target, const void *source, size_t size, int kind) {
    Guard guard;
    if (Status refused = check_unsafe_call()) return refused;
    if (Status refused = check_legacy_stream()) return refused;
    const Kind found = kind_of(target, source);
    if (kind != by_address && kind != found && size) return invalid_value;
    enqueue(stream_of(nullptr), copying(target, source, size, found));
    run_all(*stream_of(nullptr)->queue);
    if (found != device_to_device) counts.synchronizations++;
    return success;
}

API int cudaMemcpyAsync(void *target, const void *source, size_t size, int kind, void *stream) {
    Guard guard;
    if (!size) return success;
    const Kind found = kind_of(target, source);
    if (kind != by_address && kind != found) return invalid_value;
    const bool is_staged = found != device_to_device && !is_pinned_memory(found == host_to_device ? source : target);
    // A graph would read or write this memory at every replay, when nobody keeps it.
    if (!is_staged) return issue(stream, copying(target, source, size, found));
    if (Status refused = check_capture_of(stream_of(stream))) return refused;
    if (found == host_to_device) {
        std::vector<char> staged((const char *)source, (const char *)source + size);
        return issue(stream, [=] { copying(target, staged.data(), size, found)(); });
    }
    const Status status = issue(stream, copying(target, source, size, found));
    run_all(*stream_of(stream)->queue);  // the host goes on when it has the copy
    return status;
}

API int cudaMemcpy2DAsync(void *target, size_t target_pitch, const void *source, size_t source_pitch,
                          size_t width, size_t height, int, void *stream) {
    Guard guard;
    const Kind kind = kind_of(target, source);
    return issue(stream, [=] {
        count(kind, width * height);
        for (size_t row = 0; row < height; row++)
            memmove((char *)target + row * target_pitch, (const char *)source + row * source_pitch, width);
    });
}

API int cudaMemcpyPeerAsync(void *target, int, const void *source, int, size_t size, void *stream) {
    Guard guard;
    return issue(stream, copying(target, source, size, device_to_device));
}

API int cudaMemcpyPeer(void *target, int, const void *source, int, size_t size) {
    return cudaMemcpyPeerAsync(target, 0, source, 0, size, nullptr);
}

API int cudaMemsetAsync(void *pointer, int value, size_t size, void *stream) {
    Guard guard;
    if (size && !is_device_memory(pointer)) return invalid_value;
    return issue(stream, [=] {
        counts.fills++;
        memset(pointer, value, size);
    });
}

API int cudaMemset(void *pointer, int value, size_t size) {
    return cudaMemsetAsync(pointer, value, size, nullptr);
}

}  // namespace emulator
