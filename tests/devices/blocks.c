/* Threads of a block that wait for each other: each is a context of its own, and they take turns.

   In every round, each thread that can go on runs until it waits or ends, in the order of threads or in
   reverse; so a kernel that lacks a barrier gives two different results. */
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { WARP = 32, MOST = 1024, STACK = 1 << 16 };
enum state { READY, AT_BARRIER, AT_EXCHANGE, DONE };

static ucontext_t contexts[MOST], scheduler;
static enum state states[MOST];
static double values[2][MOST];
static unsigned char turns[MOST];
static unsigned running;
static char *stacks;
static void (*body)(void **);
static void **given;

static void start(void)
{
    body(given);
    states[running] = DONE;
    swapcontext(&contexts[running], &scheduler);
}

static void wait_as(enum state state)
{
    states[running] = state;
    swapcontext(&contexts[running], &scheduler);
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

/* Run all threads of a block; return 1 if some wait for others that never come. */
int run_block(void (*thread)(void **), void **arguments, unsigned count, int backwards, unsigned *index)
{
    if (!stacks)
        stacks = malloc((size_t)MOST * STACK);
    if (!stacks || count > MOST || count % WARP)
        return 1;
    body = thread;
    given = arguments;
    for (unsigned n = 0; n < count; n++) {
        states[n] = READY;
        turns[n] = 0;
        getcontext(&contexts[n]);
        contexts[n].uc_stack.ss_sp = stacks + (size_t)n * STACK;
        contexts[n].uc_stack.ss_size = STACK;
        contexts[n].uc_link = &scheduler;
        makecontext(&contexts[n], start, 0);
    }
    for (;;) {
        int goes_on = 0;
        for (unsigned k = 0; k < count; k++) {
            running = backwards ? count - 1 - k : k;
            if (states[running] != READY)
                continue;
            goes_on = 1;
            *index = running;
            swapcontext(&scheduler, &contexts[running]);
        }
        if (all_at(DONE, 0, count))
            return 0;
        for (unsigned n = 0; n < count; n += WARP)
            goes_on |= released(AT_EXCHANGE, n, n + WARP);
        goes_on |= released(AT_BARRIER, 0, count);
        if (!goes_on)
            return 1;
    }
}
