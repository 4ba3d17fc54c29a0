"""Native code: the calls of NumPy's plan, as instructions that one compiled function carries out."""

from sknet.compile.executors.native._cache import has_numba
from sknet.compile.executors.native._run import NativeRun, Parts, Runner, UnsupportedError, runner

__all__ = [
    "NativeRun",
    "Parts",
    "Runner",
    "UnsupportedError",
    "has_numba",
    "runner",
]
