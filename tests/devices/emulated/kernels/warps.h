// Barriers, and values that the threads of a warp show each other; library/threads.cpp runs them.
#pragma once

extern "C" {
void emulated_block_barrier();
void emulated_cluster_barrier();
unsigned emulated_cluster_rank();
void *emulated_shared_memory_of(const void *at, unsigned rank);
void emulated_warp_barrier(unsigned mask);
void emulated_exchange(unsigned mask, const void *mine, void *found, unsigned size, unsigned lane);
}

static inline void __syncthreads() { emulated_block_barrier(); }
static inline void __cluster_barrier_arrive() {}
static inline void __cluster_barrier_wait() { emulated_cluster_barrier(); }
static inline unsigned __clusterRelativeBlockRank() { return emulated_cluster_rank(); }
static inline void *__cluster_map_shared_rank(const void *at, unsigned rank) {
    return emulated_shared_memory_of(at, rank);
}
static inline void __syncwarp(unsigned mask = 0xFFFFFFFFu) { emulated_warp_barrier(mask); }
static inline void __threadfence() {}
static inline void __threadfence_block() {}

static inline int emulated_lane() {
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % warpSize;
}

template <class T>
static inline T emulated_shuffled(unsigned mask, T mine, int lane) {
    static_assert(sizeof(T) <= 16, "a shuffle moves numbers");
    T found;
    emulated_exchange(mask, &mine, &found, sizeof(T), lane);
    return found;
}

// A lane outside of the part of the warp that takes part has the caller's own value.
template <class T>
static inline T emulated_shuffled_within(unsigned mask, T mine, int lane, int width) {
    const int self = emulated_lane();
    return emulated_shuffled(mask, mine, lane >= 0 && lane / width == self / width ? lane : self);
}

template <class T>
static inline T __shfl_sync(unsigned mask, T mine, int lane, int width = 32) {
    return emulated_shuffled(mask, mine, emulated_lane() / width * width + (lane & (width - 1)));
}

template <class T>
static inline T __shfl_xor_sync(unsigned mask, T mine, int bits, int width = 32) {
    const int self = emulated_lane(), lane = self ^ bits;
    // Earlier groups of lanes can be read, later ones cannot.
    return emulated_shuffled(mask, mine, lane / width <= self / width ? lane : self);
}

template <class T>
static inline T __shfl_down_sync(unsigned mask, T mine, unsigned distance, int width = 32) {
    return emulated_shuffled_within(mask, mine, emulated_lane() + int(distance), width);
}

template <class T>
static inline T __shfl_up_sync(unsigned mask, T mine, unsigned distance, int width = 32) {
    return emulated_shuffled_within(mask, mine, emulated_lane() - int(distance), width);
}

static inline unsigned __ballot_sync(unsigned mask, int is_set) {
    unsigned found = 0;
    for (int lane = 0; lane < warpSize; lane++)
        if (emulated_shuffled(mask, int(is_set != 0), lane) == 1) found |= 1u << lane;
    return found;
}

static inline int __any_sync(unsigned mask, int is_set) { return __ballot_sync(mask, is_set) != 0; }
static inline int __all_sync(unsigned mask, int is_set) { return __ballot_sync(mask, !is_set) == 0; }
