"""Links of outputs that are divided by a temperature first."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sknet.core import Tensor
from sknet.engine.extend import Head

__all__ = ["tempered"]


def tempered(link: Head, loss: Any, temperature: Any) -> Head:
    """Return a link of calibrated outputs."""
    return link if temperature is None else _Tempered(link, loss.tempered, temperature)


@dataclass(frozen=True)
class _Tempered:
    link: Head
    tempered: Callable[[Tensor, Any], Tensor]
    temperature: Any

    def __call__(self, output: Tensor) -> Tensor:
        return self.link(self.tempered(output, self.temperature))
