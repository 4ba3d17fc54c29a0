"""Calls with several results on the tape.

A node has one result. A call with several results is a node without a tensor, and each result is a node
above it that selects one: it passes its gradient down in a `Bundle`, the bundles of all results are
added, and the call's rules see them together.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sknet.core import Tensor
from sknet.core.extend import Node, make_tensor

__all__ = ["Bundle", "Call", "result"]

Rule = Callable[..., Tensor | None]


class Bundle:
    """The gradients of some results of a call, by their number."""

    def __init__(self, parts: dict[int, Tensor]) -> None:
        self.parts = parts

    def __add__(self, other: "Bundle") -> "Bundle":
        both = dict(self.parts)
        for i, g in other.parts.items():
            both[i] = both[i] + g if i in both else g
        return Bundle(both)


class Call(ABC):
    """Takes the place of a primitive on the tape: one rule per input, all from one call of `shares`."""

    def __init__(self, name: str, n_inputs: int) -> None:
        self.name = name
        self._n_inputs = n_inputs

    @abstractmethod
    def shares(self, bundle: Bundle, out: Any, *inputs: Any) -> Sequence[Tensor | None]:
        """Return one gradient per input."""

    @property
    def vjp(self) -> tuple[Rule, ...]:
        """The rules of one backward walk."""
        found: list[Sequence[Tensor | None]] = []

        def rule(i: int, bundle: Bundle, out: Any, *inputs: Any) -> Tensor | None:
            if not found:
                found.append(self.shares(bundle, out, *inputs))
            return found[0][i]

        return tuple([partial(rule, i) for i in range(self._n_inputs)])


class _Pick:
    """One result of a call."""

    def __init__(self, name: str, i: int) -> None:
        self.name = name
        self.vjp = (lambda g, out: Bundle({i: g}),)


def result(call: Node, i: int, value: Any) -> Tensor:
    """Return the result number `i` of a call, whose array is `value`, as a tensor on the tape."""
    primitive: Any = _Pick(call.primitive.name, i)  # type: ignore[union-attr]
    return make_tensor(value, Node(primitive, (call,), (), None, {}))
