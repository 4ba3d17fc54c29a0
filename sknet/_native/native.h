/* What all files share: kernels, the instructions and descriptions that they read, and a few helpers.
 *
 * Instructions and descriptions are arrays of int64: numbers, and addresses of arrays. They are not checked here:
 * whoever writes them has proved that they are right. */

#ifndef SKNET_NATIVE_H
#define SKNET_NATIVE_H

#if defined(_M_X64) || (defined(__x86_64__) && defined(__GNUC__))
#define SKNET_FLUSHES
#include <xmmintrin.h>
#endif
#include <math.h>
#include <stdint.h>
#include <string.h>

_Static_assert(sizeof(void *) == sizeof(int64_t), "instructions hold addresses as int64");

/* Iterations of the loop below may be done in any order: no array begins within another. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define INDEPENDENT _Pragma("GCC ivdep")
#elif defined(_MSC_VER)
#define INDEPENDENT __pragma(loop(ivdep))
#else
#define INDEPENDENT
#endif

/* Compilers that know the levels of x86-64 by name, whose kernels are in files of their own. */
#if defined(__x86_64__) && !defined(_MSC_VER) && (defined(__clang__) ? __clang_major__ >= 16 : __GNUC__ >= 12)
#define SKNET_HAS_LEVELS
#include <immintrin.h>
#endif

#define JOINED_(name, type) name##_##type
#define JOINED(name, type) JOINED_(name, type)
#define N(name) JOINED(name, T) /* of a function for elements of type T */

/* Kernels, compiled for a set of instructions. */
struct kernels {
    const char *name;
    int64_t (*steps)(int64_t turns, int64_t count);
    int64_t (*rows)(int64_t table, int64_t count, int64_t chosen, int64_t places, int64_t out, int64_t room);
    int64_t (*pass)(int64_t place, int64_t size, int64_t work);
    void (*serve)(int64_t thread);
    void (*share_out)(int64_t work, int64_t fields, int64_t count, const int64_t *steps, int64_t weight,
                      int64_t threads);
};

extern const struct kernels sknet_baseline, sknet_v2, sknet_v3, sknet_v4;

/* -- training steps: see `Kind` in sknet/compile/native/_instructions.py ----------------------- */

enum { LAYOUT = 10, WIDTH = 32 }; /* version of what follows, and numbers of an instruction */

enum kind {
    LOOP, BLAS, SPREAD, COPY, CONVERT, MASK, REPLACE, FILL, PUT, ADD_ROWS, ADD_MULTIPLE, BOUNDS, TABLE, HOST,
    FINITE, COUNTER, NOTHING, ADD_ROW_RELU, MASK_POSITIVE, DROPOUT, CHAIN, MOMENTS, SQUARES, QUOTIENTS,
    STANDARDIZE, CODED, PRODUCT, PAIRED,
};

/* Products that have the same bits in any shares, and those that have them, too, where BLAS does not make them. */
enum { ANY_SHARES = 1, OWN_SUMS };

enum spread { ADD_ROW, SUBTRACT_COLUMN, MULTIPLY_COLUMN, DIVIDE_COLUMN };

/* Instructions and their number, how often they are carried out, and the number of the first step.
 *
 * shared: whether threads may share long instructions. flushes: whether numbers below the least normal one may be 0. */
struct turn {
    int64_t program, length, count, counter, shared, flushes;
};

/* Rows of elements that are copied or converted: `rows` are their numbers in the source, 0 for all. */
struct move {
    int64_t source, s0, s1, rows, target, t0, t1, n0, n1;
};

/* Means and deviations of columns, and how many deviations from the mean numbers are at most. */
struct units {
    int64_t mean, scale;
    double limit;
};

/* A product of rows that are given by codes and a matrix `given`, or of the transposed rows, if there is an `order`.
 *
 * codes: two numbers for each block of a row, the bin and the value. blocks: for each the number of its bins, and
 * whether they are steps. width: columns of the matrix. most_bins: of a block. room: for tiles. order, values, ends:
 * room to sort the rows by the bins of each block. Of paired weights `given` has two rows for each bin of
 * steps. */
struct coded {
    int64_t codes, rows, blocks, n_blocks, most_bins, given, out, width, room, order, values, ends;
};

/* -- rows of tables: see `Field` and `Codes` in sknet/compile/native/_instructions.py -------------- */

/* step: elements of a number, 2 where rows are given by codes. steps: for each of `n_steps` how many bins it has. */
struct table {
    int64_t numbers, stride, n_numbers, centers, n_values, kept, middles, scales, is_phase, n_bins, bin_numbers,
        low, inverse, smallest, largest, n_flags, flags, n_columns, columns, width, step, n_steps, steps;
};

/* A column of levels: addresses of values, their number in a row, and three numbers of the codes. */
struct column {
    int64_t codes, values, width, place, step, number;
};

enum codes { OF_TABLE, OF_CHOSEN, OF_NUMBER };

/* -- passes over arrays: see sknet/compile/native/_instructions.py -------------------------------------- */

enum work {
    CONVOLVED, WEIGHT, ERFC, LSTM_FORWARD, LSTM_BACKWARD, NORM, NORM_GRADIENT, LSTM_STEPS, BY_TILES,
    SUMS_OF_ROWS, SCALED_ROWS, LSTM_BACK_STEPS, LARGEST, PUT_LARGEST, PIECE,
    SHARE_OF_PRODUCT, RIGHT,
};

/* Images and kernels that are convolved channel by channel.
 *
 * g: kernels, or images of the gradient. out: images, or sums for each channel, element of a kernel and place,
 * both contiguous. padded, spread: room for images with a row more, and for a place of every window; for the
 * gradient of kernels, eight of each. top, left, padded_rows, padded_columns: of the padded image, with the row
 * more. width: with how many columns windows are computed. bias: a number for each channel; 0 if there is none. */
struct planes {
    int64_t x, x_sample, x_channel, x_row, x_column, g, g_sample, g_channel, g_row, g_column, out, padded, spread,
        samples, channels, rows, columns, top, left, padded_rows, padded_columns, kernel_rows, kernel_columns,
        stride_rows, stride_columns, apart_rows, apart_columns, grid_rows, grid_columns, width, bias;
};

/* Windows that do not overlap on contiguous images, their largest elements `top`, and gradients g of these.
 *
 * out: the largest elements, or gradients of the images. tile: whether every element is in a window. */
struct pool {
    int64_t x, out, top, g, images, rows, columns, kernel_rows, kernel_columns, stride_rows, stride_columns, grid_rows,
        grid_columns, tile;
};

/* Outputs of the rows of some epochs, contiguous, with the class numbers of the rows, and how many of each epoch are
 * right: the class has the first of the largest outputs. */
struct scored {
    int64_t outputs, targets, counts, epochs, rows, classes;
};

/* The complementary error function: operand and result, three arrays of `chunk` elements, and NumPy's loop of exp.
 *
 * What comes after `exp_data` is what the loop is called with. */
struct error_function {
    int64_t x, out, length, rooms, chunk, exp, exp_data, source, target, count, step, other_step;
};

/* A step of an LSTM, or all: matrices with a row for each sample, contiguous unless noted.
 *
 * z, z_row: the input's share of the gates, and bytes between its rows; backwards, gradients of the outputs.
 * q, bias: the product with the hidden state, and the bias. cell, new_cell, hidden: states before and after;
 * backwards, `hidden` is the sum over the steps of the gradients of the gates. d_hidden, d_cell, d: gradients of
 * the states and of the gates. tanh and matmul: NumPy's loops, before what they are called with. steps, z_step,
 * kept, cells: number of steps, bytes between their inputs, and how many gates and cell states there are. before,
 * weights: hidden state before the first step, and recurrent weights. out: hidden states of all steps, or
 * gradients of their gates. */
struct gates {
    int64_t z, z_row, q, bias, gates, cell, new_cell, hidden, d_hidden, d_cell, d, room, rows, width, tanh, tanh_data,
        source, target, count, step, other_step, steps, z_step, kept, cells, before, weights, out, out_row, out_step,
        matmul, matmul_data, left, right, product, gates_step, cell_step, shape[4], strides[9];
};

/* A norm of rows of the same length, or of channels: matrices of single precision, contiguous.
 *
 * x, weight, bias, out: operand, factors and summands of a row, and the result. g: the gradient of a result, then
 * `out` is that of x; 0 if there is none. block: rows that are computed at a time. ones, numbers: as many ones as a
 * row has elements, and how many elements, and what is added to variances. products, centers, factors, sums: room
 * for the matrix of a block, and four columns, of which `sums` has two. weight_sums, bias_sums: a row for each
 * `group` rows, a multiple of `block`. apart: bytes between blocks of g; 0 if all are the same. For channels,
 * weight, bias, centers, factors, weight_sums and bias_sums have a number for each row. */
struct norm {
    int64_t x, weight, bias, out, g, rows, width, block, ones, numbers, products, centers, factors, sums, weight_sums,
        bias_sums, group, apart, matmul, matmul_data, first, second, third, outer, lines, length, one, strides[9];
};

/* Images and their tiles.
 *
 * tiles, step: the first of sixteen matrices of numbers of tiles, a row for each channel, and bytes to the next. What
 * vectors write beyond a row of tiles is overwritten by the next, and beyond a matrix lies between this one and the
 * next. room: for four planes of an image, and for what vectors read beyond them. tile_rows, tile_columns: tiles of
 * an image; a plane has a row and a column more. */
struct tile {
    int64_t x, x_sample, x_channel, x_row, x_column, tiles, step, room, bias, samples, channels, rows, columns, top,
        left, tile_rows, tile_columns;
};

/* Products of tiles: sums of those of all parts, 0 for convolutions; samples of a share, and at a time. */
struct product {
    int64_t matmul, matmul_data, left, right, out, shape[4], strides[9], sums, samples, part, groups, apart;
};

struct share {
    struct tile images, results;
    struct product product;
};

/* The work that threads share at a time, which they may read at any time, and the threads.
 *
 * open: how many shares nobody has taken yet, and, from bit 32 on, how many threads may take some. left: how many
 * are not done yet; in another line of the cache. work, fields, share, thread, size: what each share is given, see
 * `do_share`. modes: of the leader's processor. busy: whether a thread leads. threads: how many may share, with the
 * leader. started: how many others there are. skipped: small works that woke nobody. helped: shares that others did
 * since one was late. alone, lates: weight of works that are not shared, after threads were late, and how often.
 * looks: for how long a thread looks for more work. resting, calls: of each thread, whether it waits for a call, and
 * the lock that it waits for. nap: a lock that nobody opens. */
enum { MOST_HELPERS = 63 };

struct crew {
    int64_t open, unused[7], left, unused_too[7], work, fields, share, thread, size, modes, busy, threads, started,
        skipped, helped, alone, lates, looks, resting[MOST_HELPERS];
    void *calls[MOST_HELPERS], *nap;
};

extern struct crew sknet_crew;

/* Wait for a lock, for so many microseconds or until another thread opens it if they are negative; open it. */
void sknet_wait(void *lock, int64_t microseconds);
void sknet_wake(void *lock);

/* Some elements of an instruction, in a step of a turn. */
struct piece {
    int64_t one, start, count, step;
};

/* -- helpers ------------------------------------------------------------------------------------------------ */

static inline void *at(int64_t address) { return (void *)(intptr_t)address; }

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Modes of the processor. Numbers below the least normal one take an x86 a hundred times as long, unless they are
 * flushed to 0; other processors are as fast. */
#ifdef SKNET_FLUSHES
enum { FLUSH = 0x8040 };
static inline int64_t modes(void) { return _mm_getcsr(); }
static inline void set_modes(int64_t given) { _mm_setcsr((unsigned)given); }
#else
enum { FLUSH = 0 };
static inline int64_t modes(void) { return 0; }
static inline void set_modes(int64_t given) { (void)given; }
#endif

typedef void (*loop_function)(char **, const intptr_t *, const intptr_t *, void *);

/* Call an inner loop of one of NumPy's ufuncs, which moves on the addresses that it is given. */
static inline void call_loop(int64_t loop, void *arguments, const int64_t *lengths, const int64_t *strides,
                             int64_t data) {
    ((loop_function)at(loop))(arguments, (const intptr_t *)lengths, (const intptr_t *)strides, at(data));
}

#endif
