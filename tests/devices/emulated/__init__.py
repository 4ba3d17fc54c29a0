"""A CUDA driver in software, on which the real CuPy runs where there is no GPU: see `install`.

The functions of CUDA's runtime and driver, of cuBLAS, cuSPARSE and cuSOLVER as far as sknet leads to them,
and of cuBLASLt, which captured steps are to call, are in `library/`: memory and streams are the host's.
Kernels, CuPy's own as well as those that sknet writes, are compiled by g++ with the headers in `kernels/`,
and run thread by thread.

What is written here follows NVIDIA's public documentation. It shows what CuPy accepts and refuses, numbers,
counts of launches, copies and allocations, what capture forbids, and what a graph repeats; and what a stream
reads or overwrites if it does not wait for another one (`late`). It knows nothing of time, of races that no
order of threads shows, or of the libraries' algorithms.
"""

from tests.devices.emulated.counts import Counts, counted, faults, idle, late, without_page_locks
from tests.devices.emulated.installation import install

__all__ = ["Counts", "counted", "faults", "idle", "install", "late", "without_page_locks"]
