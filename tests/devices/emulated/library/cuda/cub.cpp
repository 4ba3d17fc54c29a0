// What CuPy has compiled of CUB for whole arrays: reductions and scans, one element after the other.
// The functions have the signatures of cupy/cuda/cupy_cub.cu, whose names they take over.
#include "../emulator.h"

#include <stdexcept>
#include <type_traits>

struct CUstream_st;

namespace emulator {

enum Operation {
    sum = 0,
    smallest = 1,
    largest = 2,
    first_smallest = 3,
    first_largest = 4,
    running_sum = 5,
    running_product = 6,
    product = 7
};

// Call a function with a null pointer of the type that CuPy has a number for.
template <class Function>
static void with_type(int number, Function function) {
    switch (number) {
        case 0: return function((int8_t *)nullptr);
        case 1:
        case 13: return function((uint8_t *)nullptr);  // 13: bool
        case 2: return function((int16_t *)nullptr);
        case 3: return function((uint16_t *)nullptr);
        case 4: return function((int32_t *)nullptr);
        case 5: return function((uint32_t *)nullptr);
        case 6: return function((int64_t *)nullptr);
        case 7: return function((uint64_t *)nullptr);
        case 9: return function((float *)nullptr);
        case 10: return function((double *)nullptr);
    }
    throw std::runtime_error("the emulated CUB has no dtype with the number " + std::to_string(number));
}

// Whether x comes before y; NaN comes before every number, as it is the result of every extremum.
template <class T>
static bool precedes(T x, T y, bool is_largest) {
    if (y != y) return false;
    return x != x || (is_largest ? x > y : x < y);
}

template <class T>
static int64_t index_of_extremum(const T *x, int64_t n, bool is_largest) {
    int64_t found = 0;
    for (int64_t i = 1; i < n; i++)
        if (precedes(x[i], x[found], is_largest)) found = i;
    return found;
}

template <class T>
static T reduced(const T *x, int64_t n, int operation) {
    if (operation == smallest || operation == largest)
        return x[index_of_extremum(x, n, operation == largest)];
    T found = operation == product;
    for (int64_t i = 0; i < n; i++) found = operation == product ? T(found * x[i]) : T(found + x[i]);
    return found;
}

template <class T>
static void scan(const T *x, T *y, int64_t n, int operation) {
    T found = operation == running_product;
    for (int64_t i = 0; i < n; i++) {
        found = operation == running_product ? T(found * x[i]) : T(found + x[i]);
        y[i] = found;
    }
}

// These functions return no status: as in CUB, what CUDA refuses is an exception.
static void issue_or_throw(CUstream_st *stream, Work work) {
    if (issue_library_call(stream, std::move(work)))
        throw std::runtime_error("the stream refuses work of CUB");
}

}  // namespace emulator

using namespace emulator;

SHARED void cub_device_reduce(void *, size_t &, void *x, void *y, int n, CUstream_st *stream, int operation,
                              int dtype) {
    issue_or_throw(stream, [=] {
        with_type(dtype, [=](auto *null) {
            using T = std::remove_pointer_t<decltype(null)>;
            const T *values = (const T *)x;
            // CUB writes a pair of the index and the value.
            struct Pair {
                int key;
                T value;
            };
            if (operation == first_smallest || operation == first_largest) {
                const int index = index_of_extremum(values, n, operation == first_largest);
                *(Pair *)y = {index, values[index]};
            } else *(T *)y = reduced(values, n, operation);
        });
    });
}

SHARED void cub_device_segmented_reduce(void *, size_t &, void *x, void *y, int segments, int size,
                                        CUstream_st *stream, int operation, int dtype) {
    issue_or_throw(stream, [=] {
        with_type(dtype, [=](auto *null) {
            using T = std::remove_pointer_t<decltype(null)>;
            for (int64_t i = 0; i < segments; i++)
                ((T *)y)[i] = reduced((const T *)x + i * size, size, operation);
        });
    });
}

SHARED void cub_device_scan(void *, size_t &, void *x, void *y, int n, CUstream_st *stream, int operation,
                            int dtype) {
    issue_or_throw(stream, [=] {
        with_type(dtype, [=](auto *null) {
            using T = std::remove_pointer_t<decltype(null)>;
            scan((const T *)x, (T *)y, n, operation);
        });
    });
}

static const size_t WORKSPACE = 1024;  // CUB wants some, which CuPy allocates

SHARED size_t cub_device_reduce_get_workspace_size(void *, void *, int, CUstream_st *, int, int) {
    return WORKSPACE;
}
SHARED size_t cub_device_segmented_reduce_get_workspace_size(void *, void *, int, int, CUstream_st *, int,
                                                             int) {
    return WORKSPACE;
}
SHARED size_t cub_device_scan_get_workspace_size(void *, void *, int, CUstream_st *, int, int) {
    return WORKSPACE;
}
