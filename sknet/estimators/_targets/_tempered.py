"""Links of outputs that are divided by a temperature first."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sknet.core import Tensor
from sknet.engine.extend import Head

__all__ = ["tempered"]


def tempered(link: Head, loss: Any, temperature: Any) -> Head:
    """Return a link of calibrated outputs.

    Parameters
    ----------
    link : callable
        From raw outputs to probabilities or decisions.
    loss : Loss
        Whose method `tempered` calibrates outputs.
    temperature : float, tuple or None
        As that method takes it; None calibrates nothing.

    Returns
    -------
    callable
        From raw outputs to what `link` makes of calibrated ones.
    """
    return link if temperature is None else _Tempered(link, loss.tempered, temperature)


@dataclass(frozen=True)
class _Tempered:
    link: Head
    tempered: Callable[[Tensor, Any], Tensor]
    temperature: Any

    def __call__(self, output: Tensor) -> Tensor:
        return self.link(self.tempered(output, self.temperature))
