// Products, and what forbids them: sizes, types, workspaces, and pointers that are not the device's.
#include "epilogues.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <vector>

namespace emulator {

static const uint64_t OURS = 0x656D756C61746564;  // an algorithm that the heuristic has returned
static const size_t WORKSPACE_ALIGNMENT = 256, WORKSPACE = 1024;

// TF32 keeps ten bits of the fraction, bfloat16 seven; ties go to even numbers.
static int lost_bits(int compute) {
    return compute == COMPUTE_32F_FAST_TF32 ? 13 : compute == COMPUTE_32F_FAST_16BF ? 16 : 0;
}

static float rounded(float x, int lost) {
    if (!std::isfinite(x)) return x;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t unit = uint32_t(1) << lost, is_odd = bits >> lost & 1;
    bits = (bits + unit / 2 - 1 + is_odd) & ~(unit - 1);
    memcpy(&x, &bits, sizeof bits);
    return x;
}

static double rounded(double x, int) { return x; }

// A factor as it is multiplied: a copy that is not transposed, with rounded elements.
template <class T>
struct Operand {
    int64_t rows, columns;
    std::vector<T> values;

    template <class Given>
    Operand(const Matrix<Given> &given, bool is_transposed, int compute)
        : rows(is_transposed ? given.columns : given.rows),
          columns(is_transposed ? given.rows : given.columns),
          values(rows * columns) {
        const int lost = lost_bits(compute);
        for (int64_t j = 0; j < columns; j++)
            for (int64_t i = 0; i < rows; i++) {
                const T x = T(is_transposed ? given.at(j, i) : given.at(i, j));
                values[i + j * rows] = lost ? rounded(x, lost) : x;
            }
    }
    T at(int64_t i, int64_t j) const { return values[i + j * rows]; }
};

// All sums of a column grow at once, each in order: so the compiler computes several together.
template <class T, class Result>
static void multiply(const Operation &how, T alpha, const Operand<T> &a, const Operand<T> &b, T beta,
                     const Matrix<Result> &c, const Matrix<Result> &d) {
    std::vector<T> totals(d.rows);
    const Matrix<T> column_of_d{totals.data(), d.rows, 1, d.rows};
    for (int64_t j = 0; j < d.columns; j++) {
        std::fill(totals.begin(), totals.end(), T(0));
        for (int64_t k = 0; k < a.columns; k++) {
            const T *column = &a.values[k * a.rows], factor = b.at(k, j);
            for (int64_t i = 0; i < d.rows; i++) totals[i] += column[i] * factor;
        }
        for (int64_t i = 0; i < d.rows; i++)
            totals[i] = alpha * totals[i] + (beta == T(0) ? T(0) : beta * c.at(i, j));
        finish(how, column_of_d, (const Result *)how.bias);
        for (int64_t i = 0; i < d.rows; i++) d.at(i, j) = totals[i];
    }
}

// Sums of the rows of a factor that is not rounded: of the first as it is, of the second only transposed.
template <class T, class Factor, class Result>
static void sum_operands(const Operation &how, const Matrix<Factor> &a, const Matrix<Factor> &b) {
    if (!how.has(bias_gradient_a) && !how.has(bias_gradient_b)) return;
    const Matrix<Factor> &summed = how.has(bias_gradient_a) ? a : b;
    Result *vector = (Result *)how.bias;
    for (int64_t i = 0; i < summed.rows; i++) {
        T total = 0;
        for (int64_t k = 0; k < summed.columns; k++) total += summed.at(i, k);
        vector[i] = total;
    }
}

// Everything that a call states, for when it is run.
struct Product {
    Operation how;
    Layout a, b, c, d;
    const void *a_values, *b_values, *c_values;
    void *d_values;
    double alpha, beta;
};

template <class T>
static Matrix<T> matrix(const Layout &layout, const void *values, int batch) {
    return {(T *)values + batch * layout.batch_stride, int64_t(layout.rows), int64_t(layout.columns),
            layout.stride};
}

// What one product of several is followed by.
template <class T>
static Operation of_product(Operation how, int batch) {
    how.bias = (T *)how.bias + batch * how.bias_batch_stride;
    return how;
}

template <class T, class Factor, class Result>
static void run(const Product &p) {
    for (int i = 0; i < p.d.batch; i++) {
        const Operation how = of_product<Result>(p.how, i);
        const Matrix<Factor> given_a = matrix<Factor>(p.a, p.a_values, i);
        const Matrix<Factor> given_b = matrix<Factor>(p.b, p.b_values, i);
        const Operand<T> a(given_a, p.how.is_a_transposed != 0, p.how.compute);
        const Operand<T> b(given_b, p.how.is_b_transposed != 0, p.how.compute);
        sum_operands<T, Factor, Result>(how, given_a, given_b);
        multiply<T, Result>(how, p.alpha, a, b, p.beta, matrix<Result>(p.c, p.c_values, i),
                            matrix<Result>(p.d, p.d_values, i));
    }
}

static void run(const Product &p) {
    if (p.d.type == FLOAT64) return run<double, double, double>(p);
    if (p.d.type == BFLOAT16) return run<float, Half, Half>(p);
    if (p.a.type == BFLOAT16) return run<float, Half, float>(p);
    run<float, float, float>(p);
}

// -- checks -----------------------------------------------------------------------------------

static const int with_vector = bias | bias_gradient_a | bias_gradient_b;  // epilogues that use it

static bool are_sizes_right(const Product &p) {
    const uint64_t m = p.how.is_a_transposed ? p.a.columns : p.a.rows;
    const uint64_t k = p.how.is_a_transposed ? p.a.rows : p.a.columns;
    const uint64_t of_b = p.how.is_b_transposed ? p.b.columns : p.b.rows;
    const uint64_t n = p.how.is_b_transposed ? p.b.rows : p.b.columns;
    for (const Layout *each : {&p.a, &p.b, &p.c, &p.d})
        if (each->stride < int64_t(each->rows) || each->batch != p.d.batch) return false;
    return k == of_b && m == p.d.rows && n == p.d.columns && m == p.c.rows && n == p.c.columns;
}

static bool are_pointers_right(const Product &p) {
    if (p.how.epilogue & with_vector && !is_device_memory(p.how.bias)) return false;
    for (const void *each : {p.a_values, p.b_values, p.c_values, (const void *)p.d_values})
        if (!is_device_memory(each)) return false;
    return true;
}

// As the documentation lists them: no other bits go together.
static bool is_known(int epilogue) {
    const int known[] = {1, relu, bias, relu | bias, bias_gradient_a, bias_gradient_b};
    return std::find(std::begin(known), std::end(known), epilogue) != std::end(known);
}

static LtStatus check(const Operation &how, const Layout &a, const Layout &b, const Layout &c,
                      const Layout &d) {
    for (const Layout *each : {&a, &b, &c, &d})
        if (each->type != (each == &a || each == &b ? a.type : d.type) || each->order)
            return lt_not_supported;
    const bool is_half = a.type == BFLOAT16 && (d.type == BFLOAT16 || d.type == FLOAT32);
    if (a.type != d.type && !is_half) return lt_not_supported;
    if (!is_known(how.epilogue)) return lt_invalid_value;
    const bool is_transposed = how.has(bias_gradient_a) && how.is_a_transposed;
    if (is_transposed || (how.has(bias_gradient_b) && !how.is_b_transposed)) return lt_not_supported;
    if (how.bias && how.epilogue != 1 && !(how.epilogue & with_vector)) return lt_not_supported;
    if (d.type == FLOAT64) {
        const bool is_double = how.compute == COMPUTE_64F && how.scale_type == FLOAT64;
        return is_double ? lt_success : lt_not_supported;
    }
    const int singles[] = {COMPUTE_32F, COMPUTE_32F_FAST_TF32, COMPUTE_32F_FAST_16BF};
    const bool is_single = std::count(std::begin(singles), std::end(singles), how.compute);
    if (how.scale_type != FLOAT32) return lt_not_supported;
    return (is_half ? how.compute == COMPUTE_32F : d.type == FLOAT32 && is_single) ? lt_success
                                                                                   : lt_not_supported;
}

static bool is_workspace_right(const Algorithm *algorithm, const void *workspace, size_t size) {
    if (!algorithm || !algorithm->data[1]) return true;
    const bool is_aligned = (uintptr_t)workspace % WORKSPACE_ALIGNMENT == 0;
    return size >= algorithm->data[1] && is_aligned && is_device_memory(workspace);
}

static bool are_alignments_right(const Algorithm *algorithm, const Product &p) {
    if (!algorithm) return true;
    const void *each[4] = {p.a_values, p.b_values, p.c_values, p.d_values};
    for (int i = 0; i < 4; i++)
        if ((uintptr_t)each[i] % algorithm->data[2 + i]) return false;
    return true;
}

// -- the functions ----------------------------------------------------------------------------

API int cublasLtMatmulAlgoGetHeuristic(void *, Operation *how, Layout *a, Layout *b, Layout *c, Layout *d,
                                       Preference *preference, int most, Heuristic *found, int *count) {
    *count = 0;
    if (is_any_stream_captured()) return lt_internal_error;  // as some versions of the library
    if (LtStatus refused = check(*how, *a, *b, *c, *d)) return refused;
    if (most < 1) return lt_invalid_value;
    *count = std::min(most, 2);  // which do the same
    for (Heuristic *end = found + *count; found < end; found++) {
        memset((void *)found, 0, sizeof *found);
        found->workspace = std::min(preference->workspace, uint64_t(WORKSPACE));
        found->algorithm.data[0] = OURS;
        found->algorithm.data[1] = found->workspace;
        for (int i = 0; i < 4; i++) found->algorithm.data[2 + i] = preference->alignments[i];
        found->waves = 1;
    }
    return lt_success;
}

static double scalar(const Operation &how, const void *value) {
    return how.scale_type == FLOAT64 ? *(const double *)value : *(const float *)value;
}

API int cublasLtMatmul(void *, Operation *how, const void *alpha, const void *a_values, Layout *a,
                       const void *b_values, Layout *b, const void *beta, const void *c_values, Layout *c,
                       void *d_values, Layout *d, const Algorithm *algorithm, void *workspace, size_t size,
                       void *stream) {
    if (LtStatus refused = check(*how, *a, *b, *c, *d)) return refused;
    if (how->pointer_mode) return lt_not_supported;
    if (algorithm && algorithm->data[0] != OURS) return lt_invalid_value;
    const Product p{*how,
                    *a,
                    *b,
                    *c,
                    *d,
                    a_values,
                    b_values,
                    c_values,
                    d_values,
                    scalar(*how, alpha),
                    scalar(*how, beta)};
    if (!are_sizes_right(p) || !are_pointers_right(p)) return lt_invalid_value;
    if (!is_workspace_right(algorithm, workspace, size)) return lt_invalid_value;
    if (!are_alignments_right(algorithm, p)) return lt_invalid_value;
    const Status refused =
        issue_library_call(stream, [p] { run(p); });
    return refused ? lt_execution_failed : lt_success;
}

}  // namespace emulator
