/* Convolutions of images of type T, channel by channel. */

static void N(copied)(int64_t source, int64_t row_step, int64_t column_step, T *out, int64_t width, int64_t rows,
                      int64_t columns) {
    for (int64_t i = 0; i < rows; i++, source += row_step, out += width) {
        if (column_step == sizeof(T)) {
            memcpy(out, at(source), (size_t)columns * sizeof(T));
        } else {
            for (int64_t j = 0; j < columns; j++)
                out[j] = *(const T *)at(source + j * column_step);
        }
    }
}

static void N(first)(const T *x, int64_t step, T factor, T *out, int64_t n) {
    INDEPENDENT
    for (int64_t q = 0; q < n; q++)
        out[q] = x[q * step] * factor;
}

static void N(added)(const T *x, int64_t step, T factor, T *out, int64_t n) {
    if (step == 1) {
        INDEPENDENT
        for (int64_t q = 0; q < n; q++)
            out[q] = out[q] + x[q] * factor;
        return;
    }
    INDEPENDENT
    for (int64_t q = 0; q < n; q++)
        out[q] = out[q] + x[q * step] * factor;
}

static void N(nine)(const T *x, int64_t width, const T *w, T more, T *out, int64_t n) {
    const T *above = x, *middle = x + width, *below = x + 2 * width;
    const T a = w[0], b = w[1], c = w[2], d = w[3], e = w[4], f = w[5], g = w[6], h = w[7], i = w[8];
    INDEPENDENT
    for (int64_t q = 0; q < n; q++) {
        T total = (above[q] * a + above[q + 1] * b) + above[q + 2] * c;
        total = ((total + middle[q] * d) + middle[q + 1] * e) + middle[q + 2] * f;
        total = ((total + below[q] * g) + below[q + 1] * h) + below[q + 2] * i;
        out[q] = total + more;
    }
}

static void N(first_product)(const T *x, int64_t step, const T *g, T *out, int64_t n) {
    INDEPENDENT
    for (int64_t q = 0; q < n; q++)
        out[q] = x[q * step] * g[q];
}

static void N(added_product)(const T *x, int64_t step, const T *g, T *out, int64_t n) {
    if (step == 1) {
        INDEPENDENT
        for (int64_t q = 0; q < n; q++)
            out[q] = out[q] + x[q] * g[q];
        return;
    }
    INDEPENDENT
    for (int64_t q = 0; q < n; q++)
        out[q] = out[q] + x[q * step] * g[q];
}

static void N(added_products)(const T *x, const T *y, int64_t step, const T *g, const T *h, T *out, int64_t n) {
    if (step == 1) {
        INDEPENDENT
        for (int64_t q = 0; q < n; q++)
            out[q] = (out[q] + x[q] * g[q]) + y[q] * h[q];
        return;
    }
    INDEPENDENT
    for (int64_t q = 0; q < n; q++)
        out[q] = (out[q] + x[q * step] * g[q]) + y[q * step] * h[q];
}

static int N(are_next)(const struct planes *p) {
    return p->kernel_rows == 3 && p->kernel_columns == 3 && p->apart_rows == 1 && p->apart_columns == 1;
}

/* Write one row of windows, or all of them if they are next to each other. */
static void N(convolved_line)(const struct planes *p, int64_t kernel, const T *image, T *out, int64_t n) {
    for (int64_t i = 0; i < p->kernel_rows; i++)
        for (int64_t j = 0; j < p->kernel_columns; j++) {
            const T factor = *(const T *)at(kernel + i * p->g_row + j * p->g_column);
            const T *part = image + i * p->apart_rows * p->padded_columns + j * p->apart_columns;
            if (i == 0 && j == 0)
                N(first)(part, p->stride_columns, factor, out, n);
            else
                N(added)(part, p->stride_columns, factor, out, n);
        }
}

static void N(convolved_image)(const struct planes *p, int64_t channel) {
    const int64_t places = p->grid_rows * p->width, are_whole = p->stride_rows == 1 && p->stride_columns == 1;
    const int64_t line = are_whole ? places : p->width, lines = line ? places / line : 0;
    const int64_t kernel = p->g + channel * p->g_channel, size = sizeof(T);
    const int is_three = N(are_next)(p) && lines == 1 && p->stride_columns == 1 && p->g_row == 3 * size;
    const T *image = at(p->padded);
    T *total = at(p->spread);
    if (is_three && p->g_column == size) {
        const T more = p->bias ? ((const T *)at(p->bias))[channel] : (T)-0.0; /* adding -0 changes nothing */
        N(nine)(image, p->padded_columns, at(kernel), more, total, places);
        return;
    }
    for (int64_t r = 0; r < lines; r++)
        N(convolved_line)(p, kernel, image + r * p->stride_rows * p->padded_columns, total + r * line, line);
    if (p->bias) {
        const T more = ((const T *)at(p->bias))[channel];
        for (int64_t k = 0; k < places; k++)
            total[k] += more;
    }
}

static void N(convolved)(const struct planes *p) {
    T *image = at(p->padded), *inside = image + p->top * p->padded_columns + p->left;
    memset(image, 0, (size_t)(p->padded_rows * p->padded_columns) * sizeof(T));
    for (int64_t s = 0; s < p->samples; s++)
        for (int64_t c = 0; c < p->channels; c++) {
            const int64_t source = p->x + s * p->x_sample + c * p->x_channel;
            T *target = (T *)at(p->out) + (s * p->channels + c) * p->grid_rows * p->grid_columns;
            N(copied)(source, p->x_row, p->x_column, inside, p->padded_columns, p->rows, p->columns);
            N(convolved_image)(p, c);
            N(copied)(p->spread, p->width * (int64_t)sizeof(T), sizeof(T), target, p->grid_columns, p->grid_rows,
                      p->grid_columns);
        }
}

/* Copy images and gradients of some samples to padded ones. */
static void N(padded)(const struct planes *p, int64_t channel, int64_t first, int64_t count) {
    const int64_t length = p->padded_rows * p->padded_columns, places = p->grid_rows * p->width;
    T *inside = (T *)at(p->padded) + p->top * p->padded_columns + p->left, *spread = at(p->spread);
    for (int64_t k = 0; k < count; k++) {
        const int64_t source = p->x + (first + k) * p->x_sample + channel * p->x_channel;
        const int64_t given = p->g + (first + k) * p->g_sample + channel * p->g_channel;
        N(copied)(source, p->x_row, p->x_column, inside + k * length, p->padded_columns, p->rows, p->columns);
        N(copied)(given, p->g_row, p->g_column, spread + k * places, p->width, p->grid_rows, p->grid_columns);
    }
}

/* Add products of one or two samples to the sums of a place in the kernel. */
static void N(weight_at)(const struct planes *p, const T *image, T *total, int goes_on, int both) {
    const int64_t length = p->padded_rows * p->padded_columns, places = p->grid_rows * p->width;
    const int64_t line = p->stride_rows == 1 && p->stride_columns == 1 ? places : p->width;
    const int64_t lines = line ? places / line : 0, step = p->stride_columns;
    const T *g = at(p->spread);
    for (int64_t r = 0; r < lines; r++, image += p->stride_rows * p->padded_columns, g += line, total += line) {
        if (goes_on && both) {
            N(added_products)(image, image + length, step, g, g + places, total, line);
            continue;
        }
        if (goes_on)
            N(added_product)(image, step, g, total, line);
        else
            N(first_product)(image, step, g, total, line);
        if (both)
            N(added_product)(image + length, step, g + places, total, line);
    }
}

static void N(weight)(const struct planes *p) {
    const int64_t length = p->padded_rows * p->padded_columns, places = p->grid_rows * p->width;
    const int are_nine = N(are_next)(p) && p->stride_rows == 1 && p->stride_columns == 1;
    const int64_t most_samples = are_nine ? 8 : 2; /* so that sums are read and written less often */
    memset(at(p->padded), 0, (size_t)(most_samples * length) * sizeof(T));
    memset(at(p->spread), 0, (size_t)(most_samples * places) * sizeof(T));
    for (int64_t c = 0; c < p->channels; c++)
        for (int64_t s = 0; s < p->samples; s += most_samples) {
            const int64_t count = least(most_samples, p->samples - s), n = p->kernel_rows * p->kernel_columns;
            T *sums = (T *)at(p->out) + c * n * places;
            N(padded)(p, c, s, count);
            if (are_nine) {
                N(add_nine)(at(p->padded), length, p->padded_columns, at(p->spread), places, count, sums, s > 0);
                continue;
            }
            for (int64_t k = 0; k < n; k++) {
                const int64_t i = k / p->kernel_columns, j = k % p->kernel_columns;
                const int64_t start = i * p->apart_rows * p->padded_columns + j * p->apart_columns;
                N(weight_at)(p, (const T *)at(p->padded) + start, sums + k * places, s > 0, count == 2);
            }
        }
}
