// What CuPy's reductions use of CUB within a block: every thread's items are reduced in order of the threads.
#pragma once

namespace cub {

template <class T, int THREADS>
struct BlockReduce {
    struct TempStorage {
        alignas(16) char values[THREADS * sizeof(T)];
    };
    TempStorage &storage;
    explicit BlockReduce(TempStorage &shared) : storage(shared) {}

    // As in CUB, only the first thread has the result.
    template <int ITEMS, class Operation>
    T Reduce(T (&items)[ITEMS], Operation operation) {
        T *partial = (T *)storage.values, found = items[0];
        for (int i = 1; i < ITEMS; i++) found = operation(found, items[i]);
        partial[threadIdx.x] = found;
        __syncthreads();
        if (threadIdx.x == 0)
            for (int i = 1; i < THREADS; i++) found = operation(found, partial[i]);
        return found;
    }
};

enum BlockLoadAlgorithm { BLOCK_LOAD_DIRECT };

template <class T, int THREADS, int ITEMS, BlockLoadAlgorithm algorithm = BLOCK_LOAD_DIRECT>
struct BlockLoad {
    struct TempStorage {};
    explicit BlockLoad(TempStorage &) {}
    template <class Iterator>
    void Load(Iterator source, T (&items)[ITEMS], int valid, T other) {
        for (int i = 0; i < ITEMS; i++) {
            const int index = threadIdx.x * ITEMS + i;
            items[i] = index < valid ? T(source[index]) : other;
        }
    }
};

}  // namespace cub
