"""Random programs of 3 to 15 steps: eager, compiled and native results agree with PyTorch's.

``python -m tests.fuzz.programs --cases 20000 --seed 0`` runs as many as requested and prints mismatches.
Values and gradients are compared, in float64 and float32, with lengths of 0 and 1 among the shapes. Integer
programs have only values. ``--device N`` runs every Nth program on the fake device of the tests, whose
kernels are compiled as C, and ``--native N`` every Nth as the step of a network.
"""

import sys
import traceback
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from sknet import Tensor, nn, ops
from sknet.compile import compile
from sknet.core import gradients
from sknet.device import Device, to_device, to_host
from sknet.exceptions import CaptureError
from sknet.optim import SGD
from tests.compile.native import InspectedSteps, trained
from tests.fuzz.command import run_kinds
from tests.fuzz.steps import KINDS, KINDS_OF_INTEGERS, Drawer, Step
from tests.trees import map_leaves

SHAPES: tuple[tuple[int, ...], ...] = (
    (3, 4), (3, 4), (3, 4), (4,), (3, 1), (1, 4), (), (1,), (1, 1), (4, 3), (2, 3, 4), (2, 1, 4), (5,),
    (4, 4), (0, 4), (3, 0), (0,), (2, 0, 4),
)  # fmt: skip
INTEGERS = ("int8", "uint8", "int16", "int32", "int64", "uint16", "uint32", "uint64")
TOLERANCE = {"float64": 1e-11, "float32": 2e-4}


class Program(NamedTuple):
    """A program: the input arrays, the steps, and the results among the values."""

    arrays: list[np.ndarray]
    steps: list[Step]
    results: list[int]

    @property
    def is_real(self) -> bool:
        """Whether it computes with real numbers, and so has gradients."""
        return self.arrays[0].dtype.kind == "f"

    def __str__(self) -> str:
        given = ", ".join(f"{x.dtype}{list(x.shape)}" for x in self.arrays)
        return f"given {given}: {'; '.join(step.name for step in self.steps)}; results {self.results}"

    def ours(self, values: list[Any]) -> list[Any]:
        """Return the results of sknet's functions."""
        values = list(values)
        for step in self.steps:
            values.append(step.ours(values))
        return [values[i] for i in self.results]

    def theirs(self, values: list[Any]) -> list[Any]:
        """Return the results of PyTorch's functions."""
        values = list(values)
        for step in self.steps:
            values.append(step.theirs(values))
        return [values[i] for i in self.results]


def draw(seed: int) -> Program:
    """Return the program of a seed."""
    import torch

    rng = np.random.default_rng(seed)
    real = rng.random() < 0.85
    dtype = str(rng.choice(["float64", "float32"], p=[0.7, 0.3]) if real else rng.choice(INTEGERS[:5]))
    shapes = [SHAPES[int(rng.integers(len(SHAPES)))] for _ in range(int(rng.integers(1, 5)))]
    arrays = [_array(rng, shape, dtype) for shape in shapes]
    drawer = Drawer(rng, torch, dtype, list(shapes))
    values = [torch.tensor(x) for x in arrays]
    steps: list[Step] = []
    kinds = KINDS if real else KINDS_OF_INTEGERS
    for _ in range(int(rng.integers(3, 16))):
        step = None
        while step is None or not _takes(step, values):
            step = drawer.choice(kinds)(drawer)
        steps.append(step)
        drawer.shapes.append(tuple(values[-1].shape))
    last = len(values) - 1
    results = [last, *(int(i) for i in rng.integers(len(arrays), last + 1, int(rng.integers(0, 3))))]
    return Program(arrays, steps, results)


def _array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype.startswith("float"):
        return np.asarray(rng.normal(size=shape)).astype(dtype)
    return np.asarray(rng.integers(0 if dtype.startswith("u") else -9, 10, shape)).astype(dtype)


def _takes(step: Step, values: list[Any]) -> bool:
    """Append PyTorch's result of a step, if it can be compared."""
    import torch

    with torch.no_grad():
        value = step.theirs(values)
    if value.numel() > 600 or value.ndim > 4 or value.dtype == torch.bool:
        return False
    if value.dtype.is_floating_point and not (value.isfinite().all() and (value.abs() < 1e3).all()):
        return False
    if value.dtype != values[0].dtype:
        return False
    values.append(value)
    return True


# -- running ------------------------------------------------------------------------------------


def _weight(shape: tuple[int, ...], number: int, dtype: Any) -> np.ndarray:
    rng = np.random.default_rng((len(shape), number))
    return np.asarray(rng.uniform(0.5, 1.5, shape)).astype(dtype)


def torch_results(
    program: Program, arrays: list[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray | None]]:
    """Return PyTorch's results, and gradients of their weighted sum (None where it does not exist)."""
    import torch

    leaves = [torch.tensor(x, requires_grad=program.is_real) for x in arrays]
    results = program.theirs(leaves)
    if not program.is_real:
        return [x.numpy() for x in results], []
    total = sum(
        (x * torch.tensor(_weight(tuple(x.shape), i, arrays[0].dtype))).sum() for i, x in enumerate(results)
    )
    found = (
        torch.autograd.grad(total, leaves, allow_unused=True) if total.requires_grad else [None] * len(leaves)
    )
    return [x.detach().numpy() for x in results], [None if g is None else g.numpy() for g in found]


def weighted_sum(results: list[Any]) -> Any:
    """Return the scalar whose gradient is taken."""
    total: Any = 0.0
    for number, x in enumerate(results):
        total = total + (x * Tensor(_weight(x.shape, number, x.dtype), device=x.device)).sum()
    return total


def function_of(program: Program, wanted: list[bool]) -> Any:
    """Return a pure function of the arrays: results, and the requested gradients."""

    def function(*given: Any) -> Any:
        leaves = [x.detach() for x in given]
        if not program.is_real:
            return program.ours(leaves), []
        for x in leaves:
            x.requires_grad = True
        results = program.ours(leaves)
        inputs = [x for x, is_wanted in zip(leaves, wanted, strict=True) if is_wanted]
        return results, gradients(weighted_sum(results), inputs) if inputs else []

    return function


class Trainable(nn.Module):
    """A network with one output: the program's weighted sum, with parameters as its arrays."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.given = nn.ParameterList(*[nn.Parameter(x.copy()) for x in program.arrays])

    def forward(self, x: Any) -> Any:
        return x * ops.sin(weighted_sum(self.program.ours(list(self.given))))


def difference(found: Any, expected: np.ndarray) -> float:
    """Return the largest difference, relative to the largest number or 1."""
    found = np.asarray(found)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype), (
        found.shape,
        found.dtype,
        expected.shape,
        expected.dtype,
    )
    if not expected.size:
        return 0.0
    a, b = found.astype(float), expected.astype(float)
    return float(np.nan_to_num(np.abs(a - b), nan=np.inf).max() / max(1.0, np.abs(b).max()))


def largest(found: Any, expected: Any) -> float:
    """Return the largest difference between results and gradients."""
    pairs = [
        (a, b)
        for mine, theirs in zip(found, expected, strict=True)
        for a, b in zip(mine, theirs, strict=True)
    ]
    return max([difference(a, b) for a, b in pairs], default=0.0)


def sensitivity(program: Program, expected: Any) -> float:
    """Return how much PyTorch's results differ if the inputs differ in the last places."""
    found = 0.0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        eps = np.finfo(program.arrays[0].dtype).eps
        arrays = [(x * (1 + 4 * eps * rng.choice([-1, 1], x.shape))).astype(x.dtype) for x in program.arrays]
        values, grads = torch_results(program, arrays)
        found = max(found, largest((values, [g for g in grads if g is not None]), expected))
    return found


def problems(program: Program, on_device: bool, natively: bool) -> Iterator[tuple[str, str]]:
    """Run a program in every way; yield the kind of each mismatch, and a sentence."""
    values, grads = torch_results(program, program.arrays)
    wanted = [g is not None for g in grads] if grads else [False] * len(program.arrays)
    expected = values, [g for g in grads if g is not None]
    function, arrays = function_of(program, wanted), tuple(program.arrays)
    tolerance = TOLERANCE[arrays[0].dtype.name] if program.is_real else 0.0

    def compared(kind: str, found: Any) -> Iterator[tuple[str, str]]:
        gap = largest(found, expected)
        if gap > tolerance:
            by_rounding = sensitivity(program, expected) if program.is_real else 0.0
            bad = gap > 100 * by_rounding
            yield kind if bad else "ill-conditioned", f"{kind} {gap:.1e}, by rounding {by_rounding:.1e}"

    eager = map_leaves(lambda x: x.numpy(), function(*map(Tensor, arrays)))
    yield from compared("eager", eager)
    for exact in (True, False):
        try:
            compiled = compile(function, arrays, exact=exact)
        except CaptureError as error:
            if "is changed in place" not in str(error):
                raise
            yield "not captured", str(error)
            return
        compiled(*(x * 0 + 1 for x in arrays))
        compiled.poison()
        found = compiled(*arrays)
        if exact and (gap := largest(found, eager)):
            yield "bits", f"{gap:.1e}"
        yield from compared("exact" if exact else "relaxed", found)
    if on_device:
        yield from compared("device", _on_device(function, arrays))
    if natively and program.is_real and all(wanted) and all(x.size for x in arrays):
        yield from _natively(program, expected)


def _on_device(function: Any, arrays: tuple[np.ndarray, ...]) -> Any:
    from tests.devices import fake

    device = Device(fake.FakeBackend.kind)
    there = [to_device(x, device) for x in arrays]
    compiled = compile(function, tuple(there))
    compiled.poison()
    return map_leaves(to_host, compiled(*there))


def _natively(program: Program, expected: Any) -> Iterator[tuple[str, str]]:
    """Compare one step of gradient descent in native code with one by PyTorch's gradients."""
    dtype = program.arrays[0].dtype
    X, y = np.ones((2, 1), dtype), np.zeros((2, 1), dtype)
    model, losses, _, _ = trained(
        InspectedSteps, Trainable(program), X, y, size=2, dtype=str(dtype), loss="squared_error",
        optimizer=SGD(0.01), check_finite=False,
    )  # fmt: skip
    total = sum(
        float((x.astype(float) * _weight(x.shape, i, dtype)).sum()) for i, x in enumerate(expected[0])
    )
    slope = 0.01 * np.sin(total) * np.cos(total)
    names = [name for name, _ in model.module.named_parameters()]
    gaps = [abs(float(losses[0]) - np.sin(total) ** 2 / 2)]
    for name, before, gradient in zip(names, program.arrays, expected[1], strict=True):
        after = before - slope * gradient
        gaps.append(float(np.abs(model.state.parameters[name] - after).max() / max(1.0, np.abs(after).max())))
    if max(gaps) > TOLERANCE[dtype.name] * max(1.0, abs(total)):
        by_rounding = sensitivity(program, expected)
        kind = "native" if max(gaps) > 100 * by_rounding else "ill-conditioned"
        yield kind, f"native {max(gaps):.1e}, by rounding {by_rounding:.1e}"


def checked(seed: int, device: bool = False, native: bool = False) -> list[tuple[str, str]]:
    """Return what is wrong with the program of a seed, and what to count."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return list(problems(draw(seed), device, native))
        except Exception as error:
            return [(f"raised {type(error).__name__}", traceback.format_exc(limit=-6))]


if __name__ == "__main__":
    every = {"device": 0, "native": 3}
    sys.exit(run_kinds(checked, lambda seed: f"seed {seed}: {draw(seed)}", __doc__, every))
