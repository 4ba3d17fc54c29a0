// Launches of kernels: blocks one after the other, in reverse in every other launch.
#include "../emulator.h"
#include "modules.h"

#include <cstring>

extern "C" {
// Known to kernels by these names; what a thread is, threads.cpp says.
SHARED emulator::Size emulated_block, emulated_block_size, emulated_grid_size;
SHARED char *emulated_dynamic_memory;  // shared memory whose size the launch states
}

namespace emulator {

static const unsigned MOST_DYNAMIC_BYTES = 232448;

struct Launch {
    Function *function;
    Size grid, block;
    unsigned dynamic_bytes;
};

static void run_block(const Function &function, void **arguments, bool is_backwards) {
    const Module &module = function.module;
    // What another block has left there must not be read.
    memset(module.shared_start, 0xFF, module.shared_stop - module.shared_start);
    if (!module.has_barriers) run_threads(function.entry.run, arguments, is_backwards);
    else if (!run_threads_in_turns(function.entry.run, arguments, is_backwards))
        report_fault(std::string("threads of ") + function.entry.name +
                     " wait where others of their block never arrive");
}

static void run(const Launch &launch, void **arguments) {
    static bool is_backwards = false;
    is_backwards = !is_backwards;
    counts.kernels++;
    if (is_idle) return;
    emulated_grid_size = launch.grid;
    emulated_block_size = launch.block;
    std::vector<uint64_t> memory(launch.dynamic_bytes / 8 + 2);
    emulated_dynamic_memory = (char *)memory.data();
    const uint64_t blocks = uint64_t(launch.grid.x) * launch.grid.y * launch.grid.z;
    for (uint64_t i = 0; i < blocks; i++) {
        const uint64_t block = is_backwards ? blocks - 1 - i : i;
        emulated_block.x = block % launch.grid.x;
        emulated_block.y = block / launch.grid.x % launch.grid.y;
        emulated_block.z = block / launch.grid.x / launch.grid.y;
        memset(memory.data(), 0xFF, memory.size() * 8);
        run_block(*launch.function, arguments, is_backwards);
    }
}

static bool is_valid(const Launch &launch) {
    const Size &block = launch.block, &grid = launch.grid;
    return block.x && block.y && block.z && uint64_t(block.x) * block.y * block.z <= 1024 && block.z <= 64 &&
           grid.x && grid.y && grid.z && grid.x <= 2147483647 && grid.y <= 65535 && grid.z <= 65535 &&
           launch.dynamic_bytes <= MOST_DYNAMIC_BYTES;
}

// Arguments are copied at the launch, as a graph has them at every replay.
static std::vector<std::vector<char>> copied(const Entry &entry, void **arguments) {
    std::vector<std::vector<char>> values;
    for (int i = 0; i < entry.arguments; i++) {
        const char *value = (const char *)arguments[i];
        values.emplace_back(value, value + entry.sizes[i]);
    }
    return values;
}

static Status check_device(const Launch &launch, Stream *stream) {
    const bool is_here = launch.function->module.device == current_device();
    const bool is_default = stream == stream_of(nullptr);  // every device has one
    return is_here && (is_default || stream->device == current_device()) ? success : invalid_handle;
}

// Memory of other devices cannot be read, as none grants access. Arguments are pointers, or begin with one.
static void check_arguments(const Entry &entry, const std::vector<std::vector<char>> &values) {
    for (const std::vector<char> &value : values) {
        void *pointer = nullptr;
        if (value.size() >= sizeof pointer) memcpy(&pointer, value.data(), sizeof pointer);
        if (is_memory_of_another_device(pointer))
            report_fault(std::string(entry.name) + " was given memory of another device");
    }
}

API int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                       unsigned block_y, unsigned block_z, unsigned dynamic_bytes, void *stream,
                       void **arguments, void **) {
    Guard guard;
    const Launch launch{
        (Function *)function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, dynamic_bytes};
    if (!is_valid(launch)) return invalid_value;
    if (Status refused = check_device(launch, stream_of(stream))) return refused;
    std::vector<std::vector<char>> copies = copied(launch.function->entry, arguments);
    check_arguments(launch.function->entry, copies);
    return issue(stream, [launch, values = std::move(copies)]() mutable {
        std::vector<void *> pointers;
        for (auto &value : values) pointers.push_back(value.data());
        run(launch, pointers.data());
    });
}

}  // namespace emulator
