"""Random products with factors of every layout: the same bits from calls, programs, graphs, files and text.

    python -m tests.fuzz.products --cases 20000 --seed 0

BLAS rounds differently for transposed and broadcast factors, and for a matrix times its own transpose. A case
is a number, which determines a product (or its gradients), the layouts of its constants, and what is done to
the factors before: views, and operations that change no value but make a new array.
"""

import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import sknet
from sknet import Tensor, nn, ops
from sknet.compile import capture, compile
from sknet.core import gradients
from sknet.device import Device, to_device, to_host
from sknet.graphs._python import PythonSource
from sknet.optim import SGD
from tests.compile.native import assert_equal_training
from tests.devices import fake
from tests.fuzz.command import run

__all__ = ["LAYOUTS", "Case", "made", "mismatches"]

LENGTHS = (1, 2, 3, 4, 5, 7, 8, 12, 17, 33)
LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "C": lambda x: x,
    "Fortran": np.asfortranarray,
    "uniform": lambda x: np.full_like(x, x.flat[0]),
    "uniform, Fortran": lambda x: np.asfortranarray(np.full_like(x, x.flat[0])),
    "broadcast number": lambda x: np.broadcast_to(x.flat[0], x.shape),
    "broadcast row": lambda x: np.broadcast_to(x[:1].copy(), x.shape),
    "broadcast column": lambda x: np.broadcast_to(x[..., :1].copy(), x.shape),
    "broadcast row, turned": lambda x: np.broadcast_to(x.T[:1].copy(), x.T.shape).T,
}
# What is done to a factor {x} of shape {s}.
BEFORE = """
ops.broadcast_to({x}[:1], {s})
ops.broadcast_to({x}[..., :1], {s})
ops.broadcast_to({x}.sum(), {s})
ops.reshape(ops.reshape({x}, (-1,)), {s})
ops.matrix_transpose(ops.matrix_transpose({x}) * 1) if {n} > 1 else {x}
{x}[::-1]
{x} * 1
{x} + -0.0
{x} / 1.0
0.5 * {x}
-(-{x})
{x}.astype('{d}')
ops.tanh({x})
""".strip().split("\n")
PRODUCTS = """
ops.matmul({x}, {y})
ops.matmul({x}, {y})
ops.matmul({x}, {y})
({x} @ {y}) + 1
({x} @ {y}) * ({x} @ {y})
""".strip().split("\n")
OF_MATRICES = """
ops.tensordot({x}, {y}, 1)
ops.einsum('ij,jk->ki', {x}, {y})
ops.einsum('ji,jk->ik', ops.matrix_transpose({x}), {y})
""".strip().split("\n")
SQUARES = """
ops.matmul({x}, ops.matrix_transpose({x}))
ops.matmul(ops.exp(0.1 * {x}), ops.matrix_transpose(ops.exp(0.1 * {x})))
ops.matmul({x}, ops.matrix_transpose({x} * 1))
""".strip().split("\n")
AFTER = """
{p}
ops.tanh(0.1 * {p}).sum()
{p}.sum()
{p}.mean()
{p}.sum(0)
ops.broadcast_to(({p})[None], (2, *({p}).shape)).sum(0)
ops.stack([{p}, {p}]).mean()
""".strip().split("\n")


@dataclass(frozen=True)
class Case:
    """A program as text, and operands."""

    source: str
    arrays: dict[str, np.ndarray]
    constants: dict[str, np.ndarray]

    def function(self, device: str = "cpu") -> Callable[..., list[Tensor]]:
        """Return the program, a function that returns a list, with its constants on a device."""
        namespace = {"__name__": __name__, "ops": ops, "gradients": gradients}
        namespace |= {name: Tensor(to_device(x, Device(device))) for name, x in self.constants.items()}
        exec(self.source, namespace)
        return namespace["program"]

    def __str__(self) -> str:
        given = {
            name: (x.dtype.name, x.shape, x.strides) for name, x in {**self.arrays, **self.constants}.items()
        }
        return f"{given}\n{self.source}"


def made(number: int) -> Case:
    """Return a case."""
    rng = np.random.default_rng(number)
    dtype = str(rng.choice(["float32", "float64"]))
    n, k, m = (int(length) for length in rng.choice(LENGTHS, 3))
    stacked = [(3, n, k), (k, m)], [(n, k), (3, k, m)], [(3, n, k), (3, k, m)]
    shapes = [[(n, k), (k, m)], [(n, k), (k, m)], [(k,), (k, m)], [(n, k), (k,)], *stacked][rng.integers(7)]
    arrays: dict[str, np.ndarray] = {}
    constants: dict[str, np.ndarray] = {}
    factors = []
    for i, shape in enumerate(shapes):
        is_turned = len(shape) > 1 and rng.random() < 0.4
        values = rng.normal(size=(*shape[:-2], *shape[:-3:-1]) if is_turned else shape).astype(dtype)
        name = f"x{i}" if rng.random() < 0.5 or (i and not arrays) else f"k{i}"
        if name[0] == "x":
            arrays[name] = values
        else:
            constants[name] = LAYOUTS[str(rng.choice(list(LAYOUTS)))](values)
        text = f"ops.matrix_transpose({name})" if is_turned else name
        for _ in range(rng.integers(3)):
            # Constants with gaps between their elements count as copies without.
            changes = [change for change in BEFORE if name in arrays or "[" not in change]
            text = f"({rng.choice(changes)})".format(x=text, s=shape, n=len(shape), d=dtype)
        factors.append(text)
    x, y = factors
    is_square = "x0" in arrays and len(shapes[0]) > 1 and rng.random() < 0.15
    more = OF_MATRICES if all(len(shape) == 2 for shape in shapes) else []
    product = str(rng.choice(SQUARES if is_square else [*PRODUCTS, *more])).format(x=x, y=y)
    result = str(rng.choice(AFTER)).format(p=f"({product})")
    mark, returned = "", f"[{result}]"
    if rng.random() < 0.6:
        mark = "".join(f"    {name}.requires_grad = True\n" for name in arrays)
        returned = f"gradients({result}.sum(), [{', '.join(arrays)}])"
    source = f"def program({', '.join(arrays)}):\n{mark}    return {returned}\n"
    return Case(source, arrays, constants)


# -- the ways to compute --------------------------------------------------------------------------


def _python(function: Any, arrays: list[np.ndarray]) -> Any:
    source, names = PythonSource(), [f"x{i}" for i in range(len(arrays))]
    text = source.function(
        "f",
        "Doc.",
        lambda n: capture(function, *arrays),
        [],
        names,
        result=lambda names: f"[{', '.join(names)}]",
    )
    namespace: dict[str, Any] = {}
    exec("\n\n".join([source.imports, *source.decoder, *source.helpers, *source.arrays, text]), namespace)
    return namespace["f"](*arrays)


def _from_file(graph: Any, arrays: list[np.ndarray]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        sknet.save(graph, Path(folder) / "it")
        return sknet.load(Path(folder) / "it")(*arrays)


def _on_device(case: Case) -> list[Any]:
    kind = fake.FakeBackend.kind
    there = [to_device(x, Device(kind)) for x in case.arrays.values()]
    return [to_host(x) for x in compile(case.function(kind), tuple(there), exact=True)(*there)]


def _found(case: Case, ways: bool) -> Iterator[tuple[str, Any]]:
    function, arrays = case.function(), list(case.arrays.values())
    compiled = compile(function, tuple(arrays), exact=True)
    compiled.poison()
    yield "exact", compiled(*arrays)
    if ways:
        graph = capture(function, *arrays)
        yield "graph", graph(*arrays)
        yield "pickle", pickle.loads(pickle.dumps(graph))(*arrays)
        yield "file", _from_file(graph, arrays)
        yield "python", _python(function, arrays)
        yield "device", _on_device(case)


def mismatches(case: Case, ways: bool = True) -> list[str]:
    """Return the ways that give other bits than calls do; all ways are tried, or only programs.

    A device has products of its own, so its results may differ in rounding.
    """
    expected = [x.numpy() for x in case.function()(*map(Tensor, case.arrays.values()))]
    wrong = []
    for way, results in _found(case, ways):
        found = [np.asarray(x.data if isinstance(x, Tensor) else x) for x in results]
        is_same = _is_near if way == "device" else np.array_equal
        if any(a.dtype != b.dtype or not is_same(a, b) for a, b in zip(found, expected, strict=True)):
            wrong.append(way)
    return wrong


def _is_near(a: np.ndarray, b: np.ndarray) -> bool:
    limit = np.finfo(a.dtype).eps ** 0.75
    return a.shape == b.shape and bool(np.abs(a - b).max() <= limit * max(1.0, np.abs(b).max()))


class Trained(nn.Module):
    """A program whose arrays are parameters."""

    def __init__(self, case: Case) -> None:
        self.program = case.function()
        self.names = list(case.arrays)
        for name, x in case.arrays.items():
            setattr(self, name, nn.Parameter(x))

    def forward(self, x: Tensor) -> Tensor:
        """Return a column that depends on the results."""
        results = self.program(*[getattr(self, name) for name in self.names])
        total = sum((result.sum() for result in results), Tensor(np.zeros((), x.dtype)))
        return x * ops.tanh(0.01 * total)


def check_native(case: Case) -> None:
    """Train by NumPy's plan and in native code, and compare all bits."""
    dtype = next(iter(case.arrays.values())).dtype.name
    X = np.linspace(-1, 1, 6, dtype=dtype)[:, None]
    settings = {"loss": "squared_error", "optimizer": SGD(0.01), "check_finite": False}
    steps = assert_equal_training(lambda: Trained(case), X, 1 - X, size=2, dtype=dtype, epochs=2, **settings)
    assert any(steps.runs), "the case does not run in native code"


def mismatch(number: int) -> str | None:
    """Return what is wrong with a case, and the case; None if nothing is."""
    case = made(number)
    with np.errstate(all="ignore"):
        found = mismatches(case, ways=number % 2 == 0)
    return f"-- case {number}: {', '.join(found)}: {case}" if found else None


if __name__ == "__main__":
    sys.exit(run(mismatch, __doc__, cases=1000))
