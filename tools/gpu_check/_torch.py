"""The same training step in PyTorch: as written, and as one CUDA graph with the fused Adam."""

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from typing import Any

from tools.gpu_check._found import Skipped
from tools.gpu_check._timed import per_call

__all__ = ["Rival", "launches", "load", "products_in", "profiled", "seconds"]

WARM_UP = 5
# PyTorch's names of precisions; it has none of three products.
MATMUL = {"float32": "highest", "tf32": "high", "tf32x3": "highest", "bfloat16": "high"}


def load() -> Any:
    """Import PyTorch; skip if it is missing or has no CUDA."""
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise Skipped(f"PyTorch is not installed ({error})") from error
    if not torch.cuda.is_available():
        raise Skipped(f"PyTorch {torch.__version__} finds no CUDA device")
    return torch


class Rival:
    """A perceptron in PyTorch, its data on the device, and its training step."""

    def __init__(
        self,
        torch: Any,
        sizes: Sequence[int],
        batch: int,
        n_batches: int,
        device: str,
        dtype: str = "float32",
    ) -> None:
        self._torch, self._batch, self._n_batches = torch, batch, n_batches
        self._kind, self._dtype = device.partition(":")[0], dtype
        torch.manual_seed(0)
        n, layers = batch * n_batches, torch.nn.Sequential()
        for n_in, n_out in pairwise(sizes[:-1]):
            layers.extend([torch.nn.Linear(n_in, n_out), torch.nn.ReLU()])
        layers.append(torch.nn.Linear(sizes[-2], sizes[-1]))
        self.network = layers.to(device)
        self.optimizer = torch.optim.Adam(
            layers.parameters(), lr=1e-3, fused=True, capturable=device.startswith("cuda")
        )
        self._X = torch.randn(n, sizes[0], device=device)
        self._y = torch.randint(sizes[-1], (n,), device=device)
        self._order = torch.randperm(n, device=device)
        self._rows = self._order[:batch].clone()
        self._next = 0
        self.loss: Any = None

    def train(self) -> None:
        """Run one step on the rows that were chosen."""
        with self._precision():
            output = self.network(self._X[self._rows])
            self.loss = self._torch.nn.functional.cross_entropy(output, self._y[self._rows])
        self.optimizer.zero_grad(set_to_none=True)
        self.loss.backward()
        self.optimizer.step()

    def _precision(self) -> Any:
        """Return the context of a forward pass."""
        if self._dtype != "bfloat16":
            return nullcontext()
        # A graph must convert the weights anew in each step.
        return self._torch.autocast(self._kind, dtype=self._torch.bfloat16, cache_enabled=False)

    def choose(self) -> None:
        """Choose the rows of the next step."""
        start = self._next * self._batch
        self._rows.copy_(self._order[start : start + self._batch])
        self._next = (self._next + 1) % self._n_batches

    def eager(self) -> None:
        """Run the next step, launch by launch."""
        self.choose()
        self.train()

    def captured(self) -> Callable[[], None]:
        """Return what runs the next step as one CUDA graph."""
        torch = self._torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                self.train()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            self.train()

        def step() -> None:
            self.choose()
            graph.replay()

        return step


@contextmanager
def products_in(torch: Any, dtype: str) -> Iterator[None]:
    """Let PyTorch multiply float32 matrices in a precision."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(MATMUL[dtype])
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def seconds(
    sizes: Sequence[int], batch: int, n_batches: int, calls: int, dtype: str = "float32"
) -> dict[str, float]:
    """Return PyTorch's seconds of a step, eager and as a graph."""
    torch = load()
    with products_in(torch, dtype):
        # Gradients are accumulated on the stream of the first step, so what is captured has never run before.
        eager, graph = (Rival(torch, sizes, batch, n_batches, "cuda", dtype) for _ in range(2))
        return {
            "torch eager": per_call(eager.eager, torch.cuda.synchronize, calls),
            "torch graph": per_call(graph.captured(), torch.cuda.synchronize, calls),
        }


def launches(function: Callable[[], Any]) -> int:
    """Return how many kernels and copies a function runs on the device, as PyTorch's profiler sees them."""
    return len(profiled(function))


def profiled(function: Callable[[], Any]) -> list[tuple[str, float]]:
    """Return name and seconds of each kernel and copy that a function runs on the device."""
    torch = load()
    kinds = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as profile:
        function()
        torch.cuda.synchronize()
    on_device = torch.autograd.DeviceType.CUDA
    events = (event for event in profile.events() if event.device_type == on_device)
    return [(event.name, event.time_range.elapsed_us() * 1e-6) for event in events]
