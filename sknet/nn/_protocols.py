"""Protocols of modules for the files that they are made of, so that none of these imports them."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from sknet.core import Tensor

__all__ = ["Forward", "Holder", "Shown", "Stateful"]


class Holder(Protocol):
    """What has parameters and buffers of its own, by name."""

    @property
    def _parameters(self) -> Mapping[str, Any]: ...

    @property
    def _buffers(self) -> Mapping[str, Tensor]: ...


class Stateful(Holder, Protocol):
    """What has a state: parameters and buffers by path, and versions of classes and initial weights."""

    @property
    def _version(self) -> int: ...

    def own_parameters(self, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """Yield path and parameter."""

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """Yield path and module, the whole first."""

    def init_versions(self) -> dict[str, int]:
        """Return the versions of the initial weights by path."""


class Forward(Protocol):
    """What computes in a `forward`."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output."""


class Shown(Protocol):
    """What is printed with its arguments, and its children below."""

    @property
    def _children(self) -> Mapping[str, Any]: ...

    def extra_repr(self) -> str:
        """Return what is shown in the parentheses."""
