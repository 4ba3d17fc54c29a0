/* Sums over samples of products of images and gradients, for kernels of three by three.
 *
 * Nine sums stay in registers while samples pass by. Each is rounded by itself, in the order of samples. */

static inline void N(nine_of)(const T *image, int64_t image_step, int64_t width, const T *slope, int64_t slope_step,
                              int64_t count, T *out, int64_t out_step, int goes_on) {
    N(vector) total[9];
    for (int k = 0; k < 9; k++)
        total[k] = goes_on ? N(load)(out + k * out_step)
                           : N(load)(image + k / 3 * width + k % 3) * N(load)(slope);
    for (int64_t i = !goes_on; i < count; i++) {
        const N(vector) g = N(load)(slope + i * slope_step);
        const T *x = image + i * image_step;
        for (int k = 0; k < 9; k++)
            total[k] += N(load)(x + k / 3 * width + k % 3) * g;
    }
    for (int k = 0; k < 9; k++)
        N(store)(out + k * out_step, total[k]);
}

static void N(nine_of_one)(const T *image, int64_t image_step, int64_t width, const T *slope, int64_t slope_step,
                           int64_t count, T *out, int64_t out_step, int goes_on) {
    for (int k = 0; k < 9; k++) {
        const T *x = image + k / 3 * width + k % 3;
        T total = goes_on ? out[k * out_step] : x[0] * slope[0];
        for (int64_t i = !goes_on; i < count; i++)
            total += x[i * image_step] * slope[i * slope_step];
        out[k * out_step] = total;
    }
}

static void N(add_nine)(const T *images, int64_t image_step, int64_t width, const T *slopes, int64_t places,
                        int64_t count, T *out, int goes_on) {
    int64_t q = 0;
    for (; q + N(lanes) <= places; q += N(lanes))
        N(nine_of)(images + q, image_step, width, slopes + q, places, count, out + q, places, goes_on);
    for (; q < places; q++)
        N(nine_of_one)(images + q, image_step, width, slopes + q, places, count, out + q, places, goes_on);
}
