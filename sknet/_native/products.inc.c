/* Products of two matrices of elements of type T that fit a cache: less is copied before than BLAS does, and numbers
 * are added up in its order, one after the other. */

#ifdef LONG_BYTES
enum { N(product_vectors) = 4 };
#else
enum { N(product_vectors) = 2 };
#endif

enum { N(product_rows) = 6, N(product_columns) = N(product_vectors) * N(long_lanes), N(most_copied) = 128 };

/* Write some rows of a tile, whose sums are in registers; steps are those of `a` along its axes. */
static inline void N(product_tile)(const T *a, int64_t row, int64_t step, const T *b, int64_t b_row, T *out,
                                   int64_t out_row, int64_t inner) {
    N(long_vector) sums[N(product_rows)][N(product_vectors)], own[N(product_vectors)];
    memset(sums, 0, sizeof sums);
    for (int64_t k = 0; k < inner; k++, a += step, b += b_row) {
        for (int v = 0; v < N(product_vectors); v++)
            own[v] = N(load_long)(b + v * N(long_lanes));
        for (int i = 0; i < N(product_rows); i++)
            for (int v = 0; v < N(product_vectors); v++)
                sums[i][v] = N(long_sum_with)(a[i * row], own[v], sums[i][v]);
    }
    for (int i = 0; i < N(product_rows); i++)
        for (int v = 0; v < N(product_vectors); v++)
            N(store_long)(out + i * out_row + v * N(long_lanes), sums[i][v] + (T)0); /* 0 has no sign */
}

/* Write columns of a matrix, which are contiguous, side by side. */
static void N(turn)(const T *x, int64_t column, int64_t inner, T *out) {
    int64_t k = 0;
#if defined(SKNET_FLUSHES) && defined(LONG_BYTES)
    for (; k + 4 <= inner; k += 4)
        for (int64_t j = 0; j < N(product_columns); j += 4) {
            const T *own = x + j * column + k;
            __m128 a = _mm_loadu_ps(own), b = _mm_loadu_ps(own + column), c = _mm_loadu_ps(own + 2 * column),
                   d = _mm_loadu_ps(own + 3 * column);
            _MM_TRANSPOSE4_PS(a, b, c, d);
            T *to = out + k * N(product_columns) + j;
            _mm_storeu_ps(to, a), _mm_storeu_ps(to + N(product_columns), b);
            _mm_storeu_ps(to + 2 * N(product_columns), c), _mm_storeu_ps(to + 3 * N(product_columns), d);
        }
#endif
    for (; k < inner; k++)
        for (int64_t j = 0; j < N(product_columns); j++)
            out[k * N(product_columns) + j] = x[j * column + k];
}

/* Write some columns of a matrix side by side. */
static void N(copy_columns)(const T *x, int64_t row, int64_t column, int64_t inner, T *out) {
    if (column != 1) {
        N(turn)(x, column, inner, out);
        return;
    }
    for (int64_t k = 0; k < inner; k++, x += row, out += N(product_columns))
        memcpy(out, x, N(product_columns) * sizeof(T));
}

/* Write a product, given addresses, lengths and strides in bytes, as a loop of NumPy's has them after its first axis.
 *
 * The last tile of rows, or of columns, begins before the end of the one before if a part of one is left. */
static void N(product)(const int64_t *places, const int64_t *lengths, const int64_t *strides) {
    const int64_t rows = lengths[0], inner = lengths[1], columns = lengths[2], size = sizeof(T);
    const int64_t row = strides[0] / size, step = strides[1] / size, out_row = strides[4] / size;
    const int64_t b_row = strides[2] / size, is_copied = inner <= N(most_copied);
    const T *a = at(places[0]), *b = at(places[1]);
    T *out = at(places[2]);
    _Alignas(64) T room[N(most_copied) * N(product_columns)];
    for (int64_t j = 0; j < columns; j += N(product_columns)) {
        const int64_t first = least(j, columns - N(product_columns));
        if (is_copied)
            N(copy_columns)(b + first * (strides[3] / size), b_row, strides[3] / size, inner, room);
        for (int64_t i = 0; i < rows; i += N(product_rows)) {
            const int64_t start = least(i, rows - N(product_rows));
            N(product_tile)(a + start * row, row, step, is_copied ? room : b + first,
                            is_copied ? N(product_columns) : b_row, out + start * out_row + first, out_row, inner);
        }
    }
}
