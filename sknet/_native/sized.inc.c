/* Moves of elements of type T, whatever they mean. */

static void N(copy)(const struct move *m) {
    const int64_t *rows = at(m->rows), size = sizeof(T);
    for (int64_t i = 0; i < m->n0; i++) {
        int64_t x = m->source + (rows ? rows[i] : i) * m->s0, y = m->target + i * m->t0;
        if (rows && m->s1 == size && i + AHEAD < m->n0)
            fetch(m->source + rows[i + AHEAD] * m->s0, m->n1 * size);
        if (m->s1 == size && m->t1 == size) {
            memmove(at(y), at(x), (size_t)(m->n1 * size));
            continue;
        }
        for (int64_t j = 0; j < m->n1; j++)
            *(T *)at(y + j * m->t1) = *(const T *)at(x + j * m->s1);
    }
}

static void N(fill)(int64_t target, int64_t bits, int64_t count) {
    T *out = at(target), value = (T)bits;
    for (int64_t i = 0; i < count; i++)
        out[i] = value;
}

static int N(are_below)(int64_t indices, int64_t count, int64_t bound) {
    const T *given = at(indices);
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; i++)
        wrong += (uint64_t)given[i] >= (uint64_t)bound;
    return wrong == 0;
}
