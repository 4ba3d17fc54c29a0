"""Bitwise comparison of trees of arrays."""

from typing import Any

import numpy as np


def assert_same(a: Any, b: Any, where: str) -> None:
    """Assert that two trees of arrays are equal to the last bit."""
    if isinstance(a, dict) and isinstance(b, dict):
        assert list(a) == list(b), f"{where}: {list(a)} and {list(b)}"
        for name in a:
            assert_same(a[name], b[name], f"{where}, {name}")
    elif isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        assert len(a) == len(b), f"{where}: {len(a)} and {len(b)} parts"
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, f"{where}, {i}")
    elif isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        assert a.shape == b.shape, f"{where}: {a.shape} and {b.shape}"
        assert a.dtype == b.dtype, f"{where}: {a.dtype} and {b.dtype}"
        if a.tobytes() != b.tobytes():
            difference = np.nanmax(np.abs(a.astype(float) - b.astype(float)))
            raise AssertionError(f"{where}: differs by {difference:g}")
    else:
        assert type(a) is type(b), f"{where}: {shortened(a)} and {shortened(b)}"
        assert a == b or a != a, f"{where}: {shortened(a)} and {shortened(b)}"


def shortened(value: Any) -> str:
    return repr(value)[:200]
