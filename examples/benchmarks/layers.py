"""Time layers of sknet and PyTorch, forward and back, in turns and in one process.

A case is one call: a layer's output, and the gradients of its sum with respect to the input and all
parameters. sknet computes it as a training step does, captured and replayed, and "eager", one operation
after the other.

Prints, for each case, milliseconds (median over the rounds) and how many times as long as PyTorch sknet
takes. The threads are those of the BLAS library: OMP_NUM_THREADS=2 gives both sides two.

    python examples/benchmarks/layers.py [--rounds 9] [--only LSTM]
"""

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import sknet
from sknet import Tensor, nn
from sknet.compile import compile
from sknet.core import gradients
from sknet.nn import functional_call

REST = 0.2  # seconds before each turn: the threads of the one before spin for a while
REPEATS = 3  # calls a turn


class Case(NamedTuple):
    """A layer, and PyTorch's counterpart."""

    name: str
    layer: Callable[[], nn.Module]
    counterpart: Callable[[Any], Any]  # of the module torch
    shape: tuple[int, ...]  # of the input


CASES = [
    Case(
        f"{name}(128), batch 64, 100 steps",
        lambda name=name: getattr(nn, name)(128, 128, returns="sequence"),
        lambda torch, name=name: getattr(torch.nn, name)(128, 128, batch_first=True),
        (64, 100, 128),
    )
    for name in ("RNN", "LSTM", "GRU")
]


def data(case: Case) -> np.ndarray:
    """Draw an input."""
    return np.random.default_rng(0).standard_normal(case.shape, dtype=np.float32)


def eager(case: Case) -> Callable[[], object]:
    """Return the call, one operation after the other."""
    layer, x = case.layer().initialize(0), Tensor(data(case), requires_grad=True)
    inputs = [x, *layer.parameters()]
    return lambda: gradients(layer(x).sum(), inputs)


def compiled(case: Case) -> Callable[[], object]:
    """Return the call, captured and planned."""
    layer = case.layer().initialize(0)
    arrays = {"x": data(case)} | {path: value.numpy() for path, value in layer.named_parameters()}

    def step(arrays: dict[str, Tensor]) -> list[Tensor]:
        leaves = {name: value.detach() for name, value in arrays.items()}
        for leaf in leaves.values():
            leaf.requires_grad = True
        parameters = {name: leaf for name, leaf in leaves.items() if name != "x"}
        output, _ = functional_call(layer, parameters, leaves["x"])
        return gradients(output.sum(), list(leaves.values()))

    program = compile(step, (arrays,))
    program(arrays)
    return program.run


def torch_call(case: Case) -> Callable[[], object]:
    """Return PyTorch's call."""
    import torch

    layer = case.counterpart(torch)
    x = torch.from_numpy(data(case)).requires_grad_()

    def call() -> None:
        layer.zero_grad(set_to_none=True)
        x.grad = None
        output = layer(x)
        (output[0] if isinstance(output, tuple) else output).sum().backward()

    return call


def contenders() -> dict[str, Callable[[Case], Callable[[], object]]]:
    """Return who takes part; PyTorch if it is installed, with as many threads as BLAS has."""
    found: dict[str, Callable[[Case], Callable[[], object]]] = {"sknet": compiled, "sknet eager": eager}
    try:
        import torch
    except ImportError:
        return found
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)))
    return {**found, f"torch {torch.__version__.split('+')[0]}": torch_call}


def measure(
    case: Case, makers: dict[str, Callable[[Case], Callable[[], object]]], rounds: int
) -> list[float]:
    """Return the median milliseconds of each contender."""
    calls = [make(case) for make in makers.values()]
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds + 1):
        for call, found in zip(calls, times, strict=True):
            time.sleep(REST)
            for _ in range(REPEATS):
                start = time.perf_counter()
                call()
                found.append((time.perf_counter() - start) * 1e3)
    return [statistics.median(found[REPEATS:]) for found in times]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="only the cases whose name contains this")
    arguments = parser.parse_args()
    makers = contenders()
    print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, sknet {sknet.__version__}, float32, "
        f"{os.environ.get('OMP_NUM_THREADS', os.cpu_count())} threads, milliseconds a call\n"
    )
    peers = [name for name in makers if name.startswith("torch")]
    print(
        "| case | " + " | ".join([*makers, *[f"{name} / torch" for name in list(makers)[:2] if peers]]) + " |"
    )
    print("|---" * (1 + len(makers) + 2 * len(peers)) + "|")
    for case in CASES:
        if arguments.only in case.name:
            times = measure(case, makers, arguments.rounds)
            cells = [f"{value:.1f}" for value in times]
            cells += [f"{value / times[2]:.2f}" for value in times[:2] if peers]
            print(f"| {case.name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
