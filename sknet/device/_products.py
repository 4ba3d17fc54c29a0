"""Matrix products: which of them one strided product of BLAS computes, and what may follow in its launch."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Self

__all__ = ["NO_ENDING", "Ending", "Form", "Matrices", "form_of"]


class Matrices(NamedTuple):
    """Matrices of one form in memory."""

    rows: int
    columns: int
    in_rows: bool
    stride: int
    batch_stride: int


class Ending(NamedTuple):
    """What is computed besides a product of two matrices in the same launch.

    Attributes
    ----------
    parts : tuple of str
        In order, of ``"bias"``: a vector is added to each row; ``"relu"``: what is not positive becomes 0,
        NaN too; ``"sums of y"``: the rows of the second factor are added.
    vector : array of shape (n_columns,), or one such for each of several products, or None
        The bias, or where sums are written. From product to product it goes on by multiples of 16 bytes.
    term : array or None
        Added to the product, `factor` times; contiguous. Only without parts, or with ``"sums of y"``.
    factor : float
        As above.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.device import Ending
    >>> Ending(("bias",), np.zeros(3)).parts
    ('bias',)
    """

    parts: tuple[str, ...] = ()
    vector: Any = None
    term: Any = None
    factor: float = 0.0


NO_ENDING = Ending()


class Form(NamedTuple):
    """Products ``x @ y`` of matrices in rows.

    Attributes
    ----------
    dtype : str
        Name of the dtype; or of the precision of products of float32 arrays, such as "tf32".
    number : int
        How many products.
    x, y, out : Matrices
        Their forms; `out` is in rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.device import form_of
    >>> print(form_of(np.ones((2, 3, 4)), np.ones((4, 5)), np.ones((2, 3, 5))))
    (6, 4) @ (4, 5) of float64
    """

    dtype: str
    number: int
    x: Matrices
    y: Matrices
    out: Matrices

    def in_precision(self, precision: str) -> Self:
        """Return the form of these products in a precision, if they are of float32 arrays.

        Inner products of two vectors stay as they are: sums of losses and of squares are computed so.
        """
        is_inner = self.x.rows == self.y.columns == 1
        return self if self.dtype != "float32" or is_inner else self._replace(dtype=precision)

    def __str__(self) -> str:
        shapes = f"({self.x.rows}, {self.x.columns}) @ ({self.y.rows}, {self.y.columns})"
        return f"{self.number} x {shapes} of {self.dtype}" if self.number > 1 else f"{shapes} of {self.dtype}"


def form_of(x: Any, y: Any, out: Any) -> Form | None:
    """Return the form of a product into an array.

    Parameters
    ----------
    x, y, out : array
        As for ``matmul(x, y, out=out)``.

    Returns
    -------
    Form or None
        None if the product needs copies, other dtypes than one, or no elements are added.

    Examples
    --------
    >>> import numpy as np
    >>> x, y, out = np.ones((3, 4)), np.ones((5, 4)), np.ones((3, 5))
    >>> form = form_of(x, y.T, out)
    >>> print(form)
    (3, 4) @ (4, 5) of float64
    >>> form.y
    Matrices(rows=4, columns=5, in_rows=False, stride=4, batch_stride=0)
    >>> form_of(x[:, ::2], y.T[::2], out) is None
    True
    """
    if not (x.dtype == y.dtype == out.dtype and x.size and y.size):
        return None
    lifted = [
        _lifted(x, x.ndim > 1, True),
        _lifted(y, True, y.ndim > 1),
        _lifted(out, x.ndim > 1, y.ndim > 1),
    ]
    batch = lifted[2][0][:-2]
    batch_strides = _batch_strides(batch, lifted)
    if batch_strides is None:
        return None
    found = [
        _matrices(shape, strides, stride)
        for (shape, strides), stride in zip(lifted, batch_strides, strict=True)
    ]
    a, b, c = found
    if a is None or b is None or c is None or not c.in_rows:
        return None
    return _as_one(Form(out.dtype.name, math.prod(batch), a, b, c))


Lifted = tuple[tuple[int, ...], tuple[int, ...]]


def _lifted(array: Any, has_rows: bool, has_columns: bool) -> Lifted:
    """Return shape and strides, in elements, of an array as matrices; a vector is a row or a column."""
    shape, strides = list(array.shape), [stride // array.dtype.itemsize for stride in array.strides]
    if not has_columns:
        shape, strides = [*shape, 1], [*strides, 1]
    if not has_rows:
        shape.insert(-1, 1)
        strides.insert(-1, shape[-1])
    return tuple(shape), tuple(strides)


def _matrices(shape: Sequence[int], strides: Sequence[int], batch_stride: int) -> Matrices | None:
    (rows, columns), (down, along) = shape[-2:], strides[-2:]
    if (along == 1 or columns == 1) and (down >= columns or rows == 1):
        return Matrices(rows, columns, True, down if rows > 1 else columns, batch_stride)
    if (down == 1 or rows == 1) and (along >= rows or columns == 1):
        return Matrices(rows, columns, False, along if columns > 1 else rows, batch_stride)
    return None


def _batch_strides(batch: tuple[int, ...], lifted: Sequence[Lifted]) -> list[int] | None:
    """Return the stride of each array from matrix to matrix; None if it is not the same for all of them."""
    axes = [i for i, n in enumerate(batch) if n > 1]
    found = []
    for shape, strides in lifted:
        lead = len(batch) - (len(shape) - 2)
        steps = [strides[i - lead] if i >= lead and shape[i - lead] > 1 else 0 for i in axes]
        for i, step in zip(axes[1:], pairwise(steps), strict=True):
            if step[0] != step[1] * batch[i]:
                return None
        found.append(steps[-1] if steps else 0)
    return found


def _as_one(form: Form) -> Form:
    """Return one product of more rows in place of several with the same second factor, where they follow."""
    n, x, y, out = form.number, form.x, form.y, form.out
    follow = x.batch_stride == x.rows * x.stride and out.batch_stride == out.rows * out.stride
    if n == 1 or y.batch_stride or not x.in_rows or not follow:
        return form
    x, out = (each._replace(rows=n * each.rows, batch_stride=0) for each in (x, out))
    return form._replace(number=1, x=x, out=out)
