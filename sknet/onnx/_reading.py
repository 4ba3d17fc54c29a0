"""The table of ONNX operators that are read: functions of inputs and attributes, for some versions."""

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from sknet._fields import Dtypes, Each, check_of, shown
from sknet.core import Tensor
from sknet.exceptions import CaptureError, DtypeError, LoadError, ShapeError
from sknet.onnx._writer import Node

OLDEST, NEWEST = 7, 28  # of the standard's opsets

Flag = Literal[0, 1]
Compute = Callable[..., Any]


class Operator(NamedTuple):
    """A row of the table."""

    compute: Compute
    since: int
    until: int
    outputs: int | None
    fixed: tuple[int, ...]

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(self.compute).parameters

    @property
    def inputs(self) -> Iterator[inspect.Parameter]:
        return (p for p in self.parameters.values() if p.kind is not p.KEYWORD_ONLY)

    @property
    def attributes(self) -> dict[str, inspect.Parameter]:
        """Parameters that are attributes, by name."""
        return {name: p for name, p in self.parameters.items() if p.kind is p.KEYWORD_ONLY}

    def choices(self, name: str) -> tuple[Any, ...] | None:
        """Return all values of an attribute that are known; None if there is no list of them."""
        hint = typing.get_type_hints(self.compute).get(name)
        return typing.get_args(hint) if typing.get_origin(hint) is Literal else None


READ: dict[str, Operator] = {}  # by the operator's name; rows for older versions end with the last of them


def operator(
    *names: str, since: int = 1, until: int = NEWEST, outputs: int | None = 1, fixed: tuple[int, ...] = ()
) -> Callable[[Compute], Compute]:
    """Register a function for ONNX operators."""

    def enter(function: Compute) -> Compute:
        for name in names:
            key = name if until == NEWEST else f"{name}-{until}"
            READ[key] = Operator(function, since, until, outputs, fixed)
        return function

    return enter


KNOWN = (int, float, str)
ANY_ATTRIBUTE = check_of([*KNOWN, Each((list, tuple), [*KNOWN]), Dtypes("biufc"), np.ndarray, None])


def check_node(node: Node) -> None:
    """Raise a ValueError unless a node has inputs, outputs and attributes that its operator reads."""
    row = READ.get(node.op)
    if row is None:
        raise ValueError(f"there is no operator {shown(node.op)}")
    hints = typing.get_type_hints(row.compute)
    for name, value in node.attributes.items():
        if name not in row.attributes:
            raise ValueError(f"{node.op} has no attribute {shown(name)}")
        check = ANY_ATTRIBUTE if hints[name] is Any else check_of(hints[name])
        if not check.is_satisfied_by(value):
            raise ValueError(f"attribute {name!r} of {node.op} must be {check}, got {shown(value)}")
    missing = [name for name, p in row.attributes.items() if p.default is p.empty]
    formal = list(row.inputs)
    is_open = bool(formal) and formal[-1].kind is formal[-1].VAR_POSITIONAL
    required = 1 if is_open else sum(p.default is p.empty for p in formal)
    if not node.attributes.keys() >= {*missing} or not required <= len(node.inputs):
        raise ValueError(f"{node.op} lacks an attribute or an input")
    if not is_open and len(node.inputs) > len(formal):
        raise ValueError(f"{node.op} takes {len(formal)} inputs, and has {len(node.inputs)}")
    if row.outputs is not None and not 0 < len(node.outputs) <= row.outputs:
        raise ValueError(f"{node.op} returns {row.outputs} outputs, and has {len(node.outputs)}")


def row_of(name: str, version: int) -> str | None:
    """Return the key of the row for a version of an operator, None if there is none."""
    keys = [name, *(f"{name}-{until}" for until in range(OLDEST, NEWEST))]
    return next((k for k in keys if k in READ and READ[k].since <= version <= READ[k].until), None)


def computed(node: Node, inputs: list[Any]) -> tuple[Any, ...]:
    """Return the outputs of a node; arrays if all its inputs are known."""
    try:
        found = READ[node.op].compute(*inputs, **node.attributes)
    except (LoadError, ShapeError, DtypeError, IndexError) as error:
        raise type(error)(f"{_described(node, inputs)}: {error}") from error
    except CaptureError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise LoadError(f"{_described(node, inputs)} cannot be computed: {error}") from error
    results = found if isinstance(found, tuple) else (found,)
    return (
        tuple(x.numpy() if isinstance(x, Tensor) else x for x in results) if are_known(*inputs) else results
    )


def _described(node: Node, inputs: list[Any]) -> str:
    given = ", ".join("none" if x is None else f"{x.dtype}{list(x.shape)}" for x in inputs)
    return f"{node.op} of {given}, which gives {', '.join(filter(None, node.outputs))}"


def known(x: Any, what: str) -> np.ndarray[Any, Any]:
    if isinstance(x, Tensor):
        raise LoadError(f"{what} is computed from the inputs, which a loaded network does not support")
    return np.asarray(x)


def ints(x: Any, what: str) -> list[int]:
    return [int(n) for n in known(x, what).reshape(-1)]


def are_known(*values: Any) -> bool:
    return not any(isinstance(x, Tensor) for x in values)
