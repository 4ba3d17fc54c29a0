// What follows a product: bias and ReLU, on a matrix in Fortran order.
#pragma once
#include "descriptors.h"

namespace emulator {

template <class T>
struct Matrix {
    T *values;
    int64_t rows, columns, stride;

    T &at(int64_t i, int64_t j) const { return values[i + j * stride]; }
};

// Of totals, before they are rounded to the numbers of a result, of which the vector is, too.
template <class T, class Vector>
void finish(const Operation &how, const Matrix<T> &d, const Vector *vector) {
    for (int64_t i = 0; i < d.rows; i++)
        for (int64_t j = 0; j < d.columns; j++) {
            T &x = d.at(i, j);
            if (how.has(bias)) x += vector[i];
            if (how.has(relu)) x = x > 0 ? x : T(0);  // of NaN as well, as users have found
        }
}

}  // namespace emulator
