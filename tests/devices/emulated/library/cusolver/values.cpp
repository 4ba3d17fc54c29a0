// Singular values and eigenvalues.
#include "handle.h"

namespace emulator {

static char job_of(int mode) { return mode ? 'V' : 'N'; }

// Of a batch of small matrices by Jacobi's method, which returns v where others return its transpose.
template <class T>
static void decompose(int mode, int m, int n, T *a, int lda, T *s, T *u, int ldu, T *v, int ldv, int *info) {
    const char job = mode ? 'A' : 'N';
    std::vector<T> transposed(int64_t(n) * n);
    Lapack<T>::gesvd(job, job, m, n, a, lda, s, u, ldu, transposed.data(), std::max(1, n), info);
    for (int64_t i = 0; mode && i < n; i++)
        for (int64_t j = 0; j < n; j++) v[j + i * ldv] = transposed[i + j * n];
}

#define VALUES_OF(letter, T)                                                                                 \
    API int cusolverDn##letter##gesvd_bufferSize(Solver *, int, int, int *size) { return workspace(size); }  \
    API int cusolverDn##letter##gesvd(Solver *solver, signed char job_u, signed char job_v, int m, int n,    \
                                      T *a, int lda, T *s, T *u, int ldu, T *v, int ldv, T *, int, T *,      \
                                      int *info) {                                                           \
        return call(solver, [=] { Lapack<T>::gesvd(job_u, job_v, m, n, a, lda, s, u, ldu, v, ldv, info); }); \
    }                                                                                                        \
    API int cusolverDn##letter##gesvdjBatched_bufferSize(Solver *, int, int, int, const T *, int, const T *, \
                                                         const T *, int, const T *, int, int *size, void *,  \
                                                         int) {                                              \
        return workspace(size);                                                                              \
    }                                                                                                        \
    API int cusolverDn##letter##gesvdjBatched(Solver *solver, int mode, int m, int n, T *a, int lda, T *s,   \
                                              T *u, int ldu, T *v, int ldv, T *, int, int *info, void *,     \
                                              int count) {                                                   \
        return call(solver, [=] {                                                                            \
            for (int64_t i = 0; i < count; i++)                                                              \
                decompose(mode, m, n, a + i * lda * n, lda, s + i * std::min(m, n), u + i * ldu * m, ldu,    \
                          v + i * ldv * n, ldv, info + i);                                                   \
        });                                                                                                  \
    }                                                                                                        \
    API int cusolverDn##letter##syevjBatched_bufferSize(Solver *, int, int, int, const T *, int, const T *,  \
                                                        int *size, void *, int) {                            \
        return workspace(size);                                                                              \
    }                                                                                                        \
    API int cusolverDn##letter##syevjBatched(Solver *solver, int mode, int part, int n, T *a, int lda, T *w, \
                                             T *, int, int *info, void *, int count) {                       \
        return call(solver, [=] {                                                                            \
            for (int64_t i = 0; i < count; i++)                                                              \
                Lapack<T>::syev(job_of(mode), part_of(part), n, a + i * lda * n, lda, w + i * n, info + i);  \
        });                                                                                                  \
    }

VALUES_OF(S, float)
VALUES_OF(D, double)

API int cusolverDnXsyevd_bufferSize(Solver *, void *, int, int, int64_t, int, const void *, int64_t, int,
                                    const void *, int, size_t *on_device, size_t *on_host) {
    *on_device = *on_host = 1;
    return solver_success;
}

API int cusolverDnXsyevd(Solver *solver, void *, int mode, int part, int64_t n, int type, void *a,
                         int64_t lda, int, void *w, int, void *, size_t, void *, size_t, int *info) {
    if (type == 0)
        return call(solver, [=] {
            Lapack<float>::syev(job_of(mode), part_of(part), n, (float *)a, lda, (float *)w, info);
        });
    if (type == 1)
        return call(solver, [=] {
            Lapack<double>::syev(job_of(mode), part_of(part), n, (double *)a, lda, (double *)w, info);
        });
    return solver_not_supported;
}

}  // namespace emulator
