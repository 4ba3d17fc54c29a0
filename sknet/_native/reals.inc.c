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

static void N(add_row_relu)(const T *x, const T *y, T *out, int64_t n0, int64_t n1) {
    for (int64_t i = 0; i < n0; i++, x += n1, out += n1) {
        INDEPENDENT
        for (int64_t j = 0; j < n1; j++) {
            const T total = x[j] + y[j];
            out[j] = total <= 0 ? 0 : total; /* NaN stays */
        }
    }
}

static void N(mask_positive)(const T *x, const W *given, uint8_t *keep, W *out, int64_t count) {
    INDEPENDENT
    for (int64_t i = 0; i < count; i++) {
        keep[i] = x[i] > 0;
        out[i] = x[i] > 0 ? given[i] : 0;
    }
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

static int N(is_finite)(int64_t loss, int64_t penalty, int64_t squares) {
    const T total = *(const T *)at(loss) + *(const T *)at(penalty);
    return fabs((double)total) < (double)INFINITY && *(const T *)at(squares) < (T)INFINITY;
}
