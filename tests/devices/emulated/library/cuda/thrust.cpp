// What CuPy has compiled of Thrust: sorts along the last axis, by the standard library.
// The functions have the signatures of cupy/cuda/cupy_thrust.cu, whose names they take over.
#include "../emulator.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <type_traits>

namespace emulator {

template <class Function>
static void with_sorted_type(int number, Function function) {
    switch (number) {
        case 0: return function((int8_t *)nullptr);
        case 1:
        case 13: return function((uint8_t *)nullptr);  // 13: bool
        case 4: return function((int32_t *)nullptr);
        case 5: return function((uint32_t *)nullptr);
        case 6: return function((int64_t *)nullptr);
        case 7: return function((uint64_t *)nullptr);
        case 9: return function((float *)nullptr);
        case 10: return function((double *)nullptr);
    }
    throw std::runtime_error("the emulated Thrust has no dtype with the number " + std::to_string(number));
}

// NaN comes last.
template <class T>
static bool is_less(T x, T y) {
    return x < y || (x == x && y != y);
}

static int64_t size_of(const std::vector<ptrdiff_t> &shape) {
    return std::accumulate(shape.begin(), shape.end(), ptrdiff_t(1), std::multiplies<ptrdiff_t>());
}

static void issue_or_throw(intptr_t stream, Work work) {
    if (issue_library_call((void *)stream, std::move(work)))
        throw std::runtime_error("the stream refuses to sort");
}

}  // namespace emulator

using namespace emulator;

SHARED void thrust_sort(int dtype, void *data, size_t *, const std::vector<ptrdiff_t> &shape, intptr_t stream,
                        void *) {
    issue_or_throw(stream, [=] {
        with_sorted_type(dtype, [=](auto *null) {
            using T = std::remove_pointer_t<decltype(null)>;
            T *values = (T *)data;
            const int64_t length = shape.back(), size = size_of(shape);
            for (int64_t i = 0; i < size; i += length)
                std::stable_sort(values + i, values + i + length, is_less<T>);
        });
    });
}

SHARED void thrust_argsort(int dtype, size_t *indices, void *data, void *,
                           const std::vector<ptrdiff_t> &shape, intptr_t stream, void *) {
    issue_or_throw(stream, [=] {
        with_sorted_type(dtype, [=](auto *null) {
            using T = std::remove_pointer_t<decltype(null)>;
            const int64_t length = shape.back(), size = size_of(shape);
            for (int64_t i = 0; i < size; i += length) {
                const T *values = (const T *)data + i;
                std::iota(indices + i, indices + i + length, size_t(0));
                std::stable_sort(indices + i, indices + i + length,
                                 [=](size_t a, size_t b) { return is_less(values[a], values[b]); });
            }
        });
    });
}

// The last of the keys, which are rows, matters most.
SHARED void thrust_lexsort(int dtype, size_t *indices, void *keys, size_t rows, size_t n, intptr_t stream,
                           void *) {
    issue_or_throw(stream, [=] {
        with_sorted_type(dtype, [=](auto *null) {
            using T = std::remove_pointer_t<decltype(null)>;
            std::iota(indices, indices + n, size_t(0));
            for (size_t row = 0; row < rows; row++) {
                const T *values = (const T *)keys + row * n;
                std::stable_sort(indices, indices + n,
                                 [=](size_t a, size_t b) { return is_less(values[a], values[b]); });
            }
        });
    });
}
