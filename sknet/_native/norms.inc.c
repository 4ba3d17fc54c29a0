/* Norms of matrices of single precision: over rows, some at a time, and over channels.
 *
 * Sums over rows are made by NumPy's product with ones, and those over columns row by row. */

static void multiply(struct norm *call, const void *matrix, int64_t vector, float *out, int64_t rows) {
    call->first = (int64_t)(intptr_t)matrix, call->second = vector, call->third = (int64_t)(intptr_t)out;
    call->lines = rows;
    call_loop(call->matmul, &call->first, &call->outer, call->strides, call->matmul_data);
}

static void write_squares(const float *x, const float *center, float *out, int64_t rows, int64_t width) {
    for (int64_t i = 0; i < rows; i++, x += width, out += width) {
        const float c = center[i];
        INDEPENDENT
        for (int64_t j = 0; j < width; j++)
            out[j] = (x[j] - c) * (x[j] - c);
    }
}

static void factors_of(struct norm *call, const float *x, int64_t rows) {
    const float *numbers = at(call->numbers), count = numbers[0], eps = numbers[1];
    float *centers = at(call->centers), *factors = at(call->factors);
    multiply(call, x, call->ones, centers, rows);
    for (int64_t i = 0; i < rows; i++)
        centers[i] = centers[i] / count;
    write_squares(x, centers, at(call->products), rows, call->width);
    multiply(call, at(call->products), call->ones, factors, rows);
    for (int64_t i = 0; i < rows; i++)
        factors[i] = 1 / sqrtf(factors[i] / count + eps);
}

static void norm(struct norm *call) {
    const float *weight = at(call->weight), *bias = at(call->bias);
    const float *centers = at(call->centers), *factors = at(call->factors);
    for (int64_t first = 0; first < call->rows; first += call->block) {
        const int64_t rows = least(call->block, call->rows - first), width = call->width;
        const float *x = (const float *)at(call->x) + first * width;
        float *out = (float *)at(call->out) + first * width;
        factors_of(call, x, rows);
        for (int64_t i = 0; i < rows; i++, x += width, out += width) {
            const float c = centers[i], f = factors[i];
            INDEPENDENT
            for (int64_t j = 0; j < width; j++)
                out[j] = ((x[j] - c) * f) * weight[j] + bias[j];
        }
    }
}

/* Write products of some rows, and add them and gradients to sums over rows. */
static inline void write_slopes(const float *x, const float *g, const float *centers, const float *factors,
                                float *weights, float *biases, float *out, int64_t width, const int rows) {
    INDEPENDENT
    for (int64_t j = 0; j < width; j++) {
        float of_weight = weights[j], of_bias = biases[j];
        for (int k = 0; k < rows; k++) {
            const float slope = g[k * width + j], product = slope * ((x[k * width + j] - centers[k]) * factors[k]);
            out[k * width + j] = product;
            of_weight += product;
            of_bias += slope;
        }
        weights[j] = of_weight;
        biases[j] = of_bias;
    }
}

static void write_slopes_of(const struct norm *call, const float *x, const float *g, int64_t first, int64_t rows) {
    const int64_t width = call->width, row = first / call->group * width;
    float *weights = (float *)at(call->weight_sums) + row, *biases = (float *)at(call->bias_sums) + row;
    const float *centers = at(call->centers), *factors = at(call->factors);
    float *out = at(call->products);
    int64_t i = 0;
    if (first % call->group == 0)
        for (int64_t j = 0; j < width; j++)
            weights[j] = biases[j] = -0.0f; /* adding to -0 changes nothing */
    for (; i + 4 <= rows; i += 4) {
        const float c[4] = {centers[i], centers[i + 1], centers[i + 2], centers[i + 3]};
        const float f[4] = {factors[i], factors[i + 1], factors[i + 2], factors[i + 3]};
        write_slopes(x + i * width, g + i * width, c, f, weights, biases, out + i * width, width, 4);
    }
    for (; i < rows; i++) {
        const float c = centers[i], f = factors[i];
        write_slopes(x + i * width, g + i * width, &c, &f, weights, biases, out + i * width, width, 1);
    }
}

static void write_normal_slopes(const struct norm *call, const float *x, const float *g, float *out, int64_t rows) {
    const float *centers = at(call->centers), *factors = at(call->factors), *weight = at(call->weight);
    const float *inner = at(call->sums), *shares = inner + call->block;
    const int64_t width = call->width;
    for (int64_t i = 0; i < rows; i++, x += width, g += width, out += width) {
        const float c = centers[i], f = factors[i], mean = inner[i], share = shares[i];
        INDEPENDENT
        for (int64_t j = 0; j < width; j++) {
            const float normal = (x[j] - c) * f;
            out[j] = ((g[j] * weight[j] - mean) - normal * share) * f;
        }
    }
}

static void norm_gradient(struct norm *call) {
    const float count = ((const float *)at(call->numbers))[0];
    float *inner = at(call->sums), *shares = inner + call->block;
    int64_t given = call->g;
    for (int64_t first = 0; first < call->rows; first += call->block, given += call->apart) {
        const int64_t rows = least(call->block, call->rows - first), start = first * call->width;
        const float *x = (const float *)at(call->x) + start, *g = at(given);
        factors_of(call, x, rows);
        if (call->apart || first == 0 || rows < call->block) { /* otherwise it is as before */
            multiply(call, g, call->weight, inner, rows);
            for (int64_t i = 0; i < rows; i++)
                inner[i] = inner[i] / count;
        }
        write_slopes_of(call, x, g, first, rows);
        multiply(call, at(call->products), call->weight, shares, rows);
        for (int64_t i = 0; i < rows; i++)
            shares[i] = shares[i] / count;
        write_normal_slopes(call, x, g, (float *)at(call->out) + start, rows);
    }
}

enum { SUMS = 16, VECTORS = SUMS / lanes_float }; /* sums of a row, each of every sixteenth element */

/* Add sums in an order that is the same for all instructions. */
static inline float added_up(vector_float sums[VECTORS]) {
    float each[lanes_float];
    for (int n = VECTORS / 2; n > 0; n /= 2)
        for (int k = 0; k < n; k++)
            sums[k] += sums[k + n];
    store_float(each, sums[0]);
    for (int n = lanes_float / 2; n > 0; n /= 2)
        for (int k = 0; k < n; k++)
            each[k] += each[k + n];
    return each[0];
}

static inline float sum_of_row(const float *x, int64_t width) {
    vector_float sums[VECTORS] = {0};
    float rest = 0;
    int64_t j = 0;
    for (; j + SUMS <= width; j += SUMS)
        for (int k = 0; k < VECTORS; k++)
            sums[k] += load_float(x + j + k * lanes_float);
    for (; j < width; j++)
        rest += x[j];
    return added_up(sums) + rest;
}

/* Return the sum of the products of a centered row and another, or of its squares. */
static inline float product_of_rows(const float *x, const float *g, float center, int64_t width) {
    vector_float sums[VECTORS] = {0};
    float rest = 0;
    int64_t j = 0;
    for (; j + SUMS <= width; j += SUMS)
        for (int k = 0; k < VECTORS; k++) {
            const vector_float centered = load_float(x + j + k * lanes_float) - center;
            sums[k] += centered * (g ? load_float(g + j + k * lanes_float) : centered);
        }
    for (; j < width; j++)
        rest += (x[j] - center) * (g ? g[j] : x[j] - center);
    return added_up(sums) + rest;
}

/* Write the sum of each row and that of squares of its deviations from its mean; of a gradient's rows the sum, and
 * that of products with centered rows. */
static void sums_of_rows(const struct norm *call) {
    const int64_t width = call->width;
    const float *x = at(call->x), *g = at(call->g), *centers = at(call->centers);
    float *sums = at(call->bias_sums), *products = at(call->weight_sums);
    for (int64_t i = 0; i < call->rows; i++, x += width) {
        if (g) {
            sums[i] = sum_of_row(g + i * width, width);
            products[i] = product_of_rows(x, g + i * width, centers[i], width);
        } else {
            sums[i] = sum_of_row(x, width);
            products[i] = product_of_rows(x, 0, sums[i] / (float)width, width);
        }
    }
}

static void scaled_row(const struct norm *call, int64_t i) {
    const int64_t width = call->width, start = i * width;
    const float c = ((const float *)at(call->centers))[i], f = ((const float *)at(call->factors))[i];
    const float shift = ((const float *)at(call->bias))[i], *x = (const float *)at(call->x) + start;
    float *out = (float *)at(call->out) + start;
    if (!call->g) {
        INDEPENDENT
        for (int64_t j = 0; j < width; j++)
            out[j] = (x[j] - c) * f + shift;
        return;
    }
    const float *g = (const float *)at(call->g) + start, slope = ((const float *)at(call->weight))[i];
    INDEPENDENT
    for (int64_t j = 0; j < width; j++)
        out[j] = (g[j] - shift) * f - (x[j] - c) * slope;
}

static void scaled_rows(const struct norm *call) {
    for (int64_t i = 0; i < call->rows; i++)
        scaled_row(call, i);
}
