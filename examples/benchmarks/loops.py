"""Measure the effect of threads on the loops of native code, which are single-threaded.

A step is a matrix product, which BLAS does with its own threads, and an update like Adam's. The
update's loop is run in one thread, and in all of Numba's by `prange`. Prints microseconds per step,
and for the product alone. The environment selects Numba's threads: compare
``NUMBA_THREADING_LAYER=workqueue`` (not thread-safe) and ``omp`` (crashes in forked processes).

    python examples/benchmarks/loops.py [--rounds 7]
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numba
import numpy as np

SIZES = ((256, 235_152), (512, 1_000_000), (1024, 1_860_000))  # rows of the matrices, parameters
MULTIPLICATIONS = 2e9  # of one measurement
f4 = np.float32
vectors = numba.njit(nogil=True, fastmath={"contract"}, error_model="numpy")


@vectors
def update(param, gradient, mu, nu, lr, start, stop):  # type: ignore[no-untyped-def]
    """Update a part of the parameters."""
    for i in range(start, stop):
        g = gradient[i]
        mu[i] = f4(0.9) * mu[i] + f4(0.1) * g
        nu[i] = f4(0.999) * nu[i] + f4(0.001) * (g * g)
        param[i] += lr * mu[i] / (np.sqrt(nu[i]) + f4(1e-8))


@vectors
def product(a, b, out, state, steps):  # type: ignore[no-untyped-def]
    """Do only the products."""
    for _ in range(steps):
        np.dot(a, b, out)


@vectors
def one_thread(a, b, out, state, steps):  # type: ignore[no-untyped-def]
    """Update in the calling thread."""
    for _ in range(steps):
        np.dot(a, b, out)
        update(*state, f4(-1e-3), 0, len(state[0]))


@numba.njit(nogil=True, parallel=True, fastmath={"contract"}, error_model="numpy")
def many_threads(a, b, out, state, steps):  # type: ignore[no-untyped-def]
    """Update in all threads of Numba."""
    threads = numba.get_num_threads()
    param, gradient, mu, nu = state
    for _ in range(steps):
        np.dot(a, b, out)
        for i in numba.prange(threads):
            size = len(param)
            update(param, gradient, mu, nu, f4(-1e-3), i * size // threads, (i + 1) * size // threads)


def microseconds(function: Callable[..., None], rows: int, size: int, rounds: int) -> float:
    """Return the median time of a step."""
    rng = np.random.default_rng(0)
    a, b = rng.random((2, rows, rows), dtype=f4)
    state = tuple(rng.random((4, size), dtype=f4))
    arguments = a, b, np.empty_like(a), state
    steps = max(3, int(MULTIPLICATIONS / rows**3))
    function(*arguments, 1)
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        function(*arguments, steps)
        times.append(time.perf_counter() - start)
    return statistics.median(times) / steps * 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    ways = (product, one_thread, many_threads)
    print(
        "| product, parameters | product alone, us | update in one thread | in all threads |\n"
        + "|---" * 4
        + "|"
    )
    for rows, size in SIZES:
        cells = [f"{microseconds(way, rows, size, rounds):.0f}" for way in ways]
        print(f"| {rows} x {rows}, {size} | " + " | ".join(cells) + " |", flush=True)
    print(f"\nthreads: {numba.get_num_threads()}, by {numba.threading_layer()}")


if __name__ == "__main__":
    main()
