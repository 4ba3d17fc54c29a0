// Half precision as far as CuPy's cupy/float16.cuh needs it, by the compiler's own type.
#pragma once

struct __half_raw {
    unsigned short x;
};

struct half {
    _Float16 value;
    half() {}
    half(float number) : value(number) {}
    explicit half(bool number) : value(number) {}
    explicit half(double number) : value(number) {}
    explicit half(int number) : value(number) {}
    explicit half(unsigned number) : value(number) {}
    explicit half(long long number) : value(number) {}
    explicit half(unsigned long long number) : value(number) {}
    half(const __half_raw &raw) : value(emulated_bits<_Float16>(raw.x)) {}
    operator float() const { return value; }
    operator __half_raw() const { return {emulated_bits<unsigned short>(value)}; }
};

static inline unsigned short __half_as_ushort(half x) { return emulated_bits<unsigned short>(x.value); }
static inline half __ushort_as_half(unsigned short bits) { return half(__half_raw{bits}); }
