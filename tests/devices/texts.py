"""The text of all kernels that the device executor writes for the tables of the contract tests.

Programs are compiled for the fake device, which records their modules. Kernels that differ in nothing but the
names of variables are one.
"""

import itertools
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from sknet import Model, nn, ops
from sknet.autograd import value_and_grad
from sknet.compile import compile
from sknet.compile._compile import forget_programs
from sknet.compile.cuda._maps import TYPES
from sknet.device import Device, active, backend, to_device
from sknet.engine import Batches
from sknet.engine._device_runner import OF_CLASSES, OF_LABELS, DeviceSteps, Left, Ring, Taken, kernel_of
from sknet.engine._scheduler import Fiber
from sknet.engine._stack import MemberSteps, Stack, StackPlan, StackRing
from sknet.losses import SquaredError
from sknet.optim import SGD, Adam
from tests.compile.executors.device import test_reductions as reductions
from tests.compile.executors.device.test_executor import INTEGERS, at_limits, is_elementwise, layouts
from tests.compile.executors.device.test_rows import random_rows
from tests.compile.test_ops import arrays_of, function_of, is_captured
from tests.compile.test_plan import SHAPE, random_function
from tests.contracts import test_executors as elementwise
from tests.contracts.checks import FLOATS
from tests.contracts.rows import ROWS
from tests.contracts.test_training_step import LOSS_CASES, OPTIMIZERS, Shaped, headed, rows_of
from tests.devices import fake, kernels
from tests.engine.loop.test_device_steps import LAYERS as NETWORKS
from tests.engine.loop.test_device_steps import data, steps_of
from tests.engine.test_optimizers import AVERAGING, BY_NAME
from tests.engine.test_optimizers import ELEMENTWISE as COMBINED
from tests.nn.layers.test_contract import ROWS as LAYERS
from tests.optim.helpers import with_eps
from tests.trees import map_leaves

__all__ = ["PROGRAMS", "Kernel", "gathered"]

SHARED = 200_000  # bytes of shared memory of a block of threads
OPTED_IN = 232_448  # those of an H100's
DEVICE = Device(fake.FakeBackend.kind)
Programs = Iterator[tuple[str, Callable[[], object]]]


class Kernel(NamedTuple):
    """The text of a kernel, that of the functions it may call, and the first program that has it."""

    text: str
    helpers: str
    program: str

    def named(self, name: str) -> str:
        """Return the text with another name, so that kernels of many modules can be compiled as one."""
        return HEAD.sub(rf"\g<1>{name}(", self.text, count=1)


HEAD = re.compile(r'(extern "C" __global__ void (?:__\w+__\([^)]*\) )*)(\w+)\(')
VARIABLE = re.compile(r"\b[a-z]\d+(?=\b|_row\b|_s\d\b)")


def _on_device(tree: Any) -> Any:
    return map_leaves(lambda x: to_device(x, DEVICE) if isinstance(x, np.ndarray) else x, tree)


def _compiled(function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[[], object]:
    return lambda: compile(function, _on_device(args))


# -- programs ---------------------------------------------------------------------------------


def of_ops() -> Programs:
    """Every case of every op, with its gradients, in both precisions; a program for each op."""
    for row in ROWS:
        for dtype in FLOATS:
            cases = [case for case in row.cases if is_captured(row, case)]
            if cases:
                functions = [function_of(row, case) for case in cases]
                args = tuple(arrays_of(case, dtype, 0) for case in cases)
                yield f"{row.op} in {dtype}", _compiled(_each(functions), args)


def _each(functions: list[Callable[..., Any]]) -> Callable[..., list[Any]]:
    return lambda *operands: [f(*given) for f, given in zip(functions, operands, strict=True)]


def of_records() -> Programs:
    """Every elementwise record in every dtype that C has, and ops of integers."""
    for dtype in TYPES:
        for applied in elementwise.applications(dtype):
            name = f"the record {applied.primitive.name} in {dtype}"
            yield name, _compiled(elementwise.function_of([applied]), tuple(applied.arrays))
    for row in ROWS:
        for number, case in enumerate(row.cases):
            if is_elementwise(row, case):
                args = tuple(arrays_of(case, "int64", 1))
                yield f"case {number} of {row.op} in int64", _compiled(function_of(row, case), args)
    for dtype in INTEGERS:
        yield f"limits of {dtype}", _compiled(at_limits(dtype), (np.zeros(3, dtype),))


def _step(name: str, module: nn.Module, X: Any, y: Any, weight: Any = None, **settings: Any) -> Programs:
    def steps() -> DeviceSteps:
        model = Model(module.copy(), random_state=0, device=DEVICE, **settings)
        batches = Batches(X, y, weight, settings.get("size", len(X)), model.dtype, model.device)
        model.materialize(batches.X)
        return DeviceSteps(model, batches, True)

    yield f"a step of {name} in {settings['dtype']}", steps


def of_layers() -> Programs:
    """A training step of every layer, and of networks of several."""
    for dtype in FLOATS:
        for row in LAYERS:
            module, x, y = headed(row, dtype)
            yield from _step(
                row, module, x, y, loss=SquaredError(), optimizer=SGD(1e-3, 0.9), alpha=0.1, dtype=dtype
            )
        for name, make in NETWORKS.items():
            X, y = data(dtype=dtype)
            yield from _step(f"the network {name}", make(), X, y, loss="log_loss", alpha=1e-3, dtype=dtype)


def of_losses() -> Programs:
    """A training step of every loss, with weights of samples and without."""
    for dtype in FLOATS:
        for case, shape in (each.values for each in LOSS_CASES):
            X, target, _ = rows_of(case, shape, dtype)
            settings = {"loss": case.loss, "optimizer": SGD(1e-3), "alpha": 0.01, "dtype": dtype}
            for weight in (None, np.linspace(0.5, 2.0, shape[0]).astype(dtype)):
                weighted = "" if weight is None else ", weighted"
                name = f"{case.loss!r} of {shape}{weighted}"
                yield from _step(name, Shaped(shape[1:]), X, target, weight, **settings)


def of_optimizers() -> Programs:
    """A training step of every optimizer and combinator."""
    rng = np.random.default_rng(0)
    for dtype in FLOATS:
        X, y = rng.normal(size=(8, 4)).astype(dtype), rng.normal(size=(8, 3)).astype(dtype)
        for optimizer in [*(case.optimizer for case in OPTIMIZERS), *COMBINED, *BY_NAME, *AVERAGING]:
            module = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm(6), nn.Tanh(), nn.Linear(6, 3))
            settings = {"loss": SquaredError(), "optimizer": with_eps(optimizer, 1e-8), "dtype": dtype}
            yield from _step(repr(optimizer), module, X, y, alpha=1e-3, **settings)


SIZES = {4096: (54, 512, 512, 7), 8192: (784, 1024, 1024, 10), 256: (20, 100, 2), 65_536: (20, 50, 16)}


def of_sizes() -> Programs:
    """Steps of the sizes that fits have, where indices and numbers of blocks are large."""
    for (rows, widths), dtype in itertools.product(SIZES.items(), ("float32", "tf32")):
        pairs = list(pairwise(widths))
        layers = [part for pair in pairs for part in (nn.Linear(*pair), nn.ReLU())][:-1]
        X, y = np.zeros((rows, widths[0]), np.float32), np.arange(rows) % widths[-1]
        settings = {"loss": "log_loss", "optimizer": Adam(), "alpha": 1e-4, "dtype": dtype}
        name, module = "-".join(map(str, widths)), nn.Sequential(*layers)
        for of, make in _step(f"{name}, {dtype}", module, X, y, **settings):
            yield of, partial(_with_end, make, rows)


def _with_end(make: Callable[[], Any], rows: int) -> Any:
    """Return the steps, whose last kernel takes the next rows, too."""
    steps = make()
    steps._launches(rows, None)
    return steps


def of_reductions() -> Programs:
    """Every reduction of every dtype, shared among threads in every way; of views, and after maps."""
    for how, (shape, axes) in reductions.SHAPES.items():
        for dtype in reductions.DTYPES:
            yield f"{how} in {dtype}", _compiled(_every(axes), (np.zeros(shape, dtype),))
        yield f"{how}, with maps", _compiled(_after_maps(axes), (np.zeros(shape), np.zeros(shape)))
        yield f"{how}, squared", _compiled(ops.sum_squares, (np.zeros(shape), np.zeros(shape, np.float32)))
    for view, function in reductions.VIEWS.items():
        yield view, _compiled(lambda x, of=function: ops.sum(of(x), 0), (np.zeros((40, 300)),))
    for n in (1, 300, 70_000):
        yield f"products of {n}", _compiled(lambda x: ops.matmul(x, x[::-1]), (np.zeros(n),))


def _every(axes: tuple[int, ...]) -> Callable[..., Any]:
    return lambda x: [getattr(ops, op)(x, axes) for op in reductions.OPS]


def _after_maps(axes: tuple[int, ...]) -> Callable[..., Any]:
    return lambda x, y: (ops.sum(ops.exp(x - y), axes), ops.max(x - y, axes), ops.tanh(x - y))


def of_graphs() -> Programs:
    """Random graphs, of short rows too, and views of every kind."""
    for seed in range(20):
        yield f"random graph {seed}", _compiled(random_function(seed), (np.empty(SHAPE),) * 3)
        function, arrays = random_rows(seed)
        yield f"random rows {seed}", _compiled(function, tuple(arrays))
    for dtype in FLOATS:
        images, kernels = np.empty((3, 16, 7, 8), dtype), np.empty((17, 16, 3, 3), dtype)
        convolved = value_and_grad(lambda x, w: ops.sum(ops.sin(ops.conv2d(x, w, padding=1))), (0, 1))
        yield f"convolutions by tiles in {dtype}", _compiled(convolved, (images, kernels))
    shapes = (np.empty((5, 6)), np.empty(6), np.empty((5, 1)))
    yield "views of every kind", _compiled(layouts, shapes)


PROGRAM: Any = SimpleNamespace(run=lambda: None)  # whose last kernel stays as it is


def of_blocks() -> Programs:
    """What steps of a block begin and end with."""
    for dtype in [*FLOATS, "float16"]:
        for n_rows, n_numbers, width in ((1, 1, 1), (8, 3, 7), (8192, 3, 10)):

            def make(
                dtype: Any = dtype, n_rows: int = n_rows, n: int = n_numbers, width: int = width
            ) -> Ring:
                zeros = backend(DEVICE.kind).zeros
                order, report, output, X, narrow = (
                    zeros(shape, of, DEVICE)
                    for shape, of in [
                        ((n_rows,), np.int64),
                        ((3,), dtype),
                        ((n_rows, width), dtype),
                        ((width, n_rows), dtype),
                        ((n_rows, width), np.int8),
                    ]
                )
                ring = Ring(DEVICE, zeros((n,), dtype, DEVICE), 4, dtype)
                taken = [
                    Taken(order, *x)
                    for x in ((X.T, output), (output, output), (narrow, narrow), (order, order))
                ]
                for outputs in (None, output):
                    ring.turn(PROGRAM, n_rows, taken, Left(report, output, outputs), is_plain=False)
                return ring

            yield f"a block of steps on {n_rows} rows in {dtype}", make


def of_stacks() -> Programs:
    """Steps of several fits at once, and what such steps begin and end with."""
    for dtype in FLOATS:
        for n_rows, n_numbers, n_fits, width in ((1, 1, 2, 1), (8, 3, 5, 7), (256, 3, 1000, 10)):

            def make(
                dtype: Any = dtype,
                n_rows: int = n_rows,
                n: int = n_numbers,
                m: int = n_fits,
                width: int = width,
            ) -> StackRing:
                zeros = backend(DEVICE.kind).zeros
                shapes = (m, 9), (20, width), (m, n_rows, width), (m, 3), (m, 9, width)
                dtypes = np.int64, dtype, dtype, dtype, dtype
                order, source, slot, report, outputs = (
                    zeros(shape, of, DEVICE) for shape, of in zip(shapes, dtypes, strict=True)
                )
                ring = StackRing(DEVICE, zeros((n, m), dtype, DEVICE), 4, 9, dtype)
                taken = [Taken(order, source, slot), Taken(order, order[0], order[:, :n_rows].copy())]
                for left in (Left(report, slot, None), Left(report, slot, outputs)):
                    ring.turn(PROGRAM, n_rows, taken, left, is_plain=False)
                return ring

            yield f"a block of steps of {n_fits} fits on {n_rows} rows in {dtype}", make
        for name in ("dropout", "batch norm", "attention"):

            def stacked(dtype: Any = dtype, name: str = name) -> Stack:
                settings = {"optimizer": Adam(), "alpha": 1e-3, "dtype": dtype, "device": DEVICE}
                models = [Model(NETWORKS[name](), "log_loss", random_state=i, **settings) for i in range(3)]
                return _stack_of(models, *data(dtype=dtype))

            yield f"three fits of the network {name} in {dtype}", stacked


def _stack_of(models: list[Model], X: Any, y: Any) -> Stack:
    slots, shared, members = threading.Semaphore(1), {}, []
    for i, model in enumerate(models):
        batches = Batches(X, y, None, 8, model.dtype, model.device)
        model.materialize(batches.X)
        members.append(MemberSteps(model, batches, True, Fiber(i, slots, shared)))
    return Stack(StackPlan(members))


def of_blocks_in_one_launch() -> Programs:
    """Blocks of steps of small networks, and of several of them, as one kernel each."""

    def block(layers: Callable[[], nn.Module], X: Any, y: Any, n_fits: int, **settings: Any) -> Any:
        with fake.sharing(SHARED):
            models = [Model(layers(), random_state=i, device=DEVICE, **settings) for i in range(n_fits)]
            if n_fits > 1:
                return _stack_of(models, X, y)._whole_block(8, None)
            batches = Batches(X, y, None, 8, models[0].dtype, DEVICE)
            models[0].materialize(batches.X)
            return DeviceSteps(models[0], batches, True)._whole_block(8, None)

    for dtype in FLOATS:
        X, y = data(dtype=dtype)
        for name, optimizer in {"gelu": SGD(1e-3, 0.9), "dropout": Adam(), "batch norm": Adam()}.items():
            settings = {"loss": "log_loss", "optimizer": optimizer, "alpha": 1e-3, "dtype": dtype}
            for n_fits in (1, 3):
                title = f"a block of {n_fits} fits of the network {name} in {dtype}"
                yield title, partial(block, NETWORKS[name], X, y, n_fits, **settings)


CLUSTERS = [
    ((20, 100, 2), 256, "float32", lambda: [nn.GELU(), nn.Dropout(0.2)]),
    ((30, 64, 64, 10), 256, "float32", lambda: [nn.ReLU()]),
    ((20, 100, 2), 96, "float64", lambda: [nn.Tanh(), nn.Dropout(0.2)]),
]


def of_clusters() -> Programs:
    """Blocks of steps that a cluster of blocks makes as one kernel, on sm_90 and later."""

    def block(widths: tuple[int, ...], size: int, dtype: str, between: Callable[[], list[nn.Module]]) -> Any:
        layers = [part for pair in pairwise(widths) for part in (nn.Linear(*pair), *between())]
        network = nn.Sequential(*layers[: -len(between())])
        X, y, weight = (
            np.zeros((2 * size, widths[0]), dtype),
            np.arange(2 * size) % 2,
            np.ones(2 * size, dtype),
        )
        settings = {"optimizer": Adam(), "alpha": 1e-3, "random_state": 0, "dtype": dtype, "device": DEVICE}
        with fake.sharing(OPTED_IN, 8):
            model = Model(network, "log_loss", **settings)
            batches = Batches(X, y, weight if len(widths) < 4 else None, size, model.dtype, DEVICE)
            model.materialize(batches.X)
            return DeviceSteps(model, batches, True)._whole_block(size, None)

    for given in CLUSTERS:
        yield f"a cluster for {given[:3]}", partial(block, *given)


def of_halves() -> Programs:
    """Steps whose arrays between products are of bfloat16: wide loads and single ones, last layers, sums."""
    activations = {"relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh, "dropout": nn.Dropout}
    for name, activation in activations.items():
        for widths, size in (((54, 512, 512, 7), 4096), ((100, 515, 333, 40), 1000)):
            make = partial(steps_of, widths, size, DEVICE, "bfloat16", activation)
            yield f"a step of {widths} with {name}", lambda make=make, size=size: make().program_for(size)

    def function(x: Any, w: Any) -> Any:
        h = ops.tanh(ops.matmul(x, w))
        return ops.matmul(h, w), ops.sum(h, axis=0), ops.sum(h), ops.max(h, axis=1), ops.sum(ops.square(h))

    def product() -> Any:
        with active(DEVICE, "bfloat16"):
            return _compiled(function, (np.empty((512, 512), "f4"),) * 2)()

    yield "reductions of bfloat16", product

    def rows(width: int) -> None:
        of = [((64,), np.int64), ((64, width), "f4"), ((64, 48), np.uint16), ((3,), "f4"), ((64, 3), "f4")]
        order, X, slot, report, output = (backend(DEVICE.kind).zeros(*each, DEVICE) for each in of)
        taken = [Taken(order, X, slot)]
        Ring(DEVICE, report, 4, "f4").turn(PROGRAM, 64, taken, Left(report, output, None), is_plain=False)

    for width in (43, 48):
        yield f"rows of {width} numbers that are rounded", partial(rows, width)


def of_scores() -> Programs:
    """What counts right labels."""
    for dtype in FLOATS:
        for columns in (1, 2, 1000):
            for of_row, targets in ((OF_CLASSES, ("int32", "int64")), (OF_LABELS, ("float32", "float64"))):
                for target in targets:
                    name = f"labels of {target} at {columns} outputs of {dtype}"
                    make = kernel_of.__wrapped__
                    yield name, partial(make, of_row, np.dtype(dtype).name, target, columns, 0.5, DEVICE)


PROGRAMS = {
    "ops": of_ops, "records": of_records, "layers": of_layers, "losses": of_losses,
    "optimizers": of_optimizers, "sizes": of_sizes, "reductions": of_reductions, "graphs": of_graphs,
    "blocks": of_blocks, "persistent": of_blocks_in_one_launch, "stacks": of_stacks, "scores": of_scores,
    "halves": of_halves, "clusters": of_clusters,
}  # fmt: skip


# -- texts ------------------------------------------------------------------------------------


def gathered(programs: Programs) -> tuple[dict[str, str], dict[str, Kernel]]:
    """Return the modules of some programs, by text the program; and their kernels, by text without names."""
    modules: dict[str, str] = {}
    forget_programs()  # what an earlier test has compiled would not be written again
    with kernels.recorded() as texts, np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of losses that are near their limits
        for name, make in programs:
            make()
            modules.update((text, name) for text in texts if text not in modules)
    found: dict[str, Kernel] = {}
    for module, name in modules.items():
        for kernel in _kernels(module, name):
            found.setdefault(_anonymous(kernel), kernel)
    return modules, found


def _kernels(module: str, program: str) -> list[Kernel]:
    starts = [match.start() for match in HEAD.finditer(module)]
    ends = [*starts[1:], len(module)]
    helpers = module[: starts[0]]
    return [Kernel(module[start:end], helpers, program) for start, end in zip(starts, ends, strict=True)]


def _anonymous(kernel: Kernel) -> str:
    names: dict[str, str] = {}
    return VARIABLE.sub(lambda found: names.setdefault(found[0], f"n{len(names)}_"), kernel.named("kernel"))
