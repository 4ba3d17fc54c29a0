/* Arithmetic of numbers of type T, whose bits are a W: rows and columns of a matrix, ReLU, and sums. */

static void N(add_row)(const T *x, const T *y, T *out, int64_t n0, int64_t n1) {
    for (int64_t i = 0; i < n0; i++, x += n1, out += n1) {
        INDEPENDENT
        for (int64_t j = 0; j < n1; j++)
            out[j] = x[j] + y[j];
    }
}

static void N(subtract_column)(const T *x, const T *y, T *out, int64_t n0, int64_t n1) {
    for (int64_t i = 0; i < n0; i++, x += n1, out += n1) {
        const T value = y[i];
        INDEPENDENT
        for (int64_t j = 0; j < n1; j++)
            out[j] = x[j] - value;
    }
}

static void N(multiply_column)(const T *x, const T *y, T *out, int64_t n0, int64_t n1) {
    for (int64_t i = 0; i < n0; i++, x += n1, out += n1) {
        const T value = y[i];
        INDEPENDENT
        for (int64_t j = 0; j < n1; j++)
            out[j] = x[j] * value;
    }
}

static void N(divide_column)(const T *x, const T *y, T *out, int64_t n0, int64_t n1) {
    for (int64_t i = 0; i < n0; i++, x += n1, out += n1) {
        const T value = y[i];
        INDEPENDENT
        for (int64_t j = 0; j < n1; j++)
            out[j] = x[j] / value;
    }
}

static void N(spread)(const int64_t *one) {
    const T *x = at(one[3]), *y = at(one[4]);
    T *out = at(one[5]);
    switch ((enum spread)one[2]) {
    case ADD_ROW: N(add_row)(x, y, out, one[6], one[7]); break;
    case SUBTRACT_COLUMN: N(subtract_column)(x, y, out, one[6], one[7]); break;
    case MULTIPLY_COLUMN: N(multiply_column)(x, y, out, one[6], one[7]); break;
    case DIVIDE_COLUMN: N(divide_column)(x, y, out, one[6], one[7]); break;
    }
}

static void N(add_relu)(const T *x, const T *y, T *out, T *sums, int64_t count) {
    INDEPENDENT
    for (int64_t j = 0; j < count; j++) {
        const T total = x[j] + y[j];
        if (sums)
            sums[j] = total;
        out[j] = total <= 0 ? 0 : total; /* NaN stays */
    }
}

/* Add a row and write the larger of the sum and 0, for some elements of a matrix; if there is room, write sums. */
static void N(add_row_relu)(const int64_t *one, int64_t start, int64_t count) {
    const int64_t length = one[6], end = start + count;
    const T *x = at(one[2]), *y = at(one[3]);
    T *out = at(one[4]), *sums = at(one[7]);
    while (start < end) {
        const int64_t column = start % length, n = least(length - column, end - start);
        N(add_relu)(x + start, y + column, out + start, sums ? sums + start : sums, n);
        start += n;
    }
}

static void N(mask_positive)(const T *x, const W *given, uint8_t *keep, W *out, int64_t count) {
    INDEPENDENT
    for (int64_t i = 0; i < count; i++) {
        if (keep)
            keep[i] = x[i] > 0;
        out[i] = x[i] > 0 ? given[i] : 0;
    }
}

static void N(keep)(const uint16_t *drawn, int32_t limit, const T *scale, T *out, int64_t count) {
    const T kept = *scale;
    INDEPENDENT
    for (int64_t i = 0; i < count; i++)
        out[i] = drawn[i] >= limit ? kept : 0;
}

static void N(add_at_rows)(int64_t target, int64_t length, int64_t rows, int64_t values, int64_t count) {
    const int64_t *where = at(rows);
    const T *x = at(values);
    for (int64_t i = 0; i < count; i++, x += length) {
        T *out = (T *)at(target) + where[i] * length;
        INDEPENDENT
        for (int64_t j = 0; j < length; j++)
            out[j] += x[j];
    }
}

/* Add a multiple of a vector; BLAS leaves out a factor of 0, although 0 times NaN is NaN. */
static int N(add_zero_times)(int64_t factor, int64_t source, int64_t target, int64_t count) {
    const T *x = at(source);
    T *out = at(target);
    if (*(const T *)at(factor) != 0)
        return 0;
    INDEPENDENT
    for (int64_t i = 0; i < count; i++)
        out[i] += x[i] * 0;
    return 1;
}

/* -- parts of an update, rounded as the calls that they stand for -------------------------------------------
 *
 * BLAS adds a multiple with one rounding or two, depending on where an element is: `once` tells which. */

static inline T N(sum_of)(T a, T b, T c, int once) { return once ? N(fused)(a, b, c) : a * b + c; }

static inline void N(moments_of)(const int64_t *one, int64_t start, int64_t end, int once) {
    const T a = *(const T *)at(one[4]), b = *(const T *)at(one[6]), *y = at(one[7]);
    T *x = at(one[5]);
    INDEPENDENT
    for (int64_t i = start; i < end; i++)
        x[i] = N(sum_of)(b, y[i], a * x[i], once);
}

static inline void N(squares_of)(const int64_t *one, int64_t start, int64_t end, int once) {
    const T a = *(const T *)at(one[6]), b = *(const T *)at(one[8]), *g = at(one[4]);
    T *out = at(one[5]), *x = at(one[7]);
    INDEPENDENT
    for (int64_t i = start; i < end; i++) {
        const T square = g[i] * g[i];
        if (out)
            out[i] = square;
        x[i] = N(sum_of)(b, square, a * x[i], once);
    }
}

static inline void N(quotients_of)(const int64_t *one, int64_t start, int64_t end, int once) {
    enum { ROOTS = 256 };
    const T more = one[5] ? *(const T *)at(one[5]) : (T)-0.0; /* adding -0 changes nothing */
    const T given = one[8] ? *(const T *)at(one[8]) : 1;
    const T factor = given == 0 ? 0 : given; /* as `add_zero_times` does */
    const T rate = one[10] ? *(const T *)at(one[10]) : 1, *factors = at(one[11]);
    T roots[ROOTS];
    for (int64_t first = start; first < end; first += ROOTS) {
        const T *m = (const T *)at(one[6]) + first, *own = factors ? factors + first : factors;
        T *out = one[7] ? (T *)at(one[7]) + first : 0, *w = one[9] ? (T *)at(one[9]) + first : 0;
        const int64_t n = least(ROOTS, end - first);
        N(write_roots)((const T *)at(one[4]) + first, roots, n);
        INDEPENDENT
        for (int64_t i = 0; i < n; i++) {
            const T quotient = m[i] / (roots[i] + more) * rate * (own ? own[i] : 1);
            if (out)
                out[i] = quotient;
            if (w)
                w[i] = N(sum_of)(factor, quotient, w[i], once);
        }
    }
}

static void N(update_part)(const int64_t *one, int64_t start, int64_t n) {
    const int64_t end = start + n, middle = least(end, most(start, one[3]));
    switch ((enum kind)one[0]) {
    case MOMENTS: N(moments_of)(one, start, middle, 1); N(moments_of)(one, middle, end, 0); break;
    case SQUARES: N(squares_of)(one, start, middle, 1); N(squares_of)(one, middle, end, 0); break;
    default: N(quotients_of)(one, start, middle, 1); N(quotients_of)(one, middle, end, 0);
    }
}

/* Write numbers as deviations from means, as NumPy's operations do; return 0 if one of them is not finite. */
static int N(standardize)(const double *x, const double *mean, const double *scale, double limit, T *out,
                          int64_t count) {
    int64_t infinite = 0;
    INDEPENDENT
    for (int64_t i = 0; i < count; i++) {
        double z = (x[i] - mean[i]) / scale[i];
        z = z > limit ? limit : z; /* NaN stays */
        z = z < -limit ? -limit : z;
        infinite |= !(fabs(x[i]) < (double)INFINITY);
        out[i] = (T)z;
    }
    return infinite == 0;
}

static int N(is_finite)(int64_t loss, int64_t penalty, int64_t squares) {
    const T total = *(const T *)at(loss) + *(const T *)at(penalty);
    return fabs((double)total) < (double)INFINITY && *(const T *)at(squares) < (T)INFINITY;
}
