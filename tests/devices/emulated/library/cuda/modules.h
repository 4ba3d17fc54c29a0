// Modules, as kernels/launching.h lays them out, and their kernels.
#pragma once
#include "threads.h"

namespace emulator {

// A kernel, and how many bytes each of its arguments takes.
struct Entry {
    const char *name;
    Run run;
    int arguments;
    const int *sizes;
};

struct Module {
    void *object;
    const Entry *entries;
    bool has_barriers;
    unsigned cluster;  // blocks
    int device;
    char *shared_start, *shared_stop;  // the shared memory of all its kernels
};

struct Function {
    Entry entry;
    Module module;
};

}  // namespace emulator
