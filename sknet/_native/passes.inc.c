/* Passes over arrays where NumPy makes many, with the bits of its calls. */

static int64_t pass_of_double(int64_t place, int64_t work) {
    switch ((enum work)work) {
    case CONVOLVED: convolved_double(at(place)); break;
    case WEIGHT: weight_double(at(place)); break;
    case LSTM_FORWARD: lstm_forward_double(at(place)); break;
    case LSTM_BACKWARD: lstm_backward_double(at(place)); break;
    case LSTM_STEPS: lstm_steps_double(at(place)); break;
    case LSTM_BACK_STEPS: lstm_back_steps_double(at(place)); break;
    case BY_TILES: share_double(at(place)); break;
    case LARGEST: largest_double(at(place)); break;
    case PUT_LARGEST: put_largest_double(at(place)); break;
    case RIGHT: return count_right_double(at(place));
    default: return 1;
    }
    return 0;
}

static int64_t pass_of_float(int64_t place, int64_t work) {
    switch ((enum work)work) {
    case CONVOLVED: convolved_float(at(place)); break;
    case WEIGHT: weight_float(at(place)); break;
    case ERFC: erfc_in_chunks(at(place)); break;
    case LSTM_FORWARD: lstm_forward_float(at(place)); break;
    case LSTM_BACKWARD: lstm_backward_float(at(place)); break;
    case LSTM_STEPS: lstm_steps_float(at(place)); break;
    case LSTM_BACK_STEPS: lstm_back_steps_float(at(place)); break;
    case BY_TILES: share_float(at(place)); break;
    case LARGEST: largest_float(at(place)); break;
    case PUT_LARGEST: put_largest_float(at(place)); break;
    case RIGHT: return count_right_float(at(place));
    case NORM: norm(at(place)); break;
    case NORM_GRADIENT: norm_gradient(at(place)); break;
    case SUMS_OF_ROWS: sums_of_rows(at(place)); break;
    case SCALED_ROWS: scaled_rows(at(place)); break;
    default: return 1;
    }
    return 0;
}

/* Do a work; `size` is that of an element. */
static int64_t pass(int64_t place, int64_t size, int64_t work) {
    if (work == PIECE)
        return carry_piece(at(place)), 0;
    return size == 4 ? pass_of_float(place, work) : pass_of_double(place, work);
}
