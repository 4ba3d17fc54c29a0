// Functions of numbers that CUDA declares and the C library does not.
#pragma once

template <class To, class From>
static inline To emulated_bits(From value) {
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To found;
    memcpy(&found, &value, sizeof found);
    return found;
}

struct alignas(16) float4 {
    float x, y, z, w;
};

struct alignas(8) ushort4 {
    unsigned short x, y, z, w;
};

struct alignas(16) double2 {
    double x, y;
};

static inline int __float_as_int(float x) { return emulated_bits<int>(x); }
static inline unsigned __float_as_uint(float x) { return emulated_bits<unsigned>(x); }
static inline float __int_as_float(int x) { return emulated_bits<float>(x); }
static inline float __uint_as_float(unsigned x) { return emulated_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return emulated_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return emulated_bits<double>(x); }

static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline unsigned __umulhi(unsigned x, unsigned y) { return (unsigned long long)x * y >> 32; }
static inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned __int128)x * y >> 64;
}

template <class T>
static inline T __ldg(const T *pointer) {
    return *pointer;
}

static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline float rsqrt(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }

// Of two numbers of different types, the type is that of their sum, as in CUDA; of NaN and a number, the
// number.
template <class A, class B>
static inline auto min(A a, B b) {
    using T = decltype(a + b);
    return T(a) < T(b) || T(b) != T(b) ? T(a) : T(b);
}

template <class A, class B>
static inline auto max(A a, B b) {
    using T = decltype(a + b);
    return T(a) > T(b) || T(b) != T(b) ? T(a) : T(b);
}
