// What the parts of the emulator share: status codes, counters, streams, and how work is issued to a stream.
//
// Work runs on the host at the moment it is issued, unless a test wants it late (cuda/late.cpp), or, while the
// stream is captured, becomes a node of a graph. Every entry point holds one lock: kernels find their thread's index in global variables.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))
#define SHARED __attribute__((visibility("default")))  // for the other libraries of the emulator

namespace emulator {

// The codes of cudaError_t and CUresult, which agree as far as they are used here.
enum Status : int {
    success = 0,
    invalid_value = 1,
    out_of_memory = 2,
    no_device = 100,
    invalid_device = 101,
    invalid_image = 200,
    invalid_handle = 400,
    not_found = 500,
    not_ready = 600,
    launch_failure = 719,
    not_supported = 801,
    capture_unsupported = 900,
    capture_invalidated = 901,
    capture_unmatched = 903,
    capture_unjoined = 904,
    capture_isolation = 905,
    capture_implicit = 906,
    captured_event = 907,
    capture_wrong_thread = 908,
};

// Read by tests, by the names in counts.py, which has them in the same order.
struct Counts {
    int64_t kernels, library_calls, graph_launches, graph_nodes;
    int64_t allocations, allocated_bytes, frees;
    int64_t to_device, to_device_bytes, to_host, to_host_bytes, on_device, on_device_bytes, fills;
    int64_t synchronizations;
};
extern SHARED Counts counts;
extern bool is_idle;

struct SHARED Guard {
    Guard();
    ~Guard();
};

// What no GPU would report, and a test should fail for: a write out of bounds, threads that miss a barrier.
SHARED void report_fault(const std::string &text);

using Work = std::function<void()>;

struct Graph {
    std::vector<Work> nodes;
};

struct Capture;

struct Queue;
SHARED std::shared_ptr<Queue> new_queue();

struct Stream {
    std::shared_ptr<Queue> queue = new_queue();
    bool is_blocking = true;  // with the legacy default stream
    std::shared_ptr<Capture> capture;
    bool is_origin = false;  // the capture has begun here
    int device = 0;
};

SHARED Stream *stream_of(void *handle);

// Run a call of a library or driver on a stream, or make a node of it; the status says what forbids it.
SHARED Status issue(void *stream, Work work);

// A call of cuBLAS and the like, which is counted as one, whatever kernels it would launch.
SHARED Status issue_library_call(void *stream, Work work);

// Calls that no capture, or none but a relaxed one, permits while they are made; they end such captures.
Status check_unsafe_call();
Status check_device_wide_call();
Status check_capture_of(Stream *stream);
Status check_legacy_stream();
bool is_any_stream_captured();

bool is_device_memory(const void *pointer);
bool is_memory_of_another_device(const void *pointer);
bool is_pinned_memory(const void *pointer);
int current_device();

}  // namespace emulator
