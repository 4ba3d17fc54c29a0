"""Errors of products of float32 arrays in each precision, against float64."""

from collections.abc import Sequence

import numpy as np

from sknet import ops
from sknet.compile import compile
from sknet.device import active, to_device, to_host
from tools.gpu_check._found import Found
from tools.gpu_check._machine import Machine

__all__ = ["errors"]

# Rows, terms and columns: products of the networks whose steps are timed, forward and of gradients.
SIZES = (4096, 54, 512), (4096, 512, 512), (512, 4096, 512), (8192, 784, 1024), (1024, 8192, 1024)
SCALES = 1.0, 1e-25, 1e32  # of the first factor
DTYPES = "float32", "tf32", "tf32x3", "bfloat16"
UNIT = 2.0**-8  # by which a factor in bfloat16 may change, of its size
MOST = 4.0  # times the error of float32 that three products in TF32 may have


def errors(
    machine: Machine, sizes: Sequence[tuple[int, int, int]] = SIZES, scales: Sequence[float] = SCALES
) -> Found:
    """Compare products of normal numbers of several sizes and scales."""
    found = Found()
    for rows, terms, columns in sizes:
        rng = np.random.default_rng(0)
        x, y = (rng.standard_normal(shape, np.float32) for shape in ((rows, terms), (terms, columns)))
        expected = x.astype(np.float64) @ y.astype(np.float64)
        for scale in scales:
            name = f"({rows}, {terms}) @ ({terms}, {columns}), times {scale:g}"
            scaled = x * np.float32(scale)
            row = {dtype: _error(machine, dtype, scaled, y, scale, expected) for dtype in DTYPES}
            found.figures[name] = row
            if not row["tf32x3"] <= MOST * row["float32"]:
                said = f"the error of tf32x3 is {row['tf32x3']:.2g}, that of float32 {row['float32']:.2g}"
                found.failures.append({"name": name, "error": said})
            most = 2 * UNIT * terms**0.5
            if not row["bfloat16"] <= most:
                said = f"the error of bfloat16 is {row['bfloat16']:.2g}, above {most:.2g}"
                found.failures.append({"name": name, "error": said})
    return found


def _error(
    machine: Machine, dtype: str, x: np.ndarray, y: np.ndarray, scale: float, expected: np.ndarray
) -> float:
    """Return the root of the mean square error, of the product of numbers of size 1."""
    with active(machine.device, dtype):
        factors = to_device(x, machine.device), to_device(y, machine.device)
        product = to_host(compile(ops.matmul, factors)(*factors))
    return float(np.sqrt(np.mean((product / scale - expected) ** 2)))
