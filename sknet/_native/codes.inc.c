/* Products of encoded rows, of elements of type T, that are given by codes: see sknet/ops/_codes.py.
 *
 * In the columns of a block a row has its value in one bin; in steps, it has a half in the bins before that one and
 * minus a half in those behind it, so that sums of their weights are all that is needed. Results are made a few
 * vectors at a time, their tile; vectors are as long as registers: sums of a column do not depend on that. */

#ifdef LONG_BYTES
typedef T N(long_vector) __attribute__((vector_size(LONG_BYTES)));
#else
typedef N(vector) N(long_vector);
#endif

enum { N(long_lanes) = sizeof(N(long_vector)) / sizeof(T) };

static inline N(long_vector) N(load_long)(const T *x) {
    N(long_vector) found;
    memcpy(&found, x, sizeof found);
    return found;
}

static inline void N(store_long)(T *out, N(long_vector) value) { memcpy(out, &value, sizeof value); }

/* A product and a sum: rounded once where processors have an instruction for that, as BLAS does. */
static inline T N(sum_with)(T a, T b, T c) {
#ifdef FUSES
    return fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

static inline N(long_vector) N(long_sum_with)(T a, N(long_vector) b, N(long_vector) c) {
#if defined(FUSES) && defined(LONG_BYTES)
    return (N(long_vector))_mm512_fmadd_ps(_mm512_set1_ps(a), (__m512)b, (__m512)c);
#elif defined(FUSES)
    return (N(long_vector))_mm256_fmadd_ps(_mm256_set1_ps(a), (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

enum { N(most_vectors) = 4, N(most_columns) = N(most_vectors) * N(long_lanes), N(group) = 4 };

/* Rows, or columns, that are summed together: as many as there are registers for. */
#ifdef LONG_BYTES
enum { N(rows) = 4 };
#else
enum { N(rows) = 2 };
#endif

/* Load and store a row of a tile, whose last vector may be a part of one. */
static inline void N(load_row)(const T *x, int64_t width, N(long_vector) *out, const int vectors) {
    T part[N(long_lanes)] = {0};
    if (width == vectors * N(long_lanes))
        for (int v = 0; v < vectors; v++)
            out[v] = N(load_long)(x + v * N(long_lanes));
    else {
        for (int64_t j = 0; j < width; j++)
            part[j] = x[j];
        out[0] = N(load_long)(part);
    }
}

static inline void N(store_row)(T *out, int64_t width, const N(long_vector) *x, const int vectors) {
    T part[N(long_lanes)];
    if (width == vectors * N(long_lanes))
        for (int v = 0; v < vectors; v++)
            N(store_long)(out + v * N(long_lanes), x[v]);
    else {
        N(store_long)(part, x[0]);
        for (int64_t j = 0; j < width; j++)
            out[j] = part[j];
    }
}

/* Write a tile of a matrix, padded with zeros, to contiguous rows. */
static inline void N(pack)(const T *x, int64_t rows, int64_t step, int64_t width, T *out, const int vectors) {
    N(long_vector) row[N(most_vectors)];
    for (int64_t i = 0; i < rows; i++) {
        N(load_row)(x + i * step, width, row, vectors);
        N(store_row)(out + i * vectors * N(long_lanes), vectors * N(long_lanes), row, vectors);
    }
}

/* Write for each bin of steps the sum of the weights around it, half of those before minus half of those behind, and
 * its own weights. */
static inline void N(weights_of)(const struct coded *c, const T *weights, int64_t bins, int64_t width, T *out,
                                 const int vectors) {
    N(long_vector) around[N(most_vectors)], row[N(most_vectors)];
    memset(around, 0, sizeof around);
    for (int64_t i = 0; i < bins; i++) {
        N(load_row)(weights + i * c->width, width, row, vectors);
        for (int v = 0; v < vectors; v++)
            around[v] -= row[v] * (T)0.5;
    }
    for (int64_t i = 0; i < bins; i++, out += 2 * vectors * N(long_lanes)) {
        N(load_row)(weights + i * c->width, width, row, vectors);
        for (int v = 0; v < vectors; v++) {
            const N(long_vector) half = row[v] * (T)0.5;
            N(store_long)(out + v * N(long_lanes), around[v] + half);
            N(store_long)(out + (vectors + v) * N(long_lanes), row[v]);
            around[v] += row[v];
        }
    }
}

/* Add to a tile what some blocks give, whose weights are in `tables`. */
static inline void N(add_blocks)(const struct coded *c, const T *codes, const T *const tables[N(group)],
                                 const int n_blocks, T *sums, const int vectors, const int is_steps) {
    const int64_t columns = vectors * N(long_lanes);
    for (int64_t i = 0; i < c->rows; i++, codes += 2 * c->n_blocks, sums += columns) {
        N(long_vector) found[N(most_vectors)];
        for (int v = 0; v < vectors; v++)
            found[v] = N(load_long)(sums + v * N(long_lanes));
        for (int b = 0; b < n_blocks; b++) {
            const T *own = tables[b] + (is_steps + 1) * (int32_t)codes[2 * b] * columns, value = codes[2 * b + 1];
            for (int v = 0; v < vectors && is_steps; v++)
                found[v] += N(long_sum_with)(value, N(load_long)(own + (vectors + v) * N(long_lanes)),
                                             N(load_long)(own + v * N(long_lanes)));
            for (int v = 0; v < vectors && !is_steps; v++)
                found[v] = N(long_sum_with)(value, N(load_long)(own + v * N(long_lanes)), found[v]);
        }
        for (int v = 0; v < vectors; v++)
            N(store_long)(sums + v * N(long_lanes), found[v]);
    }
}

/* Add to some rows of a tile what columns give that are no bins. */
static inline void N(add_columns_to)(const struct coded *c, const T *codes, const T *weights, int n_blocks, T *sums,
                                     const int vectors, const int rows) {
    const int64_t columns = vectors * N(long_lanes), step = 2 * c->n_blocks;
    N(long_vector) found[N(rows)][N(most_vectors)];
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++)
            found[i][v] = N(load_long)(sums + i * columns + v * N(long_lanes));
    for (int b = 0; b < n_blocks; b++)
        for (int v = 0; v < vectors; v++) {
            const N(long_vector) own = N(load_long)(weights + b * columns + v * N(long_lanes));
            for (int i = 0; i < rows; i++)
                found[i][v] = N(long_sum_with)(codes[i * step + 2 * b + 1], own, found[i][v]);
        }
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++)
            N(store_long)(sums + i * columns + v * N(long_lanes), found[i][v]);
}

static inline void N(add_columns)(const struct coded *c, const T *codes, const T *weights, int n_blocks, T *sums,
                                  const int vectors) {
    const int64_t columns = vectors * N(long_lanes), step = 2 * c->n_blocks;
    int64_t i = 0;
    for (; i + N(rows) <= c->rows; i += N(rows))
        N(add_columns_to)(c, codes + i * step, weights, n_blocks, sums + i * columns, vectors, N(rows));
    for (; i < c->rows; i++)
        N(add_columns_to)(c, codes + i * step, weights, n_blocks, sums + i * columns, vectors, 1);
}

/* Tell whether each bin is one of its block. */
static int N(are_codes)(const struct coded *c) {
    const int64_t *blocks = at(c->blocks);
    const T *codes = at(c->codes);
    T *bins = at(c->room);
    for (int64_t k = 0; k < c->n_blocks; k++)
        bins[k] = (T)blocks[2 * k];
    const T digits = (T)(1 << 23); /* a sum with it is rounded to an integer */
    int32_t right = 1;
    for (int64_t i = 0; i < c->rows; i++, codes += 2 * c->n_blocks)
        for (int64_t k = 0; k < c->n_blocks; k++) {
            const T bin = codes[2 * k];
            right &= (bin >= 0) & (bin < bins[k]) & ((bin + digits) - digits == bin);
        }
    return right;
}

static int64_t singles(const int64_t *blocks, int64_t count) {
    int64_t found = 0;
    while (found < count && blocks[2 * found] == 1)
        found++;
    return found;
}

/* Return how many blocks of the same kind are next, which are made together. */
static int N(alike)(const int64_t *blocks, int64_t count, int64_t most_bins) {
    int64_t n = 1;
    if (blocks[0] == 1)
        return (int)least(singles(blocks, count), N(group) * most_bins);
    while (n < least(count, N(group)) && blocks[2 * n] > 1 && blocks[2 * n + 1] == blocks[1])
        n++;
    return (int)n;
}

/* Add to a tile what blocks of several columns give. */
static inline const T *N(add_group)(const struct coded *c, int64_t k, int n, const T *weights, int64_t width, T *room,
                                    T *sums, const int vectors) {
    const int64_t *blocks = (const int64_t *)at(c->blocks) + 2 * k, is_steps = blocks[1];
    const T *codes = (const T *)at(c->codes) + 2 * k, *tables[N(group)] = {0};
    for (int b = 0; b < n; b++) {
        const int64_t bins = blocks[2 * b];
        tables[b] = room;
        if (is_steps)
            N(weights_of)(c, weights, bins, width, room, vectors);
        else
            N(pack)(weights, bins, c->width, width, room, vectors);
        weights += bins * c->width;
        room += (is_steps + 1) * bins * vectors * N(long_lanes);
    }
    if (is_steps && n == N(group))
        N(add_blocks)(c, codes, tables, N(group), sums, vectors, 1);
    else if (is_steps)
        N(add_blocks)(c, codes, tables, n, sums, vectors, 1);
    else
        N(add_blocks)(c, codes, tables, n, sums, vectors, 0);
    return weights;
}

/* Write a tile of the product of rows and weights: `room` is for the tile, and for the weights of a group. */
static inline void N(coded_tile)(const struct coded *c, int64_t first, int64_t width, const int vectors) {
    const int64_t *blocks = at(c->blocks), columns = vectors * N(long_lanes);
    const T *codes = at(c->codes), *weights = (const T *)at(c->given) + first;
    T *sums = at(c->room), *room = sums + c->rows * columns, *out = (T *)at(c->out) + first;
    memset(sums, 0, (size_t)(c->rows * columns) * sizeof(T));
    for (int64_t k = 0; k < c->n_blocks;) {
        const int n = N(alike)(blocks + 2 * k, c->n_blocks - k, c->most_bins);
        if (blocks[2 * k] == 1) {
            N(pack)(weights, n, c->width, width, room, vectors);
            N(add_columns)(c, codes + 2 * k, room, n, sums, vectors);
            weights += n * c->width;
        } else
            weights = N(add_group)(c, k, n, weights, width, room, sums, vectors);
        k += n;
    }
    for (int64_t i = 0; i < c->rows; i++) {
        N(long_vector) row[N(most_vectors)];
        N(load_row)(sums + i * columns, columns, row, vectors);
        N(store_row)(out + i * c->width, width, row, vectors);
    }
}

/* Write the product of rows and one column of weights: `room` has sums of the weights around each, and it. */
static void N(coded_column)(const struct coded *c) {
    enum { ROWS = 4 };
    const int64_t *blocks = at(c->blocks), step = 2 * c->n_blocks;
    const T *codes = at(c->codes), *weights = at(c->given);
    T *room = at(c->room), *pair = room, *out = at(c->out);
    for (int64_t k = 0; k < c->n_blocks; k++) {
        const int64_t bins = blocks[2 * k], is_steps = blocks[2 * k + 1];
        T around = 0;
        for (int64_t i = 0; i < bins; i++)
            around -= weights[i] * (T)0.5;
        for (int64_t i = 0; i < bins; i++, weights++, pair += 2) {
            pair[0] = is_steps ? around + *weights * (T)0.5 : 0;
            pair[1] = *weights;
            around += *weights;
        }
    }
    for (int64_t i = 0; i < c->rows; i += ROWS, codes += ROWS * step) {
        const int64_t rows = least(ROWS, c->rows - i);
        T sums[ROWS] = {0};
        pair = room;
        for (int64_t k = 0; k < c->n_blocks; k++) {
            const int is_steps = blocks[2 * k] > 1 && blocks[2 * k + 1];
            for (int64_t r = 0; r < rows; r++) {
                const T *code = codes + r * step + 2 * k, *own = pair + 2 * (int32_t)code[0];
                sums[r] = is_steps ? sums[r] + N(sum_with)(code[1], own[1], own[0]) : N(sum_with)(code[1], own[1], sums[r]);
            }
            pair += 2 * blocks[2 * k];
        }
        memcpy(out + i, sums, (size_t)rows * sizeof(T));
    }
}

static void N(coded_product)(const struct coded *c) {
    if (c->width == 1) {
        N(coded_column)(c);
        return;
    }
    int64_t first = 0;
    for (; first + N(most_columns) <= c->width; first += N(most_columns))
        N(coded_tile)(c, first, N(most_columns), N(most_vectors));
    for (; first < c->width; first += N(long_lanes))
        N(coded_tile)(c, first, least(N(long_lanes), c->width - first), 1);
}

/* What a block adds to a row: its value times its own weights, and in steps the weights around it. */
struct N(term) {
    const T *own, *around;
    T value;
};

static inline void N(add_terms)(const struct N(term) *terms, int64_t count, int64_t first, int64_t width, T *out,
                                const int vectors) {
    N(long_vector) sums[N(most_vectors)], around[N(most_vectors)], row[N(most_vectors)];
    N(load_row)(out + first, width, sums, vectors);
    for (const struct N(term) *one = terms; one < terms + count; one++) {
        N(load_row)(one->own + first, width, row, vectors);
        if (one->around)
            N(load_row)(one->around + first, width, around, vectors);
        for (int v = 0; v < vectors; v++)
            sums[v] = one->around ? sums[v] + N(long_sum_with)(one->value, row[v], around[v])
                                  : N(long_sum_with)(one->value, row[v], sums[v]);
    }
    N(store_row)(out + first, width, sums, vectors);
}

/* Write the product of rows and paired weights, with the sums of `coded_product`. What is 0 adds nothing: most flags. */
static void N(paired_product)(const struct coded *c) {
    enum { TERMS = 64 };
    struct N(term) terms[TERMS];
    const T *codes = at(c->codes);
    T *out = at(c->out);
    memset(out, 0, (size_t)(c->rows * c->width) * sizeof(T));
    for (int64_t i = 0; i < c->rows; i++, codes += 2 * c->n_blocks, out += c->width) {
        const int64_t *blocks = at(c->blocks);
        const T *weights = at(c->given);
        for (int64_t k = 0; k < c->n_blocks;) {
            int64_t count = 0, first = 0;
            for (; k < c->n_blocks && count < TERMS; k++, blocks += 2) {
                const int is_steps = blocks[0] > 1 && blocks[1];
                const T *own = weights + (1 + is_steps) * (int32_t)codes[2 * k] * c->width, value = codes[2 * k + 1];
                if (is_steps)
                    terms[count++] = (struct N(term)){own + c->width, own, value};
                else if (value != 0)
                    terms[count++] = (struct N(term)){own, 0, value};
                weights += (1 + is_steps) * blocks[0] * c->width;
            }
            for (; first + N(most_columns) <= c->width; first += N(most_columns))
                N(add_terms)(terms, count, first, N(most_columns), out, N(most_vectors));
            for (; first < c->width; first += N(long_lanes))
                N(add_terms)(terms, count, first, least(N(long_lanes), c->width - first), out, 1);
        }
    }
}

/* Sort the rows by the bin that each has in a block: write their numbers, their values, and the end of each bin. */
static void N(sort_rows)(const struct coded *c, const T *codes, int64_t bins, int32_t *order, T *values, int32_t *ends) {
    memset(ends, 0, (size_t)bins * sizeof *ends);
    for (int64_t i = 0; i < c->rows; i++)
        ends[(int64_t)codes[2 * i * c->n_blocks]]++;
    int32_t sum = 0;
    for (int64_t k = 0; k < bins; k++) {
        const int32_t count = ends[k];
        ends[k] = sum;
        sum += count;
    }
    for (int64_t i = 0; i < c->rows; i++, codes += 2 * c->n_blocks) {
        const int32_t place = ends[(int64_t)codes[0]]++;
        order[place] = (int32_t)i;
        values[place] = codes[1];
    }
}

/* Write sums over the rows of each bin: of the gradients, and of these times values. */
static inline void N(sum_bins)(const T *g, const int32_t *order, const T *values, const int32_t *ends, int64_t bins,
                               T *out, const int vectors, const int is_steps) {
    const int64_t columns = vectors * N(long_lanes);
    int64_t i = 0;
    for (int64_t k = 0; k < bins; k++, out += 2 * columns) {
        N(long_vector) sums[N(most_vectors)], products[N(most_vectors)];
        memset(sums, 0, sizeof sums);
        memset(products, 0, sizeof products);
        for (; i < ends[k]; i++) {
            const T *row = g + order[i] * columns, value = values[i];
            for (int v = 0; v < vectors; v++) {
                const N(long_vector) x = N(load_long)(row + v * N(long_lanes));
                products[v] = N(long_sum_with)(value, x, products[v]);
                if (is_steps)
                    sums[v] += x;
            }
        }
        for (int v = 0; v < vectors; v++) {
            N(store_long)(out + v * N(long_lanes), sums[v]);
            N(store_long)(out + columns + v * N(long_lanes), products[v]);
        }
    }
}

/* Write the sums of a tile of gradients times the values of some columns that are no bins. */
static inline void N(sum_columns)(const struct coded *c, const T *g, const T *codes, T *out, int64_t width,
                                  const int vectors, const int n_columns) {
    N(long_vector) sums[N(rows)][N(most_vectors)];
    memset(sums, 0, sizeof sums);
    for (int64_t i = 0; i < c->rows; i++, codes += 2 * c->n_blocks, g += vectors * N(long_lanes))
        for (int v = 0; v < vectors; v++) {
            const N(long_vector) x = N(load_long)(g + v * N(long_lanes));
            for (int k = 0; k < n_columns; k++)
                sums[k][v] = N(long_sum_with)(codes[2 * k + 1], x, sums[k][v]);
        }
    for (int k = 0; k < n_columns; k++)
        N(store_row)(out + k * c->width, width, sums[k], vectors);
}

/* Write the gradients of the weights of a block from the sums of its bins. */
static inline void N(write_bins)(const struct coded *c, const T *sums, int64_t bins, int is_steps, T *out,
                                 int64_t width, const int vectors) {
    N(long_vector) around[N(most_vectors)], row[N(most_vectors)];
    const int64_t columns = vectors * N(long_lanes);
    memset(around, 0, sizeof around);
    for (int64_t i = 0; is_steps && i < bins; i++)
        for (int v = 0; v < vectors; v++)
            around[v] += N(load_long)(sums + 2 * i * columns + v * N(long_lanes)) * (T)0.5;
    for (int64_t i = 0; i < bins; i++, sums += 2 * columns) {
        for (int v = 0; v < vectors; v++) {
            row[v] = N(load_long)(sums + columns + v * N(long_lanes));
            if (is_steps) {
                const N(long_vector) own = N(load_long)(sums + v * N(long_lanes));
                row[v] += around[v] - own * (T)0.5;
                around[v] -= own;
            }
        }
        N(store_row)(out + i * c->width, width, row, vectors);
    }
}

static inline void N(coded_gradient_tile)(const struct coded *c, int64_t first, int64_t width, const int vectors) {
    const int64_t *blocks = at(c->blocks), columns = vectors * N(long_lanes);
    const T *codes = at(c->codes), *values = at(c->values);
    const int32_t *order = at(c->order), *ends = at(c->ends);
    T *g = at(c->room), *sums = g + c->rows * columns, *out = (T *)at(c->out) + first;
    N(pack)((const T *)at(c->given) + first, c->rows, c->width, width, g, vectors);
    for (int64_t k = 0, n; k < c->n_blocks; k += n, blocks += 2 * n, codes += 2 * n) {
        const int64_t bins = blocks[0], is_steps = blocks[1];
        n = 1;
        if (singles(blocks, c->n_blocks - k) >= N(rows)) {
            N(sum_columns)(c, g, codes, out, width, vectors, N(rows));
            n = N(rows);
        } else if (bins == 1) {
            N(sum_columns)(c, g, codes, out, width, vectors, 1);
        } else {
            if (is_steps)
                N(sum_bins)(g, order, values, ends, bins, sums, vectors, 1);
            else
                N(sum_bins)(g, order, values, ends, bins, sums, vectors, 0);
            N(write_bins)(c, sums, bins, is_steps != 0, out, width, vectors);
            order += c->rows, values += c->rows, ends += bins;
        }
        out += n * bins * c->width; /* of several, each has one */
    }
}

/* Write the gradients of a column of weights: `room` has the sums of each bin. */
static void N(coded_gradient_column)(const struct coded *c) {
    const int64_t *blocks = at(c->blocks);
    const T *codes = at(c->codes), *given = at(c->given);
    T *room = at(c->room), *out = at(c->out);
    int64_t columns = 0;
    for (int64_t k = 0; k < c->n_blocks; k++)
        columns += blocks[2 * k];
    memset(room, 0, (size_t)(2 * columns) * sizeof(T));
    for (int64_t i = 0; i < c->rows; i++, codes += 2 * c->n_blocks) {
        const T g = given[i];
        T *sums = room;
        for (int64_t k = 0; k < c->n_blocks; k++) {
            T *own = sums + 2 * (int32_t)codes[2 * k];
            own[0] += g;
            own[1] = N(sum_with)(codes[2 * k + 1], g, own[1]);
            sums += 2 * blocks[2 * k];
        }
    }
    for (int64_t k = 0; k < c->n_blocks; k++) {
        const int64_t bins = blocks[2 * k], is_steps = blocks[2 * k + 1];
        T around = 0;
        for (int64_t i = 0; i < bins; i++)
            around += room[2 * i] * (T)0.5;
        for (int64_t i = 0; i < bins; i++, room += 2) {
            *out++ = is_steps ? room[1] + (around - room[0] * (T)0.5) : room[1];
            around -= room[0];
        }
    }
}

static void N(coded_gradient)(const struct coded *c) {
    const int64_t *blocks = at(c->blocks);
    int32_t *order = at(c->order), *ends = at(c->ends);
    T *values = at(c->values);
    int64_t first = 0;
    if (c->width == 1) {
        N(coded_gradient_column)(c);
        return;
    }
    for (int64_t k = 0; k < c->n_blocks; k++, blocks += 2)
        if (blocks[0] > 1) {
            N(sort_rows)(c, (const T *)at(c->codes) + 2 * k, blocks[0], order, values, ends);
            order += c->rows, values += c->rows, ends += blocks[0];
        }
    for (; first + N(most_columns) <= c->width; first += N(most_columns))
        N(coded_gradient_tile)(c, first, N(most_columns), N(most_vectors));
    for (; first < c->width; first += N(long_lanes))
        N(coded_gradient_tile)(c, first, least(N(long_lanes), c->width - first), 1);
}
