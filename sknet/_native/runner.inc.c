/* Carries out instructions: many training steps in one call. */

/* A product and a sum, rounded once as in BLAS. */
static inline float fused_float(float a, float b, float c) { return fmaf(a, b, c); }
static inline double fused_double(double a, double b, double c) { return fma(a, b, c); }

static inline void write_roots_double(const double *x, double *out, int64_t n) {
    INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        out[i] = sqrt(x[i]);
}

/* Square roots leave less time for quotients than sums and products do, which give the same numbers: a step from an
 * estimate, and a correction by what is left. That is exact where nothing is too small or too large for it. */
static inline void write_roots_float(const float *x, float *out, int64_t n) {
    int64_t i = 0;
#if defined(FUSES) && defined(LONG_BYTES)
    const __m512 half = _mm512_set1_ps(0.5f), lowest = _mm512_set1_ps(0x1p-70f), highest = _mm512_set1_ps(0x1p70f);
    for (; i + 16 <= n; i += 16) {
        const __m512 given = _mm512_loadu_ps(x + i), start = _mm512_rsqrt14_ps(given);
        __m512 root = _mm512_mul_ps(given, start), inverse = _mm512_mul_ps(start, half);
        const __m512 error = _mm512_fnmadd_ps(root, inverse, half);
        root = _mm512_fmadd_ps(root, error, root), inverse = _mm512_fmadd_ps(inverse, error, inverse);
        root = _mm512_fmadd_ps(_mm512_fnmadd_ps(root, root, given), inverse, root);
        const __mmask16 is_medium = _mm512_cmp_ps_mask(given, lowest, _CMP_GE_OQ) &
                                    _mm512_cmp_ps_mask(given, highest, _CMP_LE_OQ);
        if (is_medium != 0xFFFF)
            root = _mm512_sqrt_ps(given);
        _mm512_storeu_ps(out + i, root);
    }
#endif
    INDEPENDENT
    for (int64_t j = i; j < n; j++)
        out[j] = sqrtf(x[j]);
}

#define T float
#define W uint32_t
#include "reals.inc.c"
#undef T
#undef W
#define T double
#define W uint64_t
#include "reals.inc.c"
#undef T
#undef W

#include "draws.inc.c"

typedef void (*blas_function)(void *, void *, void *, void *, void *, void *);
typedef int64_t (*host_function)(int64_t);

static void call_blas(int64_t function, const int64_t *given) {
    ((blas_function)at(function))(at(given[0]), at(given[1]), at(given[2]), at(given[3]), at(given[4]), at(given[5]));
}

static void call_loops(const int64_t *one) {
    for (int64_t outer = 0; outer < one[25]; outer++) {
        int64_t places[4], given[4];
        for (int i = 0; i < 4; i++)
            places[i] = one[3 + i] + outer * one[26 + i];
        for (int64_t inner = 0; inner < one[7]; inner++) {
            memcpy(given, places, sizeof given);
            call_loop(one[1], given, one + 12, one + 16, one[2]);
            for (int i = 0; i < 4; i++)
                places[i] += one[8 + i];
        }
    }
}

/* Make a product, or call BLAS for it. */
static void make_product(const int64_t *one) {
    if (one[6] == OWN_SUMS)
        product_float(one + 3, one + 13, one + 19);
    else
        call_loops(one);
}

/* Divide a product along an axis: that of the batch, of rows of the first operand, or of columns of the second. */
static void share_of_product(const int64_t *one, int64_t share) {
    const int64_t axis = one[30], length = one[12 + axis], grain = axis == 0 ? 1 : axis == 1 ? 4 : 16;
    const int64_t count = length / grain, first = count * share / one[31] * grain;
    const int64_t end = share + 1 == one[31] ? length : count * (share + 1) / one[31] * grain;
    int64_t part[WIDTH];
    memcpy(part, one, sizeof part);
    part[12 + axis] = end - first;
    if (axis != 3)
        part[3] += first * one[axis == 0 ? 16 : 19];
    if (axis != 1)
        part[4] += first * one[axis == 0 ? 17 : 22];
    part[5] += first * one[axis == 0 ? 18 : axis == 1 ? 23 : 24];
    make_product(part);
}

static void add_multiple(const int64_t *one) {
    const int is_zero = one[1] == 4 ? add_zero_times_float(one[4], one[5], one[7], one[9])
                                    : add_zero_times_double(one[4], one[5], one[7], one[9]);
    if (!is_zero)
        call_blas(one[2], one + 3);
}

static void add_at_rows(const int64_t *one) {
    if (one[1] == 4)
        add_at_rows_float(one[2], one[3], one[4], one[5], one[6]);
    else
        add_at_rows_double(one[2], one[3], one[4], one[5], one[6]);
}

static void add_row_relu(const int64_t *one, int64_t start, int64_t count) {
    if (one[1] == 4)
        add_row_relu_float(one, start, count);
    else
        add_row_relu_double(one, start, count);
}

static int is_finite(const int64_t *one) {
    return one[1] == 4 ? is_finite_float(one[2], one[3], one[4]) : is_finite_double(one[2], one[3], one[4]);
}

enum { AT_ONCE = 128 };

/* Copy rows as deviations from means, in double precision; return 0 if a number is not finite. */
static int standardize(const int64_t *one) {
    const struct move m = moved(one, 0);
    const struct units *units = at(one[14]);
    const double *mean = at(units->mean), *scale = at(units->scale);
    double x[AT_ONCE];
    for (int64_t i = 0; i < m.n0; i++)
        for (int64_t j = 0; j < m.n1; j += AT_ONCE) {
            const int64_t n = least(AT_ONCE, m.n1 - j), out = m.target + i * m.t0 + j * m.t1;
            const struct move part = {m.source + i * m.s0 + j * m.s1, 0, m.s1, 0, (int64_t)(intptr_t)x, 0, sizeof *x,
                                      1, n};
            if (one[1] > 0)
                copy_uint64_t(&part);
            else
                conversions[-1 - one[1]](&part);
            if (!(m.t1 == 4 ? standardize_float(x, mean + j, scale + j, units->limit, at(out), n)
                            : standardize_double(x, mean + j, scale + j, units->limit, at(out), n)))
                return 0;
        }
    return 1;
}

static int coded(const int64_t *one) {
    struct coded found;
    memcpy(&found, one + 1, sizeof found);
    if (!are_codes_float(&found))
        return 0;
    if (one[0] == PAIRED)
        paired_product_float(&found);
    else if (found.order)
        coded_gradient_float(&found);
    else
        coded_product_float(&found);
    return 1;
}

#include "chains.inc.c"
#include "jobs.inc.c"

/* Make a product in its shares, or in as many as there are threads if their number does not change its bits. */
static void product(const int64_t *one) {
    const int64_t steps[3] = {0, 0, 0};
    int64_t weight = one[7] * one[25], given[WIDTH];
    for (int i = 0; i < 4; i++)
        weight *= one[12 + i];
    memcpy(given, one, sizeof given);
    if (one[6])
        given[31] = least(one[31], most(1, threads_of(&sknet_crew)));
    share_out(SHARE_OF_PRODUCT, (int64_t)(intptr_t)given, given[31], steps, weight, INT32_MAX);
}

/* Call Python, whose numbers are not flushed; return 0 if that ends the run. */
static int call_host(const int64_t *one) {
    const int64_t before = modes();
    set_modes(before & ~(int64_t)FLUSH);
    const int64_t found = ((host_function)at(one[1]))(one[2]);
    set_modes(before);
    return found == 0;
}

/* Carry out one instruction in a step of a turn; return 0 if that ends the run. */
static int carry_out(const int64_t *one, int64_t step, int64_t counter) {
    switch ((enum kind)one[0]) {
    case LOOP: call_loops(one); return 1;
    case BLAS: call_blas(one[1], one + 2); return 1;
    case SPREAD: one[1] == 4 ? spread_float(one) : spread_double(one); return 1;
    case COPY:
    case CONVERT: move_part(one, step, 0, one[9] * one[10]); return 1;
    case MASK: mask(one); return 1;
    case REPLACE: replace(one); return 1;
    case FILL: fill(one); return 1;
    case PUT: put(one); return 1;
    case ADD_ROWS: add_at_rows(one); return 1;
    case ADD_MULTIPLE: add_multiple(one); return 1;
    case BOUNDS: return are_below(one);
    case TABLE: return look_up(one[2], one[3], one[4], one[5], one[6]);
    case HOST: return call_host(one);
    case FINITE: return is_finite(one);
    case COUNTER: *(int64_t *)at(one[2]) = counter + step; return 1;
    case NOTHING: return 1;
    case ADD_ROW_RELU: add_row_relu(one, 0, one[5] * one[6]); return 1;
    case MASK_POSITIVE: mask_positive_part(one, 0, one[6]); return 1;
    case DROPOUT: drop(one, 0, one[3]); return 1;
    case CHAIN: chain(one, 0, one[2]); return 1;
    case MOMENTS:
    case SQUARES:
    case QUOTIENTS: update_part(one, 0, one[2]); return 1;
    case STANDARDIZE: return standardize(one);
    case CODED:
    case PAIRED: return coded(one);
    case PRODUCT: product(one); return 1;
    }
    return 0;
}

/* Tell whether numbers are flushed in a turn: unless an update divides by what may be flushed, and nothing more. */
static int may_flush(const struct turn *turn) {
    const int64_t *end = (const int64_t *)at(turn->program) + turn->length * WIDTH;
    for (const int64_t *one = at(turn->program); turn->flushes && one < end; one += WIDTH) {
        if (one[0] != QUOTIENTS)
            continue;
        const double more = !one[5] ? 0 : one[1] == 4 ? *(const float *)at(one[5]) : *(const double *)at(one[5]);
        if (!(more > (one[1] == 4 ? 1e-12 : 1e-140)))
            return 0;
    }
    return turn->flushes != 0;
}

/* Return how many steps of a turn were done, up to the first that fails. */
static int64_t turned(const struct turn *turn) {
    const int64_t *program = at(turn->program);
    for (int64_t step = 0; step < turn->count; step++)
        for (int64_t i = 0; i < turn->length; i++) {
            const int64_t *one = program + i * WIDTH;
            if (!(turn->shared && in_pieces(one, step)) && !carry_out(one, step, turn->counter))
                return step;
            i += one[0] == CHAIN ? one[1] : 0;
        }
    return turn->count;
}

static int64_t steps(int64_t turns, int64_t count) {
    const struct turn *turn = at(turns);
    int64_t done = 0;
    for (int64_t i = 0; i < count; i++, turn++) {
        const int64_t before = modes();
        set_modes(may_flush(turn) ? before | FLUSH : before);
        const int64_t reached = turned(turn);
        set_modes(before);
        done += reached;
        if (reached < turn->count)
            break;
    }
    return done;
}
