/* Threads take shares of a work, without Python. */

enum { LOOKS = 10000 }; /* at what others have left, before a thread returns: about a quarter of a millisecond */

static void by_tiles(int64_t place, int64_t size) {
    if (size == 4)
        share_float(at(place));
    else
        share_double(at(place));
}

static int take_shares(struct job *job, int64_t thread) {
    int taken = 0;
    for (;;) {
        const int64_t found = read_now(&job->open), count = found & 0xFFFFFFFF, threads = found >> 32;
        if (count == 0 || thread >= threads)
            return taken;
        if (!replaced_now(&job->open, found, found - 1))
            continue;
        const int64_t first = read_now(&job->fields), step = read_now(&job->share);
        const int64_t place = first + (count - 1) * step + thread * read_now(&job->thread);
        by_tiles(place, read_now(&job->size));
        subtract_now(&job->left, 1);
        taken++;
    }
}

/* Look for work, until there has been none for a moment. */
static void serve(struct job *job, int64_t thread) {
    for (int64_t looks = 0; looks < read_now(&job->looks); looks++) {
        if (take_shares(job, thread))
            looks = 0;
        rest_a_moment();
    }
}

/* Open shares to all threads, and take some; return whether any are not done yet. */
static int64_t lead(struct job *job, int64_t opened) {
    if (opened) {
        write_now(&job->left, opened & 0xFFFFFFFF);
        write_now(&job->open, opened);
        take_shares(job, 0);
    }
    for (int look = 0; look < (opened ? LOOKS : 1); look++) {
        if (read_now(&job->left) == 0)
            return 0;
        rest_a_moment();
    }
    return 1;
}
