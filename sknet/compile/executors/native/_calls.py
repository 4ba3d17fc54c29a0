"""Functions over whole arrays as source: products, indexed rows, slices, masks, and calls of NumPy."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sknet.compile.executors._products import STACKS
from sknet.compile.executors.native._host import CALL_HOST
from sknet.compile.executors.native._loops import Names
from sknet.compile.executors.native._scalar import ScalarWriter
from sknet.compile.executors.native._value import (
    Along,
    ArrayCall,
    Columns,
    HostCall,
    Mask,
    Pasted,
    Product,
    Products,
    Rows,
    Value,
)

__all__ = ["CallWriter"]


class CallWriter:
    """Writes the lines of array calls.

    Parameters
    ----------
    names : Names
        Names of arrays.
    scalars : ScalarWriter
        Writes scalars.

    Attributes
    ----------
    keys : list of int
        Keys of random streams, passed at run time.
    hosted : list of list of HostCall
        Values that NumPy computes, one list for each call back.
    helpers : dict of str to str
        Source of functions that are called, by name: each is compiled once, however often it is used.
    """

    def __init__(self, names: Names, scalars: ScalarWriter) -> None:
        self._names, self._scalars = names, scalars
        self.keys: list[int] = []
        self.hosted: list[list[HostCall]] = []
        self.helpers: dict[str, str] = {}

    def all_hosted(self) -> Iterator[HostCall]:
        """Yield the values that NumPy computes."""
        return (value for each in self.hosted for value in each)

    def lines(self, value: Value, previous: Value | None = None) -> Iterator[str]:
        """Yield the lines that compute a value; `previous` is the value computed just before."""
        writer = next(WRITERS[kind] for kind in type(value).__mro__ if kind in WRITERS)
        if isinstance(value, HostCall):
            self.helpers["call_host"] = CALL_HOST
        if isinstance(value, HostCall) and isinstance(previous, HostCall):
            self.hosted[-1].append(value)  # in the same call
            return
        yield from writer(self, value)

    def _columns(self, value: Columns) -> Iterator[str]:
        out, [x] = self._names.array(value, value.shape), value.operands
        if not isinstance(x, Value):
            given = self._scalars.number(x, value.dtype)
        else:
            given = x.name if x.is_local else self._names.array(x, value.given)
        yield f"{out}[:] = T(0.0)"
        yield f"{out}[:, {value.columns}] = {given}"

    def _mask(self, value: Mask) -> Iterator[str]:
        [step], number = value.values, len(self.keys)
        self.keys += value.key
        out = self._names.array(value, "flat")
        given = f"{out}, keys[{number}], keys[{number + 1}], {value.site}, {step.name}"
        if value.p is None:
            self._scalars.functions.add("fill_uniform")
            yield f"fill_uniform({given})"
            return
        self._scalars.functions.add("fill_mask")
        p = float(value.p)
        chance, scale = (self._scalars.given(x) for x in (p, 1.0 / (1.0 - p) if p < 1 else 0.0))
        yield f"fill_mask({given}, {chance}, {scale})"

    def _product(self, value: Product) -> Iterator[str]:
        a, b = value.values
        names = [self._names.array(x, shape) for x, shape in zip((a, b), value.shapes, strict=True)]
        names.append(self._names.array(value, value.result))
        is_known = a.dtype == b.dtype == self._scalars.dtype  # the dtype of the loop that `room` points to
        yield f"product({', '.join(names)}, room)" if is_known else f"np.dot({', '.join(names)})"

    def _products(self, value: Products) -> Iterator[str]:
        self.helpers["products"] = STACKS
        arrays = (*value.values, value)
        names = [
            self._names.array(x, ("stack", *stack)) for x, stack in zip(arrays, value.stacks, strict=True)
        ]
        outer = len(value.stacks[-1][-1]) - 3  # axes of the stack except the last, left to `products`
        if outer < 0:
            yield f"product({', '.join(names)}, room)"
            return
        indent = ""
        for n in range(outer):
            yield f"{indent}for i{n} in range({names[-1]}.shape[{n}]):"
            indent += "    "
        index = ", ".join(f"i{n}" for n in range(outer))
        shown = [f"{name}[{index}]" for name in names] if index else names
        yield f"{indent}products({', '.join(shown)}, room)"

    def _rows(self, value: Rows) -> Iterator[str]:
        x, index = value.values
        before, length, behind = value.around
        whole = "all" if isinstance(value, Along) else "rows"
        count = (value if not value.adds else x).shape
        n_rows = _size(count) // max(before * behind, 1)
        longer, shorter = (value, x) if value.adds else (x, value)
        long = self._names.array(longer, (before, length, behind))
        short = self._names.array(shorter, (before, n_rows, behind))
        shape = (before, n_rows, behind) if whole == "all" else (n_rows,)
        at = self._names.array(index, shape)
        name = f"{'add' if value.adds else 'take'}_{whole}"
        self.helpers[name] = rows_source(name, value.adds, whole == "all")
        if value.adds:
            yield f"{long}[:] = T(0.0)"
        yield f"if not {name}({long}, {short}, {at}, {value.from_end}):"
        yield "    return b"  # the NumPy plan repeats the step, and its error names the index

    def _pasted(self, value: Pasted) -> Iterator[str]:
        if value.fill is not None:
            yield f"{self._names.array(value)}[:] = {self._scalars.number(value.fill, value.dtype)}"
        for number, (x, place, shape) in enumerate(
            zip(value.operands, value.places, value.given, strict=True)
        ):
            lengths = np.broadcast_to(np.empty(()), value.shape)[place].shape
            part = self._names.array(value, ("part", number))
            axes = [n for n, length in enumerate(lengths) if length != 1] or [0]
            index = ", ".join(f"i{n}" for n in range(len(axes)))
            if isinstance(x, Value) and x.is_local:
                given = x.name
            elif isinstance(x, Value):
                spread = "spread", shape[max(len(shape) - len(lengths), 0) :], lengths
                self.helpers[f"paste{len(axes)}"] = paste_source(len(axes))
                yield f"paste{len(axes)}({part}, {self._names.array(x, spread)})"
                continue
            else:
                given = self._scalars.number(x, value.dtype)
            indent = ""
            for n in range(len(axes)):
                yield f"{indent}for i{n} in range({part}.shape[{n}]):"
                indent += "    "
            yield f"{indent}{part}[{index}] = {given}"

    def _hosted(self, value: HostCall) -> Iterator[str]:
        yield f"if call_host(hosts[0], {len(self.hosted)}) != 0:"
        yield "    return b"
        self.hosted.append([value])


def paste_source(n_axes: int) -> str:
    """Return the source of a function that copies an array with `n_axes` axes."""
    index = ", ".join(f"i{n}" for n in range(n_axes))
    lines = [f"@loops\ndef paste{n_axes}(out, given):"]
    lines += [f"{'    ' * (n + 1)}for i{n} in range(out.shape[{n}]):" for n in range(n_axes)]
    return "\n".join([*lines, f"{'    ' * (n_axes + 1)}out[{index}] = given[{index}]"]) + "\n\n\n"


def rows_source(name: str, adds: bool, of_elements: bool) -> str:
    """Return the source of a function that takes or adds rows; False means that an index is out of bounds."""
    target, source = "long[p, row, q]", "short[p, r, q]"
    found = "row = np.int64(index[p, r, q])" if of_elements else "row = np.int64(index[r])"
    check = [
        found,
        "if from_end and row < 0:",
        "    row += long.shape[1]",
        "if row < 0 or row >= long.shape[1]:",
        "    return False",
    ]
    over_rest = "for q in range(long.shape[2]):"
    line = f"{target} += {source}" if adds else f"{source} = {target}"
    body = (
        [over_rest, *[f"    {x}" for x in (*check, line)]]
        if of_elements
        else [*check, over_rest, f"    {line}"]
    )
    lines = [
        f"@loops\ndef {name}(long, short, index, from_end):",
        "    for p in range(long.shape[0]):",
        "        for r in range(short.shape[1]):",
        *[f"            {x}" for x in body],
        "    return True",
    ]
    return "\n".join(lines) + "\n\n\n"


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for n in shape:
        size *= n
    return size


WRITERS: dict[type, Callable[[CallWriter, Any], Iterator[str]]] = {
    Columns: CallWriter._columns,
    Mask: CallWriter._mask,
    Product: CallWriter._product,
    Products: CallWriter._products,
    Rows: CallWriter._rows,
    Pasted: CallWriter._pasted,
    HostCall: CallWriter._hosted,
    ArrayCall: CallWriter._hosted,
}
