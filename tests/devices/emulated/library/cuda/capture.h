// What is captured, and what forbids a call during capture.
#pragma once
#include "../emulator.h"

#include <pthread.h>
#include <set>

namespace emulator {

enum Mode { global, thread_local_mode, relaxed };

struct Capture {
    Mode mode;
    pthread_t thread;
    bool is_invalid = false;
    std::unique_ptr<Graph> graph = std::make_unique<Graph>();
    std::set<Stream *> unjoined;  // other streams with work that the first one does not wait for
};

extern Stream legacy_stream;
extern std::set<Stream *> capturing;  // every stream that is

// Say that a capture has failed; it can only be ended, and gives no graph.
Status invalidate(Capture &capture, Status status);

}  // namespace emulator
