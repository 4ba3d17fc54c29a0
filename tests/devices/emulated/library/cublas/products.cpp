// Products of matrices: single ones, batches, and those whose type is an argument.
#include "products.h"
#include "handle.h"

namespace emulator {

static const int FLOAT32 = 0, FLOAT64 = 1;  // cudaDataType

static Sizes sizes(int a, int b, int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc) {
    return {a != 0, b != 0, m, n, k, lda, ldb, ldc};
}

// Scalars are read at the call, as they are the host's.
template <class T>
static int product(Handle *handle, Sizes s, const T *alpha, const T *a, const T *b, const T *beta, T *c,
                   int64_t stride_a = 0, int64_t stride_b = 0, int64_t stride_c = 0, int count = 1) {
    if (!s.are_valid()) return blas_invalid_value;
    return call(handle, [=, x = *alpha, y = *beta] {
        for (int i = 0; i < count; i++)
            multiply<T>(s, x, a + i * stride_a, b + i * stride_b, y, c + i * stride_c);
    });
}

template <class T>
static int products(Handle *handle, Sizes s, const T *alpha, const T *const *a, const T *const *b,
                    const T *beta, T *const *c, int count) {
    if (!s.are_valid()) return blas_invalid_value;
    return call(handle, [=, x = *alpha, y = *beta] {
        for (int i = 0; i < count; i++) multiply<T>(s, x, a[i], b[i], y, c[i]);
    });
}

#define PRODUCTS_OF(letter, T)                                                                               \
    API int cublas##letter##gemm_v2(Handle *handle, int ta, int tb, int m, int n, int k, const T *alpha,     \
                                    const T *a, int lda, const T *b, int ldb, const T *beta, T *c,           \
                                    int ldc) {                                                               \
        return product(handle, sizes(ta, tb, m, n, k, lda, ldb, ldc), alpha, a, b, beta, c);                 \
    }                                                                                                        \
    API int cublas##letter##gemmStridedBatched(Handle *handle, int ta, int tb, int m, int n, int k,          \
                                               const T *alpha, const T *a, int lda, long long sa,            \
                                               const T *b, int ldb, long long sb, const T *beta, T *c,       \
                                               int ldc, long long sc, int count) {                           \
        return product(handle, sizes(ta, tb, m, n, k, lda, ldb, ldc), alpha, a, b, beta, c, sa, sb, sc,      \
                       count);                                                                               \
    }                                                                                                        \
    API int cublas##letter##gemmBatched(Handle *handle, int ta, int tb, int m, int n, int k, const T *alpha, \
                                        const T *const *a, int lda, const T *const *b, int ldb,              \
                                        const T *beta, T *const *c, int ldc, int count) {                    \
        return products(handle, sizes(ta, tb, m, n, k, lda, ldb, ldc), alpha, a, b, beta, c, count);         \
    }

PRODUCTS_OF(S, float)
PRODUCTS_OF(D, double)

API int cublasGemmStridedBatchedEx(Handle *handle, int ta, int tb, int m, int n, int k, const void *alpha,
                                   const void *a, int a_type, int lda, long long sa, const void *b,
                                   int b_type, int ldb, long long sb, const void *beta, void *c, int c_type,
                                   int ldc, long long sc, int count, int, int) {
    const Sizes s = sizes(ta, tb, m, n, k, lda, ldb, ldc);
    if (a_type != b_type || a_type != c_type) return blas_not_supported;
    if (a_type == FLOAT32)
        return product(handle, s, (const float *)alpha, (const float *)a, (const float *)b,
                       (const float *)beta, (float *)c, sa, sb, sc, count);
    if (a_type == FLOAT64)
        return product(handle, s, (const double *)alpha, (const double *)a, (const double *)b,
                       (const double *)beta, (double *)c, sa, sb, sc, count);
    return blas_not_supported;
}

API int cublasGemmEx(Handle *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a,
                     int a_type, int lda, const void *b, int b_type, int ldb, const void *beta, void *c,
                     int c_type, int ldc, int compute, int algorithm) {
    return cublasGemmStridedBatchedEx(handle, ta, tb, m, n, k, alpha, a, a_type, lda, 0, b, b_type, ldb, 0,
                                      beta, c, c_type, ldc, 0, 1, compute, algorithm);
}

API int cublasSgemmEx(Handle *handle, int ta, int tb, int m, int n, int k, const float *alpha, const void *a,
                      int a_type, int lda, const void *b, int b_type, int ldb, const float *beta, void *c,
                      int c_type, int ldc) {
    return cublasGemmEx(handle, ta, tb, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc,
                        0, 0);
}

}  // namespace emulator
