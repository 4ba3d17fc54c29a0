// Launches of kernels: blocks one after the other, in reverse in every other launch.
#include "../emulator.h"
#include "modules.h"

#include <algorithm>
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

// The blocks of the cluster that runs: static and dynamic shared memory of each, static ones while others run.
struct Cluster {
    const Module *module;
    unsigned rank, first;  // of the block that runs, and the index of the first
    size_t dynamic_bytes;
    std::vector<char> copies;
    std::vector<uint64_t> dynamic;
};
static Cluster cluster;

static void turn_to(unsigned block) {
    const size_t size = cluster.module->shared_stop - cluster.module->shared_start;
    memcpy(cluster.copies.data() + cluster.rank * size, cluster.module->shared_start, size);
    memcpy(cluster.module->shared_start, cluster.copies.data() + block * size, size);
    cluster.rank = block;
    emulated_block.x = cluster.first + block;
    emulated_dynamic_memory = (char *)cluster.dynamic.data() + block * cluster.dynamic_bytes;
}

API unsigned emulated_cluster_rank() { return cluster.rank; }

API void *emulated_shared_memory_of(const void *at, unsigned rank) {
    const size_t offset = (const char *)at - emulated_dynamic_memory;
    if (offset >= cluster.dynamic_bytes) report_fault("an address of another block is not in dynamic memory");
    return (char *)cluster.dynamic.data() + rank * cluster.dynamic_bytes + offset;
}

static void run_cluster(const Function &function, void **arguments, bool is_backwards) {
    const Module &module = function.module;
    const size_t size = module.shared_stop - module.shared_start;
    // What another block has left there must not be read.
    cluster.module = &module;
    cluster.rank = 0;
    cluster.first = emulated_block.x;
    cluster.copies.assign(module.cluster * size, char(0xFF));
    memset(module.shared_start, 0xFF, size);
    std::fill(cluster.dynamic.begin(), cluster.dynamic.end(), ~uint64_t(0));
    turn_to(0);
    if (!module.has_barriers) run_threads(function.entry.run, arguments, is_backwards);
    else if (!run_threads_in_turns(function.entry.run, arguments, is_backwards, module.cluster, turn_to))
        report_fault(std::string("threads of ") + function.entry.name +
                     " wait where others of their block never arrive");
}

static void run(const Launch &launch, void **arguments) {
    static bool is_backwards = false;
    is_backwards = !is_backwards;
    counts.kernels++;
    if (is_idle) return;
    const unsigned n = launch.function->module.cluster;
    emulated_grid_size = launch.grid;
    emulated_block_size = launch.block;
    cluster.dynamic_bytes = (launch.dynamic_bytes / 16 + 1) * 16;
    cluster.dynamic.resize(n * cluster.dynamic_bytes / 8);
    const uint64_t blocks = uint64_t(launch.grid.x) * launch.grid.y * launch.grid.z;
    for (uint64_t i = 0; i < blocks; i += n) {
        const uint64_t block = is_backwards ? blocks - n - i : i;
        emulated_block.x = block % launch.grid.x;
        emulated_block.y = block / launch.grid.x % launch.grid.y;
        emulated_block.z = block / launch.grid.x / launch.grid.y;
        run_cluster(*launch.function, arguments, is_backwards);
    }
}

static bool is_valid(const Launch &launch) {
    const Size &block = launch.block, &grid = launch.grid;
    return block.x && block.y && block.z && uint64_t(block.x) * block.y * block.z <= 1024 && block.z <= 64 &&
           grid.x && grid.y && grid.z && grid.x <= 2147483647 && grid.y <= 65535 && grid.z <= 65535 &&
           launch.dynamic_bytes <= MOST_DYNAMIC_BYTES && launch.function->module.cluster <= 8 &&
           grid.x % launch.function->module.cluster == 0;
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
