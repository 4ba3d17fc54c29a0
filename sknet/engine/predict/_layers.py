"""Outputs of the layers inside a network, for any number of rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from sknet._tree import leaves
from sknet.core import Tensor, no_grad
from sknet.engine.predict._predictor import MOST_ROWS, Head, Pass
from sknet.engine.predict._rows import (
    apply_head,
    chunk_rows_of,
    in_chunks,
    predict_raw,
    predict_rows,
    rows_at_once,
)
from sknet.engine.state import Fingerprint, arguments, computed_dtype, each_input, row_shapes
from sknet.engine.step import on_one_row
from sknet.exceptions import DeviceError, ShapeError
from sknet.nn import Module, Scope, run
from sknet.nn.extend import RECORDED, Call, Calls, run_to, shadows, shape_pass

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["Layer", "Part", "find_layer", "layer_rows", "model_layer", "output_shapes", "part_rows"]


@dataclass(frozen=True)
class Layer:
    """A forward pass that stops at the output of a layer."""

    call: Call
    shape: tuple[int, ...]

    @property
    def name(self) -> str:
        """Name of the pass, which a model compiles once."""
        return f"layer {self.call.path}:{self.call.number}"

    def __call__(self, module: Module, scope: Scope, args: tuple[Any, ...]) -> Tensor:
        """Run the module in a scope; if the layer returns several arrays, return the first."""
        outputs = [x for x in leaves(run_to(module, self.call, scope, args)) if isinstance(x, Tensor)]
        n_rows = leaves(args)[0].shape[0]
        shape = outputs[0].shape if outputs else None
        if not shape or shape[0] != n_rows:
            raise ShapeError(
                f"layer {self.call.path!r} returned {'no array' if shape is None else f'shape {shape}'} for "
                f"{n_rows} rows: expected an array whose first axis counts the rows"
            )
        return outputs[0]


# The owner is what holds the network, so that nothing else keeps the network alive: a model's memory, or a
# predictor. A layout would not do, since states that were saved share it.
_known: WeakKeyDictionary[Any, tuple[Fingerprint, dict[Any, Calls]]] = WeakKeyDictionary()
MOST_KINDS = 8  # of rows, whose calls are known; sequences have as many as lengths


def find_layer(
    layer: int | str, module: Module, owner: Any, X: Any, dtype: Any, compute: Callable[[Pass], Any]
) -> Layer:
    """Return the layer with an index or a path; layers are found by a pass on shapes alone."""
    calls = _calls(module, owner, X, dtype, compute)
    call = calls.find(layer)
    return Layer(call, calls.shapes.get(call, ())[1:])


def _calls(module: Module, owner: Any, X: Any, dtype: Any, compute: Callable[[Pass], Any]) -> Calls:
    """Return the calls of a network's modules for rows like these, from a pass on shapes if possible."""
    of_graph: Calls | None = vars(module).get(RECORDED)
    if of_graph is not None:
        return of_graph
    fingerprint, by_key = _known.get(owner, (None, {}))
    if fingerprint is None or not fingerprint.holds():
        by_key = {}
    key = str(each_input(lambda x: (x.shape[1:], x.dtype.kind), X))
    calls = by_key.get(key)
    if calls is None:

        def recorded(module: Module, scope: Scope, args: tuple[Any, ...]) -> Calls:
            return Calls(module, lambda twin: run(twin, scope, args))

        try:
            row = each_input(lambda x: shadows((1, *x.shape[1:]), computed_dtype(x, dtype)), X)
            calls = Calls(module, lambda twin: shape_pass(twin, arguments(row)))
        except DeviceError:
            with no_grad(), np.errstate(all="ignore"):
                calls = compute(recorded)
        last = list(by_key.items())[1 - MOST_KINDS :]
        _known[owner] = Fingerprint(module), dict([*last, (key, calls)])
    return calls


@dataclass(frozen=True)
class Part:
    """A pass through one module of a network on its own, such as a decoder."""

    path: str

    def __call__(self, module: Module, scope: Scope, args: tuple[Any, ...]) -> Any:
        """Run the module at the path in a scope of the whole network."""
        return run(module.get_submodule(self.path), scope, args)


def part_rows(model: "Model", X: Any, path: str, head: Head | None = None) -> Any:
    """Return the output of one module of a network for all rows of its own inputs."""
    part = Part(path)
    kinds = each_input(lambda x: computed_dtype(x, model.dtype), X)
    n_rows = rows_at_once(model.module.get_submodule(path), row_shapes(X), kinds)
    found = _by_programs(model, X, f"part {path}", head, part, n_rows)
    if found is not None:
        return found

    def compute(chunk: Any) -> Any:
        return apply_head(head, predict_raw(model, chunk, part))

    return in_chunks(compute, X, n_rows, model.dtype, model.device, model.precision)


def _by_programs(model: "Model", X: Any, name: str, head: Head | None, by: Pass, n_rows: int) -> Any:
    """Return the result of compiled programs for up to `n_rows` rows; None if the pass cannot be compiled."""
    if type(X) is not np.ndarray:
        return None
    return model._predictors.compute(model, X, name, head, by, min(MOST_ROWS, n_rows))


def layer_rows(model: "Model", X: Any, layer: int | str) -> Any:
    """Return the output of a layer for all rows, in chunks by compiled programs if possible."""
    meant = model_layer(model, X, layer)
    found = _by_programs(model, X, meant.name, None, meant, chunk_rows_of(model, X))
    return predict_rows(model, X, meant.name, by=meant) if found is None else found


def model_layer(model: "Model", X: Any, layer: int | str) -> Layer:
    """Return a layer of a model, with its name."""
    return find_layer(layer, model.module, model.memory, X, model.dtype, on_one_row(model, X))


def output_shapes(model: "Model", X: Any) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the outputs of a model's layers for one row, by path."""
    calls = _calls(model.module, model.memory, X, model.dtype, on_one_row(model, X))
    last = sorted(calls.shapes.items(), key=lambda item: item[0].number)
    return {call.path: tuple(shape[1:]) for call, shape in last if shape}
