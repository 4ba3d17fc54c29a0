// Factors of matrices, and solutions of linear systems.
#include "handle.h"

namespace emulator {

#define SOLVING_OF(letter, T)                                                                                \
    API int cusolverDn##letter##getrf_bufferSize(Solver *, int, int, T *, int, int *size) {                  \
        return workspace(size);                                                                              \
    }                                                                                                        \
    API int cusolverDn##letter##getrf(Solver *solver, int m, int n, T *a, int lda, T *, int *pivots,         \
                                      int *info) {                                                           \
        return call(solver, [=] { Lapack<T>::getrf(m, n, a, lda, pivots, info); });                          \
    }                                                                                                        \
    API int cusolverDn##letter##getrs(Solver *solver, int transposed, int n, int columns, const T *a,        \
                                      int lda, const int *pivots, T *b, int ldb, int *info) {                \
        return call(solver,                                                                                  \
                    [=] { Lapack<T>::getrs(transposed != 0, n, columns, a, lda, pivots, b, ldb, info); });   \
    }                                                                                                        \
    API int cusolverDn##letter##potrf_bufferSize(Solver *, int, int, T *, int, int *size) {                  \
        return workspace(size);                                                                              \
    }                                                                                                        \
    API int cusolverDn##letter##potrf(Solver *solver, int part, int n, T *a, int lda, T *, int, int *info) { \
        return call(solver, [=] { Lapack<T>::potrf(part_of(part), n, a, lda, info); });                      \
    }                                                                                                        \
    API int cusolverDn##letter##potrfBatched(Solver *solver, int part, int n, T **a, int lda, int *info,     \
                                             int count) {                                                    \
        return call(solver, [=] {                                                                            \
            for (int i = 0; i < count; i++) Lapack<T>::potrf(part_of(part), n, a[i], lda, info + i);         \
        });                                                                                                  \
    }                                                                                                        \
    API int cusolverDn##letter##geqrf_bufferSize(Solver *, int, int, T *, int, int *size) {                  \
        return workspace(size);                                                                              \
    }                                                                                                        \
    API int cusolverDn##letter##geqrf(Solver *solver, int m, int n, T *a, int lda, T *tau, T *, int,         \
                                      int *info) {                                                           \
        return call(solver, [=] { Lapack<T>::geqrf(m, n, a, lda, tau, info); });                             \
    }                                                                                                        \
    API int cusolverDn##letter##orgqr_bufferSize(Solver *, int, int, int, const T *, int, const T *,         \
                                                 int *size) {                                                \
        return workspace(size);                                                                              \
    }                                                                                                        \
    API int cusolverDn##letter##orgqr(Solver *solver, int m, int n, int k, T *a, int lda, const T *tau, T *, \
                                      int, int *info) {                                                      \
        return call(solver, [=] { Lapack<T>::orgqr(m, n, k, a, lda, tau, info); });                          \
    }

SOLVING_OF(S, float)
SOLVING_OF(D, double)

}  // namespace emulator
