// Batches of linear systems.
#include "../lapack.h"
#include "handle.h"

namespace emulator {

template <class T>
static void invert(int n, const T *a, int lda, const int *pivots, T *c, int ldc, int *info) {
    for (int64_t j = 0; j < n; j++) std::copy(a + j * lda, a + j * lda + n, c + j * ldc);
    Lapack<T>::getri(n, c, ldc, pivots, info);
}

#define SOLVING_OF(letter, T)                                                                                \
    API int cublas##letter##getrfBatched(Handle *handle, int n, T *const *a, int lda, int *pivots,           \
                                         int *info, int count) {                                             \
        return call(handle, [=] {                                                                            \
            for (int i = 0; i < count; i++) Lapack<T>::getrf(n, n, a[i], lda, pivots + i * n, info + i);     \
        });                                                                                                  \
    }                                                                                                        \
    API int cublas##letter##getriBatched(Handle *handle, int n, const T *const *a, int lda,                  \
                                         const int *pivots, T *const *c, int ldc, int *info, int count) {    \
        return call(handle, [=] {                                                                            \
            for (int i = 0; i < count; i++) invert(n, a[i], lda, pivots + i * n, c[i], ldc, info + i);       \
        });                                                                                                  \
    }                                                                                                        \
    API int cublas##letter##getrsBatched(Handle *handle, int transposed, int n, int columns,                 \
                                         const T *const *a, int lda, const int *pivots, T *const *b,         \
                                         int ldb, int *info, int count) {                                    \
        *info = 0; /* the host's, for all */                                                                 \
        return call(handle, [=] {                                                                            \
            int found;                                                                                       \
            for (int i = 0; i < count; i++)                                                                  \
                Lapack<T>::getrs(transposed != 0, n, columns, a[i], lda, pivots + i * n, b[i], ldb, &found); \
        });                                                                                                  \
    }

SOLVING_OF(S, float)
SOLVING_OF(D, double)

}  // namespace emulator
