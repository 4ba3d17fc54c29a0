"""Dropout."""

from numbers import Real
from typing import Any

from sknet._params import Interval
from sknet.core import as_tensor
from sknet.nn._module import Module
from sknet.nn._scope import next_draw
from sknet.nn.layers._arguments import check_arguments
from sknet.ops import dropout_mask

__all__ = ["Dropout"]


class Dropout(Module):
    r"""Set elements to zero at random in training, and hand the input on in prediction.

    Parameters
    ----------
    p : float, default=0.5
        Probability of a zero, in [0, 1].

    Notes
    -----
    What stays is divided by :math:`1 - p`, so that its expectation is the input (N. Srivastava et
    al., JMLR 2014, section 10). Inside `functional_call` the mask is a function of key, step and
    the layer's place in the pass; outside, every call draws afresh.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> output, _ = nn.functional_call(nn.Dropout(0.5), {}, np.ones(1000), key=(0, 0))
    >>> sorted(set(output.numpy().tolist()))
    [0.0, 2.0]
    """

    _parameter_constraints = {"p": [Interval(Real, 0, 1, closed="both")]}

    def __init__(self, p: float = 0.5) -> None:
        check_arguments(self, p=p)
        self.p = p

    def forward(self, x: Any) -> Any:
        if self.p == 0 or not self.training:
            return x
        x = as_tensor(x)
        key, step, site = next_draw()
        return x * dropout_mask(
            x.shape, self.p, key=key, step=step, site=site, dtype=x.dtype, device=x.device
        )

    def extra_repr(self) -> str:
        """Return the probability."""
        return f"{self.p}"
