/* Maps between images and tiles of type T, for convolutions with kernels of three by three.
 *
 * They are those of sknet/ops/_convolution_algorithms.py, whose sums they make in the same order. */

enum { N(wide) = 64 / sizeof(T), N(narrow) = N(wide) / 2 }; /* tiles at a time */

/* Write the transform of four elements of a tile. */
static inline void N(differences)(const N(vector) x[4], N(vector) out[4]) {
    out[0] = x[0] - x[2];
    out[1] = x[1] + x[2];
    out[2] = x[2] - x[1];
    out[3] = x[1] - x[3];
}

static inline void N(tiles_of)(const T *planes, int64_t plane, int64_t row, T *tiles, int64_t step, int n) {
    for (int q = 0; q < n; q += N(lanes)) {
        N(vector) columns[4][4], lines[4][4];
        for (int j = 0; j < 4; j++) {
            N(vector) x[4];
            for (int i = 0; i < 4; i++)
                x[i] = N(load)(planes + (2 * (i % 2) + j % 2) * plane + i / 2 * row + j / 2 + q);
            N(differences)(x, columns[j]);
        }
        for (int i = 0; i < 4; i++) {
            const N(vector) x[4] = {columns[0][i], columns[1][i], columns[2][i], columns[3][i]};
            N(differences)(x, lines[i]);
            for (int j = 0; j < 4; j++)
                N(store)(tiles + (4 * i + j) * step + q, lines[i][j]);
        }
    }
}

/* Write the adjoint of a sum of four elements to two of a result. */
static inline void N(adjoint)(N(vector) a, N(vector) b, N(vector) out[4]) {
    out[0] = a;
    out[1] = a + b;
    out[2] = a - b;
    out[3] = -b;
}

/* Transform two by two elements of the gradient of a result. */
static inline void N(slopes_of)(const T *planes, int64_t plane, T *tiles, int64_t step, int n) {
    for (int q = 0; q < n; q += N(lanes)) {
        N(vector) left[4], right[4], line[4];
        N(adjoint)(N(load)(planes + q), N(load)(planes + 2 * plane + q), left);
        N(adjoint)(N(load)(planes + plane + q), N(load)(planes + 3 * plane + q), right);
        for (int i = 0; i < 4; i++) {
            N(adjoint)(left[i], right[i], line);
            for (int j = 0; j < 4; j++)
                N(store)(tiles + (4 * i + j) * step + q, line[j]);
        }
    }
}

/* Write parts of two rows of an image, to which a number is added. */
static inline void N(images_of)(const T *tiles, int64_t step, T more, T *image, int64_t line, int n) {
    for (int q = 0; q < n; q += N(lanes)) {
        N(vector) top[4], low[4];
        T even[2][N(lanes)], odd[2][N(lanes)];
        for (int j = 0; j < 4; j++) {
            N(vector) x[4];
            for (int i = 0; i < 4; i++)
                x[i] = N(load)(tiles + (4 * i + j) * step + q);
            top[j] = (x[0] + x[1]) + x[2];
            low[j] = (x[1] - x[2]) - x[3];
        }
        N(store)(even[0], ((top[0] + top[1]) + top[2]) + more);
        N(store)(odd[0], ((top[1] - top[2]) - top[3]) + more);
        N(store)(even[1], ((low[0] + low[1]) + low[2]) + more);
        N(store)(odd[1], ((low[1] - low[2]) - low[3]) + more);
        for (int i = 0; i < 2; i++)
            for (int k = 0; k < N(lanes); k++) {
                image[i * line + 2 * (q + k)] = even[i][k];
                image[i * line + 2 * (q + k) + 1] = odd[i][k];
            }
    }
}

/* Write every other element of a row, and those between them. */
static void N(split_row)(const T *row, T *even, T *odd, int64_t count) {
    INDEPENDENT
    for (int64_t k = 0; k < count / 2; k++) {
        even[k] = row[2 * k];
        odd[k] = row[2 * k + 1];
    }
    if (count % 2)
        even[count / 2] = row[count - 1];
}

static void N(split_row_apart)(int64_t row, int64_t step, T *even, T *odd, int64_t count) {
    for (int64_t k = 0; k < count; k++)
        (k % 2 ? odd : even)[k / 2] = *(const T *)at(row + k * step);
}

static void N(split_image)(const struct tile *t, int64_t image, int64_t plane, int64_t width) {
    for (int64_t h = 0; h < t->rows; h++) {
        T *line = (T *)at(t->room) + (t->top + h) % 2 * 2 * plane + (t->top + h) / 2 * width;
        T *even = line + t->left % 2 * plane + t->left / 2;
        T *odd = line + (t->left + 1) % 2 * plane + (t->left + 1) / 2;
        const int64_t row = image + h * t->x_row;
        if (t->x_column == sizeof(T))
            N(split_row)(at(row), even, odd, t->columns);
        else
            N(split_row_apart)(row, t->x_column, even, odd, t->columns);
    }
}

static inline void N(row_of_tiles)(const struct tile *t, const T *planes, int64_t plane, T *out, int are_slopes) {
    const int64_t row = t->tile_columns + 1, step = t->step / (int64_t)sizeof(T);
    const int are_few = 2 * t->tile_columns <= N(wide);
    for (int64_t j = 0; j < t->tile_columns; j += N(wide)) {
        const int64_t k = least(j, most(t->tile_columns - N(wide), 0)); /* the last overlaps the one before */
        if (are_slopes && are_few)
            N(slopes_of)(planes + k, plane, out + k, step, N(narrow));
        else if (are_slopes)
            N(slopes_of)(planes + k, plane, out + k, step, N(wide));
        else if (are_few)
            N(tiles_of)(planes + k, plane, row, out + k, step, N(narrow));
        else
            N(tiles_of)(planes + k, plane, row, out + k, step, N(wide));
    }
}

static void N(to_tiles)(const struct tile *t, int are_slopes) {
    const int64_t width = t->tile_columns + 1, plane = (t->tile_rows + 2) * width + N(wide);
    T *planes = at(t->room), *out = at(t->tiles);
    memset(planes, 0, (size_t)(4 * plane) * sizeof(T));
    for (int64_t c = 0; c < t->channels; c++)
        for (int64_t s = 0; s < t->samples; s++) {
            N(split_image)(t, t->x + s * t->x_sample + c * t->x_channel, plane, width);
            for (int64_t i = 0; i < t->tile_rows; i++, out += t->tile_columns)
                N(row_of_tiles)(t, planes + i * width, plane, out, are_slopes);
        }
}

/* Copy a row, some elements at a time, of which the last overlap those before; calls of memcpy take as long as the
 * transform of its tiles. */
static inline void N(copy_row)(const T *x, T *out, int64_t n) {
    const int64_t step = n < N(lanes) ? N(lanes) / 2 : N(lanes);
    if (n < step) {
        memcpy(out, x, (size_t)n * sizeof(T));
        return;
    }
    for (int64_t j = 0; j < n; j += step) {
        const int64_t k = least(j, n - step);
        if (step == N(lanes))
            memcpy(out + k, x + k, sizeof(N(vector)));
        else
            memcpy(out + k, x + k, sizeof(N(vector)) / 2);
    }
}

/* Write two rows of an image, or the last one. */
static void N(rows_of_image)(const struct tile *t, const T *tiles, T more, int64_t image, int64_t first) {
    const int64_t line = 2 * (t->tile_columns + N(wide)), step = t->step / (int64_t)sizeof(T);
    const int are_few = 2 * t->tile_columns <= N(wide);
    T *pair = at(t->room);
    for (int64_t j = 0; j < t->tile_columns; j += N(wide)) {
        const int64_t k = least(j, most(t->tile_columns - N(wide), 0));
        if (are_few)
            N(images_of)(tiles + k, step, more, pair + 2 * k, line, N(narrow));
        else
            N(images_of)(tiles + k, step, more, pair + 2 * k, line, N(wide));
    }
    for (int64_t h = first; h < least(first + 2, t->rows); h++)
        N(copy_row)(pair + h % 2 * line, at(image + h * t->x_row), t->columns);
}

static void N(to_images)(const struct tile *t) {
    const T *tiles = at(t->tiles), *bias = at(t->bias);
    for (int64_t c = 0; c < t->channels; c++)
        for (int64_t s = 0; s < t->samples; s++)
            for (int64_t i = 0; i < t->tile_rows; i++, tiles += t->tile_columns) {
                const T more = bias ? bias[c] : (T)-0.0; /* adding -0 changes nothing */
                N(rows_of_image)(t, tiles, more, t->x + s * t->x_sample + c * t->x_channel, 2 * i);
            }
}

/* Describe products of matrices for NumPy's loop; sums are those of tiles with transposed ones. */
static void N(shape_products)(struct product *p, int64_t c, int64_t o, int64_t length) {
    const int64_t size = sizeof(T), row = length * size, of_sums = p->sums != 0;
    const int64_t shape[4] = {p->groups, o, of_sums ? length : c, of_sums ? c : length};
    const int64_t left = of_sums ? row : c * size, out = of_sums ? c * size : row;
    const int64_t strides[9] = {o * left, c * row, o * out, left, size, of_sums ? size : row, of_sums ? row : size,
                                out, size};
    memcpy(p->shape, shape, sizeof shape);
    memcpy(p->strides, strides, sizeof strides);
}

static void N(multiply_tiles)(struct product *p, int64_t channels, int64_t filters, int64_t length) {
    N(shape_products)(p, channels / p->groups, filters / p->groups, length);
    const int64_t of_tiles = p->groups * p->strides[1] + p->apart;
    const int64_t of_left = p->groups * p->strides[0] + (p->sums ? p->apart : 0);
    const int64_t of_out = p->groups * p->strides[2] + (p->sums ? 0 : p->apart);
    for (int64_t k = 0; k < 16; k++) {
        int64_t given[3] = {p->left + k * of_left, p->right + k * of_tiles, p->out + k * of_out};
        call_loop(p->matmul, given, p->shape, p->strides, p->matmul_data);
    }
}

/* Compute some samples of a share, and add their products to its sums, if it has any. */
static void N(part_of_share)(struct share *s, int64_t start, int64_t n) {
    struct tile *images = &s->images, *results = &s->results;
    struct product call = s->product;
    const int64_t length = n * images->tile_rows * images->tile_columns, size = sizeof(T);
    images->samples = results->samples = n;
    images->step = images->channels * length * size + call.apart;
    results->step = results->channels * length * size + call.apart;
    N(to_tiles)(images, 0);
    if (call.sums) {
        N(to_tiles)(results, 1);
        call.out = start ? call.out : call.sums;
    }
    N(multiply_tiles)(&call, images->channels, results->channels, length);
    if (!call.sums)
        N(to_images)(results);
    if (call.sums && start) {
        const int64_t count = 16 * images->channels * results->channels / call.groups;
        const T *more = at(call.out);
        T *sums = at(call.sums);
        INDEPENDENT
        for (int64_t k = 0; k < count; k++)
            sums[k] += more[k];
    }
}

static void N(share)(const struct share *given) {
    struct share s = *given;
    for (int64_t start = 0; start < given->product.samples; start += given->product.part) {
        const int64_t n = least(given->product.part, given->product.samples - start);
        N(part_of_share)(&s, start, n);
        s.images.x += n * s.images.x_sample;
        s.results.x += n * s.results.x_sample;
    }
}
