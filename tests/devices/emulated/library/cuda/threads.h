// How the threads of a block run: one after the other, or, where they wait for each other, in turns.
#pragma once

namespace emulator {

struct Size {
    unsigned x, y, z;
};

using Run = void (*)(void **arguments);

// Run one block. Backwards, its last thread comes first, as the order of threads must not matter.
void run_threads(Run run, void **arguments, bool is_backwards);

// The same for a kernel with barriers, and for all blocks of a cluster, each after a call of `turn_to`; false
// if some threads wait where others never arrive.
bool run_threads_in_turns(Run run, void **arguments, bool is_backwards, unsigned blocks,
                          void (*turn_to)(unsigned block));

}  // namespace emulator
