/* The complementary error function in single precision, with the bits of NumPy's calls. */

static void raise_e(struct error_function *call, float *x, int64_t n) {
    call->source = call->target = (int64_t)(intptr_t)x;
    call->count = n;
    call_loop(call->exp, &call->source, &call->count, &call->step, call->exp_data);
}

/* Return the polynomial at t, in the order in which NumPy's calls compute it. */
static inline float erfc_polynomial(float t) {
    static const float c[] = {
        -5.81472641e-05f, -5.39254263e-04f, -7.09947580e-04f, 3.05637542e-03f, 6.42752642e-03f,
        -2.15080651e-02f, -3.64345106e-02f, 2.79472142e-01f, -6.87160999e-01f, 1.02158270e00f,
    };
    const int n = sizeof c / sizeof c[0];
    float total = t * c[0];
    for (int i = 1; i < n - 1; i++)
        total = (total + c[i]) * t;
    return total + c[n - 1];
}

static void erfc_of(struct error_function *call, const float *x, float *out, int64_t n) {
    float *a = at(call->rooms), *h = a + call->chunk, *rest = h + call->chunk;
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        const float size = fabsf(x[i]);
        a[i] = size > 11 ? 11 : size;
    }
    for (int64_t i = 0; i < n; i++) {
        int32_t bits;
        memcpy(&bits, a + i, sizeof bits);
        bits &= -4096;
        memcpy(h + i, &bits, sizeof bits);
    }
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        rest[i] = (h[i] - a[i]) * (h[i] + a[i]);
        h[i] = -(h[i] * h[i]);
    }
    raise_e(call, rest, n);
    raise_e(call, h, n);
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        const float r = 1 / (a[i] + 2), t = r * -4 + 1;
        const float found = (erfc_polynomial(t) * r) * (h[i] * rest[i]);
        out[i] = fabsf((x[i] < 0 ? 2.0f : 0.0f) - found);
    }
}

static void erfc_in_chunks(struct error_function *call) {
    for (int64_t start = 0; start < call->length; start += call->chunk) {
        const int64_t n = least(call->chunk, call->length - start);
        erfc_of(call, (const float *)at(call->x) + start, (float *)at(call->out) + start, n);
    }
}
