/* Runs a kernel thread by thread; it is compiled together with sanitizers.c, which comes before it.

   Threads of a block that wait for each other are contexts of their own, and take turns: in every round, each
   thread that can go on runs until it waits or ends, in the order of threads or in reverse; so a kernel that
   lacks a barrier gives two different results. A context goes on from one launch to the next, and is entered and
   left by jumps, which take no call of the system. */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

enum { WARP = 32, MOST = 1024 };
enum state { READY, AT_BARRIER, AT_EXCHANGE, DONE };
enum outcome { RAN, WAITS_FOR_EVER, REPORTED, UNCHECKED };

struct size { unsigned x, y, z; };
struct kernel {
    void (*thread)(void **);
    int waits;
    struct { struct size block, thread, threads, blocks; } *of_launch; /* blockIdx and so on */
    char *shared, *shared_end;
    struct globals globals; /* of its module, once they have been looked for */
};

static jmp_buf contexts[MOST], scheduler;
static unsigned char has_context[MOST];
static enum state states[MOST];
static double values[2][MOST];
static unsigned char turns[MOST];
static unsigned running;
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

/* Put the value of another lane of the warp in place of this one's. The values of two exchanges are kept
   apart: a lane may be at the next one before the others have read this one's. */
void exchange(void *value, size_t size, unsigned from)
{
    const unsigned me = running, turn = turns[me] ^= 1;
    memcpy(&values[turn][me], value, size);
    wait_as(AT_EXCHANGE);
    memcpy(value, &values[turn][from], size);
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

/* Run all threads of a block that may wait. */
static enum outcome run_waiting(unsigned count, int backwards)
{
    if (!stacks)
        stacks = malloc((size_t)MOST * STACK);
    if (!stacks || count > MOST || count % WARP)
        return WAITS_FOR_EVER;
    if (body->shared)
        memset(body->shared, 0xff, body->shared_end - body->shared);
    for (unsigned n = 0; n < count; n++) {
        states[n] = READY;
        turns[n] = 0;
    }
    for (;;) {
        int is_ready = 0;
        for (unsigned k = 0; k < count; k++) {
            running = backwards ? count - 1 - k : k;
            if (states[running] != READY)
                continue;
            is_ready = 1;
            body->of_launch->thread.x = running;
            stack = stacks + (size_t)(running + 1) * STACK;
            go_on();
        }
        if (all_at(DONE, 0, count))
            return RAN;
        for (unsigned n = 0; n < count; n += WARP)
            is_ready |= released(AT_EXCHANGE, n, n + WARP);
        is_ready |= released(AT_BARRIER, 0, count);
        if (!is_ready)
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
    for (unsigned n = 0; n < grid && outcome == RAN; n++) {
        body->of_launch->block.x = backwards ? grid - 1 - n : n;
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
