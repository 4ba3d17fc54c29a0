// Products of sparse matrices with dense ones, and conversions between row offsets and row indices.
#include "descriptors.h"

#include <algorithm>

namespace emulator {

static int64_t index_at(const void *indices, int type, int64_t i) {
    return type == INDEX_INT64 ? ((const int64_t *)indices)[i] : ((const int32_t *)indices)[i];
}

template <class T>
static T &element(const DenseMatrix &matrix, int64_t i, int64_t j) {
    return ((T *)matrix.values)[matrix.order == COLUMN_ORDER ? i + j * matrix.stride : i * matrix.stride + j];
}

// c = alpha a b + beta c
template <class T>
static void multiply(bool is_a_transposed, bool is_b_transposed, T alpha, SparseMatrix a, DenseMatrix b,
                     T beta, DenseMatrix c) {
    for (int64_t i = 0; i < c.rows; i++)
        for (int64_t j = 0; j < c.columns; j++) {
            T &target = element<T>(c, i, j);
            target = beta == T(0) ? T(0) : beta * target;
        }
    for (int64_t row = 0; row < a.rows; row++)
        for (int64_t e = index_at(a.offsets, a.offset_type, row);
             e < index_at(a.offsets, a.offset_type, row + 1); e++) {
            const int64_t column = index_at(a.indices, a.index_type, e);
            const T value = alpha * ((const T *)a.values)[e];
            const int64_t i = is_a_transposed ? column : row, k = is_a_transposed ? row : column;
            for (int64_t j = 0; j < c.columns; j++)
                element<T>(c, i, j) += value * (is_b_transposed ? element<T>(b, j, k) : element<T>(b, k, j));
        }
}

template <class T>
static int product(SparseHandle *handle, int ta, int tb, const void *alpha, SparseMatrix a, DenseMatrix b,
                   const void *beta, DenseMatrix c) {
    return call(handle, [=, x = *(const T *)alpha, y = *(const T *)beta] {
        multiply<T>(ta != 0, tb != 0, x, a, b, y, c);
    });
}

API int cusparseSpMM(SparseHandle *handle, int ta, int tb, const void *alpha, SparseMatrix *a, DenseMatrix *b,
                     const void *beta, DenseMatrix *c, int type, int, void *) {
    if (type == FLOAT32) return product<float>(handle, ta, tb, alpha, *a, *b, beta, *c);
    if (type == FLOAT64) return product<double>(handle, ta, tb, alpha, *a, *b, beta, *c);
    return sparse_not_supported;
}

static DenseMatrix column(const DenseVector &x) {
    return {x.size, 1, x.size, x.values, x.type, COLUMN_ORDER};
}

API int cusparseSpMV(SparseHandle *handle, int ta, const void *alpha, SparseMatrix *a, DenseVector *x,
                     const void *beta, DenseVector *y, int type, int algorithm, void *work) {
    DenseMatrix b = column(*x), c = column(*y);
    return cusparseSpMM(handle, ta, 0, alpha, a, &b, beta, &c, type, algorithm, work);
}

static const size_t WORKSPACE = 64;

API int cusparseSpMM_bufferSize(SparseHandle *, int, int, const void *, SparseMatrix *, DenseMatrix *,
                                const void *, DenseMatrix *, int, int, size_t *size) {
    *size = WORKSPACE;
    return sparse_success;
}

API int cusparseSpMV_bufferSize(SparseHandle *, int, const void *, SparseMatrix *, DenseVector *,
                                const void *, DenseVector *, int, int, size_t *size) {
    *size = WORKSPACE;
    return sparse_success;
}

API int cusparseXcsr2coo(SparseHandle *handle, const int *offsets, int, int rows, int *found, int base) {
    return call(handle, [=] {
        for (int row = 0; row < rows; row++)
            std::fill(found + offsets[row] - base, found + offsets[row + 1] - base, row + base);
    });
}

API int cusparseXcoo2csr(SparseHandle *handle, const int *row_indices, int count, int rows, int *offsets,
                         int base) {
    return call(handle, [=] {
        for (int row = 0, e = 0; row <= rows; row++) {
            while (e < count && row_indices[e] - base < row) e++;
            offsets[row] = e + base;
        }
    });
}

}  // namespace emulator
