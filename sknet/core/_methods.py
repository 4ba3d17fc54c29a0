"""Methods of a tensor that are functions of `sknet.ops`, and hints for those it does not have.

`sknet.ops` enters its functions in `Methods`, from one table (`ops/_methods.py`). What tools read of them is
in the stub beside this file, which ``python -m docs.make_methods`` writes.
"""

from typing import Any

from sknet._hints import suggestion
from sknet.core import _primitive as p
from sknet.core._tape import bind
from sknet.device import to_host

__all__ = ["HINTS", "Count", "Methods"]

_DEVICE = "use x.to('cuda') or x.to('cpu')"
_IN_PLACE = "use x += y, x -= y, x *= y or x /= y"

HINTS = {
    **dict.fromkeys(("view", "view_as", "resize", "reshape_as"), "use x.reshape(...)"),
    **dict.fromkeys(("cuda", "cpu", "get"), _DEVICE),
    **dict.fromkeys(("add_", "sub_", "mul_", "div_"), _IN_PLACE),
    **dict.fromkeys(("copy_", "fill_"), "use x[...] = value"),
    "zero_": "use x[...] = 0",
    **dict.fromkeys(("float", "float32", "to_float"), "use x.astype('float32')"),
    "double": "use x.astype('float64')",
    "half": "use x.astype('float16')",
    **dict.fromkeys(("int", "long"), "use x.astype('int64')"),
    "bool": "use x.astype(bool)",
    "type": "use x.astype(dtype)",
    "is_cuda": "use x.device.kind == 'cuda'",
    "contiguous": "leave it out: arrays are made contiguous where that is needed",
    "dim": "use x.ndim",
    **dict.fromkeys(("numel", "nelement"), "use x.size"),
    "t": "use x.T",
    **dict.fromkeys(("mT", "adjoint"), "use ops.matrix_transpose(x)"),
    **dict.fromkeys(("permute", "transpose", "swapaxes"), "use x.permute_dims(...) or x.moveaxis(...)"),
    "ravel": "use x.flatten()",
    **dict.fromkeys(("expand", "expand_as"), "use x.broadcast_to(shape)"),
    **dict.fromkeys(("cat", "concatenate"), "use ops.concat([x, y], axis)"),
    "stack": "use ops.stack([x, y], axis)",
    **dict.fromkeys(("chunk", "tensor_split"), "use x.split(parts, axis)"),
    "unbind": "use ops.unstack(x, axis)",
    **dict.fromkeys(("mm", "bmm", "mv", "dot"), "use x @ y"),
    "clamp": "use x.clip(min, max)",
    "cumsum": "use x.cumulative_sum(axis)",
    "cumprod": "use x.cumulative_prod(axis)",
    "neg": "use -x",
    "index_select": "use x.take(indices, axis)",
    "gather": "use ops.take_along_axis(x, indices, axis)",
    **dict.fromkeys(("scatter_add_", "index_add_"), "use x.scatter_add(indices, values, axis)"),
    **dict.fromkeys(("masked_fill", "where"), "use ops.where(condition, x, y)"),
    "masked_select": "use x[mask]",
    "copy": "use x.clone()",
    "grad_fn": "use x.is_leaf: the operation that computed a tensor is not public",
    "unique": "use ops.unique_values(x)",
    **dict.fromkeys(
        ("arcsin", "arccos", "arctan", "arctan2", "arcsinh", "arccosh", "arctanh"), "use x.a{0}()"
    ),
}
HINTS = {name: text.format(name.removeprefix("arc")) for name, text in HINTS.items()}


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
        raise AttributeError(f"a tensor has no attribute {name!r}{suggestion(name, dir(type(self)), HINTS)}")

    def tolist(self) -> Any:
        """Return the values as nested lists of Python numbers, or one number."""
        return to_host(self.data).tolist()

    def clone(self) -> Any:
        """Return a copy in memory of its own, through which gradients flow."""
        return bind(p.astype, (self,), {"dtype": self.dtype})

    def detach_(self) -> Any:
        """Take this tensor itself off the tape and return it: it becomes a leaf that needs no gradient."""
        if self.is_leaf:
            self.requires_grad = False  # as its owner does, if it has one
        self.node = None
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Set whether what is computed from this tensor is recorded, and return it.

        `requires_grad` can be set on leaves only, as the attribute of the same name.
        """
        self.requires_grad = requires_grad
        return self
