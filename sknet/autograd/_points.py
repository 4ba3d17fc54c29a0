"""Common to all transforms: arguments become points on the tape, and gradients are returned as trees."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from sknet import _tree
from sknet.core import Tensor, as_tensor, enable_grad, is_grad_enabled
from sknet.core.extend import newest_first, pull_back, zeros_like
from sknet.device import is_array
from sknet.exceptions import DeviceError, GradientError, ShapeError

__all__ = ["Argnums", "Evaluation", "Transposed", "argument_positions", "check_like", "pulled_back"]

Argnums = int | Sequence[int]


class Evaluation:
    """A function's value, connected on the tape to the arguments it is differentiated with respect to."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        positions: tuple[int, ...],
        has_aux: bool,
    ) -> None:
        for i in positions:
            if not 0 <= i < len(args):
                raise GradientError(
                    f"{name}: there is no positional argument {i}: the function was called with {len(args)}"
                )
        self._name = name
        self.is_recording = is_grad_enabled()
        with enable_grad():
            self._entries = {
                i: _tree.map_leaves(partial(_point, self.is_recording), args[i]) for i in positions
            }
            returned = function(*[self._entries.get(i, x) for i, x in enumerate(args)], **kwargs)
        self._value, self._rest, self._has_aux = *_split(name, returned, has_aux), has_aux
        self.points: list[Tensor] = [x for entry in self._entries.values() for x in _tree.leaves(entry)]
        self._value = _tree.map_leaves(partial(_output, name), self._value)
        self.outputs: list[Tensor] = _tree.leaves(self._value)
        self.is_connected = self._reaches_before(self.outputs)

    def _reaches_before(self, tensors: Sequence[Tensor]) -> bool:
        """Tell whether tensors were computed from anything that was on the tape before the points."""
        start = min((x.node.order for x in self.points if x.node is not None), default=0)
        nodes = [x.node for x in tensors if x.node is not None]
        return self.is_recording and bool(nodes) and newest_first(*nodes)[-1].order < start

    def scalar(self) -> Tensor:
        """Return the value, which must be one tensor with one element."""
        value = self._value
        if isinstance(value, Tensor) and value.size == 1:
            return value
        got = f"shape {value.shape}" if isinstance(value, Tensor) else type(value).__name__
        raise GradientError(
            f"{self._name}: the function must return a scalar tensor, got {got}: reduce it with .sum()"
        )

    def check_cotangents(self, given: Any) -> list[Tensor]:
        """Return the leaves of a tree that must be like the value."""
        return check_like(self._name, "the cotangents", given, self._value)

    def returned(self, *derivatives: Any) -> tuple[Any, ...]:
        """Return the value, its derivatives, and the auxiliary result."""
        value = self._value if self.is_connected else _tree.map_leaves(Tensor.detach, self._value)
        return (value, *derivatives, self.rest()) if self._has_aux else (value, *derivatives)

    def rest(self) -> Any:
        """Return the auxiliary result."""
        tensors = [x for x in _tree.leaves(self._rest) if isinstance(x, Tensor)]
        if self._reaches_before(tensors):
            return self._rest
        return _tree.map_leaves(lambda x: x.detach() if isinstance(x, Tensor) else x, self._rest)

    def like_arguments(self, shares: Sequence[Any]) -> tuple[Any, ...]:
        """Return one tree per argument, with `shares` in place of the points."""
        remaining = iter(shares)
        return tuple(_tree.rebuild(entry, remaining) for entry in self._entries.values())

    def like_value(self, parts: Sequence[Any]) -> Any:
        """Return a tree like the value, with `parts` instead of the outputs."""
        return _tree.rebuild(self._value, iter(parts))


def _split(name: str, returned: Any, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return returned, None
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise GradientError(
            f"{name}: under has_aux the function must return a pair (value, rest), "
            f"got {type(returned).__name__}"
        )
    return returned


def _output(name: str, x: Any) -> Tensor:
    if isinstance(x, Tensor) or is_array(x):  # an array was computed from constants alone
        return as_tensor(x)
    raise GradientError(f"{name}: the function must return tensors, got {type(x).__name__}")


def _point(connected: bool, x: Any) -> Tensor:
    """Return the tensor that the function sees: a fresh point of the tape."""
    given = as_tensor(x)
    if connected and given.requires_grad:
        return given.reshape(given.shape)
    return Tensor(given, requires_grad=True)


def argument_positions(argnums: Argnums) -> tuple[int, ...]:
    """Return positions as a tuple."""
    return (argnums,) if isinstance(argnums, (int, np.integer)) else tuple(argnums)


def pulled_back(
    outputs: Sequence[Tensor], cotangents: Sequence[Tensor], points: Sequence[Tensor], create_graph: bool
) -> list[Tensor]:
    """Return the gradients at `points` of outputs weighted by cotangents; zeros where nothing arrives."""
    seeds = [(x.node, g) for x, g in zip(outputs, cotangents, strict=True) if x.node is not None]
    found = pull_back(seeds, {x.node for x in points}, create_graph) if seeds else {}
    return [found[x.node] if x.node in found else zeros_like(x) for x in points]


class Transposed:
    """The gradients at some points as a linear function of the outputs' cotangents, on the tape."""

    def __init__(self, outputs: Sequence[Tensor], points: Sequence[Tensor]) -> None:
        self._outputs = outputs
        self._cotangents = [Tensor(zeros_like(x), requires_grad=x.node is not None) for x in outputs]
        self._gradients = pulled_back(outputs, self._cotangents, points, create_graph=True)

    def pushed_forward(self, tangents: Sequence[Tensor], create_graph: bool) -> list[Tensor]:
        """Return the outputs' derivatives in a direction: the transpose of the transpose."""
        used = [x for x in self._cotangents if x.node is not None]
        found = iter(pulled_back(self._gradients, tangents, used, create_graph))
        return [zeros_like(x) if x.node is None else next(found) for x in self._cotangents]


def check_like(name: str, what: str, given: Any, expected: Any) -> list[Tensor]:
    """Return the leaves of a tree that must have the structure, shapes and devices of another."""
    paths, here = _tree.paths(expected), _tree.paths(given)
    if paths != here:
        raise GradientError(
            f"{name}: {what} must have the structure of what they belong to: expected leaves at {paths}, "
            f"got {here}"
        )
    found = []
    for path, leaf, other in zip(paths, _tree.leaves(given), _tree.leaves(expected), strict=True):
        x, like = as_tensor(leaf), as_tensor(other)
        place = f" at {path!r}" if path else ""
        if x.shape != like.shape:
            raise ShapeError(f"{name}: {what}{place} must have shape {like.shape}, got {x.shape}")
        if x.device != like.device:
            raise DeviceError(f"{name}: {what}{place} must be on '{like.device}', got '{x.device}'")
        found.append(x if x.dtype == like.dtype else x.astype(like.dtype))
    return found
