"""Digests of arrays: a few numbers that nearly any change of the array changes, or a hash of its bits."""

import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tests.digests.cases import CASES

__all__ = ["digest", "digests", "stored"]

STORED = Path(__file__).with_name("digests.json")


def digest(array: Any, bits: bool = False) -> Any:
    """Return the type of an array and projections of its values, or a hash."""
    array = np.asarray(array)
    if array.dtype.kind not in "biuf":
        array = np.unique(array, return_inverse=True)[1].reshape(array.shape)
    name = f"{array.dtype} {array.shape}"
    if bits:
        return name, hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    flat = array.astype(np.float64).ravel()
    waves = [np.cos(k * np.arange(flat.size)) for k in range(3)]
    return [name, *(float(np.mean(wave * flat)) if flat.size else 0.0 for wave in waves)]


def digests(bits: bool = False) -> dict[str, dict[str, Any]]:
    """Return the digests of all results of all cases."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {}
        for name, case in CASES.items():
            found[name] = {key: digest(value, bits) for key, value in case().items()}
        return found


def stored() -> dict[str, dict[str, Any]]:
    """Return the digests that the repository holds."""
    found: dict[str, dict[str, Any]] = json.loads(STORED.read_text())
    return found
