"""Scalar functions, as source for generated code: without branches, so that compilers vectorise them.

They also run as plain Python. Their coefficients are those of Cephes (S. L. Moshier,
https://www.netlib.org/cephes). NaN stays NaN; overflow gives infinity.
"""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import float32, float64, int32, int64, uint32, uint64

__all__ = ["FUNCTIONS", "source_of"]


def exp_float32(x: Any) -> Any:
    x = float32(-104.0) if x < float32(-104.0) else x
    x = float32(89.0) if x > float32(89.0) else x
    n = np.floor(x * float32(1.44269504088896341) + float32(0.5))
    r = x - n * float32(0.693359375)
    r = r - n * float32(-2.12194440e-4)
    p = float32(1.9875691500e-4)
    p = p * r + float32(1.3981999507e-3)
    p = p * r + float32(8.3334519073e-3)
    p = p * r + float32(4.1665795894e-2)
    p = p * r + float32(1.6666665459e-1)
    p = p * r + float32(5.0000001201e-1)
    p = p * (r * r) + r + float32(1.0)
    k = int32(n)
    half = k >> int32(1)  # two factors: 2 ** k alone may be too large or too small
    a = int32((half + int32(127)) << int32(23)).view(float32)
    b = int32((k - half + int32(127)) << int32(23)).view(float32)
    return p * a * b


def exp_float64(x: Any) -> Any:
    x = float64(-746.0) if x < float64(-746.0) else x
    x = float64(710.0) if x > float64(710.0) else x
    n = np.floor(x * float64(1.4426950408889634073599) + float64(0.5))
    r = x - n * float64(6.93145751953125e-1)
    r = r - n * float64(1.42860682030941723212e-6)
    s = r * r
    p = float64(1.26177193074810590878e-4)
    p = p * s + float64(3.02994407707441961300e-2)
    p = r * (p * s + float64(9.99999999999999999910e-1))
    q = float64(3.00198505138664455042e-6)
    q = q * s + float64(2.52448340349684104192e-3)
    q = q * s + float64(2.27265548208155028766e-1)
    q = q * s + float64(2.00000000000000000009e0)
    p = float64(1.0) + float64(2.0) * (p / (q - p))
    k = int64(n)
    half = k >> int64(1)
    a = int64((half + int64(1023)) << int64(52)).view(float64)
    b = int64((k - half + int64(1023)) << int64(52)).view(float64)
    return p * a * b


def tanh_float32(x: Any) -> Any:
    s = x * x
    p = float32(-5.70498872745e-3)
    p = p * s + float32(2.06390887954e-2)
    p = p * s + float32(-5.37397155531e-2)
    p = p * s + float32(1.33314422036e-1)
    p = p * s + float32(-3.33332819422e-1)
    small = p * s * x + x
    size = abs(x)
    large = float32(1.0) - float32(2.0) / (exp_float32(size + size) + float32(1.0))
    large = -large if x < float32(0.0) else large
    return small if size < float32(0.625) else large


def tanh_float64(x: Any) -> Any:
    s = x * x
    p = float64(-9.64399179425052238628e-1)
    p = p * s + float64(-9.92877231001918586564e1)
    p = p * s + float64(-1.61468768441708447952e3)
    q = s + float64(1.12811678491632931402e2)
    q = q * s + float64(2.23548839060100448583e3)
    q = q * s + float64(4.84406305325125486048e3)
    small = x * s * (p / q) + x
    size = abs(x)
    large = float64(1.0) - float64(2.0) / (exp_float64(size + size) + float64(1.0))
    large = -large if x < float64(0.0) else large
    return small if size < float64(0.625) else large


def log1p_float32(x: Any) -> Any:
    u = float32(1.0) + x
    bits = float32(u).view(int32)
    e = (bits >> int32(23)) - int32(126)
    m = int32((bits & int32(0x7FFFFF)) | int32(0x3F000000)).view(float32)
    is_low = m < float32(0.707106781186547524)
    n = float32(e) - (float32(1.0) if is_low else float32(0.0))
    m = (m + m if is_low else m) - float32(1.0)
    p = float32(7.0376836292e-2)
    p = p * m + float32(-1.1514610310e-1)
    p = p * m + float32(1.1676998740e-1)
    p = p * m + float32(-1.2420140846e-1)
    p = p * m + float32(1.4249322787e-1)
    p = p * m + float32(-1.6668057665e-1)
    p = p * m + float32(2.0000714765e-1)
    p = p * m + float32(-2.4999993993e-1)
    p = p * m + float32(3.3333331174e-1)
    s = m * m
    y = p * m * s + float32(-2.12194440e-4) * n - float32(0.5) * s
    y = m + y + float32(0.693359375) * n
    # What rounding 1 + x took away is put back by the quotient.
    y = x if u == float32(1.0) else y * (x / (u - float32(1.0)))
    y = -float32(np.inf) if u == float32(0.0) else y
    y = float32(np.nan) if u < float32(0.0) else y
    return y if u < float32(np.inf) else u


def product_high(a: Any, b: Any) -> Any:
    low = uint64(0xFFFFFFFF)
    half = uint64(32)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    middle = a1 * b0 + ((a0 * b0) >> half)
    carry = (middle & low) + a0 * b1
    return a1 * b1 + (middle >> half) + (carry >> half)


def fill_uniform(out: Any, key0: Any, key1: Any, site: Any, step: Any) -> Any:
    # Philox4x64-10 with the counter (block, 0, site, step), as numpy.random.Philox counts.
    block = uint64(0)
    size = out.size
    for start in range(0, size, 8):
        block += uint64(1)
        x0, x1, x2, x3 = block, uint64(0), uint64(site), uint64(step)
        k0, k1 = key0, key1
        for _ in range(10):
            m0, m1 = uint64(0xD2E7470EE14C6C93), uint64(0xCA5A826395121157)
            y0, y2 = product_high(m1, x2) ^ x1 ^ k0, product_high(m0, x0) ^ x3 ^ k1
            x0, x1, x2, x3 = y0, m1 * x2, y2, m0 * x0
            k0 += uint64(0x9E3779B97F4A7C15)
            k1 += uint64(0xBB67AE8584CAA73B)
        for i in range(start, min(start + 8, size)):
            word = (i - start) >> 1
            bits = x0 if word == 0 else x1 if word == 1 else x2 if word == 2 else x3
            half = uint32((bits >> uint64(32)) if i & 1 else (bits & uint64(0xFFFFFFFF)))
            out[i] = float32(half >> uint32(8)) * float32(1.0 / 16777216.0)


def fill_mask(out: Any, key0: Any, key1: Any, site: Any, step: Any, p: Any, scale: Any) -> Any:
    fill_uniform(out, key0, key1, site, step)
    for i in range(out.size):
        out[i] = scale if float32(out[i]) >= float32(p) else scale * 0


FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        exp_float32,
        exp_float64,
        tanh_float32,
        tanh_float64,
        log1p_float32,
        product_high,
        fill_uniform,
        fill_mask,
    )
}


def source_of(names: set[str]) -> str:
    """Return the source of functions and of those that they call.

    Parameters
    ----------
    names : set of str
        Keys of `FUNCTIONS`.

    Returns
    -------
    str
        Each decorated with ``@scalar``.
    """
    needed: set[str] = set()
    left = set(names)
    while left:
        needed |= left
        left = {inner for name in left for inner in _calls(name)} - needed
    texts = [inspect.getsource(function) for name, function in FUNCTIONS.items() if name in needed]
    text = "\n\n".join(f"@scalar\n{text}" for text in texts)
    return text.replace(": Any", "").replace(" -> Any", "")


def _calls(name: str) -> set[str]:
    return {other for other in FUNCTIONS if other in FUNCTIONS[name].__code__.co_names}
