// Products of matrices in Fortran order, as BLAS defines them, by plain loops.
#pragma once
#include <cstdint>
#include <vector>

namespace emulator {

struct Sizes {
    bool is_a_transposed, is_b_transposed;
    int64_t m, n, k, lda, ldb, ldc;

    bool are_valid() const {
        auto fits = [](int64_t stride, int64_t rows) { return stride >= (rows > 1 ? rows : 1); };
        return m >= 0 && n >= 0 && k >= 0 && fits(lda, is_a_transposed ? k : m) &&
               fits(ldb, is_b_transposed ? n : k) && fits(ldc, m);
    }
};

// c = alpha a b + beta c; with beta 0, what c held is not read.
template <class T>
void multiply(const Sizes &s, T alpha, const T *a, const T *b, T beta, T *c) {
    std::vector<T> column(s.m);
    for (int64_t j = 0; j < s.n; j++) {
        column.assign(s.m, T(0));
        for (int64_t l = 0; l < s.k; l++) {
            const T factor = s.is_b_transposed ? b[j + l * s.ldb] : b[l + j * s.ldb];
            if (s.is_a_transposed)
                for (int64_t i = 0; i < s.m; i++) column[i] += a[l + i * s.lda] * factor;
            else
                for (int64_t i = 0; i < s.m; i++) column[i] += a[i + l * s.lda] * factor;
        }
        for (int64_t i = 0; i < s.m; i++) {
            T &target = c[i + j * s.ldc];
            target = beta == T(0) ? alpha * column[i] : alpha * column[i] + beta * target;
        }
    }
}

}  // namespace emulator
