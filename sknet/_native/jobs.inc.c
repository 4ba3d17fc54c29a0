/* Threads take shares of a work, without Python. */

enum { LOOKS = 10000 }; /* at what others have left, before a thread returns: about a quarter of a millisecond */

enum owner { NOBODY, PYTHON, NATIVE }; /* of a job */

static int64_t pass(int64_t place, int64_t size, int64_t work);

static void by_tiles(int64_t place, int64_t size) {
    if (size == 4)
        share_float(at(place));
    else
        share_double(at(place));
}

static int take_shares(struct job *job, int64_t thread) {
    const struct work_of *now = (const struct work_of *)job->now;
    int taken = 0;
    for (;;) {
        const int64_t found = read_now(&job->open), count = found & 0xFFFFFFFF, threads = found >> 32;
        if (count == 0 || thread >= threads)
            return taken;
        if (!replaced_now(&job->open, found, found - 1))
            continue;
        const int64_t first = read_now(&now->fields), step = read_now(&now->share);
        const int64_t place = first + (count - 1) * step + thread * read_now(&now->thread);
        pass(place, read_now(&now->size), read_now(&now->work));
        add_now(&job->left, -1);
        taken++;
    }
}

/* Look for work, until there has been none for a moment. */
static void serve(struct job *job, int64_t thread) {
    add_now(&job->awake, 1);
    for (int64_t looks = 0; looks < read_now(&job->looks); looks++) {
        if (take_shares(job, thread))
            looks = 0;
        rest_a_moment();
    }
    add_now(&job->awake, -1);
}

/* Open shares to all threads, and take some; return 0 if the threads have other work. */
static int lead_all(struct job *job, enum owner owner, const int64_t asked[5], int64_t opened) {
    if (!replaced_now(&job->busy, NOBODY, owner))
        return 0;
    for (int i = 0; i < 5; i++)
        write_now(job->now + i, asked[i]);
    write_now(&job->left, opened & 0xFFFFFFFF);
    write_now(&job->open, opened);
    take_shares(job, 0);
    return 1;
}

/* End a job, if all shares are done after so many looks. */
static int is_over(struct job *job, int64_t looks) {
    for (int64_t look = 0; look < looks; look++) {
        if (read_now(&job->left) == 0) {
            write_now(&job->busy, NOBODY);
            return 1;
        }
        rest_a_moment();
    }
    return 0;
}

/* Open what Python asks for, or look at what is left; return whether any share is not done yet, -1 if none is open. */
static int64_t lead(struct job *job, int64_t opened) {
    if (opened && !lead_all(job, PYTHON, job->asked, opened))
        return -1;
    return read_now(&job->busy) == PYTHON && !is_over(job, opened ? LOOKS : 1);
}
