"""Native code: many training steps in one call, compiled by Numba."""

from sknet.compile.executors.native._cache import has_numba
from sknet.compile.executors.native._run import NativeRun, native_source
from sknet.compile.executors.native._value import UnsupportedError

__all__ = [
    "NativeRun",
    "UnsupportedError",
    "has_numba",
    "native_source",
]
