// LAPACK, by the functions that SciPy exports for Cython; installation.py hands in their addresses by name.
#pragma once
#include "emulator.h"

#include <algorithm>

namespace emulator {

SHARED void *lapack_function(const std::string &name);

// Matrices are in Fortran order; work space is this call's own.
template <class T>
struct Lapack {
    using Vector = std::vector<T>;

    template <class... A>
    static void call(const char *name, A... arguments) {
        using Function = void (*)(A...);
        const std::string letter = sizeof(T) == sizeof(float) ? "s" : "d";
        ((Function)lapack_function(letter + name))(arguments...);
    }

    static void getrf(int m, int n, T *a, int lda, int *pivots, int *info) {
        call("getrf", &m, &n, a, &lda, pivots, info);
    }

    static void getrs(bool is_transposed, int n, int columns, const T *a, int lda, const int *pivots, T *b,
                      int ldb, int *info) {
        char how = is_transposed ? 'T' : 'N';
        call("getrs", &how, &n, &columns, (T *)a, &lda, (int *)pivots, b, &ldb, info);
    }

    static void getri(int n, T *a, int lda, const int *pivots, int *info) {
        Vector work(std::max(1, n));
        call("getri", &n, a, &lda, (int *)pivots, work.data(), &n, info);
    }

    static void potrf(char part, int n, T *a, int lda, int *info) { call("potrf", &part, &n, a, &lda, info); }

    static void geqrf(int m, int n, T *a, int lda, T *tau, int *info) {
        int size = std::max(1, n);
        Vector work(size);
        call("geqrf", &m, &n, a, &lda, tau, work.data(), &size, info);
    }

    static void orgqr(int m, int n, int k, T *a, int lda, const T *tau, int *info) {
        int size = std::max(1, n);
        Vector work(size);
        call("orgqr", &m, &n, &k, a, &lda, (T *)tau, work.data(), &size, info);
    }

    static void gesvd(char job_u, char job_v, int m, int n, T *a, int lda, T *s, T *u, int ldu, T *v, int ldv,
                      int *info) {
        int size = std::max(1, 5 * std::max(m, n));
        Vector work(size);
        call("gesvd", &job_u, &job_v, &m, &n, a, &lda, s, u, &ldu, v, &ldv, work.data(), &size, info);
    }

    static void syev(char job, char part, int n, T *a, int lda, T *w, int *info) {
        int size = std::max(1, 3 * n);
        Vector work(size);
        call("syev", &job, &part, &n, a, &lda, w, work.data(), &size, info);
    }
};

// As cuBLAS and cuSOLVER name the parts of a symmetric matrix.
inline char part_of(int fill_mode) { return fill_mode == 0 ? 'L' : 'U'; }

}  // namespace emulator
