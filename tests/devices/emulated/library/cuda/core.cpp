// The lock, the counters, and faults.
#include "../emulator.h"

#include <cstring>

namespace emulator {

static std::recursive_mutex lock;
static std::vector<std::string> faults;
Counts counts;
bool is_idle = false;

Guard::Guard() { lock.lock(); }
Guard::~Guard() { lock.unlock(); }

void report_fault(const std::string &text) {
    Guard guard;
    faults.push_back(text);
}

// Whether kernels and calls of libraries are counted only.
API void emulator_set_idle(bool idle) { is_idle = idle; }

API Counts *emulator_counts() { return &counts; }

// Return the first fault, or nothing, and forget it at the next call.
API const char *emulator_next_fault() {
    static std::string last;
    Guard guard;
    if (faults.empty()) return nullptr;
    last = faults.front();
    faults.erase(faults.begin());
    return last.c_str();
}

}  // namespace emulator
