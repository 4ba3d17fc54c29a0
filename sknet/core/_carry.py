"""Carrying something along the tape: from a result, what went into it can be found again."""

from typing import Any

from sknet.core._backward import newest_first
from sknet.core._bind import bind
from sknet.core._primitive import Primitive
from sknet.core._tensor import Tensor

__all__ = ["cargo_of", "carry"]

_carry = Primitive("carry").define(
    forward=lambda xp, x, cargo: x,
    shape=lambda x, cargo: (x.shape, x.dtype),
    vjp=(lambda g, _, x, cargo: g,),
    saves="nothing",
    tape_only=True,
    writes_out=False,
)


def carry(x: Tensor, cargo: dict[str, Any]) -> Tensor:
    """Return `x`, with a dict that `cargo_of` finds in everything computed from it.

    Parameters
    ----------
    x : Tensor
        A tensor on the tape.
    cargo : dict
        What to carry.

    Returns
    -------
    Tensor
        The same values.

    Examples
    --------
    >>> from sknet import Tensor
    >>> x = carry(Tensor(1.0, requires_grad=True), {"mean": 0.5})
    >>> cargo_of(x * 2 + 1)
    {'mean': 0.5}
    """
    return bind(_carry, (x,), {"cargo": cargo})


def cargo_of(x: Tensor) -> dict[str, Any]:
    """Return all that was carried into `x`; of two entries of one name, the later.

    Parameters
    ----------
    x : Tensor
        Any tensor.

    Returns
    -------
    dict
        Empty if nothing was.

    Examples
    --------
    >>> from sknet import Tensor
    >>> from sknet.core import carry, cargo_of
    >>> x = carry(Tensor([1.0], requires_grad=True), {"penalty": 0.5})
    >>> cargo_of(x * 2)
    {'penalty': 0.5}
    """
    found: dict[str, Any] = {}
    for node in reversed(newest_first(x.node)) if x.node is not None else ():
        if node.primitive is _carry:
            found.update(node.params["cargo"])  # type: ignore[index]
    return found
