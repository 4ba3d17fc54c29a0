/* Encodes rows of a table, with the bits of NumPy's operations. */

enum { FIRST_CODE = 2 }; /* the row of values for code 0 */

static int64_t value_code(const double *known, int64_t count, double value) {
    int64_t low = 0, high = count;
    while (low < high) {
        const int64_t middle = (low + high) >> 1;
        if (known[middle] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && known[low] == value ? low : -FIRST_CODE;
}

static void encode_values(const struct table *t, const double *filled, float *out) {
    const int64_t *kept = at(t->kept);
    const double *middles = at(t->middles), *scales = at(t->scales), huge = 1e150;
    const uint8_t *is_phase = at(t->is_phase);
    for (int64_t k = 0; k < t->n_values; k++) {
        double z = (filled[kept[k]] - middles[k]) / scales[k];
        z = z < -huge ? -huge : z;
        z = z > huge ? huge : z;
        const double third = z / 3.0, clipped = z / sqrt(1.0 + third * third);
        out[k * t->step] = (float)(is_phase[k] ? z : clipped);
    }
}

static void encode_bins(const struct table *t, const double *filled, float *out) {
    const int64_t *number = at(t->bin_numbers);
    const double *low = at(t->low), *inverse = at(t->inverse), *smallest = at(t->smallest), *largest = at(t->largest);
    INDEPENDENT
    for (int64_t j = 0; j < t->n_bins; j++) {
        double z = (filled[number[j]] - low[j]) * inverse[j];
        z = z < smallest[j] ? smallest[j] : z;
        z = z > largest[j] ? largest[j] : z;
        out[j] = (float)(z - 0.5);
    }
}

/* Write for each number the last bin that it is beyond the lower edge of, or the first, and the value in that bin. */
static void encode_steps(const struct table *t, const double *filled, float *out) {
    const int64_t *number = at(t->bin_numbers), *steps = at(t->steps);
    const double *low = at(t->low), *inverse = at(t->inverse), *smallest = at(t->smallest), *largest = at(t->largest);
    for (int64_t k = 0, first = 0; k < t->n_steps; first += steps[k++], out += 2) {
        const double x = filled[number[first]];
        int64_t bin = 0;
        for (int64_t j = 1; j < steps[k]; j++)
            bin += x > low[first + j];
        const int64_t j = first + bin;
        double z = (x - low[j]) * inverse[j];
        z = z < smallest[j] ? smallest[j] : z;
        z = z > largest[j] ? largest[j] : z;
        out[0] = (float)bin;
        out[1] = (float)(z - 0.5);
    }
}

static void encode_flags(const struct table *t, const double *numbers, float *out) {
    const int64_t *flags = at(t->flags);
    for (int64_t k = 0; k < t->n_flags; k++)
        out[k * t->step] = numbers[flags[k]] != numbers[flags[k]];
}

static void encode_levels(const struct table *t, const double *numbers, int64_t chosen, int64_t place, float *out) {
    const struct column *column = at(t->columns);
    for (int64_t k = 0; k < t->n_columns; k++, column++) {
        int64_t code;
        if (column->codes == OF_NUMBER)
            code = value_code(at(column->place), column->step, numbers[column->number]);
        else
            code = *(const int32_t *)at(column->place + (column->codes == OF_TABLE ? place : chosen) * column->step);
        const float *values = (const float *)at(column->values) + column->width * (code + FIRST_CODE);
        for (int64_t j = 0; j < column->width; j++)
            out[j] = values[j];
        out += column->width;
    }
}

static int64_t rows(int64_t table, int64_t count, int64_t chosen, int64_t places, int64_t target, int64_t room) {
    const struct table *t = at(table);
    const int64_t *picked = at(chosen), *place = at(places);
    const double *centers = at(t->centers);
    double *filled = at(room);
    for (int64_t i = 0; i < count; i++) {
        const double *numbers = at(t->numbers + place[i] * t->stride);
        float *out = (float *)at(target) + i * t->width;
        INDEPENDENT
        for (int64_t k = 0; k < t->n_numbers; k++)
            filled[k] = numbers[k] != numbers[k] ? centers[k] : numbers[k];
        if (t->step == 2) {
            memset(out, 0, (size_t)t->width * sizeof *out);
            encode_values(t, filled, out + 1);
            encode_steps(t, filled, out += 2 * t->n_values);
            encode_flags(t, numbers, (out += 2 * t->n_steps) + 1);
        } else {
            encode_values(t, filled, out);
            encode_bins(t, filled, out += t->n_values);
            encode_flags(t, numbers, out += t->n_bins);
        }
        encode_levels(t, numbers, picked[i], place[i], out + t->step * t->n_flags);
    }
    return count;
}
