// Atomic operations: plain ones, as one thread runs at a time.
#pragma once

template <class T>
static inline T emulated_replaced(T *pointer, T value) {
    const T before = *pointer;
    *pointer = value;
    return before;
}

#define EMULATED_ATOMICS(T)                                                            \
    static inline T atomicAdd(T *p, T x) { return emulated_replaced(p, (T)(*p + x)); } \
    static inline T atomicSub(T *p, T x) { return emulated_replaced(p, (T)(*p - x)); } \
    static inline T atomicExch(T *p, T x) { return emulated_replaced(p, x); }
#define EMULATED_ATOMICS_OF_INTEGERS(T)                                                    \
    static inline T atomicMin(T *p, T x) { return emulated_replaced(p, x < *p ? x : *p); } \
    static inline T atomicMax(T *p, T x) { return emulated_replaced(p, x > *p ? x : *p); } \
    static inline T atomicAnd(T *p, T x) { return emulated_replaced(p, (T)(*p & x)); }     \
    static inline T atomicOr(T *p, T x) { return emulated_replaced(p, (T)(*p | x)); }      \
    static inline T atomicXor(T *p, T x) { return emulated_replaced(p, (T)(*p ^ x)); }     \
    static inline T atomicCAS(T *p, T expected, T x) { return emulated_replaced(p, *p == expected ? x : *p); }

// CUDA has no others: for long long, CuPy defines its own.
EMULATED_ATOMICS(int)
EMULATED_ATOMICS(unsigned)
EMULATED_ATOMICS(unsigned long long)
EMULATED_ATOMICS(float)
EMULATED_ATOMICS(double)
EMULATED_ATOMICS_OF_INTEGERS(int)
EMULATED_ATOMICS_OF_INTEGERS(unsigned)
EMULATED_ATOMICS_OF_INTEGERS(unsigned long long)
