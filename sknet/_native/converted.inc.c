/* Conversion of elements of type G to type T, as NumPy's. */

static void N(CONVERTED)(const struct move *m) {
    const int64_t *rows = at(m->rows), near = m->s1 == sizeof(G) && m->t1 == sizeof(T);
    for (int64_t i = 0; i < m->n0; i++) {
        int64_t x = m->source + (rows ? rows[i] : i) * m->s0, y = m->target + i * m->t0;
        if (near) {
            const G *given = at(x);
            T *out = at(y);
            INDEPENDENT
            for (int64_t j = 0; j < m->n1; j++)
                out[j] = (T)given[j];
            continue;
        }
        for (int64_t j = 0; j < m->n1; j++)
            *(T *)at(y + j * m->t1) = (T) * (const G *)at(x + j * m->s1);
    }
}
