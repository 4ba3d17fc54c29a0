/* Runs a kernel thread by thread; it is compiled together with sanitizers.c, which comes before it.

   Threads of a block that wait for each other are contexts of their own, and take turns: in every round, each
   thread that can go on runs until it waits or ends, in the order of threads or in reverse; so a kernel that
   lacks a barrier gives two different results. A context goes on from one launch to the next, and is entered and
   left by jumps, which take no call of the system. */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

enum { WARP = 32, MOST = 2048 };
enum state { READY, AT_BARRIER, AT_EXCHANGE, AT_CLUSTER, DONE };
enum outcome { RAN, WAITS_FOR_EVER, REPORTED, UNCHECKED };

struct size { unsigned x, y, z; };
struct kernel {
    void (*thread)(void **);
    unsigned waits, cluster; /* whether threads do, and the number of blocks that do */
    struct { struct size block, thread, threads, blocks; } *of_launch; /* blockIdx and so on */
    char *shared, *shared_end;
    struct globals globals; /* of its module, once they have been looked for */
};

static jmp_buf contexts[MOST], scheduler;
static unsigned char has_context[MOST];
static enum state states[MOST];
static double values[2][MOST];
static unsigned char turns[MOST];
static unsigned running, rank, base; /* the thread, its block in the cluster, and that one's first thread */
static char *stacks;
static struct kernel *body;
static void **given;

static void wait_as(enum state state)
{
    states[running] = state;
    if (!_setjmp(contexts[running]))
        _longjmp(scheduler, 1);
}

static void run_for_ever(void)
{
    for (;;) {
        body->thread(given);
        wait_as(DONE);
    }
}

/* Let the running thread go on until it waits or ends. */
static void go_on(void)
{
    ucontext_t first;
    if (_setjmp(scheduler))
        return;
    if (has_context[running])
        _longjmp(contexts[running], 1);
    has_context[running] = 1;
    getcontext(&first);
    first.uc_stack.ss_sp = stacks + (size_t)running * STACK;
    first.uc_stack.ss_size = STACK;
    makecontext(&first, run_for_ever, 0);
    setcontext(&first);
}

void wait_for_block(void) { wait_as(AT_BARRIER); }
void wait_for_cluster(void) { wait_as(AT_CLUSTER); }
unsigned rank_in_cluster(void) { return rank; }

/* Return where a block of the cluster has what is at an address in the shared memory of the running one. */
void *shared_by(const void *at, unsigned block)
{
    const size_t size = body->shared_end - body->shared;
    return block == rank ? (void *)at : copies + block * size + ((const char *)at - body->shared);
}

/* Let another block of the cluster be the running one. */
static void turn_to(unsigned block, unsigned count)
{
    const size_t size = body->shared_end - body->shared;
    if (body->cluster > 1) {
        memcpy(copies + rank * size, body->shared, size);
        memcpy(body->shared, copies + block * size, size);
    }
    body->of_launch->block.x += block - rank;
    rank = block;
    base = block * count;
}

/* Put the value of another lane of the warp in place of this one's. The values of two exchanges are kept
   apart: a lane may be at the next one before the others have read this one's. */
void exchange(void *value, size_t size, unsigned from)
{
    const unsigned me = running, turn = turns[me] ^= 1;
    memcpy(&values[turn][me], value, size);
    wait_as(AT_EXCHANGE);
    memcpy(value, &values[turn][base + from], size);
}

static int all_at(enum state state, unsigned from, unsigned to)
{
    int found = 0;
    for (unsigned n = from; n < to; n++) {
        if (states[n] != state && !(state == AT_BARRIER && states[n] == DONE))
            return 0;
        found |= states[n] == state;
    }
    return found;
}

static int released(enum state state, unsigned from, unsigned to)
{
    if (!all_at(state, from, to))
        return 0;
    for (unsigned n = from; n < to; n++)
        if (states[n] == state)
            states[n] = READY;
    return 1;
}

/* Run the threads of the running block until all have ended, or wait for other blocks; tell whether some ran. */
static int run_until_all_wait(unsigned count, int backwards)
{
    for (int has_run = 0;; has_run = 1) {
        int is_ready = 0;
        for (unsigned k = 0; k < count; k++) {
            running = base + (backwards ? count - 1 - k : k);
            if (states[running] != READY)
                continue;
            is_ready = 1;
            body->of_launch->thread.x = running - base;
            stack = stacks + (size_t)(running + 1) * STACK;
            go_on();
        }
        for (unsigned n = base; n < base + count; n += WARP)
            is_ready |= released(AT_EXCHANGE, n, n + WARP);
        is_ready |= released(AT_BARRIER, base, base + count);
        if (!is_ready)
            return has_run;
    }
}

/* Run all threads of a cluster of blocks, of one for most kernels, that may wait. */
static enum outcome run_waiting(unsigned count, int backwards)
{
    const unsigned blocks = body->cluster, all = blocks * count;
    const size_t size = body->shared_end - body->shared;
    if (!stacks)
        stacks = malloc((size_t)MOST * STACK);
    if (!stacks || all > MOST || count % WARP)
        return WAITS_FOR_EVER;
    if (blocks > 1) {
        copies = realloc(copies, blocks * size);
        memset(copies, 0xff, blocks * size);
        original = (struct extent){body->shared, body->shared_end};
    }
    number_of_copies = blocks > 1 ? blocks : 0;
    if (body->shared)
        memset(body->shared, 0xff, size);
    for (unsigned n = 0; n < all; n++) {
        states[n] = READY;
        turns[n] = 0;
    }
    rank = base = 0;
    for (;;) {
        int has_run = 0;
        for (unsigned k = 0; k < blocks; k++) {
            turn_to(backwards ? blocks - 1 - k : k, count);
            has_run |= run_until_all_wait(count, backwards);
        }
        if (all_at(DONE, 0, all))
            return RAN;
        if (!(has_run | released(AT_CLUSTER, 0, all)))
            return WAITS_FOR_EVER;
    }
}

/* Run all threads of a block one after the other. */
static enum outcome run_block(unsigned count, int backwards)
{
    stack = __builtin_frame_address(0);
    for (unsigned n = 0; n < count; n++) {
        body->of_launch->thread.x = backwards ? count - 1 - n : n;
        body->thread(given);
    }
    return RAN;
}

static enum outcome run_blocks(unsigned grid, unsigned block, int backwards)
{
    enum outcome outcome = RAN;
    if (grid % body->cluster)
        return WAITS_FOR_EVER;
    for (unsigned n = 0; n < grid && outcome == RAN; n += body->cluster) {
        body->of_launch->block.x = backwards ? grid - body->cluster - n : n;
        outcome = body->waits ? run_waiting(block, backwards) : run_block(block, backwards);
    }
    return outcome;
}

/* Run a kernel, which may use `count` arrays and nothing else. */
enum outcome launch(struct kernel *kernel, unsigned grid, unsigned block, int backwards, void **arguments,
                    const struct extent *of_arguments, unsigned count)
{
    body = kernel;
    given = arguments;
    body->of_launch->threads.x = block;
    body->of_launch->blocks.x = grid;
    arrays = of_arguments;
    count_of_arrays = count;
    if (!body->globals.count)
        body->globals = globals_of(body->of_launch);
    own = body->globals;
    if (!own.count)
        return UNCHECKED;
    is_reported = 0;
    getcontext(&after_launch); /* from which an error comes back */
    const enum outcome outcome = is_reported ? REPORTED : run_blocks(grid, block, backwards);
    if (outcome != RAN)
        memset(has_context, 0, sizeof has_context); /* some threads are left in the middle */
    report.block = body->of_launch->block.x;
    report.thread = body->of_launch->thread.x;
    return outcome;
}
