/* Steps of LSTMs, of type T: elementwise parts, between products by NumPy's loop. */

static void N(bend)(struct gates *call, int64_t source, int64_t target, int64_t n) {
    call->source = source, call->target = target, call->count = n;
    call_loop(call->tanh, &call->source, &call->count, &call->step, call->tanh_data);
}

static void N(multiply_states)(struct gates *call, int64_t left) {
    call->left = left, call->right = call->weights, call->product = call->q;
    call_loop(call->matmul, &call->left, call->shape, call->strides, call->matmul_data);
}

static inline void N(sum)(const T *q, const T *z, const T *b, T factor, T *out, int64_t n) {
    INDEPENDENT
    for (int64_t j = 0; j < n; j++)
        out[j] = ((q[j] + z[j]) + b[j]) * factor;
}

static inline void N(squash)(T *x, int64_t n) {
    for (int64_t j = 0; j < n; j++)
        x[j] = x[j] * (T)0.5 + (T)0.5;
}

/* Bend the sums of a step, and make the states after it. */
static void N(lstm_forward)(struct gates *call) {
    const int64_t rows = call->rows, w = call->width, state = w * (int64_t)sizeof(T);
    const T *b = at(call->bias), *q = at(call->q);
    T *gates = at(call->gates), *hidden = at(call->hidden);
    for (int64_t r = 0; r < rows; r++) {
        const T *of_q = q + 4 * r * w, *z = at(call->z + r * call->z_row);
        T *s = gates + 4 * r * w;
        N(sum)(of_q, z, b, (T)0.5, s, 2 * w);
        N(sum)(of_q + 2 * w, z + 2 * w, b + 2 * w, 1, s + 2 * w, w);
        N(sum)(of_q + 3 * w, z + 3 * w, b + 3 * w, (T)0.5, s + 3 * w, w);
    }
    N(bend)(call, call->gates, call->gates, 4 * rows * w);
    for (int64_t r = 0; r < rows; r++) {
        T *i = gates + 4 * r * w, *f = i + w, *g = f + w, *new_cell = at(call->new_cell + r * state);
        const T *cell = at(call->cell + r * state);
        N(squash)(i, 2 * w);
        N(squash)(g + w, w);
        INDEPENDENT
        for (int64_t j = 0; j < w; j++)
            new_cell[j] = f[j] * cell[j] + i[j] * g[j];
    }
    N(bend)(call, call->new_cell, call->hidden, rows * w);
    for (int64_t r = 0; r < rows; r++) {
        const T *o = gates + (4 * r + 3) * w;
        INDEPENDENT
        for (int64_t j = 0; j < w; j++)
            hidden[r * w + j] *= o[j];
    }
}

static void N(lstm_steps)(struct gates *call) {
    const int64_t rows = call->rows, w = call->width, state = rows * w * (int64_t)sizeof(T);
    const int64_t first = call->z, gates = call->gates, cells = call->cell, hidden = call->hidden;
    int64_t before = call->before;
    for (int64_t i = 0; i < call->steps; i++) {
        call->z = first + i * call->z_step;
        call->gates = gates + i % call->kept * call->gates_step;
        call->cell = cells + i % call->cells * call->cell_step;
        call->new_cell = cells + (i + 1) % call->cells * call->cell_step;
        call->hidden = hidden + i % 2 * state;
        N(multiply_states)(call, before);
        N(lstm_forward)(call);
        before = call->hidden;
        for (int64_t r = 0; r < rows; r++)
            memcpy(at(call->out + i * call->out_step + r * call->out_row), (T *)at(before) + r * w,
                   (size_t)w * sizeof(T));
    }
}

/* Write the gradients of the gates of a row, and of the cell state before. */
static inline void N(slopes_of_row)(const T *s, const T *old, const T *t, const T *dh, T *dc, T *d, int64_t w) {
    const T *i = s, *f = s + w, *g = s + 2 * w, *o = s + 3 * w;
    INDEPENDENT
    for (int64_t j = 0; j < w; j++) {
        const T slope = dc[j] + (1 - t[j] * t[j]) * (dh[j] * o[j]);
        d[3 * w + j] = (dh[j] * t[j]) * (o[j] - o[j] * o[j]);
        d[j] = (slope * g[j]) * (i[j] - i[j] * i[j]);
        d[w + j] = (slope * old[j]) * (f[j] - f[j] * f[j]);
        d[2 * w + j] = (slope * i[j]) * (1 - g[j] * g[j]);
        dc[j] = slope * f[j];
    }
}

static void N(lstm_backward)(struct gates *call) {
    const int64_t rows = call->rows, w = call->width;
    const T *s = at(call->gates), *old = at(call->cell), *bent = at(call->room), *dh = at(call->d_hidden);
    T *dc = at(call->d_cell), *d = at(call->d);
    N(bend)(call, call->new_cell, call->room, rows * w);
    for (int64_t r = 0; r < rows; r++)
        N(slopes_of_row)(s + 4 * r * w, old + r * w, bent + r * w, dh + r * w, dc + r * w, d + 4 * r * w, w);
}

/* Copy the gradients of a step to those of all, and add them to their sum. */
static inline void N(kept_slopes)(const struct gates *call, int64_t target) {
    const int64_t n = 4 * call->width;
    const T *d = at(call->d);
    T *total = at(call->hidden);
    for (int64_t r = 0; r < call->rows; r++, d += n, total += n) {
        T *copy = at(target + r * call->out_row);
        INDEPENDENT
        for (int64_t j = 0; j < n; j++) {
            copy[j] = d[j];
            total[j] += d[j];
        }
    }
}

static void N(lstm_back_steps)(struct gates *call) {
    const int64_t rows = call->rows, w = call->width, gates = call->gates, cells = call->cell, n = call->steps;
    T *dh = at(call->d_hidden);
    call->q = call->d_hidden;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t r = 0; r < rows; r++) {
            const T *given = at(call->z + i * call->z_step + r * call->z_row);
            INDEPENDENT
            for (int64_t j = 0; j < w; j++)
                dh[r * w + j] += given[j];
        }
        call->gates = gates + (n - 1 - i) * call->gates_step;
        call->cell = cells + (n - 1 - i) * call->cell_step;
        call->new_cell = cells + (n - i) * call->cell_step;
        N(lstm_backward)(call);
        N(multiply_states)(call, call->d);
        N(kept_slopes)(call, call->out + i * call->out_step);
    }
}
