/* The largest elements of windows that do not overlap, of images of type T, and gradients of these. */

static T N(greater)(T x, T y) {
    const T found = x > y ? x : y; /* y if it is NaN; compilers find vectors for both choices alone */
    return x != x ? x : found;
}

/* Write the largest elements of windows of two by two, of two rows. */
static void N(largest_of_four)(const T *above, const T *below, T *out, int64_t n) {
    INDEPENDENT
    for (int64_t q = 0; q < n; q++)
        out[q] = N(greater)(N(greater)(above[2 * q], below[2 * q]), N(greater)(above[2 * q + 1], below[2 * q + 1]));
}

static void N(largest)(const struct pool *p) {
    const int are_two = p->kernel_rows == 2 && p->kernel_columns == 2 && p->stride_columns == 2;
    const T *image = at(p->x);
    T *out = at(p->out);
    for (int64_t k = 0; k < p->images; k++, image += p->rows * p->columns)
        for (int64_t r = 0; r < p->grid_rows; r++, out += p->grid_columns) {
            const T *first = image + r * p->stride_rows * p->columns;
            if (are_two) {
                N(largest_of_four)(first, first + p->columns, out, p->grid_columns);
                continue;
            }
            for (int64_t q = 0; q < p->grid_columns; q++) {
                const T *window = first + q * p->stride_columns;
                out[q] = window[0];
                for (int64_t i = 0; i < p->kernel_rows; i++)
                    for (int64_t j = 0; j < p->kernel_columns; j++)
                        out[q] = N(greater)(out[q], window[i * p->columns + j]);
            }
        }
}

/* Give each gradient to the first of four elements that is the largest; 0 times infinity is NaN, as in NumPy. */
static void N(put_in_four)(const T *above, const T *below, const T *top, const T *g, T *out, int64_t columns,
                           int64_t n) {
    T *under = out + columns;
    INDEPENDENT
    for (int64_t q = 0; q < n; q++) {
        const T largest = top[q], first = g[q] * (T)(above[2 * q] == largest), rest = g[q] - first;
        const T second = rest * (T)(above[2 * q + 1] == largest), some = rest - second;
        const T third = some * (T)(below[2 * q] == largest), last = some - third;
        out[2 * q] = first;
        out[2 * q + 1] = second;
        under[2 * q] = third;
        under[2 * q + 1] = last * (T)(below[2 * q + 1] == largest);
    }
}

static void N(put_largest)(const struct pool *p) {
    const int are_two = p->kernel_rows == 2 && p->kernel_columns == 2 && p->stride_columns == 2;
    const int64_t size = p->rows * p->columns;
    const T *image = at(p->x), *top = at(p->top), *g = at(p->g);
    T *out = at(p->out);
    if (!p->tile)
        memset(out, 0, (size_t)(p->images * size) * sizeof(T));
    for (int64_t k = 0; k < p->images; k++, image += size, out += size)
        for (int64_t r = 0; r < p->grid_rows; r++, top += p->grid_columns, g += p->grid_columns) {
            const int64_t start = r * p->stride_rows * p->columns;
            if (are_two) {
                const T *first = image + start;
                N(put_in_four)(first, first + p->columns, top, g, out + start, p->columns, p->grid_columns);
                continue;
            }
            for (int64_t q = 0; q < p->grid_columns; q++) {
                T left = g[q];
                for (int64_t i = 0; i < p->kernel_rows; i++)
                    for (int64_t j = 0; j < p->kernel_columns; j++) {
                        const int64_t place = start + i * p->columns + q * p->stride_columns + j;
                        const T share = left * (T)(image[place] == top[q]);
                        left -= share;
                        out[place] = share;
                    }
            }
        }
}

/* Count right rows; return 1 if an output is not finite or a class is none, 0 otherwise. */
static int64_t N(count_right)(const struct scored *s) {
    const int64_t n = s->classes, *target = at(s->targets);
    const T *x = at(s->outputs);
    int64_t *counts = at(s->counts);
    int infinite = 0;
    for (int64_t i = 0; i < s->epochs * s->rows * n; i++)
        infinite |= x[i] * 0 != 0;
    for (int64_t epoch = 0; epoch < s->epochs; epoch++) {
        int64_t right = 0;
        for (int64_t i = 0; i < s->rows; i++, x += n) {
            const int64_t own = *target++;
            if (own < 0 || own >= n)
                return 1;
            const T value = x[own];
            int larger = 0;
            for (int32_t j = 0; j < (int32_t)n; j++) /* as wide as a float: vectors */
                larger |= (x[j] > value) | ((x[j] == value) & (j < (int32_t)own));
            right += !larger;
        }
        counts[epoch] = right;
    }
    return infinite;
}
