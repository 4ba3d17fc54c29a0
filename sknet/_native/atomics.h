/* Numbers that several threads read and write at the same time. */

#ifndef SKNET_ATOMICS_H
#define SKNET_ATOMICS_H

#include <stdint.h>

#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>

static inline int64_t read_now(const int64_t *x) {
    return _InterlockedCompareExchange64((volatile int64_t *)(intptr_t)x, 0, 0);
}

static inline void write_now(int64_t *x, int64_t value) { _InterlockedExchange64(x, value); }

static inline void add_now(int64_t *x, int64_t value) { _InterlockedExchangeAdd64(x, value); }

static inline int replaced_now(int64_t *x, int64_t old, int64_t value) {
    return _InterlockedCompareExchange64(x, value, old) == old;
}

static inline int64_t exchanged_now(int64_t *x, int64_t value) { return _InterlockedExchange64(x, value); }

#else

static inline int64_t read_now(const int64_t *x) { return __atomic_load_n(x, __ATOMIC_SEQ_CST); }

static inline void write_now(int64_t *x, int64_t value) { __atomic_store_n(x, value, __ATOMIC_SEQ_CST); }

static inline void add_now(int64_t *x, int64_t value) { __atomic_fetch_add(x, value, __ATOMIC_SEQ_CST); }

static inline int replaced_now(int64_t *x, int64_t old, int64_t value) {
    return __atomic_compare_exchange_n(x, &old, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static inline int64_t exchanged_now(int64_t *x, int64_t value) { return __atomic_exchange_n(x, value, __ATOMIC_SEQ_CST); }

#endif

/* Let the other thread of a core work, while this one waits. */
static inline void rest_a_moment(void) {
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) && defined(__GNUC__)
    __asm__ volatile("yield");
#elif defined(_M_X64) || defined(_M_ARM64)
    YieldProcessor();
#endif
}

#endif
