"""Methods of a tensor that are functions of `sknet.ops`.

`sknet.ops` enters its functions in `Methods`, from one table (`ops/_methods.py`). What tools read of them is
in the stub beside this file, which ``python -m docs.make_methods`` writes.
"""

from typing import Any

from sknet._hints import MissingAttributeError, hints, suggestion
from sknet.core import _primitive as p
from sknet.core._tape import bind
from sknet.device import to_host


class Count(int):
    """The number of elements; called like PyTorch's method, it says what to use instead."""

    __slots__ = ()

    def __call__(self, *axis: Any) -> Any:
        raise TypeError("x.size is the number of elements, not a method: use x.shape, or x.shape[axis]")


class Methods:
    """Functions of `sknet.ops` as methods of their first operand, and methods that change tape membership.

    Examples
    --------
    >>> from sknet import Tensor
    >>> Tensor([-1.5, 0.5, 2.5]).clip(-1, 1).tolist()
    [-1.0, 0.5, 1.0]
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        raise MissingAttributeError(
            f"a tensor has no attribute {name!r}",
            lambda: suggestion(name, dir(type(self)), hints("sknet.Tensor")),
        )

    def tolist(self) -> Any:
        """Return the values as nested lists of Python numbers, or one number."""
        return to_host(self.data).tolist()

    def clone(self) -> Any:
        """Return a copy with its own memory, through which gradients flow."""
        return bind(p.astype, (self,), {"dtype": self.dtype})

    def detach_(self) -> Any:
        """Detach this tensor itself from the tape, as a leaf that requires no gradient; return it."""
        if self.is_leaf:
            self.requires_grad = False  # as its owner does, if it has one
        self.node = None
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Set whether operations on this tensor are recorded, and return it.

        `requires_grad` can only be set on leaves, like the attribute of the same name.
        """
        self.requires_grad = requires_grad
        return self
