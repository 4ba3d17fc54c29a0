// Work that runs as late as CUDA permits: see late.cpp.
#pragma once
#include "../emulator.h"

#include <deque>

namespace emulator {

// What was issued to a stream, and how much of it has run.
struct Queue {
    std::deque<Work> waiting;
    uint64_t done = 0;
    uint64_t issued() const { return done + waiting.size(); }
};

// Run work of a stream, or keep it until somebody waits for it.
void enqueue(Stream *stream, Work work);

// Run what a stream was given, up to so many pieces of work, and what that waits for.
void run_until(Queue &queue, uint64_t number);
void run_all(Queue &queue);
void run_everything();

}  // namespace emulator
