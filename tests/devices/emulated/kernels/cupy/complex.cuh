// Instead of CuPy's own header, which takes long to compile: sknet has no complex numbers, CuPy's kernels
// name them.
#pragma once

template <class T>
struct complex {
    T real_part, imaginary_part;
    complex(T real = T(), T imaginary = T()) : real_part(real), imaginary_part(imaginary) {}
    T real() const { return real_part; }
    T imag() const { return imaginary_part; }
    bool operator==(const complex &other) const {
        return real_part == other.real_part && imaginary_part == other.imaginary_part;
    }
    bool operator!=(const complex &other) const { return !(*this == other); }
};
