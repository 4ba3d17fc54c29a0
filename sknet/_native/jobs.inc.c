/* Threads take shares of a work, without Python.
 *
 * To wake a thread takes 30 to 80 us, also of the one that wakes it. So threads look for more work for a moment before
 * they rest, and small works wake one that rests but seldom. */

enum {
    LOOKS = 2000, MOST_LOOKS = 10000, /* 2000 are 50 to 100 us */
    A_LOOK = 1 << 10,                 /* multiplications in the time of a look, */
    A_NAP = 1 << 22,                  /* of a nap, */
    AN_ELEMENT = 16,                  /* and of an instruction for an element */
    NAP = 50,                         /* microseconds */
    LARGE = 1 << 22, SKIPPED = 64,    /* weight of works that wake threads, and how many smaller ones do not */
    LOST = 1, MOST_LATES = 3,         /* time without sharing for lost time, doubled each time that a thread is late, */
    MANY = 64,                        /* until others have done so many shares */
};

static int64_t pass(int64_t place, int64_t size, int64_t work);

static void do_share(int64_t work, int64_t fields, const int64_t steps[3], int64_t share, int64_t thread) {
    if (work == SHARE_OF_PRODUCT)
        share_of_product(at(fields), share);
    else
        pass(fields + share * steps[0] + thread * steps[1], steps[2], work);
}

static int take_shares(struct crew *crew, int64_t thread) {
    int taken = 0;
    for (;;) {
        const int64_t found = read_now(&crew->open), count = found & 0xFFFFFFFF, threads = found >> 32;
        if (count == 0 || thread >= threads)
            return taken;
        if (!replaced_now(&crew->open, found, found - 1))
            continue;
        const int64_t steps[3] = {read_now(&crew->share), read_now(&crew->thread), read_now(&crew->size)};
        set_modes(read_now(&crew->modes));
        do_share(read_now(&crew->work), read_now(&crew->fields), steps, count - 1, thread);
        add_now(&crew->left, -1);
        taken++;
    }
}

/* Look for work, and rest where there has been none for a moment, for ever. */
static void serve(int64_t thread) {
    struct crew *crew = &sknet_crew;
    int64_t *resting = &crew->resting[thread - 1];
    for (;;) {
        for (int64_t looks = 0; looks < read_now(&crew->looks); looks++) {
            if (take_shares(crew, thread))
                looks = 0;
            rest_a_moment();
        }
        write_now(resting, 1);
        /* Work that was opened before may have called nobody. */
        if (take_shares(crew, thread) == 0 || exchanged_now(resting, 0) == 0)
            sknet_wait(crew->calls[thread - 1], -1);
    }
}

/* Wait until all shares are done; return the weight of the time that a thread was late by, or 0. */
static int64_t wait_for_shares(struct crew *crew, int64_t looks) {
    int64_t lost = looks * A_LOOK;
    for (int64_t look = 0; look < looks; look++) {
        if (read_now(&crew->left) == 0)
            return 0;
        rest_a_moment();
    }
    for (; read_now(&crew->left); lost += A_NAP)
        sknet_wait(crew->nap, NAP);
    return lost;
}

/* Wake threads that rest for a large work, and now and then for small ones. */
static void call_threads(struct crew *crew, int64_t count, int64_t weight) {
    int64_t resting = 0;
    for (int64_t i = 0; i < count; i++)
        resting += read_now(&crew->resting[i]);
    if (resting == 0 || (weight < LARGE && ++crew->skipped <= SKIPPED))
        return;
    crew->skipped = 0;
    for (int64_t i = 0; i < count; i++)
        if (read_now(&crew->resting[i]) && exchanged_now(&crew->resting[i], 0))
            sknet_wake(crew->calls[i]);
}

static void open_shares(struct crew *crew, int64_t work, int64_t fields, int64_t count, const int64_t steps[3],
                        int64_t weight, int64_t threads) {
    write_now(&crew->work, work);
    write_now(&crew->fields, fields);
    write_now(&crew->share, steps[0]);
    write_now(&crew->thread, steps[1]);
    write_now(&crew->size, steps[2]);
    write_now(&crew->modes, modes());
    write_now(&crew->left, count);
    write_now(&crew->looks, least(MOST_LOOKS, most(LOOKS, weight / A_LOOK)));
    write_now(&crew->open, count | threads << 32);
    call_threads(crew, threads - 1, weight);
}

/* Return how many threads may share a work, with the one that leads. */
static int64_t threads_of(const struct crew *crew) {
    return least(read_now(&crew->threads), read_now(&crew->started) + 1);
}

/* Do all shares of a work in this thread. */
static void do_shares(int64_t work, int64_t fields, int64_t count, const int64_t *steps) {
    if (work == SHARE_OF_PRODUCT && ((const int64_t *)at(fields))[6]) {
        make_product(at(fields));
        return;
    }
    for (int64_t i = 0; i < count; i++)
        do_share(work, fields, steps, i, 0);
}

/* Do a work in shares, which other threads may take; its weight is about how many multiplications it has.
 *
 * steps: bytes between the fields of shares, between those of threads, and the size of an element; threads: how many
 * the work has room for. */
static void share_out(int64_t work, int64_t fields, int64_t count, const int64_t *steps, int64_t weight,
                      int64_t threads) {
    struct crew *crew = &sknet_crew;
    threads = least(threads, threads_of(crew));
    const int is_led = threads > 1 && count > 1 && replaced_now(&crew->busy, 0, 1);
    if (is_led && crew->alone <= 0) {
        open_shares(crew, work, fields, count, steps, weight, threads);
        crew->helped += count - take_shares(crew, 0);
        const int64_t lost = wait_for_shares(crew, least(MOST_LOOKS, LOOKS + weight / count / A_LOOK));
        if (lost > weight) {
            crew->alone = lost * (LOST << crew->lates);
            crew->lates = least(MOST_LATES, crew->lates + 1);
            crew->helped = 0;
        } else if (crew->helped > MANY)
            crew->lates = 0;
    } else {
        do_shares(work, fields, count, steps);
        if (is_led)
            crew->alone -= weight;
    }
    if (is_led)
        write_now(&crew->busy, 0);
}

/* Tell whether a thread looks for work. */
static int is_awake(struct crew *crew) {
    for (int64_t i = 0; i < least(read_now(&crew->threads) - 1, read_now(&crew->started)); i++)
        if (!read_now(&crew->resting[i]))
            return 1;
    return 0;
}

/* Carry out a long instruction together with threads that are awake; return 0 if it is left to this one. */
static int in_pieces(const int64_t *one, int64_t step) {
    const int64_t n = length_of(one), steps[3] = {sizeof(struct piece), 0, 0};
    if (n < LONG || !is_awake(&sknet_crew))
        return 0;
    const int64_t each = (n + PIECES * UNIT - 1) / (PIECES * UNIT) * UNIT;
    struct piece pieces[PIECES];
    int64_t count = 0;
    for (int64_t start = 0; start < n; start += each)
        pieces[count++] = (struct piece){(int64_t)(intptr_t)one, start, least(each, n - start), step};
    share_out(PIECE, (int64_t)(intptr_t)pieces, count, steps, n * AN_ELEMENT, INT32_MAX);
    return 1;
}
