// Work that runs as late as CUDA permits, if a test asks for it: when somebody waits for it.
//
// A GPU may run the work of two streams in any order that their events leave open. With late copies, streams
// other than the default one run when another stream, or the host, waits for them: who forgets to wait reads
// what was there before. With late computing, the default stream does, and the others run at once: a copy that
// does not wait for it overwrites what it has not read; so does the host where everything is late. Freed memory
// is free when the default stream is done with what it had been given until then, as memory of CuPy's pool is.
#include "late.h"

namespace emulator {

enum Which { none, copies, computing, everything };

extern Stream legacy_stream;
static Which late = none;
static std::vector<std::shared_ptr<Queue>> queues;  // those that ever had late work

static bool is_late(const Stream *stream) {
    if (stream == &legacy_stream) return late == computing || late == everything;
    return !stream->is_blocking && (late == copies || late == everything);
}

std::shared_ptr<Queue> new_queue() { return std::make_shared<Queue>(); }

void run_until(Queue &queue, uint64_t number) {
    while (queue.done < number && !queue.waiting.empty()) {
        Work work = std::move(queue.waiting.front());
        queue.waiting.pop_front();
        work();
        queue.done++;
    }
}

void run_all(Queue &queue) { run_until(queue, queue.issued()); }

void run_everything() {
    for (const std::shared_ptr<Queue> &queue : queues) run_all(*queue);
}

void enqueue(Stream *stream, Work work) {
    Queue &queue = *stream->queue;
    queue.waiting.push_back(std::move(work));
    if (!is_late(stream)) return run_all(queue);
    for (const std::shared_ptr<Queue> &known : queues)
        if (known == stream->queue) return;
    queues.push_back(stream->queue);
}

// 0: nothing is late; 1: copies; 2: computing; 3: everything.
API void emulator_set_late(int which) {
    Guard guard;
    run_everything();
    queues.clear();
    late = Which(which);
}

}  // namespace emulator
