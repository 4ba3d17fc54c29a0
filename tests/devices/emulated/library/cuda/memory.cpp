// Memory: the host's, full of NaN at first, between guards that show what was written out of bounds.
#include "late.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>

namespace emulator {

static const size_t GUARD_BYTES = 512;  // a multiple of the alignment that cudaMalloc promises
static const unsigned char GUARD = 0xA5, UNWRITTEN = 0xFF;

struct Block {
    size_t size;
    int device;
};

// Freed memory, which is kept for a while, full of NaN: a graph or kernel that still has its address shows.
struct Freed {
    unsigned char *start;
    size_t size;
};

static std::map<uintptr_t, Block> blocks;
static std::deque<Freed> freed;
static size_t freed_bytes = 0;
static const size_t MOST_FREED = size_t(16) << 20;
static std::map<uintptr_t, size_t> pinned;
static size_t limit = size_t(4) << 30, used = 0;
static size_t most_pinned = size_t(1) << 40;  // bytes of one allocation

template <class Size>
static auto containing(std::map<uintptr_t, Size> &map, const void *pointer, size_t (*size)(const Size &)) {
    auto found = map.upper_bound((uintptr_t)pointer);
    if (found == map.begin()) return map.end();
    --found;
    // A pointer to the end belongs to it, as that of an empty view does.
    return (uintptr_t)pointer <= found->first + size(found->second) ? found : map.end();
}

static auto block_of(const void *pointer) {
    return containing<Block>(blocks, pointer, [](const Block &block) { return block.size; });
}

bool is_device_memory(const void *pointer) {
    Guard guard;
    return block_of(pointer) != blocks.end();
}

bool is_memory_of_another_device(const void *pointer) {
    Guard guard;
    auto block = block_of(pointer);
    return block != blocks.end() && block->second.device != current_device();
}

bool is_pinned_memory(const void *pointer) {
    Guard guard;
    return containing<size_t>(pinned, pointer, [](const size_t &size) { return size; }) != pinned.end();
}

static bool is_guarded(uintptr_t start, size_t size) {
    const unsigned char *before = (unsigned char *)start - GUARD_BYTES,
                        *after = (unsigned char *)start + size;
    for (size_t i = 0; i < GUARD_BYTES; i++)
        if (before[i] != GUARD || after[i] != GUARD) return false;
    return true;
}

static void check_guards(uintptr_t start, size_t size) {
    if (is_guarded(start, size)) return;
    report_fault("something was written out of the bounds of " + std::to_string(size) +
                 " bytes of device memory");
    memset((void *)(start - GUARD_BYTES), GUARD, GUARD_BYTES);
    memset((void *)(start + size), GUARD, GUARD_BYTES);
}

API void emulator_set_memory(size_t bytes) { limit = bytes; }

API int cudaMalloc(void **pointer, size_t size) {
    Guard guard;
    *pointer = nullptr;
    if (Status refused = check_unsafe_call()) return refused;
    if (used + size > limit) return out_of_memory;
    void *raw;
    if (posix_memalign(&raw, GUARD_BYTES, size + 2 * GUARD_BYTES)) return out_of_memory;
    char *start = (char *)raw + GUARD_BYTES;
    memset(raw, GUARD, GUARD_BYTES);
    memset(start, UNWRITTEN, size);
    memset(start + size, GUARD, GUARD_BYTES);
    blocks[(uintptr_t)start] = {size, current_device()};
    used += size;
    counts.allocations++;
    counts.allocated_bytes += size;
    *pointer = start;
    return success;
}

static void check_freed(const Freed &each) {
    // All bytes are equal if each equals the next.
    const bool is_untouched =
        !each.size || (each.start[0] == UNWRITTEN && !memcmp(each.start, each.start + 1, each.size - 1));
    if (is_untouched) return;
    report_fault("something was written to " + std::to_string(each.size) + " bytes of freed device memory");
    memset(each.start, UNWRITTEN, each.size);
}

static void keep_freed(void *pointer, size_t size) {
    memset(pointer, UNWRITTEN, size);
    freed.push_back({(unsigned char *)pointer, size});
    freed_bytes += size;
    while (freed_bytes > MOST_FREED) {
        check_freed(freed.front());
        freed_bytes -= freed.front().size;
        free(freed.front().start - GUARD_BYTES);
        freed.pop_front();
    }
}

// Check the guards of all memory, and what is freed; what they show becomes a fault.
API void emulator_check_memory() {
    Guard guard;
    for (const auto &each : blocks) check_guards(each.first, each.second.size);
    for (const Freed &each : freed) check_freed(each);
}

API int cudaFree(void *pointer) {
    Guard guard;
    if (!pointer) return success;
    if (Status refused = check_unsafe_call()) return refused;
    auto found = blocks.find((uintptr_t)pointer);
    if (found == blocks.end()) return invalid_value;
    const size_t size = found->second.size;
    check_guards(found->first, size);
    used -= size;
    counts.frees++;
    blocks.erase(found);
    enqueue(stream_of(nullptr), [=] { keep_freed(pointer, size); });
    return success;
}

API int cudaMallocAsync(void **pointer, size_t size, void *) { return cudaMalloc(pointer, size); }
API int cudaFreeAsync(void *pointer, void *) { return cudaFree(pointer); }

API int cudaMemGetInfo(size_t *unused, size_t *total) {
    Guard guard;
    *total = limit;
    *unused = limit - used;
    return success;
}

// Let the host's memory not be locked in larger blocks than this.
API void emulator_set_pinned_memory(size_t bytes) { most_pinned = bytes; }

API int cudaHostAlloc(void **pointer, size_t size, unsigned) {
    Guard guard;
    if (Status refused = check_unsafe_call()) return refused;
    if (size > most_pinned || posix_memalign(pointer, GUARD_BYTES, size + 1)) return out_of_memory;
    pinned[(uintptr_t)*pointer] = size;
    return success;
}

API int cudaFreeHost(void *pointer) {
    Guard guard;
    pinned.erase((uintptr_t)pointer);
    free(pointer);
    return success;
}

struct Attributes {
    int kind;  // 0: not registered, 1: host, 2: device
    int device;
    const void *device_pointer, *host_pointer;
};

API int cudaPointerGetAttributes(Attributes *found, const void *pointer) {
    Guard guard;
    auto block = block_of(pointer);
    if (block != blocks.end()) *found = {2, block->second.device, pointer, nullptr};
    else if (is_pinned_memory(pointer)) *found = {1, current_device(), pointer, pointer};
    else *found = {0, -1, nullptr, pointer};
    return success;
}

}  // namespace emulator
