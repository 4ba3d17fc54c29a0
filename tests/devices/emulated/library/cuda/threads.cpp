// The threads of a block. Those that wait for each other have a stack each, and take turns between barriers.
//
// A thread that meets a barrier stops, and the next one runs. When all have stopped, those whose barrier is
// complete go on. So each thread sees what all others have written before the barrier, and nothing else: a
// missing barrier gives wrong numbers in one of the two orders of threads. The blocks of a cluster take turns
// likewise, each until all its threads wait for other blocks.
#include "../emulator.h"
#include "threads.h"

#include <cstring>
#include <sys/mman.h>

extern "C" {
SHARED emulator::Size emulated_thread;  // known to kernels by this name
extern SHARED emulator::Size emulated_block_size;
}

// Save what a function must preserve on the stack that runs, and go on where another one has stopped.
extern "C" void emulator_switch(void **stopped, void *other);
asm(R"(
.text
.type emulator_switch, @function
emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");

namespace emulator {

static const size_t STACK = 64 * 1024;
static const unsigned WARP = 32, MOST = 1024, MOST_BLOCKS = 8;

enum State { ready, at_block_barrier, at_warp_barrier, at_cluster_barrier, done };

struct Thread {
    void *stopped;  // the top of its stack
    char *stack = nullptr;
    State state;
    unsigned mask;   // of the lanes that it waits for
    char value[16];  // what it shows to other lanes
};

static Thread threads_of[MOST_BLOCKS][MOST];
static Thread *threads = threads_of[0];  // those of the block that runs
static unsigned count, running;
static void *scheduler;
static Run running_kernel;
static void **running_arguments;
static bool are_turns = false;

static void set_index(unsigned thread) {
    running = thread;
    emulated_thread.x = thread % emulated_block_size.x;
    emulated_thread.y = thread / emulated_block_size.x % emulated_block_size.y;
    emulated_thread.z = thread / emulated_block_size.x / emulated_block_size.y;
}

static unsigned block_threads() {
    return emulated_block_size.x * emulated_block_size.y * emulated_block_size.z;
}

void run_threads(Run run, void **arguments, bool is_backwards) {
    const unsigned n = block_threads();
    for (unsigned i = 0; i < n; i++) {
        set_index(is_backwards ? n - 1 - i : i);
        run(arguments);
    }
}

static void stop(State state) {
    threads[running].state = state;
    emulator_switch(&threads[running].stopped, scheduler);
}

static void body() {
    running_kernel(running_arguments);
    stop(done);
}

static void prepare(Thread &thread) {
    if (!thread.stack)
        thread.stack =
            (char *)mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    // As emulator_switch leaves a stack: six registers, then where to return to, aligned as at a call.
    void **top = (void **)(thread.stack + STACK) - 2;
    top[0] = (void *)body;
    thread.stopped = top - 6;
    thread.state = ready;
}

// Whether every lane of the mask that still runs waits with the same mask.
static bool is_complete(unsigned thread) {
    const unsigned first = thread / WARP * WARP;
    for (unsigned lane = 0; lane < WARP && first + lane < count; lane++) {
        const Thread &other = threads[first + lane];
        if (!(threads[thread].mask >> lane & 1) || other.state == done) continue;
        if (other.state != at_warp_barrier || other.mask != threads[thread].mask) return false;
    }
    return true;
}

static bool release_warps() {
    bool are_released[MOST], is_any = false;
    for (unsigned i = 0; i < count; i++)
        is_any |= are_released[i] = threads[i].state == at_warp_barrier && is_complete(i);
    for (unsigned i = 0; i < count; i++)
        if (are_released[i]) threads[i].state = ready;
    return is_any;
}

static bool release_block() {
    for (unsigned i = 0; i < count; i++)
        if (threads[i].state != at_block_barrier && threads[i].state != done) return false;
    for (unsigned i = 0; i < count; i++)
        if (threads[i].state == at_block_barrier) threads[i].state = ready;
    return true;
}

static bool all_done() {
    for (unsigned i = 0; i < count; i++)
        if (threads[i].state != done) return false;
    return true;
}

// Run the threads of a block until all have ended or wait for other blocks; return whether some ran.
static bool run_until_all_wait(bool is_backwards) {
    for (bool has_run = false;;) {
        for (unsigned i = 0; i < count; i++) {
            set_index(is_backwards ? count - 1 - i : i);
            if (threads[running].state != ready) continue;
            has_run = true;
            emulator_switch(&scheduler, threads[running].stopped);
        }
        if (all_done() || !(release_warps() || release_block())) return has_run;
    }
}

static bool all_are(State state, unsigned blocks) {
    for (unsigned block = 0; block < blocks; block++)
        for (unsigned i = 0; i < count; i++)
            if (threads_of[block][i].state != state) return false;
    return true;
}

static bool release_cluster(unsigned blocks) {
    if (!all_are(at_cluster_barrier, blocks)) return false;
    for (unsigned block = 0; block < blocks; block++)
        for (unsigned i = 0; i < count; i++) threads_of[block][i].state = ready;
    return true;
}

bool run_threads_in_turns(Run run, void **arguments, bool is_backwards, unsigned blocks,
                          void (*turn_to)(unsigned block)) {
    count = block_threads();
    running_kernel = run;
    running_arguments = arguments;
    for (unsigned block = 0; block < blocks; block++)
        for (unsigned i = 0; i < count; i++) prepare(threads_of[block][i]);
    are_turns = true;
    for (bool goes_on = true; goes_on;) {
        goes_on = false;
        for (unsigned i = 0; i < blocks; i++) {
            const unsigned block = is_backwards ? blocks - 1 - i : i;
            threads = threads_of[block];
            turn_to(block);
            goes_on |= run_until_all_wait(is_backwards);
        }
        goes_on |= release_cluster(blocks);
    }
    are_turns = false;
    return all_are(done, blocks);
}

// -- what kernels call ------------------------------------------------------------------------

API void emulated_block_barrier() {
    if (are_turns) stop(at_block_barrier);
}

API void emulated_cluster_barrier() {
    if (are_turns) stop(at_cluster_barrier);
}

API void emulated_warp_barrier(unsigned mask) {
    if (!are_turns) return;
    threads[running].mask = mask;
    stop(at_warp_barrier);
}

// Show a value to the lanes of the mask, and return that of one of them; of any other lane it is undefined,
// for which NaN stands.
API void emulated_exchange(unsigned mask, const void *mine, void *found, unsigned size, unsigned lane) {
    const unsigned first = running / WARP * WARP, self = running - first;
    if (!(mask >> self & 1)) report_fault("a shuffle has a mask without the lane that calls it");
    memcpy(threads[running].value, mine, size);
    emulated_warp_barrier(mask);
    const bool is_there = mask >> lane & 1 && first + lane < count && threads[first + lane].state != done;
    if (is_there) memcpy(found, threads[first + lane].value, size);
    else memset(found, 0xFF, size);
    emulated_warp_barrier(mask);  // before the next value is shown
}

}  // namespace emulator
