/* Random numbers: Philox4x64-10 with the counter (block, 0, site, step), as numpy.random.Philox counts. */

/* Return the upper half of a product, and write the lower one. */
static inline uint64_t halves(uint64_t a, uint64_t b, uint64_t *low) {
#ifdef __SIZEOF_INT128__
    const unsigned __int128 product = (unsigned __int128)a * b;
    *low = (uint64_t)product;
    return (uint64_t)(product >> 64);
#else
    const uint64_t part = 0xFFFFFFFF, a0 = a & part, a1 = a >> 32, b0 = b & part, b1 = b >> 32;
    const uint64_t middle = a1 * b0 + ((a0 * b0) >> 32), carry = (middle & part) + a0 * b1;
    *low = a * b;
    return a1 * b1 + (middle >> 32) + (carry >> 32);
#endif
}

static inline void philox(uint64_t x[4], uint64_t key0, uint64_t key1) {
    const uint64_t m0 = 0xD2E7470EE14C6C93, m1 = 0xCA5A826395121157;
    for (int round = 0; round < 10; round++) {
        uint64_t low1, low3;
        const uint64_t y0 = halves(m1, x[2], &low1) ^ x[1] ^ key0, y2 = halves(m0, x[0], &low3) ^ x[3] ^ key1;
        x[0] = y0, x[1] = low1, x[2] = y2, x[3] = low3;
        key0 += 0x9E3779B97F4A7C15, key1 += 0xBB67AE8584CAA73B;
    }
}

/* Draw 16 bits for each element, from one on that is a multiple of 16. */
static void draw(const int64_t *one, int64_t from, int64_t count, uint16_t *out) {
    const uint64_t counter = (uint64_t) * (const int64_t *)at(one[7]);
    for (int64_t i = 0; i < count; i += 16) {
        uint64_t x[4] = {(uint64_t)(from + i) / 16 + 1, 0, (uint64_t)one[6], counter};
        philox(x, (uint64_t)one[4], (uint64_t)one[5]);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        memcpy(out + i, x, sizeof x);
#else
        for (int k = 0; k < 16; k++)
            out[i + k] = (uint16_t)(x[k / 4] >> 16 * (k % 4));
#endif
    }
}

/* Write a number where draws are at least a limit, and zeros elsewhere, from an element on that is a multiple of 16. */
static void drop(const int64_t *one, int64_t from, int64_t count) {
    enum { DRAWN = 256 };
    uint16_t drawn[DRAWN];
    const int32_t limit = (int32_t)one[8];
    for (int64_t start = from, n; start < from + count; start += n) {
        n = least(DRAWN, from + count - start);
        draw(one, start, n, drawn);
        if (one[1] == 4)
            keep_float(drawn, limit, at(one[9]), (float *)at(one[2]) + start, n);
        else
            keep_double(drawn, limit, at(one[9]), (double *)at(one[2]) + start, n);
    }
}
