"""Time layers of sknet and PyTorch, forward and backward, alternating in one process.

A case is a layer and an input. "forward" computes only the output, as in prediction; "both" computes the
output and the gradients of its sum with respect to the input and all parameters. sknet runs captured and
replayed, as in a training step, and "eager".

Prints, for each case and pass, milliseconds (median over the rounds) and the ratio of sknet's time to
PyTorch's. Threads are the BLAS library's: OMP_NUM_THREADS=2 gives both libraries two.

    python examples/benchmarks/layers.py [--rounds 9] [--only Conv2d] [--json PATH]
"""

import os
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from measured import Table, parser_of, write

import sknet
from sknet import Tensor, nn, no_grad
from sknet.compile import compile
from sknet.core import gradients
from sknet.nn import functional_call

REST = 0.2  # seconds before each turn, since threads of the previous one spin for a while
REPEATS = 3  # calls per turn
PASSES = ("forward", "both")
SIDES = ("sknet", "sknet eager", "PyTorch")
TIMES = Table(
    "layer, pass",
    {**dict.fromkeys(SIDES, ".2f"), "sknet / PyTorch": ".2f"},
    drawn=SIDES,
    unit="milliseconds per call",
)


class Case(NamedTuple):
    """A layer, and PyTorch's counterpart."""

    name: str
    layer: Callable[[], nn.Module]
    counterpart: Callable[[Any], Any]  # of the module torch
    shape: tuple[int, ...]  # of the input


RECURRENT = [
    Case(
        f"{name}(128), batch 64, 100 steps",
        lambda name=name: getattr(nn, name)(128, 128, returns="sequence"),
        lambda torch, name=name: getattr(torch.nn, name)(128, 128, batch_first=True),
        (64, 100, 128),
    )
    for name in ("RNN", "LSTM", "GRU")
]
CONVOLUTIONS = [
    Case(
        f"Conv2d({channels}, {filters}, 3), {size} x {size}, batch 32",
        lambda channels=channels, filters=filters: nn.Conv2d(channels, filters, 3, padding=1),
        lambda torch, channels=channels, filters=filters: torch.nn.Conv2d(channels, filters, 3, padding=1),
        (32, channels, size, size),
    )
    for channels, filters, size in [(1, 32, 28), (32, 64, 14), (64, 64, 28)]
]
CASES = [
    *CONVOLUTIONS,
    Case(
        "Conv2d depthwise, 64 channels, 28 x 28, batch 32",
        lambda: nn.Conv2d(64, 64, 3, padding=1, groups=64),
        lambda torch: torch.nn.Conv2d(64, 64, 3, padding=1, groups=64),
        (32, 64, 28, 28),
    ),
    Case(
        "MaxPool2d(2), 32 channels, 28 x 28, batch 32",
        lambda: nn.MaxPool2d(2),
        lambda torch: torch.nn.MaxPool2d(2),
        (32, 32, 28, 28),
    ),
    Case(
        "BatchNorm, 32 channels, 28 x 28, batch 32",
        lambda: nn.BatchNorm(32),
        lambda torch: torch.nn.BatchNorm2d(32),
        (32, 32, 28, 28),
    ),
    Case(
        "LayerNorm(128), 64 x 100",
        lambda: nn.LayerNorm(128),
        lambda torch: torch.nn.LayerNorm(128),
        (64, 100, 128),
    ),
    Case(
        "TransformerEncoderLayer(128, 4), batch 32, 64 steps",
        lambda: nn.TransformerEncoderLayer(128, 4, dropout=0.0),
        lambda torch: torch.nn.TransformerEncoderLayer(
            128, 4, 512, 0.0, "gelu", batch_first=True, norm_first=True
        ),
        (32, 64, 128),
    ),
    *RECURRENT,
]


def data(case: Case) -> np.ndarray:
    """Draw an input."""
    return np.random.default_rng(0).standard_normal(case.shape, dtype=np.float32)


def eager(case: Case, backward: bool) -> Callable[[], object]:
    """Return the call, one operation after the other."""
    layer = case.layer().initialize(0)
    x = Tensor(data(case), requires_grad=True)
    inputs = [x, *layer.parameters()]

    def forward() -> None:
        with no_grad():
            layer(x)

    return (lambda: gradients(layer(x).sum(), inputs)) if backward else forward


def compiled(case: Case, backward: bool) -> Callable[[], object]:
    """Return the call, captured and planned."""
    layer = case.layer().initialize(0)
    arrays = {"x": data(case)} | {path: value.numpy() for path, value in layer.named_parameters()}

    def step(arrays: dict[str, Tensor]) -> list[Tensor]:
        leaves = {name: value.detach() for name, value in arrays.items()}
        for leaf in leaves.values():
            leaf.requires_grad = backward
        parameters = {name: leaf for name, leaf in leaves.items() if name != "x"}
        output, _ = functional_call(layer, parameters, leaves["x"], training=True)
        return [output, *gradients(output.sum(), list(leaves.values()))] if backward else [output]

    program = compile(step, (arrays,))
    program(arrays)
    return program.run


def torch_call(case: Case, backward: bool) -> Callable[[], object]:
    """Return PyTorch's call."""
    import torch

    layer = case.counterpart(torch)
    x = torch.from_numpy(data(case)).requires_grad_()

    def output() -> Any:
        found = layer(x)
        return found[0] if isinstance(found, tuple) else found

    def forward() -> None:
        with torch.no_grad():
            output()

    def both() -> None:
        layer.zero_grad(set_to_none=True)
        x.grad = None
        output().sum().backward()

    return both if backward else forward


Maker = Callable[[Case, bool], Callable[[], object]]


def contenders() -> dict[str, Maker]:
    """Return the contenders; PyTorch if it is installed, with as many threads as BLAS has."""
    found: dict[str, Maker] = {"sknet": compiled, "sknet eager": eager}
    try:
        import torch
    except ImportError:
        return found
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)))
    return {**found, "PyTorch": torch_call}


def measure(calls: list[Callable[[], object]], rounds: int) -> list[float]:
    """Return the median milliseconds of each call."""
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
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="only the cases whose name contains this")
    arguments = parser.parse_args()
    makers = contenders()
    print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, sknet {sknet.__version__}, float32, "
        f"{os.environ.get('OMP_NUM_THREADS', os.cpu_count())} threads, milliseconds per call\n"
    )
    for case in CASES:
        for which in PASSES if arguments.only in case.name else ():
            calls = [make(case, which == "both") for make in makers.values()]
            times: list[float | None] = [*measure(calls, arguments.rounds), None][:3]
            ratio = None if times[2] is None else times[0] / times[2]
            TIMES.add(f"{case.name}, {which}", *times, ratio)
    write(arguments.json, {"calls": TIMES})


if __name__ == "__main__":
    main()
