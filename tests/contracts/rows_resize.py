"""Rows of the op table: interpolation."""

import itertools
import math

import numpy as np

from tests.contracts.table import Case, Row, real

try:
    import torch
except ImportError:  # the oracle's tests are skipped, the others do not need it
    torch = None

__all__ = ["ROWS"]


def kernel(mode, distance):
    """Return the weight of an element at a distance, by the definition of the kernels."""
    d = abs(distance)
    if mode != "bicubic":
        return max(1 - d, 0.0)
    a = -0.75
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def matrix(n, m, step, mode, align_corners):
    """Return the map from n elements of an axis to m, element by element."""
    found = np.zeros((m, n))
    for i in range(m):
        if mode == "nearest":
            found[i, min(math.floor(i * step), n - 1)] = 1
            continue
        at = i * ((n - 1) / max(m - 1, 1)) if align_corners else (i + 0.5) * step - 0.5
        at = at if mode == "bicubic" else max(at, 0.0)
        for k in range(math.floor(at) - 1, math.floor(at) + 3):
            found[i, min(max(k, 0), n - 1)] += kernel(mode, at - k)
    return found


def interpolated(x, size=None, scale_factor=None, mode="nearest", align_corners=False):
    for axis in range(2, x.ndim):
        n = x.shape[axis]
        given = size if scale_factor is None else scale_factor
        given = given if np.isscalar(given) else given[axis - 2]
        m, step = (given, n / given) if scale_factor is None else (math.floor(n * given), 1 / given)
        found = np.tensordot(matrix(n, m, step, mode, align_corners), np.moveaxis(x, axis, 0), 1)
        x = np.moveaxis(found, 0, axis).astype(x.dtype)
    return x


SIZES = {
    1: [{"size": 7}, {"size": 2}, {"scale_factor": 2}, {"scale_factor": 1.7}, {"size": 1}],
    2: [{"size": (5, 2)}, {"scale_factor": (2, 3)}, {"scale_factor": 0.6}, {"size": 3}],
    3: [{"size": (3, 1, 4)}, {"scale_factor": 2}],
}
SHAPES = {1: (2, 3, 4), 2: (2, 1, 3, 4), 3: (1, 2, 2, 3, 2)}
NEAREST = [("nearest", 1), ("nearest", 2), ("nearest", 3)]
WEIGHTED = [("linear", 1), ("bilinear", 2), ("trilinear", 3), ("bicubic", 2)]

ROWS = [
    Row(
        "interpolate",
        interpolated,
        [
            Case((real(*SHAPES[rank]),), {**size, "mode": mode, **corners})
            for mode, rank in modes
            for size, corners in itertools.product(
                SIZES[rank], [{}] if mode == "nearest" else [{}, {"align_corners": True}]
            )
        ],
        primitive=None if modes is NEAREST else "resample",
        integers=modes is NEAREST,
        torch=lambda x, **params: torch.nn.functional.interpolate(x, **params),
    )
    for modes in (NEAREST, WEIGHTED)
]
