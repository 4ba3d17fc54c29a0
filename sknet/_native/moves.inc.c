/* Instructions that move elements, for every size and dtype. */

/* Rows in any order are asked for some rows before they are copied: processors do not foresee where they are. */
enum { AHEAD = 4, MOST_FETCHED = 1 << 10, LINE = 64 };

static inline void fetch(int64_t x, int64_t size) {
#if defined(__GNUC__)
    for (int64_t k = 0; k < least(size, MOST_FETCHED); k += LINE)
        __builtin_prefetch(at(x + k));
#else
    (void)x, (void)size;
#endif
}

#define T uint8_t
#include "sized.inc.c"
#undef T
#define T uint16_t
#include "sized.inc.c"
#undef T
#define T uint32_t
#include "sized.inc.c"
#include "words.inc.c"
#undef T
#define T uint64_t
#include "sized.inc.c"
#include "words.inc.c"
#undef T

#define G int8_t
#include "from.inc.c"
#define G uint8_t
#include "from.inc.c"
#define G int16_t
#include "from.inc.c"
#define G int32_t
#include "from.inc.c"
#define G int64_t
#include "from.inc.c"
#define IS_FLOAT
#define G float
#include "from.inc.c"
#undef IS_FLOAT
#define IS_DOUBLE
#define G double
#include "from.inc.c"
#undef IS_DOUBLE

/* In the order of `CONVERTED` in _instructions.py. */
static void (*const conversions[])(const struct move *) = {
    converted_int8_t_float, converted_int8_t_double, converted_uint8_t_float, converted_uint8_t_double,
    converted_int16_t_float, converted_int16_t_double, converted_int32_t_float, converted_int32_t_double,
    converted_int64_t_float, converted_int64_t_double, converted_float_double, converted_double_float,
};

static struct move moved(const int64_t *one, int64_t step) {
    struct move found;
    memcpy(&found, one + 2, sizeof found);
    found.rows += step * one[11];
    return found;
}

/* Copy or convert rows that begin among some elements, or some elements of the only row, in a step of a turn. */
static void move_part(const int64_t *one, int64_t step, int64_t start, int64_t count) {
    struct move m = moved(one, step);
    if (m.n0 == 1) {
        m.source += start * m.s1, m.target += start * m.t1, m.n1 = count;
    } else if (count < m.n0 * m.n1) {
        const int64_t first = (start + m.n1 - 1) / m.n1;
        m.n0 = (start + count + m.n1 - 1) / m.n1 - first;
        m.target += first * m.t0;
        if (m.rows)
            m.rows += first * (int64_t)sizeof(int64_t);
        else
            m.source += first * m.s0;
    }
    if (one[0] == CONVERT) {
        conversions[one[1]](&m);
        return;
    }
    m.source += step * one[12], m.target += step * one[13];
    switch (one[1]) {
    case 1: copy_uint8_t(&m); break;
    case 2: copy_uint16_t(&m); break;
    case 4: copy_uint32_t(&m); break;
    default: copy_uint64_t(&m);
    }
}

static void fill(const int64_t *one) {
    switch (one[1]) {
    case 1: fill_uint8_t(one[2], one[3], one[4]); break;
    case 2: fill_uint16_t(one[2], one[3], one[4]); break;
    case 4: fill_uint32_t(one[2], one[3], one[4]); break;
    default: fill_uint64_t(one[2], one[3], one[4]);
    }
}

static int are_below(const int64_t *one) {
    switch (one[1]) {
    case 1: return are_below_uint8_t(one[2], one[3], one[4]);
    case 2: return are_below_uint16_t(one[2], one[3], one[4]);
    case 4: return are_below_uint32_t(one[2], one[3], one[4]);
    default: return are_below_uint64_t(one[2], one[3], one[4]);
    }
}

static void mask(const int64_t *one) {
    if (one[1] == 4)
        mask_uint32_t(one[2], one[3], one[4], one[5]);
    else
        mask_uint64_t(one[2], one[3], one[4], one[5]);
}

static void replace(const int64_t *one) {
    if (one[1] == 4)
        replace_uint32_t(one[2], one[3], one[4], one[5], one[6]);
    else
        replace_uint64_t(one[2], one[3], one[4], one[5], one[6]);
}

static void put(const int64_t *one) {
    if (one[1] == 4)
        put_uint32_t(one[2], one[3], one[4], one[5]);
    else
        put_uint64_t(one[2], one[3], one[4], one[5]);
}

static int look_up(int64_t table, int64_t length, int64_t indices, int64_t target, int64_t count) {
    const int64_t *values = at(table), *given = at(indices);
    int64_t *out = at(target);
    for (int64_t i = 0; i < count; i++) {
        const int64_t index = given[i] < 0 ? given[i] + length : given[i];
        if (index < 0 || index >= length)
            return 0;
        out[i] = values[index];
    }
    return 1;
}
