// Products with vectors, and sums of matrices.
#include "handle.h"

namespace emulator {

template <class T>
static T dot(int n, const T *x, int64_t step_x, const T *y, int64_t step_y) {
    T found = 0;
    for (int i = 0; i < n; i++) found += x[i * step_x] * y[i * step_y];
    return found;
}

template <class T>
static void multiply_vector(bool is_transposed, int m, int n, T alpha, const T *a, int64_t lda, const T *x,
                            int step_x, T beta, T *y, int64_t step_y) {
    const int rows = is_transposed ? n : m, columns = is_transposed ? m : n;
    for (int64_t i = 0; i < rows; i++) {
        const T found =
            is_transposed ? dot(columns, a + i * lda, 1, x, step_x) : dot(columns, a + i, lda, x, step_x);
        T &target = y[i * step_y];
        target = beta == T(0) ? alpha * found : alpha * found + beta * target;
    }
}

template <class T>
static T element(const T *a, int64_t ld, int is_transposed, int64_t i, int64_t j) {
    return is_transposed ? a[j + i * ld] : a[i + j * ld];
}

template <class T>
static void add(int ta, int tb, int m, int n, T alpha, const T *a, int lda, T beta, const T *b, int ldb, T *c,
                int64_t ldc) {
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++)
            c[i + j * ldc] = (alpha == T(0) ? T(0) : alpha * element(a, lda, ta, i, j)) +
                             (beta == T(0) ? T(0) : beta * element(b, ldb, tb, i, j));
}

#define VECTORS_OF(letter, T)                                                                              \
    API int cublas##letter##dot_v2(Handle *handle, int n, const T *x, int step_x, const T *y, int step_y,  \
                                   T *result) {                                                            \
        return call(handle, [=] { *result = dot(n, x, step_x, y, step_y); });                              \
    }                                                                                                      \
    API int cublas##letter##gemv_v2(Handle *handle, int transposed, int m, int n, const T *alpha,          \
                                    const T *a, int lda, const T *x, int step_x, const T *beta, T *y,      \
                                    int step_y) {                                                          \
        return call(handle, [=, p = *alpha, q = *beta] {                                                   \
            multiply_vector<T>(transposed != 0, m, n, p, a, lda, x, step_x, q, y, step_y);                 \
        });                                                                                                \
    }                                                                                                      \
    API int cublas##letter##geam(Handle *handle, int ta, int tb, int m, int n, const T *alpha, const T *a, \
                                 int lda, const T *beta, const T *b, int ldb, T *c, int ldc) {             \
        return call(handle,                                                                                \
                    [=, p = *alpha, q = *beta] { add<T>(ta, tb, m, n, p, a, lda, q, b, ldb, c, ldc); });   \
    }

VECTORS_OF(S, float)
VECTORS_OF(D, double)

}  // namespace emulator
