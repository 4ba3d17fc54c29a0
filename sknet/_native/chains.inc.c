/* Chains: elementwise instructions that are carried out for some elements, which stay in the nearest cache, before
 * the next. */

static void loop_part(const int64_t *one, int64_t start, int64_t n) {
    int64_t given[4];
    for (int i = 0; i < 4; i++)
        given[i] = one[3 + i] + start * one[16 + i];
    call_loop(one[1], given, &n, one + 16, one[2]);
}

static void blas_part(int64_t function, const int64_t *given, int64_t size, int64_t start, int64_t n) {
    const int64_t x = given[2] + start * size, y = given[4] ? given[4] + start * size : 0;
    ((blas_function)at(function))(&n, at(given[1]), at(x), at(given[3]), at(y), at(given[5]));
}

static void add_multiple_part(const int64_t *one, int64_t start, int64_t n) {
    const int64_t *given = one + 3, size = one[1], x = given[2] + start * size, y = given[4] + start * size;
    const int is_zero = size == 4 ? add_zero_times_float(given[1], x, y, n) : add_zero_times_double(given[1], x, y, n);
    if (!is_zero)
        blas_part(one[2], given, size, start, n);
}

static void mask_part(const int64_t *one, int64_t start, int64_t n) {
    const int64_t size = one[1];
    if (size == 4)
        mask_uint32_t(one[2] + start * size, one[3] + start, one[4] + start * size, n);
    else
        mask_uint64_t(one[2] + start * size, one[3] + start, one[4] + start * size, n);
}

static void mask_positive_part(const int64_t *one, int64_t start, int64_t n) {
    const int64_t size = one[1];
    const int64_t x = one[2] + start * size, given = one[3] + start * size, out = one[5] + start * size;
    uint8_t *keep = at(one[4] ? one[4] + start : 0);
    if (size == 4)
        mask_positive_float(at(x), at(given), keep, at(out), n);
    else
        mask_positive_double(at(x), at(given), keep, at(out), n);
}

static void update_part(const int64_t *one, int64_t start, int64_t n) {
    if (one[1] == 4)
        update_part_float(one, start, n);
    else
        update_part_double(one, start, n);
}

/* Carry out an instruction for some elements from one on. */
static void part(const int64_t *one, int64_t start, int64_t n) {
    switch ((enum kind)one[0]) {
    case LOOP: loop_part(one, start, n); break;
    case BLAS: blas_part(one[1], one + 2, one[9], start, n); break;
    case ADD_MULTIPLE: add_multiple_part(one, start, n); break;
    case MASK: mask_part(one, start, n); break;
    case MASK_POSITIVE: mask_positive_part(one, start, n); break;
    case MOMENTS:
    case SQUARES:
    case QUOTIENTS: update_part(one, start, n); break;
    default: break; /* in no chain */
    }
}

static void chain(const int64_t *one, int64_t from, int64_t count) {
    const int64_t end = from + count;
    for (int64_t start = from; start < end; start += one[3])
        for (int64_t i = 1; i <= one[1]; i++)
            part(one + i * WIDTH, start, least(one[3], end - start));
}

/* -- instructions in pieces, which threads share that happen to be awake ------------------------------------ */

enum { PIECES = 4, UNIT = 1 << 10, LONG = 1 << 15 }; /* elements: pieces are multiples, and of how many there are any */

/* Return the elements of an instruction that may be carried out in pieces; 0 for others. */
static int64_t length_of(const int64_t *one) {
    switch ((enum kind)one[0]) {
    case CHAIN:
    case MOMENTS:
    case SQUARES:
    case QUOTIENTS: return one[2];
    case LOOP: return one[30] ? one[12] : 0;
    case MASK: return one[5];
    case MASK_POSITIVE: return one[6];
    case ADD_ROW_RELU: return one[5] * one[6];
    case DROPOUT: return one[3];
    case COPY:
    case CONVERT: return one[9] * one[10];
    default: return 0;
    }
}

static void carry_piece(const struct piece *piece) {
    const int64_t *one = at(piece->one), start = piece->start, count = piece->count;
    switch ((enum kind)one[0]) {
    case CHAIN: chain(one, start, count); break;
    case DROPOUT: drop(one, start, count); break;
    case ADD_ROW_RELU: add_row_relu(one, start, count); break;
    case COPY:
    case CONVERT: move_part(one, piece->step, start, count); break;
    default: part(one, start, count);
    }
}
