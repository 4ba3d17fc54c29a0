"""A table of a module's layers: shapes, parameters, work and memory, found without computing anything."""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from numpy.typing import DTypeLike

from sknet._params import named_errors
from sknet._tree import leaves, map_leaves
from sknet.core import Primitive, Tensor
from sknet.nn._hooks import Hooks
from sknet.nn._lazy import Shadow, copy_for_shapes, shadows, shape_pass
from sknet.nn._module import Module

# -- work: one rule for each primitive that does more or less than one operation per element ------


def _product(operands: list[Any], result: Shadow) -> int:
    return int(2 * result.size * operands[0].shape[-1])


def _convolution(operands: list[Any], result: Shadow) -> int:
    """Each element of the result is a sum over the kernel of its filter."""
    return int(2 * result.size * math.prod(operands[1].shape[1:]))


def _convolution_back(operands: list[Any], result: Shadow) -> int:
    """Operations of a kernel that is added up for each element of the first operand."""
    return int(2 * operands[0].size * math.prod(operands[1].shape[1:]))


def _convolution_weight(operands: list[Any], result: Shadow) -> int:
    return int(2 * operands[1].size * math.prod(result.shape[1:]))


def _recurrence(operands: list[Any], result: Shadow) -> int:
    """The products with inputs and states."""
    (rows, steps, features), (size, columns) = operands[0].shape, operands[2].shape
    return int(2 * rows * steps * (features + size) * columns)


def _nothing(operands: list[Any], result: Shadow) -> int:
    return 0


def _elements(operands: list[Any], result: Shadow) -> int:
    """One for every element of the largest array: what elementwise operations and reductions do."""
    return max(result.size, *(int(x.size) for x in operands if hasattr(x, "size")))


MOVES = (
    *("astype", "attach_aux", "broadcast_to", "concat", "dropout_mask", "expand_dims", "getitem"),
    *("ones_like", "permute_dims", "reshape", "squeeze", "stack", "take", "take_along_axis", "zeros_like"),
    "uniform_draws",
)
FLOPS: dict[str, Callable[[list[Any], Shadow], int]] = {
    "conv": _convolution,
    "conv_image": _convolution_back,
    "conv_weight": _convolution_weight,
    "matmul": _product,
    "recurrence_outputs": _recurrence,
    "recurrence_tape": _recurrence,
    **dict.fromkeys(MOVES, _nothing),
}


class SummaryRow(NamedTuple):
    """Row of one module in a summary; the modules inside it have their own rows.

    Attributes
    ----------
    path : str
        Dotted path, "" for the whole network.
    kind : str
        Its class.
    output_shape : tuple of int, tree of those, or None
        Output shape in the last call; None if it was not called.
    parameters : int
        Number of elements of the layer's own parameters; shared ones are counted at their first occurrence.
    trainable_parameters : int
        Number of these elements that are learned.
    buffers : int
        Number of elements of its own buffers.
    flops : int
        Number of operations in all its calls; a multiply-add counts as 2.
    state_bytes : int
        Bytes of its own parameters and buffers.
    output_bytes : int
        Bytes of the arrays in its outputs that no inner module has returned, in all its calls.

    Examples
    --------
    >>> from sknet import nn
    >>> row = nn.summary(nn.Linear(2, 3), (1, 2)).rows[0]
    >>> row.kind, row.output_shape, row.parameters
    ('Linear', (1, 3), 9)
    """

    path: str
    kind: str
    output_shape: Any
    parameters: int
    trainable_parameters: int
    buffers: int
    flops: int
    state_bytes: int
    output_bytes: int


class Summary:
    """Result of `summary`: a row for every module, and totals; prints as a table.

    Parameters
    ----------
    rows : list of SummaryRow
        Parents before children.
    input_bytes : int
        Bytes of the inputs.

    Examples
    --------
    >>> from sknet import nn
    >>> found = nn.summary(nn.Linear(100, 10), (32, 100))
    >>> found.total_parameters, found.total_flops
    (1010, 64320)
    """

    def __init__(self, rows: list[SummaryRow], input_bytes: int) -> None:
        self.rows = rows
        self.input_bytes = input_bytes

    def _sum(self, field: str) -> int:
        return sum(getattr(row, field) for row in self.rows)

    @property
    def total_parameters(self) -> int:
        """Number of elements of all parameters."""
        return self._sum("parameters")

    @property
    def trainable_parameters(self) -> int:
        """Number of elements of the parameters that are learned."""
        return self._sum("trainable_parameters")

    @property
    def total_buffers(self) -> int:
        """Number of elements of all buffers."""
        return self._sum("buffers")

    @property
    def total_flops(self) -> int:
        """Number of operations of one forward pass; a multiply-add counts as 2."""
        return self._sum("flops")

    @property
    def state_bytes(self) -> int:
        """Bytes of all parameters and buffers."""
        return self._sum("state_bytes")

    @property
    def activation_bytes(self) -> int:
        """Bytes of the modules' outputs: about what a training step stores for the backward pass."""
        return self._sum("output_bytes")

    def __str__(self) -> str:
        table: list[tuple[str, ...]] = [("layer", "output shape", "parameters", "FLOPs", "output")]
        for row in self.rows:
            name = row.path.rpartition(".")[2]
            label = f"({name}): {row.kind}" if name else row.kind
            depth = row.path.count(".") + 1 if row.path else 0
            shape = "-" if row.output_shape is None else str(row.output_shape)
            counts = [f"{n:,}" if n else "-" for n in (row.parameters, row.flops)]
            table.append(("  " * depth + label, shape, *counts, _size(row.output_bytes)))
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [_line(cells, widths) for cells in table]
        rule = "-" * max(map(len, lines))
        return "\n".join([lines[0], rule, *lines[1:], rule, *self._totals()])

    __repr__ = __str__

    def _totals(self) -> Iterator[str]:
        yield f"parameters: {self.total_parameters:,}, of which {self.trainable_parameters:,} are trained"
        yield f"buffers: {self.total_buffers:,}"
        yield f"FLOPs: {self.total_flops:,} (multiply-add = 2)"
        yield (
            f"memory: {_size(self.state_bytes)} parameters and buffers, {_size(self.input_bytes)} input, "
            f"{_size(self.activation_bytes)} outputs of layers"
        )


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    (first, second), rest = cells[:2], zip(cells[2:], widths[2:], strict=True)
    return "  ".join([first.ljust(widths[0]), second.ljust(widths[1]), *(c.rjust(w) for c, w in rest)])


def _size(count: float) -> str:
    if not count:
        return "-"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:,.4g} TiB"


class _Ledger:
    """Modules that are running in the pass, and the record of each."""

    def __init__(self) -> None:
        self.flops: dict[int, int] = {}
        self.output_bytes: dict[int, int] = {}
        self.shapes: dict[int, Any] = {}
        self._running: list[int] = []
        self._known: dict[int, Any] = {}  # memory that somebody has returned already, kept alive

    def seen(self, primitive: Primitive, operands: list[Any], result: Shadow) -> None:
        if self._running:
            here = self._running[-1]
            done = FLOPS.get(primitive.name, _elements)(operands, result)
            self.flops[here] = self.flops.get(here, 0) + done

    def enter(self, module: Module, args: Any) -> None:
        self._running.append(id(module))

    def leave(self, module: Module, args: Any, output: Any) -> None:
        here = self._running.pop()
        self.shapes[here] = map_leaves(lambda x: tuple(x.shape) if hasattr(x, "shape") else None, output)
        self.output_bytes[here] = self.output_bytes.get(here, 0) + self.new_bytes(output)

    def new_bytes(self, tree: Any) -> int:
        """Return the bytes of the arrays in a tree whose memory was not met before."""
        arrays = [x.data for x in leaves(tree) if isinstance(x, Tensor) and isinstance(x.data, Shadow)]
        new = {id(array.memory): array for array in arrays if id(array.memory) not in self._known}
        self._known.update({key: array.memory for key, array in new.items()})
        return sum(array.nbytes for array in new.values())


@named_errors
def summary(module: Module, *inputs: Any, dtype: DTypeLike = "float32", training: bool = False) -> Summary:
    """Return a table of a module's layers: output shapes, parameters, operations, memory.

    Parameters
    ----------
    module : Module
        The module, which is not changed, even if it is lazy.
    *inputs : tuple of int, array, or tree of those
        Arguments of the forward pass: shapes, including the batch axis, or examples.
    dtype : dtype, default="float32"
        Dtype of the inputs that are shapes.
    training : bool, default=False
        Whether the pass is in training mode.

    Returns
    -------
    Summary
        Prints as a table; its attributes hold the numbers.

    Raises
    ------
    ShapeError
        If the inputs do not fit; the message names the layer.

    Notes
    -----
    The forward pass computes only shapes, so even a network that does not fit into memory has a summary. The
    module's Python code and its hooks are run once. A matrix product of (n, k) and (k, m) counts as 2 n k m
    operations, an elementwise operation as 1 per element, moving and selecting as 0. Custom `Function`
    objects count as the operations inside.

    Examples
    --------
    >>> from sknet import nn
    >>> print(nn.summary(nn.Sequential(nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10)), (64, 784)))
    layer          output shape  parameters       FLOPs   output
    ------------------------------------------------------------
    Sequential     (64, 10)               -           -        -
      (0): Linear  (64, 100)         78,500  10,041,600   25 KiB
      (1): ReLU    (64, 100)              -       6,400   25 KiB
      (2): Linear  (64, 10)           1,010     128,640  2.5 KiB
    ------------------------------------------------------------
    parameters: 79,510, of which 79,510 are trained buffers: 0 FLOPs: 10,176,640 (multiply-add = 2) memory:
    310.6 KiB parameters and buffers, 196 KiB input, 52.5 KiB outputs of layers
    """
    copy, ledger = copy_for_shapes(module), _Ledger()  # a copy, for the hooks and for what is lazy
    for each in copy.modules():
        hooks = vars(each).setdefault("_hooks", Hooks())
        hooks.add("forward_pre", ledger.enter)
        hooks.add("forward", ledger.leave)
    given = tuple([shadows(x, dtype, ledger.seen) for x in inputs])
    input_bytes = ledger.new_bytes(given)  # a module that returns its input has made nothing
    shape_pass(copy, given, training, ledger.seen)
    return Summary(list(_rows(copy, ledger)), input_bytes)


def _rows(module: Module, ledger: _Ledger) -> Iterator[SummaryRow]:
    met: set[int] = set()
    for path, each in module.named_modules():
        own = [p for p in each._parameters.values() if id(p) not in met]
        met.update(map(id, own))
        state = [*own, *each._buffers.values()]
        yield SummaryRow(
            path,
            type(each).__name__,
            ledger.shapes.get(id(each)),
            sum(p.size for p in own),
            sum(p.size for p in own if p.requires_grad),
            sum(b.size for b in each._buffers.values()),
            ledger.flops.get(id(each), 0),
            sum(x.size * x.dtype.itemsize for x in state),
            ledger.output_bytes.get(id(each), 0),
        )
