// What follows a product: bias, activation and their gradients, on a matrix in Fortran order.
#pragma once
#include "descriptors.h"

#include <cmath>

namespace emulator {

template <class T>
struct Matrix {
    T *values;
    int64_t rows, columns, stride;

    T &at(int64_t i, int64_t j) const { return values[i + j * stride]; }
};

// GELU by tanh, which is the one that cuBLASLt has.
template <class T>
T gelu_of(T x) {
    return x / 2 * (1 + std::tanh(T(0.7978845608028654) * (x + T(0.044715) * x * x * x)));
}

template <class T>
T gelu_slope(T x) {
    const T inner = T(0.7978845608028654) * (x + T(0.044715) * x * x * x), t = std::tanh(inner);
    return (1 + t) / 2 + x / 2 * (1 - t * t) * T(0.7978845608028654) * (1 + 3 * T(0.044715) * x * x);
}

// A bit of the mask that ReLU writes for its gradient; its stride counts bits.
struct Mask {
    uint8_t *bytes;
    int64_t stride;

    bool get(int64_t i, int64_t j) const { return bytes[(j * stride + i) / 8] >> (i % 8) & 1; }
    void set(int64_t i, int64_t j, bool is_set) const {
        uint8_t &byte = bytes[(j * stride + i) / 8];
        byte = is_set ? byte | 1 << (i % 8) : byte & ~(1 << (i % 8));
    }
};

template <class T>
T activated(const Operation &how, T x, int64_t i, int64_t j) {
    const Mask mask{(uint8_t *)how.auxiliary, how.auxiliary_stride};
    T *inputs = (T *)how.auxiliary;
    if (how.has(relu)) {
        if (how.has(auxiliary)) mask.set(i, j, x > 0);
        return x > 0 ? x : T(0);  // of NaN as well, as users have found
    }
    if (how.has(gelu)) {
        if (how.has(auxiliary)) inputs[i + j * how.auxiliary_stride] = x;
        return gelu_of(x);
    }
    if (how.has(relu_gradient)) return mask.get(i, j) ? x : T(0);
    if (how.has(gelu_gradient)) return x * gelu_slope(inputs[i + j * how.auxiliary_stride]);
    return x;
}

template <class T>
void finish(const Operation &how, const Matrix<T> &d) {
    T *vector = (T *)how.bias;
    for (int64_t i = 0; i < d.rows; i++) {
        T total = 0;
        for (int64_t j = 0; j < d.columns; j++) {
            T &x = d.at(i, j);
            x = activated(how, how.has(bias) ? x + vector[i] : x, i, j);
            total += x;
        }
        if (how.has(bias_gradient)) vector[i] = total;
    }
}

}  // namespace emulator
