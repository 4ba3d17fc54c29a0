"""Measure the effect of threads on the loops of native code, which are single-threaded.

A step is a matrix product, which BLAS does with its own threads, and an update like Adam's. The
update's loop is run in one thread, and in all of Numba's by `prange`. Prints microseconds per step,
and for the product alone. Numba's threads are those of two libraries, each in a process of its own: workqueue
(not thread-safe) and OpenMP (crashes in forked processes).

    python examples/benchmarks/loops.py [--rounds 7] [--json PATH]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numba
import numpy as np
from measured import Table, parser_of, write

SIZES = ((256, 235_152), (512, 1_000_000), (1024, 1_860_000))  # rows of the matrices, parameters
MULTIPLICATIONS = 2e9  # of one measurement
LAYERS = {"workqueue": "workqueue", "OpenMP": "omp"}
STEPS = Table(
    "product, parameters",
    {
        "product alone, us": ".0f",
        "update in one thread": ".0f",
        **{f"in all threads, {name}": ".0f" for name in LAYERS},
    },
)
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


def of_a_layer(layer: str, rounds: int) -> list[list[float]]:
    """Return the microseconds of all sizes and ways with one of Numba's threading layers."""
    command = [sys.executable, __file__, "--rounds", str(rounds), "--child"]
    environment = os.environ | {"NUMBA_THREADING_LAYER": layer}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    found: list[list[float]] = json.loads(done.stdout)
    return found


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        ways = (product, one_thread, many_threads)
        print(json.dumps([[microseconds(way, *size, args.rounds) for way in ways] for size in SIZES]))
        return
    of_layers = [of_a_layer(layer, args.rounds) for layer in LAYERS.values()]
    for (rows, size), *found in zip(SIZES, *of_layers, strict=True):
        alone, in_one = (statistics.mean(values) for values in list(zip(*found, strict=True))[:2])
        STEPS.add(f"{rows} x {rows}, {size}", alone, in_one, *[values[2] for values in found])
    write(args.json, {"steps": STEPS})


if __name__ == "__main__":
    main()
