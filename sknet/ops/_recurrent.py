"""Recurrent networks: the pass over a whole sequence is one primitive."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sknet._constraints import shown
from sknet._params import described_by
from sknet.core import Primitive, Tensor, as_tensor, bind, enable_grad, gradients, is_grad_enabled
from sknet.core import _primitive as kinds
from sknet.device import Namespace, backend, result_dtype
from sknet.exceptions import DtypeError, ShapeError
from sknet.ops._convolution import Work
from sknet.ops._elementwise import astype, less, where
from sknet.ops._products import matmul
from sknet.ops._recurrent_cells import CELLS, RECURS, Weights, back, order, run, tape_shapes
from sknet.ops._rules import SharedRule, check_floating
from sknet.ops._shape import concat, expand_dims, reshape, stack
from sknet.ops._shares import Shares
from sknet.ops._windows import shaped

__all__ = ["gru", "lstm", "rnn"]


# -- rows in shares ---------------------------------------------------------------------------
#
# Rows are independent, so a share goes through all its steps alone, forward or back: the products with the
# input weights, and those of the steps. What lies between products is shared as well, and no thread waits for
# another before the end. How rows are divided depends on sizes alone.

Shape = tuple[int, ...]
Arrays = list[tuple[Shape, Any]]

GRAIN = 1 << 25  # multiplications that are worth a share
FEWEST = 32, 16  # rows of a share, since weights are copied, or read, in every step
MOST = 32  # rows at a time, if weights are read
WEIGHTS = 1 << 20  # bytes of recurrent weights that stay in a core's cache
SLAB = 256  # bytes of a row of weights that are multiplied at a time


class Divided(NamedTuple):
    """A recurrent network whose rows are divided."""

    cell: str
    rows: int
    steps: int
    features: int
    size: int
    slabs: tuple[int, int]
    shares: Shares

    @classmethod
    def of(cls, xp: Namespace, x: Any, w: Any, lengths: Any, cell: str) -> "Divided":
        """Divide the rows where native code makes all steps: between calls, Python lets one thread run."""
        (rows, steps, features), (size, columns), itemsize = x.shape, w.shape, w.dtype.itemsize
        n_bytes, slab = steps * columns * itemsize, SLAB // itemsize
        at_once = CELLS[cell].whole is not None and not getattr(lengths, "shape", ()) and w.dtype.char in "fd"
        wanted, most, slabs = 1, rows, (1, 1)
        if xp.may_be_native() and at_once and columns * size * itemsize <= WEIGHTS:
            fits = columns % slab == 0 and MOST * size * slab <= xp.small_products()
            wanted = min(rows // FEWEST[fits], rows * steps * (features + size) * columns // GRAIN)
            if wanted > 1 and fits:
                most = MOST
                fits = size % slab == 0 and MOST * columns * (slab // 2) <= xp.small_products()
                slabs = columns // slab, 2 * size // slab if fits else 1
        shares = Shares.of(rows, n_bytes, most * max(n_bytes, 1), wanted)
        return cls(cell, rows, steps, features, size, slabs, shares)

    @property
    def columns(self) -> int:
        return CELLS[self.cell].gates * self.size

    # -- forward ------------------------------------------------------------------------------

    def scratch(self, dtype: Any, kept: bool = False) -> Arrays:
        """Shape and dtype of the temporary arrays: the inputs' product, gates, states, and a product."""
        return self._arrays(self._rooms(self.shares.part, kept), dtype)

    def _rooms(self, n: int, kept: bool) -> list[Shape]:
        """Return the shapes of these for so many rows; of what a tape keeps, there is nothing."""
        kind, size, columns, alone = CELLS[self.cell], self.size, self.columns, int(not kept)
        states = (2 * alone * (kind.states - 1), n, size), (2, n, size)
        return [(n, self.steps, columns), (alone, n, kind.saved * size), *states, (n, columns)]

    @property
    def tape(self) -> list[Shape]:
        """Shapes of outputs, with a step more for the last cell state, and of gates and cell states."""
        return tape_shapes(self.cell, self.rows, self.steps, self.size)

    def forward(
        self, xp: Namespace, x: Any, w_ih: Any, w: Any, more: Any, reverse: bool, kept: Any, scratch: Any
    ) -> None:
        """Write the outputs, or the arrays of a tape; `more` are bias, first state and lengths."""
        (b, state, lengths), (outputs, *tape) = more, kept
        weights = Weights(_cut(xp, w, self.slabs[0]), self.shares.part)

        def compute(rows: slice, rooms: Any) -> None:
            n, columns = rows.stop - rows.start, self.columns
            z, *states, hidden, product = map(shaped, rooms, self._rooms(n, bool(tape)))
            if tape:
                states = [array[:, rows] for array in tape]
            for part in self._parts(rows):
                place = z[part.start - rows.start : part.stop - rows.start]
                xp.matmul(_flat(x[part]), w_ih, out=place.reshape(len(place) * self.steps, columns))
            given = z, weights, b, state[:, rows], _lengths_of_rows(lengths, rows)
            run(xp, self.cell, *given, reverse, (outputs[rows], *states, hidden, product))

        self._in_shares(xp, w.dtype, compute, scratch, lambda n: self._rooms(n, bool(tape)))

    # -- back ---------------------------------------------------------------------------------

    def scratch_of_gradient(self, dtype: Any) -> Arrays:
        """Shape and dtype of those of `backward`, see `back`."""
        return self._arrays(self._rooms_of_gradient(self.shares.part), dtype)

    def _rooms_of_gradient(self, n: int) -> list[Shape]:
        size, columns, differ = self.size, self.columns, int(CELLS[self.cell].differ)
        gates = (n, self.steps, columns), (n, differ * self.steps, columns)
        totals = (n, columns), (differ * n, columns)
        return [*gates, (n, self.steps, size), *totals, *totals, (n, size), (n, size)]

    def backward(
        self, xp: Namespace, g: Any, x: Any, w_ih: Any, w: Any, more: Any, reverse: bool, kept: Any,
        results: Any, scratch: Any,
    ) -> None:  # fmt: skip
        """Write the gradients of inputs (if there is an array for them), weights, bias and first state."""
        (b, state, lengths), (dx, dw_ih, dw, db, slopes) = more, results
        columns, (outputs, *tape) = self.columns, kept
        # Native code reads contiguous weights.
        turned = w.T.copy() if self.slabs[1] == 1 < self.shares.n_shares else w.T
        weights = Weights(_cut(xp, turned, self.slabs[1]), self.shares.part)
        found: dict[int, list[Any]] = {}  # by share

        def compute(rows: slice, rooms: Any) -> None:
            dz, dr, hidden, *others = map(shaped, rooms, self._rooms_of_gradient(rows.stop - rows.start))
            dr = dr if CELLS[self.cell].differ else dz
            _fill_before(hidden, outputs[rows, : self.steps], state[0][rows], reverse)
            given = g[rows], weights, _lengths_of_rows(lengths, rows), reverse, slopes[:, rows]
            parts = outputs[rows], *[array[:, rows] for array in tape]
            of_z, of_product = back(xp, self.cell, *given, parts, (dz, dr, hidden, *others))
            for part in self._parts(rows):
                at = slice(part.start - rows.start, part.stop - rows.start)
                flat = _flat(dz[at])
                if dx is not None:
                    xp.matmul(flat, w_ih.T, out=_flat(dx[part]))
                sums = [
                    xp.matmul(_flat(x[part]).T, flat),
                    xp.matmul(_flat(hidden[at]).T, _flat(dr[at])),
                    of_z[at].sum(axis=0),
                ]
                if CELLS[self.cell].differ:
                    sums.append(of_product[at, 2 * columns - b.shape[0] :].sum(axis=0))
                _add(found, self._share_of(part), sums)

        self._in_shares(xp, w.dtype, compute, scratch, self._rooms_of_gradient)
        for share in range(1, len(found)):
            _add(found, 0, found[share])
        first = found[0]
        dw_ih[...], dw[...], db[:columns] = first[:3]
        if CELLS[self.cell].differ:
            db[columns:] = first[3]

    # -- shares -------------------------------------------------------------------------------

    def _arrays(self, rooms: list[Shape], dtype: Any) -> Arrays:
        return [((self.shares.n_rooms, math.prod(shape)), dtype) for shape in rooms]

    def _parts(self, rows: slice) -> list[slice]:
        """Return the rows that are multiplied at a time; one part of no rows."""
        starts = range(rows.start, max(rows.stop, rows.start + 1), self.shares.part)
        return [slice(start, min(start + self.shares.part, rows.stop)) for start in starts]

    def _share_of(self, part: slice) -> int:
        shares = range(self.shares.n_shares)
        return next(i for i in reversed(shares) if part.start >= self.shares.samples(i).start)

    def _in_shares(
        self, xp: Namespace, dtype: Any, compute: Callable[[slice, Any], None], scratch: Any,
        rooms: Callable[[int], list[Shape]],
    ) -> None:  # fmt: skip
        """Compute all rows: part by part in threads, or at once if Python makes the steps."""
        every = slice(0, self.rows)
        native = xp.native_passes()
        if self.shares.n_shares == 1:
            compute(every, self.shares.rooms(scratch)[0])
        elif native is None or not native.has_steps(dtype):
            large = [xp.empty(math.prod(shape), dtype=dtype) for shape in rooms(self.rows)]
            xp.in_threads(lambda _, room: compute(every, room), 1, [large])
        else:

            def work(share: int, room: Any) -> None:
                for rows in self.shares.parts(share):
                    compute(rows, room)

            xp.in_threads(work, self.shares.n_shares, self.shares.rooms(scratch))


def _add(sums: dict[int, list[Any]], place: int, more: list[Any]) -> None:
    if place not in sums:
        sums[place] = more
    else:
        for total, each in zip(sums[place], more, strict=True):
            total += each


def _flat(x: Any) -> Any:
    return x.reshape(x.shape[0] * x.shape[1], x.shape[2])


def _buffers_of(xp: Namespace, given: Any, arrays: Arrays) -> Any:
    """Return temporary arrays: those that are given, unless they are for the shares of another device."""
    if given is not None and all(x.shape == shape for x, (shape, _) in zip(given, arrays, strict=True)):
        return given
    return [xp.empty(shape, dtype=dtype) for shape, dtype in arrays]


def _lengths_of_rows(lengths: Any, rows: slice) -> Any:
    return lengths[rows] if getattr(lengths, "shape", ()) else lengths


def _cut(xp: Namespace, w: Any, count: int) -> Any:
    """Return a matrix, or slabs of its columns, each contiguous."""
    if count == 1:
        return w
    slabs = xp.empty((count, w.shape[0], w.shape[1] // count), dtype=w.dtype)
    slabs[...] = w.reshape(w.shape[0], count, -1).transpose(1, 0, 2)
    return slabs


def _fill_before(hidden: Any, outputs: Any, first: Any, reverse: bool) -> None:
    """Write the hidden state before every step, from those after."""
    if reverse:
        hidden[:, :-1], hidden[:, -1] = outputs[:, 1:], first
    else:
        hidden[:, 1:], hidden[:, 0] = outputs[:, :-1], first


# -- passes without a gradient ----------------------------------------------------------------


def _outputs_only_forward(
    xp: Namespace, x: Any, w_ih: Any, w: Any, b: Any, state: Any, lengths: Any,
    *, cell: str, reverse: bool, out: Any = None, scratch: Any = None,
) -> Any:  # fmt: skip
    check_floating("recurrence_outputs", x)
    net = Divided.of(xp, x, w, lengths, cell)
    scratch = _buffers_of(xp, scratch, net.scratch(w.dtype))
    if out is None:
        out = xp.empty(_outputs_shape(x, w_ih, w, cell=cell, reverse=reverse)[0], dtype=w.dtype)
    net.forward(xp, x, w_ih, w, (b, state, lengths), reverse, [out], scratch)
    return out


def _outputs_shape(
    x: Any, w_ih: Any, w: Any, *_: Any, cell: str, reverse: bool
) -> tuple[Shape, np.dtype[Any]]:
    check_floating("recurrence_outputs", x)
    return (x.shape[0], x.shape[1] + CELLS[cell].states - 1, w.shape[0]), w.dtype


def _forward_scratch(
    x: Any, w_ih: Any, w: Any, b: Any, state: Any, lengths: Any, *, cell: str, reverse: bool,
    kept: bool = False,
) -> Arrays:  # fmt: skip
    return Divided.of(_host(), x, w, lengths, cell).scratch(w.dtype, kept)


def _host() -> Namespace:
    """Plans for devices have memory of their own for temporary arrays."""
    return backend("cpu").xp


_outputs_only = Primitive("recurrence_outputs").define(
    forward=_outputs_only_forward, shape=_outputs_shape, params=RECURS, vjp=None, scratch=_forward_scratch
)


def without_tape(
    x: Tensor, w_ih: Tensor, w: Tensor, b: Tensor, state: Tensor, lengths: Any, cell: str, reverse: bool
) -> Tensor:
    """Return the outputs and, as a last step, the last cell state if there is one."""
    return bind(_outputs_only, (x, w_ih, w, b, state, lengths), {"cell": cell, "reverse": reverse})


# -- passes that keep what gradients need -----------------------------------------------------
#
# Three records serve all cells. `recurrence_tape` runs the cell over the sequence and keeps what the backward
# pass needs in one flat array: outputs, gates and cell states. `recurrence` is the part of the tape that
# holds the outputs, as a function of the tape's operands; `recurrence_gradient`, its vjp, goes back over the
# tape. The vjp of that one comes from the definition of the cell, step by step.

# -- forward ----------------------------------------------------------------------------------


def _of(xp: Namespace, x: Any, w: Any, lengths: Any, cell: str) -> Divided:
    check_floating("recurrence_tape", x)
    return Divided.of(xp, x, w, lengths, cell)


def _length(shapes: list[Shape]) -> int:
    return sum(map(math.prod, shapes))


def _tape_forward(
    xp: Namespace, x: Any, w_ih: Any, w: Any, b: Any, state: Any, lengths: Any,
    *, cell: str, reverse: bool, out: Any = None, scratch: Any = None,
) -> Any:  # fmt: skip
    net = _of(xp, x, w, lengths, cell)
    tape = xp.empty(_length(net.tape), dtype=w.dtype) if out is None else out
    scratch = _buffers_of(xp, scratch, net.scratch(w.dtype, kept=True))
    net.forward(xp, x, w_ih, w, (b, state, lengths), reverse, _sections(tape, net.tape), scratch)
    return tape


def _tape_shape(
    x: Any, w_ih: Any, w: Any, b: Any, state: Any, lengths: Any, cell: str, reverse: bool
) -> tuple[Shape, np.dtype[Any]]:
    return (_length(_of(_host(), x, w, lengths, cell).tape),), w.dtype


_tape = Primitive("recurrence_tape").define(
    forward=_tape_forward,
    shape=_tape_shape,
    params=RECURS,
    vjp=None,
    scratch=partial(_forward_scratch, kept=True),
)


# -- back -------------------------------------------------------------------------------------


def _gradient_forward(
    xp: Namespace, g: Any, x: Any, w_ih: Any, w: Any, b: Any, state: Any, lengths: Any, tape: Any,
    *, cell: str, reverse: bool, of_input: bool, out: Any = None, scratch: Any = None,
) -> Any:  # fmt: skip
    net = _of(xp, x, w, lengths, cell)
    shapes = [y.shape for y in ((x,) if of_input else ()) + (w_ih, w, b, state)]
    flat = xp.empty(_length(shapes), dtype=w.dtype) if out is None else out
    results = [None] * (not of_input) + _sections(flat, shapes)
    scratch = _buffers_of(xp, scratch, net.scratch_of_gradient(w.dtype))
    net.backward(xp, g, x, w_ih, w, (b, state, lengths), reverse, _sections(tape, net.tape), results, scratch)
    return flat


def _sections(flat: Any, shapes: list[Shape]) -> list[Any]:
    """Cut a flat array or tensor into views of these shapes, one after the other."""
    views, start = [], 0
    for shape in shapes:
        stop = start + math.prod(shape)
        views.append(flat[start:stop].reshape(shape))
        start = stop
    return views


def _gradient_shape(
    g: Any, x: Any, w_ih: Any, w: Any, b: Any, state: Any, lengths: Any, tape: Any,
    cell: str, reverse: bool, of_input: bool,
) -> tuple[Shape, np.dtype[Any]]:  # fmt: skip
    found = ((x,) if of_input else ()) + (w_ih, w, b, state)
    return (_length([y.shape for y in found]),), w.dtype


def _gradient_scratch(
    g: Any, x: Any, w_ih: Any, w: Any, b: Any, state: Any, lengths: Any, tape: Any,
    *, cell: str, reverse: bool, of_input: bool,
) -> Arrays:  # fmt: skip
    return _of(_host(), x, w, lengths, cell).scratch_of_gradient(w.dtype)


def _gradient_vjp(
    gg: Tensor, _: Any, g: Tensor, x: Tensor, w_ih: Tensor, w: Tensor, b: Tensor, state: Tensor, lengths: Any,
    tape: Tensor, *, cell: str, reverse: bool, of_input: bool,
) -> list[Tensor]:  # fmt: skip
    """Differentiate what `recurrence_gradient` is equal to: the gradient of one step after the other."""
    with enable_grad():
        g, x, w_ih, w, b, state = points = [_recorded(y) for y in (g, x, w_ih, w, b, state)]
        rows, steps, features = x.shape
        z = reshape(matmul(reshape(x, (rows * steps, features)), w_ih), (rows, steps, w.shape[1]))
        outputs = _by_steps(z, w, b, state, lengths, cell, reverse)
        shares = gradients(outputs, points[1 if of_input else 2 :], g, create_graph=True)
        flat = concat([reshape(y, (-1,)) for y in shares])
    return gradients(flat, points, gg, create_graph=is_grad_enabled())


def _recorded(x: Tensor) -> Tensor:
    """Return x as a new point of the tape, with respect to which a gradient can be computed."""
    return Tensor(x.data, requires_grad=True) if x.node is None else reshape(x, x.shape)


def _by_steps(
    z: Tensor, w: Tensor, b: Tensor, state: Tensor, lengths: Any, cell: str, reverse: bool
) -> Tensor:
    """Return what `recurrence` does, computed by differentiable operations."""
    kind, steps = CELLS[cell], z.shape[1]
    states = tuple([state[i] for i in range(kind.states)])
    outputs: dict[int, Tensor] = {}
    for k in order(steps, reverse):
        after = kind.step(z[:, k], matmul(states[0], w), b, *states)
        if isinstance(lengths, Tensor):
            real = expand_dims(less(k, lengths), -1)
            after = tuple([where(real, new, old) for new, old in zip(after, states, strict=True)])
        outputs[k], *_ = states = after
    return stack([*[outputs[k] for k in range(steps)], *states[1:]], axis=1)


_gradient = Primitive("recurrence_gradient").define(
    forward=_gradient_forward,
    shape=_gradient_shape,
    params={**RECURS, "of_input": kinds.FLAG},
    vjp=SharedRule(_gradient_vjp),
    scratch=_gradient_scratch,
)


# -- the outputs ------------------------------------------------------------------------------


def _outputs_forward(
    xp: Namespace, x: Any, w_ih: Any, w: Any, b: Any, state: Any, lengths: Any, tape: Any,
    *, cell: str, reverse: bool,
) -> Any:  # fmt: skip
    return _sections(tape, _of(xp, x, w, lengths, cell).tape[:1])[0]


def _outputs_vjp(g: Tensor, _: Any, *operands: Any, **params: Any) -> list[Any]:
    of_input = operands[0].requires_grad
    flat = bind(_gradient, (g, *operands), params | {"of_input": of_input})
    found = _sections(flat, [y.shape for y in operands[0 if of_input else 1 : 5]])
    return [None] * (not of_input) + found


_outputs = Primitive("recurrence").define(
    forward=_outputs_forward,
    shape=_outputs_shape,
    params=RECURS,
    vjp=SharedRule(_outputs_vjp),
    writes_out=False,
)


INPUT_INDEX = {
    "recurrence_outputs": 0,
    "recurrence_tape": 0,
    "recurrence_gradient": 1,
}  # of inputs among operands


def with_tape(
    x: Tensor, w_ih: Tensor, w: Tensor, b: Tensor, state: Tensor, lengths: Any, cell: str, reverse: bool
) -> Tensor:
    """Return the outputs and, as a last step, the last cell state if there is one."""
    operands, params = (x, w_ih, w, b, state, lengths), {"cell": cell, "reverse": reverse}
    return bind(_outputs, (*operands, bind(_tape, operands, params)), params)


def recurrence_work(equation: Any) -> Work | None:
    """Return how many multiplications threads share in a recurrent network of a plan for the host."""
    at = INPUT_INDEX[equation.primitive.name]
    x, w, lengths = (equation.operands[at + i] for i in (0, 2, 5))
    net = Divided.of(_host(), x, w, lengths, equation.params["cell"])
    if net.shares.n_rooms == 1:
        return None
    count = net.rows * net.steps * (net.features + net.size) * net.columns
    return Work(in_threads=count * (1 + at))


# -- functions --------------------------------------------------------------------------------


def _recurrence(
    cell: str, x: Any, weight_ih: Any, weight_hh: Any, bias: Any, state: Any, lengths: Any, reverse: bool
) -> tuple[Tensor, list[Tensor]]:
    """Return the outputs, zero where a row has ended, and the final states."""
    name = "rnn" if cell in ("tanh", "relu") else cell
    x, weight_ih, weight_hh = as_tensor(x), as_tensor(weight_ih), as_tensor(weight_hh)
    _check(name, cell, x, weight_ih, weight_hh)
    rows, steps, _ = x.shape
    size = weight_hh.shape[0]
    real = None
    if lengths is not None:
        lengths = _checked_lengths(name, lengths, x)
        real = expand_dims(less(Tensor(np.arange(steps), device=x.device), expand_dims(lengths, 1)), -1)
        x = where(real, x, 0.0)  # padding may hold anything, NaN included
    dtype = result_dtype(x, weight_ih)
    b = _operand(name, "bias", bias, (CELLS[cell].biases * size,), x, dtype)
    count = CELLS[cell].states
    states = [None] * count if state is None else state
    if not isinstance(states, (tuple, list)):
        states = as_tensor(states)
    given = states.shape[:1] if isinstance(states, Tensor) else (len(states),)
    if given != (count,):
        got = given[0] if given else shown(state)
        raise ShapeError(f"{name}: expected {count} states, hidden and cell state, got {got}")
    first = stack([_operand(name, "state", s, (rows, size), x, dtype) for s in states])
    weights = astype(weight_ih, dtype), astype(weight_hh, dtype)
    operands = (astype(x, dtype), *weights, b, first, steps if lengths is None else lengths)
    kept = is_grad_enabled() and any(isinstance(t, Tensor) and t.requires_grad for t in operands)
    found = (with_tape if kept else without_tape)(*operands, cell, reverse)
    last = found[:, 0 if reverse else steps - 1]
    output = found if found.shape[1] == steps else found[:, :steps]
    final = [last] if count == 1 else [last, found[:, steps]]
    return output if real is None else where(real, output, 0.0), final


def _check(name: str, cell: str, x: Tensor, weight_ih: Tensor, weight_hh: Tensor) -> None:
    for operand in (x, weight_ih, weight_hh):
        check_floating(name, operand)
    columns = CELLS[cell].gates * weight_hh.shape[0] if weight_hh.ndim == 2 else -1
    if x.ndim != 3 or x.shape[1] == 0:
        raise ShapeError(
            f"{name}: expected x of shape (n, steps, features), with a step at least, got {x.shape}"
        )
    if weight_hh.shape[-1:] != (columns,) or weight_ih.shape != (x.shape[2], columns):
        times = f"{CELLS[cell].gates} * size" if CELLS[cell].gates > 1 else "size"
        raise ShapeError(
            f"{name}: for x of shape {x.shape}, expected weight_ih of shape ({x.shape[2]}, {times}) and "
            f"weight_hh of shape (size, {times}), got {weight_ih.shape} and {weight_hh.shape}"
        )


def _operand(name: str, what: str, x: Any, shape: Shape, like: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """Return an operand of a shape and of the common dtype; zeros for None."""
    if x is None:
        place = like.device
        return Tensor(backend(place.kind).zeros(shape, dtype, place))
    x = as_tensor(x)
    if x.shape != shape:
        raise ShapeError(f"{name}: expected {what} of shape {shape}, got {x.shape}")
    return x if x.dtype == dtype else astype(x, dtype)


def _checked_lengths(name: str, given: Any, x: Tensor) -> Tensor:
    lengths: Tensor = given if isinstance(given, Tensor) else Tensor(given, device=x.device)
    if lengths.dtype.kind not in "iu":
        raise DtypeError(f"{name}: lengths must be integers, got {lengths.dtype}")
    if lengths.shape != x.shape[:1]:
        raise ShapeError(
            f"{name}: expected lengths of shape {x.shape[:1]}, one per row of x, got {lengths.shape}"
        )
    if isinstance(given, (list, tuple, np.ndarray)):  # a tensor's values may be traced, or on a device
        wrong = [length for length in given if not 0 <= length <= x.shape[1]]
        if wrong:
            raise ValueError(
                f"{name}: lengths must be between 0 and the {x.shape[1]} steps of x, got {wrong[0]}"
            )
    return lengths


def rnn(
    x: Any,
    weight_ih: Any,
    weight_hh: Any,
    bias: Any = None,
    state: Any = None,
    *,
    activation: str = "tanh",
    lengths: Any = None,
    reverse: bool = False,
) -> tuple[Tensor, Tensor]:
    r"""Run a plain (Elman) recurrent network over sequences.

    Parameters
    ----------
    x : Tensor or array of shape (n, steps, features)
        The sequences.
    weight_ih : Tensor or array of shape (features, size)
        From input to hidden state.
    weight_hh : Tensor or array of shape (size, size)
        From hidden state to hidden state.
    bias : Tensor or array of shape (size,), default=None
        None is zero.
    state : Tensor or array of shape (n, size), default=None
        The hidden state before the first step; None is zero.
    activation : {"tanh", "relu"}, default="tanh"
        The function f below.
    lengths : Tensor or array of shape (n,), dtype=integer, default=None
        Number of valid steps of each row; later steps are ignored.
    reverse : bool, default=False
        Whether to run from the last valid step to the first.

    Returns
    -------
    output : Tensor of shape (n, steps, size)
        The hidden state after every step, zero after a row's last.
    state : Tensor of shape (n, size)
        The hidden state after a row's last step, or its first if it is run in reverse.

    Raises
    ------
    ShapeError, DtypeError
        If shapes do not fit, operands are not floating, or lengths are not integers.
    ValueError
        If there is no such activation, or a length is not between 0 and steps.

    Notes
    -----
    .. math:: h_t = f(x_t W_{ih} + h_{t-1} W_{hh} + b)

    (J. L. Elman, "Finding structure in time", 1990).

    Examples
    --------
    >>> output, state = rnn([[[1.0], [0.0], [0.0]]], [[1.0]], [[2.0]], activation="relu")
    >>> output.numpy()
    array([[[1.],
            [2.],
            [4.]]])
    >>> state.numpy()
    array([[4.]])
    """
    if activation not in ("tanh", "relu"):
        raise ValueError(f"rnn: activation must be 'tanh' or 'relu', got {shown(activation)}")
    states = None if state is None else [state]
    output, [h] = _recurrence(activation, x, weight_ih, weight_hh, bias, states, lengths, reverse)
    return output, h


@described_by(rnn)
def lstm(
    x: Any,
    weight_ih: Any,
    weight_hh: Any,
    bias: Any = None,
    state: Any = None,
    *,
    lengths: Any = None,
    reverse: bool = False,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    r"""Run a long short-term memory over sequences.

    Parameters
    ----------
    weight_ih : Tensor or array of shape (features, 4 * size)
        From input to gates: input, forget, candidate and output gate, side by side.
    weight_hh : Tensor or array of shape (size, 4 * size)
        From hidden state to gates.
    bias : Tensor or array of shape (4 * size,), default=None
        None is zero.
    state : pair of Tensor or array of shape (n, size), default=None
        Hidden state and cell state before the first step; None is zero.

    Returns
    -------
    output : Tensor of shape (n, steps, size)
        The hidden state after every step, zero after a row's last.
    state : tuple of two Tensor of shape (n, size)
        Hidden state and cell state after a row's last step, or its first if it is run in reverse.

    Raises
    ------
    ShapeError, DtypeError
        If shapes do not fit, operands are not floating, or lengths are not integers.
    ValueError
        If a length is not between 0 and steps.

    Notes
    -----
    With :math:`a_t = x_t W_{ih} + h_{t-1} W_{hh} + b`, cut into the four gates' parts,

    .. math::
        c_t &= \sigma(a_t^f) c_{t-1} + \sigma(a_t^i) \tanh(a_t^g) \\
        h_t &= \sigma(a_t^o) \tanh(c_t)

    (S. Hochreiter, J. Schmidhuber, 1997; the forget gate from F. Gers et al., 2000). Order and form of
    the gates are PyTorch's; one bias replaces its two, which are always added.

    Examples
    --------
    >>> import numpy as np
    >>> weights = np.ones((1, 8)), np.zeros((2, 8))
    >>> output, (h, c) = lstm(np.zeros((5, 3, 1)), *weights)
    >>> output.shape, h.shape, c.shape
    ((5, 3, 2), (5, 2), (5, 2))
    """
    output, [h, c] = _recurrence("lstm", x, weight_ih, weight_hh, bias, state, lengths, reverse)
    return output, (h, c)


@described_by(rnn)
def gru(
    x: Any,
    weight_ih: Any,
    weight_hh: Any,
    bias: Any = None,
    state: Any = None,
    *,
    lengths: Any = None,
    reverse: bool = False,
) -> tuple[Tensor, Tensor]:
    r"""Run a gated recurrent unit over sequences.

    Parameters
    ----------
    weight_ih : Tensor or array of shape (features, 3 * size)
        From input to gates: reset gate, update gate and candidate, side by side.
    weight_hh : Tensor or array of shape (size, 3 * size)
        From hidden state to gates.
    bias : Tensor or array of shape (4 * size,), default=None
        Biases of the three gates, and one that is also multiplied by the reset gate. None is zero.

    Raises
    ------
    ShapeError, DtypeError
        If shapes do not fit, operands are not floating, or lengths are not integers.
    ValueError
        If a length is not between 0 and steps.

    Notes
    -----
    .. math::
        r_t &= \sigma(x_t W_{ir} + h_{t-1} W_{hr} + b_r) \\
        u_t &= \sigma(x_t W_{iu} + h_{t-1} W_{hu} + b_u) \\
        n_t &= \tanh(x_t W_{in} + b_n + r_t (h_{t-1} W_{hn} + b_m)) \\
        h_t &= (1 - u_t) n_t + u_t h_{t-1}

    (K. Cho et al., 2014). The reset gate is applied after the product, as in PyTorch and cuDNN, which is what
    lets all products of a step be one; in the paper it is applied before. PyTorch's two biases of the first
    two gates are always added, so there is one here.

    Examples
    --------
    >>> import numpy as np
    >>> output, h = gru(np.zeros((5, 3, 1)), np.ones((1, 6)), np.zeros((2, 6)))
    >>> output.shape, h.shape
    ((5, 3, 2), (5, 2))
    """
    states = None if state is None else [state]
    output, [h] = _recurrence("gru", x, weight_ih, weight_hh, bias, states, lengths, reverse)
    return output, h
