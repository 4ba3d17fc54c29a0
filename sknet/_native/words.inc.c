/* Masks and positions of elements of type T, as large as a number of single or double precision. */

static void N(put)(int64_t target, int64_t positions, int64_t values, int64_t count) {
    T *out = at(target);
    const T *given = at(values);
    const int64_t *where = at(positions);
    for (int64_t i = 0; i < count; i++)
        out[where[i]] = given[i];
}

static void N(mask)(int64_t source, int64_t mask, int64_t target, int64_t count) {
    T *out = at(target);
    const T *x = at(source);
    const uint8_t *keep = at(mask);
    INDEPENDENT
    for (int64_t i = 0; i < count; i++)
        out[i] = keep[i] ? x[i] : 0;
}

static void N(replace)(int64_t source, int64_t stride, int64_t mask, int64_t target, int64_t count) {
    T *out = at(target);
    const T *x = at(source), value = *x;
    const uint8_t *changed = at(mask);
    if (stride) {
        INDEPENDENT
        for (int64_t i = 0; i < count; i++)
            out[i] = changed[i] ? x[i] : out[i];
        return;
    }
    INDEPENDENT
    for (int64_t i = 0; i < count; i++)
        out[i] = changed[i] ? value : out[i];
}
